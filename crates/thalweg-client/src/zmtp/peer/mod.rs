//! A client without a broker: it binds a port, and connects to its peers ([`ClientBuilder::peer`]).
//!
//! ```text
//!  client ── lanes (loopback) ──> hub ── what it publishes ──> SUB sockets that connect, and the broker
//!                                  └──── what it subscribes to <── PUB sides of its peers, and the broker
//! ```
//!
//! The hub is a thread of its own, between the client's two ZeroMQ lanes to it and all peers. A message from one peer
//! is not forwarded to another. A client's publishes are numbered, so that a message that reaches a peer both directly
//! and by the broker is received once.
//!
//! - `hub` is what it does, without sockets; `duplicates` what came already; `sockets` the loop; `dialer` connects to peers.
//!
//! [`ClientBuilder::peer`]: crate::ClientBuilder::peer

mod dialer;
mod duplicates;
mod hub;
mod sockets;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::hub::Secrets;
use self::sockets::{Shared, Sockets, Target};
use crate::builder::{ClientBuilder, random};
use crate::client::{ClientError, PeerCounts};
use crate::transport::{Endpoint, Medium, Transport};
use crate::zmtp::{Zmtp, ZmtpSettings};

/// Settings of a client in peer mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// Where its peers connect to, as `HOST:PORT`. Any program that reaches it may subscribe to all
    /// that the client publishes. Empty: a free port of the loopback, for a client that only receives.
    pub bind: String,
    /// Those whose messages the client gets, as `HOST:PORT` or `tcp://HOST:PORT`: other clients, and every PUB or XPUB socket that binds.
    pub peers: Vec<String>,
}

impl ClientBuilder {
    /// Makes the client a peer: it publishes to those that connect to it, receives its peers' messages directly, and
    /// needs no broker. A broker given by `zmtp://` connects them to all other clients while it is reachable. At most
    /// once; a message that comes directly and by the broker is received once.
    #[must_use]
    pub fn peer(mut self, settings: PeerSettings) -> Self {
        self.hub = Some(Box::new(move |builder| {
            let hub = Hub::start(&settings, builder)?;
            Ok(Box::new(move || hub.counts()))
        }));
        self
    }
}

/// The hub's thread. It ends with this.
struct Hub {
    shared: Arc<Shared>,
    bell: Arc<mio::Waker>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Hub {
    /// Starts the hub, and makes it what the client connects to. It takes the brokers and the credentials over.
    fn start(settings: &PeerSettings, builder: &mut ClientBuilder) -> Result<Hub, ClientError> {
        let zmtp: ZmtpSettings = builder.plugins.get();
        builder.plugins.set(ZmtpSettings::default());
        let bind = match settings.bind.trim_start_matches("tcp://") {
            "" => "127.0.0.1:0",
            bind => bind,
        };
        let fault = |what: &str, error: std::io::Error| {
            ClientError::System(format!("{what} {bind}: {error}"))
        };
        let mut addresses = bind
            .to_socket_addrs()
            .map_err(|error| fault("cannot listen on", error))?;
        let address = addresses
            .next()
            .ok_or_else(|| ClientError::Settings(format!("{bind} is no address to listen on")))?;
        let listener =
            TcpListener::bind(address).map_err(|error| fault("cannot listen on", error))?;
        let own = listener
            .local_addr()
            .map_err(|error| fault("cannot listen on", error))?;

        let peers = settings.peers.iter();
        let mut targets: Vec<Target> = peers
            .map(|at| Target::peer(at.trim_start_matches("tcp://")))
            .collect();
        for url in std::mem::take(&mut builder.brokers) {
            if url.scheme.protocol() != "zmtp" {
                return Err(ClientError::Settings(format!(
                    "a peer reaches brokers by ZeroMQ, not by {url}: zmtp://HOST"
                )));
            }
            let address = url.to_string();
            let address = address.trim_start_matches("zmtp://");
            targets.extend(Target::broker(address, &zmtp, &builder.opening));
        }
        let secrets = secrets()?;
        builder.opening.user = Some(secrets.user.clone());
        builder.opening.password = Some(secrets.password.clone().into_bytes());
        let endpoint = Endpoint {
            host: loopback(own.ip()).to_string(),
            port: own.port(),
            medium: Medium::Stream,
            is_encrypted: false,
            websocket: None,
        };
        let lanes = Zmtp::pair(&endpoint, &ZmtpSettings::default());
        builder
            .transports
            .extend(lanes.map(|lane| Box::new(lane) as Box<dyn Transport>));

        let keep_alive = Duration::from_nanos(builder.opening.keep_alive.nanos());
        let shared = Arc::<Shared>::default();
        let (sockets, bell) = Sockets::new(listener, targets, secrets, keep_alive, &shared)
            .map_err(|error| fault("the system gives no poll for", error))?;
        let thread = std::thread::Builder::new()
            .name("thalweg-peer".into())
            .stack_size(256 << 10)
            .spawn(move || sockets.run())
            .map_err(|error| fault("the system gives no thread for", error))?;
        Ok(Hub {
            shared,
            bell,
            thread: Some(thread),
        })
    }

    fn counts(&self) -> PeerCounts {
        self.shared.counts()
    }
}

impl Drop for Hub {
    /// Waits until the remaining bytes are sent, for a second at most.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // It fails only if the thread is gone.
        let _ = self.bell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where a listener is reached from its own machine.
fn loopback(bound: IpAddr) -> IpAddr {
    match bound {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// Creates the client's credentials for its own hub, and its publisher id.
fn secrets() -> Result<Secrets, ClientError> {
    let random = random()?;
    let (publisher, password) = random.split_at(8);
    Ok(Secrets {
        user: "client".into(),
        password: password.iter().map(|byte| format!("{byte:02x}")).collect(),
        publisher: publisher.try_into().map_or(0, u64::from_be_bytes),
    })
}
