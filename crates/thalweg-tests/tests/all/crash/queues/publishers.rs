//! Those who publish: with confirms, in transactions, with receipts, by MQTT, by wills, and by CoAP.
//!
//! Messages are never sent twice: the fate of those that are unconfirmed when their connection ends is unknown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::coap::Coap;

use super::amqp::{Amqp, CONFIRM_SELECT, Event, TX_COMMIT, TX_ROLLBACK, TX_SELECT, Trouble};
use super::book::{Fate, Mark, Tie, Wrong};
use super::stomp::Stomp;
use super::world::{ANSWERED_WITHIN, World};
use crate::conformance::packet::{self, Connect, Packet, Publish, Version};
use crate::crash::luck::Luck;

const WINDOW: usize = 60;
const LISTENING: Duration = Duration::from_millis(4);

/// How long a publisher stays connected, in seconds.
const STAYS: (f64, f64) = (0.5, 4.0);

/// A stream and how to reach its queues: exchange and key, destination, or topic.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub stream: usize,
    pub exchange: &'static str,
    pub key: &'static str,
}

/// Schedule of each publisher.
struct Pace {
    luck: Luck,
    next: Instant,
    leaves: Instant,
}

impl Pace {
    fn new(luck: &mut Luck) -> Self {
        let mut luck = luck.of(1);
        let leaves = Instant::now() + Duration::from_secs_f64(luck.between(STAYS));
        Self {
            next: Instant::now(),
            leaves,
            luck,
        }
    }

    fn is_over(&self, world: &World) -> bool {
        world.is_at_rest() || Instant::now() >= self.leaves
    }

    /// Number of messages to send now, and their largest size.
    fn burst(&mut self) -> usize {
        if Instant::now() < self.next {
            return 0;
        }
        self.next = Instant::now() + Duration::from_secs_f64(self.luck.between((0.01, 0.06)));
        1 + self.luck.below(8)
    }

    fn size(&mut self) -> usize {
        if self.luck.chance(0.03) {
            4000 + self.luck.below(6000)
        } else {
            20 + self.luck.below(200)
        }
    }

    fn way<'a>(&mut self, ways: &'a [Way]) -> &'a Way {
        &ways[self.luck.below(ways.len())]
    }
}

pub fn confirmed(world: &World, who: &str, ways: &[Way], mut luck: Luck) {
    while !world.is_at_rest() {
        luck.next();
        let open = || {
            let mut amqp = Amqp::open(world.amqp)?;
            amqp.call(CONFIRM_SELECT)?;
            Ok(amqp)
        };
        let Some((amqp, tie)) = world.connect(who, open) else {
            continue;
        };
        let ended = confirm_all(world, who, amqp, ways, Pace::new(&mut luck));
        world.disconnected(who, tie, ended);
    }
}

fn confirm_all(
    world: &World,
    who: &str,
    mut amqp: Amqp,
    ways: &[Way],
    mut pace: Pace,
) -> Result<(), Trouble> {
    let mut unconfirmed: BTreeMap<u64, Mark> = BTreeMap::new();
    let mut tag = 0;
    let mut heard = Instant::now();
    loop {
        if !pace.is_over(world) {
            for _ in 0..pace.burst() {
                if unconfirmed.len() >= WINDOW {
                    break;
                }
                let (way, size) = (*pace.way(ways), pace.size());
                let (mark, payload) = world.book().send(way.stream, size, None);
                tag += 1;
                unconfirmed.insert(tag, mark);
                amqp.publish(way.exchange, way.key, &payload);
            }
        } else if unconfirmed.is_empty() {
            amqp.close();
            return Ok(());
        }
        if unconfirmed.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() > ANSWERED_WITHIN {
            return Err(Trouble::Silent);
        }
        while let Some(event) = amqp.event(LISTENING)? {
            heard = Instant::now();
            let mut book = world.book();
            match event {
                Event::Ack(up_to, multiple) => {
                    let from = if multiple { 0 } else { up_to };
                    let done: Vec<u64> = unconfirmed
                        .range(from..=up_to)
                        .map(|(tag, _)| *tag)
                        .collect();
                    if done.is_empty() {
                        book.breach(
                            Wrong::Refused,
                            format!("{who} was confirmed {up_to}, which it does not wait for"),
                        );
                    }
                    for mark in done.iter().filter_map(|tag| unconfirmed.remove(tag)) {
                        book.confirmed(mark);
                    }
                }
                Event::Nack(tag) => {
                    let mark = unconfirmed.remove(&tag);
                    book.breach(Wrong::Refused, format!("{who}: {mark:?} was not taken"));
                }
                Event::Returned(payload) => {
                    let mark = book.identify(&payload);
                    book.breach(
                        Wrong::Topology,
                        format!("{who}: {mark:?} came back, no queue wanted it"),
                    );
                }
                other => book.breach(Wrong::Refused, format!("{who} got {other:?}")),
            }
        }
    }
}

