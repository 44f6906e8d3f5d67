//! thalweg-server

pub mod config;
