//! A bounded queue that takes turns: between networks, and within a network between users.
//!
//! One network that asks a thousand times delays another by one request. When the queue is full, the oldest request of
//! the user with most requests in the network with most is lost, never the newcomer for its own sake.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// Who asks. The network is `None` for Unix sockets; the user is a hash that peers cannot foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) network: Option<IpAddr>,
    pub(super) user: u64,
}

/// The most that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

pub(super) struct FairQueue<T> {
    bounds: Bounds,
    lanes: HashMap<Option<IpAddr>, Lane<T>>,
    turns: Turns<Option<IpAddr>>,
    count: usize,
    bytes: usize,
}

/// What one network asks.
struct Lane<T> {
    users: HashMap<u64, VecDeque<Item<T>>>,
    turns: Turns<u64>,
    count: usize,
}

struct Item<T> {
    value: T,
    bytes: usize,
}

/// Whose turn it is, and who has most.
struct Turns<K> {
    order: VecDeque<K>,
    counts: BTreeSet<(usize, K)>,
}

/// What [`FairQueue::pop`] does with the first request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    /// Leaves it for later.
    Hold,
    /// Takes it if nothing else of its network can be taken.
    TakeLast,
    /// Drops it and looks at the user's next.
    Drop,
}

impl<T> FairQueue<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        FairQueue {
            bounds,
            lanes: HashMap::new(),
            turns: Turns::default(),
            count: 0,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Appends a request of `bytes` bytes; returns those that lost their place to it. A user who is `welcome` and has none
    /// waiting comes before the others of its network. Drops requests of the same user for
    /// which `is_dead` holds, now and then: they may be behind one that is held.
    pub(super) fn push(
        &mut self,
        asker: Asker,
        bytes: usize,
        value: T,
        welcome: bool,
        is_dead: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let mut lost = Vec::new();
        self.clear_up(asker, is_dead);
        while self.count > 0
            && (self.count >= self.bounds.count || self.bytes + bytes > self.bounds.bytes)
        {
            lost.extend(self.lose());
        }
        let lane = self.lanes.entry(asker.network).or_default();
        let line = lane.users.entry(asker.user).or_default();
        line.push_back(Item { value, bytes });
        lane.turns.resize(asker.user, line.len() - 1, line.len());
        if welcome && line.len() == 1 {
            // The last turn became the first.
            lane.turns.order.rotate_right(1);
        }
        lane.count += 1;
        self.turns.resize(asker.network, lane.count - 1, lane.count);
        self.count += 1;
        self.bytes += bytes;
        lost
    }

    /// Takes the next request that `judge` lets through.
    pub(super) fn pop(
        &mut self,
        mut judge: impl FnMut(Asker, &T) -> Verdict,
    ) -> Option<(Asker, T)> {
        for _ in 0..self.turns.order.len() {
            let network = self.turns.order.pop_front()?;
            let Some(lane) = self.lanes.get_mut(&network) else {
                continue;
            };
            let (before, mut bytes) = (lane.count, 0);
            let taken = lane.pop(&mut bytes, |user, value| {
                judge(Asker { network, user }, value)
            });
            let after = lane.count;
            self.turns.recount(network, before, after);
            match after {
                0 => _ = self.lanes.remove(&network),
                _ => self.turns.order.push_back(network),
            }
            self.count -= before - after;
            self.bytes -= bytes;
            if let Some((user, value)) = taken {
                return Some((Asker { network, user }, value));
            }
        }
        None
    }

    /// Takes everything, in no order.
    pub(super) fn drain(&mut self) -> Vec<T> {
        (self.turns, self.count, self.bytes) = (Turns::default(), 0, 0);
        let lines = self
            .lanes
            .drain()
            .flat_map(|(_, lane)| lane.users.into_values());
        lines.flatten().map(|item| item.value).collect()
    }

    /// Looks at all of a user's requests whenever there are twice as many as they were, so that each is looked at twice on
    /// average.
    fn clear_up(&mut self, asker: Asker, is_dead: impl Fn(&T) -> bool) {
        let Some(lane) = self.lanes.get_mut(&asker.network) else {
            return;
        };
        let Some(line) = lane.users.get_mut(&asker.user) else {
            return;
        };
        let (before, in_lane) = (line.len(), lane.count);
        if before < CLEAR_UP_MIN || !before.is_power_of_two() {
            return;
        }
        let bytes = &mut self.bytes;
        line.retain(|item| {
            let stays = !is_dead(&item.value);
            *bytes -= if stays { 0 } else { item.bytes };
            stays
        });
        let after = line.len();
        if after == 0 {
            lane.users.remove(&asker.user);
        }
        lane.turns.resize(asker.user, before, after);
        lane.count -= before - after;
        self.count -= before - after;
        let left = lane.count;
        if left == 0 {
            self.lanes.remove(&asker.network);
        }
        self.turns.resize(asker.network, in_lane, left);
    }

