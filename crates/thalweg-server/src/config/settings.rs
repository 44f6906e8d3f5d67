//! The typed configuration: what the rest of the broker reads.
//!
//! Field names are the dotted key names; what each means, its range and its default is written once, in the key table
//! (`keys.rs`), and shown by `thalweg config explain KEY`. An `Option` is `None` where the setting is off or unlimited.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use thalweg_kernel::GroupStrategy;
use thalweg_model::{Filter, Span};

use super::policies::GroupPolicy;
use super::protocols::{ListenerKind, Protocols};
use super::words::*;

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the broker's own files are.
    pub data_dir: PathBuf,
    /// Number of shards; `None` is automatic. See [`Config::shard_count`].
    pub shards: Option<usize>,
    /// Tenants beside the default one, in the order of their text, each once.
    pub tenants: Vec<String>,
    /// `log.*`
    pub log: Log,
    /// `listeners.<name>.*`, by name. Disabled listeners are in here too.
    pub listeners: BTreeMap<String, Listener>,
    /// `admin.*`
    pub admin: Admin,
    /// `access.*`
    pub access: Access,
    /// `limits.*`
    pub limits: Limits,
    /// `queue.*`
    pub queue: Queue,
    /// `queues.*`
    pub queues: Queues,
    /// `session.*`
    pub session: Session,
    /// `retained.*`
    pub retained: Retained,
    /// `journal.*`
    pub journal: Journal,
    /// `last_values.*`
    pub last_values: LastValues,
    /// `dedup.*`
    pub dedup: Dedup,
    /// `presence.*`
    pub presence: Presence,
    /// `ledger.*`
    pub ledger: Ledger,
    /// The sections of protocols, by their names.
    pub protocols: Protocols,
    /// `groups.*`
    pub groups: Groups,
    /// `sys.*`
    pub sys: Sys,
}

/// `log.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// How much is written.
    pub level: LogLevel,
    /// The shape of a line.
    pub format: LogFormat,
    /// The file appended to; `None` is standard error.
    pub file: Option<PathBuf>,
}

/// `listeners.<name>.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Whether the broker opens it.
    pub enabled: bool,
    pub kind: ListenerKind,
    /// What carries the bytes.
    pub transport: Transport,
    pub bind: Bind,
    /// Whether peers without credentials are let in; `None` means "only on loopback and Unix sockets".
    /// See [`Listener::admits_anonymous`].
    pub anonymous: Option<bool>,
    /// Most connections at once on this listener; `None` leaves it to `limits.connections_max`.
    pub connections_max: Option<usize>,
    /// Largest packet, if it differs from `limits.packet_bytes_max`. See [`Config::packet_bytes_max`].
    pub packet_bytes_max: Option<usize>,
    /// Publishes per second per connection, if it differs from `limits.publish_rate`; `Some(0)` is unlimited.
    /// See [`Config::publish_rate`].
    pub publish_rate: Option<u64>,
    /// What acknowledgements to this listener's peers wait for, if it differs from `journal.fsync`.
    /// See [`Config::fsync`].
    pub fsync: Option<Fsync>,
    /// Whether a PROXY protocol header comes first.
    pub proxy_protocol: ProxyProtocol,
    /// Peers that may send a PROXY header. Never empty on an enabled TCP listener with `proxy_protocol`.
    pub proxy_trusted: Vec<IpAddr>,
    /// Whether the name of the client certificate in a PROXY header is the user.
    pub proxy_identity: bool,
    /// `tls.*`; meaningful when [`Transport::is_encrypted`].
    pub tls: Tls,
    /// `curve.*`; for ZMTP only.
    pub curve: Curve,
    /// The queue of PUSH and PULL sockets, if it differs from `zmtp.queue`; for ZMTP only.
    pub queue: Option<String>,
    /// `websocket.*`; meaningful when [`Transport::is_websocket`].
    pub websocket: WebSocket,
    /// Idle time before the system probes a TCP peer.
    pub tcp_keep_alive: Option<Span>,
    /// Length of the system's accept queue.
    pub backlog: u32,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Bytes that the system keeps of received datagrams; `None` leaves it to the system.
    pub receive_buffer: Option<usize>,
    /// The same for datagrams to be sent.
    pub send_buffer: Option<usize>,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// An IP address and port.
    Socket(SocketAddr),
    /// The path of a Unix socket.
    Path(PathBuf),
}

