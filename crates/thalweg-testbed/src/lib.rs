//! A whole broker in memory, for tests: shards with their kernels and connections, a clock that tests advance, a
//! journal that can be lost, and clients of every protocol that exchange real bytes with it.
//!
//! *Knows:* the kernel, the fronts and the client sides of the wire crates. *Must never know:* a socket, a file, a clock.
//! Nothing that ships depends on it.
//!
//! Start reading at [`Testbed`]; `tests/contract/` shows what every protocol must do with it.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // A test reads better than a sentence that repeats a name.

pub mod amqp;
mod bed;
pub mod client;
pub mod coap;
mod coap_text;
pub mod disk;
pub mod mqtt;
pub mod random;
pub mod script;
pub mod stomp;
pub mod xmpp;
pub mod zmtp;

pub use bed::{Asked, Settings, Shard, Testbed};
pub use client::{Client, Raw, Who};
pub use random::Random;
