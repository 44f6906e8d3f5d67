//! Rates that policies give each subscriber: copies beyond them are dropped, or held back until there is room.
//!
//! A rate is judged where a copy leaves for its receiver, so that what has waited for other reasons does not come faster
//! than what is published now.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::Effects;
use crate::entry::Entry;
use crate::ids::SessionId;
use crate::journal::durable::Put;
use crate::ledger::DropReason;
use crate::policy::{Exceed, Rate, Terms};
use crate::publish::draft::Draft;
use crate::rate::TokenBucket;
use crate::routes::cached::{NO_LOCAL, Receiver};
use crate::session::{Records, Rest};
use crate::timers::TimerKey;
use std::cell::Cell;
use thalweg_model::{Message, Reliability, Span, Time};

/// What a copy takes of the rate of its receiver.
#[derive(Clone, Copy)]
pub(crate) struct Price {
    rate: Rate,
    bytes: usize,
    /// Until when it waits, if it does.
    pub rest: Option<Rest>,
}

/// What a message that waits in a queue, in a group or as a value takes of its receiver's rate. Nothing of that is
/// dropped, so a receiver that has no room for it is passed over for now, as if without credit.
pub(crate) struct Toll {
    rate: Rate,
    bytes: usize,
    now: Time,
    /// When the first of those has room that were passed over.
    free_at: Cell<Time>,
}

impl Toll {
    /// When the first of those that were passed over has room for the message; [`Time::NEVER`] if none was.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at.get()
    }
}

impl Kernel {
    /// What a message takes; nothing if its receivers have no rate.
    #[inline]
    pub(crate) fn toll(&mut self, message: &Message, now: Time) -> Option<Toll> {
        match self.env.rates_subscribers() {
            false => None,
            true => self.toll_at(message.address(), message.payload().len(), now),
        }
    }

    #[cold]
    fn toll_at(&mut self, address: &str, bytes: usize, now: Time) -> Option<Toll> {
        let route = self.route(address);
        let rate = *route.terms().and_then(Terms::rate_of_subscribers)?;
        let free_at = Cell::new(Time::NEVER);
        Some(Toll {
            rate,
            bytes,
            now,
            free_at,
        })
    }

    /// Whether a receiver, here or on another shard, has room for a message.
    #[inline]
    pub(crate) fn can_pay(&self, toll: Option<&Toll>, id: SessionId) -> bool {
        toll.is_none_or(|toll| self.has_paid_off(toll, id))
    }

    #[cold]
    fn has_paid_off(&self, toll: &Toll, id: SessionId) -> bool {
        let bounds = (self.env.limits().rate_buckets_max, toll.now);
        let (who, rates) = (self.member_number(id), self.routes.rates_left());
        let wait = rates.wait_of_subscriber(&toll.rate, who, toll.bytes, bounds);
        if wait > Span::ZERO {
            let free_at = toll.free_at().min(toll.now + wait);
            toll.free_at.set(free_at);
        }
        wait == Span::ZERO
    }

    /// A receiver was given the message.
    #[inline]
    pub(crate) fn pay_toll(&mut self, toll: Option<Toll>, id: SessionId) {
        if let Some(Toll {
            rate, bytes, now, ..
        }) = toll
        {
            let whose = (self.member_number(id), "");
            self.ask_rate(TokenBucket::spend, &rate, whose, bytes, now);
        }
    }

    /// The rate at which subscribers of an address are sent what is not dropped for it.
    fn rate_that_holds_back(&mut self, address: &str) -> Option<Rate> {
        let route = self.route(address);
        let rate = route.terms().and_then(Terms::rate_of_subscribers).copied();
        rate.filter(|rate| rate.exceed == Exceed::Throttle)
    }

    /// What a copy costs its receiver when it leaves, and until when it waits for that; it was held back before or not.
    #[cold]
    pub(crate) fn price_of(
        &mut self,
        id: SessionId,
        (message, address): (&Message, &str),
        was_held: bool,
        now: Time,
    ) -> Option<Box<Price>> {
        let rate = self.rate_that_holds_back(address)?;
        let bytes = message.payload().len();
        let rest = match was_held {
            true => self.rests_itself(id, &rate, bytes, now),
            false => self.rests(id, &rate, bytes, now),
        };
        Some(Box::new(Price { rate, bytes, rest }))
    }

    /// Behind what a copy waits that did not fit into its receiver's output: others are held back behind it.
    pub(crate) fn rest_behind(&mut self, id: SessionId, entry: &Entry) -> Option<Rest> {
        if !self.env.rates_subscribers() || entry.group().is_some() {
            return None;
        }
        let records = self
            .rate_that_holds_back(entry.message.address())?
            .records();
        let until = self.sessions.get(id)?.backlog.held_until(records)?;
        Some(Rest { records, until })
    }

    /// A copy was sent to its receiver, unless it waits after all.
    #[cold]
    pub(crate) fn pay(&mut self, id: SessionId, price: &Price, put: Put, now: Time) {
        if put != Put::Waits {
            self.spend_for_subscriber(id, &price.rate, price.bytes, now);
        }
    }

