//! DTLS 1.2 (RFC 6347), both ends, without I/O: datagrams, seeds and times go in, datagrams, texts and events come out.
//!
//! *Knows:* RFC 6347 and the specifications below it, the cipher suites of RFC 7252 §9, the peers of one socket by
//! address. *Must never know:* sockets, files, the clock, the system's randomness, X.509, the contents of the texts.
//! Start reading at [`ServerSide`] (all peers of a socket) or [`ClientSide`] (one association with a key);
//! `server/handshake.rs` has the diagram of the message flow. ADR 0018 says why this is our own.
//!
//! Peers authenticate with a pre-shared key or a certificate, by the first of their suites that is in `cipher.rs`.
//! Everything that needs a certificate library is behind the trait [`Certificate`]. Not supported: renegotiation,
//! resumption, raw public keys, connection identifiers (RFC 9146), DTLS 1.3.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod alert;
mod certificate;
mod cipher;
mod client;
mod hello;
mod message;
mod psk;
mod random;
mod record;
mod server;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

pub use alert::Alert;
pub use certificate::{Agreement, Certificate, SCHEMES};
pub use cipher::Exchange;
pub use client::{ClientFault, ClientSide};
pub use psk::{PskFault, PskTable};
pub use server::{
    ConfigFault, Counts, Ended, Event, NotSent, Output, PeerIdentity, ServerConfig, ServerLimits,
    ServerSide,
};

/// Most bytes that a record adds to its text. With CCM and a tag of 8 bytes it is 29 bytes.
pub const RECORD_OVERHEAD_MAX: usize = cipher::OVERHEAD_MAX;
