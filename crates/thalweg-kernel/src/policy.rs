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
use thalweg_model::{Filter, Reliability, RetainOp, Span, Time};

/// What is asked of messages whose addresses a filter matches. Of the records that match and set a field the last one counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub filter: Filter,
    /// Messages that would live longer, or for ever, expire after this.
    pub lifespan_max: Option<Span>,
    /// Messages of a lower priority, or of none, have this one.
    pub priority_min: Option<u8>,
    /// Messages that are published at most once are handled like ones published at least once, if this says so. It cannot ask for
    /// more: that a message is no repetition only its publisher can say.
    pub reliability_min: Option<Reliability>,
    /// Subscribers are sent messages no more reliably, whatever they asked for.
    pub reliability_max: Option<Reliability>,
    pub last_value: Option<LastValueRule>,
    /// How many messages an address keeps, the last value among them.
    pub last_value_depth: Option<u16>,
    /// How safe a publish must be before it is acknowledged, whatever [`Limits::safety_filters`] and the listener say.
    pub safety: Option<Safety>,
    /// Messages per second; `u64::MAX` is no limit.
    pub rate: Option<u64>,
    /// Bytes of payload per second; `u64::MAX` is no limit.
    pub rate_bytes: Option<u64>,
    /// So much of either rate may come at once after a pause.
    pub rate_burst: Option<Span>,
    pub rate_per: Option<RatePer>,
    pub rate_exceed: Option<Exceed>,
}

impl Policy {
    /// A record that asks for nothing yet.
    pub fn new(filter: Filter) -> Self {
        Policy {
            filter,
            lifespan_max: None,
            priority_min: None,
            reliability_min: None,
            reliability_max: None,
            last_value: None,
            last_value_depth: None,
            safety: None,
            rate: None,
            rate_bytes: None,
            rate_burst: None,
            rate_per: None,
            rate_exceed: None,
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

/// Whose messages a rate counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RatePer {
    /// Those of one session to all addresses whose rate the same record gives.
    Publisher,
    /// Those of all sessions to one address.
    Address,
    /// Those that one session is sent, or takes from queues and groups, of all addresses whose rate the same record gives.
    Subscriber,
}

/// What happens to a message beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceed {
    /// It is taken, and its publisher waits until there is room for the next. For a subscriber's rate the copy waits.
    Throttle,
    /// It is dropped, and its publisher is told nothing.
    Drop,
    /// Its publisher is told that it was refused. One whose protocol cannot say so waits, as with [`Exceed::Throttle`]. For a
    /// subscriber's rate it is as [`Exceed::Drop`].
    Reject,
}

/// Without [`Policy::rate_burst`].
const BURST: Span = Span::from_secs(1);

/// The rates of an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub messages: Option<Allowance>,
    pub bytes: Option<Allowance>,
    pub per: RatePer,
    pub exceed: Exceed,
}

/// A rate and its burst, in messages or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub per_second: u64,
    pub burst: u64,
    /// The place of the record that gives it.
    pub record: u32,
}

/// All that holds for the messages of one address.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// [`Span::FOREVER`] is none.
    lifespan_max: Span,
    priority_min: u8,
    /// What is published at most once is taken as if it were published at least once.
    is_sure: bool,
    keeps_no_value: bool,
    rate: Option<Rate>,
}

impl Terms {
    /// What records say of the messages of an address; `None` if that is nothing.
    pub(crate) fn of(limits: &Limits, address: &str) -> Option<Box<Terms>> {
        if limits.policies.is_empty() {
            return None;
        }
        let lifespan_max = limits.policy_field(address, |policy| policy.lifespan_max);
        let priority_min = limits.policy_field(address, |policy| policy.priority_min);
        let last_value = limits.policy_field(address, |policy| policy.last_value);
        let reliability_min = limits.policy_field(address, |policy| policy.reliability_min);
        let terms = Terms {
            lifespan_max: lifespan_max.unwrap_or(Span::FOREVER),
            priority_min: priority_min.unwrap_or(0),
            is_sure: reliability_min > Some(Reliability::AtMostOnce),
            keeps_no_value: last_value == Some(LastValueRule::Off),
            rate: limits.rate_at(address),
        };
        (terms.changes_messages() || terms.rate.is_some()).then(|| Box::new(terms))
    }

    fn changes_messages(&self) -> bool {
        self.lifespan_max != Span::FOREVER
            || self.priority_min > 0
            || self.is_sure
            || self.keeps_no_value
    }

    /// Whether what is published at most once is taken as if it were published at least once.
    pub(crate) fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// Whether messages do not become last values.
    pub(crate) fn keeps_no_value(&self) -> bool {
        self.keeps_no_value
    }

    /// The rate of publishers.
    #[inline]
    pub(crate) fn rate(&self) -> Option<&Rate> {
        let rate = self.rate.as_ref();
        rate.filter(|rate| rate.per != RatePer::Subscriber)
    }

    /// The rate at which each subscriber is sent copies.
    #[inline]
    pub(crate) fn rate_of_subscribers(&self) -> Option<&Rate> {
        let rate = self.rate.as_ref();
        rate.filter(|rate| rate.per == RatePer::Subscriber)
    }

