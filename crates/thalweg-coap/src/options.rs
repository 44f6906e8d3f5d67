//! The options of a received message: checked once, then borrowed. RFC 7252 §3.1, §5.4

use std::fmt;

use crate::Malformed;
use crate::option::{is_critical, is_legal_length, is_repeatable};

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
    /// Bit n: there is an option n. So that asking for what is not there, as handlers do all the time, is free.
    present: u64,
}

/// The byte between options and payload.
pub(crate) const PAYLOAD_MARKER: u8 = 0xFF;

impl<'b> Options<'b> {
    /// No options.
    pub const EMPTY: Options<'static> = Options { bytes: &[], present: 0 };

    /// Checks the options at the start of `bytes`, and separates them from the payload.
    #[inline]
    pub fn decode(bytes: &'b [u8]) -> Result<(Options<'b>, &'b [u8]), Malformed> {
        let mut rest = bytes;
        let mut number = 0;
        let mut present = 0;
        let payload = loop {
            let Some((&head, tail)) = rest.split_first() else { break rest };
            let (delta, len) = (u32::from(head >> 4), usize::from(head & 0x0F));
            if delta < 13 && len < 13 {
                number += delta;
                rest = tail.get(len..).ok_or(Malformed::OptionCutShort)?;
            } else if head == PAYLOAD_MARKER {
                break tail;
            } else {
                let (delta, len, tail) = extended(delta, len, tail)?;
                number += delta;
                rest = tail.get(len..).ok_or(Malformed::OptionCutShort)?;
            }
            if number < 64 {
                present |= 1 << number;
            } else if number > u32::from(u16::MAX) {
                return Err(Malformed::OptionNumber);
            }
        };
        // What is left of `rest` is the marker and the payload, or nothing.
        if payload.is_empty() && !rest.is_empty() {
            return Err(Malformed::PayloadMissing);
        }
        let options = bytes.get(..bytes.len() - rest.len()).unwrap_or_default();
        Ok((Options { bytes: options, present }, payload))
    }

    /// Number and value of each, as they stand there.
    #[inline]
    pub fn iter(&self) -> OptionIter<'b> {
        OptionIter { rest: self.bytes, number: 0 }
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

    /// Whether there is an option of this number, legal or not.
    #[inline]
    pub fn has(&self, number: u16) -> bool {
        match number {
            0..64 => self.present & 1 << number != 0,
            _ => self.iter().any(|(found, _)| found == number),
        }
    }

    /// The first option of this number. One whose value has an illegal length counts as not understood, as not there
    /// that is; [`Options::refused`] finds those that matter. RFC 7252 §5.4.3
    #[inline]
    pub fn get(&self, number: u16) -> Option<&'b [u8]> {
        self.all(number).next()
    }

    /// Each option of this number whose length is legal.
    #[inline]
    pub fn all(&self, number: u16) -> impl Iterator<Item = &'b [u8]> + Clone + use<'b> {
        let absent = number < 64 && self.present & 1 << number == 0;
        let bytes = if absent { &[] } else { self.bytes };
        let options = OptionIter { rest: bytes, number: 0 };
        options
            .skip_while(move |(found, _)| *found < number)
            .take_while(move |(found, _)| *found == number)
            .filter(move |(_, value)| is_legal_length(number, value.len()))
            .map(|(_, value)| value)
    }

    /// The number that the first option of this number holds; nothing if it has no legal length. RFC 7252 §3.2
    #[inline]
    pub fn uint(&self, number: u16) -> Option<u32> {
        uint(self.get(number)?)
    }

    /// The first critical option for which the message must be refused: the receiver does not understand it, its length
    /// is illegal, or it is repeated and must not be. RFC 7252 §5.4.1, §5.4.3, §5.4.5
    pub fn refused(&self, understands: impl Fn(u16) -> bool) -> Option<u16> {
        let mut before = None;
        self.iter().find_map(|(number, value)| {
            let repeated = before.replace(number) == Some(number) && !is_repeatable(number);
            let understood = understands(number) && is_legal_length(number, value.len()) && !repeated;
            (is_critical(number) && !understood).then_some(number)
        })
    }
}

/// A number in network byte order; leading zeros may be missing, or be there. RFC 7252 §3.2
#[inline]
pub(crate) fn uint(value: &[u8]) -> Option<u32> {
    (value.len() <= 4).then(|| value.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Delta and length of an option with at least one of them in further bytes, and what follows these.
#[inline(never)]
fn extended(delta: u32, len: usize, rest: &[u8]) -> Result<(u32, usize, &[u8]), Malformed> {
    let (delta, rest) = nibble(delta, rest)?;
    let (len, rest) = nibble(len as u32, rest)?;
    Ok((delta, len as usize, rest))
}

/// What four bits and, depending on them, further bytes say.
#[inline]
fn nibble(bits: u32, rest: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    match bits {
        0..13 => Ok((bits, rest)),
        13 => {
            let (more, rest) = rest.split_first().ok_or(Malformed::OptionCutShort)?;
            Ok((13 + u32::from(*more), rest))
        }
        14 => {
            let (more, rest) = rest.split_first_chunk::<2>().ok_or(Malformed::OptionCutShort)?;
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
        let (delta, len, tail) =
            if delta < 13 && len < 13 { (delta, len, tail) } else { extended(delta, len, tail).ok()? };
        let (value, rest) = tail.split_at_checked(len)?;
        self.rest = rest;
        // It was checked that the sum is a number.
        self.number = self.number.wrapping_add(delta as u16);
        Some((self.number, value))
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
        f.debug_list().entries(self.iter().map(|(number, value)| (number, value.escape_ascii().to_string()))).finish()
    }
}
