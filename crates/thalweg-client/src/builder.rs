//! The client's builder: brokers, credentials, buffer, objective.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_model::Span;

use crate::adaptive::{Calibration, Constraints, Objective};
use crate::client::{Client, ClientError};
use crate::driver::handle::{check_topic, span_of};
use crate::driver::{self, PeerHub};
use crate::engine::{EngineSettings, Overflow, WhenRefused};
use crate::events::EventQueue;
use crate::lanes_of;
use crate::pace::{BatchSettings, ThrottleSettings};
use crate::plugin::PluginSettings;
use crate::spool::WhenFull;
use crate::transport::{Opening, Transport, Will};
use crate::url::BrokerUrl;

/// Protocol that carries messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// The one that serves the objective best, of those whose brokers were named; chosen anew as the network changes.
    #[default]
    Auto,
    /// This one: `mqtt`, `coap`, `amqp`, `stomp`, `zmtp`, `xmpp`, or a third party's.
    Protocol(String),
}

/// Files with which TLS and DTLS verify the broker and authenticate the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities to trust, PEM; none takes the system's.
    pub ca: Option<PathBuf>,
    /// Authorities to trust, DER, beside those of `ca`; if there are any, the system's are not taken.
    pub authorities: Vec<Vec<u8>>,
    /// A certificate chain to show and its key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The broker's certificate is not checked at all: for tests only.
    pub insecure: bool,
}

/// Where messages wait for the network, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSettings {
    /// Bytes that unsettled messages may take in memory, their metadata included. Default 16 MiB.
    pub bytes_max: usize,
    /// Most unsettled messages. Default 100,000.
    pub messages_max: usize,
    /// A folder of its own for this client: messages of at least and exactly once survive the process. Default: none.
    pub disk: Option<PathBuf>,
    /// Action when the buffer is full. Default: publishes are refused.
    pub overflow: Overflow,
    /// Action when the file system with the folder is full, or the disk fails. Default: publishes are refused.
    pub disk_full: WhenFull,
}

impl Default for BufferSettings {
    fn default() -> Self {
        BufferSettings {
            bytes_max: 16 << 20,
            messages_max: 100_000,
            disk: None,
            overflow: Overflow::Refuse,
            disk_full: WhenFull::Refuse,
        }
    }
}

/// Starts what connects a peer to others, and makes it what the client connects to.
type StartHub = Box<dyn FnOnce(&mut ClientBuilder) -> Result<PeerHub, ClientError> + Send>;

/// Makes a [`Client`]. At least one broker or transport has to be named, all else has a default.
pub struct ClientBuilder {
    pub(crate) via: Via,
    pub(crate) brokers: Vec<BrokerUrl>,
    pub(crate) transports: Vec<Box<dyn Transport>>,
    pub(crate) opening: Opening,
    pub(crate) tls: TlsFiles,
    pub(crate) psk: Option<(String, Vec<u8>)>,
    pub(crate) objective: Objective,
    pub(crate) constraints: Constraints,
    pub(crate) calibration: Option<Calibration>,
    pub(crate) buffer: BufferSettings,
    pub(crate) receive_bytes_max: Option<usize>,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) connect_timeout: Duration,
    pub(crate) dscp: Option<u8>,
    pub(crate) batch: BatchSettings,
    pub(crate) throttle: ThrottleSettings,
    pub(crate) when_refused: WhenRefused,
    pub(crate) events: Option<EventQueue>,
    pub(crate) seed: Option<u64>,
    pub(crate) plugins: PluginSettings,
    /// Error in the settings of a protocol.
    pub(crate) fault: Option<String>,
    /// Connects a peer to others when the client starts; `None` for all other clients.
    pub(crate) hub: Option<StartHub>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        ClientBuilder {
            via: Via::Auto,
            brokers: Vec::new(),
            transports: Vec::new(),
            opening: Opening {
                client_id: String::new(),
                user: None,
                password: None,
                session: Span::ZERO,
                will: None,
                keep_alive: Span::from_secs(60),
            },
            tls: TlsFiles::default(),
            psk: None,
            objective: Objective::default(),
            constraints: Constraints::default(),
            calibration: None,
            buffer: BufferSettings::default(),
            receive_bytes_max: None,
            backoff: (Duration::from_millis(200), Duration::from_secs(30)),
            connect_timeout: Duration::from_secs(10),
            dscp: None,
            batch: BatchSettings::Off,
            throttle: ThrottleSettings::Off,
            when_refused: WhenRefused::Wait,
            events: None,
            seed: None,
            plugins: PluginSettings::default(),
            fault: None,
            hub: None,
        }
    }
}

