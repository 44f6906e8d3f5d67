//! A client of any protocol behind one interface: a publisher's options are translated into its protocol's, and a
//! subscriber's view back. Written from the documents, and without the broker's code.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::agent::Agent;
use super::endpoint::{self, Endpoint};
use super::protocol::Protocol;
use super::pubsub;
use super::puppet::{Connect, Library, Message, PATIENCE, Peer};
use crate::broker::{Broker, Options};

/// A broker with listeners for all of them; none, and nothing to test, if another broker plays Thalweg's part.
pub fn broker() -> Option<Broker> {
    options().start_for_queues()
}

/// The same whose groups dispatch in turns: by itself a group dispatches to the member that will be done first, which may be
/// the same one each time where messages come more slowly than it acknowledges.
pub fn broker_in_turns() -> Option<Broker> {
    options()
        .set("groups.strategy", "round-robin")
        .start_for_queues()
}

pub(super) fn options() -> Options {
    // An observer of a resource without a value waits for the first one.
    Broker::with()
        .queues()
        .coap()
        .zmtp()
        .xmpp()
        .set("coap.observe_empty", "true")
        // A megabyte is a third more in base64.
        .set("xmpp.stanza_bytes_max", "2000000")
}

/// Destination or filter of a message, in common terms.
#[derive(Clone, Debug)]
pub struct Place {
    /// Topic name or filter.
    pub mqtt: String,
    /// Key of `amq.topic`.
    pub amqp: String,
    pub stomp: String,
    /// Path of a URI.
    pub coap: String,
    /// First frame, of which a filter is the beginning; node of XMPP, whose filters are those of MQTT.
    pub zmtp: String,
}

impl Place {
    /// An address or filter that holds nothing odd.
    pub fn plain(mqtt: &str) -> Self {
        let dotted = mqtt.replace('/', ".").replace('+', "*");
        Self {
            stomp: format!("/topic/{dotted}"),
            amqp: dotted,
            coap: endpoint::path_of(mqtt),
            mqtt: mqtt.to_owned(),
            zmtp: mqtt.to_owned(),
        }
    }

    /// Topic and key; the destination follows from the key, the path from the topic.
    pub fn of(mqtt: &str, amqp: &str) -> Self {
        let stomp = format!("/topic/{amqp}");
        Self {
            mqtt: mqtt.to_owned(),
            amqp: amqp.to_owned(),
            stomp,
            coap: endpoint::path_of(mqtt),
            // The one byte of those in use here that a topic cannot hold and a frame can.
            zmtp: mqtt.replace("%2B", "+"),
        }
    }

    /// As this protocol writes it.
    pub fn to(&self, protocol: Protocol) -> &str {
        match protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => &self.mqtt,
            Protocol::Amqp => &self.amqp,
            Protocol::Stomp => &self.stomp,
            Protocol::Coap => &self.coap,
            Protocol::Zmtp | Protocol::Xmpp => &self.zmtp,
        }
    }
}

/// Options of a publish.
#[derive(Clone, Debug, Default)]
pub struct Post {
    pub payload: Vec<u8>,
    pub content_type: Option<String>,
    /// Names and typed values, as the puppets write them.
    pub user: Vec<(String, Value)>,
    /// Correlation data of a request or reply.
    pub correlation: Option<Vec<u8>>,
    /// Where the answer goes, in the publisher's own words.
    pub reply_to: Option<String>,
    pub expiry: Option<u32>,
    pub priority: Option<u8>,
    /// Whether it is the last value of its address from now on.
    pub keep: bool,
    /// Whether the last value of its address goes (MQTT: by a kept message that is empty).
    pub clear: bool,
}

impl Post {
    /// A payload and nothing else.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self {
            payload: payload.into(),
            ..Self::default()
        }
    }
}