    fn lose(&mut self) -> Option<T> {
        let network = self.turns.longest()?;
        let lane = self.lanes.get_mut(&network)?;
        let user = lane.turns.longest()?;
        let line = lane.users.get_mut(&user)?;
        let item = line.pop_front()?;
        let left = line.len();
        lane.turns.resize(user, left + 1, left);
        if left == 0 {
            lane.users.remove(&user);
        }
        lane.count -= 1;
        let count = lane.count;
        self.turns.resize(network, count + 1, count);
        if count == 0 {
            self.lanes.remove(&network);
        }
        self.count -= 1;
        self.bytes -= item.bytes;
        Some(item.value)
    }
}

impl<T> Lane<T> {
    /// Adds the size of what leaves to `bytes`.
    fn pop(
        &mut self,
        bytes: &mut usize,
        mut judge: impl FnMut(u64, &T) -> Verdict,
    ) -> Option<(u64, T)> {
        let mut is_any_last = false;
        let taken = self.pop_next(bytes, |user, value| match judge(user, value) {
            Verdict::TakeLast => {
                is_any_last = true;
                Verdict::Hold
            }
            verdict => verdict,
        });
        if taken.is_some() || !is_any_last {
            return taken;
        }
        self.pop_next(bytes, |user, value| match judge(user, value) {
            Verdict::TakeLast => Verdict::Take,
            verdict => verdict,
        })
    }

    fn pop_next(
        &mut self,
        bytes: &mut usize,
        mut judge: impl FnMut(u64, &T) -> Verdict,
    ) -> Option<(u64, T)> {
        for _ in 0..self.turns.order.len() {
            let user = self.turns.order.pop_front()?;
            let Some(line) = self.users.get_mut(&user) else {
                continue;
            };
            let before = line.len();
            let mut taken = None;
            while let Some(first) = line.front() {
                let verdict = judge(user, &first.value);
                if verdict == Verdict::Hold {
                    break;
                }
                let Some(item) = line.pop_front() else { break };
                *bytes += item.bytes;
                if verdict == Verdict::Take {
                    taken = Some((user, item.value));
                    break;
                }
            }
            let after = line.len();
            self.turns.recount(user, before, after);
            self.count -= before - after;
            match after {
                0 => _ = self.users.remove(&user),
                _ => self.turns.order.push_back(user),
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}

impl<K: Copy + Ord> Turns<K> {
    /// Somebody's count has changed; who comes in gets the last turn, who leaves has none.
    fn resize(&mut self, key: K, before: usize, after: usize) {
        self.recount(key, before, after);
        match (before, after) {
            (0, 1..) => self.order.push_back(key),
            (_, 0) => self.order.retain(|other| *other != key),
            _ => {}
        }
    }

    fn recount(&mut self, key: K, before: usize, after: usize) {
        if before != after {
            self.counts.remove(&(before, key));
            if after > 0 {
                self.counts.insert((after, key));
            }
        }
    }

    fn longest(&self) -> Option<K> {
        self.counts.last().map(|(_, key)| *key)
    }
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Turns {
            order: VecDeque::new(),
            counts: BTreeSet::new(),
        }
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane {
            users: HashMap::new(),
            turns: Turns::default(),
            count: 0,
        }
    }
}

/// With fewer requests of a user nothing is looked for.
const CLEAR_UP_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(network: u8, user: u64) -> Asker {
        Asker {
            network: Some([10, 0, 0, network].into()),
            user,
        }
    }

    fn queue(count: usize, bytes: usize) -> FairQueue<&'static str> {
        FairQueue::new(Bounds { count, bytes })
    }

