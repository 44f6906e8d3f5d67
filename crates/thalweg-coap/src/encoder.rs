//! Writing messages. RFC 7252 §3

use crate::options::PAYLOAD_MARKER;
use crate::{Code, Token, Type};

/// Writes one message, or its options and payload alone, to the end of the caller's buffer. Options come in ascending
/// order of their numbers; [`Encoder::payload`] ends it.
#[derive(Debug)]
pub struct Encoder<'v> {
    out: &'v mut Vec<u8>,
    number: u16,
}

/// Writes a message of code 0.00: an acknowledgement or a reset without more, or a ping.
#[inline]
pub fn empty(out: &mut Vec<u8>, kind: Type, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[0x40 | (kind as u8) << 4, Code::EMPTY.0, high, low]);
}

impl<'v> Encoder<'v> {
    /// Begins a message for a datagram.
    #[inline]
    pub fn start(
        out: &'v mut Vec<u8>,
        kind: Type,
        code: Code,
        id: u16,
        token: Token,
    ) -> Encoder<'v> {
        let [high, low] = id.to_be_bytes();
        // One write of a known length, of which the token's unused bytes are taken back.
        let mut head = [0; 4 + Token::LEN_MAX];
        head[..4].copy_from_slice(&[
            0x40 | (kind as u8) << 4 | token.len() as u8,
            code.0,
            high,
            low,
        ]);
        head[4..].copy_from_slice(token.padded());
        out.extend_from_slice(&head);
        out.truncate(out.len() - (Token::LEN_MAX - token.len()));
        Encoder { out, number: 0 }
    }

    /// Begins the options and payload of a message whose head the caller writes.
    #[inline]
    pub fn body(out: &'v mut Vec<u8>) -> Encoder<'v> {
        Encoder { out, number: 0 }
    }

    /// Writes an option; `number` must not be below that of the option before.
    #[inline]
    pub fn option(&mut self, number: u16, value: &[u8]) -> &mut Self {
        debug_assert!(
            number >= self.number,
            "option {number} behind option {}",
            self.number
        );
        let delta = number.wrapping_sub(self.number);
        if delta < 13 && value.len() < 13 {
            self.out.push((delta as u8) << 4 | value.len() as u8);
        } else {
            self.extended(delta, value.len());
        }
        self.out.extend_from_slice(value);
        self.number = number;
        self
    }

    /// Writes an option whose value is a number, in as few bytes as it takes: none for 0. RFC 7252 §3.2
    #[inline]
    pub fn uint(&mut self, number: u16, value: u32) -> &mut Self {
        let bytes = value.to_be_bytes();
        let zeros = value.leading_zeros() as usize / 8;
        self.option(number, bytes.get(zeros..).unwrap_or_default())
    }

    /// Writes options that are in no order. Those of one number stay in theirs.
    pub fn unordered(&mut self, options: &mut [(u16, &[u8])]) -> &mut Self {
        options.sort_by_key(|(number, _)| *number);
        for (number, value) in options {
            self.option(*number, value);
        }
        self
    }

    /// Ends the message; an empty payload writes nothing.
    #[inline]
    pub fn payload(self, payload: &[u8]) {
        if !payload.is_empty() {
            self.out.reserve(1 + payload.len());
            self.out.push(PAYLOAD_MARKER);
            self.out.extend_from_slice(payload);
        }
    }

    #[inline(never)]
    fn extended(&mut self, delta: u16, len: usize) {
        let (delta_bits, delta_bytes) = nibble(usize::from(delta));
        let (len_bits, len_bytes) = nibble(len);
        self.out.push(delta_bits << 4 | len_bits);
        for (bits, bytes) in [(delta_bits, delta_bytes), (len_bits, len_bytes)] {
            match bits {
                13 => self.out.push(bytes as u8),
                14 => self.out.extend_from_slice(&bytes.to_be_bytes()),
                _ => {}
            }
        }
    }
}

/// The four bits that encode `number`, and the value of the extension bytes. No value is longer than fits.
#[inline]
fn nibble(number: usize) -> (u8, u16) {
    match number {
        0..13 => (number as u8, 0),
        13..269 => (13, number as u16 - 13),
        _ => {
            debug_assert!(
                number - 269 <= usize::from(u16::MAX),
                "a value of {number} bytes"
            );
            (14, (number - 269).min(usize::from(u16::MAX)) as u16)
        }
    }
}
