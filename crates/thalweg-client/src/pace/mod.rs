//! When to send and how much at once: batches that cost no delay when little is sent, and a rate that the other side
//! can take (PROTOCOLS 15). Pure: the time is told, nothing is slept.

mod batch;
mod throttle;

pub use batch::{BatchSettings, Batcher};
pub use throttle::{Throttle, ThrottleSettings};
