//! A message whose frames arrive in more than one piece, or among frames of other channels.

use crate::codec::{HeaderStart, MethodId};
use crate::intake::peek_id;

/// The parts of one message, one behind the other.
///
/// The caller lends one to `handle_input`; an event that could not be borrowed from the input borrows from it. It need
/// not be kept between calls.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Payload of the method frame, payload of the header frame, body.
    bytes: Vec<u8>,
    method_len: usize,
    header_len: usize,
}

/// A message of which something is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    parts: Gathered,
    body_size: u64,
}

/// The missing part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Header,
    Body(u64),
    Nothing,
}

impl Gathering {
    pub(crate) fn begin(method: &[u8]) -> Self {
        let parts = Gathered {
            bytes: method.to_vec(),
            method_len: method.len(),
            header_len: 0,
        };
        Gathering {
            parts,
            body_size: 0,
        }
    }

    pub(crate) fn header(&mut self, payload: &[u8], start: &HeaderStart<'_>) {
        self.parts.bytes.extend_from_slice(payload);
        self.parts.header_len = payload.len();
        self.body_size = start.body_size;
    }

    pub(crate) fn body(&mut self, payload: &[u8]) {
        self.parts.bytes.extend_from_slice(payload);
    }

    pub(crate) fn missing(&self) -> Missing {
        if self.parts.header_len == 0 {
            return Missing::Header;
        }
        match self
            .body_size
            .saturating_sub(self.parts.body().len() as u64)
        {
            0 => Missing::Nothing,
            rest => Missing::Body(rest),
        }
    }

    /// The method that began it.
    pub(crate) fn method_id(&self) -> MethodId {
        peek_id(self.parts.method()).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.bytes.len()
    }

    pub(crate) fn finish(self) -> Gathered {
        self.parts
    }
}

impl Gathered {
    pub(crate) fn method(&self) -> &[u8] {
        self.bytes.get(..self.method_len).unwrap_or_default()
    }

    pub(crate) fn header(&self) -> &[u8] {
        self.bytes
            .get(self.method_len..self.method_len + self.header_len)
            .unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.bytes
            .get(self.method_len + self.header_len..)
            .unwrap_or_default()
    }
}
