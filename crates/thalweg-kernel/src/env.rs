//! What a kernel works under: its limits, its place among the shards, how short memory and disk are, and its random
//! numbers.

use crate::ids::ShardId;
use crate::limits::Limits;
use crate::made_up::NameKey;
use crate::memory::{Kept, Memory, MemoryView};
use crate::session::Pressure;
use std::borrow::Cow;
use thalweg_model::{Message, Properties};

/// Reads the metadata of a message in whatever encoding its publisher has, and returns it in ours.
pub type Neutral = fn(&Properties) -> Cow<'_, Properties>;

/// Limits, the shard, shortage of memory and disk, and randomness; set from outside, asked by every flow.
pub(crate) struct Env {
    limits: Limits,
    /// Whether subscribers of any address have a rate, so that copies that leave are asked after it.
    rates_subscribers: bool,
    shard: ShardId,
    shards: u16,
    /// The journal is nearly full: nothing that it would have to keep is accepted.
    journal_full: bool,
    /// Memory or disk is short, so that a publish is judged before anything is done with it.
    is_short: bool,
    memory: Memory,
    random: u64,
    /// Seed of made-up names.
    names: u64,
    /// Of the operator's rules; 0 until it is set.
    rules_generation: u32,
    neutral: Neutral,
}

impl Env {
    /// For shard `shard` of `shards`; peers must not know `seed`.
    pub(crate) fn new(limits: Limits, shard: ShardId, shards: u16, seed: u64) -> Self {
        assert!(
            shard.0 < shards,
            "a shard's number is below the number of shards"
        );
        Env {
            rates_subscribers: limits.rates_subscribers(),
            limits,
            shard,
            shards,
            journal_full: false,
            is_short: false,
            memory: Memory::default(),
            random: seed | 1,
            names: seed,
            rules_generation: 0,
            neutral: |properties| Cow::Borrowed(properties),
        }
    }

    pub(crate) fn neutral(&self) -> Neutral {
        self.neutral
    }

    pub(crate) fn set_neutral(&mut self, neutral: Neutral) {
        self.neutral = neutral;
    }

    #[inline]
    pub(crate) fn rates_subscribers(&self) -> bool {
        self.rates_subscribers
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Replaces the limits and returns those that were in force.
    pub(crate) fn replace_limits(&mut self, limits: Limits) -> Limits {
        self.rates_subscribers = limits.rates_subscribers();
        std::mem::replace(&mut self.limits, limits)
    }

    #[inline]
    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    /// The number of shards, at least 1.
    #[inline]
    pub(crate) fn shards(&self) -> u16 {
        self.shards
    }

    #[inline]
    pub(crate) fn pressure(&self) -> Pressure {
        self.memory.pressure()
    }

    /// Whether messages that would have to wait in memory are dropped or refused.
    #[inline]
    pub(crate) fn drops_waiting(&self) -> bool {
        self.pressure() >= Pressure::DropWaiting
    }

    /// Whether a message that would wait is dropped or refused: in memory, or on disk if `to_disk`. A dead letter was accepted
    /// before and is in memory already, so it is kept as long as anything is (decision 0062).
    #[inline]
    pub(crate) fn drops_what_waits(&self, message: &Message, to_disk: bool) -> bool {
        self.drops_waiting()
            && (self.pressure() >= Pressure::RefuseSessions || !to_disk && !has_died(message))
    }

    /// Whether the journal accepts nothing new.
    #[inline]
    pub(crate) fn journal_full(&self) -> bool {
        self.journal_full
    }

    pub(crate) fn rules_generation(&self) -> u32 {
        self.rules_generation
    }

    pub(crate) fn set_rules_generation(&mut self, generation: u32) {
        self.rules_generation = generation;
    }

    /// Whether memory or disk is short, so that a publish is judged before anything is done with it.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    pub(crate) fn set_journal_full(&mut self, full: bool) {
        self.journal_full = full;
        self.is_short = full || self.drops_waiting();
    }

    /// Sets how short memory is, of which budget.
    pub(crate) fn set_memory(&mut self, view: MemoryView) {
        self.memory.set_view(view);
        self.is_short = self.journal_full || self.drops_waiting();
    }

    /// Sets how short memory is; the budget remains.
    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        self.set_memory(MemoryView {
            pressure,
            ..self.memory.view()
        });
    }

    /// What is kept beside messages.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Counts `bytes` that are kept from now on.
    pub(crate) fn entered(&mut self, kind: Kept, bytes: usize) {
        self.memory.entered(kind, bytes);
    }

    /// Counts `bytes` that are kept no longer.
    pub(crate) fn left(&mut self, kind: Kept, bytes: usize) {
        self.memory.left(kind, bytes);
    }

    /// Whether something may keep `more` bytes that others can do without; filters are kept on every shard.
    pub(crate) fn may_keep_much(&self, more: usize) -> bool {
        self.memory.may_keep_much(more * usize::from(self.shards))
    }

    /// The next random number.
    pub(crate) fn random(&mut self) -> u64 {
        // xorshift64: spreads choices, keeps no secrets.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Makes names that peers cannot guess, for the connection that `nonce` belongs to.
    pub(crate) fn name_key(&self, nonce: u64) -> NameKey {
        NameKey::new(self.names, nonce)
    }
}

/// Whether a message is a dead letter.
#[cold]
fn has_died(message: &Message) -> bool {
    let details = message.properties().and_then(|it| it.details.as_deref());
    details.is_some_and(|details| !details.deaths.is_empty())
}
