//! The chooser against a network that does not know its formulas.

mod adversity;
mod files;
mod network;
mod scenarios;
