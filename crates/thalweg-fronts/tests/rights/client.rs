//! What clients say, protocol by protocol: how each names an address, publishes to it and asks for what is there.

use crate::world::{Hello, Protocol, Who, World};
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{
    BasicProperties, ContentHeader, FieldValue, Gathered, Method, Table, TableWriter,
};
use thalweg_coap::{Code, Encoder, Kind, Token, option};
use thalweg_model::syntax::DOTTED;
use thalweg_mqtt::{PublishOut, QoS, ReasonCode, SubscribeOptions, SubscribeOut, WillOut};
use thalweg_stomp::FrameLimits;

pub const NAMES_BROKEN: &str = "the broker speaks the protocol";

/// What an MQTT client says of its session.
#[derive(Clone, Debug, Default)]
pub struct Mqtt {
    pub client_id: String,
    pub is_clean: bool,
    /// The session outlives its connection.
    pub is_kept: bool,
    /// Topic, payload and whether it is retained.
    pub will: Option<(String, String, bool)>,
}

pub enum Machine {
    Mqtt {
        side: thalweg_mqtt::ClientSide,
        is_holding: bool,
    },
    Amqp(Amqp),
    Stomp(thalweg_stomp::ClientSide),
}

pub struct Amqp {
    pub side: thalweg_amqp::ClientSide,
    /// Deliveries that are not settled.
    pub held: Vec<u64>,
}

/// What a machine looks at, and where it writes.
pub struct Look<'a> {
    pub hello: &'a Hello,
    pub up: &'a mut Vec<u8>,
    pub down: &'a mut Vec<u8>,
    pub refusals: &'a mut Vec<String>,
}

/// Where a message is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A plain address.
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

/// What a message is published under that names its targets in a header.
const COVER: &str = "cover.x";

/// Where messages are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address, plain or of an exchange.
    Address(String),
    /// A queue, by its address.
    Queue(String),
}

/// How a receiver asks for what is published at an address.
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

/// How a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    Mqtt3,
    Mqtt5,
    AmqpConsume,
    AmqpGet,
    Stomp,
    Coap,
}

impl Receiver {
    pub const ALL: [Receiver; 6] = [
        Receiver::Mqtt3,
        Receiver::Mqtt5,
        Receiver::AmqpConsume,
        Receiver::AmqpGet,
        Receiver::Stomp,
        Receiver::Coap,
    ];

