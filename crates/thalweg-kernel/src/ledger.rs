//! The books: every message is accounted for.
//!
//! Per copy: `routed + restored = delivered + waiting + in flight + expired + dropped`. Per publish: `received + own = matched +
//! unmatched + refused + repeated`. A copy counts as delivered when an at-most-once copy is in its receiver's output, or when the
//! receiver settled it.

use crate::Kernel;
use crate::ids::SessionId;
use thalweg_model::Message;

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
    /// It waited on disk and could not be read back.
    Unreadable,
    QueueEnded,
    /// Its queue was emptied.
    Purged,
    /// It was delivered as often as its queue allows, and always came back.
    DeliveryLimit,
    /// A newer value of its address came before its reader asked for it.
    Conflated,
    /// Its reader ended the watch.
    Unwatched,
    /// A policy's rate left no room for it: one copy for each such publish, however many receivers it had.
    OverRate,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [DropReason; 16] = [
        DropReason::QueueFull,
        DropReason::SlowReceiver,
        DropReason::TooLarge,
        DropReason::NoMember,
        DropReason::SessionEnded,
        DropReason::GroupEnded,
        DropReason::Memory,
        DropReason::AccessDenied,
        DropReason::LinkGone,
        DropReason::Unreadable,
        DropReason::QueueEnded,
        DropReason::Purged,
        DropReason::DeliveryLimit,
        DropReason::Conflated,
        DropReason::Unwatched,
        DropReason::OverRate,
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
            DropReason::Unreadable => "unreadable",
            DropReason::QueueEnded => "queue_ended",
            DropReason::Purged => "purged",
            DropReason::DeliveryLimit => "delivery_limit",
            DropReason::Conflated => "conflated",
            DropReason::Unwatched => "unwatched",
            DropReason::OverRate => "over_rate",
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
    pub unmatched: u64,
    /// Publishes refused by access rules or limits.
    pub refused: u64,
    /// Of these, publishes beyond the rate that a policy gives their address.
    pub refused_over_rate: u64,
    /// Publishes that were taken though they are beyond such a rate, and whose publishers had to wait.
    pub throttled: u64,
    /// Messages that did not become last values, retained or only remembered, because the store is full or switched off;
    /// they were delivered.
    pub retain_refused: u64,
    /// Publishes that were repeated and not routed again: those of exactly-once messages and those with a stamp that was
    /// known.
    pub repeated: u64,
    /// Of these, publishes whose stamp was taken before.
    pub repeated_stamps: u64,
    /// Of these, publishes whose stamp is so old that it is taken for a repetition.
    pub outdated_stamps: u64,
    /// Publishes whose stamp could not be read and was ignored.
    pub damaged_stamps: u64,
    /// Copies for receivers on this shard.
    pub routed: u64,
    /// Copies that an earlier run left behind, waiting or in flight.
    pub restored: u64,
    pub delivered: u64,
    /// Bytes of their payloads.
    pub delivered_bytes: u64,
    /// Copies whose time ran out before they left.
    pub expired: u64,
    /// Copies dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Sessions that ended because they had no link for too long.
    pub sessions_expired: u64,
    /// Subscriptions that a policy has sent messages less reliably than they asked for when they were made.
    pub subscriptions_downgraded: u64,
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

    /// A copy goes elsewhere.
    pub(crate) fn take_back(&mut self) {
        take_back(&mut self.routed, &mut self.restored);
    }

    /// All copies dropped, whatever the reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// The books of one receiver or of one part of the address space. Copies only: `routed + restored = delivered + expired
/// + dropped` + what waits or is in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Copies routed to it.
    pub routed: u64,
    /// Copies that an earlier run left behind.
    pub restored: u64,
    pub delivered: u64,
    /// Copies whose time ran out.
    pub expired: u64,
    /// Copies dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
}

impl Account {
    /// All copies dropped, whatever the reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// A copy goes elsewhere.
    pub(crate) fn take_back(&mut self) {
        take_back(&mut self.routed, &mut self.restored);
    }

    /// Copies that wait or are in flight: what is not accounted for otherwise.
    pub fn outstanding(&self) -> u64 {
        let gone = self.delivered + self.expired + self.dropped_total();
        (self.routed + self.restored).saturating_sub(gone)
    }
}

/// Ledgers by prefix of the address, for the configured prefixes.
#[derive(Default)]
pub(crate) struct Accounts {
    prefixes: Vec<(Box<str>, Account)>,
}

impl Accounts {
    pub(crate) fn new(prefixes: &[Box<str>]) -> Self {
        let mut prefixes: Vec<_> = prefixes
            .iter()
            .map(|prefix| (prefix.clone(), Account::default()))
            .collect();
        prefixes.sort_by(|a, b| a.0.cmp(&b.0));
        prefixes.dedup_by(|a, b| a.0 == b.0);
        Accounts { prefixes }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.prefixes
            .iter()
            .map(|(prefix, account)| (&**prefix, account))
    }

