//! A bounded queue that takes turns: between networks, and within a network between users.
//!
//! One network that asks a thousand times delays another by one request. When the queue is full, the oldest request of
//! the user with most requests in the network with most is lost, never the newcomer for its own sake.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Bound;
use std::time::Instant;

/// The origin of a request. The network is `None` for Unix sockets; the user is a hash that peers cannot foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) network: Option<IpAddr>,
    pub(super) user: u64,
}

/// The network of an address: peers in it share what is limited by address. An IPv6 host usually has a /64 to itself.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
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
    numbers: Numbers,
}

/// What one network asks.
struct Lane<T> {
    users: HashMap<u64, UserQueue<T>>,
    /// Users for whom a pause of the network holds.
    turns: Turns<u64>,
    /// Places of the users for whom it does not.
    welcome: BTreeMap<Place, u64>,
    count: usize,
    /// Its place among networks: never `Last`.
    place: Place,
    /// The end of a pause of the network.
    held_until: Option<Instant>,
}

/// What one user asks.
struct UserQueue<T> {
    items: VecDeque<Item<T>>,
    place: Place,
    is_welcome: bool,
}

struct Item<T> {
    value: T,
    bytes: usize,
}

/// A place in an order, so that what cannot be taken now is not looked at. The numbers make places unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Turn(i64),
    /// Behind all turns of the network.
    Last(i64),
    /// Nowhere until this time.
    Held(Instant, i64),
}

/// Gives numbers that rise.
#[derive(Default)]
struct Numbers(i64);

/// Whose turn it is, and who has most.
struct Turns<K> {
    order: BTreeMap<Place, K>,
    counts: BTreeSet<(usize, K)>,
}

