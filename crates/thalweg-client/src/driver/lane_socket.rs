//! A lane's connection: from a name to a socket, through TLS and WebSocket, and the bytes of both directions.
//!
//! ```text
//! Idle ──> Resolving ──> Connecting ──> Greeting (TLS, WebSocket) ──> Open ──> Idle
//!                            └── the next address, if there is one           Open ──> Securing (STARTTLS) ──> Open
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use mio::{Registry, Token};
use thalweg_model::{Span, Time};
use thalweg_transport::Transport as Filters;

use super::farewell::Farewell;
use super::handle::Shared;
use super::resolve::{literal, resolve};
use super::security::{DtlsClient, Security};
use super::socket::{Socket, is_later};
use crate::adaptive::NetworkReading;
use crate::engine::Engine;
use crate::transport::{Endpoint, Medium};

/// With further addresses to try, so long is waited for one.
const ADDRESS_PATIENCE: Span = Span::from_secs(3);

/// Wire bytes that a filter makes at once, at most: so much of the output is encrypted ahead of the socket.
const ENCODE_BYTES_MAX: usize = 64 << 10;

/// What is read of a socket at once, and how often before others have their turn.
pub(super) const READ_BYTES: usize = 64 << 10;
pub(super) const READS_MAX: usize = 16;
const DATAGRAMS_MAX: usize = 256;

pub(super) struct LaneSocket {
    lane: usize,
    state: State,
    /// Addresses that were not tried yet, the next one last.
    addresses: Vec<SocketAddr>,
    is_resolving: bool,
    socket: Option<Socket>,
    filters: Filters,
    dtls: Option<Box<DtlsClient>>,
    /// Wire bytes behind the filters that the socket has not taken, from `wire_at` on.
    wire: Vec<u8>,
    wire_at: usize,
    /// Protocol bytes that the engine has not understood yet.
    input: Vec<u8>,
    is_readable: bool,
    /// The peer has closed its side: the end of stream follows the buffered bytes, and the poll reports neither again.
    is_ending: bool,
    is_writable: bool,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    /// The peer had kept our session, the last time it let us in.
    pub(super) session_present: bool,
    /// Of this connection, for datagrams.
    counts: NetworkReading,
    /// When the system is asked next; what it said.
    measure_at: Time,
    pub(super) reading: Option<NetworkReading>,
    /// `bytes_sent + bytes_received` when it was asked last.
    measured_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Resolving,
    Connecting {
        peer: SocketAddr,
        until: Time,
    },
    Greeting {
        peer: SocketAddr,
    },
    /// TLS begins on a connection that was open.
    Securing,
    Open,
}

impl LaneSocket {
    pub(super) fn new(lane: usize) -> LaneSocket {
        LaneSocket {
            lane,
            state: State::Idle,
            addresses: Vec::new(),
            is_resolving: false,
            socket: None,
            filters: Filters::Plain,
            dtls: None,
            wire: Vec::new(),
            wire_at: 0,
            input: Vec::new(),
            is_readable: false,
            is_ending: false,
            is_writable: false,
            bytes_sent: 0,
            session_present: false,
            bytes_received: 0,
            counts: NetworkReading::default(),
            measure_at: Time::NEVER,
            reading: None,
            measured_bytes: 0,
        }
    }

    pub(super) fn connect(
        &mut self,
        engine: &mut Engine,
        shared: &Arc<Shared>,
        means: &Means<'_>,
        now: Time,
    ) {
        self.reset(means.registry);
        let Some(endpoint) = engine.endpoint(self.lane).cloned() else {
            return;
        };
        if let Medium::Unix(path) = &endpoint.medium {
            let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let opened = Socket::unix(path).and_then(|socket| self.adopt(socket, means.registry));
            match opened {
                Ok(()) => self.greet(nowhere, &endpoint, engine, means, now),
                Err(error) => {
                    engine.connect_failed(self.lane, &format!("{}: {error}", path.display()), now)
                }
            }
            return;
        }
        self.state = State::Resolving;
        if let Some(address) = literal(&endpoint.host, endpoint.port) {
            return self.resolved(Ok(vec![address]), engine, means, now);
        }
        // A resolver that is still at it answers for this attempt as well.
        if !self.is_resolving {
            match resolve(self.lane, &endpoint.host, endpoint.port, shared) {
                Ok(()) => self.is_resolving = true,
                Err(error) => self.fail(
                    &format!("no thread to resolve a name: {error}"),
                    engine,
                    means,
                    now,
                ),
            }
        }
    }