impl ClientBuilder {
    /// Sets the protocol that carries messages. Default: [`Via::Auto`].
    #[must_use]
    pub fn via(mut self, via: Via) -> Self {
        self.via = via;
        self
    }

    /// A broker, or another way to the same: `mqtt://host`, `coap://host`, … ([`BrokerUrl`]). To be said for each way
    /// that may be taken. User and password of the last URL that has some are used.
    pub fn broker(mut self, url: &str) -> Result<Self, ClientError> {
        let url: BrokerUrl = url.parse().map_err(ClientError::Url)?;
        check_feature(&url)?;
        if url.user.is_some() {
            self.opening.user.clone_from(&url.user);
            self.opening.password.clone_from(&url.password);
        }
        self.brokers.push(url);
        Ok(self)
    }

    /// A protocol of your own, as one more way.
    #[must_use]
    pub fn transport(mut self, transport: Box<dyn Transport>) -> Self {
        self.transports.push(transport);
        self
    }

    /// The client's name. Default: empty; then the broker chooses, or it is made up.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.opening.client_id = client_id.into();
        self
    }

    /// User name and password, for all brokers.
    #[must_use]
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<Vec<u8>>) -> Self {
        self.opening.user = Some(user.into());
        self.opening.password = Some(password.into());
        self
    }

    /// The broker keeps what it has for us so long after a connection is lost. Default: not at all. Needs a name.
    #[must_use]
    pub fn session(mut self, session: Duration) -> Self {
        self.opening.session = span_of(session);
        self
    }

    /// Sets the message that the client's brokers publish when a connection ends without a disconnect. Only MQTT
    /// carries it: [`ClientBuilder::connect`] refuses other brokers besides it. A client that disconnects, by
    /// [`Client::close`] or by being dropped, publishes no will.
    #[must_use]
    pub fn will(mut self, will: Will) -> Self {
        self.opening.will = Some(will);
        self
    }

    /// Silence after which a stream is asked whether it lives; zero: never. Default 60 s.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.opening.keep_alive = span_of(keep_alive);
        self
    }

    /// Class of service by which routers may tell what this client sends: the number in each IP header (DSCP, RFC 2474), 0 to
    /// 63. 46 is expedited forwarding. It is of the client and not of each message: routers that heed it would take the packets
    /// of one connection out of order. Default: the system decides. On Linux.
    #[must_use]
    pub fn dscp(mut self, class: u8) -> Self {
        self.dscp = Some(class);
        self
    }

    /// Longest time of one connection attempt, up to the broker's acceptance, before the next begins. Default 10 s;
    /// over datagrams that lose every fourth packet each way, some 4 of 100 attempts take longer.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the files with which TLS and DTLS verify the broker and authenticate the client.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.plugins.has_tls_files = files != TlsFiles::default();
        self.tls = files;
        self
    }

    /// A key that the broker knows, too, for DTLS (`coaps://`).
    #[must_use]
    pub fn psk(mut self, identity: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        self.psk = Some((identity.into(), key.into()));
        self
    }

    /// Sets the quantity that [`Via::Auto`] minimizes. Default: latency.
    #[must_use]
    pub fn objective(mut self, objective: Objective) -> Self {
        self.objective = objective;
        self
    }

    /// Sets limits that apply before the objective.
    #[must_use]
    pub fn constraints(mut self, constraints: Constraints) -> Self {
        self.constraints = constraints;
        self
    }

    /// Sets the prior measurements of the protocols. Default: the laboratory's.
    #[must_use]
    pub fn calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = Some(calibration);
        self
    }

    /// Where messages wait for the network, and how many.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferSettings) -> Self {
        self.buffer = buffer;
        self
    }

    /// Limits the memory of messages that a subscription has received and the application has not yet taken. Above it,
    /// at-most-once messages are dropped and counted. Default 4 MiB.
    #[must_use]
    pub fn receive_buffer(mut self, bytes_max: usize) -> Self {
        self.receive_bytes_max = Some(bytes_max);
        self
    }

    /// The first and the longest wait before a lost connection is made again; each is jittered. Default 200 ms and 30 s.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff = (min, max.max(min));
        self
    }

    /// Turbo batching. Default: off.
    #[must_use]
    pub fn turbo(mut self, settings: BatchSettings) -> Self {
        self.batch = settings;
        self
    }

    /// Adapts the publish rate to the lane's capacity. Default: off.
    #[must_use]
    pub fn throttle(mut self, settings: ThrottleSettings) -> Self {
        self.throttle = settings;
        self
    }

    /// Sets what happens to waiting messages when every broker has refused the login: they wait, as messages on disk
    /// always do, or fail. Default: they wait.
    #[must_use]
    pub fn when_refused(mut self, what: WhenRefused) -> Self {
        self.when_refused = what;
        self
    }

    /// Where the client tells what happens to it. Default: nowhere.
    #[must_use]
    pub fn events(mut self, queue: &EventQueue) -> Self {
        self.events = Some(queue.clone());
        self
    }

    /// Seed of the client's random numbers, for repeatable tests. Default: the system's randomness.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the client. It does not wait for the network: messages may be published at once, and wait. Settings that
    /// contradict each other, or that no broker could ever be reached with, are [`ClientError::Settings`].
    pub fn connect(self) -> Result<Client, ClientError> {
        self.check()?;
        driver::start(self)
    }

    /// As [`ClientBuilder::connect`], with the blocking face.
    pub fn connect_blocking(self) -> Result<crate::blocking::Client, ClientError> {
        self.connect().map(crate::blocking::Client::from)
    }

    fn check(&self) -> Result<(), ClientError> {
        if let Some(words) = &self.fault {
            return Err(ClientError::Settings(words.clone()));
        }
        if let Some(will) = &self.opening.will {
            check_topic(&will.address)?;
            if will.payload.len() > usize::from(u16::MAX) {
                return Err(ClientError::Invalid(
                    "the payload of a will has at most 65,535 bytes",
                ));
            }
        }
        if let Some(class) = self.dscp.filter(|class| *class > 63) {
            return Err(ClientError::Settings(format!(
                "a class of service (dscp) is 0 to 63, not {class}"
            )));
        }
        let is_dtls = |url: &&BrokerUrl| url.scheme.is_datagrams() && url.scheme.is_encrypted();
        if self.psk.is_none()
            && let Some(url) = self.brokers.iter().find(is_dtls)
        {
            return Err(ClientError::Settings(format!(
                "{url} needs an identity and a key that the broker knows, too (psk): certificates are not spoken over DTLS"
            )));
        }
        Ok(())
    }

    /// Returns the settings of the engine.
    pub(crate) fn engine_settings(&self) -> EngineSettings {
        let defaults = EngineSettings::new(self.opening.clone());
        EngineSettings {
            bytes_max: self.buffer.bytes_max,
            messages_max: self.buffer.messages_max,
            overflow: self.buffer.overflow,
            when_refused: self.when_refused,
            receive_bytes_max: self.receive_bytes_max.unwrap_or(defaults.receive_bytes_max),
            connect_timeout: span_of(self.connect_timeout),
            backoff_min: span_of(self.backoff.0),
            backoff_max: span_of(self.backoff.1),
            batch: self.batch,
            throttle: self.throttle,
            ..defaults
        }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("via", &self.via)
            .field("brokers", &self.brokers)
            .finish_non_exhaustive()
    }
}

