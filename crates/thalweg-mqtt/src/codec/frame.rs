//! The fixed header (§2.1): where a packet ends.
//!
//! ```text
//!  bit 7 6 5 4 | 3 2 1 0
//!  packet type | flags
//!  Remaining Length, 1 to 4 bytes
//! ```

use crate::PeerFault;
use crate::varint::{self, Varint};

/// A complete packet, not looked into yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'b> {
    /// Packet type and flags.
    pub(crate) first: u8,
    pub(crate) whole: &'b [u8],
    /// Bytes after the fixed header.
    pub(crate) body: &'b [u8],
}

impl<'b> Frame<'b> {
    /// The packet at the start of `bytes`, or `None` if it is incomplete. A packet of more than `bytes_max` bytes is a
    /// fault as soon as its header is seen. Only MQTT 5 requires the shortest encoding of the length. [MQTT-1.5.5-1]
    #[inline]
    pub(crate) fn split(
        bytes: &'b [u8],
        bytes_max: u32,
        shortest: bool,
    ) -> Result<Option<Frame<'b>>, PeerFault> {
        let Some((&first, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        let (body_len, length_len) = match varint::decode(rest) {
            Varint::Value(value, len) => (value as usize, len),
            Varint::Incomplete => return Ok(None),
            Varint::Malformed => return Err(PeerFault::LENGTH_MALFORMED),
        };
        if length_len > 1 && shortest && varint::size(body_len as u32) != length_len {
            return Err(PeerFault::LENGTH_MALFORMED);
        }
        let len = 1 + length_len + body_len;
        if len > bytes_max as usize {
            return Err(PeerFault::PACKET_TOO_LARGE);
        }
        let Some(whole) = bytes.get(..len) else {
            return Ok(None);
        };
        let body = whole.get(1 + length_len..).unwrap_or_default();
        Ok(Some(Frame { first, whole, body }))
    }

    /// Whether the Remaining Length has its shortest encoding.
    pub(crate) fn length_is_shortest(&self) -> bool {
        self.whole.len() == 1 + varint::size(self.body.len() as u32) + self.body.len()
    }
}

/// Length of the whole packet at the start of `bytes`, once its header is complete.
pub(crate) fn frame_len(bytes: &[u8]) -> Option<usize> {
    match varint::decode(bytes.get(1..)?) {
        Varint::Value(value, len) => Some(1 + len + value as usize),
        _ => None,
    }
}

/// Bytes of a packet with so long a body.
#[inline]
pub(crate) const fn packet_size(body: usize) -> usize {
    if body < 0x80 {
        2 + body
    } else {
        1 + varint::size(body as u32) + body
    }
}

/// Appends a fixed header. `body` must not exceed [`varint::VARINT_MAX`].
#[inline]
pub(crate) fn put_header(first: u8, body: usize, out: &mut Vec<u8>) {
    out.push(first);
    varint::put(body as u32, out);
}
