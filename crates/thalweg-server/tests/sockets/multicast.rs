//! Multicast groups of a whole server, on the loopback interface: receivers that have joined one, and a client of MQTT that reads
//! where it is and asks for what was lost.

use crate::PATIENCE;
use crate::support::folder::Folder;
use crate::support::own_network;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_model::Time;
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, Publish, PublishOut, QoS, ReasonCode, SubscribeOptions,
    SubscribeOut,
};
use thalweg_multicast::{Description, Receiver, ReceiverSettings, RepairRequest};
use thalweg_server::access::add_password;
use thalweg_server::{MulticastCounts, Server};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 10, 1);
const KEY: &str = "$multicast/poses";
const REPAIR: &str = "$multicast/poses/repair";
const ANSWERS: &str = "$multicast/poses/repair/me";

#[test]
fn many_receivers_have_each_datagram_that_is_sent_once() {
    let folder = Folder::new("multicast");
    let (first, port) = joined(0);
    let mut sockets = vec![first];
    sockets.extend((1..7).map(|_| joined(port).0));
    let server = start(&folder, port, &["heartbeat = \"60s\""], &[]);
    let mut client = Client::connect(&server, None);
    let description = client.description();
    assert_eq!(description.filters, ["plant/+/pose"]);
    // A run of messages, and one that spans several datagrams.
    let long = "x".repeat(5000);
    let mut packets = Vec::new();
    for number in 0..20 {
        client.write("plant/7/pose", number, "", QoS::AtMostOnce, &mut packets);
    }
    client.write("plant/7/pose", 20, &long, QoS::AtMostOnce, &mut packets);
    client.write("plant/7/other", 0, "", QoS::AtMostOnce, &mut packets);
    client.stream.write_all(&packets).expect("it leaves");
    for socket in &sockets {
        let mut receiver = receiver(&description, false);
        let (mut found, mut seen) = (Vec::new(), 0);
        while found.len() < 21 {
            let datagram = receive(socket);
            seen += 1;
            receiver.on_datagram(&datagram, now()).expect("it is ours");
            found.extend(numbers(&mut receiver));
        }
        assert_eq!(found, (0..21).collect::<Vec<_>>());
        assert_eq!(receiver.counts().lost, 0);
        // Not one for each receiver. There may be a heartbeat more.
        let sent = count_from(seen, &server, |counts| &counts.datagrams);
        assert!(sent < 2 * seen, "{seen} of {sent}");
    }
    assert_eq!(count(&server, |counts| &counts.messages), 21);
    assert_eq!(count(&server, |counts| &counts.unsent), 0);
}

#[test]
fn what_is_lost_is_repaired_over_the_connection() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let more = ["heartbeat = \"160ms\"", "datagram_bytes_max = 256"];
    let server = start(&folder, port, &more, &[]);
    has_everything(&socket, &server);
}

#[test]
fn a_group_of_ipv6_is_sent_and_repaired_alike() {
    if !own_network::is_inside() {
        return own_network::run("multicast::a_group_of_ipv6_is_sent_and_repaired_alike");
    }
    let folder = Folder::new("multicast");
    let group = Ipv6Addr::new(0xFF15, 0, 0, 0, 0, 0, 0, 0x10);
    let interface = nix::net::if_::if_nametoindex(own_network::INTERFACE).expect("it was made");
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
    let at = SocketAddrV6::new(group, 0, 0, 0);
    socket.bind(&at.into()).expect("it is bound");
    let joined = socket.join_multicast_v6(&group, interface);
    joined.expect("joined");
    let socket = UdpSocket::from(socket);
    let limited = socket.set_read_timeout(Some(PATIENCE));
    limited.expect("a time limit");
    let port = socket.local_addr().expect("an address").port();
    let entry = format!(
        "multicast=[{{ name = \"poses\", group = \"[{group}]:{port}\", interfaces = [\"cast0\"], \
         filters = [\"plant/+/pose\"], heartbeat = \"160ms\", datagram_bytes_max = 256 }}]"
    );
    let server = Server::start(folder.configuration(&SHARED, &[&entry]));
    let server = server.unwrap_or_else(|errors| panic!("{errors:?}"));
    let description = Client::connect(&server, None).description();
    assert_eq!(description.group, (group, port).into());
    has_everything(&socket, &server);
}

