//! ZeroMQ as lanes: [`Zmtp`]. ZMTP 3.0 and 3.1.
//!
//! A socket of ZeroMQ publishes or subscribes, so one endpoint has two lanes: a PUB and a SUB. Nothing is acknowledged,
//! except that PONG confirms everything sent before PING.

mod peer;
mod prefixes;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thalweg_model::{Address, Reliability, Span, Time, octets};
use thalweg_zmtp::{
    Announcement, ClientSide, Event, Gathered, HandshakeEvent, Limits, Message, PeerFault,
    SocketType, Traffic, Version,
};

pub use self::peer::PeerSettings;
pub(crate) use self::prefixes::Prefixes;
pub use self::settings::{CurveKeys, ZmtpSettings};
use crate::plugin::{Asked, Connection, Cx, Plugin, PluginSettings, Step, has_connection};
use crate::transport::{
    Capabilities, Departure, Endpoint, Events, Inbound, LinkFault, Opening, Outbound, Refusal,
    SubscribeWish, SubscriptionId, Transport, Welcome,
};
use crate::url::BrokerUrl;

/// The two lanes to a broker.
pub(crate) fn lanes(url: &BrokerUrl, settings: &PluginSettings) -> Vec<Box<dyn Transport>> {
    let pair = Zmtp::pair(&url.endpoint(), &settings.get());
    pair.map(|lane| Box::new(lane) as _).into()
}

/// A publisher to which no subscription has come counts as connected after so long.
const ASKED_WITHIN: Span = Span::from_secs(1);
/// Status code of RFC 27: what was refused now may be allowed later.
const LATER: &[u8] = b"300";
/// Contexts of PING: of one that is only to be answered, and the begin of that of a subscription.
const ALIVE: &[u8] = b"a";
const SUBSCRIBED: u8 = b's';

/// Role of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpSocket {
    /// Sends the client's publishes.
    Pub,
    /// Receives messages of subscriptions.
    Sub,
}

/// A lane that speaks ZMTP.
pub struct Zmtp {
    conn: Connection,
    settings: ZmtpSettings,
    socket: ZmtpSocket,
    stage: Stage,
    /// A publisher says then that it is up, whether or not it was asked for anything.
    up_by: Time,
    /// Of a SUB: the client's subscriptions. Of a PUB: the peer's.
    prefixes: Prefixes,
    subscriptions: BTreeMap<SubscriptionId, Vec<Vec<u8>>>,
    /// Subscriptions at a peer that does not answer PING, to be confirmed to the engine.
    told: Vec<SubscriptionId>,
    /// Connections so far, counted by twos.
    connections: u64,
    scratch: Scratch,
}

/// Buffers that are used again.
#[derive(Debug, Default)]
struct Scratch {
    address: String,
    frame: Vec<u8>,
    payload: Vec<u8>,
}

enum Stage {
    Closed,
    Handshake(Box<ClientSide>),
    Open(Box<Traffic>),
}

impl Zmtp {
    /// A lane that has not connected yet.
    pub fn new(endpoint: Endpoint, socket: ZmtpSocket, settings: ZmtpSettings) -> Self {
        Zmtp {
            conn: Connection::new(endpoint, settings.payload_bytes_max),
            settings,
            socket,
            stage: Stage::Closed,
            up_by: Time::NEVER,
            prefixes: Prefixes::default(),
            subscriptions: BTreeMap::new(),
            told: Vec::new(),
            connections: 0,
            scratch: Scratch::default(),
        }
    }

    /// The two lanes to one place.
    pub fn pair(endpoint: &Endpoint, settings: &ZmtpSettings) -> [Self; 2] {
        [ZmtpSocket::Pub, ZmtpSocket::Sub]
            .map(|socket| Zmtp::new(endpoint.clone(), socket, settings.clone()))
    }
}

impl Plugin for Zmtp {
    const PROTOCOL: &'static str = "zmtp";
    const PUBLISHES: Reliability = Reliability::AtMostOnce;
    type Scratch = Gathered;

    has_connection!();

