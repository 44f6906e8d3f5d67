//! What waits in a queue is dispatched to consumers and groups that can take it.

use super::take::LOOKED_AT_MAX;
use super::takers::{Consumer, NextReceiver};
use super::{Item, Queue, Screen};
use crate::Kernel;
use crate::access::Permission;
use crate::books::Delta;
use crate::effects::{Effects, Holder};
use crate::groups::seats::Key;
use crate::ids::{GroupId, QueueId, SessionId};
use crate::lines::{HandedOver, Source};
use crate::publish::subscriber_rate::Toll;
use crate::session::Pressure;
use crate::timers::TimerKey;
use smallvec::SmallVec;
use thalweg_model::{DeathReason, Message, Span, Time};

/// How many messages of a queue expire in one call at the most.
pub(super) const EXPIRED_PER_CALL: usize = 1024;
/// Dead letters that wait for the journal take this part of the memory budget at the most before what expires stays in
/// its queue.
const DEAD_LETTERS_SHARE: usize = 16;
/// After this time such a queue looks again.
const EXPIRE_AGAIN_AFTER: Span = Span::from_millis(10);

impl Kernel {
    /// Hands out what waits, as far as there is credit.
    #[inline]
    pub(crate) fn pump_queue<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        // Most settlements find that nothing waits.
        if self.ready_in(queue_id) > 0 {
            self.hand_out_waiting(queue_id, now, fx);
        }
    }

    /// Takes the first message out of what is in memory.
    pub(super) fn take_next(&mut self, queue_id: QueueId) -> Option<Item> {
        let item = self.queues.get_mut(queue_id)?.backlog.pop()?;
        self.books.left(Delta::copy(item.message.bytes()));
        Some(item)
    }

    /// The next message, if it is in memory.
    fn next_in(&self, queue_id: QueueId) -> Option<&Item> {
        self.queues.get(queue_id)?.backlog.first()
    }

    fn is_deep(&self, queue_id: QueueId) -> bool {
        let queue = self.queues.get(queue_id);
        queue.is_some_and(|queue| queue.backlog.is_deep())
    }

    fn hand_out_waiting<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        if self.is_selected_from(queue_id) {
            return self.hand_out_selected(queue_id, now, fx);
        }
        // Groups that wait for a better member than they have now.
        let mut resting: SmallVec<[GroupId; 2]> = SmallVec::new();
        // A message that no consumer here may receive keeps its place, and is skipped so that it does not block others.
        let mut passed: Vec<Item> = Vec::new();
        let mut may_expire = EXPIRED_PER_CALL;
        loop {
            let Some(queue) = self.queues.get(queue_id) else {
                return;
            };
            if queue.backlog.is_empty() || queue.takers.is_empty() {
                break;
            }
            let Some(next) = queue.backlog.first() else {
                // The rest is on disk.
                self.refill_backlog(Holder::Queue(queue_id));
                if self.is_deep(queue_id) {
                    break;
                }
                continue;
            };
            let toll = match self.env.rates_subscribers() {
                false => None,
                true => {
                    let message = next.message.clone();
                    self.toll(&message, now)
                }
            };
            let Some(next) = self.next_in(queue_id) else {
                break;
            };
            let chosen = self.choose_taker(queue_id, &next.message, toll.as_ref(), &resting);
            let Some((taker, turn)) = chosen else {
                if passed.len() >= LOOKED_AT_MAX || !self.nobody_may_have(queue_id, &next.message) {
                    self.wake_queue(queue_id, toll.as_ref());
                    break;
                }
                let Some(item) = self.take_next(queue_id) else {
                    break;
                };
                passed.push(item);
                continue;
            };
            let serial = next.serial;
            if let NextReceiver::Group(group) = taker
                && self.waits_for_mark(queue_id, group, serial)
            {
                break;
            }
            self.next_turn(queue_id, turn);
            let Some(item) = self.take_next(queue_id) else {
                break;
            };
            if self.is_deep(queue_id) {
                self.refill_backlog(Holder::Queue(queue_id));
            }
            if item.expires <= now {
                if self.expire(queue_id, item, &mut may_expire, now) {
                    continue;
                }
                break;
            }
            resting.extend(self.give_to_taker(queue_id, taker, item, &[], now, fx));
        }
        self.put_all_back(queue_id, passed);
        self.watch_expiry(queue_id);
    }

    /// Gives a message to the taker that was chosen, of a group to none of the members that are excepted. One that is not taken
    /// after all waits again: a consumer's output was full, or a group waits for a member that it prefers. That group is
    /// returned, as consumers do not wait with it.
    pub(super) fn give_to_taker<E: Effects>(
        &mut self,
        queue_id: QueueId,
        taker: NextReceiver,
        item: Item,
        except: &[Key],
        now: Time,
        fx: &mut E,
    ) -> Option<GroupId> {
        let (back, resting) = match taker {
            NextReceiver::Consumer(consumer) => {
                let handed = self.hand_to(queue_id, consumer, item, false, now, fx);
                (handed.err()?, None)
            }
            NextReceiver::Group(group) => {
                let back = self.give_to_member(queue_id, group, item, except, now, fx);
                (back?, Some(group))
            }
        };
        self.put_back(queue_id, back);
        resting
    }

    /// Whether a consumer of a queue, or a member of a group that takes from it, has a content filter.
    pub(super) fn is_selected_from(&self, queue_id: QueueId) -> bool {
        self.queues.get(queue_id).is_some_and(|queue| {
            let mut groups = queue.takers.groups().iter();
            queue.selectors.is_some() || groups.any(|group| self.is_selected_by(*group))
        })
    }

    /// Whether no consumer of a queue may receive a message.
    fn nobody_may_have(&self, queue_id: QueueId, message: &Message) -> bool {
        self.queues.get(queue_id).is_some_and(|queue| {
            let takers = &queue.takers;
            takers
                .consumers()
                .iter()
                .all(|consumer| !self.may_have(consumer.session, queue_id, message))
                && takers
                    .groups()
                    .iter()
                    .all(|group| self.is_forbidden(*group, message))
        })
    }

    /// Whether a session may be given a message out of a queue: by the rules of now, for the queue and for the message.
    /// The owner of an exclusive queue may have what was published to the queue itself.
    pub(super) fn may_have(&self, id: SessionId, queue_id: QueueId, message: &Message) -> bool {
        let (Some(session), Some(queue)) = (self.sessions.get(id), self.queues.get(queue_id))
        else {
            return false;
        };
        let access = session.access();
        if access.is_allow_all() {
            return true;
        }
        if queue.terms.owner == Some(id) {
            let is_own =
                message.is_at(&queue.terms.address) && access.may_receive_from(message.origins());
            return is_own || access.may_receive(message);
        }
        access.allows(Permission::Take, &queue.terms.address) && access.may_receive(message)
    }

    /// Lets an item wait where it was.
    pub(super) fn put_back(&mut self, queue_id: QueueId, item: Item) {
        self.comes_back(queue_id, &item);
        if let Some(queue) = self.queues.get_mut(queue_id) {
            self.books.entered(queue.backlog.give_back(item));
        }
    }

    /// The same of many.
    pub(super) fn put_all_back(&mut self, queue_id: QueueId, items: Vec<Item>) {
        if items.is_empty() || self.queues.get(queue_id).is_none() {
            return;
        }
        for item in &items {
            self.comes_back(queue_id, item);
            self.books.entered(Delta::copy(item.message.bytes()));
        }
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.backlog.insert_all(items);
        }
    }

    /// Those who have looked at the place where a message is about to wait look there again.
    fn comes_back(&mut self, queue_id: QueueId, item: &Item) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        let place = queue.backlog.place_of(item);
        for group in queue.takers.groups() {
            if let Some(group) = self.groups.get_mut(*group) {
                group.came_back_to(place);
            }
        }
        if let Some(selectors) = queue.selectors.as_deref_mut() {
            selectors.came_back(place);
        }
    }

    /// Delivers an item to a consumer that can take it right now; returns it if there is none. Also returns whether it
    /// is to be settled. `fresh`: the item is not persisted yet.
    pub(super) fn hand_to_somebody<E: Effects>(
        &mut self,
        queue_id: QueueId,
        mut item: Item,
        fresh: bool,
        now: Time,
        fx: &mut E,
    ) -> Result<bool, Item> {
        let toll = self.toll(&item.message, now);
        // Each attempt that fails marks its session as congested.
        // A group takes only what is written down, so it has to wait.
        while let Some((NextReceiver::Consumer(consumer), turn)) =
            self.choose_taker(queue_id, &item.message, toll.as_ref(), &[])
        {
            self.next_turn(queue_id, turn);
            match self.hand_to(queue_id, consumer, item, fresh, now, fx) {
                Ok(unsettled) => return Ok(unsettled),
                Err(back) => item = back,
            }
        }
        Err(item)
    }

    /// Chooses the consumer or group that is served next, and advances the turn.
    fn choose_taker(
        &self,
        queue_id: QueueId,
        message: &Message,
        toll: Option<&Toll>,
        resting: &[GroupId],
    ) -> Option<(NextReceiver, usize)> {
        let queue = self.queues.get(queue_id)?;
        let screen = Screen::new(queue.selectors.as_deref(), message, self.env.neutral());
        let can = |taker: &NextReceiver| match taker {
            NextReceiver::Consumer(consumer) => {
                self.can_have(queue_id, consumer, message)
                    && screen.passes(consumer.key())
                    && self.can_pay(toll, consumer.session)
            }
            NextReceiver::Group(group) => {
                !resting.contains(group) && self.has_member_for(*group, message)
            }
        };
        queue.takers.next(queue.terms.limits.single_active, can)
    }

    /// Whether a consumer could take a message right now that was published at this address, whatever it says.
    pub(super) fn has_taker_now(&self, queue_id: QueueId, address: &str) -> bool {
        let Some(queue) = self.queues.get(queue_id) else {
            return false;
        };
        let selectors = queue.selectors.as_deref();
        queue.takers.consumers().iter().any(|consumer| {
            selectors.is_none_or(|it| it.filter(consumer.key()).is_none())
                && self.consumer_can_take(consumer.session, consumer.line, consumer.number)
                && self.may_have_at(consumer.session, queue_id, address)
        }) || queue
            .takers
            .groups()
            .iter()
            .any(|group| self.has_member_for_all_at(*group, address))
    }

    /// The same as [`Kernel::may_have`] of a message that has not been led on yet.
    fn may_have_at(&self, id: SessionId, queue_id: QueueId, address: &str) -> bool {
        let (Some(session), Some(queue)) = (self.sessions.get(id), self.queues.get(queue_id))
        else {
            return false;
        };
        let may = |permission, target| session.access().allows(permission, target);
        match queue.terms.owner == Some(id) {
            true => *queue.terms.address == *address || may(Permission::Receive, address),
            false => {
                may(Permission::Take, &queue.terms.address) && may(Permission::Receive, address)
            }
        }
    }

    pub(super) fn next_turn(&mut self, queue_id: QueueId, turn: usize) {
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.takers.set_turn(turn);
        }
    }

    pub(super) fn can_have(
        &self,
        queue_id: QueueId,
        consumer: &Consumer,
        message: &Message,
    ) -> bool {
        self.consumer_can_take(consumer.session, consumer.line, consumer.number)
            && self.may_have(consumer.session, queue_id, message)
    }

    /// Delivers an item to a consumer; returns it if the consumer's output does not take it, and then the session is
    /// congested. Also returns whether it is to be settled.
    pub(super) fn hand_to<E: Effects>(
        &mut self,
        queue_id: QueueId,
        to: Consumer,
        item: Item,
        fresh: bool,
        now: Time,
        fx: &mut E,
    ) -> Result<bool, Item> {
        let Some(queue) = self.queues.get(queue_id) else {
            return Err(item);
        };
        let (journal, left) = (queue.journal_number(), queue.backlog.len() as u64);
        if queue.backlog.tells_apart(item.message.priority()) {
            // Whatever this one's is: what is behind it in an output could not be overtaken.
            self.prioritize(to.session, fx);
        }
        let source = Source::Queue(queue_id);
        if !fresh {
            self.note_delivery(Holder::Queue(queue_id), item.serial, to.session, fx);
        }
        // Who asks for one message at a time has set the pace.
        let toll = (to.number != 0).then(|| self.toll(&item.message, now));
        let handed_over = self.hand_over(to.key(), source, item, left, now, fx)?;
        self.pay_toll(toll.flatten(), to.session);
        let queue = self.queues.get_mut(queue_id);
        match handed_over {
            HandedOver::Unsettled(_) => {
                if let Some(queue) = queue {
                    queue.unsettled += 1;
                }
                Ok(true)
            }
            HandedOver::Done(item) => {
                if let Some(queue) = queue {
                    queue.went += 1;
                }
                self.forget_item(journal, &item, fresh);
                Ok(false)
            }
        }
    }

    /// An item has ended: so does its entry in the journal, if it has one already.
    pub(super) fn forget_item(&mut self, journal: u64, item: &Item, fresh: bool) {
        if journal != 0 && item.serial != 0 && !fresh {
            self.journal.forget(journal, item.serial, 0);
        }
    }

    // --- expiry, and rates of consumers

    /// Consumers were passed over for their rates: the queue is looked at again when the first of them has room.
    pub(super) fn wake_queue(&mut self, queue_id: QueueId, toll: Option<&Toll>) {
        let Some(at) = toll.map(Toll::free_at).filter(|at| *at != Time::NEVER) else {
            return;
        };
        let queue = self.queues.get_mut(queue_id);
        if queue.is_some_and(|queue| queue.backlog.is_earlier(at)) {
            self.agenda.set_timer(at, TimerKey::QueueHead(queue_id));
        }
    }

    /// The rates of consumers are others now.
    pub(crate) fn wake_queues(&mut self) {
        for (queue_id, queue) in self.queues.iter_mut() {
            if !queue.backlog.is_empty() && queue.backlog.is_earlier(Time::ZERO) {
                self.agenda
                    .set_timer(Time::ZERO, TimerKey::QueueHead(queue_id));
            }
        }
    }

    /// Sees to it that the heads of the queue go when their time is over.
    pub(super) fn watch_expiry(&mut self, queue_id: QueueId) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if let Some(due) = queue.backlog.expiry_to_watch() {
            self.agenda.set_timer(due, TimerKey::QueueHead(queue_id));
        }
    }

    /// Gives up a message that was taken out of a queue and has expired. If `left` is used up, or the dead letters that wait
    /// already take their share of memory, it goes back instead and the queue's timer goes on: then false.
    pub(super) fn expire(
        &mut self,
        queue_id: QueueId,
        item: Item,
        left: &mut usize,
        now: Time,
    ) -> bool {
        if *left == 0 || !self.has_room_for_dead(queue_id) {
            self.put_back(queue_id, item);
            self.expire_later(queue_id, now);
            return false;
        }
        *left -= 1;
        self.give_up(queue_id, item, DeathReason::Expired, now);
        true
    }

    /// Whether what expires in a queue may leave it. What is on disk stays there while nothing is taken that waits.
    fn has_room_for_dead(&self, queue_id: QueueId) -> bool {
        let share = self.env.memory().view().budget / DEAD_LETTERS_SHARE;
        let is_used_up = self.env.pressure() >= Pressure::RefuseSessions;
        let may_leave = |queue: &Queue| {
            queue.terms.limits.dead_letter.is_none()
                || self.agenda.kept_bytes() <= share && !(is_used_up && queue.backlog.is_deep())
        };
        self.queues.get(queue_id).is_none_or(may_leave)
    }

    /// The queue's timer goes on with what has expired, soon.
    fn expire_later(&mut self, queue_id: QueueId, now: Time) {
        let has_room = self.has_room_for_dead(queue_id);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if queue.backlog.expire_again() {
            let key = TimerKey::QueueHead(queue_id);
            match has_room {
                true => self.agenda.set_timer_soon(now, key),
                false => self.agenda.set_timer(now + EXPIRE_AGAIN_AFTER, key),
            }
        }
    }

    /// The timer of [`Kernel::watch_expiry`].
    pub(crate) fn on_queue_head_due(&mut self, queue_id: QueueId, now: Time) {
        let mut left = EXPIRED_PER_CALL;
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.backlog.expiry_timer_fired();
        }
        while let Some(item) = self
            .queues
            .get_mut(queue_id)
            .and_then(|queue| queue.backlog.pop_expired(now))
        {
            self.books.left(Delta::copy(item.message.bytes()));
            if !self.expire(queue_id, item, &mut left, now) {
                return;
            }
        }
        self.watch_expiry(queue_id);
        // Receivers may have stopped at so much that had expired.
        self.agenda.pump(queue_id);
    }
}
