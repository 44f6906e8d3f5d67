//! Handles the input of the hub's sockets, without the sockets.

use std::collections::BTreeMap;

use thalweg_model::Stamp;
use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, Event, Gathered, HEADER_FRAME, HandshakeEvent,
    Limits, Message, Metadata, PeerFault, ServerMechanisms, ServerSide, SocketType, Traffic,
    Version,
};

use super::duplicates::Duplicates;
use crate::client::PeerCounts;
use crate::transport::Output;
use crate::zmtp::Prefixes;

/// The line of a header frame that tells the messages of a peer apart, as text of a [`Stamp`].
const PEER_STAMP: &str = "x-peer-stamp";
/// Metadata of a peer that accepts header frames.
const HEADERS: [(&str, &[u8]); 1] = [(HEADER_FRAME, b"1")];
/// Bytes that wait for a socket, at most; what does not fit is dropped, the newest first, as every PUB does.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Bytes that the prefixes of one connection may take, at most; one that asks for more is ended.
const ASKED_BYTES_MAX: usize = 1 << 20;
/// Largest message that is taken.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// The error code that libzmq takes for a failed login and does not retry. [27#Reply]
const REFUSED: &str = "400";

/// Credentials between the client and its hub, and the publisher id of its messages.
pub(super) struct Secrets {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) publisher: u64,
}

/// Role of a peer of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The client's own lanes.
    OwnPublisher,
    OwnSubscriber,
    /// Receives the client's publishes that match its subscriptions.
    Sink,
    /// The client receives its messages that match the client's subscriptions.
    Source,
}

impl Role {
    /// Returns the role of a peer with this socket type, and our socket type towards it.
    fn of(peer: SocketType, is_own: bool) -> Option<(Role, SocketType)> {
        Some(match (peer, is_own) {
            (SocketType::Pub | SocketType::Xpub, true) => (Role::OwnPublisher, SocketType::Xsub),
            (SocketType::Sub | SocketType::Xsub, true) => (Role::OwnSubscriber, SocketType::Xpub),
            (SocketType::Pub | SocketType::Xpub, false) => (Role::Source, SocketType::Xsub),
            (SocketType::Sub | SocketType::Xsub, false) => (Role::Sink, SocketType::Xpub),
            _ => return None,
        })
    }
}

enum Stage {
    Accepted(Box<ServerSide>),
    Dialed(Box<ClientSide>),
    Open(Box<Traffic>, Role),
}

/// A connection, of either direction.
pub(super) struct End {
    stage: Stage,
    /// It has shown the client's own password.
    is_own: bool,
    /// It is a peer that the client connects to, not a broker.
    is_direct: bool,
    /// Messages have a header frame behind the first.
    has_header: bool,
    /// Its subscriptions to the client's messages.
    asked: Prefixes,
    out: Output,
}

impl End {
    fn new(stage: Stage) -> Self {
        End {
            stage,
            is_own: false,
            is_direct: false,
            has_header: false,
            asked: Prefixes::default(),
            out: Output::default(),
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.out.unsent().len() + bytes <= OUTPUT_BYTES_MAX
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(..))
    }
}

/// State between a client's lanes and its peers.
pub(super) struct Hub {
    ends: BTreeMap<usize, End>,
    /// The client's subscriptions to its peers.
    wanted: Prefixes,
    duplicates: Duplicates,
    secrets: Secrets,
    /// Of the message before.
    sequence: u64,
    header: Vec<u8>,
}

impl Hub {
    pub(super) fn new(secrets: Secrets) -> Self {
        Hub {
            ends: BTreeMap::new(),
            wanted: Prefixes::default(),
            duplicates: Duplicates::default(),
            secrets,
            sequence: 0,
            header: Vec::new(),
        }
    }