pub fn transactions(world: &World, who: &str, ways: &[Way], mut luck: Luck) {
    while !world.is_at_rest() {
        luck.next();
        let open = || {
            let mut amqp = Amqp::open(world.amqp)?;
            amqp.call(TX_SELECT)?;
            Ok(amqp)
        };
        let Some((amqp, tie)) = world.connect(who, open) else {
            continue;
        };
        let ended = commit_all(world, amqp, tie, ways, Pace::new(&mut luck));
        world.disconnected(who, tie, ended);
    }
}

fn commit_all(
    world: &World,
    mut amqp: Amqp,
    tie: Tie,
    ways: &[Way],
    mut pace: Pace,
) -> Result<(), Trouble> {
    while !pace.is_over(world) {
        let count = pace.burst();
        if count == 0 {
            // Nothing comes by itself; this waits.
            amqp.event(LISTENING)?;
            continue;
        }
        let group = world.book().group(tie.life);
        for _ in 0..count {
            let (way, size) = (*pace.way(ways), pace.size());
            let (_, payload) = world.book().send(way.stream, size, Some(group));
            amqp.publish(way.exchange, way.key, &payload);
        }
        if pace.luck.chance(0.2) {
            amqp.call(TX_ROLLBACK)?;
            continue;
        }
        world.book().fate(group, Fate::Unknown);
        amqp.call(TX_COMMIT)?;
        world.book().fate(group, Fate::Committed);
    }
    amqp.close();
    Ok(())
}

/// STOMP: receipts, and now and then a transaction.
pub fn receipts(world: &World, who: &str, ways: &[Way], mut luck: Luck) {
    while !world.is_at_rest() {
        luck.next();
        let Some((stomp, tie)) = world.connect(who, || Stomp::open(world.stomp)) else {
            continue;
        };
        let ended = receive_all(world, stomp, tie, ways, Pace::new(&mut luck));
        world.disconnected(who, tie, ended);
    }
}

fn receive_all(
    world: &World,
    mut stomp: Stomp,
    tie: Tie,
    ways: &[Way],
    mut pace: Pace,
) -> Result<(), Trouble> {
    let mut unconfirmed: HashMap<String, Promise> = HashMap::new();
    let mut heard = Instant::now();
    let mut transactions = 0;
    loop {
        let is_over = pace.is_over(world);
        if is_over && unconfirmed.is_empty() {
            stomp.close();
            return Ok(());
        }
        let count = if is_over || unconfirmed.len() >= WINDOW {
            0
        } else {
            pace.burst()
        };
        if count > 0 && pace.luck.chance(0.4) {
            transactions += 1;
            let name = format!("t{transactions}");
            let group = world.book().group(tie.life);
            stomp.send("BEGIN", &[("transaction", &name)], b"");
            for _ in 0..count {
                let (way, size) = (*pace.way(ways), pace.size());
                let (_, payload) = world.book().send(way.stream, size, Some(group));
                stomp.send(
                    "SEND",
                    &[("destination", way.key), ("transaction", &name)],
                    &payload,
                );
            }
            if pace.luck.chance(0.2) {
                stomp.send("ABORT", &[("transaction", &name)], b"");
            } else {
                world.book().fate(group, Fate::Unknown);
                let receipt = stomp.send_for_receipt("COMMIT", &[("transaction", &name)], b"");
                unconfirmed.insert(receipt, Promise::Transaction(group));
            }
        } else {
            for _ in 0..count {
                let (way, size) = (*pace.way(ways), pace.size());
                let (mark, payload) = world.book().send(way.stream, size, None);
                let headers = [("destination", way.key), ("persistent", "true")];
                let receipt = stomp.send_for_receipt("SEND", &headers, &payload);
                unconfirmed.insert(receipt, Promise::Message(mark));
            }
        }
        if unconfirmed.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() > ANSWERED_WITHIN {
            return Err(Trouble::Silent);
        }
        while let Some(receipt) = stomp.receipt(LISTENING)? {
            heard = Instant::now();
            match unconfirmed.remove(&receipt) {
                Some(Promise::Message(mark)) => world.book().confirmed(mark),
                Some(Promise::Transaction(group)) => world.book().fate(group, Fate::Committed),
                None => world.book().breach(
                    Wrong::Refused,
                    format!("receipt {receipt} was not asked for"),
                ),
            }
        }
    }
}

