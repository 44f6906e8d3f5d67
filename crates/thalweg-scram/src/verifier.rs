//! What a server keeps instead of a password.

use super::{ITERATIONS_LIMIT, ITERATIONS_MIN, Key, ScramHash};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use subtle::ConstantTimeEq;

/// Salt, iterations and the two keys of RFC 5802 §3. Whoever steals it cannot log in with it, but can pretend to be
/// the server. Debug output hides the keys; [`fmt::Display`] writes the password file's form.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    pub(super) hash: ScramHash,
    pub(super) iterations: u32,
    pub(super) salt: Box<[u8]>,
    pub(super) stored_key: Key,
    pub(super) server_key: Key,
}

impl ScramVerifier {
    /// How the stored form begins.
    pub const PREFIX: &'static str = "SCRAM-SHA-256$";

    /// Derives the verifier of a password; costs `iterations` (4,096 to 2,000,000; others are clamped) times an HMAC.
    pub fn derive(hash: ScramHash, password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let iterations = iterations.clamp(ITERATIONS_MIN, ITERATIONS_LIMIT);
        let salted = hash.salted_password(password, salt, iterations);
        ScramVerifier {
            hash,
            iterations,
            salt: salt.into(),
            stored_key: hash.hash(&hash.hmac(&salted, &[b"Client Key"])),
            server_key: hash.hmac(&salted, &[b"Server Key"]),
        }
    }

    /// A verifier that no password meets, looking like `like`'s: what an unknown user is answered with. The same name
    /// and secret give the same salt each time, as a known user's would be.
    pub fn fake(secret: &[u8; 32], user: &str, like: Option<&ScramVerifier>) -> Self {
        let hash = like.map_or(ScramHash::Sha256, |like| like.hash);
        let salt_bytes = like.map_or(SALT_BYTES, |like| like.salt.len());
        let mut salt = Vec::with_capacity(salt_bytes + hash.len());
        for block in 0u32.. {
            if salt.len() >= salt_bytes {
                break;
            }
            salt.extend_from_slice(&hash.hmac(
                secret,
                &[b"fake salt", &block.to_be_bytes(), user.as_bytes()],
            ));
        }
        salt.truncate(salt_bytes);
        ScramVerifier {
            hash,
            iterations: like.map_or(ITERATIONS_MIN, |like| like.iterations),
            salt: salt.into(),
            stored_key: hash.hmac(secret, &[b"fake stored key", user.as_bytes()]),
            server_key: hash.hmac(secret, &[b"fake server key", user.as_bytes()]),
        }
    }

    /// Whether a password sent in the clear is the one this was derived from; in constant time.
    pub fn verify(&self, password: &[u8]) -> bool {
        let derived = Self::derive(self.hash, password, &self.salt, self.iterations);
        derived.stored_key.ct_eq(&*self.stored_key).into()
    }

    /// Reads `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "a SCRAM verifier has the form SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey";
        let (costs, keys) = text
            .strip_prefix(Self::PREFIX)
            .and_then(|rest| rest.split_once('$'))
            .ok_or(FORM)?;
        let (iterations, salt) = costs.split_once(':').ok_or(FORM)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(FORM)?;
        let iterations = iterations
            .parse()
            .ok()
            .filter(|count| (ITERATIONS_MIN..=ITERATIONS_LIMIT).contains(count));
        let salt = STANDARD
            .decode(salt)
            .map_err(|_| "the SCRAM salt is not base64")?;
        if salt.is_empty() || salt.len() > SALT_BYTES_LIMIT {
            return Err(format!(
                "the SCRAM salt holds {} bytes instead of 1 to {SALT_BYTES_LIMIT}",
                salt.len()
            ));
        }
        Ok(ScramVerifier {
            hash: ScramHash::Sha256,
            iterations: iterations.ok_or_else(|| {
                format!("the SCRAM iterations are not {ITERATIONS_MIN} to {ITERATIONS_LIMIT} (RFC 7677 §4)")
            })?,
            salt: salt.into(),
            stored_key: parse_key(stored_key)?,
            server_key: parse_key(server_key)?,
        })
    }
}

impl fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&*self.salt, &*self.stored_key, &*self.server_key].map(|b| STANDARD.encode(b));
        write!(
            f,
            "{}${}:{salt}${stored}:{server}",
            self.hash.mechanism(),
            self.iterations
        )
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramVerifier")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

fn parse_key(text: &str) -> Result<Key, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| "a SCRAM key is not base64")?;
    Key::new(ScramHash::Sha256, &bytes)
        .ok_or_else(|| format!("a SCRAM key holds {} bytes instead of 32", bytes.len()))
}

/// Salts of unknown users hold this many bytes where there is no known user to look like.
const SALT_BYTES: usize = 16;

/// The longest salt that is read.
const SALT_BYTES_LIMIT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn example_verifier() -> ScramVerifier {
        ScramVerifier::derive(
            ScramHash::Sha256,
            example::PASSWORD,
            &STANDARD.decode(example::SALT).expect("base64"),
            4096,
        )
    }

    #[test]
    fn the_stored_form_reads_back() {
        let verifier = example_verifier();
        assert_eq!(
            verifier.to_string(),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert_eq!(ScramVerifier::parse(&verifier.to_string()), Ok(verifier));
    }

    #[test]
    fn a_password_in_the_clear_can_be_verified_too() {
        assert!(example_verifier().verify(b"pencil"));
        assert!(!example_verifier().verify(b"pencils"));
    }

    #[test]
    fn a_fake_looks_like_a_real_one_and_is_the_same_each_time() {
        let real = ScramVerifier::derive(ScramHash::Sha256, b"x", &[7; 40], 5000);
        let fake = ScramVerifier::fake(&[1; 32], "nobody", Some(&real));
        assert_eq!((fake.iterations, fake.salt.len()), (5000, 40));
        assert_eq!(fake, ScramVerifier::fake(&[1; 32], "nobody", Some(&real)));
        assert_ne!(
            fake.salt,
            ScramVerifier::fake(&[1; 32], "nobody else", Some(&real)).salt
        );
        assert_ne!(
            fake.salt,
            ScramVerifier::fake(&[2; 32], "nobody", Some(&real)).salt
        );
    }

    #[test]
    fn damaged_verifiers_are_refused_with_their_reason() {
        let good = example_verifier().to_string();
        for (stored, expected) in [
            (good.replace("4096:", "4095:"), "iterations"),
            (good.replace("4096:", "99999999:"), "iterations"),
            (good.replace("W22Z", "W2_Z"), "salt is not base64"),
            (good.replace("WG5d8oPm", ""), "instead of 32"),
            (good.replace(":wfPL", ""), "the form"),
        ] {
            let error = ScramVerifier::parse(&stored).expect_err(&stored);
            assert!(error.contains(expected), "{stored}: {error}");
        }
    }
}
