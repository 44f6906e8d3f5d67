//! The part of the kernel's state that outlives the process, as records of changes.
//!
//! *Knows:* sessions, queues, last values. *Must never know:* a file, a frame, a disk. The kernel gathers records for
//! `Kernel::take_batch`; the store folds them into a [`State`], from which kernels
//! are restored (`Kernel::restore`).
//!
//! A durable queue has a number that is never reused: a session's, or a group's. A waiting or in-flight copy is an
//! *entry*, named by the queue's number and a *serial* that rises over the life of the journal, so that the order of
//! serials is the order of arrival. An entry that was sent has a tag, too.
#![forbid(unsafe_code)]

mod codec;
mod decode;
mod encode;
mod fold;
mod record;
mod sequences;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

pub use decode::message_at;
pub use fold::{Contradiction, StateFault};
pub use record::{
    BodyRecord, KeptAs, Message as MessageRecord, Record, RecordFault, Reference, SessionRecord,
    SubscriptionRecord, WillRecord,
};
pub use sequences::{Known, Sequences};
pub use state::{
    Counts, State, Stored, StoredGroup, StoredSession, StoredSlot, StoredSubscription, StoredWill,
};
pub use waiting::Waiting;
