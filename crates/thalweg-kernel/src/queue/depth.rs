//! The part of a long queue whose messages are on disk only.
//!
//! Like that of a session (see `disk_queue`): a newcomer waits in memory until it is written, then only its place is kept;
//! what consumers have taken out of memory is fetched back, some at a time. Only queues do that whose messages leave in
//! the order in which they came and from the front alone: those without priorities, bounds and lifetimes of their own.

use super::{Item, Queue};
use crate::Kernel;
use crate::access::Access;
use crate::books::Delta;
use crate::effects::{ConsumerEnd, Effects, Fetch, Holder, Spot};
use crate::ids::{QueueId, SessionId, ShardId};
use crate::ledger::DropReason;
use crate::session::Pressure;
use crate::shards::Asker;
use crate::{QueueLimits, Safety};
use std::collections::VecDeque;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::{Record, Stored, Waiting};

/// Messages fetched at once, at the most.
const FETCH_MAX: usize = 512;
/// Bytes after which no more messages are fetched at once.
const FETCH_BYTES_MAX: usize = 1 << 20;
/// Fewer in memory than this: the next are fetched.
const FETCH_BELOW: usize = 256;

/// What waits behind all that is in memory: what is being fetched, then `stored`, then `fresh`.
#[derive(Default)]
pub(super) struct Depth {
    fetching: VecDeque<Stored>,
    /// The number of that question; 0 if nothing is asked for.
    question: u64,
    stored: Waiting,
    /// In memory until they are written.
    fresh: VecDeque<(Item, Spot)>,
    /// The place in line of the first of all.
    first_order: i64,
    /// The kernel looks after it when a batch is written.
    watched: bool,
    /// Who asked for one message and waits for what is being fetched.
    asked: VecDeque<Asked>,
}

/// Somebody who asked for one message.
#[derive(Clone)]
pub(super) enum Asked {
    /// A line of a session, and whether it will settle the message.
    Line(SessionId, u16, bool),
    /// Somebody on that shard, who takes it by itself, with these rights.
    Apart(ShardId, Asker, Access),
}

impl Depth {
    /// The place in line of the first of all.
    pub(super) fn first_order(&self) -> i64 {
        self.first_order
    }

    /// Serials, and whether each may have been delivered.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, bool)> {
        let fetching = self.fetching.iter().map(|it| (it.serial, it.redelivered));
        let stored = self.stored.iter().map(|it| (it.serial, it.redelivered));
        fetching.chain(stored).chain(
            self.fresh
                .iter()
                .map(|(item, _)| (item.serial, item.deliveries > 0)),
        )
    }

    /// Memory that it takes, counted from what is there.
    pub(super) fn recount(&self) -> usize {
        let on_disk = self.fetching.len() + self.stored.len();
        let fresh = self.fresh.iter().map(|(item, _)| item.message.bytes());
        on_disk * size_of::<Stored>() + fresh.sum::<usize>()
    }

    pub(super) fn take_asked(&mut self) -> VecDeque<Asked> {
        std::mem::take(&mut self.asked)
    }

    pub(super) fn len(&self) -> usize {
        self.fetching.len() + self.stored.len() + self.fresh.len()
    }
}

impl QueueLimits {
    /// Whether messages leave only from the front, for consumers.
    fn is_plain(&self) -> bool {
        self.priority_max == 0
            && self.messages_max.is_none()
            && self.bytes_max.is_none()
            && self.message_ttl.is_none()
    }
}

impl Kernel {
    /// Whether what comes now goes behind what is in memory. It must be written down then.
    pub(super) fn goes_deep(&self, queue_id: QueueId, message: &Message) -> bool {
        let Some(queue) = self.queues.get(queue_id) else {
            return false;
        };
        if queue.depth.is_some() {
            return true;
        }
        message.reliability() > Reliability::AtMostOnce
            && (self.pressure >= Pressure::DropWaiting
                || queue.memory + message.bytes() > self.limits.named_queue_memory_bytes_max)
            && self.may_go_deep(queue)
    }

    /// Whether what waits in a queue may wait on disk.
    pub(super) fn may_go_deep(&self, queue: &Queue) -> bool {
        queue.durable && queue.limits.is_plain() && !self.books.has_accounts()
    }

    /// Puts a newcomer behind all that waits.
    pub(super) fn push_deep(&mut self, queue_id: QueueId, item: Item) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        queue.ready += 1;
        queue.ready_bytes += item.message.payload().len() as u64;
        let order = item.order;
        let depth = queue.depth.get_or_insert_with(|| {
            Box::new(Depth {
                first_order: order,
                ..Depth::default()
            })
        });
        depth.fresh.push_back((item, Spot::default()));
        if !std::mem::replace(&mut depth.watched, true) {
            self.queues_spilling.push(queue_id);
        }
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_queue_spot(&mut self, queue_id: QueueId, serial: u64, spot: Spot) {
        let Some(depth) = self
            .queues
            .get_mut(queue_id)
            .and_then(|queue| queue.depth.as_deref_mut())
        else {
            return;
        };
        if let Some((_, known)) = depth
            .fresh
            .back_mut()
            .filter(|(item, _)| item.serial == serial)
        {
            *known = spot;
        }
    }

