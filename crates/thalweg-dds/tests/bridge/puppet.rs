//! Foreign clients of the other protocols: the puppets of `thalweg-tests/interop`, driven by lines of JSON, one peer each.

use crate::peer::{PATIENCE, Stage};
use serde_json::{Value, json};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub const ALL: [Protocol; 7] = [
        Protocol::Mqtt3,
        Protocol::Mqtt5,
        Protocol::Amqp,
        Protocol::Stomp,
        Protocol::Coap,
        Protocol::Zmtp,
        Protocol::Xmpp,
    ];

    /// As docs/interop.md calls it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Mqtt3 => "MQTT 3.1.1",
            Protocol::Mqtt5 => "MQTT 5",
            Protocol::Amqp => "AMQP 0-9-1",
            Protocol::Stomp => "STOMP 1.2",
            Protocol::Coap => "CoAP",
            Protocol::Zmtp => "ZeroMQ",
            Protocol::Xmpp => "XMPP",
        }
    }

    /// The script, and the listener that it connects to.
    fn program(self) -> (&'static str, &'static str) {
        match self {
            Protocol::Mqtt3 | Protocol::Mqtt5 => ("paho_peer.py", "mqtt"),
            Protocol::Amqp => ("pika_peer.py", "amqp"),
            Protocol::Stomp => ("stomp_peer.py", "stomp"),
            Protocol::Coap => ("aiocoap_peer.py", "coap"),
            Protocol::Zmtp => ("zmq_peer.py", "zmtp"),
            Protocol::Xmpp => ("slixmpp_peer.py", "xmpp"),
        }
    }

    /// An address, or a filter as MQTT writes it whose wildcards are levels, in this protocol's syntax; each level escaped.
    pub fn spelled(self, address: &str) -> String {
        let level = |level: &str| match (self, level) {
            (Protocol::Amqp | Protocol::Stomp, "+") => "*".to_owned(),
            (_, "+" | "#") => level.to_owned(),
            (Protocol::Amqp, _) => level.replace('.', "%2E").replace("%2F", "/"),
            (Protocol::Stomp, _) => level.replace('.', "%2E"),
            _ => level.to_owned(),
        };
        let levels: Vec<String> = address.split('/').map(level).collect();
        match self {
            Protocol::Amqp => levels.join("."),
            Protocol::Stomp => format!("/topic/{}", levels.join(".")),
            _ => levels.join("/"),
        }
    }
}

/// Options of a publish that DDS has no word for, and those that it has.
#[derive(Clone, Copy, Default)]
pub struct Post<'a> {
    pub payload: &'a [u8],
    /// All that the protocol can say beside payload and address.
    pub says_all: bool,
    pub keep: bool,
}

/// A message as its receiver has it.
#[derive(Debug)]
pub struct Seen {
    /// In the receiver's syntax.
    pub address: String,
    pub payload: Vec<u8>,
    /// Milliseconds that are said to be left.
    pub expiry: Option<u64>,
    pub whole_address: Option<String>,
    event: Value,
}

pub struct Puppet {
    pub protocol: Protocol,
    child: Child,
    input: ChildStdin,
    replies: mpsc::Receiver<Value>,
    events: mpsc::Receiver<Value>,
    last: u64,
    /// What a subscription was answered with, as CoAP's is.
    early: Option<Value>,
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.name().fmt(f)
    }
}

