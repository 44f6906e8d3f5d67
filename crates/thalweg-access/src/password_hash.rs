//! One stored password, in any of the forms a password file may hold.
//!
//! ```text
//! $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH        ours: PHC string, base64 without padding
//! $7$ITERATIONS$SALT$HASH                         mosquitto: PBKDF2-HMAC-SHA512
//! $6$SALT$HASH                                    mosquitto: SHA-512 of password and salt
//! SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY   RFC 5803's idea of a SCRAM verifier
//! ```

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha512};
use std::fmt;
use subtle::ConstantTimeEq;
use thalweg_scram::ScramVerifier;

/// A stored password that others can be compared with, in constant time. It never shows its contents.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Argon2id {
        params: Params,
        salt: Box<[u8]>,
        hash: Box<[u8]>,
    },
    Pbkdf2Sha512 {
        iterations: u32,
        salt: Box<[u8]>,
        hash: Box<[u8]>,
    },
    Sha512 {
        salt: Box<[u8]>,
        hash: Box<[u8]>,
    },
    Scram(ScramVerifier),
}

impl PasswordHash {
    /// Reads what stands behind `user:` in a password file; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = if let Some(rest) = text.strip_prefix("$argon2id$") {
            parse_argon2id(rest)?
        } else if let Some(rest) = text.strip_prefix("$7$") {
            parse_pbkdf2(rest)?
        } else if let Some(rest) = text.strip_prefix("$6$") {
            parse_sha512(rest)?
        } else if text.starts_with(ScramVerifier::PREFIX) {
            Form::Scram(ScramVerifier::parse(text)?)
        } else if text.is_empty() {
            return Err("the password is missing".into());
        } else if let Some(kind) = text
            .strip_prefix('$')
            .and_then(|rest| rest.split('$').next())
        {
            return Err(format!("the kind of hash \"${kind}$\" is not known"));
        } else {
            return Err("this is not a hash; passwords in clear text are not read".into());
        };
        Ok(PasswordHash(form))
    }

    /// Whether `password` is the stored one. Costs what the stored form asks for, whatever the answer is.
    pub fn verify(&self, password: &[u8]) -> bool {
        match &self.0 {
            Form::Argon2id { params, salt, hash } => {
                let mut computed = vec![0; hash.len()];
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
                // It can only fail for want of memory, and then the log-in is refused.
                argon2
                    .hash_password_into(password, salt, &mut computed)
                    .is_ok()
                    && equal(&computed, hash)
            }
            Form::Pbkdf2Sha512 {
                iterations,
                salt,
                hash,
            } => {
                let mut computed = vec![0; hash.len()];
                pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, *iterations, &mut computed);
                equal(&computed, hash)
            }
            Form::Sha512 { salt, hash } => {
                let computed = Sha512::new()
                    .chain_update(password)
                    .chain_update(salt)
                    .finalize();
                equal(&computed, hash)
            }
            Form::Scram(verifier) => verifier.verify(password),
        }
    }

    /// The SCRAM verifier, if that is what is stored.
    pub fn scram(&self) -> Option<&ScramVerifier> {
        match &self.0 {
            Form::Scram(verifier) => Some(verifier),
            _ => None,
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Form::Argon2id { .. } => "PasswordHash(argon2id)",
            Form::Pbkdf2Sha512 { .. } => "PasswordHash(pbkdf2-sha512)",
            Form::Sha512 { .. } => "PasswordHash(sha512)",
            Form::Scram(_) => "PasswordHash(scram-sha-256)",
        })
    }
}

/// Hashes a password for a password file: argon2id with a fresh salt, as a PHC string. Takes tens of milliseconds.
pub fn hash_password(password: &[u8]) -> std::io::Result<String> {
    let mut salt = [0; SALT_BYTES];
    fill_random(&mut salt)?;
    let mut hash = [0; HASH_BYTES];
    let (memory, passes, lanes) = (
        Params::DEFAULT_M_COST,
        Params::DEFAULT_T_COST,
        Params::DEFAULT_P_COST,
    );
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
        .hash_password_into(password, &salt, &mut hash)
        .map_err(|error| std::io::Error::other(format!("hashing failed: {error}")))?;
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    Ok(format!(
        "$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}"
    ))
}

/// Fills `bytes` with randomness from the operating system.
pub(super) fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    SystemRandom::new()
        .fill(bytes)
        .map_err(|_| std::io::Error::other("the system gave no randomness"))
}

fn equal(computed: &[u8], stored: &[u8]) -> bool {
    computed.ct_eq(stored).into()
}

