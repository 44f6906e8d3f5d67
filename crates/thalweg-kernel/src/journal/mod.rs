//! What a shard writes and promises: records that gather until the server takes them, numbers, references to the message
//! that is being spread, and messages wanted back from disk.
//!
//! *Knows:* records, and how safe they must be. *Must never know:* a session, a queue, a group but by its number.

pub(crate) mod durable;
mod gathering;
mod handover;
pub(crate) mod numbers;
pub(crate) mod restore;
pub(crate) mod terms;

pub use gathering::Batch;

use crate::effects::{Fetch, Holder, Safety, Spot};
use crate::ids::{SessionId, ShardId, Tag};
use crate::journal::durable::{Pending, References};
use crate::journal::numbers::Numbers;
use gathering::Gathering;
use std::collections::VecDeque;
use thalweg_records::{MessageRecord, Record};

/// What a shard writes, and what waits for it to be safe.
#[derive(Debug)]
pub(crate) struct Journal {
    gathering: Gathering,
    /// Something waits for the batch to be safe, even if it has no records: those before it have.
    is_awaited: bool,
    /// Queues that have the message being spread, until it is written down.
    references: References,
    /// Deliveries that wait for a batch and whose departure must be reported, by rising batch.
    leaving: VecDeque<(u64, SessionId, Tag)>,
    /// Marks of queues and groups that wait for a batch and have deliveries waiting for them, by rising batch.
    marks: VecDeque<(u64, Holder, u64)>,
    numbers: Numbers,
    /// Messages that were written or sent to other shards, so that a flow can see whether one was.
    promises: u64,
    /// Bytes of payload that were written.
    bytes_written: u64,
    /// Messages that queues want back from disk.
    fetches: Vec<Fetch>,
    /// Whose messages leave memory once they are written.
    spilling: Vec<Holder>,
}

impl Journal {
    /// The first batch of shard `shard` of `shards`.
    pub(crate) fn new(shard: ShardId, shards: u16) -> Self {
        Journal {
            gathering: Gathering::new(),
            is_awaited: false,
            references: References::default(),
            leaving: VecDeque::new(),
            marks: VecDeque::new(),
            numbers: Numbers::new(shard, shards),
            promises: 0,
            bytes_written: 0,
            fetches: Vec::new(),
            spilling: Vec::new(),
        }
    }

    /// Messages of a queue, group or session leave memory once they are written.
    pub(crate) fn spills(&mut self, holder: Holder) {
        self.spilling.push(holder);
    }

    /// To look at them; [`Journal::set_spilling`] must follow with those that remain.
    pub(crate) fn take_spilling(&mut self) -> Vec<Holder> {
        std::mem::take(&mut self.spilling)
    }

    pub(crate) fn set_spilling(&mut self, spilling: Vec<Holder>) {
        self.spilling = spilling;
    }

    /// Goes on behind the numbers and serials of an earlier run.
    pub(crate) fn restore_numbers(&mut self, number_last: u64, serial_last: u64) {
        self.numbers.restore(number_last, serial_last);
    }

