//! XMPP as a lane: [`Xmpp`]. Publish-subscribe by XEP-0060 at `pubsub.DOMAIN`, acknowledgements and resumption by XEP-0198.
//!
//! A topic is a node. `a/+` and `a/#` are subscriptions with a depth, `$q/NAME` takes from a queue; other wildcards cannot be said.
//! A publish is answered, so it is at least once; what is received is acknowledged in the order in which it came. A
//! connection that is lost is gone on with, so that nothing of that is sent twice.

mod mapping;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use thalweg_model::{Reliability, Span, octets};
use thalweg_xmpp::payload::put_payload;
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, Jid, Limits, Management, Stanza,
    StanzaKind, TlsPolicy, Tree, ns,
};

use self::mapping::{attribute, is_redelivered, link_fault, node, node_of, read_items, refusal};
use crate::builder::random;
use crate::message::Retain;
use crate::plugin::{
    Asked, Connection, Cx, Pending, Plugin, PluginSettings, Step, Window, has_connection,
};
use crate::transport::{
    Capabilities, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening, Outbound,
    Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Transport, Welcome,
};
use crate::url::BrokerUrl;

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// Publishes that wait for their answers.
const PENDING_MAX: usize = 1024;
/// Octets of XML beside a payload, which may be six times as long by escapes.
const STANZA_BYTES: usize = 64 << 10;

/// Settings of the XMPP lane.
#[derive(Clone, PartialEq, Eq)]
pub struct XmppSettings {
    /// Octets that cannot be guessed and that no other lane has.
    pub seed: [u8; 16],
    /// Largest payload that is sent and taken, in bytes.
    pub payload_bytes_max: usize,
    /// A connection to `xmpp://` on which the broker offers no STARTTLS is given up. Otherwise it is used if it is offered.
    pub tls_required: bool,
}

impl Default for XmppSettings {
    fn default() -> Self {
        XmppSettings {
            seed: [0; 16],
            payload_bytes_max: 16 << 20,
            tls_required: false,
        }
    }
}

/// The lane to a broker; none if the system gives no random numbers.
pub(crate) fn lanes(url: &BrokerUrl, plugins: &PluginSettings) -> Vec<Box<dyn Transport>> {
    let Ok(random) = random() else {
        return Vec::new();
    };
    let mut settings: XmppSettings = plugins.get();
    settings.seed.copy_from_slice(&random[..16]);
    settings.tls_required = plugins.has_tls_files;
    vec![Box::new(Xmpp::new(url.endpoint(), settings))]
}

/// A lane that speaks XMPP.
pub struct Xmpp {
    conn: Connection,
    settings: XmppSettings,
    side: Option<ClientSide>,
    tree: Tree,
    /// The address that we have; none until it is bound.
    jid: Option<Jid>,
    /// `pubsub.DOMAIN`.
    service: String,
    /// The handshake of TLS is going on within the stream.
    is_securing: bool,
    is_managed: bool,
    /// The name by which the stream can be resumed.
    resume: Option<String>,
    /// The stream of the last connection.
    earlier: Option<(String, Management)>,
    connections: u64,
    /// Publishes without an answer. They outlive a connection whose stream goes on.
    window: Window,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Reads, by the ids of their stanzas.
    reads: Pending<String>,
    /// Stanzas that came on this stream.
    arrived: u64,
    /// Stanzas that we have said we have handled.
    acknowledged: u64,
    /// Deliveries that are not settled.
    unsettled: BTreeSet<u64>,
}

struct Subscription {
    node: String,
    depth: &'static str,
    /// The broker's name for it, once it is there.
    subid: Option<String>,
}

/// Ids of our requests: a letter and a number, or a word.
const PUBLISH: char = 'p';
const SUBSCRIBE: char = 's';
const READ: char = 'r';
/// The id of a publish without an answer.
const UNAWAITED: &str = "publish";
const PING: &str = "ping";

