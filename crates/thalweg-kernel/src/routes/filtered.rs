//! Receivers that want some of what is published to an address, by what it says.
//!
//! *Knows:* sinks, content filters. *Must never know:* a message but by what filters ask of it.

use crate::ids::SessionId;
use crate::publish::subject::Subject;
use crate::routes::cached::{FILTERED, Receiver, Sink};
use crate::routes::store::Routes;
use std::sync::Arc;
use thalweg_filter::{Index, Predicate};

/// What a filtered sink asks for.
pub(crate) struct Condition {
    pub predicate: Arc<Predicate>,
    /// The subscription's identifier, 0 if it has none.
    pub id: u32,
}

/// The filtered receivers of a route, found by what a message says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filtered {
    receivers: Vec<Choosy>,
    index: Index<u32>,
}

/// A session with at least one filtered subscription that matches.
#[derive(Clone, Debug)]
pub(crate) struct Choosy {
    /// As if all its subscriptions wanted the message.
    whole: Receiver,
    sinks: Box<[(Sink, Option<Arc<Predicate>>)]>,
    /// It is left out of this route.
    is_out: bool,
}

impl Filtered {
    /// Adds the sinks of one session.
    pub(super) fn push(&mut self, session: SessionId, sinks: &[Sink], routes: &Routes) {
        let sinks: Box<[_]> = sinks
            .iter()
            .map(|sink| match routes.condition(sink) {
                Some(condition) => (
                    Sink {
                        id: condition.id,
                        flags: sink.flags & !FILTERED,
                        ..*sink
                    },
                    Some(condition.predicate.clone()),
                ),
                None => (*sink, None),
            })
            .collect();
        let predicate = match &*sinks {
            [(_, predicate)] => predicate.as_deref(),
            // Any of several may be true.
            _ => None,
        };
        self.index.insert(predicate, self.receivers.len() as u32);
        let all: Vec<Sink> = sinks.iter().map(|(sink, _)| *sink).collect();
        self.receivers.push(Choosy {
            whole: Receiver::of(session, &all),
            sinks,
            is_out: false,
        });
    }

    pub(crate) fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        self.receivers.iter().map(|choosy| &choosy.whole)
    }

    /// The filter of a session and its text; nothing if it is not among these, or wants everything.
    pub(crate) fn filter_of(&self, session: SessionId) -> Option<(String, &Choosy)> {
        let mut choosy = self.receivers.iter();
        let choosy = choosy.find(|choosy| choosy.whole.session == session)?;
        let texts = choosy
            .sinks
            .iter()
            .map(|(_, predicate)| Some(predicate.as_ref()?.text()));
        Some((texts.collect::<Option<Vec<_>>>()?.join(" or "), choosy))
    }

    /// Leaves out those that are not meant.
    pub(super) fn retain(&mut self, is_meant: impl Fn(&Receiver) -> bool) {
        for choosy in &mut self.receivers {
            choosy.is_out |= !is_meant(&choosy.whole);
        }
    }

    /// Those that want this message, each with the subscriptions that do.
    pub(crate) fn selected(&self, subject: &Subject<'_>) -> Vec<Receiver> {
        let mut selected = Vec::new();
        self.index.candidates(subject, |at| {
            let choosy = self.receivers.get(*at as usize);
            selected.extend(choosy.and_then(|choosy| choosy.selected(subject)));
        });
        selected
    }
}

impl Choosy {
    /// Whether one of its subscriptions wants this message.
    pub(crate) fn passes(&self, subject: &Subject<'_>) -> bool {
        self.selected(subject).is_some()
    }

    fn selected(&self, subject: &Subject<'_>) -> Option<Receiver> {
        let wants = |predicate: &Option<Arc<Predicate>>| {
            predicate.as_ref().is_none_or(|it| it.matches(subject))
        };
        if self.is_out {
            return None;
        }
        if let [(_, predicate)] = &*self.sinks {
            return wants(predicate).then(|| self.whole.clone());
        }
        let sinks: Vec<Sink> = self
            .sinks
            .iter()
            .filter(|(_, predicate)| wants(predicate))
            .map(|(sink, _)| *sink)
            .collect();
        (!sinks.is_empty()).then(|| Receiver::of(self.whole.session, &sinks))
    }
}
