//! Randomness out of a seed.

use ring::hmac;

/// Generator of random bytes from an unpredictable seed of 32 bytes. The seed is replaced with each use, so that
/// earlier output cannot be computed from the stored one.
pub struct Random([u8; 32]);

impl Random {
    pub fn new(seed: [u8; 32]) -> Random {
        Random(seed)
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let made = |label: &[u8]| {
            let mut bytes = [0; 32];
            bytes.copy_from_slice(hmac::sign(&key, label).as_ref());
            bytes
        };
        self.0 = made(b"next");
        made(b"bytes")
    }
}
