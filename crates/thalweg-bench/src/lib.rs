//! The laboratory: `thalweg-bench`, which `thalweg bench` starts. It repeats published studies with this broker, in real time and in virtual time, and
//! says beside each of their numbers what ours is.
//!
//! *Knows:* clocks, sockets (as a client), how to start a broker, statistics, files of results. *Must never know:* how the
//! broker decides; `thalweg-sim` beside it drives the very kernel that ships in virtual time, and [`sim`] is its command.
//!
//! ```text
//!  command ──> studies (cells) ──> trial (a cell, measured), e2d (courses), e5 (shared groups) ──> results ──> paper
//!         ├──> net (namespaces, loss, delay, counters of bytes)
//!         ├──> speed (how fast clients publish)
//!         └──> sim (virtual time, the kernel itself)
//! ```
#![forbid(unsafe_code)]

mod brokers;
mod calibrate;
mod cell;
pub mod command;
mod compare;
mod doctor;
mod drivers;
mod e2d;
mod e5;
mod energy;
mod export;
mod load;
mod net;
mod paper;
mod recommend;
mod report;
mod results;
mod roles;
mod runner;
mod saturate;
mod scenario;
pub mod sim;
mod speed;
mod studies;
mod traces;
mod trial;

use thalweg_stats as stats;
