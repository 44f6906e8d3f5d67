//! What operators say of groups, by filter.

use crate::Kernel;
use crate::groups::work_terms::OrderKey;
use crate::limits::Limits;
use std::sync::Arc;
use thalweg_balance::GroupStrategy;
use thalweg_model::{Filter, Span, Time};

/// What holds for groups whose filter is covered by this one. Of several policies the first that covers a group's filter
/// counts; what it leaves out is as everywhere else.
#[derive(Clone, Debug)]
pub struct GroupPolicy {
    /// Which groups: those whose members want nothing beyond it.
    pub filter: Filter,
    pub strategy: Option<GroupStrategy>,
    /// What must stay in order.
    pub order: Option<OrderKey>,
    /// In place of [`Limits::group_settle_timeout`]. If it is set, members have that long even with
    /// [`Limits::group_adaptive_eviction`]: rare messages may take much longer than most.
    pub settle_timeout: Option<Span>,
    /// Whether members get a message as reliably as they subscribed, though it was published with less.
    pub upgrade_reliability: Option<bool>,
    /// Deliveries of a message that no member settles before it is given up.
    pub deliveries_max: Option<u32>,
    /// The address to which messages go that are given up: delivered too often, expired, or refused by a member.
    pub dead_letter: Option<Arc<str>>,
}

/// The policy of one group, worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub strategy: GroupStrategy,
    pub order: Option<OrderKey>,
    pub settle_timeout: Span,
    /// The adaptive strategy evicts no member that has been silent for less.
    pub patience: Span,
    pub upgrade_reliability: bool,
    pub deliveries_max: Option<u32>,
    pub dead_letter: Option<Arc<str>>,
}

impl GroupPolicy {
    /// One that says nothing yet.
    pub fn new(filter: Filter) -> Self {
        GroupPolicy {
            filter,
            strategy: None,
            order: None,
            settle_timeout: None,
            upgrade_reliability: None,
            deliveries_max: None,
            dead_letter: None,
        }
    }
}

impl Limits {
    /// What holds for groups on a filter.
    pub(crate) fn policy_of(&self, filter: &str) -> Policy {
        let own = self
            .group_policies
            .iter()
            .find(|policy| policy.filter.covers(filter));
        let settle_timeout = own.and_then(|own| own.settle_timeout);
        let patience = match (settle_timeout, self.group_adaptive_eviction) {
            (Some(named), _) => named,
            (None, true) => Span::ZERO,
            (None, false) => self.group_settle_timeout,
        };
        Policy {
            strategy: own
                .and_then(|own| own.strategy)
                .unwrap_or(self.group_strategy),
            order: own.and_then(|own| own.order),
            settle_timeout: settle_timeout.unwrap_or(self.group_settle_timeout),
            patience,
            upgrade_reliability: own.and_then(|own| own.upgrade_reliability).unwrap_or(false),
            deliveries_max: own.and_then(|own| own.deliveries_max),
            dead_letter: own.and_then(|own| own.dead_letter.clone()),
        }
    }
}

impl Kernel {
    /// The limits have changed: groups whose strategy is another now begin anew, and members are granted what they may have now.
    pub(crate) fn renew_group_policies(&mut self) {
        for group_id in self.groups.ids() {
            let limits = self.env.limits();
            let Some(group) = self.groups.get_mut(group_id) else {
                continue;
            };
            let policy = limits.policy_of(group.filter());
            group.set_policy(policy);
            let changed = group.grant_anew(limits);
            for id in &changed {
                self.tell_seats(group_id, *id);
            }
            if !changed.is_empty() {
                // What waited for an acknowledgement may not need one any more.
                self.look_at_group(group_id, Time::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_policy_that_covers_a_filter_counts_and_the_rest_is_as_everywhere() {
        let policy = |filter: &str| GroupPolicy::new(Filter::new(filter).expect("legal"));
        let limits = Limits {
            group_strategy: GroupStrategy::Random,
            group_policies: Arc::new([
                GroupPolicy {
                    strategy: Some(GroupStrategy::Sticky),
                    ..policy("plant/+/jobs")
                },
                GroupPolicy {
                    order: Some(OrderKey::Address),
                    upgrade_reliability: Some(true),
                    ..policy("plant/#")
                },
            ]),
            ..Limits::default()
        };
        let jobs = limits.policy_of("plant/1/jobs");
        assert_eq!(
            (jobs.strategy, jobs.order, jobs.upgrade_reliability),
            (GroupStrategy::Sticky, None, false)
        );
        let other = limits.policy_of("plant/+/#");
        assert_eq!(
            (other.strategy, other.order),
            (GroupStrategy::Random, Some(OrderKey::Address))
        );
        assert!(other.upgrade_reliability && other.settle_timeout == limits.group_settle_timeout);
        assert_eq!(limits.policy_of("#").order, None);
    }

    #[test]
    fn members_have_the_whole_timeout_unless_adaptive_eviction_is_chosen() {
        let (long, longer) = (Span::from_secs(30), Span::from_secs(600));
        let named = GroupPolicy {
            settle_timeout: Some(longer),
            ..GroupPolicy::new(Filter::new("jobs").expect("legal"))
        };
        let limits = |adaptive| Limits {
            group_policies: Arc::new([named.clone()]),
            group_settle_timeout: long,
            group_adaptive_eviction: adaptive,
            ..Limits::default()
        };
        assert!(!Limits::default().group_adaptive_eviction);
        for (adaptive, patience) in [(false, long), (true, Span::ZERO)] {
            let limits = limits(adaptive);
            assert_eq!(limits.policy_of("other").patience, patience);
            assert_eq!(limits.policy_of("jobs").patience, longer);
        }
    }
}
