//! What has come of one flow at one subscriber: exactly what is missing, what came twice, what came late.

use std::collections::BTreeMap;

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// For the first time, and behind none that was sent later.
    InOrder,
    /// For the first time, behind one that was sent later.
    Behind,
    /// Not for the first time.
    Again,
}

/// What has come of one flow. Takes memory for holes only.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// All below it has come or is in a hole.
    next: u32,
    /// What has not come: from, to behind it.
    holes: BTreeMap<u32, u32>,
}

impl Sequence {
    /// A message has come.
    pub fn came(&mut self, seq: u32) -> Came {
        if seq >= self.next {
            if seq > self.next {
                self.holes.insert(self.next, seq);
            }
            self.next = seq.saturating_add(1);
            return Came::InOrder;
        }
        let hole = self.holes.range(..=seq).next_back();
        let Some((&from, &to)) = hole.filter(|(_, to)| seq < **to) else {
            return Came::Again;
        };
        self.holes.remove(&from);
        if from < seq {
            self.holes.insert(from, seq);
        }
        if seq + 1 < to {
            self.holes.insert(seq + 1, to);
        }
        Came::Behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn each_message_is_judged_as_a_list_of_all_would_judge_it() {
        for seed in 0..50 {
            let mut dice = Random::new(seed);
            let (mut sequence, mut seen) = (Sequence::default(), BTreeSet::new());
            for _ in 0..500 {
                let seq = (dice.draw() % 120) as u32;
                let expected = match (
                    seen.last().is_none_or(|last| seq > *last),
                    seen.contains(&seq),
                ) {
                    (true, _) => Came::InOrder,
                    (false, true) => Came::Again,
                    (false, false) => Came::Behind,
                };
                assert_eq!(sequence.came(seq), expected, "seed {seed}, message {seq}");
                seen.insert(seq);
            }
        }
    }
}
