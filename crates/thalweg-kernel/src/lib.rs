//! The brain of Thalweg: matching, last values, queues, sessions, groups, access.
//!
//! *Knows:* the words of `thalweg-model`. *Must never know:* a protocol, a socket, a file, a clock or a thread. A command
//! and a time come in; what is to be done comes out through [`Effects`]. A process runs one [`Kernel`] per shard; they
//! share nothing and send each other [`ShardMessage`]s.
//!
//! Start reading at [`Kernel::publish`] (`publish/pipeline.rs`): the path every message takes. A folder is a room: a store,
//! which owns state in private fields, and the flows (methods of [`Kernel`]) that are about it. ARCHITECTURE has the map.
//! What outlives the process is written in the records of `thalweg-records`: `journal/durable.rs` says when.
#![forbid(unsafe_code)]

pub mod access;
mod agenda;
mod books;
mod effects;
mod entry;
mod env;
mod groups;
mod ids;
mod inspect;
mod journal;
mod kernel;
mod ledger;
mod limits;
mod lines;
mod made_up;
mod memory;
mod policy;
mod publish;
mod queue;
pub mod rate;
mod recount;
mod remote;
pub mod routes;
mod session;
mod slab;
mod slots;
mod spill;
mod timers;
mod topology;
mod turns;
mod values;
mod verdict;

pub use access::client_ids::ClientIds;
pub use effects::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, Effects, Fetch, Holder, Native, Observed,
    Recipient, Safety, Sent, Spot, Subscribed, Taken, WatchEnd,
};
pub use env::Neutral;
pub use groups::eviction::Evicted;
pub use groups::policy::GroupPolicy;
pub use groups::view::{GroupCounters, GroupMemberView, GroupView, Waits};
pub use groups::work_terms::{OrderKey, SettlesWhen, WorkTerms};
pub use ids::{LinkId, QueueId, SessionId, ShardId, Tag, TakenId, Ticket, WatchId};
pub use inspect::{Explained, SessionView, SubscriptionView, Totals};
pub use journal::Batch;
pub use journal::restore::{GroupName, Part};
pub use kernel::{Kernel, home};
pub use ledger::{Account, DropReason, Ledger};
pub use limits::{Limits, Overflow};
pub use lines::{Committed, ConsumeSpec, Gathered, Tags};
pub use made_up::NameKey;
pub use memory::{Kept, MemoryView};
pub use policy::{Exceed, LastValueRule, Policy, RatePer};
pub use publish::asked::Unkept;
pub use publish::pipeline::{Draft, Outcome, Published};
pub use publish::run::{Cut, Run};
pub use publish::stamp_mask::StampKey;
pub use publish::stamped::StampedPublish;
pub use queue::{
    DeadLetter, Deleted, Purged, QueueLimits, QueueOverflow, QueueSpec, QueueStatus, QueueView,
    is_queue_address, queue_address,
};
pub use remote::group_mail::GroupMail;
pub use remote::shards::{Asker, ShardMessage};
pub use session::presence::{KnownAs, PresenceNews};
pub use session::settle::Settled;
pub use session::subscribe::{LastValueWish, Wish};
pub use session::{Closing, Grants, OpenRefusal, OpenSession, Opened, Pressure, Will};
pub use thalweg_balance::{GroupStrategy, LoadReport, Signal};
pub use topology::{
    BindSpec, BindTo, BindingView, ExchangeKind, ExchangeSpec, ExchangeView, exchange_address,
};
pub use values::last_value;
pub use values::read::{ListCursor, ListSpec};
pub use values::watch::{Change, WatchRefused, WatchSpec};
pub use verdict::{Refusal, Verdict};
