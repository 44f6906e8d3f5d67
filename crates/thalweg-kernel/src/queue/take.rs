//! Consumers of a queue come and go; single messages are taken without one.

use super::depth::Asked;
use super::dispatch::EXPIRED_PER_CALL;
use super::select::ASKED_PER_CALL;
use super::selectors::{Looked, Selectors, filter_cost};
use super::takers::Consumer;
use super::{Item, Queue};
use crate::Kernel;
use crate::access::Permission;
use crate::effects::{Effects, Holder};
use crate::ids::{QueueId, SessionId};
use crate::lines::{ConsumeSpec, Source};
use crate::memory::Kept;
use crate::timers::TimerKey;
use crate::verdict::Refusal;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::Time;

/// Messages that a receiver may not have are passed over; how many before a queue is said to have nothing for it.
pub(super) const LOOKED_AT_MAX: usize = 128;

impl Queue {
    /// A consumer has come, with or without a content filter.
    fn select(&mut self, consumer: &Consumer, filter: Option<Arc<Predicate>>) {
        let others = self.takers.consumers().iter().map(Consumer::key);
        Selectors::join(&mut self.selectors, consumer.key(), filter, others);
    }

    /// What its consumers' filters take.
    pub(super) fn filters_cost(&self) -> usize {
        let filters = self.selectors.iter().flat_map(|it| it.filters());
        filters.map(|(_, filter)| filter_cost(filter)).sum()
    }
}

impl Kernel {
    // --- consumers

    pub(crate) fn attach_to_queue(
        &mut self,
        id: SessionId,
        spec: &ConsumeSpec<'_>,
    ) -> Result<Source, Refusal> {
        let queue_id = self.queues.find(spec.source).ok_or(Refusal::NoQueue)?;
        self.may_take_from(id, queue_id)?;
        let cost = spec.filter.as_deref().map_or(0, filter_cost);
        if cost > 0 && !self.may_keep(0, cost) {
            return Err(Refusal::Short);
        }
        let queue = self.queues.get_mut(queue_id).ok_or(Refusal::NoQueue)?;
        let consumer = Consumer {
            session: id,
            line: spec.line,
            number: spec.consumer,
            priority: spec.priority,
        };
        let single_active = queue.terms.limits.single_active;
        match queue.takers.add(consumer, spec.exclusive, single_active) {
            true => {
                queue.is_ending = false;
                queue.select(&consumer, spec.filter.clone());
                self.env.entered(Kept::Topology, cost);
                Ok(Source::Queue(queue_id))
            }
            false => Err(Refusal::InUse),
        }
    }

