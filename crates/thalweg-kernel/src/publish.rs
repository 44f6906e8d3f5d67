//! A message comes in: who wants it, and in what form.

use crate::Kernel;
use crate::access::Permission;
use crate::effects::{Delivery, Effects, Native, Sent};
use crate::ids::{LinkId, SessionId, Tag, Ticket};
use crate::ledger::DropReason;
use crate::limits::Overflow;
use crate::route_cache::{NO_LOCAL, RETAIN_AS_PUBLISHED, Receiver, Route};
use crate::session::{Entry, NO_GROUP, Pressure, SubscriptionIds};
use crate::shards::ShardMessage;
use crate::timers::TimerKind;
use std::rc::Rc;
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Time};

/// A message as its publisher's front sees it: borrowed, not kept unless somebody must keep it.
pub struct Draft<'a> {
    /// The canonical address; the front has checked it.
    pub address: &'a str,
    /// The payload.
    pub payload: &'a [u8],
    /// How surely the publisher wants it delivered.
    pub reliability: Reliability,
    /// What it does to the last value.
    pub retain: RetainOp,
    /// How long it is worth delivering.
    pub expires_in: Option<Span>,
    /// Its metadata.
    pub properties: Option<&'a Properties>,
    /// The publisher's number for an exactly-once message; not routed twice until released.
    pub ticket: Ticket,
    /// The publisher's encoding.
    pub native: Option<Native<'a>>,
}

/// What became of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// What to tell the publisher.
    pub outcome: Outcome,
    /// If set, the publisher is over its rate: read nothing from it before this time.
    pub pause_until: Option<Time>,
}

/// What to tell a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Taken care of, and somebody wanted it.
    Accepted,
    /// Taken care of; nobody wanted it.
    NoMatch,
    /// The access rules do not allow it.
    Denied,
    /// The address is longer or deeper than it may be.
    BadAddress,
}

/// The address a session published to last, so that publishing there again costs a comparison.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    address: Vec<u8>,
    route: Option<Rc<Route>>,
}

impl Kernel {
    /// Publishes for a session. An exactly-once message is held by its ticket until [`Kernel::release`].
    #[inline]
    pub fn publish<E: Effects>(&mut self, id: SessionId, draft: Draft<'_>, now: Time, fx: &mut E) -> Published {
        let Some(session) = self.sessions.get_mut(id) else {
            return Published { outcome: Outcome::Denied, pause_until: None };
        };
        session.received += 1;
        self.ledger.received += 1;
        self.ledger.received_bytes += draft.payload.len() as u64;
        let pause_until = match &mut session.meters {
            None => None,
            Some(meters) => meters.pause(draft.payload.len() as u64, now),
        };
        if draft.reliability == Reliability::ExactlyOnce && !session.held.insert(draft.ticket) {
            self.ledger.repeated += 1;
            return Published { outcome: Outcome::Accepted, pause_until };
        }
        let ticket = draft.ticket;
        let exactly_once = draft.reliability == Reliability::ExactlyOnce;
        let outcome = self.publish_unheld(id, draft, now, fx);
        if exactly_once && !matches!(outcome, Outcome::Accepted | Outcome::NoMatch) {
            // A refused message is not held: its ticket is free at once.
            self.release(id, ticket);
        }
        Published { outcome, pause_until }
    }

    /// The publisher will not repeat the exactly-once message of this ticket. False if there was none.
    pub fn release(&mut self, id: SessionId, ticket: Ticket) -> bool {
        self.sessions.get_mut(id).is_some_and(|session| session.held.remove(ticket))
    }

    /// Exactly-once messages of the session's peer that are not released yet.
    pub fn held_count(&self, id: SessionId) -> u32 {
        self.sessions.get(id).map_or(0, |session| session.held.len())
    }

    /// Publishes for the broker itself: no access rules, no ledger entry as received.
    pub fn publish_own<E: Effects>(&mut self, draft: Draft<'_>, now: Time, fx: &mut E) -> Outcome {
        self.ledger.own += 1;
        let route = self.route(draft.address);
        self.spread(None, &route, draft, now, fx)
    }

    #[inline]
    pub(crate) fn publish_unheld<E: Effects>(
        &mut self,
        id: SessionId,
        draft: Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let Some(session) = self.sessions.get(id) else { return Outcome::Denied };
        let route = match &session.memo.route {
            Some(route) if session.memo.address == draft.address.as_bytes() && self.is_current(route) => route.clone(),
            _ => match self.route_for(id, draft.address) {
                Ok(route) => route,
                Err(outcome) => {
                    self.ledger.refused += 1;
                    return outcome;
                }
            },
        };
        self.spread(Some(id), &route, draft, now, fx)
    }

