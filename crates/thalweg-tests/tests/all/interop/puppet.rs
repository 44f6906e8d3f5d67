//! The Rust side of a puppet: one process per client library, shared by all tests of this run.
//!
//! `../../../interop/README.md` describes the lines. A reader thread sends each reply to the call that waits for it and each
//! event to the peer it names; every wait has a limit, so a silent library fails its test and no other.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::relay::Relay;

/// Longest wait for a message, a close or a reply. The puppets time out sooner and report it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A client library that we did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Eclipse Paho for Python.
    PahoPython,
    Gmqtt,
    Mqttjs,
    /// The HiveMQ client for Java.
    Hivemq,
    /// Eclipse Paho for Go, MQTT 3.
    PahoGo3,
    /// Eclipse Paho for Go, MQTT 5.
    PahoGo5,
    /// pika for Python: AMQP.
    Pika,
    /// amqp091-go: AMQP.
    Amqp091Go,
    /// amqplib on Node: AMQP.
    Amqplib,
    /// lapin for Rust: AMQP.
    Lapin,
    /// stomp.py for Python: STOMP.
    StompPy,
    /// @stomp/stompjs on Node: STOMP over WebSocket.
    Stompjs,
    /// aiocoap for Python: CoAP.
    Aiocoap,
    GoCoap,
    NodeCoap,
    /// pyzmq: ZeroMQ by libzmq.
    Pyzmq,
    /// zeromq.js on Node: ZeroMQ by libzmq.
    ZeromqJs,
    /// go-zeromq/zmq4: ZeroMQ without libzmq.
    Zmq4Go,
    /// JeroMQ for Java: ZeroMQ without libzmq.
    Jeromq,
    /// czmq, Debian's: ZeroMQ by libzmq in C.
    Czmq,
    /// slixmpp for Python: XMPP.
    Slixmpp,
}

impl Library {
    /// Those of MQTT, for the matrix.
    pub const OF_MQTT: [Self; 6] = [
        Self::PahoPython,
        Self::Gmqtt,
        Self::Mqttjs,
        Self::Hivemq,
        Self::PahoGo3,
        Self::PahoGo5,
    ];

    /// The newest protocol level the library speaks.
    pub fn newest(self) -> u8 {
        if self == Self::PahoGo3 { 4 } else { 5 }
    }

    /// The running puppet of this library, started on first use.
    pub(super) fn puppet(self) -> &'static Puppet {
        static PUPPETS: [OnceLock<Puppet>; 21] = [const { OnceLock::new() }; 21];
        PUPPETS[self as usize].get_or_init(|| Puppet::start(self))
    }

    fn command(self) -> Command {
        let installed = installed();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop");
        let python = |script: &str| {
            let mut command = Command::new(installed.join("python/bin/python"));
            // The tree stays as it is: no __pycache__ beside the sources.
            command.arg("-B").arg(sources.join("python").join(script));
            command
        };
        let node = |script: &str| {
            let mut command = Command::new("node");
            command.arg(installed.join("javascript").join(script));
            command
        };
        let java = |class: &str| {
            let mut command = Command::new("java");
            // A short-lived process: the first compiler tier is enough, and leaves the cores to the broker.
            command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
            command.arg(format!(
                "{0}/classes:{0}/lib/*",
                installed.join("java").display()
            ));
            command.arg(class);
            command
        };
        match self {
            Self::PahoPython => python("paho_peer.py"),
            Self::Gmqtt => python("gmqtt_peer.py"),
            Self::Pika => python("pika_peer.py"),
            Self::StompPy => python("stomp_peer.py"),
            Self::Aiocoap => python("aiocoap_peer.py"),
            Self::Slixmpp => python("slixmpp_peer.py"),
            Self::Mqttjs => node("mqttjs_peer.js"),
            Self::Amqplib => node("amqplib_peer.js"),
            Self::Stompjs => node("stompjs_peer.js"),
            Self::NodeCoap => node("coap_peer.js"),
            Self::Pyzmq => python("zmq_peer.py"),
            Self::ZeromqJs => node("zeromq_peer.js"),
            Self::Hivemq => java("HivemqPeer"),
            Self::Jeromq => java("JeromqPeer"),
            Self::PahoGo3 => Command::new(installed.join("go/paho3")),
            Self::PahoGo5 => Command::new(installed.join("go/paho5")),
            Self::Amqp091Go => Command::new(installed.join("go/amqp091")),
            Self::GoCoap => Command::new(installed.join("go/coap")),
            Self::Zmq4Go => Command::new(installed.join("go/zmq4")),
            Self::Czmq => Command::new(installed.join("c/czmq_peer")),
            Self::Lapin => Command::new(installed.join("rust/target/debug/thalweg-interop-lapin")),
        }
    }
}

