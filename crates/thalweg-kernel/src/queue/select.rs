//! What waits in a queue some of whose consumers have content filters is dispatched: each message to one whose filter it
//! passes, in order. What passes none that can take it keeps its place, and does not hold up what is behind it.

use super::backlog::Place;
use super::dispatch::EXPIRED_PER_CALL;
use super::selectors::Looked;
use super::take::LOOKED_AT_MAX;
use super::takers::{Consumer, NextReceiver};
use super::{Item, Queue, Selectors};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder};
use crate::groups::seats::{Key, Seats, key};
use crate::ids::{GroupId, QueueId};
use crate::publish::subject::Subject;
use crate::publish::subscriber_rate::Toll;
use crate::timers::TimerKey;
use smallvec::SmallVec;
use thalweg_model::Time;

/// How often messages are held against a consumer in one call at the most.
pub(crate) const ASKED_PER_CALL: usize = 4096;

/// Who looks for what to take: a consumer, a member of a group, or a group for whichever member it chooses.
#[derive(Clone, Copy, PartialEq)]
enum Looker {
    Consumer(Key),
    Member(GroupId, Key),
    Group(GroupId),
}

type Lookers = SmallVec<[Looker; 8]>;

/// One call's way through what waits in a queue.
struct Search {
    /// How far those have looked for whom no place is kept. They look from the head on each time: who is in a group without
    /// filters changes, and one that keeps order must not go past what waits for a member.
    looked: Looked,
    /// How many more messages they may pass over.
    left: usize,
    /// Those that wait for what was not given to them, and look at nothing behind it.
    resting: SmallVec<[Looker; 2]>,
}

/// Who is given what waits at a place in line.
struct Choice {
    /// Which of the messages at that place.
    at: usize,
    taker: NextReceiver,
    turn: usize,
}

impl Search {
    fn new() -> Self {
        Search {
            looked: Looked::default(),
            left: LOOKED_AT_MAX,
            resting: SmallVec::new(),
        }
    }

    fn rests(&self, looker: &Looker) -> bool {
        let of_group = |group: GroupId| self.resting.contains(&Looker::Group(group));
        !self.resting.is_empty()
            && (self.resting.contains(looker)
                || matches!(looker, Looker::Member(group, _) if of_group(*group)))
    }

