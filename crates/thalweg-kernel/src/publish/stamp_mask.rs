//! What receivers see of a publisher's number ([ADR 0028](../../../docs/adr/0028-names-belong-to-users.md)).
//!
//! Who knows a number can use up the publisher's sequences, if it has the same user. So receivers are shown a keyed hash of
//! it: the same for the same publisher, so that they recognize repetitions by it, and of no use to publish under, because
//! what is published under is hashed again.
//!
//! *Knows:* numbers and a key. *Must never know:* a session, a message.

use siphasher::sip::SipHasher24;
use std::fmt;
use thalweg_model::Stamp;

/// The key of the hash. The same on all shards, and in all runs over which receivers are to recognize what is repeated.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StampKey([u8; 16]);

impl StampKey {
    /// A key of these random bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        StampKey(bytes)
    }

    /// The stamp as receivers see it. Users' publishers of the same number look different.
    pub(crate) fn mask(&self, user: &str, stamp: Stamp) -> Stamp {
        let mut bytes = Vec::with_capacity(8 + user.len());
        bytes.extend_from_slice(&stamp.publisher.to_le_bytes());
        bytes.extend_from_slice(user.as_bytes());
        // Made for short messages, and not to be inverted without the key.
        let publisher = SipHasher24::new_with_key(&self.0).hash(&bytes);
        Stamp {
            publisher,
            sequence: stamp.sequence,
        }
    }
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

    /// The example of the paper (Aumasson and Bernstein, 2012): masks are the same after an update of the library, too.
    #[test]
    fn the_hash_is_siphash_2_4_of_number_and_user() {
        let key = StampKey::new(std::array::from_fn(|at| at as u8));
        let stamp = Stamp {
            publisher: 0x0706_0504_0302_0100,
            sequence: 0,
        };
        assert_eq!(
            key.mask("\u{8}\t\n\u{b}\u{c}\r\u{e}", stamp).publisher,
            0xa129_ca61_49be_45e5
        );
    }

    #[test]
    fn a_mask_is_of_key_user_and_publisher_and_leaves_the_sequence() {
        let (key, other) = (StampKey::new([7; 16]), StampKey::new([8; 16]));
        let stamp = Stamp {
            publisher: 0xabc,
            sequence: 12,
        };
        let masked = key.mask("a", stamp);
        assert_eq!(masked, key.mask("a", stamp));
        assert_eq!(masked.sequence, 12);
        let further = [
            stamp,
            other.mask("a", stamp),
            key.mask("b", stamp),
            key.mask("a", masked),
        ];
        assert!(
            further
                .iter()
                .all(|stamp| stamp.publisher != masked.publisher)
        );
    }
}
