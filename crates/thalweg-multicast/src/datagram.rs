//! One datagram: its header, what is sealed in it, and why one is refused.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use thalweg_wire::Reader;

use crate::KEY_BYTES;

const MAGIC: [u8; 2] = *b"TM";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 20;
const TAG_BYTES: usize = 16;
/// Stands where no packet begins.
const NONE_BEGINS: u16 = u16::MAX;

/// Bytes of a datagram of data that are no piece of the stream.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 2 + TAG_BYTES;

/// Bytes of the largest datagram that UDP carries over IPv4.
pub(crate) const LARGEST: usize = 65_507;

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too short, or of another program or version.
    Foreign,
    /// Of another start of the sender, or of another sender: if the description has changed, a new receiver is needed.
    OtherEpoch,
    /// Not sealed with the key, or not what the layout says.
    Forged,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Foreign => "no datagram of a multicast group",
            Refused::OtherEpoch => "of another epoch",
            Refused::Forged => "not sealed with the group's key",
        })
    }
}

impl std::error::Error for Refused {}

/// What a datagram has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Data {
        number: u64,
        /// Where in the piece the first packet begins that begins in it.
        first: Option<usize>,
        piece: &'a [u8],
    },
    Heartbeat {
        /// The number that the next data will have.
        next: u64,
        /// The lowest number that can still be asked for.
        oldest: u64,
        /// Messages that were never sent.
        unsent: u64,
    },
}

impl Content<'_> {
    fn kind(&self) -> u8 {
        match self {
            Content::Data { .. } => 1,
            Content::Heartbeat { .. } => 2,
        }
    }
}

/// The key of an epoch.
pub(crate) struct Seal {
    key: LessSafeKey,
    epoch: u64,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({:016x})", self.epoch)
    }
}

impl Seal {
    pub(crate) fn new(key: &[u8; KEY_BYTES], epoch: u64) -> Self {
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key is as long as it must be");
        Seal {
            key: LessSafeKey::new(key),
            epoch,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A whole datagram. No two of a kind may have the same number: it is the nonce. That of data is in the content.
    pub(crate) fn seal(&self, content: &Content<'_>, number: u64) -> Vec<u8> {
        let kind = content.kind();
        let mut datagram = Vec::with_capacity(OVERHEAD_BYTES + 24);
        datagram.extend_from_slice(&MAGIC);
        datagram.extend_from_slice(&[VERSION, kind]);
        datagram.extend_from_slice(&self.epoch.to_be_bytes());
        datagram.extend_from_slice(&number.to_be_bytes());
        match content {
            Content::Data { first, piece, .. } => {
                let first = first.map_or(NONE_BEGINS, |at| at as u16);
                datagram.extend_from_slice(&first.to_be_bytes());
                datagram.extend_from_slice(piece);
            }
            Content::Heartbeat {
                next,
                oldest,
                unsent,
            } => {
                for field in [next, oldest, unsent] {
                    datagram.extend_from_slice(&field.to_be_bytes());
                }
            }
        }
        let (header, text) = datagram.split_at_mut(HEADER_BYTES);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(kind, number), Aad::from(&*header), text)
            .expect("a datagram is far from the longest text");
        datagram.extend_from_slice(tag.as_ref());
        datagram
    }

    /// Reads a datagram; `text` is where its text is put.
    pub(crate) fn open<'a>(
        &self,
        datagram: &[u8],
        text: &'a mut Vec<u8>,
    ) -> Result<Content<'a>, Refused> {
        let (header, sealed) = datagram
            .split_at_checked(HEADER_BYTES)
            .ok_or(Refused::Foreign)?;
        let mut fields = Reader::new(header);
        let mut read = || {
            let start = fields.take(3)?;
            (start == [MAGIC[0], MAGIC[1], VERSION]).then_some(())?;
            Some((fields.u8()?, fields.u64()?, fields.u64()?))
        };
        let (kind, epoch, number) = read().ok_or(Refused::Foreign)?;
        if epoch != self.epoch {
            return Err(Refused::OtherEpoch);
        }
        text.clear();
        text.extend_from_slice(sealed);
        let opened = self
            .key
            .open_in_place(nonce(kind, number), Aad::from(header), text);
        let text = opened.map_err(|_| Refused::Forged)?;
        content(kind, number, text).ok_or(Refused::Forged)
    }
}

fn nonce(kind: u8, number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[0] = kind;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// `None`: not as the layout says. The highest number is no data's, so that there is always a next one.
fn content(kind: u8, number: u64, text: &[u8]) -> Option<Content<'_>> {
    let mut fields = Reader::new(text);
    match kind {
        1 if number < u64::MAX => {
            let first = fields.u16()?;
            let piece = fields.rest();
            let first = (first != NONE_BEGINS).then_some(usize::from(first));
            let is_within = first.is_none_or(|at| at < piece.len());
            (is_within && !piece.is_empty()).then_some(Content::Data {
                number,
                first,
                piece,
            })
        }
        2 => {
            let (next, oldest, unsent) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let heartbeat = Content::Heartbeat {
                next,
                oldest,
                unsent,
            };
            (fields.rest().is_empty() && oldest <= next).then_some(heartbeat)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::new(&[7; KEY_BYTES], 0x0102_0304_0506_0708)
    }

    const DATA: Content<'static> = Content::Data {
        number: 5,
        first: Some(3),
        piece: b"abcdef",
    };

    #[test]
    fn what_is_sealed_is_opened_and_no_byte_can_be_changed() {
        let heartbeat = Content::Heartbeat {
            next: 9,
            oldest: 2,
            unsent: 7,
        };
        for (content, number) in [(DATA, 5), (heartbeat, 0)] {
            let sealed = seal().seal(&content, number);
            let mut text = Vec::new();
            assert_eq!(seal().open(&sealed, &mut text), Ok(content));
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                let expected = match at {
                    0..=2 => Refused::Foreign,
                    4..=11 => Refused::OtherEpoch,
                    _ => Refused::Forged,
                };
                assert_eq!(seal().open(&changed, &mut text), Err(expected), "{at}");
                assert!(seal().open(&sealed[..at], &mut text).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let sealed = seal().seal(&DATA, 5);
        assert_eq!(sealed.len(), OVERHEAD_BYTES + 6);
        let header = [
            b'T', b'M', 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 5,
        ];
        assert_eq!(sealed[..20], header);
        assert!(!sealed.windows(3).any(|window| window == b"abc"));
    }

    #[test]
    fn another_key_opens_nothing_and_layouts_are_held_to() {
        let other = Seal::new(&[8; KEY_BYTES], seal().epoch());
        let mut text = Vec::new();
        let sealed = other.seal(&DATA, 5);
        assert_eq!(seal().open(&sealed, &mut text), Err(Refused::Forged));
        for wrong in [
            Content::Data {
                number: 5,
                first: Some(6),
                piece: b"abcdef",
            },
            Content::Data {
                number: 5,
                first: None,
                piece: b"",
            },
            Content::Heartbeat {
                next: 1,
                oldest: 2,
                unsent: 0,
            },
        ] {
            let sealed = seal().seal(&wrong, 5);
            assert_eq!(seal().open(&sealed, &mut text), Err(Refused::Forged));
        }
    }
}