impl Puppet {
    /// A connected client of this protocol.
    pub fn open(stage: &Stage, protocol: Protocol) -> Puppet {
        let (script, listener) = protocol.program();
        let python = std::env::var_os("THALWEG_DDS_PYTHON").expect("there is another participant");
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../thalweg-tests/interop/python"
        );
        let mut child = Command::new(python)
            .args(["-B", &format!("{folder}/{script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let ((reply, replies), (event, events)) = (mpsc::channel(), mpsc::channel());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value: Value = serde_json::from_str(&line).expect("JSON");
                // At the end of a test nothing receives any more.
                let _ = match value["event"].as_str() {
                    Some("message") => event.send(value),
                    Some(_) => Ok(()),
                    None => reply.send(value),
                };
            }
        });
        let mut puppet = Puppet {
            protocol,
            child,
            input,
            replies,
            events,
            last: 0,
            early: None,
        };
        let (host, port) = stage.address(listener).rsplit_once(':').expect("a port");
        let port: u16 = port.parse().expect("a number");
        let mut command = json!({ "host": host, "port": port });
        match protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let version = if protocol == Protocol::Mqtt5 { 5 } else { 4 };
                // Each process has a number.
                let client_id = format!("puppet-{}", puppet.child.id());
                command["version"] = json!(version);
                command["transport"] = json!("tcp");
                command["client_id"] = json!(client_id);
                command["clean"] = json!(true);
            }
            Protocol::Coap => command["transport"] = json!("udp"),
            _ => {}
        }
        puppet.tell("connect", command);
        puppet
    }

    fn send(&mut self, verb: &str, mut command: Value) {
        self.last += 1;
        command["do"] = json!(verb);
        command["id"] = json!(self.last);
        command["peer"] = json!("peer");
        writeln!(self.input, "{command}").expect("it lives");
    }

    fn answer(&mut self, verb: &str) -> Value {
        let reply = self.replies.recv_timeout(PATIENCE).expect("it answers");
        assert!(reply["error"].is_null(), "{self:?} {verb}: {reply}");
        assert_eq!(reply["reply"], self.last, "{self:?} {verb}");
        reply
    }

    fn tell(&mut self, verb: &str, command: Value) -> Value {
        self.send(verb, command);
        self.answer(verb)
    }

    /// Subscribes to an address, or a filter, with its last value where that is to be asked for.
    pub fn subscribe(&mut self, filter: &str) {
        let native = self.protocol.spelled(filter);
        match self.protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let filters = json!([{ "filter": native, "qos": 1 }]);
                let answer = self.tell("subscribe", json!({ "filters": filters }));
                assert_eq!(answer["reasons"], json!([1]), "{native}");
            }
            Protocol::Amqp => {
                let declare = json!({ "queue": "", "exclusive": true });
                let queue = self.tell("declare", declare)["queue"].clone();
                let arguments = json!([["x-last-value", ["bool", true]]]);
                self.tell("bind", json!({ "queue": queue, "exchange": "amq.topic", "key": native, "arguments": arguments }));
                self.tell(
                    "consume",
                    json!({ "queue": queue, "no_ack": true, "tag": native }),
                );
            }
            Protocol::Stomp => {
                let headers = [
                    ("id", &*native),
                    ("destination", &native),
                    ("x-last-value", "true"),
                ];
                self.tell(
                    "frame",
                    json!({ "command": "SUBSCRIBE", "headers": headers }),
                );
            }
            Protocol::Coap => {
                let observe = json!({ "observation": filter, "path": path_of("ps/data", filter), "query": ["queue=100"] });
                let mut first = self.tell("observe", observe);
                assert!(first["sequence"].is_u64(), "{filter} is observed: {first}");
                first["observation"] = json!(filter);
                self.early = Some(first).filter(|it| it["payload"] != "");
            }
            Protocol::Zmtp => {
                self.tell("subscribe", json!({ "prefix": hex(native.as_bytes()) }));
            }
            Protocol::Xmpp => {
                let command = match (native.strip_suffix("/+"), native.strip_suffix("/#")) {
                    (Some(node), _) => json!({ "node": node, "depth": "1" }),
                    (_, Some(node)) => json!({ "node": node, "depth": "all" }),
                    _ => json!({ "node": native }),
                };
                self.tell("subscribe", command);
            }
        }
    }

    pub fn publish(&mut self, address: &str, post: Post<'_>) {
        let (native, payload) = (self.protocol.spelled(address), hex(post.payload));
        let Post { says_all, keep, .. } = post;
        match self.protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let properties = match says_all && self.protocol == Protocol::Mqtt5 {
                    true => {
                        json!({ "user": [["a", "b"], ["a", "c"]], "content_type": "text/x-thing",
                        "correlation": "00ff", "expiry": 60 })
                    }
                    false => json!({}),
                };
                self.tell("publish", json!({ "topic": native, "payload": payload, "qos": 1, "retain": keep, "properties": properties }));
            }
            Protocol::Amqp => {
                let mut headers = Vec::new();
                if says_all {
                    headers.push(json!(["a", ["text", "b"]]));
                    headers.push(json!(["n", ["int", 7]]));
                    headers.push(json!(["bytes", ["bytes", "00ff"]]));
                }
                if keep {
                    headers.push(json!(["x-retain", ["text", "set"]]));
                }
                let mut properties = json!({ "delivery_mode": 2, "headers": headers });
                if says_all {
                    let more = [
                        ("content_type", "text/x-thing"),
                        ("correlation_id", "7"),
                        ("expiration", "60000"),
                    ];
                    for (name, value) in more {
                        properties[name] = json!(value);
                    }
                    properties["priority"] = json!(5);
                }
                let command = json!({ "exchange": "amq.topic", "key": native, "payload": payload, "properties": properties });
                assert_eq!(self.tell("publish", command)["outcome"], "confirmed");
            }
            Protocol::Stomp => {
                let mut headers = vec![("destination", &*native)];
                if says_all {
                    headers.extend([
                        ("a", "b"),
                        ("content-type", "text/x-thing"),
                        ("correlation-id", "7"),
                    ]);
                    headers.extend([("expiration", "60000"), ("priority", "5")]);
                }
                if keep {
                    headers.push(("retain", "set"));
                }
                self.tell(
                    "frame",
                    json!({ "command": "SEND", "headers": headers, "payload": payload }),
                );
            }
            Protocol::Coap => {
                let mut command = json!({ "method": "PUT", "path": path_of("ps/data", address), "payload": payload });
                if says_all {
                    command["query"] = json!(["expiry=60"]);
                    command["content_format"] = json!(50);
                }
                let answer = self.tell("request", command);
                assert!(word(&answer["code"]).starts_with("2."), "{answer}");
            }
            Protocol::Zmtp => {
                let frames = [hex(native.as_bytes()), payload];
                self.tell("send", json!({ "frames": frames }));
            }
            Protocol::Xmpp => {
                let mut command = json!({ "node": native, "payload": payload, "keep": keep });
                if says_all {
                    command["content_type"] = json!("application/json");
                    command["expiry"] = json!(60);
                }
                self.tell("publish", command);
            }
        }
    }

    /// Waits for the next message, or the first response of an observation; fails if none comes.
    pub fn receive(&mut self) -> Seen {
        let event = self.early.take();
        let event = event.unwrap_or_else(|| {
            let event = self.events.recv_timeout(PATIENCE);
            event.unwrap_or_else(|_| panic!("{self:?}: no message"))
        });
        let header = |name: &str| {
            let headers = event["headers"].as_array().into_iter().flatten();
            let found = headers.clone().find(|it| it[0] == name);
            found.map(|it| word(&it[1]))
        };
        let properties = &event["properties"];
        let millis = |text: &Value| text.as_str().and_then(|text| text.parse().ok());
        let (address, expiry) = match self.protocol {
            Protocol::Mqtt3 | Protocol::Mqtt5 => {
                let seconds = properties["expiry"].as_u64();
                (word(&event["topic"]), seconds.map(|it| it * 1000))
            }
            Protocol::Amqp => (word(&event["key"]), millis(&properties["expiration"])),
            Protocol::Stomp => {
                let expiration = header("expiration").and_then(|it| it.parse().ok());
                (header("destination").expect("it has one"), expiration)
            }
            Protocol::Coap => {
                let seconds = event["max_age"].as_u64();
                (word(&event["observation"]), seconds.map(|it| it * 1000))
            }
            Protocol::Zmtp => (text(&word(&event["frames"][0])), None),
            Protocol::Xmpp => (word(&event["node"]), None),
        };
        let payload = match self.protocol {
            Protocol::Zmtp => word(&event["frames"][1]),
            _ => word(&event["payload"]),
        };
        let headers = properties["headers"].as_array().into_iter().flatten();
        let mut whole = headers.filter(|it| it[0] == "x-address");
        Seen {
            address,
            payload: unhex(&payload),
            expiry,
            whole_address: whole.next().map(|it| word(&it[1][1])),
            event,
        }
    }

    /// Whether it has received nothing that was not asked for here.
    pub fn is_idle(&self) -> bool {
        self.early.is_none() && self.events.try_recv().is_err()
    }

    /// Begins to ask the service at an address; [`Puppet::answered`] returns the answer.
    pub fn ask(&mut self, address: &str, payload: &[u8]) {
        let (native, digits) = (self.protocol.spelled(address), hex(payload));
        match self.protocol {
            Protocol::Mqtt5 => {
                let filters = json!([{ "filter": "answers", "qos": 1 }]);
                self.tell("subscribe", json!({ "filters": filters }));
                let properties = json!({ "response_topic": "answers", "correlation": "07" });
                self.tell("publish", json!({ "topic": native, "payload": digits, "qos": 1, "retain": false, "properties": properties }));
            }
            Protocol::Amqp => {
                let queue =
                    self.tell("declare", json!({ "queue": "", "exclusive": true }))["queue"]
                        .clone();
                self.tell(
                    "consume",
                    json!({ "queue": queue, "no_ack": true, "tag": "answers" }),
                );
                let properties = json!({ "reply_to": queue, "correlation_id": "7" });
                self.tell("publish", json!({ "exchange": "amq.topic", "key": native, "payload": digits, "properties": properties }));
            }
            Protocol::Stomp => {
                let headers = [
                    ("destination", &*native),
                    ("reply-to", "/temp-queue/answers"),
                    ("correlation-id", "7"),
                ];
                self.tell(
                    "frame",
                    json!({ "command": "SEND", "headers": headers, "payload": digits }),
                );
            }
            Protocol::Coap => {
                self.send(
                    "request",
                    json!({ "method": "POST", "path": path_of("rpc", address), "payload": digits }),
                );
            }
            Protocol::Xmpp => {
                self.send("request", json!({ "address": address, "payload": digits }))
            }
            Protocol::Mqtt3 | Protocol::Zmtp => panic!("{self:?} cannot ask"),
        }
    }

    /// The answer to what was asked.
    pub fn answered(&mut self) -> Vec<u8> {
        match self.protocol {
            Protocol::Coap | Protocol::Xmpp => unhex(&word(&self.answer("request")["payload"])),
            _ => self.receive().payload,
        }
    }

    /// Answers where a request says.
    pub fn reply(&mut self, to: &Seen, payload: &[u8]) {
        let (event, digits) = (&to.event, hex(payload));
        let (verb, command) = match self.protocol {
            Protocol::Mqtt5 => {
                let properties = json!({ "correlation": event["properties"]["correlation"] });
                let topic = &event["properties"]["response_topic"];
                (
                    "publish",
                    json!({ "topic": topic, "payload": digits, "qos": 1, "retain": false, "properties": properties }),
                )
            }
            Protocol::Amqp => {
                let properties = json!({ "correlation_id": event["properties"]["correlation_id"],
                    "headers": event["properties"]["headers"] });
                let key = &event["properties"]["reply_to"];
                (
                    "publish",
                    json!({ "exchange": "", "key": key, "payload": digits, "properties": properties }),
                )
            }
            Protocol::Stomp => {
                let headers = event["headers"].as_array().into_iter().flatten();
                let kept = headers.filter(|it| word(&it[0]).starts_with("correlation-id"));
                let to = |it: &&Value| it[0] == "reply-to";
                let place = event["headers"].as_array().into_iter().flatten().find(to);
                let place = json!(["destination", place.expect("an answer is awaited")[1]]);
                let headers: Vec<Value> = kept.cloned().chain([place]).collect();
                (
                    "frame",
                    json!({ "command": "SEND", "headers": headers, "payload": digits }),
                )
            }
            _ => panic!("{self:?} cannot answer"),
        };
        self.tell(verb, command);
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The options of a path, in which a level may hold a `/`.
fn path_of(root: &str, address: &str) -> Vec<String> {
    let levels = address.split('/').map(|level| level.replace("%2F", "/"));
    root.split('/').map(str::to_owned).chain(levels).collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16);
    (0..digits.len() / 2)
        .map(|at| byte(at).expect("digits"))
        .collect()
}

fn text(digits: &str) -> String {
    String::from_utf8_lossy(&unhex(digits)).into_owned()
}
