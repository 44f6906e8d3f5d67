//! The common middleware: publish a reading and know that it arrived, whatever protocol carries it.
//!
//! *Knows:* sockets, the client's side of every protocol, what a network costs. *Must never know:* the kernel, a front, the
//! server.
//!
//! ```text
//!  Client (handle, any thread) ── inbox ──> driver thread: sockets, TLS, WebSocket, DTLS, timers
//!                                               │ bytes and times
//!                                               v
//!                                           Engine (no I/O): outbox, tickets, lanes, subscriptions
//!                                               │ asks            │ one per lane
//!                                               v                 v
//!                                           Chooser           Transport: MQTT, CoAP, AMQP, STOMP, ZMTP, XMPP, yours
//! ```
// One place asks the system for `TCP_INFO` through a macro of `nix`, which may say otherwise: `driver/network.rs`.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod adaptive;
#[cfg(feature = "amqp")]
pub mod amqp;
pub mod blocking;
mod builder;
mod client;
#[cfg(feature = "coap")]
pub mod coap;
mod driver;
pub mod engine;
mod events;
pub mod message;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod pace;
#[cfg(test)]
mod pair;
// A build with few protocols leaves parts of the kit unused.
#[cfg_attr(
    not(feature = "default"),
    allow(dead_code, unused_imports, unused_macros)
)]
mod plugin;
#[cfg_attr(not(feature = "default"), allow(dead_code))]
mod presence;
#[cfg_attr(not(feature = "default"), allow(dead_code))]
mod queues;
pub mod spool;
#[cfg(feature = "stomp")]
pub mod stomp;
mod subscription;
mod ticket;
pub mod transport;
pub mod url;
#[cfg(test)]
mod witness;
#[cfg(feature = "xmpp")]
pub mod xmpp;
#[cfg(feature = "zmtp")]
pub mod zmtp;

pub use adaptive::{Calibration, Constraints, Explanation, Objective};
pub use builder::{BufferSettings, ClientBuilder, TlsFiles, Via};
pub use client::{
    Client, ClientError, Failure, GroupCounts, GroupStatus, Lane, PeerCounts, Status,
};
pub use engine::{LaneState, Overflow, Success, WhenRefused};
pub use events::{Event, EventQueue, Level};
pub use message::{Message, Options, Retain};
pub use pace::{BatchSettings, ThrottleSettings};
pub use presence::{Leaving, Presence, PresenceSubscription};
pub use subscription::{SubscribeOptions, Subscription};
pub use thalweg_model::{Reliability, Span, Stamp, Time};
pub use ticket::Ticket;
pub use transport::{Capabilities, Endpoint, Events, Inbound, Outbound, Output, Transport, Will};
pub use url::{BrokerUrl, Scheme};
#[cfg(feature = "zmtp")]
pub use zmtp::PeerSettings;

#[cfg(feature = "multicast")]
use mqtt::multicast;
use plugin::Lanes;

/// The list of plugins: protocols by name, of which a build has those whose features are on.
const PROTOCOLS: &[(&str, Lanes)] = &[
    #[cfg(feature = "mqtt")]
    ("mqtt", mqtt::lanes),
    #[cfg(feature = "coap")]
    ("coap", coap::lanes),
    #[cfg(feature = "amqp")]
    ("amqp", amqp::lanes),
    #[cfg(feature = "stomp")]
    ("stomp", stomp::lanes),
    #[cfg(feature = "zmtp")]
    ("zmtp", zmtp::lanes),
    #[cfg(feature = "xmpp")]
    ("xmpp", xmpp::lanes),
];

/// Returns the function that creates the lanes to a broker of this protocol; `None`: this build does not support it.
pub(crate) fn lanes_of(protocol: &str) -> Option<Lanes> {
    let mut known = PROTOCOLS.iter();
    Some(known.find(|(name, _)| *name == protocol)?.1)
}
