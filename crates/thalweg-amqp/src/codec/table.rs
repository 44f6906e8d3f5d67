//! Field tables (§4.2.5.5), in the dialect that RabbitMQ and its clients speak: `s` is a 16-bit number, `l` a signed
//! 64-bit one.
//!
//! A table is checked once, when it is received; after that it is bytes that are read one entry at a time.

use std::fmt::{self, Write as _};

use thalweg_wire::Reader;

use super::Malformed;

/// A field table: its entries as they are on the wire, without the length before them. Known to be well-formed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Table<'b>(&'b [u8]);

/// A field array: its values as they are on the wire, without the length before them. Known to be well-formed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Array<'b>(&'b [u8]);

/// A value in a table or an array. The letter of each is its type on the wire.
#[derive(Clone, Copy, PartialEq)]
pub enum FieldValue<'b> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`, and `U` of the specification, which is read but never written.
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`
    I64(i64),
    /// `L`
    U64(u64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: `value` divided by ten to the power of `scale`.
    Decimal {
        /// Digits after the point.
        scale: u8,
        /// The number without its decimal point.
        value: i32,
    },
    /// `S`: text by custom, but any bytes.
    LongStr(&'b [u8]),
    /// `A`
    Array(Array<'b>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`
    Table(Table<'b>),
    /// `x`
    Bytes(&'b [u8]),
    /// `V`
    Void,
}

impl<'b> FieldValue<'b> {
    /// As text, if it is a string in UTF-8.
    pub fn as_str(&self) -> Option<&'b str> {
        match self {
            FieldValue::LongStr(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// As a number, if it is a whole one that fits. Clients choose the width by the value.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            FieldValue::I8(n) => Some(n.into()),
            FieldValue::U8(n) => Some(n.into()),
            FieldValue::I16(n) => Some(n.into()),
            FieldValue::U16(n) => Some(n.into()),
            FieldValue::I32(n) => Some(n.into()),
            FieldValue::U32(n) => Some(n.into()),
            FieldValue::I64(n) => Some(n),
            FieldValue::U64(n) => i64::try_from(n).ok(),
            _ => None,
        }
    }

    /// As a truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            FieldValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The letter on the wire.
    pub fn letter(&self) -> u8 {
        match self {
            FieldValue::Bool(_) => b't',
            FieldValue::I8(_) => b'b',
            FieldValue::U8(_) => b'B',
            FieldValue::I16(_) => b's',
            FieldValue::U16(_) => b'u',
            FieldValue::I32(_) => b'I',
            FieldValue::U32(_) => b'i',
            FieldValue::I64(_) => b'l',
            FieldValue::U64(_) => b'L',
            FieldValue::F32(_) => b'f',
            FieldValue::F64(_) => b'd',
            FieldValue::Decimal { .. } => b'D',
            FieldValue::LongStr(_) => b'S',
            FieldValue::Array(_) => b'A',
            FieldValue::Timestamp(_) => b'T',
            FieldValue::Table(_) => b'F',
            FieldValue::Bytes(_) => b'x',
            FieldValue::Void => b'V',
        }
    }

    /// One value with its letter; nested tables and arrays are not looked into.
    #[inline]
    fn read(r: &mut Reader<'b>) -> Result<Self, Malformed> {
        let letter = r.u8().ok_or(Malformed::Truncated)?;
        let value = match letter {
            b't' => r.u8().map(|n| FieldValue::Bool(n != 0)),
            b'b' => r.u8().map(|n| FieldValue::I8(n as i8)),
            b'B' => r.u8().map(FieldValue::U8),
            b's' | b'U' => r.u16().map(|n| FieldValue::I16(n as i16)),
            b'u' => r.u16().map(FieldValue::U16),
            b'I' => r.u32().map(|n| FieldValue::I32(n as i32)),
            b'i' => r.u32().map(FieldValue::U32),
            b'l' => r.u64().map(|n| FieldValue::I64(n as i64)),
            b'L' => r.u64().map(FieldValue::U64),
            b'f' => r.u32().map(|n| FieldValue::F32(f32::from_bits(n))),
            b'd' => r.u64().map(|n| FieldValue::F64(f64::from_bits(n))),
            b'D' => r.u8().zip(r.u32()).map(|(scale, n)| FieldValue::Decimal {
                scale,
                value: n as i32,
            }),
            b'S' => long(r).map(FieldValue::LongStr),
            b'A' => long(r).map(|bytes| FieldValue::Array(Array(bytes))),
            b'T' => r.u64().map(FieldValue::Timestamp),
            b'F' => long(r).map(|bytes| FieldValue::Table(Table(bytes))),
            b'x' => long(r).map(FieldValue::Bytes),
            b'V' => Some(FieldValue::Void),
            other => return Err(Malformed::FieldType(other)),
        };
        value.ok_or(Malformed::Truncated)
    }

    fn check(&self, depth: usize) -> Result<(), Malformed> {
        match self {
            FieldValue::Array(array) => array.check(depth),
            FieldValue::Table(table) => table.check(depth),
            _ => Ok(()),
        }
    }
}

#[inline]
fn long<'b>(r: &mut Reader<'b>) -> Option<&'b [u8]> {
    let len = r.u32()?;
    r.take(len as usize)
}

