//! A client made of one blocking socket: it sends what a test says and waits for answers, never answering by itself.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::packet::*;
use crate::broker::{Broker, BrokerProgram, Options};

/// Longest wait for an expected packet before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection to the broker.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    version: Version,
    unread: Vec<u8>,
    pending: VecDeque<Packet>,
    next_id: u16,
    /// Bytes of the largest packet this peer said it takes.
    packet_bytes_max: usize,
    // A test's own broker lives for as long as a connection to it is open.
    broker: Arc<Broker>,
}

#[derive(Clone, Debug)]
pub struct Connack {
    pub session_present: bool,
    pub code: u8,
    pub properties: Properties,
}

/// How a broker ended a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Silent,
    /// CONNACK with this code came first.
    Connack(u8),
    /// DISCONNECT with this code came first.
    Disconnect(u8),
}

/// The broker all conformance tests share, for as long as this program runs.
///
/// It has several shards whatever the machine, so that most pairs of clients talk across a border.
pub fn shared_broker() -> Arc<Broker> {
    static SHARED: Kept = OnceLock::new();
    kept(&SHARED, || Broker::with().set("shards", "3"))
}

/// A broker that runs until this program ends, and the guard that stops it then.
pub type Kept = OnceLock<(Arc<Broker>, Child)>;

