//! The configuration of the broker: declared once as a table of keys, read from a TOML file, the environment and
//! `--set`, checked as a whole, explained key by key.

mod settings;
mod words;

pub use settings::*;
pub use words::*;
