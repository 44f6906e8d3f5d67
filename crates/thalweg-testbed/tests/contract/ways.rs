//! Every way by which a message of a publisher comes to a queue with a name, or to an address.

use crate::peer::{Place, Protocol, Stage};
use crate::read::{frame, node};
use thalweg_amqp::methods::{basic, confirm, exchange, queue, tx};
use thalweg_amqp::{BasicProperties, Method, TableWriter};
use thalweg_coap::stream::StreamSettings;
use thalweg_fronts::FrontSettings as _;
use thalweg_kernel::access::Access;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, Version, WillOut};
use thalweg_stomp::{HeaderWriter, SendOut};
use thalweg_testbed::amqp::{Amqp, Hello, ServerMethod};
use thalweg_testbed::coap::{CoapStream, PeerId};
use thalweg_testbed::mqtt::{Mqtt, Packet};
use thalweg_testbed::stomp::{ServerFrame, Stomp};
use thalweg_testbed::xmpp::{self, Xmpp};
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Raw, Testbed, Who};
use thalweg_xmpp::Credentials;
use thalweg_zmtp::{ClientMechanism, SocketType};

/// The queue, and the address in `amq.topic`, where the ways end.
pub const QUEUE: &str = "work";
pub const ADDRESS: &str = "a/b";
const KEY: &str = "a.b";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The queue [`QUEUE`], which must exist.
    Queue,
    /// [`ADDRESS`]: its subscribers.
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// AMQP with confirms, by the shortest way: the default exchange, or `amq.topic`.
    Amqp,
    Direct,
    Topic,
    Fanout,
    Headers,
    ExchangeToExchange,
    Alternate,
    /// By the header `CC`; the routing key leads nowhere.
    Cc,
    AmqpTransaction,
    /// Given up by a queue that keeps nothing.
    Overflowed,
    /// Expired in another queue.
    Expired,
    /// Rejected by a consumer of another queue.
    Rejected,
    Mqtt3,
    Mqtt,
    MqttOnce,
    MqttAtMostOnce,
    Will,
    Stomp,
    StompExchange,
    StompTransaction,
    Coap,
    CoapStream,
    /// PUT, which is also a last value.
    CoapPut,
    Zmtp,
    Xmpp,
    Line,
}

impl Way {
    pub const ALL: [Way; 26] = [
        Way::Amqp,
        Way::Direct,
        Way::Topic,
        Way::Fanout,
        Way::Headers,
        Way::ExchangeToExchange,
        Way::Alternate,
        Way::Cc,
        Way::AmqpTransaction,
        Way::Overflowed,
        Way::Expired,
        Way::Rejected,
        Way::Mqtt3,
        Way::Mqtt,
        Way::MqttOnce,
        Way::MqttAtMostOnce,
        Way::Will,
        Way::Stomp,
        Way::StompExchange,
        Way::StompTransaction,
        Way::Coap,
        Way::CoapStream,
        Way::CoapPut,
        Way::Zmtp,
        Way::Xmpp,
        Way::Line,
    ];

    /// Whether its publishers are on the shard of the queues, wherever they connect.
    pub fn is_with_queues(self) -> bool {
        use Way::*;
        !matches!(
            self,
            Mqtt3
                | Mqtt
                | MqttOnce
                | MqttAtMostOnce
                | Will
                | Coap
                | CoapStream
                | CoapPut
                | Xmpp
                | Line
        )
    }

    /// Whether the publisher gets an answer to its message at all.
    pub fn hears(self) -> bool {
        !matches!(self, Way::MqttAtMostOnce | Way::Will | Way::Zmtp)
    }

    /// Whether the publisher's answer concerns another queue, which has accepted the message and dropped it.
    pub fn is_dead_letter(self) -> bool {
        matches!(self, Way::Overflowed | Way::Expired | Way::Rejected)
    }

