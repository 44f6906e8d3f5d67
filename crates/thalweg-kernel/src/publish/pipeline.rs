//! A publish: matching, and the form in which each receiver gets the message.

use crate::Kernel;
use crate::access::Permission;
use crate::effects::{Effects, Safety};
use crate::home;
use crate::ids::{SessionId, Ticket};
use crate::journal::durable::{AsValue, Written, is_kept};
use crate::publish::cause::Cause;
use crate::publish::draft::Admission;
pub use crate::publish::draft::{Draft, Outcome, Published};
use crate::publish::onward::Queued;
use crate::publish::subject::Subject;
use crate::queue::HOME;
use crate::remote::shards::ShardMessage;
use crate::remote::transfer::Destination;
use crate::routes::cached::{Goes, Route};
use crate::routes::store::Routes;
use crate::values::retained::Retained;
use std::rc::Rc;
use thalweg_model::{Message, Reliability, RetainOp, Time};
use thalweg_records::Record;

/// The address a session published to last, so that publishing there again costs a comparison.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    address: Vec<u8>,
    route: Option<Rc<Route>>,
}

impl Memo {
    /// The route of an address, if that is the one and its route still holds.
    #[inline(always)]
    pub(super) fn route_of(&self, address: &str, routes: &Routes) -> Option<Rc<Route>> {
        match &self.route {
            Some(route) if self.address == address.as_bytes() && routes.still_holds(route) => {
                Some(route.clone())
            }
            _ => None,
        }
    }
}

