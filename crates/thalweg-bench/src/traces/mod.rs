//! Traces: what sources of the studies send and when, written as text, read and replayed.
//!
//! *Knows:* the three classes of study A and some plain ones, the text format. *Must never know:* protocols.
//!
//! ```text
//!  class, seed ──> classes (models of sources) ──> trace (text) ──> replay: time, flow, size
//! ```

mod classes;
pub mod command;
pub mod known;
mod quantiles;
pub mod replay;
#[cfg(test)]
mod tests;
mod trace;

pub use trace::{Body, Trace};
