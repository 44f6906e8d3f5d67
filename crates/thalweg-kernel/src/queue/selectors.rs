//! Which consumers of a queue have content filters, and how far each consumer has looked for what passes.
//!
//! *Knows:* filters, and places in line. *Must never know:* rights, credit, the books.
//!
//! A consumer is asked about a message once: what does not pass it is behind it then, however long that waits. Only what comes
//! back to such a place is looked at again. A queue without filters has none of this.

use super::Backlog;
use super::backlog::Place;
use super::takers::Consumer;
use crate::groups::seats::Key;
use crate::publish::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_filter::Predicate;

/// Places that are looked at again, before all from the first of them on are.
const AGAIN_MAX: usize = 1024;

/// How far a taker has looked.
#[derive(Default)]
pub(super) struct Looked {
    /// For each priority: the last place that it has looked at. What is up to there is not for it.
    seen: Vec<i64>,
    /// Places up to there to which something has come back.
    again: BTreeSet<Place>,
}

/// The consumers of a queue of which some have filters.
#[derive(Default)]
pub(super) struct Selectors {
    consumers: BTreeMap<Key, (Option<Arc<Predicate>>, Looked)>,
}

/// What a filter and what is known of its consumer take.
pub(super) fn filter_cost(filter: &Predicate) -> usize {
    size_of::<(Key, (Option<Arc<Predicate>>, Looked))>() + filter.bytes()
}

impl Looked {
    pub(super) fn at_head(lanes: usize) -> Self {
        Looked {
            seen: vec![i64::MIN; lanes],
            again: BTreeSet::new(),
        }
    }

    fn has_seen(&self, place: Place) -> bool {
        let seen = self.seen.get(place.lane()).copied();
        seen.is_some_and(|seen| place.order <= seen) && !self.again.contains(&place)
    }

    /// The first place in line that it has not looked at.
    pub(super) fn next(&self, backlog: &Backlog) -> Option<Place> {
        let mut lanes = self.seen.iter().enumerate().rev();
        let unseen = lanes.find_map(|(lane, seen)| backlog.first_behind(lane, *seen));
        let again = self.again.first().copied();
        again.into_iter().chain(unseen).min()
    }

    /// It may have nothing of what is at its next place.
    pub(super) fn pass(&mut self, place: Place) {
        if self.again.remove(&place) {
            return;
        }
        if let Some(seen) = self.seen.get_mut(place.lane()) {
            *seen = place.order.max(*seen);
        }
    }

    fn came_back(&mut self, place: Place) {
        if !self.has_seen(place) {
            return;
        }
        self.again.insert(place);
        if self.again.len() > AGAIN_MAX {
            for place in std::mem::take(&mut self.again) {
                if let Some(seen) = self.seen.get_mut(place.lane()) {
                    *seen = (*seen).min(place.order - 1);
                }
            }
        }
    }
}

impl Selectors {
    /// A consumer has come; `lanes` is how many priorities its queue distinguishes.
    pub(super) fn add(&mut self, key: Key, filter: Option<Arc<Predicate>>, lanes: usize) {
        self.consumers.insert(key, (filter, Looked::at_head(lanes)));
    }

    /// A consumer has left; the filter that it had.
    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<Predicate>> {
        self.consumers.remove(&key)?.0
    }

    /// The consumers that have filters.
    pub(super) fn filters(&self) -> impl Iterator<Item = (Key, &Arc<Predicate>)> {
        let all = self.consumers.iter();
        all.filter_map(|(key, (filter, _))| Some((*key, filter.as_ref()?)))
    }

    /// Whether a consumer takes some messages and not others.
    pub(super) fn has_filter(&self, consumer: &Consumer) -> bool {
        let known = self.consumers.get(&consumer.key());
        known.is_some_and(|(filter, _)| filter.is_some())
    }

    /// Whether a message passes a consumer's filter, if it has one.
    pub(super) fn passes(&self, consumer: &Consumer, subject: &Subject<'_>) -> bool {
        let known = self.consumers.get(&consumer.key());
        known.is_none_or(|(filter, _)| filter.as_ref().is_none_or(|it| it.matches(subject)))
    }

    /// The first place that a consumer has not looked at.
    pub(super) fn next(&self, consumer: &Consumer, backlog: &Backlog) -> Option<Place> {
        self.consumers.get(&consumer.key())?.1.next(backlog)
    }

    pub(super) fn has_seen(&self, consumer: &Consumer, place: Place) -> bool {
        let known = self.consumers.get(&consumer.key());
        known.is_some_and(|(_, looked)| looked.has_seen(place))
    }

    /// A consumer may have nothing of what is at this place.
    pub(super) fn pass(&mut self, consumer: &Consumer, place: Place) {
        if let Some((_, looked)) = self.consumers.get_mut(&consumer.key()) {
            looked.pass(place);
        }
    }

    /// A message has come back to its place in line.
    pub(super) fn came_back(&mut self, place: Place) {
        for (_, looked) in self.consumers.values_mut() {
            looked.came_back(place);
        }
    }

    /// All look at everything again: what they may have is another.
    pub(super) fn look_again(&mut self) {
        for (_, looked) in self.consumers.values_mut() {
            *looked = Looked::at_head(looked.seen.len());
        }
    }
}
