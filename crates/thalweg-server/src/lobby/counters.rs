//! What came in and what was refused, by reason.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of the lobby since its start; `waiting` is a gauge. One thread writes, anyone reads.
        #[derive(Debug, Default)]
        pub struct LobbyCounters { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The counts at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LobbyCounts { $($(#[$doc])* pub $name: u64,)* }

        impl LobbyCounters {
            /// All counts, each read once.
            pub fn read(&self) -> LobbyCounts {
                LobbyCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl LobbyCounts {
            /// All counts with their names, for metrics.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted, refused ones included.
    accepted,
    /// Connections handed over to a shard.
    delivered,
    /// Connections in the lobby now (a gauge).
    waiting,
    /// Refused: `handshakes_max` connections of the listener were half-open.
    refused_handshakes,
    /// Dropped: `handshakes_max` connections of the listener were half-open, most of them of this one's network, and a
    /// peer of another network came, or this one was silent.
    displaced,
    /// Dropped: the connections in the lobby had sent more than their share of memory, this one's network most of it.
    dropped_memory,
    /// Refused: as many were open as the listener's or the lobby's `connections_max` allows.
    refused_connections,
    /// Refused: one network had its `connections_per_address_max` open.
    refused_address,
    /// Refused: the process or the system is out of file descriptors.
    refused_descriptors,
    /// Times that a listener paused because of its `connects_per_second_max`.
    paused_by_rate,
    /// Dropped: nothing useful within `connect_timeout`.
    timed_out,
    /// Dropped: the peer hung up before its routing key was known.
    hung_up,
    /// Dropped: more wire bytes than any handshake needs.
    oversized,
    /// Handed over with key 0: the bytes were not of the listener's protocol, or the key did not come in time.
    unrouted,
    failed_tls,
    /// Failed WebSocket upgrades, and plain HTTP requests.
    failed_websocket,
    /// Missing or malformed PROXY headers.
    failed_proxy,
    /// Errors of `accept` other than those of a peer that is gone already.
    failed_accepts,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
