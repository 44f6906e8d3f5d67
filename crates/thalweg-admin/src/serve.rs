//! The threads: one accepts and answers, a few more wait for shards.

use crate::ask::Asker;
use crate::gate::{Caller, Gate, REQUESTS_MAX};
use crate::places::Places;
use crate::routes;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_server::Observer;
use thalweg_server::transport::tls::TlsAcceptor;
use thalweg_server::unix_socket;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

/// Settings of the interface.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Where it listens; port 0 takes a free one, see [`AdminHandle::local_addr`].
    pub bind: SocketAddr,
    /// Accepted tokens of `Authorization: Bearer TOKEN`.
    pub tokens: AdminTokens,
    /// Whether callers over TCP may do everything without a token where none is set. Only on loopback.
    pub anonymous: bool,
    /// HTTPS on `bind`; plain HTTP without.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// A Unix socket besides, and its permission bits: a process that may open it may do everything.
    pub unix_socket: Option<(PathBuf, u32)>,
}

impl AdminSettings {
    /// Plain HTTP without tokens on `bind`, which must be on loopback.
    pub fn open(bind: SocketAddr) -> Self {
        AdminSettings {
            bind,
            tokens: AdminTokens::default(),
            anonymous: true,
            tls: None,
            unix_socket: None,
        }
    }
}

/// The tokens of the two roles. An empty one counts as none.
#[derive(Clone, Default)]
pub struct AdminTokens {
    /// Asks and changes everything.
    pub admin: Option<String>,
    /// Asks everything and changes nothing.
    pub read: Option<String>,
}

/// Says which tokens there are, not what they are.
impl std::fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminTokens")
            .field("admin", &self.admin.is_some())
            .field("read", &self.read.is_some())
            .finish()
    }
}

/// Connections open at once; then the one that was idle longest gives way to a newcomer.
pub const CONNECTIONS_MAX: usize = 128;

/// Time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time a caller has to send a request's head, idle time on a kept connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest life of a connection: a caller that does not read its responses must not keep its place.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(300);

/// Threads that wait for shards, so that the `admin` thread never does. As many as requests, so that none waits for
/// another's thread while a shard is busy; they come when needed and go when idle.
const WAITING_THREADS_MAX: usize = REQUESTS_MAX;

