//! What a CoAP front is told beside what the kernel says.

use super::datagram::CoapFront;
use super::stream::CoapStreamFront;
use super::topics::TopicId;
use crate::deferred::{Deferred, Effect};
use crate::front::Variant;
use crate::link::Links;
use thalweg_kernel::LinkId;
use thalweg_model::Message;

/// Something that a front handles when it is woken.
pub enum Note {
    /// The kernel said it.
    Kernel(Effect),
    /// An answer to a request that went out as a message.
    Reply { call: u64, message: Message },
    /// A topic has more observers than it allows.
    Surplus(TopicId),
    /// A topic counts its observers, and those at its address were not counted before.
    Counts(TopicId),
}

impl From<Effect> for Note {
    fn from(effect: Effect) -> Self {
        Note::Kernel(effect)
    }
}

/// Tells the CoAP front of a link; nothing if there is none.
pub(super) fn tell(links: &mut Links, id: LinkId, note: Note) {
    if let Some(front) = Deferred::<CoapFront>::of(links, id) {
        front.note(note);
    } else if let Some(front) = Deferred::<CoapStreamFront>::of(links, id) {
        front.note(note);
    }
    links.wake(id);
}

/// Tells all CoAP fronts of the shard.
pub(super) fn tell_all(links: &mut Links, note: impl Fn() -> Note) {
    for id in links.ids() {
        tell(links, id, note());
    }
}
