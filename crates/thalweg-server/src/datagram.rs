//! Datagrams: sockets that all peers of a listener share, one for each shard, read and written in batches.
//!
//! Knows addresses and bytes. It must never know what a datagram means, nor who a peer is: repeating, ordering and
//! forgetting are the business of the machine behind it. What cannot be sent waits a little and is then dropped and
//! counted, as the network itself would do.

mod batch;
mod inbox;
mod open;
mod origin;
mod socket;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use inbox::{Inbox, Received};
pub use open::DatagramSpec;
pub(crate) use open::{DatagramSockets, open};
pub use socket::DatagramCounts;
pub(crate) use socket::DatagramSocket;
