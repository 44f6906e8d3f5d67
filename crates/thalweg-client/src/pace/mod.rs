//! When to send and how much at once: batches that cost no delay when little is sent, and a rate that the other side
//! can take ([ADR 0024](../../../../docs/adr/0024-pace-is-off-by-default.md)). Pure: the time is told, nothing is slept.

mod batch;
mod throttle;

pub use batch::{BatchSettings, Batcher};
pub use throttle::{Throttle, ThrottleSettings};
