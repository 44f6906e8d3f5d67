//! Queues with names, without any protocol: a world of kernels, links that may be full, and a journal in memory.
//!
//! After every command the books are checked, and that the journal does not contradict itself.

mod access;
mod apart;
mod congestion;
mod crowd;
mod dead_letters;
mod dispatch;
mod exchanges;
mod groups;
mod journal;
mod lifetime;
mod limits;
mod model;
mod pass;
mod settlement;
mod shards;
mod transactions;
mod world;
