//! A client of AMQP, STOMP, CoAP, ZeroMQ or XMPP: commands and events as `../../../interop/README.md` describes them, without a type each.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::puppet::{Library, PATIENCE, Puppet};
use super::relay::Relay;

/// Each is due after half an interval or a whole one, and silence of two or three intervals ends a connection.
const SIGNS: u32 = 5;

/// One connected client of a puppet, behind a relay that can be cut if it speaks over a stream.
pub struct Agent {
    library: Library,
    puppet: &'static Puppet,
    name: String,
    relay: Option<Relay>,
    events: Receiver<Value>,
}

impl Agent {
    /// Connects with more members for the command, or fails the test.
    pub fn open(library: Library, address: SocketAddr, fields: Value) -> Self {
        let relay = Relay::to(address);
        let address = relay.address();
        Self::at(library, address, Some(relay), fields)
    }

    /// The same without a relay, for datagrams and for libraries that open several connections: there is nothing to cut.
    pub fn open_endpoint(library: Library, address: SocketAddr, fields: Value) -> Self {
        Self::at(library, address, None, fields)
    }

    fn at(library: Library, address: SocketAddr, relay: Option<Relay>, fields: Value) -> Self {
        let puppet = library.puppet();
        let (name, events) = puppet.new_peer();
        let agent = Self {
            library,
            puppet,
            name,
            relay,
            events,
        };
        let mut command = fields;
        command["host"] = json!(address.ip());
        command["port"] = json!(address.port());
        agent.tell("connect", command);
        agent
    }

    /// Carries a command out; an error is the library's own sentence.
    pub fn ask(&self, verb: &str, mut command: Value) -> Result<Value, String> {
        command["do"] = json!(verb);
        command["peer"] = json!(self.name);
        let Value::Object(command) = command else {
            unreachable!("commands are objects")
        };
        self.puppet.ask(command)
    }

    /// Carries a command out, or fails the test.
    pub fn tell(&self, verb: &str, command: Value) -> Value {
        self.ask(verb, command)
            .unwrap_or_else(|error| panic!("{:?} {}: {verb}: {error}", self.library, self.name))
    }

    /// The next message, or the test fails.
    pub fn message(&self) -> Value {
        self.message_within(PATIENCE)
            .unwrap_or_else(|| panic!("{:?} {}: no message", self.library, self.name))
    }

    /// The next message, or none when `within` passes or the connection closes first.
    pub fn message_within(&self, within: Duration) -> Option<Value> {
        let deadline = Instant::now() + within;
        loop {
            let event = self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .ok()?;
            match event["event"].as_str() {
                Some("message") => return Some(event),
                Some("closed") => return None,
                Some("error") => eprintln!("{:?} {}: {event}", self.library, self.name),
                _ => {}
            }
        }
    }

    /// The next event of this kind; others are passed over.
    pub fn event(&self, kind: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) if event["event"] == kind => return event,
                Ok(_) => {}
                Err(_) => panic!("{:?} {}: no event `{kind}`", self.library, self.name),
            }
        }
    }

    /// Returns when more signs of life have come from either side than the other one does without.
    pub fn wait_for_signs_of_life(&self) {
        let relay = self.relay.as_ref().expect("a stream can be listened to");
        assert!(
            relay.wait_for_signs(SIGNS, PATIENCE),
            "{:?} {}: one side is silent",
            self.library,
            self.name
        );
    }

    /// An ungraceful end: the network between client and broker fails.
    pub fn cut(&self) {
        self.relay.as_ref().expect("a stream can be cut").cut();
    }
}
