//! Shared groups in virtual time: the kernel that ships, members that work, a publisher, and no clock.
//!
//! [`scenario`] says what happens, [`run`] lets it happen to a strategy, [`limit::limit`] is the bound that no strategy
//! can beat. [`rows`] are conditions with their bars (ADR 0019), [`thesis`] the study's own scenarios, and
//! [`table`] says of all of them what holds.
//!
//! *Knows:* the kernel and what members report. *Must never know:* a socket, a file, a clock, the laboratory that shows its
//! tables. A crate of its own, so that tests run it optimised. Start reading at [`run`].
#![forbid(unsafe_code)]

mod broker;
pub mod limit;
mod outcome;
pub mod rows;
pub mod scenario;
pub mod table;
pub mod thesis;
mod work;
pub mod worker;
mod world;

pub use outcome::Outcome;
pub use scenario::Scenario;
pub use thalweg_stats::random;
pub use world::run;
