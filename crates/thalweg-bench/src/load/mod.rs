//! Load: when each message is due, what it carries, and what came of it.
//!
//! *Knows:* times and numbers of messages. *Must never know:* protocols, sockets, brokers. Only [`clock`] asks the system
//! for anything; all else is given the time, so that it runs in virtual time as well.
//!
//! ```text
//!  Schedule ──(due)──> Pacer ──(give)──> a driver … a driver ──> Got (per flow: first, again, behind) ──> Books ──> Row
//!                        └── Sent (intended, sent, lag)
//! ```

pub mod books;
pub mod clock;
pub mod got;
pub mod header;
pub mod pacer;
pub mod schedule;
pub mod sent;
pub mod sequence;
pub mod verdict;

pub use books::Books;
pub use got::Got;
pub use header::{Header, Layout, SideTable};
pub use pacer::{Gave, Pacer};
pub use schedule::{Item, Schedule};
pub use sent::Sent;

/// When what happens, in nanoseconds of [`clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub begin: u64,
    /// The measured phase begins.
    pub measure: u64,
    pub end: u64,
    /// The drain is over at the latest.
    pub give_up: u64,
}

impl Times {
    /// From the beginning on, as the phases say.
    pub fn new(begin: u64, phases: &crate::cell::Phases) -> Times {
        let measure = begin.saturating_add(phases.warmup_ns);
        let end = measure.saturating_add(phases.measure_ns);
        Times {
            begin,
            measure,
            end,
            give_up: end.saturating_add(phases.drain_ns),
        }
    }

    /// Whether what is due then is counted.
    pub fn counts(&self, intended: u64) -> bool {
        (self.measure..self.end).contains(&intended)
    }

    /// Which second of the trial that is, from 0; none before it began.
    pub fn second(&self, at: u64) -> Option<usize> {
        Some((at.checked_sub(self.begin)? / SECOND) as usize)
    }
}

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