    /// A connection was accepted: from the client itself, or from a subscriber to its messages.
    pub(super) fn accept(&mut self, number: usize) {
        let mechanisms = ServerMechanisms {
            null: true,
            plain: true,
            curve: None,
        };
        let mut side = ServerSide::new(limits(), mechanisms);
        let mut out = Output::default();
        side.greet(&mut out.bytes);
        let end = End {
            out,
            ..End::new(Stage::Accepted(Box::new(side)))
        };
        self.ends.insert(number, end);
    }

    /// A connection to a peer or, unless `is_direct`, a broker stands, for which the hub is to be a socket of this type.
    pub(super) fn dial(
        &mut self,
        number: usize,
        ours: SocketType,
        mechanism: ClientMechanism,
        is_direct: bool,
    ) {
        let ours = Announcement {
            more: &HEADERS,
            ..Announcement::of(ours)
        };
        let side = ClientSide::new(limits(), mechanism, &ours);
        let mut out = Output::default();
        side.greet(&mut out.bytes);
        let end = End {
            out,
            is_direct,
            ..End::new(Stage::Dialed(Box::new(side)))
        };
        self.ends.insert(number, end);
    }

    /// Handles all of `input` that is whole; how much that was, or why the connection has to end.
    pub(super) fn handle_input(&mut self, number: usize, input: &[u8]) -> Result<usize, PeerFault> {
        let mut consumed = 0;
        let mut gathered = Gathered::default();
        while let Some(rest) = input.get(consumed..)
            && let Some(end) = self.ends.get_mut(&number)
        {
            let step = match &mut end.stage {
                Stage::Open(traffic, role) => {
                    let role = *role;
                    match traffic.handle_input(rest, &mut gathered)? {
                        Some((len, event)) => {
                            self.on_event(number, role, event)?;
                            Some(len)
                        }
                        None => None,
                    }
                }
                Stage::Accepted(_) | Stage::Dialed(_) => self.shake_hands(number, rest)?,
            };
            let Some(len) = step else { break };
            consumed += len;
        }
        Ok(consumed)
    }

    fn shake_hands(&mut self, number: usize, input: &[u8]) -> Result<Option<usize>, PeerFault> {
        let Some(end) = self.ends.get_mut(&number) else {
            return Ok(None);
        };
        let out = &mut end.out.bytes;
        let open = match &mut end.stage {
            Stage::Open(..) => None,
            Stage::Accepted(side) => match side.handle_input(input, out)? {
                None => return Ok(None),
                Some((len, HandshakeEvent::Consumed)) => return Ok(Some(len)),
                Some((len, HandshakeEvent::Login(login))) => {
                    let Secrets { user, password, .. } = &self.secrets;
                    end.is_own =
                        (login.username, login.password) == (user.as_bytes(), password.as_bytes());
                    match end.is_own {
                        true => side.welcome(out),
                        false => side.error(REFUSED, out),
                    }
                    return Ok(Some(len));
                }
                Some((_, HandshakeEvent::Error(_))) => return Err(PeerFault::UNEXPECTED_COMMAND),
                Some((len, HandshakeEvent::Peer(peer))) => {
                    let role = Role::of(peer.socket_type, end.is_own);
                    let Some((role, ours)) = role.filter(|(role, _)| *role != Role::Source) else {
                        side.error(REFUSED, out);
                        return Ok(Some(len));
                    };
                    end.has_header = announces_header(&peer.metadata);
                    let ours = Announcement {
                        more: if end.has_header { &HEADERS } else { &[] },
                        ..Announcement::of(ours)
                    };
                    side.ready(&ours, out).map(|traffic| (len, traffic, role))
                }
            },
            Stage::Dialed(side) => match side.handle_input(input, out)? {
                None => return Ok(None),
                Some((len, HandshakeEvent::Consumed)) => return Ok(Some(len)),
                Some((_, HandshakeEvent::Error(_) | HandshakeEvent::Login(_))) => {
                    return Err(PeerFault::UNEXPECTED_COMMAND);
                }
                Some((len, HandshakeEvent::Peer(peer))) => {
                    end.has_header = announces_header(&peer.metadata);
                    let role = Role::of(peer.socket_type, false);
                    let traffic = side.traffic().zip(role);
                    traffic.map(|(traffic, (role, _))| (len, traffic, role))
                }
            },
        };
        let Some((len, mut traffic, role)) = open else {
            return Ok(None);
        };
        match role {
            // Without that it would keep all to itself.
            Role::OwnPublisher => traffic.subscribe(b"", &mut end.out.bytes),
            Role::Source => {
                for prefix in self.wanted.iter() {
                    traffic.subscribe(prefix, &mut end.out.bytes);
                }
            }
            Role::OwnSubscriber | Role::Sink => {}
        }
        end.stage = Stage::Open(Box::new(traffic), role);
        Ok(Some(len))
    }

