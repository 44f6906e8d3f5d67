//! CoAP over reliable transports, TCP and WebSocket: how messages stand in a stream, the signals that speak of the
//! connection, and both ends of one. RFC 8323
//!
//! No message here is of a kind or has an id: the transport repeats and puts in order. The value of Observe in a
//! notification is ignored for the same reason; senders may leave it empty (§7.1).

mod client;
mod connection;
mod fault;
mod frame;
mod reply;
mod requests;
mod server;
mod signal;
#[cfg(test)]
mod tests;
mod websocket;

pub use client::{ClientEvent, ClientSide};
pub use connection::{NotSent, StreamSettings};
pub use fault::PeerFault;
pub use frame::{StreamMessage, decode, encode};
pub use requests::{Requests, StreamEvent, StreamRequest};
pub use server::{Event, ServerSide};
pub use signal::{Abort, Csm, Release};
pub use websocket::{
    WebSocketMessage, append_from_websocket, decode_websocket, encode_websocket, next_for_websocket,
};

/// The name of the protocol where it travels inside WebSocket. §4
pub const WEBSOCKET_PROTOCOL: &str = "coap";

/// The path that WebSocket connections are opened at. §8.3
pub const WEBSOCKET_PATH: &str = "/.well-known/coap";
