//! One connection in the lobby: PROXY header, then TLS and WebSocket, then protocol bytes until the key is known.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use mio::{Interest, Registry, Token};

use super::{Arrival, HalfOpen, LobbySettings, PeerInfo, Route, Slot, Socket};
use crate::listen::ListenerSpec;
use crate::transport::proxy::{ProxyFault, ProxyHeader};
use crate::transport::websocket::WebSocketLayer;
use crate::transport::{Filtered, Transport, TransportFault};

/// ```text
/// ExpectProxy ─ header ─> ExpectKey ─ key, not ours, too long ─> (delivered)
///      └────── fault ───────┴──────> Explained ─ peer hangs up, timeout ─> (gone)
/// ```
#[derive(Debug)]
pub(super) struct Waiting {
    stage: Stage,
    socket: Socket,
    registered: Option<Interest>,
    transport: Transport,
    /// The PROXY header while it is expected, then protocol bytes.
    input: Vec<u8>,
    output: Vec<u8>,
    wire_bytes: usize,
    address: Option<SocketAddr>,
    local: Option<SocketAddr>,
    certificate_name: Option<Arc<str>>,
    spec: Arc<ListenerSpec>,
    slot: Slot,
    accepted_at: Instant,
}

#[derive(Debug)]
enum Stage {
    ExpectProxy,
    ExpectKey,
    /// The reason was sent to the peer. Its socket stays until the peer closes, because a close with unread bytes makes
    /// the system send a reset, which may overtake the explanation.
    Explained,
}

/// What is to be done with a connection after it advanced.
#[derive(Debug)]
pub(super) enum Step {
    /// Wait for the socket.
    Wait,
    /// Hand it over; false when the key is not known.
    Deliver {
        key: u64,
        routed: bool,
    },
    /// It failed: count it and advance again, which tells the peer and waits until it has read why.
    Explain(TransportFault),
    Drop(Why),
}

impl Step {
    pub(super) fn is_delivery(&self) -> bool {
        matches!(self, Step::Deliver { .. })
    }
}

/// Why a connection is dropped without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The peer closed or reset the connection.
    HungUp,
    /// More wire bytes than any handshake needs.
    Oversized,
    /// Too many connections from its network.
    Network,
    /// It had been refused before, and now it is gone.
    Explained,
}

impl Waiting {
    /// A connection that was just accepted; fails when TLS cannot be set up.
    pub(super) fn new(
        socket: Socket,
        address: Option<SocketAddr>,
        local: Option<SocketAddr>,
        spec: &Arc<ListenerSpec>,
        slot: Slot,
        now: Instant,
    ) -> Result<Waiting, TransportFault> {
        let tls = spec
            .tls
            .as_ref()
            .filter(|_| !spec.tls_later)
            .map(|acceptor| acceptor.accept())
            .transpose()?;
        let websocket = spec.websocket.as_ref().map(WebSocketLayer::server);
        Ok(Waiting {
            stage: if spec.proxy.is_some() {
                Stage::ExpectProxy
            } else {
                Stage::ExpectKey
            },
            socket,
            registered: None,
            transport: Filtered::stack(tls, websocket),
            input: Vec::new(),
            output: Vec::new(),
            wire_bytes: 0,
            address,
            local,
            certificate_name: None,
            spec: spec.clone(),
            slot,
            accepted_at: now,
        })
    }

    /// True once it was refused and only its end is waited for.
    pub(super) fn is_explained(&self) -> bool {
        matches!(self.stage, Stage::Explained)
    }

    /// Whether more of its log-in is to come when it is handed over.
    pub(super) fn stays_half_open(&self) -> bool {
        self.spec.shard_completes_handshake
    }

    pub(super) fn listener_name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Bytes that came so far.
    pub(super) fn wire_bytes(&self) -> usize {
        self.wire_bytes
    }

    /// Reads and writes until the socket has nothing more, or the connection is ready to go.
    pub(super) fn advance(&mut self, buffer: &mut [u8], settings: &LobbySettings) -> Step {
        let wire_bytes_max = settings
            .connect_bytes_max
            .saturating_mul(2)
            .saturating_add(HANDSHAKE_BYTES_MAX);
        loop {
            if let Err(why) = self.flush() {
                return self.drop_because(why);
            }
            if self.is_explained() && self.output.is_empty() {
                // Fails when the peer is gone, which the read will find out as well.
                let _ = self.socket.shutdown(Shutdown::Write);
            }
            let read = match self.socket.read(buffer) {
                Ok(0) => return self.drop_because(Why::HungUp),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.drop_because(Why::HungUp),
            };
            self.wire_bytes = self.wire_bytes.saturating_add(read);
            if self.wire_bytes > wire_bytes_max {
                return self.drop_because(Why::Oversized);
            }
            let wire = buffer.get(..read).unwrap_or_default();
            let step = match self.stage {
                Stage::ExpectProxy => self.take_proxy_header(wire, settings),
                Stage::ExpectKey => self.take_wire(wire, settings),
                Stage::Explained => Step::Wait,
            };
            match step {
                Step::Wait => {}
                Step::Deliver { .. } => {
                    // Saves the shard a system call in the usual case; what does not go out travels along.
                    return match self.flush() {
                        Ok(()) => step,
                        Err(why) => self.drop_because(why),
                    };
                }
                Step::Explain(_) => {
                    // The reason is sent at the next advance, after the caller has counted: a peer that reads it finds
                    // itself counted.
                    self.stage = Stage::Explained;
                    return step;
                }
                Step::Drop(_) => return step,
            }
        }
    }

