//! The part of a session's queue whose messages are on disk only.
//!
//! A queue that grows beyond its share of memory goes on here: a newcomer waits in memory until it is written, then only
//! its place is kept. When the receiver has taken what is in memory, messages are fetched back, some at a time. The
//! order of the whole queue is: the session's `waiting`, then what is being fetched, then `stored`, then `fresh`.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Fetch, Holder, Spot};
use crate::entry::{Entry, SubscriptionIds, Via};
use crate::ids::SessionId;
use crate::ledger::{AccountPlace, DropReason};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Message, Time};
use thalweg_records::{Stored, Waiting};

/// Messages fetched at once, at the most.
const FETCH_MAX: usize = 256;
/// Bytes after which no more messages are fetched at once.
const FETCH_BYTES_MAX: usize = 1 << 20;
/// Fewer in memory than this: the next are fetched.
const FETCH_BELOW: usize = 128;

/// See the module.
#[derive(Default)]
pub(crate) struct DiskQueue {
    /// Asked for and not here yet.
    fetching: VecDeque<Stored>,
    /// The number of that question; 0 if nothing is asked for.
    question: u64,
    stored: Waiting,
    fresh: VecDeque<Fresh>,
    /// The kernel looks after it when a batch is written.
    watched: bool,
    /// What [`stored_cost`] says of all in `fetching` and `stored`.
    bytes: usize,
    /// Where those of `fetching` and `stored` are booked by address, if anybody keeps such books. What an earlier run left
    /// is not booked yet and has no place here, so this belongs to the last of them.
    places: VecDeque<AccountPlace>,
}

/// In memory until it is written.
struct Fresh {
    entry: Entry,
    spot: Spot,
}

/// Memory that an entry on disk takes, for byte bounds.
fn stored_cost(stored: &Stored) -> usize {
    size_of::<Stored>() + stored.len as usize
}

impl DiskQueue {
    /// What is left of an earlier run.
    pub(crate) fn restored(waiting: Waiting) -> Self {
        let bytes = waiting.iter().map(|stored| stored_cost(&stored)).sum();
        DiskQueue {
            stored: waiting,
            bytes,
            ..DiskQueue::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.fetching.len() + self.stored.len() + self.fresh.len()
    }

    /// Bytes on disk, as the queue's byte bound counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory it takes.
    pub(crate) fn memory(&self) -> usize {
        (self.fetching.len() + self.stored.len()) * size_of::<Stored>()
    }

    /// The same and the bytes of messages that are not written yet, and what [`DiskQueue::bytes`] says with those: both
    /// counted anew.
    pub(crate) fn recount(&self) -> (usize, usize) {
        let on_disk: usize = self.fetching.iter().map(stored_cost).sum::<usize>()
            + self
                .stored
                .iter()
                .map(|stored| stored_cost(&stored))
                .sum::<usize>();
        let fresh = self.fresh.iter().map(|fresh| fresh.entry.message.bytes());
        let fresh: usize = fresh.sum();
        (self.memory() + fresh, on_disk + fresh)
    }

    /// Takes a newcomer; [`DiskQueue::found_spot`] must follow.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.fresh.push_back(Fresh {
            entry,
            spot: Spot::default(),
        });
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_spot(&mut self, serial: u64, spot: Spot) {
        if let Some(fresh) = self
            .fresh
            .back_mut()
            .filter(|fresh| fresh.entry.serial == serial)
        {
            fresh.spot = spot;
        }
    }

    /// Takes the oldest out, to drop it. What is being fetched is left alone.
    pub(crate) fn drop_front(&mut self) -> Option<Dropped> {
        if !self.stored.is_empty() {
            let place = self.take_place(self.fetching.len());
            let stored = self.stored.pop_front()?;
            let bytes = stored_cost(&stored);
            self.bytes -= bytes;
            return Some(Dropped {
                serial: stored.serial,
                bytes,
                memory: size_of::<Stored>(),
                place,
                message: None,
            });
        }
        let entry = self.fresh.pop_front()?.entry;
        let bytes = entry.message.bytes();
        Some(Dropped {
            serial: entry.serial,
            bytes,
            memory: bytes,
            place: None,
            message: Some(entry.message),
        })
    }

    /// Where the one at this place of `fetching` and `stored` is booked, which is about to be taken out.
    fn take_place(&mut self, at: usize) -> Option<AccountPlace> {
        let not_booked = self.fetching.len() + self.stored.len() - self.places.len();
        self.places.remove(at.checked_sub(not_booked)?)
    }

    /// Where all of those are booked that are, and the messages that are in memory still.
    pub(crate) fn into_books(self) -> (VecDeque<AccountPlace>, impl Iterator<Item = Message>) {
        (
            self.places,
            self.fresh.into_iter().map(|fresh| fresh.entry.message),
        )
    }
}