/// A receiver that loses every third datagram, and asks over a connection, has everything in order.
fn has_everything(socket: &UdpSocket, server: &Server) {
    let mut client = Client::connect(server, None);
    let description = client.description();
    client.subscribe(ANSWERS, ReasonCode::Success);
    let mut receiver = receiver(&description, true);
    // The stream begins here for both.
    while !receiver.has_begun() {
        receiver
            .on_datagram(&receive(socket), now())
            .expect("it is ours");
    }
    let filler = "y".repeat(300);
    for number in 0..60 {
        client.publish("plant/7/pose", number, &filler, QoS::AtMostOnce);
    }
    let (mut found, mut arrived) = (Vec::new(), 0);
    let begun = Instant::now();
    socket
        .set_read_timeout(Some(Duration::from_millis(5)))
        .expect("a time limit");
    while found.len() < 60 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", receiver.counts());
        let mut buffer = [0; 2048];
        match socket.recv(&mut buffer) {
            Ok(count) => {
                // Every third one is lost, heartbeats as well.
                arrived += 1;
                if arrived % 3 != 0 {
                    receiver
                        .on_datagram(&buffer[..count], now())
                        .expect("it is ours");
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if receiver.poll_timeout() <= now() {
            receiver.on_timer(now());
        }
        if let Some(request) = receiver.poll_request() {
            let (correlation, answer) = client.ask(request.to_json().as_bytes());
            assert_eq!(correlation, b"7");
            receiver.on_answer(&answer, now()).expect("it is ours");
        }
        found.extend(numbers(&mut receiver));
    }
    assert_eq!(found, (0..60).collect::<Vec<_>>());
    let counts = receiver.counts();
    assert!(counts.requests > 0 && counts.lost == 0, "{counts:?}");
    assert_eq!(count(server, |counts| &counts.repairs), counts.requests);
    assert!(count(server, |counts| &counts.repaired) >= 20);
}

#[test]
fn answers_are_bounded_and_what_is_no_request_is_counted() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let more = ["history_bytes_max = \"1MiB\"", "rate_max = \"unlimited\""];
    let server = start(&folder, port, &more, &[]);
    let mut client = Client::connect(&server, None);
    let description = client.description();
    client.subscribe(ANSWERS, ReasonCode::Success);
    client.publish("plant/7/pose", 0, &"z".repeat(200_000), QoS::AtLeastOnce);
    client.expect_puback(ReasonCode::Success);
    let all = RepairRequest {
        epoch: description.epoch,
        ranges: vec![0..=u64::MAX - 1],
    };
    let mut receiver = receiver(&description, true);
    receiver
        .on_datagram(&receive(&socket), now())
        .expect("it is ours");
    // The publisher's acknowledgement says nothing of the group: what has been sent may come with a later answer.
    let mut answer = Vec::new();
    while answer.len() < 60_000 {
        (_, answer) = client.ask(all.to_json().as_bytes());
        assert!(answer.len() <= 64 << 10, "{}", answer.len());
    }
    receiver.on_answer(&answer, now()).expect("it is ours");
    assert!(receiver.counts().datagrams > 40);
    // Of another epoch there is nothing but the news of this one.
    let other = RepairRequest {
        epoch: !description.epoch,
        ranges: vec![0..=9],
    };
    let (_, answer) = client.ask(other.to_json().as_bytes());
    assert!(answer.len() < 100);
    let refused = count(&server, |counts| &counts.refused);
    client.publish(REPAIR, 0, "{}", QoS::AtLeastOnce);
    client.expect_puback(ReasonCode::Success);
    let (_, _) = client.ask(all.to_json().as_bytes());
    assert_eq!(count(&server, |counts| &counts.refused), refused + 1);
}

#[test]
fn who_may_read_the_key_is_named_and_nobody_publishes_it() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    for user in ["member", "reader"] {
        add_password(&folder.0.join("passwords"), user, b"secret").expect("it is written");
    }
    let rules = "user multicast\ntopic read plant/#\ntopic deny plant/9/pose\ntopic readwrite $multicast/poses/repair/#\n\
                 user member\ntopic readwrite plant/#\ntopic read $multicast/poses\ntopic write $multicast/poses/repair\n\
                 topic read $multicast/poses/repair/me\n\
                 user reader\ntopic readwrite #\ntopic deny plant/9/pose\n";
    std::fs::write(folder.0.join("rules"), rules).expect("it is written");
    let access = [
        "access.password_file={folder}/passwords",
        "access.acl_file={folder}/rules",
    ];
    let server = start(&folder, port, &[], &access);
    let mut member = Client::connect(&server, Some("member"));
    let description = member.description();
    let mut reader = Client::connect(&server, Some("reader"));
    reader.subscribe(KEY, ReasonCode::NotAuthorized);
    reader.subscribe("$multicast/#", ReasonCode::NotAuthorized);
    reader.subscribe("#", ReasonCode::Success);
    for client in [&mut member, &mut reader] {
        client.publish(KEY, 0, "forged", QoS::AtLeastOnce);
        client.expect_puback(ReasonCode::NotAuthorized);
    }
    reader.publish(REPAIR, 0, "", QoS::AtLeastOnce);
    reader.expect_puback(ReasonCode::NotAuthorized);
    // What the user of the group may not receive is not sent, even if receivers may have it.
    for (plant, number) in [(7, 1), (9, 2), (8, 3)] {
        member.publish(&format!("plant/{plant}/pose"), number, "", QoS::AtMostOnce);
    }
    let mut receiver = receiver(&description, false);
    let mut found = Vec::new();
    while found.len() < 2 {
        receiver
            .on_datagram(&receive(&socket), now())
            .expect("it is ours");
        found.extend(numbers(&mut receiver));
    }
    assert_eq!(found, [1, 3]);
    // The group's rights hold for answers, too: one that asks for an answer elsewhere gets none there.
    member.subscribe(ANSWERS, ReasonCode::Success);
    member.subscribe("plant/#", ReasonCode::Success);
    let request = RepairRequest {
        epoch: description.epoch,
        ranges: vec![0..=0],
    };
    member.request(request.to_json().as_bytes(), "plant/1/command");
    let (_, answer) = member.ask(request.to_json().as_bytes());
    assert!(!answer.is_empty());
    assert_eq!(count(&server, |counts| &counts.repairs), 2);
}