/// Longest time for pending responses when the interface stops.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// A running interface. Dropping it stops it.
#[derive(Debug)]
pub struct AdminHandle {
    local_addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the interface; when it returns, it accepts. The error says what is wrong and how to mend it.
pub fn start(observer: Observer, settings: AdminSettings) -> Result<AdminHandle, String> {
    let AdminSettings {
        bind,
        tokens,
        anonymous,
        tls,
        unix_socket,
    } = settings;
    let some = |token: Option<String>| token.filter(|token| !token.is_empty());
    let tokens = AdminTokens {
        admin: some(tokens.admin),
        read: some(tokens.read),
    };
    if tokens.admin.is_none() && !bind.ip().is_loopback() {
        return Err(format!(
            "the admin interface would listen on {bind}, which others can reach, without a token; set admin.token, or \
             bind it to 127.0.0.1"
        ));
    }
    let listener = std::net::TcpListener::bind(bind).map_err(|error| bind_fault(bind, &error))?;
    let local_addr = listener
        .local_addr()
        .map_err(|error| bind_fault(bind, &error))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| bind_fault(bind, &error))?;
    let unix = unix_socket
        .map(|(path, mode)| unix_socket::bind(&path, mode).map_err(|why| unix_fault(&path, &why)))
        .transpose()?;
    let (unix, socket_file) = unix.unzip();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("admin-wait")
        .max_blocking_threads(WAITING_THREADS_MAX)
        .build()
        .map_err(|error| thread_fault(&error))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let gate = Gate::new(tokens, anonymous);
    let thread = std::thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            let _socket_file = socket_file;
            let door = Door {
                app: routes::app(Asker::new(observer), gate),
                places: Places::new(CONNECTIONS_MAX),
                tls,
            };
            runtime.block_on(async move {
                let listeners = TcpListener::from_std(listener)
                    .and_then(|tcp| Ok((tcp, unix.map(UnixListener::from_std).transpose()?)));
                match listeners {
                    Ok((tcp, unix)) => tokio::select! {
                        () = door.accept_tcp(tcp) => {}
                        () = door.accept_unix(unix) => {}
                        _ = stopped => {}
                    },
                    Err(error) => tracing::error!(%error, "the admin interface cannot listen"),
                }
            });
            runtime.shutdown_timeout(STOP_PATIENCE);
        });
    let thread = thread.map_err(|error| thread_fault(&error))?;
    Ok(AdminHandle {
        local_addr,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl AdminHandle {
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops listening and ends the threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Fails only when the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for AdminHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where connections come in.
struct Door {
    app: axum::Router,
    places: Places,
    tls: Option<Arc<TlsAcceptor>>,
}

impl Door {
    async fn accept_tcp(&self, listener: TcpListener) {
        loop {
            let Some((stream, peer)) = taken(listener.accept().await).await else {
                continue;
            };
            let caller = Caller::Network(peer);
            match &self.tls {
                None => self.serve(caller, async move { Ok(stream) }),
                Some(tls) => {
                    let accept = tokio_rustls::TlsAcceptor::from(tls.config()).accept(stream);
                    self.serve(caller, async move {
                        tokio::time::timeout(HANDSHAKE_TIMEOUT, accept)
                            .await
                            .map_err(std::io::Error::from)?
                    });
                }
            }
        }
    }

    async fn accept_unix(&self, listener: Option<UnixListener>) {
        let Some(listener) = listener else {
            return std::future::pending().await;
        };
        loop {
            let Some((stream, _)) = taken(listener.accept().await).await else {
                continue;
            };
            self.serve(Caller::UnixSocket, async move { Ok(stream) });
        }
    }

    /// Serves one connection in a task of its own, unless every place is busy.
    fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        caller: Caller,
        stream: impl Future<Output = std::io::Result<S>> + Send + 'static,
    ) {
        let Some(place) = self.places.take() else {
            return tracing::warn!(
                "admin connection refused: requests of {CONNECTIONS_MAX} others are being answered"
            );
        };
        let (app, busy) = (TowerToHyperService::new(self.app.clone()), place.marker());
        let service = service_fn(move |request: Request<Incoming>| {
            let busy = busy();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller);
            let answer = app.call(request);
            async move {
                let answer = answer.await;
                drop(busy);
                answer
            }
        });
        tokio::spawn(async move {
            let connection = async {
                let stream = stream.await.map_err(|error| error.to_string())?;
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .max_buf_size(64 << 10)
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .map_err(|error| error.to_string())
            };
            tokio::select! {
                ended = tokio::time::timeout(CONNECTION_LIFE_MAX, connection) => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "an admin connection ended"),
                    Err(_) => tracing::debug!("an admin connection reached its longest life and was closed"),
                },
                () = place.lost() => tracing::debug!("an idle admin connection gave its place to a newcomer"),
            }
        });
    }
}

/// Returns the accepted connection; after a failure it waits a while.
async fn taken<T>(accepted: std::io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            // Most likely there are no free descriptors: connections must end before others can be accepted.
            tracing::warn!(%error, "the admin interface cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(200)).await;
            None
        }
    }
}

fn bind_fault(bind: SocketAddr, error: &std::io::Error) -> String {
    let mend = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program has that port; stop it, or set admin.bind to another port"
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; set admin.bind to a higher port"
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; set admin.bind to one it has"
        }
        _ => "check admin.bind",
    };
    format!("the admin interface cannot listen on {bind}: {error}; {mend}")
}

fn unix_fault(path: &Path, why: &str) -> String {
    format!(
        "the admin interface cannot listen on {}: {why}; check admin.unix_socket",
        path.display()
    )
}

fn thread_fault(error: &std::io::Error) -> String {
    format!(
        "cannot start the admin interface's thread: {error}; check the operating system's limits"
    )
}
