//! The thread that does the I/O: sockets, name resolution, TLS, timers. It owns the engine and tells it what comes.
//!
//! ```text
//! handles ── inbox ──> turn: engine.publish … engine.turn ──> lines: connect, read, write ──> sockets
//!    ^                   │                                      │
//!    └── tickets, mailboxes, replies <── notices                └── bytes, readings ──> engine
//! ```
//!
//! - `handle` is the end that users hold, `inbox` what they say, `reply` how they are answered, `stored` what is on disk;
//! - `turn` is the loop; `line` is one lane's connection, and `farewell` its end, on `socket` (`datagrams`), `security`, `resolve` and `network`.

mod datagrams;
mod farewell;
pub(crate) mod handle;
pub(crate) mod inbox;
mod lane_socket;
mod network;
pub(crate) mod reply;
mod resolve;
mod security;
mod socket;
mod start;
pub(crate) mod stored;
#[cfg(all(test, feature = "disk", feature = "mqtt"))]
mod tests;
mod turn;

pub(crate) use start::start;
pub(crate) use turn::PeerHub;
