//! Clients of XMPP.

use crate::bed::Testbed;
use crate::client::{Client, Who};
use std::collections::{BTreeSet, VecDeque};
use thalweg_fronts::AnyFront;
use thalweg_fronts::xmpp::{XmppFront, payload};
use thalweg_kernel::access::Access;
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Element, Framing, Limits, Management,
    PeerFault, StanzaKind, StartTls, TlsPolicy, Tree, parse_document, put_attribute,
};

/// A client that connects.
pub struct Xmpp {
    side: ClientSide,
    tree: Tree,
    /// Its address; there once the log-in is over.
    pub jid: Option<String>,
    /// Stanzas that arrived, as they came, each with its number among those that the broker counts.
    pub got: VecDeque<(u32, String)>,
    /// Stanzas that the broker counts.
    arrived: u32,
    /// Notifications among them that are not acknowledged, where the client does that one by one.
    unhandled: BTreeSet<u32>,
    /// Notifications are acknowledged by [`Xmpp::acknowledge`] alone.
    pub acknowledges: bool,
    /// The name by which the stream can be resumed.
    pub resume: Option<String>,
    /// An earlier stream goes on.
    pub is_resumed: bool,
    /// The condition of the error by which the broker has ended the stream; empty if it had none.
    pub closed: Option<String>,
    /// Why the client has given up.
    pub fault: Option<PeerFault>,
}

impl Xmpp {
    pub fn new(credentials: Credentials, tls: TlsPolicy, framing: Framing) -> Xmpp {
        Xmpp {
            side: ClientSide::new(ClientSettings {
                limits: Limits::default(),
                framing,
                domain: "localhost".into(),
                tls,
                credentials,
                resource: Some("test".into()),
                nonce: [5; 24],
                management: true,
                acknowledges: false,
            }),
            tree: Tree::default(),
            jid: None,
            got: VecDeque::new(),
            arrived: 0,
            unhandled: BTreeSet::new(),
            acknowledges: true,
            resume: None,
            is_resumed: false,
            closed: None,
            fault: None,
        }
    }

    /// Sends a request; its answer has this id.
    pub fn request(&mut self, kind: &str, to: &str, id: &str, content: &str, up: &mut Vec<u8>) {
        let attributes = [("type", kind), ("to", to), ("id", id)];
        self.side.put(StanzaKind::Iq, &attributes, up, |out| {
            out.extend_from_slice(content.as_bytes());
        });
    }

    /// Asks the service for an action of XEP-0060 that changes something.
    pub fn ask(&mut self, action: &str, up: &mut Vec<u8>) {
        self.request("set", SERVICE, "q", &pubsub(action), up);
    }

    /// The action that subscribes itself to a node.
    pub fn subscribe(&self, node: &str) -> String {
        let jid = self.jid.as_deref().unwrap_or_default();
        format!(
            "<subscribe{}{}/>",
            attribute("node", node),
            attribute("jid", jid)
        )
    }

    /// The notification of that number is settled. The broker is notified of those up to the first unsettled one.
    pub fn acknowledge(&mut self, number: u32, up: &mut Vec<u8>) {
        self.unhandled.remove(&number);
        let handled = self
            .unhandled
            .first()
            .map_or(self.arrived, |first| first - 1);
        self.side.acknowledge(handled, up);
    }

    pub fn presence(&mut self, attributes: &[(&str, &str)], up: &mut Vec<u8>) {
        self.side.put(StanzaKind::Presence, attributes, up, |_| {});
    }

    pub fn message(&mut self, to: &str, content: &str, up: &mut Vec<u8>) {
        self.send(StanzaKind::Message, &[("to", to)], content, up);
    }

    pub fn send(
        &mut self,
        kind: StanzaKind,
        attributes: &[(&str, &str)],
        content: &str,
        up: &mut Vec<u8>,
    ) {
        self.side.put(kind, attributes, up, |out| {
            out.extend_from_slice(content.as_bytes());
        });
    }

    pub fn close(&mut self, up: &mut Vec<u8>) {
        self.side.close(up);
    }
}

impl Client for Xmpp {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let event = match self.side.handle_input(&down[used..], &mut self.tree, up) {
                Ok(None) => break,
                Ok(Some((len, event))) => {
                    used += len;
                    event
                }
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            };
            match event {
                ClientEvent::Bound(jid) => self.jid = Some(jid.to_string()),
                ClientEvent::Stanza(stanza) => {
                    let text = stanza.element.raw().to_owned();
                    self.arrived = self.side.management().map_or(0, Management::received);
                    if text.contains(EVENT) {
                        self.unhandled.insert(self.arrived);
                    }
                    self.got.push_back((self.arrived, text));
                    if self.acknowledges {
                        self.unhandled.clear();
                    }
                    let handled = self
                        .unhandled
                        .first()
                        .map_or(self.arrived, |first| first - 1);
                    self.side.acknowledge(handled, up);
                }
                ClientEvent::Enabled(resume) => self.resume = resume.map(Into::into),
                ClientEvent::Resumed => self.is_resumed = true,
                ClientEvent::Closed(condition) => {
                    self.closed = Some(condition.unwrap_or_default().into());
                }
                ClientEvent::StartTls => self.side.secured(up),
                ClientEvent::Consumed | ClientEvent::Acknowledged => {}
            }
        }
        down.drain(..used);
    }
}

/// A message that a node has published.
pub struct Item {
    pub node: String,
    pub payload: Vec<u8>,
}