    /// Whether a message may be dropped without its publisher hearing of it.
    pub fn is_at_most_once(self, target: Target) -> bool {
        self == Way::MqttAtMostOnce || self == Way::Zmtp && target == Target::Address
    }

    /// Whether a message is also the last value of its address, and so is kept in any case.
    pub fn is_last_value(self) -> bool {
        matches!(self, Way::Coap | Way::CoapStream | Way::CoapPut | Way::Xmpp)
    }

    /// Whether the publisher can say how long a message lives, and the message has that life when it comes to its end.
    pub fn has_lifetimes(self) -> bool {
        use Way::*;
        !matches!(self, Expired | Mqtt3 | Zmtp | Xmpp | Line)
    }

    /// Whether the publisher can say a priority.
    pub fn has_priorities(self) -> bool {
        use Way::*;
        !matches!(
            self,
            Mqtt3
                | Mqtt
                | MqttOnce
                | MqttAtMostOnce
                | Will
                | Zmtp
                | Xmpp
                | Line
                | CoapPut
                | Coap
                | CoapStream
        )
    }
}

/// The publisher's answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    Refused,
    Nothing,
}

/// Properties of a published message.
#[derive(Clone, Copy, Default)]
pub struct Wish {
    pub lifetime_secs: Option<u32>,
    pub priority: u8,
}

enum End {
    Amqp {
        who: Who<Amqp>,
        exchange: &'static str,
        key: &'static str,
    },
    Mqtt(Who<Mqtt>, QoS),
    /// A connection for each message; the shard of its session.
    Will(usize),
    Stomp(Option<Who<Stomp>>),
    Coap(PeerId),
    CoapStream(Who<CoapStream>),
    Zmtp(Who<Zmtp>),
    Xmpp(Who<Xmpp>),
    Line(Who<Raw>),
}

/// A publisher of one way.
pub struct Publisher {
    way: Way,
    target: Target,
    end: End,
    /// Identifiers of each unanswered message, and its place among the answers.
    open: Vec<(u64, usize)>,
    answers: Vec<Answer>,
}

/// An operator's connection of AMQP.
pub fn operator(bed: &mut Testbed) -> Who<Amqp> {
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let who = bed.open_amqp(&hello, Some(Access::ALL));
    bed.rest();
    who
}

