//! Reading and writing the arguments of methods (§4.2.5).

use std::fmt;

use thalweg_wire::Reader;

use super::{MethodId, Table};

/// Reason why bytes are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end inside a field.
    Truncated,
    /// Bytes follow the last field.
    Trailing,
    /// A short string is not UTF-8.
    Utf8,
    /// A field value of a table has a type that is not defined.
    FieldType(u8),
    /// Tables and arrays lie in one another deeper than [`Table::DEPTH_MAX`].
    Depth,
    /// Property flags that are not defined.
    PropertyFlags,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Truncated => f.write_str("the bytes end inside a field"),
            Malformed::Trailing => f.write_str("bytes follow the last field"),
            Malformed::Utf8 => f.write_str("a short string is not UTF-8"),
            Malformed::FieldType(kind) => {
                write!(f, "field type {:?} is not defined", char::from(*kind))
            }
            Malformed::Depth => write!(f, "tables are nested deeper than {}", Table::DEPTH_MAX),
            Malformed::PropertyFlags => f.write_str("a property flag is not defined"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Why a method could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// There is no such method.
    Unknown(MethodId),
    /// Its arguments are broken.
    Malformed {
        /// Class and method id.
        id: MethodId,
        /// Why it could not be read.
        what: Malformed,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Unknown(id) => write!(f, "there is no method with {id}"),
            DecodeError::Malformed { id, what } => write!(f, "{id}: {what}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A cursor over the arguments of a method, or over the fields of a content header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'b>(Reader<'b>);

impl<'b> Arguments<'b> {
    #[inline]
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Arguments(Reader::new(bytes))
    }

    /// Splits the payload of a method frame.
    #[inline]
    pub(crate) fn of_method(payload: &'b [u8]) -> Result<(MethodId, Self), DecodeError> {
        let mut a = Self::new(payload);
        match (a.0.u16(), a.0.u16()) {
            (Some(class), Some(method)) => Ok((MethodId::new(class, method), a)),
            _ => Err(DecodeError::Malformed {
                id: MethodId::NONE,
                what: Malformed::Truncated,
            }),
        }
    }

    #[inline]
    pub(crate) fn octet(&mut self) -> Result<u8, Malformed> {
        self.0.u8().ok_or(Malformed::Truncated)
    }

    /// Up to eight neighbouring bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> Result<u8, Malformed> {
        self.octet()
    }

    #[inline]
    pub(crate) fn short(&mut self) -> Result<u16, Malformed> {
        self.0.u16().ok_or(Malformed::Truncated)
    }

    #[inline]
    pub(crate) fn long(&mut self) -> Result<u32, Malformed> {
        self.0.u32().ok_or(Malformed::Truncated)
    }

    #[inline]
    pub(crate) fn long_long(&mut self) -> Result<u64, Malformed> {
        self.0.u64().ok_or(Malformed::Truncated)
    }

    /// A short string as bytes.
    #[inline]
    pub(crate) fn short_bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let len = self.octet()?;
        self.0.take(usize::from(len)).ok_or(Malformed::Truncated)
    }

    #[inline]
    pub(crate) fn short_str(&mut self) -> Result<&'b str, Malformed> {
        match self.short_bytes()? {
            // The name of the default exchange need not be checked.
            [] => Ok(""),
            bytes => std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8),
        }
    }

    #[inline]
    pub(crate) fn long_str(&mut self) -> Result<&'b [u8], Malformed> {
        let len = self.long()?;
        self.0.take(len as usize).ok_or(Malformed::Truncated)
    }

    #[inline]
    pub(crate) fn table(&mut self) -> Result<Table<'b>, Malformed> {
        Table::parse(self.long_str()?)
    }

    /// Nothing may be left.
    #[inline]
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Trailing)
        }
    }
}

#[inline]
pub(crate) fn put_id(id: MethodId, out: &mut Vec<u8>) {
    let [a, b] = id.class.to_be_bytes();
    let [c, d] = id.method.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d]);
}

#[inline]
pub(crate) fn put_octet(value: u8, out: &mut Vec<u8>) {
    out.push(value);
}

#[inline]
pub(crate) fn put_short(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_long(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_long_long(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// So much of a text as the one byte of its length can count, cut between characters.
#[inline]
pub(crate) fn fitting(value: &str) -> &[u8] {
    match value.len() {
        ..=255 => value.as_bytes(),
        _ => {
            let end = value.floor_char_boundary(255);
            value.as_bytes().get(..end).unwrap_or_default()
        }
    }
}

/// Cuts what does not fit into the one byte of length, between characters.
#[inline]
pub(crate) fn put_short_str(value: &str, out: &mut Vec<u8>) {
    put_short_bytes(fitting(value), out);
}

/// Cuts what does not fit into the one byte of length.
#[inline]
pub(crate) fn put_short_bytes(value: &[u8], out: &mut Vec<u8>) {
    let value = value.get(..255).unwrap_or(value);
    out.push(value.len() as u8);
    out.extend_from_slice(value);
}

#[inline]
pub(crate) fn put_long_str(value: &[u8], out: &mut Vec<u8>) {
    put_long(value.len() as u32, out);
    out.extend_from_slice(value);
}

#[inline]
pub(crate) fn put_table(value: Table<'_>, out: &mut Vec<u8>) {
    put_long_str(value.as_bytes(), out);
}