/// Whether this build speaks what a URL asks for.
pub(crate) fn check_feature(url: &BrokerUrl) -> Result<(), ClientError> {
    let missing = |feature: &str| {
        let scheme = url.scheme.name();
        Err(ClientError::Settings(format!(
            "this build does not speak {scheme}: it is without the feature `{feature}`"
        )))
    };
    let protocol = url.scheme.protocol();
    if lanes_of(protocol).is_none() {
        return missing(protocol);
    }
    if url.scheme.is_websocket() && !cfg!(feature = "websocket") {
        return missing("websocket");
    }
    if url.scheme.is_encrypted() {
        let (feature, is_there) = match url.scheme.is_datagrams() {
            true => ("dtls", cfg!(feature = "dtls")),
            false => ("tls", cfg!(feature = "tls")),
        };
        if !is_there {
            return missing(feature);
        }
    }
    Ok(())
}

/// 32 octets that cannot be guessed.
#[cfg(any(feature = "xmpp", feature = "zmtp"))]
pub(crate) fn random() -> Result<[u8; 32], ClientError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut random = [0; 32];
    match SystemRandom::new().fill(&mut random) {
        Ok(()) => Ok(random),
        Err(_) => Err(ClientError::System(
            "the system gives no random numbers".into(),
        )),
    }
}