/// `listeners.<name>.tls.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// PEM file with the certificate chain, leaf first. Always set on an encrypted, enabled listener.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key. Always set on an encrypted, enabled listener.
    pub key: Option<PathBuf>,
    /// PEM file with the authorities that may sign client certificates. Set unless `client_certificate` is `None`.
    pub client_ca: Option<PathBuf>,
    /// PEM file with revocation lists for client certificates.
    pub client_crl: Option<PathBuf>,
    /// Whether peers are asked for a certificate.
    pub client_certificate: ClientCertificate,
    /// Which part of the certificate names the user.
    pub identity: CertificateIdentity,
    pub minimum_version: TlsVersion,
    /// Whether peers begin TLS before they log in; meaningful with [`Transport::StartTls`].
    pub required: bool,
    /// The keys of clients, by identity; DTLS only.
    pub psk_file: Option<PathBuf>,
    /// Least bytes of such a key.
    pub psk_bytes_min: usize,
}

/// `listeners.<name>.curve.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The broker's secret key, in Z85.
    pub secret_key: Option<String>,
    /// The same in a file.
    pub secret_key_file: Option<PathBuf>,
    /// The public keys of clients, and whose they are.
    pub clients_file: Option<PathBuf>,
}

impl Curve {
    /// Whether there is a key, so that CURVE is offered.
    pub fn is_given(&self) -> bool {
        self.secret_key.is_some() || self.secret_key_file.is_some()
    }
}

/// `listeners.<name>.websocket.*`
#[derive(Clone, Debug, PartialEq)]
pub struct WebSocket {
    /// The HTTP path of the upgrade; empty is the protocol's usual one. See [`Listener::websocket_path`].
    pub path: String,
    /// Origins of web pages that may connect, beside those of the listener's own host; `*` is every origin.
    pub origins: Vec<String>,
}

/// `admin.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Whether the admin HTTP API is served.
    pub enabled: bool,
    /// Where it is served.
    pub bind: SocketAddr,
    /// A Unix socket on which it is served too.
    pub unix_socket: Option<PathBuf>,
    pub unix_mode: u32,
    /// The bearer token of the role `admin`.
    pub token: Option<String>,
    /// The same in a file.
    pub token_file: Option<PathBuf>,
    /// The bearer token of the role `read`.
    pub read_token: Option<String>,
    /// The same in a file.
    pub read_token_file: Option<PathBuf>,
    /// Its certificate, if it speaks HTTPS.
    pub tls: AdminTls,
}

/// `admin.tls.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdminTls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// `access.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Users and password hashes.
    pub password_file: Option<PathBuf>,
    /// Rules: who may publish and subscribe where.
    pub acl_file: Option<PathBuf>,
    /// Who may not connect.
    pub ban_file: Option<PathBuf>,
    /// Which client identifiers a user's MQTT clients may have.
    pub client_ids: ClientIds,
    /// Whether subscribing needs the right to read everything that the filter can match.
    pub subscribe_needs_read: bool,
    /// How long the verdict on a password is remembered.
    pub verdict_ttl: Span,
    /// What happens to an action no rule mentions; `None` is automatic. See [`Access::default_verdict`].
    pub default: Option<AccessDefault>,
    /// Whether MQTT 5 enhanced authentication with SCRAM-SHA-256 is offered.
    pub scram: bool,
    /// `access.jwt.*`
    pub jwt: Jwt,
}

/// `access.jwt.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// The shared secret, for the HMAC algorithms.
    pub secret_file: Option<PathBuf>,
    /// The issuer's public key (PEM), for all others.
    pub public_key_file: Option<PathBuf>,
    /// The only algorithm accepted.
    pub algorithm: JwtAlgorithm,
    /// Required `aud`.
    pub audience: Option<String>,
    /// Required `iss`.
    pub issuer: Option<String>,
    /// The claim that names the user.
    pub user_claim: String,
    /// Whether a user name beside the token must equal the token's user.
    pub user_must_match: bool,
    /// The claim that may carry rules.
    pub acl_claim: String,
    /// Whether tokens without `exp` are refused.
    pub expiry_required: bool,
    /// Clock difference forgiven. In whole seconds.
    pub leeway: Span,
    /// Whether every password must be a token.
    pub required: bool,
}

/// `limits.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections at once from one IP address on one listener.
    pub connections_per_address_max: Option<usize>,
    /// Connections accepted per second on each listener.
    pub connect_rate: Option<u64>,
    /// Time from accept to a complete CONNECT.
    pub connect_timeout: Span,
    /// Connections that have not finished handshake and CONNECT.
    pub handshakes_max: usize,
    /// Bytes of a CONNECT, or of another first packet.
    pub connect_bytes_max: usize,
    pub client_id_bytes_max: usize,
    /// Largest packet. See [`Config::packet_bytes_max`].
    pub packet_bytes_max: usize,
    /// Most levels in a topic or filter.
    pub topic_levels_max: usize,
    /// Longest topic or filter.
    pub topic_bytes_max: usize,
    /// Most subscriptions of one session.
    pub subscriptions_per_session_max: usize,
    /// Publishes per second per connection. See [`Config::publish_rate`].
    pub publish_rate: Option<u64>,
    /// Published bytes per second per connection.
    pub publish_bytes_rate: Option<u64>,
    /// Memory for messages over the whole broker; `None` is three quarters of the machine's.
    pub memory_bytes_max: Option<usize>,
}

