//! STOMP 1.0, 1.1 and 1.2 without I/O: one codec and both ends of a connection; and, beside the specification, how
//! destinations are written by those who use it.
//!
//! *Knows:* the specifications (a clause such as `1.2#Value_Encoding` is a heading of the page of that version).
//! *Must never know:* the kernel, a socket, a clock. Start reading at [`ServerSide::handle_input`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod codec;
mod command;
pub mod destination;
mod escape;
mod fault;
mod headers;
mod known;
mod scanner;
mod server;
#[cfg(test)]
mod tests;
mod version;

pub use client::{ClientEvent, ClientSide};
pub use codec::*;
pub use command::Command;
pub use destination::{Destination, DestinationError, Dialect};
pub use fault::PeerFault;
pub use headers::{HeaderIter, HeaderWriter, Headers};
pub use scanner::FrameLimits;
pub use server::{Event, ServerLimits, ServerSide};
pub use version::{Version, heart_beats};

/// The names of the protocol where it travels inside WebSocket, best first.
pub const WEBSOCKET_PROTOCOLS: [&str; 3] = ["v12.stomp", "v11.stomp", "v10.stomp"];
