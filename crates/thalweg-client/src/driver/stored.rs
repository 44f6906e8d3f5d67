//! Tickets of messages that are on disk, and of those that will never be.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use crate::ticket::lock;
use crate::transport::MessageId;

/// Ranges of exceptions that are remembered.
const RANGES_MAX: usize = 65_536;

/// Storage state by ticket. The usual case, that all up to some ticket are on disk, costs one number; exceptions are
/// stored as ranges.
pub(crate) struct Stored {
    /// All up to this one are on disk, but for the exceptions.
    through: AtomicU64,
    exceptions: Mutex<Exceptions>,
    /// Number of ranges, so that the driver need not lock to see that there are none.
    ranges: AtomicUsize,
}

#[derive(Default)]
struct Exceptions {
    /// From the first to the last, both included: they failed, or are of a kind that is never on disk.
    ranges: BTreeMap<MessageId, MessageId>,
    /// Nothing is known any more of tickets up to this one; of these it is not said that they are stored.
    forgotten: MessageId,
    wakers: Vec<Waker>,
}

/// Storage state of one ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storing {
    /// It is on disk.
    Done,
    /// Nothing is known yet.
    Pending,
    /// It will not be on disk.
    Never,
}

impl Stored {
    /// `first` is the first ticket of this process: what earlier ones left is on disk.
    pub(crate) fn new(first: MessageId) -> Stored {
        Stored {
            through: AtomicU64::new(first.saturating_sub(1)),
            exceptions: Mutex::default(),
            ranges: AtomicUsize::new(0),
        }
    }

    /// Returns the state of a ticket. `is_on_disk` is false for a client without a disk, whose messages are as safe as
    /// they will be when they are accepted.
    pub(crate) fn of(&self, id: MessageId, is_on_disk: bool) -> Storing {
        // Exceptions are noted before the number rises above them.
        let through = self.through.load(Ordering::SeqCst);
        if self.ranges.load(Ordering::SeqCst) > 0 {
            let exceptions = lock(&self.exceptions);
            if id <= exceptions.forgotten || exceptions.has(id) {
                return Storing::Never;
            }
        }
        if id <= through || !is_on_disk {
            Storing::Done
        } else {
            Storing::Pending
        }
    }

    /// Everything up to this ticket is on disk, but for the exceptions.
    pub(crate) fn reached(&self, through: MessageId) {
        self.through.fetch_max(through, Ordering::SeqCst);
        self.wake();
    }

    /// Marks a ticket that will not be on disk, and does `also` before anybody can see that. Wakes no waiter.
    pub(crate) fn never(&self, id: MessageId, also: impl FnOnce()) {
        let mut exceptions = lock(&self.exceptions);
        exceptions.add(id);
        self.ranges.store(exceptions.ranges.len(), Ordering::SeqCst);
        also();
    }

    /// The broker has this one: where it was kept before does not matter any more.
    pub(crate) fn acknowledged(&self, id: MessageId) {
        if self.ranges.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut exceptions = lock(&self.exceptions);
        exceptions.remove(id);
        self.ranges.store(exceptions.ranges.len(), Ordering::SeqCst);
    }

    /// Somebody waits for a change.
    pub(crate) fn wait(&self, waker: &Waker) {
        let wakers = &mut lock(&self.exceptions).wakers;
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        let wakers = std::mem::take(&mut lock(&self.exceptions).wakers);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Exceptions {
    fn has(&self, id: MessageId) -> bool {
        self.ranges
            .range(..=id)
            .next_back()
            .is_some_and(|(_, last)| *last >= id)
    }

    fn add(&mut self, id: MessageId) {
        if self.has(id) {
            return;
        }
        let last = self.ranges.remove(&(id + 1)).unwrap_or(id);
        match self.ranges.range_mut(..id).next_back() {
            Some((_, before)) if *before + 1 == id => *before = last,
            _ => {
                self.ranges.insert(id, last);
            }
        }
        if self.ranges.len() > RANGES_MAX
            && let Some((_, last)) = self.ranges.pop_first()
        {
            self.forgotten = self.forgotten.max(last);
        }
    }

    fn remove(&mut self, id: MessageId) {
        let Some((&first, &last)) = self
            .ranges
            .range(..=id)
            .next_back()
            .filter(|(_, last)| **last >= id)
        else {
            return;
        };
        self.ranges.remove(&first);
        if first < id {
            self.ranges.insert(first, id - 1);
        }
        if id < last {
            self.ranges.insert(id + 1, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ticket_has_its_own_answer() {
        let stored = Stored::new(10);
        assert_eq!(stored.of(9, true), Storing::Done, "of an earlier process");
        assert_eq!(
            (stored.of(10, true), stored.of(10, false)),
            (Storing::Pending, Storing::Done)
        );
        for id in [12, 14, 13, 20] {
            stored.never(id, || {});
        }
        stored.reached(30);
        let never: Vec<u64> = (10..=31)
            .filter(|id| stored.of(*id, true) == Storing::Never)
            .collect();
        assert_eq!(never, [12, 13, 14, 20]);
        assert_eq!(
            (stored.of(30, true), stored.of(31, true)),
            (Storing::Done, Storing::Pending)
        );
        stored.acknowledged(13);
        stored.acknowledged(20);
        let never: Vec<u64> = (10..=31)
            .filter(|id| stored.of(*id, true) == Storing::Never)
            .collect();
        assert_eq!(never, [12, 14]);
    }

    #[test]
    fn what_is_forgotten_is_not_said_to_be_stored() {
        let stored = Stored::new(1);
        let last = 2 * RANGES_MAX as u64 + 2;
        (2..=last).step_by(2).for_each(|id| stored.never(id, || {}));
        stored.reached(last + 1);
        assert_eq!(lock(&stored.exceptions).ranges.len(), RANGES_MAX);
        assert_eq!(
            (stored.of(1, true), stored.of(2, true)),
            (Storing::Never, Storing::Never)
        );
        assert_eq!(
            (stored.of(3, true), stored.of(4, true)),
            (Storing::Done, Storing::Never)
        );
    }
}
