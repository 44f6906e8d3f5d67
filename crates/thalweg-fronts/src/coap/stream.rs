//! CoAP over TCP, TLS and WebSocket: one connection. RFC 8323

use super::settings::{CoapCounts, CoapSettings};
use super::shared::Told;
use crate::LoginAnswer;
use crate::link::{Links, Step};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::{Span, Time};

/// One connection.
pub struct CoapStreamFront {
    settings: Arc<CoapSettings>,
}

impl CoapStreamFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is what
    /// peers may do who are nobody in particular; `None` asks the server about them.
    pub fn new(settings: Arc<CoapSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        let _ = (nonce, anonymous);
        CoapStreamFront { settings }
    }

    /// What the peer did wrong, if that is why it ended.
    pub fn fault(&self) -> Option<&str> {
        None
    }

    /// Whether the peer may send requests.
    pub fn is_connected(&self) -> bool {
        false
    }

    pub(crate) fn holds_input(&self) -> bool {
        false
    }

    pub(crate) fn silence_max(&self) -> Option<Span> {
        self.settings.silence_max
    }

    pub(crate) fn on_silence(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    pub(super) fn counts(&self) -> CoapCounts {
        CoapCounts::default()
    }

    pub(super) fn poll_timeout(&self) -> Time {
        Time::NEVER
    }

    pub(crate) fn step(links: &mut Links, id: LinkId, bytes: &[u8], now: Time, kernel: &mut Kernel) -> Step {
        let _ = (links, id, bytes, now, kernel);
        Step::Hold
    }

    pub(crate) fn on_login(links: &mut Links, id: LinkId, answer: LoginAnswer, now: Time, kernel: &mut Kernel) {
        let _ = (links, id, answer, now, kernel);
    }

    pub(super) fn on_timeout(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let _ = (links, id, now, kernel);
    }

    pub(super) fn on_told(
        links: &mut Links,
        id: LinkId,
        told: impl Iterator<Item = Told>,
        changed: impl Iterator<Item = u64>,
        now: Time,
        kernel: &mut Kernel,
    ) {
        told.for_each(drop);
        changed.for_each(drop);
        let _ = (links, id, now, kernel);
    }

    pub(super) fn close(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        let _ = (links, id, now, kernel);
    }
}
