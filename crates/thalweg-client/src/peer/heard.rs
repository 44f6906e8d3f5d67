//! What came already, directly or by the broker.

use std::collections::HashMap;

use thalweg_model::Stamp;

/// Publishers that are remembered at least; twice as many at most.
const PUBLISHERS: usize = 4096;

/// The last message of each publisher. Each of the ways on which its messages come keeps their order, so one that is not
/// newer than the last has come before, or comes too late: at most once, and never backwards.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Two generations: what is used moves into the young one, and the old one is forgotten as a whole.
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl Heard {
    /// Whether a message is newer than all of its publisher before.
    pub(super) fn is_new(&mut self, stamp: Stamp) -> bool {
        if !self.young.contains_key(&stamp.publisher) {
            if self.young.len() >= PUBLISHERS {
                self.old = std::mem::take(&mut self.young);
            }
            let last = self.old.remove(&stamp.publisher).unwrap_or(0);
            self.young.insert(stamp.publisher, last);
        }
        let last = self.young.entry(stamp.publisher).or_insert(0);
        let is_new = stamp.sequence > *last;
        *last = stamp.sequence.max(*last);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_new_once_and_publishers_are_forgotten_when_they_are_many() {
        let mut heard = Heard::default();
        let mut is_new = |publisher, sequence| {
            heard.is_new(Stamp {
                publisher,
                sequence,
            })
        };
        for (sequence, expected) in [(1, true), (1, false), (3, true), (2, false), (4, true)] {
            assert_eq!(is_new(7, sequence), expected, "{sequence}");
        }
        for publisher in 100..100_000 {
            assert!(is_new(publisher, 1));
            assert!(!is_new(7, 4), "one that goes on speaking");
        }
        assert!(heard.young.len() + heard.old.len() <= 2 * PUBLISHERS);
    }
}
