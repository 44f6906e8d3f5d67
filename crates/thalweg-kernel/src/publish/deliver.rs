//! Copies of a message for sessions of this shard: they are sent, or wait.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Content, Delivery, Effects, Recipient, Safety, Sent, deliver_apart};
use crate::entry::{Entry, SubscriptionIds, Via};
use crate::ids::{LinkId, SessionId, Tag};
use crate::journal::durable::{AsValue, Pending, Put};
use crate::ledger::DropReason;
use crate::limits::Overflow;
use crate::policy::Terms;
use crate::publish::draft::Draft;
use crate::publish::subject::Subject;
use crate::routes::cached::{FOLLOWS, NO_LOCAL, RETAIN_AS_PUBLISHED, Receiver, Route, Sink};
use crate::session::Slot;
use crate::timers::TimerKey;
use core::hint::cold_path;
use thalweg_balance::Parcel;
use thalweg_model::{Message, Reliability, RetainOp, Time};

/// A message in forms that are made once, however many receivers get it.
struct Forms<'a, 'k> {
    content: Content<'a>,
    /// The part of the last receiver at most once, most of which is the same for the next.
    delivery: Delivery<'a>,
    /// As it waits, or is kept until it is settled.
    kept: &'k mut Option<Message>,
}

impl<'a, 'k> Forms<'a, 'k> {
    #[inline(always)]
    fn of(draft: &'a Draft<'a>, kept: &'k mut Option<Message>, now: Time) -> Self {
        Forms {
            content: Content::Passing(draft, now),
            delivery: draft.unsettled(),
            kept,
        }
    }
}