    pub fn protocol(self) -> Protocol {
        match self {
            Receiver::Mqtt3 => Protocol::Mqtt3,
            Receiver::Mqtt5 => Protocol::Mqtt5,
            Receiver::AmqpConsume | Receiver::AmqpGet => Protocol::Amqp,
            Receiver::Stomp => Protocol::Stomp,
            Receiver::Coap => Protocol::Coap,
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

    /// What is meant in the end, however it is named.
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

impl Machine {
    pub fn connect(hello: &Hello, up: &mut Vec<u8>) -> Machine {
        match hello.protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let is_5 = hello.protocol == Protocol::Mqtt5;
                let mut side = thalweg_mqtt::ClientSide::new(1 << 20);
                let will = hello
                    .mqtt
                    .will
                    .as_ref()
                    .map(|(topic, payload, retain)| WillOut {
                        message: PublishOut {
                            topic,
                            payload: payload.as_bytes(),
                            qos: QoS::AtLeastOnce,
                            retain: *retain,
                            ..PublishOut::default()
                        },
                        delay_secs: 0,
                    });
                let connect = thalweg_mqtt::ConnectOut {
                    version: if is_5 {
                        thalweg_mqtt::Version::V5
                    } else {
                        thalweg_mqtt::Version::V311
                    },
                    client_id: &hello.mqtt.client_id,
                    clean_start: hello.mqtt.is_clean,
                    session_expiry: if hello.mqtt.is_kept && is_5 { 3600 } else { 0 },
                    username: Some(hello.user),
                    password: Some(b"x"),
                    will,
                    ..thalweg_mqtt::ConnectOut::default()
                };
                side.connect(&connect, up).expect("short strings");
                Machine::Mqtt {
                    side,
                    is_holding: false,
                }
            }
            Protocol::Amqp => {
                let mut side = thalweg_amqp::ClientSide::new(131_072, 1 << 20);
                side.connect(up);
                Machine::Amqp(Amqp {
                    side,
                    held: Vec::new(),
                })
            }
            Protocol::Stomp => {
                let mut side = thalweg_stomp::ClientSide::new(FrameLimits::default());
                let connect = thalweg_stomp::ConnectOut {
                    host: if hello.tenant.is_empty() {
                        "/"
                    } else {
                        hello.tenant
                    },
                    login: Some(hello.user),
                    passcode: Some("x"),
                    ..thalweg_stomp::ConnectOut::default()
                };
                side.connect(&connect, up);
                Machine::Stomp(side)
            }
            Protocol::Coap => unreachable!("CoAP has no streams here"),
        }
    }

    /// Answers what the broker wrote.
    pub fn look(&mut self, look: Look<'_>) {
        let used = match self {
            Machine::Mqtt { side, is_holding } => {
                look_mqtt(side, *is_holding, look.up, look.down, look.refusals)
            }
            Machine::Amqp(amqp) => amqp.look(look.hello, look.up, look.down, look.refusals),
            Machine::Stomp(side) => look_stomp(side, look.down, look.refusals),
        };
        look.down.drain(..used);
    }
}

fn look_mqtt(
    side: &mut thalweg_mqtt::ClientSide,
    is_holding: bool,
    up: &mut Vec<u8>,
    down: &[u8],
    refusals: &mut Vec<String>,
) -> usize {
    use thalweg_mqtt::ClientEvent;
    let mut used = 0;
    while let Some((consumed, event)) = side.handle_input(&down[used..]).expect(NAMES_BROKEN) {
        used += consumed;
        match event {
            ClientEvent::Publish(publish) if publish.qos == QoS::AtLeastOnce && !is_holding => {
                side.puback(publish.id, ReasonCode::Success, up);
            }
            ClientEvent::Publish(_) => {}
            ClientEvent::PubAck(ack) if !ack.reason.is_error() => {}
            other => {
                let text = format!("{other:?}");
                if ["NotAuthorized", "codes: [128]", "codes: [135]"]
                    .iter()
                    .any(|no| text.contains(no))
                {
                    refusals.push(text);
                }
            }
        }
    }
    used
}

fn look_stomp(
    side: &mut thalweg_stomp::ClientSide,
    down: &[u8],
    refusals: &mut Vec<String>,
) -> usize {
    let mut used = 0;
    while let Some((consumed, event)) = side.handle_input(&down[used..]).expect(NAMES_BROKEN) {
        used += consumed;
        if let thalweg_stomp::ClientEvent::Error(error) = event {
            refusals.push(format!("{error:?}"));
        }
    }
    used
}

impl Amqp {
    fn look(
        &mut self,
        hello: &Hello,
        up: &mut Vec<u8>,
        down: &[u8],
        refusals: &mut Vec<String>,
    ) -> usize {
        use thalweg_amqp::ClientEvent;
        let mut used = 0;
        loop {
            let mut gathered = Gathered::default();
            let read = self
                .side
                .handle_input(&down[used..], &mut gathered)
                .expect(NAMES_BROKEN);
            let Some((consumed, event)) = read else {
                return used;
            };
            used += consumed;
            match event {
                ClientEvent::Start(_) => {
                    let response = thalweg_amqp::ClientSide::plain(hello.user, "x");
                    let mut buffer = Vec::new();
                    let mut writer = TableWriter::new(&mut buffer);
                    writer.table("capabilities", |table| {
                        table
                            .bool("consumer_cancel_notify", true)
                            .bool("authentication_failure_close", true);
                    });
                    self.side.start_ok(writer.finish(), "PLAIN", &response, up);
                }
                ClientEvent::Tune(offer) => {
                    self.side.tune_ok(offer, up);
                    self.side.open(
                        if hello.tenant.is_empty() {
                            "/"
                        } else {
                            hello.tenant
                        },
                        up,
                    );
                }
                ClientEvent::OpenOk => self.side.channel_open(1, up),
                ClientEvent::ChannelClose { ch, code, text, .. } => {
                    refusals.push(format!("{code} {text}"));
                    self.side.channel_close_ok(ch, up);
                    self.side.channel_open(ch, up);
                }
                ClientEvent::CloseConnection { code, text, .. } => {
                    refusals.push(format!("{code} {text}"));
                    self.side.close_ok(up);
                }
                ClientEvent::Content {
                    method: Method::BasicDeliver(deliver),
                    ..
                } => {
                    self.held.push(deliver.delivery_tag);
                }
                ClientEvent::Content {
                    method: Method::BasicGetOk(got),
                    ..
                } => {
                    self.held.push(got.delivery_tag);
                }
                ClientEvent::Method {
                    method: Method::BasicCancel(cancel),
                    ..
                } => {
                    refusals.push(format!("cancelled {}", cancel.consumer_tag));
                }
                _ => {}
            }
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
                let topic = target.address();
                self.says(who, |machine, up| {
                    let Machine::Mqtt { side, .. } = machine else {
                        return;
                    };
                    let Some(id) = side.next_id() else { return };
                    let (qos, payload) = (QoS::AtLeastOnce, body.as_bytes());
                    let publish = PublishOut {
                        topic: &topic,
                        payload,
                        qos,
                        retain,
                        id,
                        ..PublishOut::default()
                    };
                    side.publish(&publish, up).expect("it fits");
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
                let headers = Some(headers.finish());
                let properties = BasicProperties {
                    headers,
                    delivery_mode: Some(2),
                    ..Default::default()
                };
                self.says(who, |machine, up| {
                    let Machine::Amqp(amqp) = machine else { return };
                    let publish = basic::Publish {
                        exchange: &exchange,
                        routing_key: &key,
                        ..Default::default()
                    };
                    let header = ContentHeader::Properties(&properties);
                    amqp.side
                        .publish(1, &publish, header, body.as_bytes(), up)
                        .expect("it fits");
                });
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
                self.says(who, |machine, up| {
                    let Machine::Stomp(side) = machine else {
                        return;
                    };
                    let send = thalweg_stomp::SendOut {
                        destination: &destination,
                        body: body.as_bytes(),
                        ..Default::default()
                    };
                    let more = |w: &mut thalweg_stomp::HeaderWriter<'_>| {
                        w.put("match", "yes");
                        w.put("persistent", "true");
                        if retain {
                            w.put("retain", "set");
                        }
                    };
                    side.send(&send, more, up);
                });
            }
            Protocol::Coap => match target {
                Target::Queue(name) => {
                    self.coap(who, Code::POST, &format!("q/{name}"), "", false, body)
                }
                _ => {
                    let (path, query) = (
                        format!("ps/data/{}", target.address()),
                        if retain { "" } else { "retain=false" },
                    );
                    self.coap(who, Code::POST, &path, query, false, body);
                }
            },
        }
    }

