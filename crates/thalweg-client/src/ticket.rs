//! Tickets of publishes, and the table of their outcomes.
//!
//! The table is a ring of the last 65,536 outcomes. Publishing writes nothing into it, and asking takes no lock: a slot
//! says whose outcome it has, so a slot with an older number means that ours is still to come.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use crate::engine::Success;
use crate::transport::MessageId;

/// Names one publish of this client; [`Client::is_publish_success`](crate::Client::is_publish_success) says what became of
/// it. Tickets of one client are in the order of its publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub MessageId);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const fn bits(success: Success) -> u64 {
    match success {
        Success::Pending => 0,
        Success::Acknowledged => 1,
        Success::Failed => 2,
        Success::Unknown => 3,
    }
}

const fn of_bits(bits: u64) -> Success {
    match bits & 3 {
        1 => Success::Acknowledged,
        2 => Success::Failed,
        3 => Success::Unknown,
        _ => Success::Pending,
    }
}

/// Number of outcomes that are kept.
const RING: u64 = 65_536;
/// Entries per piece; pieces of the ring are allocated on demand, so a client with few publishes uses little memory.
const PIECE: u64 = 1_024;
const PIECES: usize = (RING / PIECE) as usize;

type Piece = [AtomicU64; PIECE as usize];

/// The outcomes of one client. Written by the driver, read by any handle.
pub(crate) struct Tickets {
    /// In each slot the number of a ticket and, in the lowest two bits, its outcome.
    pieces: [OnceLock<Box<Piece>>; PIECES],
    /// The first number that this process gives.
    first: AtomicU64,
    /// The next number that will be given.
    next: AtomicU64,
    /// Tickets that were overtaken by those of a whole ring and have no outcome yet.
    stragglers: Mutex<BTreeSet<MessageId>>,
    waiters: Mutex<HashMap<MessageId, Waiter>>,
    /// Nothing further will be settled.
    is_over: AtomicBool,
    /// Number of `waiters`, so that the driver need not lock to see that there are none.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Waiter {
    /// Number of handles that wait for it.
    count: usize,
    wakers: Vec<Waker>,
    outcome: Option<Success>,
}

impl Tickets {
    pub(crate) fn new(first: MessageId) -> Tickets {
        Tickets {
            pieces: std::array::from_fn(|_| OnceLock::new()),
            first: AtomicU64::new(first),
            next: AtomicU64::new(first),
            stragglers: Mutex::default(),
            waiters: Mutex::default(),
            is_over: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        }
    }

    /// All numbers below this have been given. Called under the inbox's lock, so numbers only grow.
    pub(crate) fn given(&self, next: MessageId) {
        self.next.store(next, Ordering::Release);
    }

    /// Returns the outcome of a message.
    pub(crate) fn outcome(&self, id: MessageId) -> Success {
        if id < self.first.load(Ordering::Acquire) || id >= self.next.load(Ordering::Acquire) {
            return Success::Unknown;
        }
        // Read first: what is settled afterwards is nothing.
        let pending = if self.is_over.load(Ordering::SeqCst) {
            Success::Unknown
        } else {
            Success::Pending
        };
        let slot = self.slot(id).map_or(0, |slot| slot.load(Ordering::SeqCst));
        match (slot >> 2).cmp(&id) {
            std::cmp::Ordering::Equal => of_bits(slot),
            std::cmp::Ordering::Less => pending,
            std::cmp::Ordering::Greater if lock(&self.stragglers).contains(&id) => pending,
            std::cmp::Ordering::Greater => Success::Unknown,
        }
    }

    /// Says what became of it, once. [`Tickets::wake`] follows.
    pub(crate) fn settle(&self, id: MessageId, outcome: Success) {
        let Some(piece) = self.pieces.get(piece_of(id)) else {
            return;
        };
        let piece = piece.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        let Some(slot) = piece.get((id % PIECE) as usize) else {
            return;
        };
        let before = slot.load(Ordering::Relaxed) >> 2;
        if before > id {
            // Its place is taken by a later one.
            lock(&self.stragglers).remove(&id);
        } else {
            // The earlier message of this entry, if it has no outcome, becomes unknown now.
            if let Some(overtaken) = id.checked_sub(RING)
                && overtaken >= self.first.load(Ordering::Relaxed)
                && before < overtaken
            {
                lock(&self.stragglers).insert(overtaken);
            }
            slot.store(id << 2 | bits(outcome), Ordering::SeqCst);
        }
    }

