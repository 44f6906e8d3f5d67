//! What receivers say of the way they work: how many at once, how fast next to others, and what a settlement of theirs
//! means.

use crate::Kernel;
use crate::groups::group::group_key;
use crate::ids::SessionId;
use crate::kernel::Map;
use std::sync::Arc;
use thalweg_model::{Span, Time};

/// What a receiver declares of the way it works; all optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTerms {
    /// Its part beside others', for strategies that go by that.
    pub weight: Option<u16>,
    /// How many messages it works on at once.
    pub concurrency: Option<u16>,
    pub settles: Option<SettlesWhen>,
    /// What must stay in order.
    pub ordered: Option<OrderKey>,
    /// How often it reports.
    pub report_every: Option<Span>,
}

/// When a receiver settles a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlesWhen {
    /// When it is done with the message.
    Processed,
    /// As soon as it has the message.
    Received,
}

/// Messages that must not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKey {
    /// Those of one publisher.
    Publisher,
    /// Those to one address.
    Address,
}

/// The terms that a session has declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTerms {
    /// For all its groups.
    all: WorkTerms,
    /// For one group, by its key.
    of_groups: Map<Arc<str>, WorkTerms>,
    /// What its network takes for a round trip, and how much that varies; as measured, not as said.
    round_trip: (Span, Span),
}

impl WorkTerms {
    /// These, and where they are silent, those.
    fn over(self, those: WorkTerms) -> WorkTerms {
        WorkTerms {
            weight: self.weight.or(those.weight),
            concurrency: self.concurrency.or(those.concurrency),
            settles: self.settles.or(those.settles),
            ordered: self.ordered.or(those.ordered),
            report_every: self.report_every.or(those.report_every),
        }
    }
}

impl SessionTerms {
    /// What its network takes for a round trip, and how much that varies.
    pub(crate) fn round_trip(&self) -> (Span, Span) {
        self.round_trip
    }

    /// The same was measured anew.
    pub(crate) fn set_round_trip(&mut self, least: Span, jitter: Span) {
        self.round_trip = (least, jitter);
    }

    /// What holds in one group.
    pub(crate) fn of(&self, key: &str) -> WorkTerms {
        self.of_groups
            .get(key)
            .map_or(self.all, |terms| terms.over(self.all))
    }

    /// It is no longer a member there.
    pub(crate) fn forget(&mut self, key: &str) {
        self.of_groups.remove(key);
    }
}

impl Kernel {
    /// A receiver says how it works: in one group, named with its filter, or in all in which it is or will be. What it
    /// says of one group counts there; where that is silent, what it says of all.
    ///
    /// It may be said before or after the session joins, and again at any time; each time it replaces what was said.
    pub fn set_work_terms(
        &mut self,
        id: SessionId,
        filter: Option<(&str, &str)>,
        terms: WorkTerms,
        now: Time,
    ) {
        let _ = now;
        let groups_max = self.env.limits().subscriptions_max;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let said = session.membership.terms.get_or_insert_default();
        let changed = match filter {
            None => {
                said.all = terms;
                session.membership.groups().to_vec()
            }
            Some((name, filter)) => {
                let key = group_key(name, filter);
                said.forget(&key);
                if terms != WorkTerms::default() && said.of_groups.len() < groups_max {
                    said.of_groups.insert(key.clone(), terms);
                }
                self.groups.find(&key).into_iter().collect()
            }
        };
        self.remote.seats.has_changed(id);
        for group_id in changed {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.seats_changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_group_counts_there_and_the_rest_is_as_everywhere() {
        let all = WorkTerms {
            weight: Some(3),
            concurrency: Some(2),
            ..WorkTerms::default()
        };
        let here = WorkTerms {
            concurrency: Some(8),
            ..WorkTerms::default()
        };
        let of_groups = [("g/t".into(), here)].into_iter().collect();
        let mut said = SessionTerms {
            all,
            of_groups,
            ..SessionTerms::default()
        };
        assert_eq!(
            said.of("g/t"),
            WorkTerms {
                concurrency: Some(8),
                ..all
            }
        );
        assert_eq!(said.of("g/u"), all);
        said.forget("g/t");
        assert_eq!(said.of("g/t"), all);
    }
}
