//! Publishers on one shard of a whole server, and their only receivers full on another: a publish is refused in the words of its
//! protocol, and nothing that is acknowledged is lost (decision 0061).

use crate::support::amqp::{Amqp, long, short};
use crate::support::folder::Folder;
use crate::{PATIENCE, address};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use thalweg_coap::{Code, Encoder, Message, Token, Type, option};
use thalweg_kernel::home;
use thalweg_server::Server;

/// Messages that a receiver has room for, and that are published.
const ROOM: usize = 10;
const PUBLISHED: usize = 25;
const QUOTA_EXCEEDED: u8 = 0x97;

const SHARED: [&str; 9] = [
    "shards=2",
    "listeners.websocket.enabled=false",
    "listeners.mqtt.bind=127.0.0.1:0",
    "listeners.amqp.bind=127.0.0.1:0",
    "listeners.stomp.bind=127.0.0.1:0",
    "listeners.coap.bind=127.0.0.1:0",
    "admin.enabled=false",
    "sys.interval=off",
    "journal.segment_bytes=1MiB",
];

/// A server of two shards, its data and its settings.
struct Broker {
    server: Option<Server>,
    journal: bool,
    /// Goes last, when nothing writes there any more.
    folder: Folder,
}

impl Broker {
    fn start(journal: bool) -> Broker {
        let mut broker = Broker {
            server: None,
            journal,
            folder: Folder::new("full"),
        };
        broker.go_on();
        broker
    }

    fn go_on(&mut self) {
        let sets = [
            format!("journal.enabled={}", self.journal),
            format!("queue.messages_max={ROOM}"),
            format!("groups.messages_max={ROOM}"),
        ];
        let config = self
            .folder
            .configuration(&SHARED, &sets.each_ref().map(String::as_str));
        let server = Server::start(config).unwrap_or_else(|errors| panic!("{errors:?}"));
        self.server = Some(server);
    }

    fn restart(&mut self) {
        self.server.take().expect("it runs").stop();
        self.go_on();
    }

    fn address(&self, listener: &str) -> SocketAddr {
        address(self.server.as_ref().expect("it runs"), listener)
    }

    fn tcp(&self, listener: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(listener)).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        stream
    }

    /// A client whose session is on a shard and stays when it goes.
    fn mqtt(&self, stem: &str, shard: u16) -> Mqtt {
        let mut mqtt = Mqtt(self.tcp("mqtt"));
        let expiry = [5, 0x11, 0, 0, 0x0E, 0x10];
        let head = [&text("MQTT")[..], &[5, 0, 0, 0], &expiry].concat();
        mqtt.send(0x10, &[head, text(&name_on(stem, shard))].concat());
        let (kind, connack) = mqtt.receive();
        assert_eq!((kind, connack[1]), (0x20, 0));
        mqtt
    }

    /// The only receiver of the topic `a/b`, which keeps [`ROOM`] messages and takes none.
    fn receiver(&self, filter: &str, shard: u16) {
        let mut receiver = self.mqtt("receiver", shard);
        receiver.send(0x82, &[&[0, 1, 0], &text(filter)[..], &[1]].concat());
        assert_eq!(receiver.receive(), (0x90, vec![0, 1, 0, 1]));
        receiver.leave();
    }

    /// A queue for [`ROOM`] messages that rejects more; it is on the first shard.
    fn rejecting_queue(&self) {
        let mut amqp = Amqp::connect(self.address("amqp"), 0);
        let bound = [
            short("x-max-length"),
            b"l".to_vec(),
            (ROOM as u64).to_be_bytes().to_vec(),
        ];
        let overflow = [short("x-overflow"), b"S".to_vec(), long(b"reject-publish")];
        let arguments = [bound.concat(), overflow.concat()].concat();
        // Durable.
        let declare = [vec![0, 0], short("rejecting"), vec![2], long(&arguments)];
        amqp.call(1, 50, 10, &declare.concat());
        amqp.expect(50, 11);
        amqp.bind("rejecting", "amq.topic", "a.b");
    }

    /// What waits for the receiver of that shard, in order, once there are [`ROOM`] messages.
    fn waiting(&self, shard: u16) -> Vec<String> {
        let mut receiver = self.mqtt("receiver", shard);
        let mut waiting = Vec::new();
        while waiting.len() < ROOM {
            let (kind, packet) = receiver.receive();
            assert_eq!(kind & 0xF6, 0x32, "a PUBLISH of QoS 1");
            let topic = 2 + usize::from(u16::from_be_bytes([packet[0], packet[1]]));
            let properties = usize::from(packet[topic + 2]);
            let payload = packet[topic + 3 + properties..].to_vec();
            waiting.push(String::from_utf8(payload).expect("a number"));
            receiver.send(0x40, &packet[topic..topic + 2]);
        }
        receiver.send(0xC0, &[]);
        assert_eq!(receiver.receive().0, 0xD0, "nothing else waits");
        receiver.leave();
        waiting
    }
}

