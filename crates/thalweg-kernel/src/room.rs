//! Whether there is room for a message, before anything is done with it.

use crate::Kernel;
use crate::ids::SessionId;
use crate::publish::Draft;
use crate::route_cache::{NO_LOCAL, Receiver};
use crate::session::Pressure;
use thalweg_model::{Reliability, RetainOp, Time};

impl Kernel {
    /// Whether a message that several addresses get would have to be kept where there is no room for it.
    #[cold]
    pub(crate) fn must_refuse_any(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        others: &[String],
    ) -> bool {
        self.must_refuse(id, draft)
            || others
                .iter()
                .any(|address| self.must_refuse(id, &Draft { address, ..*draft }))
    }

    /// Whether the message would have to be kept where there is no room for it: on a disk that is full, or in memory that is
    /// short.
    #[cold]
    pub(crate) fn must_refuse(&mut self, id: SessionId, draft: &Draft<'_>) -> bool {
        let is_repeated = draft.reliability == Reliability::ExactlyOnce
            && self
                .sessions
                .get(id)
                .is_some_and(|session| session.held.contains(draft.ticket));
        !is_repeated
            && (self.env.journal_full() && self.must_be_written(id, draft)
                || self.env.drops_waiting() && self.must_wait_in_memory(id, draft))
    }

    /// Whether a copy would have to wait in memory, so far as is known here: what sessions and groups on other shards have
    /// room for is not.
    fn must_wait_in_memory(&mut self, id: SessionId, draft: &Draft<'_>) -> bool {
        let is_sure = draft.reliability > Reliability::AtMostOnce;
        let known = self.last_values.get(draft.address, Time::ZERO);
        if is_sure && draft.retain == RetainOp::Set && known.is_none() {
            return true;
        }
        let route = self.route(draft.address);
        let waits_on_disk = self.env.pressure() < Pressure::RefuseSessions;
        let waits = |receiver: &Receiver| {
            let is_own = receiver.flags & NO_LOCAL != 0 && receiver.session == id;
            let session = self.sessions.get(receiver.session);
            !is_own
                && receiver.reliability > Reliability::AtMostOnce
                && session.is_some_and(|session| {
                    !(session.can_take() || session.durable && waits_on_disk)
                })
        };
        is_sure && route.receivers.iter().any(waits)
            || route
                .queues
                .iter()
                .any(|queue| self.queue_must_wait(*queue, draft.address, is_sure && waits_on_disk))
            || is_sure
                && route
                    .groups
                    .iter()
                    .any(|group| self.group_must_wait(*group))
    }

    /// Whether the message would have to be written down.
    fn must_be_written(&mut self, id: SessionId, draft: &Draft<'_>) -> bool {
        let publisher = self.sessions.get(id);
        if draft.reliability == Reliability::AtMostOnce {
            return false;
        }
        if draft.retain != RetainOp::None {
            return true;
        }
        let exactly_once = draft.reliability == Reliability::ExactlyOnce;
        if exactly_once && publisher.is_some_and(|session| session.durable) {
            return true;
        }
        let route = self.route(draft.address);
        let durable = |receiver: &Receiver| {
            self.sessions
                .get(receiver.session)
                .is_some_and(|session| session.durable)
        };
        route.receivers.iter().any(durable)
            || route
                .groups
                .iter()
                .any(|group| self.group_number(*group) != 0)
            || route
                .queues
                .iter()
                .any(|queue| self.queues.get(*queue).is_some_and(|queue| queue.durable))
            || !route.onward().conditional.is_empty()
            || !route.shards.is_empty()
    }
}
