//! One vocabulary for all protocols: connect, publish, subscribe, consume, acknowledge.

mod answers;
mod received;
mod settle;

pub use crate::place::Place;
use crate::read::{canonical, coap_deliveries, frame, node, zmtp_delivery};
pub use answers::Verdict;
use std::sync::Arc;
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, Method};
use thalweg_coap::stream::StreamSettings;
use thalweg_fronts::FrontSettings as _;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_model::syntax::{DOTTED, DOTTED_WITHOUT_SLASH};
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions, Version};
use thalweg_stomp::{AckMode, Destination, HeaderWriter, SendOut, SubscribeOut};
use thalweg_testbed::amqp::Amqp;
use thalweg_testbed::coap::{CoapStream, Manner, PeerId};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::stomp::Stomp;
use thalweg_testbed::xmpp::{self, Xmpp};
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Raw, Settings, Testbed, Who, amqp, mqtt, stomp};
use thalweg_xmpp::Credentials;
use thalweg_zmtp::{ClientMechanism, SocketType};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Mqtt3,
    Mqtt5,
    Amqp,
    Stomp,
    Coap,
    CoapStream,
    /// The example of a front outside the broker's crates.
    Line,
    Zmtp,
    Xmpp,
}

impl Protocol {
    pub const ALL: [Protocol; 9] = [
        Protocol::Mqtt3,
        Protocol::Mqtt5,
        Protocol::Amqp,
        Protocol::Stomp,
        Protocol::Coap,
        Protocol::CoapStream,
        Protocol::Line,
        Protocol::Zmtp,
        Protocol::Xmpp,
    ];
    /// Those with consumers; peers of CoAP take one message at a time.
    pub const CONSUMERS: [Protocol; 6] = [
        Protocol::Mqtt3,
        Protocol::Mqtt5,
        Protocol::Amqp,
        Protocol::Stomp,
        Protocol::Line,
        Protocol::Xmpp,
    ];

    /// Whether a delivery can be marked as a repetition, also to another receiver than the first.
    pub fn marks_redeliveries(self) -> bool {
        use Protocol::{Coap, CoapStream, Xmpp, Zmtp};
        !matches!(self, Coap | CoapStream | Zmtp | Xmpp)
    }

    /// Whether a consumer settles what it takes; for a PULL it is settled when it is sent.
    pub fn settles(self) -> bool {
        self != Protocol::Zmtp
    }

    /// A filter that covers any subscription of a peer to the address `a/b`.
    pub fn covers_a_b(self) -> &'static str {
        match self {
            // A prefix: `a/bc` begins so, too.
            Protocol::Zmtp => "a/#",
            _ => "a/b",
        }
    }

    /// Whether it has words for a queue. STOMP undoes `%2F` in names and nothing else, as RabbitMQ does.
    pub fn can_name_queue(self, name: &str) -> bool {
        self != Protocol::Stomp || !name.contains("%2F")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Mqtt(Who<Mqtt>),
    Amqp(Who<Amqp>),
    Stomp(Who<Stomp>),
    Coap(PeerId),
    CoapStream(Who<CoapStream>),
    Line(Who<Raw>),
    /// By its place among those; each opens sockets as it needs them.
    Zmtp(usize),
    Xmpp(Who<Xmpp>),
}

/// The sockets of a program that speaks ZMTP: what each is for, and the queue that it knows.
struct Sockets {
    user: String,
    open: Vec<(SocketType, String, Who<Zmtp>)>,
}

/// A client of some protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub protocol: Protocol,
    /// Messages that it may have in flight.
    window: u16,
    end: End,
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub body: String,
    /// The address that it says it was published to, in the canonical rendering, where its protocol says that.
    pub address: Option<String>,
    pub redelivered: bool,
    pub handle: Handle,
}

/// Message or messages to acknowledge.
#[derive(Clone, Debug, PartialEq)]
pub enum Handle {
    Mqtt(mqtt::Received),
    Amqp(u64),
    Stomp(Box<stomp::Got>),
    Line(String),
    Xmpp(u32),
    /// It was acknowledged when it arrived.
    None,
}

