//! A broker of several shards with all protocols in front of it and users whose rights can change. A client does one
//! thing at a time, after which everything comes to rest: what has not arrived then never will.

use crate::client::Mqtt;
use std::sync::Arc;
use thalweg_amqp::Method;
use thalweg_amqp::methods::basic;
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_fronts::coap::CoapSettings;
use thalweg_fronts::stomp::StompSettings;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_kernel::access::Rules;
use thalweg_model::Span;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, Version, WillOut};
use thalweg_testbed::amqp::{Amqp, ServerMethod};
use thalweg_testbed::coap::PeerId;
use thalweg_testbed::stomp::{ServerFrame, Stomp};
use thalweg_testbed::xmpp::Xmpp;
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Client, Settings, Testbed, amqp};
use thalweg_xmpp::Credentials;
use thalweg_zmtp::{ClientMechanism, SocketType};

/// The tenant beside the default one.
pub const BLUE: &str = "blue";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Mqtt3,
    Mqtt5,
    Amqp,
    Stomp,
    Coap,
    Zmtp,
    Xmpp,
}

impl Protocol {
    /// Whether all its clients are in the default tenant.
    pub fn has_one_tenant(self) -> bool {
        use Protocol::{Mqtt3, Mqtt5, Xmpp, Zmtp};
        matches!(self, Mqtt3 | Mqtt5 | Zmtp | Xmpp)
    }
}

/// A client, connected or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(usize);

/// A connection of one, in its protocol.
type Connection<C> = thalweg_testbed::Who<C>;

/// User and tenant of a client's connection.
#[derive(Clone, Debug)]
pub struct Hello {
    pub protocol: Protocol,
    pub user: &'static str,
    pub tenant: &'static str,
    pub shard: usize,
    pub mqtt: Mqtt,
}

enum End {
    /// All connections that it has had; the last one counts.
    Connections(Vec<Connection<()>>),
    Peer(PeerId),
}

pub struct World {
    pub bed: Testbed,
    clients: Vec<(Hello, End)>,
}

impl World {
    /// A broker for clients of these protocols. Sockets of CoAP cost much and are there only if they are used.
    pub fn new(shards: u16, protocols: &[Protocol]) -> Self {
        let tenants = || Box::from([Box::from(BLUE)]);
        let socket = |tenant: &str| {
            let settings = CoapSettings {
                tenant: tenant.into(),
                ..CoapSettings::default()
            };
            Arc::new(settings)
        };
        let mut bed = Testbed::new(Settings {
            shards,
            amqp: Arc::new(AmqpSettings {
                tenants: tenants(),
                ..AmqpSettings::default()
            }),
            stomp: Arc::new(StompSettings {
                tenants: tenants(),
                ..StompSettings::default()
            }),
            coap: match protocols.contains(&Protocol::Coap) {
                true => vec![socket(""), socket(BLUE)],
                false => Vec::new(),
            },
            coap_anonymous: None,
            xmpp: Arc::new(XmppSettings {
                secured: true,
                scram: false,
                ..XmppSettings::default()
            }),
            ..Settings::default()
        });
        bed.answers_logins = true;
        bed.keeps_received = true;
        bed.skips_checks = true;
        World {
            bed,
            clients: Vec::new(),
        }
    }

    pub fn shards(&self) -> usize {
        self.bed.shards.len()
    }

    /// Sets the rights of a user, also those of its sessions, as a reload of the rules does.
    pub fn set_rights(&mut self, user: &'static str, rules: Rules) {
        self.bed.set_rights(user, rules);
    }

    /// Connects a client. AMQP and STOMP clients are on the shard of the queues.
    pub fn connect(&mut self, hello: Hello) -> Who {
        let end = match hello.protocol {
            Protocol::Coap => {
                let socket = usize::from(!hello.tenant.is_empty());
                let peer = self.bed.peer(hello.shard, socket);
                self.bed.set_identity(peer, hello.user);
                End::Peer(peer)
            }
            // Its sockets are opened when it is clear what for.
            Protocol::Zmtp => End::Connections(Vec::new()),
            _ => End::Connections(vec![self.open(&hello)]),
        };
        self.clients.push((hello, end));
        Who(self.clients.len() - 1)
    }

