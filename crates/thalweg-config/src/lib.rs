//! The configuration of the broker: each section a struct whose fields are its keys, read from a TOML file, the environment and
//! `--set`, checked as a whole, explained key by key.
//!
//! *Knows:* every key, and the settings of kernel and fronts, which it uses as they are. *Must never know:* what opens a socket;
//! `thalweg-server` carries out what is said here. Start reading at the sections in `settings.rs`; `section.rs` says how they are
//! written. [`Config`] is what the rest of the broker sees.
#![forbid(unsafe_code)]

mod access;
mod built_in;
mod check;
mod choices;
mod error;
mod explain;
mod forms;
mod keys;
mod kind;
mod listener;
mod load;
mod multicast;
mod nearest;
mod policy;
mod protocols;
mod section;
mod settings;
mod sources;
mod tables;
mod units;

pub use access::*;
pub use choices::*;
pub use error::*;
pub use explain::{Change, reference};
pub use keys::{Key, Reload};
pub use kind::KeyKind;
pub use listener::*;
pub use multicast::Multicast;
pub use policy::{GroupPolicy, Policy};
pub use protocols::*;
pub use settings::*;
pub use thalweg_kernel::Overflow;
pub use thalweg_kernel::access::Otherwise as AccessDefault;

#[cfg(test)]
mod tests;
