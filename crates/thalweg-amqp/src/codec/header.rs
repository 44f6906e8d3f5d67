//! Content headers (§4.2.6.1), and content as frames (§4.2.6).
//!
//! ```text
//!  class 60 | weight 0 | body size | property flags | properties
//!     2          2           8            2          bytes
//! ```

use std::fmt;

use super::frame::{BODY, END, FRAME_MIN, HEADER, OVERHEAD, put_whole};
use super::{BasicProperties, Malformed};

/// Id of class `basic`, the only one with content.
const BASIC: [u8; 2] = [0, 60];

/// The properties of a message that is sent.
#[derive(Clone, Copy, Debug)]
pub enum ContentHeader<'a> {
    /// A content header as it was received (`Event::Publish::header`). Its body size is written anew.
    Raw(&'a [u8]),
    /// Properties that are encoded anew.
    Properties(&'a BasicProperties<'a>),
}

/// A content header does not fit into a frame of the peer; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes of the frame that it would need.
    pub frame_bytes: usize,
    /// The peer's largest frame.
    pub frame_bytes_max: u32,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge {
            frame_bytes,
            frame_bytes_max,
        } = self;
        write!(
            f,
            "a content header of {frame_bytes} bytes exceeds the frames of {frame_bytes_max} that the peer takes"
        )
    }
}

impl std::error::Error for TooLarge {}

/// The fixed part of a content header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderStart<'b> {
    pub(crate) class: u16,
    pub(crate) weight: u16,
    pub(crate) body_size: u64,
    /// Property flags and properties.
    properties: &'b [u8],
}

impl<'b> HeaderStart<'b> {
    /// Splits the payload of a header frame.
    #[inline]
    pub(crate) fn split(payload: &'b [u8]) -> Option<Self> {
        let (&[c1, c2, w1, w2, s1, s2, s3, s4, s5, s6, s7, s8], properties) =
            payload.split_first_chunk::<12>()?;
        Some(HeaderStart {
            class: u16::from_be_bytes([c1, c2]),
            weight: u16::from_be_bytes([w1, w2]),
            body_size: u64::from_be_bytes([s1, s2, s3, s4, s5, s6, s7, s8]),
            properties,
        })
    }

    /// Whether it belongs to a message.
    #[inline]
    pub(crate) fn is_basic(&self) -> bool {
        self.class.to_be_bytes() == BASIC && self.weight == 0
    }

    #[inline]
    pub(crate) fn properties(&self) -> Result<BasicProperties<'b>, Malformed> {
        BasicProperties::decode(self.properties)
    }

    /// As [`BasicProperties::fill`].
    #[inline]
    pub(crate) fn fill(&self, properties: &mut BasicProperties<'b>) -> Result<(), Malformed> {
        properties.fill(self.properties)
    }
}

/// Bytes of body that fit into one frame.
#[inline]
fn body_bytes_max(frame_max: u32) -> usize {
    (frame_max.max(FRAME_MIN) - OVERHEAD) as usize
}

/// Appends header and body frames. `Err`: `out` is cut back to `start`, where the method frame begins.
#[inline]
pub(crate) fn put_content(
    channel: u16,
    header: ContentHeader<'_>,
    payload: &[u8],
    frame_max: u32,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), TooLarge> {
    let body_max = body_bytes_max(frame_max);
    let header_at = out.len();
    match header {
        // Without properties: what is too short to be a header.
        ContentHeader::Raw(raw) => {
            let properties = raw.get(12..).filter(|p| p.len() >= 2).unwrap_or(&[0, 0]);
            out.reserve(FIXED + properties.len() + payload.len() + 2 * OVERHEAD as usize);
            put_header_start(channel, properties.len(), payload.len(), out);
            out.extend_from_slice(properties);
        }
        ContentHeader::Properties(properties) => {
            put_header_start(channel, 0, payload.len(), out);
            properties.encode(out);
            let size = (out.len() - header_at - 7) as u32;
            if let Some(place) = out.get_mut(header_at + 3..header_at + 7) {
                place.copy_from_slice(&size.to_be_bytes());
            }
        }
    }
    let frame_bytes = out.len() + 1 - header_at;
    if frame_bytes > body_max + OVERHEAD as usize {
        out.truncate(start);
        return Err(TooLarge {
            frame_bytes,
            frame_bytes_max: frame_max,
        });
    }
    if payload.is_empty() || payload.len() > body_max {
        out.push(END);
        // No frame at all for an empty body.
        for piece in payload.chunks(body_max) {
            put_whole(BODY, channel, piece, out);
        }
        return Ok(());
    }
    // Most bodies are one frame, whose head is appended with the end of the one before.
    let [c1, c2] = channel.to_be_bytes();
    let [s1, s2, s3, s4] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[END, BODY, c1, c2, s1, s2, s3, s4]);
    out.extend_from_slice(payload);
    out.push(END);
    Ok(())
}

/// Bytes of a header frame before its properties.
const FIXED: usize = 19;

/// Appends a header frame up to its properties.
#[inline]
fn put_header_start(channel: u16, properties_len: usize, body_len: usize, out: &mut Vec<u8>) {
    let [c1, c2] = channel.to_be_bytes();
    let [s1, s2, s3, s4] = (12 + properties_len as u32).to_be_bytes();
    let [k1, k2] = BASIC;
    let [b1, b2, b3, b4, b5, b6, b7, b8] = (body_len as u64).to_be_bytes();
    let fixed: [u8; FIXED] = [
        HEADER, c1, c2, s1, s2, s3, s4, k1, k2, 0, 0, b1, b2, b3, b4, b5, b6, b7, b8,
    ];
    out.extend_from_slice(&fixed);
}
