//! Keys, and the text that they are written as in configurations: Z85 (RFC 32).

use curve25519_dalek::MontgomeryPoint;

/// A secret key and its public one.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    pub(super) public: [u8; 32],
    pub(super) secret: [u8; 32],
}

impl KeyPair {
    /// The pair of this secret: any 32 octets that cannot be guessed.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        KeyPair {
            public: MontgomeryPoint::mul_base_clamped(secret).to_bytes(),
            secret,
        }
    }

    /// The public key, 32 octets, which need not be kept secret.
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }
}

impl std::fmt::Debug for KeyPair {
    /// The public key only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyPair({})", key_to_z85(&self.public))
    }
}

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// A key as 40 characters.
pub fn key_to_z85(key: &[u8; 32]) -> String {
    let digits = key.as_chunks::<4>().0.iter().flat_map(|chunk| {
        let value = u32::from_be_bytes(*chunk);
        [85 * 85 * 85 * 85, 85 * 85 * 85, 85 * 85, 85, 1].map(|unit| value / unit % 85)
    });
    digits
        .map(|digit| char::from(ALPHABET[digit as usize]))
        .collect()
}

/// The key that these 40 characters are; `None` if they are no key.
pub fn key_from_z85(text: &str) -> Option<[u8; 32]> {
    let text: &[u8; 40] = text.as_bytes().try_into().ok()?;
    let mut key = [0; 32];
    for (to, from) in key.chunks_exact_mut(4).zip(text.chunks_exact(5)) {
        let mut value = 0_u32;
        for character in from {
            let digit = ALPHABET.iter().position(|known| known == character)?;
            value = value.checked_mul(85)?.checked_add(digit as u32)?;
        }
        to.copy_from_slice(&value.to_be_bytes());
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z85_is_that_of_rfc_32_and_goes_both_ways() {
        // The test case of RFC 32, four times.
        let octets = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B].repeat(4);
        let key: [u8; 32] = octets.try_into().expect("32 octets");
        assert_eq!(key_to_z85(&key), "HelloWorld".repeat(4));
        assert_eq!(key_from_z85(&"HelloWorld".repeat(4)), Some(key));
        for wrong in [
            "",
            "HelloWorld",
            &"#".repeat(40),
            &"HelloWor~d".repeat(4),
            &"ü".repeat(20),
        ] {
            assert_eq!(key_from_z85(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_key_is_not_shown() {
        let keys = KeyPair::from_secret([7; 32]);
        assert!(!format!("{keys:?}").contains(&key_to_z85(&[7; 32])));
    }
}
