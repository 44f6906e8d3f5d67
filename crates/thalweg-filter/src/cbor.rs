//! CBOR (RFC 8949), as far as fields need it.

use crate::document::{Leaf, Nodes};
use std::borrow::Cow;

/// Reads all of a payload; `None` if it is not CBOR.
pub(crate) fn read<'p>(payload: &'p [u8], nodes: &mut Nodes<'p>) -> Option<()> {
    let mut reader = Reader { rest: payload };
    reader.value(Cow::Borrowed(""), nodes)?;
    reader.rest.is_empty().then_some(())
}

/// The length that says: until [`BREAK`].
const INDEFINITE: u8 = 31;
const BREAK: u8 = 0xff;

struct Reader<'p> {
    rest: &'p [u8],
}

impl<'p> Reader<'p> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn take(&mut self, len: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// The number that goes with a first byte.
    fn argument(&mut self, info: u8) -> Option<u64> {
        let len = match info {
            0..=23 => return Some(u64::from(info)),
            24..=27 => 1 << (info - 24),
            _ => return None,
        };
        let bytes = self.take(len)?;
        Some(
            bytes
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte)),
        )
    }

    /// The first byte of the next item, behind its tags: its kind and the rest of the byte.
    fn first(&mut self) -> Option<(u8, u8)> {
        loop {
            let byte = self.byte()?;
            let (kind, info) = (byte >> 5, byte & 31);
            if kind != 6 {
                return Some((kind, info));
            }
            self.argument(info)?;
        }
    }

    fn value(&mut self, key: Cow<'p, str>, nodes: &mut Nodes<'p>) -> Option<()> {
        let (kind, info) = self.first()?;
        let leaf = match kind {
            0 => whole(i128::from(self.argument(info)?)),
            1 => whole(-1 - i128::from(self.argument(info)?)),
            2 => {
                self.bytes(2, info)?;
                Leaf::Null
            }
            3 => Leaf::Text(self.text(info)?),
            4 | 5 => {
                let is_map = kind == 5;
                let leaf = if is_map { Leaf::Map } else { Leaf::List };
                let place = nodes.open(key, leaf)?;
                let mut left = match info {
                    INDEFINITE => None,
                    _ => Some(self.argument(info)?),
                };
                loop {
                    match &mut left {
                        Some(0) => break,
                        Some(left) => *left -= 1,
                        None if self.rest.first() == Some(&BREAK) => {
                            self.byte()?;
                            break;
                        }
                        None => {}
                    }
                    let key = match is_map {
                        true => self.key()?,
                        false => Cow::Borrowed(""),
                    };
                    self.value(key, nodes)?;
                }
                nodes.close(place);
                return Some(());
            }
            _ => match info {
                20 => Leaf::Bool(false),
                21 => Leaf::Bool(true),
                25 => Leaf::Float(half(self.argument(info)? as u16)),
                26 => Leaf::Float(f64::from(f32::from_bits(self.argument(info)? as u32))),
                27 => Leaf::Float(f64::from_bits(self.argument(info)?)),
                _ => {
                    self.argument(info)?;
                    Leaf::Null
                }
            },
        };
        nodes.push(key, leaf)
    }

    /// A key that can be named: text, or a number in digits.
    fn key(&mut self) -> Option<Cow<'p, str>> {
        let (kind, info) = self.first()?;
        match kind {
            0 => Some(self.argument(info)?.to_string().into()),
            1 => Some((-1 - i128::from(self.argument(info)?)).to_string().into()),
            3 => self.text(info),
            _ => None,
        }
    }

    fn text(&mut self, info: u8) -> Option<Cow<'p, str>> {
        Some(match self.bytes(3, info)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok()?.into(),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok()?.into(),
        })
    }

    fn bytes(&mut self, kind: u8, info: u8) -> Option<Cow<'p, [u8]>> {
        if info != INDEFINITE {
            let len = self.argument(info)?;
            return self.take(usize::try_from(len).ok()?).map(Cow::Borrowed);
        }
        let mut all = Vec::new();
        loop {
            let byte = self.byte()?;
            if byte == BREAK {
                return Some(all.into());
            }
            let len = self.argument(byte & 31)?;
            (byte >> 5 == kind).then_some(())?;
            all.extend_from_slice(self.take(usize::try_from(len).ok()?)?);
        }
    }
}

/// Whole where 64 bits hold it.
fn whole(value: i128) -> Leaf<'static> {
    match i64::try_from(value) {
        Ok(value) => Leaf::Integer(value),
        Err(_) => Leaf::Float(value as f64),
    }
}

/// A float of 16 bits (RFC 8949, appendix D).
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits & 0x8000 != 0 { -value } else { value }
}
