//! AMQP 0-9-1. Concept map: connection = session that ends with it, virtual host = tenant, channel = line, queue and
//! exchange = themselves, delivery tag = tag of the line, confirm = written behind the publish and held with it.

mod settings;

use crate::LoginAnswer;
use crate::link::{Front, Links, Step};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Kernel, LinkId};
use thalweg_model::{Span, Time};

pub use settings::AmqpSettings;

/// One AMQP connection.
pub struct AmqpFront {
    settings: Arc<AmqpSettings>,
    /// Makes names that nobody else has.
    nonce: u64,
    /// What a peer that offers no credentials may do, if it may come in.
    anonymous: Option<Access>,
    /// Why the connection ended, for logs.
    fault: Option<Box<str>>,
}

impl AmqpFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is
    /// what peers without credentials may do; `None` asks the server about everybody.
    pub fn new(settings: Arc<AmqpSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        AmqpFront { settings, nonce, anonymous, fault: None }
    }

    /// What the peer did wrong, if that is why it ended.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether `connection.open` has been answered.
    pub fn is_connected(&self) -> bool {
        false
    }

    /// Whether input must wait for a verdict.
    pub(crate) fn holds_input(&self) -> bool {
        false
    }

    pub(crate) fn of(links: &mut Links, id: LinkId) -> Option<&mut AmqpFront> {
        match &mut links.get_mut(id)?.front {
            Front::Amqp(front) => Some(front),
            _ => None,
        }
    }

    /// Handles the next frame.
    pub(crate) fn step(links: &mut Links, id: LinkId, _bytes: &[u8], _now: Time, _kernel: &mut Kernel) -> Step {
        let Some(front) = AmqpFront::of(links, id) else { return Step::Hold };
        let _ = (&front.settings, front.nonce, &front.anonymous);
        Step::Hold
    }

    /// The input that was there has been handled.
    pub(crate) fn on_driven(_links: &mut Links, _id: LinkId) {}

    pub(crate) fn on_login(_links: &mut Links, _id: LinkId, _answer: LoginAnswer, _now: Time, _kernel: &mut Kernel) {}

    pub(crate) fn silence_max(&self) -> Option<Span> {
        None
    }

    pub(crate) fn on_silence(&mut self, _out: &mut Vec<u8>) {}

    pub(crate) fn idle_write(&self) -> Option<Span> {
        None
    }

    pub(crate) fn on_idle(_links: &mut Links, _id: LinkId) {}

    pub(crate) fn on_blocked(_links: &mut Links, _id: LinkId, _why: Option<&str>) {}

    pub(crate) fn disconnect(&mut self, _why: CloseReason, _out: &mut Vec<u8>) {}
}
