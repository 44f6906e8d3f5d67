//! Groups that are sent what is published: an entry for each, with where it is and what is sent there.

use std::net::SocketAddr;

use serde_json::Value;
use thalweg_model::{Filter, Span};

use super::kind::{Fault, KeyKind, ensure};
use super::section::{keys_of, section};

section! {
    /// An entry of `multicast`.
    pub struct Multicast {
        /// The last level of the topic of its description.
        name: String = GROUP_NAME, "", Restart;
        /// A multicast address and a port.
        group: Option<SocketAddr> = GROUP, "", Restart;
        /// Names of the network interfaces that datagrams leave by.
        interfaces: Vec<String> = NAMES, "", Restart;
        /// Which messages: those whose address one of them matches.
        filters: Vec<Filter> = FILTERS, "", Restart;
        /// The user whose rights hold for what is sent.
        user: String = Text, "multicast", Restart;
        /// How many routers a datagram may pass, and one.
        ttl: u8 = count(1, 255), "1", Restart;
        /// Bytes per second on each interface, headers of UDP and IP not counted.
        rate_max: Option<u64> = SIZE_RATE, "10MiB/s" or "unlimited", Restart;
        /// The largest datagram; what does not fit into a frame of the network is cut by IP and lost as a whole.
        datagram_bytes_max: usize = size(256, 65_507), "1400", Restart;
        /// The largest message, as a packet; larger ones are dropped and counted as too large for their receiver.
        packet_bytes_max: usize = size(KIB, 16 * MIB), "1MiB", Restart;
        /// Bytes of datagrams that are kept for those who have missed them.
        history_bytes_max: usize = size(KIB, GIB), "4MiB", Restart;
        /// How long they are kept.
        history_age_max: Span = millis(100, 3_600_000), "60s", Restart;
        /// The longest time in which nothing is sent.
        heartbeat: Span = millis(10, 60_000), "1s", Restart;
    }
}

pub const MULTICAST: KeyKind = KeyKind::Tables("multicast", keys_of::<Multicast>, names_differ);

fn names_differ(entries: &[Value]) -> Result<(), Fault> {
    for (at, entry) in entries.iter().enumerate() {
        let is_new = entries[..at]
            .iter()
            .all(|other| other["name"] != entry["name"]);
        let name = &entry["name"];
        ensure!(is_new; "names {name} twice"; "Give each group a name of its own");
    }
    Ok(())
}

const GROUP_NAME: KeyKind = KeyKind::Form("group-name", |text, _| {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    ensure!((1..=64).contains(&text.len()) && text.bytes().all(is_plain));
    Ok(text.to_owned())
});

const GROUP: KeyKind = KeyKind::Form("group", |text, _| {
    let is_group = |group: SocketAddr| group.ip().is_multicast() && group.port() > 0;
    ensure!(text.parse().is_ok_and(is_group));
    Ok(text.to_owned())
});
