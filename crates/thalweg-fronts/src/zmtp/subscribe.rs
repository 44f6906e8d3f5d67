//! Subscriptions of SUB: prefixes of first frames.

use super::{ZmtpFront, address};
use crate::front::{Cx, Variant};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use thalweg_filter::{FilterError, Predicate};
use thalweg_kernel::{LastValueWish, SessionId, Wish};
use thalweg_model::{Filter, Reliability};

/// What a peer wants.
#[derive(Default)]
pub(super) struct Subscriptions {
    prefixes: Prefixes,
    /// Filters that the kernel has for them.
    filters: BTreeMap<Box<str>, Needs>,
    /// Subscriptions with a content filter, and how often the peer has subscribed to each.
    conditional: BTreeMap<Box<[u8]>, u32>,
    /// How many prefixes want less than their filters bring.
    inexact: usize,
    bytes: usize,
    /// What begins with a prefix is not wanted, and all else is.
    is_inverted: bool,
}

/// Prefixes, and how often the peer has subscribed to each.
///
/// A frame is looked at once, whatever they are: a digest of its beginning is carried from each length that one of them has to
/// the next. The digest is a polynomial over the integers modulo 2^61 - 1 with a secret base, so that a peer cannot
/// make two texts alike.
struct Prefixes {
    counts: BTreeMap<Box<[u8]>, u32>,
    /// How many have each length.
    lengths: BTreeMap<usize, u32>,
    /// How many have each length and digest: nearly always one.
    digests: HashMap<(usize, u64), u32>,
    base: u64,
}

/// What needs a filter of the kernel's.
#[derive(Default)]
struct Needs {
    /// How many prefixes without a content filter.
    prefixes: u32,
    /// Content filters of which one must be true, unless a prefix needs it as well.
    conditions: Vec<Box<str>>,
}

/// The filters of a prefix.
struct Wanted {
    filters: Vec<Box<str>>,
    is_exact: bool,
}

/// What the tables cost beside the text.
const ENTRY_BYTES: usize = 160;

const NO_MEMORY: &str = "there is no memory for one subscription more";
const TOO_LONG: &str = "the content filters of one prefix are together longer than a filter may be";
/// Messages of one frame are compared with their prefixes where they are delivered, all together.
const ONE_FRAME: &str =
    "a peer with content filters has prefixes without separators, and none inverted";

/// 2^61 - 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;

impl Default for Prefixes {
    fn default() -> Self {
        Prefixes {
            counts: BTreeMap::new(),
            lengths: BTreeMap::new(),
            digests: HashMap::new(),
            base: RandomState::new().build_hasher().finish() % MODULUS,
        }
    }
}

impl Prefixes {
    /// Adds one; false if it is there already, once more from now on.
    fn add(&mut self, prefix: &[u8]) -> bool {
        if let Some(count) = self.counts.get_mut(prefix) {
            *count = count.saturating_add(1);
            return false;
        }
        self.counts.insert(prefix.into(), 1);
        let key = (prefix.len(), self.digest(0, prefix));
        *self.lengths.entry(key.0).or_insert(0) += 1;
        *self.digests.entry(key).or_insert(0) += 1;
        true
    }

    /// Takes one back; whether it was the last of its kind.
    fn remove(&mut self, prefix: &[u8]) -> bool {
        let Some(count) = self.counts.get_mut(prefix) else {
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.counts.remove(prefix);
        let key = (prefix.len(), self.digest(0, prefix));
        if let Some(count) = self.lengths.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&key.0);
            }
        }
        if let Some(count) = self.digests.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.digests.remove(&key);
            }
        }
        true
    }

    /// The digest of a text of which `begun` is that of the beginning.
    fn digest(&self, begun: u64, rest: &[u8]) -> u64 {
        rest.iter().fold(begun, |digest, byte| {
            let next = u128::from(digest) * u128::from(self.base) + u128::from(*byte) + 1;
            // 2^61 is 1 here.
            let folded = (next as u64 & MODULUS) + (next >> 61) as u64;
            folded.checked_sub(MODULUS).unwrap_or(folded)
        })
    }

    /// Whether a frame begins with one of them.
    fn have_one_of(&self, frame: &[u8]) -> bool {
        let (mut digest, mut at) = (0, 0);
        for &len in self.lengths.keys() {
            let (Some(beginning), Some(more)) = (frame.get(..len), frame.get(at..len)) else {
                return false;
            };
            digest = self.digest(digest, more);
            at = len;
            if self.digests.contains_key(&(len, digest)) && self.counts.contains_key(beginning) {
                return true;
            }
        }
        false
    }
}

