//! Who waits in the lobby: how many on each listener and of each network, and of whom nothing was heard for longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// One connection's place in the lobby.
#[derive(Clone, Copy, Debug)]
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

/// What a newcomer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Only if the connection with this key is closed.
    Instead(usize),
    Full,
}

/// All places, by listener.
#[derive(Debug, Default)]
pub(super) struct Places {
    doors: HashMap<u64, Crowd>,
}

/// Those who wait on one listener.
#[derive(Debug, Default)]
struct Crowd {
    count: usize,
    /// Keys of each network's connections, the one that was heard from longest ago first.
    networks: HashMap<Option<IpAddr>, BTreeMap<Age, usize>>,
    /// Last comes the network with most, and among equals the one with the oldest connection.
    by_size: BTreeSet<(usize, Reverse<Age>, Option<IpAddr>)>,
}

type Age = (Instant, u64);

impl Places {
    pub(super) fn enter(&mut self, place: &Place, key: usize) {
        let crowd = self.doors.entry(place.door).or_default();
        crowd.count += 1;
        crowd.change(place.network, |keys| {
            keys.insert(place.age(), key);
        });
    }

    pub(super) fn leave(&mut self, place: &Place) {
        let Some(crowd) = self.doors.get_mut(&place.door) else {
            return;
        };
        crowd.count -= 1;
        crowd.change(place.network, |keys| {
            keys.remove(&place.age());
        });
        if crowd.count == 0 {
            self.doors.remove(&place.door);
        }
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
        let Some((most, Reverse(oldest), largest)) = crowd.by_size.last() else {
            return Room::Full;
        };
        let own = crowd.networks.get(&network).map_or(0, BTreeMap::len);
        let is_silent = now.saturating_duration_since(oldest.0) >= silence;
        let key = crowd
            .networks
            .get(largest)
            .and_then(|keys| keys.get(oldest));
        key.filter(|_| *most > own + 1 || is_silent)
            .map_or(Room::Full, |key| Room::Instead(*key))
    }
}

impl Crowd {
    fn change(&mut self, network: Option<IpAddr>, change: impl FnOnce(&mut BTreeMap<Age, usize>)) {
        let keys = self.networks.entry(network).or_default();
        let rank = |keys: &BTreeMap<Age, usize>| {
            keys.first_key_value()
                .map(|(oldest, _)| (keys.len(), Reverse(*oldest), network))
        };
        let before = rank(keys);
        change(keys);
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
    }
}