/// Where `cargo xtask interop` put the libraries.
pub fn installed() -> PathBuf {
    let folder = std::env::var_os("THALWEG_INTEROP").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop"),
        PathBuf::from,
    );
    assert!(
        folder.is_dir(),
        "{} is missing: `cargo xtask interop` installs the foreign clients",
        folder.display()
    );
    folder
}

/// One process and the routes from its lines to those who wait.
pub(super) struct Puppet {
    library: Library,
    stdin: Mutex<ChildStdin>,
    routes: Mutex<Routes>,
}

#[derive(Default)]
struct Routes {
    replies: HashMap<u64, Sender<Value>>,
    events: HashMap<String, Sender<Value>>,
}

impl Puppet {
    fn start(library: Library) -> Self {
        let mut command = library.command();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start {command:?}: {error}; `cargo xtask interop` installs it")
            });
        let stdin = Mutex::new(child.stdin.take().expect("the pipe was asked for"));
        let output = child.stdout.take().expect("the pipe was asked for");
        let puppet = Self {
            library,
            stdin,
            routes: Mutex::default(),
        };
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                library.puppet().take(&line);
            }
            // Dropping the senders wakes every thread that waits for this process.
            *library.puppet().routes.lock().expect("no holder panics") = Routes::default();
            let _ = child.wait();
        });
        puppet
    }

    fn take(&self, line: &str) {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            eprintln!("{:?} wrote something else than JSON: {line}", self.library);
            return;
        };
        let mut routes = self.routes.lock().expect("no holder panics");
        if let Some(id) = value["reply"].as_u64() {
            if let Some(waiting) = routes.replies.remove(&id) {
                let _ = waiting.send(value);
            }
        } else if let Some(waiting) = value["peer"]
            .as_str()
            .and_then(|peer| routes.events.get(peer))
        {
            let _ = waiting.send(value);
        }
    }

    /// Where the events of a new peer come out, and a name for it.
    pub(super) fn new_peer(&self) -> (String, Receiver<Value>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("peer{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (sender, events) = channel();
        self.routes
            .lock()
            .expect("no holder panics")
            .events
            .insert(name.clone(), sender);
        (name, events)
    }

    pub(super) fn ask(&self, mut command: Map<String, Value>) -> Result<Value, String> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        command.insert("id".to_owned(), json!(id));
        let (sender, receiver) = channel();
        self.routes
            .lock()
            .expect("no holder panics")
            .replies
            .insert(id, sender);
        let line = format!("{}\n", Value::Object(command));
        let written = self
            .stdin
            .lock()
            .expect("no holder panics")
            .write_all(line.as_bytes());
        written.map_err(|error| format!("the {:?} puppet is gone: {error}", self.library))?;
        let reply = receiver
            .recv_timeout(PATIENCE)
            .map_err(|_| format!("the {:?} puppet is silent", self.library))?;
        match reply["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(reply),
        }
    }
}

/// How a peer connects; every field has the plainest value by default.
#[derive(Debug)]
pub struct Connect {
    library: Library,
    version: u8,
    transport: &'static str,
    address: SocketAddr,
    fields: Map<String, Value>,
}

impl Connect {
    /// A clean session over TCP with a client id of its own.
    pub fn new(library: Library, version: u8, address: SocketAddr) -> Self {
        let fields = json!({ "clean": true });
        let Value::Object(fields) = fields else {
            unreachable!("just written as an object")
        };
        Self {
            library,
            version,
            transport: "tcp",
            address,
            fields,
        }
    }

