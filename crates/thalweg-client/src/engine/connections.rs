//! Connections of lanes: how they begin and end, and the events of their transports.

use std::net::SocketAddr;

use thalweg_model::{Reliability, Span, Time};

use super::interface::{Action, LaneState, Notice, Success};
use super::lane::{GIVE_UPS_MAX, Lane, Link, Todo};
use super::outbox::Place;
use super::settings::EngineSettings;
use super::{Core, Engine, TICK};
use crate::message::Message;
use crate::transport::{
    Events, Inbound, LinkFault, MessageId, Opening, Refusal, RequestId, Settled, SubscriptionId,
    Welcome,
};

/// The first wait after a peer asked us to; doubles each time up to [`EngineSettings::backoff_max`].
const BUSY_WAIT: Span = Span::from_millis(100);

impl Lane {
    /// When something is to be done for this lane alone.
    pub fn wakes_at(&self, settings: &EngineSettings) -> Time {
        let link = &self.link;
        match link.state {
            LaneState::Idle | LaneState::Waiting => Time::NEVER,
            LaneState::Connecting | LaneState::Opening => {
                let patience = link.since + settings.connect_timeout;
                if link.state == LaneState::Opening {
                    patience.min(self.transport.poll_timeout())
                } else {
                    patience
                }
            }
            LaneState::Up => {
                let remnants = link
                    .remnants
                    .iter()
                    .map(|(_, at)| *at)
                    .min()
                    .unwrap_or(Time::NEVER);
                self.transport.poll_timeout().min(remnants)
            }
        }
    }
}

impl Engine {
    /// Has a lane connected, unless it is already or has to wait.
    pub(super) fn connect(&mut self, lane: usize, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if it.link.is_open() || it.link.retry_at > now || self.core.is_closed {
            return;
        }
        it.link.enter(LaneState::Connecting, now);
        it.link.unneeded = None;
        self.core.actions.push_back(Action::Connect(lane));
        self.core.tick_at = self.core.tick_at.min(now + TICK);
    }

    /// The driver has connected a lane.
    pub(super) fn begin(&mut self, lane: usize, peer: SocketAddr, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if it.link.state != LaneState::Connecting {
            return;
        }
        it.link.enter(LaneState::Opening, now);
        it.link.connection = it.link.connection.wrapping_add(1);
        it.out.clear();
        let opening = &self.core.settings.opening;
        match it.link.way {
            0 => it.transport.open(opening, peer, now, &mut it.out),
            // The will is for the client's own brokers.
            _ => {
                let opening = Opening {
                    will: None,
                    ..opening.clone()
                };
                it.transport.open(&opening, peer, now, &mut it.out);
            }
        }
    }

    /// Bytes of the peer. Returns how many are consumed.
    pub(super) fn hear(&mut self, lane: usize, input: &[u8], now: Time) -> usize {
        let Some(it) = self.lanes.get_mut(lane) else {
            return input.len();
        };
        if !matches!(it.link.state, LaneState::Opening | LaneState::Up) {
            return input.len();
        }
        let mut listener = Listener {
            core: &mut self.core,
            link: &mut it.link,
            lane,
            now,
        };
        match it
            .transport
            .handle_input(input, now, &mut it.out, &mut listener)
        {
            Ok(consumed) => {
                self.check_give_ups(lane, now);
                consumed.min(input.len())
            }
            Err(fault) => {
                self.fault(lane, &fault, now);
                input.len()
            }
        }
    }

    pub(super) fn lane_timeout(&mut self, lane: usize, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if matches!(it.link.state, LaneState::Opening | LaneState::Up)
            && it.transport.poll_timeout() <= now
        {
            let mut listener = Listener {
                core: &mut self.core,
                link: &mut it.link,
                lane,
                now,
            };
            if let Err(fault) = it.transport.handle_timeout(now, &mut it.out, &mut listener) {
                self.fault(lane, &fault, now);
                return;
            }
            self.check_give_ups(lane, now);
        }
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        let patience = it.link.since + self.core.settings.connect_timeout;
        if matches!(it.link.state, LaneState::Connecting | LaneState::Opening) && patience <= now {
            let words = match it.link.state {
                LaneState::Connecting => "no connection in time",
                _ => "the peer did not let us in in time",
            };
            self.core.actions.push_back(Action::Disconnect(lane));
            self.lost(lane, words, false, now);
        }
    }

