//! ZMTP 3.0 and 3.1, the protocol between ZeroMQ sockets, without I/O: one codec and both ends of a connection.
//!
//! *Knows:* the specifications: RFC 37 (ZMTP 3.1), 23 (3.0), 24 (PLAIN), 25 and 26 (CURVE) of rfc.zeromq.org; a clause
//! such as `37#Framing` is a heading of the one with that number. *Must never know:* the kernel, a socket, a clock,
//! randomness. Start reading at [`ServerSide::handle_input`], then at [`Traffic::handle_input`].
//!
//! A connection has two stages. [`ServerSide`] (the end that authenticates) or [`ClientSide`] greets and shakes hands;
//! what comes out of it is a [`Traffic`], which is the same for both ends.
//!
//! A peer that speaks ZMTP 2.0 or 1.0 (libzmq 3.2 and older, from before 2013) is refused as soon as its version is
//! known, with a fault that says so. Those versions have no security mechanism, so that RFC 37 demands the refusal
//! wherever PLAIN or CURVE is configured, and libzmq itself refuses them where an authenticator is installed.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod command;
mod curve;
mod fault;
mod frame;
mod greeting;
mod handshake;
mod metadata;
mod server;
mod socket_type;
#[cfg(test)]
mod tests;
mod traffic;

pub use client::{ClientMechanism, ClientSide};
pub use curve::{CurveClient, CurveServer, KeyPair, connection_seed, key_from_z85, key_to_z85};
pub use fault::PeerFault;
pub use frame::{Frames, Message};
pub use greeting::{Mechanism, Version};
pub use handshake::{HandshakeEvent, Limits, Login, Peer};
pub use metadata::{Announcement, HEADER_FRAME, Metadata};
pub use server::{ServerMechanisms, ServerSide};
pub use socket_type::SocketType;
pub use traffic::{Event, Gathered, Traffic, WholeMessage};
