//! Subscriptions of SUB: prefixes of first frames.

use super::{ZmtpFront, address};
use crate::front::{Cx, Variant};
use std::collections::BTreeMap;
use std::ops::Bound;
use thalweg_kernel::{LastValueWish, SessionId, Wish};
use thalweg_model::{Filter, Reliability};

/// What a peer wants.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// Prefixes, and how often the peer has subscribed to each.
    prefixes: BTreeMap<Box<[u8]>, u32>,
    /// Filters that the kernel has for them, and how many prefixes need each.
    filters: BTreeMap<Box<str>, u32>,
    /// How many prefixes want less than their filters bring.
    inexact: usize,
    bytes: usize,
    /// What begins with a prefix is not wanted, and all else is.
    is_inverted: bool,
}

/// The filters of a prefix.
struct Wanted {
    filters: Vec<Box<str>>,
    is_exact: bool,
}

/// What the tables cost beside the text.
const ENTRY_BYTES: usize = 96;

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
        self.inexact == 0 || self.have_prefix_of(frame) != self.is_inverted
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

    /// From the longest to the shortest: what sorts before the frame shares with it what any prefix of it shares.
    fn have_prefix_of(&self, frame: &[u8]) -> bool {
        let mut rest = frame;
        loop {
            let range = (Bound::Unbounded, Bound::Included(rest));
            let Some((nearest, _)) = self.prefixes.range::<[u8], _>(range).next_back() else {
                return false;
            };
            let shared = nearest.iter().zip(rest).take_while(|(a, b)| a == b);
            let shared = shared.count();
            if shared == nearest.len() {
                return true;
            }
            rest = &rest[..shared];
        }
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
        let subscriptions = &mut front.subscriptions;
        if let Some(count) = subscriptions.prefixes.get_mut(prefix) {
            *count = count.saturating_add(1);
            return;
        }
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        subscriptions.bytes += prefix.len() + ENTRY_BYTES;
        subscriptions.prefixes.insert(prefix.into(), 1);
        subscriptions.inexact += usize::from(!wanted.is_exact);
        let mut new = Vec::new();
        for filter in wanted.filters {
            let count = subscriptions.filters.entry(filter.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                new.push(filter);
            }
        }
        if !ZmtpFront::has_room(cx) {
            return ZmtpFront::give_up(cx, "there is no memory for one subscription more");
        }
        ZmtpFront::subscribe(cx, session, &new);
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
        let wishes: Vec<Wish<'_>> = filters
            .iter()
            .map(|filter| Wish {
                filter,
                group: None,
                reliability: Reliability::AtMostOnce,
                no_local: false,
                retain_as_published: false,
                last_values,
                id: 0,
            })
            .collect();
        if !wishes.is_empty() {
            cx.kernel.subscribe(session, 0, &wishes, cx.now, cx.links);
        }
    }

    pub(super) fn on_cancel(cx: &mut Cx<'_>, prefix: &[u8]) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        let subscriptions = &mut front.subscriptions;
        let Some(count) = subscriptions.prefixes.get_mut(prefix) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        subscriptions.prefixes.remove(prefix);
        let wanted = subscriptions.wanted(prefix, &front.settings.separators);
        subscriptions.inexact -= usize::from(!wanted.is_exact);
        subscriptions.bytes -= prefix.len() + ENTRY_BYTES;
        let mut gone = Vec::new();
        for filter in wanted.filters {
            let Some(count) = subscriptions.filters.get_mut(&filter) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                subscriptions.filters.remove(&filter);
                gone.push(filter);
            }
        }
        let gone: Vec<(&str, Option<&str>)> = gone.iter().map(|filter| (&**filter, None)).collect();
        if !gone.is_empty() {
            cx.kernel.unsubscribe(session, 0, &gone, cx.now, cx.links);
        }
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
            subscriptions.prefixes.insert(prefix.into(), 1);
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
        subscriptions.prefixes.insert((*b"").into(), 1);
        assert!(subscriptions.want(b"") && subscriptions.want(b"z"));
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
