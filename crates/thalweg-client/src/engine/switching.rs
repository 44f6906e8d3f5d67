//! Choice of the publishing lane for the brokers of a way, and the move to another: make before break.
//!
//! The new lane is up before the old one ends. Messages in flight on the old lane are awaited for a while
//! ([`super::lane::Link::drain`]). Messages of other topics are sent over the new lane meanwhile; those of the same
//! topics wait. Unacknowledged messages are then sent again on the new lane, before all later ones. At-most-once
//! messages wait until the old lane has answered a ping, so that they do not overtake one another.

use thalweg_model::Time;

use super::interface::{LaneState, Notice, Success};
use super::outbox::{Key, Outbox, Place};
use super::queue::Queue;
use super::settings::WhenRefused;
use super::{Engine, TICK};
use crate::transport::Refusal;

/// The brokers of one destination: its lanes, one of which publishes.
#[derive(Debug)]
pub(super) struct Way {
    pub lanes: Vec<usize>,
    /// Lanes that do not publish.
    pub receivers: Vec<usize>,
    /// The lane that publishes; it was up when it was chosen.
    pub current: Option<usize>,
    /// The lane that should.
    pub target: Option<usize>,
    /// The lane that did before.
    pub before: Option<usize>,
    pub queue: Queue,
    /// Taken since the last turn.
    pub gathering: Vec<Key>,
    pub drain: Option<Drain>,
    /// Nothing is sent until the protocol's own exactly once has come to an end, so that another lane can take over; at
    /// most until then.
    pub quiet_until: Option<Time>,
    /// Another lane is not tried before, after it could not take over.
    pub rest_until: Time,
    /// When the lane that publishes takes more, if that needs no event.
    pub send_at: Time,
    /// A message that the current lane cannot carry, and since when it waits for another.
    pub stuck: Option<(Key, Time)>,
    /// Since when no lane is up.
    pub without_since: Option<Time>,
}

/// Messages in flight on the lane that published before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub lane: usize,
    pub until: Time,
    /// Messages sent at most once wait until this lane has measured so many round trips.
    pub barrier: Option<u64>,
}

impl Way {
    pub fn new(lanes: Vec<usize>, receivers: Vec<usize>) -> Self {
        Way {
            lanes,
            receivers,
            current: None,
            target: None,
            before: None,
            queue: Queue::default(),
            gathering: Vec::new(),
            drain: None,
            quiet_until: None,
            rest_until: Time::ZERO,
            send_at: Time::NEVER,
            stuck: None,
            without_since: None,
        }
    }

    /// The lanes that may carry subscriptions: all.
    pub fn all_lanes(&self) -> impl Iterator<Item = usize> {
        self.lanes.iter().chain(&self.receivers).copied()
    }

    /// The message that has to go when there is no room, of a priority of `class_max` at most; and whether it is still
    /// being gathered.
    pub fn oldest(&self, class_max: usize, outbox: &Outbox) -> Option<(Key, bool)> {
        let class = |key: &Key| outbox.get(*key).map(|slot| usize::from(slot.class));
        let gathered = self
            .gathering
            .iter()
            .filter_map(|key| Some((class(key)?, *key, true)));
        let waiting = self
            .queue
            .oldest(class_max, outbox)
            .map(|(class, key)| (class, key, false));
        let oldest = gathered
            .filter(|(class, _, _)| *class <= class_max)
            .chain(waiting)
            .min();
        oldest.map(|(_, key, is_gathered)| (key, is_gathered))
    }
}

impl Engine {
    /// Looks at which lane should publish, connects it, and lets it take over when it is up.
    pub(super) fn steer(&mut self, way: usize, now: Time) {
        if self.core.is_closed {
            return;
        }
        self.check_drain(way, now);
        self.check_current(way, now);
        let target = self.choose(way, now);
        let Some(it) = self.core.ways.get_mut(way) else {
            return;
        };
        it.target = target;
        let Some(target) = target else { return };
        let current = it.current;
        if self.lanes.get(target).is_some_and(|lane| lane.link.is_up()) {
            if current != Some(target) {
                self.take_over(way, target, now);
            }
            return;
        }
        self.connect(target, now);
        if current.is_none() {
            self.make_do(way, target, now);
        }
    }

