//! Members in the order of their speed, and which of them have nothing to do: so that a choice looks at few.

use super::Place;

/// The order, as it was when it was last made; speeds have moved a little since.
#[derive(Default)]
pub(super) struct Ranks {
    order: Vec<Place>,
    /// Capacity and handlers of all that stand before.
    before: Vec<(f64, f64)>,
    idle: Bits,
    partly: Bits,
}

/// A set of ranks.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn clear(&mut self, len: usize) {
        self.0.clear();
        self.0.resize(len.div_ceil(64), 0);
    }

    #[inline]
    fn set(&mut self, at: u32, value: bool) {
        let Some(word) = self.0.get_mut(at as usize / 64) else {
            return;
        };
        let bit = 1 << (at % 64);
        if value { *word |= bit } else { *word &= !bit }
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let bit = word.trailing_zeros();
                    word &= word - 1;
                    at as u32 * 64 + bit
                })
            })
        })
    }
}

impl Ranks {
    /// Makes the order anew of (what a message takes there with its way, capacity, handlers, place), which it sorts.
    pub(super) fn rebuild(&mut self, members: &mut [(f64, f64, f64, Place)]) {
        members.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.3.cmp(&b.3)));
        self.order.clear();
        self.before.clear();
        let mut sum = (0.0, 0.0);
        for (_, capacity, handlers, place) in members.iter() {
            self.order.push(*place);
            self.before.push(sum);
            sum = (sum.0 + capacity, sum.1 + handlers);
        }
        self.before.push(sum);
        self.idle.clear(members.len());
        self.partly.clear(members.len());
    }

    pub(super) fn order(&self) -> &[Place] {
        &self.order
    }

    /// Capacity and handlers of those before a rank.
    pub(super) fn before(&self, rank: u32) -> (f64, f64) {
        self.before.get(rank as usize).copied().unwrap_or_default()
    }

    /// A member has nothing to do, or has something but may have more at once.
    #[inline]
    pub(super) fn set(&mut self, rank: u32, idle: bool, partly: bool) {
        self.idle.set(rank, idle);
        self.partly.set(rank, partly);
    }

    pub(super) fn idle(&self) -> impl Iterator<Item = Place> + '_ {
        self.idle
            .iter()
            .filter_map(|rank| self.order.get(rank as usize).copied())
    }

    pub(super) fn partly(&self) -> impl Iterator<Item = Place> + '_ {
        self.partly
            .iter()
            .filter_map(|rank| self.order.get(rank as usize).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_come_in_the_order_of_speed() {
        let mut ranks = Ranks::default();
        let mut members: Vec<_> = (0..100)
            .map(|place| (f64::from(100 - place), 1.0, 1.0, place))
            .collect();
        ranks.rebuild(&mut members);
        for rank in [3, 70, 99] {
            ranks.set(rank, true, false);
        }
        assert_eq!(ranks.idle().collect::<Vec<_>>(), [96, 29, 0]);
        ranks.set(70, false, true);
        assert_eq!(ranks.idle().collect::<Vec<_>>(), [96, 0]);
        assert_eq!(ranks.partly().collect::<Vec<_>>(), [29]);
        assert_eq!(ranks.before(10), (10.0, 10.0));
    }
}