    /// Over `tls`, `ws` or `wss` at another listener, trusting `authority`.
    pub fn over(
        mut self,
        transport: &'static str,
        address: SocketAddr,
        authority: Option<&Path>,
    ) -> Self {
        self.transport = transport;
        self.address = address;
        match authority {
            Some(file) => self.with("ca", json!(file)),
            None => self,
        }
    }

    /// A session under `client_id` that outlives the connection.
    pub fn persistent(self, client_id: &str) -> Self {
        self.with("clean", json!(false))
            .with("client_id", json!(client_id))
            .with("expiry", json!(300))
    }

    /// Any other field of the command, as the README names it.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.fields.insert(key.to_owned(), value);
        self
    }

    /// Connects through a relay, or says why not.
    pub fn try_open(self) -> Result<Peer, String> {
        let relay = Relay::to(self.address);
        let puppet = self.library.puppet();
        let (name, events) = puppet.new_peer();
        let mut command = self.fields;
        let process = std::process::id();
        command
            .entry("client_id")
            .or_insert_with(|| json!(format!("{:?}-{process}-{name}", self.library)));
        command.insert("version".to_owned(), json!(self.version));
        command.insert("transport".to_owned(), json!(self.transport));
        command.insert("host".to_owned(), json!(relay.address().ip()));
        command.insert("port".to_owned(), json!(relay.address().port()));
        let mut peer = Peer {
            puppet,
            name,
            relay,
            events,
            session_present: false,
        };
        let reply = peer.ask("connect", command)?;
        if reply["reason"] != 0 {
            return Err(format!("CONNACK says {}", reply["reason"]));
        }
        peer.session_present = reply["session_present"] == true;
        Ok(peer)
    }

    /// Connects, or fails the test.
    pub fn open(self) -> Peer {
        let who = format!("{:?} as MQTT level {}", self.library, self.version);
        self.try_open()
            .unwrap_or_else(|error| panic!("{who} does not connect: {error}"))
    }
}

/// One connected client of a puppet.
pub struct Peer {
    puppet: &'static Puppet,
    name: String,
    relay: Relay,
    events: Receiver<Value>,
    pub session_present: bool,
}

impl Peer {
    /// Subscribes with one QoS; returns the granted codes.
    pub fn subscribe(&self, filters: &[&str], qos: u8) -> Vec<u64> {
        self.subscribe_with(
            json!(
                filters
                    .iter()
                    .map(|f| json!({"filter": f, "qos": qos}))
                    .collect::<Vec<_>>()
            ),
            None,
        )
    }

    /// Subscribes with everything that MQTT 5 adds.
    pub fn subscribe_with(&self, filters: Value, identifier: Option<u32>) -> Vec<u64> {
        let mut command = Map::new();
        command.insert("filters".to_owned(), filters);
        if let Some(identifier) = identifier {
            command.insert("identifier".to_owned(), json!(identifier));
        }
        reasons(&self.expect("subscribe", command))
    }

    /// Unsubscribes; returns MQTT 5's codes, nothing before that.
    pub fn unsubscribe(&self, filters: &[&str]) -> Vec<u64> {
        let mut command = Map::new();
        command.insert("filters".to_owned(), json!(filters));
        reasons(&self.expect("unsubscribe", command))
    }

    /// Publishes and waits for the last acknowledgement; returns its reason code.
    pub fn publish(&self, message: &Message) -> u64 {
        let reply = self.expect("publish", message.to_fields());
        reply["reason"]
            .as_u64()
            .expect("a publish reply has a reason")
    }

    /// The next message, within [`PATIENCE`].
    pub fn receive(&self) -> Message {
        self.receive_within(PATIENCE)
            .unwrap_or_else(|| panic!("{:?} {}: no message", self.puppet.library, self.name))
    }

    /// The next message, or none when `within` passes or the connection closes first.
    pub fn receive_within(&self, within: Duration) -> Option<Message> {
        let event = self.events.recv_timeout(within).ok()?;
        (event["event"] == "message").then(|| Message::from_fields(&event))
    }