    /// Ends a connection whose transport gives up one message after another.
    fn check_give_ups(&mut self, lane: usize, now: Time) {
        if self
            .lanes
            .get(lane)
            .is_some_and(|it| it.link.give_ups >= GIVE_UPS_MAX && it.link.is_open())
        {
            self.work_off(lane, now);
            self.core.actions.push_back(Action::Disconnect(lane));
            self.lost(lane, "the peer does not answer", false, now);
        }
    }

    fn fault(&mut self, lane: usize, fault: &LinkFault, now: Time) {
        // Events before the fault are valid: one may be an acknowledgement.
        self.work_off(lane, now);
        self.core.actions.push_back(Action::Disconnect(lane));
        self.lost(lane, &fault.words, fault.is_final, now);
    }

    /// Handles a lost or failed connection. Messages in flight wait again.
    pub(super) fn lost(&mut self, lane: usize, words: &str, is_final: bool, now: Time) {
        let random = self.core.random();
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if matches!(it.link.state, LaneState::Opening | LaneState::Up) {
            it.transport.closed();
        }
        it.link.back_off(&self.core.settings, random, is_final, now);
        it.link.enter(LaneState::Waiting, now);
        it.link.words.clear();
        it.link.words.push_str(words);
        self.core.books.notices.push_back(Notice::Down {
            lane,
            words: words.to_owned(),
            is_final,
        });
        self.forsake(lane, now);
        if let Some(chooser) = &mut self.core.chooser
            && self.lanes.get(lane).is_some_and(|it| it.link.way == 0)
        {
            chooser.down(lane, now);
        }
        self.subscriptions_lost(lane, now);
        self.asks_lost(lane, now);
        if is_final && let Some(way) = self.lanes.get(lane).map(|it| it.link.way) {
            self.give_up_if_final(way, words, now);
        }
    }

    /// Disconnects a lane that is not needed. Messages in flight wait again.
    pub(super) fn dismiss(&mut self, lane: usize, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if !it.link.is_open() {
            return;
        }
        if it.link.state != LaneState::Connecting {
            it.transport.close(now, &mut it.out);
            it.transport.closed();
        }
        if it.link.is_up() {
            self.core.books.notices.push_back(Notice::Left { lane });
        }
        it.link.enter(LaneState::Idle, now);
        it.link.unneeded = None;
        (it.link.attempt, it.link.retry_at) = (0, Time::ZERO);
        self.core.actions.push_back(Action::Disconnect(lane));
        self.forsake(lane, now);
        if let Some(chooser) = &mut self.core.chooser
            && self.lanes.get(lane).is_some_and(|it| it.link.way == 0)
        {
            chooser.idle(lane, now);
        }
        if !self.core.is_closed {
            self.subscriptions_lost(lane, now);
            self.asks_lost(lane, now);
        }
    }

    /// Takes back what a lane has that is not connected any more.
    fn forsake(&mut self, lane: usize, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        let link = &mut it.link;
        (
            link.has_room,
            link.resume_at,
            link.busy,
            link.give_ups,
            link.pinned,
        ) = (true, Time::ZERO, 0, 0, 0);
        (link.gone_at, link.round_trip) = (None, None);
        link.forgo_answers();
        link.former.clear();
        link.throttle.closed();
        let flight = std::mem::take(&mut link.flight);
        let way = link.way;
        for key in flight {
            self.core.take_back(way, lane, key, now);
        }
    }