    /// Publishes as a request, for whose answer a client of CoAP waits.
    pub fn request(&mut self, who: Who, target: &Target, body: &str) {
        // Answers can come back from all shards when the broker has seen a first request.
        self.coap(who, Code::GET, "ps/data/nothing", "", false, "");
        let path = format!("rpc/{}", target.address());
        self.coap(who, Code::POST, &path, "", false, body);
    }

    fn coap(&mut self, who: Who, code: Code, path: &str, query: &str, observes: bool, body: &str) {
        self.asks(who, |id, out| {
            let token = Token::new(&id.to_be_bytes()).expect("two bytes");
            let mut encoder = Encoder::start(out, Kind::Confirmable, code, id, token);
            if observes {
                encoder.option(option::OBSERVE, &[]);
            }
            for level in path.split('/') {
                encoder.option(option::URI_PATH, level.as_bytes());
            }
            if !query.is_empty() {
                encoder.option(option::URI_QUERY, query.as_bytes());
            }
            encoder.payload(body.as_bytes());
        });
    }

    /// A subscription of an MQTT client. One that holds does not acknowledge what comes.
    pub fn subscribe(&mut self, who: Who, filter: &str, holds: bool) {
        self.says(who, |machine, up| {
            let Machine::Mqtt { side, is_holding } = machine else {
                return;
            };
            *is_holding = holds;
            let Some(id) = side.next_id() else { return };
            let options = SubscribeOptions {
                qos: QoS::AtLeastOnce,
                ..SubscribeOptions::default()
            };
            let subscribe = SubscribeOut {
                id,
                filters: &[(filter, options)],
                ..SubscribeOut::default()
            };
            side.subscribe(&subscribe, up).expect("it fits");
        });
    }

