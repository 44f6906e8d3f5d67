//! Values as JSON and as CDR (XCDR1 and XCDR2 of final and appendable types; DDS-XTypes 1.3 §7.4).
//!
//! A payload begins with four bytes: two that name the encoding, two of options.

use crate::types::{FieldType, Form, PLACEHOLDER, Struct, Types};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value};
use std::fmt;

/// Bytes before the value.
pub const HEADER_BYTES: usize = 4;

/// Why a value cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The encoding is none of plain CDR.
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
            Fault::Encoding => f.write_str("the encoding is not plain CDR"),
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

/// Encoding in a payload's first bytes: byte order, the largest alignment, and the extensibility of the outermost
/// structure.
fn encoding(payload: &[u8]) -> Result<(bool, usize, Form), Fault> {
    match payload.get(..2) {
        Some([0, kind @ 0..=1]) => Ok((kind & 1 == 1, XCDR1, Form::Final)),
        Some([0, kind @ 6..=7]) => Ok((kind & 1 == 1, XCDR2, Form::Final)),
        Some([0, kind @ 8..=9]) => Ok((kind & 1 == 1, XCDR2, Form::Appendable)),
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
    let mut reader = Reader {
        bytes: payload.get(HEADER_BYTES..).ok_or(Fault::Truncated)?,
        at: 0,
        is_little,
        alignment_max,
        form: of.form.unwrap_or(form),
        types,
    };
    reader.object(of, 0)
}

/// Whether XCDR2 writes the length of a list in bytes before it (DDS-XTypes 1.3 §7.4.3.5).
fn has_length(kind: &FieldType) -> bool {
    match kind {
        FieldType::Array(of, _) => has_length(of),
        FieldType::Text | FieldType::Enum(_) | FieldType::Struct(_) | FieldType::Sequence(_) => {
            true
        }
        FieldType::Bool | FieldType::Unsigned(_) | FieldType::Signed(_) | FieldType::Float(_) => {
            false
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_little: bool,
    alignment_max: usize,
    /// Of structures whose text does not say it.
    form: Form,
    types: &'a Types,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count).ok_or(Fault::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Fault::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// An aligned number of so many bytes.
    fn word(&mut self, size: usize) -> Result<u64, Fault> {
        let alignment = size.min(self.alignment_max);
        self.at = self.at.next_multiple_of(alignment);
        let bytes = self.take(size)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Ok(match self.is_little {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        })
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        let length = self.word(4)? as usize;
        let (last, text) = self.take(length)?.split_last().ok_or(Fault::Text)?;
        match last {
            0 => std::str::from_utf8(text).map_err(|_| Fault::Text),
            _ => Err(Fault::Text),
        }
    }

    fn object(&mut self, of: &Struct, depth: u32) -> Result<Value, Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let is_counted =
            self.alignment_max == XCDR2 && of.form.unwrap_or(self.form) == Form::Appendable;
        let mut end = None;
        if is_counted {
            let length = self.word(4)? as usize;
            end = Some(self.at.checked_add(length).ok_or(Fault::Truncated)?);
        }
        let mut object = Map::new();
        for (name, kind) in &of.fields {
            let value = self.value(kind, depth)?;
            if name != PLACEHOLDER {
                object.insert(name.clone(), value);
            }
        }
        // A newer version of the type has more fields, an older one less: what that lacks is not made up.
        if let Some(end) = end {
            if end < self.at || end > self.bytes.len() {
                return Err(Fault::Truncated);
            }
            self.at = end;
        }
        Ok(Value::Object(object))
    }

    fn value(&mut self, kind: &FieldType, depth: u32) -> Result<Value, Fault> {
        let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
        Ok(match kind {
            FieldType::Bool => Value::Bool(self.word(1)? != 0),
            FieldType::Unsigned(size) => self.word(*size)?.into(),
            FieldType::Signed(size) => {
                let unused = 64 - 8 * *size as u32;
                (((self.word(*size)? << unused) as i64) >> unused).into()
            }
            // As text says the shortest decimal that is this number, not the nearest double.
            FieldType::Float(4) => {
                let value = f32::from_bits(self.word(4)? as u32);
                float(value.to_string().parse().unwrap_or(f64::from(value)))
            }
            FieldType::Float(_) => float(f64::from_bits(self.word(8)?)),
            FieldType::Text => self.text()?.into(),
            FieldType::Enum(names) => {
                let number = self.word(4)? as u32;
                match names.iter().find(|(_, it)| *it == number) {
                    Some((name, _)) => name.as_str().into(),
                    None => number.into(),
                }
            }
            FieldType::Array(of, count) => {
                self.length_of(of)?;
                self.list(of, *count, depth)?
            }
            FieldType::Sequence(of) => {
                self.length_of(of)?;
                let count = self.word(4)? as usize;
                self.list(of, count, depth)?
            }
            FieldType::Struct(name) => {
                let of = self.types.get(name).ok_or(Fault::Depth)?.clone();
                self.object(&of, depth + 1)?
            }
        })
    }

    /// Passes over the length of a list, where there is one.
    fn length_of(&mut self, of: &FieldType) -> Result<(), Fault> {
        if self.alignment_max == XCDR2 && has_length(of) {
            self.word(4)?;
        }
        Ok(())
    }

    fn list(&mut self, kind: &FieldType, count: usize, depth: u32) -> Result<Value, Fault> {
        if *kind == FieldType::Unsigned(1) {
            return Ok(BASE64_STANDARD.encode(self.take(count)?).into());
        }
        // A count that a peer made up costs nothing: each element takes a byte at least, but for structures without fields.
        if count > self.bytes.len() {
            return Err(Fault::Truncated);
        }
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.value(kind, depth)?);
        }
        Ok(Value::Array(list))
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
        (false, _) => 1,
        (true, Some(Form::Appendable)) => 9,
        (true, _) => 7,
    };
    let mut writer = Writer {
        bytes: vec![0, kind, 0, 0],
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

struct Writer<'a> {
    bytes: Vec<u8>,
    alignment_max: usize,
    types: &'a Types,
}

impl Writer<'_> {
    fn word(&mut self, value: u64, size: usize) {
        let at = self.bytes.len() - HEADER_BYTES;
        let padded = HEADER_BYTES + at.next_multiple_of(size.min(self.alignment_max));
        self.bytes.resize(padded, 0);
        self.bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    }

    fn object(&mut self, value: &Value, of: &Struct, depth: u32) -> Result<(), Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        if !(value.is_object() || value.is_null()) {
            return Err(Fault::Field(of.name.clone()));
        }
        let is_counted = self.alignment_max == XCDR2 && of.form == Some(Form::Appendable);
        self.counted(is_counted, |writer| {
            for (name, kind) in &of.fields {
                let value = value.get(name).unwrap_or(&Value::Null);
                writer.value(value, kind, name, depth)?;
            }
            Ok(())
        })
    }

    /// Writes the output of `write`, with its length before it if that is required.
    fn counted(
        &mut self,
        is_counted: bool,
        write: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !is_counted {
            return write(self);
        }
        self.word(0, 4);
        let start = self.bytes.len();
        write(self)?;
        let length = u32::try_from(self.bytes.len() - start).map_err(|_| Fault::Length)?;
        self.bytes[start - 4..start].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn value(
        &mut self,
        value: &Value,
        kind: &FieldType,
        name: &str,
        depth: u32,
    ) -> Result<(), Fault> {
        if self.bytes.len() > WRITTEN_MAX {
            return Err(Fault::Length);
        }
        let wrong = || Fault::Field(name.to_owned());
        let or = |zero: Value| if value.is_null() { zero } else { value.clone() };
        match kind {
            FieldType::Bool => {
                let value = or(false.into()).as_bool().ok_or_else(wrong)?;
                self.word(value.into(), 1);
            }
            FieldType::Unsigned(size) => {
                let value = or(0.into()).as_u64().ok_or_else(wrong)?;
                if *size < 8 && value >> (8 * size) != 0 {
                    return Err(wrong());
                }
                self.word(value, *size);
            }
            FieldType::Signed(size) => {
                let value = or(0.into()).as_i64().ok_or_else(wrong)?;
                let unused = 64 - 8 * *size as u32;
                if (value << unused) >> unused != value {
                    return Err(wrong());
                }
                self.word(value as u64, *size);
            }
            FieldType::Float(4) => {
                let value = or(0.into()).as_f64().ok_or_else(wrong)? as f32;
                self.word(value.to_bits().into(), 4);
            }
            FieldType::Float(_) => {
                let value = or(0.into()).as_f64().ok_or_else(wrong)?;
                self.word(value.to_bits(), 8);
            }
            FieldType::Text => {
                let value = or("".into());
                let text = value.as_str().ok_or_else(wrong)?;
                if text.contains('\0') {
                    return Err(wrong());
                }
                self.word(text.len() as u64 + 1, 4);
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.push(0);
            }
            FieldType::Array(of, count) if **of == FieldType::Unsigned(1) => {
                let value = or(BASE64_STANDARD.encode(vec![0; *count]).into());
                let bytes = bytes_of(&value).filter(|bytes| bytes.len() == *count);
                self.bytes.extend(bytes.ok_or_else(wrong)?);
            }
            FieldType::Sequence(of) if **of == FieldType::Unsigned(1) => {
                let bytes = bytes_of(&or("".into())).ok_or_else(wrong)?;
                self.word(bytes.len() as u64, 4);
                self.bytes.extend(bytes);
            }
            FieldType::Enum(names) => {
                let first = names.first().map_or(0, |(_, number)| *number);
                let number = match value {
                    Value::Null => Some(first),
                    Value::String(text) => {
                        let found = names.iter().find(|(name, _)| name == text);
                        found.map(|(_, number)| *number)
                    }
                    value => value.as_u64().and_then(|it| u32::try_from(it).ok()),
                };
                self.word(number.ok_or_else(wrong)?.into(), 4);
            }
            FieldType::Array(kind, count) => {
                let value = or(vec![Value::Null; *count].into());
                let list = value.as_array().filter(|list| list.len() == *count);
                let list = list.ok_or_else(wrong)?;
                self.list(list, None, kind, name, depth)?;
            }
            FieldType::Sequence(kind) => {
                let value = or(Vec::<Value>::new().into());
                let list = value.as_array().ok_or_else(wrong)?;
                self.list(list, Some(list.len()), kind, name, depth)?;
            }
            FieldType::Struct(of) => {
                let of = self.types.get(of).ok_or(Fault::Depth)?.clone();
                self.object(value, &of, depth + 1)?;
            }
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// `count` stands before the elements of a sequence.
    fn list(
        &mut self,
        list: &[Value],
        count: Option<usize>,
        kind: &FieldType,
        name: &str,
        depth: u32,
    ) -> Result<(), Fault> {
        let is_counted = self.alignment_max == XCDR2 && has_length(kind);
        self.counted(is_counted, |writer| {
            if let Some(count) = count {
                writer.word(count as u64, 4);
            }
            for value in list {
                writer.value(value, kind, name, depth)?;
            }
            Ok(())
        })
    }
}

/// Arrays and sequences of bytes are base64 in JSON.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(value.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round(name: &str, value: Value) -> Value {
        let types = Types::of_ros();
        let of = types.get(name).expect("it is built in");
        let [older, newer] = [false, true].map(|is_xcdr2| {
            let payload = from_json(&value, of, &types, is_xcdr2).expect("it can be written");
            assert_eq!(payload.len() % 4, 0);
            to_json(&payload, of, &types).expect("it can be read")
        });
        assert_eq!(older, newer);
        older
    }

    #[test]
    fn values_of_ros_come_back_as_they_were() {
        let text = json!({"data": "Hello 1"});
        assert_eq!(round("std_msgs/msg/String", text.clone()), text);
        let pose = json!({
            "header": {"stamp": {"sec": -1, "nanosec": 5}, "frame_id": "map"},
            "pose": {"position": {"x": 1.5, "y": -2.0, "z": 0.1},
                     "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}},
        });
        assert_eq!(round("geometry_msgs/msg/PoseStamped", pose.clone()), pose);
        let image = json!({"header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}, "height": 1, "width": 3,
            "encoding": "mono8", "is_bigendian": 0, "step": 3, "data": "AAH/"});
        assert_eq!(round("sensor_msgs/msg/Image", image.clone()), image);
        let nothing = json!({});
        assert_eq!(
            round("std_srvs/srv/Empty_Response", nothing.clone()),
            nothing
        );
        // A missing value is zero.
        let twist = round("geometry_msgs/msg/Twist", json!({"linear": {"x": 0.25}}));
        assert_eq!(twist["linear"]["x"], 0.25);
        assert_eq!(twist["angular"]["z"], 0.0);
    }

    #[test]
    fn bytes_are_those_of_the_specification() {
        let types = Types::of_ros();
        let of = types.get("std_msgs/msg/String").expect("built in");
        let payload = from_json(&json!({"data": "Hi"}), of, &types, false).expect("good");
        assert_eq!(payload, [0, 1, 0, 1, 3, 0, 0, 0, b'H', b'i', 0, 0]);
        let big = [0, 0, 0, 0, 0, 0, 0, 3, b'H', b'i', 0];
        assert_eq!(to_json(&big, of, &types), Ok(json!({"data": "Hi"})));
        // XCDR2 aligns to four bytes.
        let mut types = Types::of_ros();
        types
            .add("test/msg/Both", "uint8 a\nfloat64 b\n")
            .expect("good");
        let of = types.get("test/msg/Both").expect("added");
        let mut newer = vec![0, 7, 0, 0, 9, 0, 0, 0];
        newer.extend_from_slice(&1.5f64.to_le_bytes());
        assert_eq!(to_json(&newer, of, &types), Ok(json!({"a": 9, "b": 1.5})));
    }

    #[test]
    fn lists_and_appendable_structures_are_written_as_cyclone_dds_does() {
        let mut types = Types::default();
        let text = include_str!("../tests/types/plant.idl");
        let mut names = crate::idl::Names::default();
        crate::idl::add(text, &mut names, &mut types).expect("it is good");
        let of = types.find("plant::Shape").expect("there");
        let value = json!({"name": "one", "color": "BLUE", "size": 0.5,
            "parts": [{"at": [1, -2], "words": ["a", "bcd"]}, {"at": [3, 4], "words": []}]});
        // Payload written by Cyclone DDS for Python.
        let older = "00010000040000006f6e650001000000020000000100000000000000feffffffffffffff0200000002000000\
            61000000040000006263640000000000030000000000000004000000000000000000000000000000000000000000e03f";
        let newer = "0009000064000000040000006f6e6500010000004c00000002000000280000000100000000000000feffffff\
            ffffffff1400000002000000020000006100000004000000626364001800000003000000000000000400000000000000\
            0400000000000000000000000000e03f";
        for (is_xcdr2, expected) in [(false, older), (true, newer)] {
            let payload = from_json(&value, of, &types, is_xcdr2).expect("it can be written");
            let text: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(text, expected);
            assert_eq!(to_json(&payload, of, &types), Ok(value.clone()));
            for length in 0..payload.len() {
                assert!(to_json(&payload[..length], of, &types).is_err(), "{length}");
            }
        }
        // A newer version of the type may have more fields.
        let mut longer = from_json(&json!({}), of, &types, true).expect("it can be written");
        longer[4] += 4;
        longer.extend([9; 4]);
        assert!(to_json(&longer, of, &types).is_ok());
    }

    #[test]
    fn what_is_cut_or_no_value_is_refused() {
        let types = Types::of_ros();
        let of = types
            .get("geometry_msgs/msg/PoseStamped")
            .expect("built in");
        let whole =
            from_json(&json!({"header": {"frame_id": "map"}}), of, &types, false).expect("good");
        for length in 0..whole.len() {
            assert!(to_json(&whole[..length], of, &types).is_err(), "{length}");
        }
        let string = types.get("std_msgs/msg/String").expect("built in");
        assert_eq!(to_json(&[0, 3, 0, 0], string, &types), Err(Fault::Encoding));
        let endless = [0, 1, 0, 0, 255, 255, 255, 255, 0];
        assert_eq!(to_json(&endless, string, &types), Err(Fault::Truncated));
        for wrong in [json!({"data": 5}), json!([1]), json!({"data": "a\0b"})] {
            assert!(from_json(&wrong, string, &types, false).is_err(), "{wrong}");
        }
        let int = types.get("std_msgs/msg/Int32").expect("built in");
        assert!(from_json(&json!({"data": 1u64 << 31}), int, &types, false).is_err());
        assert!(from_json(&json!({"data": -(1i64 << 31)}), int, &types, false).is_ok());
    }
}
