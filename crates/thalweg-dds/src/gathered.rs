//! What the bridge has for the broker, gathered so that a call sends much.

use crate::frame::{self, Sample, ToBroker};

/// Bytes for the broker that are gathered before they are sent.
const GATHERED_BYTES: usize = 128 << 10;
/// Bytes of a payload that is sent from where it is.
const LONG_BYTES: usize = 64 << 10;

/// Frames for the broker: no more than enough of them, and one.
pub(crate) struct Gathered<'a> {
    pub frames: Vec<u8>,
    send: &'a dyn Fn(&[u8], &[u8]),
}

impl<'a> Gathered<'a> {
    /// Frames are sent with what follows them: the payload of the last one, or nothing.
    pub(crate) fn new(send: &'a dyn Fn(&[u8], &[u8])) -> Self {
        Gathered {
            frames: Vec::new(),
            send,
        }
    }

    pub(crate) fn send_if_enough(&mut self) {
        if self.frames.len() > GATHERED_BYTES {
            self.send();
        }
    }

    /// A sample, as a frame of this kind; false if a text is too long.
    pub(crate) fn publish<'s>(
        &mut self,
        kind: fn(Sample<'s>) -> ToBroker<'s>,
        sample: Sample<'s>,
    ) -> bool {
        if sample.payload.len() < LONG_BYTES {
            return frame::encode(&kind(sample), &mut self.frames);
        }
        let payload = sample.payload;
        let head = kind(Sample {
            payload: b"",
            ..sample
        });
        let is_encoded = frame::encode_before(&head, payload.len(), &mut self.frames);
        if is_encoded {
            (self.send)(&self.frames, payload);
            self.frames.clear();
        }
        is_encoded
    }

    /// Where there is no connection what is sent is lost.
    pub(crate) fn send(&mut self) {
        if !self.frames.is_empty() {
            (self.send)(&self.frames, b"");
            self.frames.clear();
        }
    }
}
