//! Frames, and the messages that they make up.
//!
//! ```text
//!  flags | length, 1 octet, or 8 if LONG | body
//! ```

use crate::PeerFault;

pub(crate) const MORE: u8 = 1;
pub(crate) const LONG: u8 = 2;
pub(crate) const COMMAND: u8 = 4;

/// Header before a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) flags: u8,
    /// Octets of the head.
    pub(crate) len: usize,
    /// Octets of the body, at most 2^63-1.
    pub(crate) body_len: u64,
}

impl Head {
    /// The head at the start of `bytes`; `None` if it is incomplete.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Head>, PeerFault> {
        let Some((&flags, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        // Bits 7 to 3 are reserved; MORE "SHALL be zero on command frames". [37#Framing]
        if flags > (COMMAND | LONG) || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(PeerFault::FRAME_FLAGS);
        }
        let (len, body_len) = if flags & LONG == 0 {
            (2, rest.first().map(|len| u64::from(*len)))
        } else {
            (9, rest.first_chunk().map(|len| u64::from_be_bytes(*len)))
        };
        match body_len {
            Some(body_len) if body_len > i64::MAX as u64 => Err(PeerFault::FRAME_LENGTH),
            Some(body_len) => Ok(Some(Head {
                flags,
                len,
                body_len,
            })),
            None => Ok(None),
        }
    }

    #[inline]
    pub(crate) fn is_command(self) -> bool {
        self.flags & COMMAND != 0
    }

    #[inline]
    pub(crate) fn has_more(self) -> bool {
        self.flags & MORE != 0
    }

    /// Octets of head and body.
    #[inline]
    pub(crate) fn frame_len(self) -> u64 {
        self.len as u64 + self.body_len
    }
}

/// Appends a head in its shortest form; `flags` without LONG.
#[inline]
pub(crate) fn put_head(flags: u8, body_len: usize, out: &mut Vec<u8>) {
    match u8::try_from(body_len) {
        Ok(short) => out.extend_from_slice(&[flags, short]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body_len as u64).to_be_bytes());
        }
    }
}

/// A whole message, one frame or more, as it lies on a connection that is not encrypted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message<'b> {
    raw: &'b [u8],
}

impl<'b> Message<'b> {
    /// `raw` must be whole message frames, all but the last with MORE.
    #[inline]
    pub(crate) const fn new(raw: &'b [u8]) -> Self {
        Message { raw }
    }

    /// The message whose [`Message::raw`] this is. Other bytes give a message of whatever frames they begin with.
    #[inline]
    pub const fn from_raw(raw: &'b [u8]) -> Self {
        Message { raw }
    }

    /// The frames with their heads: what every unencrypted connection of either version writes for this message.
    #[inline]
    pub const fn raw(self) -> &'b [u8] {
        self.raw
    }

    /// Whether there is one frame only.
    #[inline]
    pub fn is_single(self) -> bool {
        self.raw.first().is_none_or(|flags| flags & MORE == 0)
    }

    /// The bodies of the frames, in order.
    #[inline]
    pub const fn frames(self) -> Frames<'b> {
        Frames { rest: self.raw }
    }
}

impl std::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")?;
        let bodies = self.frames().map(|body| body.escape_ascii().to_string());
        f.debug_list().entries(bodies).finish()
    }
}

/// The bodies of a message's frames.
#[derive(Clone, Debug)]
pub struct Frames<'b> {
    rest: &'b [u8],
}

impl<'b> Frames<'b> {
    /// The frames that have not come out yet, with their heads.
    #[inline]
    pub const fn rest(&self) -> Message<'b> {
        Message { raw: self.rest }
    }
}

impl<'b> Iterator for Frames<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let head = Head::decode(self.rest).ok()??;
        let (frame, rest) = self.rest.split_at_checked(head.frame_len() as usize)?;
        self.rest = rest;
        frame.get(head.len..)
    }
}
