//! The stage of each test: broker, bridge, and the other participant.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{Message, SubscribeOptions};
use thalweg_dds::bridge::Bridge;
use thalweg_dds::settings::DdsSettings;
use thalweg_kernel::CloseReason;
use thalweg_server::Server;
use thalweg_server::config::Config;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The library that another participant is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// In Python, `peer.py`.
    Cyclone,
    /// In C++, `thalweg-tests/interop/cpp`; of the lines of `peer.py` it knows those of readers and writers.
    Fast,
    /// In Python, `dust_peer.py`, which only says whether endpoints match.
    Dust,
}

impl Library {
    /// Those that samples are exchanged with.
    pub const ALL: [Library; 2] = [Library::Cyclone, Library::Fast];

    /// What it is in a domain of its own for each library: the second ones are beyond those of all other tests.
    pub fn domain(self, first: u32) -> u32 {
        match self {
            Library::Cyclone => first,
            Library::Fast => first + 30,
            Library::Dust => first + 60,
        }
    }

    /// Whether its endpoints may have this quality: those of Fast DDS 2 are not ordered by time of source, nobody keeps samples for
    /// them, and they have no XCDR2; nor have those of Dust DDS.
    pub fn has(self, word: &str) -> bool {
        match self {
            Library::Cyclone => true,
            Library::Fast => !["source-order", "transient", "xcdr2"].contains(&word),
            Library::Dust => word != "xcdr2",
        }
    }

    /// The program that this is driven by, and its first words; nothing, and it says so, if that is not here.
    fn program(self) -> Option<Command> {
        let variable = match self {
            Library::Cyclone | Library::Dust => "THALWEG_DDS_PYTHON",
            Library::Fast => "THALWEG_DDS_FAST",
        };
        let Some(program) = std::env::var_os(variable) else {
            eprintln!("{variable} is not set: not tested");
            return None;
        };
        let mut command = Command::new(program);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
        match self {
            Library::Cyclone => drop(command.arg(format!("{folder}/peer.py"))),
            Library::Dust => drop(command.arg(format!("{folder}/dust_peer.py"))),
            Library::Fast => {}
        }
        Some(command)
    }
}

/// A broker with a bridge into a domain.
pub struct Stage {
    // Dropped in this order.
    pub peer: Peer,
    pub bridge: Bridge,
    server: Server,
    /// The settings of the broker, as the command line takes them.
    sets: Vec<String>,
}

impl Stage {
    /// Nothing, and it says so, if there is no other participant here.
    pub fn set(domain: u32, more: &[&str]) -> Option<Stage> {
        Stage::set_with(Library::Cyclone, domain, more)
    }

    pub fn set_with(library: Library, domain: u32, more: &[&str]) -> Option<Stage> {
        let own = [
            &*format!("dds.domain={domain}"),
            "dds.enabled=true",
            "dds.json=ros/#",
            "listeners.mqtt.bind=127.0.0.1:0",
            "listeners.coap.enabled=true",
            "listeners.coap.bind=127.0.0.1:0",
            "listeners.websocket.enabled=false",
            "journal.enabled=false",
            "shards=2",
        ];
        let sets: Vec<String> = own.iter().chain(more).map(|it| (*it).to_owned()).collect();
        let settings = DdsSettings::of(&config_of(&sets).protocols.dds);
        let peer = Peer::of(library, domain, &settings.expect("they can be used"))?;
        Some(Stage::of(peer, sets))
    }

    fn of(peer: Peer, sets: Vec<String>) -> Stage {
        let config = config_of(&sets);
        let dds = config.protocols.dds.clone();
        let server = Server::start(config).expect("the server starts");
        let bridge = Bridge::of(&dds, &server).expect("it joins the domain");
        Stage {
            peer,
            bridge,
            server,
            sets,
        }
    }

    /// The broker and its bridge end, and begin again with the same settings. The other participant stays.
    pub fn restarted(self) -> Stage {
        self.restarted_after(|_| {})
    }

    /// The same, with what the other participant does meanwhile.
    pub fn restarted_after(self, does: impl FnOnce(&mut Peer)) -> Stage {
        let Stage {
            mut peer,
            bridge,
            server,
            sets,
        } = self;
        drop(bridge);
        server.stop();
        does(&mut peer);
        Stage::of(peer, sets)
    }

    /// Closes the bridge's session in the broker, as an operator can.
    pub fn close_session(&self) {
        let closed = self.server.observer().on_shards(|inside| {
            let mut clients = Vec::new();
            inside.kernel.for_each_session(|it| {
                if it.dialect == "DDS" {
                    clients.push(it.client);
                }
            });
            for client in &clients {
                let (why, now) = (CloseReason::Kicked, inside.now);
                inside.kernel.kick(client, why, true, now, inside.links);
            }
            clients.len()
        });
        assert_eq!(closed.iter().sum::<usize>(), 1);
    }