    pub(super) fn resolved(
        &mut self,
        outcome: Result<Vec<SocketAddr>, String>,
        engine: &mut Engine,
        means: &Means<'_>,
        now: Time,
    ) {
        self.is_resolving = false;
        if self.state != State::Resolving {
            return;
        }
        match outcome {
            Ok(mut addresses) => {
                addresses.reverse();
                self.addresses = addresses;
                self.try_next("no address", engine, means, now);
            }
            Err(words) => self.fail(&words, engine, means, now),
        }
    }

    /// Tries the next address, or gives up with these words.
    fn try_next(&mut self, words: &str, engine: &mut Engine, means: &Means<'_>, now: Time) {
        self.drop_socket(means.registry);
        let Some(endpoint) = engine.endpoint(self.lane).cloned() else {
            return;
        };
        let mut words = words.to_owned();
        while let Some(peer) = self.addresses.pop() {
            let is_datagrams = endpoint.medium == Medium::Datagrams;
            let socket = if is_datagrams {
                Socket::udp(peer)
            } else {
                Socket::tcp(peer)
            };
            match socket.and_then(|socket| self.adopt(socket, means.registry)) {
                Ok(()) if is_datagrams => return self.greet(peer, &endpoint, engine, means, now),
                Ok(()) => {
                    // The engine has its own patience for the whole; this is for one of several addresses.
                    let until = if self.addresses.is_empty() {
                        Time::NEVER
                    } else {
                        now + ADDRESS_PATIENCE
                    };
                    self.state = State::Connecting { peer, until };
                    return;
                }
                Err(error) => words = format!("{peer}: {error}"),
            }
        }
        self.fail(&words, engine, means, now);
    }

    fn adopt(&mut self, mut socket: Socket, registry: &Registry) -> io::Result<()> {
        socket.register(registry, Token(self.lane))?;
        self.socket = Some(socket);
        (self.is_readable, self.is_writable, self.is_ending) = (false, false, false);
        Ok(())
    }

    /// The socket stands: now the filters shake hands, if there are any.
    fn greet(
        &mut self,
        peer: SocketAddr,
        endpoint: &Endpoint,
        engine: &mut Engine,
        means: &Means<'_>,
        now: Time,
    ) {
        if let Some(socket) = &self.socket {
            socket.set_options(means.dscp);
        }
        self.addresses.clear();
        self.counts = NetworkReading::default();
        match means.security.filters(endpoint) {
            Ok(filters) => self.filters = filters,
            Err(words) => return self.fail(&words, engine, means, now),
        }
        match means.security.dtls(endpoint, now) {
            Ok(dtls) => self.dtls = dtls,
            Err(words) => return self.fail(&words, engine, means, now),
        }
        self.state = State::Greeting { peer };
        // A Unix socket and a datagram socket may be written without being told so.
        self.is_writable = true;
        match &mut self.filters {
            Filters::Plain if self.dtls.is_some() => {}
            Filters::Plain => self.open(peer, engine, now),
            Filters::Filtered(filters) => filters.take_output(&mut self.wire),
        }
    }

    fn open(&mut self, peer: SocketAddr, engine: &mut Engine, now: Time) {
        self.state = State::Open;
        self.measure_at = now + Span::from_secs(1);
        engine.connected(self.lane, peer, now);
    }

    /// The poll says that the socket can do something.
    pub(super) fn wake(&mut self, is_readable: bool, is_writable: bool, is_ending: bool) {
        self.is_readable |= is_readable;
        self.is_ending |= is_ending;
        self.is_writable |= is_writable;
    }

