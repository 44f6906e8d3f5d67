//! MQTT's normative statements, shown one by one over raw sockets. Each test names the statements it shows in its comment
//! (`[MQTT-…]` for 5.0, `[MQTT3-…]` for 3.1.1); `cargo xtask docs` joins them into docs/conformance-mqtt.md.
//!
//! All tests share one broker and use client ids and topics of their own. None sleeps: expected packets are awaited,
//! and the absence of others is shown by a later message (a mark) that has arrived.

pub mod packet;
mod peer;

mod auth;
mod client;
mod connect;
mod connect_malformed;
mod flow;
mod keep_alive;
mod limits;
mod load_report;
mod malformed;
mod publish;
mod retain;
mod session;
mod shared;
mod subscribe;
mod websocket;
mod will;

/// The versions most statements are shown for.
const BOTH: [packet::Version; 2] = [packet::Version::V311, packet::Version::V5];
