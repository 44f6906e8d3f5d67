//! Which addresses a subscription wants.

use std::fmt;
use std::sync::Arc;

/// A pattern over the levels of an [`Address`](crate::Address), kept as its canonical rendering (`+` one level, `#`
/// any number of levels, also none).
///
/// This step's protocols only place `#` last; the parser says so. A filter that begins with a wildcard never matches
/// an address whose first level starts with `$`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter(Arc<str>);

/// One level of a [`Filter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level<'a> {
    /// Exactly this text.
    Literal(&'a str),
    /// Any one level.
    One,
    /// Any number of levels, also none.
    Many,
}

/// Why some text is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// A filter has at least one byte.
    Empty,
    /// More than 65,535 bytes when rendered.
    TooLong,
    /// `+` shares its level with other characters.
    OneNotAlone,
    /// `#` shares its level with other characters or is not the last level.
    ManyNotLast,
    /// It contains NUL.
    Nul,
}

impl Filter {
    /// Checks a canonical rendering and keeps it.
    pub fn new(canonical: &str) -> Result<Self, FilterError> {
        Self::check(canonical)?;
        Ok(Filter(canonical.into()))
    }

    /// What [`Filter::new`] checks, without keeping anything.
    pub fn check(canonical: &str) -> Result<(), FilterError> {
        if canonical.is_empty() {
            return Err(FilterError::Empty);
        }
        if canonical.len() > crate::address::ADDRESS_BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        let mut ended = false;
        for level in canonical.split('/') {
            if ended {
                return Err(FilterError::ManyNotLast);
            }
            match level {
                "+" => {}
                "#" => ended = true,
                _ => {
                    for byte in level.bytes() {
                        match byte {
                            b'+' => return Err(FilterError::OneNotAlone),
                            b'#' => return Err(FilterError::ManyNotLast),
                            0 => return Err(FilterError::Nul),
                            _ => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The canonical rendering.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels in order.
    pub fn levels(&self) -> impl Iterator<Item = Level<'_>> {
        self.0.split('/').map(|level| match level {
            "+" => Level::One,
            "#" => Level::Many,
            text => Level::Literal(text),
        })
    }

    /// Whether a wildcard stands in it; without one it matches exactly the address that is spelled the same.
    pub fn has_wildcard(&self) -> bool {
        self.0.bytes().any(|byte| byte == b'+' || byte == b'#')
    }

    /// Whether it matches every address that `other`, a canonical rendering of a filter, matches.
    pub fn covers(&self, other: &str) -> bool {
        let begins_with_wildcard = matches!(self.levels().next(), Some(Level::One | Level::Many));
        if begins_with_wildcard && other.starts_with('$') {
            return false;
        }
        let mut theirs = other.split('/');
        for level in self.levels() {
            match (level, theirs.next()) {
                (Level::Many, _) => return true,
                (_, None) | (Level::One, Some("#")) => return false,
                (Level::One, Some(_)) => {}
                (Level::Literal(text), Some(their)) if text == their => {}
                (Level::Literal(_), Some(_)) => return false,
            }
        }
        theirs.next().is_none()
    }

    /// Whether it matches a canonical address: the plain definition that faster matchers are tested against.
    pub fn matches(&self, address: &str) -> bool {
        let begins_with_wildcard = matches!(self.levels().next(), Some(Level::One | Level::Many));
        if begins_with_wildcard && address.starts_with('$') {
            return false;
        }
        let mut levels = address.split('/');
        for wanted in self.levels() {
            match wanted {
                Level::Many => return true,
                Level::One => {
                    if levels.next().is_none() {
                        return false;
                    }
                }
                Level::Literal(text) => {
                    if levels.next() != Some(text) {
                        return false;
                    }
                }
            }
        }
        levels.next().is_none()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FilterError::Empty => "a filter must not be empty",
            FilterError::TooLong => "a filter holds at most 65,535 bytes",
            FilterError::OneNotAlone => "+ must stand alone in its level",
            FilterError::ManyNotLast => "# must stand alone in the last level",
            FilterError::Nul => "a filter must not contain NUL",
        })
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: &str, address: &str, expected: bool) {
        assert_eq!(
            Filter::new(filter).expect("legal").matches(address),
            expected,
            "{filter} on {address}"
        );
    }

    #[test]
    fn wildcards_match_levels() {
        check("a/b", "a/b", true);
        check("a/b", "a/b/c", false);
        check("a/+", "a/b", true);
        check("a/+", "a/", true);
        check("a/+", "a", false);
        check("+/+", "/finance", true);
        check("+", "/finance", false);
        check("a/#", "a", true);
        check("a/#", "a/b/c", true);
        check("a/#", "ab", false);
        check("#", "a/b", true);
        check("a/+/c", "a/b/c", true);
    }

    #[test]
    fn reserved_addresses_are_hidden_from_leading_wildcards() {
        check("#", "$SYS/x", false);
        check("+/x", "$SYS/x", false);
        check("$SYS/#", "$SYS/x", true);
        check("$SYS/+", "$SYS/x", true);
    }

    #[test]
    fn wildcards_must_stand_alone() {
        assert_eq!(Filter::new("a+"), Err(FilterError::OneNotAlone));
        assert_eq!(Filter::new("a/b#"), Err(FilterError::ManyNotLast));
        assert_eq!(Filter::new("a/#/b"), Err(FilterError::ManyNotLast));
        assert_eq!(Filter::new("#/"), Err(FilterError::ManyNotLast));
        assert_eq!(Filter::new(""), Err(FilterError::Empty));
        assert_eq!(Filter::new("a\0"), Err(FilterError::Nul));
    }

    #[test]
    fn a_filter_covers_those_that_want_no_more() {
        let covers = |filter: &str, other: &str| Filter::new(filter).expect("legal").covers(other);
        for (filter, other) in [
            ("a/b", "a/b"),
            ("a/+", "a/b"),
            ("a/+", "a/+"),
            ("a/#", "a"),
            ("a/#", "a/+/#"),
            ("#", "+/a"),
            ("$q/+", "$q/x"),
        ] {
            assert!(covers(filter, other), "{filter} {other}");
        }
        for (filter, other) in [
            ("a/b", "a/+"),
            ("a/+", "a/#"),
            ("a/+", "a"),
            ("a", "a/b"),
            ("a/b/#", "a/#"),
            ("#", "$q/x"),
            ("+/x", "$q/x"),
        ] {
            assert!(!covers(filter, other), "{filter} {other}");
        }
    }
}
