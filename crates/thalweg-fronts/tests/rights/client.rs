//! Operations of clients, protocol by protocol: how each names an address, publishes to it and reads from it.

use crate::world::{Protocol, Who, World};
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, FieldValue, Method, Table, TableWriter};
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_model::Filter;
use thalweg_model::syntax::DOTTED;
use thalweg_mqtt::{PublishOut, QoS, SubscribeOptions};
use thalweg_stomp::{HeaderWriter, SendOut, SubscribeOut};
use thalweg_testbed::mqtt;
use thalweg_testbed::stomp::Stomp;
use thalweg_testbed::xmpp::{SERVICE, Xmpp};
use thalweg_xmpp::StanzaKind;
use thalweg_zmtp::SocketType;

/// Session parameters of an MQTT client.
#[derive(Clone, Debug, Default)]
pub struct Mqtt {
    pub client_id: String,
    pub is_clean: bool,
    /// The session outlives its connection.
    pub is_kept: bool,
    /// Topic, payload and whether it is retained.
    pub will: Option<(String, String, bool)>,
}

/// Where a message is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Plain(String),
    /// The same, named through AMQP's default exchange.
    Alias(String),
    /// A queue, by its name.
    Queue(String),
    /// An exchange and a key of one word.
    Exchange(String, String),
    /// One of these, named in a header of a message that is published elsewhere in the same exchange.
    Copied(&'static str, Box<Target>),
}

/// Address under which a message is published whose targets are in a header.
const COVER: &str = "cover.x";

/// Where messages are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address, plain or of an exchange.
    Address(String),
    /// A queue, by its address.
    Queue(String),
}

/// How a receiver reads messages published at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asking {
    Exactly,
    ByWildcard,
    InGroup,
    /// A subscription that gets the last value first.
    WithLastValue,
    /// The last value alone.
    LastValueOnly,
}

/// How a receiver gets its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    Mqtt3,
    Mqtt5,
    AmqpConsume,
    AmqpGet,
    Stomp,
    Coap,
    Sub,
    Pull,
    Rep,
    Xmpp,
}

impl Receiver {
    pub const ALL: [Receiver; 10] = [
        Receiver::Mqtt3,
        Receiver::Mqtt5,
        Receiver::AmqpConsume,
        Receiver::AmqpGet,
        Receiver::Stomp,
        Receiver::Coap,
        Receiver::Sub,
        Receiver::Pull,
        Receiver::Rep,
        Receiver::Xmpp,
    ];

    pub fn protocol(self) -> Protocol {
        match self {
            Receiver::Mqtt3 => Protocol::Mqtt3,
            Receiver::Mqtt5 => Protocol::Mqtt5,
            Receiver::AmqpConsume | Receiver::AmqpGet => Protocol::Amqp,
            Receiver::Stomp => Protocol::Stomp,
            Receiver::Coap => Protocol::Coap,
            Receiver::Sub | Receiver::Pull | Receiver::Rep => Protocol::Zmtp,
            Receiver::Xmpp => Protocol::Xmpp,
        }
    }

    /// The group that it is in when it is in one: workers of ZeroMQ have theirs.
    pub fn group(self) -> &'static str {
        match self {
            Receiver::Rep => "zmtp",
            _ => "g",
        }
    }
}

impl Target {
    /// The canonical address in the default tenant.
    pub fn address(&self) -> String {
        match self {
            Target::Plain(address) | Target::Alias(address) => address.clone(),
            Target::Queue(name) => format!("$q/{name}"),
            Target::Exchange(name, key) => format!("$x/{name}/{key}"),
            Target::Copied(_, to) => to.address(),
        }
    }

    /// The resolved address, however it is named.
    pub fn meant(&self) -> &Target {
        match self {
            Target::Copied(_, to) => to.meant(),
            other => other,
        }
    }

    /// Whether clients of a protocol have words for it.
    pub fn can_be_said_in(&self, protocol: Protocol) -> bool {
        match (self, protocol) {
            (Target::Alias(_) | Target::Copied(..), _) => protocol == Protocol::Amqp,
            _ => true,
        }
    }
}