    fn open(&mut self, hello: &Hello) -> Connection<()> {
        let (user, tenant) = (hello.user, hello.tenant);
        let host = if tenant.is_empty() { "/" } else { tenant };
        let who = match hello.protocol {
            Protocol::Amqp => {
                let hello = amqp::Hello {
                    response: format!("\0{user}\0x").into_bytes(),
                    vhost: host,
                    channel: 1,
                    ..amqp::Hello::default()
                };
                self.bed.open_amqp(&hello, None).cast()
            }
            Protocol::Stomp => {
                let connect = thalweg_stomp::ConnectOut {
                    host,
                    login: Some(user),
                    passcode: Some("x"),
                    ..Default::default()
                };
                self.bed.open_stomp(&connect, None).cast()
            }
            Protocol::Xmpp => {
                let password = Credentials::Password {
                    user: user.into(),
                    password: "x".into(),
                };
                self.bed.open_xmpp(hello.shard, password, None).cast()
            }
            _ => self.open_mqtt(hello),
        };
        self.bed.rest();
        who
    }

    fn open_mqtt(&mut self, hello: &Hello) -> Connection<()> {
        let Mqtt {
            client_id,
            is_clean,
            is_kept,
            will,
        } = &hello.mqtt;
        assert_eq!(self.bed.home_of(client_id), hello.shard, "{hello:?}");
        let is_5 = hello.protocol == Protocol::Mqtt5;
        let will = will.as_ref().map(|(topic, payload, retain)| WillOut {
            message: PublishOut {
                topic,
                payload: payload.as_bytes(),
                qos: QoS::AtLeastOnce,
                retain: *retain,
                ..PublishOut::default()
            },
            delay_secs: 0,
        });
        let connect = ConnectOut {
            version: if is_5 { Version::V5 } else { Version::V311 },
            client_id,
            clean_start: *is_clean,
            session_expiry: if *is_kept && is_5 { 3600 } else { 0 },
            username: Some(hello.user),
            password: Some(b"x"),
            will,
            ..ConnectOut::default()
        };
        self.bed.open_mqtt(&connect, None).cast()
    }

    /// Opens a socket for a client of ZeroMQ, which may have several.
    pub fn socket(
        &mut self,
        who: Who,
        kind: SocketType,
        id: &str,
        settings: ZmtpSettings,
    ) -> Connection<Zmtp> {
        self.bed.settings.zmtp = Arc::new(settings);
        let login = ClientMechanism::Plain {
            username: self.clients[who.0].0.user.into(),
            password: b"x".to_vec(),
        };
        let client = Zmtp::named(login, kind, id.as_bytes());
        let socket = self.bed.connect_zmtp(client, None);
        if let (_, End::Connections(all)) = &mut self.clients[who.0] {
            all.push(socket.cast());
        }
        socket
    }

    /// The connection of a client that speaks this protocol. Connects again who was disconnected, with the same words.
    pub fn connection<C>(&mut self, who: Who) -> Connection<C> {
        let (hello, End::Connections(all)) = &self.clients[who.0] else {
            panic!("peers of CoAP have none")
        };
        let last = all[all.len() - 1];
        if !self.bed.is_closed(last) {
            return last.cast();
        }
        let hello = hello.clone();
        let again = self.open(&hello);
        if let (_, End::Connections(all)) = &mut self.clients[who.0] {
            all.push(again);
        }
        again.cast()
    }

    /// Connects again, for a session that goes on.
    pub fn resume(&mut self, who: Who) {
        self.clients[who.0].0.mqtt.is_clean = false;
        if let End::Connections(_) = self.clients[who.0].1 {
            self.connection::<()>(who);
        }
    }

    fn last(&self, who: Who) -> Option<Connection<()>> {
        match &self.clients[who.0].1 {
            End::Connections(all) => all.last().copied(),
            End::Peer(_) => None,
        }
    }

    pub fn lose(&mut self, who: Who) {
        if let Some(last) = self.last(who) {
            self.bed.lose(last);
        }
    }

    /// From now on it does not read what the broker writes.
    pub fn stall(&mut self, who: Who) {
        if let Some(last) = self.last(who) {
            self.bed.set_reading(last, false);
        }
    }

    /// The words with which a client connected.
    pub fn hello_like(&self, who: Who) -> Hello {
        self.clients[who.0].0.clone()
    }

    pub fn protocol(&self, who: Who) -> Protocol {
        self.clients[who.0].0.protocol
    }

