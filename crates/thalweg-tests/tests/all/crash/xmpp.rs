//! XMPP under `kill -9`: acknowledged publishes reach the subscriber, and acknowledged messages reach the user, even if
//! she was away meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_server::access::add_password;
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, Limits, Management, StanzaKind,
    TlsPolicy, Tree,
};

use super::hand::PATIENCE;
use super::luck::Luck;
use super::oracle;
use super::process::{Home, Process};
use crate::broker::free_port;

/// The length of a run: so many kills, each after so many acknowledgements.
#[derive(Clone, Copy)]
struct Length {
    kills: usize,
    acknowledged: usize,
}

const SHORT: Length = Length {
    kills: 5,
    acknowledged: 60,
};
const LONG: Length = Length {
    kills: 50,
    acknowledged: 200,
};

/// Stanzas that a sender leaves unacknowledged.
const WINDOW: usize = 16;
/// Notifications after which the subscriber's connection breaks.
const BREAKS_AFTER: usize = 23;

#[test]
fn what_is_published_reaches_a_subscriber_of_a_managed_stream() {
    if !oracle() {
        notifications("xmpp-notifications", 1, SHORT);
        notifications("xmpp-notifications", 3, SHORT);
    }
}

#[test]
fn messages_reach_a_user_who_comes_and_goes() {
    if !oracle() {
        messages("xmpp-messages", 1, SHORT);
        messages("xmpp-messages", 3, SHORT);
    }
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn ten_thousand_notifications() {
    if !oracle() {
        notifications("xmpp-10000-notifications", 2, LONG);
    }
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn ten_thousand_messages() {
    if !oracle() {
        messages("xmpp-10000-messages", 2, LONG);
    }
}

/// A broker with a listener for XMPP at which users log in by their names.
fn home(name: &str, shards: usize) -> (Home, SocketAddr) {
    let xmpp = free_port();
    let home = Home::new(&format!("{name}-{shards}"));
    let users = home.folder().join("users");
    for user in ["romeo", "juliet"] {
        add_password(&users, user, b"x").expect("the folder is writable");
    }
    let home = home
        .set(&format!("shards={shards}"))
        .set(&format!("listeners.xmpp.bind={xmpp}"))
        .set(&format!("access.password_file={}", users.display()))
        .set("xmpp.plaintext_passwords=true")
        .set("xmpp.offline_messages_max=100000");
    (home, xmpp)
}

fn notifications(name: &str, shards: usize, length: Length) {
    let (home, xmpp) = home(name, shards);
    let mut process = home.start().expect("it starts");
    let reader = Reader::start(xmpp);
    let mut luck = Luck::new(11);
    let mut sender = Numbers::default();
    for life in 0..=length.kills {
        let mut client = Client::connect(xmpp, None, None).expect("it is ready");
        sender.lost();
        let quota =
            sender.acknowledged.len() + length.acknowledged / 2 + luck.below(length.acknowledged);
        let quota = match life == length.kills {
            true => quota.max(length.kills * length.acknowledged),
            false => quota,
        };
        while sender.acknowledged.len() < quota {
            for number in sender.next() {
                client.publish(number);
            }
            client.flush().expect("the broker reads");
            let stanza = client.stanza().expect("the broker answers");
            let id = between(&stanza, "id='n", "'").and_then(|id| id.parse().ok());
            assert!(stanza.contains("type='result'"), "{stanza}");
            sender.acknowledge(id.expect("it is an answer"));
        }
        if life < length.kills {
            process.kill();
            process = home.start().expect("it starts again");
        }
    }
    reader.wait_for(&sender.acknowledged);
    let found = reader.end(process);
    let lost = {
        let has = found.has.lock().expect("no panic");
        sender.acknowledged.difference(&has).count()
    };
    let [resumed, inherited] =
        [&found.resumed, &found.inherited].map(|count| count.load(Ordering::Acquire));
    println!(
        "{shards} shards, {} kills: {} publishes acknowledged, {lost} of them lost to the subscriber; {resumed} streams resumed, \
         {inherited} gone on with after a kill",
        length.kills,
        sender.acknowledged.len()
    );
    assert_eq!(lost, 0);
    assert!(resumed > 0 && inherited > 0, "{resumed} {inherited}");
}

fn messages(name: &str, shards: usize, length: Length) {
    let (home, xmpp) = home(name, shards);
    let mut process = home.start().expect("it starts");
    let mut luck = Luck::new(12);
    let mut sender = Numbers::default();
    let (mut seen, mut stream) = (BTreeSet::new(), None);
    // Her queue is made when she comes for the first time.
    let mut juliet = Client::juliet(xmpp, &mut stream);
    juliet.synced();
    stream = juliet.leave();
    for life in 0..=length.kills {
        let mut romeo = Client::connect(xmpp, Some("romeo"), None).expect("it is ready");
        sender.lost();
        let mut juliet = (life % 2 == 1).then(|| Client::juliet(xmpp, &mut stream));
        let quota =
            sender.acknowledged.len() + length.acknowledged / 2 + luck.below(length.acknowledged);
        let quota = match life == length.kills {
            true => quota.max(length.kills * length.acknowledged),
            false => quota,
        };
        while sender.acknowledged.len() < quota {
            for number in sender.next() {
                romeo.say(number);
            }
            romeo.flush().expect("the broker reads");
            romeo.acknowledged().expect("the broker acknowledges");
            assert!(romeo.inbox.is_empty(), "errors: {:?}", romeo.inbox);
            let left = romeo.unacknowledged();
            while sender.sent.len() > left {
                let first = sender.sent.front().copied().expect("there is one");
                sender.acknowledge(first);
            }
            // She reads some of the messages that are certainly there.
            if let Some(juliet) = &mut juliet
                && sender
                    .acknowledged
                    .iter()
                    .any(|number| !seen.contains(number))
            {
                juliet.hear(&mut seen);
            }
        }
        if life < length.kills {
            process.kill();
            process = home.start().expect("it starts again");
        }
        if let Some(mut juliet) = juliet {
            seen.extend(juliet.numbers.drain(..));
            stream = juliet.leave();
        }
    }
    let mut juliet = Client::juliet(xmpp, &mut stream);
    while !sender.acknowledged.is_subset(&seen) && juliet.hear(&mut seen) {}
    let lost = sender.acknowledged.difference(&seen).count();
    println!(
        "{shards} shards, {} kills: {} messages acknowledged, {lost} of them lost to the user",
        length.kills,
        sender.acknowledged.len()
    );
    assert_eq!(lost, 0);
    drop(process);
}

/// Messages of a sender, and the acknowledged ones of them.
#[derive(Default)]
struct Numbers {
    last: u64,
    acknowledged: BTreeSet<u64>,
    /// Not acknowledged, in the order in which they were sent over this connection.
    sent: VecDeque<u64>,
    /// Sent over an earlier connection, and to be sent again.
    again: VecDeque<u64>,
}

impl Numbers {
    fn lost(&mut self) {
        self.again.extend(std::mem::take(&mut self.sent));
    }

    /// Messages that may be sent now.
    fn next(&mut self) -> Vec<u64> {
        let room = WINDOW.saturating_sub(self.sent.len());
        let next: Vec<u64> = (0..room)
            .map(|_| {
                self.again.pop_front().unwrap_or_else(|| {
                    self.last += 1;
                    self.last
                })
            })
            .collect();
        self.sent.extend(&next);
        next
    }

    fn acknowledge(&mut self, number: u64) {
        self.sent.retain(|sent| *sent != number);
        self.acknowledged.insert(number);
    }
}

/// A subscriber that comes again whenever its connection is lost, and breaks it itself now and then.
struct Reader {
    found: Arc<Found>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Found {
    has: Mutex<BTreeSet<u64>>,
    /// Streams that went on over another connection, and those that a broker was killed under.
    resumed: AtomicU32,
    inherited: AtomicU32,
    is_over: AtomicBool,
}

impl Reader {
    fn start(broker: SocketAddr) -> Reader {
        let found = Arc::new(Found::default());
        let (ready, is_ready) = mpsc::channel();
        let shared = found.clone();
        let thread = std::thread::spawn(move || {
            let (mut earlier, mut is_first) = (None, true);
            while !shared.is_over.load(Ordering::Acquire) {
                let Some(mut client) = Client::connect(broker, None, earlier.clone()) else {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                };
                match (std::mem::take(&mut is_first), client.is_resumed) {
                    (true, _) => {
                        client.subscribe();
                        ready.send(()).expect("it is waited for");
                    }
                    (false, true) => _ = shared.resumed.fetch_add(1, Ordering::AcqRel),
                    (false, false) => _ = shared.inherited.fetch_add(1, Ordering::AcqRel),
                }
                let mut heard = 0;
                loop {
                    // The first may have come before the connection was made.
                    heard += client.numbers.len();
                    let numbers = client.numbers.drain(..);
                    shared.has.lock().expect("no panic").extend(numbers);
                    if heard >= BREAKS_AFTER || client.turn().is_none() {
                        break;
                    }
                }
                earlier = client.leave();
            }
        });
        is_ready.recv().expect("it subscribes");
        Reader { found, thread }
    }

    /// Waits until it has all of this, or nothing more comes.
    fn wait_for(&self, all: &BTreeSet<u64>) {
        let end = Instant::now() + PATIENCE;
        while !all.is_subset(&self.found.has.lock().expect("no panic")) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends with the broker.
    fn end(self, process: Process) -> Arc<Found> {
        self.found.is_over.store(true, Ordering::Release);
        drop(process);
        self.thread.join().expect("it does not panic");
        self.found
    }
}

/// Saved state of a stream: its name, and its counts.
type Stream = (String, Management);

/// A client of XMPP with XEP-0198, which acknowledges what it has read.
struct Client {
    stream: TcpStream,
    side: ClientSide,
    tree: Tree,
    unread: Vec<u8>,
    out: Vec<u8>,
    /// Stanzas that are not numbers.
    inbox: VecDeque<String>,
    /// Those that have come: they are acknowledged with the next answer, whatever becomes of them here.
    numbers: Vec<u64>,
    jid: String,
    resume: Option<String>,
    is_resumed: bool,
    is_managed: bool,
    has_acknowledged: bool,
}

impl Client {
    /// Logs in, goes on with a stream if it can, and has acknowledgements enabled. None: the broker is not there.
    fn connect(broker: SocketAddr, user: Option<&str>, earlier: Option<Stream>) -> Option<Client> {
        let stream = TcpStream::connect(broker).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut side = ClientSide::new(ClientSettings {
            limits: Limits::default(),
            framing: Framing::Document,
            domain: "localhost".into(),
            // It is not encrypted, and the broker takes passwords all the same.
            tls: TlsPolicy::Direct,
            credentials: match user {
                Some(user) => Credentials::Password {
                    user: user.into(),
                    password: "x".into(),
                },
                None => Credentials::Anonymous,
            },
            resource: None,
            nonce: [3; 24],
            management: true,
            acknowledges: true,
        });
        let name = earlier.as_ref().map(|(name, _)| name.clone());
        if let Some((name, management)) = earlier {
            side.resume(&name, management);
        }
        let mut client = Client {
            stream,
            side,
            tree: Tree::default(),
            unread: Vec::new(),
            out: Vec::new(),
            inbox: VecDeque::new(),
            numbers: Vec::new(),
            jid: String::new(),
            resume: name,
            is_resumed: false,
            is_managed: false,
            has_acknowledged: false,
        };
        client.side.open(&mut client.out);
        while !client.is_managed {
            client.turn()?;
        }
        Some(client)
    }

    /// The connected user, with her stream.
    fn juliet(broker: SocketAddr, stream: &mut Option<Stream>) -> Client {
        let client = Client::connect(broker, Some("juliet"), stream.take());
        let mut juliet = client.expect("the broker is ready");
        let out = &mut juliet.out;
        juliet.side.put(StanzaKind::Presence, &[], out, |_| {});
        juliet.flush().expect("the broker reads");
        juliet
    }

    fn flush(&mut self) -> Option<()> {
        let out = std::mem::take(&mut self.out);
        self.stream.write_all(&out).ok()
    }

    /// Sends what there is, reads what comes, and handles it. None: the connection is lost.
    fn turn(&mut self) -> Option<()> {
        self.flush()?;
        let mut chunk = [0; 16 << 10];
        let count = self
            .stream
            .read(&mut chunk)
            .ok()
            .filter(|count| *count > 0)?;
        self.unread.extend_from_slice(&chunk[..count]);
        let mut used = 0;
        while let Some((len, event)) = self
            .side
            .handle_input(&self.unread[used..], &mut self.tree, &mut self.out)
            .expect("the broker speaks XMPP")
        {
            used += len;
            match event {
                ClientEvent::Bound(jid) => self.jid = jid.to_string(),
                ClientEvent::Enabled(name) => {
                    self.resume = name.map(Into::into);
                    self.is_managed = true;
                }
                ClientEvent::Resumed => (self.is_resumed, self.is_managed) = (true, true),
                ClientEvent::Stanza(stanza) => match number_in(stanza.element.raw()) {
                    Some(number) => self.numbers.push(number),
                    None => self.inbox.push_back(stanza.element.raw().to_owned()),
                },
                ClientEvent::Acknowledged => self.has_acknowledged = true,
                ClientEvent::Consumed | ClientEvent::StartTls => {}
                ClientEvent::Closed(why) => panic!("the broker has ended the stream: {why:?}"),
            }
        }
        self.unread.drain(..used);
        Some(())
    }

    fn stanza(&mut self) -> Option<String> {
        while self.inbox.is_empty() {
            self.turn()?;
        }
        self.flush()?;
        self.inbox.pop_front()
    }

    fn ask(&mut self, id: &str, to: &str, content: &str) {
        let attributes = [("type", "set"), ("id", id), ("to", to)];
        self.side
            .put(StanzaKind::Iq, &attributes, &mut self.out, |out| {
                out.extend_from_slice(content.as_bytes());
            });
    }

    fn subscribe(&mut self) {
        let jid = self.jid.clone();
        let subscribe = pubsub(&format!("<subscribe node='numbers' jid='{jid}'/>"));
        self.ask("s", SERVICE, &subscribe);
        let answer = self.stanza().expect("the broker answers");
        assert!(answer.contains("subscription='subscribed'"), "{answer}");
    }

    fn publish(&mut self, number: u64) {
        let item = format!("<item><text xmlns='urn:thalweg:payload:0'>{number}</text></item>");
        let publish = pubsub(&format!("<publish node='numbers'>{item}</publish>"));
        self.ask(&format!("n{number}"), SERVICE, &publish);
    }

    fn say(&mut self, number: u64) {
        let attributes = [("to", "juliet@localhost"), ("type", "chat")];
        self.side
            .put(StanzaKind::Message, &attributes, &mut self.out, |out| {
                out.extend_from_slice(format!("<body>{number}</body>").as_bytes());
            });
    }

    /// Waits for an acknowledgement.
    fn acknowledged(&mut self) -> Option<()> {
        while !std::mem::take(&mut self.has_acknowledged) {
            self.turn()?;
        }
        Some(())
    }

    fn unacknowledged(&self) -> usize {
        self.side
            .management()
            .map_or(0, |management| management.unacknowledged() as usize)
    }

    /// Waits for an answer to the last stanza.
    fn synced(&mut self) {
        self.ask("sync", "localhost", "<ping xmlns='urn:xmpp:ping'/>");
        while !self.stanza().expect("the broker answers").contains("sync") {}
    }

    /// Waits for something to come; false if nothing does.
    fn hear(&mut self, seen: &mut BTreeSet<u64>) -> bool {
        let is_there = !self.numbers.is_empty() || self.turn().is_some();
        seen.extend(self.numbers.drain(..));
        is_there
    }

    /// Breaks the connection. Returns its stream, to go on with.
    fn leave(mut self) -> Option<Stream> {
        assert!(self.numbers.is_empty(), "they were acknowledged");
        _ = self.stream.shutdown(Shutdown::Both);
        Some((self.resume.take()?, self.side.suspend()?))
    }
}

const SERVICE: &str = "pubsub.localhost";

fn pubsub(action: &str) -> String {
    format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{action}</pubsub>")
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

/// The number in an item or a message.
fn number_in(stanza: &str) -> Option<u64> {
    let text =
        between(stanza, "<text", "</text>").or_else(|| between(stanza, "<body", "</body>"))?;
    text.split_once('>')?.1.parse().ok()
}
