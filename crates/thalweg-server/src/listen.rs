//! Listeners: where to bind, how, and what went wrong in words.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::lobby::Route;
use crate::transport::proxy::ProxyRule;
use crate::transport::tls::TlsAcceptor;
use crate::transport::websocket::WebSocketSettings;
use crate::unix_socket::{self, SocketFile};

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// A TCP address; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A unix socket, with the permission bits it gets.
    Unix {
        /// Where the socket file appears. A stale one, on which no process listens, is removed first.
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
    pub bind: Bind,
    /// Every connection starts with a PROXY header, if there is a rule for it; one without is refused.
    pub proxy: Option<ProxyRule>,
    pub tls: Option<Arc<TlsAcceptor>>,
    /// TLS begins when the protocol says so, not with the connection.
    pub tls_later: bool,
    /// WebSocket, if any; inside TLS if both are there.
    pub websocket: Option<Arc<WebSocketSettings>>,
    /// Finds the routing key in the first protocol bytes, of which the first packet may have so many.
    pub route: fn(&[u8], usize) -> Route,
    /// The first bytes are not the whole log-in: a connection that is handed over counts as a handshake at once, not only once
    /// it waits for a verdict.
    pub shard_completes_handshake: bool,
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
    /// The class of service in the IP headers of what is sent; `None` leaves it to the system.
    pub dscp: Option<u8>,
    /// Bytes that the system holds for a TCP peer; `None` leaves it to the system.
    pub send_bytes: Option<usize>,
}

impl ListenerSpec {
    /// A plain TCP listener with the default limits.
    pub fn new(name: &str, bind: Bind, route: fn(&[u8], usize) -> Route) -> ListenerSpec {
        ListenerSpec {
            name: name.into(),
            bind,
            proxy: None,
            tls: None,
            tls_later: false,
            websocket: None,
            route,
            shard_completes_handshake: false,
            connections_max: 1_000_000,
            connections_per_address_max: 0,
            connects_per_second_max: 0,
            connects_burst: 1_000,
            backlog: 4_096,
            keepalive: Some(Duration::from_secs(60)),
            dscp: None,
            send_bytes: None,
        }
    }
}

/// A socket that is bound and listens; the lobby accepts on it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) spec: Arc<ListenerSpec>,
    pub(crate) socket: ListenSocket,
    pub(crate) local: Option<SocketAddr>,
    /// Goes with the listener.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(mio::net::TcpListener),
    Unix(mio::net::UnixListener),
}