/// The broker in `place`, started with `options` when it is not there yet.
pub fn kept(place: &'static Kept, options: impl FnOnce() -> Options) -> Arc<Broker> {
    let (broker, _) = place.get_or_init(|| {
        let broker = Arc::new(options().start());
        // Statics are never dropped. A shell that reads from us sees the end of this program, however it comes, and
        // clears up after it.
        let undertaker = Command::new("sh")
            .args([
                "-c",
                r#"read _; kill "$0"; rm -rf "$1""#,
                &broker.pid().to_string(),
            ])
            .arg(broker.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("every system has a shell");
        (broker, undertaker)
    });
    Arc::clone(broker)
}

/// Whether Debian's mosquitto answers, which does not do what the caller is about to check. The reason is for the reader.
pub fn oracle_deviates(_why: &str) -> bool {
    std::env::var("THALWEG_TEST_BROKER").is_ok_and(|broker| broker == "mosquitto")
}

/// A unique name, valid as a client id and as a topic level.
pub fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{stem}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Peer {
    /// A socket to the shared broker on which nothing was said yet.
    pub fn open(version: Version) -> Self {
        Self::open_to(shared_broker(), version)
    }

    /// A socket to a broker of the test's own.
    pub fn open_to(broker: Arc<Broker>, version: Version) -> Self {
        let stream = TcpStream::connect(broker.mqtt()).expect("the broker accepts");
        stream
            .set_nodelay(true)
            .expect("a fresh socket takes options");
        Self {
            stream,
            version,
            unread: Vec::new(),
            pending: VecDeque::new(),
            next_id: 1,
            packet_bytes_max: usize::MAX,
            broker,
        }
    }

    /// Connects with a clean session under a name of its own.
    pub fn new(version: Version) -> Self {
        Self::connect(&Connect::new(version, unique("c"))).0
    }

    /// Sends CONNECT and expects to be accepted.
    pub fn connect(connect: &Connect) -> (Self, Connack) {
        Self::open(connect.version).accepted(connect)
    }

    /// Fails the test when the broker sends a packet of more bytes than this.
    pub fn taking_at_most(mut self, packet_bytes_max: usize) -> Self {
        self.packet_bytes_max = packet_bytes_max;
        self
    }

    /// Sends CONNECT on this socket and expects to be accepted.
    pub fn accepted(mut self, connect: &Connect) -> (Self, Connack) {
        self.send(&connect.bytes());
        let connack = self.connack();
        assert_eq!(connack.code, 0, "the broker refused {connect:?}");
        (self, connack)
    }

    pub fn kind(&self) -> BrokerProgram {
        self.broker.kind()
    }

    /// Writes bytes; a broker that has closed already is found out by the next read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next packet identifier of this peer.
    pub fn id(&mut self) -> u16 {
        self.next_id += 1;
        self.next_id
    }

    pub fn next(&mut self) -> Packet {
        self.next_before(Instant::now() + PATIENCE)
            .unwrap_or_else(|| panic!("the broker closed the connection"))
    }

    pub fn connack(&mut self) -> Connack {
        match self.next() {
            Packet::Connack {
                flags,
                code,
                properties,
            } => {
                assert_eq!(
                    flags & !1,
                    0,
                    "[MQTT-3.2.2-1]: reserved bits of the connect acknowledge flags"
                );
                Connack {
                    session_present: flags & 1 == 1,
                    code,
                    properties,
                }
            }
            other => panic!("expected CONNACK first, got {other:?}"),
        }
    }

    /// The next packet, which is a PUBLISH.
    pub fn message(&mut self) -> Message {
        match self.next() {
            Packet::Publish(message) => message,
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }

    /// The next packet, which is this acknowledgement; its reason code.
    pub fn ack(&mut self, kind: u8, id: u16) -> u8 {
        match self.next() {
            Packet::Ack {
                kind: k,
                id: i,
                reason,
                ..
            } if k == kind && i == id => reason,
            other => panic!("expected acknowledgement {kind:#04x} of {id}, got {other:?}"),
        }
    }

    /// Subscribes to one filter and returns its code. Messages that come before SUBACK wait their turn.
    pub fn subscribe(&mut self, filter: &str, options: u8) -> u8 {
        self.subscribe_all(&[], &[(filter, options)])[0]
    }

    /// Subscribes with properties and returns all codes.
    pub fn subscribe_all(&mut self, properties: &[u8], filters: &[(&str, u8)]) -> Vec<u8> {
        let id = self.id();
        self.send(&subscribe(self.version, id, properties, filters));
        self.await_past_messages(|packet| match packet {
            Packet::Suback { id: of, codes, .. } if *of == id => Some(codes.clone()),
            _ => None,
        })
    }

    /// Unsubscribes and returns the codes; MQTT 3 has none.
    pub fn unsubscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let id = self.id();
        self.send(&unsubscribe(self.version, id, filters));
        self.await_past_messages(|packet| match packet {
            Packet::Unsuback { id: of, codes, .. } if *of == id => Some(codes.clone()),
            _ => None,
        })
    }

    /// Publishes; for QoS 1 and 2 the whole exchange follows and its last code is returned.
    pub fn publish(&mut self, publish: &Publish) -> u8 {
        self.send(&publish.bytes(self.version));
        let finish = |kind: u8, id: u16| {
            move |packet: &Packet| match packet {
                Packet::Ack {
                    kind: k,
                    id: i,
                    reason,
                    ..
                } if *k == kind && *i == id => Some(*reason),
                _ => None,
            }
        };
        match publish.qos {
            0 => 0,
            1 => self.await_past_messages(finish(PUBACK, publish.id)),
            _ => {
                let reason = self.await_past_messages(finish(PUBREC, publish.id));
                if reason >= 0x80 {
                    return reason;
                }
                self.send(&ack(PUBREL, publish.id));
                self.await_past_messages(finish(PUBCOMP, publish.id))
            }
        }
    }

    /// Answers a message as its QoS asks, to the end.
    pub fn settle(&mut self, message: &Message) {
        match message.qos {
            0 => {}
            1 => self.send(&ack(PUBACK, message.id)),
            _ => {
                self.send(&ack(PUBREC, message.id));
                let id = message.id;
                self.await_past_messages(|packet| match packet {
                    Packet::Ack {
                        kind: PUBREL,
                        id: of,
                        ..
                    } if *of == id => Some(()),
                    _ => None,
                });
                self.send(&ack(PUBCOMP, id));
            }
        }
    }

    /// Everything this peer gets up to a mark that `publisher` sends now: what is not among it, was not sent. Settles it all.
    ///
    /// The mark is a QoS 1 message of its own topic, so that it overtakes nothing.
    pub fn messages_until_mark(&mut self, publisher: &mut Peer) -> Vec<Message> {
        let mark = unique("mark");
        assert!(self.subscribe(&mark, 1) < 0x80);
        let id = publisher.id();
        publisher.publish(&Publish::new(&mark, "mark").qos(1, id));
        let mut messages = Vec::new();
        loop {
            let message = self.message();
            self.settle(&message);
            if message.topic == mark {
                return messages;
            }
            messages.push(message);
        }
    }

    /// The same, this peer publishing the mark itself.
    pub fn messages_until_own_mark(&mut self) -> Vec<Message> {
        let mark = unique("mark");
        assert!(self.subscribe(&mark, 0) < 0x80);
        self.publish(&Publish::new(&mark, "mark"));
        let mut messages = Vec::new();
        loop {
            let message = self.message();
            if message.topic == mark {
                return messages;
            }
            self.settle(&message);
            messages.push(message);
        }
    }

    /// Everything this peer gets up to retained messages that it asks for now, and those not counted: which retained
    /// messages an earlier subscription brought. Settles it all.
    ///
    /// Retained messages may be stored in several places and arrive after SUBACK. The marks are many, so that some are
    /// in each place, and are requested after the messages in question.
    pub fn messages_until_retained_marks(&mut self) -> Vec<Message> {
        const MARKS: usize = 32;
        static SET: OnceLock<()> = OnceLock::new();
        SET.get_or_init(|| {
            let mut publisher = Peer::new(Version::V5);
            for number in 0..MARKS {
                let id = publisher.id();
                publisher.publish(
                    &Publish::new(format!("retained-mark/{number}"), "mark")
                        .qos(1, id)
                        .retain(),
                );
            }
        });
        assert_eq!(self.subscribe("retained-mark/+", 0), 0);
        let mut messages = Vec::new();
        let mut marks = 0;
        while marks < MARKS {
            let message = self.message();
            self.settle(&message);
            if message.topic.starts_with("retained-mark/") {
                marks += 1;
            } else {
                messages.push(message);
            }
        }
        self.unsubscribe(&["retained-mark/+"]);
        messages
    }

    /// Waits for PINGRESP, so that everything this connection sent before has been processed and answered.
    ///
    /// Packets before PINGRESP are returned.
    pub fn until_pong(&mut self) -> Vec<Packet> {
        self.send(&pingreq());
        let mut before: Vec<Packet> = self.pending.drain(..).collect();
        loop {
            match self
                .read_packet(Instant::now() + PATIENCE)
                .expect("the connection stays open")
            {
                Packet::Pingresp => return before,
                other => before.push(other),
            }
        }
    }

    /// Waits until the broker closes, and says how it did. Messages that come before are passed over.
    pub fn ending(mut self) -> Ending {
        let deadline = Instant::now() + PATIENCE;
        let mut ending = Ending::Silent;
        while let Some(packet) = self.next_before(deadline) {
            assert!(
                !matches!(ending, Ending::Disconnect(_)),
                "[MQTT-3.14.4-1]: {packet:?} followed DISCONNECT"
            );
            match packet {
                Packet::Connack { code, flags, .. } => {
                    assert!(
                        code >= 0x80 || (self.version != Version::V5 && code > 0),
                        "accepted instead of refused"
                    );
                    assert_eq!(flags, 0, "[MQTT-3.2.2-6]: Session Present in a refusal");
                    ending = Ending::Connack(code);
                }
                Packet::Disconnect { reason, properties } => {
                    assert!(
                        !properties.has(property::SESSION_EXPIRY),
                        "[MQTT-3.14.2-2]: expiry in the broker's DISCONNECT"
                    );
                    ending = Ending::Disconnect(reason);
                }
                Packet::Publish(_) => {}
                other => panic!("expected the end of the connection, got {other:?}"),
            }
        }
        ending
    }

    /// Expects the connection to end with one of `codes`: in CONNACK when CONNECT was refused, else in DISCONNECT. MQTT 3
    /// has no words for it once connected, and the oracle is let off with closing in silence.
    pub fn expect_end(self, codes: &[u8]) {
        let (version, kind) = (self.version, self.kind());
        match self.ending() {
            Ending::Silent => {
                assert!(
                    version != Version::V5 || kind == BrokerProgram::Mosquitto,
                    "closed without a reason code, expected {codes:02x?}"
                );
            }
            Ending::Connack(code) | Ending::Disconnect(code) => {
                assert!(
                    codes.contains(&code),
                    "ended with {code:#04x}, expected one of {codes:02x?}"
                );
            }
        }
    }

    /// Expects the end after a DISCONNECT of the client's: answers to earlier packets may still come, DISCONNECT may not.
    pub fn expect_end_without_answer(mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(packet) = self.next_before(deadline) {
            assert!(
                matches!(packet, Packet::Publish(_) | Packet::Ack { .. }),
                "after DISCONNECT came {packet:?}"
            );
        }
    }

    /// Expects the connection to end without a word.
    pub fn expect_silent_end(self) {
        assert_eq!(self.ending(), Ending::Silent);
    }

    /// The codes of the SUBACK that comes next, or `None` when the broker closes instead.
    pub fn until_close_or_suback(mut self) -> Option<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        match self.next_before(deadline)? {
            Packet::Suback { codes, .. } => Some(codes),
            Packet::Disconnect { reason, .. } => {
                assert!(
                    reason >= 0x80,
                    "an error has a code of 0x80 or above, not {reason:#04x}"
                );
                self.wait_for_close();
                None
            }
            other => panic!("expected SUBACK or the end, got {other:?}"),
        }
    }

    /// Says DISCONNECT and waits until the broker has closed too.
    pub fn leave(mut self) {
        self.send(&disconnect());
        self.wait_for_close();
    }

    /// Breaks the connection off, as a failing network would, and waits until the broker has noticed.
    pub fn vanish(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.wait_for_close();
    }

    /// Reads to the end, whatever comes.
    pub fn wait_for_close(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.next_before(deadline).is_some() {}
    }

    /// The next packet, or `None` when the broker closes; fails the test when neither happens by `deadline`.
    fn next_before(&mut self, deadline: Instant) -> Option<Packet> {
        self.pending
            .pop_front()
            .or_else(|| self.read_packet(deadline))
    }

    fn read_packet(&mut self, deadline: Instant) -> Option<Packet> {
        loop {
            let before = self.unread.len();
            if let Some(packet) = read(self.version, &mut self.unread) {
                let size = before - self.unread.len();
                assert!(
                    size <= self.packet_bytes_max,
                    "[MQTT-3.1.2-24]: {size} bytes of {packet:?}"
                );
                return Some(packet);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited {PATIENCE:?} for a packet or the end of the connection"
            );
            self.stream
                .set_read_timeout(Some(left))
                .expect("the timeout is not zero");
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits for a certain packet; messages on the way are kept for later, anything else fails the test.
    fn await_past_messages<T>(&mut self, wanted: impl Fn(&Packet) -> Option<T>) -> T {
        loop {
            let packet = self
                .read_packet(Instant::now() + PATIENCE)
                .expect("the connection stays open");
            match (wanted(&packet), packet) {
                (Some(found), _) => return found,
                (None, packet @ Packet::Publish(_)) => self.pending.push_back(packet),
                (None, other) => panic!("unexpected {other:?}"),
            }
        }
    }
}
