//! E5: state-aware shared subscriptions, with real connections and workers that sleep.
//!
//! Study E put three subscribers of unequal speed into one group and told the broker how they were.
//! This repeats it: a publisher that keeps to absolute times, workers with a queue and a time that each message takes, a
//! clock for all of them, a broker in its own process.
//!
//! ```text
//!  plan ──> cells ──> lab: stage per cell ─┬─ publisher ──> broker ──> workers ─┐
//!                                          └── trial <── what happened when ────┘
//! ```
//!
//! Start reading at [`plan`], then [`stage`].

pub mod broker;
mod cell;
mod lab;
mod line;
pub mod plan;
mod stage;
pub mod suite;
mod worker;
