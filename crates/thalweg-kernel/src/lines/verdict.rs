//! Consumers say what became of what they were given.

use super::line::{Source, Taken, Unsettled};
use super::spec::Tags;
use crate::Kernel;
use crate::books::Delta;
use crate::effects::Effects;
use crate::groups::seats::Key;
use crate::ids::{GroupId, QueueId, SessionId};
use crate::ledger::DropReason;
use crate::queue::Item;
use crate::session::settle::Settled;
use crate::verdict::Verdict;
use smallvec::SmallVec;
use thalweg_model::{DeathReason, Time};

/// How many messages one call settles at the most, if they do not go back.
const SETTLED_PER_CALL: usize = 1024;

type Sources = SmallVec<[Source; 4]>;

impl Kernel {
    /// Settles messages of a line.
    pub fn settle_line<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        tags: Tags,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) -> Settled {
        let settled = match tags {
            Tags::One(tag) => self.settle_one(id, line, tag, verdict, now, fx),
            Tags::UpTo(_) | Tags::All => self.settle_many(id, line, tags, verdict, now, fx),
        };
        self.end_command(now, fx);
        settled
    }

    fn settle_many<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        tags: Tags,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) -> Settled {
        // What goes back goes back at once, in its order; only how often it was delivered is written down, if that is limited.
        let (tags, is_in_part) = match self.line_mut(id, line) {
            Some(line) if verdict != Verdict::Requeue => {
                line.settled_at_once(tags, SETTLED_PER_CALL)
            }
            _ => (tags, false),
        };
        let Some(taken) = self.take_unsettled(id, line, tags) else {
            return Settled::Unknown;
        };
        self.judge_all(id, line, taken, verdict, now, fx);
        match is_in_part {
            true => Settled::InPart,
            false => Settled::Known,
        }
    }

    /// Most settle one message after the other, and the oldest first.
    fn settle_one<E: Effects>(
        &mut self,
        id: SessionId,
        number: u16,
        tag: u64,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) -> Settled {
        let Some(line) = self.line_mut(id, number) else {
            return Settled::Unknown;
        };
        let Some(unsettled) = line.take_one(tag) else {
            return Settled::Unknown;
        };
        line.give_credit_back(unsettled.consumer);
        let (source, has_common_credit) = (unsettled.source, line.has_common_credit());
        self.judge(id, number, unsettled, verdict, now);
        if has_common_credit {
            self.pump_after(id, number, SmallVec::from_slice(&[source]), now, fx);
        } else {
            self.pump_source(source, now, fx);
        }
        Settled::Known
    }

    /// Takes what is named out of the line's list; nothing if there is no such message. Its credit stays taken.
    pub(super) fn take_unsettled(
        &mut self,
        id: SessionId,
        number: u16,
        tags: Tags,
    ) -> Option<Taken> {
        match self.line_mut(id, number) {
            Some(line) => line.take(tags),
            None => (tags == Tags::All).then(Taken::new),
        }
    }

    pub(super) fn judge_all<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        taken: Taken,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) {
        let mut sources = Sources::new();
        let mut taken = taken;
        if verdict == Verdict::Requeue {
            // From the last to the first, so that what returns to a head comes in its order.
            taken.reverse();
        }
        let mut returning: SmallVec<[(QueueId, Vec<Item>); 1]> = SmallVec::new();
        for unsettled in taken {
            if let Some(line) = self.line_mut(id, line) {
                line.give_credit_back(unsettled.consumer);
            }
            if !sources.contains(&unsettled.source) {
                sources.push(unsettled.source);
            }
            match unsettled.source {
                Source::Queue(queue_id)
                    if verdict == Verdict::Requeue && self.queues.get(queue_id).is_some() =>
                {
                    self.books
                        .settled(Delta::copy(unsettled.item.message.bytes()));
                    let item = self.take_back(id, queue_id, unsettled.item, now);
                    match returning.iter_mut().find(|(queue, _)| *queue == queue_id) {
                        Some((_, items)) => items.extend(item),
                        None => returning.push((queue_id, item.into_iter().collect())),
                    }
                }
                _ => self.judge(id, line, unsettled, verdict, now),
            }
        }
        for (queue_id, items) in returning {
            self.take_all_back(queue_id, items, now);
        }
        self.pump_after(id, line, sources, now, fx);
    }

    /// Hands out what can follow after something of a line was settled that came from `sources`.
    fn pump_after<E: Effects>(
        &mut self,
        id: SessionId,
        line: u16,
        mut sources: Sources,
        now: Time,
        fx: &mut E,
    ) {
        if let Some(line) = self.line(id, line)
            && line.has_common_credit()
        {
            // What the line has in common may have kept any of its consumers waiting: they take turns.
            let mut turns: Sources = line.sources_in_turn().collect();
            turns.extend(
                sources
                    .into_iter()
                    .filter(|source| !line.consumers().iter().any(|it| it.source == *source)),
            );
            sources = turns;
        }
        for source in sources {
            self.pump_source(source, now, fx);
        }
    }

    pub(super) fn pump_source<E: Effects>(&mut self, source: Source, now: Time, fx: &mut E) {
        match source {
            Source::Queue(queue_id) => self.pump_queue(queue_id, now, fx),
            Source::Group(group_id) => {
                self.hand_over_waiting(group_id, now, fx);
            }
        }
    }

    /// One message that was taken out of its line's list.
    #[inline]
    pub(super) fn judge(
        &mut self,
        id: SessionId,
        line: u16,
        unsettled: Unsettled,
        verdict: Verdict,
        now: Time,
    ) {
        self.books
            .settled(Delta::copy(unsettled.item.message.bytes()));
        match unsettled.source {
            Source::Queue(queue_id) => {
                self.judge_of_queue(id, queue_id, unsettled.item, verdict, now);
            }
            Source::Group(group_id) => {
                let of = (id, line, unsettled.consumer);
                self.judge_of_group(group_id, of, unsettled.tag, unsettled.item, verdict, now);
            }
        }
    }

    /// One of a group, which may have ended.
    fn judge_of_group(
        &mut self,
        group_id: GroupId,
        of: Key,
        tag: u64,
        item: Item,
        verdict: Verdict,
        now: Time,
    ) {
        let is_there = self.groups.get(group_id).is_some();
        if is_there {
            self.group_line_settled(group_id, of, tag, verdict == Verdict::Accept, now);
        }
        if verdict == Verdict::Requeue {
            if is_there {
                self.order_changed(group_id);
            }
            self.hand_back(Some(of.0));
            return match is_there {
                true => self.return_to_group(group_id, of, item, now),
                false => self.book_drop(None, item.message.address(), DropReason::GroupEnded),
            };
        }
        if is_there {
            self.order_settled(group_id, of, &item.message);
        }
        self.book_had(of.0, &item.message);
        if !is_there {
            return;
        }
        if !self.is_owned_elsewhere(group_id) {
            self.forget_given_back(group_id, item.back);
        }
        if verdict == Verdict::Reject {
            let (message, why) = (item.message, DeathReason::Rejected);
            self.leave_group_to_die(group_id, message, item.serial, why, now);
        } else {
            self.persist_group_removed(group_id, item.serial);
        }
    }

    /// A group's message waits again, first in line.
    fn return_to_group(&mut self, group_id: GroupId, by: Key, mut item: Item, now: Time) {
        // A consumer that leaves has not refused the message.
        let is_refused = self
            .line(by.0, by.1)
            .is_some_and(|line| line.consumer(by.2).is_some());
        item.deliveries = item.deliveries.saturating_add(1);
        if is_refused && self.is_owned_elsewhere(group_id) {
            return self.refuse_errand(group_id, by, item);
        }
        if is_refused {
            item.back = self.note_given_back(group_id, item.back, by, now);
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return self.book_drop(None, item.message.address(), DropReason::GroupEnded);
        };
        group.counters.returned += 1;
        if self.is_too_often(group_id, item.serial, item.deliveries) {
            return self.give_up_of_group(group_id, item, DeathReason::DeliveryLimit, now);
        }
        if let Some(group) = self.groups.get_mut(group_id) {
            self.books.entered(group.comes_back_first(item));
        }
    }
}
