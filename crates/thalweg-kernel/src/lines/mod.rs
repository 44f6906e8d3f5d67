//! Lines: what a session has that takes from queues.
//!
//! A line is a scope of delivery numbers, of settling many at once and of shared credit; its consumers take from queues, or are
//! members of groups. Transactions are here, because they hold back what a line settles. The store is [`line::Lines`], a part
//! of its session; a queue knows its consumers by session, line and number.
//!
//! Start reading at `hand_over.rs`: a message leaves; then `verdict.rs`: it is settled.

mod consume;
mod hand_over;
mod line;
mod member;
mod spec;
mod transaction;
mod verdict;

pub(crate) use hand_over::HandedOver;
pub(crate) use line::{Channel, Lines, Source, Turn, Unsettled};
pub use spec::{ConsumeSpec, Tags};
pub use transaction::{Committed, Gathered};