    /// When a message expires that was to expire then and comes now.
    pub(crate) fn expires(&self, expires: Time, now: Time) -> Time {
        match self.lifespan_max {
            Span::FOREVER => expires,
            lifespan => expires.min(now + lifespan),
        }
    }

    /// The message as it is published. What its publisher has written is not sent on as it stands: it may say otherwise.
    fn apply<'a>(&self, draft: &Draft<'a>, can_be_sure: bool) -> Draft<'a> {
        let lifespan = draft
            .expires_in
            .map_or(self.lifespan_max, |asked| asked.min(self.lifespan_max));
        Draft {
            expires_in: (lifespan != Span::FOREVER).then_some(lifespan),
            priority: draft.priority.max(self.priority_min),
            reliability: match self.is_sure && can_be_sure {
                true => draft.reliability.max(Reliability::AtLeastOnce),
                false => draft.reliability,
            },
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
        self.policy_and_place(address, field)
            .map(|(_, value)| value)
    }

    /// The same with the place of the record.
    fn policy_and_place<T>(
        &self,
        address: &str,
        field: impl Fn(&Policy) -> Option<T>,
    ) -> Option<(usize, T)> {
        let records = self.policies.iter().enumerate().rev();
        records
            .filter_map(|(place, policy)| Some((place, policy, field(policy)?)))
            .find(|(_, policy, _)| policy.filter.matches(address))
            .map(|(place, _, value)| (place, value))
    }

    fn rate_at(&self, address: &str) -> Option<Rate> {
        let burst = self.policy_field(address, |policy| policy.rate_burst);
        let allowance = |field: fn(&Policy) -> Option<u64>| {
            let (place, per_second) = self.policy_and_place(address, field)?;
            let burst = u128::from(per_second) * u128::from(burst.unwrap_or(BURST).nanos());
            (per_second != u64::MAX).then(|| Allowance {
                per_second,
                burst: u64::try_from(burst / 1_000_000_000).unwrap_or(u64::MAX),
                record: place as u32,
            })
        };
        let (messages, bytes) = (
            allowance(|policy| policy.rate),
            allowance(|policy| policy.rate_bytes),
        );
        let is_limited = messages.is_some() || bytes.is_some();
        is_limited.then(|| Rate {
            messages,
            bytes,
            per: self
                .policy_field(address, |policy| policy.rate_per)
                .unwrap_or(RatePer::Publisher),
            exceed: self
                .policy_field(address, |policy| policy.rate_exceed)
                .unwrap_or(Exceed::Throttle),
        })
    }

    /// Whether some record is about what subscribers are sent.
    pub(crate) fn rates_subscribers(&self) -> bool {
        let each = self.policies.iter();
        each.map(|it| it.rate_per)
            .any(|per| per == Some(RatePer::Subscriber))
    }

    /// Whether a record gives priorities to messages of some addresses that a filter matches.
    pub(crate) fn prioritizes_within(&self, filter: &str) -> bool {
        let mut records = self.policies.iter();
        records.any(|it| it.priority_min > Some(0) && it.filter.meets(filter))
    }

    /// Whether some record is about how reliably receivers are sent messages.
    #[inline]
    pub fn bounds_reliability(&self) -> bool {
        self.policies.iter().any(|it| it.reliability_max.is_some())
    }

    /// How reliably a receiver is sent messages of an address that would have them so reliably.
    pub fn reliability_at(&self, address: &str, asked: Reliability) -> Reliability {
        match self.policy_field(address, |policy| policy.reliability_max) {
            Some(most) => asked.min(most),
            None => asked,
        }
    }

    /// How reliably a subscription is sent messages at best: those of some addresses that it matches perhaps less so.
    pub(crate) fn reliability_within(&self, filter: &str, asked: Reliability) -> Reliability {
        let mut best = None;
        for policy in self.policies.iter().rev() {
            let Some(most) = policy.reliability_max else {
                continue;
            };
            if policy.filter.meets(filter) {
                best = best.max(Some(most));
            }
            if policy.filter.covers(filter) {
                return asked.min(best.unwrap_or(asked));
            }
        }
        asked
    }

    /// Whether messages to an address do not become last values.
    pub fn keeps_no_value(&self, address: &str) -> bool {
        self.policy_field(address, |policy| policy.last_value) == Some(LastValueRule::Off)
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
    #[inline]
    pub(crate) fn on_terms<'a>(&mut self, route: &Route, draft: &Draft<'a>) -> Option<Draft<'a>> {
        let terms = route.terms().filter(|terms| terms.changes_messages())?;
        Some(self.changed_by(terms, draft))
    }

    // Apart, so that where there are no terms its registers are not saved.
    #[inline(never)]
    fn changed_by<'a>(&mut self, terms: &Terms, draft: &Draft<'a>) -> Draft<'a> {
        let changed = terms.apply(draft, !self.env.journal_full());
        if changed.retain != draft.retain {
            self.books.retain_refused();
        }
        if changed.reliability != draft.reliability {
            // Its publisher waits for no answer, so no shard is asked for one.
            self.sessions.crowd.ask_nobody();
        }
        changed
    }
}
