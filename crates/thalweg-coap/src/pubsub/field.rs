//! One property's value: read by its property's type, written, compared.

use super::TEXT_BYTES_MAX;
use super::property::{Property, Shape};
use super::refusal::{Refusal, Unfit};
use super::walk;
use minicbor::data::{Tag, Type};
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder};

/// A value, borrowed from a payload or a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'b> {
    Text(&'b str),
    Number(u64),
    Bytes(&'b [u8]),
}

/// The tag of seconds since 1970, RFC 8949 §3.4.2.
const EPOCH: u64 = 1;

/// The last second of the year 9999: what lies behind it is not a date but a mistake.
const DATE_MAX: u64 = 253_402_300_799;

impl<'b> Field<'b> {
    /// Reads the value of a property; nothing if it is null.
    pub(super) fn read(
        property: Property,
        input: &mut Decoder<'b>,
    ) -> Result<Option<Field<'b>>, Refusal> {
        let found = input.datatype().map_err(walk::damaged)?;
        if found == Type::Null {
            input.null().map_err(walk::damaged)?;
            return Ok(None);
        }
        let unfit = |why| Refusal::of(property, why);
        let field = match (property.shape(), found) {
            (Shape::Text, Type::String) => {
                let text = input.str().map_err(walk::damaged)?;
                match text.len() {
                    0 => return Err(unfit(Unfit::Empty)),
                    1..=TEXT_BYTES_MAX => Field::Text(text),
                    _ => return Err(unfit(Unfit::TooLong)),
                }
            }
            (Shape::Number { min, max }, Type::U8 | Type::U16 | Type::U32 | Type::U64) => {
                let number = input.u64().map_err(walk::damaged)?;
                if !(min..=max).contains(&number) {
                    return Err(unfit(Unfit::OutOfRange));
                }
                Field::Number(number)
            }
            (Shape::Date, Type::Tag) => {
                if input.tag().map_err(walk::damaged)?.as_u64() != EPOCH {
                    return Err(unfit(Unfit::WrongType));
                }
                read_seconds(property, input)?
            }
            // Not as the draft has it, but there is nothing else that it could mean.
            (Shape::Date, _) => read_seconds(property, input)?,
            (Shape::Bytes, Type::Bytes) => Field::Bytes(input.bytes().map_err(walk::damaged)?),
            _ => return Err(unfit(Unfit::WrongType)),
        };
        Ok(Some(field))
    }

    /// Writes the value of a property.
    pub(super) fn write<W: Write>(
        self,
        property: Property,
        out: &mut Encoder<W>,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self {
            Field::Text(text) => out.str(text)?,
            Field::Number(seconds) if property.shape() == Shape::Date => {
                out.tag(Tag::new(EPOCH))?.u64(seconds)?
            }
            Field::Number(number) => out.u64(number)?,
            Field::Bytes(bytes) => out.bytes(bytes)?,
        };
        Ok(())
    }

    /// Whether both say the same. References to topic data may be written with and without the first slash.
    pub(super) fn means(self, property: Property, other: Field<'_>) -> bool {
        match (self, other) {
            (Field::Text(one), Field::Text(other)) if property == Property::TopicData => {
                one.strip_prefix('/').unwrap_or(one) == other.strip_prefix('/').unwrap_or(other)
            }
            _ => self == other,
        }
    }
}

/// Seconds since 1970, whole or not: parts of a second are cut off.
fn read_seconds<'b>(property: Property, input: &mut Decoder<'b>) -> Result<Field<'b>, Refusal> {
    let seconds = match input.datatype().map_err(walk::damaged)? {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => input.u64().map_err(walk::damaged)?,
        Type::F32 | Type::F64 => {
            let seconds = input.f64().map_err(walk::damaged)?;
            if !(0.0..=DATE_MAX as f64).contains(&seconds) {
                return Err(Refusal::of(property, Unfit::OutOfRange));
            }
            seconds as u64
        }
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            return Err(Refusal::of(property, Unfit::OutOfRange));
        }
        _ => return Err(Refusal::of(property, Unfit::WrongType)),
    };
    if seconds > DATE_MAX {
        return Err(Refusal::of(property, Unfit::OutOfRange));
    }
    Ok(Field::Number(seconds))
}
