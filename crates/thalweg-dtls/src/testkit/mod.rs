//! Support for tests and fuzz targets: a client that can misbehave, certificates without a certificate library.
#![allow(clippy::unwrap_used, missing_docs)]

pub mod certificate;
pub mod client;
pub mod fuzz;
