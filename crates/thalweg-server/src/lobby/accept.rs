//! One listener in the lobby: accepting, at a bounded rate.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};

use super::address::Occupancy;
use super::{Slot, Socket};
use crate::listen::{ListenSocket, Listener, ListenerSpec};

pub(super) struct Door {
    /// Known by this for ever; another listener may have its token later.
    pub(super) serial: u64,
    listener: Listener,
    occupancy: Arc<Occupancy>,
    bucket: Bucket,
    paused_until: Option<Instant>,
    /// True from an event until `accept` would block: events come on edges only.
    pub(super) is_ready: bool,
}

/// What came of an accept.
pub(super) enum Accepted {
    Connection(Socket, Option<SocketAddr>),
    /// No connection waits, or the listener is paused.
    Nothing,
    /// The rate is used up; the listener pauses until it is not.
    Paused,
    /// No descriptor or memory is left, here or in the whole system.
    Exhausted(io::Error),
    Failed(io::Error),
}

impl Door {
    pub(super) fn new(
        serial: u64,
        mut listener: Listener,
        occupancy: Occupancy,
        registry: &Registry,
        token: Token,
        now: Instant,
    ) -> io::Result<Door> {
        match &mut listener.socket {
            ListenSocket::Tcp(socket) => registry.register(socket, token, Interest::READABLE)?,
            ListenSocket::Unix(socket) => registry.register(socket, token, Interest::READABLE)?,
        }
        let bucket = Bucket::new(&listener.spec, now);
        Ok(Door {
            serial,
            listener,
            occupancy: Arc::new(occupancy),
            bucket,
            paused_until: None,
            is_ready: true,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.listener.spec.name
    }

    pub(super) fn spec(&self) -> &Arc<ListenerSpec> {
        &self.listener.spec
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.listener.local
    }

    /// Other limits and filters for those who come from now on.
    pub(super) fn change(&mut self, spec: ListenerSpec, now: Instant) {
        self.bucket = Bucket::new(&spec, now);
        self.listener.spec = Arc::new(spec);
    }

    /// Takes a place in the listener's counts.
    pub(super) fn enter(&self, total_max: usize) -> Option<Slot> {
        self.occupancy
            .enter(self.listener.spec.connections_max, total_max)
    }

    pub(super) fn pause(&mut self, until: Instant) {
        self.paused_until = Some(until);
    }

    /// When to try without an event: at once if the last batch was cut short, later if paused.
    pub(super) fn next_try(&self, now: Instant) -> Option<Instant> {
        self.is_ready.then(|| self.paused_until.unwrap_or(now))
    }

    pub(super) fn accept(&mut self, now: Instant) -> Accepted {
        if !self.is_ready || self.paused_until.is_some_and(|until| now < until) {
            return Accepted::Nothing;
        }
        self.paused_until = None;
        if let Some(wait) = self.bucket.wait(now) {
            self.paused_until = Some(now + wait);
            return Accepted::Paused;
        }
        loop {
            match self.accept_now() {
                Ok((socket, address)) => {
                    self.bucket.take();
                    return Accepted::Connection(socket, address);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_ready = false;
                    return Accepted::Nothing;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        return Accepted::Exhausted(error);
                    }
                    // The peer went away while it waited; accept(2) passes errors of the new socket on.
                    Some(
                        libc::ECONNABORTED
                        | libc::EINTR
                        | libc::EPROTO
                        | libc::ENETDOWN
                        | libc::EHOSTUNREACH
                        | libc::ENETUNREACH,
                    ) => {}
                    _ => return Accepted::Failed(error),
                },
            }
        }
    }

    /// Accepts one and drops it; false when that was not possible.
    pub(super) fn accept_and_close(&mut self) -> bool {
        self.accept_now().is_ok()
    }

    fn accept_now(&mut self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match &self.listener.socket {
            ListenSocket::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                // A listener on [::] sees IPv4 peers under mapped addresses; people write limits for the plain ones.
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                Ok((Socket::Tcp(stream), Some(address)))
            }
            ListenSocket::Unix(socket) => socket
                .accept()
                .map(|(stream, _)| (Socket::Unix(stream), None)),
        }
    }
}

/// A token bucket; a rate of 0 is no limit.
struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    fn new(spec: &ListenerSpec, now: Instant) -> Bucket {
        let burst = f64::from(spec.connects_burst.max(1));
        Bucket {
            per_second: f64::from(spec.connects_per_second_max),
            burst,
            tokens: burst,
            filled_at: now,
        }
    }

    /// Time until there is a token; `None` when there is one.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        if self.per_second == 0.0 {
            return None;
        }
        let passed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        self.filled_at = now;
        // A timer that fires a rounding error early must not make the thread spin.
        (self.tokens < 1.0)
            .then(|| Duration::from_secs_f64((1.0 - self.tokens) / self.per_second).max(WAIT_MIN))
    }

    fn take(&mut self) {
        self.tokens -= 1.0;
    }
}

const WAIT_MIN: Duration = Duration::from_millis(1);
