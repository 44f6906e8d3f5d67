//! Strategies that need no estimate: they take members in turn, by count, by weight, by hash or by chance.

use super::{Choice, GroupStrategy, Head, Place, Terms};
use std::collections::BTreeSet;

const WHOLE: u64 = 1 << 32;
/// Ranks that grow beyond this are all made smaller.
const RANK_MAX: u64 = 1 << 62;

/// Members in the order in which they are asked.
pub(super) struct Turns {
    strategy: GroupStrategy,
    members: Vec<Option<Turn>>,
    free: Vec<Place>,
    /// By unsettled deliveries or weight, then by whose turn was longest ago.
    order: BTreeSet<(u64, u64, Place)>,
    /// In the order of joining.
    joined: Vec<Place>,
    sequence: u64,
    current: Option<Place>,
}

struct Turn {
    rank: u64,
    last: u64,
    step: u64,
    blocked: bool,
}

impl Turns {
    pub(super) fn new(strategy: GroupStrategy) -> Self {
        Turns {
            strategy,
            members: Vec::new(),
            free: Vec::new(),
            order: BTreeSet::new(),
            joined: Vec::new(),
            sequence: 0,
            current: None,
        }
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Turn> {
        self.members.get_mut(place as usize)?.as_mut()
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn join(&mut self, terms: Terms) -> Place {
        let place = self.free.pop().unwrap_or(self.members.len() as Place);
        let rank = match self.strategy {
            // Not behind by all that the others have had.
            GroupStrategy::Weighted => self.order.first().map_or(0, |first| first.0),
            _ => 0,
        };
        let turn = Turn {
            rank,
            last: self.next_sequence(),
            step: WHOLE / u64::from(terms.weight.max(1)),
            blocked: false,
        };
        self.order.insert((turn.rank, turn.last, place));
        self.joined.push(place);
        match self.members.get_mut(place as usize) {
            Some(member) => *member = Some(turn),
            None => self.members.push(Some(turn)),
        }
        place
    }

    pub(super) fn retune(&mut self, place: Place, terms: Terms) {
        if let Some(turn) = self.get_mut(place) {
            turn.step = WHOLE / u64::from(terms.weight.max(1));
        }
    }

    pub(super) fn leave(&mut self, place: Place) {
        let Some(turn) = self.members.get_mut(place as usize).and_then(Option::take) else {
            return;
        };
        self.order.remove(&(turn.rank, turn.last, place));
        self.joined.retain(|other| *other != place);
        self.free.push(place);
        self.current = self.current.filter(|current| *current != place);
    }

    pub(super) fn blocked(&mut self, place: Place, blocked: bool) {
        if let Some(turn) = self.get_mut(place) {
            turn.blocked = blocked;
        }
    }

    pub(super) fn sent(&mut self, place: Place, settles: bool) {
        let (strategy, last) = (self.strategy, self.next_sequence());
        let Some(turn) = self.get_mut(place) else {
            return;
        };
        let old = (turn.rank, turn.last, place);
        turn.last = last;
        turn.rank += match strategy {
            GroupStrategy::LeastOutstanding => u64::from(settles),
            GroupStrategy::Weighted => turn.step,
            _ => 0,
        };
        let new = (turn.rank, turn.last, place);
        self.order.remove(&old);
        self.order.insert(new);
        self.current = Some(place);
        if new.0 > RANK_MAX {
            self.lower_ranks();
        }
    }

    /// Only differences between ranks count.
    #[cold]
    fn lower_ranks(&mut self) {
        let lowest = self.order.first().map_or(0, |first| first.0);
        for turn in self.members.iter_mut().flatten() {
            turn.rank = (turn.rank - lowest).min(RANK_MAX / 2);
        }
        let ranks = self.members.iter().enumerate();
        self.order = ranks
            .filter_map(|(place, turn)| turn.as_ref().map(|it| (it.rank, it.last, place as Place)))
            .collect();
    }

    pub(super) fn settled(&mut self, place: Place) -> bool {
        if self.strategy != GroupStrategy::LeastOutstanding {
            return true;
        }
        let Some(turn) = self.get_mut(place) else {
            return false;
        };
        let old = (turn.rank, turn.last, place);
        turn.rank = turn.rank.saturating_sub(1);
        let new = (turn.rank, turn.last, place);
        self.order.remove(&old);
        self.order.insert(new);
        true
    }

    pub(super) fn choose(&mut self, head: &Head, may: &mut dyn FnMut(Place) -> bool) -> Choice {
        let is_open = |place: Place| {
            self.members
                .get(place as usize)
                .is_some_and(|turn| turn.as_ref().is_some_and(|turn| !turn.blocked))
        };
        let mut can = |place: &Place| is_open(*place) && may(*place);
        let count = self.joined.len().max(1);
        let from = |first: u64| {
            let first = (first % count as u64) as usize;
            let (before, behind) = self.joined.split_at(first.min(self.joined.len()));
            behind.iter().chain(before).copied()
        };
        let chosen = match self.strategy {
            GroupStrategy::Random => from(head.random).find(|place| can(place)),
            strategy if strategy.binds() => from(head.turn).find(|place| can(place)),
            GroupStrategy::Sticky => {
                let at = self
                    .current
                    .and_then(|current| self.joined.iter().position(|place| *place == current));
                from(at.unwrap_or(0) as u64).find(|place| can(place))
            }
            _ => self
                .order
                .iter()
                .map(|(_, _, place)| *place)
                .find(|place| can(place)),
        };
        chosen.map_or(Choice::Nobody, Choice::Send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        queued: 1,
        size: 100,
        turn: 0,
        random: 0,
        once: false,
        again: false,
        selective: false,
    };

    fn with(strategy: GroupStrategy, weights: &[u16]) -> Turns {
        let mut turns = Turns::new(strategy);
        weights.iter().for_each(|weight| {
            turns.join(Terms {
                weight: *weight,
                ..Terms::default()
            });
        });
        turns
    }

    fn run(turns: &mut Turns, count: usize, may: &mut dyn FnMut(Place) -> bool) -> Vec<Place> {
        let mut chosen = Vec::new();
        for number in 0..count as u64 {
            let head = Head {
                random: number * 7,
                turn: 4,
                ..HEAD
            };
            let Choice::Send(place) = turns.choose(&head, may) else {
                break;
            };
            turns.sent(place, true);
            chosen.push(place);
        }
        chosen
    }

    #[test]
    fn round_robin_takes_whoever_had_something_longest_ago() {
        let mut turns = with(GroupStrategy::RoundRobin, &[1, 1, 1]);
        assert_eq!(run(&mut turns, 4, &mut |_| true), [0, 1, 2, 0]);
        assert_eq!(run(&mut turns, 2, &mut |place| place != 1), [2, 0]);
        assert_eq!(run(&mut turns, 3, &mut |_| true), [1, 2, 0]);
        turns.blocked(1, true);
        assert_eq!(run(&mut turns, 2, &mut |_| true), [2, 0]);
    }

    #[test]
    fn weights_are_kept_to() {
        let mut turns = with(GroupStrategy::Weighted, &[3, 1]);
        let chosen = run(&mut turns, 400, &mut |_| true);
        assert_eq!(chosen.iter().filter(|place| **place == 0).count(), 300);
        // A late member does not catch up on turns that it missed.
        let late = turns.join(Terms::default());
        let chosen = run(&mut turns, 100, &mut |_| true);
        assert_eq!(chosen.iter().filter(|place| **place == late).count(), 20);
    }

    #[test]
    fn weights_are_kept_to_however_many_messages_there_were() {
        let mut turns = with(GroupStrategy::Weighted, &[3, 1]);
        for place in 0..2 {
            let turn = turns.get_mut(place).expect("there");
            let old = (turn.rank, turn.last, place);
            turn.rank = RANK_MAX - 5 * WHOLE;
            let new = (turn.rank, turn.last, place);
            turns.order.remove(&old);
            turns.order.insert(new);
        }
        let chosen = run(&mut turns, 400, &mut |_| true);
        assert_eq!(chosen.iter().filter(|place| **place == 0).count(), 300);
        assert!(turns.order.last().is_some_and(|last| last.0 < RANK_MAX / 2));
    }

    #[test]
    fn the_fewest_outstanding_win_and_then_the_longest_wait() {
        let mut turns = with(GroupStrategy::LeastOutstanding, &[1, 1]);
        assert_eq!(run(&mut turns, 4, &mut |_| true), [0, 1, 0, 1]);
        turns.settled(1);
        turns.settled(1);
        assert_eq!(run(&mut turns, 3, &mut |_| true), [1, 1, 0]);
    }

    #[test]
    fn sticky_stays_and_hashes_stay_with_what_they_are_given() {
        let mut turns = with(GroupStrategy::Sticky, &[1, 1, 1]);
        assert_eq!(run(&mut turns, 3, &mut |place| place != 0), [1, 1, 1]);
        assert_eq!(run(&mut turns, 2, &mut |_| true), [1, 1]);
        let mut turns = with(GroupStrategy::HashAddress, &[1, 1, 1]);
        assert_eq!(run(&mut turns, 3, &mut |_| true), [1, 1, 1]);
        turns.leave(1);
        assert_eq!(run(&mut turns, 1, &mut |_| true), [0]);
    }

    #[test]
    fn nobody_is_chosen_where_nobody_may() {
        for strategy in [
            GroupStrategy::Random,
            GroupStrategy::RoundRobin,
            GroupStrategy::HashPublisher,
            GroupStrategy::Sticky,
        ] {
            assert_eq!(
                with(strategy, &[]).choose(&HEAD, &mut |_| true),
                Choice::Nobody
            );
            assert_eq!(
                with(strategy, &[1]).choose(&HEAD, &mut |_| false),
                Choice::Nobody
            );
        }
    }
}