    /// The checks that hold for an address as long as the memo does, and its route.
    #[cold]
    fn route_for(&mut self, id: SessionId, address: &str) -> Result<Rc<Route>, Outcome> {
        let levels = address.bytes().filter(|byte| *byte == b'/').count() + 1;
        if levels > self.limits.levels_max || address.len() > self.limits.address_bytes_max {
            return Err(Outcome::BadAddress);
        }
        match self.sessions.get(id) {
            Some(session) if session.access.allows(Permission::Publish, address) => {}
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

    fn spread<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> Outcome {
        let mut kept: Option<Message> = None;
        if draft.retain != RetainOp::None && !self.retain(publisher, &draft, &mut kept, now, fx) {
            // A full store costs the last value, not the message.
            self.ledger.retain_refused += 1;
        }
        if route.is_empty() {
            self.ledger.unmatched += 1;
            return Outcome::NoMatch;
        }
        self.ledger.matched += 1;
        self.spread_here(publisher, route, &draft, &mut kept, now, fx);
        if route.groups.is_empty() && route.shards.is_empty() {
            return Outcome::Accepted;
        }
        let message = self.keep(publisher, &draft, &mut kept, now);
        for &group in &route.groups {
            self.publish_to_group(group, &message, now, fx);
        }
        for &shard in &route.shards {
            self.ledger.forwarded += 1;
            fx.send(crate::ShardId(shard), ShardMessage::Publish { message: message.clone() });
        }
        Outcome::Accepted
    }

    /// Copies for this shard's own sessions.
    #[inline]
    pub(crate) fn spread_here<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        for receiver in &route.receivers {
            self.spread_to(publisher, receiver, draft, kept, now, fx);
        }
    }

    #[inline]
    fn spread_to<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        receiver: &Receiver,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        if receiver.flags & NO_LOCAL != 0 && publisher == Some(receiver.session) {
            if let Some(rest) = receiver.without_no_local() {
                self.spread_to(None, &rest, draft, kept, now, fx);
            }
            return;
        }
        if self.sessions.get(receiver.session).is_none() {
            return; // It ended while the copies before this one were made.
        }
        self.ledger.routed += 1;
        let retain = draft.retain != RetainOp::None && receiver.flags & RETAIN_AS_PUBLISHED != 0;
        let reliability = receiver.reliability.min(draft.reliability);
        if reliability == Reliability::AtMostOnce {
            let Some(session) = self.sessions.get_mut(receiver.session) else { return };
            // What waited while the session was away must not be overtaken.
            let waits = self.limits.queue_at_most_once_offline && !session.waiting.is_empty();
            if let Some(link) = session.link
                && !waits
            {
                let many;
                let subscription_ids = match &receiver.overlap {
                    None if receiver.id == 0 => &[][..],
                    None => std::slice::from_ref(&receiver.id),
                    Some(_) => {
                        many = receiver.subscription_ids();
                        many.as_slice()
                    }
                };
                let delivery = Delivery {
                    address: draft.address,
                    payload: draft.payload,
                    reliability,
                    retain,
                    redelivered: false,
                    tag: 0,
                    expires_in_secs: draft.expires_in.map(|span| span.secs_ceil().min(u64::from(u32::MAX)) as u32),
                    properties: draft.properties,
                    subscription_ids,
                    native: if retain { None } else { draft.native },
                };
                let sent = fx.deliver(link, &delivery);
                self.book_at_most_once(receiver.session, sent, draft.payload.len());
                return;
            }
            if !self.limits.queue_at_most_once_offline {
                self.ledger.drop(DropReason::LinkGone);
                return;
            }
        }
        let message = self.keep(publisher, draft, kept, now);
        let entry = Entry {
            message,
            subscription_ids: receiver.subscription_ids(),
            group: NO_GROUP,
            reliability,
            retain,
            redelivered: false,
        };
        self.enqueue(receiver.session, entry, now, fx);
    }

    /// Books what became of an at-most-once copy.
    #[inline]
    pub(crate) fn book_at_most_once(&mut self, id: SessionId, sent: Sent, payload_len: usize) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        match sent {
            Sent::Room => {
                session.delivered += 1;
                self.ledger.delivered += 1;
                self.ledger.delivered_bytes += payload_len as u64;
            }
            Sent::Congested => {
                session.congested = true;
                session.delivered += 1;
                self.ledger.delivered += 1;
                self.ledger.delivered_bytes += payload_len as u64;
            }
            Sent::Full => {
                session.congested = true;
                session.dropped += 1;
                self.ledger.drop(DropReason::SlowReceiver);
            }
            Sent::TooLarge => {
                session.dropped += 1;
                self.ledger.drop(DropReason::TooLarge);
            }
            Sent::Gone => self.ledger.drop(DropReason::LinkGone),
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
        if let Some(message) = kept {
            return message.clone();
        }
        let uid = publisher.and_then(|id| self.sessions.get(id)).map_or(0, |session| session.uid);
        let message = Message::new(
            draft.address,
            draft.payload,
            draft.reliability,
            draft.retain,
            draft.expires_in.map_or(Time::NEVER, |span| now + span),
            now,
            uid,
            draft.properties.cloned().map(Box::new),
        );
        *kept = Some(message.clone());
        message
    }

