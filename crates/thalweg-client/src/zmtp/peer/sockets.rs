//! The hub's loop: its listener, and the sockets that it has accepted or was given by its dialers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::{Interest, Token};
use thalweg_zmtp::{ClientMechanism, SocketType};

use super::dialer::{self, Arrival};
use super::hub::{Hub, Secrets};
use crate::client::PeerCounts;
use crate::transport::Opening;
use crate::zmtp::ZmtpSettings;

const LISTENER: Token = Token(usize::MAX);
const BELL: Token = Token(usize::MAX - 1);
const READ_BYTES: usize = 64 << 10;
/// Sockets that may be connected to the listener.
const ACCEPTED_MAX: usize = 1000;
/// Longest time of a handshake, and of sending the remaining bytes at the end.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(1);
/// Interval of the housekeeping of sockets.
const CARE_EVERY: Duration = Duration::from_secs(1);

/// A peer's address and socket type to connect to.
pub(super) struct Target {
    address: String,
    ours: SocketType,
    /// Credentials of the client at a broker.
    login: Option<(ZmtpSettings, Opening)>,
}

impl Target {
    /// One that publishes; a SUB connects to it.
    pub(super) fn peer(address: &str) -> Target {
        Target {
            address: address.to_owned(),
            ours: SocketType::Sub,
            login: None,
        }
    }

    /// A broker, to which both directions are a connection each.
    pub(super) fn broker(address: &str, zmtp: &ZmtpSettings, opening: &Opening) -> [Target; 2] {
        [SocketType::Sub, SocketType::Pub].map(|ours| Target {
            address: address.to_owned(),
            ours,
            login: Some((zmtp.clone(), opening.clone())),
        })
    }

    /// For the connection of this number.
    fn mechanism(&self, number: usize) -> ClientMechanism {
        match &self.login {
            Some((zmtp, opening)) => zmtp.mechanism(opening, number as u64),
            None => ClientMechanism::Null,
        }
    }
}

/// State shared by the client and its hub's thread.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Set by the client, when it ends.
    pub(super) is_over: AtomicBool,
    subscribers: AtomicUsize,
    publishers: AtomicUsize,
}

