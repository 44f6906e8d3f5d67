//! Numbers that cannot be guessed.

use ring::rand::{SecureRandom, SystemRandom};

/// Fills `bytes` from the operating system.
pub(crate) fn fill(bytes: &mut [u8]) {
    // The system's source fails only before it is seeded at boot; then nothing secure can be started anyway.
    SystemRandom::new()
        .fill(bytes)
        .expect("the operating system has random numbers");
}

pub(crate) fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
