//! The kernel itself: what it holds, and how it is made.

use crate::agenda::Agenda;
use crate::books::Books;
use crate::env::{Env, Neutral};
use crate::groups::store::Groups;
use crate::ids::ShardId;
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::made_up::NameKey;
use crate::publish::dedup::Dedup;
use crate::publish::stamp_mask::StampKey;
use crate::queue::Queues;
use crate::remote::store::Remote;
use crate::routes::store::Routes;
use crate::session::Sessions;
use crate::topology::Topology;
use crate::values::Values;
use hashbrown::HashMap;

pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// One shard's brain. Not shared between threads: others talk to it with [`ShardMessage`](crate::ShardMessage)s.
///
/// Every command takes the time and something that carries out [`Effects`](crate::Effects).
pub struct Kernel {
    pub(crate) env: Env,
    pub(crate) sessions: Sessions,
    /// What is written, and what leaves for other shards.
    pub(crate) journal: Journal,
    pub(crate) routes: Routes,
    pub(crate) queues: Queues,
    pub(crate) topology: Topology,
    /// What must happen after the command that is running.
    pub(crate) agenda: Agenda,
    pub(crate) groups: Groups,
    /// What concerns other shards.
    pub(crate) remote: Remote,
    pub(crate) values: Values,
    pub(crate) dedup: Dedup,
    pub(crate) books: Books,
}

impl Kernel {
    /// A kernel for shard `shard` of `shards`. `seed` keys hash tables, random choices and made-up names; peers must not know
    /// it.
    pub fn new(limits: Limits, shard: ShardId, shards: u16, seed: u64) -> Self {
        let values = Values::new(&limits);
        let books = Books::new(&limits.ledger_prefixes);
        Kernel {
            env: Env::new(limits, shard, shards, seed),
            sessions: Sessions::default(),
            journal: Journal::new(shard, shards),
            routes: Routes::new(seed),
            queues: Queues::default(),
            topology: Topology::default(),
            agenda: Agenda::default(),
            groups: Groups::default(),
            remote: Remote::default(),
            values,
            dedup: Dedup::default(),
            books,
        }
    }

    /// Sets what hides publishers' numbers from receivers, before the first session is opened.
    pub fn set_stamp_key(&mut self, key: StampKey) {
        self.dedup.set_key(key);
    }

    /// Sets what reads publishers' own encodings of metadata for content filters; by default they are not read.
    pub fn set_neutral(&mut self, neutral: Neutral) {
        self.env.set_neutral(neutral);
    }

    /// Returns the key of names that cannot be guessed, for the connection with this `nonce`.
    pub fn name_key(&self, nonce: u64) -> NameKey {
        self.env.name_key(nonce)
    }

    /// Replaces the limits; sessions and queues that exceed new ones keep what they have.
    pub fn set_limits(&mut self, limits: Limits) {
        self.values.set_limits(&limits);
        let before = self.env.replace_limits(limits);
        let limits = self.env.limits();
        if before.kept_filters != limits.kept_filters || before.policies != limits.policies {
            self.values.forget_unkept(self.env.limits());
            self.shorten_history();
        }
        if before.policies != self.env.limits().policies {
            // They are counted by the places of records.
            self.routes.rates().forget_all();
            self.let_go_held_back();
        }
        self.renew_group_policies();
        // Routes remember what the limits say of their addresses.
        self.routes.all_have_changed();
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        self.env.limits()
    }

    /// Whether the journal is so full that new messages that it would have to keep are refused. What is settled or ended
    /// is still written down.
    pub fn set_journal_full(&mut self, full: bool) {
        self.env.set_journal_full(full);
    }

    /// Whether the journal does not keep up with what is persisted: then dead letters wait that can.
    pub fn set_journal_behind(&mut self, behind: bool) {
        self.agenda.set_journal_behind(behind);
    }

    /// What was counted since the start: messages received, delivered, dropped and why.
    pub fn ledger(&self) -> &Ledger {
        self.books.ledger()
    }

    /// Bytes of messages that wait, are in flight, are last values or are watched.
    pub fn bytes_held(&self) -> usize {
        self.books.bytes_held() + self.values.bytes()
    }
}

/// The home shard of an address's last value, or of anything else that is named by text. The same on every shard and
/// in every run.
pub fn home(text: &str, shards: u16) -> ShardId {
    if shards <= 1 {
        return ShardId(0);
    }
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    ShardId(((hash ^ hash >> 29) % u64::from(u16::MAX) % u64::from(shards)) as u16)
}
