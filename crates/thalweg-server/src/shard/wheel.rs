//! Deadlines of connections. Few, because each connection has one or two and re-arms only when it fires.

use std::collections::BTreeSet;
use thalweg_kernel::LinkId;
use thalweg_model::Time;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deadline {
    /// The first packet must have come.
    Connect,
    /// The peer must have sent something by now.
    Silence,
    /// Something must have been said.
    Idle,
    /// The front wants to be called.
    Front,
    /// A member's network is measured again.
    Network,
    /// The peer's rate allows reading again.
    Resume,
    /// The peer's proof of who it is ends.
    LoginEnds,
    /// What is left to send must have been sent.
    Close,
}

#[derive(Default)]
pub(super) struct Wheel(BTreeSet<(Time, u32, u64, Deadline)>);

impl Wheel {
    pub(super) fn set(&mut self, at: Time, id: LinkId, serial: u64, what: Deadline) {
        self.0.insert((at, id.0, serial, what));
    }

    pub(super) fn next(&self) -> Time {
        self.0.first().map_or(Time::NEVER, |first| first.0)
    }

    pub(super) fn due(&mut self, now: Time) -> Option<(LinkId, u64, Deadline)> {
        let &(at, id, serial, what) = self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some((LinkId(id), serial, what))
    }
}
