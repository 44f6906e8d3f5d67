//! Which consumers of a queue or members of a group have content filters, and how far each has looked for what passes.
//!
//! *Knows:* filters, and places in line. *Must never know:* rights, credit, the books.
//!
//! A consumer is asked about a message once: what does not pass it is behind it then, however long that waits. Only what comes
//! back to such a place is looked at again. Without filters there is none of this.

use super::Backlog;
use super::backlog::Place;
use crate::env::Neutral;
use crate::groups::seats::Key;
use crate::publish::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::Message;

/// Places that are looked at again, before all from the first of them on are.
const AGAIN_MAX: usize = 1024;

/// How far a taker has looked.
#[derive(Default)]
pub(super) struct Looked {
    /// For each priority: the last place that it has looked at. What is up to there is not for it. Nothing yet of those that
    /// are missing.
    seen: Vec<i64>,
    /// Places up to there to which something has come back.
    again: BTreeSet<Place>,
}

/// The consumers of a queue, or the members of a group, of which some have filters.
#[derive(Default)]
pub(crate) struct Selectors {
    takers: BTreeMap<Key, (Option<Arc<Predicate>>, Looked)>,
}

/// A message, as the filters of those who might take it are asked about it. Its payload is read once at the most.
pub(crate) struct Screen<'a>(Option<(&'a Selectors, Subject<'a>)>);

/// What a filter and what is known of its consumer take.
pub(crate) fn filter_cost(filter: &Predicate) -> usize {
    size_of::<(Key, (Option<Arc<Predicate>>, Looked))>() + filter.bytes()
}

impl Looked {
    fn has_seen(&self, place: Place) -> bool {
        let seen = self.seen.get(place.lane()).copied();
        seen.is_some_and(|seen| place.order <= seen) && !self.again.contains(&place)
    }

    /// The first place in line that it has not looked at.
    pub(super) fn next(&self, backlog: &Backlog) -> Option<Place> {
        let seen = |lane: usize| self.seen.get(lane).copied().unwrap_or(i64::MIN);
        let unseen = backlog.first_unseen(seen);
        let again = self.again.first().copied();
        let places = again.into_iter().chain(unseen);
        places.min_by_key(|place| backlog.rank(*place))
    }

    /// It may have nothing of what is at its next place.
    pub(super) fn pass(&mut self, place: Place) {
        if self.again.remove(&place) {
            return;
        }
        if self.seen.len() <= place.lane() {
            self.seen.resize(place.lane() + 1, i64::MIN);
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
    /// A taker comes, or has another filter. `others` are those that are there.
    pub(crate) fn join(
        these: &mut Option<Box<Selectors>>,
        key: Key,
        filter: Option<Arc<Predicate>>,
        others: impl Iterator<Item = Key>,
    ) {
        if these.is_none() && filter.is_none() {
            return;
        }
        let new = |filter| (filter, Looked::default());
        let selectors = these.get_or_insert_with(|| {
            let takers = others.map(|other| (other, new(None))).collect();
            Box::new(Selectors { takers })
        });
        let is_same =
            |known: &Arc<Predicate>| filter.as_ref().is_some_and(|it| Arc::ptr_eq(it, known));
        if !selectors.filter(key).is_some_and(is_same) {
            selectors.takers.insert(key, new(filter));
            Selectors::end_without_filters(these);
        }
    }

    /// A taker has left; the filter that it had.
    pub(crate) fn leave(these: &mut Option<Box<Selectors>>, key: Key) -> Option<Arc<Predicate>> {
        let (filter, _) = these.as_deref_mut()?.takers.remove(&key)?;
        Selectors::end_without_filters(these);
        filter
    }

    fn end_without_filters(these: &mut Option<Box<Selectors>>) {
        if these
            .as_deref()
            .is_some_and(|it| it.filters().next().is_none())
        {
            *these = None;
        }
    }

    /// The takers that have filters.
    pub(crate) fn filters(&self) -> impl Iterator<Item = (Key, &Arc<Predicate>)> {
        let all = self.takers.iter();
        all.filter_map(|(key, (filter, _))| Some((*key, filter.as_ref()?)))
    }

    /// What a taker takes of all; everything if it has no filter.
    pub(crate) fn filter(&self, key: Key) -> Option<&Arc<Predicate>> {
        self.takers.get(&key)?.0.as_ref()
    }

    /// The first place that a taker has not looked at.
    pub(crate) fn next(&self, key: Key, backlog: &Backlog) -> Option<Place> {
        self.takers.get(&key)?.1.next(backlog)
    }

    pub(crate) fn has_seen(&self, key: Key, place: Place) -> bool {
        let known = self.takers.get(&key);
        known.is_some_and(|(_, looked)| looked.has_seen(place))
    }

    /// A taker may have nothing of what is at this place.
    pub(crate) fn pass(&mut self, key: Key, place: Place) {
        if let Some((_, looked)) = self.takers.get_mut(&key) {
            looked.pass(place);
        }
    }

    /// A message has come back to its place in line.
    pub(crate) fn came_back(&mut self, place: Place) {
        for (_, looked) in self.takers.values_mut() {
            looked.came_back(place);
        }
    }

    /// Whether a message passes a taker's filter, if it has one.
    pub(crate) fn passes(&self, key: Key, subject: &Subject<'_>) -> bool {
        self.filter(key).is_none_or(|it| it.matches(subject))
    }

    /// All look at everything again: what they may have is another.
    pub(crate) fn look_again(&mut self) {
        for (_, looked) in self.takers.values_mut() {
            *looked = Looked::default();
        }
    }
}

impl<'a> Screen<'a> {
    pub(crate) fn new(
        selectors: Option<&'a Selectors>,
        message: &'a Message,
        neutral: Neutral,
    ) -> Self {
        Screen(selectors.map(|it| (it, Subject::of_message(message, neutral))))
    }

    /// Whether the message passes a taker's filter, if it has one.
    pub(crate) fn passes(&self, key: Key) -> bool {
        let asked = self.0.as_ref();
        asked.is_none_or(|(selectors, subject)| selectors.passes(key, subject))
    }
}
