//! Subscriptions as prefixes of first frames, with a count of uses.

use std::collections::BTreeMap;

use thalweg_model::{Filter, octets};

use crate::presence;
use crate::transport::Refusal;

/// Prefixes, and how many need each.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    counts: BTreeMap<Box<[u8]>, u32>,
    bytes: usize,
}

/// Bytes that the table costs beside each text.
const ENTRY_BYTES: usize = 64;

impl Prefixes {
    /// Whether the prefix is new.
    pub(crate) fn add(&mut self, prefix: &[u8]) -> bool {
        let count = self.counts.entry(prefix.into()).or_insert(0);
        *count = count.saturating_add(1);
        let is_new = *count == 1;
        if is_new {
            self.bytes += prefix.len() + ENTRY_BYTES;
        }
        is_new
    }

    /// Whether no subscription needs the prefix any more.
    pub(crate) fn remove(&mut self, prefix: &[u8]) -> bool {
        let Some(count) = self.counts.get_mut(prefix) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(prefix);
            self.bytes -= prefix.len() + ENTRY_BYTES;
        }
        is_last
    }

    /// Bytes of memory of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether a first frame begins with one of them.
    pub(crate) fn match_frame(&self, frame: &[u8]) -> bool {
        self.counts.keys().any(|prefix| frame.starts_with(prefix))
    }

    /// Each once, in the order of their bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.counts.keys().map(|prefix| &**prefix)
    }

    pub(super) fn clear(&mut self) {
        *self = Prefixes::default();
    }
}

/// Returns the prefixes of the first frames that a filter matches; they often match others too.
///
/// `a/#` matches `a` as well. For a user who may read only `a/#`, the broker silently refuses the prefix `a`, so the
/// prefix of the levels below is sent besides it.
pub(super) fn of_filter(filter: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    if filter.starts_with("$share/") || filter.starts_with("$q/") {
        return Err(Refusal::Unsupported(
            "ZeroMQ has no shared subscriptions, and no queues with names",
        ));
    }
    if Filter::new(filter).is_err() {
        return Err(Refusal::Address);
    }
    if let Some(refusal) = presence::refusal(filter, false) {
        return Err(refusal);
    }
    let frame = |address: &str| {
        let mut out = Vec::new();
        octets::write(address, &mut out);
        out
    };
    let wildcard = filter
        .split('/')
        .scan(0, |at, level| {
            let begin = *at;
            *at += level.len() + 1;
            Some((begin, level))
        })
        .find(|(_, level)| matches!(*level, "+" | "#"));
    let Some((at, level)) = wildcard else {
        return Ok(vec![frame(filter)]);
    };
    let below = &filter[..at];
    Ok(match below.strip_suffix('/').filter(|_| level == "#") {
        Some(itself) => vec![frame(itself), frame(below)],
        None => vec![frame(below)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_the_prefix_before_its_first_wildcard() {
        for (filter, prefixes) in [
            ("a/b", &[&b"a/b"[..]][..]),
            ("a/+/c", &[b"a/"]),
            ("+/b", &[b""]),
            ("#", &[b""]),
            ("a/#", &[b"a", b"a/"]),
            ("a//#", &[b"a/", b"a//"]),
            ("a%2B/+", &[b"a+/"]),
        ] {
            assert_eq!(
                of_filter(filter).as_deref(),
                Ok(&prefixes.iter().map(|it| it.to_vec()).collect::<Vec<_>>()[..]),
                "{filter}"
            );
        }
        for filter in ["$share/g/a", "$q/work", "$presence/a"] {
            assert!(
                matches!(of_filter(filter), Err(Refusal::Unsupported(_))),
                "{filter}"
            );
        }
        assert_eq!(of_filter("a/#/b"), Err(Refusal::Address));
    }

    #[test]
    fn a_prefix_stands_until_the_last_that_needs_it_goes() {
        let mut prefixes = Prefixes::default();
        assert!(prefixes.add(b"a/") && !prefixes.add(b"a/"));
        assert!(prefixes.match_frame(b"a/b") && !prefixes.match_frame(b"a"));
        assert!(!prefixes.remove(b"a/") && prefixes.remove(b"a/") && !prefixes.remove(b"a/"));
        assert!(!prefixes.match_frame(b"a/b"));
    }
}