/// A message as a subscriber sees it.
#[derive(Clone, Default)]
pub struct Seen {
    /// Topic, routing key or destination.
    pub address: String,
    pub payload: Vec<u8>,
    pub content_type: Option<String>,
    pub user: Vec<(String, Value)>,
    /// Correlation data of a request or reply, decoded.
    pub correlation: Option<Vec<u8>>,
    /// How it was encoded, for rules: `text`, `header`, `base64`.
    pub correlation_form: &'static str,
    /// Where the answer goes, in the subscriber's words.
    pub reply_to: Option<String>,
    /// Milliseconds that are said to be left.
    pub expiry_ms: Option<u64>,
    pub priority: Option<u64>,
    /// Flagged as delivered before.
    pub redelivered: bool,
    /// The name by which it is settled.
    pub tag: Value,
    /// Value of a header `x-address`.
    pub whole_address: Option<String>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.payload[..self.payload.len().min(40)].escape_ascii();
        write!(
            f,
            "[{:?} {} bytes: {start}",
            self.address,
            self.payload.len()
        )?;
        write!(f, ", type {:?}, user {:?}", self.content_type, self.user)?;
        write!(
            f,
            ", correlation {:?} by {}, reply {:?}",
            self.correlation, self.correlation_form, self.reply_to
        )?;
        write!(
            f,
            ", expiry {:?}, priority {:?}, again {}]",
            self.expiry_ms, self.priority, self.redelivered
        )
    }
}

pub struct Speaker {
    pub protocol: Protocol,
    pub library: Library,
    door: Door,
}

enum Door {
    Mqtt(Peer),
    Amqp(Agent),
    Stomp(Agent),
    Coap(Endpoint),
    Zmtp(Agent),
    Xmpp(Agent),
}

impl fmt::Debug for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} by {:?}",
            self.protocol.capabilities().name,
            self.library
        )
    }
}

impl Speaker {
    pub fn open(broker: &Broker, (protocol, library): (Protocol, Library)) -> Self {
        Self::open_with(broker, (protocol, library), false)
    }