    /// A number for a session, group or queue, never used before.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers.next()
    }

    /// A serial that no entry of any shard had before.
    #[inline]
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.numbers.next_serial()
    }

    /// A serial for an entry that is written down; 0 for another.
    #[inline]
    pub(crate) fn serial_if(&mut self, is_kept: bool) -> u64 {
        if is_kept { self.next_serial() } else { 0 }
    }

    /// The last serial given to an entry of a durable queue.
    pub(crate) fn serial_last(&self) -> u64 {
        self.numbers.serial_last()
    }

    /// How many promises there were; see [`Journal::promise`].
    #[inline]
    pub(crate) fn promises(&self) -> u64 {
        self.promises
    }

    /// Counts a message that is written or sent to another shard: what acknowledges it must wait for that.
    #[inline]
    pub(crate) fn promise(&mut self) {
        self.promises += 1;
    }

    /// Counts a message that is written, with `bytes` of payload.
    #[inline]
    pub(crate) fn will_write(&mut self, bytes: usize) {
        self.promises += 1;
        self.bytes_written += bytes as u64;
    }

    /// Bytes of payload that were written since the start.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Asks for messages back from disk.
    pub(crate) fn fetch(&mut self, fetch: Fetch) {
        self.fetches.push(fetch);
    }

    /// Takes what was asked for from disk.
    pub(crate) fn take_fetches(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.fetches)
    }

    /// The number of the batch being gathered, for what is to wait for it.
    #[inline]
    pub(crate) fn awaited(&mut self) -> u64 {
        self.is_awaited = true;
        self.gathering.number()
    }

    /// A queue has the message that is being spread.
    pub(crate) fn refer(&mut self, pending: Pending) {
        self.references.push(pending);
    }

    /// Whether a queue has it that is written down.
    #[inline]
    pub(crate) fn has_references(&self) -> bool {
        !self.references.is_empty()
    }

    /// The message is written at least so safe, whatever its publisher asked for.
    pub(crate) fn refer_safely(&mut self, safety: Safety) {
        self.references.demand(safety);
    }

    /// What was referred so far: another message is spread first, or this one is written.
    pub(crate) fn take_references(&mut self) -> References {
        std::mem::take(&mut self.references)
    }

    /// Goes on with those.
    pub(crate) fn set_references(&mut self, references: References) {
        self.references = references;
    }

    /// Asks for [`Kernel::delivery_left`] as soon as what waits for the batch may leave.
    pub(crate) fn tell_when_left(&mut self, session: SessionId, tag: Tag) {
        self.leaving
            .push_back((self.gathering.number(), session, tag));
    }

    /// Asks for [`Kernel::mark_is_safe`] as soon as what was persisted is safe.
    pub(crate) fn tell_when_marked(&mut self, holder: Holder, to: u64) {
        self.is_awaited = true;
        self.marks.push_back((self.gathering.number(), holder, to));
    }

    /// A mark was set back: what was said of earlier ones is void.
    pub(crate) fn forget_marks(&mut self, holder: Holder) {
        self.marks.retain(|(_, of, _)| *of != holder);
    }

    /// A session has no link any more: nothing leaves that was held on it.
    pub(crate) fn forget_deliveries(&mut self, session: SessionId) {
        self.leaving.retain(|(_, of, _)| *of != session);
    }

    /// Adds a record, which must be at least so safe before what waits for the batch may leave.
    #[inline]
    pub(crate) fn persist(&mut self, record: &Record<'_>, safety: Safety) -> Spot {
        self.gathering.persist(record, safety)
    }

    /// The same of a message that was accepted.
    #[inline]
    pub(crate) fn persist_message(&mut self, message: &MessageRecord<'_>, safety: Safety) -> Spot {
        self.gathering.persist_message(message, safety)
    }

    /// An entry is done with: if its message has not been taken yet, neither need be written.
    #[inline]
    pub(crate) fn forget(&mut self, queue: u64, serial: u64, tag: Tag) {
        self.gathering.forget(queue, serial, tag);
    }

    /// What has entries under a number: a group's name and filter, or what says what else it is.
    pub(crate) fn write_group(&mut self, queue: u64, name: &str, filter: &str, safety: Safety) {
        let group = Record::Group {
            queue,
            name,
            filter,
        };
        self.persist(&group, safety);
    }

    /// What had entries under a number is gone, and they are.
    pub(crate) fn end_group(&mut self, queue: u64, safety: Safety) {
        self.persist(&Record::GroupEnded { queue }, safety);
    }

    /// An entry leaves a queue, if it is written down there.
    pub(crate) fn remove(&mut self, queue: u64, serial: u64, safety: Safety) {
        if queue != 0 && serial != 0 {
            self.persist(&Record::Removed { queue, serial }, safety);
        }
    }

    /// An entry goes from one queue to the other, to wait there.
    pub(crate) fn move_entry(&mut self, from: u64, serial: u64, to: u64, redelivered: bool) {
        let (tag, grant) = (0, None);
        let moved = Record::Moved {
            from,
            serial,
            to,
            tag,
            redelivered,
            grant,
        };
        self.persist(&moved, Safety::Lazy);
    }

    /// The batch that is being gathered is to be at least so safe.
    #[inline]
    pub(crate) fn demand(&mut self, safety: Safety) {
        self.gathering.demand(safety);
    }

    /// The record that was persisted last must be written, and stay where it is.
    pub(crate) fn pin(&mut self) {
        self.gathering.pin();
    }
}