    /// Nothing further will be settled: messages without an outcome are unknown, and waiting handles are notified.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let mut wakers = Vec::new();
        for waiter in lock(&self.waiters).values_mut() {
            wakers.append(&mut waiter.wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes who waits for an outcome.
    pub(crate) fn wake(&self, id: MessageId, outcome: Success) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut waiters = lock(&self.waiters);
        let wakers = waiters.get_mut(&id).map(|waiter| {
            waiter.outcome.get_or_insert(outcome);
            std::mem::take(&mut waiter.wakers)
        });
        drop(waiters);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn slot(&self, id: MessageId) -> Option<&AtomicU64> {
        self.pieces
            .get(piece_of(id))?
            .get()?
            .get((id % PIECE) as usize)
    }

    /// Waits for an outcome.
    pub(crate) fn wait(&self, id: MessageId) -> Wait<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        lock(&self.waiters).entry(id).or_default().count += 1;
        Wait { tickets: self, id }
    }
}

/// Somebody waits for an outcome.
pub(crate) struct Wait<'t> {
    tickets: &'t Tickets,
    id: MessageId,
}

impl Wait<'_> {
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Success> {
        let mut waiters = lock(&self.tickets.waiters);
        let waiter = waiters.entry(self.id).or_default();
        if let Some(outcome) = waiter.outcome {
            return Poll::Ready(outcome);
        }
        match self.tickets.outcome(self.id) {
            Success::Pending => {
                if !waiter.wakers.iter().any(|known| known.will_wake(waker)) {
                    waiter.wakers.push(waker.clone());
                }
                Poll::Pending
            }
            outcome => Poll::Ready(outcome),
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.tickets.waiters);
        if let Some(waiter) = waiters.get_mut(&self.id) {
            waiter.count -= 1;
            if waiter.count == 0 {
                waiters.remove(&self.id);
            }
        }
        self.tickets.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn piece_of(id: MessageId) -> usize {
    (id % RING / PIECE) as usize
}

/// A panic elsewhere leaves nothing half done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn given(count: u64) -> Tickets {
        let tickets = Tickets::new(1);
        tickets.given(1 + count);
        tickets
    }

    #[test]
    fn an_outcome_is_pending_then_known_and_then_forgotten() {
        let tickets = given(3 * RING);
        assert_eq!(tickets.outcome(7), Success::Pending);
        tickets.settle(7, Success::Acknowledged);
        assert_eq!(tickets.outcome(7), Success::Acknowledged);
        tickets.settle(7 + RING, Success::Failed);
        assert_eq!(
            (tickets.outcome(7), tickets.outcome(7 + RING)),
            (Success::Unknown, Success::Failed)
        );
        assert_eq!(tickets.outcome(7 + 2 * RING), Success::Pending);
    }

    #[test]
    fn what_was_never_given_is_unknown() {
        let tickets = Tickets::new(10);
        tickets.given(12);
        assert_eq!(tickets.outcome(9), Success::Unknown);
        assert_eq!(tickets.outcome(11), Success::Pending);
        assert_eq!(tickets.outcome(12), Success::Unknown);
    }

    #[test]
    fn who_is_overtaken_by_a_whole_ring_stays_pending_until_it_has_its_outcome() {
        let tickets = given(2 * RING + 10);
        for id in 2..=2 * RING + 1 {
            tickets.settle(id, Success::Acknowledged);
        }
        assert_eq!(tickets.outcome(1), Success::Pending);
        tickets.settle(1, Success::Acknowledged);
        assert_eq!(tickets.outcome(1), Success::Unknown);
        assert_eq!(tickets.outcome(1 + 2 * RING), Success::Acknowledged);
    }

    #[test]
    fn after_the_end_what_is_pending_is_unknown_and_who_waits_is_woken() {
        let tickets = given(9);
        tickets.settle(1, Success::Acknowledged);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let wait = tickets.wait(2);
        assert_eq!(wait.poll(&waker), Poll::Pending);
        tickets.end();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(wait.poll(&waker), Poll::Ready(Success::Unknown));
        assert_eq!(
            (tickets.outcome(1), tickets.outcome(3)),
            (Success::Acknowledged, Success::Unknown)
        );
    }

    #[test]
    fn who_waits_is_woken_once_and_told_even_what_the_ring_has_lost() {
        let tickets = given(2 * RING);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let wait = tickets.wait(5);
        assert_eq!(wait.poll(&waker), Poll::Pending);
        assert_eq!(wait.poll(&waker), Poll::Pending);
        tickets.settle(5 + RING, Success::Failed);
        tickets.wake(5 + RING, Success::Failed);
        assert_eq!(wait.poll(&waker), Poll::Pending);
        tickets.settle(5, Success::Acknowledged);
        tickets.wake(5, Success::Acknowledged);
        assert_eq!(wait.poll(&waker), Poll::Ready(Success::Acknowledged));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        drop(wait);
        assert_eq!(lock(&tickets.waiters).len(), 0);
        assert_eq!(tickets.waiting.load(Ordering::SeqCst), 0);
    }
}
