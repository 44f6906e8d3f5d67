//! Consumers come and go, and say how much they may have.

use super::line::{LineConsumer, Lines, Source};
use super::spec::{ConsumeSpec, Tags};
use crate::Kernel;
use crate::access::Permission;
use crate::effects::Effects;
use crate::groups::group::{LineMember, Member, group_key};
use crate::ids::{GroupId, SessionId};
use crate::memory::Kept;
use crate::queue::{filter_cost, is_queue_address};
use crate::verdict::{Refusal, Verdict};
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
            is_choosy: spec.no_local || spec.filter.is_some(),
        };
        if let Some(lines) = self.lines_mut(id) {
            lines.get_or_insert(spec.line).add(consumer);
        }
        self.pump_source(source, now, fx);
        self.end_command(now, fx);
        Ok(())
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
        if is_queue_address(filter) {
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
        let cost = spec.filter.as_deref().map_or(0, filter_cost);
        if cost > 0 && !self.may_keep(0, cost) {
            return Err(Refusal::Short);
        }
        self.env.entered(Kept::Subscriptions, cost);
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
            let member = Member {
                session: id,
                asked: reliability,
                reliability,
                id: 0,
                line,
            };
            group.add(member, spec.filter.clone());
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
                self.leave_queue(queue_id, id, line, consumer.number);
                self.queue_lost_consumer(queue_id, now, fx);
                self.pump_queue(queue_id, now, fx);
            }
            Source::Group(group_id) => {
                self.leave_seat(group_id, (id, line, consumer.number));
                self.note_leaver(id, group_id);
                let group = self.groups.get_mut(group_id);
                let filter = group.and_then(|group| group.leave_line(id, line, consumer.number));
                let cost = filter.as_deref().map_or(0, filter_cost);
                self.env.left(Kept::Subscriptions, cost);
                self.group_lost_member(group_id, now, fx);
            }
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

    /// Has a line's consumers given nothing, or has them go on. What they have is theirs, and single messages may be asked for.
    pub fn pause_line<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        is_paused: bool,
        now: Time,
        fx: &mut E,
    ) {
        let Some(lines) = self.lines_mut(id) else {
            return;
        };
        lines.get_or_insert(line).set_paused(is_paused);
        if !is_paused {
            self.pump_line(id, line, now, fx);
        }
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
        let session = self.sessions.get(id);
        let lines = session.and_then(|session| session.lines.as_deref());
        let numbers = lines.map_or_else(Vec::new, Lines::numbers);
        for number in numbers {
            self.pump_line(id, number, now, fx);
        }
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
        if let Source::Queue(queue_id) = consumer.source {
            self.leave_queue(queue_id, id, line, consumer.number);
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
        // All consumers first: what one line returns must not go to another that ends, too.
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
        // What all of them have is returned before any of it is delivered again: its order spans lines.
        let taken = numbers
            .iter()
            .filter_map(|number| self.take_unsettled(id, *number, Tags::All))
            .flatten()
            .collect();
        self.judge_all(id, 0, taken, Verdict::Requeue, now, fx);
        while let Some((line, consumer)) = leaving.pop() {
            self.detach(id, line, &consumer, now, fx);
        }
        let session = self.sessions.get_mut(id);
        let own = session.and_then(|session| session.lines.take());
        for queue in own.map_or_else(Vec::new, |lines| lines.into_own_queues()) {
            if self.queues.get(queue).is_some_and(|queue| queue.is_of(id)) {
                self.end_queue_soon(queue, now, fx);
            }
        }
    }
}
