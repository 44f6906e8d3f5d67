//! Readers that request RELIABLE where a policy has the broker send at most once. Their writers stay RELIABLE, or they would not match:
//! what is requested and what is offered is for the log and for operators.

use crate::nodes::Guid;
use std::collections::{BTreeMap, BTreeSet};

/// What readers request and what the broker offers.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// Addresses of the topics of readers that request RELIABLE.
    #[cfg(any(test, feature = "cyclone"))]
    addresses: BTreeMap<Guid, Box<str>>,
    /// Those readers, by address.
    readers: BTreeMap<Box<str>, BTreeMap<Guid, Reader>>,
    /// Filters of subscriptions that were granted at most once.
    lowered: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct Reader {
    topic: String,
    is_lowered: bool,
}

/// What a change of [`Offered`] has led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Readers that are offered less than they request from now on, and their topics.
    pub lowered: Vec<(Guid, String)>,
    /// Some are not any more.
    pub has_restored: bool,
}

impl Offered {
    /// A reader requests RELIABLE of the topic at an address.
    #[cfg(any(test, feature = "cyclone"))]
    pub(crate) fn add_reader(&mut self, guid: Guid, topic: &str, address: &str) -> Change {
        let reader = Reader {
            topic: topic.into(),
            is_lowered: false,
        };
        self.addresses.insert(guid, address.into());
        let at = self.readers.entry(address.into()).or_default();
        at.insert(guid, reader);
        self.compare(address)
    }

    /// Returns whether the reader was offered less than it requested.
    #[cfg(any(test, feature = "cyclone"))]
    pub(crate) fn remove_reader(&mut self, guid: &Guid) -> bool {
        let Some(address) = self.addresses.remove(guid) else {
            return false;
        };
        let Some(at) = self.readers.get_mut(&address) else {
            return false;
        };
        let removed = at.remove(guid);
        if at.is_empty() {
            self.readers.remove(&address);
        }
        removed.is_some_and(|it| it.is_lowered)
    }

    /// Sets whether a subscription, to a topic or to its instances, was granted at most once.
    pub(crate) fn set_lowered(&mut self, filter: &str, is_lowered: bool) -> Change {
        let has_changed = match is_lowered {
            true => self.lowered.insert(filter.into()),
            false => self.lowered.remove(filter),
        };
        match has_changed {
            true => self.compare(filter.strip_suffix("/+").unwrap_or(filter)),
            false => Change::default(),
        }
    }

    fn compare(&mut self, address: &str) -> Change {
        let is_lowered =
            self.lowered.contains(address) || self.lowered.contains(&*format!("{address}/+"));
        let mut change = Change::default();
        for (guid, reader) in self.readers.get_mut(address).into_iter().flatten() {
            let was_lowered = std::mem::replace(&mut reader.is_lowered, is_lowered);
            match (was_lowered, is_lowered) {
                (false, true) => change.lowered.push((*guid, reader.topic.clone())),
                (true, false) => change.has_restored = true,
                _ => {}
            }
        }
        change
    }

    /// Readers that are offered less than they request, and their topics.
    pub(crate) fn lowered(&self) -> impl Iterator<Item = (&Guid, &str)> {
        let lowered = self.readers.values().flatten();
        let lowered = lowered.filter(|(_, it)| it.is_lowered);
        lowered.map(|(guid, reader)| (guid, &*reader.topic))
    }
}