#[test]
fn a_restart_is_another_epoch_and_no_key_outlives_its_process() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let server = start(&folder, port, &[], &["journal.enabled=true"]);
    let before = Client::connect(&server, None).description();
    server.stop();
    let server = start(&folder, port, &[], &["journal.enabled=true"]);
    let mut client = Client::connect(&server, None);
    let after = client.description();
    assert!(before.epoch != after.epoch && before.key != after.key);
    client.publish("plant/7/pose", 5, "", QoS::AtMostOnce);
    let (mut old, mut new) = (receiver(&before, true), receiver(&after, true));
    let mut found = Vec::new();
    while found.is_empty() {
        let datagram = receive(&socket);
        // Some of the first process may still be in the socket.
        let (is_old, is_new) = (
            old.on_datagram(&datagram, now()).is_ok(),
            new.on_datagram(&datagram, now()).is_ok(),
        );
        assert!(is_old != is_new);
        found.extend(numbers(&mut new));
    }
    assert_eq!(found, [5]);
    assert!(numbers(&mut old).is_empty());
    server.stop();
    let sets = ["multicast=[]", "journal.enabled=true"];
    let server = start(&folder, port, &[], &sets);
    let mut client = Client::connect(&server, None);
    client.subscribe(KEY, ReasonCode::Success);
    // Last values come behind the answer, and before what is published later.
    client.publish("$multicast/poses/repair", 9, "", QoS::AtMostOnce);
    client.subscribe("$multicast/poses/repair", ReasonCode::Success);
    client.publish("$multicast/poses/repair", 9, "", QoS::AtMostOnce);
    assert_eq!(client.message().0, "$multicast/poses/repair");
}

