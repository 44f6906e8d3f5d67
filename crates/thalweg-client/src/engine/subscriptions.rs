//! Subscriptions: which lane carries them, and how they come back and move.
//!
//! A subscription lives on one lane. It moves to the lane that publishes, if that can carry it, so that the other one can be
//! closed: first it is made on the new lane, then ended on the old one; what the new lane brings meanwhile is held until
//! the old lane has nothing more: the handle has taken all of it, and a question after that was answered without anything
//! coming before the answer. So order holds. Repetitions are recognized by their stamps. A lane that does not keep order
//! repeats each message by itself, and forgets those of a subscription that ends: there both lanes have it for some seconds.

use std::collections::VecDeque;

use thalweg_model::{Filter, Reliability, Span, Time};

use super::interface::{DeliveryToken, Notice, Wish};
use super::lane::Lane;
use super::seen::Seen;
use super::settings::EngineSettings;
use super::{Core, Engine};
use crate::message::Message;
use crate::transport::{Capabilities, DeliveryId, Refusal, SubscribeWish, SubscriptionId};

/// How long a lane that may have kept messages for the client is waited for before its subscriptions are made
/// elsewhere.
const LOYALTY: Span = Span::from_secs(5);

/// How long a peer may deliver the kept messages of a subscription that is elsewhere now.
const REMNANT: Span = Span::from_secs(3);

/// How long both lanes have a subscription that leaves one which does not keep order. Lost messages are repeated within
/// a second or two while the peer is reachable: with a quarter of all packets lost, eleven attempts miss one message in
/// four million, six one in four thousand.
const BOTH: Span = Span::from_secs(10);

/// How long a peer may take to answer a subscription.
const ANSWER: Span = Span::from_secs(10);

/// A subscription of a handle.
#[derive(Debug)]
pub(super) struct Subscription {
    pub way: usize,
    pub filter: String,
    /// The part that addresses are compared with.
    pub matcher: Option<Filter>,
    pub reliability: Reliability,
    pub last_values: bool,
    pub keeps_all: bool,
    pub settle_by_hand: bool,
    pub home: Home,
    pub moving: Option<Move>,
    /// The lane before, which may still bring something.
    pub tail: Option<usize>,
    /// Since it moved: until its lane has measured so many round trips, or then, what has no stamp and must not come twice
    /// may be what the lane before has brought.
    pub deaf: Option<(u64, Time)>,
    /// The handle was notified that it is in force.
    pub is_told: bool,
    /// Messages may have been missed since it stood.
    pub has_gap: bool,
    /// The lane that it was lost with, and when: it may have kept messages for us.
    pub lost: Option<(usize, Time)>,
    pub retry_at: Time,
    pub attempt: u32,
    /// Delivered to the handle so far; of these it has not taken so many, for so many of which a peer waits, and so many
    /// bytes of memory.
    pub delivered: u64,
    pub outstanding: u32,
    pub awaited: u32,
    pub outstanding_bytes: usize,
    /// Repetitions that are settled when what was delivered before them was taken.
    pub late: VecDeque<(u64, usize, u32, DeliveryId)>,
    pub seen: Seen,
}

/// Where a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Nowhere,
    /// Asked for, since when.
    Asked(usize, Time),
    Standing(usize),
}

/// A subscription on its way to another lane.
#[derive(Debug)]
pub(super) struct Move {
    pub to: usize,
    /// Messages that came over the new lane during the move.
    pub held: VecDeque<(Message, u32, Option<DeliveryId>)>,
    pub state: MoveState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveState {
    /// The new lane was asked, then.
    Asked(Time),
    /// The new lane has it as well; then it is ended on the old one.
    Both(Time),
    /// It was ended on the old lane, which still delivers the peer's queued messages.
    Leaving,
    /// It was asked whether that was all: until it has measured so many round trips, or then.
    Questioned { answers: u64, until: Time },
}

impl Move {
    /// So much is held that the handle must have it soon: lanes are not read when it is more.
    pub fn is_full(&self, settings: &EngineSettings) -> bool {
        self.held.len() >= settings.receive_max as usize / 2
    }