    /// A frame has been written, and its bytes begin at `place`.
    pub(crate) fn queues_on_written(&mut self, frame: u64, place: u64) {
        let mut at = 0;
        while let Some(&queue_id) = self.queues_spilling.get(at) {
            let mut released = 0;
            let depth = self.queues.get_mut(queue_id);
            let is_watched = match depth.map(|queue| (&mut queue.ready_bytes, &mut queue.depth)) {
                Some((ready_bytes, Some(depth))) => {
                    while depth
                        .fresh
                        .front()
                        .is_some_and(|(_, spot)| spot.frame == frame)
                        && let Some((item, spot)) = depth.fresh.pop_front()
                    {
                        released += item.message.bytes().saturating_sub(size_of::<Stored>());
                        // Of what is on disk the record's length is known, not the payload's.
                        *ready_bytes = *ready_bytes - item.message.payload().len() as u64
                            + u64::from(spot.len);
                        // Serials rise, so it goes to the end.
                        let _ = depth.stored.insert(stored(
                            &item,
                            place + u64::from(spot.offset),
                            spot.len,
                        ));
                    }
                    depth.watched = !depth.fresh.is_empty();
                    depth.watched
                }
                _ => false,
            };
            self.books.left(Delta::memory(released));
            if is_watched {
                at += 1;
            } else {
                self.queues_spilling.swap_remove(at);
            }
        }
    }

    /// Brings more of a queue into memory if there is room.
    pub(super) fn refill_queue(&mut self, queue_id: QueueId) {
        let question = u64::from(self.next_question());
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        let Some(depth) = queue.depth.as_deref_mut() else {
            return;
        };
        let in_memory = queue.lanes.first().map_or(0, VecDeque::len);
        if depth.question != 0 || in_memory >= FETCH_BELOW {
            return;
        }
        if depth.stored.is_empty() {
            // What is left has not even been written yet.
            let fresh = std::mem::take(&mut depth.fresh);
            queue.depth = None;
            if let Some(lane) = queue.lanes.first_mut() {
                queue.memory += fresh
                    .iter()
                    .map(|(item, _)| item.message.bytes())
                    .sum::<usize>();
                lane.extend(fresh.into_iter().map(|(item, _)| item));
            }
            return;
        }
        let (mut places, mut bytes) = (Vec::new(), 0);
        while places.len() < FETCH_MAX
            && bytes < FETCH_BYTES_MAX
            && let Some(stored) = depth.stored.pop_front()
        {
            bytes += stored.len as usize;
            places.push((stored.place, stored.len));
            depth.fetching.push_back(stored);
        }
        depth.question = question;
        self.fetches.push(Fetch {
            holder: Holder::Queue(queue_id),
            question,
            places,
        });
    }

    /// What was asked for has come; nothing where a message could not be read.
    pub(crate) fn on_queue_fetched<E: Effects>(
        &mut self,
        queue_id: QueueId,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        let journal = queue.journal_number();
        let Some(depth) = queue
            .depth
            .as_deref_mut()
            .filter(|depth| depth.question == question)
        else {
            return;
        };
        depth.question = 0;
        for message in messages {
            let Some(queue) = self.queues.get_mut(queue_id) else {
                return;
            };
            let Some(depth) = queue.depth.as_deref_mut() else {
                return;
            };
            let Some(stored) = depth.fetching.pop_front() else {
                break;
            };
            let order = depth.first_order;
            depth.first_order += 1;
            queue.ready -= 1;
            queue.ready_bytes = queue.ready_bytes.saturating_sub(u64::from(stored.len));
            self.books.left(Delta::copy(size_of::<Stored>()));
            let Some(message) = message else {
                self.book_drop(None, "", DropReason::Unreadable);
                self.journal.persist(
                    &Record::Removed {
                        queue: journal,
                        serial: stored.serial,
                    },
                    Safety::Lazy,
                );
                continue;
            };
            let expires = message.expires();
            let deliveries = u32::from(stored.redelivered);
            self.put_back(
                queue_id,
                Item {
                    message,
                    order,
                    serial: stored.serial,
                    expires,
                    deliveries,
                    back: 0,
                },
            );
        }
        self.serve_asked(queue_id, now, fx);
        self.pump_queue(queue_id, now, fx);
    }

    // --- one message at a time

