//! The books of one kernel: what it holds, and what became of everything else.
//!
//! Each counter is changed by the methods here only, so that a copy cannot enter memory without being counted.
//! [`Kernel::recount`](crate::Kernel::recount) compares them with what is there after each step of the tests.

use crate::ledger::{Account, AccountPlace, Accounts, DropReason, Ledger};
use thalweg_model::Message;

/// Copies of messages that enter or leave, and the memory that they take.
#[derive(Clone, Copy, Debug)]
#[must_use = "the books must be told what enters and leaves"]
pub(crate) struct Delta {
    count: usize,
    bytes: usize,
}

impl Delta {
    /// One copy that takes `bytes` of memory.
    #[inline]
    pub(crate) fn copy(bytes: usize) -> Delta {
        Delta { count: 1, bytes }
    }

    /// `count` copies that take `bytes` of memory together.
    #[inline]
    pub(crate) fn copies(count: usize, bytes: usize) -> Delta {
        Delta { count, bytes }
    }

    /// Memory alone: the copies that it belongs to stay counted, or are counted nowhere.
    #[inline]
    pub(crate) fn memory(bytes: usize) -> Delta {
        Delta { count: 0, bytes }
    }
}

/// Counters of messages: what waits, what is in flight, the bytes of both, and the ledger.
#[derive(Default)]
pub(crate) struct Books {
    ledger: Ledger,
    accounts: Accounts,
    /// Bytes of copies that wait or are in flight, and of dead letters that wait for their burial.
    bytes_held: usize,
    /// Copies that wait in sessions, groups, queues and watches.
    waiting: usize,
    /// Copies sent and not settled.
    in_flight: usize,
}

impl Books {
    /// Books with an account for each prefix.
    pub(crate) fn new(prefixes: &[Box<str>]) -> Self {
        Books {
            accounts: Accounts::new(prefixes),
            ..Books::default()
        }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The account of each prefix that has one.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.accounts.iter()
    }

    pub(crate) fn bytes_held(&self) -> usize {
        self.bytes_held
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    // --- what is held

    /// Copies wait from now on.
    #[inline]
    pub(crate) fn entered(&mut self, delta: Delta) {
        self.waiting += delta.count;
        self.bytes_held += delta.bytes;
    }

    /// Copies do not wait any longer.
    #[inline]
    pub(crate) fn left(&mut self, delta: Delta) {
        self.waiting -= delta.count;
        self.bytes_held = self.bytes_held.saturating_sub(delta.bytes);
    }

    /// Copies were sent and are to be settled.
    #[inline]
    pub(crate) fn sent(&mut self, delta: Delta) {
        self.in_flight += delta.count;
        self.bytes_held += delta.bytes;
    }

    /// Copies are in flight no longer: they were settled, or go elsewhere.
    #[inline]
    pub(crate) fn settled(&mut self, delta: Delta) {
        self.in_flight -= delta.count;
        self.bytes_held = self.bytes_held.saturating_sub(delta.bytes);
    }

    // --- publishes

    /// A publish of `bytes` of payload came from a link.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.ledger.received += 1;
        self.ledger.received_bytes += bytes as u64;
    }

    /// The broker itself publishes.
    pub(crate) fn own(&mut self) {
        self.ledger.own += 1;
    }

    /// So many publishes came one behind the other, with so many bytes of payload together, and were wanted.
    #[inline]
    pub(crate) fn run_received(&mut self, count: usize, bytes: usize) {
        self.ledger.received += count as u64;
        self.ledger.received_bytes += bytes as u64;
        self.ledger.matched += count as u64;
    }

    /// The copies of such publishes were made for a receiver and delivered, where it is known that there are no accounts.
    #[inline]
    pub(crate) fn run_delivered(&mut self, count: usize, bytes: usize) {
        self.ledger.routed += count as u64;
        self.ledger.delivered += count as u64;
        self.ledger.delivered_bytes += bytes as u64;
    }

    /// Counts a publish that matched a receiver in this process.
    #[inline]
    pub(crate) fn matched(&mut self) {
        self.ledger.matched += 1;
    }

    /// No receiver wanted a publish.
    pub(crate) fn unmatched(&mut self) {
        self.ledger.unmatched += 1;
    }

    /// Rules or limits refused a publish.
    pub(crate) fn refused(&mut self) {
        self.ledger.refused += 1;
    }

    /// A publish beyond a policy's rate was refused.
    pub(crate) fn refused_over_rate(&mut self) {
        self.refused();
        self.ledger.refused_over_rate += 1;
    }

    /// A publish beyond a policy's rate was dropped.
    pub(crate) fn dropped_over_rate(&mut self, address: &str) {
        self.matched();
        self.routed(address);
        self.dropped(address, DropReason::OverRate);
    }

    /// The publisher of a message waits for a policy's rate.
    pub(crate) fn throttled(&mut self) {
        self.ledger.throttled += 1;
    }

    /// A message did not become a last value.
    pub(crate) fn retain_refused(&mut self) {
        self.ledger.retain_refused += 1;
    }

