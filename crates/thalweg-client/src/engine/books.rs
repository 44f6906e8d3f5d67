//! Outcomes of all messages and their reports: outbox, spool, counts and notices in one place.

use std::collections::VecDeque;

use thalweg_model::{Reliability, Span, Time};

use super::draft::Draft;
use super::interface::{Counts, Full, Notice, Success};
use super::outbox::{Key, Outbox, Place};
use super::queue::Queue;
use super::settings::{EngineSettings, Overflow};
use crate::spool::{Recovered, Spool, SpoolError};
use crate::transport::{MessageId, Refusal};

/// Longest time that the spool's settlements are gathered before they are written.
const SPOOL_IDLE: Span = Span::from_secs(1);

/// Bytes of an entry in the spool after the draft: the sequence of its stamp, and its expiry in nanoseconds since 1970
/// (all ones: never), both little-endian.
const TRAILER_BYTES: usize = 16;

pub(super) struct Books {
    pub outbox: Outbox,
    pub notices: VecDeque<Notice>,
    pub counts: Counts,
    pub publisher: u64,
    pub next_id: MessageId,
    spool: Box<dyn Spool>,
    /// Appended and not committed: the last one.
    uncommitted: Option<MessageId>,
    /// Committed, but in memory only: the last one.
    stored_later: Option<MessageId>,
    /// When settlements are committed, if nothing else comes.
    commit_at: Time,
    messages_max: usize,
    bytes_max: usize,
    overflow: Overflow,
    wall_at_zero: u64,
    /// Somebody was refused for want of room.
    was_full: bool,
}

impl Books {
    /// Opens the books; the messages of an earlier process come back, oldest first.
    pub fn open(
        mut spool: Box<dyn Spool>,
        settings: &EngineSettings,
    ) -> Result<(Books, Vec<Key>), SpoolError> {
        let mut former: Vec<(MessageId, Vec<u8>)> = Vec::new();
        let Recovered {
            publisher,
            next_sequence,
        } = spool.recover(&mut |id, entry| former.push((id, entry.to_vec())))?;
        let mut books = Books {
            // No message had a stamp with a sequence above its identifier.
            outbox: Outbox::new(next_sequence),
            notices: VecDeque::new(),
            counts: Counts::default(),
            publisher,
            next_id: next_sequence,
            spool,
            uncommitted: None,
            stored_later: None,
            commit_at: Time::NEVER,
            messages_max: settings.messages_max,
            bytes_max: settings.bytes_max,
            overflow: settings.overflow,
            wall_at_zero: settings.wall_at_zero,
            was_full: false,
        };
        let keys = former
            .iter()
            .filter_map(|(id, entry)| books.restore(*id, entry))
            .collect();
        Ok((books, keys))
    }

    /// Restores a message of an earlier process. An entry that cannot be decoded is dropped.
    fn restore(&mut self, id: MessageId, entry: &[u8]) -> Option<Key> {
        let restored = Draft::decode(entry).and_then(|(draft, trailer)| {
            let trailer = trailer.first_chunk::<TRAILER_BYTES>()?;
            let number = |at: usize| {
                trailer[at..at + 8]
                    .iter()
                    .rev()
                    .fold(0, |all, &byte| (all << 8) | u64::from(byte))
            };
            let expires = match number(8) {
                u64::MAX => Time::NEVER,
                wall => Time::from_nanos(wall.saturating_sub(self.wall_at_zero)),
            };
            let key = self.outbox.insert(
                &Draft {
                    id,
                    expires,
                    ..draft
                },
                Some(number(0)),
            )?;
            let slot = self.outbox.get_mut(key)?;
            (slot.repeated, slot.spooled) = (true, true);
            Some(key)
        });
        if restored.is_none() {
            self.settle_in_spool(id, Time::ZERO);
        }
        restored
    }

    /// Takes a message: it waits, in no queue yet. `drop_oldest` makes room, if it can.
    pub fn take(
        &mut self,
        draft: &Draft<'_>,
        mut drop_oldest: impl FnMut(&mut Books) -> bool,
    ) -> Result<Key, Full> {
        let cost = Outbox::cost(draft);
        if cost > self.bytes_max || self.messages_max == 0 {
            return Err(Full::TooLarge);
        }
        while self.outbox.len() >= self.messages_max || self.outbox.bytes() + cost > self.bytes_max
        {
            if self.overflow == Overflow::Refuse || !drop_oldest(self) {
                self.was_full = true;
                return Err(Full::Buffer);
            }
        }
        let key = self.outbox.insert(draft, None).ok_or(Full::TooLarge)?;
        if draft.reliability == Reliability::AtMostOnce || draft.way != 0 {
            // Ways other than the client's brokers have no name that the next process would know.
            return Ok(key);
        }
        let Some(slot) = self.outbox.get_mut(key) else {
            return Err(Full::TooLarge);
        };
        let len = slot.entry.len();
        let wall = match draft.expires {
            Time::NEVER => u64::MAX,
            expires => expires
                .nanos()
                .saturating_add(self.wall_at_zero)
                .min(u64::MAX - 1),
        };
        slot.entry.extend_from_slice(&slot.sequence.to_le_bytes());
        slot.entry.extend_from_slice(&wall.to_le_bytes());
        let appended = self.spool.append(draft.id, &slot.entry);
        slot.entry.truncate(len);
        slot.spooled = appended.is_ok();
        match appended {
            Ok(()) => {
                self.uncommitted = Some(draft.id);
                Ok(key)
            }
            Err(fault) => {
                self.outbox.remove(key);
                self.was_full |= matches!(fault, SpoolError::Full(_));
                Err(Full::Spool(fault))
            }
        }
    }

