//! The options of a received message: checked once, then borrowed. RFC 7252 §3.1, §5.4

use std::fmt;

use crate::Malformed;
use crate::option::{URI_PATH, URI_QUERY, is_critical, is_legal_length, is_repeatable, lengths};

/// The options of a message, in ascending order of their numbers.
///
/// ```text
///   0   1   2   3   4   5   6   7
/// +---------------+---------------+
/// |  Option Delta | Option Length |   13: one byte more, 14: two bytes more, 15: not legal
/// +---------------+---------------+
/// |  Option Delta    (0-2 bytes)  |
/// |  Option Length   (0-2 bytes)  |
/// |  Option Value  (0 or more)    |
/// +-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Options<'b> {
    /// Options as they are on the wire, without the payload marker; they were checked.
    bytes: &'b [u8],
    /// Bit n: there is an option n, or n + 64, and so on. A look-up of an absent option, which handlers do all the
    /// time, costs nothing. Bits [`BEYOND`] and [`ODD`] have meanings of their own.
    present: u64,
}

/// The bit that says that there are options from this number on, and so that other bits may stand for these.
const BEYOND: u16 = 63;

/// The bit that says that a closer look must be had: a value longer than 255 bytes, or number 0, which nothing has.
const ODD: u16 = 0;

/// The critical options that are nearly everywhere, may be repeated and are legal as long as nothing is [`ODD`].
const PLAIN: [u16; 2] = [URI_PATH, URI_QUERY];

/// Bits of the options that [`Options::refused`] must examine.
const SUSPECT: u64 = {
    let critical = 0xAAAA_AAAA_AAAA_AAAA;
    critical & !(bit(PLAIN[0]) | bit(PLAIN[1])) | bit(BEYOND) | bit(ODD)
};

/// The byte between options and payload.
pub(crate) const PAYLOAD_MARKER: u8 = 0xFF;

impl<'b> Options<'b> {
    /// Options of a message that has none.
    pub const EMPTY: Options<'static> = Options {
        bytes: &[],
        present: 0,
    };

    /// Checks the options at the start of `bytes`, and separates them from the payload.
    #[inline]
    pub fn decode(bytes: &'b [u8]) -> Result<(Options<'b>, &'b [u8]), Malformed> {
        let mut rest = bytes;
        // Wide enough for the deltas of a message of any size, so that one look at the end is enough.
        let mut number = 0u64;
        let mut present = 0;
        let payload = loop {
            let Some((&head, tail)) = rest.split_first() else {
                break rest;
            };
            let (delta, len) = (u32::from(head >> 4), usize::from(head & 0x0F));
            if delta < 13 && len < 13 {
                number += u64::from(delta);
                rest = tail.get(len..).ok_or(Malformed::OptionCutShort)?;
            } else if head == PAYLOAD_MARKER {
                break tail;
            } else {
                let (delta, len, tail) = extended(delta, len, tail)?;
                number += u64::from(delta);
                present |= u64::from(len > 255) << ODD;
                rest = tail.get(len..).ok_or(Malformed::OptionCutShort)?;
            }
            present |= bit(number as u16);
        };
        if number > u16::MAX.into() {
            return Err(Malformed::OptionNumber);
        }
        // The remaining bytes are the marker and the payload, or none.
        if payload.is_empty() && !rest.is_empty() {
            return Err(Malformed::PayloadMissing);
        }
        present |= u64::from(number >= BEYOND.into()) << BEYOND;
        let options = bytes.get(..bytes.len() - rest.len()).unwrap_or_default();
        Ok((
            Options {
                bytes: options,
                present,
            },
            payload,
        ))
    }

    /// Number and value of each, as they stand there.
    #[inline]
    pub fn iter(&self) -> OptionIter<'b> {
        OptionIter {
            rest: self.bytes,
            number: 0,
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of all of them, as they are on the wire.
    #[inline]
    pub fn as_bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Whether there may be an option of this number: whether it is worth while to look.
    #[inline]
    fn may_have(&self, number: u16) -> bool {
        let wanted = if number < BEYOND {
            bit(number)
        } else {
            bit(number) | bit(BEYOND)
        };
        number == ODD || self.present & wanted == wanted
    }

    /// Whether there is an option of this number, legal or not.
    #[inline]
    pub fn has(&self, number: u16) -> bool {
        let is_certain = number != ODD && self.present & bit(BEYOND) == 0;
        self.may_have(number) && (is_certain || self.iter().any(|(found, _)| found == number))
    }

    /// The first option of this number. One whose value has an illegal length counts as not understood, as not there
    /// that is; [`Options::refused`] finds those that matter. RFC 7252 §5.4.3
    #[inline]
    pub fn get(&self, number: u16) -> Option<&'b [u8]> {
        self.all(number).next()
    }

    /// Each option of this number whose length is legal.
    #[inline]
    pub fn all(&self, number: u16) -> OptionValues<'b> {
        let bytes = if self.may_have(number) {
            self.bytes
        } else {
            &[]
        };
        let (shortest, longest) = lengths(number).into_inner();
        OptionValues {
            options: OptionIter {
                rest: bytes,
                number: 0,
            },
            number,
            shortest,
            longest,
        }
    }

    /// The number that the first option of this number holds; nothing if it has no legal length. RFC 7252 §3.2
    #[inline]
    pub fn uint(&self, number: u16) -> Option<u32> {
        uint(self.get(number)?)
    }

    /// The first critical option for which the message must be refused: the receiver does not understand it, its length
    /// is illegal, or it is repeated and must not be. RFC 7252 §5.4.1, §5.4.3, §5.4.5
    #[inline]
    pub fn refused(&self, understands: impl Fn(u16) -> bool) -> Option<u16> {
        if self.present & SUSPECT == 0 {
            return PLAIN
                .into_iter()
                .find(|number| self.may_have(*number) && !understands(*number));
        }
        self.refused_of_all(understands)
    }

    #[inline(never)]
    fn refused_of_all(&self, understands: impl Fn(u16) -> bool) -> Option<u16> {
        let mut before = None;
        self.iter().find_map(|(number, value)| {
            let repeated = before.replace(number) == Some(number) && !is_repeatable(number);
            let understood =
                understands(number) && is_legal_length(number, value.len()) && !repeated;
            (is_critical(number) && !understood).then_some(number)
        })
    }
}

