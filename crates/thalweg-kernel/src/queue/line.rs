//! A session's lines: what its consumers were given and have not settled, and how much more they may have.

use super::{Item, Tags, Verdict};
use crate::Kernel;
use crate::ids::{GroupId, QueueId, SessionId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use thalweg_model::{Message, Stamp};

/// What a session has that takes from queues. Nothing for the others.
#[derive(Default)]
pub(crate) struct Lines {
    pub(super) lines: Vec<Line>,
    pub(super) transactions: Vec<(u32, Transaction)>,
    /// Queues that are the session's alone.
    pub(super) own_queues: Vec<QueueId>,
}

/// A scope of delivery numbers and of shared credit.
pub(super) struct Line {
    pub(super) number: u16,
    /// Unsettled messages of all its consumers together; 0 for no bound.
    pub(super) credit: u32,
    /// How many of `unsettled` count against the credit: those that came through consumers.
    pub(super) in_flight: u32,
    pub(super) tag_last: u64,
    pub(super) unsettled: VecDeque<Unsettled>,
    /// All were to be settled, up to this tag, and are not yet; 0 if that is not so.
    pub(super) settling: u64,
    pub(super) consumers: Vec<LineConsumer>,
    /// The consumer that was served last.
    pub(super) served_last: u32,
    /// The one message that is being asked for is settled when sent.
    pub(super) takes_blindly: bool,
}

/// A consumer's terms and credit.
#[derive(Clone, Debug)]
pub(crate) struct LineConsumer {
    pub(super) number: u32,
    pub(super) source: Source,
    pub(super) credit: u32,
    pub(super) in_flight: u32,
    pub(super) settles: bool,
    pub(super) no_local: bool,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Queue(QueueId),
    Group(GroupId),
}

/// A message that was given and not settled.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) tag: u64,
    /// 0 if it was asked for without a consumer.
    pub(super) consumer: u32,
    pub(super) source: Source,
    pub(super) item: Item,
}

pub(super) type Taken = SmallVec<[Unsettled; 1]>;

/// What is done at once, at its end.
#[derive(Default)]
pub(super) struct Transaction {
    pub(super) steps: Vec<Step>,
    pub(super) bytes: usize,
}

/// One step of a transaction.
pub(super) enum Step {
    /// A message is published, to these addresses as well.
    Publish(Message, Box<[String]>, Option<Stamp>),
    /// A message is settled.
    Settle {
        line: u16,
        unsettled: Unsettled,
        verdict: Verdict,
    },
}

impl Lines {
    pub(super) fn get(&self, number: u16) -> Option<&Line> {
        self.lines
            .binary_search_by_key(&number, |line| line.number)
            .ok()
            .map(|at| &self.lines[at])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u16) -> Option<&mut Line> {
        self.lines
            .binary_search_by_key(&number, |line| line.number)
            .ok()
            .map(|at| &mut self.lines[at])
    }

    pub(super) fn get_or_insert(&mut self, number: u16) -> &mut Line {
        let at = match self.lines.binary_search_by_key(&number, |line| line.number) {
            Ok(at) => at,
            Err(at) => {
                let line = Line {
                    number,
                    credit: 0,
                    in_flight: 0,
                    tag_last: 0,
                    unsettled: VecDeque::new(),
                    settling: 0,
                    consumers: Vec::new(),
                    served_last: 0,
                    takes_blindly: false,
                };
                self.lines.insert(at, line);
                at
            }
        };
        &mut self.lines[at]
    }

    /// What consumers have of a group and have not settled, or only in a transaction: line, consumer, message.
    pub(crate) fn copies_of_group(
        &self,
        group_id: GroupId,
    ) -> impl Iterator<Item = (u16, u32, &Message)> {
        let of_lines = self
            .lines
            .iter()
            .flat_map(|line| line.unsettled.iter().map(|it| (line.number, it)));
        let steps = self
            .transactions
            .iter()
            .flat_map(|(_, transaction)| &transaction.steps);
        let of_steps = steps.filter_map(|step| match step {
            Step::Settle {
                line, unsettled, ..
            } => Some((*line, unsettled)),
            Step::Publish(..) => None,
        });
        of_lines
            .chain(of_steps)
            .filter(move |(_, it)| it.source == Source::Group(group_id))
            .map(|(line, it)| (line, it.consumer, &it.item.message))
    }

    /// Whether something is unsettled that came from a group.
    pub(crate) fn has_of_groups(&self) -> bool {
        let mut unsettled = self.lines.iter().flat_map(|line| &line.unsettled);
        unsettled.any(|it| matches!(it.source, Source::Group(_)))
    }

    /// Messages given and not settled, of all lines.
    pub(crate) fn unsettled(&self) -> usize {
        self.lines.iter().map(|line| line.unsettled.len()).sum()
    }
}

impl Line {
    /// The sources of its consumers, beginning behind the one that was served last.
    pub(super) fn sources_in_turn(&self) -> impl Iterator<Item = Source> {
        let next = self
            .consumers
            .iter()
            .position(|it| it.number == self.served_last)
            .map_or(0, |at| at + 1);
        let (before, after) = self.consumers.split_at(next);
        after.iter().chain(before).map(|it| it.source)
    }

    pub(super) fn consumer(&self, number: u32) -> Option<&LineConsumer> {
        self.consumers
            .iter()
            .find(|consumer| consumer.number == number)
    }

