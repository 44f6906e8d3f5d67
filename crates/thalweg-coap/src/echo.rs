//! Echo: a value that only its addressee can know, and only for a while. RFC 9175 §2
//!
//! Nothing is remembered for it: the value is a time and a keyed hash (SipHash-2-4) of time and address.

use core::net::{IpAddr, SocketAddr};

use thalweg_wire::{Span, Time};

/// Makes and checks Echo values.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    key: [u64; 2],
    lifetime: Span,
}

/// Seconds in four bytes, then a hash of eight.
pub(crate) const ECHO_LEN: usize = 12;

impl Echo {
    pub fn new(key: [u64; 2], lifetime: Span) -> Self {
        Echo { key, lifetime }
    }

    /// Another lifetime, also for values that are out.
    pub fn set_lifetime(&mut self, lifetime: Span) {
        self.lifetime = lifetime;
    }

    /// The value for a peer at this time.
    pub fn value(&self, of: SocketAddr, now: Time) -> [u8; ECHO_LEN] {
        self.value_at(of, (now.nanos() / 1_000_000_000) as u32)
    }

    /// Whether a peer was given this value not too long ago.
    pub fn is_valid(&self, value: &[u8], of: SocketAddr, now: Time) -> bool {
        let Some(at) = value.first_chunk::<4>().map(|at| u32::from_be_bytes(*at)) else {
            return false;
        };
        let age = (now.nanos() / 1_000_000_000) as u32;
        let is_fresh = u64::from(age.wrapping_sub(at)) <= self.lifetime.secs();
        let ours = self.value_at(of, at);
        // All bytes are compared, whatever the first ones are: the time taken reveals nothing.
        let differ = ours.iter().zip(value).fold(0, |sum, (a, b)| sum | (a ^ b));
        is_fresh && value.len() == ECHO_LEN && differ == 0
    }

    fn value_at(&self, of: SocketAddr, at: u32) -> [u8; ECHO_LEN] {
        let mut said = [0; 22];
        let ip = match of.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        said[..16].copy_from_slice(&ip);
        said[16..18].copy_from_slice(&of.port().to_be_bytes());
        said[18..].copy_from_slice(&at.to_be_bytes());
        let mut value = [0; ECHO_LEN];
        value[..4].copy_from_slice(&at.to_be_bytes());
        value[4..].copy_from_slice(&siphash_2_4(self.key, &said).to_be_bytes());
        value
    }
}

/// SipHash-2-4 (Aumasson and Bernstein): two rounds a word, four at the end.
fn siphash_2_4(key: [u64; 2], bytes: &[u8]) -> u64 {
    let [k0, k1] = key;
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        sip_round(&mut v);
        sip_round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xFF;
    for _ in 0..4 {
        sip_round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_siphash_2_4() {
        // The vector of the paper, appendix A: key 00 01 … 0f, message 00 01 … 0e.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash_2_4(key, &message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn a_value_is_good_for_its_peer_and_for_a_while() {
        let echo = Echo::new([1, 2], Span::from_secs(60));
        let peer = SocketAddr::from(([10, 0, 0, 1], 5683));
        let value = echo.value(peer, Time::from_secs(100));
        assert!(echo.is_valid(&value, peer, Time::from_secs(100)));
        assert!(echo.is_valid(&value, peer, Time::from_secs(160)));
        assert!(!echo.is_valid(&value, peer, Time::from_secs(161)));
        assert!(
            !echo.is_valid(&value, peer, Time::from_secs(99)),
            "from the future"
        );
        assert!(!echo.is_valid(
            &value,
            SocketAddr::from(([10, 0, 0, 1], 5684)),
            Time::from_secs(100)
        ));
        assert!(!echo.is_valid(&value[..11], peer, Time::from_secs(100)));
        assert!(!Echo::new([1, 3], Span::from_secs(60)).is_valid(
            &value,
            peer,
            Time::from_secs(100)
        ));
    }
}