    /// Sends a copy that must be settled, or lets it wait.
    pub(crate) fn enqueue<E: Effects>(&mut self, id: SessionId, entry: Entry, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.can_take() {
            self.send_entry(id, entry, now, fx);
            return;
        }
        let bytes = entry.message.bytes();
        let (messages_max, bytes_max) = (self.limits.queue_messages_max, self.limits.queue_bytes_max);
        let full = session.waiting.len() >= messages_max || session.waiting_bytes + bytes > bytes_max;
        if self.pressure >= Pressure::DropWaiting {
            session.dropped += 1;
            self.ledger.drop(DropReason::Memory);
            return;
        }
        if full {
            match self.limits.overflow {
                Overflow::DropOldest if messages_max > 0 && bytes <= bytes_max => {
                    // A large newcomer takes the place of several small ones.
                    while (session.waiting.len() >= messages_max || session.waiting_bytes + bytes > bytes_max)
                        && let Some(oldest) = session.waiting.pop_front()
                    {
                        let bytes = oldest.message.bytes();
                        session.waiting_bytes -= bytes;
                        self.waiting -= 1;
                        self.bytes_held = self.bytes_held.saturating_sub(bytes);
                        session.dropped += 1;
                        self.ledger.drop(DropReason::QueueFull);
                    }
                }
                Overflow::DropNewest | Overflow::DropOldest => {
                    session.dropped += 1;
                    self.ledger.drop(DropReason::QueueFull);
                    return;
                }
                Overflow::Disconnect => {
                    session.dropped += 1;
                    self.ledger.drop(DropReason::QueueFull);
                    return self.throw_out(id, now, fx);
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.waiting_bytes += bytes;
            self.bytes_held += bytes;
            self.waiting += 1;
            session.waiting.push_back(entry);
        }
    }

    /// Sends a copy; the caller has made sure that the session can take it. An at-most-once copy that waited is sent
    /// without a tag.
    pub(crate) fn send_entry<E: Effects>(&mut self, id: SessionId, entry: Entry, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(link) = session.link else { return };
        if entry.reliability == Reliability::AtMostOnce {
            let sent = fx.deliver(link, &entry.delivery(0, now));
            self.book_at_most_once(id, sent, entry.message.payload().len());
            return;
        }
        let bytes = entry.message.bytes();
        let in_group = u32::from(entry.group != NO_GROUP);
        let redelivered = entry.redelivered;
        let tag = session.window.push(entry, now);
        let Some(slot) = session.window.get_mut(tag) else { return };
        let crate::window::SlotState::ExpectSettle(entry) = &slot.state else { return };
        let sent = fx.deliver(link, &entry.delivery(tag, now));
        match sent {
            Sent::Room | Sent::Congested | Sent::Gone => {
                session.congested = sent != Sent::Room;
                session.group_in_flight += in_group;
                let due = now + self.limits.group_settle_timeout;
                if in_group == 1 && !session.group_timer && due != Time::NEVER {
                    session.group_timer = true;
                    self.timers.set(due, id, TimerKind::GroupSettle);
                }
                self.bytes_held += bytes;
                self.unsettled += 1;
                self.ledger.redelivered += u64::from(redelivered);
            }
            Sent::Full => {
                session.congested = true;
                if let Some(entry) = session.window.undo(tag) {
                    session.waiting_bytes += bytes;
                    self.bytes_held += bytes;
                    self.waiting += 1;
                    session.waiting.push_front(entry);
                }
            }
            Sent::TooLarge => {
                session.window.undo(tag);
                session.dropped += 1;
                self.ledger.drop(DropReason::TooLarge);
            }
        }
    }
}

impl Entry {
    pub(crate) fn delivery(&self, tag: Tag, now: Time) -> Delivery<'_> {
        let expires = self.message.expires();
        Delivery {
            address: self.message.address(),
            payload: self.message.payload(),
            reliability: self.reliability,
            retain: self.retain,
            redelivered: self.redelivered,
            tag,
            expires_in_secs: (expires != Time::NEVER)
                .then(|| expires.since(now).secs_ceil().min(u64::from(u32::MAX)) as u32),
            properties: self.message.properties(),
            subscription_ids: self.subscription_ids.as_slice(),
            native: None,
        }
    }
}

impl Receiver {
    pub(crate) fn subscription_ids(&self) -> SubscriptionIds {
        match &self.overlap {
            None if self.id == 0 => SubscriptionIds::None,
            None => SubscriptionIds::One(self.id),
            Some(sinks) => {
                let ids: Vec<u32> = sinks.iter().map(|sink| sink.id).filter(|id| *id != 0).collect();
                match ids[..] {
                    [] => SubscriptionIds::None,
                    [id] => SubscriptionIds::One(id),
                    _ => SubscriptionIds::Many(ids.into()),
                }
            }
        }
    }
}

impl Kernel {
    /// The link's output has drained below its low-water mark.
    pub fn link_writable<E: Effects>(&mut self, id: SessionId, link: LinkId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.link == Some(link) && session.congested {
            session.congested = false;
            self.pump(id, now, fx);
        }
    }
}