    fn on_event(&mut self, number: usize, role: Role, event: Event<'_>) -> Result<(), PeerFault> {
        match event {
            Event::Message(message) => match role {
                Role::OwnPublisher => self.publish(message),
                Role::Source => self.receive(number, message),
                Role::OwnSubscriber | Role::Sink => {}
            },
            Event::Subscribe(prefix) => {
                let end = self.ends.get_mut(&number);
                let is_new = end.is_some_and(|end| end.asked.add(prefix));
                let asked = self.ends.get(&number).map_or(0, |end| end.asked.bytes());
                if role == Role::Sink && asked > ASKED_BYTES_MAX {
                    return Err(PeerFault::COMMAND_TOO_LARGE);
                }
                if is_new && role == Role::OwnSubscriber && self.wanted.add(prefix) {
                    self.tell_sources(|traffic, out| traffic.subscribe(prefix, out));
                }
            }
            Event::Cancel(prefix) => {
                let end = self.ends.get_mut(&number);
                let is_last = end.is_some_and(|end| end.asked.remove(prefix));
                if is_last && role == Role::OwnSubscriber {
                    self.no_longer_want(prefix);
                }
            }
            Event::Ping { context, .. } => {
                // One that does not read is not answered.
                if let Some(end) = self.ends.get_mut(&number)
                    && end.has_room(context.len())
                    && let Stage::Open(traffic, _) = &mut end.stage
                {
                    traffic.pong(context, &mut end.out.bytes);
                }
            }
            Event::Pong(_) | Event::Consumed | Event::Unknown { .. } => {}
        }
        Ok(())
    }

    fn no_longer_want(&mut self, prefix: &[u8]) {
        if self.wanted.remove(prefix) {
            self.tell_sources(|traffic, out| traffic.cancel(prefix, out));
        }
    }

    fn tell_sources(&mut self, tell: impl Fn(&mut Traffic, &mut Vec<u8>)) {
        for end in self.ends.values_mut() {
            if let Stage::Open(traffic, Role::Source) = &mut end.stage {
                tell(traffic, &mut end.out.bytes);
            }
        }
    }

    /// The client publishes: to its peers, to the broker, and to itself.
    fn publish(&mut self, message: Message<'_>) {
        self.sequence += 1;
        let stamp = Stamp {
            publisher: self.secrets.publisher,
            sequence: self.sequence,
        };
        // The broker sends it back.
        self.duplicates.note_own(stamp);
        let header = &mut self.header;
        header.clear();
        for text in [
            PEER_STAMP,
            ":",
            stamp.write_text(&mut [0; Stamp::TEXT_BYTES_MAX]),
            "\n",
        ] {
            header.extend_from_slice(text.as_bytes());
        }
        let mut frames = message.frames();
        let first = frames.next().unwrap_or_default();
        let rest = frames.rest();
        let room = message.raw().len() + header.len() + 9;
        for end in self.ends.values_mut() {
            if !end.has_room(room) || !end.asked.match_frame(first) {
                continue;
            }
            let out = &mut end.out.bytes;
            match &mut end.stage {
                Stage::Open(traffic, Role::Sink) if end.has_header => {
                    traffic.frame(first, true, out);
                    traffic.frame(header, !rest.raw().is_empty(), out);
                    traffic.forward(rest, out);
                }
                Stage::Open(traffic, Role::Sink | Role::OwnSubscriber) => {
                    traffic.forward(message, out);
                }
                _ => {}
            }
        }
    }

