//! Groups that are sent what is published: an entry for each, with where it is and what is sent there.

use std::net::SocketAddr;

use serde_json::Value;
use thalweg_model::{Filter, Span};

use super::forms::Form;
use super::kind::{Fault, ensure};
use super::section::{keys_of, section, settings_by_serde};
use super::tables::Tables;

section! {
    /// An entry of `multicast`.
    pub struct Multicast {
        /// The last level of the topic of its description.
        name: String = Form(&GROUP_NAME), "", Restart;
        /// A multicast address and a port.
        group: Option<SocketAddr> = Form(&GROUP), "", Restart;
        /// Names of the network interfaces that datagrams leave by.
        interfaces: Vec<String> = List(&NAMES), "", Restart;
        /// Which messages: those whose address one of them matches.
        filters: Vec<Filter> = List(&FILTERS), "", Restart;
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

settings_by_serde!(Multicast);

pub static MULTICAST: Tables = Tables {
    title: "a list of multicast groups",
    entry: "a multicast group",
    max: (100, ": each has a thread"),
    takes: "[[multicast]] with name, group, interfaces, filters, user, ttl, rate_max, datagram_bytes_max, packet_bytes_max, \
            history_bytes_max, history_age_max and heartbeat, or \
            [{ name = \"poses\", group = \"239.255.10.1:7500\", interfaces = [\"eth0\"], filters = [\"plant/+/pose\"] }]",
    mend: MEND,
    first: ("a name", "Write name = \"poses\" in it"),
    keys: keys_of::<Multicast>,
    check: is_whole,
};

/// An entry says where and what, and there is one of each name.
fn is_whole(entries: &[Value]) -> Result<(), Fault> {
    for (at, entry) in entries.iter().enumerate() {
        let name = entry["name"].as_str().unwrap_or_default();
        for key in ["group", "interfaces", "filters"] {
            ensure!(!entry[key].is_null(); "has \"{name}\" without {key}"; MEND);
        }
        let is_new = entries[..at].iter().all(|other| other["name"] != name);
        ensure!(is_new; "names \"{name}\" twice"; "Give each group a name of its own");
    }
    Ok(())
}

static GROUP_NAME: Form = Form {
    title: "a name",
    takes: "letters, digits, - and _, at most 64 of them",
    read: |kind, text, _| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_short = (1..=64).contains(&text.len());
        kind.accept(is_short && text.bytes().all(is_plain), text)
    },
};

static GROUP: Form = Form {
    title: "a multicast address and port",
    takes: "a multicast address and a port, such as 239.255.10.1:7500 or [ff15::10]:7500",
    read: |kind, text, _| {
        let is_group = |group: SocketAddr| group.ip().is_multicast() && group.port() > 0;
        kind.accept(text.parse().is_ok_and(is_group), text)
    },
};

const MEND: &str = "Write [[multicast]] with name = \"poses\", group = \"239.255.10.1:7500\", interfaces = [\"eth0\"] and filters = \
                    [\"plant/+/pose\"]";