fn parse_argon2id(rest: &str) -> Result<Form, String> {
    let mut fields = rest.split('$');
    let mut field = |name: &str| {
        fields
            .next()
            .ok_or_else(|| format!("the argon2id hash has no {name}"))
    };
    if field("version")? != "v=19" {
        return Err("the argon2id hash is not of version 19 (v=19)".into());
    }
    let costs = field("costs")?;
    let (salt, hash) = (field("salt")?, field("hash")?);
    if fields.next().is_some() {
        return Err("the argon2id hash has too many fields".into());
    }
    let mut numbers = costs.split(',');
    let mut cost = |name: &str, limit: u32| {
        let text = numbers
            .next()
            .and_then(|number| number.strip_prefix(name)?.strip_prefix('='));
        let number = text.and_then(|text| text.parse::<u32>().ok());
        let number = number.ok_or_else(|| {
            format!("the argon2id costs \"{costs}\" are not of the form m=…,t=…,p=…")
        })?;
        match number <= limit {
            true => Ok(number),
            false => Err(format!(
                "the argon2id cost {name}={number} is above the limit of {limit}"
            )),
        }
    };
    let (memory, passes, lanes) = (
        cost("m", ARGON2_KIB_LIMIT)?,
        cost("t", ARGON2_PASSES_LIMIT)?,
        cost("p", ARGON2_LANES_LIMIT)?,
    );
    if numbers.next().is_some() {
        return Err(format!(
            "the argon2id costs \"{costs}\" hold more than m, t and p"
        ));
    }
    let salt = decode_unpadded(salt, "salt", argon2::MIN_SALT_LEN)?;
    let hash = decode_unpadded(hash, "hash", ARGON2_HASH_BYTES_MIN)?;
    let params = Params::new(memory, passes, lanes, Some(hash.len()))
        .map_err(|error| format!("the argon2id costs \"{costs}\" cannot be used: {error}"))?;
    Ok(Form::Argon2id { params, salt, hash })
}

fn parse_pbkdf2(rest: &str) -> Result<Form, String> {
    let [iterations, salt, hash] =
        fields(rest).ok_or("a $7$ hash has the form $7$iterations$salt$hash")?;
    let iterations = iterations
        .parse::<u32>()
        .ok()
        .filter(|count| (1..=PBKDF2_ITERATIONS_LIMIT).contains(count));
    let iterations = iterations.ok_or_else(|| {
        format!("the iterations of a $7$ hash are 1 to {PBKDF2_ITERATIONS_LIMIT}")
    })?;
    Ok(Form::Pbkdf2Sha512 {
        iterations,
        salt: decode(salt, "salt")?,
        hash: decode_sha512(hash)?,
    })
}

fn parse_sha512(rest: &str) -> Result<Form, String> {
    let [salt, hash] = fields(rest).ok_or("a $6$ hash has the form $6$salt$hash")?;
    Ok(Form::Sha512 {
        salt: decode(salt, "salt")?,
        hash: decode_sha512(hash)?,
    })
}

fn fields<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split('$').collect::<Vec<_>>().try_into().ok()
}

fn decode(text: &str, name: &str) -> Result<Box<[u8]>, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| format!("the {name} is not base64"))?;
    match bytes.is_empty() {
        true => Err(format!("the {name} is empty")),
        false => Ok(bytes.into()),
    }
}

fn decode_sha512(text: &str) -> Result<Box<[u8]>, String> {
    let hash = decode(text, "hash")?;
    match hash.len() {
        64 => Ok(hash),
        other => Err(format!(
            "the hash holds {other} bytes instead of 64: the line is cut short"
        )),
    }
}

fn decode_unpadded(text: &str, name: &str, bytes_min: usize) -> Result<Box<[u8]>, String> {
    let bytes = STANDARD_NO_PAD
        .decode(text)
        .map_err(|_| format!("the {name} is not base64 without padding"))?;
    match bytes.len() {
        length if length < bytes_min => Err(format!(
            "the {name} holds {length} bytes instead of {bytes_min} or more"
        )),
        length if length > ARGON2_FIELD_BYTES_LIMIT => Err(format!(
            "the {name} holds {length} bytes, more than {ARGON2_FIELD_BYTES_LIMIT}"
        )),
        _ => Ok(bytes.into()),
    }
}

/// Fresh salts hold this many bytes.
const SALT_BYTES: usize = 16;

/// Fresh argon2id hashes hold this many bytes.
const HASH_BYTES: usize = 32;

