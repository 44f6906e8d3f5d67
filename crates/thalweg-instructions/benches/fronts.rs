//! The whole way of a message without its sockets: bytes in at one link, bytes out at another.

mod xmpp;
mod zmtp;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::Operation;
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, ClientEvent, ContentHeader, Gathered, Method, Table};
use thalweg_coap::{Code, Datagrams, Encoder, Token, Type, empty, option};
use thalweg_fronts::amqp::{AmqpFront, AmqpSettings};
use thalweg_fronts::coap::{CoapFront, CoapSettings, PeerSecurity};
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Datagram, Links, LinksLimits, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::Time;
use thalweg_mqtt::{
    ClientSide, ConnectOut, PublishOut, QoS, SubscribeOptions, SubscribeOut, Version,
};

const TOPIC: &str = "plant/line-7/temperature";
const PAYLOAD: [u8; 36] = [b'x'; 36];
/// Messages in one read: a busy publisher's.
const BATCH: u32 = 50;
const NOW: Time = Time::from_secs(1);

pub const OPERATIONS: &[Operation] = &[
    ("path_qos0", |count| {
        path(QoS::AtMostOnce, 1, Version::V311, count)
    }),
    ("path_qos0_v5", |count| {
        path(QoS::AtMostOnce, 1, Version::V5, count)
    }),
    ("path_qos1_with_both_acks", |count| {
        path(QoS::AtLeastOnce, 1, Version::V311, count)
    }),
    ("path_qos1_written_down", |count| written_down(count)),
    ("path_qos2_with_all_acks", |count| {
        path(QoS::ExactlyOnce, 1, Version::V311, count)
    }),
    ("path_qos0_to_group_of_4", group_of_4),
    ("path_amqp_transient", amqp_transient),
    ("path_amqp_confirmed", amqp_confirmed),
    ("path_coap_put", |count| {
        coap_put(Type::Confirmable, false, count)
    }),
    ("path_coap_put_non", |count| {
        coap_put(Type::NonConfirmable, false, count)
    }),
    ("path_coap_put_written_down", |count| {
        coap_put(Type::Confirmable, true, count)
    }),
    ("path_coap_get", coap_get),
    ("notify_coap_to_100", coap_notify),
    ("fan_out_qos0_to_100", |count| {
        path(QoS::AtMostOnce, 100, Version::V311, count)
    }),
    ("path_zmtp", zmtp::two_frames),
    ("path_zmtp_one_frame", zmtp::one_frame),
    ("path_zmtp_push_pull", zmtp::push_pull),
    ("path_zmtp_to_mqtt", zmtp::to_mqtt),
    ("fan_out_zmtp_to_100", zmtp::fan_out),
    ("path_xmpp", xmpp::item),
    ("path_xmpp_acknowledged", xmpp::item_acknowledged),
    ("path_xmpp_chat", xmpp::chat),
    ("fan_out_xmpp_to_10", xmpp::fan_out_to_10),
    ("fan_out_xmpp_to_100", xmpp::fan_out_to_100),
];