fn name_on(stem: &str, shard: u16) -> String {
    let mut names = (0..).map(|number| format!("{stem}-{number}"));
    let is_there = |name: &String| home(name, 2).0 == shard;
    names.find(is_there).expect("some name has that home")
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// An MQTT 5 client by hand, with packets of less than 128 bytes.
struct Mqtt(TcpStream);

impl Mqtt {
    fn send(&mut self, kind: u8, packet: &[u8]) {
        let packet = [&[kind, packet.len() as u8], packet].concat();
        self.0.write_all(&packet).expect("it leaves");
    }

    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a packet");
        assert!(head[1] < 128, "a short one");
        let mut packet = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut packet).expect("the rest of it");
        (head[0], packet)
    }

    fn publish(&mut self, number: usize, qos: u8) {
        let id = (number as u16).to_be_bytes();
        let payload = number.to_string();
        let packet = [&text("a/b")[..], &id, &[0], payload.as_bytes()];
        self.send(0x30 | qos << 1, &packet.concat());
    }

    /// By DISCONNECT; all that came before it has been handled when the broker closes.
    fn leave(mut self) {
        self.send(0xE0, &[]);
        assert_eq!(self.0.read(&mut [0; 16]).expect("the end"), 0);
    }
}

/// Publishes the numbers from 1 on, all before the first answer is read; those that were accepted.
fn publish_all(publisher: &mut Mqtt, qos: u8) -> Vec<String> {
    for number in 1..=PUBLISHED {
        publisher.publish(number, qos);
    }
    let mut accepted = Vec::new();
    for number in 1..=PUBLISHED {
        let (kind, packet) = publisher.receive();
        let id = (number as u16).to_be_bytes();
        // PUBACK or PUBREC.
        assert_eq!((kind, &packet[..2]), (0x30 + 0x10 * qos, &id[..]));
        match packet.get(2).copied().unwrap_or(0) {
            0 => accepted.push(number),
            reason => assert_eq!(reason, QUOTA_EXCEEDED, "{number}"),
        }
    }
    if qos == 2 {
        for number in &accepted {
            publisher.send(0x62, &(*number as u16).to_be_bytes());
            assert_eq!(publisher.receive().0, 0x70, "PUBCOMP");
        }
    }
    accepted.iter().map(ToString::to_string).collect()
}

#[test]
fn mqtt_refuses_by_name_what_a_full_receiver_of_another_shard_has_no_room_for() {
    for journal in [true, false] {
        for filter in ["a/b", "$share/g/a/b"] {
            for (shard, qos) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
                let case = format!("{filter} on shard {shard}, QoS {qos}, journal: {journal}");
                let mut broker = Broker::start(journal);
                broker.receiver(filter, shard);
                let accepted = publish_all(&mut broker.mqtt("publisher", 1 - shard), qos);
                assert_eq!(accepted.len(), ROOM, "{case}");
                if journal {
                    broker.restart();
                }
                assert_eq!(broker.waiting(shard), accepted, "{case}");
                let again = publish_all(&mut broker.mqtt("publisher", 1 - shard), qos);
                assert_eq!(again.len(), ROOM, "there is room again: {case}");
            }
        }
    }
}

#[test]
fn mqtt_refuses_what_a_queue_of_another_shard_rejects() {
    for journal in [true, false] {
        let broker = Broker::start(journal);
        broker.rejecting_queue();
        let accepted = publish_all(&mut broker.mqtt("publisher", 1), 1);
        assert_eq!(accepted.len(), ROOM, "journal: {journal}");
    }
}

