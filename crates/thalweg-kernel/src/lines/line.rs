//! A session's lines: what its consumers were given and have not settled, and how much more they may have.

use super::spec::Tags;
use crate::Kernel;
use crate::ids::{GroupId, QueueId, SessionId};
use crate::queue::Item;
use crate::recount::Held;
use crate::verdict::Verdict;
use smallvec::SmallVec;
use std::collections::VecDeque;
use thalweg_model::{Message, Stamp};

/// What a session has that takes from queues. Nothing for the others.
#[derive(Default)]
pub(crate) struct Lines {
    /// By rising number, so that one is found by bisection.
    lines: Vec<Channel>,
    transactions: Vec<(u32, Transaction)>,
    /// Queues that are the session's alone.
    own_queues: Vec<QueueId>,
}

/// A scope of delivery numbers and of shared credit.
pub(crate) struct Channel {
    number: u16,
    /// Unsettled messages of all its consumers together; 0 for no bound.
    credit: u32,
    /// How many of `unsettled` count against the credit: those that came through consumers.
    in_flight: u32,
    tag_last: u64,
    unsettled: VecDeque<Unsettled>,
    /// All were to be settled, up to this tag, and are not yet; 0 if that is not so.
    settling: u64,
    consumers: Vec<LineConsumer>,
    /// The consumer that was served last.
    served_last: u32,
    /// The one message that is being asked for is settled when sent.
    takes_blindly: bool,
    /// Its consumers are given nothing for now.
    is_paused: bool,
}

/// A consumer's terms and credit.
#[derive(Clone, Debug)]
pub(crate) struct LineConsumer {
    pub number: u32,
    pub source: Source,
    /// 0 for no bound.
    pub credit: u32,
    pub in_flight: u32,
    pub settles: bool,
    pub no_local: bool,
    /// What it is given depends on the message: it has a filter, or does not want what its own session publishes.
    pub is_choosy: bool,
}

/// How the next message would be given to a receiver of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The tag that the message is settled by.
    pub tag: u64,
    pub settles: bool,
    /// Its receiver does not want what its own session publishes.
    pub no_local: bool,
    /// It does not want every message, for that or another reason.
    pub is_choosy: bool,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Queue(QueueId),
    Group(GroupId),
}

/// A message that was given and not settled.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub tag: u64,
    /// 0 if it was asked for without a consumer.
    pub consumer: u32,
    pub source: Source,
    pub item: Item,
}

pub(super) type Taken = SmallVec<[Unsettled; 1]>;

/// What is done at once, at its end.
#[derive(Default)]
pub(super) struct Transaction {
    pub steps: Vec<Step>,
    pub bytes: usize,
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
    // --- lines

    #[inline]
    fn place_of(&self, number: u16) -> Result<usize, usize> {
        match &self.lines[..] {
            // Most have one.
            [only] if only.number == number => Ok(0),
            lines => lines.binary_search_by_key(&number, |line| line.number),
        }
    }

    pub(super) fn get(&self, number: u16) -> Option<&Channel> {
        self.lines.get(self.place_of(number).ok()?)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u16) -> Option<&mut Channel> {
        let at = self.place_of(number).ok()?;
        self.lines.get_mut(at)
    }

    pub(crate) fn get_or_insert(&mut self, number: u16) -> &mut Channel {
        let at = match self.place_of(number) {
            Ok(at) => at,
            Err(at) => {
                self.lines.insert(at, Channel::new(number));
                at
            }
        };
        &mut self.lines[at]
    }

    pub(super) fn remove(&mut self, number: u16) {
        self.lines.retain(|line| line.number != number);
    }

    pub(super) fn numbers(&self) -> Vec<u16> {
        self.lines.iter().map(|line| line.number).collect()
    }

    // --- what is not settled

    /// All that was given and is not settled, or only in a transaction, and of which line.
    fn all_unsettled(&self) -> impl Iterator<Item = (u16, &Unsettled)> {
        let of_lines = self
            .lines
            .iter()
            .flat_map(|line| line.unsettled.iter().map(|it| (line.number, it)));
        let steps = self
            .transactions
            .iter()
            .flat_map(|(_, transaction)| &transaction.steps);
        of_lines.chain(steps.filter_map(|step| match step {
            Step::Settle {
                line, unsettled, ..
            } => Some((*line, unsettled)),
            Step::Publish(..) => None,
        }))
    }

