//! Accepted messages of one publisher: the highest number, and the accepted ones below it.
//!
//! *Knows:* numbers. *Must never know:* who the publisher is, what a message is. It is the part of a publisher that is
//! written down and survives.

use std::fmt;

/// Numbers below the highest that are remembered one by one. A publisher may have as many under way at a time.
pub const REMEMBERED: u64 = 8192;

const WORDS: usize = (REMEMBERED / 64) as usize;

/// State of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It has not come before.
    New,
    /// It was taken, and is remembered one by one.
    Taken,
    /// It is so far below the highest that it is taken for a repetition.
    Outdated,
}

/// The numbers that were taken.
#[derive(Clone, PartialEq, Eq)]
pub struct Sequences {
    highest: u64,
    /// One bit each for the highest and those below it, by number modulo how many there are.
    taken: Box<[u64; WORDS]>,
}

impl fmt::Debug for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.highest, self.runs())
    }
}

impl Sequences {
    /// One number is taken.
    pub fn of(first: u64) -> Self {
        let mut sequences = Sequences {
            highest: first,
            taken: Box::new([0; WORDS]),
        };
        sequences.set(first, true);
        sequences
    }

    /// The highest that was taken.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    fn bit(number: u64) -> (usize, u64) {
        let at = number % REMEMBERED;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::bit(number);
        self.taken.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, number: u64, taken: bool) {
        let (word, bit) = Self::bit(number);
        if let Some(word) = self.taken.get_mut(word) {
            *word = if taken { *word | bit } else { *word & !bit };
        }
    }

    /// State of a number.
    pub fn look(&self, number: u64) -> Known {
        match self.highest.checked_sub(number) {
            None => Known::New,
            Some(below) if below >= REMEMBERED => Known::Outdated,
            Some(_) if self.has(number) => Known::Taken,
            Some(_) => Known::New,
        }
    }

    /// A number is taken. One that is outdated stays so.
    pub fn take(&mut self, number: u64) {
        if number > self.highest {
            if number - self.highest >= REMEMBERED {
                self.taken.fill(0);
            } else {
                (self.highest + 1..=number).for_each(|skipped| self.set(skipped, false));
            }
            self.highest = number;
        }
        if self.highest - number < REMEMBERED {
            self.set(number, true);
        }
    }

    /// A number was not taken after all. One that is outdated stays so.
    pub fn take_back(&mut self, number: u64) {
        if self.look(number) == Known::Taken {
            self.set(number, false);
        }
    }

    /// From the highest on downwards: how many were taken, how many below them were not, how many below those were, and so
    /// on, to the lowest that is remembered as taken.
    pub fn runs(&self) -> Vec<u64> {
        let mut runs = Vec::new();
        let (mut is_taken, mut len) = (true, 0);
        for number in (self.highest.saturating_sub(REMEMBERED - 1)..=self.highest).rev() {
            if self.has(number) != is_taken {
                runs.push(len);
                (is_taken, len) = (!is_taken, 0);
            }
            len += 1;
        }
        if is_taken {
            runs.push(len);
        }
        runs
    }

    /// Puts together what [`Sequences::runs`] took apart. More than is remembered is left out.
    pub fn from_runs(highest: u64, runs: impl IntoIterator<Item = u64>) -> Self {
        let mut sequences = Sequences {
            highest,
            taken: Box::new([0; WORDS]),
        };
        let lowest = highest.saturating_sub(REMEMBERED - 1);
        let (mut next, mut is_taken) = (Some(highest), true);
        for run in runs {
            for _ in 0..run.min(REMEMBERED) {
                let Some(number) = next.filter(|number| *number >= lowest) else {
                    return sequences;
                };
                sequences.set(number, is_taken);
                next = number.checked_sub(1);
            }
            is_taken = !is_taken;
        }
        sequences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_of_all_numbers() {
        for seed in 0..40_u64 {
            let mut state = seed;
            let mut roll = |sides: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % sides
            };
            let mut next = if seed % 3 == 0 {
                u64::MAX - 60_000
            } else {
                roll(20_000)
            };
            let mut sequences = Sequences::of(next);
            let mut all = BTreeSet::from([next]);
            for _ in 0..3_000 {
                next = next.saturating_add(if roll(50) == 0 { roll(9_000) } else { roll(3) });
                let number = next.saturating_sub(if roll(4) == 0 { roll(9_500) } else { roll(3) });
                let highest = *all.last().expect("one is there");
                let expected = match highest.checked_sub(number) {
                    Some(below) if below >= REMEMBERED => Known::Outdated,
                    _ if all.contains(&number) => Known::Taken,
                    _ => Known::New,
                };
                assert_eq!(sequences.look(number), expected, "seed {seed}, {number}");
                if expected == Known::New {
                    sequences.take(number);
                    all.insert(number);
                }
            }
            let again = Sequences::from_runs(sequences.highest(), sequences.runs());
            assert_eq!(again, sequences, "seed {seed}");
        }
    }

    #[test]
    fn a_leap_forgets_all_and_numbers_near_the_ends_do_no_harm() {
        let mut sequences = Sequences::of(0);
        assert_eq!(
            (sequences.look(0), sequences.look(1)),
            (Known::Taken, Known::New)
        );
        sequences.take(u64::MAX);
        assert_eq!(sequences.look(0), Known::Outdated);
        assert_eq!(sequences.look(u64::MAX), Known::Taken);
        assert_eq!(sequences.look(u64::MAX - REMEMBERED + 1), Known::New);
        sequences.take(1);
        assert_eq!(sequences.runs(), [1]);
    }

    #[test]
    fn runs_that_cannot_be_are_cut() {
        let long = Sequences::from_runs(10, [u64::MAX, u64::MAX, 3]);
        assert_eq!(long.runs(), [11]);
        let all = Sequences::from_runs(u64::MAX, [u64::MAX]);
        assert_eq!(all.runs(), [REMEMBERED]);
        assert_eq!(Sequences::from_runs(5, []).look(5), Known::New);
    }
}
