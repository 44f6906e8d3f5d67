//! Every bound of the kernel, in one place. The server fills it in from the configuration.

use crate::effects::Safety;
use crate::groups::policy::GroupPolicy;
use crate::policy::Policy;
use std::sync::Arc;
use thalweg_balance::GroupStrategy;
use thalweg_model::{Filter, Reliability, Span};

/// What happens when a bounded queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The newcomer is dropped.
    DropNewest,
    /// The oldest waiting message is dropped.
    DropOldest,
    /// The receiver's link is ended; its queue stays.
    Disconnect,
}

/// The kernel's limits and choices. All byte limits count [`thalweg_model::Message::bytes`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Messages that may wait for one session (not counting those in flight).
    pub queue_messages_max: usize,
    /// Bytes that may wait for one session.
    pub queue_bytes_max: usize,
    /// The same for a session whose queue is in memory only.
    pub queue_volatile_bytes_max: usize,
    /// How long publishers are slowed for a receiver with a link whose queue is filling and that takes nothing.
    pub queue_pace_max: Span,
    /// Bytes that wait for one session in memory; beyond them messages wait on disk. Only with a journal.
    pub queue_memory_bytes_max: usize,
    /// What happens beyond `queue_messages_max` or `queue_bytes_max`.
    pub overflow: Overflow,
    /// Whether at-most-once messages wait for an offline session too.
    pub queue_at_most_once_offline: bool,
    /// Unsettled deliveries towards a receiver that names no limit of its own.
    pub in_flight_max: u16,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Levels of an address or filter.
    pub levels_max: usize,
    /// Bytes of an address that is published to.
    pub address_bytes_max: usize,
    /// The longest life of a session without a link.
    pub session_expiry_max: Span,
    /// Sessions on this shard, with or without a link.
    pub sessions_max: usize,
    /// Publishes per second and session; 0 is no limit. A front can say otherwise in
    /// [`Grants`](crate::Grants).
    pub publish_rate: u64,
    /// Published bytes per second and session; 0 is no limit.
    pub publish_bytes_rate: u64,
    /// Whether last values are kept at all.
    pub retain_enabled: bool,
    /// Last values on this shard.
    pub retained_messages_max: usize,
    /// Bytes of last values on this shard.
    pub retained_bytes_max: usize,
    /// The longest life of a last value.
    pub retained_expiry_max: Span,
    /// Messages that may wait in one group.
    pub group_messages_max: usize,
    /// Bytes that may wait in one group.
    pub group_bytes_max: usize,
    /// How a group chooses.
    pub group_strategy: GroupStrategy,
    /// What holds for groups by filter; the first that covers a group's filter counts.
    pub group_policies: Arc<[GroupPolicy]>,
    /// A member that has not settled a group's delivery for this long loses it to the others.
    pub group_settle_timeout: Span,
    /// Whether the adaptive strategy evicts a member sooner: once it has been silent for many times as long as its work
    /// takes. A pause in the member's program is taken for a failure then.
    pub group_adaptive_eviction: bool,
    /// Whether a group's at-least-once deliveries that a member has not settled go to the others as soon as its link
    /// ends.
    pub group_redispatch: bool,
    pub queues_max: usize,
    /// Messages that may wait in one of them, whatever was declared; more are refused.
    pub named_queue_messages_max: u64,
    /// Bytes of payload that may wait in one of them; more are refused.
    pub named_queue_bytes_max: u64,
    /// Bytes that wait in one of them in memory; beyond them messages wait on disk, if the queue is durable and has
    /// neither priorities nor bounds nor a lifetime of its own.
    pub named_queue_memory_bytes_max: usize,
    /// Exchanges, beside those that are always there.
    pub exchanges_max: usize,
    /// Bindings of all exchanges.
    pub bindings_max: usize,
    /// Watches on this shard.
    pub watches_max: usize,
    /// Filters whose every publish is remembered as the last value of its address, retained or not; in memory only.
    pub kept_filters: Arc<[Filter]>,
    /// Addresses for which [`Kernel::keep_last`](crate::Kernel::keep_last) is on; every shard has all of them.
    pub kept_addresses_max: usize,
    /// Values on this shard that are kept by `keep_last`, not by a retained publish.
    pub kept_messages_max: usize,
    /// Bytes of those values.
    pub kept_bytes_max: usize,
    /// Values that one list holds at the most, whatever was asked for.
    pub list_max: usize,
    /// A message that was taken out of a queue by itself and is not settled for this long goes back into it.
    pub take_settle_timeout: Span,
    /// Bytes of all transactions of one session together.
    pub transaction_bytes_max: usize,
    /// Publishers whose stamps are known; what more come make others be forgotten.
    pub publishers_max: usize,
    /// A publisher that has sent nothing with a stamp for this long may be forgotten.
    pub publisher_expiry: Span,
    /// Whether presence is published.
    pub presence: bool,
    /// For how long it is remembered of who has left.
    pub presence_offline: Span,
    /// Of how many on this shard, at the most.
    pub presence_offline_max: usize,
    /// Whether `Subscribe` may name a group.
    pub groups_enabled: bool,
    /// Whether filters may hold wildcards.
    pub wildcards_enabled: bool,
    /// The highest reliability granted to a session.
    pub reliability_max: Reliability,
    /// Addresses whose routes are remembered; twice as many at the most.
    pub route_cache_max: usize,
    /// Whether what outlives its link is written to the journal.
    pub journal: bool,
    /// How safe what was acknowledged is, where nothing else is said.
    pub safety: Safety,
    /// The same by address: of the filters that match, the safest word counts.
    pub safety_filters: Arc<[(Filter, Safety)]>,
    /// What holds for messages by address, over all that is general.
    pub policies: Arc<[Policy]>,
    /// Publishers and addresses on this shard whose rates are counted; what more come share a count.
    pub rate_buckets_max: usize,
    /// Prefixes of addresses, of whole levels, that have books of their own. Those a kernel was made with count.
    pub ledger_prefixes: Arc<[Box<str>]>,
}

