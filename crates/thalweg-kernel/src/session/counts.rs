//! What became of a session's copies, and how much its peer published.

use crate::ledger::{Account, DropReason, take_back};

#[derive(Default)]
pub(crate) struct Counts {
    received: u64,
    routed: u64,
    /// Copies that an earlier run left behind.
    restored: u64,
    delivered: u64,
    expired: u64,
    /// Nothing until something is dropped.
    drops: Option<Box<[u64; DropReason::ALL.len()]>>,
    /// Bytes of memory that the session costs beside its subscriptions.
    weight: usize,
}

impl Counts {
    /// Of a session for which an earlier run left so many copies.
    pub(super) fn restored(copies: usize) -> Self {
        Counts {
            restored: copies as u64,
            ..Counts::default()
        }
    }

    /// Publishes that came from the peer.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Copies that reached the peer.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes of memory that the session costs beside its subscriptions, as they were counted last.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Counts them anew; what they were.
    pub(super) fn set_weight(&mut self, weight: usize) -> usize {
        std::mem::replace(&mut self.weight, weight)
    }

    #[inline(always)]
    pub(crate) fn note_received(&mut self) {
        self.received += 1;
    }

    #[inline(always)]
    pub(crate) fn note_routed(&mut self) {
        self.routed += 1;
    }

    /// So many publishes came one behind the other.
    #[inline]
    pub(crate) fn run_received(&mut self, count: usize) {
        self.received += count as u64;
    }

    /// The copies of such publishes reached the peer.
    #[inline]
    pub(crate) fn run_delivered(&mut self, count: usize) {
        self.routed += count as u64;
        self.delivered += count as u64;
    }

    /// A copy goes elsewhere.
    pub(crate) fn note_taken_back(&mut self) {
        take_back(&mut self.routed, &mut self.restored);
    }

    #[inline(always)]
    pub(crate) fn note_delivered(&mut self) {
        self.delivered += 1;
    }

    pub(crate) fn note_expired(&mut self) {
        self.expired += 1;
    }

    pub(crate) fn note_dropped(&mut self, reason: DropReason) {
        self.drops.get_or_insert_default()[reason as usize] += 1;
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            routed: self.routed,
            restored: self.restored,
            delivered: self.delivered,
            expired: self.expired,
            dropped: self.drops.as_deref().copied().unwrap_or_default(),
        }
    }
}
