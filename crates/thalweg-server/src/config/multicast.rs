//! Groups that are sent what is published: an entry for each, with where it is and what is sent there.

use std::net::SocketAddr;

use serde_json::Value;
use thalweg_model::{Filter, Span};

use super::forms::Form;
use super::kind::{Fault, fault};
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
        rate_max: Option<u64> = SizeRate, "10MiB/s" or "unlimited", Restart;
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
    mend_first: "Write name = \"poses\" in it",
    keys: keys_of::<Multicast>,
    check: is_whole,
};

/// An entry says where and what, and there is one of each name.
fn is_whole(entries: &[Value]) -> Result<(), Fault> {
    for (at, entry) in entries.iter().enumerate() {
        let name = entry["name"].as_str().unwrap_or_default();
        if let Some(key) = NEEDED.iter().find(|key| entry[**key].is_null()) {
            return Err(fault(format!("has \"{name}\" without {key}"), MEND));
        }
        if entries[..at].iter().any(|other| other["name"] == name) {
            return Err(fault(
                format!("names \"{name}\" twice"),
                "Give each group a name of its own",
            ));
        }
    }
    Ok(())
}

const NEEDED: [&str; 3] = ["group", "interfaces", "filters"];

static GROUP_NAME: Form = Form {
    title: "a name",
    takes: "letters, digits, - and _, at most 64 of them",
    read: |kind, text, _| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(text.to_owned()),
            false => Err(kind.refuses(&format!("\"{text}\""))),
        }
    },
};

static GROUP: Form = Form {
    title: "a multicast address and port",
    takes: "a multicast address and a port, such as 239.255.10.1:7500 or [ff15::10]:7500",
    read: |kind, text, _| match text.parse::<SocketAddr>() {
        Ok(group) if group.ip().is_multicast() && group.port() > 0 => Ok(group.to_string()),
        _ => Err(kind.refuses(&format!("\"{text}\""))),
    },
};

const MEND: &str = "Write [[multicast]] with name = \"poses\", group = \"239.255.10.1:7500\", interfaces = [\"eth0\"] and filters = \
                    [\"plant/+/pose\"]";

#[cfg(test)]
mod tests {
    use crate::config::*;
    use thalweg_model::Span;

    fn load(text: &str) -> Result<(Config, Origins), Vec<ConfigError>> {
        let file = Some((std::path::Path::new("t.toml"), text));
        Config::from_text(file, std::iter::empty(), &[])
    }

    const ENTRY: &str = "[[multicast]]\nname = \"poses\"\ngroup = \"239.255.10.1:7500\"\ninterfaces = [\"eth0\"]\n\
                         filters = [\"plant/+/pose\"]\n";

    #[test]
    fn what_is_left_out_is_as_by_default_and_none_is_there_by_default() {
        let (config, origins) = load(ENTRY).unwrap_or_else(|errors| panic!("{errors:?}"));
        let [poses] = config.multicast.as_slice() else {
            panic!("{:?}", config.multicast)
        };
        assert_eq!(poses.group, "239.255.10.1:7500".parse().ok());
        assert_eq!(poses.interfaces, ["eth0"]);
        assert_eq!((poses.ttl, poses.rate_max), (1, Some(10 << 20)));
        assert_eq!(poses.heartbeat, Span::from_secs(1));
        let (again, _) =
            load(&config.to_toml(&origins)).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(again, config);
        let (config, _) = load("").unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(config.multicast.is_empty());
    }

    #[test]
    fn entries_that_cannot_be_are_refused_with_what_to_write() {
        for (part, instead, wrong) in [
            (
                "239.255.10.1",
                "10.0.0.1",
                "whose group is \"10.0.0.1:7500\", which is not a multicast address and port. Write a multicast",
            ),
            (":7500", ":0", "which is not a multicast address and port"),
            (
                "239.255.10.1:7500",
                "[fe80::1]:7500",
                "which is not a multicast address and port",
            ),
            ("\"poses\"", "\"a/b\"", "\"a/b\""),
            (
                "group = \"239.255.10.1:7500\"\n",
                "",
                "has \"poses\" without group. Write [[multicast]]",
            ),
            (
                "interfaces = [\"eth0\"]\n",
                "",
                "has \"poses\" without interfaces",
            ),
            (
                "filters = [\"plant/+/pose\"]\n",
                "",
                "has \"poses\" without filters",
            ),
            (
                "name = \"poses\"\n",
                "name = \"poses\"\nuser = \"\"\n",
                "has \"poses\", whose user is empty",
            ),
            (
                "name = \"poses\"\n",
                "name = \"poses\"\nttl = 0\n",
                "whose ttl is 0, which is out of range",
            ),
            (
                "[[multicast]]",
                &format!("{ENTRY}[[multicast]]"),
                "names \"poses\" twice",
            ),
        ] {
            let errors = load(&ENTRY.replacen(part, instead, 1))
                .map(|(config, _)| config.multicast)
                .expect_err(wrong);
            let [error] = errors.as_slice() else {
                panic!("{errors:?}")
            };
            let text = error.to_string();
            assert!(text.starts_with("t.toml:1: multicast "), "{text}");
            assert!(text.contains(wrong), "{text}");
        }
    }
}
