//! From which of our addresses a peer is answered, where the socket is bound to all of them.
//!
//! A peer takes an answer only from the address it asked, and the system would choose by its routes. Most machines are
//! asked at one address: that one is remembered once, and others peer by peer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Peers of unusual addresses that are remembered, twice: those that were silent while so many others came are removed,
/// and then the system chooses.
const PEERS_MAX: usize = 32 << 10;

#[derive(Default)]
pub(super) struct Origins {
    /// The address at which peers ask as a rule, of each family.
    usual: [Option<IpAddr>; 2],
    young: HashMap<SocketAddr, IpAddr>,
    old: HashMap<SocketAddr, IpAddr>,
}

impl Origins {
    /// A datagram came from `peer` to our address `local`.
    #[inline]
    pub(super) fn heard(&mut self, peer: SocketAddr, local: IpAddr) {
        if self.between(peer) == Some(local) || self.is_chosen_anyway(peer, local) {
            if self.young.is_empty() && self.old.is_empty() {
                return;
            }
            self.young.remove(&peer);
            self.old.remove(&peer);
            return;
        }
        self.remember(peer, local);
    }

    /// The address to answer `peer` from; the system's choice if there is none.
    #[inline]
    pub(super) fn of(&self, peer: SocketAddr) -> Option<IpAddr> {
        let exception = match self.young.is_empty() && self.old.is_empty() {
            true => None,
            false => self
                .young
                .get(&peer)
                .or_else(|| self.old.get(&peer))
                .copied(),
        };
        exception.or_else(|| self.between(peer))
    }

    /// The system refused to send from this address: it may have gone from the machine.
    pub(super) fn forget(&mut self, peer: SocketAddr) {
        self.young.remove(&peer);
        self.old.remove(&peer);
        if let Some(usual) = self.usual.get_mut(usize::from(peer.is_ipv6())) {
            *usual = None;
        }
    }

    /// What holds for a peer of which nothing is remembered. A loopback peer has only loopback addresses to ask at.
    fn between(&self, peer: SocketAddr) -> Option<IpAddr> {
        if peer.ip().is_loopback() {
            None
        } else {
            self.usual
                .get(usize::from(peer.is_ipv6()))
                .copied()
                .flatten()
        }
    }

    fn is_chosen_anyway(&self, peer: SocketAddr, local: IpAddr) -> bool {
        peer.ip().is_loopback() && (local == Ipv4Addr::LOCALHOST || local == Ipv6Addr::LOCALHOST)
    }

    #[cold]
    fn remember(&mut self, peer: SocketAddr, local: IpAddr) {
        if !local.is_loopback()
            && !peer.ip().is_loopback()
            && let Some(usual @ None) = self.usual.get_mut(usize::from(peer.is_ipv6()))
        {
            *usual = Some(local);
            return;
        }
        if self.young.len() >= PEERS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(peer, local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_address_is_the_usual_one_and_others_are_remembered_by_peer() {
        let mut origins = Origins::default();
        origins.heard(peer("192.0.2.7:1000"), ip("198.51.100.1"));
        origins.heard(peer("192.0.2.8:1000"), ip("198.51.100.2"));
        assert_eq!(origins.of(peer("192.0.2.7:1000")), Some(ip("198.51.100.1")));
        assert_eq!(origins.of(peer("192.0.2.8:1000")), Some(ip("198.51.100.2")));
        assert_eq!(origins.young.len(), 1, "the usual one costs nothing");
        origins.heard(peer("192.0.2.8:1000"), ip("198.51.100.1"));
        assert_eq!(
            origins.of(peer("192.0.2.8:1000")),
            Some(ip("198.51.100.1")),
            "it asks elsewhere now"
        );
        assert_eq!(
            origins.of(peer("[2001:db8::1]:1")),
            None,
            "the other family has an address of its own"
        );
    }

    #[test]
    fn a_neighbour_on_the_same_machine_does_not_decide_for_others() {
        let mut origins = Origins::default();
        origins.heard(peer("127.0.0.1:9"), ip("127.0.0.1"));
        origins.heard(peer("127.0.0.1:10"), ip("127.0.0.2"));
        assert_eq!(origins.of(peer("127.0.0.1:9")), None);
        assert_eq!(origins.of(peer("127.0.0.1:10")), Some(ip("127.0.0.2")));
        origins.heard(peer("192.0.2.7:1000"), ip("198.51.100.1"));
        assert_eq!(origins.of(peer("192.0.2.9:1")), Some(ip("198.51.100.1")));
    }

    #[test]
    fn a_flood_of_invented_peers_is_forgotten_again() {
        let mut origins = Origins::default();
        origins.heard(peer("192.0.2.7:1000"), ip("198.51.100.1"));
        for number in 0..5 * PEERS_MAX as u32 {
            let invented = SocketAddr::new(Ipv4Addr::from_bits(0x0A00_0000 + number).into(), 5683);
            origins.heard(invented, ip("198.51.100.2"));
        }
        assert!(origins.young.len() + origins.old.len() <= 2 * PEERS_MAX);
    }
}
