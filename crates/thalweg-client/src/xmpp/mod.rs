//! XMPP as a lane: [`Xmpp`]. Publish-subscribe by XEP-0060 at `pubsub.DOMAIN`, acknowledgements and resumption by XEP-0198.
//!
//! A topic is a node. `a/+` and `a/#` are subscriptions with a depth, `$q/NAME` takes from a queue; other wildcards cannot be said.
//! A publish is answered, so it is at least once; what is received is acknowledged in the order in which it came. A
//! connection that is lost is gone on with, so that nothing of that is sent twice.

mod payload;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use thalweg_model::{Reliability, Span, Time, octets};
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, Jid, Limits, Management, Stanza,
    StanzaKind, TlsPolicy, Tree, ns,
};

use self::words::{
    attribute, inbound, is_redelivered, link_fault, node, node_of, read_items, refusal,
};
use crate::liveness::Liveness;
use crate::message::Retain;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening,
    Outbound, Output, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Transport,
    Welcome,
};

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// Publishes that wait for their answers.
const PENDING_MAX: usize = 1024;
/// Octets of XML beside a payload, which may be six times as long by escapes.
const STANZA_BYTES: usize = 64 << 10;

/// How the XMPP lane behaves.
#[derive(Clone, PartialEq, Eq)]
pub struct XmppSettings {
    /// Octets that cannot be guessed and that no other lane has.
    pub seed: [u8; 16],
    /// Largest payload that is sent and taken, in bytes.
    pub payload_bytes_max: usize,
}

impl Default for XmppSettings {
    fn default() -> Self {
        XmppSettings {
            seed: [0; 16],
            payload_bytes_max: 16 << 20,
        }
    }
}

/// A lane that speaks XMPP.
pub struct Xmpp {
    endpoint: Endpoint,
    settings: XmppSettings,
    side: Option<ClientSide>,
    tree: Tree,
    /// The address that we have; none until it is bound.
    jid: Option<Jid>,
    /// `pubsub.DOMAIN`.
    service: String,
    is_up: bool,
    is_managed: bool,
    /// The name by which the stream can be resumed.
    resume: Option<String>,
    /// The stream of the last connection.
    earlier: Option<(String, Management)>,
    connections: u64,
    /// The last of our requests.
    asked: u64,
    /// Publishes without an answer, by the numbers of their requests. They outlive a connection whose stream goes on.
    pending: BTreeMap<u64, crate::transport::MessageId>,
    was_full: bool,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    reads: Vec<RequestId>,
    /// Stanzas that came on this stream.
    arrived: u64,
    /// Stanzas that we have said we have handled.
    acknowledged: u64,
    /// Deliveries that are not settled.
    unsettled: BTreeSet<u64>,
    liveness: Liveness,
    opened: Time,
    /// When a probe left that is not answered yet.
    probed: Option<Time>,
}

struct Subscription {
    node: String,
    depth: &'static str,
    /// The broker's name for it, once it is there.
    subid: Option<String>,
}

/// Ids of our requests: a letter, and a number but for the last two.
const PUBLISH: char = 'p';
const SUBSCRIBE: char = 's';
const READ: char = 'r';
const PROBE: &str = "probe";
const ALIVE: &str = "alive";

impl Xmpp {
    /// A lane that has not connected yet.
    pub fn new(endpoint: Endpoint, settings: XmppSettings) -> Self {
        Xmpp {
            endpoint,
            settings,
            side: None,
            tree: Tree::default(),
            jid: None,
            service: String::new(),
            is_up: false,
            is_managed: false,
            resume: None,
            earlier: None,
            connections: 0,
            asked: 0,
            pending: BTreeMap::new(),
            was_full: false,
            subscriptions: BTreeMap::new(),
            reads: Vec::new(),
            arrived: 0,
            acknowledged: 0,
            unsettled: BTreeSet::new(),
            liveness: Liveness::default(),
            opened: Time::ZERO,
            probed: None,
        }
    }

