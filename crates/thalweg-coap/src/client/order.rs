//! Requests that the peer takes in the order in which they were made, though several are under way.
//!
//! The end of a request, which is its last block or all of it, names the message before by [`option::AFTER`] as long as that
//! is not answered. A peer that has not taken the message before refuses by 4.12. Then the end is sent again when the one
//! before is over: each is refused once at most, and where much is lost they go one by one. Blocks before the last carry
//! nothing out and may come at any time; a Request-Tag (RFC 9175 §3) keeps them apart from those of other bodies.
//!
//! ```text
//!  blocks --the one before is said or over--> said --answer--> over, the next one's turn
//!     `--otherwise--> held <--------4.12--------'
//! ```

use thalweg_wire::Time;

use super::ClientSide;
use super::pending::Pending;
use super::send::Say;
use crate::slots::NONE;
use crate::{Code, Datagrams, Failure, RequestId};

/// When the end of a request may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    After(u16),
    Waits,
}

impl ClientSide {
    /// Puts a new request behind another one.
    pub(super) fn put_behind(&mut self, index: u32, before: Option<RequestId>) {
        let own = self.id_of(index);
        let Some(before) = before else { return };
        if self.get(before).is_none() {
            return;
        }
        if let Some(pending) = self.requests.get_mut(before.index) {
            pending.behind = Some(own);
        }
        if let Some(pending) = self.requests.get_mut(index) {
            pending.before = Some(before);
            pending.has_request_tag = pending.is_in_blocks();
        }
    }

    /// Whether what is to be said next of a request may leave.
    pub(super) fn turn_of(&self, index: u32, say: Say) -> Turn {
        let Some(pending) = self.requests.get(index) else {
            return Turn::Now;
        };
        let is_end = say == Say::Request && pending.part().0.is_none_or(|block| !block.more);
        match pending.before.and_then(|before| self.get(before)) {
            Some(before) if is_end && before.is_said && !pending.was_refused => {
                Turn::After(before.id)
            }
            Some(_) if is_end => Turn::Waits,
            _ => Turn::Now,
        }
    }

    /// Lets the end of a request wait for the one before.
    pub(super) fn hold(&mut self, index: u32) {
        if let Some(pending) = self.requests.get_mut(index) {
            (pending.is_held, pending.is_said) = (true, false);
            (pending.sending, pending.deadline) = (NONE, Time::NEVER);
        }
    }

    /// Notes what was sent of a request. If it was its end and the next one waits for that, returns the next one.
    pub(super) fn has_said(&mut self, index: u32) -> Option<u32> {
        let pending = self.requests.get_mut(index)?;
        pending.is_said = !pending.is_held && pending.part().0.is_none_or(|block| !block.more);
        let behind = pending.behind.filter(|_| pending.is_said)?;
        let waits = |next: &Pending| next.is_held && !next.was_refused;
        self.get(behind).is_some_and(waits).then_some(behind.index)
    }

    /// Whether a request was refused because the one before is missing. Then it goes again, or fails if that one has failed.
    pub(super) fn comes_too_soon(
        &mut self,
        index: u32,
        code: Code,
        now: Time,
        out: &mut Datagrams,
    ) -> bool {
        let Some(pending) = self.requests.get(index) else {
            return false;
        };
        if code != Code::PRECONDITION_FAILED || !pending.names_before {
            return false;
        }
        let is_before_over = pending.before.and_then(|before| self.get(before)).is_none();
        if pending.is_broken {
            self.fail(index, Failure::Order, now, out);
        } else if is_before_over {
            self.go_on(index, Say::Request, now, out);
        } else {
            self.hold(index);
            if let Some(pending) = self.requests.get_mut(index) {
                pending.was_refused = true;
            }
        }
        true
    }

    /// A request is over: the turn of the one behind it has come, if it was taken or never will be.
    pub(super) fn let_next(&mut self, over: &Pending, now: Time, out: &mut Datagrams) {
        let Some(behind) = over.behind else { return };
        if self.get(behind).is_none() {
            return;
        }
        let Some(next) = self.requests.get_mut(behind.index) else {
            return;
        };
        next.before = None;
        next.is_broken = !over.ends_well;
        match (next.is_broken, next.is_said, next.is_held) {
            // Its end has not left: the peer cannot have taken it.
            (true, false, _) => self.fail(behind.index, Failure::Order, now, out),
            (false, _, true) => self.go_on(behind.index, Say::Request, now, out),
            _ => {}
        }
    }

    fn get(&self, request: RequestId) -> Option<&Pending> {
        self.requests.get_of(request.index, request.generation)
    }
}