    /// The old lane has brought something: it has to be asked anew whether that was all.
    pub fn old_lane_spoke(&mut self) {
        if self.state.has_left() {
            self.state = MoveState::Leaving;
        }
    }
}

impl MoveState {
    /// Whether it was ended on the old lane.
    fn has_left(self) -> bool {
        matches!(self, MoveState::Leaving | MoveState::Questioned { .. })
    }

    /// The new lane has it.
    fn has_come(self) -> bool {
        self.has_left() || self.is_both()
    }

    pub fn is_both(self) -> bool {
        matches!(self, MoveState::Both(_))
    }
}

impl Subscription {
    /// Whether a lane has to do with it.
    pub fn is_at(&self, lane: usize) -> bool {
        self.lane() == Some(lane) || self.moving.as_ref().is_some_and(|moving| moving.to == lane)
    }

    /// The lane that brings its messages.
    pub fn lane(&self) -> Option<usize> {
        match self.home {
            Home::Nowhere => None,
            Home::Asked(lane, _) | Home::Standing(lane) => Some(lane),
        }
    }

    /// Whether a lane is not to be read because its handle does not keep up: far above the bound, as peers that honour
    /// that nothing is settled have stopped before.
    pub fn is_stuffed(&self, lane: usize, settings: &EngineSettings) -> bool {
        let held = self.moving.as_ref().map_or(0, |moving| moving.held.len());
        self.awaited as usize + held >= 2 * settings.receive_max as usize && self.is_at(lane)
    }

    fn wish(
        &self,
        subscription: SubscriptionId,
        can: &Capabilities,
        last_values: bool,
    ) -> SubscribeWish<'_> {
        let reliability = self.reliability.min(can.receive_max);
        SubscribeWish {
            subscription,
            filter: &self.filter,
            reliability,
            last_values,
        }
    }
}

/// The part of a filter that addresses are compared with: without the group. None if it names a queue, or is no filter.
fn matcher(filter: &str) -> Option<Filter> {
    let plain = match filter.strip_prefix("$share/") {
        Some(rest) => rest.split_once('/')?.1,
        None => filter,
    };
    Filter::new(plain).ok()
}

impl Engine {
    /// Wants messages. [`Notice::Subscribed`] gives the first answer; lost connections and switches are the engine's affair.
    pub fn subscribe(&mut self, wish: &Wish<'_>, now: Time) {
        let subscription = Subscription {
            way: wish.way as usize,
            filter: wish.filter.to_owned(),
            matcher: matcher(wish.filter),
            reliability: wish.reliability,
            last_values: wish.last_values,
            keeps_all: wish.keeps_all,
            settle_by_hand: wish.settle_by_hand,
            home: Home::Nowhere,
            moving: None,
            tail: None,
            deaf: None,
            is_told: false,
            has_gap: true,
            lost: None,
            retry_at: now,
            attempt: 0,
            delivered: 0,
            outstanding: 0,
            awaited: 0,
            outstanding_bytes: 0,
            late: VecDeque::new(),
            seen: Seen::default(),
        };
        if subscription.way >= self.core.ways.len() {
            let outcome = Err(Refusal::Unsupported("there is no such destination"));
            self.core.books.notices.push_back(Notice::Subscribed {
                subscription: wish.subscription,
                outcome,
            });
            return;
        }
        if wish.way == 0 {
            let demand = &mut self.core.demand;
            demand.wildcards |= wish.filter.contains(['+', '#']);
            demand.keeps_all |= wish.keeps_all;
            demand.settles |= wish.settle_by_hand;
            self.core.demand_is_new = true;
        }
        self.core
            .subscriptions
            .insert(wish.subscription, subscription);
        self.hand_over_early(wish.subscription);
        self.core.care_at = now;
    }