impl Kernel {
    /// Copies for this shard's own sessions: those that may receive from the message's origins as well, and whose
    /// content filter it passes. Whether there are any with a content filter that it passes.
    #[inline(never)]
    pub(crate) fn spread_to_all<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        (draft, subject): (&Draft<'_>, Option<&Subject<'_>>),
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let origins = draft.origins();
        let rate = route.terms().and_then(Terms::rate_of_subscribers);
        let is_simple = route.filtered().is_none()
            && rate.is_none()
            && draft.priority == 0
            && origins.is_empty();
        if is_simple {
            self.spread_here(publisher, route, draft, kept, now, fx);
            return false;
        }
        let selected = match (route.filtered(), subject) {
            (Some(filtered), Some(subject)) => filtered.selected(subject),
            _ => Vec::new(),
        };
        if !selected.is_empty() {
            let is_own = |it: &&Receiver| it.flags & NO_LOCAL != 0 && publisher == Some(it.session);
            let own = selected.iter().filter(is_own).count();
            (self.sessions.crowd).note_further(selected.len() - own, false);
        }
        let mut forms = Forms::of(draft, kept, now);
        for receiver in route.receivers().iter().chain(&selected) {
            if draft.priority > 0 {
                self.prioritize(receiver.session, fx);
            }
            let session = self.sessions.get(receiver.session);
            if origins.is_empty()
                || session.is_some_and(|session| session.access().may_receive_from(origins))
            {
                let to = (receiver, rate);
                let before = match rate {
                    None => 0,
                    Some(_) => match self.its_turn(publisher, to, draft, forms.kept, now, fx) {
                        Some(delivered) => delivered,
                        None => continue,
                    },
                };
                self.spread_one(publisher, receiver, draft, &mut forms, now, fx);
                if rate.is_some() {
                    self.pay_if_sent(to, draft, before, now);
                }
            }
        }
        !selected.is_empty()
    }

    /// The same, in the middle of the path that every message takes.
    #[inline(always)]
    pub(crate) fn spread_here<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        let mut forms = Forms::of(draft, kept, now);
        for receiver in route.receivers() {
            self.spread_one(publisher, receiver, draft, &mut forms, now, fx);
        }
    }

    /// What is done with a message that only subscribers want and that is not kept, for some of its receivers: those of
    /// these places.
    #[inline(never)]
    pub(crate) fn spread_to_some<E: Effects>(
        &mut self,
        publisher: SessionId,
        (route, some): (&Route, &[u32]),
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) {
        let mut kept = None;
        let mut forms = Forms::of(draft, &mut kept, now);
        for at in some {
            if let Some(receiver) = route.receivers().get(*at as usize) {
                self.spread_one(Some(publisher), receiver, draft, &mut forms, now, fx);
            }
        }
        if self.journal.has_references() {
            let cause = self.cause_of(Some(publisher), route, draft);
            self.write_down(&cause, draft, AsValue::NONE, false, now);
        }
    }

    /// Copies for this shard's sessions that follow all that the address keeps.
    pub(crate) fn spread_to_followers<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) {
        let route = self.route(draft.address);
        let mut kept = None;
        let mut forms = Forms::of(draft, &mut kept, now);
        for receiver in route.receivers() {
            if receiver.flags & FOLLOWS != 0 {
                self.spread_one(publisher, receiver, draft, &mut forms, now, fx);
            }
        }
        if let Some(message) = kept.filter(|_| self.journal.has_references()) {
            self.persist_kept(&message, Safety::Lazy);
        }
    }

    /// A copy for one receiver.
    #[inline(always)]
    fn spread_one<'a, E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        receiver: &'a Receiver,
        draft: &'a Draft<'a>,
        forms: &mut Forms<'a, '_>,
        now: Time,
        fx: &mut E,
    ) {
        if receiver.flags & NO_LOCAL != 0 && publisher == Some(receiver.session) {
            cold_path();
            return self.spread_without_own(receiver, draft, forms.kept, now, fx);
        }
        // It may have ended while the copies before this one were made.
        let Some(session) = self.sessions.get_mut(receiver.session) else {
            cold_path();
            return;
        };
        session.counts.note_routed();
        self.books.routed(draft.address);
        let (reliability, retain) = receiver.terms_of(draft);
        if reliability == Reliability::AtMostOnce
            && let Some(link) = session.link()
            // What waited while the session was away must not be overtaken.
            && (session.backlog.is_empty()
                || !(self.env.limits().queue_at_most_once_offline
                    || session.connection.keeps_at_most_once()))
        {
            let (content, delivery) = (&forms.content, &mut forms.delivery);
            delivery.to = Recipient::Subscriber;
            delivery.retain = retain;
            let sent = match &receiver.overlap {
                None => {
                    let ids = std::slice::from_ref(&receiver.id);
                    delivery.subscription_ids = &ids[..usize::from(receiver.id != 0)];
                    fx.deliver(link, content, delivery)
                }
                Some(_) => deliver_overlapping(link, receiver, content, delivery, fx),
            };
            if sent == Sent::Room && !self.books.has_accounts() {
                // What `book_at_most_once` does when all is well, without a call.
                session.counts.note_delivered();
                self.books.delivered_without_account(draft.payload.len());
                return;
            }
            cold_path();
            if sent != Sent::Full || !self.waits_at_most_once(receiver.session) {
                return self.book_at_most_once(
                    receiver.session,
                    sent,
                    draft.address,
                    draft.payload.len(),
                );
            }
            self.congest(receiver.session);
        }
        self.spread_kept(publisher, receiver, draft, forms.kept, now, fx);
    }

    /// A copy for a receiver that has subscriptions which want the publisher's own messages and others which do not.
    #[cold]
    fn spread_without_own<E: Effects>(
        &mut self,
        receiver: &Receiver,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        if let Some(rest) = receiver.without_no_local() {
            self.spread_one(
                None,
                &rest,
                draft,
                &mut Forms::of(draft, kept, now),
                now,
                fx,
            );
        }
    }

    /// A copy that must be kept: for a while, until it is settled, or because its receiver is away.
    #[inline(never)]
    pub(super) fn spread_kept<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        receiver: &Receiver,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
        fx: &mut E,
    ) {
        let (reliability, retain) = receiver.terms_of(draft);
        let has_high_water =
            reliability == Reliability::AtMostOnce && self.waits_at_most_once(receiver.session);
        if reliability == Reliability::AtMostOnce
            && !has_high_water
            && !self.env.limits().queue_at_most_once_offline
        {
            return self.book_drop(Some(receiver.session), draft.address, DropReason::LinkGone);
        }
        let message = self.keep(publisher, draft, kept, now);
        let serial = if self.env.limits().journal && !has_high_water {
            self.serial_for(receiver.session)
        } else {
            0
        };
        let entry = Entry {
            message,
            via: Via::Own(receiver.subscription_ids()),
            serial,
            of_group: false,
            reliability,
            retain,
            deliveries: 0,
        };
        let before = self.sessions.crowd;
        let put = self.enqueue(receiver.session, entry, draft.address, now, fx);
        // No publisher is slowed down for what may be dropped.
        if publisher != Some(receiver.session) && !has_high_water {
            self.note_put(receiver.session, put, before, now);
        }
        if serial == 0 {
            return;
        }
        let Some(session) = self.sessions.get(receiver.session) else {
            return;
        };
        let subscription_ids = receiver.subscription_ids();
        let pending = Pending {
            retain,
            subscription_ids,
            ..Pending::new(session.uid(), serial, reliability, 0)
        };
        self.refer(receiver.session, pending, put);
    }

    /// Books what became of an at-most-once copy.
    pub(crate) fn book_at_most_once(
        &mut self,
        id: SessionId,
        sent: Sent,
        address: &str,
        payload_len: usize,
    ) {
        if let Sent::Congested | Sent::Full = sent
            && let Some(session) = self.sessions.get_mut(id)
            && !session.connection.is_congested()
        {
            session.connection.congest();
            self.output_changed(id);
        }
        match sent {
            Sent::Room | Sent::Congested => self.book_delivered(id, address, payload_len),
            Sent::Full => self.book_drop(Some(id), address, DropReason::SlowReceiver),
            Sent::TooLarge => self.book_drop(Some(id), address, DropReason::TooLarge),
            Sent::Gone => self.book_drop(Some(id), address, DropReason::LinkGone),
        }
    }

    /// Sends a copy that must be settled, or lets it wait.
    fn enqueue<E: Effects>(
        &mut self,
        id: SessionId,
        entry: Entry,
        address: &str,
        now: Time,
        fx: &mut E,
    ) -> Put {
        let price = match self.env.rates_subscribers() {
            false => None,
            true => self.price_of(id, (&entry.message, address), false, now),
        };
        let rests = price.as_ref().is_some_and(|price| price.rest.is_some());
        let Some(session) = self.sessions.get_mut(id) else {
            return Put::Done;
        };
        if session.can_take() && !rests {
            let put = self.send_addressed(id, entry, Some(address), now, fx);
            if let Some(price) = price {
                self.pay(id, &price, put, now);
            }
            return put;
        }
        if entry.reliability == Reliability::AtMostOnce && self.waits_too_long(id, &entry.message) {
            self.book_drop(Some(id), entry.message.address(), DropReason::SlowReceiver);
            return Put::Done;
        }
        let bytes = entry.message.bytes();
        let to_disk = self.goes_to_disk(id, &entry, bytes);
        if self.env.drops_what_waits(&entry.message, to_disk) {
            self.sessions.crowd.note_left_out();
            self.book_drop(Some(id), entry.message.address(), DropReason::Memory);
            return Put::Done;
        }
        if self.is_queue_full(id, bytes) {
            if entry.reliability == Reliability::AtMostOnce && self.waits_at_most_once(id) {
                self.book_drop(Some(id), entry.message.address(), DropReason::QueueFull);
                return Put::Done;
            }
            let bytes_max = self.session_bytes_max(id);
            match self.env.limits().overflow {
                Overflow::DropOldest
                    if self.env.limits().queue_messages_max > 0 && bytes <= bytes_max =>
                {
                    // A large newcomer takes the place of several small ones.
                    while self.is_queue_full(id, bytes) && self.drop_oldest(id, &entry.message) {}
                    if self.is_queue_full(id, bytes) {
                        // All that is left is being fetched, or goes before it.
                        self.sessions.crowd.note_left_out();
                        self.book_drop(Some(id), entry.message.address(), DropReason::QueueFull);
                        return Put::Done;
                    }
                }
                Overflow::DropNewest | Overflow::DropOldest => {
                    self.sessions.crowd.note_left_out();
                    self.book_drop(Some(id), entry.message.address(), DropReason::QueueFull);
                    return Put::Done;
                }
                Overflow::Disconnect => {
                    self.sessions.crowd.note_left_out();
                    self.book_drop(Some(id), entry.message.address(), DropReason::QueueFull);
                    self.throw_out(id, now, fx);
                    return Put::Done;
                }
            }
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return Put::Done;
        };
        self.books.entered(Delta::copy(bytes));
        if to_disk {
            self.push_to_disk(id, entry);
            return Put::WaitsForDisk;
        }
        match price.and_then(|price| price.rest) {
            Some(rest) if session.backlog.is_empty() => {
                session.backlog.hold_back(rest, entry, false);
                self.wait_for_rates(id, now);
            }
            _ => session.backlog.push_back(entry),
        }
        Put::Waits
    }

    /// Sends a copy; the caller has made sure that the session can take it. An at-most-once copy that waited is sent
    /// without a tag.
    pub(crate) fn send_entry<E: Effects>(
        &mut self,
        id: SessionId,
        entry: Entry,
        now: Time,
        fx: &mut E,
    ) -> Put {
        self.send_addressed(id, entry, None, now, fx)
    }

    /// The same, with the message's address: reading it from a kept message costs a check of its encoding.
    fn send_addressed<E: Effects>(
        &mut self,
        id: SessionId,
        entry: Entry,
        address: Option<&str>,
        now: Time,
        fx: &mut E,
    ) -> Put {
        let Some(session) = self.sessions.get_mut(id) else {
            return Put::Done;
        };
        let Some(link) = session.link() else {
            return Put::Done;
        };
        if entry.reliability == Reliability::AtMostOnce {
            if entry.serial != 0 && session.is_durable() {
                // That it does not wait any more must be written down first, or it might be sent twice.
                fx.hold(link, self.journal.awaited());
            }
            let content = Content::Kept(&entry.message, address);
            let sent = deliver_apart(link, &content, &entry.delivery(0, now), fx);
            let waits = || entry.group().is_some() || self.waits_at_most_once(id);
            if sent == Sent::Full && waits() {
                return self.keep_unsent(id, entry, now);
            }
            self.book_at_most_once(
                id,
                sent,
                entry.message.address(),
                entry.message.payload().len(),
            );
            if let Some(group) = entry.group() {
                let parcel = parcel(&entry.message, 0, entry.deliveries > 0);
                self.group_copy_sent(id, group, &parcel, now);
            }
            return Put::Done;
        }
        let bytes = entry.message.bytes();
        let group = entry.group();
        let redelivered = entry.deliveries > 0;
        let tag = session.window.push(entry, now);
        let Some(entry) = session.window.newest().and_then(Slot::entry) else {
            return Put::Done;
        };
        if entry.reliability == Reliability::ExactlyOnce
            && entry.serial != 0
            && session.is_durable()
        {
            // Its tag must be written down first: the receiver will tell a repetition by it.
            fx.hold(link, self.journal.awaited());
            if group.is_some() {
                self.journal.tell_when_left(id, tag);
            }
        }
        let content = Content::Kept(&entry.message, address);
        let sent = fx.deliver(link, &content, &entry.delivery(tag, now));
        let of_group = group.map(|group| (group, parcel(&entry.message, tag, redelivered)));
        match sent {
            Sent::Room | Sent::Congested | Sent::Gone => {
                session.connection.set_congested(sent != Sent::Room);
                self.books.sent(Delta::copy(bytes));
                self.books.redelivered(redelivered);
                if let Some((group, parcel)) = of_group {
                    self.group_copy_sent(id, group, &parcel, now);
                    self.expect_settlement(id, group, now);
                }
                if sent != Sent::Room {
                    self.output_changed(id);
                }
                Put::Sent(tag)
            }
            Sent::Full => match session.window.undo(tag) {
                Some(entry) => self.keep_unsent(id, entry, now),
                None => Put::Done,
            },
            Sent::TooLarge => {
                if let Some(entry) = session.window.undo(tag) {
                    if let Some(group_id) = group {
                        if let Some(group) = self.groups.get_mut(group_id) {
                            group.counters.dropped += 1;
                        }
                        // It was chosen, and its key is not there after all.
                        self.order_settled(group_id, (id, u16::MAX, 0), &entry.message);
                    }
                    self.book_drop(Some(id), entry.message.address(), DropReason::TooLarge);
                }
                Put::Done
            }
        }
    }

    /// A copy did not fit into its receiver's output. What came through a group goes back there before long.
    #[cold]
    fn keep_unsent(&mut self, id: SessionId, entry: Entry, now: Time) -> Put {
        let rest = self.rest_behind(id, &entry);
        let Some(session) = self.sessions.get_mut(id) else {
            return Put::Done;
        };
        session.connection.congest();
        self.books.entered(Delta::copy(entry.message.bytes()));
        if entry.group().is_some() {
            self.agenda.set_timer(now, TimerKey::GroupUnsent(id));
        }
        match rest {
            None => session.backlog.push_front(entry),
            Some(rest) => session.backlog.hold_back(rest, entry, true),
        }
        self.output_changed(id);
        Put::Waits
    }
}