enum Promise {
    Message(Mark),
    Transaction(usize),
}

/// MQTT at QoS 1, into queues that AMQP clients made.
pub fn quality_1(world: &World, who: &str, ways: &[Way], luck: Luck) {
    quality(world, who, ways, luck, 1);
}

/// MQTT at QoS 2. A PUBREC takes the message over (MQTT 3.1.1 §4.3.3), so it is what has to hold.
pub fn quality_2(world: &World, who: &str, ways: &[Way], luck: Luck) {
    quality(world, who, ways, luck, 2);
}

fn quality(world: &World, who: &str, ways: &[Way], mut luck: Luck, qos: u8) {
    while !world.is_at_rest() {
        luck.next();
        let open = || Mqtt::open(world, &Connect::new(Version::V311, who));
        let Some((mqtt, tie)) = world.connect(who, open) else {
            continue;
        };
        let ended = acknowledge_all(world, who, mqtt, ways, Pace::new(&mut luck), qos);
        world.disconnected(who, tie, ended);
    }
}

fn acknowledge_all(
    world: &World,
    who: &str,
    mut mqtt: Mqtt,
    ways: &[Way],
    mut pace: Pace,
    qos: u8,
) -> Result<(), Trouble> {
    let mut unconfirmed: HashMap<u16, Mark> = HashMap::new();
    let mut released: HashSet<u16> = HashSet::new();
    let mut id: u16 = 0;
    let mut heard = Instant::now();
    loop {
        if !pace.is_over(world) {
            for _ in 0..pace.burst() {
                if unconfirmed.len() >= WINDOW {
                    break;
                }
                let (way, size) = (*pace.way(ways), pace.size());
                let (mark, payload) = world.book().send(way.stream, size, None);
                id = id.wrapping_add(1).max(1);
                unconfirmed.insert(id, mark);
                mqtt.send(
                    &Publish::new(way.key, payload)
                        .qos(qos, id)
                        .bytes(Version::V311),
                );
            }
        } else if unconfirmed.is_empty() && released.is_empty() {
            mqtt.send(&packet::disconnect());
            return Ok(());
        }
        if unconfirmed.is_empty() && released.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() > ANSWERED_WITHIN {
            return Err(Trouble::Silent);
        }
        while let Some(packet) = mqtt.packet(LISTENING)? {
            heard = Instant::now();
            let Packet::Ack { id, kind, .. } = packet else {
                continue;
            };
            if kind == packet::PUBCOMP && released.remove(&id) {
                continue;
            }
            match unconfirmed.remove(&id) {
                Some(mark) => world.book().confirmed(mark),
                None => {
                    world.book().breach(
                        Wrong::Refused,
                        format!("{who} does not wait for acknowledgement {kind} {id}"),
                    );
                }
            }
            if kind == packet::PUBREC {
                released.insert(id);
                mqtt.send(&packet::ack(packet::PUBREL, id));
            }
        }
    }
}

/// MQTT clients that are lost without DISCONNECT: the CONNACK of a session that outlives its connection promises the will.
pub fn wills(world: &World, who: &str, ways: &[Way], mut luck: Luck) {
    while !world.is_at_rest() {
        if !world.is_open() {
            std::thread::sleep(LISTENING);
            continue;
        }
        let mut pace = Pace::new(&mut luck);
        let way = *pace.way(ways);
        let (mark, payload) = world.book().send(way.stream, pace.size(), None);
        let connect = Connect::new(Version::V311, who)
            .clean(false)
            .will(way.key, payload, 1, false);
        let Some((mqtt, tie)) = world.connect(who, || Mqtt::open(world, &connect)) else {
            continue;
        };
        world.book().confirmed(mark);
        std::thread::sleep(Duration::from_secs_f64(pace.luck.between((0.0, 0.06))));
        drop(mqtt);
        world.disconnected(who, tie, Ok(()));
    }
}