    /// Does what transports told while they were called.
    pub(super) fn work_off(&mut self, lane: usize, now: Time) {
        // Doing one thing may make a transport tell another, but nothing goes on for ever: each answers a question of ours.
        while !self.core.todo.is_empty() {
            for (lane, todo) in std::mem::take(&mut self.core.todo) {
                match todo {
                    Todo::Up { session_present } => self.up(lane, session_present, now),
                    Todo::Subscribed(subscription, outcome) => {
                        self.subscribed(lane, subscription, outcome, now)
                    }
                    Todo::Unsubscribed(subscription, why) => {
                        self.unsubscribed(lane, subscription, why, now)
                    }
                    Todo::Former(key) => self.acknowledged_late(key, now),
                    Todo::Settle(delivery) => {
                        if let Some(it) = self.lanes.get_mut(lane).filter(|it| it.link.is_up()) {
                            it.transport.settle(delivery, now, &mut it.out);
                        }
                    }
                }
            }
        }
        let _ = lane;
    }

    /// A peer let us in.
    fn up(&mut self, lane: usize, session_present: bool, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if it.link.state != LaneState::Opening {
            return;
        }
        it.link.enter(LaneState::Up, now);
        it.link.ups += 1;
        it.link.is_final = false;
        it.link.capabilities = it.transport.capabilities();
        self.core.books.notices.push_back(Notice::Up {
            lane,
            session_present,
        });
        if let Some(chooser) = &mut self.core.chooser
            && it.link.way == 0
        {
            chooser.up(lane, &it.link.capabilities, now);
        }
        let way = it.link.way;
        if !session_present {
            self.core.unpin(way, |pinned| pinned == lane as u32, now);
        }
        self.subscriptions_up(lane, session_present, now);
        self.core.care_at = now;
    }

    /// Reads conditions, and closes unneeded lanes.
    pub(super) fn tick(&mut self, now: Time) {
        let mut any_open = false;
        for lane in 0..self.lanes.len() {
            let is_needed = self.is_needed(lane);
            let Some(it) = self.lanes.get_mut(lane) else {
                continue;
            };
            if !it.link.is_open() {
                continue;
            }
            any_open = true;
            if let Some(chooser) = &mut self.core.chooser
                && it.link.way == 0
                && it.link.is_up()
            {
                chooser.counters(lane, it.transport.counters(), now);
                let slots = it.link.flight.iter();
                let slots = slots.filter_map(|key| self.core.books.outbox.get(*key));
                chooser.unsettled(lane, slots.map(|slot| slot.sent), now);
            }
            if is_needed {
                it.link.unneeded = None;
            } else if *it.link.unneeded.get_or_insert(now) + self.core.settings.standby <= now {
                self.dismiss(lane, now);
            }
        }
        self.probe(now);
        // With one needed lane and no chooser there is nothing to compare.
        let watches = any_open
            && (self.core.chooser.is_some()
                || (0..self.lanes.len()).any(|lane| !self.is_needed(lane)));
        self.core.tick_at = if watches { now + TICK } else { Time::NEVER };
    }

    /// Sends probes on lanes of which the chooser needs measurements.
    fn probe(&mut self, now: Time) {
        let Some(lane) = self
            .core
            .chooser
            .as_mut()
            .and_then(|chooser| chooser.wants_probe(now))
        else {
            return;
        };
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        if it.link.is_up() {
            let (_, bytes) = it.question(now);
            if let Some(chooser) = &mut self.core.chooser {
                chooser.probed(lane, bytes, now);
            }
        } else {
            self.connect(lane, now);
        }
    }
}

/// Notes what a transport tells while it is called.
pub(super) struct Listener<'e> {
    pub core: &'e mut Core,
    pub link: &'e mut Link,
    pub lane: usize,
    pub now: Time,
}