/// `queue.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Most messages waiting for one session.
    pub messages_max: usize,
    /// Most bytes waiting for one session.
    pub bytes_max: usize,
    /// Most bytes waiting for one session whose queue is in memory only.
    pub volatile_bytes_max: usize,
    /// What a full queue does.
    pub overflow: Overflow,
    /// Longest time that publishers are slowed for a client that takes nothing.
    pub publisher_pace_max: Span,
    /// Whether QoS 0 messages wait for sessions that are away.
    pub at_most_once_while_offline: bool,
    /// Bytes of one session's waiting messages that are kept in memory beside the journal.
    pub memory_bytes_max: usize,
    /// Bytes waiting for a slow socket before QoS 0 messages are dropped.
    pub output_bytes_max: usize,
    /// Longest time that small writes are gathered before they are sent.
    pub output_pace_max: Span,
}

/// `queues.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Queues {
    pub count_max: usize,
    /// Most messages that wait in one queue.
    pub messages_max: u64,
    /// Most bytes of payload that wait in one queue.
    pub bytes_max: u64,
    /// Bytes of one queue's messages that wait in memory.
    pub memory_bytes_max: usize,
    pub exchanges_max: usize,
    /// Most bindings of all exchanges together.
    pub bindings_max: usize,
    /// Most bytes of messages of one transaction.
    pub transaction_bytes_max: usize,
}

/// `session.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Longest session expiry granted; [`Span::FOREVER`] grants whatever is asked.
    pub expiry_max: Span,
    /// Expiry of MQTT 3 sessions with clean session 0.
    pub v3_expiry: Span,
    /// Most sessions, connected or not.
    pub count_max: usize,
    /// Whether unsettled messages of a shared subscription go to another member when the session disconnects.
    pub redispatch: bool,
}

/// `retained.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Retained {
    /// Whether retained messages are kept at all.
    pub enabled: bool,
    pub messages_max: usize,
    /// Most bytes of retained messages.
    pub bytes_max: usize,
    /// Longest time a retained message is kept; [`Span::FOREVER`] is no limit.
    pub expiry_max: Span,
}

/// `journal.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// Whether persistent sessions, their queues and retained messages survive the process.
    pub enabled: bool,
    /// What acknowledgements wait for, where neither a filter nor the listener says otherwise. See [`Config::fsync`].
    pub fsync: Fsync,
    /// Time between two syncs of what nothing waits for.
    pub fsync_interval: Span,
    /// Topics with a policy of their own, in the order of the filters' text, each once. See
    /// [`Journal::filter_policy`].
    pub filters: Vec<(Filter, Fsync)>,
    /// Most bytes of journal files; `None` leaves it to the file system.
    pub bytes_max: Option<u64>,
    /// Length of a segment file.
    pub segment_bytes: u64,
    /// Most bytes that are written in one piece.
    pub frame_bytes_max: usize,
    /// Bytes written between two checkpoints.
    pub checkpoint_bytes: u64,
    /// Time between two checkpoints.
    pub checkpoint_interval: Span,
    /// Time that a sync waits for more to come; [`Span::ZERO`] waits for nothing.
    pub max_linger: Span,
}

/// `last_values.*`
#[derive(Clone, Debug, PartialEq)]
pub struct LastValues {
    /// Filters whose topics keep their latest message, retained or not: each once, in the order of their text.
    pub keep: Vec<Filter>,
    /// Most messages kept only because of that, or because CoAP made a topic of their address.
    pub messages_max: usize,
    /// Most bytes of them.
    pub bytes_max: usize,
}

/// `dedup.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Dedup {
    /// Publishers that are known by their stamps.
    pub publishers_max: usize,
    /// How long one is known that is idle.
    pub expiry: Span,
}

/// `presence.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// Whether it is told who comes and goes.
    pub enabled: bool,
    /// How long it is remembered of who has left; `None`: not at all.
    pub offline: Option<Span>,
    /// Of how many, at the most.
    pub offline_max: usize,
}

/// `ledger.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// Topic prefixes of whole levels that get books of their own: each once, in the order of their text.
    pub prefixes: Vec<String>,
}