    /// Does what can be done: finishes connecting, reads, writes. `true` if anything moved.
    pub(super) fn work(&mut self, engine: &mut Engine, means: &mut Means<'_>, now: Time) -> bool {
        if let State::Connecting { peer, until } = self.state {
            if !self.is_writable && now < until {
                return false;
            }
            match self.socket.as_ref().map(Socket::is_connected) {
                Some(Ok(true)) => {
                    let Some(endpoint) = engine.endpoint(self.lane).cloned() else {
                        return false;
                    };
                    self.greet(peer, &endpoint, engine, means, now);
                }
                Some(Ok(false)) if now < until => {
                    self.is_writable = false;
                    return false;
                }
                Some(Ok(false)) | None => {
                    self.try_next(&format!("{peer} does not answer"), engine, means, now)
                }
                Some(Err(error)) => self.try_next(&format!("{peer}: {error}"), engine, means, now),
            }
            return true;
        }
        if self.socket.is_none() {
            return false;
        }
        if let Some(dtls) = &mut self.dtls
            && dtls.poll_timeout() <= now
        {
            dtls.handle_timeout(now);
        }
        let mut moved = false;
        if self.is_readable && (self.state != State::Open || engine.wants_input(self.lane)) {
            moved |= self.read(engine, means, now);
        }
        if self.is_writable && self.socket.is_some() {
            moved |= self.write(engine, means, now);
        }
        if self.measure_at <= now {
            self.measure(engine, now);
        }
        moved
    }

    fn read(&mut self, engine: &mut Engine, means: &mut Means<'_>, now: Time) -> bool {
        let is_datagrams = matches!(self.socket, Some(Socket::Udp(_)));
        let mut moved = false;
        for _ in 0..if is_datagrams {
            DATAGRAMS_MAX
        } else {
            READS_MAX
        } {
            let Some(socket) = &mut self.socket else {
                return moved;
            };
            match socket.read(means.scratch) {
                Ok((0, _)) if !is_datagrams => {
                    self.lose("the peer has closed the connection", engine, means, now);
                    return true;
                }
                Ok((len, segment)) => {
                    moved = true;
                    self.bytes_received += len as u64;
                    self.counts.frames_received += len.div_ceil(segment.max(1)).max(1) as u64;
                    self.counts.bytes_received += len as u64;
                    self.take(len, segment, is_datagrams, engine, means, now);
                    // A stream that gave less than it could has no more, and the poll will tell.
                    if !is_datagrams && len < means.scratch.len() && !self.is_ending {
                        self.is_readable = false;
                        return true;
                    }
                    if self.state == State::Open && !engine.wants_input(self.lane) {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return moved;
                }
                Err(error) => {
                    self.lose(&error.to_string(), engine, means, now);
                    return true;
                }
            }
        }
        moved
    }

    /// Takes what was read into the scratch; of datagrams, as many as there are of that length, and a shorter one.
    fn take(
        &mut self,
        len: usize,
        segment: usize,
        is_datagrams: bool,
        engine: &mut Engine,
        means: &mut Means<'_>,
        now: Time,
    ) {
        let Some(wire) = means.scratch.get(..len) else {
            return;
        };
        if self.dtls.is_some() {
            for start in (0..len).step_by(segment.max(1)) {
                self.take_protected(start..len.min(start + segment), engine, means, now);
            }
            return;
        }
        let fault = match &mut self.filters {
            Filters::Plain if is_datagrams => {
                for datagram in wire.chunks(segment.max(1)) {
                    engine.handle_input(self.lane, datagram, now);
                }
                return;
            }
            Filters::Plain if self.input.is_empty() => {
                let consumed = engine.handle_input(self.lane, wire, now);
                self.input
                    .extend_from_slice(wire.get(consumed..).unwrap_or_default());
                return self.secure(engine, means, now);
            }
            Filters::Plain => {
                self.input.extend_from_slice(wire);
                None
            }
            Filters::Filtered(filters) => {
                let taken = filters.handle_input(wire, &mut self.input);
                filters.take_output(&mut self.wire);
                match taken {
                    Err(fault) => Some(fault.to_string()),
                    Ok(()) if filters.is_closed() => {
                        Some("the peer has closed the connection".to_owned())
                    }
                    Ok(()) => None,
                }
            }
        };
        if let Filters::Filtered(filters) = &self.filters
            && fault.is_none()
            && !filters.is_handshaking()
        {
            match self.state {
                State::Greeting { peer } => self.open(peer, engine, now),
                State::Securing => {
                    self.state = State::Open;
                    engine.secured(self.lane, now);
                }
                _ => {}
            }
        }
        if self.state == State::Open && !self.input.is_empty() {
            let consumed = engine.handle_input(self.lane, &self.input, now);
            self.input.drain(..consumed.min(self.input.len()));
            self.secure(engine, means, now);
        }
        if let Some(words) = fault {
            // An alert may explain it to the peer.
            self.write_wire();
            self.lose(&words, engine, means, now);
        }
    }

    /// Begins TLS on a connection that is open, if its protocol has agreed on that with the peer.
    fn secure(&mut self, engine: &mut Engine, means: &Means<'_>, now: Time) {
        if self.state != State::Open || !self.filters.is_plain() || !engine.wants_tls(self.lane) {
            return;
        }
        let Some(endpoint) = engine.endpoint(self.lane).cloned() else {
            return;
        };
        let encrypted = Endpoint {
            is_encrypted: true,
            ..endpoint
        };
        match means.security.filters(&encrypted) {
            Ok(filters) => self.filters = filters,
            Err(words) => return self.lose(&words, engine, means, now),
        }
        self.state = State::Securing;
        if let Filters::Filtered(filters) = &mut self.filters {
            filters.take_output(&mut self.wire);
        }
    }

    /// Takes a datagram of DTLS.
    fn take_protected(
        &mut self,
        at: Range<usize>,
        engine: &mut Engine,
        means: &mut Means<'_>,
        now: Time,
    ) {
        let (Some(dtls), Some(wire)) = (&mut self.dtls, means.scratch.get(at)) else {
            return;
        };
        let lane = self.lane;
        let taken = dtls.handle_datagram(wire, now, &mut |text| {
            engine.handle_input(lane, text, now);
        });
        let (is_open, is_closed) = (dtls.is_open(), dtls.is_closed());
        match (taken, self.state) {
            (Err(fault), _) => {
                // An alert may explain it to the peer, and may be lost like any other datagram.
                while let (Some(datagram), Some(socket)) = (dtls.take_datagram(), &mut self.socket)
                {
                    let _ = socket.write(&datagram);
                }
                self.lose(&fault.to_string(), engine, means, now);
            }
            (Ok(()), _) if is_closed => {
                self.lose("the peer has closed the association", engine, means, now)
            }
            (Ok(()), State::Greeting { peer }) if is_open => self.open(peer, engine, now),
            _ => {}
        }
    }

    fn write(&mut self, engine: &mut Engine, means: &Means<'_>, now: Time) -> bool {
        let mut moved = false;
        loop {
            match self.write_once(engine, now) {
                Ok(true) => moved = true,
                Ok(false) => return moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_writable = false;
                    return moved;
                }
                Err(error) => {
                    // Read what the peer sent before it closed: its reason is more useful than our broken pipe.
                    if self.is_readable && matches!(error.kind(), io::ErrorKind::BrokenPipe) {
                        self.is_writable = false;
                        return moved;
                    }
                    self.lose(&error.to_string(), engine, means, now);
                    return true;
                }
            }
        }
    }