struct Bench {
    kernel: Kernel,
    links: Links,
    settings: Arc<MqttSettings>,
    dirty: Vec<LinkId>,
    spare: Vec<u8>,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Bench {
            kernel: Kernel::new(limits, ShardId(0), 1, 7),
            links: Links::new(LinksLimits::default()),
            settings: Arc::new(MqttSettings::default()),
            dirty: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn connect(&mut self, name: &str, version: Version) -> (LinkId, ClientSide) {
        self.connect_as(name, version, true)
    }

    fn connect_as(
        &mut self,
        name: &str,
        version: Version,
        clean_start: bool,
    ) -> (LinkId, ClientSide) {
        let front = MqttFront::new(self.settings.clone(), 1, Some(Access::ALL));
        let link = self.links.open(front);
        let mut client = ClientSide::new(1 << 20);
        let mut bytes = Vec::new();
        let connect = ConnectOut {
            version,
            client_id: name,
            clean_start,
            ..ConnectOut::default()
        };
        client.connect(&connect, &mut bytes).expect("a short name");
        self.drive(link, &bytes);
        self.commit();
        let answer = self.take(link);
        client.handle_input(&answer).expect("CONNACK is legal");
        assert!(client.is_connected());
        (link, client)
    }

    fn drive(&mut self, link: LinkId, mut bytes: &[u8]) {
        loop {
            let driven = self.links.drive(link, bytes, NOW, &mut self.kernel);
            bytes = &bytes[driven.consumed..];
            match driven.stopped {
                Stopped::FlushFirst => self.links.take_dirty(&mut self.dirty),
                // There is one shard.
                Stopped::Rehome(_) => {}
                _ => break,
            }
        }
        assert!(bytes.is_empty(), "everything is a whole packet");
    }

    /// What the link has written, as a flush would take it.
    fn take(&mut self, link: LinkId) -> Vec<u8> {
        self.links.take_dirty(&mut self.dirty);
        let link = self.links.get_mut(link).expect("it is open");
        let taken = link.sendable().to_vec();
        link.advance(taken.len());
        taken
    }

    /// What was persisted is safe at once; the batch's buffer is used again.
    fn commit(&mut self) -> usize {
        let spare = std::mem::take(&mut self.spare);
        let Some(mut batch) = self.kernel.take_batch(spare) else {
            return 0;
        };
        self.links.complete(batch.number);
        let len = batch.bytes.len();
        batch.bytes.clear();
        self.spare = batch.bytes;
        len
    }

    /// The same without taking the buffer away.
    fn discard(&mut self, link: LinkId) -> usize {
        let link = self.links.get_mut(link).expect("it is open");
        let len = link.sendable().len();
        link.advance(len);
        len
    }
}

fn path(qos: QoS, receivers: u32, version: Version, count: u32) {
    let mut bench = Bench::new(Limits::default());
    let receivers: Vec<LinkId> = (0..receivers)
        .map(|number| {
            let (link, mut client) = bench.connect(&format!("receiver-{number}"), version);
            let options = SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            };
            let subscribe = SubscribeOut {
                id: 1,
                filters: &[("plant/+/temperature", options)],
                ..SubscribeOut::default()
            };
            let mut bytes = Vec::new();
            client.subscribe(&subscribe, &mut bytes).expect("small");
            bench.drive(link, &bytes);
            bench.take(link);
            link
        })
        .collect();
    let (publisher, mut client) = bench.connect("publisher", version);
    let mut input = Vec::new();
    let mut release = Vec::new();
    for id in 1..=BATCH as u16 {
        let publish = PublishOut {
            qos,
            id,
            topic: TOPIC,
            payload: &PAYLOAD,
            ..PublishOut::default()
        };
        client.publish(&publish, &mut input).expect("connected");
        release.extend_from_slice(&[0x62, 2, (id >> 8) as u8, id as u8]);
    }
    let one = input.len() / BATCH as usize;
    let mut answers = Vec::new();
    for _ in 0..count / BATCH {
        bench.drive(publisher, &input);
        bench.links.take_dirty(&mut bench.dirty);
        if qos == QoS::AtMostOnce {
            for receiver in &receivers {
                assert_eq!(
                    bench.discard(*receiver),
                    one * BATCH as usize,
                    "all are delivered"
                );
            }
            continue;
        }
        assert_eq!(
            bench.discard(publisher),
            4 * BATCH as usize,
            "all are acknowledged"
        );
        for receiver in &receivers {
            // A receiver answers each PUBLISH by its packet identifier, which stands behind the topic.
            let out = &bench.links.get(*receiver).expect("it is open").sendable();
            answers.clear();
            for packet in out.chunks_exact(one) {
                let id = &packet[4 + TOPIC.len()..6 + TOPIC.len()];
                answers.extend_from_slice(&[
                    if qos == QoS::AtLeastOnce { 0x40 } else { 0x50 },
                    2,
                    id[0],
                    id[1],
                ]);
            }
            assert_eq!(answers.len(), 4 * BATCH as usize, "all are delivered");
            bench.discard(*receiver);
            bench.drive(*receiver, &answers);
            if qos == QoS::ExactlyOnce {
                for answer in answers.chunks_exact_mut(4) {
                    answer[0] = 0x70;
                }
                bench.discard(*receiver);
                bench.drive(*receiver, &answers);
            }
        }
        if qos == QoS::ExactlyOnce {
            bench.drive(publisher, &release);
            bench.discard(publisher);
        }
        bench.links.take_dirty(&mut bench.dirty);
    }
    assert_eq!(bench.kernel.totals().in_flight, 0, "everything is settled");
}