/// `groups.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// How the next member is chosen.
    pub strategy: GroupStrategy,
    /// What holds for some filters, in the order in which they are looked at.
    pub policies: Vec<GroupPolicy>,
    /// Most messages waiting for one group.
    pub messages_max: usize,
    /// Most bytes waiting for one group.
    pub bytes_max: usize,
    /// Time a member has to settle a message before another may get it; `None` is for ever.
    pub settle_timeout: Option<Span>,
    /// Whether the strategy `adaptive` may close a silent member's connection sooner.
    pub adaptive_eviction: bool,
}

/// `sys.*`
#[derive(Clone, Debug, PartialEq)]
pub struct Sys {
    /// Time between two rounds of `$SYS` messages; `None` publishes none.
    pub interval: Option<Span>,
}

impl Config {
    /// How many shards to start on a machine with `cores` cores: the setting, or one per two cores, at least one.
    pub fn shard_count(&self, cores: usize) -> usize {
        self.shards.unwrap_or(cores / 2).clamp(1, SHARDS_MAX)
    }

    /// The listeners to open, by name.
    pub fn enabled_listeners(&self) -> impl Iterator<Item = (&str, &Listener)> {
        self.listeners
            .iter()
            .filter(|(_, listener)| listener.enabled)
            .map(|(name, listener)| (name.as_str(), listener))
    }

    /// How many publishes per second a connection of `listener` may send; `None` is unlimited.
    pub fn publish_rate(&self, listener: &Listener) -> Option<u64> {
        match listener.publish_rate {
            Some(rate) => (rate > 0).then_some(rate),
            None => self.limits.publish_rate,
        }
    }

    /// What acknowledgements to peers of `listener` wait for, where no topic filter has a policy of its own.
    pub fn fsync(&self, listener: &Listener) -> Fsync {
        listener.fsync.unwrap_or(self.journal.fsync)
    }

    /// Whether `listener` lets in peers that offer neither password nor token, nor a certificate with a name: where it
    /// admits the anonymous, and where a nameless certificate is all that anybody can show.
    pub fn admits_strangers(&self, listener: &Listener) -> bool {
        listener.admits_anonymous()
            || (self.needs_certificate(listener) && !self.takes_passwords(listener))
    }

    /// Whether a peer of `listener` can log in by what it says: CoAP has no word for a user name or a password.
    pub(super) fn takes_passwords(&self, listener: &Listener) -> bool {
        listener.kind.has_passwords() && self.has_authentication()
    }

    /// Whether anything is configured that can tell one user from another by what CONNECT carries.
    pub fn has_authentication(&self) -> bool {
        let jwt = &self.access.jwt;
        self.access.password_file.is_some()
            || jwt.secret_file.is_some()
            || jwt.public_key_file.is_some()
    }
}

impl Access {
    /// What happens to an action no rule mentions: the setting, or refusal once there are rules.
    pub fn default_verdict(&self) -> AccessDefault {
        self.default.unwrap_or(if self.acl_file.is_some() {
            AccessDefault::Deny
        } else {
            AccessDefault::Allow
        })
    }
}

impl Journal {
    /// The policy that a topic's filters give it, over listener and broker: of all that match, the most durable.
    pub fn filter_policy(&self, address: &str) -> Option<Fsync> {
        let matching = self
            .filters
            .iter()
            .filter(|(filter, _)| filter.matches(address));
        matching
            .map(|(_, policy)| *policy)
            .reduce(Fsync::more_durable)
    }
}

impl Listener {
    /// Whether peers without credentials are let in: the setting, or only where no stranger can reach us.
    pub fn admits_anonymous(&self) -> bool {
        self.anonymous.unwrap_or_else(|| self.is_local())
    }

    /// Whether only this machine can reach the listener. Behind a proxy the clients are elsewhere.
    pub fn is_local(&self) -> bool {
        self.bind.is_local() && self.proxy_protocol == ProxyProtocol::Off
    }
}

impl Bind {
    /// Whether two sockets cannot both be opened. Port 0 is a different port each time.
    pub(super) fn collides(&self, other: &Bind) -> bool {
        let overlap = |a: &SocketAddr, b: &SocketAddr| {
            a.port() == b.port()
                && a.port() != 0
                && a.is_ipv4() == b.is_ipv4()
                && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
        };
        match (self, other) {
            (Bind::Socket(a), Bind::Socket(b)) => overlap(a, b),
            (Bind::Path(a), Bind::Path(b)) => a == b,
            _ => false,
        }
    }

    /// Whether it is a loopback address or a Unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Bind::Socket(address) => address.ip().is_loopback(),
            Bind::Path(_) => true,
        }
    }
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bind::Socket(address) => write!(f, "{address}"),
            Bind::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

pub const SHARDS_MAX: usize = 64;