    /// Wants them no more. Nothing is delivered from now on.
    pub fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.remove(&subscription) else {
            return;
        };
        let moving = it.moving.as_ref().map(|moving| moving.to);
        for lane in it.lane().into_iter().chain(moving) {
            if let Some(lane) = self.up_lane(lane) {
                lane.transport.unsubscribe(subscription, now, &mut lane.out);
            }
        }
        let demand = &mut self.core.demand;
        let own = || self.core.subscriptions.values().filter(|it| it.way == 0);
        demand.wildcards = own().any(|it| it.filter.contains(['+', '#']));
        demand.keeps_all = own().any(|it| it.keeps_all);
        demand.settles = own().any(|it| it.settle_by_hand);
        self.core.demand_is_new = true;
    }

    /// A handle has taken a message.
    pub fn settle(&mut self, token: DeliveryToken, now: Time) {
        let mut due: Vec<(usize, u32, DeliveryId)> = Vec::new();
        if let Some(it) = self.core.subscriptions.get_mut(&token.subscription) {
            it.outstanding = it.outstanding.saturating_sub(1);
            it.awaited = it
                .awaited
                .saturating_sub(u32::from(token.delivery.is_some()));
            it.outstanding_bytes = it.outstanding_bytes.saturating_sub(token.bytes as usize);
            if it.outstanding == 0 && it.moving.is_some() {
                self.core.care_at = now;
            }
            while it
                .late
                .front()
                .is_some_and(|(number, ..)| *number <= token.number)
            {
                due.extend(
                    it.late
                        .pop_front()
                        .map(|(_, lane, connection, delivery)| (lane, connection, delivery)),
                );
            }
        }
        let own = token
            .delivery
            .map(|delivery| (token.lane as usize, token.connection, delivery));
        for (lane, connection, delivery) in own.into_iter().chain(due) {
            if let Some(lane) = self
                .up_lane(lane)
                .filter(|lane| lane.link.connection == connection)
            {
                lane.transport.settle(delivery, now, &mut lane.out);
            }
        }
    }

    fn up_lane(&mut self, lane: usize) -> Option<&mut Lane> {
        self.lanes.get_mut(lane).filter(|lane| lane.link.is_up())
    }

    /// Looks after subscriptions and questions: what has to be asked, asked again, moved or given up.
    pub(super) fn care(&mut self, now: Time) {
        self.core.care_at = Time::NEVER;
        let names: Vec<SubscriptionId> = self.core.subscriptions.keys().copied().collect();
        for name in names {
            self.care_for(name, now);
        }
        self.end_remnants(now);
        self.end_early(now);
        self.care_for_asks(now);
    }

    fn care_for(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        match it.home {
            Home::Nowhere if it.retry_at <= now || it.lost.is_some() => self.place(name, now),
            Home::Nowhere => self.core.care_at = self.core.care_at.min(it.retry_at),
            Home::Asked(lane, since) if since + ANSWER <= now => {
                self.subscribed(lane, name, Err(Refusal::NoAnswer), now)
            }
            Home::Asked(_, since) => self.core.care_at = self.core.care_at.min(since + ANSWER),
            Home::Standing(_) => self.move_on(name, now),
        }
    }

    /// Makes a subscription on a lane that can carry it.
    fn place(&mut self, name: SubscriptionId, now: Time) {
        let keeps_session = self.core.settings.opening.session > Span::ZERO;
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let Some(way) = self.core.ways.get(it.way) else {
            return;
        };
        if let Some((lost, since)) = it.lost
            && keeps_session
            && since + LOYALTY > now
            && self
                .lanes
                .get(lost)
                .is_some_and(|lane| !lane.link.is_up() && !lane.link.is_final)
        {
            it.retry_at = since + LOYALTY;
            self.core.care_at = self.core.care_at.min(it.retry_at);
            self.connect(lost, now);
            if let Some(closed) = self.lanes.get(lost).filter(|lane| !lane.link.is_open()) {
                self.core.care_at = self.core.care_at.min(closed.link.retry_at);
            }
            return;
        }
        let can = |lane: usize| self.lanes.get(lane).map(|lane| &lane.link.capabilities);
        let any_fits = way
            .all_lanes()
            .any(|lane| can(lane).is_some_and(|can| it.fits(can)));
        let suits = |lane: usize| {
            can(lane).is_some_and(|can| {
                if any_fits {
                    it.fits(can)
                } else {
                    it.can_be_at(can)
                }
            })
        };
        if !way.all_lanes().any(suits) {
            let missing = way
                .all_lanes()
                .filter_map(|lane| it.misses(can(lane)?))
                .next();
            let what = missing.unwrap_or("subscriptions of this kind");
            self.refuse(name, Refusal::Unsupported(what));
            return;
        }
        let is_up = |lane: usize| self.lanes.get(lane).is_some_and(|lane| lane.link.is_up());
        let back = it.lost.map(|(lane, _)| lane).filter(|_| keeps_session);
        let preferred = back
            .into_iter()
            .chain(way.current)
            .chain(way.target)
            .chain(way.all_lanes());
        let preferred: Vec<usize> = preferred.filter(|lane| suits(*lane)).collect();
        let Some(lane) = preferred.iter().copied().find(|lane| is_up(*lane)) else {
            // The lane that is about to publish is connected anyway; another one only if that cannot carry it.
            if let Some(lane) = preferred.first() {
                self.connect(*lane, now);
                let closed = self.lanes.get(*lane).filter(|lane| !lane.link.is_open());
                let wait = closed.map_or(now + LOYALTY, |lane| lane.link.retry_at);
                self.core.care_at = self.core.care_at.min(wait);
            }
            return;
        };
        let Some(at) = self.lanes.get_mut(lane) else {
            return;
        };
        let wish = it.wish(name, &at.link.capabilities, it.last_values && it.has_gap);
        match at.transport.subscribe(&wish, now, &mut at.out) {
            Ok(()) => {
                it.home = Home::Asked(lane, now);
                self.core.care_at = self.core.care_at.min(now + ANSWER);
            }
            Err(why) => self.subscribed(lane, name, Err(why), now),
        }
    }

    /// Handles a peer's answer to a subscription.
    pub(super) fn subscribed(
        &mut self,
        lane: usize,
        name: SubscriptionId,
        outcome: Result<Reliability, Refusal>,
        now: Time,
    ) {
        let random = self.core.random();
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        if let Some(moving) = it.moving.as_ref().filter(|moving| moving.to == lane) {
            match (outcome, moving.state) {
                (Ok(_), MoveState::Asked(_)) => self.has_both(name, now),
                (Err(_), MoveState::Asked(_) | MoveState::Both(_)) => self.stay(name, now),
                (Ok(_), MoveState::Both(_))
                | (_, MoveState::Leaving | MoveState::Questioned { .. }) => {}
            }
            return;
        }
        match outcome {
            Ok(granted) => {
                if it.lane() != Some(lane) {
                    return;
                }
                it.home = Home::Standing(lane);
                (it.attempt, it.has_gap) = (0, false);
                let lost = it
                    .lost
                    .take()
                    .map(|(lost, _)| lost)
                    .filter(|lost| *lost != lane);
                if !std::mem::replace(&mut it.is_told, true) {
                    self.core.books.notices.push_back(Notice::Subscribed {
                        subscription: name,
                        outcome: Ok(granted),
                    });
                }
                if let Some(lost) = lost {
                    self.leave_remnant(name, lost, now);
                }
                self.core.care_at = now;
            }
            Err(Refusal::Window | Refusal::NotConnected | Refusal::Busy(_) | Refusal::NoAnswer) => {
                it.home = Home::Nowhere;
                let wait = 500_u64.saturating_mul(1 << it.attempt.min(6)) * 1_000_000;
                it.attempt += 1;
                it.retry_at = now + Span::from_nanos(wait / 2 + random % wait.max(1));
                self.core.care_at = self.core.care_at.min(it.retry_at);
            }
            Err(why) => self.refuse(name, why),
        }
    }

    /// A subscription has ended by itself on a lane.
    pub(super) fn unsubscribed(
        &mut self,
        lane: usize,
        name: SubscriptionId,
        why: Refusal,
        now: Time,
    ) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        if it.moving.as_ref().is_some_and(|moving| moving.to == lane) {
            self.stay(name, now);
        } else if it.lane() == Some(lane) {
            it.has_gap = true;
            match why {
                Refusal::Denied(_) | Refusal::Address | Refusal::Unsupported(_) => {
                    self.refuse(name, why)
                }
                _ => self.subscribed(lane, name, Err(why), now),
            }
        }
    }

    /// Ends a subscription that cannot be made, and notifies its handle.
    fn refuse(&mut self, name: SubscriptionId, why: Refusal) {
        if self.core.subscriptions.remove(&name).is_some() {
            self.core.books.notices.push_back(Notice::Subscribed {
                subscription: name,
                outcome: Err(why),
            });
        }
    }

    /// A lane is up again.
    pub(super) fn subscriptions_up(&mut self, lane: usize, session_present: bool, now: Time) {
        for it in self.core.subscriptions.values_mut() {
            if it.home == Home::Nowhere && it.lost.is_some_and(|(lost, _)| lost == lane) {
                it.has_gap = !session_present;
                it.retry_at = now;
            }
        }
        let Some(at) = self.lanes.get_mut(lane) else {
            return;
        };
        match session_present {
            true => at
                .link
                .remnants
                .iter_mut()
                .for_each(|(_, until)| *until = now + REMNANT),
            false => at.link.remnants.clear(),
        }
    }

    /// A lane was lost whose peer may have kept messages for a subscription that is elsewhere now: they are fetched when
    /// the lane is there again.
    fn leave_remnant(&mut self, name: SubscriptionId, lane: usize, now: Time) {
        if self.core.settings.opening.session > Span::ZERO
            && let Some(lost) = self.lanes.get_mut(lane)
        {
            lost.link.remnants.retain(|(other, _)| *other != name);
            let until = if lost.link.is_up() {
                now + REMNANT
            } else {
                Time::NEVER
            };
            lost.link.remnants.push((name, until));
        }
    }

    /// Ends the old subscriptions whose kept messages have all arrived.
    fn end_remnants(&mut self, now: Time) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.link.is_up() {
                // Nothing but this may need the lane.
                continue;
            }
            for (name, _) in lane.link.remnants.iter().filter(|(_, until)| *until <= now) {
                let is_here = self
                    .core
                    .subscriptions
                    .get(name)
                    .is_some_and(|it| it.is_at(number));
                if !is_here {
                    lane.transport.unsubscribe(*name, now, &mut lane.out);
                }
            }
            lane.link.remnants.retain(|(_, until)| *until > now);
        }
        let fetch: Vec<usize> = (0..self.lanes.len())
            .filter(|lane| {
                self.lanes
                    .get(*lane)
                    .is_some_and(|lane| !lane.link.remnants.is_empty())
            })
            .collect();
        for lane in fetch {
            self.connect(lane, now);
            if let Some(closed) = self.lanes.get(lane).filter(|lane| !lane.link.is_open()) {
                self.core.care_at = self.core.care_at.min(closed.link.retry_at);
            }
        }
    }

    /// A lane's connection was lost.
    pub(super) fn subscriptions_lost(&mut self, lane: usize, now: Time) {
        // Messages may be missing after a subscription has left a lane.
        let left = |it: &mut Subscription| it.tail.take_if(|tail| *tail == lane).is_some();
        let tails = self
            .core
            .subscriptions
            .iter_mut()
            .filter_map(|(name, it)| left(it).then_some(*name));
        for name in tails.collect::<Vec<_>>() {
            self.leave_remnant(name, lane, now);
        }
        let names: Vec<SubscriptionId> = self
            .core
            .subscriptions
            .iter()
            .filter(|(_, it)| it.is_at(lane))
            .map(|(name, _)| *name)
            .collect();
        for name in names {
            let Some(it) = self.core.subscriptions.get_mut(&name) else {
                continue;
            };
            if it.moving.as_ref().is_some_and(|moving| moving.to == lane) {
                if it
                    .moving
                    .as_ref()
                    .is_some_and(|moving| moving.state.has_left())
                {
                    // It has left the old lane already, and is nowhere now.
                    self.arrive(name, now);
                } else {
                    self.stay(name, now);
                    continue;
                }
            } else if it.moving.is_some() {
                match it.moving.as_ref().map(|moving| moving.state.has_come()) {
                    // The new lane has it: nothing more comes of the old one, unless that is connected again.
                    Some(true) => {
                        self.arrive(name, now);
                        self.leave_remnant(name, lane, now);
                        continue;
                    }
                    _ => {
                        if let Some(to) = it.moving.take().map(|moving| moving.to)
                            && let Some(lane) = self.up_lane(to)
                        {
                            lane.transport.unsubscribe(name, now, &mut lane.out);
                        }
                    }
                }
            }
            let Some(it) = self.core.subscriptions.get_mut(&name) else {
                continue;
            };
            it.home = Home::Nowhere;
            it.has_gap = true;
            let before = it
                .lost
                .replace((lane, now))
                .map(|(before, _)| before)
                .filter(|before| *before != lane);
            it.retry_at = now;
            it.late.retain(|(_, at, _, _)| *at != lane);
            if let Some(before) = before {
                self.leave_remnant(name, before, now);
            }
        }
        self.core.care_at = now;
    }

    /// Moves a subscription to the lane that publishes, if that can carry it.
    fn move_on(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        if let Some(moving) = &it.moving {
            match moving.state {
                MoveState::Asked(since) if since + ANSWER <= now => self.stay(name, now),
                MoveState::Asked(since) => {
                    self.core.care_at = self.core.care_at.min(since + ANSWER)
                }
                MoveState::Both(until) if until <= now || moving.is_full(&self.core.settings) => {
                    self.leave_home(name, now)
                }
                MoveState::Both(until) => self.core.care_at = self.core.care_at.min(until),
                MoveState::Leaving
                    if it.outstanding > 0
                        && moving.held.len() < self.core.settings.receive_max as usize => {}
                MoveState::Leaving => self.question(name, now),
                MoveState::Questioned { answers, until } => {
                    let home = it
                        .lane()
                        .and_then(|lane| self.lanes.get(lane))
                        .map_or(u64::MAX, |lane| lane.link.answers);
                    if until <= now || home >= answers {
                        if let Some(silent) = it
                            .lane()
                            .filter(|_| home < answers)
                            .and_then(|lane| self.lanes.get_mut(lane))
                        {
                            silent.link.forgo_answers();
                        }
                        self.arrive(name, now);
                    } else {
                        self.core.care_at = self.core.care_at.min(until);
                    }
                }
            }
            return;
        }
        let Some(way) = self.core.ways.get(it.way) else {
            return;
        };
        let (Home::Standing(home), Some(to)) = (it.home, way.current) else {
            return;
        };
        if home == to || way.drain.is_some() || it.retry_at > now {
            return;
        }
        let [Some(old), Some(new)] = [self.lanes.get(home), self.lanes.get(to)] else {
            return;
        };
        let (old, new) = (&old.link.capabilities, &new.link.capabilities);
        // A worse lane is no reason to move; nor is a better one if repetitions cannot be recognized but must not be.
        let is_no_worse = it.fits(new) || (!it.fits(old) && it.can_be_at(new));
        let is_safe = it.reliability != Reliability::ExactlyOnce
            || (old.carries_stamps && new.carries_stamps);
        if !(is_no_worse && is_safe) {
            return;
        }
        let Some(lane) = self.lanes.get_mut(to) else {
            return;
        };
        let wish = it.wish(name, &lane.link.capabilities, false);
        if lane.transport.subscribe(&wish, now, &mut lane.out).is_ok() {
            it.moving = Some(Move {
                to,
                held: VecDeque::new(),
                state: MoveState::Asked(now),
            });
            self.core.care_at = self.core.care_at.min(now + ANSWER);
        } else {
            it.retry_at = now + ANSWER;
            self.core.care_at = self.core.care_at.min(it.retry_at);
        }
    }

    /// The new lane has a subscription: ends it on the old one, at once or when the messages in flight have had their
    /// time.
    fn has_both(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let can = |lane: Option<usize>| {
            lane.and_then(|lane| self.lanes.get(lane))
                .map(|lane| &lane.link.capabilities)
        };
        let (old, new) = (
            can(it.lane()),
            can(it.moving.as_ref().map(|moving| moving.to)),
        );
        let needs_time = old.is_some_and(|old| !old.keeps_order && old.carries_stamps)
            && new.is_some_and(|new| new.carries_stamps)
            && it.reliability != Reliability::AtMostOnce;
        match &mut it.moving {
            Some(moving) if needs_time => {
                moving.state = MoveState::Both(now + BOTH);
                self.core.care_at = self.core.care_at.min(now + BOTH);
            }
            _ => self.leave_home(name, now),
        }
    }

    /// The new lane has a subscription: ends it on the old one.
    fn leave_home(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let Some(lane) = it.lane().and_then(|lane| self.lanes.get_mut(lane)) else {
            return;
        };
        lane.transport.unsubscribe(name, now, &mut lane.out);
        if let Some(moving) = &mut it.moving {
            moving.state = MoveState::Leaving;
        }
        self.core.care_at = now;
    }

    /// Asks the old lane something, so that its answer tells that nothing more comes.
    fn question(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let Some(lane) = it.lane().and_then(|lane| self.lanes.get_mut(lane)) else {
            return;
        };
        let (answers, _) = lane.question(now);
        let until = now + lane.link.drain(&self.core.settings);
        if let Some(moving) = &mut it.moving {
            moving.state = MoveState::Questioned { answers, until };
        }
        self.core.care_at = self.core.care_at.min(until);
    }

    /// A subscription has moved: what was held goes to the handle.
    fn arrive(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let Some(moving) = it.moving.take() else {
            return;
        };
        it.tail = it.lane();
        it.home = Home::Standing(moving.to);
        it.deaf = None;
        if let Some(lane) = self
            .lanes
            .get_mut(moving.to)
            .filter(|lane| lane.link.is_up())
        {
            let (answers, _) = lane.question(now);
            it.deaf = Some((answers, now + lane.link.drain(&self.core.settings)));
        }
        for (message, connection, delivery) in moving.held {
            self.core
                .hand_over(name, message, moving.to, connection, delivery);
        }
        self.core.care_at = now;
    }

    /// A subscription could not move: it stays where it is, and tries again later.
    fn stay(&mut self, name: SubscriptionId, now: Time) {
        let Some(it) = self.core.subscriptions.get_mut(&name) else {
            return;
        };
        let Some(moving) = it.moving.take() else {
            return;
        };
        it.retry_at = now + ANSWER;
        self.core.care_at = self.core.care_at.min(it.retry_at);
        if let Some(lane) = self.up_lane(moving.to) {
            lane.transport.unsubscribe(name, now, &mut lane.out);
        }
    }
}

