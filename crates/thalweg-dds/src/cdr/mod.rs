//! Values as JSON and as CDR (XCDR1 and XCDR2; DDS-XTypes 1.3 §7.4).
//!
//! A payload begins with four bytes: two that name the encoding, two of options. JSON leaves out what a value does not have, and of a
//! union it has the case and, as `$discriminator`, what says which one that is.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use crate::types::{FieldType, Form, Struct, Types};
use reader::Reader;
use serde_json::Value;
use std::fmt;
use writer::Writer;

/// Bytes before the value.
pub const HEADER_BYTES: usize = 4;

/// Why a value cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The encoding is none of CDR, or not that of the type.
    Encoding,
    /// It ends before the value does.
    Truncated,
    /// Text that is not UTF-8, or is not terminated.
    Text,
    /// The JSON value of this field is not of its type.
    Field(String),
    /// Types contain each other without end, or a value is nested too deep.
    Depth,
    /// It would be longer than any that is bridged.
    Length,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Encoding => f.write_str("the encoding is not CDR of the type"),
            Fault::Truncated => f.write_str("the payload is too short for its type"),
            Fault::Text => f.write_str("a string is not terminated UTF-8"),
            Fault::Field(field) => write!(f, "the value of {field} is not of its type"),
            Fault::Depth => f.write_str("the type is nested too deep"),
            Fault::Length => f.write_str("the value is too long"),
        }
    }
}

impl std::error::Error for Fault {}

/// Deepest nesting of types.
const DEPTH_MAX: u32 = 16;

/// Bytes of the longest payload that is written.
const WRITTEN_MAX: usize = 64 << 20;
/// The largest alignments of the encodings.
const XCDR1: usize = 8;
const XCDR2: usize = 4;

/// Of headers of members in XCDR1 (DDS-XTypes 1.3 §7.4.1.2): 14 bits of an id, of which some have a meaning, and a flag.
const ID_BITS: u16 = 0x3fff;
const ID_MAX: u32 = 0x3f00;
const EXTENDED: u16 = 0x3f01;
const LIST_END: u16 = 0x3f02;
const MUST_UNDERSTAND: u16 = 0x4000;
const MUST_UNDERSTAND_EXTENDED: u32 = 0x4000_0000;
/// The same in XCDR2 (§7.4.3.4.2): the length of a value is 1, 2, 4, 8, or follows.
const MUST_UNDERSTAND_XCDR2: u32 = 0x8000_0000;
const LENGTH_FOLLOWS: u32 = 4;
/// Of ids in either.
const ID_BITS_EXTENDED: u32 = 0x0fff_ffff;

/// The name in JSON of what says which case a union has.
const DISCRIMINATOR: &str = "$discriminator";

/// Encoding in a payload's first bytes: byte order, the largest alignment, and the extensibility of the outermost
/// structure.
fn encoding(payload: &[u8]) -> Result<(bool, usize, Form), Fault> {
    match payload.get(..2) {
        Some([0, kind @ 0..=1]) => Ok((kind & 1 == 1, XCDR1, Form::Final)),
        Some([0, kind @ 2..=3]) => Ok((kind & 1 == 1, XCDR1, Form::Mutable)),
        Some([0, kind @ 6..=7]) => Ok((kind & 1 == 1, XCDR2, Form::Final)),
        Some([0, kind @ 8..=9]) => Ok((kind & 1 == 1, XCDR2, Form::Appendable)),
        Some([0, kind @ 10..=11]) => Ok((kind & 1 == 1, XCDR2, Form::Mutable)),
        Some(_) => Err(Fault::Encoding),
        None => Err(Fault::Truncated),
    }
}

/// Whether a payload begins as one of CDR, of any kind.
pub fn is_encapsulated(payload: &[u8]) -> bool {
    matches!(payload, [0, 0..=11, _, _, ..])
}

/// Whether the last bit of the encoding says so.
pub fn is_little_endian(payload: &[u8]) -> bool {
    payload.get(1).is_some_and(|kind| kind & 1 == 1)
}

pub fn is_xcdr2(payload: &[u8]) -> bool {
    payload.get(1).is_some_and(|kind| *kind >= 6)
}

/// The media types of payloads of a type, in XCDR1 and in XCDR2.
pub fn content_types(type_name: &str) -> [String; 2] {
    ["xcdr1", "xcdr2"]
        .map(|encoding| format!("application/x-cdr; type={type_name}; enc={encoding}"))
}

/// The value of a payload as JSON.
pub fn to_json(payload: &[u8], of: &Struct, types: &Types) -> Result<Value, Fault> {
    let (is_little, alignment_max, form) = encoding(payload)?;
    let is_mutable = |form| form == Form::Mutable;
    if of.form.is_some_and(|it| is_mutable(it) != is_mutable(form)) {
        return Err(Fault::Encoding);
    }
    let mut reader = Reader {
        bytes: payload.get(HEADER_BYTES..).ok_or(Fault::Truncated)?,
        at: 0,
        origin: 0,
        is_little,
        alignment_max,
        form: match of.form {
            None => form,
            Some(Form::Mutable) => Form::Final,
            Some(form) => form,
        },
        types,
    };
    reader.object(of, 0)
}

/// Whether XCDR2 writes the length of a list in bytes before it (DDS-XTypes 1.3 §7.4.3.5).
fn has_length(kind: &FieldType) -> bool {
    match kind {
        FieldType::Array(of, _) => has_length(of),
        FieldType::Text
        | FieldType::Enum(_)
        | FieldType::Struct(_)
        | FieldType::Union(_)
        | FieldType::Sequence(_) => true,
        FieldType::Bool | FieldType::Unsigned(_) | FieldType::Signed(_) | FieldType::Float(_) => {
            false
        }
    }
}

/// A payload in little-endian, of XCDR2 or else XCDR1. Fields that the value does not have are zero, empty or false, as in ROS 2.
pub fn from_json(
    value: &Value,
    of: &Struct,
    types: &Types,
    is_xcdr2: bool,
) -> Result<Vec<u8>, Fault> {
    let kind = match (is_xcdr2, of.form) {
        (false, Some(Form::Mutable)) => 3,
        (true, Some(Form::Mutable)) => 11,
        (false, _) => 1,
        (true, Some(Form::Appendable)) => 9,
        (true, _) => 7,
    };
    let mut writer = Writer {
        bytes: vec![0, kind, 0, 0],
        origin: HEADER_BYTES,
        alignment_max: if is_xcdr2 { XCDR2 } else { XCDR1 },
        types,
    };
    writer.object(value, of, 0)?;
    // The last two bits of the options say how many bytes of padding follow the value (DDS-XTypes 1.3 §7.6.3.1.2).
    let padding = writer.bytes.len().next_multiple_of(4) - writer.bytes.len();
    writer.bytes.resize(writer.bytes.len() + padding, 0);
    writer.bytes[3] = padding as u8;
    Ok(writer.bytes)
}

/// The number of a discriminator's value, which is zero, or the first name, if it is not there.
fn label_of(value: &Value, kind: &FieldType) -> Option<i64> {
    match (kind, value) {
        (FieldType::Enum(names), Value::Null) => names.first().map(|(_, it)| i64::from(*it)),
        (FieldType::Enum(names), Value::String(name)) => {
            let found = names.iter().find(|(it, _)| it == name);
            found.map(|(_, it)| i64::from(*it))
        }
        (_, Value::Null) => Some(0),
        (FieldType::Bool, value) => value.as_bool().map(i64::from),
        (_, value) => value
            .as_i64()
            .or_else(|| value.as_u64().map(|it| it as i64)),
    }
}