/// What [`FairQueue::pop`] does with the first request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    /// Leaves it, and what else its user asks, until this time.
    Hold(Instant),
    /// Leaves it, and what else its network asks, until this time; but for users who were welcome when they came.
    HoldNetwork(Instant),
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
            numbers: Numbers::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// When something may be taken, if nothing may before; to be asked when [`FairQueue::pop`] has returned nothing.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.turns.first()?.until()
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
        let lane = match self.lanes.entry(asker.network) {
            Entry::Occupied(lane) => lane.into_mut(),
            Entry::Vacant(vacant) => {
                let place = self.numbers.turn();
                self.turns.order.insert(place, asker.network);
                vacant.insert(Lane::at(place))
            }
        };
        let item = Item { value, bytes };
        lane.push(asker.user, item, welcome, &mut self.numbers);
        self.count += 1;
        self.bytes += bytes;
        self.lane_changed(asker.network, |count| count - 1, false);
        lost
    }

    /// Takes the next request that `judge` lets through.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        mut judge: impl FnMut(Asker, &T) -> Verdict,
    ) -> Option<(Asker, T)> {
        while let Some(network) = self.turns.due(now) {
            self.set_place(network, |numbers| numbers.turn());
        }
        while let Some((Place::Turn(_), network)) = self.turns.order.first_key_value() {
            let network = *network;
            let lane = self.lanes.get_mut(&network)?;
            let (before, mut bytes) = (lane.count, 0);
            let taken = lane.pop(now, &mut self.numbers, &mut bytes, |user, value| {
                judge(Asker { network, user }, value)
            });
            self.count -= before - lane.count;
            self.bytes -= bytes;
            self.lane_changed(network, |_| before, true);
            if let Some((user, value)) = taken {
                return Some((Asker { network, user }, value));
            }
        }
        None
    }

    /// No pause holds for a user any more.
    pub(super) fn welcome(&mut self, asker: Asker) {
        if let Some(lane) = self.lanes.get_mut(&asker.network) {
            lane.welcome(asker.user, &mut self.numbers);
            self.lane_changed(asker.network, |count| count, false);
        }
    }

    /// Takes everything, in no order.
    pub(super) fn drain(&mut self) -> Vec<T> {
        (self.turns, self.count, self.bytes) = (Turns::default(), 0, 0);
        let lines = self
            .lanes
            .drain()
            .flat_map(|(_, lane)| lane.users.into_values());
        lines
            .flat_map(|line| line.items)
            .map(|item| item.value)
            .collect()
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
        let (before, in_lane) = (line.items.len(), lane.count);
        if before < CLEAR_UP_MIN || !before.is_power_of_two() {
            return;
        }
        let bytes = &mut self.bytes;
        line.items.retain(|item| {
            let stays = !is_dead(&item.value);
            *bytes -= if stays { 0 } else { item.bytes };
            stays
        });
        let after = line.items.len();
        lane.recount(asker.user, before, after);
        self.count -= before - after;
        self.lane_changed(asker.network, |_| in_lane, false);
    }

    fn lose(&mut self) -> Option<T> {
        let network = self.turns.longest()?;
        let lane = self.lanes.get_mut(&network)?;
        let item = lane.take_first(lane.turns.longest()?)?;
        self.count -= 1;
        self.bytes -= item.bytes;
        self.lane_changed(network, |count| count + 1, false);
        Some(item.value)
    }

    /// What a network asks has changed; it had `before` of the count that it has now. It may come to its turn, or lose it; one
    /// that `had_turn` comes behind the others.
    fn lane_changed(
        &mut self,
        network: Option<IpAddr>,
        before: impl FnOnce(usize) -> usize,
        had_turn: bool,
    ) {
        let Some(lane) = self.lanes.get(&network) else {
            return;
        };
        self.turns.recount(network, before(lane.count), lane.count);
        match (lane.count, lane.held_until(), lane.place) {
            (0, ..) => {
                self.turns.order.remove(&lane.place);
                self.lanes.remove(&network);
            }
            (_, Some(until), _) => self.set_place(network, |numbers| numbers.held(until)),
            (_, None, place) if had_turn || place.until().is_some() => {
                self.set_place(network, |numbers| numbers.turn());
            }
            _ => {}
        }
    }

    fn set_place(&mut self, network: Option<IpAddr>, place: impl FnOnce(&mut Numbers) -> Place) {
        if let Some(lane) = self.lanes.get_mut(&network) {
            let place = place(&mut self.numbers);
            self.turns.order.remove(&lane.place);
            self.turns.order.insert(place, network);
            lane.place = place;
        }
    }
}

impl<T> Lane<T> {
    fn at(place: Place) -> Self {
        Lane {
            users: HashMap::new(),
            turns: Turns::default(),
            welcome: BTreeMap::new(),
            count: 0,
            place,
            held_until: None,
        }
    }