    /// Lets a connected client write, and everything come to rest. A disconnected client connects first.
    pub fn says<C: Client>(&mut self, who: Who, write: impl FnOnce(&mut C, &mut Vec<u8>)) {
        let connection = self.connection(who);
        self.bed.says(connection, write);
    }

    /// Sends a request of CoAP.
    pub fn asks(&mut self, who: Who, line: &str) {
        let End::Peer(peer) = self.clients[who.0].1 else {
            panic!("no peer of CoAP")
        };
        self.bed.request(peer, line);
    }

    /// Whether the broker ever sent these bytes to a client.
    pub fn saw(&self, who: Who, text: &str) -> bool {
        let has = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        match &self.clients[who.0].1 {
            End::Connections(all) => all.iter().any(|one| has(self.bed.received(*one))),
            End::Peer(peer) => self.bed.unheard(*peer).iter().any(|heard| {
                has(&heard.payload) || heard.options.iter().any(|(_, value)| has(value))
            }),
        }
    }

    /// The broker's reason for a client's refusal.
    pub fn refusals(&mut self, who: Who) -> Vec<String> {
        let (hello, end) = &self.clients[who.0];
        let all = match end {
            End::Connections(all) => all,
            End::Peer(peer) => {
                let codes = self.bed.unheard(*peer).iter().map(|heard| heard.code);
                let errors = codes.filter(|code| code.class() >= 4);
                return errors.map(|code| code.to_string()).collect();
            }
        };
        let mut refusals = Vec::new();
        for connection in all {
            match hello.protocol {
                Protocol::Amqp => {
                    let said = self.bed.client::<Amqp>(connection.cast()).said.iter();
                    refusals.extend(said.filter_map(|said| match said {
                        ServerMethod::ChannelClosed { code, text, .. }
                        | ServerMethod::Closed { code, text } => Some(format!("{code} {text}")),
                        ServerMethod::Cancelled(consumer) => Some(format!("cancelled {consumer}")),
                        _ => None,
                    }));
                }
                Protocol::Zmtp => {
                    let refused = &self.bed.client::<Zmtp>(connection.cast()).refused;
                    refusals.extend(refused.iter().map(|why| format!("{why:?}")));
                    if self.bed.is_closed(*connection) {
                        refusals.push("closed".into());
                    }
                }
                Protocol::Xmpp => {
                    let client = self.bed.client::<Xmpp>(connection.cast());
                    let stanzas = client.got.iter().map(|(_, stanza)| stanza);
                    let errors = stanzas.filter(|stanza| stanza.contains("type='error'"));
                    refusals.extend(errors.chain(&client.closed).cloned());
                }
                Protocol::Stomp => {
                    let heard = self.bed.client::<Stomp>(connection.cast()).heard.iter();
                    let errors = heard.filter(|heard| matches!(heard, ServerFrame::Error { .. }));
                    refusals.extend(errors.map(|error| format!("{error:?}")));
                }
                _ => {
                    let client = self
                        .bed
                        .client::<thalweg_testbed::mqtt::Mqtt>(connection.cast());
                    let said = client.said.iter().map(|said| format!("{said:?}"));
                    refusals.extend(said.filter(|said| {
                        said.contains("NotAuthorized") || said.contains("UnspecifiedError")
                    }));
                }
            }
        }
        refusals
    }

    /// From now on it logs in as another user.
    pub fn become_user(&mut self, who: Who, user: &'static str) {
        let (hello, end) = &mut self.clients[who.0];
        hello.user = user;
        if let End::Peer(peer) = end {
            self.bed.set_identity(*peer, user);
        }
    }

    /// Deliveries that an AMQP client holds unsettled are rejected, for good or to be given to others.
    pub fn reject_all(&mut self, who: Who, requeue: bool) {
        self.says(who, |client: &mut Amqp, up| {
            for got in client.got.drain(..).filter(|got| got.returned.is_none()) {
                let reject = basic::Reject {
                    delivery_tag: got.tag,
                    requeue,
                };
                client.side.method(1, &Method::BasicReject(reject), up);
            }
        });
    }

    /// Time goes by. The books are compared then, and not with each step: there are many rows.
    pub fn wait(&mut self, span: Span) {
        self.bed.run_for(span);
        self.bed.check();
    }
}