    fn stomp_subscribe(&mut self, who: Who, destination: &str, headers: &[(&str, &str)]) {
        self.says(who, |machine, up| {
            let Machine::Stomp(side) = machine else {
                return;
            };
            let subscribe = thalweg_stomp::SubscribeOut {
                id: Some(destination),
                destination,
                headers,
                ..Default::default()
            };
            side.subscribe(&subscribe, up);
        });
    }

    /// A method of AMQP.
    pub fn call(&mut self, who: Who, method: &Method<'_>) {
        self.says(who, |machine, up| {
            let Machine::Amqp(amqp) = machine else {
                panic!("no AMQP client")
            };
            amqp.side.method(1, method, up);
        });
    }

    pub fn consume(&mut self, who: Who, queue: &str, no_ack: bool) {
        self.call(
            who,
            &Method::BasicConsume(basic::Consume {
                queue,
                no_ack,
                consumer_tag: "",
                ..Default::default()
            }),
        );
    }

    pub fn declare(&mut self, who: Who, queue: &str, arguments: &[(&str, Argument)]) {
        let mut buffer = Vec::new();
        let arguments = table(&mut buffer, arguments);
        self.call(
            who,
            &Method::QueueDeclare(queue::Declare {
                queue,
                arguments,
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
        let mut buffer = Vec::new();
        let arguments = table(&mut buffer, arguments);
        self.call(
            who,
            &Method::ExchangeDeclare(exchange::Declare {
                exchange,
                kind,
                arguments,
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
        let mut buffer = Vec::new();
        let arguments = table(&mut buffer, arguments);
        let bind = queue::Bind {
            queue,
            exchange,
            routing_key,
            arguments,
            ..Default::default()
        };
        self.call(who, &Method::QueueBind(bind));
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
        };
        let source = Source::Queue(format!("$q/{queue}"));
        self.ask(who, how, &source, Asking::Exactly);
        self.poll(who, how, &source, Asking::Exactly);
    }

    /// Asks for what is published at a source, before it is or after.
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
                // These ask when something is there.
                Receiver::AmqpGet | Receiver::Coap => {}
            },
            Source::Address(address) => self.ask_at(who, how, address, asking),
        }
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
            (Receiver::Coap, Asking::LastValueOnly) => {}
            (Receiver::Coap, _) => {
                self.coap(who, Code::GET, &format!("ps/data/{address}"), "", true, "")
            }
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
                self.coap(
                    who,
                    Code::GET,
                    &format!("q/{}", name_of(address)),
                    "",
                    false,
                    "",
                );
            }
            (Receiver::Coap, Source::Address(address), Asking::LastValueOnly) => {
                self.coap(who, Code::GET, &format!("ps/data/{address}"), "", false, "");
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
