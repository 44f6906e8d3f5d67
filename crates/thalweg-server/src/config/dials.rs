//! Peers that the broker connects to: an entry for each, with its endpoint and what the broker is to it.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use serde_json::Value;

use super::forms::{Form, List};
use super::kind::fault;
use super::section::{Setting, keys_of, section, settings_by_serde};
use super::tables::Tables;

section! {
    /// An entry of `zmtp.connect`.
    pub struct Dial {
        /// Where the peer listens.
        endpoint: Endpoint = Form(&ENDPOINT), "", Restart;
        /// The broker's socket, in ZeroMQ's word and lower case.
        r#as: String = Form(&SOCKET_TYPE), "", Restart;
        /// Whose rights the peer has.
        user: String = Text, "zmtp", Restart;
        /// What is asked of a publisher: prefixes of first frames.
        subscribe: Vec<String> = List(&FIRST_BYTES), "[\"\"]", Restart;
        /// The address that a server answers at; empty for `zmtp.service`.
        service: String = Text, "", Restart;
        /// The broker's routing id; empty for none.
        identity: String = Form(&IDENTITY), "", Restart;
        /// The queue of a PUSH or PULL; empty for `zmtp.queue`.
        queue: String = Text, "", Restart;
    }
}

settings_by_serde!(Dial);

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A host, by name or address, and a port.
    Tcp(String),
    /// The path of a Unix socket.
    Ipc(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp(place) => write!(f, "tcp://{place}"),
            Endpoint::Ipc(path) => write!(f, "ipc://{}", path.display()),
        }
    }
}

impl Endpoint {
    fn parse(text: &str) -> Option<Endpoint> {
        if let Some(path) = text.strip_prefix("ipc://") {
            return path.starts_with('/').then(|| Endpoint::Ipc(path.into()));
        }
        let place = text.strip_prefix("tcp://")?;
        let (host, port) = place.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        (!host.is_empty() && port > 0).then(|| Endpoint::Tcp(place.to_owned()))
    }

    /// The addresses that the name of its host has now.
    pub(crate) fn addresses(&self) -> std::io::Result<Vec<std::net::SocketAddr>> {
        match self {
            Endpoint::Tcp(place) => Ok(place.to_socket_addrs()?.collect()),
            Endpoint::Ipc(_) => Ok(Vec::new()),
        }
    }
}

impl Setting for Endpoint {
    fn to_value(&self) -> Value {
        self.to_string().into()
    }
    fn from_value(value: Value) -> Option<Self> {
        Endpoint::parse(value.as_str()?)
    }
}

pub static DIALS: Tables = Tables {
    title: "a list of endpoints",
    entry: "an endpoint",
    max: (100, ": each has a thread"),
    takes: "with endpoint, as, and where they differ user, subscribe, service, identity and queue, or [{ endpoint = \
            \"tcp://10.0.0.7:5556\", as = \"sub\" }]",
    mend: MEND,
    mend_first: "Write endpoint = \"tcp://host:port\" or \"ipc:///path\"",
    keys: keys_of::<Dial>,
    check: |entries| match entries.iter().all(|entry| entry["as"].is_string()) {
        true => Ok(()),
        false => Err(fault("has an entry without as", MEND)),
    },
};

static ENDPOINT: Form = Form {
    title: "an endpoint",
    takes: "endpoint = \"tcp://host:port\" or \"ipc:///path\"",
    read: |kind, text, _| match Endpoint::parse(text) {
        Some(endpoint) => Ok(endpoint.to_string()),
        None => Err(fault(
            format!("has the endpoint \"{text}\""),
            format!("Write {}", kind.expectation()),
        )),
    },
};

static SOCKET_TYPE: Form = Form {
    title: "a socket",
    takes: "sub, pub, pull, push, dealer or router",
    read: |kind, text, _| match ["sub", "pub", "pull", "push", "dealer", "router"].contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(fault(
            format!("cannot be \"{text}\""),
            format!("Write {}", kind.expectation()),
        )),
    },
};

static IDENTITY: Form = Form {
    title: "a routing id",
    takes: "at most 255 bytes",
    read: |kind, text, _| match text.len() {
        0..=255 => Ok(text.to_owned()),
        _ => Err(kind.refuses(&format!("\"{text}\""))),
    },
};

static FIRST_BYTES: List = List {
    title: "a list of prefixes",
    max: None,
    examples: "[\"weather.\", \"alarm\"]",
    check: |_, _| Ok(()),
};

const MEND: &str = "Write [{ endpoint = \"tcp://10.0.0.7:5556\", as = \"sub\" }]; as is sub, pub, pull, push, dealer or router; user, \
                    subscribe (a list), service, identity and queue may be left out";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kind::{Fault, KeyKind, Written};
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<Dial>, Fault> {
        let kind = KeyKind::Tables(&DIALS);
        let value = kind.parse(&Written::Loose(text.into()), Path::new(""))?;
        Ok(Setting::from_value(value).expect("it fits"))
    }

    #[test]
    fn entries_are_read_and_shown_as_they_are_written() {
        let dials = read(
            "[{ endpoint = \"tcp://plant:5556\", as = \"sub\", subscribe = [\"a\", \"b\"] }, \
             { endpoint = \"ipc:///run/calc\", as = \"dealer\", service = \"calc\", user = \"u\", identity = \"x\" }, \
             { endpoint = \"tcp://sink:5558\", as = \"push\", queue = \"results\" }]",
        )
        .expect("legal");
        assert_eq!(dials[0].endpoint, Endpoint::Tcp("plant:5556".into()));
        assert_eq!((&*dials[0].user, dials[0].subscribe.len()), ("zmtp", 2));
        assert_eq!(dials[1].endpoint, Endpoint::Ipc("/run/calc".into()));
        assert_eq!(dials[2].queue, "results");
        assert_eq!(
            read(&KeyKind::Tables(&DIALS).show(&dials.to_value())).expect("legal"),
            dials
        );
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, word) in [
            ("[{ as = \"sub\" }]", "without an endpoint"),
            ("[{ endpoint = \"tcp://a:1\" }]", "without as"),
            ("[{ endpoint = \"udp://a:1\", as = \"sub\" }]", "udp://a:1"),
            ("[{ endpoint = \"tcp://a:0\", as = \"sub\" }]", "tcp://a:0"),
            (
                "[{ endpoint = \"tcp://a:1\", as = \"pair\" }]",
                "as cannot be",
            ),
            ("[{ endpoint = \"tcp://a:1\", az = \"sub\" }]", "says az"),
            ("sub", "is \"sub\""),
        ] {
            let fault = read(text).expect_err(word);
            assert!(fault.what.contains(word), "{}", fault.what);
        }
    }
}
