//! The books: every message is accounted for.
//!
//! Per copy: `routed = delivered + waiting + in flight + expired + dropped`. Per publish: `received + own = matched +
//! unmatched + refused + repeated`. A copy counts as delivered when an at-most-once copy is in its receiver's output, or when the
//! receiver settled it.

/// Why a copy was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The receiver's queue held as many messages or bytes as it may.
    QueueFull,
    /// The receiver's output was full and the copy was at most once.
    SlowReceiver,
    /// The receiver does not take packets of that size.
    TooLarge,
    /// No member of the group could take an at-most-once copy.
    NoMember,
    /// The session ended with the copy unsettled.
    SessionEnded,
    /// The group's last member left.
    GroupEnded,
    /// The process-wide memory budget is spent.
    Memory,
    /// The receiver may not see that address.
    AccessDenied,
    /// The link went away under an at-most-once copy.
    LinkGone,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [DropReason; 9] = [
        DropReason::QueueFull,
        DropReason::SlowReceiver,
        DropReason::TooLarge,
        DropReason::NoMember,
        DropReason::SessionEnded,
        DropReason::GroupEnded,
        DropReason::Memory,
        DropReason::AccessDenied,
        DropReason::LinkGone,
    ];

    /// The reason's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::QueueFull => "queue_full",
            DropReason::SlowReceiver => "slow_receiver",
            DropReason::TooLarge => "too_large",
            DropReason::NoMember => "no_member",
            DropReason::SessionEnded => "session_ended",
            DropReason::GroupEnded => "group_ended",
            DropReason::Memory => "memory",
            DropReason::AccessDenied => "access_denied",
            DropReason::LinkGone => "link_gone",
        }
    }
}

/// Counters of one kernel; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Publishes received from links (not from other shards).
    pub received: u64,
    /// Bytes of their payloads.
    pub received_bytes: u64,
    /// Publishes of the broker's own: wills, figures, what operators publish.
    pub own: u64,
    /// Publishes that at least one sink of this process wanted.
    pub matched: u64,
    /// Publishes nobody wanted.
    pub unmatched: u64,
    /// Publishes refused by access rules or limits.
    pub refused: u64,
    /// Messages that did not become last values because the store is full or switched off; they were delivered.
    pub retain_refused: u64,
    /// Exactly-once publishes that were repeated and not routed again.
    pub repeated: u64,
    /// Copies for receivers on this shard.
    pub routed: u64,
    /// Copies delivered.
    pub delivered: u64,
    /// Bytes of their payloads.
    pub delivered_bytes: u64,
    /// Copies whose time ran out before they left.
    pub expired: u64,
    /// Copies dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Sessions that ended because they had no link for too long.
    pub sessions_expired: u64,
    /// Copies sent again after a reconnect or a time limit.
    pub redelivered: u64,
    /// Copies handed to other shards: one per message and shard.
    pub forwarded: u64,
    /// Copies that came from other shards.
    pub arrived: u64,
}

impl Ledger {
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    pub(crate) fn drop_many(&mut self, reason: DropReason, count: usize) {
        self.dropped[reason as usize] += count as u64;
    }

    /// All copies dropped, whatever the reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