    /// Returns the settings of a connection. A user may be written with its domain.
    fn client_settings(&self, opening: &Opening) -> ClientSettings {
        let user = opening.user.as_deref();
        let (local, domain) = match user.and_then(|user| user.split_once('@')) {
            Some((local, domain)) => (Some(local), domain),
            // An address is no domain: the server says its own.
            None if self.endpoint.host.parse::<IpAddr>().is_ok() => (user, ""),
            None => (user, &*self.endpoint.host),
        };
        let password = opening.password.as_deref().unwrap_or_default();
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(&self.settings.seed);
        nonce[16..].copy_from_slice(&self.connections.to_be_bytes());
        let is_resource = !opening.client_id.is_empty()
            && opening
                .client_id
                .bytes()
                .all(|octet| octet.is_ascii_graphic());
        ClientSettings {
            limits: Limits {
                stanza_bytes_max: STANZA_BYTES + self.settings.payload_bytes_max * 6,
                ..Limits::default()
            },
            framing: match self.endpoint.websocket {
                Some(_) => Framing::Elements,
                None => Framing::Document,
            },
            domain: domain.to_lowercase(),
            tls: match self.endpoint.is_encrypted {
                true => TlsPolicy::Direct,
                false => TlsPolicy::IfOffered,
            },
            credentials: match local {
                Some(local) => Credentials::Password {
                    user: local.into(),
                    password: String::from_utf8_lossy(password).into_owned(),
                },
                None => Credentials::Anonymous,
            },
            resource: is_resource.then(|| opening.client_id.clone()),
            nonce,
            management: true,
            acknowledges: false,
        }
    }

    /// Writes a request to `to` and returns nothing if there is no connection.
    fn ask(
        &mut self,
        kind: &str,
        to: Option<&str>,
        id: &str,
        out: &mut Output,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(side) = &mut self.side else { return };
        let attributes = [
            Some(("type", kind)),
            Some(("id", id)),
            to.map(|to| ("to", to)),
        ];
        let attributes: Vec<(&str, &str)> = attributes.into_iter().flatten().collect();
        side.put(StanzaKind::Iq, &attributes, &mut out.bytes, content);
    }