    /// Writes one piece; `false` if there is none that may go now.
    fn write_once(&mut self, engine: &mut Engine, now: Time) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        let is_open = self.state == State::Open && engine.write_at(self.lane, now) <= now;
        match (&mut self.filters, socket) {
            (Filters::Plain, Socket::Udp(datagrams)) if self.dtls.is_none() => {
                let Some((run, segment)) =
                    engine.datagrams_alike(self.lane, datagrams.run_bytes_max())
                else {
                    return Ok(false);
                };
                if !is_open {
                    return Ok(false);
                }
                let len = run.len();
                match datagrams.send_run(run, segment) {
                    Ok(_) => {
                        self.bytes_sent += len as u64;
                        self.counts.frames_sent += len.div_ceil(segment) as u64;
                        self.counts.bytes_sent += len as u64;
                    }
                    // A datagram that is too large for the path, or a queue that is full: as good as lost on the way,
                    // and repeated as such (RFC 7252 §4.2).
                    Err(error) if is_like_loss(&error) => {}
                    Err(error) => return Err(error),
                }
                engine.wrote(self.lane, len, now);
                Ok(true)
            }
            (Filters::Plain, Socket::Udp(datagrams)) => {
                let Some(dtls) = &mut self.dtls else {
                    return Ok(false);
                };
                // Send DTLS' own records first.
                let mut sealed = Vec::new();
                let (datagram, taken) = match dtls.take_datagram() {
                    Some(own) => (own, None),
                    None if !is_open => return Ok(false),
                    None => match engine.datagram(self.lane) {
                        Some(text) => {
                            dtls.encode(text, &mut sealed);
                            (sealed, Some(text.len()))
                        }
                        None => return Ok(false),
                    },
                };
                let mut is_full = false;
                match datagrams.send(&datagram) {
                    // Sealed records and DTLS' own cannot be kept: they count as lost and are repeated as such.
                    Err(error) if is_later(&error) => is_full = true,
                    Err(error) if is_like_loss(&error) => {}
                    Err(error) => return Err(error),
                    Ok(_) => {
                        self.bytes_sent += datagram.len() as u64;
                        self.counts.frames_sent += 1;
                        self.counts.bytes_sent += datagram.len() as u64;
                    }
                }
                if let Some(taken) = taken {
                    engine.wrote(self.lane, taken, now);
                }
                if is_full {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(true)
                }
            }
            (Filters::Plain, socket) => {
                let bytes = if is_open {
                    engine.unwritten(self.lane)
                } else {
                    &[]
                };
                if bytes.is_empty() {
                    return Ok(false);
                }
                let written = socket.write(bytes)?;
                self.bytes_sent += written as u64;
                engine.wrote(self.lane, written, now);
                Ok(true)
            }
            (Filters::Filtered(filters), socket) => {
                if self.wire_at >= self.wire.len() {
                    self.wire.clear();
                    self.wire_at = 0;
                    let waiting = if is_open {
                        engine.unwritten(self.lane)
                    } else {
                        &[]
                    };
                    // A filter may want whole messages (CoAP over WebSocket), and transports append such.
                    let some = match filters.sub_protocol() {
                        Some("coap") => waiting,
                        _ => waiting.get(..ENCODE_BYTES_MAX).unwrap_or(waiting),
                    };
                    let taken = some.len();
                    if taken > 0 {
                        filters
                            .encode(some, &mut self.wire)
                            .map_err(|fault| io::Error::other(fault.to_string()))?;
                        engine.wrote(self.lane, taken, now);
                    }
                }
                let rest = self.wire.get(self.wire_at..).unwrap_or_default();
                if rest.is_empty() {
                    return Ok(false);
                }
                let written = socket.write(rest)?;
                self.wire_at += written;
                self.bytes_sent += written as u64;
                Ok(true)
            }
        }
    }

    /// Writes what the filters have made, as far as that goes at once.
    fn write_wire(&mut self) {
        while let (Some(socket), Some(rest)) = (&mut self.socket, self.wire.get(self.wire_at..)) {
            match socket.write(rest) {
                Ok(written) if written > 0 => self.wire_at += written,
                _ => return,
            }
        }
    }

    /// Reads the system's counters of the connection; once a second, while there is traffic.
    fn measure(&mut self, engine: &mut Engine, now: Time) {
        self.measure_at = now + Span::from_secs(1);
        let bytes = self.bytes_sent + self.bytes_received;
        let reading = match &self.socket {
            // Bytes in flight change the system's counters for a while after our last write.
            _ if bytes == self.measured_bytes && self.reading.is_some() => return,
            Some(Socket::Tcp(stream)) => super::network::reading(stream),
            Some(Socket::Udp(_)) => Some(self.counts),
            Some(Socket::Unix(_)) | None => None,
        };
        self.measured_bytes = bytes;
        self.reading = reading;
        if let Some(reading) = reading {
            engine.network(self.lane, reading, now);
        }
    }

    /// When [`LaneSocket::work`] has to be called without an event of the socket.
    pub(super) fn poll_timeout(&self, engine: &Engine, now: Time) -> Time {
        let connecting = match self.state {
            State::Connecting { until, .. } => until,
            _ => Time::NEVER,
        };
        let repeating = self
            .dtls
            .as_ref()
            .map_or(Time::NEVER, |dtls| dtls.poll_timeout());
        let writing = match self.state {
            State::Open if self.is_writable => engine.write_at(self.lane, now),
            _ => Time::NEVER,
        };
        let reading = match self.is_readable && self.socket.is_some() {
            true if self.state != State::Open || engine.wants_input(self.lane) => now,
            _ => Time::NEVER,
        };
        // Nothing is asked for the sake of a connection on which nothing happens.
        let measuring = match self.bytes_sent + self.bytes_received == self.measured_bytes {
            true => Time::NEVER,
            false => self.measure_at,
        };
        connecting
            .min(repeating)
            .min(writing)
            .min(reading)
            .min(measuring)
    }

    /// The engine has ended the connection: pending bytes are sent if that is possible at once, then the socket is
    /// closed.
    pub(super) fn disconnect(
        &mut self,
        engine: &mut Engine,
        means: &Means<'_>,
        now: Time,
    ) -> Option<Farewell> {
        let mut wire = Vec::new();
        if self.state == State::Open {
            match &mut self.filters {
                Filters::Plain if matches!(self.socket, Some(Socket::Udp(_))) => {
                    while let Some(datagram) = engine.datagram(self.lane) {
                        let len = datagram.len();
                        let mut sealed = Vec::new();
                        let datagram = match &mut self.dtls {
                            None => datagram,
                            Some(dtls) => {
                                dtls.encode(datagram, &mut sealed);
                                sealed.as_slice()
                            }
                        };
                        let sent = self.socket.as_mut().map(|socket| socket.write(datagram));
                        engine.wrote(self.lane, len, now);
                        if let Some(Ok(len)) = sent {
                            self.bytes_sent += len as u64;
                        }
                    }
                    if let (Some(dtls), Some(socket)) = (&mut self.dtls, &mut self.socket) {
                        let mut goodbye = Vec::new();
                        dtls.close(&mut goodbye);
                        // It may be lost like any other.
                        let _ = socket.write(&goodbye);
                    }
                }
                Filters::Plain => wire.extend_from_slice(engine.unwritten(self.lane)),
                Filters::Filtered(filters) => {
                    wire.extend_from_slice(self.wire.get(self.wire_at..).unwrap_or_default());
                    // After a fault there is nothing to say.
                    let _ = filters.encode(engine.unwritten(self.lane), &mut wire);
                    filters.close(&mut wire);
                }
            }
            let left = engine.unwritten(self.lane).len();
            engine.wrote(self.lane, left, now);
            self.bytes_sent += wire.len() as u64;
        }
        let was_open = self.state == State::Open;
        let socket = self.socket.take();
        self.reset(means.registry);
        let mut socket = socket?;
        if !was_open || matches!(socket, Socket::Udp(_)) {
            socket.deregister(means.registry);
            return None;
        }
        Some(Farewell::new(socket, wire, now))
    }

    /// The connection has ended without our wish.
    fn lose(&mut self, words: &str, engine: &mut Engine, means: &Means<'_>, now: Time) {
        match self.state {
            State::Open | State::Securing => {
                self.reset(means.registry);
                engine.closed(self.lane, words, now);
            }
            _ => self.fail(words, engine, means, now),
        }
    }

    /// It could not be made.
    fn fail(&mut self, words: &str, engine: &mut Engine, means: &Means<'_>, now: Time) {
        self.reset(means.registry);
        engine.connect_failed(self.lane, words, now);
    }

    fn reset(&mut self, registry: &Registry) {
        self.drop_socket(registry);
        self.state = State::Idle;
        self.addresses.clear();
        self.filters = Filters::Plain;
        self.dtls = None;
        self.wire = Vec::new();
        self.wire_at = 0;
        self.input = Vec::new();
        self.measure_at = Time::NEVER;
        self.reading = None;
    }

    fn drop_socket(&mut self, registry: &Registry) {
        if let Some(mut socket) = self.socket.take() {
            socket.deregister(registry);
        }
        (self.is_readable, self.is_writable, self.is_ending) = (false, false, false);
    }
}

/// Resources that all lanes use.
pub(super) struct Means<'d> {
    pub(super) registry: &'d Registry,
    pub(super) security: &'d Security,
    /// Class of service, if the user has set one.
    pub(super) dscp: Option<u8>,
    /// Where bytes are read into.
    pub(super) scratch: &'d mut [u8],
}

/// Whether a datagram that could not be sent is as good as one that was lost.
fn is_like_loss(error: &io::Error) -> bool {
    // ENOBUFS and EMSGSIZE have no kinds of their own.
    matches!(error.raw_os_error(), Some(code) if code == 105 || code == 90)
        || matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::OutOfMemory
        )
}
