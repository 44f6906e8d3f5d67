//! Names that the broker makes up: for sessions, queues and answers
//! ([ADR 0037](../../../docs/adr/0037-rights-hold-on-the-way.md)).
//!
//! Peers see some of them, and must not be able to derive others: a peer that can name a queue for replies may answer
//! there. So each is a keyed hash, which does not reveal the key.
//!
//! *Knows:* numbers and a key. *Must never know:* what is named.

use siphasher::sip128::SipHasher24;
use std::fmt;
use thalweg_model::syntax::write_level;

/// The address of something that only the broker makes, by its kind.
pub(crate) fn reserved_address(kind: char, tenant: &str, name: &str) -> String {
    let level = write_level(name);
    match tenant {
        "" => format!("${kind}/{level}"),
        _ => format!("${kind}@{tenant}/{level}"),
    }
}

/// Makes names for one connection.
#[derive(Clone, Copy)]
pub struct NameKey([u8; 16]);

impl NameKey {
    /// `secret` is the broker's and never leaves it; `nonce` is the connection's.
    pub(crate) fn new(secret: u64, nonce: u64) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&secret.to_le_bytes());
        key[8..].copy_from_slice(&nonce.to_le_bytes());
        NameKey(key)
    }

    /// The `number`th name for a purpose.
    pub fn name(&self, purpose: &str, number: u128) -> u128 {
        let mut bytes = Vec::with_capacity(16 + purpose.len());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(purpose.as_bytes());
        SipHasher24::new_with_key(&self.0).hash(&bytes).as_u128()
    }
}

impl fmt::Debug for NameKey {
    /// Says nothing of the key: what holds one may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_secret_nonce_purpose_and_number() {
        let key = NameKey::new(1, 2);
        let name = key.name("queue", 3);
        assert_eq!(name, NameKey::new(1, 2).name("queue", 3));
        for other in [
            NameKey::new(2, 2).name("queue", 3),
            NameKey::new(1, 1).name("queue", 3),
            key.name("client", 3),
            key.name("queue", 4),
        ] {
            assert_ne!(name, other);
        }
        assert_eq!(format!("{key:?}"), "NameKey");
    }
}
