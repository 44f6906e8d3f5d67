//! What a shard has persisted and not handed over yet.
//!
//! While the disk is busy, what is persisted stays here, and much of it comes to nothing meanwhile: a message that all
//! its receivers have settled by then need not be written at all, nor that they did. That makes no visible difference:
//! its publisher is answered when the batch is safe, and after a crash there is nothing to deliver.
//!
//! A batch becomes one frame of the journal, and a frame has a greatest length. Shards hand batches over between commands
//! long before; should one command persist more than a frame holds, its batch goes into several frames. What waits for the
//! batch waits for all of them.
//!
//! All records of one command are kept together or not at all, unless they are more than a frame holds.

use crate::effects::{Safety, Spot};
use crate::ids::Tag;
use std::collections::VecDeque;
use thalweg_records::{MessageRecord, Record, Reference};

/// Records of one shard that are persisted together.
#[derive(Debug, Default)]
pub struct Batch {
    /// The number under which answers wait for it; numbers rise by one, from 1 on.
    pub number: u64,
    /// Its frame; they rise by one, from 1 on. Frames of one batch follow each other.
    pub frame: u64,
    pub bytes: Vec<u8>,
    /// How safe they must be before what waits for them may leave.
    pub safety: Safety,
}

impl Batch {
    /// A batch that is longer than this should be handed over.
    pub const LARGE_BYTES: usize = 4 << 20;
    /// The longest there may be: offsets have 32 bits.
    pub const BYTES_MAX: usize = 1 << 30;
}

/// Longest record of an entry's end.
const END_BYTES_MAX: usize = 32;

/// A batch that is being gathered.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    batch: Batch,
    /// Frames that had no room for more, of the same batch.
    full: VecDeque<Batch>,
    /// No frame is longer, unless it has only one record.
    bytes_max: usize,
    /// Messages that need not be written if all their entries are forgotten, by rising serials.
    marks: Vec<Mark>,
    /// Entries that were forgotten: the mark's index, queue, serial and tag.
    forgotten: Vec<(u32, u64, u64, Tag)>,
    /// Records before this offset are not moved: their positions have been handed out.
    pinned: usize,
    /// Bytes of messages that need not be written.
    void: usize,
}

#[derive(Debug)]
struct Mark {
    first: u64,
    last: u64,
    /// From one entry's serial to the next.
    step: u64,
    offset: u32,
    len: u32,
    /// Entries that are not forgotten.
    live: u32,
}

impl Gathering {
    pub(super) fn new() -> Self {
        Gathering {
            batch: Batch {
                number: 1,
                frame: 1,
                ..Batch::default()
            },
            bytes_max: Batch::BYTES_MAX,
            ..Gathering::default()
        }
    }

    pub(super) fn set_bytes_max(&mut self, bytes: usize) {
        self.bytes_max = bytes.min(Batch::BYTES_MAX);
    }