    fn take_proxy_header(&mut self, wire: &[u8], settings: &LobbySettings) -> Step {
        self.input.extend_from_slice(wire);
        // The stage is entered only where there is a rule.
        let Some(rule) = &self.spec.proxy else {
            return Step::Drop(Why::HungUp);
        };
        let is_trusted = rule.trusts(self.address.map(|address| address.ip()));
        let parsed = if is_trusted {
            rule.parse(&self.input)
        } else {
            Err(ProxyFault::Untrusted)
        };
        let proxied = match parsed {
            Ok(ProxyHeader::NeedMore) => return Step::Wait,
            Ok(ProxyHeader::Done(proxied)) => proxied,
            Err(fault) => return Step::Explain(TransportFault::Proxy(fault)),
        };
        let rest = self.input.split_off(proxied.consumed.min(self.input.len()));
        self.input.clear();
        self.stage = Stage::ExpectKey;
        self.certificate_name = proxied
            .certificate_name
            .filter(|_| rule.takes_identity)
            .map(Arc::from);
        self.local = proxied.destination.or(self.local);
        // `LOCAL` and `UNKNOWN` name no peer: then the proxy's own address stands.
        self.address = proxied.source.or(self.address);
        if !self.occupy() {
            return Step::Drop(Why::Network);
        }
        if rest.is_empty() {
            Step::Wait
        } else {
            self.take_wire(&rest, settings)
        }
    }

    fn take_wire(&mut self, wire: &[u8], settings: &LobbySettings) -> Step {
        match &mut self.transport {
            Transport::Plain => self.input.extend_from_slice(wire),
            Transport::Filtered(filtered) => {
                let taken = filtered.handle_input(wire, &mut self.input);
                filtered.take_output(&mut self.output);
                if let Err(fault) = taken {
                    return Step::Explain(fault);
                }
            }
        }
        let route = if self.input.is_empty() {
            Route::NeedMore
        } else {
            (self.spec.route)(&self.input, settings.connect_bytes_max)
        };
        match route {
            Route::Key(key) => Step::Deliver { key, routed: true },
            Route::NotOurs(_) => Step::Deliver {
                key: 0,
                routed: false,
            },
            Route::NeedMore if self.input.len() >= settings.connect_bytes_max => Step::Deliver {
                key: 0,
                routed: false,
            },
            Route::NeedMore => match &self.transport {
                Transport::Filtered(filtered) if filtered.is_closed() => Step::Drop(Why::HungUp),
                _ => Step::Wait,
            },
        }
    }

    /// Counts the connection for its network; false when there are too many. Behind a balancer the address is known
    /// only after the PROXY header.
    pub(super) fn occupy(&mut self) -> bool {
        match self.address {
            Some(_) if matches!(self.stage, Stage::ExpectProxy) => true,
            Some(address) => self
                .slot
                .occupy(address.ip(), self.spec.connections_per_address_max),
            None => true,
        }
    }

    /// Watches the socket: for input always, for room only while there is something to send.
    pub(super) fn watch(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        let wanted = if self.output.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        match self.registered {
            Some(interest) if interest == wanted => return Ok(()),
            Some(_) => registry.reregister(&mut self.socket, token, wanted)?,
            None => registry.register(&mut self.socket, token, wanted)?,
        }
        self.registered = Some(wanted);
        Ok(())
    }

    pub(super) fn into_arrival(mut self, registry: &Registry, half_open: HalfOpen) -> Arrival {
        if self.registered.is_some() {
            // The socket is registered, so the only failure is that the system forgot it already.
            let _ = registry.deregister(&mut self.socket);
        }
        let shown = match &self.transport {
            Transport::Plain => None,
            Transport::Filtered(filtered) => filtered.certificate_name(),
        };
        Arrival {
            peer: PeerInfo {
                address: self.address,
                local: self.local,
                certificate_name: shown.or(self.certificate_name),
                listener: self.spec,
            },
            socket: self.socket,
            transport: self.transport,
            input: self.input,
            output: self.output,
            accepted_at: self.accepted_at,
            half_open: Some(half_open),
            slot: self.slot,
            moved: None,
        }
    }

    fn flush(&mut self) -> Result<(), Why> {
        let mut sent = 0;
        while let Some(rest) = self.output.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return Err(Why::HungUp),
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(Why::HungUp),
            }
        }
        if sent > 0 {
            self.output.drain(..sent);
        }
        Ok(())
    }

    fn drop_because(&self, why: Why) -> Step {
        Step::Drop(if matches!(self.stage, Stage::Explained) {
            Why::Explained
        } else {
            why
        })
    }
}

/// Wire bytes that handshakes may take on top of twice the protocol bytes: a chain of client certificates, an upgrade.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;
