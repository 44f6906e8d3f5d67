//! Consumers come and go, and say how much they may have.

use super::Item;
use super::apart::LOOKED_AT_MAX;
use super::depth::Asked;
use super::dispatch::EXPIRED_PER_CALL;
use super::line::{LineConsumer, Lines, Source};
use super::spec::{ConsumeSpec, Refusal, Tags, Verdict};
use super::takers::Consumer;
use crate::Kernel;
use crate::access::Permission;
use crate::books::Delta;
use crate::effects::{Effects, Holder};
use crate::groups::group::{LineMember, Member, group_key};
use crate::ids::{GroupId, QueueId, SessionId};
use crate::timers::TimerKey;
use thalweg_model::{Filter, Reliability, Time};

/// Before the name and filter of a group, in the source of a consumer.
const GROUP_PREFIX: &str = "$g/";

impl Kernel {
    /// Attaches a consumer. What waits comes at once, as far as it has credit.
    pub fn consume<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &ConsumeSpec<'_>,
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let known = self
            .line(id, spec.line)
            .is_some_and(|line| line.consumer(spec.consumer).is_some());
        if known || spec.consumer == 0 {
            return Err(Refusal::Invalid("this line has such a consumer"));
        }
        let source = match spec.source.strip_prefix(GROUP_PREFIX) {
            Some(group) => self.join_group_as_consumer(id, group, spec)?,
            None => self.attach_to_queue(id, spec)?,
        };
        let consumer = LineConsumer {
            number: spec.consumer,
            source,
            credit: spec.credit,
            in_flight: 0,
            settles: spec.settles,
            no_local: spec.no_local,
        };
        if let Some(lines) = self.lines_mut(id) {
            lines.get_or_insert(spec.line).add(consumer);
        }
        self.pump_source(source, now, fx);
        self.end_command(now, fx);
        Ok(())
    }

    fn attach_to_queue(
        &mut self,
        id: SessionId,
        spec: &ConsumeSpec<'_>,
    ) -> Result<Source, Refusal> {
        let queue_id = self.queues.find(spec.source).ok_or(Refusal::NoQueue)?;
        self.may_take_from(id, queue_id)?;
        let queue = self.queues.get_mut(queue_id).ok_or(Refusal::NoQueue)?;
        let consumer = Consumer {
            session: id,
            line: spec.line,
            number: spec.consumer,
            priority: spec.priority,
        };
        let single_active = queue.limits.single_active;
        match queue.takers.add(consumer, spec.exclusive, single_active) {
            true => Ok(Source::Queue(queue_id)),
            false => Err(Refusal::InUse),
        }
    }

    /// A single active consumer that may no longer take from its queue goes behind those that may: the first of them becomes
    /// active, and stays so.
    pub(crate) fn replace_active_consumers(&mut self) {
        let sessions = &self.sessions;
        for (queue_id, queue) in self.queues.iter_mut() {
            if !queue.limits.single_active || queue.takers.consumers().len() < 2 {
                continue;
            }
            let (address, owner) = (&queue.address, queue.owner);
            queue.takers.put_behind(|consumer| {
                let session = sessions.get(consumer.session);
                owner != Some(consumer.session)
                    && session.is_none_or(|it| !it.access().allows(Permission::Take, address))
            });
            self.agenda.pump(queue_id);
        }
    }

    fn join_group_as_consumer(
        &mut self,
        id: SessionId,
        group: &str,
        spec: &ConsumeSpec<'_>,
    ) -> Result<Source, Refusal> {
        let Some((name, filter)) = group.split_once('/') else {
            return Err(Refusal::Invalid("a group has a name and a filter"));
        };
        if super::is_queue_address(filter) {
            // A group that takes from a queue: its members are the queue's consumers.
            return self.attach_to_queue(
                id,
                &ConsumeSpec {
                    source: filter,
                    ..spec.clone()
                },
            );
        }
        if name.is_empty() || Filter::check(filter).is_err() {
            return Err(Refusal::Invalid("a group has a name and a filter"));
        }
        if !self.env.limits().groups_enabled {
            return Err(Refusal::Denied);
        }
        match self.sessions.get(id) {
            Some(session) if session.access().allows(Permission::Subscribe, filter) => {}
            _ => return Err(Refusal::Denied),
        }
        let group_id = self.group_for(&group_key(name, filter), filter);
        let line = Some(LineMember {
            line: spec.line,
            consumer: spec.consumer,
            settles: spec.settles,
        });
        let reliability = if spec.settles {
            Reliability::AtLeastOnce
        } else {
            Reliability::AtMostOnce
        };
        if let Some(group) = self.groups.get_mut(group_id) {
            group.add(Member {
                session: id,
                reliability,
                id: 0,
                line,
            });
        }
        self.tell_seats(group_id, id);
        self.tell_membership(group_id, 0);
        Ok(Source::Group(group_id))
    }

    /// Detaches a consumer; what it has not settled stays its line's. False if there is none.
    pub fn cancel<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        consumer: u32,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(removed) = self
            .line_mut(id, line)
            .and_then(|line| line.remove(consumer))
        else {
            return false;
        };
        self.detach(id, line, &removed, now, fx);
        self.end_command(now, fx);
        true
    }

    /// Takes a consumer that its line has forgotten from its source.
    fn detach<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        consumer: &LineConsumer,
        now: Time,
        fx: &mut E,
    ) {
        match consumer.source {
            Source::Queue(queue_id) => {
                let Some(queue) = self.queues.get_mut(queue_id) else {
                    return;
                };
                queue.takers.remove(id, line, consumer.number);
                self.queue_lost_consumer(queue_id, now, fx);
                self.pump_queue(queue_id, now, fx);
            }
            Source::Group(group_id) => {
                self.leave_seat(group_id, (id, line, consumer.number));
                self.note_leaver(id, group_id);
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.leave_line(id, line, consumer.number);
                }
                self.group_lost_member(group_id, now, fx);
            }
        }
    }

    /// A queue may have lost its last consumer.
    pub(super) fn queue_lost_consumer<E: Effects>(
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
        if queue.auto_delete && queue.takers.had_any() {
            self.end_queue_soon(queue_id, now, fx);
        } else if let Some(idle) = queue.limits.idle_expiry {
            self.agenda
                .set_timer(now + idle, TimerKey::QueueIdle(queue_id));
        }
    }

    /// How many unsettled messages all consumers of a line may have together; 0 for no bound.
    pub fn set_line_credit<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        max: u32,
        now: Time,
        fx: &mut E,
    ) {
        let Some(lines) = self.lines_mut(id) else {
            return;
        };
        let line_of = lines.get_or_insert(line);
        line_of.set_credit(max);
        let groups = |consumer: &LineConsumer| match consumer.source {
            Source::Group(group_id) => Some(group_id),
            Source::Queue(_) => None,
        };
        for group_id in line_of
            .consumers()
            .iter()
            .filter_map(groups)
            .collect::<Vec<GroupId>>()
        {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.seats_changed();
            }
        }
        self.pump_line(id, line, now, fx);
        self.end_command(now, fx);
    }

    pub(super) fn pump_line<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        now: Time,
        fx: &mut E,
    ) {
        let sources: Vec<Source> = self
            .line(id, line)
            .map_or_else(Vec::new, |line| line.sources_in_turn().collect());
        for source in sources {
            self.pump_source(source, now, fx);
        }
    }

    /// A session's output has room again.
    pub(crate) fn pump_lines<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let lines = self
            .sessions
            .get(id)
            .and_then(|session| session.lines.as_deref());
        let numbers = lines.map_or_else(Vec::new, Lines::numbers);
        for number in numbers {
            self.pump_line(id, number, now, fx);
        }
    }

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
        self.end_command(now, fx);
        Ok(taken)
    }

    /// Takes the next message out of a queue that has not expired, and how many are left, for one who asks for one message
    /// and has passed over those. If it is on disk, or behind more that has expired than `may_expire`, it comes later, and how
    /// many wait is the error.
    pub(super) fn next_for_one(
        &mut self,
        queue_id: QueueId,
        asked: &Asked,
        passed: &[Item],
        may_expire: &mut usize,
        now: Time,
    ) -> Result<(Item, u64), Option<u64>> {
        loop {
            let queue = self.queues.get_mut(queue_id).ok_or(None)?;
            queue.used = now;
            let may_look = passed.len() < LOOKED_AT_MAX;
            let next = may_look.then(|| queue.backlog.pop()).flatten();
            let left = queue.backlog.len() as u64;
            let Some(item) = next else {
                let comes = passed.is_empty() && self.asks_deep(queue_id, asked.clone());
                return Err(comes.then_some(left));
            };
            self.books.left(Delta::copy(item.message.bytes()));
            self.refill_backlog(Holder::Queue(queue_id));
            if item.expires > now {
                return Ok((item, left));
            }
            if !self.expire(queue_id, item, may_expire, now) {
                // It comes when what has expired before it is gone.
                let queue = self.queues.get_mut(queue_id).ok_or(None)?;
                queue.mark.await_safety(asked.clone());
                return Err(Some(left));
            }
        }
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
        let mut passed = Vec::new();
        let mut may_expire = EXPIRED_PER_CALL;
        let taken = loop {
            let (item, left) =
                match self.next_for_one(queue_id, &asked, &passed, &mut may_expire, now) {
                    Ok(next) => next,
                    Err(left) => break left,
                };
            if !self.may_have(id, queue_id, &item.message) {
                passed.push(item);
                continue;
            }
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
        self.put_all_back(queue_id, passed);
        taken
    }

    /// Ends a line: its consumers leave, and what it has not settled goes back, flagged. Transactions lose what they would
    /// have settled of it; ending them is the caller's.
    pub fn close_line<E: Effects>(&mut self, id: SessionId, line: u16, now: Time, fx: &mut E) {
        let Some(of) = self.line_mut(id, line) else {
            return;
        };
        // Nothing more for those who leave.
        let leaving = of.take_consumers();
        for consumer in &leaving {
            self.detach_quietly(id, line, consumer);
        }
        if let Some(lines) = self.lines_of(id) {
            lines.unsettle(line);
        }
        self.settle_line(id, line, Tags::All, Verdict::Requeue, now, fx);
        for consumer in leaving.iter().rev() {
            self.detach(id, line, consumer, now, fx);
        }
        if let Some(lines) = self.lines_mut(id) {
            lines.remove(line);
        }
        self.end_command(now, fx);
    }

    /// A consumer that leaves is given nothing more; what follows from its leaving comes later.
    fn detach_quietly(&mut self, id: SessionId, line: u16, consumer: &LineConsumer) {
        if let Source::Queue(queue_id) = consumer.source
            && let Some(queue) = self.queues.get_mut(queue_id)
        {
            queue.takers.remove(id, line, consumer.number);
        }
    }

    /// A session ends: all its lines, transactions and own queues.
    pub(crate) fn close_lines<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(lines) = self.lines_of(id) else {
            return;
        };
        let (transactions, numbers) = (lines.transaction_numbers(), lines.numbers());
        for transaction in transactions {
            self.abort(id, transaction, now, fx);
        }
        // All consumers first: what one line gives back must not go to another that ends, too.
        let mut leaving = Vec::new();
        for number in &numbers {
            let Some(of) = self.line_mut(id, *number) else {
                continue;
            };
            for consumer in of.take_consumers() {
                self.detach_quietly(id, *number, &consumer);
                leaving.push((*number, consumer));
            }
        }
        // What all of them have comes back before anybody is given any of it: its order goes across lines.
        let taken = numbers
            .iter()
            .filter_map(|number| self.take_unsettled(id, *number, Tags::All))
            .flatten()
            .collect();
        self.judge_all(id, 0, taken, Verdict::Requeue, now, fx);
        while let Some((line, consumer)) = leaving.pop() {
            self.detach(id, line, &consumer, now, fx);
        }
        let own = self
            .sessions
            .get_mut(id)
            .and_then(|session| session.lines.take());
        for queue in own.map_or_else(Vec::new, |lines| lines.into_own_queues()) {
            if self
                .queues
                .get(queue)
                .is_some_and(|queue| queue.owner == Some(id))
            {
                self.end_queue_soon(queue, now, fx);
            }
        }
    }
}