    pub(super) fn consumer_mut(&mut self, number: u32) -> Option<&mut LineConsumer> {
        self.consumers
            .iter_mut()
            .find(|consumer| consumer.number == number)
    }

    pub(super) fn is_unsettled(&self, tag: u64) -> bool {
        self.place_of(tag).is_some()
    }

    fn place_of(&self, tag: u64) -> Option<usize> {
        let tag_of = |unsettled: &Unsettled| unsettled.tag;
        self.unsettled.binary_search_by_key(&tag, tag_of).ok()
    }

    /// Takes one out of the list of what is not settled; mostly that is the oldest.
    pub(super) fn take_one(&mut self, tag: u64) -> Option<Unsettled> {
        let oldest = self.unsettled.pop_front_if(|oldest| oldest.tag == tag);
        let taken = oldest.or_else(|| self.unsettled.remove(self.place_of(tag)?))?;
        self.shrink();
        Some(taken)
    }

    /// The same of what is named; nothing if there is no such message.
    pub(super) fn take(&mut self, tags: Tags) -> Option<Taken> {
        let taken = match tags {
            Tags::All => self.unsettled.drain(..).collect(),
            Tags::UpTo(tag) => self.unsettled.drain(..=self.place_of(tag)?).collect(),
            Tags::One(tag) => std::iter::once(self.take_one(tag)?).collect(),
        };
        self.shrink();
        Some(taken)
    }

    /// A message that a transaction would have settled is in the list again.
    pub(super) fn put_back(&mut self, unsettled: Unsettled) {
        let before = |known: &Unsettled| known.tag < unsettled.tag;
        let at = self.unsettled.partition_point(before);
        self.unsettled.insert(at, unsettled);
    }

    fn shrink(&mut self) {
        if self.unsettled.is_empty() && self.unsettled.capacity() > 1024 {
            self.unsettled.shrink_to(64);
        }
    }

    pub(super) fn has_credit(&self) -> bool {
        self.credit == 0 || self.in_flight < self.credit
    }

    /// A message that a consumer has had counts no more.
    pub(super) fn give_credit_back(&mut self, consumer: u32) {
        if consumer == 0 {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(consumer) = self.consumer_mut(consumer) {
            consumer.in_flight = consumer.in_flight.saturating_sub(1);
        }
    }
}

impl LineConsumer {
    pub(super) fn has_credit(&self) -> bool {
        !self.settles || self.credit == 0 || self.in_flight < self.credit
    }
}

impl Kernel {
    pub(super) fn lines_mut(&mut self, id: SessionId) -> Option<&mut Lines> {
        Some(self.sessions.get_mut(id)?.lines.get_or_insert_default())
    }

    /// The same of a session that has some.
    pub(super) fn lines_of(&mut self, id: SessionId) -> Option<&mut Lines> {
        self.sessions.get_mut(id)?.lines.as_deref_mut()
    }

    pub(super) fn line(&self, id: SessionId, line: u16) -> Option<&Line> {
        self.sessions.get(id)?.lines.as_deref()?.get(line)
    }

    pub(super) fn line_mut(&mut self, id: SessionId, line: u16) -> Option<&mut Line> {
        self.lines_of(id)?.get_mut(line)
    }

    /// A message that a session's lines have of a group's and have not settled.
    pub(crate) fn held_on_line(&self, id: SessionId, group_id: GroupId) -> Option<Message> {
        let lines = self.sessions.get(id)?.lines.as_deref()?;
        let is_meant = |held: &&Unsettled| held.source == Source::Group(group_id);
        let held = lines
            .lines
            .iter()
            .flat_map(|line| &line.unsettled)
            .find(is_meant)?;
        Some(held.item.message.clone())
    }

    /// The only line of a session that has something of a group's that is not settled.
    pub(crate) fn line_holding(&self, id: SessionId, group_id: GroupId) -> Option<u16> {
        let lines = self.sessions.get(id)?.lines.as_deref()?;
        let is_meant = |held: &Unsettled| held.source == Source::Group(group_id);
        let mut holding = lines
            .lines
            .iter()
            .filter(|line| line.unsettled.iter().any(is_meant));
        let first = holding.next()?.number;
        holding.next().is_none().then_some(first)
    }

    /// How many unsettled messages a consumer may have at the most.
    pub(crate) fn window_of(&self, id: SessionId, line: u16, number: u32) -> u32 {
        let bound = |credit: u32| if credit == 0 { u32::MAX } else { credit };
        let Some(line) = self.line(id, line) else {
            return u32::MAX;
        };
        line.consumer(number)
            .map_or(u32::MAX, |consumer| bound(consumer.credit))
            .min(bound(line.credit))
    }

    /// Whether a consumer could be given a message now.
    pub(crate) fn consumer_can_take(&self, id: SessionId, line: u16, number: u32) -> bool {
        let Some(session) = self
            .sessions
            .get(id)
            .filter(|session| session.link().is_some() && !session.connection.is_congested())
        else {
            return false;
        };
        let Some(line) = session.lines.as_deref().and_then(|lines| lines.get(line)) else {
            return false;
        };
        let Some(consumer) = line.consumer(number) else {
            return false;
        };
        consumer.has_credit() && (!consumer.settles || line.has_credit())
    }
}
