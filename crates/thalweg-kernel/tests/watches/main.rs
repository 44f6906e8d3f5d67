//! Watches, reading last values and remembering them, without any protocol: kernels, their links and the mail between
//! them, which may be slow.
//!
//! After every command the books are checked.

#[path = "../queues/dice.rs"]
mod dice;
mod keeping;
#[path = "../queues/kernels.rs"]
mod kernels;
mod lists;
mod model;
mod presence;
mod reading;
mod replies;
mod rights;
mod shards;
mod watching;
mod world;
