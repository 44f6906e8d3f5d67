//! Messages for many receivers in datagrams that are sent once: both ends, without I/O.
//!
//! ```text
//!  magic "TM", version 1, kind    4 bytes: 1 data, 2 heartbeat
//!  epoch                          8 bytes, of one start of the sender
//!  number                         8 bytes, from 0 in each kind
//!  sealed with ChaCha20-Poly1305: the 20 bytes before are associated data; the nonce is kind, three zeros, number
//!    data       where the first packet begins that begins here (2 bytes, 0xFFFF: none), a piece of the stream
//!    heartbeat  the number of the next data (8 bytes), of the oldest that is kept (8 bytes), how many messages were never
//!               sent since the epoch began (8 bytes)
//!  tag                            16 bytes
//! ```
//!
//! All integers are big-endian. The pieces, in the order of their numbers, are a stream of PUBLISH packets of MQTT 5 at
//! QoS 0. A message may span several datagrams, and who has missed one goes on where the next packet begins.
//! The answer to a request is datagrams as they were sent, a heartbeat first, each after its length in two bytes.
//!
//! What a receiver must know it reads in a [`Description`], the last value at `$multicast/NAME`, where access rules decide who
//! gets it; it changes when the sender starts anew. What a receiver has missed it asks for with a [`RepairRequest`] at
//! [`Description::repair`], over its own connection and with a reply address; a client names one below that of the
//! repair, `$multicast/NAME/repair/ID`. The answer is for [`Receiver::on_answer`].
//!
//! *Knows:* this layout and the packets of MQTT. *Must never know:* the kernel, a socket, a clock, the system's
//! randomness. Start reading at [`Receiver::on_datagram`] or [`Sender::push`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod datagram;
mod description;
mod receiver;
mod repair;
mod sender;
mod stream;
#[cfg(test)]
mod tests;

pub use datagram::{OVERHEAD_BYTES, Refused};
pub use description::{Description, NotADescription};
pub use receiver::{Receiver, ReceiverCounts, ReceiverSettings};
pub use repair::{NotARequest, RANGES_MAX, RepairRequest};
pub use sender::{Sender, SenderSettings};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// What addresses of groups begin with: a group's description is at [`address`].
pub const TREE: &str = "$multicast";

/// Where the description of a group is.
pub fn address(name: &str) -> String {
    format!("{TREE}/{name}")
}

/// Where datagrams of a group are asked for.
pub fn repair_address(name: &str) -> String {
    format!("{TREE}/{name}/repair")
}