impl<'b> Table<'b> {
    /// Deepest nesting of tables and arrays. RabbitMQ's own deepest, `x-death`, is three.
    pub const DEPTH_MAX: usize = 32;

    /// Checks entries that stand on the wire without the length before them.
    #[inline]
    pub fn parse(entries: &'b [u8]) -> Result<Self, Malformed> {
        let table = Table(entries);
        if !entries.is_empty() {
            table.check(Self::DEPTH_MAX)?;
        }
        Ok(table)
    }

    /// Wraps entries that [`super::TableWriter`] wrote.
    pub(crate) fn written(entries: &'b [u8]) -> Self {
        Table(entries)
    }

    /// The entries as they are on the wire, without the length before them.
    #[inline]
    pub fn as_bytes(&self) -> &'b [u8] {
        self.0
    }

    /// Whether it has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, in the order of the wire. A key may come twice.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&'b str, FieldValue<'b>)> + use<'b> {
        let mut r = Reader::new(self.0);
        std::iter::from_fn(move || read_entry(&mut r).ok().flatten())
    }

    /// The first value with this key.
    pub fn get(&self, key: &str) -> Option<FieldValue<'b>> {
        self.iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    fn check(&self, depth: usize) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::Depth)?;
        let mut r = Reader::new(self.0);
        while let Some((_, value)) = read_entry(&mut r)? {
            value.check(depth)?;
        }
        Ok(())
    }
}

/// The next entry, or `None` at the end.
#[inline]
fn read_entry<'b>(r: &mut Reader<'b>) -> Result<Option<(&'b str, FieldValue<'b>)>, Malformed> {
    let Some(len) = r.u8() else { return Ok(None) };
    let key = r.take(usize::from(len)).ok_or(Malformed::Truncated)?;
    let key = std::str::from_utf8(key).map_err(|_| Malformed::Utf8)?;
    Ok(Some((key, FieldValue::read(r)?)))
}

impl<'b> Array<'b> {
    /// The values as they are on the wire, without the length before them.
    pub fn as_bytes(&self) -> &'b [u8] {
        self.0
    }

    /// Whether it has no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values, in order.
    pub fn iter(&self) -> impl Iterator<Item = FieldValue<'b>> + use<'b> {
        let mut r = Reader::new(self.0);
        std::iter::from_fn(move || {
            if r.is_empty() {
                None
            } else {
                FieldValue::read(&mut r).ok()
            }
        })
    }

    fn check(&self, depth: usize) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::Depth)?;
        let mut r = Reader::new(self.0);
        while !r.is_empty() {
            FieldValue::read(&mut r)?.check(depth)?;
        }
        Ok(())
    }
}

/// Strings as text, and every value with its letter: what else would tell an `I` from an `l`?
impl fmt::Debug for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char(self.letter().into())?;
        match self {
            FieldValue::Bool(value) => write!(f, ":{value}"),
            FieldValue::I8(n) => write!(f, ":{n}"),
            FieldValue::U8(n) => write!(f, ":{n}"),
            FieldValue::I16(n) => write!(f, ":{n}"),
            FieldValue::U16(n) => write!(f, ":{n}"),
            FieldValue::I32(n) => write!(f, ":{n}"),
            FieldValue::U32(n) => write!(f, ":{n}"),
            FieldValue::I64(n) => write!(f, ":{n}"),
            FieldValue::U64(n) | FieldValue::Timestamp(n) => write!(f, ":{n}"),
            FieldValue::F32(n) => write!(f, ":{n}"),
            FieldValue::F64(n) => write!(f, ":{n}"),
            FieldValue::Decimal { scale, value } => write!(f, ":{value}e-{scale}"),
            FieldValue::LongStr(bytes) | FieldValue::Bytes(bytes) => {
                write!(f, ":\"{}\"", bytes.escape_ascii())
            }
            FieldValue::Array(array) => write!(f, ":{array:?}"),
            FieldValue::Table(table) => write!(f, ":{table:?}"),
            FieldValue::Void => Ok(()),
        }
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
