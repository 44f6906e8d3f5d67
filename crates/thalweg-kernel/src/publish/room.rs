//! Whether there is room for a message: before it is processed, and in the queue of a session.

use crate::Kernel;
use crate::books::Delta;
use crate::ids::SessionId;
use crate::journal::durable::Put;
use crate::ledger::DropReason;
use crate::policy::Terms;
use crate::publish::pipeline::Draft;
use crate::routes::cached::{NO_LOCAL, Receiver};
use crate::session::{Oldest, Pressure};
use thalweg_model::{Message, Reliability, RetainOp, Time};

/// Bytes of one priority, sent at most once, that may wait for an output.
const PRIORITY_BYTES_MAX: usize = 256 << 10;

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
                .is_some_and(|session| session.tickets.contains(draft.ticket));
        !is_repeated
            && (self.env.journal_full() && self.must_be_written(id, draft)
                || self.env.drops_waiting() && self.must_wait_in_memory(id, draft))
    }

    /// Books a message that its front could give no address, and that goes nowhere.
    pub fn refuse(&mut self, id: SessionId, payload_len: usize) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.counts.note_received();
            self.books.received(payload_len);
            self.books.refused();
        }
    }

    /// Whether a copy would have to wait in memory, so far as is known here: what sessions and groups on other shards have
    /// room for is not.
    fn must_wait_in_memory(&mut self, id: SessionId, draft: &Draft<'_>) -> bool {
        let is_sure = draft.reliability > Reliability::AtMostOnce;
        let known = self.values.retained(draft.address, Time::ZERO);
        if is_sure && draft.retain == RetainOp::Set && known.is_none() {
            return true;
        }
        let route = self.route(draft.address);
        let waits_on_disk = self.env.pressure() < Pressure::RefuseSessions;
        // One that a policy raises is refused no more than its publisher asked for, and goes where surer ones go.
        let is_raised = route.terms().is_some_and(Terms::is_sure) && !self.env.journal_full();
        let may_go_to_disk = (is_sure || is_raised) && waits_on_disk;
        let waits = |receiver: &Receiver| {
            let is_own = receiver.flags & NO_LOCAL != 0 && receiver.session == id;
            let session = self.sessions.get(receiver.session);
            !is_own
                && receiver.reliability > Reliability::AtMostOnce
                && session.is_some_and(|session| {
                    !(session.can_take() || session.is_durable() && waits_on_disk)
                })
        };
        is_sure && route.any_receivers().any(waits)
            || route
                .queues()
                .iter()
                .any(|queue| self.queue_must_wait(*queue, draft.address, may_go_to_disk))
            || is_sure
                && route
                    .groups()
                    .iter()
                    .any(|group| self.group_must_wait(*group, waits_on_disk))
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
        if exactly_once && publisher.is_some_and(|session| session.is_durable()) {
            return true;
        }
        let route = self.route(draft.address);
        let durable = |receiver: &Receiver| {
            self.sessions
                .get(receiver.session)
                .is_some_and(|session| session.is_durable())
        };
        route.any_receivers().any(durable)
            || route
                .groups()
                .iter()
                .any(|group| self.group_number(*group) != 0)
            || route.queues().iter().any(|queue| {
                self.queues
                    .get(*queue)
                    .is_some_and(|queue| queue.is_durable())
            })
            || !route.onward().conditional.is_empty()
            || !route.shards().is_empty()
    }
}

/// Room in the queue of one session.
impl Kernel {
    /// Whether what is sent at most once waits for it while its output is full.
    pub(crate) fn waits_at_most_once(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| {
            session.connection.keeps_at_most_once() && session.link().is_some()
        })
    }

    /// Whether a copy at most once finds no room among those of its priority that wait for its receiver's output. For sessions
    /// that have a mark of their own that counts.
    pub(crate) fn waits_too_long(&self, id: SessionId, message: &Message) -> bool {
        let session = self.sessions.get(id);
        session.is_some_and(|session| {
            let before = session.backlog.memory_before(message);
            let is_much = before > 0 && before + message.bytes() > PRIORITY_BYTES_MAX;
            session.link().is_some()
                && session.connection.keeps_at_most_once()
                && session.connection.high_water() == 0
                && (is_much || session.backlog.is_behind_disk(message))
        })
    }

    pub(crate) fn congest(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.connection.congest();
            self.output_changed(id);
        }
    }

    pub(crate) fn is_queue_full(&self, id: SessionId, bytes: usize) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| session.is_full(bytes, self.env.limits()))
    }

    pub(crate) fn session_bytes_max(&self, id: SessionId) -> usize {
        self.env.limits().session_bytes_max(
            self.sessions
                .get(id)
                .is_some_and(|session| session.is_durable()),
        )
    }

    /// Makes room in a full queue for a newcomer; false if there is nothing to drop for it.
    pub(crate) fn drop_oldest(&mut self, id: SessionId, newcomer: &Message) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        match session.backlog.drop_oldest(newcomer) {
            None => return false,
            Some(Oldest::InMemory(oldest)) => {
                self.books.left(Delta::copy(oldest.message.bytes()));
                self.book_drop(Some(id), oldest.message.address(), DropReason::QueueFull);
                self.persist_removed(id, &oldest);
            }
            Some(Oldest::OnDisk(dropped)) => {
                self.books.left(Delta::copy(dropped.memory));
                match dropped.message {
                    Some(message) => {
                        self.book_drop(Some(id), message.address(), DropReason::QueueFull);
                    }
                    None => self.book_drop_on_disk(Some(id), dropped.place, DropReason::QueueFull),
                }
                self.persist_put(id, dropped.serial, Reliability::AtLeastOnce, Put::Done);
            }
        }
        true
    }
}