    fn ask_service(&mut self, kind: &str, id: &str, action: &str, out: &mut Output) {
        let service = self.service.clone();
        self.ask(kind, Some(&service), id, out, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'>{action}</pubsub>").as_bytes());
        });
    }

    fn ping(&mut self, id: &str, out: &mut Output) {
        self.ask("get", None, id, out, |out| {
            out.extend_from_slice(format!("<ping xmlns='{}'/>", ns::PING).as_bytes());
        });
    }

    fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match event {
            ClientEvent::Consumed | ClientEvent::Acknowledged => {}
            ClientEvent::StartTls => {
                return Err(LinkFault {
                    words: "the broker requires STARTTLS, which this client does not speak; use xmpps:// and the port for it"
                        .into(),
                    is_final: true,
                });
            }
            ClientEvent::Bound(jid) => {
                // The stream of before is lost, and what it has not answered.
                self.pending.clear();
                self.unsettled.clear();
                (self.arrived, self.acknowledged) = (0, 0);
                self.service = format!("pubsub.{}", jid.domain());
                self.is_managed = self.management().is_some();
                self.jid = Some(jid);
                self.be_up(false, now, events);
            }
            ClientEvent::Resumed => {
                self.is_managed = true;
                self.unsettled.clear();
                self.acknowledged = self.arrived;
                self.be_up(true, now, events);
            }
            ClientEvent::Enabled(resume) => self.resume = resume.map(Into::into),
            ClientEvent::Stanza(stanza) => self.on_stanza(stanza, now, out, events),
            ClientEvent::Closed(condition) => {
                let condition = condition.unwrap_or("no error");
                return Err(LinkFault {
                    words: format!("the broker ends the stream: {condition}"),
                    is_final: !self.is_up && condition != "system-shutdown",
                });
            }
        }
        Ok(())
    }

    fn be_up(&mut self, session_present: bool, now: Time, events: &mut dyn Events) {
        self.is_up = true;
        events.up(&Welcome {
            session_present,
            client_id: None,
        });
        events.round_trip(now.since(self.opened));
    }

    fn management(&self) -> Option<&Management> {
        self.side.as_ref().and_then(ClientSide::management)
    }

    fn on_stanza(
        &mut self,
        stanza: Stanza<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        if let Some(management) = self.management() {
            let more = management.received().wrapping_sub(self.arrived as u32);
            self.arrived += u64::from(more);
        }
        let is_from_service = stanza.from().as_deref() == Some(&*self.service);
        match stanza.kind {
            StanzaKind::Message if is_from_service => self.on_notification(stanza, events),
            StanzaKind::Iq if stanza.is_request() => {
                let id = stanza.id().unwrap_or_default();
                let from = stanza.from();
                self.ask("error", from.as_deref(), &id, out, |out| {
                    let errors = ns::STANZA_ERRORS;
                    let error = format!(
                        "<error type='cancel'><service-unavailable xmlns='{errors}'/></error>"
                    );
                    out.extend_from_slice(error.as_bytes());
                });
            }
            StanzaKind::Iq => self.on_answer(stanza, now, events),
            StanzaKind::Message | StanzaKind::Presence => {}
        }
    }

    fn on_answer(&mut self, stanza: Stanza<'_>, now: Time, events: &mut dyn Events) {
        let id = stanza.id().unwrap_or_default();
        match &*id {
            ALIVE => {
                self.liveness.answered();
                return;
            }
            PROBE => {
                if let Some(at) = self.probed.take() {
                    events.round_trip(now.since(at));
                }
                return;
            }
            _ => {}
        }
        let refusal = (stanza.type_() == "error").then(|| refusal(stanza));
        let mut letters = id.chars();
        let kind = letters.next();
        let Ok(number) = letters.as_str().parse::<u64>() else {
            return;
        };
        match kind {
            Some(PUBLISH) => {
                if let Some(id) = self.pending.remove(&number) {
                    let outcome = match refusal {
                        None => Settled::Acknowledged,
                        Some(refusal) => {
                            if matches!(refusal, Refusal::Busy(_)) {
                                events.pressed();
                            }
                            Settled::Refused(refusal)
                        }
                    };
                    events.settled(id, outcome);
                }
            }
            Some(SUBSCRIBE) => {
                let subscription = SubscriptionId(u32::try_from(number).unwrap_or(u32::MAX));
                let Some(known) = self.subscriptions.get_mut(&subscription) else {
                    return;
                };
                let granted = match self.is_managed {
                    true => Reliability::AtLeastOnce,
                    false => Reliability::AtMostOnce,
                };
                let outcome = match refusal {
                    Some(refusal) => {
                        self.subscriptions.remove(&subscription);
                        Err(refusal)
                    }
                    None => {
                        let answer = stanza.payload();
                        let answer = answer.and_then(|all| all.child("subscription", PUBSUB));
                        let subid = answer.and_then(|answer| answer.attribute("subid"));
                        known.subid = subid.map(Into::into);
                        Ok(granted)
                    }
                };
                events.subscribed(subscription, outcome);
            }
            Some(READ) => {
                let request = RequestId(number);
                let Some(place) = self.reads.iter().position(|waits| *waits == request) else {
                    return;
                };
                self.reads.swap_remove(place);
                if let Some(refusal) = refusal {
                    return events.answered(request, Err(refusal));
                }
                let items = stanza.payload().and_then(|all| all.child("items", PUBSUB));
                let mut is_answered = false;
                if let Some(items) = items {
                    read_items(items, PUBSUB, |address, payload, content_type| {
                        let value = Inbound {
                            is_last_value: true,
                            ..inbound(address, payload, content_type)
                        };
                        is_answered = true;
                        events.answered(request, Ok(Some(&value)));
                    });
                }
                if !is_answered {
                    events.answered(request, Ok(None));
                }
            }
            _ => {}
        }
    }

    fn on_notification(&mut self, stanza: Stanza<'_>, events: &mut dyn Events) {
        let event = stanza.element.child("event", EVENT);
        let Some(what) = event.and_then(|event| event.children().next()) else {
            return;
        };
        let delivery = self.is_managed.then_some(DeliveryId(self.arrived));
        let reliability = match delivery {
            Some(_) => Reliability::AtLeastOnce,
            None => Reliability::AtMostOnce,
        };
        let is_repeated = is_redelivered(stanza.element);
        let mut receive = |address: &str, payload: &[u8], content_type: Option<&str>| {
            let message = Inbound {
                delivery,
                reliability,
                repeated: is_repeated,
                ..inbound(address, payload, content_type)
            };
            events.received(&message);
        };
        let is_message = match what.name() {
            "items" => read_items(what, EVENT, &mut receive),
            "purge" | "delete" => {
                let mut address = String::new();
                let node = what.attribute("node").unwrap_or_default();
                octets::read(node.as_bytes(), &mut address);
                receive(&address, b"", None);
                true
            }
            _ => false,
        };
        if is_message && self.is_managed {
            self.unsettled.insert(self.arrived);
        }
    }

    /// Stanzas before which none is left to settle.
    fn handled(&self) -> u64 {
        self.unsettled
            .first()
            .map_or(self.arrived, |first| first - 1)
    }

    /// Acknowledges all stanzas before the first delivery that is not settled.
    fn acknowledge(&mut self, out: &mut Output) {
        let handled = self.handled();
        if handled > self.acknowledged
            && let Some(side) = &mut self.side
        {
            self.acknowledged = handled;
            side.acknowledge(handled as u32, &mut out.bytes);
        }
    }
}

