//! Timers: one heap of small entries. An entry is never moved; when it fires, its owner decides whether it is really
//! due, due later, or obsolete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_wire::Time;

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TimerKind {
    /// A confirmable message is to be repeated or given up.
    Sending,
    /// A notification ought to be confirmed.
    Check,
    /// A peer may be sent another notification.
    Pace,
    /// A client's request has waited long enough, or an observation is to be registered again.
    Request,
}

/// An entry that came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub kind: TimerKind,
    pub index: u32,
    /// Its generation, as much of it as is kept.
    generation: u32,
}

/// Kind in the two highest bits, generation below.
const GENERATION: u32 = (1 << 30) - 1;

#[derive(Debug)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// With more entries than this it is worth looking for those of no interest.
    many: usize,
}

/// With fewer entries it never is.
const FEW: usize = 1024;

impl Default for Timers {
    fn default() -> Self {
        Timers {
            heap: BinaryHeap::new(),
            many: FEW,
        }
    }
}

impl Timer {
    fn of(Reverse((_, index, tag)): Reverse<(u64, u32, u32)>) -> Timer {
        let kind = match tag >> 30 {
            0 => TimerKind::Sending,
            1 => TimerKind::Check,
            2 => TimerKind::Pace,
            _ => TimerKind::Request,
        };
        Timer {
            kind,
            index,
            generation: tag & GENERATION,
        }
    }

    /// Whether it was set for a record of this generation.
    pub fn is_of(&self, generation: u32) -> bool {
        self.generation == generation & GENERATION
    }
}

impl Timers {
    #[inline]
    pub fn set(&mut self, at: Time, kind: TimerKind, index: u32, generation: u32) {
        self.heap.push(Reverse((
            at.nanos(),
            index,
            (kind as u32) << 30 | generation & GENERATION,
        )));
    }

    /// The next entry that is due.
    pub fn pop(&mut self, now: Time) -> Option<Timer> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > now.nanos() {
            return None;
        }
        let timer = self.heap.pop().map(Timer::of);
        self.shrink();
        timer
    }

    /// Gives back what a burst took.
    #[inline]
    fn shrink(&mut self) {
        let (len, capacity) = (self.heap.len(), self.heap.capacity());
        if capacity > 4 * FEW && len < capacity / 2 {
            self.heap.shrink_to(len + len / 4);
        }
    }

    /// Whether obsolete entries may have piled up: then call [`Timers::tidy`].
    #[inline]
    pub fn are_many(&self) -> bool {
        self.heap.len() > self.many
    }

    /// Takes entries of no interest away. Half of them are new since the last time, which pays for it.
    pub fn tidy(&mut self, is_of_interest: impl Fn(Timer) -> bool) {
        self.heap.retain(|entry| is_of_interest(Timer::of(*entry)));
        self.many = FEW.max(self.heap.len() * 2);
        self.shrink();
    }

    /// Takes the first entry away if it is of this record: so that a quiet machine is not woken for nothing.
    #[inline]
    pub fn forget_first(&mut self, kind: TimerKind, index: u32) {
        if self
            .heap
            .peek()
            .is_some_and(|Reverse((_, i, tag))| *i == index && tag >> 30 == kind as u32)
        {
            self.heap.pop();
        }
    }

    /// When the first one comes up.
    #[inline]
    pub fn next(&self) -> Time {
        self.heap
            .peek()
            .map_or(Time::NEVER, |Reverse((at, ..))| Time::from_nanos(*at))
    }

    pub fn bytes(&self) -> usize {
        self.heap.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_up_in_order_and_know_whose_they_are() {
        let mut timers = Timers::default();
        timers.set(Time::from_secs(2), TimerKind::Pace, 7, 1 << 30 | 5);
        timers.set(Time::from_secs(1), TimerKind::Request, 8, 0);
        assert_eq!(timers.next(), Time::from_secs(1));
        assert_eq!(timers.pop(Time::ZERO), None);
        let first = timers.pop(Time::from_secs(9)).expect("it is due");
        assert_eq!((first.kind, first.index), (TimerKind::Request, 8));
        let second = timers.pop(Time::from_secs(9)).expect("it is due");
        assert!(second.kind == TimerKind::Pace && second.is_of(5) && !second.is_of(6));
        assert_eq!(timers.next(), Time::NEVER);
    }

    #[test]
    fn entries_of_no_interest_are_taken_away_when_there_are_many() {
        let mut timers = Timers::default();
        for n in 0..10_000 {
            timers.set(Time::from_secs(1), TimerKind::Check, n % 10, n);
            if timers.are_many() {
                timers.tidy(|timer| timer.is_of(n));
            }
        }
        assert!(timers.heap.len() <= FEW, "{}", timers.heap.len());
    }
}
