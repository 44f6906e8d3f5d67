//! The peers of one socket, by address, by timer and by the time of their last datagram.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeSet, HashMap};

use slab::Slab;
use thalweg_wire::Time;

use super::association::Association;
use super::handshake::Handshake;

/// All peers: those with an association, those with a handshake under way, those with both (RFC 6347 §4.2.8).
#[derive(Default)]
pub(super) struct Peers {
    places: HashMap<SocketAddr, usize>,
    slots: Slab<Peer>,
    /// When handshakes want to be woken.
    wakes: BTreeSet<(Time, usize)>,
    /// Number of handshakes in progress by network.
    networks: HashMap<IpAddr, usize>,
    /// Peers with an association: the one silent for longest, and the one silent for shortest.
    quietest: usize,
    loudest: usize,
    associations: usize,
}

pub(super) struct Peer {
    pub address: SocketAddr,
    association: Option<Association>,
    handshake: Option<Box<Handshake>>,
    /// Its entry in `wakes`, if there is a handshake.
    wakes_at: Time,
    /// When something authentic came last.
    heard_at: Time,
    quieter: usize,
    louder: usize,
}

/// Bytes of a peer, besides its entry in the index.
#[cfg(test)]
pub(super) const PEER_BYTES: usize = size_of::<Peer>();

/// The network that an address counts as: with IPv6 the /64, which one host can use as a whole.
fn network(address: &SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => IpAddr::V4(ip),
            None => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        },
        ip => ip,
    }
}

const NOWHERE: usize = usize::MAX;

impl Peers {
    pub fn place(&self, address: &SocketAddr) -> Option<usize> {
        self.places.get(address).copied()
    }

    pub fn address(&self, place: usize) -> Option<SocketAddr> {
        self.slots.get(place).map(|peer| peer.address)
    }

    pub fn association(&mut self, place: usize) -> Option<&mut Association> {
        self.slots.get_mut(place)?.association.as_mut()
    }

    pub fn handshake(&mut self, place: usize) -> Option<&mut Handshake> {
        self.slots.get_mut(place)?.handshake.as_deref_mut()
    }

    /// Number of peers with an association.
    pub fn associations(&self) -> usize {
        self.associations
    }

    /// Number of peers with a handshake in progress.
    pub fn handshakes(&self) -> usize {
        self.wakes.len()
    }

    /// Number of addresses in the index.
    #[cfg(test)]
    pub fn addresses(&self) -> usize {
        assert_eq!(self.places.len(), self.slots.len());
        self.places.len()
    }

    /// The places of all that have an association.
    pub fn all(&self) -> Vec<usize> {
        self.slots
            .iter()
            .filter(|(_, peer)| peer.association.is_some())
            .map(|(place, _)| place)
            .collect()
    }

    /// Begins a handshake; another one of the same peer is forgotten.
    pub fn begin(&mut self, address: SocketAddr, handshake: Handshake, now: Time) -> usize {
        let place = *self.places.entry(address).or_insert_with(|| {
            self.slots.insert(Peer {
                address,
                association: None,
                handshake: None,
                wakes_at: Time::NEVER,
                heard_at: now,
                quieter: NOWHERE,
                louder: NOWHERE,
            })
        });
        self.take_handshake(place);
        if let Some(peer) = self.slots.get_mut(place) {
            peer.wakes_at = handshake.wakes_at();
            self.wakes.insert((peer.wakes_at, place));
            peer.handshake = Some(Box::new(handshake));
            *self.networks.entry(network(&address)).or_default() += 1;
        }
        place
    }

    /// Ends a handshake. The address stays, for an association to come: [`forget_empty`](Self::forget_empty).
    pub fn take_handshake(&mut self, place: usize) -> Option<Handshake> {
        let peer = self.slots.get_mut(place)?;
        let handshake = peer.handshake.take()?;
        self.wakes.remove(&(peer.wakes_at, place));
        let network = network(&peer.address);
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
        Some(*handshake)
    }

