//! Time and size of writes: batches that add no delay under light load, and a rate that the peer can handle ([ADR
//! 0024](../../../../docs/adr/0024-pace-is-off-by-default.md)). Pure: the caller passes the time, and no call sleeps.

mod batch;
mod throttle;

pub use batch::{BatchSettings, Batcher};
pub use throttle::{Throttle, ThrottleSettings};
