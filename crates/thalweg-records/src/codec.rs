//! Numbers, texts, byte strings, moments and enumerations of records.

use super::record::RecordFault;
use thalweg_model::{Reliability, RetainOp, Span, Time};

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Bytes that a number takes.
pub(super) const fn width(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a number over as many bytes as there are; it must fit. Leading zeros are written out, so that a length can be
/// filled in when it is known.
pub(super) fn fill_number(out: &mut [u8], mut number: u64) {
    let last = out.len() - 1;
    for byte in &mut out[..last] {
        *byte = number as u8 | 0x80;
        number >>= 7;
    }
    debug_assert!(number < 0x80);
    out[last] = number as u8;
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// A moment at which something happened.
pub(super) fn put_moment(out: &mut Vec<u8>, moment: Time) {
    put_number(
        out,
        if moment == Time::NEVER {
            0
        } else {
            (moment.nanos() / NANOS_PER_MILLI).max(1)
        },
    );
}

/// A moment before which nothing may happen.
pub(super) fn put_deadline(out: &mut Vec<u8>, moment: Time) {
    put_number(
        out,
        if moment == Time::NEVER {
            0
        } else {
            moment.nanos().div_ceil(NANOS_PER_MILLI).max(1)
        },
    );
}

pub(super) fn put_span(out: &mut Vec<u8>, span: Span) {
    put_number(out, span.nanos().div_ceil(NANOS_PER_MILLI));
}

/// Bytes that are read from the front.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn fault(&self, what: &'static str) -> RecordFault {
        RecordFault { at: self.at, what }
    }

    /// The next `len` bytes as an input of their own, whose faults still count from the beginning of this one.
    pub(super) fn within(&mut self, len: usize) -> Result<Input<'a>, RecordFault> {
        let at = self.at;
        self.take(len)?;
        Ok(Input {
            bytes: self.bytes.get(..self.at).unwrap_or_default(),
            at,
        })
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordFault> {
        match self.rest().get(..len) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(self.fault("it ends early")),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordFault> {
        match self.rest().first_chunk() {
            Some(array) => {
                self.at += N;
                Ok(*array)
            }
            None => Err(self.fault("it ends early")),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, RecordFault> {
        match self.bytes.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(*byte)
            }
            None => Err(self.fault("it ends early")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, RecordFault> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.fault("a number is too large"))
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, RecordFault> {
        T::try_from(self.number()?).map_err(|_| self.fault("a number is too large"))
    }

    /// Number of following items, each of at least `bytes_min` bytes: a count above the input's size is an error before
    /// memory is allocated for it.
    pub(super) fn count(&mut self, bytes_min: usize) -> Result<usize, RecordFault> {
        let count: usize = self.small()?;
        if count > self.rest().len() / bytes_min {
            return Err(self.fault("it ends early"));
        }
        Ok(count)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RecordFault> {
        let len = self.small()?;
        self.take(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, RecordFault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.fault("a text is not UTF-8"))
    }

    pub(super) fn moment(&mut self) -> Result<Time, RecordFault> {
        Ok(match self.number()? {
            0 => Time::NEVER,
            millis => Time::from_nanos(millis.saturating_mul(NANOS_PER_MILLI)),
        })
    }

    pub(super) fn span(&mut self) -> Result<Span, RecordFault> {
        Ok(Span::from_millis(self.number()?))
    }

    /// Returns the reliability in the two lowest bits.
    pub(super) fn reliability(&self, bits: u8) -> Result<Reliability, RecordFault> {
        match bits & 3 {
            0 => Ok(Reliability::AtMostOnce),
            1 => Ok(Reliability::AtLeastOnce),
            2 => Ok(Reliability::ExactlyOnce),
            _ => Err(self.fault("an unknown reliability")),
        }
    }

    /// Returns the retain operation in the two lowest bits.
    pub(super) fn retain(&self, bits: u8) -> Result<RetainOp, RecordFault> {
        match bits & 3 {
            0 => Ok(RetainOp::None),
            1 => Ok(RetainOp::Set),
            2 => Ok(RetainOp::Clear),
            _ => Err(self.fault("an unknown retain operation")),
        }
    }

    /// Flags that no version so far writes.
    pub(super) fn no_flags(&self, flags: u8) -> Result<(), RecordFault> {
        if flags == 0 {
            Ok(())
        } else {
            Err(self.fault("an unknown flag"))
        }
    }

    pub(super) fn finish(&self) -> Result<(), RecordFault> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.fault("it is too long"))
        }
    }
}

pub(super) fn retain_bits(retain: RetainOp) -> u8 {
    match retain {
        RetainOp::None => 0,
        RetainOp::Set => 1,
        RetainOp::Clear => 2,
    }
}
