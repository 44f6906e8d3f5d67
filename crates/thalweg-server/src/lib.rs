//! thalweg-server

pub mod access;
pub mod config;
pub mod listen;
pub mod lobby;
pub mod transport;
