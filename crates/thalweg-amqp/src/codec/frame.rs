//! Frames (§4.2.3): where they begin and end.
//!
//! ```text
//!  type | channel | size | payload | CE
//!   1        2        4     size      1   bytes
//! ```

use std::borrow::Cow;

use crate::PeerFault;

/// First bytes of a client (§4.2.2).
pub(crate) const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// The smallest frame size that may be negotiated: smaller ones could not carry a handshake.
pub(crate) const FRAME_MIN: u32 = 4096;

/// Bytes of a frame around its payload.
pub(crate) const OVERHEAD: u32 = 8;

pub(crate) const METHOD: u8 = 1;
pub(crate) const HEADER: u8 = 2;
pub(crate) const BODY: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 8;
pub(crate) const END: u8 = 0xCE;

/// A complete frame, not looked into yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'b> {
    pub(crate) kind: u8,
    pub(crate) channel: u16,
    pub(crate) payload: &'b [u8],
}

impl<'b> Frame<'b> {
    /// The frame at the start of `bytes`, or `None` if it is incomplete. A frame that is too large is a fault as soon
    /// as its size is seen, one of an unknown type as soon as its first byte is. As RabbitMQ does, a *payload* of
    /// `frame_max` bytes is let through: some clients forget the overhead.
    // As a call it would hand its answer over in memory, 4 % of a PUBLISH.
    #[inline(always)]
    pub(crate) fn split(bytes: &'b [u8], frame_max: u32) -> Result<Option<Frame<'b>>, PeerFault> {
        let Some((&[kind, c1, c2, s1, s2, s3, s4], rest)) = bytes.split_first_chunk::<7>() else {
            return Self::split_head(bytes);
        };
        if !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Err(unknown_kind(kind));
        }
        let size = u32::from_be_bytes([s1, s2, s3, s4]);
        if size > frame_max {
            return Err(too_large(kind, size, frame_max));
        }
        match rest.split_at_checked(size as usize) {
            Some((payload, [END, ..])) => Ok(Some(Frame {
                kind,
                channel: u16::from_be_bytes([c1, c2]),
                payload,
            })),
            Some((_, [end, ..])) => Err(wrong_end(kind, size, *end)),
            _ => Ok(None),
        }
    }

    #[cold]
    fn split_head(bytes: &'b [u8]) -> Result<Option<Frame<'b>>, PeerFault> {
        match bytes.first() {
            None | Some(&(METHOD | HEADER | BODY | HEARTBEAT)) => Ok(None),
            Some(kind) => Err(unknown_kind(*kind)),
        }
    }

    /// Bytes of the whole frame.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.payload.len() + OVERHEAD as usize
    }
}

#[cold]
fn unknown_kind(kind: u8) -> PeerFault {
    PeerFault::FRAME_TYPE.saying(Cow::Owned(format!("frame type {kind} is not defined")))
}

#[cold]
fn too_large(kind: u8, size: u32, frame_max: u32) -> PeerFault {
    let what =
        format!("type {kind}, payload of {size} bytes is above the {frame_max} of frame_max");
    PeerFault::FRAME_TOO_LARGE.saying(Cow::Owned(what))
}

#[cold]
fn wrong_end(kind: u8, size: u32, end: u8) -> PeerFault {
    let what = format!("type {kind}, payload of {size} bytes ends in {end:#04x} and not in 0xce");
    PeerFault::FRAME_END.saying(Cow::Owned(what))
}

/// Length of the whole frame (or protocol header) at the start of `bytes`, once it is known.
pub(crate) fn frame_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'A', ..] => Some(PROTOCOL_HEADER.len()),
        [_, _, _, s1, s2, s3, s4, ..] => {
            (u32::from_be_bytes([*s1, *s2, *s3, *s4]) as usize).checked_add(OVERHEAD as usize)
        }
        _ => None,
    }
}

/// Appends a frame around what `payload` appends.
#[inline]
pub(crate) fn put_frame(
    kind: u8,
    channel: u16,
    out: &mut Vec<u8>,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let [c1, c2] = channel.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&[kind, c1, c2, 0, 0, 0, 0]);
    payload(out);
    let size = (out.len() - start - 7) as u32;
    if let Some(place) = out.get_mut(start + 3..start + 7) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.push(END);
}

/// Appends a frame with this payload.
#[inline]
pub(crate) fn put_whole(kind: u8, channel: u16, payload: &[u8], out: &mut Vec<u8>) {
    let [c1, c2] = channel.to_be_bytes();
    let [s1, s2, s3, s4] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[kind, c1, c2, s1, s2, s3, s4]);
    out.extend_from_slice(payload);
    out.push(END);
}
