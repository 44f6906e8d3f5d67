//! What the operator asks of messages by their addresses.
//!
//! Records are resolved when a route is worked out: a message is compared with no filter, and one whose route no record
//! concerns costs what it would cost without records. The shard that a publisher is connected to applies them; other shards,
//! queues and the journal get the message as it is then.

use crate::Kernel;
use crate::effects::Safety;
use crate::limits::Limits;
use crate::publish::pipeline::Draft;
use crate::routes::cached::Route;
use thalweg_model::{Filter, RetainOp, Span, Time};

/// What is asked of messages whose addresses a filter matches. Of the records that match and set a field the last one counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub filter: Filter,
    /// Messages that would live longer, or for ever, expire after this.
    pub lifespan_max: Option<Span>,
    /// Messages of a lower priority, or of none, have this one.
    pub priority_min: Option<u8>,
    pub last_value: Option<LastValueRule>,
    /// How safe a publish must be before it is acknowledged, whatever [`Limits::safety_filters`] and the listener say.
    pub safety: Option<Safety>,
}

impl Policy {
    /// A record that asks for nothing yet.
    pub fn new(filter: Filter) -> Self {
        Policy {
            filter,
            lifespan_max: None,
            priority_min: None,
            last_value: None,
            safety: None,
        }
    }
}

/// Whether an address has a last value, whatever publishers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastValueRule {
    /// The latest message is remembered though it was not retained, as with [`Limits::kept_filters`].
    Keep,
    /// Messages do not become last values; those that did before stay.
    Off,
}

/// All that holds for the messages of one address.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// [`Span::FOREVER`] is none.
    lifespan_max: Span,
    priority_min: u8,
    keeps_no_value: bool,
}

impl Terms {
    /// What records say of an address that changes its messages; `None` if that is nothing.
    pub(crate) fn of(limits: &Limits, address: &str) -> Option<Box<Terms>> {
        if limits.policies.is_empty() {
            return None;
        }
        let lifespan_max = limits.policy_field(address, |policy| policy.lifespan_max);
        let priority_min = limits.policy_field(address, |policy| policy.priority_min);
        let last_value = limits.policy_field(address, |policy| policy.last_value);
        let terms = Terms {
            lifespan_max: lifespan_max.unwrap_or(Span::FOREVER),
            priority_min: priority_min.unwrap_or(0),
            keeps_no_value: last_value == Some(LastValueRule::Off),
        };
        terms.is_any().then(|| Box::new(terms))
    }

    fn is_any(&self) -> bool {
        self.lifespan_max != Span::FOREVER || self.priority_min > 0 || self.keeps_no_value
    }

    /// Whether messages do not become last values.
    pub(crate) fn keeps_no_value(&self) -> bool {
        self.keeps_no_value
    }

    /// When a message expires that was to expire then and comes now.
    pub(crate) fn expires(&self, expires: Time, now: Time) -> Time {
        match self.lifespan_max {
            Span::FOREVER => expires,
            lifespan => expires.min(now + lifespan),
        }
    }

    /// The message as it is published. What its publisher has written is not sent on as it stands: it may say otherwise.
    fn apply<'a>(&self, draft: &Draft<'a>) -> Draft<'a> {
        let lifespan = draft
            .expires_in
            .map_or(self.lifespan_max, |asked| asked.min(self.lifespan_max));
        Draft {
            expires_in: (lifespan != Span::FOREVER).then_some(lifespan),
            priority: draft.priority.max(self.priority_min),
            retain: match draft.retain {
                RetainOp::Set if self.keeps_no_value => RetainOp::None,
                asked => asked,
            },
            native: None,
            ..*draft
        }
    }
}

impl Limits {
    /// A field of the last record that matches an address and sets it.
    pub(crate) fn policy_field<T>(
        &self,
        address: &str,
        field: impl Fn(&Policy) -> Option<T>,
    ) -> Option<T> {
        let records = self.policies.iter().rev();
        records
            .filter_map(|policy| Some((policy, field(policy)?)))
            .find(|(policy, _)| policy.filter.matches(address))
            .map(|(_, value)| value)
    }

    /// Whether every publish to an address is remembered as its last value.
    pub(crate) fn remembers(&self, address: &str) -> bool {
        match self.policy_field(address, |policy| policy.last_value) {
            Some(rule) => rule == LastValueRule::Keep,
            None => self.kept_filters.iter().any(|it| it.matches(address)),
        }
    }

    /// How safe publishes to an address must be before they are acknowledged, if a record or a filter says so.
    pub fn safety_at(&self, address: &str) -> Option<Safety> {
        self.policy_field(address, |policy| policy.safety)
            .or_else(|| {
                let said = self
                    .safety_filters
                    .iter()
                    .filter(|(filter, _)| filter.matches(address));
                said.map(|(_, safety)| *safety).max()
            })
    }
}

impl Kernel {
    /// A draft as its route's terms have it, if there are any.
    #[cold]
    pub(crate) fn on_terms<'a>(&mut self, route: &Route, draft: &Draft<'a>) -> Option<Draft<'a>> {
        let changed = route.terms()?.apply(draft);
        if changed.retain != draft.retain {
            self.books.retain_refused();
        }
        Some(changed)
    }
}
