//! Queues with names, groups and watches, without any protocol: a world of kernels, links that may be full, and a journal in memory.
//!
//! After every command the books are checked, and that the journal does not contradict itself.

mod access;
mod apart;
mod bounds;
mod churn;
mod congestion;
mod crew;
mod crowd;
mod dead_letters;
mod dice;
mod disk;
mod dispatch;
mod evictions;
mod exchanges;
mod flags;
mod full;
mod given_back;
mod group_views;
mod groups;
mod high_water;
mod journal;
mod kernels;
mod lifetime;
mod limits;
mod makers;
mod memory;
mod model;
mod ordered;
mod origins;
mod owners;
mod owners_of_sessions;
mod pass;
mod prefixes;
mod promises;
mod recorder;
mod review;
mod revoked;
mod settlement;
mod shards;
mod shares;
mod slow_mail;
mod stamps;
mod transactions;
mod watches;
mod world;
