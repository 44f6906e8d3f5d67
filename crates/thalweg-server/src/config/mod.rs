//! The configuration of the broker: declared once as a table of keys, read from a TOML file, the environment and
//! `--set`, checked as a whole, explained key by key.
//!
//! Start reading at the table in `table.rs`; [`Config`] is what the rest of the broker sees.

mod blank;
mod built_in;
mod check;
mod declare;
mod dials;
mod error;
mod explain;
mod keys;
mod kind;
mod landing;
mod load;
mod nearest;
mod policies;
mod protocols;
mod reload;
mod settings;
mod sources;
mod table;
mod words;

pub use dials::{Dial, Endpoint};
pub use error::*;
pub use explain::{Change, reference};
pub use keys::{Key, Reload};
pub use kind::{Kind, Value};
pub use policies::GroupPolicy;
pub use protocols::*;
pub use settings::*;
pub use words::*;

#[cfg(test)]
mod tests;