/// Declares a durable queue with these arguments.
pub fn declare(
    bed: &mut Testbed,
    who: Who<Amqp>,
    name: &str,
    write: impl FnOnce(&mut TableWriter<'_>),
) {
    let mut buffer = Vec::new();
    let mut table = TableWriter::new(&mut buffer);
    write(&mut table);
    let declare = queue::Declare {
        queue: name,
        durable: true,
        arguments: table.finish(),
        ..Default::default()
    };
    bed.client(who).said.clear();
    bed.amqp_call(who, &Method::QueueDeclare(declare));
    let said = &bed.client(who).said;
    assert!(
        matches!(said.back(), Some(ServerMethod::Declared { .. })),
        "{said:?}"
    );
}

/// Declares an exchange; `alternate` gets what it leads nowhere.
fn declare_exchange(
    bed: &mut Testbed,
    who: Who<Amqp>,
    name: &str,
    kind: &str,
    alternate: Option<&str>,
) {
    let mut buffer = Vec::new();
    let mut table = TableWriter::new(&mut buffer);
    if let Some(alternate) = alternate {
        table.str("alternate-exchange", alternate);
    }
    let declare = exchange::Declare {
        exchange: name,
        kind,
        durable: true,
        arguments: table.finish(),
        ..Default::default()
    };
    bed.amqp_call(who, &Method::ExchangeDeclare(declare));
}

/// Leads from an exchange to where a way ends.
fn bind(
    bed: &mut Testbed,
    who: Who<Amqp>,
    from: &str,
    key: &str,
    target: Target,
    is_headers: bool,
) {
    let mut buffer = Vec::new();
    let mut table = TableWriter::new(&mut buffer);
    if is_headers {
        table.str("h", "1");
    }
    let arguments = table.finish();
    let method = match target {
        Target::Queue => Method::QueueBind(queue::Bind {
            queue: QUEUE,
            exchange: from,
            routing_key: key,
            arguments,
            ..Default::default()
        }),
        Target::Address => Method::ExchangeBind(exchange::Bind {
            destination: "amq.topic",
            source: from,
            routing_key: key,
            arguments,
            ..Default::default()
        }),
    };
    bed.client(who).said.clear();
    bed.amqp_call(who, &method);
    let said = &bed.client(who).said;
    assert!(
        matches!(said.back(), Some(ServerMethod::Done(_))),
        "{said:?}"
    );
}

/// Has dead letters of a queue come to where a way ends.
fn bury_at(target: Target, table: &mut TableWriter<'_>) {
    let (exchange, key) = shortest(target);
    table.str("x-dead-letter-exchange", exchange);
    table.str("x-dead-letter-routing-key", key);
}

fn shortest(target: Target) -> (&'static str, &'static str) {
    match target {
        Target::Queue => ("", QUEUE),
        Target::Address => ("amq.topic", KEY),
    }
}

/// Makes what is on the way, and says where AMQP publishes.
pub fn lay(bed: &mut Testbed, way: Way, target: Target) -> (&'static str, &'static str) {
    let who = operator(bed);
    let kind = match way {
        Way::Direct => "direct",
        Way::Topic => "topic",
        Way::Fanout | Way::ExchangeToExchange => "fanout",
        Way::Headers => "headers",
        _ => "direct",
    };
    match way {
        Way::Direct | Way::Topic | Way::Fanout | Way::Headers | Way::StompExchange => {
            declare_exchange(bed, who, "in", kind, None);
            bind(bed, who, "in", KEY, target, way == Way::Headers);
            ("in", KEY)
        }
        Way::ExchangeToExchange => {
            declare_exchange(bed, who, "in", kind, None);
            declare_exchange(bed, who, "out", "direct", None);
            let lead = exchange::Bind {
                destination: "out",
                source: "in",
                routing_key: KEY,
                ..Default::default()
            };
            bed.amqp_call(who, &Method::ExchangeBind(lead));
            bind(bed, who, "out", KEY, target, false);
            ("in", KEY)
        }
        Way::Alternate => {
            declare_exchange(bed, who, "out", "fanout", None);
            declare_exchange(bed, who, "in", kind, Some("out"));
            bind(bed, who, "out", KEY, target, false);
            ("in", KEY)
        }
        Way::Cc => (shortest(target).0, "nowhere"),
        Way::Overflowed => {
            declare(bed, who, "before", |table| {
                table.i64("x-max-length", 0);
                bury_at(target, table);
            });
            ("", "before")
        }
        Way::Expired => {
            declare(bed, who, "before", |table| {
                table.i64("x-message-ttl", 0);
                bury_at(target, table);
            });
            ("", "before")
        }
        Way::Rejected => {
            declare(bed, who, "before", |table| bury_at(target, table));
            ("", "before")
        }
        // An address comes to the queue by a binding.
        Way::CoapPut if target == Target::Queue => {
            bind(bed, who, "amq.topic", KEY, target, false);
            shortest(target)
        }
        _ => shortest(target),
    }
}

impl Publisher {
    /// Makes what is on the way, and connects a publisher to that shard if its protocol lets it.
    pub fn new(stage: &mut Stage, way: Way, target: Target, shard: usize) -> Publisher {
        let bed = &mut stage.bed;
        let (exchange, key) = lay(bed, way, target);
        let name = bed.name_on("publisher", shard);
        let all = Some(Access::ALL);
        let end = match way {
            Way::Mqtt3 | Way::Mqtt | Way::MqttOnce | Way::MqttAtMostOnce => {
                let connect = ConnectOut {
                    version: if way == Way::Mqtt3 {
                        Version::V311
                    } else {
                        Version::V5
                    },
                    client_id: &name,
                    clean_start: true,
                    ..ConnectOut::default()
                };
                let qos = match way {
                    Way::MqttOnce => QoS::ExactlyOnce,
                    Way::MqttAtMostOnce => QoS::AtMostOnce,
                    _ => QoS::AtLeastOnce,
                };
                End::Mqtt(bed.open_mqtt(&connect, all), qos)
            }
            Way::Will => End::Will(shard),
            Way::Stomp | Way::StompExchange | Way::StompTransaction => End::Stomp(None),
            Way::Coap | Way::CoapPut => {
                let peer = bed.peer(shard, 0);
                bed.set_identity(peer, "publisher");
                End::Coap(peer)
            }
            Way::CoapStream => {
                let who = bed.open_coap(shard, all);
                bed.says(who, |client, up| client.csm(StreamSettings::default(), up));
                End::CoapStream(who)
            }
            Way::Zmtp => {
                let kind = match target {
                    Target::Queue => SocketType::Push,
                    Target::Address => SocketType::Pub,
                };
                End::Zmtp(bed.open_zmtp(kind, ClientMechanism::Null, all))
            }
            Way::Xmpp => {
                let who = bed.open_xmpp(shard, Credentials::Anonymous, all);
                bed.client(who).got.clear();
                End::Xmpp(who)
            }
            Way::Line => {
                let settings = std::sync::Arc::new(line_protocol::LineSettings::default());
                let front = settings.stream_front(7, all).expect("of connections");
                End::Line(bed.open(shard, front, Raw::default()))
            }
            _ => {
                let who = operator(bed);
                End::Amqp { who, exchange, key }
            }
        };
        bed.rest();
        match (way, &end) {
            (Way::AmqpTransaction, End::Amqp { who, .. }) => {
                bed.amqp_call(*who, &Method::TxSelect(tx::Select));
            }
            (_, End::Amqp { who, .. }) => {
                let select = confirm::Select::default();
                bed.amqp_call(*who, &Method::ConfirmSelect(select));
            }
            _ => {}
        }
        if let End::Amqp { who, .. } = end {
            bed.client(who).said.clear();
        }
        Publisher {
            way,
            target,
            end,
            open: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Publishes a message, and lets everything come to rest.
    pub fn publish(&mut self, stage: &mut Stage, body: &str, wish: Wish) {
        let bed = &mut stage.bed;
        let (way, target) = (self.way, self.target);
        let place = match target {
            Target::Queue => Place::Queue(QUEUE),
            Target::Address => Place::Address(ADDRESS),
        };
        let topic = place.topic();
        let number = self.answers.len() as u64 + 1;
        let millis = wish.lifetime_secs.map(|secs| (1000 * secs).to_string());
        let name = match &mut self.end {
            End::Amqp { who, exchange, key } => {
                let mut buffer = Vec::new();
                let mut headers = TableWriter::new(&mut buffer);
                match way {
                    Way::Cc => {
                        let (_, copied) = shortest(target);
                        headers.array("CC", |array| {
                            array.str(copied);
                        });
                    }
                    _ => _ = headers.str("h", "1"),
                }
                let properties = BasicProperties {
                    delivery_mode: Some(2),
                    priority: Some(wish.priority),
                    expiration: millis.as_deref(),
                    headers: Some(headers.finish()),
                    ..Default::default()
                };
                let publish = basic::Publish {
                    exchange,
                    routing_key: key,
                    ..Default::default()
                };
                bed.amqp_publish(*who, &publish, &properties, body.as_bytes());
                if way == Way::AmqpTransaction {
                    bed.amqp_call(*who, &Method::TxCommit(tx::Commit));
                }
                number
            }
            End::Mqtt(who, qos) => {
                let publish = PublishOut {
                    topic: &topic,
                    payload: body.as_bytes(),
                    qos: *qos,
                    expiry_secs: wish.lifetime_secs,
                    ..PublishOut::default()
                };
                u64::from(bed.says(*who, |client, up| client.publish(&publish, up)))
            }
            End::Will(shard) => {
                let client_id = bed.name_on(&format!("device-{body}"), *shard);
                let message = PublishOut {
                    topic: &topic,
                    payload: body.as_bytes(),
                    qos: QoS::AtLeastOnce,
                    expiry_secs: wish.lifetime_secs,
                    ..PublishOut::default()
                };
                let connect = ConnectOut {
                    client_id: &client_id,
                    clean_start: true,
                    will: Some(WillOut {
                        message,
                        delay_secs: 0,
                    }),
                    ..ConnectOut::default()
                };
                let who = bed.open_mqtt(&connect, Some(Access::ALL));
                bed.rest();
                bed.lose(who);
                number
            }
            End::Stomp(known) => {
                let connected = known.filter(|who| !bed.is_closed(*who));
                let who = connected.unwrap_or_else(|| {
                    let connect = thalweg_stomp::ConnectOut::default();
                    let who = bed.open_stomp(&connect, Some(Access::ALL));
                    bed.rest();
                    bed.client(who).heard.clear();
                    who
                });
                *known = Some(who);
                let destination = match (way, target) {
                    (Way::StompExchange, _) => format!("/exchange/in/{KEY}"),
                    (_, Target::Queue) => format!("/amq/queue/{QUEUE}"),
                    (_, Target::Address) => format!("/topic/{KEY}"),
                };
                let transaction = (way == Way::StompTransaction).then(|| format!("t{number}"));
                let receipt = number.to_string();
                let send = SendOut {
                    destination: &destination,
                    body: body.as_bytes(),
                    transaction: transaction.as_deref(),
                    receipt: transaction.is_none().then_some(&receipt),
                    ..Default::default()
                };
                let more = |w: &mut HeaderWriter<'_>| {
                    w.put("persistent", "true");
                    w.put("priority", &wish.priority.to_string());
                    if let Some(millis) = &millis {
                        w.put("expiration", millis);
                    }
                };
                bed.says(who, |client, up| {
                    if let Some(name) = &transaction {
                        client.side.begin(name, None, up);
                    }
                    client.side.send(&send, more, up);
                    if let Some(name) = &transaction {
                        client.side.commit(name, Some(&receipt), up);
                    }
                });
                number
            }
            End::Coap(peer) => {
                let line = coap_request(way, place, wish, body);
                u64::from(bed.request(*peer, &format!("CON {line}")))
            }
            End::CoapStream(who) => {
                let line = coap_request(way, place, wish, body);
                bed.says(*who, |client, up| up.extend(client.request(&line)));
                number
            }
            End::Zmtp(who) => {
                match target {
                    Target::Queue => bed.zmtp_send(*who, &[body.as_bytes()]),
                    Target::Address => bed.zmtp_send(*who, &[&frame(ADDRESS), body.as_bytes()]),
                }
                number
            }
            End::Xmpp(who) => {
                let publish = xmpp::publish(&node(&topic), "", body.as_bytes());
                bed.says(*who, |client, up| client.ask(&publish, up));
                number
            }
            End::Line(who) => {
                let line = format!("PUB {topic} {body}\n");
                bed.says(*who, |_, up| up.extend(line.bytes()));
                number
            }
        };
        self.open.push((name, self.answers.len()));
        self.answers.push(Answer::Nothing);
        if way == Way::Rejected {
            reject(stage);
        }
        self.listen(stage);
    }

    /// Its answers to each message by now.
    pub fn answers(&mut self, stage: &mut Stage) -> Vec<Answer> {
        self.listen(stage);
        self.answers.clone()
    }

    fn listen(&mut self, stage: &mut Stage) {
        let bed = &mut stage.bed;
        let mut heard: Vec<(u64, bool)> = Vec::new();
        // Protocols whose answers come in the order of the requests.
        let mut in_order: Vec<bool> = Vec::new();
        match &self.end {
            End::Amqp { who, .. } => {
                let mut is_closed = false;
                for said in bed.client(*who).said.drain(..) {
                    match said {
                        ServerMethod::Ack { tag, multiple } => {
                            let first = if multiple { 0 } else { tag };
                            heard.extend((first..=tag).map(|tag| (tag, true)));
                        }
                        ServerMethod::Nack { tag } => heard.push((tag, false)),
                        ServerMethod::Done("tx.commit-ok") => in_order.push(true),
                        ServerMethod::ChannelClosed { .. } => {
                            in_order.push(false);
                            is_closed = true;
                        }
                        _ => {}
                    }
                }
                if is_closed {
                    bed.amqp_call(*who, &Method::TxSelect(tx::Select));
                }
            }
            End::Mqtt(who, _) => {
                for said in bed.client(*who).said.drain(..) {
                    if let Packet::PubAck { id, reason } | Packet::PubRec { id, reason } = said {
                        heard.push((u64::from(id), !reason.is_error()));
                    }
                }
            }
            End::Stomp(Some(who)) => {
                for said in bed.client(*who).heard.drain(..) {
                    match said {
                        ServerFrame::Receipt(name) => {
                            heard.push((name.parse().expect("a number"), true))
                        }
                        ServerFrame::Error { .. } => in_order.push(false),
                        _ => {}
                    }
                }
            }
            End::Coap(peer) => {
                let id = |token: &[u8]| u64::from(u16::from_be_bytes([token[1], token[2]]));
                let all = bed.heard(*peer).into_iter();
                let answers = all.filter(|it| it.token.len() == 3);
                heard.extend(answers.map(|it| (id(&it.token), it.code.class() == 2)));
            }
            End::CoapStream(who) => {
                let id = |token: &[u8]| u64::from(u16::from_be_bytes([token[0], token[1]]));
                let all = bed.client(*who).heard().into_iter();
                heard.extend(all.map(|it| (id(&it.token), it.code.class() == 2)));
            }
            End::Xmpp(who) => {
                let all = bed.client(*who).got.drain(..);
                let answers = all.filter(|(_, stanza)| stanza.starts_with("<iq"));
                in_order.extend(answers.map(|(_, it)| !it.contains("error")));
            }
            End::Line(who) => {
                let bytes = std::mem::take(&mut bed.client(*who).received);
                let text = String::from_utf8(bytes).expect("text");
                in_order.extend(text.lines().map(|line| line.starts_with("OK")));
            }
            End::Will(_) | End::Stomp(None) | End::Zmtp(_) => {}
        }
        let answer = |is_accepted| match is_accepted {
            true => Answer::Accepted,
            false => Answer::Refused,
        };
        for (name, is_accepted) in heard {
            if let Some(at) = self.open.iter().position(|(open, _)| *open == name) {
                let (_, place) = self.open.remove(at);
                self.answers[place] = answer(is_accepted);
            }
        }
        for is_accepted in in_order {
            if !self.open.is_empty() {
                let (_, place) = self.open.remove(0);
                self.answers[place] = answer(is_accepted);
            }
        }
    }
}

fn coap_request(way: Way, place: Place<'_>, wish: Wish, body: &str) -> String {
    let (method, place) = match way {
        Way::CoapPut => ("PUT", Place::Address(ADDRESS)),
        _ => ("POST", place),
    };
    let expiry = wish.lifetime_secs.map(|secs| format!("?expiry={secs}"));
    let expiry = expiry.unwrap_or_default();
    format!("{method} {}{expiry} : {body}", place.path())
}

/// A consumer of `before` rejects what is there.
fn reject(stage: &mut Stage) {
    let peer = stage.connect(Protocol::Amqp, "rejects");
    stage.ask(peer, Place::Queue("before"));
    for delivery in stage.received(peer) {
        stage.reject(peer, &delivery);
    }
    stage.lose(peer);
}
