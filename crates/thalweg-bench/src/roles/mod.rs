//! Roles: the parts of a trial, one by one, at any broker: `thalweg bench pub|sub|ping|pong|relay`.
//!
//! *Knows:* drivers, schedules, what a terminal shows. *Must never know:* brokers' programs, networks.
//!
//! Each role says first what it really does, then a line each second, and a summary in the end, after Ctrl-C as well.
//! Payloads carry the clock of this machine: `sub` tells how old messages of a `pub` of the same machine are.

mod answer;
pub mod args;
pub mod command;
mod flow;
mod say;