    /// The lane that publishes has been lost.
    fn check_current(&mut self, way: usize, now: Time) {
        let Some(it) = self.core.ways.get_mut(way) else {
            return;
        };
        let is_up = |lane: usize| self.lanes.get(lane).is_some_and(|lane| lane.link.is_up());
        if it.current.is_some_and(|lane| !is_up(lane)) {
            it.current = None;
            it.quiet_until = None;
        }
        match it.current {
            Some(_) => it.without_since = None,
            None => {
                it.without_since.get_or_insert(now);
            }
        }
    }

    /// The lane that should publish.
    fn choose(&mut self, way_number: usize, now: Time) -> Option<usize> {
        let way = self.core.ways.get(way_number)?;
        if !self.is_wanted(way_number) {
            return way.current;
        }
        if let [only] = way.lanes[..] {
            return Some(only);
        }
        if way_number == 0 && self.core.preferred.is_some() {
            return self.core.preferred;
        }
        if way_number == 0
            && let Some(chooser) = &mut self.core.chooser
        {
            let lane = chooser.decide(now).lane;
            return way
                .lanes
                .contains(&lane)
                .then_some(lane)
                .or(way.lanes.first().copied());
        }
        if way.current.is_some() {
            return way.current;
        }
        // The first in the order that the user gave, unless it has failed more recently than others.
        let link = |lane: &usize| self.lanes.get(*lane).map(|lane| &lane.link);
        let open = way
            .lanes
            .iter()
            .find(|lane| link(lane).is_some_and(|link| link.is_open()));
        let soonest = || {
            way.lanes
                .iter()
                .min_by_key(|lane| link(lane).map_or(Time::NEVER, |link| link.retry_at.max(now)))
        };
        open.or_else(soonest).copied()
    }

    /// Whether a way has anything to do. The client's brokers always have: their connection is kept.
    fn is_wanted(&self, way_number: usize) -> bool {
        let Some(way) = self.core.ways.get(way_number) else {
            return false;
        };
        way_number == 0
            || way.queue.is_waiting()
            || self
                .core
                .subscriptions
                .values()
                .any(|it| it.way == way_number)
            || self.core.asks.values().any(|it| it.way == way_number)
    }

    /// The lane that should publish is not up, and no other publishes: what is up takes its place after a while, and others
    /// are connected too.
    fn make_do(&mut self, way_number: usize, target: usize, now: Time) {
        let Some(way) = self.core.ways.get(way_number) else {
            return;
        };
        let since = way.without_since.unwrap_or(now);
        let target_waits = self
            .lanes
            .get(target)
            .is_some_and(|lane| lane.link.state == LaneState::Waiting);
        if !target_waits && now.since(since) < PATIENCE {
            return;
        }
        let lanes = way.lanes.clone();
        if let Some(up) = lanes
            .iter()
            .find(|&&lane| self.lanes.get(lane).is_some_and(|lane| lane.link.is_up()))
        {
            self.take_over(way_number, *up, now);
            return;
        }
        for lane in lanes {
            self.connect(lane, now);
        }
    }