    fn offers(&self) -> Capabilities {
        Capabilities {
            publishes: self.socket == ZmtpSocket::Pub,
            subscribes: self.socket == ZmtpSocket::Sub,
            // The engine filters out messages that match only the prefix.
            wildcards: true,
            keeps_all: true,
            ..Capabilities::STREAM
        }
    }

    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step {
        // The two lanes to a place have the same keys.
        self.connections += 2;
        let number = self.connections + u64::from(self.socket == ZmtpSocket::Sub);
        let mechanism = self.settings.mechanism(opening, number);
        let socket_type = match self.socket {
            ZmtpSocket::Pub => SocketType::Pub,
            ZmtpSocket::Sub => SocketType::Sub,
        };
        let limits = Limits {
            message_bytes_max: self.settings.message_bytes_max as u64,
            ..Limits::default()
        };
        let side = ClientSide::new(limits, mechanism, &Announcement::of(socket_type));
        side.greet(out);
        self.stage = Stage::Handshake(Box::new(side));
        Ok(())
    }

    fn step(
        &mut self,
        input: &[u8],
        gathered: &mut Gathered,
        cx: &mut Cx<'_>,
    ) -> Step<Option<usize>> {
        match &mut self.stage {
            Stage::Closed => Ok(Some(input.len()).filter(|len| *len > 0)),
            Stage::Handshake(side) => match side.handle_input(input, cx.out) {
                Ok(Some((_, HandshakeEvent::Error(reason)))) => Err(refused(reason)),
                Ok(Some((len, HandshakeEvent::Peer(_)))) => {
                    if let Some(traffic) = side.traffic() {
                        self.begin(traffic, cx.events);
                    }
                    Ok(Some(len))
                }
                Ok(step) => Ok(step.map(|(len, _)| len)),
                Err(fault) => Err(link_fault(&fault)),
            },
            Stage::Open(traffic) => match traffic.handle_input(input, gathered) {
                Ok(Some((len, event))) => {
                    self.on_event(event, cx);
                    Ok(Some(len))
                }
                Ok(None) => Ok(None),
                Err(fault) => Err(link_fault(&fault)),
            },
        }
    }

    fn next_timeout(&self) -> Time {
        match self.told.is_empty() {
            true => self.up_by,
            false => Time::ZERO,
        }
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Step {
        if self.up_by <= self.conn.now() {
            self.be_up(cx.events);
        }
        for subscription in std::mem::take(&mut self.told) {
            cx.events
                .subscribed(subscription, Ok(Reliability::AtMostOnce));
        }
        Ok(())
    }

    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        let Stage::Open(traffic) = &mut self.stage else {
            return Err(Refusal::NotConnected);
        };
        if self.socket != ZmtpSocket::Pub {
            return Err(Refusal::Unsupported("a SUB socket publishes nothing"));
        }
        let frame = &mut self.scratch.frame;
        frame.clear();
        octets::write(message.address, frame);
        // As every PUB does: what the peer has not asked for is not sent.
        if self.prefixes.match_frame(frame) {
            traffic.frame(frame, true, out);
            traffic.frame(message.payload, false, out);
        }
        Ok(Departure::Gone)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        let wanted = prefixes::of_filter(wish.filter)?;
        self.end_subscription(wish.subscription, out);
        let Stage::Open(traffic) = &mut self.stage else {
            return Err(Refusal::NotConnected);
        };
        if self.socket != ZmtpSocket::Sub {
            return Err(Refusal::Unsupported("a PUB socket subscribes to nothing"));
        }
        for prefix in &wanted {
            if self.prefixes.add(prefix) {
                traffic.subscribe(prefix, out);
            }
        }
        match traffic.version() {
            Version::V30 => self.told.push(wish.subscription),
            Version::V31 => {
                let [a, b, c, d] = wish.subscription.0.to_be_bytes();
                traffic.ping(0, &[SUBSCRIBED, a, b, c, d], out);
            }
        }
        self.subscriptions.insert(wish.subscription, wanted);
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        let (Some(prefixes), Stage::Open(traffic)) =
            (self.subscriptions.remove(&id), &mut self.stage)
        else {
            return;
        };
        self.told.retain(|waiting| *waiting != id);
        for prefix in prefixes {
            if self.prefixes.remove(&prefix) {
                traffic.cancel(&prefix, out);
            }
        }
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        if let Stage::Open(traffic) = &mut self.stage {
            traffic.ping(0, ALIVE, out);
        }
    }