    /// The account at a place that [`Accounts::place_of`] gave.
    pub(crate) fn at(&mut self, place: AccountPlace) -> Option<&mut Account> {
        self.prefixes
            .get_mut(usize::from(place))
            .map(|(_, account)| account)
    }

    /// The place of the account of an address, to be remembered while its message is on disk.
    pub(crate) fn place_of(&self, address: &str) -> AccountPlace {
        self.find_place(address)
            .and_then(|place| u16::try_from(place).ok())
            .unwrap_or(NO_ACCOUNT)
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn are_kept(&self) -> bool {
        !self.prefixes.is_empty()
    }

    #[cold]
    pub(crate) fn book_routed(&mut self, address: &str) {
        if let Some(account) = self.find(address) {
            account.routed += 1;
        }
    }

    /// The account of the longest prefix of whole levels.
    #[inline]
    pub(crate) fn of(&mut self, address: &str) -> Option<&mut Account> {
        if self.prefixes.is_empty() {
            None
        } else {
            self.find(address)
        }
    }

    #[cold]
    fn find(&mut self, address: &str) -> Option<&mut Account> {
        let place = self.find_place(address)?;
        self.prefixes.get_mut(place).map(|(_, account)| account)
    }

    fn find_place(&self, address: &str) -> Option<usize> {
        let mut prefix = address;
        loop {
            if let Ok(at) = self
                .prefixes
                .binary_search_by(|(name, _)| (**name).cmp(prefix))
            {
                return Some(at);
            }
            prefix = &prefix[..prefix.rfind('/')?];
        }
    }
}

/// Which account a copy is booked in.
pub(crate) type AccountPlace = u16;

/// It is booked in none.
const NO_ACCOUNT: AccountPlace = AccountPlace::MAX;

impl Kernel {
    /// The books of each prefix that was asked for in [`Limits::ledger_prefixes`](crate::Limits::ledger_prefixes).
    pub fn accounts(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.books.accounts()
    }

    /// A copy for a session, or for a group if there is no session yet.
    #[inline]
    pub(crate) fn book_routed(&mut self, id: Option<SessionId>, address: &str) {
        self.books.routed(address);
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
            session.counts.note_routed();
        }
    }

    /// A copy was dropped whose address is on disk. `place` says where it is booked, if it is at all.
    pub(crate) fn book_drop_on_disk(
        &mut self,
        id: Option<SessionId>,
        place: Option<AccountPlace>,
        reason: DropReason,
    ) {
        self.books.dropped_on_disk(place, reason);
        self.count_drop(id, reason);
    }

    /// A copy goes to another shard after all, which books it anew.
    pub(crate) fn unbook_routed(&mut self, id: Option<SessionId>, address: &str) {
        self.books.unrouted(address);
        self.hand_back(id);
    }

    /// A group's copy goes to a member.
    pub(crate) fn hand_out(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.counts.note_routed();
        }
    }

    /// A member's copy goes back to its group, or elsewhere.
    pub(crate) fn hand_back(&mut self, id: Option<SessionId>) {
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
            session.counts.note_taken_back();
        }
    }

    /// A copy was delivered.
    #[inline]
    pub(crate) fn book_delivered(&mut self, id: SessionId, address: &str, payload_len: usize) {
        self.books.delivered(address, payload_len);
        if let Some(session) = self.sessions.get_mut(id) {
            session.counts.note_delivered();
        }
    }

    /// A receiver has had a message; a refusal is the receiver's own.
    #[inline(always)]
    pub(crate) fn book_had(&mut self, id: SessionId, message: &Message) {
        let address = self.books.address_of(message);
        self.book_delivered(id, address, message.payload().len());
    }

    /// A copy's time ran out.
    pub(crate) fn book_expired(&mut self, id: Option<SessionId>, address: &str) {
        self.books.expired(address);
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
            session.counts.note_expired();
        }
    }

    /// A copy was dropped.
    pub(crate) fn book_drop(&mut self, id: Option<SessionId>, address: &str, reason: DropReason) {
        self.books.dropped(address, reason);
        self.count_drop(id, reason);
    }

    fn count_drop(&mut self, id: Option<SessionId>, reason: DropReason) {
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
            session.counts.note_dropped(reason);
        }
    }
}

/// Subtracts one from either: which of both it was is not known any more, and only their sum counts.
pub(crate) fn take_back(routed: &mut u64, restored: &mut u64) {
    match routed.checked_sub(1) {
        Some(rest) => *routed = rest,
        None => *restored = restored.saturating_sub(1),
    }
}
