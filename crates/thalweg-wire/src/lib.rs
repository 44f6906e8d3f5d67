//! What every wire crate shares: reading and writing big-endian primitives, time as a value, and a test kit.
//!
//! *Knows:* bytes. *Must never know:* a protocol, a socket, a clock. Start reading at [`Reader`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod reader;
pub mod testkit;

pub use reader::Reader;
pub use thalweg_model::{Span, Time};
