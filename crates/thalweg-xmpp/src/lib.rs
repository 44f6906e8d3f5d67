//! XMPP between client and server, without I/O: one codec and both ends of a stream.
//!
//! *Knows:* the specifications: RFC 6120 (streams, TLS, SASL, binding), RFC 7622 (addresses), RFC 7395 (framing over
//! WebSocket), XEP-0198 (stream management), XEP-0199 (ping). A clause such as `6120#4.9.3.1` is a section of the RFC of that
//! number. *Must never know:* the kernel, a socket, a clock, randomness; what a stanza means. Start reading at
//! [`ServerSide::handle_input`], then at [`Element`].
//!
//! XML comes in through `rxml`, which refuses what XMPP forbids (document types, entities, comments, processing instructions)
//! and bounds names and attribute values. [`Limits`] bounds the rest. A stanza is borrowed from the input: its elements are
//! places in the octets that arrived, so that a payload can be copied as it came.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod fault;
mod features;
mod jid;
mod management;
pub mod ns;
pub mod payload;
mod reader;
mod sasl;
mod server;
mod stanza;
#[cfg(test)]
mod tests;
mod tree;
mod whole;
mod write;

pub use client::{ClientEvent, ClientSettings, ClientSide, Credentials, TlsPolicy};
pub use fault::PeerFault;
pub use features::{Features, StartTls};
pub use jid::{Jid, JidProblem};
pub use management::{Again, Management};
pub use reader::{Framing, Limits, StreamHeader, parse_document};
pub use sasl::{Mechanism, Mechanisms, Plain, SaslFailure};
pub use server::{ServerEvent, ServerSettings, ServerSide};
pub use stanza::{ErrorType, Stanza, StanzaError, StanzaKind};
pub use tree::{Attributes, Children, Descendants, Element, Tree};
pub use write::{MESSAGE_END, is_xml_text, put_attribute, put_head, put_text};
