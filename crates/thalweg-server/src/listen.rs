//! Listeners: where to bind, how, and what went wrong in words.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::lobby::Route;
use crate::transport::tls::TlsAcceptor;
use crate::transport::websocket::WebSocketSettings;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// A TCP address; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A unix socket, with the permission bits it gets.
    Unix {
        /// Where the socket file appears. One that nobody listens on is removed first.
        path: PathBuf,
        /// Permission bits, for instance `0o660`.
        mode: u32,
    },
}

/// One listener: where, through which filters, and how much.
#[derive(Clone, Debug)]
pub struct ListenerSpec {
    /// Name in the configuration's table, for logs and metrics.
    pub name: Arc<str>,
    /// Where it listens.
    pub bind: Bind,
    /// True if every connection starts with a PROXY header; one without is refused.
    pub proxy: bool,
    /// TLS, if any.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// WebSocket, if any; inside TLS if both are there.
    pub websocket: Option<Arc<WebSocketSettings>>,
    /// Finds the routing key in the first protocol bytes.
    pub route: fn(&[u8]) -> Route,
    /// Connections open at once on this listener; beyond it a new one is closed at once.
    pub connections_max: usize,
    /// Connections open at once from one IP address, on this listener; 0 is no limit.
    pub connections_per_address_max: usize,
    /// Connections accepted per second; beyond it they wait in the system's queue. 0 is no limit.
    pub connects_per_second_max: u32,
    /// Connections that may come at once before the rate counts.
    pub connects_burst: u32,
    /// Length of the system's queue of connections that are not accepted yet.
    pub backlog: u32,
    /// Idle time before the system probes a TCP peer; `None` leaves it off.
    pub keepalive: Option<Duration>,
}

impl ListenerSpec {
    /// A plain TCP listener with the default limits.
    pub fn new(name: &str, bind: Bind, route: fn(&[u8]) -> Route) -> ListenerSpec {
        ListenerSpec {
            name: name.into(),
            bind,
            proxy: false,
            tls: None,
            websocket: None,
            route,
            connections_max: 1_000_000,
            connections_per_address_max: 0,
            connects_per_second_max: 0,
            connects_burst: 1_000,
            backlog: 4_096,
            keepalive: Some(Duration::from_secs(60)),
        }
    }
}

/// A socket that is bound and listens; the lobby accepts on it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) spec: Arc<ListenerSpec>,
    pub(crate) socket: ListenSocket,
    pub(crate) local: Option<SocketAddr>,
}

#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(mio::net::TcpListener),
    Unix(mio::net::UnixListener),
}

impl Listener {
    /// Binds and listens.
    pub fn bind(spec: ListenerSpec) -> Result<Listener, ListenFault> {
        open(&spec).map(|(socket, local)| Listener { spec: Arc::new(spec), socket, local })
    }

    /// The address that was bound, with the port the system chose; `None` for a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    /// What was asked for.
    pub fn spec(&self) -> &Arc<ListenerSpec> {
        &self.spec
    }
}

fn open(spec: &ListenerSpec) -> Result<(ListenSocket, Option<SocketAddr>), ListenFault> {
    match &spec.bind {
        Bind::Tcp(address) => {
            let listener = open_tcp(spec, *address).map_err(|error| ListenFault::tcp(spec, *address, &error))?;
            let local = listener.local_addr().ok();
            Ok((ListenSocket::Tcp(mio::net::TcpListener::from_std(listener)), local))
        }
        Bind::Unix { path, mode } => {
            let listener = open_unix(spec, path, *mode)?;
            Ok((ListenSocket::Unix(mio::net::UnixListener::from_std(listener)), None))
        }
    }
}

/// Socket options are set on the listening socket: Linux hands them down to every accepted one, which saves system
/// calls per connect.
fn open_tcp(spec: &ListenerSpec, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restarted broker waits for the old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && !address.ip().is_unspecified() {
        socket.set_only_v6(true)?;
    }
    socket.set_tcp_nodelay(true)?;
    if let Some(idle) = spec.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(KEEPALIVE_INTERVAL))?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(spec.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

fn open_unix(spec: &ListenerSpec, path: &Path, mode: u32) -> Result<std::os::unix::net::UnixListener, ListenFault> {
    let fault = |error: &io::Error| ListenFault::unix(spec, path, error);
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(ListenFault::unix_words(spec, path, "there is a file of that name, and it is not a socket"));
        }
        // A socket file outlives its process. Only one that nobody answers on may go.
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| fault(&error))?;
            }
            _ => return Err(ListenFault::unix_words(spec, path, "another process listens on it")),
        }
    }
    let listener = std::os::unix::net::UnixListener::bind(path).map_err(|error| fault(&error))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(|error| fault(&error))?;
    listener.set_nonblocking(true).map_err(|error| fault(&error))?;
    Ok(listener)
}

/// Why a listener does not listen, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenFault {
    words: String,
}

impl ListenFault {
    fn tcp(spec: &ListenerSpec, address: SocketAddr, error: &io::Error) -> ListenFault {
        let name = &spec.name;
        let key = format!("`--set listeners.{name}.bind=…`");
        let words = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "listener `{name}`: port {} is taken on {}; does another broker run? Stop it or choose another port with \
                 {key}",
                address.port(),
                address.ip()
            ),
            io::ErrorKind::AddrNotAvailable => format!(
                "listener `{name}`: {} is not an address of this machine; choose one that is with {key}, or {} for all",
                address.ip(),
                if address.is_ipv4() { "0.0.0.0" } else { "[::]" }
            ),
            io::ErrorKind::PermissionDenied => format!(
                "listener `{name}`: this user may not listen on port {}; choose one from 1024 up with {key}, or grant \
                 CAP_NET_BIND_SERVICE",
                address.port()
            ),
            _ => format!("listener `{name}`: cannot listen on {address}: {error}"),
        };
        ListenFault { words }
    }

    fn unix(spec: &ListenerSpec, path: &Path, error: &io::Error) -> ListenFault {
        let words = match error.kind() {
            io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => "this user may not write there".to_owned(),
            io::ErrorKind::InvalidInput => "the path is too long for a unix socket (107 bytes)".to_owned(),
            _ => error.to_string(),
        };
        ListenFault::unix_words(spec, path, &words)
    }

    fn unix_words(spec: &ListenerSpec, path: &Path, words: &str) -> ListenFault {
        let name = &spec.name;
        let words = format!(
            "listener `{name}`: cannot listen on {}: {words}; choose another path with `--set listeners.{name}.bind=…`",
            path.display()
        );
        ListenFault { words }
    }
}

impl fmt::Display for ListenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for ListenFault {}

/// Time between two probes once a peer is silent.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