/// CoAP: confirmable requests that are sent once, because a broker that was started in between would take a repetition for
/// another message.
pub fn confirmable(world: &World, who: &str, ways: &[Way], mut luck: Luck) {
    while !world.is_at_rest() {
        luck.next();
        let first_id = luck.next() as u16;
        let Some((coap, tie)) = world.connect(who, || Coap::open(world.coap, first_id)) else {
            continue;
        };
        let ended = answer_all(world, who, coap, tie, ways, Pace::new(&mut luck));
        world.disconnected(who, tie, ended);
    }
}

/// Requests of one peer that are under way at once (NSTART, RFC 7252 §4.7): two could be taken by two sockets of a broker
/// that is still opening its ports, and then they have no order.
const REQUESTS: usize = 1;

fn answer_all(
    world: &World,
    who: &str,
    mut coap: Coap,
    tie: Tie,
    ways: &[Way],
    mut pace: Pace,
) -> Result<(), Trouble> {
    let mut unconfirmed: HashMap<u16, Mark> = HashMap::new();
    let mut heard = Instant::now();
    loop {
        if !pace.is_over(world) {
            for _ in 0..pace.burst() {
                if unconfirmed.len() >= REQUESTS {
                    break;
                }
                // Without blocks: they are `crash::coap`'s.
                let (way, size) = (*pace.way(ways), pace.size().min(900));
                let (mark, payload) = world.book().send(way.stream, size, None);
                unconfirmed.insert(coap.request(way.exchange, way.key, &payload), mark);
            }
        } else if unconfirmed.is_empty() {
            return Ok(());
        }
        if unconfirmed.is_empty() {
            heard = Instant::now();
        } else if world.life() != tie.life {
            return Err(Trouble::Gone);
        } else if heard.elapsed() > ANSWERED_WITHIN {
            return Err(Trouble::Silent);
        }
        while let Some((request, code)) = coap.answer(LISTENING)? {
            heard = Instant::now();
            let mut book = world.book();
            match unconfirmed.remove(&request) {
                Some(mark) if code >> 5 == 2 => book.confirmed(mark),
                Some(mark) => {
                    let code = format!("{}.{:02}", code >> 5, code & 31);
                    book.breach(Wrong::Refused, format!("{who}: {mark} was answered {code}"));
                }
                None => book.breach(
                    Wrong::Refused,
                    format!("{who} does not wait for an answer to {request}"),
                ),
            }
        }
    }
}

/// An MQTT 3.1.1 connection.
pub struct Mqtt {
    socket: TcpStream,
    unread: Vec<u8>,
    closed: bool,
}

impl Mqtt {
    pub fn open(world: &World, connect: &Connect) -> Result<Self, Trouble> {
        let socket = TcpStream::connect(world.mqtt).map_err(|_| Trouble::Gone)?;
        let ready = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(ANSWERED_WITHIN)));
        ready.expect("a fresh socket takes options");
        let mut me = Self {
            socket,
            unread: Vec::new(),
            closed: false,
        };
        me.send(&connect.bytes());
        match me.packet(ANSWERED_WITHIN)? {
            Some(Packet::Connack { code: 0, .. }) => Ok(me),
            Some(other) => Err(Trouble::Refused(0, format!("{other:?}"))),
            None => Err(Trouble::Silent),
        }
    }

    /// A broken connection is found out by the next who reads.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    pub fn packet(&mut self, within: Duration) -> Result<Option<Packet>, Trouble> {
        let until = Instant::now() + within;
        loop {
            if let Some(packet) = packet::read(Version::V311, &mut self.unread) {
                return Ok(Some(packet));
            }
            if self.closed {
                return Err(Trouble::Gone);
            }
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_micros(100));
            self.socket.set_read_timeout(Some(left)).expect("not zero");
            let mut chunk = [0; 4096];
            match self.socket.read(&mut chunk) {
                Ok(0) => self.closed = true,
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }
}
