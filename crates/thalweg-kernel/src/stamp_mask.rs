//! What receivers see of a publisher's number ([ADR 0028](../../../docs/adr/0028-names-belong-to-users.md)).
//!
//! Who knows a number can use up the publisher's sequences, if it has the same user. So receivers are shown a keyed hash of
//! it: the same for the same publisher, so that they recognize repetitions by it, and of no use to whoever publishes under
//! it, because that is hashed again.
//!
//! *Knows:* numbers and a key. *Must never know:* a session, a message.

use std::fmt;
use thalweg_model::Stamp;

/// The key of the hash. The same on all shards, and in all runs over which receivers are to recognize what is repeated.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StampKey([u64; 2]);

impl StampKey {
    /// A key of these random bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        StampKey([word(0), word(8)])
    }

    /// The stamp as receivers see it. Users' publishers of the same number look different.
    pub(crate) fn mask(&self, user: &str, stamp: Stamp) -> Stamp {
        let mut bytes = Vec::with_capacity(8 + user.len());
        bytes.extend_from_slice(&stamp.publisher.to_le_bytes());
        bytes.extend_from_slice(user.as_bytes());
        Stamp { publisher: self.hash(&bytes), sequence: stamp.sequence }
    }

    /// SipHash-2-4 (Aumasson and Bernstein, 2012): made for short messages, and not to be inverted without the key.
    fn hash(&self, bytes: &[u8]) -> u64 {
        let StampKey([k0, k1]) = *self;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let mut take = |word: u64, rounds: usize| {
            v[3] ^= word;
            (0..rounds).for_each(|_| round(&mut v));
            v[0] ^= word;
            v
        };
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            take(u64::from_le_bytes(*word), 2);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = bytes.len() as u8;
        v = take(u64::from_le_bytes(last), 2);
        v[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

impl fmt::Debug for StampKey {
    /// Says nothing of the key: what holds one may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StampKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        let key = StampKey::new(std::array::from_fn(|at| at as u8));
        let input: Vec<u8> = (0..15).collect();
        // The paper's example, and the first vectors of its authors' implementation.
        assert_eq!(key.hash(&input), 0xa129_ca61_49be_45e5);
        assert_eq!(key.hash(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(key.hash(&input[..8]), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn a_mask_is_of_key_user_and_publisher_and_leaves_the_sequence() {
        let (key, other) = (StampKey::new([7; 16]), StampKey::new([8; 16]));
        let stamp = Stamp { publisher: 0xabc, sequence: 12 };
        let masked = key.mask("a", stamp);
        assert_eq!(masked, key.mask("a", stamp));
        assert_eq!(masked.sequence, 12);
        let further = [stamp, other.mask("a", stamp), key.mask("b", stamp), key.mask("a", masked)];
        assert!(further.iter().all(|stamp| stamp.publisher != masked.publisher));
    }
}