    /// What consumers have of a group and have not settled, or only in a transaction: line, consumer, message.
    pub(crate) fn copies_of_group(
        &self,
        group_id: GroupId,
    ) -> impl Iterator<Item = (u16, u32, &Message)> {
        self.all_unsettled()
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

    /// What its consumers were sent and have not settled, also where a transaction will.
    pub(crate) fn recount(&self) -> Held {
        let mut held = Held::default();
        for (_, unsettled) in self.all_unsettled() {
            held.in_flight += 1;
            held.bytes += unsettled.item.message.bytes();
        }
        held
    }

    // --- transactions

    /// Begins a transaction; false if there is one of that number.
    pub(super) fn begin(&mut self, number: u32) -> bool {
        let is_new = self.transaction_mut(number).is_none();
        if is_new {
            self.transactions.push((number, Transaction::default()));
        }
        is_new
    }

    pub(super) fn transaction_mut(&mut self, number: u32) -> Option<&mut Transaction> {
        let mut all = self.transactions.iter_mut();
        all.find(|(known, _)| *known == number)
            .map(|(_, transaction)| transaction)
    }

    pub(super) fn take_transaction(&mut self, number: u32) -> Option<Transaction> {
        let mut all = self.transactions.iter();
        let at = all.position(|(known, _)| *known == number)?;
        Some(self.transactions.swap_remove(at).1)
    }

    pub(super) fn transaction_numbers(&self) -> Vec<u32> {
        self.transactions
            .iter()
            .map(|(number, _)| *number)
            .collect()
    }

    /// What all transactions keep together.
    pub(super) fn transaction_bytes(&self) -> usize {
        self.transactions
            .iter()
            .map(|(_, transaction)| transaction.bytes)
            .sum()
    }

    /// What transactions would have settled of a line is in its list again.
    pub(super) fn unsettle(&mut self, number: u16) {
        let is_of_line =
            |step: &mut Step| matches!(step, Step::Settle { line, .. } if *line == number);
        let mut steps = Vec::new();
        for (_, transaction) in &mut self.transactions {
            steps.extend(transaction.steps.extract_if(.., is_of_line));
        }
        self.undo(steps);
    }

    /// What steps would have settled is in the lists of its lines again.
    pub(super) fn undo(&mut self, steps: Vec<Step>) {
        for step in steps {
            if let Step::Settle {
                line, unsettled, ..
            } = step
                && let Some(line) = self.get_mut(line)
            {
                line.put_back(unsettled);
            }
        }
    }

    // --- queues that are the session's alone

    pub(crate) fn own(&mut self, queue: QueueId) {
        self.own_queues.push(queue);
    }

    pub(crate) fn disown(&mut self, queue: QueueId) {
        self.own_queues.retain(|own| *own != queue);
    }

    pub(super) fn into_own_queues(self) -> Vec<QueueId> {
        self.own_queues
    }
}

impl Channel {
    fn new(number: u16) -> Self {
        Channel {
            number,
            credit: 0,
            in_flight: 0,
            tag_last: 0,
            unsettled: VecDeque::new(),
            settling: 0,
            consumers: Vec::new(),
            served_last: 0,
            takes_blindly: false,
            is_paused: false,
        }
    }

    // --- consumers

    pub(super) fn consumers(&self) -> &[LineConsumer] {
        &self.consumers
    }