impl Core {
    /// Nobody lets us in: subscriptions that never stood and questions of a way are over. Those that stood wait for better
    /// times.
    pub(super) fn refuse_waiting(&mut self, way: usize, why: &str) {
        let waits = |it: &Subscription| it.way == way && !it.is_told;
        let names: Vec<SubscriptionId> = self
            .subscriptions
            .iter()
            .filter(|(_, it)| waits(it))
            .map(|(name, _)| *name)
            .collect();
        for subscription in names {
            self.subscriptions.remove(&subscription);
            let outcome = Err(Refusal::Denied(why.to_owned()));
            self.books.notices.push_back(Notice::Subscribed {
                subscription,
                outcome,
            });
        }
        let asks: Vec<_> = self
            .asks
            .iter()
            .filter(|(_, ask)| ask.way == way)
            .map(|(name, _)| *name)
            .collect();
        asks.into_iter()
            .for_each(|ask| self.answered(ask, Err(Refusal::Denied(why.to_owned()))));
    }

    /// Gives a message to its handle, unless it is a repetition.
    pub(super) fn hand_over(
        &mut self,
        name: SubscriptionId,
        message: Message,
        lane: usize,
        connection: u32,
        delivery: Option<DeliveryId>,
    ) {
        let Some(it) = self.subscriptions.get_mut(&name) else {
            return;
        };
        if message.stamp().is_some_and(|stamp| !it.seen.is_new(stamp)) {
            self.books.counts.duplicates += 1;
            match delivery {
                // The first copy may not have been taken yet: the peer must not forget this one before.
                Some(delivery) if it.outstanding > 0 => {
                    it.late
                        .push_back((it.delivered, lane, connection, delivery))
                }
                Some(delivery) => self.todo.push((lane, super::Todo::Settle(delivery))),
                None => {}
            }
            return;
        }
        it.delivered += 1;
        it.outstanding += 1;
        it.awaited += u32::from(delivery.is_some());
        let bytes = message.memory_bytes();
        it.outstanding_bytes += bytes as usize;
        self.books.counts.received += 1;
        let number = it.delivered;
        let token = DeliveryToken {
            subscription: name,
            lane: lane as u32,
            connection,
            delivery,
            number,
            bytes,
        };
        self.books.notices.push_back(Notice::Delivered {
            subscription: name,
            token,
            message,
        });
    }
}