impl Transport for Xmpp {
    fn protocol(&self) -> &'static str {
        "xmpp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliability_max: Reliability::AtLeastOnce,
            receive_max: Reliability::AtLeastOnce,
            wildcards: true,
            keeps_all: true,
            settles: true,
            lifespan: true,
            last_values: true,
            payload_bytes_max: self.settings.payload_bytes_max,
            ..Capabilities::STREAM
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.connections += 1;
        let mut side = ClientSide::new(self.client_settings(opening));
        if let Some((name, management)) = self.earlier.take() {
            self.resume = Some(name.clone());
            side.resume(&name, management);
        }
        side.open(&mut out.bytes);
        self.side = Some(side);
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
        let mut tree = std::mem::take(&mut self.tree);
        let outcome = loop {
            let Some(side) = &mut self.side else {
                break Ok(input.len());
            };
            let rest = input.get(consumed..).unwrap_or_default();
            match side.handle_input(rest, &mut tree, &mut out.bytes) {
                Ok(None) => break Ok(consumed),
                Ok(Some((len, event))) => {
                    self.liveness.heard(now);
                    consumed += len;
                    if let Err(fault) = self.on_event(event, now, out, events) {
                        break Err(fault);
                    }
                }
                Err(fault) => break Err(link_fault(&fault)),
            }
        };
        self.tree = tree;
        self.acknowledge(out);
        if self.was_full && self.pending.len() <= PENDING_MAX / 2 {
            self.was_full = false;
            events.room();
        }
        outcome
    }

    fn poll_timeout(&self) -> Time {
        match self.is_up {
            true => self.liveness.due(),
            false => Time::NEVER,
        }
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        _events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let words = "the broker has not answered a ping";
        if self.is_up && self.liveness.check(words, now)? {
            self.ping(ALIVE, out);
            self.liveness.asked(now);
        }
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if message.reliability == Reliability::ExactlyOnce {
            return Err(Refusal::Unsupported("XMPP delivers at least once at best"));
        }
        let limit = self.settings.payload_bytes_max;
        if message.payload.len() > limit {
            return Err(Refusal::TooLarge { limit });
        }
        let is_awaited = message.reliability != Reliability::AtMostOnce;
        // The stream goes on, and its copy of the request with it.
        if message.repeated && self.pending.values().any(|id| *id == message.id) {
            return Ok(Departure::Awaited);
        }
        if is_awaited && self.pending.len() >= PENDING_MAX {
            self.was_full = true;
            return Err(Refusal::Window);
        }
        self.asked += 1;
        let id = format!("{PUBLISH}{}", self.asked);
        let node = attribute("node", &node(message.address));
        let service = self.service.clone();
        self.ask("set", Some(&service), &id, out, |out| {
            if message.retain == Retain::Clear {
                let purge = format!("<pubsub xmlns='{OWNER}'><purge{node}/></pubsub>");
                return out.extend_from_slice(purge.as_bytes());
            }
            let head = format!("<pubsub xmlns='{PUBSUB}'><publish{node}><item>");
            out.extend_from_slice(head.as_bytes());
            payload::write(message.payload, message.content_type, out);
            out.extend_from_slice(b"</item></publish>");
            if message.lifespan != Span::FOREVER {
                let secs = message.lifespan.secs_ceil();
                let options = format!(
                    "<publish-options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#item_expire'><value>{secs}</value></field></x></publish-options>"
                );
                out.extend_from_slice(options.as_bytes());
            }
            out.extend_from_slice(b"</pubsub>");
        });
        self.liveness.sent(now);
        if !is_awaited {
            return Ok(Departure::Gone);
        }
        self.pending.insert(self.asked, message.id);
        Ok(Departure::Awaited)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if wish.reliability == Reliability::ExactlyOnce {
            return Err(Refusal::Unsupported("XMPP delivers at least once at best"));
        }
        let (node, depth) = node_of(wish.filter)?;
        let jid = self.jid.as_ref().map(Jid::as_str).unwrap_or_default();
        let (named, jid) = (attribute("node", &node), attribute("jid", jid));
        let action = format!(
            "<subscribe{named}{jid}/><options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#subscription_depth'><value>{depth}</value></field></x></options>"
        );
        let id = format!("{SUBSCRIBE}{}", wish.subscription.0);
        self.ask_service("set", &id, &action, out);
        let subscription = Subscription {
            node,
            depth,
            subid: None,
        };
        self.subscriptions.insert(wish.subscription, subscription);
        self.liveness.sent(now);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        let Some(ended) = self.subscriptions.remove(&subscription) else {
            return;
        };
        // Another one may be the same at the broker.
        let is_shared = self
            .subscriptions
            .values()
            .any(|other| (&other.node, other.depth) == (&ended.node, ended.depth));
        if is_shared {
            return;
        }
        let jid = self.jid.as_ref().map(Jid::as_str).unwrap_or_default();
        let (node, jid) = (attribute("node", &ended.node), attribute("jid", jid));
        let subid = ended.subid.map(|subid| attribute("subid", &subid));
        let action = format!("<unsubscribe{node}{jid}{}/>", subid.unwrap_or_default());
        self.ask_service("set", "unsubscribe", &action, out);
        self.liveness.sent(now);
    }

    fn settle(&mut self, DeliveryId(number): DeliveryId, now: Time, out: &mut Output) {
        if self.unsettled.remove(&number) {
            self.acknowledge(out);
            self.liveness.sent(now);
        }
    }

    fn request(
        &mut self,
        _: RequestId,
        _: &Outbound<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("XMPP has no requests to addresses"))
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        let action = format!("<items{}/>", attribute("node", &node(address)));
        self.ask_service("get", &format!("{READ}{}", request.0), &action, out);
        self.reads.push(request);
        self.liveness.sent(now);
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        self.reads.retain(|waiting| *waiting != request);
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if !self.is_up || self.probed.is_some() {
            return 0;
        }
        let before = out.bytes.len();
        self.ping(PROBE, out);
        self.probed = Some(now);
        out.bytes.len() - before
    }

    fn close(&mut self, _now: Time, out: &mut Output) {
        if let Some(side) = &mut self.side {
            side.close(&mut out.bytes);
        }
        // It is not to be gone on with.
        (self.resume, self.earlier) = (None, None);
    }

    fn closed(&mut self) {
        let management = self.side.take().and_then(|mut side| side.suspend());
        if let (Some(name), Some(mut management)) = (self.resume.take(), management) {
            // What is not settled comes again, and answers behind it that are known.
            self.arrived = self.handled();
            management.go_back(self.arrived as u32);
            self.earlier = Some((name, management));
        }
        if self.earlier.is_none() {
            self.pending.clear();
        }
        (self.is_up, self.is_managed, self.probed) = (false, false, None);
        self.subscriptions.clear();
        self.reads.clear();
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
