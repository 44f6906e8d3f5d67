//! Limit of handshakes per address: a cookie is valid for two minutes, in which each copy of its hello would cause a
//! flight and cost a signature, if the sender aborted the handshake in between.

use core::net::SocketAddr;

use ring::hmac;
use thalweg_wire::{Span, Time};

use crate::hello::update_with_address;

/// Addresses that began handshakes recently. Of a fixed size: a peer with many addresses evicts some of them, but
/// cannot choose which.
pub(super) struct Pace {
    /// So that peers cannot predict which entry an address evicts.
    key: hmac::Key,
    entries: Box<[Entry]>,
}

#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    since: Time,
    begun: u8,
}

const ENTRIES: usize = 1024;

/// So many handshakes that come to nothing an address may begin ...
const BEGUN_MAX: u8 = 4;

/// ... within this time.
const WITHIN: Span = Span::from_secs(10);

impl Pace {
    pub fn new(secret: &[u8; 32]) -> Pace {
        let entry = Entry {
            address: 0,
            since: Time::ZERO,
            begun: 0,
        };
        Pace {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            entries: vec![entry; ENTRIES].into(),
        }
    }

    /// Whether an address may begin a handshake now.
    pub fn may_begin(&mut self, address: &SocketAddr, now: Time) -> bool {
        let hash = self.hash(address);
        let Some(entry) = self.entries.get_mut(hash as usize % ENTRIES) else {
            return true;
        };
        if entry.address != hash || entry.since + WITHIN <= now {
            *entry = Entry {
                address: hash,
                since: now,
                begun: 0,
            };
        }
        let may = entry.begun < BEGUN_MAX;
        entry.begun += u8::from(may);
        may
    }

    /// A handshake of an address came to its end: it is not held against it.
    pub fn has_completed(&mut self, address: &SocketAddr) {
        let hash = self.hash(address);
        if let Some(entry) = self
            .entries
            .get_mut(hash as usize % ENTRIES)
            .filter(|entry| entry.address == hash)
        {
            entry.begun = 0;
        }
    }

    fn hash(&self, address: &SocketAddr) -> u64 {
        let mut context = hmac::Context::with_key(&self.key);
        update_with_address(&mut context, address);
        context
            .sign()
            .as_ref()
            .first_chunk()
            .map_or(0, |first| u64::from_be_bytes(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_begins_four_handshakes_in_ten_seconds_and_more_when_they_are_completed() {
        let (mut pace, mut now) = (Pace::new(&[7; 32]), Time::from_secs(5));
        let (here, there) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.1:2".parse().unwrap());
        let mut begun = |address, now| (0..10).filter(|_| pace.may_begin(address, now)).count();
        assert_eq!(
            (begun(&here, now), begun(&there, now), begun(&here, now)),
            (4, 4, 0)
        );
        now += Span::from_secs(10);
        assert_eq!(begun(&here, now), 4);
        pace.has_completed(&here);
        assert!(pace.may_begin(&here, now));
    }
}
