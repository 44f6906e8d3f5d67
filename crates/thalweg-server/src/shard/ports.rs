//! Datagrams: a shard's sockets, one for each datagram listener. All peers of a socket are one link.
//!
//! Reading goes as for connections: what is ready is read once per pass, bounded, and what the front has put out leaves
//! in batches. A peer cannot be paused, so a socket that must wait is not read: the system's buffer fills, and what
//! does not fit is lost, as CoAP expects of a network.

use super::Shard;
use crate::datagram::{DatagramCounts, DatagramSocket, Inbox, Received};
use crate::transport::dtls::DtlsAcceptor;
use mio::Token;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use thalweg_dtls::{
    Counts as DtlsCounts, Event as DtlsEvent, Output as DtlsOutput, PeerIdentity,
    ServerLimits as DtlsLimits, ServerSide,
};
use thalweg_fronts::{Datagram, Datagrams, PeerSecurity};
use thalweg_kernel::LinkId;
use thalweg_model::{Span, Time};

/// Tokens from here on are those of ports; below are links.
const FIRST_TOKEN: usize = usize::MAX / 2 + 1;
/// Datagrams that a port reads before what came of them is sent. Not fewer than a front puts out at once, or the
/// acknowledgements of many notifications would come faster than they are read, and be lost.
const READ_MAX: u64 = 256;
/// How long a port is not read while the journal or another shard does not keep up.
const PAUSE: Span = Span::from_millis(1);
/// Output buffers above this are freed after a burst.
const FAT_BYTES: usize = 1 << 20;

/// The parts of a port, sent to the shard that opens it.
pub(crate) struct PortParts {
    pub(crate) listener: Arc<str>,
    /// Bound, together with those of the other shards.
    pub(crate) socket: UdpSocket,
    pub(crate) local: SocketAddr,
}

/// A socket and its link.
pub(crate) struct Port {
    pub(crate) listener: Arc<str>,
    pub(crate) link: LinkId,
    /// Tells it from a connection or another port that had the link's number before.
    pub(crate) serial: u64,
    local: SocketAddr,
    socket: DatagramSocket,
    /// Between socket and front, if the listener is encrypted.
    dtls: Option<Dtls>,
    paused_until: Option<Time>,
    /// Peers without credentials were admitted.
    admits_strangers: bool,
    since: Time,
}

/// A port's side of DTLS.
struct Dtls {
    peers: Box<ServerSide>,
    /// Whose files they are known by, and which state of them is in force.
    acceptor: Arc<DtlsAcceptor>,
    reloads: u64,
    /// Datagrams whose peers were gone when they should have left.
    unsent: u64,
}

impl Dtls {
    fn new(acceptor: Arc<DtlsAcceptor>, limits: DtlsLimits) -> Self {
        let mut seed = [0; 32];
        crate::random::fill(&mut seed);
        let reloads = acceptor.reloads();
        let peers = Box::new(ServerSide::new(acceptor.loaded(), limits, seed));
        Dtls {
            peers,
            acceptor,
            reloads,
            unsent: 0,
        }
    }

    /// Takes over files that were read again: peers whose credentials are no longer there are closed.
    fn renew(&mut self, out: &mut DtlsOutput) {
        let reloads = self.acceptor.reloads();
        if std::mem::replace(&mut self.reloads, reloads) != reloads {
            self.peers.renew(self.acceptor.loaded(), out);
        }
    }

    /// At once, if the files were read again.
    fn poll_timeout(&self) -> Time {
        if self.reloads == self.acceptor.reloads() {
            self.peers.poll_timeout()
        } else {
            Time::ZERO
        }
    }
}

/// All ports of a shard.
#[derive(Default)]
pub struct Ports {
    list: Vec<Option<Port>>,
    inbox: Inbox,
    /// What is being sent; the fronts have the other halves.
    out: Datagrams,
    sealed: Datagrams,
    /// What a call of DTLS gave.
    opened: DtlsOutput,
}

/// A port, as operators see it.
#[derive(Clone, Debug)]
pub struct PortView {
    pub listener: String,
    /// `udp` or `udp+dtls`.
    pub transport: &'static str,
    pub local: SocketAddr,
    pub since: Time,
    /// What the socket has seen.
    pub datagrams: DatagramCounts,
    /// What DTLS has seen, if it is spoken.
    pub dtls: Option<DtlsCounts>,
    /// Datagrams that DTLS could not send because their peers had gone.
    pub dtls_unsent: u64,
    /// Peers with which it is spoken now.
    pub dtls_peers: usize,
    /// What the machine behind it has.
    pub link: LinkId,
}

impl Ports {
    fn at(&mut self, index: usize) -> Option<&mut Port> {
        self.list.get_mut(index)?.as_mut()
    }