    /// Another lane is up and publishes from now on.
    fn take_over(&mut self, way_number: usize, lane: usize, now: Time) {
        let Some(way) = self.core.ways.get_mut(way_number) else {
            return;
        };
        let Some(old) = way.current else {
            let is_back = way.drain.is_some_and(|drain| drain.lane == lane);
            if is_back {
                way.drain = None;
            }
            self.adopt(way_number, lane, now);
            return;
        };
        if way.drain.is_some() || way.rest_until > now {
            return;
        }
        let Some(from) = self.lanes.get_mut(old) else {
            return;
        };
        if from.link.pinned > 0 {
            let until = *way
                .quiet_until
                .get_or_insert(now + self.core.settings.drain_max);
            if until <= now {
                // The peer takes its time; we go on as before and try again later.
                way.quiet_until = None;
                way.rest_until = now + self.core.settings.drain_max;
            }
            return;
        }
        way.quiet_until = None;
        let span = from.link.drain(&self.core.settings);
        let until = now + span;
        let sent_lately = from.link.gone_at.is_some_and(|at| now.since(at) < span);
        let barrier = sent_lately.then(|| from.question(now).0);
        if !from.link.flight.is_empty() || barrier.is_some() {
            way.drain = Some(Drain {
                lane: old,
                until,
                barrier,
            });
            way.queue
                .set_hold(barrier.is_some(), &self.core.books.outbox);
        }
        self.adopt(way_number, lane, now);
    }

    /// A lane publishes from now on.
    fn adopt(&mut self, way_number: usize, lane: usize, now: Time) {
        self.core
            .unpin(way_number, |pinned| pinned != lane as u32, now);
        let Some(way) = self.core.ways.get_mut(way_number) else {
            return;
        };
        way.current = Some(lane);
        (way.without_since, way.quiet_until, way.stuck) = (None, None, None);
        let from = way.before.replace(lane);
        if from != Some(lane) {
            self.core.books.counts.switches += u64::from(from.is_some());
            self.core.books.notices.push_back(Notice::Switched {
                way: way_number as u32,
                from,
                to: lane,
            });
        }
        if way.drain.is_none() {
            way.queue.set_hold(false, &self.core.books.outbox);
        }
        self.set_order(way_number);
        self.core.care_at = now;
    }

    /// One message of a topic at a time where the lane asks for it, or while some are under way on another lane.
    fn set_order(&mut self, way_number: usize) {
        let Some(way) = self.core.ways.get_mut(way_number) else {
            return;
        };
        let keeps_order = |lane: usize| {
            self.lanes
                .get(lane)
                .is_some_and(|lane| lane.link.capabilities.publishes_in_order)
        };
        let is_serial = way.drain.is_some() || way.current.is_some_and(|lane| !keeps_order(lane));
        let outbox = &self.core.books.outbox;
        let topics: Vec<u64> = outbox
            .iter()
            .filter(|(_, slot)| {
                slot.way as usize == way_number && matches!(slot.place, Place::UnderWay(_))
            })
            .map(|(_, slot)| slot.topic)
            .collect();
        way.queue.set_serial(is_serial, topics.into_iter(), outbox);
    }

    /// Ends the wait for the old lane when it has nothing more, or its time is over.
    fn check_drain(&mut self, way_number: usize, now: Time) {
        let Some(way) = self.core.ways.get_mut(way_number) else {
            return;
        };
        let Some(drain) = way.drain else { return };
        let Some(old) = self.lanes.get_mut(drain.lane) else {
            return;
        };
        let link = &mut old.link;
        let is_over = drain.until <= now || !link.is_up();
        if drain
            .barrier
            .is_some_and(|answers| is_over || link.answers >= answers)
        {
            if is_over {
                link.forgo_answers();
            }
            way.queue.set_hold(false, &self.core.books.outbox);
            way.drain = Some(Drain {
                barrier: None,
                ..drain
            });
        }
        if !is_over
            && (!link.flight.is_empty() || way.drain.is_some_and(|drain| drain.barrier.is_some()))
        {
            return;
        }
        way.drain = None;
        let flight = std::mem::take(&mut link.flight);
        let way_of_lane = link.way;
        for key in flight.iter().rev() {
            old.transport.abandon(key.id);
        }
        for key in flight {
            self.core.take_back(way_of_lane, drain.lane, key, now);
            if self.core.books.outbox.get(key).is_some() {
                old.link.former.push_back(key);
            }
        }
        old.link.pinned = 0;
        let surplus = old
            .link
            .former
            .len()
            .saturating_sub(self.core.settings.in_flight_max as usize);
        old.link.former.drain(..surplus);
        self.set_order(way_number);
        // Subscriptions may move now.
        self.core.care_at = now;
    }