    /// The number of the batch being gathered.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.batch.number
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.bytes.is_empty() && self.full.is_empty()
    }

    /// Whether so much was written that it should be taken before more is.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        // Full ones are longer than that, or there is no room for any of that length.
        self.batch.bytes.len() - self.void > Batch::LARGE_BYTES || !self.full.is_empty()
    }

    /// Bytes that will be written as things stand.
    pub(super) fn len(&self) -> usize {
        self.full
            .iter()
            .map(|batch| batch.bytes.len())
            .sum::<usize>()
            + self.batch.bytes.len()
            - self.void
    }

    #[inline]
    pub(super) fn persist(&mut self, record: &Record<'_>, safety: Safety) -> Spot {
        let offset = self.append(safety, |bytes| record.encode(bytes));
        self.note(record, offset);
        self.spot(offset)
    }

    /// The same of a message.
    #[inline]
    pub(super) fn persist_message(&mut self, message: &MessageRecord<'_>, safety: Safety) -> Spot {
        let offset = self.append(safety, |bytes| message.encode(bytes));
        self.mark(message, offset);
        self.spot(offset)
    }

    /// Adds what `encode` writes; where it begins.
    #[inline]
    fn append(&mut self, safety: Safety, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut offset = self.batch.bytes.len();
        encode(&mut self.batch.bytes);
        if self.batch.bytes.len() + self.forgotten.len() * END_BYTES_MAX > self.bytes_max
            && offset > 0
        {
            self.cut(offset);
            offset = 0;
        }
        self.batch.safety = self.batch.safety.max(safety);
        offset
    }

    /// Where the last record of the batch stands, which begins at `offset`.
    #[inline]
    fn spot(&self, offset: usize) -> Spot {
        Spot {
            frame: self.batch.frame,
            offset: offset as u32,
            len: (self.batch.bytes.len() - offset) as u32,
        }
    }

    /// Notes what a record says of entries; it begins at `offset` and is the last of the batch.
    #[inline]
    fn note(&mut self, record: &Record<'_>, offset: usize) {
        match record {
            Record::Message(message) => self.mark(message, offset),
            // The end of a session ends its entries; no record of them may follow.
            Record::SessionEnded { queue } => self.forgotten.retain(|(_, of, ..)| of != queue),
            // Another record speaks of the entry: its message must be there.
            Record::Moved { serial, .. }
            | Record::Removed { serial, .. }
            | Record::Returned { serial, .. }
            | Record::Sent { serial, .. } => {
                self.unmark(*serial);
            }
            _ => {}
        }
    }

    /// Notes which entries a message has.
    #[inline]
    fn mark(&mut self, message: &MessageRecord<'_>, offset: usize) {
        let entries = &message.references;
        if !message.is_last_value
            && message.held.is_none()
            && let (Some(first), Some(last)) = (entries.first(), entries.last())
            && let Some(step) = step(entries)
            && self
                .marks
                .last()
                .is_none_or(|mark| mark.last < first.serial)
        {
            let (first, last, live) = (first.serial, last.serial, entries.len() as u32);
            self.marks.push(Mark {
                first,
                last,
                step,
                offset: offset as u32,
                len: (self.batch.bytes.len() - offset) as u32,
                live,
            });
        }
    }

    #[inline]
    pub(super) fn forget(&mut self, queue: u64, serial: u64, tag: Tag) {
        match self.find(serial) {
            Some(at) => {
                let mark = &mut self.marks[at];
                mark.live -= 1;
                if mark.live == 0 && mark.offset as usize >= self.pinned {
                    self.void += mark.len as usize;
                }
                self.forgotten.push((at as u32, queue, serial, tag));
            }
            None => {
                self.persist(&end_of(queue, serial, tag), Safety::Lazy);
            }
        }
    }

    /// The batch that is being gathered is to be at least so safe.
    pub(super) fn demand(&mut self, safety: Safety) {
        self.batch.safety = self.batch.safety.max(safety);
    }

    /// The record that was persisted last must be written, and stay where it is.
    pub(super) fn pin(&mut self) {
        self.pinned = self.batch.bytes.len();
        // Nothing before it was left out so far; the void records are written now.
        self.void = 0;
    }

    fn find(&self, serial: u64) -> Option<usize> {
        let at = self.marks.partition_point(|mark| mark.last < serial);
        let mark = self.marks.get(at)?;
        let is_its_own = mark.first <= serial && (serial - mark.first).is_multiple_of(mark.step);
        (is_its_own && mark.live != NEVER).then_some(at)
    }

    fn unmark(&mut self, serial: u64) {
        if let Some(mark) = self.find(serial).and_then(|at| self.marks.get_mut(at)) {
            if mark.live == 0 && mark.offset as usize >= self.pinned {
                self.void -= mark.len as usize;
            }
            mark.live = NEVER;
        }
    }

    /// The frame is full; the record that begins at `offset` is the first of the batch's next one.
    #[cold]
    fn cut(&mut self, offset: usize) {
        let first = self.batch.bytes.split_off(offset);
        let full = self.end_frame(first);
        self.full.push_back(full);
    }

    /// Takes the oldest frame that had no room for more.
    pub(super) fn take_full(&mut self) -> Option<Batch> {
        self.full.pop_front()
    }

    /// Takes the batch if it has records or if `is_waited_for`; the next one begins, in `spare`.
    pub(super) fn take(&mut self, spare: Vec<u8>, is_waited_for: bool) -> Option<Batch> {
        if self.batch.bytes.is_empty() && !is_waited_for {
            return None;
        }
        let taken = self.end_frame(spare);
        self.batch.number += 1;
        Some(taken)
    }

    /// The frame is over; the next one begins, in `spare`.
    fn end_frame(&mut self, spare: Vec<u8>) -> Batch {
        self.settle_rest();
        self.leave_out();
        let next = Batch {
            number: self.batch.number,
            frame: self.batch.frame + 1,
            bytes: spare,
            safety: Safety::Lazy,
        };
        let mut taken = std::mem::replace(&mut self.batch, next);
        if taken.bytes.is_empty() {
            taken.safety = Safety::Lazy;
        }
        (self.pinned, self.void) = (0, 0);
        self.marks.clear();
        taken
    }

    /// Writes down what was forgotten of messages that must be written after all: [`Gathering::persist`] leaves room for it.
    fn settle_rest(&mut self) {
        let mut forgotten = std::mem::take(&mut self.forgotten);
        for (at, queue, serial, tag) in forgotten.drain(..) {
            let is_left_out = self
                .marks
                .get(at as usize)
                .is_some_and(|mark| self.is_left_out(mark));
            if !is_left_out {
                let (end, offset) = (end_of(queue, serial, tag), self.batch.bytes.len());
                end.encode(&mut self.batch.bytes);
                self.note(&end, offset);
            }
        }
        self.forgotten = forgotten;
    }

    fn is_left_out(&self, mark: &Mark) -> bool {
        mark.live == 0 && mark.offset as usize >= self.pinned
    }

    /// Moves the bytes together that are written.
    fn leave_out(&mut self) {
        let (mut to, mut from) = (0, 0);
        for at in 0..self.marks.len() {
            let mark = &self.marks[at];
            if !self.is_left_out(mark) {
                continue;
            }
            let (start, end) = (mark.offset as usize, (mark.offset + mark.len) as usize);
            self.batch.bytes.copy_within(from..start, to);
            to += start - from;
            from = end;
        }
        if from > 0 {
            let end = self.batch.bytes.len();
            self.batch.bytes.copy_within(from..end, to);
            self.batch.bytes.truncate(to + end - from);
        }
    }
}

