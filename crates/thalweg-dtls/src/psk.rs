//! The key file: what peers share with this server before they meet (RFC 4279).
//!
//! ```text
//! # identity:key        the key in hexadecimal digits, or as text between quotes
//! sensor-7:9f3c51d2a80b44e6b1c07d3e5a99f210
//! urn:dev:mac:0024befffe804ff1:"correct horse battery staple"
//! ```
//!
//! Blank lines and lines that begin with `#` say nothing. An identity may hold colons: the last one outside the quotes
//! ends it. Blanks around a line are dropped, those around the colon are not: they would be part of the identity.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ring::hmac;
use subtle::ConstantTimeEq;

/// The keys of a key file.
#[derive(Default)]
pub struct PskTable {
    entries: HashMap<Box<str>, Arc<PskEntry>>,
}

/// Error in a line of a key file, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PskFault {
    /// Counted from 1.
    pub line: usize,
    /// Description of the error.
    pub problem: String,
    /// Remedy of the error.
    pub mend: &'static str,
}

/// An identity and its key.
pub struct PskEntry {
    pub identity: Arc<str>,
    key: Box<[u8]>,
}

/// The longest identity and key that RFC 4279 §5.3 makes mandatory are 128 and 64 bytes; a little more is
/// let through.
const IDENTITY_BYTES_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 128;

impl PskTable {
    /// Reads a file's text; all its faults, if there are any. None of them quotes a key.
    pub fn parse(text: &str) -> Result<PskTable, Vec<PskFault>> {
        let (mut table, mut errors) = (PskTable::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err((problem, mend)) = table.take_line(line) {
                errors.push(PskFault {
                    line: index + 1,
                    problem,
                    mend,
                });
            }
        }
        if errors.is_empty() {
            Ok(table)
        } else {
            Err(errors)
        }
    }

    fn take_line(&mut self, line: &str) -> Result<(), (String, &'static str)> {
        const FORM: &str =
            "write `identity:` and the key in hexadecimal digits, or as text between quotes";
        let (identity, key) = match line
            .strip_suffix('"')
            .and_then(|line| line.split_once(":\""))
        {
            Some((identity, text)) => (identity, text.as_bytes().to_vec()),
            None => {
                let (identity, digits) = line
                    .rsplit_once(':')
                    .ok_or_else(|| ("there is no colon".into(), FORM))?;
                (
                    identity,
                    from_hex(digits).ok_or_else(|| ("the key is not hexadecimal".into(), FORM))?,
                )
            }
        };
        if identity.is_empty() || identity.len() > IDENTITY_BYTES_MAX {
            return Err((
                format!("an identity has 1 to {IDENTITY_BYTES_MAX} bytes"),
                "choose another one",
            ));
        }
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err((
                format!("a key has 1 to {KEY_BYTES_MAX} bytes"),
                "use 16 random bytes: `openssl rand -hex 16`",
            ));
        }
        if self.entries.contains_key(identity) {
            return Err((
                format!("there is a key for `{identity}` already"),
                "keep one of them",
            ));
        }
        let entry = PskEntry {
            identity: identity.into(),
            key: key.into(),
        };
        self.entries.insert(identity.into(), Arc::new(entry));
        Ok(())
    }

    /// Number of identities in the file.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The identities with keys shorter than so many bytes, in order.
    pub fn shorter_than(&self, bytes: usize) -> Vec<&str> {
        let short = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.key.len() < bytes);
        let mut short: Vec<&str> = short.map(|(identity, _)| &**identity).collect();
        short.sort_unstable();
        short
    }

    /// The entry of an identity as it came from the wire. Nobody's has a key, too, which no peer knows: the handshake
    /// goes on as with a wrong key and ends where that ends (RFC 4279 §2), so that asking does not tell who is known.
    pub(crate) fn entry(&self, identity: &[u8], secret: &[u8; 32]) -> Lookup {
        let known = std::str::from_utf8(identity)
            .ok()
            .and_then(|identity| self.entries.get(identity));
        let decoy = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), identity);
        match known {
            Some(entry) => Lookup {
                entry: Some(entry.clone()),
                secret: premaster(&entry.key),
            },
            None => Lookup {
                entry: None,
                secret: premaster(&decoy.as_ref()[..16]),
            },
        }
    }

    /// Whether an identity still has the key that it had.
    pub(crate) fn still_has(&self, entry: &PskEntry) -> bool {
        let now = self.entries.get(&*entry.identity);
        now.is_some_and(|now| now.key.ct_eq(&entry.key).into())
    }
}