    /// Handles a message for the client. Those that it has already received, from its peer or the broker, are dropped.
    fn receive(&mut self, number: usize, message: Message<'_>) {
        let Some(end) = self.ends.get(&number) else {
            return;
        };
        let (has_header, is_direct) = (end.has_header, end.is_direct);
        let mut frames = message.frames();
        let first = frames.next().unwrap_or_default();
        let header = has_header.then(|| frames.next().unwrap_or_default());
        let rest = frames.rest();
        if let Some(stamp) = header.and_then(stamp_of)
            && !self
                .duplicates
                .is_new(stamp, number, is_direct, first, rest)
        {
            return;
        }
        for end in self.ends.values_mut() {
            if !end.has_room(message.raw().len()) {
                continue;
            }
            let out = &mut end.out.bytes;
            match &mut end.stage {
                Stage::Open(traffic, Role::OwnSubscriber) if has_header => {
                    traffic.frame(first, !rest.raw().is_empty(), out);
                    traffic.forward(rest, out);
                }
                Stage::Open(traffic, Role::OwnSubscriber) => traffic.forward(message, out),
                _ => {}
            }
        }
    }

    /// A connection has ended.
    pub(super) fn closed(&mut self, number: usize) {
        self.duplicates.forget(number);
        if let Some(end) = self.ends.remove(&number)
            && let Stage::Open(_, Role::OwnSubscriber) = end.stage
        {
            for prefix in end.asked.iter() {
                self.no_longer_want(prefix);
            }
        }
    }

    /// Asks for a sign of life; false of a peer that gives none, or is not that far.
    pub(super) fn ping(&mut self, number: usize) -> bool {
        let Some(end) = self.ends.get_mut(&number) else {
            return false;
        };
        match &mut end.stage {
            Stage::Open(traffic, _) if traffic.version() == Version::V31 => {
                traffic.ping(0, b"", &mut end.out.bytes);
                true
            }
            _ => false,
        }
    }

    /// Whether the handshake is over.
    pub(super) fn is_open(&self, number: usize) -> bool {
        self.ends.get(&number).is_some_and(End::is_open)
    }

    /// Whether the client itself is connected.
    pub(super) fn has_client(&self) -> bool {
        self.ends.values().any(|end| end.is_own)
    }

    /// Connections to others than the client itself.
    pub(super) fn counts(&self) -> PeerCounts {
        let mut counts = PeerCounts::default();
        for end in self.ends.values() {
            match end.stage {
                Stage::Open(_, Role::Sink) if !end.asked.is_empty() => counts.subscribers += 1,
                Stage::Open(_, Role::Source) => counts.publishers += 1,
                _ => {}
            }
        }
        counts
    }

    /// Bytes that wait to be written.
    pub(super) fn unsent(&self, number: usize) -> &[u8] {
        self.ends.get(&number).map_or(&[], |end| end.out.unsent())
    }

    /// So many bytes are written.
    pub(super) fn wrote(&mut self, number: usize, bytes: usize) {
        if let Some(end) = self.ends.get_mut(&number) {
            end.out.consume(bytes);
        }
    }
}

fn announces_header(peer: &Metadata<'_>) -> bool {
    HEADERS
        .iter()
        .all(|(name, value)| peer.get(name) == Some(value))
}

fn limits() -> Limits {
    Limits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        ..Limits::default()
    }
}

/// Returns the stamp in the header frame of a peer's message.
fn stamp_of(header: &[u8]) -> Option<Stamp> {
    let mut lines = header.split(|byte| *byte == b'\n');
    let text = lines.find_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        line.strip_prefix(PEER_STAMP)?.strip_prefix(':')
    })?;
    text.parse().ok()
}