#[test]
fn policies_hold_and_messages_are_sent_as_to_a_subscriber() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let policy = "policy=[{ filter = \"plant/#\", lifespan_max = \"30s\", reliability_min = \"at-least-once\" }]";
    let more = ["packet_bytes_max = \"1KiB\""];
    let server = start(&folder, port, &more, &[policy]);
    let mut client = Client::connect(&server, None);
    let description = client.description();
    // One is too large for the group, and nothing of it is sent.
    client.publish("plant/7/pose", 1, &"w".repeat(2000), QoS::AtLeastOnce);
    client.expect_puback(ReasonCode::Success);
    let mut packets = Vec::new();
    let retained = PublishOut {
        retain: true,
        topic: "plant/8/pose",
        payload: b"2 ",
        content_type: Some("text/plain"),
        ..PublishOut::default()
    };
    client
        .machine
        .publish(&retained, &mut packets)
        .expect("it fits");
    client.stream.write_all(&packets).expect("it leaves");
    let mut receiver = receiver(&description, false);
    let packet = loop {
        receiver
            .on_datagram(&receive(&socket), now())
            .expect("it is ours");
        if let Some(packet) = receiver.next_packet() {
            break packet.to_vec();
        }
    };
    let (_, publish) = Publish::decode(&packet, 1024)
        .expect("a PUBLISH")
        .expect("whole");
    assert_eq!(publish.topic.as_str(), "plant/8/pose");
    assert_eq!((publish.qos, publish.retain), (QoS::AtMostOnce, false));
    assert_eq!(publish.properties.content_type(), Some("text/plain"));
    let expiry = publish.properties.message_expiry().expect("it expires");
    assert!((1..=30).contains(&expiry), "{expiry}");
    // It is retained all the same, for those who subscribe.
    client.subscribe("plant/8/pose", ReasonCode::Success);
    assert_eq!(client.message().1, b"2 ");
}

#[test]
fn who_ends_the_session_ends_the_epoch() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let server = start(&folder, port, &[], &[]);
    let mut client = Client::connect(&server, None);
    let before = client.description();
    let ended = server.observer().on_shards(|inside| {
        let of_group = |_: &str, user: Option<&str>, _| user == Some("multicast");
        inside.kernel.disconnect(of_group, inside.now, inside.links)
    });
    assert_eq!(ended.into_iter().sum::<usize>(), 1);
    // The description is published again when there is another session.
    let (topic, json, _) = client.message();
    assert_eq!(topic, KEY);
    let after = Description::from_json(&json).expect("a description");
    assert!(before.epoch != after.epoch && before.key != after.key);
    client.publish("plant/7/pose", 4, "", QoS::AtMostOnce);
    let mut receiver = receiver(&after, false);
    let mut found = Vec::new();
    while found.is_empty() {
        // Heartbeats of the first epoch are refused.
        let _ = receiver.on_datagram(&receive(&socket), now());
        found.extend(numbers(&mut receiver));
    }
    assert_eq!(found, [4]);
}

