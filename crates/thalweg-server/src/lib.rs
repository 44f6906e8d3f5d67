//! The machinery: configuration, listeners, transports, shards, and everything that touches a socket, a file or a clock.
//!
//! *Knows:* the operating system, and how to carry out the kernel's effects in batches. *Must never know:* what a packet
//! means; that is the fronts' business. Start reading at [`Server::start`], then `shard/turn.rs` (the loop) and
//! `shard/stream.rs` (reading and flushing).
#![forbid(unsafe_code)]

pub mod clock;
mod connector;
pub mod datagram;
mod door;
mod journal;
mod keeper;
pub mod listen;
pub mod lobby;
mod multicast;
mod network;
mod observer;
mod protocols;
mod random;
mod secret;
mod server;
mod settings;
mod shard;
pub mod stages;
mod sys;
mod threads;
pub mod transport;
pub mod unix_socket;
mod usher;

pub use connector::Streams;
pub use datagram::DatagramCounts;
pub use journal::{FOLDER as JOURNAL_FOLDER, JournalStatus};
pub use multicast::MulticastCounts;
pub use observer::{Inside, ListenerView, Observer};
pub use server::{Server, StartError, StartOptions};
pub use settings::Extensions;
pub use shard::{ConnectionView, Connections, LoopCounts, PortView, Ports};
pub use thalweg_access as access;
pub use thalweg_config as config;
pub use thalweg_dtls::Counts as DtlsCounts;
pub use thalweg_fronts::{FrontCounts, FrontMetric, LoadCounts, PacketCounts, protocols};
pub use threads::{EXIT_PANICKED, OnFailure, ServerFailure, end_process_on_panic};