    fn index_of(&self, link: LinkId) -> Option<usize> {
        self.list
            .iter()
            .position(|port| port.as_ref().is_some_and(|port| port.link == link))
    }

    /// The port of a link, if that is what it is.
    pub(crate) fn of_link(&mut self, link: LinkId) -> Option<&mut Port> {
        self.list
            .iter_mut()
            .flatten()
            .find(|port| port.link == link)
    }

    pub fn views(&self) -> impl Iterator<Item = PortView> + '_ {
        self.list.iter().flatten().map(|port| PortView {
            listener: port.listener.to_string(),
            transport: if port.dtls.is_some() {
                "udp+dtls"
            } else {
                "udp"
            },
            local: port.local,
            since: port.since,
            datagrams: port.socket.counts(),
            dtls: port.dtls.as_ref().map(|dtls| dtls.peers.counts()),
            dtls_unsent: port.dtls.as_ref().map_or(0, |dtls| dtls.unsent),
            dtls_peers: port.dtls.as_ref().map_or(0, |dtls| dtls.peers.peers()),
            link: port.link,
        })
    }
}

impl Shard {
    /// Opens a port; one of the same listener goes.
    pub(super) fn open_port(&mut self, parts: PortParts) {
        let PortParts {
            listener,
            socket,
            local,
        } = parts;
        self.close_port(&listener);
        let Some(front) = self
            .settings
            .datagram_front(&listener, crate::random::u64())
        else {
            return tracing::debug!(%listener, "a socket is closed: its listener is gone");
        };
        let dtls = self
            .settings
            .dtls(&listener)
            .map(|(acceptor, limits)| Dtls::new(acceptor, limits));
        let link = self.links.open(front);
        let index = self
            .ports
            .list
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.ports.list.len());
        let opened = DatagramSocket::new(socket).and_then(|mut socket| {
            socket.register(self.poll.registry(), Token(FIRST_TOKEN + index))?;
            socket.set_bans(self.door.banned_addresses());
            Ok(socket)
        });
        let socket = match opened {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!(%listener, %error, "a socket could not be registered with the poll");
                return self.links.close(link, &mut self.kernel, self.now);
            }
        };
        let serial = self.serial_next;
        self.serial_next += 1;
        let admits_strangers = self.settings.admits_strangers(&listener);
        let port = Port {
            listener,
            link,
            serial,
            local,
            socket,
            dtls,
            paused_until: None,
            admits_strangers,
            since: self.now,
        };
        if index == self.ports.list.len() {
            self.ports.list.push(None);
        }
        self.ports.list[index] = Some(port);
    }

    /// Closes the port of a listener. Peers of DTLS are notified; others get no answer and ask again.
    pub(super) fn close_port(&mut self, listener: &str) {
        let is_it = |port: &Option<Port>| {
            port.as_ref()
                .is_some_and(|port| *port.listener == *listener)
        };
        let Some(index) = self.ports.list.iter().position(is_it) else {
            return;
        };
        let Some(mut port) = self.ports.list.get_mut(index).and_then(Option::take) else {
            return;
        };
        if let Some(dtls) = &mut port.dtls {
            // So that they need not wait until their requests go unanswered.
            self.ports.opened.clear();
            dtls.peers.close_all(&mut self.ports.opened);
            port.socket.send(self.ports.opened.datagrams(), 0);
        }
        port.socket.deregister(self.poll.registry());
        self.door.forget(port.link, port.serial);
        self.links.close(port.link, &mut self.kernel, self.now);
    }

    /// Closes all ports. What may leave has left before.
    pub(super) fn close_ports(&mut self) {
        let listeners: Vec<Arc<str>> = self
            .ports
            .list
            .iter()
            .flatten()
            .map(|port| port.listener.clone())
            .collect();
        for listener in listeners {
            self.close_port(&listener);
        }
    }

    /// Something happened at a socket; false if the token is none of a port.
    pub(super) fn on_port_event(&mut self, event: &mio::event::Event) -> bool {
        let Some(index) = event.token().0.checked_sub(FIRST_TOKEN) else {
            return false;
        };
        let waiting_max = self.settings.links.output_max;
        if let Some(port) = self.ports.at(index) {
            if event.is_readable() || event.is_error() {
                port.socket.on_readable();
            }
            if event.is_writable() {
                let was_blocked = port.socket.is_blocked();
                port.socket.on_writable(waiting_max);
                if was_blocked {
                    let link = port.link;
                    self.flush_port(link);
                }
            }
        }
        true
    }

    /// Gives ports what changed in the settings.
    pub(super) fn renew_ports(&mut self) {
        for index in 0..self.ports.list.len() {
            let bans = self.door.banned_addresses();
            let Some(port) = self.ports.at(index) else {
                continue;
            };
            port.socket.set_bans(bans);
            let (listener, admitted) = (port.listener.clone(), port.admits_strangers);
            if admitted && !self.settings.admits_strangers(&listener) {
                self.renew_front(index);
            }
            let admits_strangers = self.settings.admits_strangers(&listener);
            let Some(port) = self.ports.at(index) else {
                continue;
            };
            port.admits_strangers = admits_strangers;
            let link = port.link;
            if let Some(settings) = self.settings.fronts(&listener) {
                self.links.set_settings(link, settings);
            }
            let wanted = self.settings.dtls(&listener);
            if let (Some(port), Some((acceptor, limits))) = (self.ports.at(index), wanted)
                && port
                    .dtls
                    .as_ref()
                    .is_some_and(|dtls| !Arc::ptr_eq(&dtls.acceptor, &acceptor))
            {
                let renewed = Dtls::new(acceptor, limits);
                // Other files: peers known by the old ones must shake hands again. They are sent an alert, and the
                // front is notified: what it has for them must not leave in an association to come. RFC 7252 §9.1
                let mut opened = std::mem::take(&mut self.ports.opened);
                opened.clear();
                if let Some(mut old) = self
                    .ports
                    .at(index)
                    .and_then(|port| port.dtls.replace(renewed))
                {
                    old.peers.end_all(&mut opened);
                }
                self.on_opened(index, &opened);
                self.ports.opened = opened;
            }
        }
    }

    /// Puts a new front behind a socket: peers that were admitted without credentials are closed.
    fn renew_front(&mut self, index: usize) {
        let Some(port) = self.ports.at(index) else {
            return;
        };
        let (old, listener) = (port.link, port.listener.clone());
        let Some(front) = self
            .settings
            .datagram_front(&listener, crate::random::u64())
        else {
            return;
        };
        self.links.close(old, &mut self.kernel, self.now);
        let (link, serial) = (self.links.open(front), self.serial_next);
        self.serial_next += 1;
        if let Some(port) = self.ports.at(index) {
            (port.link, port.serial) = (link, serial);
        }
    }

    /// Whether a port has something to read and may be read.
    pub(super) fn has_ready_port(&self) -> bool {
        self.ports.list.iter().flatten().any(|port| port.is_ready())
    }

    /// Reads each ready port, and lets what came run through front and kernel.
    pub(super) fn read_ports(&mut self) {
        for index in 0..self.ports.list.len() {
            let mut inbox = std::mem::take(&mut self.ports.inbox);
            let mut read = 0;
            let receive = |port: &mut Port, inbox: &mut Inbox| {
                let is_ready = port.is_ready();
                is_ready.then(|| port.socket.receive(inbox)).flatten()
            };
            while read < READ_MAX
                && let Some(port) = self.ports.at(index)
                && let Some(received) = receive(port, &mut inbox)
            {
                self.counts.reads += 1;
                read += received;
                self.on_datagrams(index, &inbox);
                self.after_port(index);
            }
            self.ports.inbox = inbox;
        }
    }

    fn on_datagrams(&mut self, index: usize, inbox: &Inbox) {
        let now = self.now;
        let mut opened = std::mem::take(&mut self.ports.opened);
        let Some(port) = self.ports.at(index) else {
            return;
        };
        let link = port.link;
        match &mut port.dtls {
            None => {
                let datagrams = inbox.datagrams().map(|received| Datagram {
                    from: received.from,
                    security: PeerSecurity::None,
                    is_multicast: received.is_multicast,
                    bytes: received.bytes,
                });
                self.links
                    .handle_datagrams(link, datagrams, now, &mut self.kernel);
            }
            Some(dtls) => {
                opened.clear();
                dtls.renew(&mut opened);
                // DTLS has no groups. RFC 7252 §9.1
                for Received { from, bytes, .. } in
                    inbox.datagrams().filter(|received| !received.is_multicast)
                {
                    dtls.peers.handle_datagram(from, bytes, now, &mut opened);
                }
                self.on_opened(index, &opened);
            }
        }
        self.ports.opened = opened;
    }

    /// Sends what DTLS has to send, and tells the front what came through it and who has gone.
    fn on_opened(&mut self, index: usize, opened: &DtlsOutput) {
        let (now, waiting_max) = (self.now, self.settings.links.output_max);
        let Some(port) = self.ports.at(index) else {
            return;
        };
        let link = port.link;
        port.socket.send(opened.datagrams(), waiting_max);
        let mut events = opened.events();
        while let Some((event, rest)) = events.split_first() {
            match event {
                DtlsEvent::Received { .. } => {
                    let texts = events
                        .iter()
                        .take_while(|event| matches!(event, DtlsEvent::Received { .. }));
                    let count = texts.clone().count();
                    let texts = texts.filter_map(|event| match event {
                        DtlsEvent::Received {
                            peer,
                            identity,
                            text,
                        } => Some(Datagram {
                            from: *peer,
                            security: security(identity),
                            is_multicast: false,
                            bytes: opened.text(text),
                        }),
                        _ => None,
                    });
                    self.links
                        .handle_datagrams(link, texts, now, &mut self.kernel);
                    events = events.get(count..).unwrap_or_default();
                    continue;
                }
                DtlsEvent::Closed { peer, .. } => {
                    self.links.on_peer_gone(link, *peer, now, &mut self.kernel)
                }
                // What is left of an earlier association must not leave in the new one. RFC 7252 §9.1
                DtlsEvent::Ready { peer, .. } => {
                    self.links.on_peer_gone(link, *peer, now, &mut self.kernel)
                }
                DtlsEvent::Refused { peer, why } => self.note_refused(index, *peer, why),
            }
            events = rest;
        }
    }

    fn note_refused(&mut self, index: usize, peer: SocketAddr, why: &impl std::fmt::Display) {
        if let Some(port) = self.ports.at(index) {
            self.door.note_handshake(&port.listener, peer, why);
        }
    }

    fn after_port(&mut self, index: usize) {
        self.relieve();
        self.carry_out();
        self.close_large_batch();
        if std::mem::take(&mut self.mail_full) || self.commits.is_behind() {
            self.counts.paces += 1;
            let until = self.now + PAUSE;
            if let Some(port) = self.ports.at(index) {
                port.paused_until = Some(until);
            }
        }
    }

    /// When a port wants to be called.
    pub(super) fn ports_timeout(&self) -> Time {
        let ports = self.ports.list.iter().flatten();
        let of = |port: &Port| {
            let dtls = port.dtls.as_ref().map_or(Time::NEVER, Dtls::poll_timeout);
            self.links
                .next_timer(port.link)
                .min(port.paused_until.unwrap_or(Time::NEVER))
                .min(dtls)
        };
        ports.map(of).min().unwrap_or(Time::NEVER)
    }

    /// Fires what is due.
    pub(super) fn fire_ports(&mut self) {
        let now = self.now;
        for port in self.ports.list.iter_mut().flatten() {
            if port.paused_until.is_some_and(|until| until <= now) {
                port.paused_until = None;
            }
        }
        for index in 0..self.ports.list.len() {
            let mut opened = std::mem::take(&mut self.ports.opened);
            if let Some(port) = self.ports.at(index) {
                let link = port.link;
                if let Some(dtls) = &mut port.dtls
                    && dtls.poll_timeout() <= now
                {
                    opened.clear();
                    dtls.renew(&mut opened);
                    dtls.peers.handle_timeout(now, &mut opened);
                    self.on_opened(index, &opened);
                }
                if self.links.next_timer(link) <= now {
                    self.links.on_timer(link, now, &mut self.kernel);
                }
            }
            self.ports.opened = opened;
        }
    }

    /// Sends what a port's front has put out, if the link is one of a port.
    pub(super) fn flush_port(&mut self, link: LinkId) {
        let Some(index) = self.ports.index_of(link) else {
            return;
        };
        let waiting_max = self.settings.links.output_max;
        if self
            .ports
            .at(index)
            .is_none_or(|port| port.socket.is_blocked())
        {
            // What is with the front still can be replaced by something newer.
            return;
        }
        let mut out = std::mem::take(&mut self.ports.out);
        self.links.take_datagrams(link, &mut out);
        let mut sealed = std::mem::take(&mut self.ports.sealed);
        if let Some(port) = self.ports.at(index) {
            let before = port.socket.counts().send_calls;
            match &mut port.dtls {
                None => port.socket.send(out.iter(), waiting_max),
                Some(dtls) => {
                    for (to, text) in out.iter() {
                        sealed.push(to, |wire| {
                            let begins = wire.len();
                            if dtls.peers.encrypt(to, text, wire).is_err() {
                                wire.truncate(begins);
                                dtls.unsent += 1;
                            }
                        });
                    }
                    port.socket.send(sealed.iter(), waiting_max);
                }
            }
            self.counts.writes += port.socket.counts().send_calls - before;
        }
        for used in [&mut out, &mut sealed] {
            used.clear();
            used.shrink(FAT_BYTES);
        }
        self.ports.out = out;
        self.ports.sealed = sealed;
    }
}

/// The identity of a peer, in the form that fronts get.
fn security(identity: &PeerIdentity) -> PeerSecurity<'_> {
    match identity.name() {
        Some(name) => PeerSecurity::Identified(name),
        None => PeerSecurity::Encrypted,
    }
}

impl Port {
    fn is_ready(&self) -> bool {
        // While answers wait for the socket, more questions would only be lost answers.
        self.socket.is_readable() && self.paused_until.is_none() && !self.socket.is_blocked()
    }
}