    /// Whether somebody who asks for one message has to wait for it, because it is on disk.
    pub(super) fn asks_deep(&mut self, queue_id: QueueId, asked: Asked) -> bool {
        self.refill_queue(queue_id);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return false;
        };
        let has_some = queue.lanes.iter().any(|lane| !lane.is_empty());
        match queue.depth.as_deref_mut() {
            Some(depth) if !has_some => {
                depth.asked.push_back(asked);
                true
            }
            _ => false,
        }
    }

    fn serve_asked<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        let address = queue.address.clone();
        // Who has to wait again is in the next list, whatever becomes of this one's owner.
        let asked = queue
            .depth
            .as_deref_mut()
            .map(|depth| std::mem::take(&mut depth.asked))
            .unwrap_or_default();
        self.serve(&address, asked, now, fx);
    }

    /// Tries again for those who asked for one message each.
    pub(super) fn serve<E: Effects>(
        &mut self,
        address: &str,
        asked: VecDeque<Asked>,
        now: Time,
        fx: &mut E,
    ) {
        for asked in asked {
            let (id, line, settles) = match asked {
                Asked::Line(id, line, settles) => (id, line, settles),
                Asked::Apart(from, asker, access) => {
                    self.serve_taker_again(from, asker, &access, address, now, fx);
                    continue;
                }
            };
            let taken = self.take_one(id, line, address, settles, now, fx);
            if !matches!(taken, Ok(Some(_)))
                && let Some(link) = self.sessions.get(id).and_then(|session| session.link)
            {
                // It has expired meanwhile.
                fx.consumer_ended(link, line, ConsumerEnd::NothingCame);
            }
        }
    }

    // --- the end of a queue, and of all that waits

    /// Drops of what is on disk, the first first, `most` messages or few more; how many. Who asked for one message and will
    /// not get any of these is served again.
    pub(super) fn drop_from_depth<E: Effects>(
        &mut self,
        queue_id: QueueId,
        most: usize,
        reason: DropReason,
        now: Time,
        fx: &mut E,
    ) -> usize {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return 0;
        };
        let journal = queue.journal_number();
        let Some(depth) = queue.depth.as_deref_mut() else {
            return 0;
        };
        // What is being fetched goes whole: what comes is not known any more then.
        depth.question = 0;
        let mut on_disk: Vec<Stored> = std::mem::take(&mut depth.fetching).into();
        while on_disk.len() < most
            && let Some(stored) = depth.stored.pop_front()
        {
            on_disk.push(stored);
        }
        let in_memory = depth.fresh.len().min(most.saturating_sub(on_disk.len()));
        let fresh: Vec<Item> = depth
            .fresh
            .drain(..in_memory)
            .map(|(item, _)| item)
            .collect();
        let count = on_disk.len() + fresh.len();
        depth.first_order += count as i64;
        let asked = depth.take_asked();
        if depth.len() == 0 {
            queue.depth = None;
        }
        let address = queue.address.clone();
        queue.ready -= count;
        let bytes = on_disk
            .iter()
            .map(|stored| u64::from(stored.len))
            .sum::<u64>();
        let payloads = fresh.iter().map(|item| item.message.payload().len() as u64);
        queue.ready_bytes = queue
            .ready_bytes
            .saturating_sub(bytes + payloads.sum::<u64>());
        let memory = fresh.iter().map(|item| item.message.bytes()).sum::<usize>();
        let memory = on_disk.len() * size_of::<Stored>() + memory;
        self.books.left(Delta::copies(count, memory));
        self.books.dropped_many(reason, count);
        let serials = on_disk.iter().map(|stored| stored.serial);
        for serial in serials.chain(fresh.iter().map(|item| item.serial)) {
            self.journal.forget(journal, serial, 0);
        }
        self.serve(&address, asked, now, fx);
        count
    }

    /// What an earlier run left in a queue stays on disk, if the queue is one of those.
    pub(super) fn restore_deep(
        &mut self,
        queue_id: QueueId,
        waiting: Waiting,
    ) -> Result<(), Waiting> {
        if self.books.has_accounts()
            || !self
                .queues
                .get(queue_id)
                .is_some_and(|queue| queue.limits.is_plain())
        {
            return Err(waiting);
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return Err(waiting);
        };
        let count = waiting.len();
        queue.ready += count;
        queue.ready_bytes += waiting
            .iter()
            .map(|stored| u64::from(stored.len))
            .sum::<u64>();
        queue.order_last += count as i64;
        if count > 0 {
            queue.depth = Some(Box::new(Depth {
                stored: waiting,
                first_order: 1,
                ..Depth::default()
            }));
        }
        self.books
            .entered(Delta::copies(count, count * size_of::<Stored>()));
        Ok(())
    }
}

/// An item without its message.
fn stored(item: &Item, place: u64, len: u32) -> Stored {
    Stored {
        serial: item.serial,
        place,
        len,
        reliability: item.message.reliability(),
        redelivered: item.deliveries > 0,
        ..Stored::default()
    }
}