#[test]
fn what_is_beyond_the_rate_is_dropped_by_the_broker_and_counted() {
    let folder = Folder::new("multicast");
    let (_socket, port) = joined(0);
    let sets = ["queue.output_bytes_max=64KiB"];
    let server = start(&folder, port, &["rate_max = \"1KiB/s\""], &sets);
    let mut client = Client::connect(&server, None);
    client.description();
    let long = "v".repeat(20_000);
    for number in 0..300 {
        client.publish("plant/7/pose", number, &long, QoS::AtMostOnce);
    }
    client.publish("last", 0, "", QoS::AtLeastOnce);
    client.expect_puback(ReasonCode::Success);
    // More than what output, socket and thread hold together. It is dropped on the group's shard, behind the acknowledgement.
    let begun = Instant::now();
    let dropped = || {
        let ledgers = server
            .observer()
            .on_shards(|inside| inside.kernel.ledger().dropped_total());
        ledgers.into_iter().sum::<u64>()
    };
    while dropped() <= 100 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert!(count(&server, |counts| &counts.messages) < 200);
    // A thread that waits for its rate ends all the same.
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn receivers_learn_how_many_messages_were_not_sent() {
    let folder = Folder::new("multicast");
    let (socket, port) = joined(0);
    let more = [
        "rate_max = \"256KiB/s\"",
        "packet_bytes_max = \"64KiB\"",
        // So large that the socket has room for all that is sent, however late it is read.
        "datagram_bytes_max = 65000",
        "heartbeat = \"160ms\"",
    ];
    let server = start(&folder, port, &more, &["queue.output_bytes_max=64KiB"]);
    let mut client = Client::connect(&server, None);
    let mut receiver = receiver(&client.description(), false);
    // What was not sent before the first heartbeat is none of the receiver's loss.
    while !receiver.has_begun() {
        let taken = receiver.on_datagram(&receive(&socket), now());
        taken.expect("it is ours");
    }
    let (long, too_long) = ("v".repeat(20_000), "v".repeat(70_000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.publish("plant/7/pose", 0, &too_long, QoS::AtMostOnce);
            for number in 1..200 {
                client.publish("plant/7/pose", number, &long, QoS::AtMostOnce);
            }
        });
        let (mut found, begun) = (0, Instant::now());
        while found + receiver.counts().unsent < 200 {
            assert!(begun.elapsed() < PATIENCE, "{:?}", receiver.counts());
            let taken = receiver.on_datagram(&receive(&socket), now());
            taken.expect("it is ours");
            found += numbers(&mut receiver).len() as u64;
        }
        let counts = receiver.counts();
        assert_eq!(found + counts.unsent, 200, "{counts:?}");
        assert!(found > 0 && counts.unsent > 1, "{counts:?}");
    });
}

#[test]
fn nothing_starts_with_an_interface_that_is_not_there() {
    let folder = Folder::new("multicast");
    let group = group(7500, &[]).replace("\"lo\"", "\"nowhere0\"");
    let config = folder.configuration(&SHARED, &[&group]);
    let errors = Server::start(config).err().expect("it cannot");
    let text = errors[0].to_string();
    assert!(
        text.starts_with("multicast poses: nothing can be sent to 239.255.10.1:7500 by nowhere0: "),
        "{text}"
    );
}

/// A socket in the group on the loopback interface, and its port: this one, or one that is free.
fn joined(port: u16) -> (UdpSocket, u16) {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
    socket.set_reuse_address(true).expect("it is shared");
    socket.set_recv_buffer_size(1 << 20).expect("it has room");
    // Nothing but what is sent to the group.
    let at = SocketAddrV4::new(GROUP, port);
    socket.bind(&at.into()).expect("it is bound");
    socket
        .join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST)
        .expect("joined");
    let socket = UdpSocket::from(socket);
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 1 << 16];
    let count = socket.recv(&mut buffer).expect("a datagram");
    buffer[..count].to_vec()
}

fn now() -> Time {
    thalweg_server::clock::now()
}

fn receiver(description: &Description, is_reliable: bool) -> Receiver {
    let settings = ReceiverSettings::for_group(description, is_reliable);
    Receiver::new(description, settings, now())
}