/// A broker, and the rights of its users.
pub struct Stage {
    pub bed: Testbed,
    /// Connections of CoAP are anonymous here.
    of_nobody: Access,
    programs: Vec<Sockets>,
    names: u32,
}

pub fn everything() -> Rules {
    Rules::new(Vec::new(), Otherwise::Allow).expect("no rules")
}

impl Stage {
    pub fn new(shards: u16) -> Stage {
        Stage::with(Settings {
            shards,
            ..Settings::default()
        })
    }

    pub fn limited(limits: Limits) -> Stage {
        Stage::with(Settings {
            limits,
            ..Settings::default()
        })
    }

    pub fn with(settings: Settings) -> Stage {
        let mut bed = Testbed::new(Settings {
            coap: vec![Arc::default()],
            coap_anonymous: None,
            xmpp: Arc::new(XmppSettings {
                secured: true,
                scram: false,
                ..XmppSettings::default()
            }),
            ..settings
        });
        bed.answers_logins = true;
        Stage {
            bed,
            of_nobody: Access::ALL,
            programs: Vec::new(),
            names: 0,
        }
    }

    /// Sets a user's rights, also for its sessions. Connections of CoAP are anonymous here: their user is "".
    pub fn set_rights(&mut self, user: &str, rules: Rules) {
        if user.is_empty() {
            self.of_nobody = rules.compile("", None);
        }
        self.bed.set_rights(user, rules);
    }

    /// Connects a client of its own name.
    pub fn connect(&mut self, protocol: Protocol, user: &str) -> Peer {
        self.names += 1;
        let name = format!("client-{}", self.names);
        self.connect_as(protocol, user, &name, u16::MAX)
    }