    /// Whether a lane has a purpose now.
    pub(super) fn is_needed(&self, lane: usize) -> bool {
        let Some(it) = self.lanes.get(lane) else {
            return false;
        };
        let Some(way) = self.core.ways.get(it.link.way) else {
            return false;
        };
        let publishes =
            [way.current, way.target, way.drain.map(|drain| drain.lane)].contains(&Some(lane));
        (publishes && self.is_wanted(it.link.way))
            || !it.link.flight.is_empty()
            || !it.link.remnants.is_empty()
            || self.core.subscriptions.values().any(|one| one.is_at(lane))
            || self.core.asks.values().any(|ask| ask.is_at(lane))
    }

    /// When something is to be done for a way.
    pub(super) fn way_wakes_at(&self, way: &Way) -> Time {
        let mut at = [
            way.drain.map(|drain| drain.until),
            way.quiet_until,
            way.stuck.map(|(_, since)| since + super::send::PATIENCE),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Time::NEVER);
        if way.current.is_some() {
            return at.min(way.send_at);
        }
        let lane = |lane: &usize| self.lanes.get(*lane);
        let Some(first) = way.lanes.first().and_then(lane) else {
            return at;
        };
        if !self.is_wanted(first.link.way) {
            return at;
        }
        // The lane that should publish is tried as soon as it may be; others only when it has had its chance.
        let target_waits = way
            .target
            .as_ref()
            .and_then(lane)
            .is_none_or(|lane| lane.link.state == LaneState::Waiting);
        let patience = way
            .without_since
            .map_or(Time::NEVER, |since| since + PATIENCE);
        for number in &way.lanes {
            let Some(closed) = lane(number).filter(|lane| !lane.link.is_open()) else {
                continue;
            };
            let has_chance = target_waits || way.target == Some(*number);
            at = at.min(if has_chance {
                closed.link.retry_at
            } else {
                closed.link.retry_at.max(patience)
            });
        }
        at
    }

    /// Handles a final refusal by every lane of a way: waiting handles are notified, and messages wait or fail as
    /// [`WhenRefused`] says.
    pub(super) fn give_up_if_final(&mut self, way_number: usize, why: &str, now: Time) {
        let Some(way) = self.core.ways.get(way_number) else {
            return;
        };
        if !way
            .lanes
            .iter()
            .all(|lane| self.lanes.get(*lane).is_none_or(|lane| lane.link.is_final))
        {
            return;
        }
        let keys: Vec<Key> = way
            .queue
            .iter()
            .chain(way.gathering.iter().copied())
            .collect();
        self.core.refuse_waiting(way_number, why);
        if self.core.settings.when_refused == WhenRefused::Wait {
            return;
        }
        // Messages on disk are kept: they wait.
        let is_on_disk = self.core.books.spool_status().bytes_max > 0;
        let Some(way) = self.core.ways.get_mut(way_number) else {
            return;
        };
        for key in keys {
            if self
                .core
                .books
                .outbox
                .get(key)
                .is_some_and(|slot| !(is_on_disk && slot.spooled))
            {
                way.gathering.retain(|other| *other != key);
                let why = Refusal::Denied(why.to_owned());
                self.core
                    .books
                    .finish(&mut way.queue, key, Success::Failed, Some(why), now);
            }
        }
    }
}

/// How long the chosen lane may take to connect before another publishes in its place.
const PATIENCE: thalweg_model::Span = thalweg_model::Span::from_nanos(2 * TICK.nanos());