/// A canonical address or filter in AMQP's words: exchange and key.
fn in_amqp(canonical: &str) -> (String, String) {
    if let Some((name, key)) = canonical
        .strip_prefix("$x/")
        .and_then(|rest| rest.split_once('/'))
    {
        let key = key.replace('/', ".").replace('+', "*");
        return (name.into(), key);
    }
    let mut key = String::new();
    DOTTED.write_filter(canonical, &mut key);
    ("amq.topic".into(), key)
}

/// An action on a node, as a request to the service.
fn pubsub(kind: &str, id: &str, action: &str, client: &mut Xmpp, up: &mut Vec<u8>) {
    let content = format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{action}</pubsub>");
    client.request(kind, SERVICE, id, &content, up);
}

/// The filter that matches every address beside this one.
fn beside(address: &str) -> String {
    match address.rsplit_once('/') {
        Some((before, _)) => format!("{before}/+"),
        None => "+".into(),
    }
}

impl World {
    pub fn publish(&mut self, who: Who, target: &Target, body: &str, retain: bool) {
        match self.protocol(who) {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let publish = PublishOut {
                    topic: &target.address(),
                    payload: body.as_bytes(),
                    qos: QoS::AtLeastOnce,
                    retain,
                    ..PublishOut::default()
                };
                self.says(who, |client: &mut mqtt::Mqtt, up| {
                    client.publish(&publish, up);
                });
            }
            Protocol::Amqp => {
                let (exchange, mut key) = match target.meant() {
                    Target::Plain(address) => in_amqp(address),
                    Target::Alias(address) => (String::new(), format!("$a/{address}")),
                    Target::Queue(name) => (String::new(), name.clone()),
                    Target::Exchange(name, key) => (name.clone(), key.clone()),
                    Target::Copied(..) => unreachable!("what is meant is no copy"),
                };
                let mut buffer = Vec::new();
                let mut headers = TableWriter::new(&mut buffer);
                if let Target::Copied(header, _) = target {
                    headers.array(header, |keys| _ = keys.str(&key));
                    key = COVER.into();
                }
                headers.str("match", "yes");
                if retain {
                    headers.bool("x-retain", true);
                }
                let properties = BasicProperties {
                    headers: Some(headers.finish()),
                    delivery_mode: Some(2),
                    ..Default::default()
                };
                let publish = basic::Publish {
                    exchange: &exchange,
                    routing_key: &key,
                    ..Default::default()
                };
                let connection = self.connection(who);
                self.bed
                    .amqp_publish(connection, &publish, &properties, body.as_bytes());
            }
            Protocol::Stomp => {
                let destination = match target {
                    Target::Plain(address) | Target::Alias(address) => {
                        format!("/topic/{}", in_amqp(address).1)
                    }
                    Target::Queue(name) => format!("/amq/queue/{name}"),
                    Target::Exchange(name, key) => format!("/exchange/{name}/{key}"),
                    Target::Copied(..) => panic!("STOMP has no copies"),
                };
                let send = SendOut {
                    destination: &destination,
                    body: body.as_bytes(),
                    ..Default::default()
                };
                let more = |w: &mut HeaderWriter<'_>| {
                    w.put("match", "yes");
                    w.put("persistent", "true");
                    if retain {
                        w.put("retain", "set");
                    }
                };
                self.says(who, |client: &mut Stomp, up| {
                    client.side.send(&send, more, up);
                });
            }
            Protocol::Zmtp => {
                let mut settings = ZmtpSettings {
                    header_frame: true,
                    ..ZmtpSettings::default()
                };
                let (address, header) = (target.address(), &b"match:yes\n"[..]);
                if let Target::Queue(name) = target {
                    settings.queue = name.as_str().into();
                    let socket = self.socket(who, SocketType::Push, "", settings);
                    self.bed.zmtp_send(socket, &[header, body.as_bytes()]);
                    return;
                }
                if retain {
                    settings.retains = [Filter::new(&address).expect("a filter")].into();
                }
                let socket = self.socket(who, SocketType::Pub, "", settings);
                let frames = [address.as_bytes(), header, body.as_bytes()];
                self.bed.zmtp_send(socket, &frames);
            }
            // It always keeps what is published.
            Protocol::Xmpp => {
                let action = format!(
                    "<publish node='{}'><item><text xmlns='urn:thalweg:payload:0'>{body}</text></item></publish>",
                    target.address()
                );
                self.says(who, |client: &mut Xmpp, up| {
                    pubsub("set", "p", &action, client, up);
                });
            }
            Protocol::Coap => match target {
                Target::Queue(name) => self.asks(who, &format!("POST /q/{name} : {body}")),
                _ => {
                    let query = if retain { "" } else { "?retain=false" };
                    let address = target.address();
                    self.asks(who, &format!("POST /ps/data/{address}{query} : {body}"));
                }
            },
        }
    }

    /// Publishes as a request, for whose answer a client of CoAP or ZeroMQ waits.
    pub fn request(&mut self, who: Who, target: &Target, body: &str) {
        if self.protocol(who) == Protocol::Zmtp {
            let socket = self.socket(who, SocketType::Req, "", ZmtpSettings::default());
            let address = target.address();
            let frames = [b"", address.as_bytes(), body.as_bytes()];
            return self.bed.zmtp_send(socket, &frames);
        }
        // Answers can come back from all shards when the broker has seen a first request.
        self.asks(who, "GET /ps/data/nothing");
        self.asks(who, &format!("POST /rpc/{} : {body}", target.address()));
    }

    /// A subscription of an MQTT client. One that holds does not acknowledge what comes.
    pub fn subscribe(&mut self, who: Who, filter: &str, holds: bool) {
        self.says(who, |client: &mut mqtt::Mqtt, up| {
            client.acknowledges = !holds;
            let options = SubscribeOptions {
                qos: QoS::AtLeastOnce,
                ..SubscribeOptions::default()
            };
            client.subscribe(filter, options, up);
        });
    }

    /// A message of XMPP from one person to another.
    pub fn write_message(&mut self, who: Who, to: &str, body: &str) {
        self.says(who, |client: &mut Xmpp, up| {
            let body = format!("<body xmlns='jabber:client'>{body}</body>");
            let attributes = [("to", to), ("type", "chat")];
            client.send(StanzaKind::Message, &attributes, &body, up);
        });
    }

    /// A client of XMPP is available from now on.
    pub fn be_there(&mut self, who: Who) {
        self.says(who, |client: &mut Xmpp, up| client.presence(&[], up));
    }

    /// A client of XMPP makes a node, and says how it is to be.
    pub fn make_node(&mut self, who: Who, node: &str) {
        let action = format!(
            "<create node='{node}'/><configure><x xmlns='jabber:x:data' type='submit'><field var='pubsub#persist_items'><value>1</value></field></x></configure>"
        );
        self.says(who, |client: &mut Xmpp, up| {
            pubsub("set", "c", &action, client, up);
        });
    }

    fn stomp_subscribe(&mut self, who: Who, destination: &str, headers: &[(&str, &str)]) {
        let subscribe = SubscribeOut {
            id: Some(destination),
            destination,
            headers,
            ..Default::default()
        };
        self.says(who, |client: &mut Stomp, up| {
            client.side.subscribe(&subscribe, up);
        });
    }

    /// A method of AMQP.
    pub fn call(&mut self, who: Who, method: &Method<'_>) {
        let connection = self.connection(who);
        self.bed.amqp_call(connection, method);
    }

    pub fn consume(&mut self, who: Who, queue: &str, no_ack: bool) {
        let consume = basic::Consume {
            queue,
            no_ack,
            ..Default::default()
        };
        self.call(who, &Method::BasicConsume(consume));
    }

    pub fn declare(&mut self, who: Who, queue: &str, arguments: &[(&str, Argument)]) {
        self.call(
            who,
            &Method::QueueDeclare(queue::Declare {
                queue,
                arguments: table(&mut Vec::new(), arguments),
                ..Default::default()
            }),
        );
    }

    pub fn declare_exchange(
        &mut self,
        who: Who,
        exchange: &str,
        kind: &str,
        arguments: &[(&str, Argument)],
    ) {
        self.call(
            who,
            &Method::ExchangeDeclare(exchange::Declare {
                exchange,
                kind,
                arguments: table(&mut Vec::new(), arguments),
                ..Default::default()
            }),
        );
    }

    pub fn bind(
        &mut self,
        who: Who,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: &[(&str, Argument)],
    ) {
        self.call(
            who,
            &Method::QueueBind(queue::Bind {
                queue,
                exchange,
                routing_key,
                arguments: table(&mut Vec::new(), arguments),
                ..Default::default()
            }),
        );
    }

    pub fn bind_exchange(&mut self, who: Who, source: &str, destination: &str, routing_key: &str) {
        let bind = exchange::Bind {
            destination,
            source,
            routing_key,
            ..Default::default()
        };
        self.call(who, &Method::ExchangeBind(bind));
    }

    /// A subscription of STOMP that binds a queue of that name.
    pub fn stomp_bind(&mut self, who: Who, queue: &str, exchange: &str, key: &str) {
        let headers = [
            ("x-queue-name", queue),
            ("durable", "false"),
            ("auto-delete", "false"),
            ("exclusive", "false"),
            ("ack", "client"),
        ];
        self.stomp_subscribe(who, &format!("/exchange/{exchange}/{key}"), &headers);
    }

    /// Takes what waits in a queue, in whatever way the client's protocol has.
    pub fn take(&mut self, who: Who, queue: &str) {
        let how = match self.protocol(who) {
            Protocol::Mqtt3 => Receiver::Mqtt3,
            Protocol::Mqtt5 => Receiver::Mqtt5,
            Protocol::Amqp => Receiver::AmqpGet,
            Protocol::Stomp => Receiver::Stomp,
            Protocol::Coap => Receiver::Coap,
            Protocol::Zmtp => Receiver::Pull,
            Protocol::Xmpp => Receiver::Xmpp,
        };
        let source = Source::Queue(format!("$q/{queue}"));
        self.ask(who, how, &source, Asking::Exactly);
        self.poll(who, how, &source, Asking::Exactly);
    }

    /// Subscribes to a source, before a publish or after.
    pub fn ask(&mut self, who: Who, how: Receiver, source: &Source, asking: Asking) {
        match source {
            Source::Queue(address) => match how {
                Receiver::Mqtt3 | Receiver::Mqtt5 => {
                    self.subscribe(who, &format!("$share/x/{address}"), false)
                }
                Receiver::AmqpConsume => self.consume(who, name_of(address), true),
                Receiver::Stomp => {
                    self.stomp_subscribe(who, &format!("/amq/queue/{}", name_of(address)), &[])
                }
                Receiver::Pull => {
                    let settings = ZmtpSettings {
                        queue: name_of(address).into(),
                        ..ZmtpSettings::default()
                    };
                    self.socket(who, SocketType::Pull, "", settings);
                }
                Receiver::Rep => self.serve(who, address),
                Receiver::Xmpp => self.ask_at(who, how, address, asking),
                Receiver::Sub => panic!("{how:?} does not take from queues"),
                // These ask when something is there.
                Receiver::AmqpGet | Receiver::Coap => {}
            },
            Source::Address(address) => self.ask_at(who, how, address, asking),
        }
    }

    /// Becomes a worker of an address, or of a queue by its address.
    fn serve(&mut self, who: Who, address: &str) {
        self.socket(who, SocketType::Rep, address, ZmtpSettings::default());
    }

    fn ask_at(&mut self, who: Who, how: Receiver, address: &str, asking: Asking) {
        let filter = if asking == Asking::ByWildcard {
            beside(address)
        } else {
            address.into()
        };
        let (exchange, key) = in_amqp(&filter);
        match (how, asking) {
            (Receiver::Mqtt3 | Receiver::Mqtt5, Asking::InGroup) => {
                self.subscribe(who, &format!("$share/g/{filter}"), false);
            }
            (Receiver::Mqtt3 | Receiver::Mqtt5, _) => self.subscribe(who, &filter, false),
            (Receiver::AmqpConsume, Asking::InGroup) => {
                self.consume(who, &format!("$share/g/{filter}"), true)
            }
            (Receiver::AmqpGet, Asking::LastValueOnly) => {}
            (Receiver::AmqpConsume | Receiver::AmqpGet, _) => {
                let declare = queue::Declare {
                    exclusive: true,
                    ..Default::default()
                };
                self.call(who, &Method::QueueDeclare(declare));
                let arguments: &[_] = match asking {
                    Asking::WithLastValue => &[("x-last-value", Argument::Yes)],
                    _ => &[],
                };
                self.bind(who, "", &exchange, &key, arguments);
                if how == Receiver::AmqpConsume {
                    self.consume(who, "", true);
                }
            }
            (Receiver::Stomp, Asking::InGroup) => {
                self.stomp_subscribe(who, &format!("/amq/queue/$g/g/{filter}"), &[]);
            }
            (Receiver::Stomp, _) => {
                let destination = match &*exchange {
                    "amq.topic" => format!("/topic/{key}"),
                    _ => format!("/exchange/{exchange}/{key}"),
                };
                let headers: &[(&str, &str)] = match asking {
                    Asking::WithLastValue => &[("x-last-value", "true")],
                    Asking::LastValueOnly => &[("x-last-value", "only")],
                    _ => &[],
                };
                self.stomp_subscribe(who, &destination, headers);
            }
            (Receiver::Pull, _) => panic!("PULL takes from queues"),
            (Receiver::Rep, _) => self.serve(who, address),
            (Receiver::Sub, _) => {
                let settings = ZmtpSettings {
                    last_values: asking == Asking::WithLastValue,
                    ..ZmtpSettings::default()
                };
                let socket = self.socket(who, SocketType::Sub, "", settings);
                let prefix = filter.trim_end_matches('+');
                self.bed.zmtp_subscribe(socket, prefix.as_bytes());
            }
            (Receiver::Xmpp, Asking::LastValueOnly) => {}
            (Receiver::Xmpp, _) => {
                let (node, depth) = match filter.strip_suffix("/+") {
                    Some(above) => (above, "1"),
                    None => (&*filter, "0"),
                };
                self.says(who, |client: &mut Xmpp, up| {
                    let jid = client.jid.clone().unwrap_or_default();
                    let action = format!(
                        "<subscribe node='{node}' jid='{jid}'/><options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#subscription_depth'><value>{depth}</value></field></x></options>"
                    );
                    pubsub("set", "s", &action, client, up);
                });
            }
            (Receiver::Coap, Asking::LastValueOnly) => {}
            (Receiver::Coap, _) => self.asks(who, &format!("GET /ps/data/{address} observe=0")),
        }
    }

    /// Asks once more, if that is how a receiver gets anything.
    pub fn poll(&mut self, who: Who, how: Receiver, source: &Source, asking: Asking) {
        match (how, source, asking) {
            (Receiver::AmqpGet, Source::Queue(address), _) => self.get(who, name_of(address), true),
            (Receiver::AmqpGet, Source::Address(address), Asking::LastValueOnly) => {
                self.get(who, &format!("$last/{}", in_amqp(address).1), true);
            }
            (Receiver::AmqpGet, Source::Address(_), _) => self.get(who, "", true),
            (Receiver::Coap, Source::Queue(address), _) => {
                self.asks(who, &format!("GET /q/{}", name_of(address)));
            }
            (Receiver::Coap, Source::Address(address), Asking::LastValueOnly) => {
                self.asks(who, &format!("GET /ps/data/{address}"));
            }
            (Receiver::Xmpp, Source::Address(address), Asking::LastValueOnly) => {
                let action = format!("<items node='{address}'/>");
                self.says(who, |client: &mut Xmpp, up| {
                    pubsub("get", "i", &action, client, up);
                });
            }
            _ => {}
        }
    }

    pub fn get(&mut self, who: Who, queue: &str, no_ack: bool) {
        self.call(who, &Method::BasicGet(basic::Get { queue, no_ack }));
    }
}

/// The name of the queue of an address; one of another tenant has none, and is tried as it is.
fn name_of(address: &str) -> &str {
    address.strip_prefix("$q/").unwrap_or(address)
}

/// The value of an argument of AMQP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    Text(String),
    Number(i64),
    Yes,
}

pub fn table<'b>(buffer: &'b mut Vec<u8>, arguments: &[(&str, Argument)]) -> Table<'b> {
    let mut writer = TableWriter::new(buffer);
    for (name, value) in arguments {
        match value {
            Argument::Text(text) => writer.value(name, FieldValue::LongStr(text.as_bytes())),
            Argument::Number(number) => writer.i64(name, *number),
            Argument::Yes => writer.bool(name, true),
        };
    }
    writer.finish()
}
