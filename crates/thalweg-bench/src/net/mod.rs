//! A network to measure in: a client's namespace, a link between, a broker's namespace.
//!
//! *Knows:* namespaces, veth pairs, nftables, TUN devices, interface counters. *Must never know:* what is sent through it.
//!
//! ```text
//!   kernel:    ep ── wire ═ ep [rt: nftables drops in its forward chain; tbf, netem behind] br ═ wire ── br
//!   emulator:  ep ── TUN ─── this process: loss, delay, jitter, rate, order, copies ─── TUN ── br
//! ```
//!
//! The kernel loses packets at no cost, and not by a seed; the emulator can do more, takes processor time for each packet,
//! and loses the same packets again if the same ones come. Both lose on the way, behind the sender's own interface: a
//! sender is never told.
//!
//! Bytes are those that both sides gave to their interface, lost ones among them: Ethernet frames without padding and
//! checksum. TUN devices carry no Ethernet header; its 14 bytes are added for each packet.

pub mod capture;
pub mod command;
pub mod emulator;
pub mod loss;
mod meter;
pub mod nest;
pub mod network;
mod pump;
pub mod queue;
pub mod space;
mod speech;
pub mod split;
pub mod tools;
pub mod tun;
pub mod units;

pub use meter::Wire;
pub use network::{BROKER_HOST, CLIENT_HOST, DEVICE, Network};
pub use tools::PROGRAMS;
pub use units::Loss;
