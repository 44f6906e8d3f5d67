//! Peers that the broker connects to: an entry for each, with its endpoint and what the broker is to it.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use super::kind::{Fault, Written, fault};
use super::nearest::nearest;
use super::policies::list_in;

/// An entry of `zmtp.connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    pub endpoint: Endpoint,
    /// The broker's socket, in ZeroMQ's word and lower case: `sub`, `pub`, `pull`, `push`, `dealer` or `router`.
    pub socket: String,
    /// Whose rights the peer has.
    pub user: String,
    /// What is asked of a publisher: prefixes of first frames.
    pub subscribe: Vec<String>,
    /// The address that a server answers at; empty for `zmtp.service`.
    pub service: String,
    /// The broker's routing id; empty for none.
    pub identity: String,
    /// The queue of a PUSH or PULL; empty for `zmtp.queue`.
    pub queue: String,
}

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

/// The entries that `written` means, in its order.
pub(super) fn parse(written: &Written, max: usize) -> Result<Vec<Dial>, Fault> {
    let loose;
    let entries = match written {
        Written::List(entries) => entries,
        Written::Loose(text) => {
            loose = list_in(text).ok_or_else(|| fault(format!("is \"{text}\""), MEND))?;
            &loose
        }
        _ => return Err(fault("is not a list of tables", MEND)),
    };
    if entries.len() > max {
        let what = format!("has {} entries", entries.len());
        return Err(fault(
            what,
            format!("Keep at most {max}: each has a thread"),
        ));
    }
    entries.iter().map(entry).collect()
}

fn entry(written: &Written) -> Result<Dial, Fault> {
    let Written::Table(fields) = written else {
        return Err(fault("is a list of other things", MEND));
    };
    let mut dial = Dial {
        endpoint: Endpoint::Tcp(String::new()),
        socket: String::new(),
        user: "zmtp".into(),
        subscribe: vec![String::new()],
        service: String::new(),
        identity: String::new(),
        queue: String::new(),
    };
    for (name, written) in fields {
        match (name.as_str(), written) {
            ("endpoint", Written::Quoted(text)) => {
                let words = || fault(format!("has the endpoint \"{text}\""), ENDPOINT_MEND);
                dial.endpoint = Endpoint::parse(text).ok_or_else(words)?;
            }
            ("as", Written::Quoted(text)) if SOCKETS.contains(&text.as_str()) => {
                dial.socket.clone_from(text);
            }
            ("user", Written::Quoted(text)) => dial.user.clone_from(text),
            ("service", Written::Quoted(text)) => dial.service.clone_from(text),
            ("queue", Written::Quoted(text)) => dial.queue.clone_from(text),
            ("identity", Written::Quoted(text)) if text.len() <= 255 => {
                dial.identity.clone_from(text);
            }
            ("subscribe", Written::List(items)) => {
                let text = |item: &Written| match item {
                    Written::Quoted(text) => Some(text.clone()),
                    _ => None,
                };
                let texts: Option<Vec<_>> = items.iter().map(text).collect();
                dial.subscribe =
                    texts.ok_or_else(|| fault("has a prefix that is no text", MEND))?;
            }
            (name, _) if FIELDS.contains(&name) => {
                let what = format!("has an entry whose {name} cannot be that");
                return Err(fault(what, MEND));
            }
            (name, _) => {
                let mend = match nearest(name, FIELDS.iter().copied()) {
                    Some(near) => format!("Did you mean {near}?"),
                    None => MEND.to_owned(),
                };
                return Err(fault(format!("says {name}"), mend));
            }
        }
    }
    match dial.endpoint {
        Endpoint::Tcp(place) if place.is_empty() => {
            Err(fault("has an entry without an endpoint", ENDPOINT_MEND))
        }
        _ if dial.socket.is_empty() => Err(fault("has an entry without as", MEND)),
        _ => Ok(dial),
    }
}

/// `dials` as they would be written in a file, in one line.
pub(super) fn show(dials: &[Dial]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let one = |dial: &Dial| {
        let prefixes: Vec<String> = dial.subscribe.iter().map(|text| quoted(text)).collect();
        let fields = [
            ("endpoint", quoted(&dial.endpoint.to_string())),
            ("as", quoted(&dial.socket)),
            ("user", quoted(&dial.user)),
            ("subscribe", format!("[{}]", prefixes.join(", "))),
            ("service", quoted(&dial.service)),
            ("identity", quoted(&dial.identity)),
            ("queue", quoted(&dial.queue)),
        ];
        let fields = fields.map(|(name, value)| format!("{name} = {value}"));
        format!("{{ {} }}", fields.join(", "))
    };
    let entries: Vec<String> = dials.iter().map(one).collect();
    format!("[{}]", entries.join(", "))
}

/// What to write, in words.
pub(super) fn expectation(max: usize) -> String {
    format!(
        "at most {max} tables with endpoint, as, and where they differ user, subscribe, service, identity and queue, or {EXAMPLE}, which \
         is how it is written outside the file, too"
    )
}

const SOCKETS: [&str; 6] = ["sub", "pub", "pull", "push", "dealer", "router"];
const FIELDS: [&str; 7] = [
    "endpoint",
    "as",
    "user",
    "subscribe",
    "service",
    "identity",
    "queue",
];
const EXAMPLE: &str = "[{ endpoint = \"tcp://10.0.0.7:5556\", as = \"sub\" }]";
const ENDPOINT_MEND: &str = "Write endpoint = \"tcp://host:port\" or \"ipc:///path\"";
const MEND: &str = "Write [{ endpoint = \"tcp://10.0.0.7:5556\", as = \"sub\" }]; as is sub, pub, pull, push, dealer or router; user, \
                    subscribe (a list), service, identity and queue may be left out";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Dial>, Fault> {
        parse(&Written::Loose(text.into()), 10)
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
        assert_eq!(read(&show(&dials)).expect("legal"), dials);
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