/// What the payloads begin with.
fn numbers(receiver: &mut Receiver) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some(packet) = receiver.next_packet() {
        let (_, publish) = Publish::decode(packet, 1 << 20)
            .expect("a PUBLISH")
            .expect("whole");
        let text = std::str::from_utf8(publish.payload).expect("text");
        let (number, _) = text.split_once(' ').expect("a number first");
        found.push(number.parse().expect("a number"));
    }
    found
}

fn count(server: &Server, of: fn(&MulticastCounts) -> &AtomicU64) -> u64 {
    let observer = server.observer();
    let (name, counts) = observer.multicast().first().expect("a group");
    assert_eq!(name, "poses");
    of(counts).load(Ordering::Relaxed)
}

/// As soon as it is at least `least`: what is counted after it was sent may arrive before.
fn count_from(least: u64, server: &Server, of: fn(&MulticastCounts) -> &AtomicU64) -> u64 {
    let begun = Instant::now();
    loop {
        match count(server, of) {
            counted if counted >= least => return counted,
            counted => assert!(begun.elapsed() < PATIENCE, "{counted} of {least}"),
        }
        std::thread::yield_now();
    }
}

fn group(port: u16, more: &[&str]) -> String {
    let more: String = more.iter().map(|it| format!(", {it}")).collect();
    format!(
        "multicast=[{{ name = \"poses\", group = \"{GROUP}:{port}\", interfaces = [\"lo\"], filters = [\"plant/+/pose\"]{more} }}]"
    )
}

const SHARED: [&str; 4] = [
    "shards=3",
    "listeners.mqtt.bind=127.0.0.1:0",
    "listeners.websocket.enabled=false",
    "admin.enabled=false",
];

