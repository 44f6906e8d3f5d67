//! The brain of Thalweg: matching, last values, queues, sessions, groups, access.
//!
//! *Knows:* the words of `thalweg-model`. *Must never know:* a protocol, a socket, a file, a clock or a thread. A command
//! and a time come in; what is to be done comes out through [`Effects`]. A process runs one [`Kernel`] per shard; they
//! share nothing and send each other [`ShardMessage`]s.
//!
//! Start reading at [`Kernel::publish`] (`publish.rs`): the path every message takes. A file here is a noun or a verb:
//! `session`, `subscribe`, `settle`, `group`, `queue`, `retained`, `watch`, `read`, `presence`, `shards`, `timers`, `inspect`. What outlives the process is
//! written down in the records of `thalweg-records`: `durable` says when, `session::spill`, `transfer` and `restore` use them.
#![forbid(unsafe_code)]

pub mod access;
mod access_change;
mod agenda;
mod aways;
mod books;
mod cause;
mod cell;
mod client_ids;
mod crowd;
mod dedup;
mod deliver;
mod draft;
mod durable;
mod effects;
mod entry;
mod env;
mod eviction;
mod given_back;
mod group;
mod group_backlog;
mod group_balance;
mod group_explain;
mod group_home;
mod group_join;
mod group_mail;
mod group_offer;
mod group_pass;
mod group_policy;
mod group_return;
mod group_rights;
mod group_view;
mod groups;
mod ids;
mod inspect;
mod journal;
mod kept_value;
mod kernel;
pub mod last_value;
mod leavers;
mod ledger;
mod limits;
mod made_up;
mod memory;
mod numbers;
mod ordered;
mod pace;
mod presence;
mod publish;
mod queue;
pub mod rate;
mod read;
mod recount;
mod remote;
mod restore;
mod retained;
mod room;
mod route_cache;
mod route_store;
pub mod routes;
mod seat_away;
mod seating;
mod seats;
mod seats_away;
mod session;
mod settle;
mod shards;
mod slab;
mod slots;
mod stamp_mask;
mod stamped;
mod subscribe;
mod timers;
mod transfer;
mod values;
mod watch;
mod work_terms;

pub use client_ids::ClientIds;
pub use effects::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, Effects, Fetch, Handover, Holder, Native,
    Observed, Safety, Sent, Spot, Subscribed, Taken, WatchEnd,
};
pub use eviction::Evicted;
pub use group_mail::GroupMail;
pub use group_policy::GroupPolicy;
pub use group_view::{GroupCounters, GroupMemberView, GroupView, Waits};
pub use ids::{LinkId, QueueId, SessionId, ShardId, Tag, TakenId, Ticket, WatchId};
pub use inspect::{Explained, SessionView, SubscriptionView, Totals};
pub use journal::Batch;
pub use kernel::{Kernel, home};
pub use ledger::{Account, DropReason, Ledger};
pub use limits::{Limits, Overflow};
pub use made_up::NameKey;
pub use memory::{Kept, MemoryView};
pub use presence::{KnownAs, PresenceNews};
pub use publish::{Draft, Outcome, Published};
pub use queue::{
    BindSpec, BindTo, BindingView, ConsumeSpec, DeadLetter, ExchangeKind, ExchangeSpec,
    ExchangeView, Gathered, Purged, QueueLimits, QueueOverflow, QueueSpec, QueueStatus, QueueView,
    Refusal, Tags, TakenEnd, Verdict, exchange_address, queue_address,
};
pub use read::{ListCursor, ListSpec};
pub use restore::{GroupName, Part};
pub use session::{Closing, Grants, OpenRefusal, OpenSession, Opened, Pressure, Will};
pub use settle::{Settled, Settlement};
pub use shards::{Asker, ShardMessage};
pub use stamp_mask::StampKey;
pub use stamped::StampedPublish;
pub use subscribe::{LastValueWish, Wish};
pub use thalweg_balance::{GroupStrategy, LoadReport, Signal};
pub use watch::{Change, WatchRefused, WatchSpec};
pub use work_terms::{OrderKey, SettlesWhen, WorkTerms};