    /// Whether a copy for one receiver of an address whose subscribers have a rate is to be sent, or put in its queue: then how
    /// many its receiver has had. If not, it is dropped, or held back.
    #[cold]
    pub(super) fn its_turn<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        (receiver, rate): (&Receiver, Option<&Rate>),
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) -> Option<u64> {
        let id = receiver.session;
        let session = self.sessions.get(id)?;
        let (before, has_link) = (session.counts.delivered(), session.link().is_some());
        let is_own = receiver.flags & NO_LOCAL != 0 && publisher == Some(id);
        let others = is_own.then(|| receiver.without_no_local());
        let receiver = match &others {
            None => receiver,
            Some(None) => return None,
            Some(Some(others)) => others,
        };
        let (rate, bytes) = (rate?, draft.payload.len());
        if rate.exceed != Exceed::Throttle {
            if self.wait_for_rate(id, rate, bytes, now) > Span::ZERO {
                self.book_routed(Some(id), draft.address);
                self.book_drop(Some(id), draft.address, DropReason::OverRate);
                return None;
            }
            self.spend_for_subscriber(id, rate, bytes, now);
            return Some(before);
        }
        // Others are judged where they are put in their queue.
        let is_unsure = receiver.reliability.min(draft.reliability) == Reliability::AtMostOnce;
        if is_unsure && has_link && self.rests(id, rate, bytes, now).is_some() {
            self.sessions.hold_back_at_most_once(id);
            self.book_routed(Some(id), draft.address);
            self.spread_kept(None, receiver, draft, kept, now, fx);
            return None;
        }
        Some(before)
    }

    /// A copy was sent, if its receiver has had more than before. One that is to be settled has paid.
    #[cold]
    pub(super) fn pay_if_sent(
        &mut self,
        (receiver, rate): (&Receiver, Option<&Rate>),
        draft: &Draft<'_>,
        before: u64,
        now: Time,
    ) {
        let id = receiver.session;
        let session = self.sessions.get(id);
        if let Some(rate) = rate.filter(|rate| rate.exceed == Exceed::Throttle)
            && receiver.reliability.min(draft.reliability) == Reliability::AtMostOnce
            && session.is_some_and(|it| it.counts.delivered() > before)
        {
            self.spend_for_subscriber(id, rate, draft.payload.len(), now);
        }
    }

    /// Until when a copy waits for the rate of its receiver, if it does: behind others that wait for it, too.
    pub(crate) fn rests(
        &mut self,
        id: SessionId,
        rate: &Rate,
        bytes: usize,
        now: Time,
    ) -> Option<Rest> {
        let records = rate.records();
        let session = self.sessions.get(id)?;
        if let Some(until) = session.backlog.held_until(records) {
            return Some(Rest { records, until });
        }
        self.rests_itself(id, rate, bytes, now)
    }

    /// The same of one that is the first of those that wait.
    fn rests_itself(
        &mut self,
        id: SessionId,
        rate: &Rate,
        bytes: usize,
        now: Time,
    ) -> Option<Rest> {
        let wait = self.wait_for_rate(id, rate, bytes, now);
        (wait > Span::ZERO).then(|| Rest {
            records: rate.records(),
            until: now + wait,
        })
    }

    /// The next to leave is held back, as it was before or not. False if it stays the next: there is too much to wait apart.
    #[cold]
    pub(crate) fn hold_back(
        &mut self,
        id: SessionId,
        rest: Rest,
        entry: Entry,
        was_held: bool,
        now: Time,
    ) -> bool {
        let limits = self.env.limits();
        let Some(session) = self.sessions.get_mut(id) else {
            return true;
        };
        self.books.entered(Delta::copy(entry.message.bytes()));
        // What is on disk is not all brought into memory, to wait there.
        let has_room = was_held
            || !session.backlog.is_on_disk()
            || session.backlog.held_bytes() < limits.queue_memory_bytes_max;
        match has_room {
            true => {
                session.backlog.hold_back(rest, entry, was_held);
                self.wait_for_rates(id, now);
            }
            false => session.backlog.push_front(entry),
        }
        has_room
    }

    fn wait_for_rate(&mut self, id: SessionId, rate: &Rate, bytes: usize, now: Time) -> Span {
        let whose = (self.number_of(Some(id)), "");
        self.ask_rate(TokenBucket::wait, rate, whose, bytes, now)
    }

    fn spend_for_subscriber(&mut self, id: SessionId, rate: &Rate, bytes: usize, now: Time) {
        let whose = (self.number_of(Some(id)), "");
        self.ask_rate(TokenBucket::spend, rate, whose, bytes, now);
    }

    /// A timer for what a session's rates hold back.
    pub(crate) fn wait_for_rates(&mut self, id: SessionId, now: Time) {
        let session = self.sessions.get_mut(id);
        if let Some(at) = session.and_then(|it| it.backlog.next_timer(now)) {
            self.agenda.set_timer(at, TimerKey::HeldBack(id));
        }
    }

    /// What was held back by records that may be others now is judged anew.
    pub(crate) fn let_go_held_back(&mut self) {
        self.wake_queues();
        for group_id in self.groups.ids() {
            self.look_at_group(group_id, Time::ZERO);
        }
        let watches = self.values.watches.iter();
        for (watch, _) in watches.filter(|(_, it)| it.expects_take()) {
            self.agenda.set_timer(Time::ZERO, TimerKey::Watch(watch));
        }
        let holding = self.sessions.iter_mut();
        let holding = holding.filter_map(|(id, it)| it.backlog.let_go().then_some(id));
        let ids: Vec<SessionId> = holding.collect();
        for id in ids {
            self.agenda.set_timer(Time::ZERO, TimerKey::HeldBack(id));
        }
    }
}

impl Rate {
    fn records(&self) -> Records {
        [self.messages, self.bytes].map(|it| it.map(|it| it.record))
    }
}
