//! What waits in a queue some of whose consumers have content filters is dispatched: each message to one whose filter it
//! passes, in order. What passes none that can take it keeps its place, and does not hold up what is behind it.

use super::backlog::Place;
use super::dispatch::EXPIRED_PER_CALL;
use super::selectors::Looked;
use super::take::LOOKED_AT_MAX;
use super::takers::{Consumer, NextReceiver};
use super::{Item, Queue, Screen, Selectors};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder};
use crate::groups::seats::Key;
use crate::ids::{GroupId, QueueId};
use crate::publish::subscriber_rate::Toll;
use crate::timers::TimerKey;
use smallvec::SmallVec;
use thalweg_model::Time;

/// How often messages are held against a consumer in one call at the most.
pub(crate) const ASKED_PER_CALL: usize = 4096;

/// The groups that take from the queue, in one call. They look from the head on each time: who is in them changes.
struct Groups {
    looked: Looked,
    /// Those that do not take what is next, and nothing behind it.
    resting: SmallVec<[GroupId; 2]>,
    /// How many more messages they may pass over.
    left: usize,
    /// Consumers that wait for what their rates do not let them have yet, and look at nothing behind it.
    over_rate: SmallVec<[Key; 2]>,
}

/// Who is given what waits at a place in line.
struct Choice {
    /// Which of the messages at that place.
    at: usize,
    taker: NextReceiver,
    turn: usize,
}

impl Queue {
    /// The consumers that may be given something: all, or the one that is active.
    fn active_consumers(&self) -> &[Consumer] {
        let all = self.takers.consumers();
        let most = if self.terms.limits.single_active {
            1
        } else {
            all.len()
        };
        &all[..most.min(all.len())]
    }

    /// The same of its groups.
    fn active_groups(&self) -> &[GroupId] {
        let is_led = self.terms.limits.single_active && !self.takers.consumers().is_empty();
        if is_led { &[] } else { self.takers.groups() }
    }
}

impl Kernel {
    pub(super) fn hand_out_selected<E: Effects>(
        &mut self,
        queue_id: QueueId,
        now: Time,
        fx: &mut E,
    ) {
        let (mut may_expire, mut may_ask) = (EXPIRED_PER_CALL, ASKED_PER_CALL);
        let lanes = self.queues.get(queue_id).map_or(0, |it| it.backlog.lanes());
        let mut groups = Groups {
            looked: Looked::at_head(lanes),
            resting: SmallVec::new(),
            left: LOOKED_AT_MAX,
            over_rate: SmallVec::new(),
        };
        loop {
            let Some(place) = self.next_place(queue_id, &groups) else {
                if self.brings_more(queue_id, &groups) {
                    continue;
                }
                break;
            };
            if may_ask == 0 {
                self.go_on_soon(queue_id, now);
                break;
            }
            if let Some(expired) = self.expired_at(queue_id, place, now) {
                if self.expire(queue_id, expired, &mut may_expire, now) {
                    continue;
                }
                break;
            }
            let takers = self.queues.get(queue_id).map_or(1, |it| it.takers.len());
            may_ask = may_ask.saturating_sub(takers);
            let tolls = self.tolls_at(queue_id, place, now);
            let Some(choice) = self.choose_at(queue_id, place, &groups, &tolls) else {
                for toll in tolls.iter().flatten() {
                    self.wake_queue(queue_id, Some(toll));
                }
                self.pass_over(queue_id, place, &mut groups, !tolls.is_empty());
                continue;
            };
            let Choice { at, taker, turn } = choice;
            if let NextReceiver::Group(group) = taker
                && self.group_waits(queue_id, group, place, at)
            {
                groups.resting.push(group);
                continue;
            }
            self.next_turn(queue_id, turn);
            let Some(item) = self.take_at(queue_id, place, at) else {
                break;
            };
            groups
                .resting
                .extend(self.give_to_taker(queue_id, taker, item, now, fx));
        }
        self.watch_expiry(queue_id);
    }