impl Subscriptions {
    pub(super) fn new(is_inverted: bool) -> Self {
        Subscriptions {
            is_inverted,
            inexact: usize::from(is_inverted),
            ..Subscriptions::default()
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a first frame begins with one of the prefixes. Cheap where the filters say it all.
    pub(super) fn want(&self, frame: &[u8]) -> bool {
        self.inexact == 0 || self.prefixes.have_one_of(frame) != self.is_inverted
    }

    /// Whether deliveries have to be looked at: [`Subscriptions::want`] is not always true.
    #[inline]
    pub(super) fn are_inexact(&self) -> bool {
        self.inexact > 0
    }

    /// What a prefix needs of the kernel; nothing where all comes anyway.
    fn wanted(&self, prefix: &[u8], separators: &[u8]) -> Wanted {
        match self.is_inverted {
            true => Wanted {
                filters: Vec::new(),
                is_exact: true,
            },
            false => Wanted::of(prefix, separators),
        }
    }
}

impl Needs {
    fn are_none(&self) -> bool {
        self.prefixes == 0 && self.conditions.is_empty()
    }

    /// The condition of the kernel's subscription; an error if it is longer than a filter may be.
    fn condition(&self) -> Result<Option<Arc<Predicate>>, FilterError> {
        let text = match &self.conditions[..] {
            _ if self.prefixes > 0 => return Ok(None),
            [] => return Ok(None),
            [one] => one.to_string(),
            several => format!("({})", several.join(") OR (")),
        };
        Predicate::parse(&text).map(|predicate| Some(Arc::new(predicate)))
    }
}

impl Wanted {
    fn of(prefix: &[u8], separators: &[u8]) -> Wanted {
        let mut filters = Vec::new();
        let mut text = String::new();
        let mut is_exact = address::read_prefix(prefix, &mut text);
        filters.extend(Filter::prefix(&text));
        // Of a message of one frame the address ends sooner.
        if let Some(at) = prefix.iter().position(|byte| separators.contains(byte)) {
            text.clear();
            address::read(&prefix[..at], &mut text);
            filters.extend(Filter::new(&text));
            is_exact = false;
        }
        Wanted {
            filters: filters
                .iter()
                .map(|filter| filter.as_str().into())
                .collect(),
            is_exact,
        }
    }
}

impl ZmtpFront {
    pub(super) fn on_subscribe(cx: &mut Cx<'_>, prefix: &[u8]) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        if let Some(at) = front.filter_at(prefix) {
            let text = String::from_utf8_lossy(&prefix[at + 1..]);
            return ZmtpFront::subscribe_if(cx, session, prefix, &prefix[..at], &text);
        }
        let subscriptions = &mut front.subscriptions;
        if !subscriptions.prefixes.add(prefix) {
            return;
        }
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        subscriptions.bytes += prefix.len() + ENTRY_BYTES;
        subscriptions.inexact += usize::from(!wanted.is_exact);
        let mut new = Vec::new();
        for filter in wanted.filters {
            let needs = subscriptions.filters.entry(filter.clone()).or_default();
            needs.prefixes += 1;
            if needs.prefixes == 1 {
                new.push(filter);
            }
        }
        if subscriptions.inexact > 0 && !subscriptions.conditional.is_empty() {
            return ZmtpFront::give_up(cx, ONE_FRAME);
        }
        if !ZmtpFront::has_room(cx) {
            return ZmtpFront::give_up(cx, NO_MEMORY);
        }
        ZmtpFront::subscribe(cx, session, &new);
    }

    /// Where the zero octet is behind which a subscription has its content filter.
    fn filter_at(&self, subscription: &[u8]) -> Option<usize> {
        let zero = || subscription.iter().position(|byte| *byte == 0);
        self.settings.filters.then(zero).flatten()
    }

    /// Adds a subscription with a content filter; `whole` is the peer's text of both.
    fn subscribe_if(cx: &mut Cx<'_>, session: SessionId, whole: &[u8], prefix: &[u8], text: &str) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let subscriptions = &mut front.subscriptions;
        if let Some(count) = subscriptions.conditional.get_mut(whole) {
            *count = count.saturating_add(1);
            return;
        }
        if let Err(error) = Predicate::parse(text) {
            return ZmtpFront::give_up(cx, &error.to_string());
        }
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        if subscriptions.inexact > 0 || !wanted.is_exact {
            return ZmtpFront::give_up(cx, ONE_FRAME);
        }
        subscriptions.conditional.insert(whole.into(), 1);
        subscriptions.bytes += whole.len() + ENTRY_BYTES;
        for filter in &wanted.filters {
            let needs = subscriptions.filters.entry(filter.clone()).or_default();
            needs.conditions.push(text.into());
        }
        if !ZmtpFront::has_room(cx) {
            return ZmtpFront::give_up(cx, NO_MEMORY);
        }
        ZmtpFront::subscribe(cx, session, &wanted.filters);
    }

    /// Removes a subscription with a content filter.
    fn cancel_if(cx: &mut Cx<'_>, session: SessionId, whole: &[u8], prefix: &[u8], text: &str) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let subscriptions = &mut front.subscriptions;
        let Some(count) = subscriptions.conditional.get_mut(whole) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        subscriptions.conditional.remove(whole);
        subscriptions.bytes -= whole.len() + ENTRY_BYTES;
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        for filter in &wanted.filters {
            if let Some(needs) = subscriptions.filters.get_mut(filter) {
                needs.conditions.retain(|known| **known != *text);
            }
        }
        ZmtpFront::need_less(cx, session, wanted.filters);
    }

    /// Removes the kernel's filters that nothing needs any more, and renews the others.
    fn need_less(cx: &mut Cx<'_>, session: SessionId, filters: Vec<Box<str>>) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let known = &mut front.subscriptions.filters;
        let (gone, left): (Vec<_>, Vec<_>) = filters
            .into_iter()
            .partition(|filter| known.get(filter).is_none_or(Needs::are_none));
        gone.iter().for_each(|filter| {
            known.remove(filter);
        });
        let gone: Vec<(&str, Option<&str>)> = gone.iter().map(|filter| (&**filter, None)).collect();
        if !gone.is_empty() {
            cx.kernel.unsubscribe(session, 0, &gone, cx.now, cx.links);
        }
        ZmtpFront::subscribe(cx, session, &left);
    }

    /// Subscribes to filters of the kernel's.
    pub(super) fn subscribe(cx: &mut Cx<'_>, session: SessionId, filters: &[Box<str>]) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let last_values = match front.settings.last_values {
            true => LastValueWish::IfNew,
            false => LastValueWish::Never,
        };
        let wish = |filter| Wish {
            filter,
            group: None,
            reliability: Reliability::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            last_values,
            id: 0,
        };
        for filter in filters {
            let front = ZmtpFront::of(cx.links, cx.id);
            let needs = front.and_then(|front| front.subscriptions.filters.get(filter));
            match needs.map_or(Ok(None), Needs::condition) {
                Ok(condition) => {
                    let wishes = [wish(filter)];
                    cx.kernel
                        .subscribe_if(session, 0, &wishes, condition, cx.now, cx.links);
                }
                Err(_) => return ZmtpFront::give_up(cx, TOO_LONG),
            }
        }
    }