    /// The members of a group that rest.
    fn resting_of(&self, taker: &NextReceiver) -> SmallVec<[Key; 2]> {
        let all = self.resting.iter();
        all.filter_map(|it| match (it, taker) {
            (Looker::Member(of, key), NextReceiver::Group(group)) if of == group => Some(*key),
            _ => None,
        })
        .collect()
    }
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
        let groups = self.queues.get(queue_id).map(|it| it.takers.groups());
        for group in groups.map_or_else(Vec::new, <[GroupId]>::to_vec) {
            self.seat_if_stale(group, now);
        }
        let mut search = Search::new();
        let has_some = |queue: &Queue| !queue.backlog.is_empty();
        // Mostly the last one has been given away: nobody is asked then.
        while self.queues.get(queue_id).is_some_and(has_some) {
            let lookers = self.queue_lookers(queue_id, &search);
            let Some(place) = self.next_place(queue_id, &lookers, &search) else {
                if self.brings_more(queue_id, &lookers) {
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
            may_ask = may_ask.saturating_sub(lookers.len().max(1));
            let tolls = self.tolls_at(queue_id, place, now);
            let Some(choice) = self.choose_at(queue_id, place, &search, &tolls) else {
                for toll in tolls.iter().flatten() {
                    self.wake_queue(queue_id, Some(toll));
                }
                self.pass_over(queue_id, place, &lookers, &mut search, !tolls.is_empty());
                continue;
            };
            let Choice { at, taker, turn } = choice;
            if let NextReceiver::Group(group) = taker
                && self.group_waits(queue_id, group, place, at)
            {
                search.resting.push(Looker::Group(group));
                continue;
            }
            self.next_turn(queue_id, turn);
            let Some(item) = self.take_at(queue_id, place, at) else {
                break;
            };
            let except = search.resting_of(&taker);
            if let Some(group) = self.give_to_taker(queue_id, taker, item, &except, now, fx) {
                let is_of_it = |it: &Looker| match it {
                    Looker::Member(of, _) | Looker::Group(of) => *of == group,
                    Looker::Consumer(_) => false,
                };
                let members = lookers.into_iter().filter(is_of_it).filter(|it| {
                    self.looks_at(queue_id, it, place, &search)
                        && self.waits_at(queue_id, it, place)
                });
                let members: Lookers = members.collect();
                search.resting.extend(members);
            }
        }
        self.watch_expiry(queue_id);
    }

    /// Those that could be given a message.
    fn queue_lookers(&self, queue_id: QueueId, search: &Search) -> Lookers {
        let Some(queue) = self.queues.get(queue_id) else {
            return Lookers::new();
        };
        let consumers = queue.active_consumers().iter();
        let consumers = consumers
            .filter(|it| self.consumer_can_take(it.session, it.line, it.number))
            .map(|it| Looker::Consumer(it.key()));
        let mut lookers: Lookers = consumers.collect();
        for group in queue.active_groups() {
            match self.members_look_themselves(*group) {
                true => {
                    let free = self.free_members(*group);
                    lookers.extend(free.map(|it| Looker::Member(*group, key(it))));
                }
                false => lookers.push(Looker::Group(*group)),
            }
        }
        lookers.retain(|it| !search.rests(it));
        lookers
    }

    /// Whether each member of a group has its own place in line. It has not in a group that keeps order.
    fn members_look_themselves(&self, group_id: GroupId) -> bool {
        self.groups.get(group_id).is_some_and(|group| {
            let order = group.seats().and_then(Seats::order);
            group.selectors().is_some() && order.is_none()
        })
    }

    /// Where a looker's place in line is kept, if it is.
    fn kept_place<'a>(&'a self, queue: &'a Queue, looker: &Looker) -> Option<(&'a Selectors, Key)> {
        match *looker {
            Looker::Consumer(key) => Some((queue.selectors.as_deref()?, key)),
            Looker::Member(group, key) => Some((self.groups.get(group)?.selectors()?, key)),
            Looker::Group(_) => None,
        }
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

    /// The first place in line that one of the lookers has not looked at.
    fn next_place(&self, queue_id: QueueId, lookers: &Lookers, search: &Search) -> Option<Place> {
        let queue = self.queues.get(queue_id)?;
        let places = lookers
            .iter()
            .filter_map(|it| match self.kept_place(queue, it) {
                Some((selectors, key)) => selectors.next(key, &queue.backlog),
                None if search.left > 0 => search.looked.next(&queue.backlog),
                None => None,
            });
        places.min()
    }

    /// Whether a looker is at this place, or before it.
    fn looks_at(&self, queue_id: QueueId, looker: &Looker, place: Place, search: &Search) -> bool {
        let queue = self.queues.get(queue_id);
        queue.is_some_and(|queue| match self.kept_place(queue, looker) {
            Some((selectors, key)) => !selectors.has_seen(key, place),
            None => search.left > 0 && search.looked.next(&queue.backlog) == Some(place),
        })
    }

    /// Chooses who is given a message at this place.
    fn choose_at(
        &self,
        queue_id: QueueId,
        place: Place,
        search: &Search,
        tolls: &[Option<Toll>],
    ) -> Option<Choice> {
        let queue = self.queues.get(queue_id)?;
        let looks = |looker: Looker| {
            !search.rests(&looker) && self.looks_at(queue_id, &looker, place, search)
        };
        for (nth, (at, item)) in queue.backlog.run_at(place).enumerate() {
            let toll = tolls.get(nth).and_then(Option::as_ref);
            let message = &item.message;
            let subject = Subject::of_message(message, self.env.neutral());
            let can = |taker: &NextReceiver| match taker {
                NextReceiver::Consumer(consumer) => {
                    let selectors = queue.selectors.as_deref();
                    looks(Looker::Consumer(consumer.key()))
                        && self.can_have(queue_id, consumer, message)
                        && selectors.is_none_or(|it| it.passes(consumer.key(), &subject))
                        && self.can_pay(toll, consumer.session)
                }
                NextReceiver::Group(group) if self.members_look_themselves(*group) => self
                    .has_member_that(*group, message, |member, selectors| {
                        looks(Looker::Member(*group, key(member)))
                            && selectors.is_none_or(|it| it.passes(key(member), &subject))
                    }),
                NextReceiver::Group(group) => {
                    looks(Looker::Group(*group)) && self.has_member_for(*group, message)
                }
            };
            let single_active = queue.terms.limits.single_active;
            if let Some((taker, turn)) = queue.takers.next(single_active, can) {
                return Some(Choice { at, taker, turn });
            }
        }
        None
    }

    /// What is at this place is for none of those that can take it: they look at what is behind it. Only those wait that may have it
    /// though not now: members, and consumers whose rate does not let them; `is_rated` if there are rates.
    fn pass_over(
        &mut self,
        queue_id: QueueId,
        place: Place,
        lookers: &Lookers,
        search: &mut Search,
        is_rated: bool,
    ) {
        let here = lookers
            .iter()
            .copied()
            .filter(|it| self.looks_at(queue_id, it, place, search));
        let (waiting, passing): (Lookers, Lookers) = here.partition(|it| {
            let may_wait = is_rated || !matches!(it, Looker::Consumer(_));
            may_wait && self.waits_at(queue_id, it, place)
        });
        search.resting.extend(waiting);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if search.looked.next(&queue.backlog) == Some(place) {
            search.looked.pass(place);
            search.left = search.left.saturating_sub(1);
        }
        for looker in passing {
            let (selectors, key) = match looker {
                Looker::Consumer(key) => (queue.selectors.as_deref_mut(), key),
                Looker::Member(group, key) => {
                    let group = self.groups.get_mut(group);
                    (group.and_then(|it| it.selectors_mut()), key)
                }
                Looker::Group(_) => continue,
            };
            if let Some(selectors) = selectors {
                selectors.pass(key, place);
            }
        }
    }

    /// Whether a looker may have a message at this place, and selects it.
    fn waits_at(&self, queue_id: QueueId, looker: &Looker, place: Place) -> bool {
        let Some(queue) = self.queues.get(queue_id) else {
            return false;
        };
        let wants = |item: &Item| {
            let (message, subject) = (
                &item.message,
                Subject::of_message(&item.message, self.env.neutral()),
            );
            let selects = |(selectors, key): (&Selectors, Key)| selectors.passes(key, &subject);
            let may = match *looker {
                Looker::Consumer((id, ..)) => self.may_have(id, queue_id, message),
                Looker::Member(group, (id, ..)) => {
                    let group = self.groups.get(group);
                    group.is_some_and(|group| self.member_may_have(id, group, message))
                }
                Looker::Group(group) => return self.is_for_a_member(group, message, &subject),
            };
            may && self.kept_place(queue, looker).is_none_or(selects)
        };
        let mut there = queue.backlog.run_at(place);
        there.any(|(_, item)| wants(item))
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

    /// Whether what is on disk can be had at once, and a consumer or a member could take it.
    fn brings_more(&mut self, queue_id: QueueId, lookers: &Lookers) -> bool {
        let mut lookers = lookers.iter();
        lookers.any(|it| !matches!(it, Looker::Group(_))) && self.reads_on(Holder::Queue(queue_id))
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