/// A copy for a receiver of which several subscriptions match, each perhaps with an identifier.
#[cold]
fn deliver_overlapping<E: Effects>(
    link: LinkId,
    receiver: &Receiver,
    content: &Content<'_>,
    delivery: &Delivery<'_>,
    fx: &mut E,
) -> Sent {
    let many = receiver.subscription_ids();
    let delivery = Delivery {
        subscription_ids: many.as_slice(),
        ..*delivery
    };
    deliver_apart(link, content, &delivery, fx)
}

/// A copy as a group's balancer counts it; tag 0 if it is not to be settled.
pub(crate) fn parcel(message: &Message, tag: Tag, again: bool) -> Parcel {
    Parcel {
        tag: u64::from(tag),
        size: message.payload().len() as u32,
        settles: tag != 0,
        again,
    }
}

impl Entry {
    pub(crate) fn delivery(&self, tag: Tag, now: Time) -> Delivery<'_> {
        let expires = self.message.expires();
        Delivery {
            to: Recipient::Subscriber,
            reliability: self.reliability,
            retain: self.retain,
            settles: tag != 0,
            tag: u64::from(tag),
            deliveries: u32::from(self.deliveries),
            left: 0,
            expires_in: (expires != Time::NEVER).then(|| expires.since(now)),
            subscription_ids: self.via.subscription_ids(),
        }
    }
}

