//! Half-open connections, in the lobby and on shards: how many each listener and each network has, and which was silent
//! for longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::Waker;

/// One half-open connection's place on its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Known by this for ever; a key of the slab has another tenant later.
    pub(super) serial: u64,
    /// The serial number of its listener.
    pub(super) door: u64,
    /// `None` for a unix socket.
    pub(super) network: Option<IpAddr>,
    /// When bytes last came.
    pub(super) heard_at: Instant,
}

impl Place {
    fn age(&self) -> Age {
        (self.heard_at, self.serial)
    }
}

/// Where a half-open connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// In the lobby, under this key of its slab.
    Lobby(usize),
    /// On a shard, which knows it by the serial number of its place.
    Shard(u64),
}

/// What a newcomer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Only if this connection is closed and its place freed.
    Instead(Place, Holder),
    Full,
}

/// All places, by listener.
#[derive(Debug, Default)]
pub(super) struct Places {
    doors: HashMap<u64, Crowd>,
}

/// The places, for the lobby and for those that it has handed over with one.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedPlaces {
    places: Arc<Mutex<Places>>,
    /// Wakes the lobby, which keeps a listener to as many places as it has.
    lobby: Option<Arc<Waker>>,
}

impl SharedPlaces {
    pub(super) fn new(lobby: Arc<Waker>) -> SharedPlaces {
        SharedPlaces {
            lobby: Some(lobby),
            ..SharedPlaces::default()
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a place for a connection that is handed over before its handshake is complete. One that has sent all of its
    /// log-in takes it when its shard cannot complete the handshake at once.
    pub(super) fn hand_over(&self, place: Place, is_log_in_there: bool) -> HalfOpen {
        if !is_log_in_there {
            self.lock().enter(&place, Holder::Shard(place.serial));
        }
        HalfOpen {
            places: self.clone(),
            place,
            was_taken: !is_log_in_there,
        }
    }
}

/// The place of a connection whose handshake goes on at its shard: it counts for `handshakes_max`. Dropping it frees the
/// place.
#[derive(Debug)]
pub struct HalfOpen {
    places: SharedPlaces,
    place: Place,
    was_taken: bool,
}

impl HalfOpen {
    /// The number that [`Deliver::make_room`](super::Deliver::make_room) calls it by.
    pub fn serial(&self) -> u64 {
        self.place.serial
    }

    /// Records that bytes came at `now` and the handshake is not complete. A place that was given to another connection stays
    /// lost. One that is taken only now may be one too many: when the lobby admitted the connection, others that had sent all of
    /// their log-in had none either.
    pub fn on_bytes(&mut self, now: Instant) {
        let mut places = self.places.lock();
        let is_new = !std::mem::replace(&mut self.was_taken, true);
        if is_new || places.leave(&self.place).is_some() {
            self.place.heard_at = now;
            places.enter(&self.place, Holder::Shard(self.place.serial));
        }
        drop(places);
        if let Some(lobby) = self.places.lobby.as_ref().filter(|_| is_new) {
            // It fails if the lobby has ended; then no place matters.
            let _ = lobby.wake();
        }
    }
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        if self.was_taken {
            self.places.lock().leave(&self.place);
        }
    }
}

/// Half-open connections of one listener.
#[derive(Debug, Default)]
struct Crowd {
    count: usize,
    /// Each network's connections, the one silent for longest first.
    networks: HashMap<Option<IpAddr>, BTreeMap<Age, Holder>>,
    /// Last comes the network with most, and among equals the one with the oldest connection.
    by_size: BTreeSet<(usize, Reverse<Age>, Option<IpAddr>)>,
}

type Age = (Instant, u64);

impl Places {
    pub(super) fn enter(&mut self, place: &Place, holder: Holder) {
        let crowd = self.doors.entry(place.door).or_default();
        crowd.count += 1;
        crowd.change(place.network, |keys| {
            keys.insert(place.age(), holder);
        });
    }

    /// Frees a place; `None` if it was freed before.
    pub(super) fn leave(&mut self, place: &Place) -> Option<Holder> {
        let crowd = self.doors.get_mut(&place.door)?;
        let left = crowd.change(place.network, |keys| keys.remove(&place.age()));
        crowd.count -= usize::from(left.is_some());
        if crowd.count == 0 {
            self.doors.remove(&place.door);
        }
        left
    }

    /// One place too many on a listener, if each has `max`: of the network with most, the one that was silent for longest.
    pub(super) fn beyond(&self, max: usize) -> Option<(Place, Holder)> {
        let (door, crowd) = self.doors.iter().find(|(_, crowd)| crowd.count > max)?;
        crowd.oldest_of_largest(*door)
    }

