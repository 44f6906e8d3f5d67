//! A whole server in this process, over real sockets: every group of settings takes effect, on reload too; every
//! transport and every way to log in; faults at the start in words; shards that act as one.
//!
//! Clients are [`talker::Talker`]s, which write packets by hand.

mod access;
pub mod home;
mod limits;
mod reload;
mod running;
mod shards;
mod sockets;
mod start;
pub mod talker;
mod transports;