impl Listener {
    pub fn bind(spec: ListenerSpec) -> Result<Listener, ListenFault> {
        let (socket, local, _file) = match &spec.bind {
            Bind::Tcp(address) => {
                let listener = open_tcp(&spec, *address)
                    .map_err(|error| ListenFault::at(&spec.name, *address, &error))?;
                let local = listener.local_addr().ok();
                (
                    ListenSocket::Tcp(mio::net::TcpListener::from_std(listener)),
                    local,
                    None,
                )
            }
            Bind::Unix { path, mode } => {
                let (listener, file) = unix_socket::bind(path, *mode)
                    .map_err(|words| ListenFault::unix(&spec.name, path, &words))?;
                (
                    ListenSocket::Unix(mio::net::UnixListener::from_std(listener)),
                    None,
                    Some(file),
                )
            }
        };
        Ok(Listener {
            spec: Arc::new(spec),
            socket,
            local,
            _file,
        })
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

/// Socket options are set on the listening socket: Linux hands them down to every accepted one, which saves system
/// calls per connect.
fn open_tcp(spec: &ListenerSpec, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Without it a restarted broker waits for the old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // [::] means every address of the machine, whatever the system's default is.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_tcp_nodelay(true)?;
    if let Some(idle) = spec.keepalive {
        socket.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(idle)
                .with_interval(KEEPALIVE_INTERVAL),
        )?;
    }
    if let Some(dscp) = spec.dscp {
        mark(&socket, address, dscp)?;
    }
    if let Some(bytes) = spec.send_bytes {
        // The system doubles it, for what it needs beside the bytes themselves.
        socket.set_send_buffer_size(bytes / 2)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(spec.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Writes a class of service into the IP headers of all that a socket sends.
pub(crate) fn mark(socket: &Socket, address: SocketAddr, dscp: u8) -> io::Result<()> {
    // The two bits below it are for congestion notification.
    let class = u32::from(dscp) << 2;
    if address.is_ipv6() {
        socket.set_tclass_v6(class)?;
    }
    if address.is_ipv4() || address.ip().is_unspecified() {
        socket.set_tos_v4(class)?;
    }
    Ok(())
}

/// Why a listener does not listen, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenFault {
    words: String,
}

impl ListenFault {
    /// What is wrong with an address and port, TCP's or UDP's.
    pub(crate) fn at(name: &str, address: SocketAddr, error: &io::Error) -> ListenFault {
        let key = format!("`--set listeners.{name}.bind=…`");
        let words = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "listener `{name}`: port {} is taken on {}; does another broker run? Stop it or choose another port with \
                 {key}, or do without this listener: `--set listeners.{name}.enabled=false`",
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

    fn unix(name: &str, path: &Path, words: &str) -> ListenFault {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::certificates::Folder;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    fn tcp(address: &str) -> Result<Listener, ListenFault> {
        let route = |_: &[u8], _: usize| Route::NeedMore;
        Listener::bind(ListenerSpec::new(
            "mqtt",
            Bind::Tcp(address.parse().unwrap()),
            route,
        ))
    }

    fn unix(path: &Path) -> Result<Listener, ListenFault> {
        let bind = Bind::Unix {
            path: path.to_owned(),
            mode: 0o640,
        };
        Listener::bind(ListenerSpec::new("local", bind, |_, _| Route::NeedMore))
    }

    #[test]
    fn port_0_gives_a_port_of_the_systems_choice() {
        assert_ne!(
            tcp("127.0.0.1:0").unwrap().local_address().unwrap().port(),
            0
        );
    }

    #[test]
    fn a_taken_port_is_named_with_the_setting_that_changes_it() {
        let first = tcp("127.0.0.1:0").unwrap();
        let words = tcp(&first.local_address().unwrap().to_string())
            .unwrap_err()
            .to_string();
        assert!(
            words.contains("is taken") && words.contains("--set listeners.mqtt.bind="),
            "{words}"
        );
        assert!(
            words.contains("--set listeners.mqtt.enabled=false"),
            "{words}"
        );
    }

    #[test]
    fn an_address_of_another_machine_is_called_that() {
        let words = tcp("192.0.2.1:0").unwrap_err().to_string();
        assert!(words.contains("not an address of this machine"), "{words}");
    }

    #[test]
    fn every_address_in_version_6_means_version_4_too() {
        let Ok(listener) = tcp("[::]:0") else { return };
        let port = listener.local_address().unwrap().port();
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    }

    #[test]
    fn what_is_sent_has_the_class_of_service_of_its_listener() {
        const CLASS: u32 = 46 << 2;
        for (bind, peer) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
        ] {
            let address: SocketAddr = bind.parse().unwrap();
            let route = |_: &[u8], _: usize| Route::NeedMore;
            let spec = ListenerSpec {
                dscp: Some(46),
                ..ListenerSpec::new("mqtt", Bind::Tcp(address), route)
            };
            // A machine may have no IPv6.
            let listener = match open_tcp(&spec, address) {
                Err(_) if address.is_ipv6() => continue,
                opened => opened.unwrap(),
            };
            listener.set_nonblocking(false).unwrap();
            let port = listener.local_addr().unwrap().port();
            let _client = std::net::TcpStream::connect((peer, port)).unwrap();
            let accepted = Socket::from(listener.accept().unwrap().0);
            let class = match peer {
                "127.0.0.1" => accepted.tos_v4(),
                _ => accepted.tclass_v6(),
            };
            assert_eq!(class.unwrap(), CLASS, "{bind} from {peer}");
        }
    }

    #[test]
    fn the_system_holds_as_little_for_a_peer_that_does_not_read_as_its_listener_says() {
        let route = |_: &[u8], _: usize| Route::NeedMore;
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let taken = |send_bytes| {
            let spec = ListenerSpec {
                send_bytes,
                ..ListenerSpec::new("mqtt", Bind::Tcp(address), route)
            };
            let listener = open_tcp(&spec, address).unwrap();
            listener.set_nonblocking(false).unwrap();
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            client.set_recv_buffer_size(4096).unwrap();
            client
                .connect(&listener.local_addr().unwrap().into())
                .unwrap();
            let accepted = Socket::from(listener.accept().unwrap().0);
            accepted.set_nonblocking(true).unwrap();
            let each = std::iter::from_fn(|| accepted.send(&[7; 1024]).ok());
            each.sum::<usize>()
        };
        // What the client takes, and the end of what was begun.
        let least = taken(Some(64 << 10));
        assert!(least <= (64 << 10) + (64 << 10), "{least}");
        let more = taken(Some(512 << 10));
        assert!(more > 128 << 10, "{more}");
    }

    #[test]
    fn a_unix_socket_gets_its_mode_and_one_that_nobody_listens_on_is_replaced() {
        let folder = Folder::new();
        let path = folder.file("broker.sock");
        // A listener of std leaves its file behind, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = unix(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_unix_socket_in_use_and_a_file_that_is_none_are_left_alone() {
        let folder = Folder::new();
        let path = folder.file("broker.sock");
        let _first = unix(&path).unwrap();
        assert!(
            unix(&path)
                .unwrap_err()
                .to_string()
                .contains("another process listens")
        );
        let file = folder.write("notes", "keep");
        assert!(
            unix(&file)
                .unwrap_err()
                .to_string()
                .contains("not a socket")
        );
        assert_eq!(std::fs::read(&file).unwrap(), b"keep");
        let nowhere = folder.file("no/such/folder");
        assert!(
            unix(&nowhere)
                .unwrap_err()
                .to_string()
                .contains("directory does not exist")
        );
    }
}
