//! Notifications of a server to its observers. RFC 7641 §4

use std::sync::Arc;

use thalweg_wire::{Span, Time};

use super::ServerSide;
use crate::blockwise::KeptBody;
use crate::endpoint::{Content, Due, Notification, Owner};
use crate::observe::{Relation, seconds};
use crate::slots::NONE;
use crate::timers::TimerKind;
use crate::{
    Block, Datagrams, Delivery, Encoder, ExchangeId, Notice, Notified, ObservationEnd, Observe,
    ObserveRefused, PeerId, RelationId, RelationState, SharedBody, Type,
};

impl ServerSide {
    /// Accepts the observation that this request asked for; `respond` to it with 2.05 or 2.03 is the first notification.
    /// `cookie` is the application's name for it, `check` how long it may go unconfirmed if not
    /// `ServerSettings::confirm_within`. If the peer observes with this token already, that observation goes on.
    pub fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        check: Option<Span>,
        now: Time,
    ) -> Result<RelationId, ObserveRefused> {
        let waiting = self
            .exchanges
            .get(exchange)
            .ok_or(ObserveRefused::NotAsked)?;
        if waiting.observe != Some(Observe::Register) {
            return Err(ObserveRefused::NotAsked);
        }
        let (peer, token, cache_key) = (waiting.peer, waiting.token, waiting.cache_key);
        let exponent = waiting
            .block2
            .and_then(Block::decode)
            .map_or(Block::SIZE_EXPONENT_MAX, |b| b.size_exponent);
        let exponent = exponent.min(self.settings.block_exponent_max);
        let check = check.unwrap_or(self.settings.confirm_within);
        let index = match self.find_relation(peer, |relation| relation.token == token) {
            Some(index) => index,
            None => self.begin(Relation::new(peer, token, cookie, check, exponent, now))?,
        };
        let generation = self.relations.generation(index);
        if let Some(waiting) = self.exchanges.get_mut(exchange) {
            (waiting.relation, waiting.relation_generation) = (index, generation);
        }
        if let Some(relation) = self.relations.get_mut(index) {
            relation.cookie = cookie;
            relation.cache_key = cache_key;
            relation.check = seconds(check);
            relation.block_exponent = exponent;
            relation.confirm(now);
            let due = relation.check_at();
            // A timer that comes up early finds out for itself.
            if due < Time::from_secs(u64::from(relation.timer_at)) {
                relation.timer_at = due.since(Time::ZERO).secs() as u32;
                self.endpoint
                    .timers
                    .set(due, TimerKind::Check, index, generation);
            }
        }
        Ok(RelationId { index, generation })
    }

    /// Tells an observer of a new state. On [`Notified::Busy`] keep the newest state until [`Notice::Ready`].
    pub fn notify(
        &mut self,
        relation: RelationId,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
        out: &mut Datagrams,
    ) -> Notified {
        self.now = now;
        let index = relation.index;
        let notified = self.try_notify(relation, body, delivery, now, out);
        if let (Notified::Sent { .. }, Some(relation)) = (notified, self.relations.get(index))
            && body.is_cut(relation.block_exponent)
        {
            self.keep_body(index, relation.cache_key, body, delivery);
        }
        notified
    }

    /// Further blocks of it will be asked for.
    #[cold]
    #[inline(never)]
    fn keep_body(
        &mut self,
        index: u32,
        cache_key: u64,
        body: &Arc<SharedBody>,
        delivery: Delivery,
    ) {
        let kept = KeptBody::Notification(body.clone());
        self.kept.insert(cache_key, kept, &self.settings, self.now);
        if delivery == Delivery::Insistent {
            self.await_fetch(index);
        }
        self.tell_dropped();
    }

    #[inline]
    fn try_notify(
        &mut self,
        relation: RelationId,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
        out: &mut Datagrams,
    ) -> Notified {
        let index = relation.index;
        if self.relations.get_of(index, relation.generation).is_none() {
            return Notified::Gone;
        }
        let Some(relation) = self.relations.get_mut(index) else {
            return Notified::Gone;
        };
        if relation.sending != NONE || relation.fetching != NONE || !relation.is_active {
            return self.supersede(index, body, out);
        }
        let Some(peer) = self.endpoint.peers.slots.get_mut(relation.peer) else {
            return Notified::Gone;
        };
        let every = self.settings.confirm_every;
        let (must, better) = relation.confirmation(delivery, every, peer.round_trip, now);
        let (must, is_unproven, at) = (must || !peer.proven, !peer.proven, relation.peer);
        let others_wait = ![NONE, index].contains(&peer.wanting[0]);
        if !std::mem::take(&mut relation.is_woken) && others_wait {
            self.want(index, must, now);
            self.wake(at, now);
            return Notified::Busy;
        }
        if (must || better) && self.endpoint.can_confirm(at) {
            if is_unproven && self.is_too_large(body, index) {
                self.probe(at, now, out);
                self.want(index, true, now);
                return Notified::Busy;
            }
            return self.notify_confirmably(index, body, delivery, now, out);
        }
        if must || !self.keep_pace(at, now) {
            self.want(index, must, now);
            return Notified::Busy;
        }
        let id = self.endpoint.next_id(at);
        let (Some(relation), Some(peer)) = (
            self.relations.get_mut(index),
            self.endpoint.peers.slots.get(at),
        ) else {
            return Notified::Gone;
        };
        let (token, exponent, sequence) =
            (relation.token, relation.block_exponent, relation.advance());
        relation.note_id(id);
        relation.unconfirmed = relation.unconfirmed.saturating_add(1);
        let wanted = relation.wants || others_wait;
        out.push(peer.address, |out| {
            Encoder::start(out, Type::NonConfirmable, body.code(), id, token);
            body.write(Some(sequence), exponent, out);
        });
        self.counts.notifications += 1;
        if wanted {
            self.unwant(index);
            self.wake(at, now);
        }
        Notified::Sent { confirmable: false }
    }

    /// Takes back a `notify` that was refused as busy: there is nothing to say any more, and no notice will come.
    pub fn nothing_to_notify(&mut self, relation: RelationId) {
        if self
            .relations
            .get_of(relation.index, relation.generation)
            .is_none()
        {
            return;
        }
        self.unwant(relation.index);
        let Some(relation) = self.relations.get_mut(relation.index) else {
            return;
        };
        (
            relation.is_outdated,
            relation.is_replaceable,
            relation.is_woken,
        ) = (false, false, false);
        let (sending, peer) = (relation.sending, relation.peer);
        if let Some(sending) = self.endpoint.sendings.get_mut(sending) {
            sending.is_outdated = false;
        }
        self.wake(peer, self.now);
    }

    /// Ends an observation, with a last notification that has the reason, such as 4.04, or silently. There is no
    /// notice.
    pub fn end_observation(
        &mut self,
        relation: RelationId,
        last: Option<&Arc<SharedBody>>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let Some(found) = self.relations.get_of(relation.index, relation.generation) else {
            return;
        };
        let (peer, token, block_exponent) = (found.peer, found.token, found.block_exponent);
        self.end(relation.index, None, now, out);
        let Some(body) = last else { return };
        let id = self.endpoint.next_id(peer);
        let notification = Notification {
            body: body.clone(),
            observe: None,
            token,
            block_exponent,
        };
        let content = Content::Notification(notification);
        self.counts.notifications += 1;
        if self
            .endpoint
            .send(peer, id, Owner::Nobody, content, now, out)
            .is_some()
        {
            return;
        }
        // The queue is full: once is better than never.
        if let Some(peer) = self.endpoint.peers.slots.get(peer) {
            let notification = Notification {
                body: body.clone(),
                observe: None,
                token,
                block_exponent,
            };
            out.push(peer.address, |out| {
                notification.write(Type::NonConfirmable, id, out)
            });
        }
    }

    /// Returns the state of an observation.
    pub fn relation(&self, relation: RelationId) -> Option<RelationState> {
        let relation = self.relations.get_of(relation.index, relation.generation)?;
        Some(RelationState {
            peer: PeerId(relation.peer),
            cookie: relation.cookie,
            token: relation.token,
            in_flight: relation.sending != NONE,
        })
    }

    /// A timer came up that is one of notifications.
    pub(super) fn check(&mut self, index: u32, now: Time) {
        let generation = self.relations.generation(index);
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        let due = relation.check_at();
        let at = if due > now {
            due
        } else {
            // The message in flight will confirm or end it.
            if relation.sending == NONE {
                let relation_id = RelationId { index, generation };
                self.notices.push_back(Notice::CheckDue {
                    relation: relation_id,
                    cookie: relation.cookie,
                });
            }
            now + Span::from_secs(u64::from(relation.check))
        };
        relation.timer_at = at.since(Time::ZERO).secs() as u32;
        self.endpoint
            .timers
            .set(at, TimerKind::Check, index, generation);
    }

    /// A confirmable message of this machine is due to be repeated, or given up.
    pub(super) fn sending_due(&mut self, index: u32, now: Time, out: &mut Datagrams) {
        match self.endpoint.due(index, now, out) {
            Due::Done => {}
            Due::Replaceable(Owner::Relation(index)) => {
                let generation = self.relations.generation(index);
                let Some(relation) = self.relations.get_mut(index) else {
                    return;
                };
                relation.is_replaceable = true;
                let id = RelationId { index, generation };
                self.notices.push_back(Notice::Ready {
                    relation: id,
                    cookie: relation.cookie,
                });
            }
            Due::Replaceable(_) => {}
            Due::GivenUp {
                owner,
                peer,
                is_there,
            } => self.on_given_up(owner, peer, is_there, now, out),
        }
    }

    /// RFC 7641 §4.5: an observer that does not acknowledge is removed. If other datagrams of it arrive, its losses may
    /// be random: it is notified of the newest state a few times more before it counts as gone, because it would learn
    /// of its removal only when Max-Age is over.
    fn on_given_up(
        &mut self,
        owner: Owner,
        peer: u32,
        is_there: bool,
        now: Time,
        out: &mut Datagrams,
    ) {
        let failures = self
            .endpoint
            .peers
            .slots
            .get(peer)
            .map_or(0, |peer| peer.failures);
        match owner {
            Owner::Relation(index)
                if is_there
                    && self
                        .relations
                        .get_mut(index)
                        .is_some_and(Relation::has_patience) =>
            {
                self.has_landed(index);
                self.want(index, true, now);
            }
            // It has answered something else, which says more than the question did.
            Owner::Probe if is_there => {}
            Owner::Relation(_) | Owner::Probe if failures > self.settings.observer_tolerance => {
                self.end_all(peer, ObservationEnd::Silent, now, out);
            }
            Owner::Relation(index) => {
                // It has missed a state: the newest one is sent.
                self.has_landed(index);
                self.want(index, true, now);
            }
            Owner::Awaited(awaited) => self.tell_fate(awaited, false),
            _ => {}
        }
        self.wake(peer, now);
    }

    /// Marks that the message in flight has ended.
    pub(super) fn has_landed(&mut self, index: u32) {
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        relation.sending = NONE;
        relation.is_replaceable = false;
        let confirmable = relation.wants_confirmable;
        if relation.fetching == NONE && std::mem::take(&mut relation.is_outdated) {
            self.want(index, confirmable, Time::NEVER);
        }
    }

    /// Puts an observation into its peer's queue of those that want to notify.
    pub(super) fn want(&mut self, index: u32, confirmable: bool, now: Time) {
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        relation.wants_confirmable = confirmable;
        let peer = relation.peer;
        if !std::mem::replace(&mut relation.wants, true) {
            relation.next_wanting = NONE;
            let Some(record) = self.endpoint.peers.slots.get_mut(peer) else {
                return;
            };
            let [first, last] = record.wanting;
            record.wanting = if first == NONE {
                [index; 2]
            } else {
                [first, index]
            };
            if let Some(last) = self.relations.get_mut(last) {
                last.next_wanting = index;
            }
        }
        if !confirmable && now != Time::NEVER {
            self.set_pace_timer(peer, now);
        }
    }

    /// Lets the next observation in a peer's queue notify, if the peer may be sent more. The one after it follows when
    /// this one has notified, or has nothing to send.
    pub(super) fn wake(&mut self, peer: u32, now: Time) {
        let Some(record) = self.endpoint.peers.slots.get(peer) else {
            return;
        };
        let index = record.wanting[0];
        let Some(relation) = self.relations.get(index) else {
            return;
        };
        if relation.wants_confirmable {
            if !self.endpoint.can_confirm(peer) {
                return;
            }
        } else if self.paced_at(peer) > now {
            return self.set_pace_timer(peer, now);
        }
        self.unwant(index);
        let generation = self.relations.generation(index);
        if let Some(relation) = self.relations.get_mut(index) {
            relation.is_woken = true;
            let id = RelationId { index, generation };
            self.notices.push_back(Notice::Ready {
                relation: id,
                cookie: relation.cookie,
            });
        }
    }

    /// The pace timer of a peer came up.
    pub(super) fn pace_due(&mut self, peer: u32, now: Time) {
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
            record.pace_timer = false;
        }
        self.wake(peer, now);
    }

    /// The first observation of a peer that is like this.
    pub(super) fn find_relation(
        &self,
        peer: u32,
        is_it: impl Fn(&Relation) -> bool,
    ) -> Option<u32> {
        let mut index = self.endpoint.peers.slots.get(peer)?.relations;
        while let Some(relation) = self.relations.get(index) {
            if is_it(relation) {
                return Some(index);
            }
            index = relation.next;
        }
        None
    }

    /// Ends an observation; with a notice if there is a reason to name.
    pub(super) fn end(
        &mut self,
        index: u32,
        why: Option<ObservationEnd>,
        now: Time,
        out: &mut Datagrams,
    ) {
        self.unwant(index);
        let generation = self.relations.generation(index);
        let Some(relation) = self.relations.remove(index) else {
            return;
        };
        let Relation {
            peer,
            next,
            before,
            cookie,
            sending,
            fetching,
            ..
        } = relation;
        self.forget_fetch(fetching);
        if let Some(next) = self.relations.get_mut(next) {
            next.before = before;
        }
        match self.relations.get_mut(before) {
            Some(before) => before.next = next,
            None => {
                if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
                    record.relations = next;
                }
            }
        }
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
            record.relation_count -= 1;
        }
        if sending != NONE {
            self.endpoint.remove(sending, now, out);
        }
        self.endpoint.timers.forget_first(TimerKind::Check, index);
        self.endpoint.peers.settle(peer);
        self.wake(peer, now);
        if let Some(why) = why {
            let relation = RelationId { index, generation };
            self.notices.push_back(Notice::ObservationEnded {
                relation,
                cookie,
                peer: PeerId(peer),
                why,
            });
        }
    }

    /// Ends all observations of a peer.
    pub(super) fn end_all(
        &mut self,
        peer: u32,
        why: ObservationEnd,
        now: Time,
        out: &mut Datagrams,
    ) {
        while let Some(index) = self
            .endpoint
            .peers
            .slots
            .get(peer)
            .map(|peer| peer.relations)
        {
            if self.relations.get(index).is_none() {
                return;
            }
            self.end(index, Some(why), now, out);
        }
    }

    fn begin(&mut self, mut relation: Relation) -> Result<u32, ObserveRefused> {
        let peer = relation.peer;
        let record = self
            .endpoint
            .peers
            .slots
            .get_mut(peer)
            .ok_or(ObserveRefused::NotAsked)?;
        if record.relation_count >= self.settings.relations_per_peer {
            return Err(ObserveRefused::TooManyOfPeer);
        }
        if self.relations.len() >= self.settings.relations_max {
            return Err(ObserveRefused::TooMany);
        }
        let next = record.relations;
        relation.next = next;
        let index = self.relations.insert(relation);
        record.relations = index;
        record.relation_count += 1;
        if let Some(next) = self.relations.get_mut(next) {
            next.before = index;
        }
        self.endpoint.peers.settle(peer);
        Ok(index)
    }

    /// Records a newer state than the one in flight, or than the pending response to the registration.
    fn supersede(&mut self, index: u32, body: &Arc<SharedBody>, out: &mut Datagrams) -> Notified {
        let Some(relation) = self.relations.get_mut(index) else {
            return Notified::Gone;
        };
        let (peer, sending) = (relation.peer, relation.sending);
        let insists = self
            .endpoint
            .sendings
            .get(sending)
            .is_some_and(|sending| sending.insists);
        if insists || relation.fetching != NONE {
            (relation.is_outdated, relation.wants_confirmable) = (true, true);
            return Notified::Busy;
        }
        if !std::mem::take(&mut relation.is_replaceable) {
            relation.is_outdated = true;
            if let Some(sending) = self.endpoint.sendings.get_mut(sending) {
                sending.is_outdated = true;
            }
            return Notified::Busy;
        }
        if self
            .endpoint
            .peers
            .slots
            .get(peer)
            .is_some_and(|peer| !peer.proven)
            && self.is_too_large(body, index)
        {
            // Not to be sent before its peer has acknowledged a message: the one in flight is repeated unchanged.
            if let Some(relation) = self.relations.get_mut(index) {
                relation.is_outdated = true;
            }
            self.endpoint.repeat(sending, out);
            return Notified::Busy;
        }
        // RFC 7641 §4.5.2
        let Some(relation) = self.relations.get_mut(index) else {
            return Notified::Gone;
        };
        let (observe, token, block_exponent) =
            (relation.advance(), relation.token, relation.block_exponent);
        relation.is_outdated = false;
        let id = self.endpoint.next_id(peer);
        if let Some(relation) = self.relations.get_mut(index) {
            relation.note_id(id);
        }
        let notification = Notification {
            body: body.clone(),
            observe: Some(observe),
            token,
            block_exponent,
        };
        self.endpoint.replace(sending, id, notification, out);
        self.counts.notifications += 1;
        Notified::Sent { confirmable: true }
    }

    fn notify_confirmably(
        &mut self,
        index: u32,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
        out: &mut Datagrams,
    ) -> Notified {
        let Some(relation) = self.relations.get_mut(index) else {
            return Notified::Gone;
        };
        let (peer, token, block_exponent) =
            (relation.peer, relation.token, relation.block_exponent);
        let observe = Some(relation.advance());
        let id = self.endpoint.next_id(peer);
        let content = Content::Notification(Notification {
            body: body.clone(),
            observe,
            token,
            block_exponent,
        });
        let Some(sending) = self
            .endpoint
            .send(peer, id, Owner::Relation(index), content, now, out)
        else {
            self.want(index, true, now);
            return Notified::Busy;
        };
        if let Some(sending) = self.endpoint.sendings.get_mut(sending) {
            sending.insists = delivery == Delivery::Insistent;
        }
        if let Some(relation) = self.relations.get_mut(index) {
            relation.note_id(id);
            relation.sending = sending;
            relation.unconfirmed = 0;
        }
        self.unwant(index);
        self.wake(peer, now);
        self.counts.notifications += 1;
        Notified::Sent { confirmable: true }
    }

    /// Whether a notification, with its repetitions, is more than an unproven peer may be sent for nothing.
    fn is_too_large(&self, body: &SharedBody, index: u32) -> bool {
        let Some(relation) = self.relations.get(index) else {
            return false;
        };
        let len = 4 + relation.token.len() + body.encoded_len(relation.block_exponent);
        let times = 1 + usize::from(self.settings.transmission.max_retransmit);
        len * times > usize::from(self.settings.amplification_allowance)
    }

    /// Asks a peer whether it is where it seems to be: four bytes, and its reset is the answer. Each notification that
    /// has to wait for it asks anew: a question may be lost, and is repeated slowly while no round trip is known.
    fn probe(&mut self, peer: u32, now: Time, out: &mut Datagrams) {
        let id = self.endpoint.next_id(peer);
        self.endpoint
            .send(peer, id, Owner::Probe, Content::Empty, now, out);
    }

    /// Takes an observation out of its peer's queue.
    fn unwant(&mut self, index: u32) {
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        if !std::mem::take(&mut relation.wants) {
            return;
        }
        let next = std::mem::replace(&mut relation.next_wanting, NONE);
        let Some(record) = self.endpoint.peers.slots.get_mut(relation.peer) else {
            return;
        };
        if record.wanting[0] == index {
            record.wanting = if next == NONE {
                [NONE; 2]
            } else {
                [next, record.wanting[1]]
            };
            return;
        }
        let mut before = record.wanting[0];
        while let Some(relation) = self.relations.get_mut(before) {
            if relation.next_wanting == index {
                relation.next_wanting = next;
                if next == NONE {
                    record.wanting[1] = before;
                }
                return;
            }
            before = relation.next_wanting;
        }
    }

    /// Takes a place in a peer's pace, if there is one: one notification in a round trip, on average. RFC 7641 §4.5.1
    #[inline]
    fn keep_pace(&mut self, peer: u32, now: Time) -> bool {
        if self.settings.notifications_per_round_trip == 0 {
            return true;
        }
        if self.paced_at(peer) > now {
            return false;
        }
        let each = self.pace(peer);
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
            record.paced_until = record.paced_until.max(now) + each;
        }
        true
    }

    /// The time between two notifications to a peer.
    #[inline]
    fn pace(&self, peer: u32) -> Span {
        let round_trip = match self
            .endpoint
            .peers
            .slots
            .get(peer)
            .map_or(0, |peer| peer.round_trip)
        {
            0 => self.settings.round_trip_unknown.nanos(),
            micros => u64::from(micros) * 1000,
        };
        Span::from_nanos(round_trip / u64::from(self.settings.notifications_per_round_trip.max(1)))
    }

    /// When the next notification may leave.
    #[inline]
    fn paced_at(&self, peer: u32) -> Time {
        if self.settings.notifications_per_round_trip == 0 {
            return Time::ZERO;
        }
        let ahead = self
            .pace(peer)
            .nanos()
            .saturating_mul(u64::from(self.settings.notification_burst.max(1)) - 1);
        self.endpoint
            .peers
            .slots
            .get(peer)
            .map_or(Time::NEVER, |peer| {
                peer.paced_until - Span::from_nanos(ahead)
            })
    }

    fn set_pace_timer(&mut self, peer: u32, now: Time) {
        let at = self.paced_at(peer).max(now);
        let generation = self.endpoint.peers.slots.generation(peer);
        let Some(record) = self.endpoint.peers.slots.get_mut(peer) else {
            return;
        };
        let first = record.wanting[0];
        let is_paced = self
            .relations
            .get(first)
            .is_some_and(|relation| !relation.wants_confirmable);
        if is_paced && !std::mem::replace(&mut record.pace_timer, true) {
            self.endpoint
                .timers
                .set(at, TimerKind::Pace, peer, generation);
        }
    }
}