    fn push(&mut self, user: u64, item: Item<T>, welcome: bool, numbers: &mut Numbers) {
        let line = match self.users.entry(user) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(vacant) => {
                let place = match welcome {
                    true => numbers.first_turn(),
                    false => numbers.turn(),
                };
                match welcome {
                    true => self.welcome.insert(place, user),
                    false => self.turns.order.insert(place, user),
                };
                vacant.insert(UserQueue {
                    items: VecDeque::new(),
                    place,
                    is_welcome: welcome,
                })
            }
        };
        line.items.push_back(item);
        let after = line.items.len();
        self.turns.recount(user, after - 1, after);
        self.count += 1;
    }

    /// Adds the size of what leaves to `bytes`.
    fn pop(
        &mut self,
        now: Instant,
        numbers: &mut Numbers,
        bytes: &mut usize,
        mut judge: impl FnMut(u64, &T) -> Verdict,
    ) -> Option<(u64, T)> {
        self.held_until = self.held_until.filter(|until| *until > now);
        while let Some(user) = self.turns.due(now).or_else(|| due(&self.welcome, now)) {
            self.set_place(user, numbers.turn());
        }
        while let Some((place, user)) = self.next() {
            let line = self.users.get(&user)?;
            match judge(user, &line.items.front()?.value) {
                Verdict::HoldNetwork(until) if !line.is_welcome => self.held_until = Some(until),
                Verdict::Hold(until) | Verdict::HoldNetwork(until) => {
                    self.set_place(user, numbers.held(until));
                }
                Verdict::TakeLast if matches!(place, Place::Turn(_)) => {
                    self.set_place(user, Place::Last(numbers.next()));
                }
                Verdict::Take | Verdict::TakeLast => {
                    let item = self.take_first(user)?;
                    *bytes += item.bytes;
                    self.set_place(user, numbers.turn());
                    return Some((user, item.value));
                }
                Verdict::Drop => *bytes += self.take_first(user)?.bytes,
            }
        }
        None
    }

    /// The next request that may be checked now.
    fn next(&self) -> Option<(Place, u64)> {
        let others = (self.held_until.is_none()).then_some(&self.turns.order);
        let orders = [Some(&self.welcome), others].into_iter().flatten();
        let firsts = orders.filter_map(|order| order.first_key_value());
        let ready = firsts.filter(|(place, _)| place.until().is_none());
        ready.min().map(|(place, user)| (*place, *user))
    }

    /// Until when nothing may be taken, if nothing may be judged now.
    fn held_until(&self) -> Option<Instant> {
        let welcome = self.welcome.keys().next().map(|place| place.until());
        let others = self.turns.first();
        let others = others.map(|place| place.until().max(self.held_until));
        [welcome, others].into_iter().flatten().min().flatten()
    }

    fn welcome(&mut self, user: u64, numbers: &mut Numbers) {
        let Some(line) = self.users.get_mut(&user) else {
            return;
        };
        if !std::mem::replace(&mut line.is_welcome, true) {
            self.turns.order.remove(&line.place);
        }
        let place = match line.place.until() {
            Some(_) => numbers.turn(),
            None => line.place,
        };
        self.set_place(user, place);
    }

    fn set_place(&mut self, user: u64, place: Place) {
        if let Some(line) = self.users.get_mut(&user) {
            let order = match line.is_welcome {
                true => &mut self.welcome,
                false => &mut self.turns.order,
            };
            order.remove(&line.place);
            order.insert(place, user);
            line.place = place;
        }
    }

    /// Takes a user's oldest request.
    fn take_first(&mut self, user: u64) -> Option<Item<T>> {
        let line = self.users.get_mut(&user)?;
        let item = line.items.pop_front()?;
        let after = line.items.len();
        self.recount(user, after + 1, after);
        Some(item)
    }

    /// Notes that a user has fewer requests now; a user without any is removed.
    fn recount(&mut self, user: u64, before: usize, after: usize) {
        self.turns.recount(user, before, after);
        self.count -= before - after;
        if after == 0
            && let Some(line) = self.users.remove(&user)
        {
            match line.is_welcome {
                true => self.welcome.remove(&line.place),
                false => self.turns.order.remove(&line.place),
            };
        }
    }
}

impl Place {
    fn until(self) -> Option<Instant> {
        match self {
            Place::Held(until, _) => Some(until),
            Place::Turn(_) | Place::Last(_) => None,
        }
    }
}

impl Numbers {
    fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0
    }

    /// A place behind all that were given out.
    fn turn(&mut self) -> Place {
        Place::Turn(self.next())
    }

    /// A place before all that were given out.
    fn first_turn(&mut self) -> Place {
        Place::Turn(-self.next())
    }

    fn held(&mut self, until: Instant) -> Place {
        Place::Held(until, self.next())
    }
}

/// One who was held until now.
fn due<K: Copy>(order: &BTreeMap<Place, K>, now: Instant) -> Option<K> {
    let held = (Bound::Excluded(Place::Last(i64::MAX)), Bound::Unbounded);
    let (place, key) = order.range(held).next()?;
    place
        .until()
        .is_some_and(|until| until <= now)
        .then_some(*key)
}

