//! Filters: which addresses a subscription matches.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A pattern over [`Address`](crate::Address)es, kept as its canonical rendering. It is of one of two kinds:
///
/// - *levels*: `+` is one level, `#` any number of levels, also none;
/// - *a prefix* of the canonical address, byte by byte. Its rendering ends with [`PREFIX_END`], which no other filter
///   holds, so a rendering alone says of which kind a filter is: in tables, in mail between shards and in records.
///
/// This step's protocols only place `#` last; the parser says so. A filter that begins with a wildcard, and the empty
/// prefix, never match an address whose first level starts with `$`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter(Arc<str>);

/// Ends the rendering of a prefix. Neither an address nor a filter of levels can hold it.
pub const PREFIX_END: char = '\0';

/// Kind of a filter's matching; see [`kind_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Levels without a wildcard: the one address that is spelled the same.
    Exact,
    /// Levels of which some are wildcards.
    Wild,
    /// Addresses that begin with certain bytes.
    Prefix,
}

/// The kind of a filter, by its canonical rendering.
#[inline]
pub fn kind_of(canonical: &str) -> FilterKind {
    if canonical.ends_with(PREFIX_END) {
        FilterKind::Prefix
    } else if canonical.bytes().any(|byte| byte == b'+' || byte == b'#') {
        FilterKind::Wild
    } else {
        FilterKind::Exact
    }
}

/// Prefix of the addresses of a prefix filter; `None` for a filter of levels.
#[inline]
pub fn prefix_of(canonical: &str) -> Option<&str> {
    canonical.strip_suffix(PREFIX_END)
}

/// One level of a [`Filter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level<'a> {
    /// A level with exactly this text.
    Literal(&'a str),
    /// Any one level, also an empty one.
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
    /// It contains a NUL character.
    Nul,
    /// A prefix that ends within a first level that starts with `$`: it would reach into several reserved trees.
    ReservedInPart,
}

impl Filter {
    /// A filter of all addresses that begin with `prefix`. A wildcard character in it is refused as in an address.
    pub fn prefix(prefix: &str) -> Result<Self, FilterError> {
        let mut rendering = String::with_capacity(prefix.len() + 1);
        rendering.push_str(prefix);
        rendering.push(PREFIX_END);
        Self::from_canonical(&rendering)
    }

    /// Checks a canonical rendering of either kind and keeps it.
    pub fn from_canonical(canonical: &str) -> Result<Self, FilterError> {
        match prefix_of(canonical) {
            Some(prefix) => Self::check_prefix(prefix)?,
            None => Self::check(canonical)?,
        }
        Ok(Filter(canonical.into()))
    }

    fn check_prefix(prefix: &str) -> Result<(), FilterError> {
        if prefix.len() > crate::address::ADDRESS_BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        if prefix.starts_with('$') && !prefix.contains('/') {
            return Err(FilterError::ReservedInPart);
        }
        prefix.bytes().try_for_each(|byte| match byte {
            b'+' => Err(FilterError::OneNotAlone),
            b'#' => Err(FilterError::ManyNotLast),
            0 => Err(FilterError::Nul),
            _ => Ok(()),
        })
    }

    /// Checks a canonical rendering of levels and keeps it.
    pub fn new(canonical: &str) -> Result<Self, FilterError> {
        Self::check(canonical)?;
        Ok(Filter(canonical.into()))
    }

    /// Checks the rules of [`Filter::new`] without allocating.
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

    /// The canonical rendering, which is MQTT's topic filter.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels in order; of a prefix, the last one is the text that it ends with and its mark.
    pub fn levels(&self) -> impl Iterator<Item = Level<'_>> {
        self.0.split('/').map(|level| match level {
            "+" => Level::One,
            "#" => Level::Many,
            text => Level::Literal(text),
        })
    }

    /// Whether it is a prefix or a wildcard stands in it; otherwise it matches exactly the address that is spelled the
    /// same.
    pub fn has_wildcard(&self) -> bool {
        kind_of(&self.0) != FilterKind::Exact
    }

    /// Whether it matches every address that `other`, a canonical rendering of a filter of levels, matches.
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

    /// Whether there is an address that it and `other`, a canonical rendering of a filter of levels, both match.
    pub fn meets(&self, other: &str) -> bool {
        let is_wild = |filter: &str| matches!(filter.split('/').next(), Some("+" | "#"));
        let is_apart = |a: &str, b: &str| is_wild(a) && b.starts_with('$');
        if is_apart(&self.0, other) || is_apart(other, &self.0) {
            return false;
        }
        let (mut ours, mut theirs) = (self.0.split('/'), other.split('/'));
        loop {
            match (ours.next(), theirs.next()) {
                (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
                (Some("+"), Some(_)) | (Some(_), Some("+")) => {}
                (Some(our), Some(their)) if our == their => {}
                _ => return false,
            }
        }
    }

    /// Whether it matches a canonical address: the plain definition that faster matchers are tested against.
    pub fn matches(&self, address: &str) -> bool {
        if let Some(prefix) = prefix_of(&self.0) {
            return address.starts_with(prefix) && !(prefix.is_empty() && address.starts_with('$'));
        }
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
        f.write_str(&shown(&self.0))
    }
}

/// Readable form of a filter: levels as they are, a prefix as `prefix:` and the beginning of the addresses.
pub fn shown(canonical: &str) -> Cow<'_, str> {
    match prefix_of(canonical) {
        Some(prefix) => format!("prefix:{prefix}").into(),
        None => canonical.into(),
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
            FilterError::ReservedInPart => {
                "a prefix that begins with $ must name the whole first level"
            }
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
    fn filters_meet_where_an_address_matches_both() {
        for (one, other, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/c", false),
            ("a/+", "a/b", true),
            ("+/b", "a/+", true),
            ("+/b", "a/c", false),
            ("a/#", "a", true),
            ("a/#", "+/b/c", true),
            ("a/#", "b/#", false),
            ("a/b", "a", false),
            ("#", "$q/x", false),
            ("$q/+", "$q/x", true),
            ("+/x", "$q/#", false),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let filter = Filter::new(one).expect("legal");
                assert_eq!(filter.meets(other), expected, "{one} and {other}");
            }
        }
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
    fn a_prefix_matches_byte_by_byte_and_the_empty_one_hides_reserved_addresses() {
        let matches = |prefix: &str, address: &str| {
            let filter = Filter::prefix(prefix).expect("legal");
            assert_eq!(Filter::from_canonical(filter.as_str()), Ok(filter.clone()));
            assert_eq!(kind_of(filter.as_str()), FilterKind::Prefix);
            filter.matches(address)
        };
        assert!(matches("plant/ha", "plant/hall/3"));
        assert!(matches("plant/ha", "plant/ha"));
        assert!(matches("plant/", "plant/x"));
        assert!(!matches("plant/", "plant"));
        assert!(matches("", "plant"));
        assert!(!matches("", "$SYS/x"));
        assert!(matches("$SYS/", "$SYS/x"));
        assert_eq!(Filter::prefix("$S"), Err(FilterError::ReservedInPart));
        assert_eq!(Filter::prefix("a+"), Err(FilterError::OneNotAlone));
        assert_eq!(Filter::prefix("a#/"), Err(FilterError::ManyNotLast));
        assert_eq!(Filter::prefix("a\0b"), Err(FilterError::Nul));
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
