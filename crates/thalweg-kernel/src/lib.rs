//! thalweg-kernel
pub mod access;
pub mod last_value;
pub mod rate;
pub mod routes;