impl<K: Copy + Ord> Turns<K> {
    fn first(&self) -> Option<Place> {
        self.order.keys().next().copied()
    }

    fn due(&self, now: Instant) -> Option<K> {
        due(&self.order, now)
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
            order: BTreeMap::new(),
            counts: BTreeSet::new(),
        }
    }
}

/// With fewer requests of a user nothing is looked for.
const CLEAR_UP_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HELD: Duration = Duration::from_secs(60);

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
        let later = Instant::now() + HELD;
        std::iter::from_fn(|| {
            queue
                .pop(later, |_, _| Verdict::Take)
                .map(|(_, value)| value)
        })
        .collect()
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
        let now = Instant::now();
        let judge = |_: Asker, value: &&str| match *value {
            "gone" => Verdict::Drop,
            "held" => Verdict::Hold(now + HELD),
            _ => Verdict::Take,
        };
        assert_eq!(queue.pop(now, judge).map(|(_, value)| value), Some("good"));
        assert_eq!(queue.pop(now, judge), None);
        assert_eq!(queue.held_until(), Some(now + HELD));
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
        let now = Instant::now();
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop(now, judge).map(|(_, value)| value)).collect();
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
            queue
                .pop(Instant::now(), |_, _| Verdict::Take)
                .map(|(_, value)| value),
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

    #[test]
    fn who_is_held_costs_nothing_until_then() {
        const USERS: u64 = 4_000;
        let now = Instant::now();
        let until = now + HELD;
        for (verdict, judged_at_first) in [
            (Verdict::Hold(until), USERS),
            (Verdict::HoldNetwork(until), 1),
            (Verdict::TakeLast, USERS + 1),
        ] {
            let mut queue = queue(10_000, 10_000);
            for user in 0..USERS {
                queue.push(asker(1, user), 1, "flood", false, |_| false);
            }
            let mut judged = 0;
            let mut pop = |queue: &mut FairQueue<&'static str>, now: Instant| {
                let before = judged;
                let taken = queue.pop(now, |_, value| {
                    judged += 1;
                    match *value {
                        "flood" => verdict,
                        _ => Verdict::Take,
                    }
                });
                (taken.map(|(_, value)| value), judged - before)
            };
            assert_eq!(pop(&mut queue, now).1, judged_at_first);
            for _ in 0..100 {
                queue.push(asker(2, 1), 1, "good", false, |_| false);
                queue.push(asker(1, 1), 1, "flood", false, |_| false);
                let both = [pop(&mut queue, now).0, pop(&mut queue, now).0];
                assert!(both.contains(&Some("good")));
            }
            // As many as before, and each that is looked at again at most twice.
            assert!(judged < judged_at_first + 400, "{verdict:?}: {judged}");
        }
    }

    #[test]
    fn who_is_welcome_is_not_held_with_its_network() {
        let mut queue = queue(100, 100);
        let now = Instant::now();
        fill(&mut queue, &[(1, 1, "a"), (1, 2, "b"), (1, 3, "c")]);
        let judge = |asker: Asker, value: &&str| match (*value, asker.user) {
            ("d", _) | (_, 2) => Verdict::Take,
            (_, 3) => Verdict::Hold(now + HELD),
            _ => Verdict::HoldNetwork(now + HELD / 2),
        };
        assert_eq!(queue.pop(now, judge), None);
        for value in ["d", "d"] {
            queue.push(asker(1, 4), 1, value, true, |_| false);
        }
        let mut taken = || queue.pop(now, judge).map(|(_, value)| value);
        assert_eq!([taken(), taken(), taken()], [Some("d"), Some("d"), None]);
        queue.welcome(asker(1, 2));
        let mut taken = || queue.pop(now, judge).map(|(_, value)| value);
        assert_eq!([taken(), taken()], [Some("b"), None]);
        assert_eq!(queue.held_until(), Some(now + HELD / 2));
        assert_eq!(all(&mut queue), ["a", "c"]);
    }
}
