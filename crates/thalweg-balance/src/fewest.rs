//! Members by how many deliveries they have unsettled; among equals, the one whose last delivery is oldest comes first.

use super::Place;

/// Members with more unsettled deliveries than this are listed with those that have this many.
const COUNT_MAX: usize = 1023;
const WORDS: usize = (COUNT_MAX + 1) / 64;
const NONE: Place = Place::MAX;

/// A list for each count, and which of the lists are not empty.
#[derive(Default)]
pub(super) struct Fewest {
    lists: Vec<List>,
    links: Vec<Link>,
    filled: [u64; WORDS],
}

#[derive(Clone, Copy)]
struct List {
    first: Place,
    last: Place,
}

#[derive(Clone, Copy)]
struct Link {
    before: Place,
    after: Place,
    count: u16,
}

impl Fewest {
    /// A member comes, behind those that have as many.
    pub(super) fn insert(&mut self, place: Place, count: usize) {
        let count = count.min(COUNT_MAX);
        if self.lists.len() <= count {
            self.lists.resize(
                count + 1,
                List {
                    first: NONE,
                    last: NONE,
                },
            );
        }
        if self.links.len() <= place as usize {
            self.links.resize(
                place as usize + 1,
                Link {
                    before: NONE,
                    after: NONE,
                    count: 0,
                },
            );
        }
        let Some(list) = self.lists.get_mut(count) else {
            return;
        };
        let before = std::mem::replace(&mut list.last, place);
        if before == NONE {
            list.first = place;
        }
        if let Some(word) = self.filled.get_mut(count / 64) {
            *word |= 1 << (count % 64);
        }
        if let Some(link) = self.links.get_mut(before as usize) {
            link.after = place;
        }
        if let Some(link) = self.links.get_mut(place as usize) {
            *link = Link {
                before,
                after: NONE,
                count: count as u16,
            };
        }
    }

    /// A member that was inserted goes.
    pub(super) fn remove(&mut self, place: Place) {
        let Some(Link {
            before,
            after,
            count,
        }) = self.links.get(place as usize).copied()
        else {
            return;
        };
        if let Some(link) = self.links.get_mut(before as usize) {
            link.after = after;
        }
        if let Some(link) = self.links.get_mut(after as usize) {
            link.before = before;
        }
        let Some(list) = self.lists.get_mut(usize::from(count)) else {
            return;
        };
        if before == NONE {
            list.first = after;
        }
        if after == NONE {
            list.last = before;
        }
        if list.first == NONE
            && let Some(word) = self.filled.get_mut(usize::from(count) / 64)
        {
            *word &= !(1 << (count % 64));
        }
    }

    /// The first member goes behind all that have as many.
    #[inline]
    pub(super) fn first_to_the_back(&mut self) {
        let Some((place, count)) = self
            .first()
            .map(|place| (place, self.links.get(place as usize)))
        else {
            return;
        };
        let Some(Link { after, count, .. }) = count.copied().filter(|link| link.after != NONE)
        else {
            return;
        };
        let Some(list) = self.lists.get_mut(usize::from(count)) else {
            return;
        };
        list.first = after;
        let before = std::mem::replace(&mut list.last, place);
        if let Some(link) = self.links.get_mut(after as usize) {
            link.before = NONE;
        }
        if let Some(link) = self.links.get_mut(before as usize) {
            link.after = place;
        }
        if let Some(link) = self.links.get_mut(place as usize) {
            *link = Link {
                before,
                after: NONE,
                count,
            };
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        let (at, word) = self
            .filled
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        self.lists
            .get(at * 64 + word.trailing_zeros() as usize)
            .map(|list| list.first)
    }

    /// All members, those with the fewest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        let counts = self.filled.iter().enumerate().flat_map(|(at, word)| {
            let left = std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)));
            left.take_while(|word| *word != 0)
                .map(move |word| at * 64 + word.trailing_zeros() as usize)
        });
        counts.flat_map(|count| {
            let first = self.lists.get(count).map_or(NONE, |list| list.first);
            let next = |place: &Place| self.links.get(*place as usize).map(|link| link.after);
            std::iter::successors(Some(first), next).take_while(|place| *place != NONE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(fewest: &Fewest) -> Vec<Place> {
        fewest.iter().collect()
    }

    #[test]
    fn those_with_the_fewest_come_first_and_among_equals_who_came_first() {
        let mut fewest = Fewest::default();
        for (place, count) in [(0, 2), (1, 0), (2, 70), (3, 0), (4, 5_000)] {
            fewest.insert(place, count);
        }
        assert_eq!(order(&fewest), [1, 3, 0, 2, 4]);
        fewest.remove(1);
        fewest.insert(1, 0);
        assert_eq!(order(&fewest), [3, 1, 0, 2, 4]);
        fewest.remove(3);
        fewest.remove(1);
        fewest.remove(4);
        assert_eq!(order(&fewest), [0, 2]);
        assert_eq!(fewest.first(), Some(0));
        for place in [7, 8, 9] {
            fewest.insert(place, 1);
        }
        fewest.first_to_the_back();
        fewest.first_to_the_back();
        assert_eq!(order(&fewest), [9, 7, 8, 0, 2]);
        fewest.remove(9);
        fewest.remove(7);
        fewest.first_to_the_back();
        assert_eq!(order(&fewest), [8, 0, 2]);
    }

    #[test]
    fn it_agrees_with_a_sorted_list() {
        for seed in 0..20_u64 {
            let mut fewest = Fewest::default();
            let mut sorted: Vec<(usize, u64, Place)> = Vec::new();
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for step in 0..500 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let (place, count) = ((random % 12) as Place, (random >> 8) as usize % 5 * 40);
                match sorted.iter().position(|(_, _, known)| *known == place) {
                    Some(at) => {
                        sorted.remove(at);
                        fewest.remove(place);
                    }
                    None => {
                        sorted.push((count, step, place));
                        fewest.insert(place, count);
                    }
                }
                sorted.sort_unstable();
                let expected: Vec<Place> = sorted.iter().map(|(_, _, place)| *place).collect();
                assert_eq!(order(&fewest), expected, "seed {seed}, step {step}");
            }
        }
    }
}