impl Kernel {
    /// Publishes for a session. An exactly-once message is held by its ticket until [`Kernel::release`].
    #[inline(always)]
    pub fn publish<E: Effects>(
        &mut self,
        id: SessionId,
        draft: Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Published {
        self.publish_admitted(id, &draft, Admission::ByRate, now, fx)
    }

    /// The same, with what a rate may do to it.
    #[inline(always)]
    pub(crate) fn publish_admitted<E: Effects>(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        admission: Admission,
        now: Time,
        fx: &mut E,
    ) -> Published {
        if !self.may_be_answered(id, draft) {
            return self.deny(id, draft, now);
        }
        match draft.stamp {
            None => self.publish_now(id, draft, admission, now, fx),
            Some(stamp) => self.publish_stamped(id, (draft, admission), stamp, now, fx),
        }
    }

    /// The same of a message that has no stamp, or whose stamp is new.
    #[inline(always)]
    pub(crate) fn publish_now<E: Effects>(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        admission: Admission,
        now: Time,
        fx: &mut E,
    ) -> Published {
        if self.env.is_short() && self.must_refuse(id, draft) {
            return Published {
                outcome: Outcome::Full,
                pause_until: None,
            };
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return Published {
                outcome: Outcome::Denied,
                pause_until: None,
            };
        };
        session.counts.note_received();
        self.books.received(draft.payload.len());
        let pause_until = session.connection.pause(draft.payload.len(), now);
        let memo = session.memo.route_of(draft.address, &self.routes);
        if draft.reliability == Reliability::ExactlyOnce {
            let (is_new, grew) = session.tickets.insert_growing(draft.ticket);
            if grew {
                self.weigh_session(id);
            }
            if !is_new {
                return self.repeated(id, draft.ticket, pause_until, fx);
            }
        }
        let ticket = draft.ticket;
        let exactly_once = draft.reliability == Reliability::ExactlyOnce;
        if draft.reliability == Reliability::AtMostOnce {
            // Not refused for full receivers, and its publisher does not wait for them.
            return Published {
                outcome: self.publish_unheld(id, memo, (draft, admission), now, fx),
                pause_until,
            };
        }
        self.sessions.crowd.begin(self.remote.questions.next());
        let outcome = self.publish_unheld(id, memo, (draft, admission), now, fx);
        let mut published = Published {
            outcome,
            pause_until,
        };
        if self.sessions.crowd.is_some() || !self.remote.paced.is_empty() {
            let route = self.route(draft.address);
            self.heed_crowd(id, &route, draft, &mut published, now);
        }
        if exactly_once && published.outcome.is_refused() {
            self.forget_ticket(id, ticket);
        }
        published
    }

    /// An exactly-once message came again that is not released yet.
    fn repeated<E: Effects>(
        &mut self,
        id: SessionId,
        ticket: Ticket,
        pause_until: Option<Time>,
        fx: &mut E,
    ) -> Published {
        self.books.repeated();
        // What was written down of it the first time may not be safe yet.
        if let Some(session) = self.sessions.get(id)
            && let (true, Some(link)) = (session.is_durable(), session.link())
        {
            fx.hold(link, self.journal.awaited());
        }
        Published {
            outcome: self.outcome_of_ticket(id, ticket),
            pause_until,
        }
    }

    /// Publishes to several addresses at once: a queue that several of them lead to gets one copy, with the draft's own
    /// address. Others get one copy for each address they want.
    pub fn publish_to_all<E: Effects>(
        &mut self,
        id: SessionId,
        draft: Draft<'_>,
        others: &[String],
        now: Time,
        fx: &mut E,
    ) -> Published {
        self.publish_to_all_admitted(id, (&draft, Admission::ByRate), others, now, fx)
    }

    /// The same, with what a rate may do to it.
    pub(crate) fn publish_to_all_admitted<E: Effects>(
        &mut self,
        id: SessionId,
        (draft, admission): (&Draft<'_>, Admission),
        others: &[String],
        now: Time,
        fx: &mut E,
    ) -> Published {
        if !self.may_be_answered(id, draft) {
            return self.deny(id, draft, now);
        }
        let said = (draft, admission);
        match draft.stamp {
            None => self.publish_to_all_now(id, said, others, now, fx),
            Some(stamp) => self.publish_stamped_to_all(id, said, others, stamp, now, fx),
        }
    }

    pub(crate) fn publish_to_all_now<E: Effects>(
        &mut self,
        id: SessionId,
        (draft, admission): (&Draft<'_>, Admission),
        others: &[String],
        now: Time,
        fx: &mut E,
    ) -> Published {
        let refused = |outcome| Published {
            outcome,
            pause_until: None,
        };
        if self.env.is_short() && self.must_refuse_any(id, draft, others) {
            return refused(Outcome::Full);
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return refused(Outcome::Denied);
        };
        session.counts.note_received();
        self.books.received(draft.payload.len());
        let pause_until = session.connection.pause(draft.payload.len(), now);
        self.sessions.crowd.begin(self.remote.questions.next());
        let mut routes = Vec::with_capacity(others.len());
        for address in std::iter::once(draft.address).chain(others.iter().map(String::as_str)) {
            match self.route_for(id, address) {
                Ok(route) => routes.push((address, route)),
                Err(outcome) => {
                    self.books.refused();
                    return Published {
                        outcome,
                        pause_until,
                    };
                }
            }
        }
        for (address, route) in &routes {
            if let Err(outcome) = self.admit(id, address, route, (draft, admission), now) {
                return Published {
                    outcome,
                    pause_until,
                };
            }
        }
        let all = self.route_of_all(&routes);
        let outcome = self.spread_fully(Some(id), &all, draft, now, fx);
        let mut published = Published {
            outcome,
            pause_until,
        };
        if self.sessions.crowd.is_some() || !self.remote.paced.is_empty() {
            self.heed_crowd(id, &all, draft, &mut published, now);
        }
        published
    }

    /// The publisher will not repeat the exactly-once message of this ticket. False if there was none.
    pub fn release<E: Effects>(&mut self, id: SessionId, ticket: Ticket, fx: &mut E) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let known = session.tickets.remove(ticket);
        if let (true, Some(link), queue) = (session.is_durable(), session.link(), session.uid()) {
            if known {
                let safety = self.session_safety(id);
                self.journal
                    .persist(&Record::Released { queue, ticket }, safety);
            }
            // Repeated, it may have been written down only just now.
            fx.hold(link, self.journal.awaited());
        }
        known
    }

    /// Publishes for the broker itself: no access rules, no ledger entry as received.
    pub fn publish_own<E: Effects>(&mut self, draft: Draft<'_>, now: Time, fx: &mut E) -> Outcome {
        self.books.own();
        let route = self.route(draft.address);
        self.spread_fully(None, &route, &draft, now, fx)
    }

    /// Publishes what a session has left behind.
    pub(crate) fn publish_left_behind<E: Effects>(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) {
        match self.route_for(id, draft.address) {
            Ok(route) if self.may_be_answered(id, draft) => {
                // Another publish may be under way that has thrown the session out.
                let crowd = std::mem::take(&mut self.sessions.crowd);
                // Its publisher is gone and could not publish it again, so it is never refused.
                self.spend_rate(id, draft.address, &route, draft.payload.len(), now);
                self.spread_fully(Some(id), &route, draft, now, fx);
                self.sessions.crowd = crowd;
            }
            _ => self.books.refused(),
        }
    }

    #[inline(always)]
    fn publish_unheld<E: Effects>(
        &mut self,
        id: SessionId,
        memo: Option<Rc<Route>>,
        (draft, admission): (&Draft<'_>, Admission),
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let route = match memo {
            Some(route) => route,
            None => match self.route_for(id, draft.address) {
                Ok(route) => route,
                Err(outcome) => {
                    self.books.refused();
                    return outcome;
                }
            },
        };
        self.spread(Some(id), &route, (draft, admission), now, fx)
    }

    /// The checks that hold for an address as long as the memo does, and its route.
    #[cold]
    pub(crate) fn route_for(&mut self, id: SessionId, address: &str) -> Result<Rc<Route>, Outcome> {
        if !self.is_address_within_limits(address) {
            return Err(Outcome::BadAddress);
        }
        match self.sessions.get(id) {
            Some(session)
                if session.access().allows(Permission::Publish, address)
                    && !self.is_internal(address) => {}
            _ => return Err(Outcome::Denied),
        }
        let route = self.route(address);
        if let Some(session) = self.sessions.get_mut(id) {
            session.memo.address.clear();
            session.memo.address.extend_from_slice(address.as_bytes());
            session.memo.route = Some(route.clone());
        }
        Ok(route)
    }

    /// What most messages need, without what few do.
    #[inline(always)]
    fn spread<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        (draft, admission): (&Draft<'_>, Admission),
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let is_simple = route.goes() == Goes::ToReceivers
            && draft.retain == RetainOp::None
            && draft.priority == 0
            && (draft.reliability == Reliability::AtMostOnce || !self.env.limits().journal);
        if !is_simple {
            return match route.goes() {
                Goes::ToQueue if draft.retain == RetainOp::None => {
                    self.spread_to_queue(publisher, route, draft, now, fx)
                }
                Goes::ToGroup if draft.retain == RetainOp::None => {
                    self.spread_to_group(publisher, route, draft, now, fx)
                }
                _ => {
                    if route.has_rate()
                        && let Some(id) = publisher
                        && let Err(outcome) =
                            self.admit(id, draft.address, route, (draft, admission), now)
                    {
                        return outcome;
                    }
                    self.spread_fully(publisher, route, draft, now, fx)
                }
            };
        }
        self.books.matched();
        self.spread_here(publisher, route, draft, &mut None, now, fx);
        if self.journal.has_references() {
            // It is queued for sessions that are away; at most once, so no acknowledgement waits for that.
            let cause = self.cause_of(publisher, route, draft);
            self.write_down(&cause, draft, AsValue::NONE, false, now);
        }
        Outcome::Accepted
    }

    /// The same as [`Kernel::spread_fully`], of a message that only one queue wants.
    #[inline(never)]
    fn spread_to_queue<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let Some(&queue) = route.queues().first() else {
            return self.spread_fully(publisher, route, draft, now, fx);
        };
        let before = self.journal.promises();
        let mut refused = false;
        let number = self.number_of(publisher);
        if !self.pass(queue, number, draft, now, fx) {
            let message = draft.keep(number, now);
            refused = self.accept(queue, &message, now, fx);
        }
        self.books.matched();
        if self.env.limits().journal {
            let cause = self.cause_from(publisher, number, route, draft);
            let has_more = self.agenda.is_due();
            self.write_down(&cause, draft, AsValue::NONE, has_more, now);
            if has_more {
                self.finish(&cause, draft, now, fx);
            }
            self.await_all(&cause, draft.reliability, before, fx);
        } else {
            self.end_command(now, fx);
        }
        if refused {
            Outcome::Refused
        } else {
            Outcome::Accepted
        }
    }

    #[inline(never)]
    pub(crate) fn spread_fully<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let on_terms = self.on_terms(route, draft);
        let draft = on_terms.as_ref().unwrap_or(draft);
        let cause = self.cause_of(publisher, route, draft);
        self.spread_caused(&cause, route, draft, None, now, fx)
    }

    /// The same of one whose cause is known, and that may be kept already.
    pub(crate) fn spread_caused<E: Effects>(
        &mut self,
        cause: &Cause,
        route: &Route,
        draft: &Draft<'_>,
        kept: Option<Message>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let before = self.journal.promises();
        let outcome = self.spread_message(cause, route, draft, kept, now, fx);
        if route.onward().has_copies() || self.agenda.is_due() {
            self.finish(cause, draft, now, fx);
        }
        if self.env.limits().journal {
            self.await_all(cause, draft.reliability, before, fx);
        }
        outcome
    }

    /// The same without what follows from it: that is on the agenda then, and what makes a repetition known is not written
    /// down yet if anything follows.
    pub(crate) fn spread_message<E: Effects>(
        &mut self,
        cause: &Cause,
        route: &Route,
        draft: &Draft<'_>,
        kept: Option<Message>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let mut kept = kept;
        let mut value = AsValue::NONE;
        let publisher = cause.publisher;
        if draft.retain != RetainOp::None {
            match self.retain(cause, draft, &mut kept, now) {
                Retained::Here(kept) => {
                    let is_last = is_kept(publisher, draft);
                    value = AsValue { is_last, kept };
                }
                Retained::Done | Retained::Elsewhere => {}
                // A full store costs the last value, not the message.
                Retained::Refused => self.books.retain_refused(),
            }
        }
        if route.is_kept() && (draft.retain == RetainOp::None || !self.env.limits().retain_enabled)
        {
            self.remember(publisher, draft, &mut kept, now);
        }
        let subject = route
            .is_conditional()
            .then(|| Subject::of_draft(draft, self.env.neutral()));
        let mut queued = Queued {
            wanted: route.wants_unconditionally(),
            refused: false,
        };
        if queued.wanted || route.filtered().is_some() {
            let said = (draft, subject.as_ref());
            queued.wanted |= self.spread_to_all(publisher, route, said, &mut kept, now, fx);
            if let Some(cell) = route.cell() {
                let message = self.kept(publisher, draft, &mut kept, now);
                self.offer_to_cell(cell, message, None, fx);
            }
            if !route.groups().is_empty() || !route.shards().is_empty() {
                let message = self.keep(publisher, draft, &mut kept, now);
                self.spread_beyond(route, &message, cause, now, fx);
            }
        }
        let has_queues = route.has_queues();
        if has_queues {
            let message = self.keep(publisher, draft, &mut kept, now);
            let of_queues =
                self.spread_to_queues(route, &message, subject.as_ref(), cause, now, fx);
            queued = Queued {
                wanted: queued.wanted || of_queues.wanted,
                ..of_queues
            };
        }
        let onward = route.onward();
        let has_more = onward.has_copies() || self.agenda.is_due();
        if self.env.limits().journal {
            self.write_down(cause, draft, value, has_more, now);
        }
        if let Some(message) = &kept {
            for address in &onward.redirects {
                queued.wanted |= self.spread_redirected(address, message, cause, now, fx);
            }
            for address in &onward.also {
                let properties = message.properties().cloned();
                queued.wanted |= self.spread_copy(address, message, properties, cause, now, fx);
            }
        }
        if !queued.wanted {
            self.books.unmatched();
            return Outcome::NoMatch;
        }
        self.books.matched();
        if queued.refused {
            Outcome::Refused
        } else {
            Outcome::Accepted
        }
    }

    /// Copies for groups, and for sessions of other shards.
    pub(crate) fn spread_beyond<E: Effects>(
        &mut self,
        route: &Route,
        message: &Message,
        cause: &Cause,
        now: Time,
        fx: &mut E,
    ) {
        for &group in route.groups() {
            self.publish_to_group(group, message, cause, now, fx);
        }
        for &shard in route.shards() {
            self.books.forwarded();
            self.journal.promise();
            let from = match cause.must_arrive {
                true => self.refer_transfer(
                    Destination::sessions_of(shard, self.env.shards()),
                    message.reliability(),
                ),
                false => (0, 0),
            };
            if cause.question != 0 {
                let has_queues = home(HOME, self.env.shards()).0 == shard;
                self.sessions.crowd.note_asked(has_queues);
            }
            let (message, only, safety) = (message.clone(), None, cause.safety);
            self.remote.send(
                crate::ShardId(shard),
                ShardMessage::Publish {
                    message,
                    safety,
                    from,
                    only,
                    question: cause.question,
                },
            );
        }
    }

    /// Writes down what a publish has changed so far. If it `has_more` to follow, that a repetition is known is written
    /// behind all of that.
    #[inline]
    pub(crate) fn write_down(
        &mut self,
        cause: &Cause,
        draft: &Draft<'_>,
        value: AsValue,
        has_more: bool,
        now: Time,
    ) {
        let held = if has_more {
            None
        } else {
            self.held_of(cause, draft)
        };
        if self.journal.has_references() || value.is_last {
            let written = Written {
                draft,
                publisher: cause.number,
                value,
                held,
            };
            self.persist_message(&written, cause.safety, now);
        } else if let Some(held) = held {
            self.persist_held(held, cause.safety);
        }
    }

    /// What queues have left to do after a publish, and then what [`Kernel::write_down`] has left for later.
    #[cold]
    fn finish<E: Effects>(&mut self, cause: &Cause, draft: &Draft<'_>, now: Time, fx: &mut E) {
        self.end_command(now, fx);
        if self.env.limits().journal
            && let Some(held) = self.held_of(cause, draft)
        {
            self.persist_held(held, cause.safety);
        }
    }

    /// How safe a publish must be before it is acknowledged.
    pub(crate) fn asked_safety(
        &self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
    ) -> Safety {
        match draft.reliability {
            Reliability::AtMostOnce => Safety::Lazy,
            _ => self.safety_of(publisher, route),
        }
    }

    /// The message in a form that can be kept; made once however many keep it.
    pub(crate) fn keep(
        &self,
        publisher: Option<SessionId>,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
    ) -> Message {
        self.kept(publisher, draft, kept, now).clone()
    }

    /// The same, only to look at it.
    pub(crate) fn kept<'k>(
        &self,
        publisher: Option<SessionId>,
        draft: &Draft<'_>,
        kept: &'k mut Option<Message>,
        now: Time,
    ) -> &'k Message {
        kept.get_or_insert_with(|| draft.keep(self.number_of(publisher), now))
    }
}
