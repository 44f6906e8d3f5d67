//! AMQP 0-9-1 without I/O: one codec and both ends of a connection.
//!
//! *Knows:* the specification (sections such as `§4.2.3` are those of its version 0-9-1) and what RabbitMQ added to it.
//! *Must never know:* the kernel, a socket, a clock. Start reading at [`ServerSide::handle_input`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channels;
mod client;
mod codec;
mod fault;
mod gathering;
mod intake;
pub mod methods;
mod outlet;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientEvent, ClientSide, ServerOffer};
pub use codec::{
    Array, ArrayWriter, BasicProperties, ContentHeader, DecodeError, FieldValue, Malformed,
    MethodId, Table, TableWriter, TooLarge,
};
pub use fault::{PeerFault, Scope};
pub use gathering::Gathered;
pub use methods::{Method, ReplyCode};
pub use server::{Event, Publish, ServerLimits, ServerSide};
