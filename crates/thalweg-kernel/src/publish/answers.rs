//! Where answers to a message may go. A responder publishes with its own rights, and most cannot judge an address that they are
//! given, so the publisher of the request must have business there itself.

use super::draft::{Draft, Outcome, Published};
use crate::Kernel;
use crate::access::Permission;
use crate::ids::SessionId;
use thalweg_model::Time;

/// Below it are the addresses of calls that the broker itself has made for its clients; one that is made up leads nowhere.
const CALLS: &str = "$reply";

impl Kernel {
    /// Whether a session may ask for answers at an address: it may publish, receive or take there itself, or the queue there
    /// is its user's alone.
    pub fn may_be_answered_at(&self, id: SessionId, address: &str) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        let rights = [Permission::Publish, Permission::Receive, Permission::Take];
        let mut rights = rights.into_iter();
        rights.any(|right| session.access().allows(right, address))
            || address.starts_with(CALLS)
            || self.is_of_user(id, address)
    }

    /// Whether there is a queue at an address that only this session may use, or only another one of its user.
    fn is_of_user(&self, id: SessionId, address: &str) -> bool {
        let queue = self.queues.find(address);
        let owner = queue.and_then(|queue| self.queues.get(queue)?.owner());
        owner.is_some_and(|owner| {
            let user = |id| self.sessions.get(id).and_then(|session| session.user());
            owner == id || (user(id).is_some() && user(owner) == user(id))
        })
    }

    /// Whether answers to a message may go where it says, if it says so.
    #[inline]
    pub(super) fn may_be_answered(&self, id: SessionId, draft: &Draft<'_>) -> bool {
        let properties = draft.properties;
        let reply_to = properties.and_then(|properties| properties.reply_to.as_deref());
        reply_to.is_none_or(|reply_to| self.may_be_answered_at(id, reply_to))
    }

    /// A message that its publisher may not publish as it is.
    #[cold]
    pub(super) fn deny(&mut self, id: SessionId, draft: &Draft<'_>, now: Time) -> Published {
        self.books.received(draft.payload.len());
        self.books.refused();
        let session = self.sessions.get_mut(id);
        Published {
            outcome: Outcome::Denied,
            pause_until: session.and_then(|session| {
                session.counts.note_received();
                session.connection.pause(draft.payload.len(), now)
            }),
        }
    }
}