/// Messages that four share; nothing is known of the members but what was sent to them.
fn group_of_4(count: u32) {
    let mut bench = Bench::new(Limits::default());
    let members: Vec<LinkId> = (0..4)
        .map(|number| {
            let (link, mut client) = bench.connect(&format!("member-{number}"), Version::V311);
            let filters = &[(
                "$share/group/plant/+/temperature",
                SubscribeOptions::default(),
            )];
            let mut bytes = Vec::new();
            let subscribe = SubscribeOut {
                id: 1,
                filters,
                ..SubscribeOut::default()
            };
            client.subscribe(&subscribe, &mut bytes).expect("small");
            bench.drive(link, &bytes);
            bench.take(link);
            link
        })
        .collect();
    let (publisher, mut client) = bench.connect("publisher", Version::V311);
    let mut input = Vec::new();
    for _ in 0..BATCH {
        let publish = PublishOut {
            topic: TOPIC,
            payload: &PAYLOAD,
            ..PublishOut::default()
        };
        client.publish(&publish, &mut input).expect("connected");
    }
    for _ in 0..count / BATCH {
        bench.drive(publisher, &input);
        bench.links.take_dirty(&mut bench.dirty);
        let delivered: usize = members.iter().map(|member| bench.discard(*member)).sum();
        assert_eq!(delivered, input.len(), "each has one receiver");
    }
}

/// At-least-once messages for a session that outlives the broker: written down, delivered, acknowledged both ways, and
/// the end written down.
fn written_down(count: u32) {
    let mut bench = Bench::new(Limits {
        journal: true,
        ..Limits::default()
    });
    let (receiver, mut client) = bench.connect_as("receiver", Version::V311, false);
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    let subscribe = SubscribeOut {
        id: 1,
        filters: &[("plant/+/temperature", options)],
        ..SubscribeOut::default()
    };
    let mut bytes = Vec::new();
    client.subscribe(&subscribe, &mut bytes).expect("small");
    bench.drive(receiver, &bytes);
    bench.commit();
    bench.take(receiver);
    let (publisher, mut client) = bench.connect("publisher", Version::V311);
    let mut input = Vec::new();
    for id in 1..=BATCH as u16 {
        let qos = QoS::AtLeastOnce;
        let publish = PublishOut {
            qos,
            id,
            topic: TOPIC,
            payload: &PAYLOAD,
            ..PublishOut::default()
        };
        client.publish(&publish, &mut input).expect("connected");
    }
    let one = input.len() / BATCH as usize;
    let mut answers = Vec::new();
    for _ in 0..count / BATCH {
        bench.drive(publisher, &input);
        assert_eq!(
            bench.discard(publisher),
            0,
            "nothing is acknowledged before it is safe"
        );
        assert!(
            bench.commit() > input.len(),
            "every message is written down"
        );
        bench.links.take_dirty(&mut bench.dirty);
        assert_eq!(
            bench.discard(publisher),
            4 * BATCH as usize,
            "all are acknowledged"
        );
        answers.clear();
        for packet in bench
            .links
            .get(receiver)
            .expect("it is open")
            .sendable()
            .chunks_exact(one)
        {
            let id = &packet[4 + TOPIC.len()..6 + TOPIC.len()];
            answers.extend_from_slice(&[0x40, 2, id[0], id[1]]);
        }
        assert_eq!(answers.len(), 4 * BATCH as usize, "all are delivered");
        bench.discard(receiver);
        bench.drive(receiver, &answers);
    }
}

/// An AMQP client with channel 1 open.
struct Peer {
    link: LinkId,
    client: thalweg_amqp::ClientSide,
}

impl Peer {
    fn connect(bench: &mut Bench) -> Self {
        let front = AmqpFront::new(Arc::new(AmqpSettings::default()), 1, Some(Access::ALL));
        let link = bench.links.open(front);
        let mut peer = Peer {
            link,
            client: thalweg_amqp::ClientSide::new(1 << 17, 1 << 20),
        };
        peer.says(bench, |client, up| client.connect(up));
        assert!(peer.client.is_channel_open(1));
        peer
    }

    /// Says something and answers until all is said.
    fn says(
        &mut self,
        bench: &mut Bench,
        say: impl FnOnce(&mut thalweg_amqp::ClientSide, &mut Vec<u8>),
    ) {
        let mut up = Vec::new();
        say(&mut self.client, &mut up);
        while !up.is_empty() {
            bench.drive(self.link, &std::mem::take(&mut up));
            bench.commit();
            let down = bench.take(self.link);
            let (mut from, mut gathered) = (0, Gathered::default());
            while let Some((consumed, event)) = self
                .client
                .handle_input(&down[from..], &mut gathered)
                .expect("legal")
            {
                match event {
                    ClientEvent::Start(_) => {
                        self.client
                            .start_ok(Table::default(), "PLAIN", b"\0guest\0guest", &mut up)
                    }
                    ClientEvent::Tune(offer) => {
                        self.client.tune_ok(offer, &mut up);
                        self.client.open("/", &mut up);
                    }
                    ClientEvent::OpenOk => self.client.channel_open(1, &mut up),
                    _ => {}
                }
                from += consumed;
            }
        }
    }