    /// Whether a newcomer of `network` gets a place on a listener that has `max`. When they are taken, the network with
    /// most gives one up: for a newcomer whose own network would still not have more than that one, or if nothing has
    /// come on its oldest connection for as long as `silence`.
    pub(super) fn room(
        &self,
        door: u64,
        network: Option<IpAddr>,
        max: usize,
        silence: Duration,
        now: Instant,
    ) -> Room {
        let Some(crowd) = self.doors.get(&door).filter(|crowd| crowd.count >= max) else {
            return Room::Free;
        };
        let size = |network| crowd.networks.get(&network).map_or(0, BTreeMap::len);
        let is_due = |place: &Place| {
            size(place.network) > size(network) + 1
                || now.saturating_duration_since(place.heard_at) >= silence
        };
        crowd
            .oldest_of_largest(door)
            .filter(|(place, _)| is_due(place))
            .map_or(Room::Full, |(place, holder)| Room::Instead(place, holder))
    }
}

impl Crowd {
    fn oldest_of_largest(&self, door: u64) -> Option<(Place, Holder)> {
        let (_, Reverse(oldest), network) = self.by_size.last()?;
        let holder = *self.networks.get(network)?.get(oldest)?;
        let (heard_at, serial) = *oldest;
        let network = *network;
        let place = Place {
            serial,
            door,
            network,
            heard_at,
        };
        Some((place, holder))
    }

    fn change<T>(
        &mut self,
        network: Option<IpAddr>,
        change: impl FnOnce(&mut BTreeMap<Age, Holder>) -> T,
    ) -> T {
        let keys = self.networks.entry(network).or_default();
        let rank = |keys: &BTreeMap<Age, Holder>| {
            keys.first_key_value()
                .map(|(oldest, _)| (keys.len(), Reverse(*oldest), network))
        };
        let before = rank(keys);
        let result = change(keys);
        let after = rank(keys);
        if let Some(before) = before {
            self.by_size.remove(&before);
        }
        match after {
            Some(after) => {
                self.by_size.insert(after);
            }
            None => {
                self.networks.remove(&network);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(1);

    fn place(serial: u64, host: u8, heard_at: Instant) -> Place {
        Place {
            serial,
            door: 7,
            network: Some(IpAddr::from([10, 0, 0, host])),
            heard_at,
        }
    }

    /// The holder that makes room for a newcomer of 10.0.0.`host` where three may be.
    fn displaced(places: &SharedPlaces, host: u8, now: Instant) -> Option<Holder> {
        let network = place(0, host, now).network;
        match places.lock().room(7, network, 3, SILENCE, now) {
            Room::Instead(_, holder) => Some(holder),
            Room::Free | Room::Full => None,
        }
    }

    #[test]
    fn a_connection_that_was_handed_over_half_open_keeps_its_place_until_it_is_dropped() {
        let (places, now) = (SharedPlaces::default(), Instant::now());
        let mut half_open: Vec<_> = (1..=3)
            .map(|serial| places.hand_over(place(serial, 1, now), false))
            .collect();
        assert_eq!(
            displaced(&places, 1, now),
            None,
            "full, for its own network"
        );
        assert_eq!(displaced(&places, 2, now), Some(Holder::Shard(1)));
        half_open[0].on_bytes(now + SILENCE / 2);
        assert_eq!(displaced(&places, 2, now), Some(Holder::Shard(2)));
        assert_eq!(
            displaced(&places, 1, now + SILENCE),
            Some(Holder::Shard(2)),
            "silent for too long"
        );
        half_open.pop();
        assert_eq!(
            places.lock().room(7, None, 3, SILENCE, now),
            Room::Free,
            "complete or closed"
        );
    }

    #[test]
    fn a_log_in_that_waits_for_its_verdict_takes_its_place() {
        let (places, now) = (SharedPlaces::default(), Instant::now());
        let mut half_open: Vec<_> = (1..=4)
            .map(|serial| places.hand_over(place(serial, 1, now), true))
            .collect();
        assert!(places.lock().doors.is_empty(), "none waits yet");
        half_open[1..].iter_mut().for_each(|it| it.on_bytes(now));
        assert_eq!(displaced(&places, 2, now), Some(Holder::Shard(2)));
        half_open.remove(0);
        assert_eq!(displaced(&places, 2, now), Some(Holder::Shard(2)));
        let beyond = |max| places.lock().beyond(max).map(|(_, holder)| holder);
        assert_eq!(
            (beyond(3), beyond(2)),
            (None, Some(Holder::Shard(2))),
            "what was taken late may be too much"
        );
        half_open.clear();
        assert!(places.lock().doors.is_empty());
    }

    #[test]
    fn a_place_that_was_given_away_does_not_come_back() {
        let (places, now) = (SharedPlaces::default(), Instant::now());
        let mut half_open = places.hand_over(place(1, 1, now), false);
        assert_eq!(
            places.lock().leave(&place(1, 1, now)),
            Some(Holder::Shard(1))
        );
        half_open.on_bytes(now + SILENCE);
        drop(half_open);
        assert!(places.lock().doors.is_empty());
    }
}