/// The record of an entry's end.
fn end_of(queue: u64, serial: u64, tag: Tag) -> Record<'static> {
    match tag {
        0 => Record::Removed { queue, serial },
        _ => Record::Settled { queue, tag },
    }
}

/// How far apart the entries' serials are; nothing if they are not evenly so.
fn step(entries: &[Reference<'_>]) -> Option<u64> {
    let [first, second, ..] = entries else {
        return Some(1);
    };
    let step = second
        .serial
        .checked_sub(first.serial)
        .filter(|step| *step > 0)?;
    let is_even = |pair: &[Reference<'_>]| pair[1].serial.checked_sub(pair[0].serial) == Some(step);
    entries.windows(2).all(is_even).then_some(step)
}

/// Stands for the live entries of a message that is written in any case.
const NEVER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use thalweg_model::{Reliability, RetainOp, Time};
    use thalweg_records::BodyRecord;

    fn message(gathering: &mut Gathering, entries: &[(u64, Tag)]) -> Spot {
        let entry = |(serial, tag): &(u64, Tag)| Reference {
            queue: 1,
            serial: *serial,
            tag: *tag,
            ..Reference::default()
        };
        let references: Vec<_> = entries.iter().map(entry).collect();
        let body = BodyRecord {
            address: "a",
            payload: b"payload",
            reliability: Reliability::AtLeastOnce,
            retain: RetainOp::None,
            priority: 0,
            properties: None,
        };
        let record = MessageRecord {
            body,
            expires: Time::NEVER,
            ingress: Time::ZERO,
            publisher: 7,
            is_last_value: false,
            kept: None,
            held: None,
            references: Cow::Owned(references),
        };
        gathering.persist(&Record::Message(record), Safety::Durable)
    }

    /// What is written: serials of messages' entries, and tags of what is settled.
    fn take(gathering: &mut Gathering) -> (Vec<Vec<u64>>, Vec<Tag>) {
        let batch = gathering.take(Vec::new(), true).expect("it is waited for");
        let (mut messages, mut settled, mut at) = (Vec::new(), Vec::new(), 0);
        while at < batch.bytes.len() {
            let (consumed, record) =
                Record::decode(&batch.bytes[at..]).expect("whole records are left");
            at += consumed;
            match record {
                Record::Message(message) => {
                    messages.push(
                        message
                            .references
                            .iter()
                            .map(|entry| entry.serial)
                            .collect(),
                    );
                }
                Record::Settled { tag, .. } => settled.push(tag),
                _ => {}
            }
        }
        (messages, settled)
    }

    #[test]
    fn what_was_settled_before_it_left_is_not_written() {
        let mut gathering = Gathering::new();
        for serial in 1..=5 {
            message(&mut gathering, &[(serial, serial as Tag)]);
        }
        for serial in [2, 5, 1] {
            gathering.forget(1, serial, serial as Tag);
        }
        assert_eq!(take(&mut gathering), (vec![vec![3], vec![4]], vec![]));
        gathering.forget(1, 3, 3);
        assert_eq!(
            take(&mut gathering),
            (vec![], vec![3]),
            "it has left: now its end is written"
        );
    }

    #[test]
    fn what_is_forgotten_is_as_safe_as_is_demanded() {
        let mut gathering = Gathering::new();
        gathering.forget(1, 1, 0);
        let batch = gathering.take(Vec::new(), true).expect("there is a record");
        assert_eq!(batch.safety, Safety::Lazy);
        gathering.forget(1, 2, 0);
        gathering.demand(Safety::Durable);
        let batch = gathering.take(Vec::new(), true).expect("there is a record");
        assert_eq!(batch.safety, Safety::Durable);
        // The next batch starts without a demand, so an answer that waits for it must state its own.
        gathering.demand(Safety::Durable);
        let batch = gathering.take(Vec::new(), true).expect("it is waited for");
        assert_eq!((batch.bytes.len(), batch.safety), (0, Safety::Lazy));
    }

    #[test]
    fn no_batch_is_longer_than_a_frame_and_all_records_are_in_one() {
        let mut gathering = Gathering::new();
        let alone = message(&mut gathering, &[(1, 1)]).len as usize;
        let max = alone * 3 + 2 * END_BYTES_MAX;
        gathering.set_bytes_max(max);
        let mut spots = vec![];
        for serial in 2..=20 {
            spots.push(message(&mut gathering, &[(serial, 0), (serial + 100, 0)]));
            // So each is written, and so is this.
            gathering.forget(1, serial, 0);
        }
        assert!(gathering.len() > 3 * max);
        let last = gathering.batch.frame;
        let mut batches: Vec<Batch> = std::iter::from_fn(|| gathering.take_full()).collect();
        batches.extend(gathering.take(Vec::new(), false));
        assert!(batches.iter().map(|batch| batch.frame).eq(1..=last));
        assert!(
            batches.iter().all(|batch| batch.number == 1),
            "what waits for one waits for all"
        );
        assert_eq!(gathering.batch.number, 2);
        assert!(
            batches.iter().all(|batch| batch.bytes.len() <= max),
            "none is longer than a frame"
        );
        let (mut messages, mut ends) = (0, 0);
        for batch in &batches {
            let mut at = 0;
            while at < batch.bytes.len() {
                let (consumed, record) =
                    Record::decode(&batch.bytes[at..]).expect("whole records are left");
                at += consumed;
                match record {
                    Record::Message(_) => messages += 1,
                    _ => ends += 1,
                }
            }
        }
        assert_eq!((messages, ends), (20, 19));
        for (spot, serial) in spots.iter().zip(2..) {
            let batch = &batches[(spot.frame - 1) as usize];
            let record = Record::decode(&batch.bytes[spot.offset as usize..])
                .expect("a record")
                .1;
            assert!(
                matches!(record, Record::Message(message) if message.references[0].serial == serial)
            );
        }
        assert!(gathering.batch.bytes.is_empty());
    }

    #[test]
    fn a_record_that_is_longer_than_a_frame_is_alone() {
        let mut gathering = Gathering::new();
        gathering.set_bytes_max(10);
        let spots = [1, 2, 3].map(|serial| message(&mut gathering, &[(serial, 0)]));
        assert_eq!(
            spots.map(|spot| (spot.frame, spot.offset)),
            [(1, 0), (2, 0), (3, 0)]
        );
    }

    #[test]
    fn a_batch_that_came_to_nothing_asks_for_no_safety() {
        let mut gathering = Gathering::new();
        message(&mut gathering, &[(1, 1)]);
        assert_ne!(gathering.len(), 0);
        gathering.forget(1, 1, 1);
        assert_eq!(gathering.len(), 0);
        let batch = gathering.take(Vec::new(), true).expect("it is waited for");
        assert_eq!((batch.bytes.len(), batch.safety), (0, Safety::Lazy));
    }

    #[test]
    fn a_message_that_one_receiver_has_not_settled_is_written_and_what_the_others_did_too() {
        let mut gathering = Gathering::new();
        message(&mut gathering, &[(1, 1), (2, 2), (3, 3)]);
        message(&mut gathering, &[(4, 4)]);
        gathering.forget(1, 3, 3);
        gathering.forget(1, 4, 4);
        gathering.forget(1, 1, 1);
        assert_eq!(take(&mut gathering), (vec![vec![1, 2, 3]], vec![3, 1]));
    }

    #[test]
    fn a_message_that_waits_stays_where_it_was_said_to_stand_and_what_is_behind_it_may_go() {
        let mut gathering = Gathering::new();
        message(&mut gathering, &[(1, 1)]);
        let spot = message(&mut gathering, &[(2, 0)]);
        gathering.pin();
        message(&mut gathering, &[(3, 3)]);
        gathering.forget(1, 1, 1);
        gathering.forget(1, 3, 3);
        let batch = gathering.take(Vec::new(), true).expect("it has records");
        let (_, record) =
            Record::decode(&batch.bytes[spot.offset as usize..]).expect("it stands where it stood");
        assert!(matches!(record, Record::Message(message) if message.references[0].serial == 2));
        assert!(batch.bytes.len() > spot.offset as usize);
    }

    #[test]
    fn a_message_of_a_queue_that_was_taken_and_settled_in_time_is_not_written() {
        let mut gathering = Gathering::new();
        message(&mut gathering, &[(1, 0)]);
        message(&mut gathering, &[(2, 0), (3, 0)]);
        gathering.forget(1, 1, 0);
        gathering.forget(1, 3, 0);
        let batch = gathering.take(Vec::new(), true).expect("one is left");
        let (consumed, record) = Record::decode(&batch.bytes).expect("whole records are left");
        assert!(matches!(record, Record::Message(message) if message.references[0].serial == 2));
        let (_, record) = Record::decode(&batch.bytes[consumed..]).expect("whole records are left");
        assert!(matches!(
            record,
            Record::Removed {
                queue: 1,
                serial: 3
            }
        ));
    }

    #[test]
    fn a_message_whose_entry_was_moved_is_written() {
        let mut gathering = Gathering::new();
        message(&mut gathering, &[(1, 1)]);
        gathering.persist(
            &Record::Moved {
                from: 1,
                serial: 1,
                to: 2,
                tag: 9,
                redelivered: true,
                grant: None,
            },
            Safety::Lazy,
        );
        gathering.forget(2, 1, 9);
        assert_eq!(take(&mut gathering), (vec![vec![1]], vec![9]));
    }
}