impl Xmpp {
    /// A lane that has not connected yet.
    pub fn new(endpoint: Endpoint, settings: XmppSettings) -> Self {
        Xmpp {
            conn: Connection::new(endpoint, settings.payload_bytes_max),
            settings,
            side: None,
            tree: Tree::default(),
            jid: None,
            service: String::new(),
            is_securing: false,
            is_managed: false,
            resume: None,
            earlier: None,
            connections: 0,
            window: Window::new(PENDING_MAX),
            subscriptions: BTreeMap::new(),
            reads: Pending::default(),
            arrived: 0,
            acknowledged: 0,
            unsettled: BTreeSet::new(),
        }
    }

    /// Returns the settings of a connection. A user may be written with its domain, or be a domain alone, at which it is anonymous.
    fn client_settings(&self, opening: &Opening) -> ClientSettings {
        let endpoint = self.conn.endpoint();
        let user = opening.user.as_deref();
        let (local, domain) = match user.and_then(|user| user.split_once('@')) {
            Some((local, domain)) => (Some(local).filter(|local| !local.is_empty()), domain),
            // An address is no domain: the server says its own.
            None if endpoint.host.parse::<IpAddr>().is_ok() => (user, ""),
            None => (user, &*endpoint.host),
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
            framing: match endpoint.websocket {
                Some(_) => Framing::Elements,
                None => Framing::Document,
            },
            domain: domain.to_lowercase(),
            tls: match (endpoint.is_encrypted, &endpoint.websocket) {
                (true, _) => TlsPolicy::Direct,
                (false, None) if self.settings.tls_required => TlsPolicy::Required,
                (false, _) => TlsPolicy::IfOffered,
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

    /// Writes a request to `to`; nothing if there is no stream.
    fn request(
        &mut self,
        (kind, id, to): (&str, &str, Option<&str>),
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(side) = &mut self.side else { return };
        let attributes = [("type", kind), ("id", id), ("to", to.unwrap_or_default())];
        side.put(StanzaKind::Iq, &attributes, out, content);
    }

    fn request_service(&mut self, kind: &str, id: &str, action: &str, out: &mut Vec<u8>) {
        let service = self.service.clone();
        self.request((kind, id, Some(&service)), out, |out| {
            out.extend_from_slice(format!("<pubsub xmlns='{PUBSUB}'>{action}</pubsub>").as_bytes());
        });
    }

    fn on_event(&mut self, event: ClientEvent<'_>, cx: &mut Cx<'_>) -> Step {
        match event {
            ClientEvent::Consumed | ClientEvent::Acknowledged => {}
            ClientEvent::StartTls => self.is_securing = true,
            ClientEvent::Bound(jid) => {
                // The earlier stream is lost, and with it the answers that it owed.
                self.window.restart(1);
                self.unsettled.clear();
                (self.arrived, self.acknowledged) = (0, 0);
                self.service = format!("pubsub.{}", jid.domain());
                self.is_managed = self.management().is_some();
                self.jid = Some(jid);
                self.be_up(false, cx.events);
            }
            ClientEvent::Resumed => {
                self.is_managed = true;
                self.unsettled.clear();
                self.acknowledged = self.arrived;
                self.be_up(true, cx.events);
            }
            ClientEvent::Enabled(resume) => self.resume = resume.map(Into::into),
            ClientEvent::Stanza(stanza) => self.on_stanza(stanza, cx),
            ClientEvent::Closed(condition) => {
                let condition = condition.unwrap_or("no error");
                return Err(LinkFault {
                    words: format!("the broker ends the stream: {condition}"),
                    is_final: !self.conn.is_up() && condition != "system-shutdown",
                });
            }
        }
        Ok(())
    }

    fn be_up(&mut self, session_present: bool, events: &mut dyn Events) {
        let welcome = Welcome {
            session_present,
            client_id: None,
        };
        self.conn.be_up(&welcome, events);
        events.round_trip(self.conn.age());
    }

    fn management(&self) -> Option<&Management> {
        self.side.as_ref().and_then(ClientSide::management)
    }

    fn on_stanza(&mut self, stanza: Stanza<'_>, cx: &mut Cx<'_>) {
        if let Some(management) = self.management() {
            let more = management.received().wrapping_sub(self.arrived as u32);
            self.arrived += u64::from(more);
        }
        let is_from_service = stanza.from().as_deref() == Some(&*self.service);
        match stanza.kind {
            StanzaKind::Message if is_from_service => self.on_notification(stanza, cx.events),
            StanzaKind::Iq if stanza.is_request() => {
                let id = stanza.id().unwrap_or_default();
                let from = stanza.from();
                self.request(("error", &id, from.as_deref()), cx.out, |out| {
                    let errors = ns::STANZA_ERRORS;
                    let error = format!(
                        "<error type='cancel'><service-unavailable xmlns='{errors}'/></error>"
                    );
                    out.extend_from_slice(error.as_bytes());
                });
            }
            StanzaKind::Iq => self.on_answer(stanza, cx.events),
            StanzaKind::Message | StanzaKind::Presence => {}
        }
    }

    fn on_answer(&mut self, stanza: Stanza<'_>, events: &mut dyn Events) {
        let id = stanza.id().unwrap_or_default();
        if id == PING {
            self.conn.answered(events);
            return;
        }
        let refusal = (stanza.type_() == "error").then(|| refusal(stanza));
        if let Some(request) = self.reads.take(&*id) {
            return on_value(stanza, request, refusal, events);
        }
        let mut letters = id.chars();
        let kind = letters.next();
        let Ok(number) = letters.as_str().parse::<u64>() else {
            return;
        };
        match kind {
            Some(PUBLISH) => {
                if let Some(id) = self.window.take(number) {
                    if let Some(Refusal::Busy(_)) = refusal {
                        events.pressed();
                    }
                    events.settled(id, refusal.map_or(Settled::Acknowledged, Settled::Refused));
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
                if refusal.is_some() {
                    self.subscriptions.remove(&subscription);
                } else {
                    let answer = stanza.payload();
                    let answer = answer.and_then(|all| all.child("subscription", PUBSUB));
                    let subid = answer.and_then(|answer| answer.attribute("subid"));
                    known.subid = subid.map(Into::into);
                }
                events.subscribed(subscription, refusal.map_or(Ok(granted), Err));
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
                content_type,
                ..Inbound::new(address, payload)
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
    fn acknowledge_handled(&mut self, out: &mut Vec<u8>) {
        let handled = self.handled();
        if handled > self.acknowledged
            && let Some(side) = &mut self.side
        {
            self.acknowledged = handled;
            side.acknowledge(handled as u32, out);
        }
    }
}

/// Result of a read of a last value.
fn on_value(
    stanza: Stanza<'_>,
    request: RequestId,
    refusal: Option<Refusal>,
    events: &mut dyn Events,
) {
    if let Some(refusal) = refusal {
        return events.answered(request, Err(refusal));
    }
    let items = stanza.payload().and_then(|all| all.child("items", PUBSUB));
    let is_answered = items.is_some_and(|items| {
        read_items(items, PUBSUB, |address, payload, content_type| {
            let value = Inbound {
                is_last_value: true,
                content_type,
                ..Inbound::new(address, payload)
            };
            events.answered(request, Ok(Some(&value)));
        })
    });
    if !is_answered {
        events.answered(request, Ok(None));
    }
}

impl Plugin for Xmpp {
    const PROTOCOL: &'static str = "xmpp";
    const SUBSCRIBES: Reliability = Reliability::AtLeastOnce;
    type Scratch = ();

    has_connection!();

    fn offers(&self) -> Capabilities {
        Capabilities {
            reliability_max: Reliability::AtLeastOnce,
            receive_max: Reliability::AtLeastOnce,
            wildcards: true,
            keeps_all: true,
            settles: true,
            lifespan: true,
            last_values: true,
            ..Capabilities::STREAM
        }
    }

    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step {
        self.connections += 1;
        self.is_securing = false;
        let mut side = ClientSide::new(self.client_settings(opening));
        if let Some((name, management)) = self.earlier.take() {
            self.resume = Some(name.clone());
            side.resume(&name, management);
        }
        side.open(out);
        self.side = Some(side);
        Ok(())
    }

    fn begins_tls(&self) -> bool {
        self.is_securing
    }

    fn on_tls(&mut self, out: &mut Vec<u8>) {
        self.is_securing = false;
        if let Some(side) = &mut self.side {
            side.secured(out);
        }
    }

    fn step(&mut self, input: &[u8], _: &mut (), cx: &mut Cx<'_>) -> Step<Option<usize>> {
        let Some(side) = &mut self.side else {
            return Ok(None);
        };
        let mut tree = std::mem::take(&mut self.tree);
        let outcome = match side.handle_input(input, &mut tree, cx.out) {
            Ok(None) => Ok(None),
            Ok(Some((len, event))) => self.on_event(event, cx).map(|()| Some(len)),
            Err(fault) => Err(link_fault(&fault)),
        };
        self.tree = tree;
        outcome
    }

    fn after_input(&mut self, cx: &mut Cx<'_>) {
        self.acknowledge_handled(cx.out);
    }

    fn has_room(&self) -> bool {
        self.window.has_room_again()
    }

    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        let is_awaited = message.reliability != Reliability::AtMostOnce;
        // The stream goes on, and its copy of the request with it.
        if message.repeated && self.window.contains(message.id) {
            return Ok(Departure::Awaited);
        }
        if is_awaited && !self.window.has_room() {
            return Err(Refusal::Window);
        }
        let id = match is_awaited {
            true => format!("{PUBLISH}{}", self.window.next_number()),
            false => UNAWAITED.to_owned(),
        };
        let node = attribute("node", &node(message.address));
        let service = self.service.clone();
        self.request(("set", &id, Some(&service)), out, |out| {
            if message.retain == Retain::Clear {
                let purge = format!("<pubsub xmlns='{OWNER}'><purge{node}/></pubsub>");
                return out.extend_from_slice(purge.as_bytes());
            }
            let head = format!("<pubsub xmlns='{PUBSUB}'><publish{node}><item>");
            out.extend_from_slice(head.as_bytes());
            put_payload(message.payload, message.content_type, out);
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
        if !is_awaited {
            return Ok(Departure::Gone);
        }
        self.window.push(message.id);
        Ok(Departure::Awaited)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        let (node, depth) = node_of(wish.filter)?;
        let jid = self.jid.as_ref().map(Jid::as_str).unwrap_or_default();
        let (named, jid) = (attribute("node", &node), attribute("jid", jid));
        // A service without collections refuses the form, and has no other depth than this.
        let options = match depth {
            "0" => String::new(),
            depth => format!(
                "<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#subscription_depth'><value>{depth}</value></field></x></options>"
            ),
        };
        let action = format!("<subscribe{named}{jid}/>{options}");
        let id = format!("{SUBSCRIBE}{}", wish.subscription.0);
        self.request_service("set", &id, &action, out);
        let subscription = Subscription {
            node,
            depth,
            subid: None,
        };
        self.subscriptions.insert(wish.subscription, subscription);
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        let Some(ended) = self.subscriptions.remove(&id) else {
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
        self.request_service("set", "unsubscribe", &action, out);
    }

    fn acknowledge(&mut self, DeliveryId(number): DeliveryId, out: &mut Vec<u8>) {
        if self.unsettled.remove(&number) {
            self.acknowledge_handled(out);
        }
    }

    fn ask_value(&mut self, id: RequestId, address: &str, out: &mut Vec<u8>) -> Asked {
        let action = format!("<items{}/>", attribute("node", &node(address)));
        let name = format!("{READ}{}", id.0);
        self.request_service("get", &name, &action, out);
        self.reads.add(name, id);
        Ok(())
    }

    fn drop_question(&mut self, id: RequestId) {
        self.reads.forget(id);
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        self.request(("get", PING, None), out, |out| {
            out.extend_from_slice(format!("<ping xmlns='{}'/>", ns::PING).as_bytes());
        });
    }

    fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        if let Some(side) = &mut self.side {
            side.close(out);
        }
        // It is not to be gone on with.
        (self.resume, self.earlier) = (None, None);
    }

    fn reset(&mut self) {
        let management = self.side.take().and_then(|mut side| side.suspend());
        if let (Some(name), Some(mut management)) = (self.resume.take(), management) {
            // What is not settled comes again, and answers behind it that are known.
            self.arrived = self.handled();
            management.go_back(self.arrived as u32);
            self.earlier = Some((name, management));
        }
        if self.earlier.is_none() {
            self.window.restart(1);
        }
        self.is_managed = false;
        self.subscriptions.clear();
        self.reads.clear();
    }
}
