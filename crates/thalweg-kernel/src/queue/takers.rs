//! The consumers and groups of a queue, and their turns.

use crate::groups::seats::Key;
use crate::ids::{GroupId, SessionId};

/// A consumer that takes from a queue. Its credit is with its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Consumer {
    pub(super) session: SessionId,
    pub(super) line: u16,
    pub(super) number: u32,
    pub(super) priority: i32,
}

impl Consumer {
    pub(super) fn key(&self) -> Key {
        (self.session, self.line, self.number)
    }
}

/// What takes the next message of a queue: one consumer, or a group for one of its members.
#[derive(Clone, Copy)]
pub(super) enum NextReceiver {
    Consumer(Consumer),
    Group(GroupId),
}

/// Consumers and groups of a queue. Groups have priority 0.
#[derive(Default)]
pub(super) struct Takers {
    /// By falling priority; those of one priority in the order in which they came.
    consumers: Vec<Consumer>,
    /// For sessions that take their messages through subscriptions.
    groups: Vec<GroupId>,
    /// Whose turn it is.
    cursor: usize,
    /// A consumer has exclusive access.
    is_exclusive: bool,
    had_any: bool,
}

impl Takers {
    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    pub(super) fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    pub(super) fn len(&self) -> usize {
        self.consumers.len() + self.groups.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.groups.is_empty()
    }

    /// Whether one consumer alone may take from the queue.
    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// Whether there has been one at any time.
    pub(super) fn had_any(&self) -> bool {
        self.had_any
    }

    /// Adds a consumer behind its equals, and behind the one that is active alone; false if it or another may not have the
    /// queue with others.
    pub(super) fn add(&mut self, new: Consumer, exclusive: bool, single_active: bool) -> bool {
        if self.is_exclusive || (exclusive && !self.consumers.is_empty()) {
            return false;
        }
        (self.is_exclusive, self.had_any) = (exclusive, true);
        let before = |other: &Consumer| other.priority >= new.priority;
        let at = self.consumers.partition_point(before);
        let active = usize::from(single_active).min(self.consumers.len());
        self.consumers.insert(at.max(active), new);
        true
    }

    pub(super) fn remove(&mut self, session: SessionId, line: u16, number: u32) {
        self.consumers
            .retain(|other| (other.session, other.line, other.number) != (session, line, number));
        (self.is_exclusive, self.cursor) = (false, 0);
    }

    pub(super) fn add_group(&mut self, group: GroupId) {
        self.groups.push(group);
        self.had_any = true;
    }

    pub(super) fn remove_group(&mut self, group: GroupId) {
        self.groups.retain(|other| *other != group);
        self.cursor = 0;
    }

    /// Puts consumers that may not take behind those that may.
    pub(super) fn put_behind(&mut self, may_not: impl FnMut(&Consumer) -> bool) {
        self.consumers.sort_by_key(may_not);
    }

    /// The taker that is served next, and whose turn it is then: the highest priority first, in turns among equals. If only one may
    /// be active that is the first consumer, or without any the first group.
    pub(super) fn next(
        &self,
        single_active: bool,
        can: impl Fn(&NextReceiver) -> bool,
    ) -> Option<(NextReceiver, usize)> {
        if single_active || self.len() == 1 {
            return self.at(0).filter(&can).map(|first| (first, 0));
        }
        let priority = |consumer: Option<&Consumer>| consumer.map_or(0, |it| it.priority);
        let first = priority(self.consumers.first());
        let is_even =
            first == priority(self.consumers.last()) && (self.groups.is_empty() || first == 0);
        let mut best: Option<(i32, usize, NextReceiver)> = None;
        for step in 0..self.len() {
            let at = (self.cursor + step) % self.len();
            let (taker, priority) = (self.at(at)?, priority(self.consumers.get(at)));
            if best.is_none_or(|(known, ..)| priority > known) && can(&taker) {
                best = Some((priority, at, taker));
                if is_even {
                    break;
                }
            }
        }
        let (_, at, taker) = best?;
        Some((taker, (at + 1) % self.len()))
    }

    fn at(&self, at: usize) -> Option<NextReceiver> {
        match self.consumers.get(at) {
            Some(consumer) => Some(NextReceiver::Consumer(*consumer)),
            None => Some(NextReceiver::Group(
                *self.groups.get(at - self.consumers.len())?,
            )),
        }
    }

    pub(super) fn set_turn(&mut self, turn: usize) {
        self.cursor = turn;
    }
}