impl Limits {
    /// Bytes that may wait for one session, whose queue is in the journal or not.
    pub(crate) fn session_bytes_max(&self, is_durable: bool) -> usize {
        match is_durable {
            true => self.queue_bytes_max,
            false => self.queue_bytes_max.min(self.queue_volatile_bytes_max),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            queue_messages_max: 100_000,
            queue_bytes_max: 64 << 20,
            queue_volatile_bytes_max: 64 << 20,
            queue_pace_max: Span::from_secs(10),
            queue_memory_bytes_max: 1 << 20,
            overflow: Overflow::DropNewest,
            queue_at_most_once_offline: false,
            in_flight_max: 1024,
            subscriptions_max: 10_000,
            levels_max: 128,
            address_bytes_max: 65_535,
            session_expiry_max: Span::FOREVER,
            sessions_max: 10_000_000,
            publish_rate: 0,
            publish_bytes_rate: 0,
            retain_enabled: true,
            retained_messages_max: 1_000_000,
            retained_bytes_max: 256 << 20,
            retained_expiry_max: Span::FOREVER,
            group_messages_max: 100_000,
            group_bytes_max: 64 << 20,
            group_strategy: GroupStrategy::Adaptive,
            group_policies: Arc::default(),
            group_settle_timeout: Span::from_secs(30),
            group_adaptive_eviction: false,
            group_redispatch: true,
            queues_max: 100_000,
            named_queue_messages_max: 10_000_000,
            named_queue_bytes_max: 16 << 30,
            named_queue_memory_bytes_max: 16 << 20,
            exchanges_max: 10_000,
            bindings_max: 1_000_000,
            watches_max: 1_000_000,
            kept_filters: Arc::default(),
            kept_addresses_max: 100_000,
            kept_messages_max: 1_000_000,
            kept_bytes_max: 256 << 20,
            list_max: 10_000,
            take_settle_timeout: Span::from_secs(30),
            transaction_bytes_max: 64 << 20,
            publishers_max: 10_000,
            publisher_expiry: Span::from_secs(7 * 24 * 3600),
            presence: false,
            presence_offline: Span::from_secs(3600),
            presence_offline_max: 10_000,
            groups_enabled: true,
            wildcards_enabled: true,
            reliability_max: Reliability::ExactlyOnce,
            route_cache_max: 65_536,
            journal: false,
            safety: Safety::Durable,
            safety_filters: Arc::default(),
            policies: Arc::new([]),
            rate_buckets_max: 100_000,
            ledger_prefixes: Arc::default(),
        }
    }
}
