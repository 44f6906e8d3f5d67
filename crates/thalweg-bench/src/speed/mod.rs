//! How fast a client publishes: sinks that cost next to nothing, and our client as one of those that are measured.
//!
//! A broker takes more time for a message than a client does, so behind a broker all clients look alike. A sink reads,
//! counts and acknowledges, and nothing else; it is no example of how a protocol is to be served. Stock clients are
//! programs of their own, in `measure/clients`; `measure/publish_speed.py` builds them, runs all against the same sinks in
//! turn, and prints the ratios.

pub mod command;
mod publish;
pub(crate) mod sink;
pub(crate) mod sinks;