impl Shared {
    fn note(&self, counts: PeerCounts) {
        self.subscribers
            .store(counts.subscribers, Ordering::Relaxed);
        self.publishers.store(counts.publishers, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> PeerCounts {
        PeerCounts {
            subscribers: self.subscribers.load(Ordering::Relaxed),
            publishers: self.publishers.load(Ordering::Relaxed),
        }
    }
}

/// A target, and the flag that tells its dialer of a lost connection.
struct Dialed {
    target: Target,
    lost: Sender<()>,
}

struct Socket {
    stream: mio::net::TcpStream,
    input: Vec<u8>,
    is_readable: bool,
    /// Its end was announced, and no more is when it comes.
    is_ending: bool,
    is_writable: bool,
    since: Instant,
    heard: Instant,
    asked: Instant,
    /// The target that it goes to, if it was not accepted.
    target: Option<usize>,
}

pub(super) struct Sockets {
    poll: mio::Poll,
    listener: mio::net::TcpListener,
    hub: Hub,
    sockets: BTreeMap<usize, Socket>,
    next: usize,
    dialed: Vec<Dialed>,
    arrivals: Receiver<Arrival>,
    shared: Arc<Shared>,
    /// Silence after which a peer is asked, and after twice of which it is cut off; zero: never.
    keep_alive: Duration,
    scratch: Vec<u8>,
}

impl Sockets {
    pub(super) fn new(
        listener: std::net::TcpListener,
        targets: Vec<Target>,
        secrets: Secrets,
        keep_alive: Duration,
        shared: &Arc<Shared>,
    ) -> io::Result<(Sockets, Arc<mio::Waker>)> {
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        let poll = mio::Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let bell = Arc::new(mio::Waker::new(poll.registry(), BELL)?);
        let (to_us, arrivals) = channel();
        let mut dialed = Vec::new();
        for (number, target) in targets.into_iter().enumerate() {
            let address = target.address.clone();
            let lost = dialer::start(number, address, to_us.clone(), bell.clone())?;
            dialed.push(Dialed { target, lost });
        }
        let sockets = Sockets {
            poll,
            listener,
            hub: Hub::new(secrets),
            sockets: BTreeMap::new(),
            next: 0,
            dialed,
            arrivals,
            shared: shared.clone(),
            keep_alive,
            scratch: vec![0; READ_BYTES],
        };
        Ok((sockets, bell))
    }

    /// Runs until the client is closed and its publishes are sent.
    pub(super) fn run(mut self) {
        let mut events = mio::Events::with_capacity(64);
        let mut care_at = Instant::now() + CARE_EVERY;
        let mut end_at = None;
        let mut is_busy = false;
        loop {
            let now = Instant::now();
            let patience = match is_busy {
                true => Duration::ZERO,
                false => end_at
                    .unwrap_or(care_at)
                    .min(care_at)
                    .saturating_duration_since(now),
            };
            if let Err(error) = self.poll.poll(&mut events, Some(patience))
                && error.kind() != io::ErrorKind::Interrupted
            {
                return;
            }
            let now = Instant::now();
            for event in events.iter() {
                if event.token() == LISTENER {
                    self.accept(now);
                } else if let Some(socket) = self.sockets.get_mut(&event.token().0) {
                    socket.is_readable |=
                        event.is_readable() || event.is_error() || event.is_read_closed();
                    socket.is_ending |= event.is_read_closed();
                    socket.is_writable |= event.is_writable() || event.is_error();
                }
            }
            while let Ok((number, stream)) = self.arrivals.try_recv() {
                self.arrive(number, stream, now);
            }
            if care_at <= now {
                care_at = now + CARE_EVERY;
                self.care(now);
            }
            is_busy = self.work(now);
            self.shared.note(self.hub.counts());
            if self.shared.is_over.load(Ordering::SeqCst) {
                let until = *end_at.get_or_insert(now + FAREWELL);
                let is_done = !self.hub.has_client() && !self.has_output();
                if is_done || until <= now {
                    return;
                }
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        // Any other fault than that there is none is of the connection that was to be accepted.
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if self.sockets.len() < ACCEPTED_MAX + self.dialed.len() => {
                    if let Some(number) = self.adopt(stream, None, now) {
                        self.hub.accept(number);
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }

    /// A dialer has connected.
    fn arrive(&mut self, target: usize, stream: TcpStream, now: Instant) {
        let adopted = match stream.set_nonblocking(true) {
            Ok(()) => self.adopt(mio::net::TcpStream::from_std(stream), Some(target), now),
            Err(_) => None,
        };
        let Some(Dialed { target, lost }) = self.dialed.get(target) else {
            return;
        };
        match adopted {
            Some(number) => {
                let is_direct = target.login.is_none();
                let mechanism = target.mechanism(number);
                self.hub.dial(number, target.ours, mechanism, is_direct);
            }
            // It tries again.
            None => _ = lost.send(()),
        }
    }

    fn adopt(
        &mut self,
        mut stream: mio::net::TcpStream,
        target: Option<usize>,
        now: Instant,
    ) -> Option<usize> {
        let number = self.next;
        self.next += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut stream, Token(number), both).ok()?;
        // Only slower without.
        let _ = stream.set_nodelay(true);
        let socket = Socket {
            stream,
            input: Vec::new(),
            is_readable: false,
            is_ending: false,
            is_writable: true,
            since: now,
            heard: now,
            asked: now,
            target,
        };
        self.sockets.insert(number, socket);
        Some(number)
    }

    /// Reads and writes what can be; whether there may be more to read at once.
    fn work(&mut self, now: Instant) -> bool {
        let Sockets {
            sockets,
            hub,
            scratch,
            ..
        } = self;
        let mut ended = Vec::new();
        let mut is_busy = false;
        for (number, socket) in sockets.iter_mut() {
            if socket.is_readable && !socket.read(*number, hub, scratch, now) {
                ended.push(*number);
            }
            is_busy |= socket.is_readable;
        }
        for (number, socket) in sockets.iter_mut() {
            if socket.is_writable && !socket.write(*number, hub) {
                ended.push(*number);
            }
        }
        for number in ended {
            self.close(number);
        }
        is_busy
    }

    fn close(&mut self, number: usize) {
        let Some(mut socket) = self.sockets.remove(&number) else {
            return;
        };
        let _ = self.poll.registry().deregister(&mut socket.stream);
        self.hub.closed(number);
        if let Some(dialed) = socket.target.and_then(|at| self.dialed.get(at)) {
            // It fails only if its thread is gone.
            let _ = dialed.lost.send(());
        }
    }

    /// Asks those that were silent for a sign of life, and cuts off those that gave none.
    fn care(&mut self, now: Instant) {
        let mut ended = Vec::new();
        for (number, socket) in &mut self.sockets {
            let silence = now - socket.heard;
            if !self.hub.is_open(*number) {
                if now - socket.since >= HANDSHAKE_MAX {
                    ended.push(*number);
                }
            } else if self.keep_alive.is_zero() || silence < self.keep_alive {
                continue;
            } else if socket.asked > socket.heard {
                if silence >= self.keep_alive * 2 {
                    ended.push(*number);
                }
            } else if self.hub.ping(*number) {
                socket.asked = now;
            }
        }
        for number in ended {
            self.close(number);
        }
    }

    fn has_output(&self) -> bool {
        let mut numbers = self.sockets.keys();
        numbers.any(|number| !self.hub.unsent(*number).is_empty())
    }
}

impl Socket {
    /// Reads once; false at the end.
    fn read(&mut self, number: usize, hub: &mut Hub, scratch: &mut [u8], now: Instant) -> bool {
        let len = match self.stream.read(scratch) {
            Ok(0) => return false,
            Ok(len) => len,
            Err(error) => {
                self.is_readable = error.kind() == io::ErrorKind::Interrupted;
                return is_later(&error);
            }
        };
        self.heard = now;
        // A stream that gave less than it could has no more, and the poll will tell.
        self.is_readable = len == scratch.len() || self.is_ending;
        let come = scratch.get(..len).unwrap_or_default();
        let handled = match self.input.is_empty() {
            true => hub.handle_input(number, come).map(|used| {
                let left = come.get(used..).unwrap_or_default();
                self.input.extend_from_slice(left);
            }),
            false => {
                self.input.extend_from_slice(come);
                hub.handle_input(number, &self.input)
                    .map(|used| _ = self.input.drain(..used))
            }
        };
        if self.input.is_empty() {
            self.input.shrink_to(READ_BYTES);
        }
        if handled.is_err() {
            // Why, if there is a word for it.
            self.write(number, hub);
        }
        handled.is_ok()
    }

    /// Writes what the socket takes; false if it is broken.
    fn write(&mut self, number: usize, hub: &mut Hub) -> bool {
        loop {
            let unsent = hub.unsent(number);
            if unsent.is_empty() {
                return true;
            }
            match self.stream.write(unsent) {
                Ok(0) => return false,
                Ok(len) => hub.wrote(number, len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_writable = false;
                    return is_later(&error);
                }
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