    /// A consumer of a queue is given nothing more; what follows from its leaving comes later.
    pub(crate) fn leave_queue(&mut self, queue_id: QueueId, id: SessionId, line: u16, number: u32) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        queue.takers.remove(id, line, number);
        if let Some(filter) = Selectors::leave(&mut queue.selectors, (id, line, number)) {
            self.env.left(Kept::Topology, filter_cost(&filter));
        }
    }

    /// A queue may have lost its last consumer.
    pub(crate) fn queue_lost_consumer<E: Effects>(
        &mut self,
        queue_id: QueueId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if !queue.takers.is_empty() {
            return;
        }
        queue.used = now;
        self.settle_deliveries(queue_id);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if queue.terms.auto_delete && queue.takers.had_any() {
            self.end_queue_soon(queue_id, now, fx);
        } else if let Some(idle) = queue.terms.limits.idle_expiry {
            self.agenda
                .set_timer(now + idle, TimerKey::QueueIdle(queue_id));
        }
    }

    /// Rights have changed. A single active consumer that may no longer take from its queue goes behind those that may: the first
    /// of them becomes active, and stays so. Consumers with filters look at what they were not given.
    pub(crate) fn replace_active_consumers(&mut self) {
        let sessions = &self.sessions;
        for (queue_id, queue) in self.queues.iter_mut() {
            if let Some(selectors) = queue.selectors.as_deref_mut() {
                selectors.look_again();
                self.agenda.pump(queue_id);
            }
            if !queue.terms.limits.single_active || queue.takers.consumers().len() < 2 {
                continue;
            }
            let (address, owner) = (&queue.terms.address, queue.terms.owner);
            queue.takers.put_behind(|consumer| {
                let session = sessions.get(consumer.session);
                owner != Some(consumer.session)
                    && session.is_none_or(|it| !it.access().allows(Permission::Take, address))
            });
            self.agenda.pump(queue_id);
        }
    }

    // --- one message at a time

    /// Gives one message of a queue, through [`Effects::deliver`] before this returns or, if it is on disk, as soon as it is
    /// there; how many are left. Nothing if the queue is empty.
    pub fn take_one<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        address: &str,
        settles: bool,
        now: Time,
        fx: &mut E,
    ) -> Result<Option<u64>, Refusal> {
        let taken = self.take_one_now(id, line, address, settles, now, fx);
        self.end_command(now, fx);
        taken
    }

    pub(super) fn take_one_now<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        address: &str,
        settles: bool,
        now: Time,
        fx: &mut E,
    ) -> Result<Option<u64>, Refusal> {
        let queue_id = self.queues.find(address).ok_or(Refusal::NoQueue)?;
        self.may_take_from(id, queue_id)?;
        let queue = self.queues.get(queue_id);
        if queue.is_some_and(|queue| queue.takers.is_exclusive()) {
            return Err(Refusal::InUse);
        }
        if let Some(lines) = self.lines_mut(id) {
            lines.get_or_insert(line).set_takes_blindly(!settles);
        }
        let taken = self.take_first(id, line, queue_id, now, fx);
        if let Some(line) = self.line_mut(id, line) {
            line.set_takes_blindly(false);
        }
        Ok(taken)
    }

    /// Takes the first message out of a queue that has not expired and is for one who asks for one message; how many are
    /// left, without those that were passed over. If it is on disk, or behind more that has expired than `may_expire`, it comes later, and how many wait is the
    /// error.
    pub(super) fn next_for_one(
        &mut self,
        queue_id: QueueId,
        asked: &Asked,
        may_expire: &mut usize,
        now: Time,
    ) -> Result<(Item, u64), Option<u64>> {
        let queue = self.queues.get_mut(queue_id).ok_or(None)?;
        queue.use_again(now);
        let mut looked = Looked::default();
        let mut passed = 0;
        let mut may_look = match asked {
            Asked::Apart(_, _, claim) if claim.filter.is_some() => ASKED_PER_CALL,
            _ => LOOKED_AT_MAX,
        };
        while may_look > 0 {
            let queue = self.queues.get_mut(queue_id).ok_or(None)?;
            let Some(place) = looked.next(&queue.backlog) else {
                if self.reads_on(Holder::Queue(queue_id)) {
                    continue;
                }
                let queue = self.queues.get_mut(queue_id).ok_or(None)?;
                let left = queue.backlog.len() - passed;
                return Err(queue.backlog.ask(asked.clone()).then_some(left as u64));
            };
            if let Some(expired) = self.expired_at(queue_id, place, now) {
                if self.expire(queue_id, expired, may_expire, now) {
                    continue;
                }
                // It comes when what has expired before it is gone.
                let queue = self.queues.get_mut(queue_id).ok_or(None)?;
                queue.mark.await_safety(asked.clone());
                return Err(Some((queue.backlog.len() - passed) as u64));
            }
            let queue = self.queues.get(queue_id).ok_or(None)?;
            let is_for = |(_, item): &(usize, &Item)| match asked {
                Asked::Line(id, ..) => self.may_have(*id, queue_id, &item.message),
                Asked::Apart(_, _, claim) => claim.takes(&item.message, self.env.neutral()),
            };
            let found = queue.backlog.run_at(place).find(is_for);
            let here = queue.backlog.run_at(place).count();
            if let Some(at) = found.map(|(at, _)| at)
                && let Some(item) = self.take_at(queue_id, place, at)
            {
                let queue = self.queues.get(queue_id).ok_or(None)?;
                return Ok((item, (queue.backlog.len() - passed) as u64));
            }
            passed += here;
            looked.pass(place);
            may_look -= 1;
        }
        Err(None)
    }

    /// Hands the first message over that can be; how many are left behind it.
    fn take_first<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        queue_id: QueueId,
        now: Time,
        fx: &mut E,
    ) -> Option<u64> {
        let settles = self.line(id, line).is_none_or(|line| !line.takes_blindly());
        let asked = Asked::Line(id, line, settles);
        let mut may_expire = EXPIRED_PER_CALL;
        let taken = loop {
            let (item, left) = match self.next_for_one(queue_id, &asked, &mut may_expire, now) {
                Ok(next) => next,
                Err(left) => break left,
            };
            let nobody = Consumer {
                session: id,
                line,
                number: 0,
                priority: 0,
            };
            let tag_before = self.line(id, line).map_or(0, |line| line.tag_last());
            if let Err(item) = self.hand_to(queue_id, nobody, item, false, now, fx) {
                self.put_back(queue_id, item);
                break None;
            }
            // One that is too large for this session is gone and was not handed over.
            if self
                .line(id, line)
                .is_some_and(|line| line.tag_last() > tag_before)
            {
                break Some(left);
            }
        };
        if self.is_selected_from(queue_id) {
            // There may be room for more of what is on disk.
            self.agenda.pump(queue_id);
        }
        taken
    }
}
