//! The hash functions that a mechanism is named after.

use hmac::digest::{Digest, KeyInit};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::ops::Deref;

/// Which SCRAM a mechanism is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScramHash {
    /// RFC 5802; for peers that have nothing better.
    Sha1,
    /// RFC 7677.
    #[default]
    Sha256,
}

/// A value of the hash function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    octets: [u8; 32],
    len: u8,
}

impl Key {
    /// `None` unless it has the hash function's length.
    pub(crate) fn new(hash: ScramHash, from: &[u8]) -> Option<Key> {
        let mut octets = [0; 32];
        let place = octets
            .get_mut(..hash.len())
            .filter(|_| from.len() == hash.len())?;
        place.copy_from_slice(from);
        Some(Key {
            octets,
            len: from.len() as u8,
        })
    }

    fn of<const LEN: usize>(from: [u8; LEN]) -> Key {
        const { assert!(LEN <= 32) };
        let mut octets = [0; 32];
        octets[..LEN].copy_from_slice(&from);
        Key {
            octets,
            len: LEN as u8,
        }
    }

    pub(crate) fn xor(&self, other: &Key) -> Key {
        Key {
            octets: std::array::from_fn(|index| self.octets[index] ^ other.octets[index]),
            ..*self
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl ScramHash {
    /// The mechanism's registered name, e.g. for MQTT 5's Authentication Method.
    pub const fn mechanism(self) -> &'static str {
        match self {
            ScramHash::Sha1 => "SCRAM-SHA-1",
            ScramHash::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// Octets of its values.
    pub(crate) fn len(self) -> usize {
        match self {
            ScramHash::Sha1 => 20,
            ScramHash::Sha256 => 32,
        }
    }

    /// `HMAC(key, parts[0] + parts[1] + …)`.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Key {
        fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
            let mut mac = <M as KeyInit>::new_from_slice(key)
                .expect("HMAC takes keys of any length (RFC 2104 §2)");
            parts.iter().for_each(|part| mac.update(part));
            mac
        }
        match self {
            ScramHash::Sha1 => {
                Key::of(mac::<Hmac<Sha1>>(key, parts).finalize().into_bytes().into())
            }
            ScramHash::Sha256 => Key::of(
                mac::<Hmac<Sha256>>(key, parts)
                    .finalize()
                    .into_bytes()
                    .into(),
            ),
        }
    }

    /// `H(key)`.
    pub(crate) fn hash(self, key: &Key) -> Key {
        match self {
            ScramHash::Sha1 => Key::of(Sha1::digest(&**key).into()),
            ScramHash::Sha256 => Key::of(Sha256::digest(&**key).into()),
        }
    }

    /// `Hi(password, salt, i)` of RFC 5802 §2.2, which is PBKDF2 with HMAC.
    pub(crate) fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> Key {
        match self {
            ScramHash::Sha1 => Key::of(pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(
                password, salt, iterations,
            )),
            ScramHash::Sha256 => Key::of(pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(
                password, salt, iterations,
            )),
        }
    }
}