/// What was dropped from a disk queue.
pub(crate) struct Dropped {
    pub(crate) serial: u64,
    /// What the queue's byte bound counted.
    pub(crate) bytes: usize,
    /// What it held of the process's memory.
    pub(crate) memory: usize,
    /// Where it is booked by address, if it is.
    pub(crate) place: Option<AccountPlace>,
    /// Its message, if that is in memory still.
    pub(crate) message: Option<Message>,
}

impl Kernel {
    /// Whether the copy must go to the part of the queue that is on disk.
    pub(crate) fn goes_to_disk(&self, id: SessionId, entry: &Entry, bytes: usize) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        if session.disk.is_some() {
            return true;
        }
        entry.serial != 0
            && !entry.of_group
            && entry.group().is_none()
            && (self.env.drops_waiting()
                || session.waiting_bytes + bytes > self.env.limits().queue_memory_bytes_max)
    }

    /// Puts a newcomer behind all that waits.
    pub(crate) fn push_to_disk(&mut self, id: SessionId, entry: Entry) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let disk = session.disk.get_or_insert_default();
        disk.push(entry);
        if !std::mem::replace(&mut disk.watched, true) {
            self.sessions.watch_spill(id);
        }
    }

    /// A frame of this shard has been written, and its bytes begin at `place`: what of it waits in long queues leaves
    /// memory.
    pub fn on_written(&mut self, frame: u64, place: u64) {
        self.queues_on_written(frame, place);
        let mut spilling = self.sessions.take_spilling();
        spilling.retain(|id| self.on_session_written(*id, frame, place));
        self.sessions.set_spilling(spilling);
    }

    /// The same for one session; whether it has messages that are not written yet.
    fn on_session_written(&mut self, id: SessionId, frame: u64, place: u64) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(disk) = session.disk.as_deref_mut() else {
            return false;
        };
        while let Some(fresh) = disk.fresh.front()
            && fresh.spot.frame == frame
        {
            let Some(Fresh { entry, spot }) = disk.fresh.pop_front() else {
                break;
            };
            let in_memory = entry.message.bytes();
            if self.books.has_accounts() {
                disk.places
                    .push_back(self.books.place_of(entry.message.address()));
            }
            let stored = stored(entry, place + u64::from(spot.offset), spot.len);
            let on_disk = stored_cost(&stored);
            session.waiting_bytes = session.waiting_bytes - in_memory + on_disk;
            disk.bytes += on_disk;
            self.books.entered(Delta::memory(size_of::<Stored>()));
            self.books.left(Delta::memory(in_memory));
            // Serials rise, so it goes to the end.
            let _ = disk.stored.insert(stored);
        }
        disk.watched = !disk.fresh.is_empty();
        disk.watched
    }

    /// Brings more of a session's queue into memory if there is room; true if `waiting` has something new.
    pub(crate) fn refill(&mut self, id: SessionId) -> bool {
        let question = self.remote.next_question();
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(disk) = session.disk.as_deref_mut() else {
            return false;
        };
        if disk.question != 0 || session.waiting.len() >= FETCH_BELOW {
            return false;
        }
        if !disk.stored.is_empty() {
            let mut places = Vec::new();
            let mut bytes = 0;
            while places.len() < FETCH_MAX
                && bytes < FETCH_BYTES_MAX
                && let Some(stored) = disk.stored.pop_front()
            {
                bytes += stored.len as usize;
                places.push((stored.place, stored.len));
                disk.fetching.push_back(stored);
            }
            disk.question = u64::from(question);
            self.journal.fetch(Fetch {
                holder: Holder::Session(id),
                question: disk.question,
                places,
            });
            return false;
        }
        // What is left has not even been written yet.
        let added = !disk.fresh.is_empty();
        session
            .waiting
            .extend(disk.fresh.drain(..).map(|fresh| fresh.entry));
        session.disk = None;
        added
    }

    /// Messages that were asked for with [`Effects::fetch`]; nothing where one could not be read.
    pub fn on_fetched<E: Effects>(
        &mut self,
        holder: Holder,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        match holder {
            Holder::Session(id) => self.on_session_fetched(id, question, messages, now, fx),
            Holder::Queue(queue) => self.on_queue_fetched(queue, question, messages, now, fx),
        }
        self.end_command(now, fx);
    }

    fn on_session_fetched<E: Effects>(
        &mut self,
        id: SessionId,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(disk) = session
            .disk
            .as_deref_mut()
            .filter(|disk| disk.question == question)
        else {
            return;
        };
        disk.question = 0;
        for message in messages {
            let Some(session) = self.sessions.get_mut(id) else {
                return;
            };
            let Some(disk) = session.disk.as_deref_mut() else {
                return;
            };
            let place = disk.take_place(0);
            let Some(stored) = disk.fetching.pop_front() else {
                break;
            };
            let cost = stored_cost(&stored);
            disk.bytes -= cost;
            session.waiting_bytes -= cost;
            self.books.left(Delta::memory(size_of::<Stored>()));
            let (serial, reliability) = (stored.serial, stored.reliability);
            if let (None, Some(message)) = (place, &message) {
                self.books.restored_address(message.address());
            }
            let Some(session) = self.sessions.get_mut(id) else {
                return;
            };
            match message {
                Some(message) if message.expires() > now => {
                    session.waiting_bytes += message.bytes();
                    self.books.entered(Delta::memory(message.bytes()));
                    session.waiting.push_back(entry(stored, message));
                    continue;
                }
                Some(message) => self.book_expired(Some(id), message.address()),
                // Its address was on disk, too.
                None => self.book_drop_on_disk(Some(id), place, DropReason::Unreadable),
            }
            self.books.left(Delta::copy(0));
            self.persist_put(id, serial, reliability, crate::durable::Put::Done);
        }
        self.pump(id, now, fx);
    }
}