    /// A publish came again and was not routed again.
    pub(crate) fn repeated(&mut self) {
        self.ledger.repeated += 1;
    }

    /// A publish came again by its stamp, or, if `outdated`, is so old that it counts as one that did.
    pub(crate) fn repeated_stamp(&mut self, outdated: bool) {
        self.ledger.repeated += 1;
        if outdated {
            self.ledger.outdated_stamps += 1;
        } else {
            self.ledger.repeated_stamps += 1;
        }
    }

    /// A stamp could not be read.
    pub(crate) fn damaged_stamp(&mut self) {
        self.ledger.damaged_stamps += 1;
    }

    /// A copy was handed to another shard.
    pub(crate) fn forwarded(&mut self) {
        self.ledger.forwarded += 1;
    }

    /// A copy came from another shard.
    pub(crate) fn arrived(&mut self) {
        self.ledger.arrived += 1;
    }

    // --- copies

    /// Whether accounts by address are configured; without them the address of a copy need not be looked at.
    #[inline]
    pub(crate) fn has_accounts(&self) -> bool {
        self.accounts.are_kept()
    }

    /// The address of a message to book it by; empty where that is not looked at, because looking costs more than the rest.
    #[inline]
    pub(crate) fn address_of<'m>(&self, message: &'m Message) -> &'m str {
        if self.has_accounts() {
            message.address()
        } else {
            ""
        }
    }

    /// The place of the account of an address, to be remembered while its message is on disk.
    pub(crate) fn place_of(&self, address: &str) -> AccountPlace {
        self.accounts.place_of(address)
    }

    /// A copy is made for a receiver of this shard.
    #[inline]
    pub(crate) fn routed(&mut self, address: &str) {
        self.ledger.routed += 1;
        if self.accounts.are_kept() {
            self.accounts.book_routed(address);
        }
    }

    /// The same where it is known that there are no accounts.
    #[inline]
    pub(crate) fn routed_without_account(&mut self) {
        self.ledger.routed += 1;
    }

    /// A copy goes to another shard after all, which books it anew.
    pub(crate) fn unrouted(&mut self, address: &str) {
        self.ledger.take_back();
        if let Some(account) = self.accounts.of(address) {
            account.take_back();
        }
    }

    /// An earlier run left copies behind, whose addresses are not known yet.
    pub(crate) fn restored(&mut self, count: usize) {
        self.ledger.restored += count as u64;
    }

    /// The address of such a copy is known.
    pub(crate) fn restored_address(&mut self, address: &str) {
        if let Some(account) = self.accounts.of(address) {
            account.restored += 1;
        }
    }

    /// A copy was delivered.
    #[inline]
    pub(crate) fn delivered(&mut self, address: &str, payload_len: usize) {
        self.delivered_without_account(payload_len);
        if let Some(account) = self.accounts.of(address) {
            account.delivered += 1;
        }
    }

    /// The same where it is known that there are no accounts.
    #[inline]
    pub(crate) fn delivered_without_account(&mut self, payload_len: usize) {
        self.ledger.delivered += 1;
        self.ledger.delivered_bytes += payload_len as u64;
    }

    /// A copy is sent, again if `again`.
    #[inline]
    pub(crate) fn redelivered(&mut self, again: bool) {
        self.ledger.redelivered += u64::from(again);
    }

    pub(crate) fn expired(&mut self, address: &str) {
        self.ledger.expired += 1;
        if let Some(account) = self.accounts.of(address) {
            account.expired += 1;
        }
    }

    /// A copy was dropped.
    pub(crate) fn dropped(&mut self, address: &str, reason: DropReason) {
        self.ledger.drop(reason);
        if let Some(account) = self.accounts.of(address) {
            account.dropped[reason as usize] += 1;
        }
    }

    /// A copy was dropped whose address is on disk; `place` is that of its account.
    pub(crate) fn dropped_on_disk(&mut self, place: Option<AccountPlace>, reason: DropReason) {
        self.ledger.drop(reason);
        if let Some(account) = place.and_then(|place| self.accounts.at(place)) {
            account.dropped[reason as usize] += 1;
        }
    }

    /// The same of many that are booked in one account.
    pub(crate) fn dropped_many_on_disk(
        &mut self,
        place: AccountPlace,
        reason: DropReason,
        count: usize,
    ) {
        self.ledger.drop_many(reason, count);
        if let Some(account) = self.accounts.at(place) {
            account.dropped[reason as usize] += count as u64;
        }
    }

    /// Counts dropped copies whose addresses are unknown or not accounted.
    pub(crate) fn dropped_many(&mut self, reason: DropReason, count: usize) {
        self.ledger.drop_many(reason, count);
    }

    /// A policy has a subscription sent messages less reliably than it asked for.
    pub(crate) fn downgraded(&mut self) {
        self.ledger.subscriptions_downgraded += 1;
    }

    /// A session ended because it had no link for too long.
    pub(crate) fn session_expired(&mut self) {
        self.ledger.sessions_expired += 1;
    }
}