impl Events for Listener<'_> {
    fn up(&mut self, welcome: &Welcome) {
        self.core.todo.push((
            self.lane,
            Todo::Up {
                session_present: welcome.session_present,
            },
        ));
    }

    fn settled(&mut self, id: MessageId, outcome: Settled) {
        let Listener {
            core,
            link,
            lane,
            now,
        } = self;
        let now = *now;
        let Some(key) = link.landed(id) else {
            if outcome == Settled::Acknowledged
                && let Some(at) = link.former.iter().position(|key| key.id == id)
                && let Some(key) = link.former.remove(at)
            {
                core.todo.push((*lane, Todo::Former(key)));
            } else if outcome == Settled::Acknowledged {
                // A session that the peer has kept may still end what began on an earlier connection.
                let key = core.books.outbox.iter().find(|(key, slot)| {
                    key.id == id
                        && slot.place == Place::Waiting
                        && slot.pinned_to == Some(*lane as u32)
                });
                let former = key.map(|(key, _)| (*lane, Todo::Former(key)));
                core.todo.extend(former);
            }
            return;
        };
        let Some(way) = core.ways.get_mut(link.way) else {
            return;
        };
        let Some(slot) = core.books.outbox.get_mut(key) else {
            return;
        };
        if slot.place != Place::UnderWay(*lane as u32) {
            return;
        }
        let latency = now.since(slot.sent);
        let is_pinned = slot.pinned_to.is_some();
        if is_pinned {
            link.pinned = link.pinned.saturating_sub(1);
        }
        if let Some(chooser) = &mut core.chooser
            && link.way == 0
        {
            chooser.settled(*lane, latency, &outcome, now);
        }
        link.throttle.confirmed(latency, now);
        match outcome {
            Settled::Acknowledged => {
                if !slot.repeated {
                    link.measured(latency);
                }
                (link.busy, link.give_ups) = (0, 0);
                core.books
                    .finish(&mut way.queue, key, Success::Acknowledged, None, now);
            }
            Settled::Refused(
                Refusal::Window | Refusal::NotConnected | Refusal::Busy(_) | Refusal::NoAnswer,
            ) => {
                hold_off(link, &core.settings, now);
                // It was refused: it is not there.
                slot.pinned_to = None;
                core.take_back(link.way, *lane, key, now);
            }
            Settled::Refused(why) => {
                (link.busy, link.give_ups) = (0, 0);
                core.books
                    .finish(&mut way.queue, key, Success::Failed, Some(why), now);
            }
            Settled::Unknown => {
                link.give_ups += 1;
                if is_pinned {
                    core.books
                        .finish(&mut way.queue, key, Success::Unknown, None, now);
                } else {
                    core.take_back(link.way, *lane, key, now);
                }
            }
        }
    }

    fn received(&mut self, message: &Inbound<'_>) {
        self.link.give_ups = 0;
        self.core.receive(self.lane, self.link, message, self.now);
    }

    fn subscribed(&mut self, subscription: SubscriptionId, outcome: Result<Reliability, Refusal>) {
        self.core
            .todo
            .push((self.lane, Todo::Subscribed(subscription, outcome)));
    }

    fn unsubscribed(&mut self, subscription: SubscriptionId, why: Refusal) {
        self.core
            .todo
            .push((self.lane, Todo::Unsubscribed(subscription, why)));
    }

    fn answered(&mut self, request: RequestId, answer: Result<Option<&Inbound<'_>>, Refusal>) {
        // An answer of CoAP does not say what it is the value of.
        let address = self.core.address_read(request).to_owned();
        let whole = |message: &Inbound<'_>| match message.address.is_empty() {
            true => Message::new(&Inbound {
                address: &address,
                ..*message
            }),
            false => Message::new(message),
        };
        self.core
            .answered(request, answer.map(|message| message.map(whole)));
    }

    fn round_trip(&mut self, span: Span) {
        self.link.measured(span);
        self.link.answered();
        self.link.give_ups = 0;
        // A subscription that moves may wait for it.
        self.core.care_at = self.now;
        if let Some(chooser) = &mut self.core.chooser
            && self.link.way == 0
        {
            chooser.round_trip(self.lane, span, self.now);
        }
    }

    fn pressed(&mut self) {
        self.link.throttle.pressed(self.now);
    }

    fn room(&mut self) {
        self.link.has_room = true;
    }
}

/// Applies the peer's request for a pause. Its responses to several earlier messages count once.
pub(super) fn hold_off(link: &mut Link, settings: &EngineSettings, now: Time) {
    if link.resume_at > now {
        return;
    }
    let wait = BUSY_WAIT
        .nanos()
        .saturating_mul(1 << link.busy.min(20))
        .min(settings.backoff_max.nanos());
    link.resume_at = now + Span::from_nanos(wait);
    link.busy = link.busy.saturating_add(1);
}