    pub(super) fn on_cancel(cx: &mut Cx<'_>, prefix: &[u8]) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        if let Some(at) = front.filter_at(prefix) {
            let text = String::from_utf8_lossy(&prefix[at + 1..]);
            return ZmtpFront::cancel_if(cx, session, prefix, &prefix[..at], &text);
        }
        let subscriptions = &mut front.subscriptions;
        if !subscriptions.prefixes.remove(prefix) {
            return;
        }
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        subscriptions.inexact -= usize::from(!wanted.is_exact);
        subscriptions.bytes -= prefix.len() + ENTRY_BYTES;
        let mut less = wanted.filters;
        less.retain(|filter| {
            let needs = subscriptions.filters.get_mut(filter);
            needs.is_some_and(|needs| {
                needs.prefixes -= 1;
                needs.prefixes == 0
            })
        });
        ZmtpFront::need_less(cx, session, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_wanted_if_it_begins_with_one_of_the_prefixes() {
        let mut subscriptions = Subscriptions {
            inexact: 1,
            ..Subscriptions::default()
        };
        assert!(!subscriptions.want(b"a"));
        for prefix in [&b"ab"[..], b"abcd", b"b 1", b"abce"] {
            assert!(subscriptions.prefixes.add(prefix));
        }
        for (frame, is_wanted) in [
            (&b"abx"[..], true),
            (b"abcdz", true),
            (b"abcf", true),
            (b"a", false),
            (b"b", false),
            (b"b 2", false),
            (b"b 10", true),
            (b"", false),
        ] {
            assert_eq!(subscriptions.want(frame), is_wanted, "{frame:?}");
        }
        assert!(subscriptions.prefixes.add(b"") && !subscriptions.prefixes.add(b""));
        assert!(subscriptions.want(b"") && subscriptions.want(b"z"));
        assert!(!subscriptions.prefixes.remove(b"") && subscriptions.prefixes.remove(b""));
        assert!(!subscriptions.want(b"z") && !subscriptions.prefixes.remove(b""));
        assert!(subscriptions.prefixes.remove(b"ab") && subscriptions.prefixes.remove(b"b 1"));
        assert!(!subscriptions.want(b"abx") && subscriptions.want(b"abcdz"));
    }

    #[test]
    fn a_frame_is_looked_at_once_however_many_prefixes_are_alike() {
        let mut prefixes = Prefixes::default();
        let frame = vec![b'b'; 5000];
        for len in 0..frame.len() {
            assert!(prefixes.add(&[&frame[..len], b"a"].concat()));
        }
        // A look at the beginning of the frame for each prefix would make these minutes.
        for _ in 0..500 {
            assert!(!prefixes.have_one_of(&frame));
        }
        assert!(prefixes.add(&frame) && prefixes.have_one_of(&frame));
    }

    #[test]
    fn a_prefix_with_a_separator_also_wants_the_address_before_it() {
        let wanted = Wanted::of(b"10001 2", b" |");
        let filters: Vec<&str> = wanted.filters.iter().map(|filter| &**filter).collect();
        assert_eq!(filters, ["10001 2\0", "10001"]);
        assert!(!wanted.is_exact);
        assert!(Wanted::of(b"plant/", b" |").is_exact);
        // Half a reserved level reaches nothing.
        assert!(Wanted::of(b"$S", b" |").filters.is_empty());
    }
}