    /// Consumers that could be given a message.
    fn looking_consumers<'a>(
        &'a self,
        queue: &'a Queue,
        groups: &'a Groups,
    ) -> impl Iterator<Item = &'a Consumer> {
        queue.active_consumers().iter().filter(|it| {
            self.consumer_can_take(it.session, it.line, it.number)
                && (groups.over_rate.is_empty() || !groups.over_rate.contains(&it.key()))
        })
    }

    /// What the messages at a place take of rates; nothing if there are none.
    fn tolls_at(&mut self, queue_id: QueueId, place: Place, now: Time) -> Vec<Option<Toll>> {
        if !self.env.rates_subscribers() {
            return Vec::new();
        }
        let queue = self.queues.get(queue_id);
        let there = queue.map(|queue| queue.backlog.run_at(place));
        let there = there.into_iter().flatten();
        let messages: Vec<_> = there.map(|(_, item)| item.message.clone()).collect();
        let tolls = messages.iter().map(|message| self.toll(message, now));
        tolls.collect()
    }

    /// The first place in line that a taker which could be given a message has not looked at.
    fn next_place(&self, queue_id: QueueId, groups: &Groups) -> Option<Place> {
        let queue = self.queues.get(queue_id)?;
        let selectors = queue.selectors.as_deref()?;
        let of_consumers = self.looking_consumers(queue, groups);
        let places = of_consumers.filter_map(|it| selectors.next(it.key(), &queue.backlog));
        let mut awake = queue.active_groups().iter();
        let some_look = groups.left > 0 && awake.any(|it| !groups.resting.contains(it));
        let of_groups = some_look
            .then(|| groups.looked.next(&queue.backlog))
            .flatten();
        places.chain(of_groups).min()
    }

    /// Chooses who is given a message at this place.
    fn choose_at(
        &self,
        queue_id: QueueId,
        place: Place,
        groups: &Groups,
        tolls: &[Option<Toll>],
    ) -> Option<Choice> {
        let queue = self.queues.get(queue_id)?;
        let selectors = queue.selectors.as_deref()?;
        let groups_look = groups.looked.next(&queue.backlog) == Some(place);
        for (nth, (at, item)) in queue.backlog.run_at(place).enumerate() {
            let toll = tolls.get(nth).and_then(Option::as_ref);
            let screen = Screen::new(Some(selectors), &item.message, self.env.neutral());
            let can = |taker: &NextReceiver| match taker {
                NextReceiver::Consumer(consumer) => {
                    !selectors.has_seen(consumer.key(), place)
                        && self.can_have(queue_id, consumer, &item.message)
                        && screen.passes(consumer.key())
                        && self.can_pay(toll, consumer.session)
                }
                NextReceiver::Group(group) => {
                    groups_look
                        && !groups.resting.contains(group)
                        && self.has_member_for(*group, &item.message)
                }
            };
            let single_active = queue.terms.limits.single_active;
            if let Some((taker, turn)) = queue.takers.next(single_active, can) {
                return Some(Choice { at, taker, turn });
            }
        }
        None
    }

    /// What is at this place is for none of those that can take it: they look at what is behind it. Only those wait whose rate
    /// does not let them have it yet; `is_rated` if there are any.
    fn pass_over(&mut self, queue_id: QueueId, place: Place, groups: &mut Groups, is_rated: bool) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        if groups.looked.next(&queue.backlog) == Some(place) {
            // What a group may have, though not now, it waits for.
            let waits = |group: &GroupId| {
                let mut there = queue.backlog.run_at(place);
                !there.all(|(_, item)| self.is_forbidden(*group, &item.message))
            };
            let waiting = queue.takers.groups().iter().copied().filter(waits);
            groups.resting.extend(waiting);
            groups.looked.pass(place);
            groups.left = groups.left.saturating_sub(1);
        }
        // A message that one of them selects was not given to it: that is for its rate alone.
        let waits = |it: &Consumer| {
            let unseen = |selectors: &&Selectors| !selectors.has_seen(it.key(), place);
            let selectors = queue.selectors.as_deref().filter(unseen);
            selectors.is_some()
                && queue.backlog.run_at(place).any(|(_, item)| {
                    self.can_have(queue_id, it, &item.message)
                        && Screen::new(selectors, &item.message, self.env.neutral())
                            .passes(it.key())
                })
        };
        let (mut passing, mut waiting) = (SmallVec::<[Key; 8]>::new(), SmallVec::<[Key; 2]>::new());
        for consumer in self.looking_consumers(queue, groups) {
            match is_rated && waits(consumer) {
                true => waiting.push(consumer.key()),
                false => passing.push(consumer.key()),
            }
        }
        groups.over_rate.extend(waiting);
        let queue = self.queues.get_mut(queue_id);
        if let Some(selectors) = queue.and_then(|queue| queue.selectors.as_deref_mut()) {
            for consumer in &passing {
                selectors.pass(*consumer, place);
            }
        }
    }

    /// Whether a message stays until it is marked as delivered: members of the group are on other shards.
    fn group_waits(&mut self, queue_id: QueueId, group: GroupId, place: Place, at: usize) -> bool {
        let queue = self.queues.get(queue_id);
        let serial = queue.and_then(|queue| {
            let mut there = queue.backlog.run_at(place);
            Some(there.find(|(known, _)| *known == at)?.1.serial)
        });
        serial.is_some_and(|serial| self.waits_for_mark(queue_id, group, serial))
    }

    pub(super) fn expired_at(
        &mut self,
        queue_id: QueueId,
        place: Place,
        now: Time,
    ) -> Option<Item> {
        let queue = self.queues.get(queue_id)?;
        let is_over = |(_, item): &(usize, &Item)| item.expires <= now;
        let (at, _) = queue.backlog.run_at(place).find(is_over)?;
        self.take_at(queue_id, place, at)
    }

    pub(super) fn take_at(&mut self, queue_id: QueueId, place: Place, at: usize) -> Option<Item> {
        let item = self.queues.get_mut(queue_id)?.backlog.take_at(place, at)?;
        self.books.left(Delta::copy(item.message.bytes()));
        if self.queues.get(queue_id)?.backlog.is_deep() {
            self.refill_backlog(Holder::Queue(queue_id));
        }
        Some(item)
    }

    /// Whether what is on disk can be had at once, and a consumer could take it.
    fn brings_more(&mut self, queue_id: QueueId, groups: &Groups) -> bool {
        let queue = self.queues.get(queue_id);
        queue.is_some_and(|queue| self.looking_consumers(queue, groups).next().is_some())
            && self.reads_on(Holder::Queue(queue_id))
    }

    /// Its timer goes on with what has not been looked at.
    fn go_on_soon(&mut self, queue_id: QueueId, now: Time) {
        let queue = self.queues.get_mut(queue_id);
        if queue.is_some_and(|queue| queue.backlog.expire_again()) {
            self.agenda
                .set_timer_soon(now, TimerKey::QueueHead(queue_id));
        }
    }
}
