//! Messages that a subscription has already received: a window for each publisher that stamps.

use std::collections::HashMap;

use thalweg_model::Stamp;

/// Sequences below the highest seen that a window remembers.
const WINDOW: u64 = 1_024;
const WORDS: usize = (WINDOW / 64) as usize;

/// Publishers that are remembered at least; twice as many at most.
const PUBLISHERS: usize = 256;

/// Windows of received stamps. Bounded: the publishers that were silent longest are removed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Two generations: what is used moves into the young one, and the old one is forgotten as a whole.
    young: HashMap<u64, Window>,
    old: HashMap<u64, Window>,
}

#[derive(Debug)]
struct Window {
    highest: u64,
    /// One bit for each sequence of the window, at its remainder.
    bits: Box<[u64; WORDS]>,
}

impl Seen {
    /// Whether a stamp is new; from now on it is not. One below the window counts as new: its publisher lets none fall
    /// behind so far, so it is another's, and losing is worse than repeating.
    pub fn is_new(&mut self, stamp: Stamp) -> bool {
        if !self.young.contains_key(&stamp.publisher) {
            let window = self.old.remove(&stamp.publisher);
            let window = window.unwrap_or(Window {
                highest: stamp.sequence,
                bits: Box::new([0; WORDS]),
            });
            if self.young.len() >= PUBLISHERS {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(stamp.publisher, window);
        }
        self.young
            .get_mut(&stamp.publisher)
            .is_none_or(|window| window.is_new(stamp.sequence))
    }
}

impl Window {
    fn is_new(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            if sequence - self.highest >= WINDOW {
                self.bits.fill(0);
            } else {
                for passed in self.highest + 1..=sequence {
                    let (word, bit) = self.word(passed);
                    *word &= !bit;
                }
            }
            self.highest = sequence;
        } else if self.highest - sequence >= WINDOW {
            return true;
        }
        let (word, bit) = self.word(sequence);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn word(&mut self, sequence: u64) -> (&mut u64, u64) {
        let at = (sequence % WINDOW) as usize;
        (&mut self.bits[at / 64], 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stamp_is_new_once_also_out_of_order() {
        let mut seen = Seen::default();
        let mut is_new = |sequence| {
            seen.is_new(Stamp {
                publisher: 7,
                sequence,
            })
        };
        for sequence in [10, 12, 11, 9, 700, 701, 3_000, 2_500] {
            assert!(is_new(sequence), "{sequence}");
            assert!(!is_new(sequence), "{sequence}");
        }
        assert!(is_new(2_499) && is_new(2_999) && is_new(3_000 - 1_023));
        // All bits of a window are cleared when it moves on by less than its size.
        for sequence in (3_001..9_000).step_by(3) {
            assert!(is_new(sequence), "{sequence}");
        }
        for sequence in 9_000 - 900..9_000 {
            assert_eq!(is_new(sequence), (sequence - 3_001) % 3 != 0, "{sequence}");
        }
    }

    #[test]
    fn publishers_are_remembered_while_they_speak_and_memory_is_bounded() {
        let mut seen = Seen::default();
        for publisher in 0..10_000 {
            assert!(seen.is_new(Stamp {
                publisher,
                sequence: 1
            }));
            if publisher > 0 {
                assert!(
                    !seen.is_new(Stamp {
                        publisher: 0,
                        sequence: 1
                    }),
                    "after {publisher}"
                );
            }
        }
        assert!(seen.young.len() + seen.old.len() <= 2 * PUBLISHERS);
    }
}
