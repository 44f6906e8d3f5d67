//! The laboratory: `thalweg-bench`, which `thalweg bench` starts. It repeats published studies with this broker, in real time and in virtual time, and
//! says beside each of their numbers what ours is.
//!
//! *Knows:* clocks, sockets (as a client), how to start a broker, statistics, files of results. *Must never know:* how the
//! broker decides, except in [`sim`], which drives the very kernel that ships in virtual time.
//!
//! ```text
//!  command ──> studies (cells) ──> trial (a cell, measured), e2d (courses), e5 (shared groups) ──> results ──> paper
//!         ├──> net (namespaces, loss, delay, counters of bytes)
//!         ├──> speed (how fast clients publish)
//!         └──> sim (virtual time, the kernel itself)
//! ```
#![forbid(unsafe_code)]

pub mod brokers;
pub mod calibrate;
pub mod cell;
pub mod command;
pub mod compare;
pub mod doctor;
pub mod drivers;
pub mod e2d;
pub mod e5;
pub mod energy;
pub mod export;
pub mod load;
pub mod net;
pub mod paper;
pub mod recommend;
pub mod report;
pub mod results;
pub mod roles;
pub mod runner;
pub mod saturate;
pub mod scenario;
pub mod sim;
pub mod speed;
pub mod stats;
pub mod studies;
pub mod traces;
pub mod trial;
