//! ZeroMQ as lanes: [`Zmtp`]. ZMTP 3.0 and 3.1.
//!
//! A socket of ZeroMQ publishes or subscribes, so one place has two lanes: a PUB and a SUB. Nothing is acknowledged, except
//! that PONG tells that what was said before PING has been heard.

mod prefixes;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thalweg_model::{Address, Reliability, Span, Time, octets};
use thalweg_zmtp::{
    Announcement, ClientSide, Event, Gathered, HandshakeEvent, Limits, Message, PeerFault,
    SocketType, Traffic, Version,
};

pub(crate) use self::prefixes::Prefixes;
pub use self::settings::{CurveKeys, ZmtpSettings};
use crate::liveness::Liveness;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening,
    Outbound, Output, Properties, Refusal, RequestId, SubscribeWish, SubscriptionId, Transport,
    Welcome,
};

/// A publisher to which no subscription has come counts as connected after so long.
const ASKED_WITHIN: Span = Span::from_secs(1);
/// Status code of RFC 27: what was refused now may be allowed later.
const LATER: &[u8] = b"300";
/// Contexts of PING: a probe, a sign of life, and the begin of that of a subscription.
const PROBE: &[u8] = b"p";
const ALIVE: &[u8] = b"a";
const SUBSCRIBED: u8 = b's';

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpSocket {
    /// What is published leaves by it.
    Pub,
    /// What is subscribed to comes by it.
    Sub,
}