    /// Connects; `unsettled` is for libraries of MQTT and XMPP that would acknowledge by themselves.
    pub fn open_with(
        broker: &Broker,
        (protocol, library): (Protocol, Library),
        unsettled: bool,
    ) -> Self {
        let door = match protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let version = if protocol == Protocol::Mqtt5 { 5 } else { 4 };
                let connect = Connect::new(library, version, broker.mqtt());
                Door::Mqtt(connect.with("unsettled", json!(unsettled)).open())
            }
            Protocol::Amqp => Door::Amqp(Agent::open(library, broker.amqp(), json!({}))),
            Protocol::Stomp => {
                let address = if library == Library::Stompjs {
                    broker.stomp_websocket()
                } else {
                    broker.stomp()
                };
                Door::Stomp(Agent::open(library, address, json!({})))
            }
            Protocol::Coap => Door::Coap(Endpoint::open(library, broker.coap())),
            // Two sockets, of which a relay would carry one.
            Protocol::Zmtp => Door::Zmtp(Agent::open_endpoint(library, broker.zmtp(), json!({}))),
            Protocol::Xmpp => {
                let fields = json!({ "unsettled": unsettled });
                Door::Xmpp(Agent::open(library, broker.xmpp(), fields))
            }
        };
        Self {
            protocol,
            library,
            door,
        }
    }

    /// One client of each.
    pub fn all(broker: &Broker, speakers: &[(Protocol, Library)]) -> Vec<Self> {
        speakers
            .iter()
            .map(|who| Self::open(broker, *who))
            .collect()
    }

    /// Publishes to an address and waits until the broker has it.
    pub fn publish(&self, place: &Place, post: &Post) {
        let native = place.to(self.protocol);
        self.send("amq.topic", native, native, post);
    }

    /// Sends to a queue, likewise.
    pub fn send_to_queue(&self, queue: &str, post: &Post) {
        self.send("", queue, &queue_to(self.protocol, queue), post);
    }

    /// Answers to where a message says, as servers of this protocol do.
    pub fn answer(&self, to: &Seen, post: &Post) {
        let place = to
            .reply_to
            .as_deref()
            .unwrap_or_else(|| panic!("{self:?} is told no place to answer to: {to:?}"));
        self.send(
            "",
            place,
            place,
            &Post {
                correlation: to.correlation.clone(),
                ..post.clone()
            },
        );
    }

    /// To a topic or destination; for AMQP to an exchange by a key.
    fn send(&self, exchange: &str, key: &str, native: &str, post: &Post) {
        match &self.door {
            Door::Mqtt(peer) => {
                let reason = peer.publish(&mqtt(self.protocol, native, post));
                assert!(
                    [0, 0x10].contains(&reason),
                    "{self:?}: PUBACK of {native} says {reason:#x}"
                );
            }
            Door::Amqp(agent) => {
                let answer = agent.tell("publish", json!({ "exchange": exchange, "key": key, "payload": hex(&post.payload), "properties": amqp(post) }));
                assert_eq!(
                    answer["outcome"], "confirmed",
                    "{self:?} publishes to {exchange:?} {key:?}"
                );
            }
            Door::Stomp(agent) => {
                let mut headers = stomp(post);
                headers.push(("destination".to_owned(), native.to_owned()));
                agent.tell(
                    "frame",
                    json!({ "command": "SEND", "headers": headers, "payload": hex(&post.payload) }),
                );
            }
            Door::Coap(endpoint) => endpoint.send(native, post),
            Door::Zmtp(agent) => {
                let frames = [hex(native.as_bytes()), hex(&post.payload)];
                agent.tell("send", json!({ "frames": frames }));
            }
            Door::Xmpp(agent) => pubsub::send(agent, native, post),
        }
    }

    /// Subscribes to a filter; a protocol without wildcards subscribes to these places instead.
    pub fn listen(&self, filter: &Place, places: &[&Place]) {
        if self.protocol.capabilities().syntax.wildcards.is_some() {
            return self.subscribe(filter, false);
        }
        let mut places: Vec<&&Place> = places.iter().collect();
        places.sort_by(|one, other| one.coap.cmp(&other.coap));
        places.dedup_by(|one, other| one.coap == other.coap);
        places.iter().for_each(|place| self.subscribe(place, false));
    }

    /// Subscribes to a filter; last values come, too, if wished (to MQTT and XMPP they always do).
    pub fn subscribe(&self, filter: &Place, last_values: bool) {
        let native = filter.to(self.protocol);
        match &self.door {
            Door::Mqtt(peer) => assert_eq!(peer.subscribe(&[native], 1), [1], "{self:?}"),
            Door::Amqp(agent) => {
                let queue =
                    agent.tell("declare", json!({ "queue": "", "exclusive": true }))["queue"]
                        .clone();
                let arguments = last_values.then(|| json!([["x-last-value", ["bool", true]]]));
                agent.tell(
                    "bind",
                    json!({ "queue": queue, "exchange": "amq.topic", "key": native, "arguments": arguments }),
                );
                agent.tell(
                    "consume",
                    json!({ "queue": queue, "no_ack": true, "tag": format!("of {native}") }),
                );
            }
            Door::Stomp(agent) => {
                let mut headers = vec![("id", native), ("destination", native)];
                if last_values {
                    headers.push(("x-last-value", "true"));
                }
                agent.tell(
                    "frame",
                    json!({ "command": "SUBSCRIBE", "headers": headers }),
                );
            }
            Door::Coap(endpoint) => endpoint.observe(native, last_values),
            Door::Zmtp(agent) => {
                agent.tell("subscribe", json!({ "prefix": hex(native.as_bytes()) }));
            }
            Door::Xmpp(agent) => pubsub::subscribe(agent, native),
        }
    }

    /// Consumes from a queue (`queue`), or as a member of a group (`$g/group/filter`). `manual` deliveries wait for
    /// [`Speaker::settle`], where the protocol has that.
    pub fn consume(&self, queue: &str, manual: bool) {
        match &self.door {
            Door::Mqtt(peer) => {
                let filter = match queue.strip_prefix("$g/") {
                    Some(rest) => format!("$share/{rest}"),
                    None => format!("$share/{queue}/$q/{queue}"),
                };
                assert_eq!(
                    peer.subscribe(&[&filter], 1),
                    [1],
                    "{self:?} subscribes to {filter}"
                );
            }
            Door::Amqp(agent) => {
                agent.tell(
                    "consume",
                    json!({ "queue": queue, "no_ack": !manual, "tag": queue }),
                );
            }
            Door::Stomp(agent) => {
                let destination = match queue.strip_prefix("$g/") {
                    Some(_) => format!("/amq/queue/{queue}"),
                    None => queue_to(Protocol::Stomp, queue),
                };
                let ack = if manual { "client-individual" } else { "auto" };
                let headers = [("id", queue), ("destination", &destination), ("ack", ack)];
                agent.tell(
                    "frame",
                    json!({ "command": "SUBSCRIBE", "headers": headers }),
                );
            }
            Door::Coap(endpoint) => endpoint.take_from(&queue_to(Protocol::Coap, queue)),
            Door::Zmtp(_) => panic!("{self:?} takes from one queue only"),
            Door::Xmpp(agent) => pubsub::subscribe(agent, &queue_to(Protocol::Xmpp, queue)),
        }
    }

    /// Settles a `manual` delivery. Libraries of MQTT and XMPP have done it already, and CoAP's are settled on reading.
    pub fn settle(&self, seen: &Seen) {
        match &self.door {
            Door::Mqtt(_) | Door::Coap(_) | Door::Zmtp(_) | Door::Xmpp(_) => {}
            Door::Amqp(agent) => drop(agent.tell("ack", json!({ "delivery": seen.tag }))),
            Door::Stomp(agent) => {
                let headers = json!([["id", seen.tag]]);
                agent.tell(
                    "frame",
                    json!({ "command": "ACK", "headers": headers, "fire": true }),
                );
            }
        }
    }

    /// Refuses what was consumed `manual`ly, for good.
    pub fn refuse(&self, seen: &Seen) {
        match &self.door {
            Door::Mqtt(_) | Door::Coap(_) | Door::Zmtp(_) | Door::Xmpp(_) => {
                panic!("{self:?} cannot refuse")
            }
            Door::Amqp(agent) => {
                drop(agent.tell("nack", json!({ "delivery": seen.tag, "requeue": false })))
            }
            Door::Stomp(agent) => {
                let headers = json!([["id", seen.tag], ["requeue", "false"]]);
                agent.tell("frame", json!({ "command": "NACK", "headers": headers }));
            }
        }
    }

    /// Declares a durable queue; only AMQP has a word for that.
    pub fn declare(&self, queue: &str) {
        let Door::Amqp(agent) = &self.door else {
            panic!("{self:?} cannot declare")
        };
        agent.tell("declare", json!({ "queue": queue, "durable": true }));
    }

    /// A place of its own where answers arrive, in its own words.
    pub fn answers(&self, name: &str) -> String {
        match &self.door {
            Door::Mqtt(peer) => {
                let topic = format!("answers/{name}");
                assert_eq!(peer.subscribe(&[&topic], 1), [1]);
                topic
            }
            Door::Amqp(agent) => {
                let queue =
                    agent.tell("declare", json!({ "queue": "", "exclusive": true }))["queue"]
                        .clone();
                agent.tell(
                    "consume",
                    json!({ "queue": queue, "no_ack": true, "tag": "answers" }),
                );
                queue.as_str().expect("a queue has a name").to_owned()
            }
            Door::Stomp(_) => format!("/temp-queue/{name}"),
            Door::Coap(_) | Door::Xmpp(_) => panic!("{self:?} is answered by a response"),
            Door::Zmtp(_) => panic!("{self:?} cannot ask"),
        }
    }

    /// Asks whoever serves an address, by a request of the protocol's own, and returns the answer's payload.
    pub fn request(&self, place: &Place, payload: &[u8]) -> Vec<u8> {
        let digits = hex(payload);
        let answer = match &self.door {
            Door::Coap(endpoint) => {
                let path = place.coap.replacen("/ps/data", "/rpc", 1);
                let answer = endpoint.request("POST", &path, json!({ "payload": digits }));
                let code = word(&answer["code"]);
                assert!(code.starts_with("2."), "{self:?} asks {path}: {answer}");
                answer
            }
            Door::Xmpp(agent) => {
                let command = json!({ "address": place.zmtp, "payload": digits });
                agent.tell("request", command)
            }
            _ => panic!("{self:?} has no requests of its own"),
        };
        unhex(&word(&answer["payload"]))
    }

    /// The agent behind a speaker of AMQP or STOMP.
    pub fn agent(&self) -> &Agent {
        match &self.door {
            Door::Amqp(agent) | Door::Stomp(agent) => agent,
            _ => panic!("{self:?} has none"),
        }
    }

    /// The peer behind a speaker of MQTT.
    pub fn peer(&self) -> &Peer {
        let Door::Mqtt(peer) = &self.door else {
            panic!("{self:?} has none")
        };
        peer
    }

    /// The endpoint behind a speaker of CoAP.
    pub fn endpoint(&self) -> &Endpoint {
        let Door::Coap(endpoint) = &self.door else {
            panic!("{self:?} has none")
        };
        endpoint
    }

    /// The next message, or the test fails.
    pub fn receive(&self) -> Seen {
        self.receive_within(PATIENCE)
            .unwrap_or_else(|| panic!("{self:?}: no message"))
    }

    /// The next message, if it comes in time.
    pub fn receive_within(&self, within: Duration) -> Option<Seen> {
        match &self.door {
            Door::Mqtt(peer) => peer.receive_within(within).map(|message| of_mqtt(&message)),
            Door::Amqp(agent) => agent.message_within(within).map(|event| of_amqp(&event)),
            Door::Stomp(agent) => agent.message_within(within).map(|event| of_stomp(&event)),
            Door::Coap(endpoint) => endpoint.receive_within(within),
            Door::Zmtp(agent) => agent.message_within(within).map(|event| of_zmtp(&event)),
            Door::Xmpp(agent) => agent
                .message_within(within)
                .map(|event| pubsub::seen(&event)),
        }
    }

    pub fn cut(&self) {
        match &self.door {
            Door::Mqtt(peer) => peer.cut(),
            Door::Amqp(agent) | Door::Stomp(agent) | Door::Xmpp(agent) => agent.cut(),
            Door::Coap(_) | Door::Zmtp(_) => panic!("{self:?} has no connection of its own"),
        }
    }
}