/// The bit of [`Options::present`] that stands for a number.
#[inline]
const fn bit(number: u16) -> u64 {
    1 << (number & 63)
}

/// A number in network byte order; leading zeros may be missing, or be there. RFC 7252 §3.2
#[inline]
pub(crate) fn uint(value: &[u8]) -> Option<u32> {
    (value.len() <= 4).then(|| {
        value
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte))
    })
}

/// Decodes delta and length of an option, at least one of them with extension bytes; returns the rest too.
#[inline(never)]
fn extended(delta: u32, len: usize, rest: &[u8]) -> Result<(u32, usize, &[u8]), Malformed> {
    let (delta, rest) = nibble(delta, rest)?;
    let (len, rest) = nibble(len as u32, rest)?;
    Ok((delta, len as usize, rest))
}

/// Decodes the value of four bits and their extension bytes.
#[inline]
fn nibble(bits: u32, rest: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    match bits {
        0..13 => Ok((bits, rest)),
        13 => {
            let (more, rest) = rest.split_first().ok_or(Malformed::OptionCutShort)?;
            Ok((13 + u32::from(*more), rest))
        }
        14 => {
            let (more, rest) = rest
                .split_first_chunk::<2>()
                .ok_or(Malformed::OptionCutShort)?;
            Ok((269 + u32::from(u16::from_be_bytes(*more)), rest))
        }
        _ => Err(Malformed::OptionReserved),
    }
}

/// Goes through options: number and value.
#[derive(Clone, Debug)]
pub struct OptionIter<'b> {
    rest: &'b [u8],
    number: u16,
}

impl<'b> Iterator for OptionIter<'b> {
    type Item = (u16, &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u16, &'b [u8])> {
        let (&head, tail) = self.rest.split_first()?;
        let (delta, len) = (u32::from(head >> 4), usize::from(head & 0x0F));
        let (delta, len, tail) = if delta < 13 && len < 13 {
            (delta, len, tail)
        } else {
            extended(delta, len, tail).ok()?
        };
        let (value, rest) = tail.split_at_checked(len)?;
        self.rest = rest;
        // It was checked that the sum is a number.
        self.number = self.number.wrapping_add(delta as u16);
        Some((self.number, value))
    }
}

/// Goes through the values of the options of one number.
#[derive(Clone, Debug)]
pub struct OptionValues<'b> {
    options: OptionIter<'b>,
    number: u16,
    shortest: usize,
    longest: usize,
}

impl<'b> Iterator for OptionValues<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        loop {
            let (number, value) = self.options.next()?;
            if number == self.number && self.shortest <= value.len() && value.len() <= self.longest
            {
                return Some(value);
            }
            if number > self.number {
                self.options.rest = &[];
                return None;
            }
        }
    }
}

impl<'b> IntoIterator for Options<'b> {
    type Item = (u16, &'b [u8]);
    type IntoIter = OptionIter<'b>;

    fn into_iter(self) -> OptionIter<'b> {
        self.iter()
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options::EMPTY
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(
                self.iter()
                    .map(|(number, value)| (number, value.escape_ascii().to_string())),
            )
            .finish()
    }
}