    /// Makes safe what was taken since the last call. If that fails, `gathered` of it is let go.
    pub fn commit(&mut self, gathered: &mut Vec<Key>, now: Time) {
        let Some(through) = self.uncommitted.take() else {
            return;
        };
        self.commit_at = Time::NEVER;
        match self.spool.commit() {
            // With a full disk the messages are sent, but not reported as stored.
            Ok(()) if self.spool.is_behind() => {
                self.stored_later = Some(through);
                self.commit_at = now + SPOOL_IDLE;
            }
            Ok(()) => {
                self.stored_later = None;
                self.notices.push_back(Notice::Stored { through });
            }
            Err(fault) => {
                let words = fault.to_string();
                gathered.retain(|&key| {
                    let is_lost = self.outbox.get(key).is_some_and(|slot| slot.spooled);
                    if is_lost {
                        if let Some(slot) = self.outbox.get_mut(key) {
                            slot.spooled = false;
                        }
                        self.end(
                            key,
                            Success::Failed,
                            Some(Refusal::Busy(words.clone())),
                            now,
                        );
                    }
                    !is_lost
                });
            }
        }
    }

    /// A message that waits in no queue, or that a lane has, has come to its end.
    pub fn end(&mut self, key: Key, success: Success, why: Option<Refusal>, now: Time) {
        let Some(slot) = self.outbox.get(key) else {
            return;
        };
        let (spooled, reliability) = (slot.spooled, slot.reliability);
        self.outbox.remove(key);
        if spooled {
            self.settle_in_spool(key.id, now);
        }
        if success == Success::Unknown && reliability == Reliability::AtMostOnce {
            self.gone(key.id);
        } else {
            self.tell(key.id, success, why);
        }
        if self.was_full
            && self.outbox.len() <= self.messages_max - self.messages_max / 8
            && self.outbox.bytes() <= self.bytes_max - self.bytes_max / 8
        {
            self.was_full = false;
            self.notices.push_back(Notice::Room);
        }
    }

    /// As [`Books::end`], of a message of a way's queue.
    pub fn finish(
        &mut self,
        queue: &mut Queue,
        key: Key,
        success: Success,
        why: Option<Refusal>,
        now: Time,
    ) {
        let Some(slot) = self.outbox.get(key) else {
            return;
        };
        let (topic, place) = (slot.topic, slot.place);
        self.end(key, success, why, now);
        match place {
            Place::Waiting => queue.settled(key, topic, &self.outbox),
            Place::UnderWay(_) => queue.returned(topic, &self.outbox),
            Place::Free => {}
        }
    }

    /// A message sent at most once has left.
    pub fn gone(&mut self, id: MessageId) {
        self.counts.unknown += 1;
        if let Some(Notice::Gone { last, .. }) = self.notices.back_mut()
            && last.checked_add(1) == Some(id)
        {
            *last = id;
        } else {
            self.notices.push_back(Notice::Gone {
                first: id,
                last: id,
            });
        }
    }

    /// Reports the outcome of a message.
    pub fn tell(&mut self, id: MessageId, success: Success, why: Option<Refusal>) {
        match success {
            Success::Pending => return,
            Success::Acknowledged => self.counts.acknowledged += 1,
            Success::Unknown => self.counts.unknown += 1,
            Success::Failed => self.counts.failed += 1,
        }
        match why {
            Some(Refusal::Expired) => self.counts.expired += 1,
            Some(Refusal::Dropped) => self.counts.dropped += 1,
            _ => {}
        }
        self.notices.push_back(Notice::Settled { id, success, why });
    }

    fn settle_in_spool(&mut self, id: MessageId, now: Time) {
        self.spool.settled(id);
        if self.commit_at == Time::NEVER && self.spool.is_dirty() {
            self.commit_at = now + SPOOL_IDLE;
        }
    }

    /// Next time at which [`Books::tidy`] must be called.
    pub fn poll_timeout(&self) -> Time {
        self.commit_at
    }

    /// Writes settlements that have waited long enough. After an error they are written with the next commit.
    pub fn tidy(&mut self, now: Time) {
        if self.commit_at <= now && self.uncommitted.is_none() {
            self.commit_at = Time::NEVER;
            if self.spool.commit().is_err() || self.spool.is_behind() {
                self.commit_at = now + SPOOL_IDLE;
            } else if let Some(through) = self.stored_later.take() {
                self.notices.push_back(Notice::Stored { through });
            }
        }
    }

    /// Writes down all there is, at the end.
    pub fn close(&mut self) {
        self.commit_at = Time::NEVER;
        // A failure cannot be reported any more; an entry that stays is sent again by the next process.
        let _ = self.spool.commit();
    }

    /// Whether the next process repeats what this one has sent.
    pub fn is_lasting(&self) -> bool {
        self.spool.is_lasting()
    }

    /// Status of the spool.
    pub fn spool_status(&self) -> crate::spool::SpoolStatus {
        self.spool.status()
    }

    /// Error of the spool; empty if there is none.
    pub fn spool_trouble(&self) -> &str {
        self.spool.trouble()
    }
}