/// Destination of this protocol that reaches a queue.
fn queue_to(protocol: Protocol, queue: &str) -> String {
    match protocol {
        Protocol::Mqtt3 | Protocol::Mqtt5 | Protocol::Zmtp | Protocol::Xmpp => {
            format!("$q/{queue}")
        }
        Protocol::Amqp => queue.to_owned(),
        Protocol::Stomp => format!("/queue/{queue}"),
        Protocol::Coap => format!("/q/{queue}"),
    }
}

fn mqtt(protocol: Protocol, topic: &str, post: &Post) -> Message {
    let mut message = Message::new(topic, post.payload.clone(), 1);
    message.retain = post.keep || post.clear;
    if protocol == Protocol::Mqtt3 {
        return message;
    }
    let texts = post.user.iter().filter(|(_, value)| value[0] == "text");
    let user: Vec<_> = texts.map(|(name, value)| json!([name, value[1]])).collect();
    let correlation = post.correlation.as_ref().map(|bytes| hex(bytes));
    for (key, value) in [
        ("user", json!((!user.is_empty()).then_some(user))),
        ("content_type", json!(post.content_type)),
        ("correlation", json!(correlation)),
        ("response_topic", json!(post.reply_to)),
        ("expiry", json!(post.expiry)),
    ] {
        if !value.is_null() {
            message = message.property(key, value);
        }
    }
    message
}

