//! `zmtp.*`: the section of ZMTP.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use crate::kind::{KeyKind, ensure};
use crate::section::{keys_of, section, settings};
use thalweg_model::{Filter, Span};

section! {
    pub struct Zmtp {
        /// Messages that wait for a ZeroMQ subscriber that does not keep up, beside what is in its output
        /// (`queue.output_bytes_max`). Beyond that the newest is dropped, and counted as `queue_full`. 0: none waits.
        high_water: u32 = count(0, 10_000_000), "1000", NewConnections;
        /// Whether a subscription of a ZeroMQ client brings the last values (MQTT: retained messages) of the addresses
        /// that begin with its prefix.
        last_value: bool = Flag, "false", NewConnections;
        /// Topic filters: what a ZeroMQ client publishes at such a topic becomes its last value, as a retained message
        /// of MQTT does. With `zmtp.last_value` it is a last value cache.
        retain: Vec<Filter> = FILTERS, "", NewConnections;
        /// Whether a ZeroMQ subscriber gets what begins with none of its prefixes, in place of what begins with one. As
        /// with ZMQ_INVERT_MATCHING of a PUB, the SUB must set that, too.
        invert_matching: bool = Flag, "false", NewConnections;
        /// Whether a subscription of a ZeroMQ client may have a content filter behind its prefix and a zero byte. The
        /// client must be an XSUB: a SUB drops what does not begin with the whole subscription.
        filters: bool = Flag, "false", NewConnections;
        /// Whether messages of PUB, SUB, PUSH and PULL sockets have a frame of properties before the payload, to and
        /// from the broker: a line `name:value` for each. `content-type`, `correlation`, `reply-to`, `expiry` (seconds)
        /// and `priority` are what other protocols call so; other names are user properties. Without it ZeroMQ has
        /// none.
        header_frame: bool = Flag, "false", NewConnections;
        /// Name of the queue that PUSH sockets send to and PULL sockets take from. ZeroMQ has no names for that;
        /// clients of other protocols use the queue by this one. It is made when the first of them connects.
        queue: String = Text, "zmtp", NewConnections;
        /// Whether what PUSH sockets send to the queue outlives the broker, as far as it was written down: ZeroMQ has
        /// no acknowledgements. It costs what persistent messages cost.
        durable: bool = Flag, "false", NewConnections;
        /// Where requests of REQ and DEALER sockets go that name no address, and what REP and ROUTER sockets serve that
        /// name none. `$q/<name>` is a queue, in which requests wait for a worker.
        service: String = Text, "$q/zmtp-requests", NewConnections;
        /// How long a request of a ZeroMQ client is worth answering. An answer that comes later is dropped, because
        /// ZeroMQ has no word for a request that failed.
        request_timeout: Span = seconds(1, 86_400), "30s", NewConnections;
        /// Requests of one ZeroMQ connection that wait for their answers. What is asked beyond that is dropped, and
        /// counted as refused.
        requests_max: usize = count(1, 1_000_000), "1000", NewConnections;
        /// Requests that a ROUTER socket or a worker of Majordomo has at once. With more than one, a frame before the
        /// empty one tells them apart; the worker sends it back with the answer. A REP socket has one.
        worker_window: u32 = count(1, 10_000), "1", NewConnections;
        /// Peers of ZeroMQ that bind, to which the broker connects, by tcp or ipc. `as` is the broker's end: `sub`
        /// takes what a PUB publishes (what begins with one of `subscribe`; all, if that is left out), `pub` publishes
        /// to a SUB, `pull` puts what a PUSH sends into `queue` (`zmtp.queue`), `push` gives a PULL what is in it,
        /// `dealer` asks a REP or ROUTER what is asked at `service`, and `router` answers a REQ or DEALER. The peer has
        /// the rights of `user` (`zmtp`). A connection that ends is opened again after a tenth of a second, then after
        /// twice as long each time, up to half a minute; `identity` is the broker's routing id each time.
        connect: Vec<Dial> = DIALS, "", Restart;
        /// How often a ZeroMQ client of ZMTP 3.1 is asked for a sign of life (PING). One that sends nothing for three
        /// times as long is disconnected. 0s is never. What a client asks for by a time to live in its own PING comes
        /// first.
        heart_beat: Span = whole_millis(0, 3_600_000), "30s", NewConnections;
        /// Largest message of a ZeroMQ client, all its frames together. A client that sends a larger one is
        /// disconnected.
        message_bytes_max: usize = MESSAGE_BYTES, "16MiB", NewConnections;
        /// Longest prefix that a ZeroMQ client may subscribe to. A client that sends a longer one is disconnected.
        subscription_bytes_max: usize = size(64, 64 * KIB), "4KiB", NewConnections;
    }

    /// An entry of `zmtp.connect`.
    pub struct Dial {
        /// Where the peer listens.
        endpoint: Endpoint = ENDPOINT, "", Restart;
        /// The broker's socket, in ZeroMQ's word and lower case.
        r#as: String = SOCKET_TYPE, "", Restart;
        /// Whose rights the peer has.
        user: String = Text, "zmtp", Restart;
        /// What is asked of a publisher: prefixes of first frames.
        subscribe: Vec<String> = FIRST_BYTES, "[\"\"]", Restart;
        /// The address that a server answers at; empty for `zmtp.service`.
        service: String = Text, "", Restart;
        /// The broker's routing id; empty for none.
        identity: String = IDENTITY, "", Restart;
        /// The queue of a PUSH or PULL; empty for `zmtp.queue`.
        queue: String = Text, "", Restart;
    }
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
    pub fn addresses(&self) -> std::io::Result<Vec<std::net::SocketAddr>> {
        match self {
            Endpoint::Tcp(place) => Ok(place.to_socket_addrs()?.collect()),
            Endpoint::Ipc(_) => Ok(Vec::new()),
        }
    }
}

settings! { [] Endpoint: |it| it.to_string().into(), |value| Endpoint::parse(value.as_str()?); }

pub const DIALS: KeyKind = KeyKind::Tables("dials", keys_of::<Dial>, |_| Ok(()));

const ENDPOINT: KeyKind = KeyKind::Form("endpoint", |text, _| {
    ensure!(Endpoint::parse(text).is_some(); "has the endpoint \"{text}\"");
    Ok(text.to_owned())
});

const SOCKET_TYPE: KeyKind = KeyKind::Form("socket-type", |text, _| {
    let is_one = ["sub", "pub", "pull", "push", "dealer", "router"].contains(&text);
    ensure!(is_one; "cannot be \"{text}\"");
    Ok(text.to_owned())
});

const IDENTITY: KeyKind = KeyKind::Form("routing-id", |text, _| {
    ensure!(text.len() <= 255);
    Ok(text.to_owned())
});

const FIRST_BYTES: KeyKind = KeyKind::List("first-bytes", |text, _| Ok(text.to_owned()));