    /// Waits for the connection to end; returns the broker's reason code if it gave one.
    pub fn closed(&self) -> Option<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self
                .events
                .recv_timeout(left)
                .expect("the connection closes in time");
            if event["event"] == "closed" {
                return event["reason"].as_u64();
            }
        }
    }

    /// A graceful end: DISCONNECT, then close.
    pub fn disconnect(self) {
        self.expect("disconnect", Map::new());
        // Dropping the relay sooner would cut off the DISCONNECT; and the next publish should find the client gone.
        assert!(
            self.relay.wait_until_both_closed(PATIENCE),
            "{:?} and the broker close",
            self.puppet.library
        );
    }

    /// An ungraceful end: the network between client and broker fails.
    pub fn cut(&self) {
        self.relay.cut();
    }

    fn expect(&self, verb: &str, command: Map<String, Value>) -> Value {
        self.ask(verb, command).unwrap_or_else(|error| {
            panic!("{:?} {}: {verb}: {error}", self.puppet.library, self.name)
        })
    }

    fn ask(&self, verb: &str, mut command: Map<String, Value>) -> Result<Value, String> {
        command.insert("do".to_owned(), json!(verb));
        command.insert("peer".to_owned(), json!(self.name));
        self.puppet.ask(command)
    }
}

fn reasons(reply: &Value) -> Vec<u64> {
    reply["reasons"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect()
}

/// A message as a test states it or a library reports it.
#[derive(Clone, PartialEq)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    /// 0 to 2.
    pub qos: u8,
    /// The RETAIN flag on the wire.
    pub retain: bool,
    /// The DUP flag on the wire, of libraries that tell.
    pub dup: bool,
    /// MQTT 5 properties under the README's names.
    pub properties: Map<String, Value>,
}

/// Short even for a payload of a hundred kilobytes.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let retained = if self.retain { " retained" } else { "" };
        let again = if self.dup { " again" } else { "" };
        write!(
            f,
            "[{} QoS {}{retained}{again}, {} bytes: ",
            self.topic,
            self.qos,
            self.payload.len()
        )?;
        let start = &self.payload[..self.payload.len().min(24)];
        write!(
            f,
            "{}, {}]",
            start.escape_ascii(),
            Value::Object(self.properties.clone())
        )
    }
}

impl Message {
    /// A message without properties, not retained.
    pub fn new(topic: impl Into<String>, payload: impl Into<Vec<u8>>, qos: u8) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            qos,
            retain: false,
            dup: false,
            properties: Map::new(),
        }
    }

    /// The same, with the RETAIN flag.
    pub fn retained(mut self) -> Self {
        self.retain = true;
        self
    }

    /// The same, with one property under the README's name.
    pub fn property(mut self, key: &str, value: Value) -> Self {
        self.properties.insert(key.to_owned(), value);
        self
    }

    /// The members a command carries.
    pub fn to_fields(&self) -> Map<String, Value> {
        let payload: String = self
            .payload
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let fields = json!({
            "topic": self.topic, "payload": payload, "qos": self.qos, "retain": self.retain,
            "properties": self.properties,
        });
        let Value::Object(fields) = fields else {
            unreachable!("just written as an object")
        };
        fields
    }

    fn from_fields(event: &Value) -> Self {
        let digits = event["payload"].as_str().unwrap_or_default();
        let payload = (0..digits.len() / 2).map(|at| {
            u8::from_str_radix(&digits[2 * at..2 * at + 2], 16)
                .expect("a puppet writes hexadecimal digits")
        });
        Self {
            topic: event["topic"].as_str().unwrap_or_default().to_owned(),
            payload: payload.collect(),
            qos: event["qos"]
                .as_u64()
                .and_then(|qos| u8::try_from(qos).ok())
                .expect("a message has a QoS"),
            retain: event["retain"] == true,
            dup: event["dup"] == true,
            properties: event["properties"].as_object().cloned().unwrap_or_default(),
        }
    }
}
