//! What tests and fuzz targets need: a client that can be made to do wrong, certificates without a library of them.
#![allow(clippy::unwrap_used, missing_docs)]

pub mod certificate;
pub mod client;
pub mod fuzz;