    fn all(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop(|_, _| Verdict::Take).map(|(_, value)| value)).collect()
    }

    fn fill(queue: &mut FairQueue<&'static str>, asks: &[(u8, u64, &'static str)]) {
        for (network, user, value) in asks {
            assert_eq!(
                queue.push(asker(*network, *user), 1, value, false, |_| false),
                [""; 0]
            );
        }
    }

    #[test]
    fn networks_take_turns_and_within_them_users() {
        let mut queue = queue(100, 100);
        fill(
            &mut queue,
            &[
                (1, 1, "a1"),
                (1, 1, "a2"),
                (1, 1, "a3"),
                (1, 2, "b1"),
                (2, 1, "c1"),
                (2, 1, "c2"),
            ],
        );
        assert_eq!(all(&mut queue), ["a1", "c1", "b1", "c2", "a2", "a3"]);
        assert_eq!((queue.len(), queue.bytes, queue.lanes.len()), (0, 0, 0));
        assert!(queue.turns.order.is_empty() && queue.turns.counts.is_empty());
    }

    #[test]
    fn who_is_welcome_comes_before_the_others_of_its_network_and_of_no_other() {
        let mut queue = queue(100, 100);
        fill(&mut queue, &[(1, 1, "a"), (1, 2, "b"), (2, 1, "c")]);
        for value in ["d1", "d2"] {
            assert_eq!(queue.push(asker(1, 3), 1, value, true, |_| false), [""; 0]);
        }
        assert_eq!(all(&mut queue), ["d1", "c", "a", "b", "d2"]);
    }

    #[test]
    fn a_full_queue_loses_the_oldest_of_who_has_most() {
        let mut queue = queue(4, 100);
        fill(
            &mut queue,
            &[(1, 1, "a1"), (1, 1, "a2"), (1, 2, "b1"), (2, 1, "c1")],
        );
        assert_eq!(
            queue.push(asker(3, 1), 1, "newcomer", false, |_| false),
            ["a1"]
        );
        assert_eq!(
            queue.push(asker(1, 1), 1, "a3", false, |_| false),
            ["b1"],
            "of users with as many, one"
        );
        assert_eq!(all(&mut queue), ["a2", "c1", "newcomer", "a3"]);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut queue = queue(100, 10);
        assert_eq!(queue.push(asker(1, 1), 6, "a", false, |_| false), [""; 0]);
        assert_eq!(queue.push(asker(2, 1), 4, "b", false, |_| false), [""; 0]);
        assert_eq!(queue.push(asker(3, 1), 9, "c", false, |_| false).len(), 2);
        assert_eq!(
            queue.push(asker(3, 1), 50, "larger than all", false, |_| false),
            ["c"]
        );
        assert_eq!(all(&mut queue), ["larger than all"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn what_is_held_stays_and_what_nobody_waits_for_goes() {
        let mut queue = queue(100, 100);
        fill(
            &mut queue,
            &[
                (1, 1, "gone"),
                (1, 1, "held"),
                (1, 2, "gone"),
                (2, 1, "good"),
            ],
        );
        let judge = |_: Asker, value: &&str| match *value {
            "gone" => Verdict::Drop,
            "held" => Verdict::Hold,
            _ => Verdict::Take,
        };
        assert_eq!(queue.pop(judge).map(|(_, value)| value), Some("good"));
        assert_eq!(queue.pop(judge), None);
        assert_eq!((queue.len(), queue.bytes), (1, 1));
        assert_eq!(all(&mut queue), ["held"]);
    }

    #[test]
    fn what_is_taken_last_waits_for_the_others_of_its_network_only() {
        let mut queue = queue(100, 100);
        fill(
            &mut queue,
            &[
                (1, 1, "last 1"),
                (1, 2, "last 2"),
                (1, 3, "a"),
                (2, 1, "last 3"),
                (1, 4, "b"),
            ],
        );
        let judge = |_: Asker, value: &&str| match value.starts_with("last") {
            true => Verdict::TakeLast,
            false => Verdict::Take,
        };
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop(judge).map(|(_, value)| value)).collect();
        assert_eq!(order, ["a", "last 3", "b", "last 1", "last 2"]);
        assert_eq!((queue.len(), queue.bytes, queue.lanes.len()), (0, 0, 0));
    }

    #[test]
    fn a_flood_loses_to_itself() {
        let mut queue = queue(50, 1_000);
        fill(&mut queue, &[(2, 1, "good")]);
        let lost: usize = (0..1_000)
            .map(|user| {
                queue
                    .push(asker(1, user), 1, "flood", false, |_| false)
                    .len()
            })
            .sum();
        assert_eq!((lost, queue.len()), (951, 50));
        assert_eq!(
            queue.pop(|_, _| Verdict::Take).map(|(_, value)| value),
            Some("good")
        );
    }

    #[test]
    fn what_nobody_waits_for_goes_though_it_is_behind_what_is_held() {
        let mut queue = queue(1_000, 1_000);
        let is_dead = |value: &&str| *value == "gone";
        queue.push(asker(1, 1), 1, "held", false, is_dead);
        for _ in 0..500 {
            queue.push(asker(1, 1), 1, "gone", false, is_dead);
        }
        assert!(queue.len() < 2 * CLEAR_UP_MIN, "{}", queue.len());
        assert_eq!(
            (queue.bytes, queue.turns.longest()),
            (queue.len(), Some(asker(1, 1).network))
        );
        let mut dead = FairQueue::new(Bounds {
            count: 100,
            bytes: 100,
        });
        (0..=CLEAR_UP_MIN).for_each(|_| _ = dead.push(asker(1, 1), 1, "gone", false, is_dead));
        assert_eq!(
            (
                dead.len(),
                dead.bytes,
                dead.turns.order.len(),
                dead.turns.counts.len()
            ),
            (1, 1, 1, 1)
        );
    }
}