#[test]
fn amqp_rejects_what_a_full_receiver_of_another_shard_has_no_room_for() {
    for journal in [true, false] {
        let mut broker = Broker::start(journal);
        broker.receiver("a/b", 1);
        let mut amqp = Amqp::connect(broker.address("amqp"), 0);
        // confirm.select
        amqp.call(1, 85, 10, &[0]);
        amqp.expect(85, 11);
        for number in 1..=PUBLISHED {
            amqp.publish("amq.topic", "a.b", number.to_string().as_bytes());
        }
        let (mut accepted, mut answered) = (Vec::new(), 0);
        while answered < PUBLISHED {
            let frame = amqp.receive().expect("an answer");
            let (tag, bits) = frame.payload[4..].split_at(8);
            let tag = u64::from_be_bytes(tag.try_into().expect("eight bytes")) as usize;
            let first = if bits[0] & 1 == 1 { answered + 1 } else { tag };
            assert_eq!(first, answered + 1, "answers are in order");
            match frame.method() {
                Some((60, 80)) => accepted.extend((first..=tag).map(|tag| tag.to_string())),
                Some((60, 120)) => {}
                other => panic!("neither ack nor nack: {other:?}"),
            }
            answered = tag;
        }
        assert_eq!(accepted.len(), ROOM, "journal: {journal}");
        if journal {
            broker.restart();
        }
        assert_eq!(broker.waiting(1), accepted, "journal: {journal}");
    }
}

/// The answer to a frame.
fn stomp(stream: &mut TcpStream, frame: &str) -> String {
    stream.write_all(frame.as_bytes()).expect("it leaves");
    let mut answer = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        match byte[0] {
            0 => return String::from_utf8(answer).expect("text"),
            b'\n' if answer.is_empty() => {}
            byte => answer.push(byte),
        }
    }
}

#[test]
fn stomp_answers_by_error_what_a_full_receiver_of_another_shard_has_no_room_for() {
    for journal in [true, false] {
        let broker = Broker::start(journal);
        broker.receiver("a/b", 1);
        let accepted = publish_all(&mut broker.mqtt("publisher", 1), 1);
        let mut stream = broker.tcp("stomp");
        let connect = "CONNECT\naccept-version:1.2\nhost:/\n\n\0";
        assert!(stomp(&mut stream, connect).starts_with("CONNECTED\n"));
        let send = "SEND\ndestination:/topic/a.b\nreceipt:r\n\nmore\0";
        let error = stomp(&mut stream, send);
        assert!(error.starts_with("ERROR\n"), "{error}");
        assert!(error.contains("\nreceipt-id:r\n"), "{error}");
        assert_eq!(broker.waiting(1), accepted);
        let mut stream = broker.tcp("stomp");
        stomp(&mut stream, connect);
        assert!(stomp(&mut stream, send).starts_with("RECEIPT\nreceipt-id:r\n"));
    }
}

#[test]
fn coap_answers_5_03_to_what_a_queue_of_another_shard_rejects() {
    for journal in [true, false] {
        let broker = Broker::start(journal);
        broker.rejecting_queue();
        let accepted = publish_all(&mut broker.mqtt("publisher", 1), 1);
        assert_eq!(accepted.len(), ROOM);
        // So many that some are on another shard than the queue.
        for number in 0..16 {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.connect(broker.address("coap")).expect("a peer");
            socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
            let token = Token::new(&[number]).expect("a byte");
            let mut request = Vec::new();
            let mut encoder = Encoder::start(&mut request, Type::Confirmable, Code::PUT, 1, token);
            for level in ["ps", "data", "a", "b"] {
                encoder.option(option::URI_PATH, level.as_bytes());
            }
            encoder.payload(b"more");
            socket.send(&request).expect("it leaves");
            let code = loop {
                let mut answer = [0; 2048];
                let count = socket.recv(&mut answer).expect("an answer");
                let answer = Message::decode(&answer[..count]).expect("CoAP");
                if answer.code != Code::EMPTY {
                    break answer.code;
                }
            };
            assert_eq!(code, Code::SERVICE_UNAVAILABLE, "journal: {journal}");
        }
    }
}
