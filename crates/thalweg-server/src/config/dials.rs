//! Peers that the broker connects to: an entry for each, with its endpoint and what the broker is to it.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use serde_json::Value;

use super::forms::{Form, List};
use super::kind::ensure;
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
    first: (
        "an endpoint",
        "Write endpoint = \"tcp://host:port\" or \"ipc:///path\"",
    ),
    keys: keys_of::<Dial>,
    check: |entries| {
        let are_whole = entries.iter().all(|entry| entry["as"].is_string());
        ensure!(are_whole; "has an entry without as"; MEND);
        Ok(())
    },
};

static ENDPOINT: Form = Form {
    title: "an endpoint",
    takes: "endpoint = \"tcp://host:port\" or \"ipc:///path\"",
    read: |kind, text, _| {
        ensure!(Endpoint::parse(text).is_some(); "has the endpoint \"{text}\""; kind.mend());
        Ok(text.to_owned())
    },
};

static SOCKET_TYPE: Form = Form {
    title: "a socket",
    takes: "sub, pub, pull, push, dealer or router",
    read: |kind, text, _| {
        let is_one = ["sub", "pub", "pull", "push", "dealer", "router"].contains(&text);
        ensure!(is_one; "cannot be \"{text}\""; kind.mend());
        Ok(text.to_owned())
    },
};

static IDENTITY: Form = Form {
    title: "a routing id",
    takes: "at most 255 bytes",
    read: |kind, text, _| kind.accept(text.len() <= 255, text),
};

static FIRST_BYTES: List = List {
    title: "a list of prefixes",
    max: None,
    examples: "[\"weather.\", \"alarm\"]",
    check: |_, _| Ok(()),
};

const MEND: &str = "Write [{ endpoint = \"tcp://10.0.0.7:5556\", as = \"sub\" }]; as is sub, pub, pull, push, dealer or router; user, \
                    subscribe (a list), service, identity and queue may be left out";