    fn reset(&mut self) {
        self.stage = Stage::Closed;
        self.up_by = Time::NEVER;
        self.prefixes.clear();
        self.subscriptions.clear();
        self.told.clear();
    }
}

impl Zmtp {
    fn begin(&mut self, traffic: Traffic, events: &mut dyn Events) {
        if traffic.version() == Version::V30 {
            // It does not answer PING.
            self.conn.liveness().set_keep_alive(Span::ZERO);
        }
        self.stage = Stage::Open(Box::new(traffic));
        match self.socket {
            // Messages published before the peer has subscribed are lost.
            ZmtpSocket::Pub => self.up_by = self.conn.now() + ASKED_WITHIN,
            ZmtpSocket::Sub => self.be_up(events),
        }
    }

    fn be_up(&mut self, events: &mut dyn Events) {
        self.up_by = Time::NEVER;
        if !self.conn.is_up() {
            self.conn.be_up(&Welcome::default(), events);
            events.round_trip(self.conn.age());
        }
    }

    fn on_event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            Event::Message(message) if self.socket == ZmtpSocket::Sub => {
                self.on_message(message, cx.events);
            }
            Event::Subscribe(prefix) => {
                self.prefixes.add(prefix);
                self.be_up(cx.events);
            }
            Event::Cancel(prefix) => _ = self.prefixes.remove(prefix),
            Event::Ping { context, .. } => {
                if let Stage::Open(traffic) = &mut self.stage {
                    traffic.pong(context, cx.out);
                }
            }
            Event::Pong(context) => self.on_pong(context, cx.events),
            Event::Message(_) | Event::Consumed | Event::Unknown { .. } => {}
        }
    }

    fn on_pong(&mut self, context: &[u8], events: &mut dyn Events) {
        match context {
            ALIVE => _ = self.conn.answered(events),
            [SUBSCRIBED, id @ ..] => {
                let id = id.try_into().map(u32::from_be_bytes).map(SubscriptionId);
                if let Ok(id) = id
                    && self.subscriptions.contains_key(&id)
                {
                    events.subscribed(id, Ok(Reliability::AtMostOnce));
                }
            }
            _ => {}
        }
    }

    /// The first frame is the address; of a message of one frame its beginning is.
    fn on_message(&mut self, message: Message<'_>, events: &mut dyn Events) {
        let Scratch {
            address, payload, ..
        } = &mut self.scratch;
        let mut frames = message.frames();
        let mut name = frames.next().unwrap_or_default();
        let first = frames.next();
        let mut body = first.unwrap_or_default();
        if first.is_none() {
            let is_end = |byte: &u8| self.settings.separators.contains(byte);
            if let Some((before, [_, behind @ ..])) =
                name.iter().position(is_end).map(|at| name.split_at(at))
            {
                (name, body) = (before, behind);
            }
        } else if let Some(second) = frames.next() {
            payload.clear();
            for frame in [body, second].into_iter().chain(frames) {
                payload.extend_from_slice(frame);
            }
            body = payload;
        }
        let address = match octets::as_it_is(name) {
            Some(plain) => plain,
            None => {
                address.clear();
                octets::read(name, address);
                address
            }
        };
        if Address::check(address).is_err() {
            return;
        }
        events.received(&Inbound::new(address, body));
    }
}

fn link_fault(fault: &PeerFault) -> LinkFault {
    match *fault == PeerFault::MECHANISM {
        true => LinkFault::permanent(
            "the peer wants another way to log in; Thalweg wants keys, a user and a password, or none where nobody needs one",
        ),
        false => LinkFault::temporary(fault),
    }
}

/// The peer does not let us in.
fn refused(reason: &[u8]) -> LinkFault {
    let code = reason.escape_ascii();
    LinkFault {
        words: format!("not authorized: the peer refuses user name or password, status {code}"),
        is_final: reason != LATER,
    }
}