/// A lane that speaks ZMTP.
pub struct Zmtp {
    endpoint: Endpoint,
    settings: ZmtpSettings,
    socket: ZmtpSocket,
    stage: Stage,
    liveness: Liveness,
    opened: Time,
    /// The engine was told that we are in.
    is_up: bool,
    /// A publisher says then that it is up, whether or not it was asked for anything.
    up_by: Time,
    /// Of a SUB: what we want. Of a PUB: what the peer wants.
    prefixes: Prefixes,
    subscriptions: BTreeMap<SubscriptionId, Vec<Vec<u8>>>,
    /// Subscriptions at a peer that answers no PING, of which the engine has to be told.
    told: Vec<SubscriptionId>,
    /// When a probe left that is not answered yet.
    probed: Option<Time>,
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
            endpoint,
            settings,
            socket,
            stage: Stage::Closed,
            liveness: Liveness::default(),
            opened: Time::ZERO,
            is_up: false,
            up_by: Time::NEVER,
            prefixes: Prefixes::default(),
            subscriptions: BTreeMap::new(),
            told: Vec::new(),
            probed: None,
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

impl Transport for Zmtp {
    fn protocol(&self) -> &'static str {
        "zmtp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publishes: self.socket == ZmtpSocket::Pub,
            subscribes: self.socket == ZmtpSocket::Sub,
            // What is too much is filtered out by the engine.
            wildcards: true,
            keeps_all: true,
            payload_bytes_max: self.settings.payload_bytes_max,
            ..Capabilities::STREAM
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
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
        side.greet(&mut out.bytes);
        self.stage = Stage::Handshake(Box::new(side));
        self.liveness = Liveness::begin(opening.keep_alive, now);
        self.opened = now;
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        let mut consumed = 0;
        let mut gathered = Gathered::default();
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let step = match &mut self.stage {
                Stage::Closed => return Ok(input.len()),
                Stage::Handshake(side) => match side.handle_input(rest, &mut out.bytes) {
                    Ok(Some((_, HandshakeEvent::Error(reason)))) => return Err(refused(reason)),
                    Ok(Some((len, HandshakeEvent::Peer(_)))) => {
                        if let Some(traffic) = side.traffic() {
                            self.begin(traffic, now, events);
                        }
                        Some(len)
                    }
                    Ok(step) => step.map(|(len, _)| len),
                    Err(fault) => return Err(self.fault(&fault)),
                },
                Stage::Open(traffic) => match traffic.handle_input(rest, &mut gathered) {
                    Ok(Some((len, event))) => {
                        self.on_event(event, now, out, events);
                        Some(len)
                    }
                    Ok(None) => None,
                    Err(fault) => return Err(self.fault(&fault)),
                },
            };
            let Some(len) = step else { break };
            self.liveness.heard(now);
            consumed += len;
        }
        Ok(consumed)
    }

    fn poll_timeout(&self) -> Time {
        let Stage::Open(traffic) = &self.stage else {
            return Time::NEVER;
        };
        if !self.told.is_empty() {
            return Time::ZERO;
        }
        match traffic.version() {
            Version::V30 => self.up_by,
            Version::V31 => self.up_by.min(self.liveness.due()),
        }
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let Stage::Open(traffic) = &mut self.stage else {
            return Ok(());
        };
        let has_answers = traffic.version() == Version::V31;
        if has_answers && self.liveness.check("the peer has not answered PING", now)? {
            traffic.ping(0, ALIVE, &mut out.bytes);
            self.liveness.asked(now);
        }
        if self.up_by <= now {
            self.be_up(now, events);
        }
        for subscription in std::mem::take(&mut self.told) {
            events.subscribed(subscription, Ok(Reliability::AtMostOnce));
        }
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        _now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        let Stage::Open(traffic) = &mut self.stage else {
            return Err(Refusal::NotConnected);
        };
        if self.socket != ZmtpSocket::Pub {
            return Err(Refusal::Unsupported("a SUB socket publishes nothing"));
        }
        if message.reliability != Reliability::AtMostOnce {
            return Err(Refusal::Unsupported("ZeroMQ delivers at most once"));
        }
        let limit = self.settings.payload_bytes_max;
        if message.payload.len() > limit {
            return Err(Refusal::TooLarge { limit });
        }
        let frame = &mut self.scratch.frame;
        frame.clear();
        octets::write(message.address, frame);
        // As every PUB does: what the peer has not asked for is not sent.
        if self.prefixes.match_frame(frame) {
            traffic.frame(frame, true, &mut out.bytes);
            traffic.frame(message.payload, false, &mut out.bytes);
        }
        Ok(Departure::Gone)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let wanted = prefixes::of_filter(wish.filter)?;
        self.unsubscribe(wish.subscription, now, out);
        let Stage::Open(traffic) = &mut self.stage else {
            return Err(Refusal::NotConnected);
        };
        if self.socket != ZmtpSocket::Sub {
            return Err(Refusal::Unsupported("a PUB socket subscribes to nothing"));
        }
        for prefix in &wanted {
            if self.prefixes.add(prefix) {
                traffic.subscribe(prefix, &mut out.bytes);
            }
        }
        match traffic.version() {
            Version::V30 => self.told.push(wish.subscription),
            Version::V31 => {
                let [a, b, c, d] = wish.subscription.0.to_be_bytes();
                traffic.ping(0, &[SUBSCRIBED, a, b, c, d], &mut out.bytes);
            }
        }
        self.subscriptions.insert(wish.subscription, wanted);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, _now: Time, out: &mut Output) {
        let (Some(prefixes), Stage::Open(traffic)) =
            (self.subscriptions.remove(&subscription), &mut self.stage)
        else {
            return;
        };
        self.told.retain(|waiting| *waiting != subscription);
        for prefix in prefixes {
            if self.prefixes.remove(&prefix) {
                traffic.cancel(&prefix, &mut out.bytes);
            }
        }
    }

    fn settle(&mut self, _: DeliveryId, _: Time, _: &mut Output) {}

    fn request(
        &mut self,
        _: RequestId,
        _: &Outbound<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("PUB and SUB have no requests"))
    }

    fn read(&mut self, _: RequestId, _: &str, _: Time, _: &mut Output) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("ZeroMQ has no last values"))
    }

    fn forget(&mut self, _: RequestId) {}

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        let Stage::Open(traffic) = &mut self.stage else {
            return 0;
        };
        if self.probed.is_some() {
            return 0;
        }
        let before = out.bytes.len();
        traffic.ping(0, PROBE, &mut out.bytes);
        let bytes = out.bytes.len() - before;
        self.probed = (bytes > 0).then_some(now);
        bytes
    }

    /// ZMTP has no goodbye.
    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.stage = Stage::Closed;
        (self.is_up, self.up_by, self.probed) = (false, Time::NEVER, None);
        self.prefixes.clear();
        self.subscriptions.clear();
        self.told.clear();
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Zmtp {
    fn begin(&mut self, traffic: Traffic, now: Time, events: &mut dyn Events) {
        self.stage = Stage::Open(Box::new(traffic));
        match self.socket {
            // What is published before the peer has asked for it is lost.
            ZmtpSocket::Pub => self.up_by = now + ASKED_WITHIN,
            ZmtpSocket::Sub => self.be_up(now, events),
        }
    }

    fn be_up(&mut self, now: Time, events: &mut dyn Events) {
        self.up_by = Time::NEVER;
        if !std::mem::replace(&mut self.is_up, true) {
            events.up(&Welcome::default());
            events.round_trip(now.since(self.opened));
        }
    }

    fn on_event(&mut self, event: Event<'_>, now: Time, out: &mut Output, events: &mut dyn Events) {
        match event {
            Event::Message(message) if self.socket == ZmtpSocket::Sub => {
                self.on_message(message, events);
            }
            Event::Subscribe(prefix) => {
                self.prefixes.add(prefix);
                self.be_up(now, events);
            }
            Event::Cancel(prefix) => _ = self.prefixes.remove(prefix),
            Event::Ping { context, .. } => {
                if let Stage::Open(traffic) = &mut self.stage {
                    traffic.pong(context, &mut out.bytes);
                }
            }
            Event::Pong(context) => self.on_pong(context, now, events),
            Event::Message(_) | Event::Consumed | Event::Unknown { .. } => {}
        }
    }

    fn on_pong(&mut self, context: &[u8], now: Time, events: &mut dyn Events) {
        match context {
            ALIVE => _ = self.liveness.answered(),
            PROBE => {
                if let Some(at) = self.probed.take() {
                    events.round_trip(now.since(at));
                }
            }
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
        events.received(&Inbound {
            subscription: None,
            delivery: None,
            address,
            payload: body,
            reliability: Reliability::AtMostOnce,
            is_last_value: false,
            repeated: false,
            content_type: None,
            properties: Properties::default(),
            reply_to: None,
            correlation: None,
            stamp: None,
            lifespan: Span::FOREVER,
        });
    }

    fn fault(&self, fault: &PeerFault) -> LinkFault {
        let is_mechanism = *fault == PeerFault::MECHANISM;
        LinkFault {
            words: match is_mechanism {
                true => "the peer wants another way to log in; Thalweg wants keys, a user and a password, or none where nobody needs one".to_owned(),
                false => fault.to_string(),
            },
            is_final: is_mechanism,
        }
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