    /// Another participant, in another domain.
    pub fn peer_in(&self, domain: u32) -> Peer {
        let settings = DdsSettings::of(&config_of(&self.sets).protocols.dds);
        let settings = DdsSettings {
            domain,
            ..settings.expect("they can be used")
        };
        Peer::in_domain(domain, &settings).expect("there was one before")
    }

    /// What the bridge's connection says to operators.
    pub fn properties(&self) -> Vec<(Box<str>, Box<str>)> {
        let said = self.server.observer().on_shards(|inside| {
            let mut found = Vec::new();
            inside.kernel.for_each_session(|it| {
                let link = it.link.filter(|_| it.dialect == "DDS");
                let said = link.map(|link| inside.client_properties(link));
                found.extend(said.into_iter().flatten().cloned());
            });
            found
        });
        said.concat()
    }

    pub fn address(&self, listener: &str) -> &str {
        let mut listening = self.server.listening().iter();
        let (_, address) = listening
            .find(|(name, _)| name == listener)
            .expect("it listens");
        address
    }

    pub fn mqtt(&self) -> Client {
        self.client(&format!("mqtt://{}", self.address("mqtt")))
    }

    pub fn coap(&self) -> Client {
        self.client(&format!("coap://{}", self.address("coap")))
    }

    fn client(&self, url: &str) -> Client {
        let builder = Client::builder().broker(url).expect("a broker");
        builder.connect_blocking().expect("it connects")
    }
}

pub fn config_of(sets: &[String]) -> Config {
    let read = Config::from_text(None, std::iter::empty(), sets);
    read.expect("the settings are right").0
}

pub fn subscribe(client: &Client, filter: &str) -> Subscription {
    let options = SubscribeOptions::default();
    client
        .subscribe_timeout(filter, options, PATIENCE)
        .expect("subscribed")
}

pub fn next(subscription: &mut Subscription) -> Message {
    let message = subscription.next_timeout(PATIENCE).expect("still there");
    message.expect("it comes in time")
}

pub fn value_of(message: &Message) -> Value {
    serde_json::from_slice(message.payload()).expect("it is JSON")
}

/// Attempts at most, each of which waits a moment.
const ATTEMPTS_MAX: usize = 150;

/// What an attempt brings in the end: the bridge subscribes when it has found a reader, so what is published before is not heard. Where
/// the broker stands still, the test fails and says at what.
pub fn tried<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let brought = (0..ATTEMPTS_MAX).find_map(|_| attempt());
    brought.unwrap_or_else(|| panic!("{what}, not in {ATTEMPTS_MAX} attempts"))
}

/// A process with another participant, which is ended with this.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    answers: mpsc::Receiver<Value>,
    heard: mpsc::Receiver<Value>,
}

impl Peer {
    /// One of Cyclone DDS; nothing, and it says so, if there is no other participant here.
    pub fn in_domain(domain: u32, settings: &DdsSettings) -> Option<Peer> {
        Peer::of(Library::Cyclone, domain, settings)
    }

    /// The settings are for Cyclone DDS; Fast DDS is on the loopback interface.
    pub fn of(library: Library, domain: u32, settings: &DdsSettings) -> Option<Peer> {
        let mut child = library
            .program()?
            .args([domain.to_string(), settings.xml()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (answer, answers) = mpsc::channel();
        let (hear, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value: Value = serde_json::from_str(&line).expect("JSON");
                let to = if value.get("done").is_some() {
                    &answer
                } else {
                    &hear
                };
                // At the end of a test nothing receives any more.
                let _ = to.send(value);
            }
        });
        Some(Peer {
            child,
            input,
            answers,
            heard,
        })
    }

    /// Stops the process for some time, or goes on with it.
    pub fn pause(&self, is_paused: bool) {
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        let kill = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(kill.expect("kill starts").success());
    }

    pub fn does(&mut self, what: Value) -> u64 {
        self.answers(what).as_u64().expect("a number")
    }

    pub fn answers(&mut self, what: Value) -> Value {
        writeln!(self.input, "{what}").expect("it lives");
        let answer = self.answers.recv_timeout(PATIENCE).expect("it answers");
        answer["done"].clone()
    }

    /// Makes a reader or a writer, and waits until the bridge has its opposite.
    pub fn matched(&mut self, what: Value) {
        let topic = what["topic"].clone();
        let name = what.get("as").unwrap_or(&topic).clone();
        assert_eq!(self.does(what), 0, "{topic} is not made");
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.does(json!({"do": "matched", "topic": topic, "as": name})) == 0 {
            assert!(
                std::time::Instant::now() < deadline,
                "the bridge does not match {topic}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has heard by now, or a moment later.
    pub fn hears_soon(&mut self) -> Option<Value> {
        self.heard.recv_timeout(Duration::from_millis(200)).ok()
    }

    pub fn hears(&mut self) -> Value {
        self.heard.recv_timeout(PATIENCE).expect("it hears in time")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
