//! Exactly-once deliveries to one member: in which of their two steps it works, and how long the journal holds them.
//!
//! A delivery may wait for the journal twice: before it leaves, so that no other member ever gets it, and before its release
//! leaves. Neither is the member's work. When a member works is its own business: before it records a message, and then it
//! is free for the next at that; or after the release, and then it is free when it completes.

use smallvec::SmallVec;

/// Deliveries in a row that must say the same.
const CERTAIN: i8 = 2;
/// They are forgotten after as many of the other kind.
const VOTES_MAX: i8 = 4;
/// Part of a new sample in the journal's time.
const WEIGHT: f64 = 0.2;
/// Time of the journal in addition to the work that does not justify a message ahead.
const LITTLE: f64 = 0.02;
/// Messages that a member may have ahead at the most: what it has it keeps if it crashes.
const AHEAD_MAX: f64 = 4.0;

/// How one member handles its exactly-once deliveries, as observed.
#[derive(Default)]
pub(super) struct Handshake {
    /// Deliveries that took longer before they were recorded than after their release, less the others.
    votes: i8,
    /// Recorded by a member that works before that, and not completed.
    open: SmallVec<[Open; 1]>,
    /// Seconds that the journal holds a delivery before it leaves; 0 if it does not.
    held: f64,
}

struct Open {
    tag: u64,
    /// Seconds of work until it was recorded.
    before: f64,
    recorded: f64,
    /// When its release left.
    released: f64,
}

impl Handshake {
    /// Whether the member processes a message before it records it.
    pub(super) fn works_first(&self) -> bool {
        self.votes >= CERTAIN
    }

    /// A delivery left after so many seconds.
    pub(super) fn was_held(&mut self, held: f64) {
        self.held = if self.held == 0.0 {
            held
        } else {
            self.held + WEIGHT * (held - self.held)
        };
    }

    /// Seconds that the journal adds to each message between two that are sent one after the other.
    pub(super) fn journal(&self) -> f64 {
        if self.works_first() {
            self.held
        } else {
            2.0 * self.held
        }
    }

    /// Messages that the member may have ahead, so that the journal's time is not idle time: as many as it works on
    /// meanwhile, and one more if messages wait for all members.
    pub(super) fn ahead(&self, service: f64, is_pressing: bool) -> u32 {
        let journal = self.journal() / service;
        let messages = if is_pressing && journal > LITTLE {
            (journal + 0.5).ceil()
        } else {
            (journal + 0.5).floor()
        };
        messages.min(AHEAD_MAX) as u32
    }

    /// A delivery took so long before it was recorded and after its release.
    pub(super) fn learn(&mut self, before: f64, after: f64) {
        let vote = if before > after { 1 } else { -1 };
        self.votes = (self.votes + vote).clamp(-VOTES_MAX, VOTES_MAX);
    }

    /// A member that works first has recorded a message after so many seconds of work.
    pub(super) fn recorded(&mut self, tag: u64, before: f64, now: f64) {
        self.open.push(Open {
            tag,
            before,
            recorded: now,
            released: now,
        });
    }

    /// The release of such a message has left; false if there is none.
    pub(super) fn released(&mut self, tag: u64, now: f64) -> bool {
        let open = self.open.iter_mut().find(|open| open.tag == tag);
        open.map(|open| open.released = now).is_some()
    }

    /// Such a message is completed; `last` is when the member finished its previous work, `way` the network's time to
    /// it. Returns false if there is none.
    pub(super) fn completed(&mut self, tag: u64, last: f64, way: f64, now: f64) -> bool {
        let Some(at) = self.open.iter().position(|open| open.tag == tag) else {
            return false;
        };
        let Open {
            before,
            recorded,
            released,
            ..
        } = self.open.remove(at);
        let began = (released + way).max(if last > recorded { last } else { 0.0 });
        self.learn(before, (now - way - began).max(0.0));
        true
    }
}
