//! DDS (DDSI-RTPS): a bridge between a domain and the broker.
//!
//! The bridge is a participant of the domain. For each writer of others it makes a reader, and publishes what it reads at the
//! topic's address; for each reader of others it subscribes at the topic's address and makes a writer. Towards the broker it
//! is one session, through a [front](front) at the other end of a [stream](frame).
//!
//! Only with the feature `cyclone` does anything here go over a network: Cyclone DDS does.
#![cfg_attr(not(feature = "cyclone"), forbid(unsafe_code))]

#[cfg(feature = "cyclone")]
mod admission;
pub mod announced;
#[cfg(feature = "cyclone")]
mod batch;
#[cfg(feature = "cyclone")]
pub mod bridge;
pub mod calls;
pub mod cdr;
#[cfg(feature = "cyclone")]
pub mod client;
pub mod counts;
#[cfg(feature = "cyclone")]
pub mod cyclone;
pub mod frame;
pub mod front;
#[cfg(feature = "cyclone")]
mod gathered;
#[cfg(feature = "cyclone")]
mod graph;
#[cfg(feature = "cyclone")]
mod holders;
pub mod idl;
#[cfg(feature = "cyclone")]
mod instances;
pub mod key;
#[cfg(feature = "cyclone")]
mod left;
#[cfg(feature = "cyclone")]
mod mirror;
pub mod name;
pub mod nodes;
mod offered;
pub mod qos;
#[cfg(feature = "cyclone")]
mod relief;
pub mod remarks;
pub mod settings;
#[cfg(feature = "cyclone")]
mod target;
pub mod types;
