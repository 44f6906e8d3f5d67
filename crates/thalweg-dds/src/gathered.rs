//! What the bridge has for the broker, gathered so that a call sends much.

/// Bytes for the broker that are gathered before they are sent.
const GATHERED_BYTES: usize = 128 << 10;

/// Frames for the broker: no more than enough of them, and one.
pub(crate) struct Gathered<'a> {
    pub frames: Vec<u8>,
    send: &'a dyn Fn(&[u8]),
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(send: &'a dyn Fn(&[u8])) -> Self {
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

    /// Where there is no connection what is sent is lost.
    pub(crate) fn send(&mut self) {
        if !self.frames.is_empty() {
            (self.send)(&self.frames);
            self.frames.clear();
            // One long frame takes no memory for good.
            self.frames.shrink_to(2 * GATHERED_BYTES);
        }
    }
}