    fn calls(&mut self, bench: &mut Bench, method: &Method<'_>) {
        self.says(bench, |client, up| client.method(1, method, up));
        assert!(self.client.is_channel_open(1), "{method:?} is allowed");
    }

    /// A batch of publishes through the default exchange.
    fn publishes(&mut self, properties: &BasicProperties<'_>) -> Vec<u8> {
        let (mut input, header) = (Vec::new(), ContentHeader::Properties(properties));
        let publish = basic::Publish {
            routing_key: "work",
            ..basic::Publish::default()
        };
        for _ in 0..BATCH {
            self.client
                .publish(1, &publish, header, &PAYLOAD, &mut input)
                .expect("it fits");
        }
        input
    }
}

/// Transient messages through the default exchange to a queue with a consumer that settles nothing.
fn amqp_transient(count: u32) {
    let mut bench = Bench::new(Limits::default());
    let mut consumer = Peer::connect(&mut bench);
    let declare = queue::Declare {
        queue: "work",
        ..queue::Declare::default()
    };
    consumer.calls(&mut bench, &Method::QueueDeclare(declare));
    let consume = basic::Consume {
        queue: "work",
        no_ack: true,
        ..basic::Consume::default()
    };
    consumer.calls(&mut bench, &Method::BasicConsume(consume));
    let mut publisher = Peer::connect(&mut bench);
    let input = publisher.publishes(&BasicProperties::default());
    let mut all = None;
    for _ in 0..count / BATCH {
        bench.drive(publisher.link, &input);
        bench.links.take_dirty(&mut bench.dirty);
        let delivered = bench.discard(consumer.link);
        assert_eq!(
            *all.get_or_insert(delivered),
            delivered,
            "all are delivered"
        );
    }
    assert!(
        all.is_none_or(|all| all > input.len()),
        "a delivery says more than a publish"
    );
    assert_eq!(bench.kernel.totals().waiting, 0);
}

/// Persistent messages into a durable queue, written down, confirmed, delivered and acknowledged one by one, and the end
/// written down.
fn amqp_confirmed(count: u32) {
    const ACK: [u8; 11] = [1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80];
    let mut bench = Bench::new(Limits {
        journal: true,
        ..Limits::default()
    });
    let mut consumer = Peer::connect(&mut bench);
    let declare = queue::Declare {
        queue: "work",
        durable: true,
        ..queue::Declare::default()
    };
    consumer.calls(&mut bench, &Method::QueueDeclare(declare));
    let qos = basic::Qos {
        prefetch_count: 2 * BATCH as u16,
        ..basic::Qos::default()
    };
    consumer.calls(&mut bench, &Method::BasicQos(qos));
    consumer.calls(
        &mut bench,
        &Method::BasicConsume(basic::Consume {
            queue: "work",
            ..basic::Consume::default()
        }),
    );
    let mut publisher = Peer::connect(&mut bench);
    publisher.says(&mut bench, |client, up| client.confirm_select(1, false, up));
    let input = publisher.publishes(&BasicProperties {
        delivery_mode: Some(2),
        ..BasicProperties::default()
    });
    let (mut answers, mut tag) = (Vec::new(), 0_u64);
    for _ in 0..count / BATCH {
        bench.drive(publisher.link, &input);
        assert_eq!(
            bench.discard(publisher.link),
            0,
            "nothing is confirmed before it is safe"
        );
        assert!(
            bench.commit() > BATCH as usize * PAYLOAD.len(),
            "every message is written down"
        );
        bench.links.take_dirty(&mut bench.dirty);
        assert_eq!(
            bench.discard(publisher.link),
            21,
            "all are confirmed at once"
        );
        assert!(
            bench.discard(consumer.link) > input.len(),
            "all are delivered"
        );
        answers.clear();
        for _ in 0..BATCH {
            tag += 1;
            answers.extend_from_slice(&ACK);
            answers.extend_from_slice(&tag.to_be_bytes());
            answers.extend_from_slice(&[0, 0xCE]);
        }
        bench.drive(consumer.link, &answers);
    }
    let totals = bench.kernel.totals();
    assert_eq!(
        (totals.waiting, totals.in_flight),
        (0, 0),
        "everything is settled"
    );
}

/// A socket of CoAP, and what its peers say and hear.
struct Coap {
    bench: Bench,
    socket: LinkId,
    out: Datagrams,
    id: u16,
}

