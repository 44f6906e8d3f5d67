//! Where a message goes: a list of levels.

use std::fmt;
use std::sync::Arc;

/// Stands between two levels in the canonical rendering.
pub const LEVEL_SEPARATOR: u8 = b'/';

/// The tenant of peers that name none.
pub const TENANT_DEFAULT: u32 = 0;

/// The longest canonical rendering, in bytes (MQTT's own limit).
pub const ADDRESS_BYTES_MAX: usize = 65_535;

/// A list of UTF-8 levels, kept as its canonical rendering: levels joined by `/`.
///
/// Inside a level the bytes `/`, `+`, `#` and NUL are written `%2F`, `%2B`, `%23` and `%00`, and a `%` that would
/// otherwise be read as one of those (or as `%25`) is written `%25`. An MQTT topic name can hold none of these bytes
/// in a level, so it *is* its canonical rendering, byte for byte; other protocols' fronts escape on entry and
/// unescape on exit. Empty levels are legal. A first level that starts with `$` is reserved: no filter that begins
/// with a wildcard matches it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(Arc<str>);

/// Why some text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// An address has at least one byte.
    Empty,
    /// More than 65,535 bytes when rendered.
    TooLong,
    /// A wildcard character stands in it.
    Wildcard,
    /// It contains a NUL character.
    Nul,
}

impl Address {
    /// Checks a canonical rendering and keeps it.
    pub fn new(canonical: &str) -> Result<Self, AddressError> {
        Self::check(canonical)?;
        Ok(Address(canonical.into()))
    }

    /// Checks the rules of [`Address::new`] without allocating.
    pub fn check(canonical: &str) -> Result<(), AddressError> {
        if canonical.is_empty() {
            return Err(AddressError::Empty);
        }
        if canonical.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        for byte in canonical.bytes() {
            match byte {
                b'+' | b'#' => return Err(AddressError::Wildcard),
                0 => return Err(AddressError::Nul),
                _ => {}
            }
        }
        Ok(())
    }

    /// The canonical rendering, which is MQTT's topic name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels in order, still escaped.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split(LEVEL_SEPARATOR as char)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::Empty => "an address must not be empty",
            AddressError::TooLong => "an address holds at most 65,535 bytes",
            AddressError::Wildcard => {
                "an address to publish to must not contain a wildcard (+ or #)"
            }
            AddressError::Nul => "an address must not contain NUL",
        })
    }
}

impl std::error::Error for AddressError {}

/// The first level of a canonical rendering.
pub fn first_level(canonical: &str) -> &str {
    canonical
        .split(LEVEL_SEPARATOR as char)
        .next()
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_levels_are_levels() {
        let address = Address::new("/a//b/").expect("legal");
        assert_eq!(address.levels().collect::<Vec<_>>(), ["", "a", "", "b", ""]);
    }

    #[test]
    fn wildcards_nul_and_nothing_are_refused() {
        assert_eq!(Address::new("a/+"), Err(AddressError::Wildcard));
        assert_eq!(Address::new("a#"), Err(AddressError::Wildcard));
        assert_eq!(Address::new("a\0"), Err(AddressError::Nul));
        assert_eq!(Address::new(""), Err(AddressError::Empty));
        assert_eq!(
            Address::new(&"x".repeat(65_536)),
            Err(AddressError::TooLong)
        );
    }
}