    /// Notes when a handshake is due now.
    pub fn reschedule(&mut self, place: usize) {
        let Some(peer) = self.slots.get_mut(place) else {
            return;
        };
        let Some(handshake) = &peer.handshake else {
            return;
        };
        self.wakes.remove(&(peer.wakes_at, place));
        peer.wakes_at = handshake.wakes_at();
        self.wakes.insert((peer.wakes_at, place));
    }

    /// The handshake that is due first, and when.
    pub fn first_wake(&self) -> Option<(Time, usize)> {
        self.wakes.first().copied()
    }

    /// The handshake that goes when there is no room for one from this address, when it began, and whether that does not
    /// matter because its network has more than the newcomer's would have. It is the oldest of the network that has the
    /// most, or of the newcomer's own if no other has more.
    pub fn next_to_go(&self, newcomer: &SocketAddr) -> Option<(Time, usize, bool)> {
        let own = network(newcomer);
        let own_count = self.networks.get(&own).copied().unwrap_or(0);
        let most = self
            .networks
            .iter()
            .max_by_key(|(network, count)| (**count, **network));
        let greedy = most
            .filter(|(_, count)| **count > own_count + 1)
            .map(|(network, _)| *network);
        let of = greedy.or((own_count > 0).then_some(own));
        let candidates = self.wakes.iter().filter_map(|(_, place)| {
            let peer = self.slots.get(*place)?;
            let is_one = of.is_none_or(|of| network(&peer.address) == of);
            is_one.then_some((peer.handshake.as_ref()?.began_at(), *place))
        });
        let (began, place) = candidates.min()?;
        Some((began, place, greedy.is_some()))
    }

    /// Gives a peer an association; the one it had comes back.
    pub fn associate(
        &mut self,
        place: usize,
        association: Association,
        now: Time,
    ) -> Option<Association> {
        let before = self.dissociate(place);
        if let Some(peer) = self.slots.get_mut(place) {
            peer.association = Some(association);
            self.associations += 1;
            self.link(place, now);
        }
        before
    }

    /// Takes a peer's association away. The address stays: [`forget_empty`](Self::forget_empty).
    pub fn dissociate(&mut self, place: usize) -> Option<Association> {
        let association = self.slots.get_mut(place)?.association.take()?;
        self.associations -= 1;
        self.unlink(place);
        Some(association)
    }

    /// Forgets an address that has neither association nor handshake.
    pub fn forget_empty(&mut self, place: usize) {
        let empty = |peer: &Peer| peer.association.is_none() && peer.handshake.is_none();
        if let Some(address) = self
            .slots
            .get(place)
            .filter(|peer| empty(peer))
            .map(|peer| peer.address)
        {
            self.places.remove(&address);
            self.slots.remove(place);
        }
    }

    pub fn heard(&mut self, place: usize, now: Time) {
        if self.loudest == place {
            if let Some(peer) = self.slots.get_mut(place) {
                peer.heard_at = now;
            }
        } else {
            self.unlink(place);
            self.link(place, now);
        }
    }

    /// The peer that has been silent longest, and the time of its last datagram.
    pub fn quietest(&self) -> Option<(Time, usize)> {
        let quietest = (self.associations > 0).then_some(self.quietest)?;
        self.slots
            .get(quietest)
            .map(|peer| (peer.heard_at, quietest))
    }

    fn link(&mut self, place: usize, now: Time) {
        let before = if self.associations > 1 {
            self.loudest
        } else {
            NOWHERE
        };
        if let Some(peer) = self.slots.get_mut(place) {
            (peer.heard_at, peer.quieter, peer.louder) = (now, before, NOWHERE);
        }
        match self.slots.get_mut(before) {
            Some(before) => before.louder = place,
            None => self.quietest = place,
        }
        self.loudest = place;
    }

    fn unlink(&mut self, place: usize) {
        let Some((quieter, louder)) = self
            .slots
            .get(place)
            .map(|peer| (peer.quieter, peer.louder))
        else {
            return;
        };
        match self.slots.get_mut(quieter) {
            Some(peer) => peer.louder = louder,
            None => self.quietest = louder,
        }
        match self.slots.get_mut(louder) {
            Some(peer) => peer.quieter = quieter,
            None => self.loudest = quieter,
        }
    }
}