fn of_mqtt(message: &Message) -> Seen {
    let text = |key: &str| {
        message
            .properties
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let pairs = message
        .properties
        .get("user")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Seen {
        address: message.topic.clone(),
        payload: message.payload.clone(),
        content_type: text("content_type").filter(|text| !text.is_empty()),
        user: pairs
            .map(|pair| (word(&pair[0]), json!(["text", pair[1]])))
            .collect(),
        correlation: text("correlation")
            .filter(|digits| !digits.is_empty())
            .map(|digits| unhex(&digits)),
        correlation_form: "bytes",
        reply_to: text("response_topic").filter(|text| !text.is_empty()),
        expiry_ms: message
            .properties
            .get("expiry")
            .and_then(Value::as_u64)
            .map(|seconds| seconds * 1000),
        redelivered: message.dup,
        ..Seen::default()
    }
}

fn amqp(post: &Post) -> Value {
    let mut headers: Vec<Value> = post
        .user
        .iter()
        .map(|(name, value)| json!([name, value]))
        .collect();
    let mut properties = json!({ "delivery_mode": 2 });
    match post
        .correlation
        .as_deref()
        .map(|bytes| (std::str::from_utf8(bytes), bytes))
    {
        None => {}
        Some((Ok(text), _)) => properties["correlation_id"] = json!(text),
        Some((Err(_), bytes)) => headers.push(json!(["x-correlation-id", ["bytes", hex(bytes)]])),
    }
    for (_, word) in [(post.keep, "set"), (post.clear, "clear")]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
    {
        headers.push(json!(["x-retain", ["text", word]]));
    }
    if !headers.is_empty() {
        properties["headers"] = json!(headers);
    }
    let expiration = post.expiry.map(|seconds| (seconds * 1000).to_string());
    for (key, value) in [
        ("content_type", json!(post.content_type)),
        ("reply_to", json!(post.reply_to)),
        ("expiration", json!(expiration)),
        ("priority", json!(post.priority)),
    ] {
        if !value.is_null() {
            properties[key] = value;
        }
    }
    properties
}

fn of_amqp(event: &Value) -> Seen {
    let properties = &event["properties"];
    let text = |key: &str| {
        properties[key]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let headers = properties["headers"].as_array().into_iter().flatten();
    let mut headers: BTreeMap<String, Value> = headers
        .map(|pair| (word(&pair[0]), pair[1].clone()))
        .collect();
    let mut correlation = text("correlation_id").map(String::into_bytes);
    let mut form = "text";
    if let Some(bytes) = headers.remove("x-correlation-id") {
        correlation = bytes[1].as_str().map(unhex);
        form = "header";
    }
    let whole_address = headers.remove("x-address").map(|value| word(&value[1]));
    // Properties that the broker adds for servers that support MQTT.
    headers.remove("x-reply-to-topic");
    headers.remove("x-retain");
    Seen {
        address: word(&event["key"]),
        payload: unhex(&word(&event["payload"])),
        content_type: text("content_type"),
        user: headers.into_iter().collect(),
        correlation,
        correlation_form: form,
        reply_to: text("reply_to"),
        expiry_ms: text("expiration").and_then(|text| text.parse().ok()),
        priority: properties["priority"].as_u64(),
        redelivered: event["redelivered"] == true,
        tag: event["delivery"].clone(),
        whole_address,
    }
}

fn stomp(post: &Post) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let mut put = |name: &str, value: Option<String>| {
        headers.extend(value.map(|value| (name.to_owned(), value)))
    };
    for (name, value) in post.user.iter().filter(|(_, value)| value[0] == "text") {
        put(name, Some(word(&value[1])));
    }
    match post
        .correlation
        .as_deref()
        .map(|bytes| (std::str::from_utf8(bytes), bytes))
    {
        None => {}
        Some((Ok(text), _)) if !text.contains('\0') => put("correlation-id", Some(text.to_owned())),
        Some((_, bytes)) => {
            put("correlation-id", Some(BASE64.encode(bytes)));
            put("correlation-id-encoding", Some("base64".to_owned()));
        }
    }
    put("content-type", post.content_type.clone());
    put("reply-to", post.reply_to.clone());
    put(
        "expiration",
        post.expiry.map(|seconds| (seconds * 1000).to_string()),
    );
    put("priority", post.priority.map(|number| number.to_string()));
    put("retain", post.keep.then(|| "set".to_owned()));
    put("retain", post.clear.then(|| "clear".to_owned()));
    headers
}

/// Headers of MESSAGE that are no user's.
const STOMP_OWN: [&str; 12] = [
    "ack",
    "content-length",
    "correlation-id",
    "correlation-id-encoding",
    "destination",
    "expiration",
    "message-id",
    "persistent",
    "priority",
    "redelivered",
    "reply-to",
    "subscription",
];

fn of_stomp(event: &Value) -> Seen {
    let headers: Vec<(String, String)> = event["headers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pair| (word(&pair[0]), word(&pair[1])))
        .collect();
    let get = |name: &str| {
        headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let encoded = get("correlation-id-encoding").as_deref() == Some("base64");
    let correlation = get("correlation-id").map(|text| match encoded {
        true => BASE64.decode(&text).expect("it says that it is base64"),
        false => text.into_bytes(),
    });
    let user = headers
        .iter()
        .filter(|(name, _)| !STOMP_OWN.contains(&name.as_str()) && name != "content-type");
    Seen {
        address: get("destination").unwrap_or_default(),
        payload: unhex(&word(&event["payload"])),
        content_type: get("content-type"),
        user: user
            .map(|(name, value)| (name.clone(), json!(["text", value])))
            .collect(),
        correlation,
        correlation_form: if encoded { "base64" } else { "text" },
        reply_to: get("reply-to"),
        expiry_ms: get("expiration").and_then(|text| text.parse().ok()),
        priority: get("priority").and_then(|text| text.parse().ok()),
        redelivered: get("redelivered").as_deref() == Some("true"),
        tag: json!(get("ack")),
        whole_address: None,
    }
}

/// The first frame is the address; the payload is the others, one behind the other.
fn of_zmtp(event: &Value) -> Seen {
    let frames = event["frames"].as_array().into_iter().flatten();
    let mut frames = frames.map(|frame| unhex(&word(frame)));
    Seen {
        address: String::from_utf8_lossy(&frames.next().unwrap_or_default()).into_owned(),
        payload: frames.flatten().collect(),
        ..Seen::default()
    }
}

pub(super) fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| {
        [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]
    });
    digits.map(char::from).collect()
}

pub(super) fn unhex(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .expect("puppets write hexadecimal digits")
    };
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| {
            u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).expect("two digits are a byte")
        })
        .collect()
}
