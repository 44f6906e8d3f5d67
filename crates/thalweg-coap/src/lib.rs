//! CoAP without I/O: one codec, the message layer of both ends over datagrams, and both ends of a reliable connection.
//!
//! *Knows:* the specifications: RFC 7252 (CoAP), 7641 (Observe), 7959 (block-wise), 7967 (No-Response), 8323 (TCP and
//! WebSocket), 6690 (link format), 8516, 8768, 9175, and the pubsub draft. *Must never know:* the kernel, a socket, a
//! clock. Start reading at [`Message::decode`] for datagrams.
#![forbid(unsafe_code)]

mod block;
mod code;
mod encoder;
mod message;
pub mod option;
mod options;
pub mod pubsub;
mod token;

pub use block::Block;
pub use code::Code;
pub use encoder::{Encoder, empty};
pub use message::{DecodeError, Kind, Malformed, Message};
pub use options::{OptionIter, Options};
pub use token::Token;