    /// Connects a client that may have so much in flight. The name is that of MQTT's session and of CoAP's identity.
    pub fn connect_as(&mut self, protocol: Protocol, user: &str, name: &str, window: u16) -> Peer {
        let end = match protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let is_5 = protocol == Protocol::Mqtt5;
                let connect = ConnectOut {
                    version: if is_5 { Version::V5 } else { Version::V311 },
                    client_id: name,
                    clean_start: false,
                    session_expiry: if is_5 { 3600 } else { 0 },
                    receive_max: window,
                    username: Some(user),
                    password: Some(b"x"),
                    ..ConnectOut::default()
                };
                let who = self.bed.open_mqtt(&connect, None);
                self.bed.client(who).acknowledges = false;
                End::Mqtt(who)
            }
            Protocol::Amqp => {
                let hello = amqp::Hello {
                    response: format!("\0{user}\0x").into_bytes(),
                    channel: 1,
                    ..amqp::Hello::default()
                };
                let who = self.bed.open_amqp(&hello, None);
                self.bed.rest();
                let qos = basic::Qos {
                    prefetch_count: if window == u16::MAX { 0 } else { window },
                    ..Default::default()
                };
                self.bed.amqp_call(who, &Method::BasicQos(qos));
                End::Amqp(who)
            }
            Protocol::Stomp => {
                let connect = thalweg_stomp::ConnectOut {
                    login: Some(user),
                    passcode: Some("x"),
                    ..Default::default()
                };
                End::Stomp(self.bed.open_stomp(&connect, None))
            }
            Protocol::Coap => {
                let shard = self.bed.home_of(name);
                let peer = self.bed.peer(shard, 0);
                self.bed.set_identity(peer, user);
                End::Coap(peer)
            }
            Protocol::CoapStream => {
                let shard = self.bed.home_of(name);
                let who = self.bed.open_coap(shard, Some(self.of_nobody.clone()));
                let settings = StreamSettings::default();
                self.bed.says(who, |client, up| client.csm(settings, up));
                End::CoapStream(who)
            }
            Protocol::Line => {
                let settings = Arc::new(line_protocol::LineSettings::default());
                let front = settings.stream_front(u64::from(self.names), None);
                let shard = self.bed.home_of(name);
                let who = self
                    .bed
                    .open(shard, front.expect("of connections"), Raw::default());
                self.line(who, &["LOGIN", user, "x", &window.to_string()]);
                End::Line(who)
            }
            Protocol::Zmtp => {
                self.programs.push(Sockets {
                    user: user.to_owned(),
                    open: Vec::new(),
                });
                End::Zmtp(self.programs.len() - 1)
            }
            Protocol::Xmpp => {
                let password = Credentials::Password {
                    user: user.to_owned(),
                    password: "x".to_owned(),
                };
                let shard = self.bed.home_of(name);
                let who = self.bed.open_xmpp(shard, password, None);
                self.bed.client(who).acknowledges = false;
                End::Xmpp(who)
            }
        };
        self.bed.rest();
        Peer {
            protocol,
            window,
            end,
        }
    }

    /// Declares a queue, as an operator would.
    pub fn declare(&mut self, name: &str) {
        let operator = self.connect(Protocol::Amqp, "operator");
        let End::Amqp(who) = operator.end else {
            unreachable!("it was asked for")
        };
        let declare = Method::QueueDeclare(queue::Declare {
            queue: name,
            durable: true,
            ..Default::default()
        });
        self.bed.amqp_call(who, &declare);
        let said: Vec<_> = self.bed.client(who).said.drain(..).collect();
        assert!(
            matches!(said.last(), Some(amqp::ServerMethod::Declared { .. })),
            "{said:?}"
        );
        self.lose(operator);
    }

    /// Declares an internal exchange that leads to a queue, and has `from` in `amq.topic` lead to it.
    pub fn declare_internal(&mut self, exchange: &str, queue: &str, from: &str) {
        let operator = self.connect(Protocol::Amqp, "operator");
        let End::Amqp(who) = operator.end else {
            unreachable!("it was asked for")
        };
        let declare = Method::ExchangeDeclare(exchange::Declare {
            exchange,
            kind: "fanout",
            internal: true,
            ..Default::default()
        });
        let bind = Method::QueueBind(queue::Bind {
            queue,
            exchange,
            ..Default::default()
        });
        let lead = Method::ExchangeBind(exchange::Bind {
            destination: exchange,
            source: "amq.topic",
            routing_key: from,
            ..Default::default()
        });
        for method in [declare, bind, lead] {
            self.bed.amqp_call(who, &method);
        }
        self.lose(operator);
    }

    pub fn publish(&mut self, peer: Peer, place: Place<'_>, body: &str) {
        match peer.end {
            End::Mqtt(who) => {
                let publish = PublishOut {
                    topic: &place.topic(),
                    payload: body.as_bytes(),
                    qos: QoS::AtLeastOnce,
                    ..PublishOut::default()
                };
                if !self.bed.client(who).side.is_connected() {
                    return;
                }
                self.bed
                    .says(who, |client, up| client.publish(&publish, up));
            }
            End::Amqp(who) => {
                let key = match place {
                    Place::Address(address) => Place::key(address, DOTTED),
                    Place::Queue(name) => name.to_owned(),
                };
                let publish = basic::Publish {
                    exchange: match place {
                        Place::Address(_) => "amq.topic",
                        Place::Queue(_) => "",
                    },
                    routing_key: &key,
                    ..Default::default()
                };
                let properties = BasicProperties {
                    delivery_mode: Some(2),
                    ..Default::default()
                };
                self.bed
                    .amqp_publish(who, &publish, &properties, body.as_bytes());
            }
            End::Stomp(who) => {
                let send = SendOut {
                    destination: &place.destination(Place::key),
                    receipt: Some("r"),
                    body: body.as_bytes(),
                    ..Default::default()
                };
                self.bed.says(who, |client, up| {
                    let persistent = |w: &mut HeaderWriter<'_>| {
                        w.put("persistent", "true");
                    };
                    client.side.send(&send, persistent, up)
                });
            }
            End::Line(who) => self.line(who, &["PUB", &place.topic(), body]),
            End::Coap(_) | End::CoapStream(_) => {
                self.request(peer, "POST", place, "", body);
            }
            End::Zmtp(program) => match place {
                Place::Address(address) => {
                    let who = self.socket(program, SocketType::Pub, "");
                    let first = frame(address);
                    self.bed.zmtp_send(who, &[&first, body.as_bytes()]);
                }
                Place::Queue(name) => {
                    let who = self.socket(program, SocketType::Push, name);
                    self.bed.zmtp_send(who, &[body.as_bytes()]);
                }
            },
            End::Xmpp(who) => {
                let publish = xmpp::publish(&node(&place.topic()), "", body.as_bytes());
                self.bed.says(who, |client, up| client.ask(&publish, up));
            }
        }
    }

    /// Says a line of the example's protocol.
    fn line(&mut self, who: Who<Raw>, fields: &[&str]) {
        let mut line = String::new();
        for field in fields {
            line_protocol::escape(field.as_bytes(), &mut line);
            line.push(' ');
        }
        self.bed.says(who, |_, up| {
            up.extend(line.trim_end().bytes());
            up.push(b'\n');
        });
    }

    fn request(&mut self, peer: Peer, method: &str, place: Place<'_>, options: &str, body: &str) {
        let line = format!("{method} {}{options} : {body}", place.path());
        match peer.end {
            End::Coap(peer) => {
                self.bed.request(peer, &format!("CON {line}"));
            }
            End::CoapStream(who) => self.bed.says(who, |client, up| {
                let request = client.request(&line);
                up.extend(request);
            }),
            _ => panic!("{peer:?} does not speak CoAP"),
        }
    }

    /// Asks for whatever is published at an address from now on, or for messages of a queue, to be acknowledged one by one.
    /// A peer of CoAP takes one message out of a queue.
    pub fn ask(&mut self, peer: Peer, place: Place<'_>) {
        match (peer.end, place) {
            (End::Mqtt(who), _) => {
                let filter = match place {
                    Place::Address(address) => address.to_owned(),
                    Place::Queue(_) => format!("$share/group/{}", place.topic()),
                };
                let options = SubscribeOptions {
                    qos: QoS::AtLeastOnce,
                    ..SubscribeOptions::default()
                };
                self.bed.mqtt_subscribe(who, &filter, options);
            }
            (End::Amqp(who), _) => {
                let queue = match place {
                    Place::Queue(name) => name,
                    Place::Address(address) => {
                        let declare = queue::Declare {
                            exclusive: true,
                            ..Default::default()
                        };
                        let key = Place::pattern(address, DOTTED);
                        let bind = queue::Bind {
                            exchange: "amq.topic",
                            routing_key: &key,
                            ..Default::default()
                        };
                        let methods = [Method::QueueDeclare(declare), Method::QueueBind(bind)];
                        for method in methods {
                            self.bed.amqp_call(who, &method);
                        }
                        ""
                    }
                };
                let consume = Method::BasicConsume(basic::Consume {
                    queue,
                    ..Default::default()
                });
                self.bed.amqp_call(who, &consume);
            }
            (End::Stomp(who), _) => {
                let prefetch = peer.window.to_string();
                let destination = place.destination(Place::pattern);
                let subscribe = SubscribeOut {
                    id: Some(&destination),
                    destination: &destination,
                    ack: AckMode::ClientIndividual,
                    headers: &[("prefetch-count", &prefetch)],
                    ..Default::default()
                };
                self.bed
                    .says(who, |client, up| client.side.subscribe(&subscribe, up));
            }
            (End::Line(who), _) => {
                let filter = match place {
                    Place::Address(address) => address.to_owned(),
                    Place::Queue(_) => format!("$share/group/{}", place.topic()),
                };
                self.line(who, &["SUB", &filter]);
            }
            (End::Zmtp(program), Place::Address(address)) => {
                let who = self.socket(program, SocketType::Sub, "");
                self.bed.zmtp_subscribe(who, &frame(address));
            }
            (End::Zmtp(program), Place::Queue(name)) => {
                self.socket(program, SocketType::Pull, name);
            }
            (End::Xmpp(who), _) => {
                let node = node(&place.topic());
                self.bed
                    .says(who, |client, up| client.ask(&client.subscribe(&node), up));
            }
            (_, Place::Address(_)) => self.request(peer, "GET", place, " observe=0", ""),
            (_, Place::Queue(_)) => self.request(peer, "GET", place, "", ""),
        }
    }

    /// Messages that arrived since this was last asked.
    pub fn received(&mut self, peer: Peer) -> Vec<Delivery> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match peer.end {
            End::Mqtt(who) => {
                let got = self.bed.mqtt_got(who).into_iter();
                got.map(|got| Delivery {
                    body: text(&got.payload),
                    address: Some(got.topic.clone()),
                    redelivered: got.dup,
                    handle: Handle::Mqtt(got),
                })
                .collect()
            }
            End::Amqp(who) => {
                let got = self.bed.client(who).got.drain(..);
                got.map(|got| {
                    let address = match &*got.exchange {
                        "" => thalweg_kernel::queue_address("", &got.key).to_string(),
                        _ => {
                            let mut address = String::new();
                            DOTTED.read_address(&got.key, &mut address);
                            address
                        }
                    };
                    Delivery {
                        body: text(&got.body),
                        address: Some(address),
                        redelivered: got.redelivered,
                        handle: Handle::Amqp(got.tag),
                    }
                })
                .collect()
            }
            End::Stomp(who) => {
                let got = self.bed.client(who).got.drain(..);
                got.map(|got| {
                    let parsed = Destination::parse(&got.destination, Default::default());
                    let address = match parsed.expect("a destination") {
                        Destination::Topic(topic) => {
                            let mut address = String::new();
                            // A subscriber to one topic gets its own topic back.
                            if got.subscription.as_ref() == Some(&got.destination) {
                                DOTTED_WITHOUT_SLASH.read_filter(topic, &mut address);
                            } else {
                                DOTTED_WITHOUT_SLASH.read_address(topic, &mut address);
                            }
                            address
                        }
                        Destination::Queue(name) | Destination::AmqQueue(name) => {
                            thalweg_kernel::queue_address("", &name).to_string()
                        }
                        other => panic!("{other:?}"),
                    };
                    Delivery {
                        body: text(&got.body),
                        address: Some(address),
                        redelivered: got.redelivered,
                        handle: Handle::Stomp(Box::new(got)),
                    }
                })
                .collect()
            }
            End::Coap(peer) => coap_deliveries(self.bed.heard(peer)),
            End::CoapStream(who) => coap_deliveries(self.bed.client(who).heard()),
            End::Line(who) => {
                let received = std::mem::take(&mut self.bed.client(who).received);
                let lines = String::from_utf8(received).expect("text");
                let fields = lines.lines().map(|line| {
                    let fields = line.split(' ').map(line_protocol::unescape);
                    fields.collect::<Option<Vec<_>>>().expect("text")
                });
                let messages = fields.filter(|fields| matches!(&*fields[0], "MSG" | "AGAIN"));
                messages
                    .map(|fields| Delivery {
                        body: fields[3].clone(),
                        address: Some(fields[2].clone()),
                        redelivered: fields[0] == "AGAIN",
                        handle: Handle::Line(fields[1].clone()),
                    })
                    .collect()
            }
            End::Zmtp(program) => {
                let mut received = Vec::new();
                let open = self.programs[program].open.iter();
                let sockets: Vec<Who<Zmtp>> = open.map(|(_, _, who)| *who).collect();
                for who in sockets {
                    received.extend(self.bed.zmtp_got(who).into_iter().map(zmtp_delivery));
                }
                received
            }
            End::Xmpp(who) => {
                let got = self.bed.client(who).got.drain(..);
                let items = got.flat_map(|(number, stanza)| {
                    let items = xmpp::items(&stanza).into_iter();
                    items.map(move |item| (number, item))
                });
                items
                    .map(|(number, item)| Delivery {
                        body: text(&item.payload),
                        address: Some(canonical(item.node.as_bytes())),
                        redelivered: false,
                        handle: Handle::Xmpp(number),
                    })
                    .collect()
            }
        }
    }

    /// A socket of a program, connected if it was not yet.
    fn socket(&mut self, program: usize, kind: SocketType, queue: &str) -> Who<Zmtp> {
        let Sockets { user, open } = &self.programs[program];
        if let Some((_, _, who)) = open.iter().find(|it| (it.0, &*it.1) == (kind, queue)) {
            return *who;
        }
        let login = ClientMechanism::Plain {
            username: user.clone().into_bytes(),
            password: b"x".to_vec(),
        };
        self.bed.settings.zmtp = Arc::new(ZmtpSettings {
            queue: queue.into(),
            ..ZmtpSettings::default()
        });
        let who = self.bed.open_zmtp(kind, login, None);
        let open = &mut self.programs[program].open;
        open.push((kind, queue.to_owned(), who));
        who
    }

    /// Its connections, or the peer that has none.
    fn connections(&self, peer: Peer) -> Result<Vec<Who<()>>, PeerId> {
        match peer.end {
            End::Mqtt(who) => Ok(vec![who.cast()]),
            End::Amqp(who) => Ok(vec![who.cast()]),
            End::Stomp(who) => Ok(vec![who.cast()]),
            End::CoapStream(who) => Ok(vec![who.cast()]),
            End::Line(who) => Ok(vec![who.cast()]),
            End::Xmpp(who) => Ok(vec![who.cast()]),
            End::Zmtp(program) => {
                let open = self.programs[program].open.iter();
                Ok(open.map(|(_, _, who)| who.cast()).collect())
            }
            End::Coap(peer) => Err(peer),
        }
    }

    pub fn bodies(&mut self, peer: Peer) -> Vec<String> {
        let received = self.received(peer).into_iter();
        received.map(|delivery| delivery.body).collect()
    }

    /// Subscribes a client of MQTT as a member of a group.
    pub fn ask_shared(&mut self, peer: Peer, group: &str, address: &str) {
        let End::Mqtt(who) = peer.end else {
            panic!("{peer:?} does not speak MQTT")
        };
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        let filter = format!("$share/{group}/{address}");
        self.bed.mqtt_subscribe(who, &filter, options);
    }

    /// From now on it does not even acknowledge that a message has arrived.
    pub fn fall_silent(&mut self, peer: Peer) {
        match self.connections(peer) {
            Ok(all) => all
                .into_iter()
                .for_each(|who| self.bed.set_reading(who, false)),
            Err(peer) => self.bed.set_manner(peer, Manner::Silent),
        }
    }

    /// Reads what has waited.
    pub fn read_again(&mut self, peer: Peer) {
        match self.connections(peer) {
            Ok(all) => all
                .into_iter()
                .for_each(|who| self.bed.set_reading(who, true)),
            Err(peer) => self.bed.set_manner(peer, Manner::Polite),
        }
    }

    /// The connection breaks. A peer without one is silent until the broker gives it up.
    pub fn lose(&mut self, peer: Peer) {
        match self.connections(peer) {
            Ok(all) => all.into_iter().for_each(|who| self.bed.lose(who)),
            Err(peer) => {
                self.bed.set_manner(peer, Manner::Silent);
                self.bed.run_for(thalweg_model::Span::from_secs(300));
            }
        }
    }

    pub fn is_closed(&self, peer: Peer) -> bool {
        let connections = self.connections(peer);
        connections.is_ok_and(|all| all.into_iter().any(|who| self.bed.is_closed(who)))
    }

    /// Bytes that are written for it and have not left.
    pub fn waiting(&self, peer: Peer) -> usize {
        let connections = self.connections(peer).unwrap_or_default();
        connections
            .into_iter()
            .map(|who| self.bed.waiting(who))
            .sum()
    }
}