impl Draft<'_> {
    /// A copy for a subscriber that settles nothing.
    #[inline(always)]
    pub(crate) fn unsettled(&self) -> Delivery<'static> {
        Delivery {
            expires_in: self.expires_in,
            ..Delivery::unsettled(Recipient::Subscriber, Reliability::AtMostOnce)
        }
    }
}

impl Receiver {
    /// How surely it gets a message, and whether as one that was retained.
    #[inline(always)]
    fn terms_of(&self, draft: &Draft<'_>) -> (Reliability, bool) {
        let retain = draft.retain != RetainOp::None && self.flags & RETAIN_AS_PUBLISHED != 0;
        (self.reliability.min(draft.reliability), retain)
    }

    /// Whether it is to see identifiers of its subscriptions.
    #[inline]
    pub(crate) fn has_identifiers(&self) -> bool {
        let overlap = self.overlap.as_deref().unwrap_or_default();
        self.id != 0 || overlap.iter().any(|sink| sink.id != 0)
    }

    #[inline]
    pub(crate) fn subscription_ids(&self) -> SubscriptionIds {
        match &self.overlap {
            None => SubscriptionIds::of(self.id),
            Some(sinks) => identifiers_of(sinks),
        }
    }
}

#[cold]
fn identifiers_of(sinks: &[Sink]) -> SubscriptionIds {
    let ids: Vec<u32> = sinks
        .iter()
        .map(|sink| sink.id)
        .filter(|id| *id != 0)
        .collect();
    match ids[..] {
        [] => SubscriptionIds::None,
        [id] => SubscriptionIds::One(id),
        _ => SubscriptionIds::Many(ids.into()),
    }
}
