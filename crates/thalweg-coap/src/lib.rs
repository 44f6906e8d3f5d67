//! CoAP without I/O: one codec, the message layer of both ends over datagrams, and both ends of a reliable connection.
//!
//! *Knows:* the specifications: RFC 7252 (CoAP), 7641 (Observe), 7959 (block-wise), 7967 (No-Response), 8323 (TCP and
//! WebSocket), 6690 (link format), 8516, 8768, 9175, and the pubsub draft. *Must never know:* the kernel, a socket, a
//! clock. Start reading at [`Message::decode`] for one message, [`ServerSide::handle_datagram`] for the peers of a socket,
//! [`stream::ServerSide::handle_input`] for one connection.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block;
mod blockwise;
mod client;
mod code;
pub mod content_format;
#[cfg(test)]
mod conversations;
mod datagrams;
mod dedup;
mod echo;
mod encoder;
mod endpoint;
pub mod link_format;
mod message;
mod no_response;
mod observe;
pub mod option;
mod options;
mod outgoing;
mod peer;
pub mod pubsub;
mod sequence;
mod server;
mod slots;
pub mod stream;
#[cfg(test)]
mod tests;
mod timers;
mod token;
mod transmission;
pub mod uri;
mod why;

pub use block::Block;
pub use client::*;
pub use code::Code;
pub use datagrams::Datagrams;
pub use encoder::{Encoder, empty};
pub use message::{DecodeError, Malformed, Message, Type};
pub use no_response::NoResponse;
pub use options::{OptionIter, OptionValues, Options};
pub use outgoing::{OptionOut, Response, SharedBody, Value};
pub use sequence::{Observe, Sequence};
pub use server::*;
pub use token::Token;
pub use transmission::Transmission;
