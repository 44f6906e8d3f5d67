//! The threads: one accepts and answers, a few more wait for shards.

use crate::ask::Asker;
use crate::gate::REQUESTS_MAX;
use crate::routes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_server::Observer;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

/// How the interface is served.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Where it listens; port 0 takes a free one, see [`AdminHandle::local_addr`].
    pub bind: SocketAddr,
    /// What callers must show as `Authorization: Bearer TOKEN`. Without one, only loopback is allowed.
    pub token: Option<String>,
}

/// Connections open at once; further ones wait in the listener's backlog.
pub const CONNECTIONS_MAX: usize = 128;

/// Time a caller has to send a request's head, idle time on a kept connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection lives at the most: a caller that does not read its answers must not keep its place.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(300);

/// Threads that wait for shards, so that the `admin` thread never does. As many as requests, so that none waits for
/// another's thread while a shard is busy; they come when needed and go when idle.
const WAITING_THREADS_MAX: usize = REQUESTS_MAX;

/// How long answers under way may take when the interface stops.
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
    let AdminSettings { bind, token } = settings;
    let token = token.filter(|token| !token.is_empty());
    if token.is_none() && !bind.ip().is_loopback() {
        return Err(format!(
            "the admin interface would listen on {bind}, which others can reach, without a token; set admin.token, or \
             bind it to 127.0.0.1"
        ));
    }
    let listener = std::net::TcpListener::bind(bind).map_err(|error| bind_fault(bind, &error))?;
    let local_addr = listener.local_addr().map_err(|error| bind_fault(bind, &error))?;
    listener.set_nonblocking(true).map_err(|error| bind_fault(bind, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("admin-wait")
        .max_blocking_threads(WAITING_THREADS_MAX)
        .build()
        .map_err(|error| thread_fault(&error))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
        let app = routes::app(Asker::new(observer), token);
        runtime.block_on(async move {
            match TcpListener::from_std(listener) {
                Ok(listener) => tokio::select! {
                    () = accept(listener, app) => {}
                    _ = stopped => {}
                },
                Err(error) => tracing::error!(%error, "the admin interface cannot listen"),
            }
        });
        runtime.shutdown_timeout(STOP_PATIENCE);
    });
    let thread = thread.map_err(|error| thread_fault(&error))?;
    Ok(AdminHandle { local_addr, stop: Some(stop), thread: Some(thread) })
}

impl AdminHandle {
    /// Where it listens.
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

async fn accept(listener: TcpListener, app: axum::Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: what is open must end before anybody else can come in.
                tracing::warn!(%error, "the admin interface cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(app.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(CONNECTION_LIFE_MAX, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "an admin connection ended"),
                Err(_) => tracing::debug!("an admin connection has lived for long enough"),
            }
            drop(place);
        });
    }
}

fn bind_fault(bind: SocketAddr, error: &std::io::Error) -> String {
    let mend = match error.kind() {
        std::io::ErrorKind::AddrInUse => "another program has that port; stop it, or set admin.bind to another port",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need privileges; set admin.bind to a higher port",
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address; set admin.bind to one it has",
        _ => "check admin.bind",
    };
    format!("the admin interface cannot listen on {bind}: {error}; {mend}")
}

fn thread_fault(error: &std::io::Error) -> String {
    format!("cannot start the admin interface's thread: {error}; the operating system is at fault, check its limits")
}
