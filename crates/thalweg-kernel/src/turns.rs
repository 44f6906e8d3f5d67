//! Whose turn it is among the priorities of what waits.
//!
//! The highest priority goes first whatever else waits. Of the others each has twice the share of the one below it: a turn
//! has a time at which it is due, the next is the earliest, and one that waits is due the sooner the more others have left,
//! so that none waits for ever.
//!
//! *Knows:* lanes by number, and when each is due. *Must never know:* what waits in them.

/// Lanes, one for each priority that is distinguished; those above the last are like it.
pub(crate) const LANES: usize = 10;
/// The one that goes first.
pub(crate) const STRICT: usize = LANES - 1;

#[derive(Default)]
pub(crate) struct Turns {
    /// What is due earlier than this has left.
    now: u64,
    /// When the first of each lane is due; of no meaning for the one that goes first, and for one that is empty.
    due: [u64; LANES],
}

/// From one turn of a lane to its next.
fn stride(lane: usize) -> u64 {
    1 << (STRICT - 1).saturating_sub(lane)
}

impl Turns {
    /// The lane whose turn it is, of those where something waits.
    pub(crate) fn next(&self, waits: impl Fn(&usize) -> bool) -> Option<usize> {
        if waits(&STRICT) {
            return Some(STRICT);
        }
        let others = (0..STRICT).rev().filter(waits);
        others.min_by_key(|lane| self.due[*lane])
    }

    /// Orders lanes by their turns; the least is next.
    pub(crate) fn rank(&self, lane: usize) -> (u64, usize) {
        let due = if lane == STRICT { 0 } else { self.due[lane] };
        (due, STRICT - lane)
    }

    /// Something waits in a lane that was empty.
    pub(crate) fn begin(&mut self, lane: usize) {
        self.due[lane] = self.now + stride(lane);
    }

    /// What has left a lane in its turn comes back.
    pub(crate) fn give_back(&mut self, lane: usize) {
        self.due[lane] = self.now;
    }

    /// The first of a lane leaves.
    pub(crate) fn take(&mut self, lane: usize) {
        if lane != STRICT {
            self.now = self.due[lane];
            self.due[lane] += stride(lane);
        }
    }
}