/// An entry without its message.
fn stored(entry: Entry, place: u64, len: u32) -> Stored {
    let expires = entry.message.expires();
    let rare = match &entry.via {
        Via::Own(SubscriptionIds::Many(ids)) => Some(Box::new((0, ids.to_vec()))),
        _ => None,
    };
    Stored {
        serial: entry.serial,
        place,
        len,
        expires_secs: match expires {
            Time::NEVER => 0,
            at => at.nanos().div_ceil(1_000_000_000).min(u64::from(u32::MAX)) as u32,
        },
        subscription_id: match entry.via {
            Via::Own(SubscriptionIds::One(id)) => id,
            _ => 0,
        },
        reliability: entry.reliability,
        retain: entry.retain,
        redelivered: entry.deliveries > 0,
        rare,
    }
}

/// An entry with its message again.
pub(crate) fn entry(stored: Stored, message: Message) -> Entry {
    let subscription_ids = match (stored.rare, stored.subscription_id) {
        (Some(rare), _) if !rare.1.is_empty() => SubscriptionIds::Many(Arc::new(rare.1)),
        (_, id) => SubscriptionIds::of(id),
    };
    Entry {
        message,
        via: Via::Own(subscription_ids),
        serial: stored.serial,
        of_group: false,
        reliability: stored.reliability,
        retain: stored.retain,
        deliveries: u8::from(stored.redelivered),
    }
}