fn start(folder: &Folder, port: u16, more: &[&str], sets: &[&str]) -> Server {
    let group = group(port, more);
    let mut all = vec![group.as_str()];
    all.extend(sets);
    Server::start(folder.configuration(&SHARED, &all)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A client of MQTT 5.
struct Client {
    stream: TcpStream,
    machine: ClientSide,
    input: Vec<u8>,
    /// Messages that came while something else was waited for.
    messages: Vec<(String, Vec<u8>, Vec<u8>)>,
    /// The description that came last, as it was sent: one that comes twice is taken once.
    described: Vec<u8>,
}

/// Answers that are waited for.
enum Answer {
    Connected,
    Subscribed(ReasonCode),
    Published(ReasonCode),
    Message,
}

impl Client {
    fn connect(server: &Server, user: Option<&str>) -> Client {
        let (_, address) = server.listening().first().expect("a listener");
        let address: SocketAddr = address.parse().expect("an address");
        let stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        let mut client = Client {
            stream,
            machine: ClientSide::new(1 << 20),
            input: Vec::new(),
            messages: Vec::new(),
            described: Vec::new(),
        };
        let connect = ConnectOut {
            username: user,
            password: user.map(|_| &b"secret"[..]),
            ..ConnectOut::default()
        };
        let mut out = Vec::new();
        client.machine.connect(&connect, &mut out).expect("it fits");
        client.stream.write_all(&out).expect("it leaves");
        client.wait(&Answer::Connected);
        client
    }

    /// Reads until this has come.
    fn wait(&mut self, wanted: &Answer) {
        loop {
            let read = self.machine.handle_input(&self.input).expect("MQTT");
            let Some((length, event)) = read else {
                let mut buffer = [0; 64 << 10];
                let count = self.stream.read(&mut buffer).expect("an answer");
                assert!(count > 0, "the broker has closed");
                self.input.extend_from_slice(&buffer[..count]);
                continue;
            };
            let is_it = match (event, wanted) {
                (ClientEvent::ConnAck(ack), Answer::Connected) => {
                    assert_eq!(ack.values.reason, ReasonCode::Success);
                    true
                }
                (ClientEvent::SubAck(ack), Answer::Subscribed(expected)) => {
                    assert!(ack.codes().eq([*expected]));
                    true
                }
                (ClientEvent::PubAck(ack), Answer::Published(expected)) => {
                    let reason = match ack.reason {
                        ReasonCode::NoMatchingSubscribers => ReasonCode::Success,
                        other => other,
                    };
                    assert_eq!(reason, *expected);
                    true
                }
                // A client that subscribes while it is published may have it twice: as the message and as the last value.
                (ClientEvent::Publish(publish), _)
                    if publish.topic.as_str() == KEY && publish.payload == self.described =>
                {
                    false
                }
                (ClientEvent::Publish(publish), _) => {
                    if publish.topic.as_str() == KEY {
                        self.described = publish.payload.to_vec();
                    }
                    let correlation = publish.properties.correlation_data();
                    self.messages.push((
                        publish.topic.as_str().to_owned(),
                        publish.payload.to_vec(),
                        correlation.unwrap_or_default().to_vec(),
                    ));
                    matches!(wanted, Answer::Message)
                }
                (other, _) => panic!("{other:?}"),
            };
            self.input.drain(..length);
            if is_it {
                return;
            }
        }
    }

    fn subscribe(&mut self, filter: &str, expected: ReasonCode) {
        let id = self.machine.next_id().expect("one is free");
        let subscribe = SubscribeOut {
            id,
            filters: &[(filter, SubscribeOptions::default())],
            ..SubscribeOut::default()
        };
        let mut out = Vec::new();
        self.machine
            .subscribe(&subscribe, &mut out)
            .expect("it fits");
        self.stream.write_all(&out).expect("it leaves");
        self.wait(&Answer::Subscribed(expected));
    }

    /// The first message that has not been asked for.
    fn message(&mut self) -> (String, Vec<u8>, Vec<u8>) {
        if self.messages.is_empty() {
            self.wait(&Answer::Message);
        }
        self.messages.remove(0)
    }

    /// The group's, as soon as there is one.
    fn description(&mut self) -> Description {
        self.subscribe(KEY, ReasonCode::Success);
        let (topic, json, _) = self.message();
        assert_eq!(topic, KEY);
        Description::from_json(&json).expect("a description")
    }

    fn write(&mut self, topic: &str, number: u32, rest: &str, qos: QoS, out: &mut Vec<u8>) {
        let id = match qos {
            QoS::AtMostOnce => 0,
            _ => self.machine.next_id().expect("one is free"),
        };
        let payload = format!("{number} {rest}");
        let publish = PublishOut {
            qos,
            topic,
            id,
            payload: payload.as_bytes(),
            ..PublishOut::default()
        };
        self.machine.publish(&publish, out).expect("it fits");
    }

    fn publish(&mut self, topic: &str, number: u32, rest: &str, qos: QoS) {
        let mut out = Vec::new();
        self.write(topic, number, rest, qos, &mut out);
        self.stream.write_all(&out).expect("it leaves");
    }

    fn expect_puback(&mut self, reason: ReasonCode) {
        self.wait(&Answer::Published(reason));
    }

    fn request(&mut self, payload: &[u8], reply_to: &str) {
        let publish = PublishOut {
            topic: REPAIR,
            payload,
            response_topic: Some(reply_to),
            correlation_data: Some(b"7"),
            ..PublishOut::default()
        };
        let mut out = Vec::new();
        self.machine.publish(&publish, &mut out).expect("it fits");
        self.stream.write_all(&out).expect("it leaves");
    }

    /// Asks for lost datagrams: the correlation of the answer, and the answer.
    fn ask(&mut self, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        self.request(payload, ANSWERS);
        loop {
            let (topic, answer, correlation) = self.message();
            assert_ne!(topic, "plant/1/command");
            if topic == ANSWERS {
                return (correlation, answer);
            }
        }
    }
}
