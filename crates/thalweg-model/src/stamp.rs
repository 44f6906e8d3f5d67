//! Stamps: a message's publisher and sequence number, by which repetitions are recognized on every path.

use std::fmt;
use std::str::FromStr;

/// The name of the user property, header or argument that carries a stamp as text, in every protocol that has such.
pub const STAMP_PROPERTY: &str = "x-stamp";

/// CoAP's option that carries a stamp as bytes ([`Stamp::to_bytes`]), in requests and notifications: of the range for
/// experiments (RFC 7252 §12.2), elective, safe to forward, no part of a cache key (RFC 7252 §5.4.6).
pub const STAMP_OPTION: u16 = 65_020;

/// How a broker announces that it recognizes repetitions by their stamps: a user property of MQTT's CONNACK, a server
/// property of AMQP, a header of STOMP's CONNECTED, each with the value `1`; in CoAP the resource type of a link in
/// `/.well-known/core`.
pub const STAMPS_ANNOUNCEMENT: &str = "x-stamps";

/// Names one publish of one publisher, for ever. A publisher that repeats a publish, on the same connection or over
/// another protocol, repeats its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The publisher: a random number that it keeps as long as it has unacknowledged messages.
    pub publisher: u64,
    /// Counts the publisher's messages, from 1 on.
    pub sequence: u64,
}

/// A text that is not a message id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampError;

impl fmt::Display for StampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a stamp: `<publisher, hexadecimal>-<sequence, hexadecimal>`")
    }
}

impl std::error::Error for StampError {}

impl fmt::Display for Stamp {
    /// `9f2c41d07be83a55-12d`: both in hexadecimal digits without leading zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.publisher, self.sequence)
    }
}

impl FromStr for Stamp {
    type Err = StampError;

    fn from_str(text: &str) -> Result<Self, StampError> {
        let (publisher, sequence) = text.split_once('-').ok_or(StampError)?;
        let number = |digits: &str| match digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            true => u64::from_str_radix(digits, 16).map_err(|_| StampError),
            false => Err(StampError),
        };
        Ok(Stamp {
            publisher: number(publisher)?,
            sequence: number(sequence)?,
        })
    }
}

impl Stamp {
    /// Its text, as [`fmt::Display`] gives it, in a buffer: for those who write one with every message.
    pub fn write_text(self, buffer: &mut [u8; Stamp::TEXT_BYTES_MAX]) -> &str {
        let mut len = 0;
        for (number, separator) in [(self.publisher, b'-'), (self.sequence, 0)] {
            let digits = (64 - (number | 1).leading_zeros()).div_ceil(4);
            for at in (0..digits).rev() {
                buffer[len] = b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
                len += 1;
            }
            if separator != 0 {
                buffer[len] = separator;
                len += 1;
            }
        }
        std::str::from_utf8(&buffer[..len]).unwrap_or_default()
    }

    /// The longest text: two numbers of sixteen digits, and a dash.
    pub const TEXT_BYTES_MAX: usize = 33;

    /// Its bytes, and how many of them count: the publisher in 8, then the sequence without leading zero bytes, both
    /// big-endian.
    pub fn to_bytes(self) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.publisher.to_be_bytes());
        let zeros = (self.sequence.leading_zeros() / 8) as usize;
        let sequence = &self.sequence.to_be_bytes()[zeros..];
        bytes[8..8 + sequence.len()].copy_from_slice(sequence);
        (bytes, 8 + sequence.len())
    }

    /// Reads [`Stamp::to_bytes`]: 8 to 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Stamp, StampError> {
        let (publisher, rest) = bytes.split_first_chunk::<8>().ok_or(StampError)?;
        if rest.len() > 8 {
            return Err(StampError);
        }
        let mut sequence = [0; 8];
        sequence[8 - rest.len()..].copy_from_slice(rest);
        Ok(Stamp {
            publisher: u64::from_be_bytes(*publisher),
            sequence: u64::from_be_bytes(sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_as_text_and_as_bytes() {
        for publisher in [0, 1, 0x9f2c_41d0_7be8_3a55, u64::MAX] {
            for sequence in [0, 1, 255, 256, 0x12_3456, u64::MAX] {
                let stamp = Stamp {
                    publisher,
                    sequence,
                };
                assert_eq!(stamp.to_string().parse(), Ok(stamp));
                assert_eq!(stamp.write_text(&mut [0; 33]), stamp.to_string());
                let (bytes, len) = stamp.to_bytes();
                assert_eq!(Stamp::from_bytes(&bytes[..len]), Ok(stamp));
            }
        }
    }

    #[test]
    fn what_is_no_stamp_is_refused() {
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "g-1",
            "11112222333344445-1",
            " 1-2",
            "1-2 ",
        ] {
            assert_eq!(text.parse::<Stamp>(), Err(StampError), "{text}");
        }
        assert_eq!(Stamp::from_bytes(&[0; 7]), Err(StampError));
        assert_eq!(Stamp::from_bytes(&[0; 17]), Err(StampError));
    }
}