/// Result of looking up an identity.
pub struct Lookup {
    /// `None`: the identity is unknown.
    pub entry: Option<Arc<PskEntry>>,
    /// The premaster secret (RFC 4279 §2).
    pub secret: Vec<u8>,
}

/// Zeros as long as the key, and the key, each behind its length.
pub fn premaster(key: &[u8]) -> Vec<u8> {
    let mut secret = Vec::with_capacity(4 + 2 * key.len());
    for part in [&vec![0; key.len()], key] {
        secret.extend_from_slice(&(part.len() as u16).to_be_bytes());
        secret.extend_from_slice(part);
    }
    secret
}

/// Says how many there are, and not which.
impl fmt::Debug for PskTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PskTable")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| (byte as char).to_digit(16);
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    if rest.is_empty() {
        bytes.collect()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: &PskTable, identity: &str) -> Option<Vec<u8>> {
        table.entries.get(identity).map(|entry| entry.key.to_vec())
    }

    #[test]
    fn keys_are_digits_or_text_and_identities_may_hold_colons() {
        let text =
            "# a remark\n\n dev1:00fFa5 \nurn:dev:os:7:\"a:b\\c \"\r\nplain:\"6869\"\nx:61\n";
        let table = PskTable::parse(text).unwrap();
        assert_eq!(table.len(), 4);
        for (identity, expected) in [
            ("dev1", &b"\0\xff\xa5"[..]),
            ("urn:dev:os:7", b"a:b\\c "),
            ("plain", b"6869"),
            ("x", b"a"),
        ] {
            assert_eq!(
                key(&table, identity).as_deref(),
                Some(expected),
                "{identity}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_without_the_key() {
        let text = "no colon\ndev1:xyz\ndev2:abc\ndev3:\n:6869\nok:6869\nok:6868\nempty:\"\"\n";
        let errors = PskTable::parse(text).unwrap_err();
        let lines: Vec<_> = errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 7, 8]);
        assert!(!format!("{errors:?}").contains("xyz"), "{errors:?}");
    }

    #[test]
    fn nobody_has_a_key_too_and_always_the_same() {
        let table = PskTable::parse("dev1:61").unwrap();
        let secret = |identity: &[u8], secret: u8| table.entry(identity, &[secret; 32]).secret;
        assert_eq!(secret(b"dev1", 1), [0, 1, 0, 0, 1, 0x61]);
        assert!(
            table.entry(b"dev2", &[1; 32]).entry.is_none()
                && table.entry(b"\xff", &[1; 32]).entry.is_none()
        );
        assert_eq!(secret(b"dev2", 1), secret(b"dev2", 1));
        assert!(
            secret(b"dev2", 1) != secret(b"dev3", 1) && secret(b"dev2", 1) != secret(b"dev2", 2)
        );
    }

    #[test]
    fn a_changed_key_is_noticed() {
        let table = |text| PskTable::parse(text).unwrap();
        let entry = table("dev1:61").entry(b"dev1", &[1; 32]).entry.unwrap();
        assert!(table("dev2:61\ndev1:61").still_has(&entry));
        assert!(!table("dev1:62").still_has(&entry) && !table("dev2:61").still_has(&entry));
    }
}