/// The most memory one verification may take, in KiB: a slip in the file must not bring the machine down.
const ARGON2_KIB_LIMIT: u32 = 262_144;

/// The most passes over that memory.
const ARGON2_PASSES_LIMIT: u32 = 64;

const ARGON2_LANES_LIMIT: u32 = 64;

/// The shortest argon2id hash: fewer bytes could be met by chance.
const ARGON2_HASH_BYTES_MIN: usize = 16;

/// The longest argon2id salt or hash.
const ARGON2_FIELD_BYTES_LIMIT: usize = 128;

/// The most iterations of a `$7$` hash, some seconds of work.
const PBKDF2_ITERATIONS_LIMIT: u32 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &str, password: &[u8], expected: bool) {
        assert_eq!(
            PasswordHash::parse(stored).expect(stored).verify(password),
            expected,
            "{stored}"
        );
    }

    /// Made once with `mosquitto_passwd` 2.0.11 (`-b`, and `-H sha512 -b`).
    const MOSQUITTO_7: &str = "$7$101$s8tBNlcCb1oR0ol7$4N9eqYgSXkQJWl/DKS/XHK6z3pZpP9ziluJgqOFk4FwNS+rwjXHtz036sa153GDV53M0joOIP5zt/WcSQW3+fQ==";
    const MOSQUITTO_7_UTF8: &str = "$7$101$6nAWvMB1YQSwSRw1$qXIH1R+NXtnm46tVzOZlgp9vIklYjrjVlkNGBDClyAR/UaN+n+Erp2I4kagSiAZ/9hLGp2GDNs6R4myJ6bpwmg==";
    const MOSQUITTO_6: &str = "$6$rsZ13T8sfB4kmiu6$EHp8he1qYgYrB6ttPR4WiLGrAWXZOJJn19CJg1k3NgZjJPx5SlxPFU018sqcWx9M6vUy9du0hFG696c4HpcPVw==";

    #[test]
    fn hashes_made_by_mosquitto_are_understood() {
        check(MOSQUITTO_7, b"correct horse", true);
        check(MOSQUITTO_7, b"correct horsf", false);
        check(MOSQUITTO_7, b"", false);
        check(MOSQUITTO_7_UTF8, "pässwörd:mit$".as_bytes(), true);
        check(MOSQUITTO_7_UTF8, b"correct horse", false);
        check(MOSQUITTO_6, b"salted6", true);
        check(MOSQUITTO_6, b"salted", false);
    }

    #[test]
    fn a_hash_of_ours_verifies_its_password_and_no_other() {
        let stored = hash_password("ein Paßwort".as_bytes()).expect("hashed");
        assert!(
            stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{stored}"
        );
        check(&stored, "ein Paßwort".as_bytes(), true);
        check(&stored, b"ein Passwort", false);
        assert_ne!(
            stored,
            hash_password("ein Paßwort".as_bytes()).expect("hashed"),
            "salts differ"
        );
    }

    #[test]
    fn an_argon2id_hash_made_elsewhere_is_understood() {
        // The reference implementation's own test: version 0x13, t=2, m=2^16, p=1, "password", "somesalt".
        let reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        check(reference, b"password", true);
        check(reference, b"passwore", false);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_reason() {
        let table = [
            ("", "the password is missing"),
            ("secret", "clear text"),
            ("$5$abc$def", "\"$5$\" is not known"),
            ("$7$101$onlysalt", "$7$iterations$salt$hash"),
            ("$7$0$AAAA$AAAA", "iterations"),
            ("$7$4000000000$AAAA$AAAA", "iterations"),
            ("$7$101$AAAA$AAAA", "cut short"),
            ("$6$!!$AAAA", "salt is not base64"),
            ("$argon2id$v=16$m=8,t=1,p=1$AAAA$AAAA", "version 19"),
            (
                "$argon2id$v=19$m=4000000,t=1,p=1$AAAA$AAAA",
                "above the limit",
            ),
            ("$argon2id$v=19$t=1,m=8,p=1$AAAA$AAAA", "m=…,t=…,p=…"),
            ("$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ", "has no hash"),
            (
                "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAA",
                "instead of 16 or more",
            ),
        ];
        for (stored, expected) in table {
            let error = PasswordHash::parse(stored).expect_err(stored);
            assert!(error.contains(expected), "{stored}: {error}");
        }
    }

    #[test]
    fn debug_output_tells_nothing() {
        assert_eq!(
            format!("{:?}", PasswordHash::parse(MOSQUITTO_6).expect("legal")),
            "PasswordHash(sha512)"
        );
    }
}