/// The items of a notification; none of any other stanza.
pub fn items(stanza: &str) -> Vec<Item> {
    let mut tree = Tree::default();
    let stanza = parse_document(stanza.as_bytes(), &Limits::default(), &mut tree);
    let event = stanza.and_then(|stanza| stanza.child("event", EVENT)?.child("items", EVENT));
    let Some(items) = event else {
        return Vec::new();
    };
    let item = |item: Element<'_>| {
        let mut octets = Vec::new();
        if let Some(element) = item.children().next() {
            payload::read(element, &mut octets).expect("a payload");
        }
        Item {
            node: items.attribute("node").expect("a node").into(),
            payload: octets,
        }
    };
    items.children().map(item).collect()
}

/// The action that publishes an item, whose name the broker makes up if it has none.
pub fn publish(node: &str, id: &str, octets: &[u8]) -> String {
    let mut element = Vec::new();
    payload::write(octets, None, &mut element);
    publish_element(node, id, &String::from_utf8(element).expect("text"))
}

fn publish_element(node: &str, id: &str, element: &str) -> String {
    let (node, id) = (attribute("node", node), attribute("id", id));
    format!("<publish{node}><item{id}>{element}</item></publish>")
}

fn attribute(name: &str, value: &str) -> String {
    let mut out = Vec::new();
    put_attribute(name, value, &mut out);
    String::from_utf8(out).expect("text")
}

fn pubsub(action: &str) -> String {
    format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{action}</pubsub>")
}

const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// The service that has the nodes.
pub const SERVICE: &str = "pubsub.localhost";

impl Testbed {
    pub fn xmpp_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = self.next_nonce();
        XmppFront::new(self.settings.xmpp.clone(), nonce, anonymous).into()
    }

    /// Connections are in memory and cannot be overheard, whatever their ends make of that.
    fn xmpp_tls(&self) -> TlsPolicy {
        match self.settings.xmpp.starttls {
            StartTls::Off => TlsPolicy::Direct,
            StartTls::Offered => TlsPolicy::IfOffered,
            StartTls::Required => TlsPolicy::Required,
        }
    }

    fn xmpp_client(&self, credentials: Credentials) -> Xmpp {
        Xmpp::new(credentials, self.xmpp_tls(), self.settings.xmpp.framing)
    }

    /// Connects a client. Without `anonymous` the broker asks who it is.
    pub fn open_xmpp(
        &mut self,
        shard: usize,
        credentials: Credentials,
        anonymous: Option<Access>,
    ) -> Who<Xmpp> {
        let front = self.xmpp_front(anonymous);
        let who = self.open(shard, front, self.xmpp_client(credentials));
        self.write(who, |client, up| client.side.open(up));
        self.rest();
        who
    }

    /// Connects a client that needs no login.
    pub fn xmpp(&mut self) -> Who<Xmpp> {
        self.open_xmpp(0, Credentials::Anonymous, Some(Access::ALL))
    }

    /// Sends a request and returns its answer, which must be the first stanza that comes back.
    pub fn xmpp_ask(&mut self, who: Who<Xmpp>, kind: &str, to: &str, content: &str) -> String {
        self.client(who).got.clear();
        self.says(who, |client, up| client.request(kind, to, "q", content, up));
        let answer = self.client(who).got.pop_front();
        answer.unwrap_or_else(|| panic!("no answer to {content}")).1
    }

    /// The same of an action of XEP-0060.
    pub fn xmpp_pubsub(&mut self, who: Who<Xmpp>, kind: &str, action: &str) -> String {
        self.xmpp_ask(who, kind, SERVICE, &pubsub(action))
    }

    /// Publishes `payload`, which is XML, as the item `id`.
    pub fn xmpp_publish(&mut self, who: Who<Xmpp>, node: &str, id: &str, payload: &str) -> String {
        self.xmpp_pubsub(who, "set", &publish_element(node, id, payload))
    }

    pub fn xmpp_subscribe(&mut self, who: Who<Xmpp>, node: &str) -> String {
        let action = self.client(who).subscribe(node);
        self.xmpp_pubsub(who, "set", &action)
    }

    /// The stanzas that arrived since this was last asked.
    pub fn xmpp_got(&mut self, who: Who<Xmpp>) -> Vec<String> {
        let got = self.client(who).got.drain(..);
        got.map(|(_, text)| text).collect()
    }

    /// Connects a client that asks to go on with a stream of which it knows the name alone.
    pub fn xmpp_resume(
        &mut self,
        shard: usize,
        credentials: Credentials,
        anonymous: Option<Access>,
        name: &str,
    ) -> Who<Xmpp> {
        let front = self.xmpp_front(anonymous);
        let mut client = self.xmpp_client(credentials);
        client.side.resume(name, Management::default());
        let who = self.open(shard, front, client);
        self.write(who, |client, up| client.side.open(up));
        self.rest();
        who
    }

    /// Connects a client that goes on with the stream of another, as the latter has left it.
    pub fn xmpp_again(
        &mut self,
        shard: usize,
        credentials: Credentials,
        earlier: Who<Xmpp>,
    ) -> Who<Xmpp> {
        let earlier = self.client(earlier);
        let (name, jid) = (earlier.resume.clone(), earlier.jid.clone());
        let management = earlier.side.suspend().expect("it is managed");
        let (arrived, acknowledges) = (earlier.arrived, earlier.acknowledges);
        let front = self.xmpp_front(None);
        let mut client = self.xmpp_client(credentials);
        client
            .side
            .resume(name.as_deref().expect("it is resumable"), management);
        (client.jid, client.resume) = (jid, name);
        (client.arrived, client.acknowledges) = (arrived, acknowledges);
        let who = self.open(shard, front, client);
        self.write(who, |client, up| client.side.open(up));
        self.rest();
        who
    }
}
