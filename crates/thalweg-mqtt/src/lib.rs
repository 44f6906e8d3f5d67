//! MQTT 3.1, 3.1.1 and 5.0 without I/O: one codec and both ends of a connection.
//!
//! *Knows:* the specifications (statement ids such as `[MQTT-3.3.1-4]` are those of MQTT 5.0; `[MQTT3-…]` those of
//! 3.1.1). *Must never know:* the kernel, a socket, a clock. Start reading at [`ServerSide::handle_input`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod alias;
mod client;
mod client_connection;
mod codec;
mod fault;
pub mod load;
mod packet;
mod packet_ids;
mod properties;
mod reason;
mod reporter;
mod server;
#[cfg(test)]
mod tests;
mod text;
mod text_pairs;
pub mod topic;
mod varint;
mod version;

pub use client::{Ack, ClientConnAck, ClientEvent, ClientSide, PublishError, ServerOffer};
pub use client_connection::{ClientConnection, OnEvent};
pub use codec::*;
pub use fault::PeerFault;
pub use packet::{PacketType, Sender};
pub use properties::{Properties, Property, PropertyIter, PublishProperties};
pub use reason::ReasonCode;
pub use reporter::{ReportRules, Reporter, WorkLoad};
pub use server::{Event, Load, ServerLimits, ServerSide, TooLarge};
pub use text_pairs::TextPairs;
pub use topic::{ShareFilter, TopicError};
pub use varint::VARINT_MAX;
pub use version::{QoS, Version};