    pub(super) fn add(&mut self, consumer: LineConsumer) {
        self.consumers.push(consumer);
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<LineConsumer> {
        let at = self.consumers.iter().position(|it| it.number == number)?;
        Some(self.consumers.remove(at))
    }

    /// The source of a consumer has ended, and with it the consumer.
    pub(crate) fn lose_source(&mut self, number: u32, source: Source) {
        self.consumers
            .retain(|known| known.number != number || known.source != source);
    }

    pub(super) fn take_consumers(&mut self) -> Vec<LineConsumer> {
        std::mem::take(&mut self.consumers)
    }

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

    #[inline]
    fn consumer_mut(&mut self, number: u32) -> Option<&mut LineConsumer> {
        self.consumers
            .iter_mut()
            .find(|consumer| consumer.number == number)
    }

    // --- credit, and what it is given

    pub(super) fn has_common_credit(&self) -> bool {
        self.credit > 0
    }

    pub(super) fn set_credit(&mut self, credit: u32) {
        self.credit = credit;
    }

    /// Its consumers are given nothing from now on, or again.
    pub(super) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    fn has_credit(&self) -> bool {
        self.credit == 0 || self.in_flight < self.credit
    }

    /// How many unsettled messages a consumer may have at the most.
    pub(crate) fn window_of(&self, number: u32) -> u32 {
        let bound = |credit: u32| if credit == 0 { u32::MAX } else { credit };
        self.consumer(number)
            .map_or(u32::MAX, |consumer| bound(consumer.credit))
            .min(bound(self.credit))
    }

    /// The tag of the last message that was given.
    pub(crate) fn tag_last(&self) -> u64 {
        self.tag_last
    }

    /// Says whether the one message that is asked for next is settled when it is sent.
    pub(crate) fn set_takes_blindly(&mut self, blindly: bool) {
        self.takes_blindly = blindly;
    }

    pub(crate) fn takes_blindly(&self) -> bool {
        self.takes_blindly
    }

    /// How a consumer is given its next message, if it has credit for one and is not paused.
    #[inline(always)]
    pub(crate) fn turn_of(&self, number: u32) -> Option<Turn> {
        let consumer = self.consumer(number)?;
        let may = !consumer.settles || (self.has_credit() && consumer.has_credit());
        (may && !self.is_paused).then_some(Turn {
            tag: self.tag_last + 1,
            settles: consumer.settles,
            no_local: consumer.no_local,
            is_choosy: consumer.is_choosy,
        })
    }

    /// How a receiver is given a message whatever its credit is: a consumer or, for 0, one that asked for one message.
    pub(super) fn any_turn_of(&self, number: u32) -> Turn {
        let (settles, no_local, is_choosy) = match self.consumer(number) {
            Some(it) => (it.settles, it.no_local, it.is_choosy),
            None => (number == 0 && !self.takes_blindly, false, false),
        };
        Turn {
            tag: self.tag_last + 1,
            settles,
            no_local,
            is_choosy,
        }
    }

    /// A message was sent that settles nothing.
    #[inline]
    pub(crate) fn sent(&mut self, tag: u64) {
        self.tag_last = tag;
    }

    /// A message was sent that is to be settled.
    #[inline]
    pub(crate) fn sent_unsettled(&mut self, unsettled: Unsettled) {
        self.tag_last = unsettled.tag;
        if unsettled.consumer != 0 {
            self.served_last = unsettled.consumer;
            self.in_flight += 1;
            if let Some(consumer) = self.consumer_mut(unsettled.consumer) {
                consumer.in_flight += 1;
            }
        }
        self.unsettled.push_back(unsettled);
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

    // --- what is settled

    fn place_of(&self, tag: u64) -> Option<usize> {
        let tag_of = |unsettled: &Unsettled| unsettled.tag;
        self.unsettled.binary_search_by_key(&tag, tag_of).ok()
    }

    /// Which of several messages are settled at once, of `most` at the most, and whether others are left that were meant.
    pub(super) fn settled_at_once(&mut self, tags: Tags, most: usize) -> (Tags, bool) {
        let settling = std::mem::take(&mut self.settling);
        let last = match (tags, self.unsettled.back()) {
            (Tags::One(tag) | Tags::UpTo(tag), _) => tag,
            (Tags::All, Some(_)) if settling != 0 => settling,
            (Tags::All, Some(newest)) => newest.tag,
            (Tags::All, None) => return (tags, false),
        };
        match self.unsettled.get(most - 1).map(|it| it.tag) {
            // One that is not there is found to be unknown.
            Some(at_once) if at_once < last && self.place_of(last).is_some() => {
                self.settling = last;
                (Tags::UpTo(at_once), true)
            }
            _ => (Tags::UpTo(last), false),
        }
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
    fn put_back(&mut self, unsettled: Unsettled) {
        let before = |known: &Unsettled| known.tag < unsettled.tag;
        let at = self.unsettled.partition_point(before);
        self.unsettled.insert(at, unsettled);
    }

    fn shrink(&mut self) {
        if self.unsettled.is_empty() && self.unsettled.capacity() > 1024 {
            self.unsettled.shrink_to(64);
        }
    }
}

impl LineConsumer {
    fn has_credit(&self) -> bool {
        self.credit == 0 || self.in_flight < self.credit
    }
}

impl Kernel {
    pub(crate) fn lines_mut(&mut self, id: SessionId) -> Option<&mut Lines> {
        Some(self.sessions.get_mut(id)?.lines.get_or_insert_default())
    }

    /// The same of a session that has some.
    pub(crate) fn lines_of(&mut self, id: SessionId) -> Option<&mut Lines> {
        self.sessions.get_mut(id)?.lines.as_deref_mut()
    }

    pub(crate) fn line(&self, id: SessionId, line: u16) -> Option<&Channel> {
        self.sessions.get(id)?.lines.as_deref()?.get(line)
    }

    pub(crate) fn line_mut(&mut self, id: SessionId, line: u16) -> Option<&mut Channel> {
        self.lines_of(id)?.get_mut(line)
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

    /// Whether a consumer could be given a message now.
    pub(crate) fn consumer_can_take(&self, id: SessionId, line: u16, number: u32) -> bool {
        let session = self.sessions.get(id);
        let session = session.filter(|it| it.link().is_some() && !it.connection.is_congested());
        session
            .and_then(|session| session.lines.as_deref()?.get(line))
            .is_some_and(|line| line.turn_of(number).is_some())
    }
}
