//! Shared groups in virtual time, from the command line; the simulation is `thalweg-sim`.

pub mod command;

pub use thalweg_sim::*;