impl Coap {
    fn new(limits: Limits) -> Self {
        let mut bench = Bench::new(limits);
        let machine = thalweg_coap::ServerSettings {
            notifications_per_round_trip: 0,
            ..Default::default()
        };
        let settings = CoapSettings {
            machine: Arc::new(machine),
            ..CoapSettings::default()
        };
        let front = CoapFront::new(Arc::new(settings), 1, Some(Access::ALL));
        let socket = bench.links.open(front);
        bench.links.on_timer(socket, NOW, &mut bench.kernel);
        bench.links.work(NOW, &mut bench.kernel);
        Coap {
            bench,
            socket,
            out: Datagrams::new(),
            id: 0,
        }
    }

    /// One read of the socket, and what follows from it.
    fn reads(&mut self, datagrams: &[(SocketAddr, Vec<u8>)]) {
        let Bench { kernel, links, .. } = &mut self.bench;
        let batch = datagrams.iter().map(|(from, datagram)| Datagram {
            from: *from,
            security: PeerSecurity::None,
            is_multicast: false,
            bytes: datagram,
        });
        links.handle_datagrams(self.socket, batch, NOW, kernel);
        links.work(NOW, kernel);
        self.bench.commit();
        self.bench.links.work(NOW, &mut self.bench.kernel);
        self.out.clear();
        self.bench.links.take_datagrams(self.socket, &mut self.out);
    }

    fn request(&mut self, kind: Type, code: Code, observe: bool) -> Vec<u8> {
        self.id = self.id.wrapping_add(1);
        let mut out = Vec::new();
        let mut encoder = Encoder::start(
            &mut out,
            kind,
            code,
            self.id,
            Token::from_number(u64::from(self.id)),
        );
        if observe {
            encoder.uint(option::OBSERVE, 0);
        }
        encoder
            .option(option::URI_PATH, b"ps")
            .option(option::URI_PATH, b"data");
        for level in TOPIC.split('/') {
            encoder.option(option::URI_PATH, level.as_bytes());
        }
        encoder.payload(if code == Code::PUT { &PAYLOAD } else { &[] });
        out
    }

    /// Batches of requests, one of each peer; the answers are read. Only the ids of the requests change.
    fn ask(&mut self, kind: Type, code: Code, count: u32) {
        let mut datagrams: Vec<_> = (0..BATCH)
            .map(|number| (coap_peer(number), self.request(kind, code, false)))
            .collect();
        for _ in 0..count / BATCH {
            self.id = self.id.wrapping_add(1);
            for (_, datagram) in &mut datagrams {
                datagram[2..4].copy_from_slice(&self.id.to_be_bytes());
            }
            self.reads(&datagrams);
            assert_eq!(self.out.len(), BATCH as usize);
        }
    }
}

fn coap_peer(number: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 10_000 + number as u16))
}

/// A PUT and its answer; nobody observes.
fn coap_put(kind: Type, journal: bool, count: u32) {
    let mut coap = Coap::new(Limits {
        journal,
        ..Limits::default()
    });
    coap.ask(kind, Code::PUT, count);
}

/// A GET of a last value.
fn coap_get(count: u32) {
    let mut coap = Coap::new(Limits::default());
    coap.ask(Type::Confirmable, Code::PUT, BATCH);
    coap.ask(Type::Confirmable, Code::GET, count);
}

/// A value for a hundred observers, not confirmable; counted by publish.
fn coap_notify(count: u32) {
    let mut coap = Coap::new(Limits::default());
    let registrations: Vec<_> = (0..100)
        .map(|number| {
            (
                coap_peer(100 + number),
                coap.request(Type::Confirmable, Code::GET, true),
            )
        })
        .collect();
    coap.reads(&registrations);
    for _ in 0..count {
        let publish = coap.request(Type::NonConfirmable, Code::PUT, false);
        coap.reads(&[(coap_peer(0), publish)]);
        let acknowledgements: Vec<_> = coap
            .out
            .iter()
            .filter(|(_, datagram)| datagram[0] >> 4 & 3 == Type::Confirmable as u8)
            .map(|(to, datagram)| {
                let mut ack = Vec::new();
                empty(
                    &mut ack,
                    Type::Acknowledgement,
                    u16::from_be_bytes([datagram[2], datagram[3]]),
                );
                (to, ack)
            })
            .collect();
        assert_eq!(coap.out.len(), 101, "an answer and the notifications");
        if !acknowledgements.is_empty() {
            coap.reads(&acknowledgements);
        }
    }
}
