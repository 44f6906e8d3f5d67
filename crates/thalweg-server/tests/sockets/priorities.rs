//! What stands before a message of the first priority for a receiver that does not keep up: counted in bytes, over real sockets,
//! from a flood that the receiver does not read. Nothing here depends on how long anything takes.

use crate::support::amqp::{Amqp, short};
use crate::support::folder::Folder;
use crate::support::pipe::Pipe;
use crate::{PATIENCE, address};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::TcpStream;
use thalweg_server::Server;
use thalweg_server::transport::Filtered;
use thalweg_server::transport::client::{TlsClientFiles, TlsConnector};

const FLOOD: usize = 400;
const BODY: usize = 8 << 10;
const ALARM: &[u8] = b"<the alarm>";
/// What the receiver's own system takes, which the broker cannot know: it doubles what is asked for.
const RECEIVED: usize = 2 * 4096;
/// That, what an output may have, the message that goes beyond it, and one that has begun before; with what protocols add.
const MOST: usize = RECEIVED + (4 << 10) + 2 * (BODY + 200);

const SHARED: [&str; 8] = [
    "shards=1",
    "listeners.mqtt.bind=127.0.0.1:0",
    "listeners.websocket.enabled=false",
    "listeners.amqp.bind=127.0.0.1:0",
    "listeners.stomp.bind=127.0.0.1:0",
    "journal.enabled=false",
    "admin.enabled=false",
    "sys.interval=off",
];

fn start(folder: &Folder, sets: &[&str]) -> Server {
    Server::start(folder.configuration(&SHARED, sets)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A connection whose end here takes little.
fn narrow(server: &Server, listener: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // Before it is connected, so that it holds from the beginning.
    socket.set_recv_buffer_size(RECEIVED / 2).expect("a size");
    socket
        .connect(&address(server, listener).into())
        .expect("a connection");
    limited(socket.into())
}

fn limited(stream: TcpStream) -> TcpStream {
    let limit = stream.set_read_timeout(Some(PATIENCE));
    limit.expect("a time limit");
    stream
}

/// Bytes that come before the alarm.
fn bytes_before_alarm(mut receiver: impl Read) -> usize {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        let count = receiver.read(&mut some).expect("more comes");
        assert!(count > 0, "closed after {} bytes", all.len());
        let from = all.len().saturating_sub(ALARM.len());
        all.extend_from_slice(&some[..count]);
        let found = all[from..].windows(ALARM.len()).position(|at| at == ALARM);
        if let Some(at) = found {
            return from + at;
        }
    }
}

/// Subscribes by MQTT, at most once.
fn subscribe_by_mqtt(mut stream: impl Read + Write) -> impl Read + Write {
    connect_by_mqtt(&mut stream, false);
    let subscribe = b"\x82\x0c\0\x01\0\x07plant/#\0";
    stream.write_all(subscribe).expect("it leaves");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"\x90\x03\0\x01\0");
    stream
}

/// Connects to a session that outlives its connection.
fn connect_by_mqtt(stream: &mut (impl Read + Write), is_known: bool) {
    let connect = b"\x10\x0d\0\x04MQTT\x04\0\0\0\0\x01r";
    stream.write_all(connect).expect("it leaves");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, [0x20, 2, is_known.into(), 0]);
}

fn subscribe_by_stomp(mut stream: impl Read + Write) -> impl Read + Write {
    greet_by_stomp(&mut stream);
    let head = "SUBSCRIBE\nid:1\ndestination:/topic/plant";
    say(&mut stream, head, b"");
    stream
}

fn greet_by_stomp(stream: &mut (impl Read + Write)) {
    stream
        .write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        .expect("it leaves");
    assert!(frame(stream).starts_with(b"CONNECTED\n"));
}

/// Sends a frame of STOMP and waits until that is done.
fn say(stream: &mut (impl Read + Write), head: &str, body: &[u8]) {
    let frame_of = [head.as_bytes(), b"\nreceipt:r\n\n", body, b"\0"].concat();
    stream.write_all(&frame_of).expect("it leaves");
    assert!(frame(stream).starts_with(b"RECEIPT\n"));
}

/// The next frame of STOMP, without what may stand between two.
fn frame(stream: &mut impl Read) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).expect("something comes");
        match byte[0] {
            0 => return frame,
            b'\n' if frame.is_empty() => {}
            other => frame.push(other),
        }
    }
}

/// A flood of the priority that most have, and then an alarm, all at once, to all who subscribe; all of it is with the broker then.
fn publish(server: &Server) {
    publish_as(server, ("plant", "\npriority:4"), ("plant", "\npriority:9"));
}

/// The same to these topics, with these headers.
fn publish_as(server: &Server, flood: (&str, &str), alarm: (&str, &str)) {
    let stream = TcpStream::connect(address(server, "stomp")).expect("a connection");
    let mut publisher = limited(stream);
    greet_by_stomp(&mut publisher);
    let head = |(topic, headers)| format!("SEND\ndestination:/topic/{topic}{headers}");
    let one = [head(flood).as_bytes(), b"\n\n", &[b'x'; BODY], b"\0"].concat();
    publisher.write_all(&one.repeat(FLOOD)).expect("it leaves");
    say(&mut publisher, &head(alarm), ALARM);
}

#[test]
fn subscribers_have_an_alarm_behind_little_of_a_flood() {
    let folder = Folder::new("priorities");
    let server = start(&folder, &[]);
    let by_mqtt = subscribe_by_mqtt(narrow(&server, "mqtt"));
    let by_stomp = subscribe_by_stomp(narrow(&server, "stomp"));
    publish(&server);
    for (protocol, before) in [
        ("MQTT", bytes_before_alarm(by_mqtt)),
        ("STOMP", bytes_before_alarm(by_stomp)),
    ] {
        assert!(before <= MOST, "{before} of {MOST} bytes by {protocol}");
    }
}

#[test]
fn subscribers_over_tls_have_it_behind_as_little() {
    let folder = Folder::new("priorities");
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.0.join("own.pem"), folder.0.join("own.key"));
    std::fs::write(&certificate, own.cert.pem()).expect("the folder is writable");
    std::fs::write(&key, own.signing_key.serialize_pem()).expect("the folder is writable");
    let sets = [
        "listeners.mqtts.transport=tls",
        "listeners.mqtts.bind=127.0.0.1:0",
        "listeners.mqtts.tls.certificate={folder}/own.pem",
        "listeners.mqtts.tls.key={folder}/own.key",
    ];
    let server = start(&folder, &sets);
    let files = TlsClientFiles {
        ca: Some(certificate),
        ..TlsClientFiles::default()
    };
    let tls = TlsConnector::new(&files).expect("files");
    let tls = tls.connect("localhost").expect("a name");
    let pipe = Pipe::new(narrow(&server, "mqtts"), Filtered::stack(Some(tls), None));
    let receiver = subscribe_by_mqtt(pipe);
    publish(&server);
    let before = bytes_before_alarm(receiver);
    assert!(before <= MOST, "{before} of {MOST} bytes");
}

/// From when it subscribes, is back, or the policy comes: what it is sent before has no priority, and could not be overtaken either.
#[test]
fn a_subscriber_whose_topics_have_priorities_by_policy_has_it_behind_as_little() {
    for (is_back, is_reloaded) in [(false, false), (true, false), (false, true)] {
        let folder = Folder::new("priorities");
        let policy = ["policy=[{ filter = \"plant/alarm\", priority_min = 9 }]"];
        let mut server = start(&folder, if is_reloaded { &[] } else { &policy });
        let mut receiver = narrow(&server, "mqtt");
        subscribe_by_mqtt(&mut receiver);
        if is_back {
            receiver = narrow(&server, "mqtt");
            connect_by_mqtt(&mut receiver, true);
        }
        if is_reloaded {
            let reloaded = server.reload(folder.configuration(&SHARED, &policy));
            reloaded.unwrap_or_else(|errors| panic!("{errors:?}"));
            // Its shard has the settings before it is asked anything.
            server.observer().on_shards(|_| ());
        }
        publish_as(&server, ("plant.7", ""), ("plant.alarm", ""));
        let before = bytes_before_alarm(receiver);
        assert!(
            before <= MOST,
            "{before} of {MOST} bytes, is back: {is_back}, is reloaded: {is_reloaded}"
        );
    }
}

#[test]
fn a_consumer_of_a_queue_with_priorities_has_it_behind_as_little() {
    for waits in [false, true] {
        let folder = Folder::new("priorities");
        let server = start(&folder, &[]);
        let stream = narrow(&server, "amqp");
        let receiver = stream.try_clone().expect("a second handle");
        let mut consumer = Amqp::over(stream, "PLAIN", b"\0guest\0guest", "/", 0);
        let nine = [&short("x-max-priority")[..], b"b\x09"].concat();
        consumer.declare_queue_with("jobs", &nine);
        consumer.declare_queue("others");
        let address = address(&server, "amqp").to_string();
        let mut publisher = Amqp::connect(&address, 0);
        if !waits {
            consumer.consume("jobs");
        }
        for _ in 0..FLOOD {
            // Without a priority, which is the lowest.
            publisher.publish("", "jobs", &[b'x'; BODY]);
        }
        // What is answered shows that all before it is done.
        publisher.purge("others");
        if waits {
            consumer.consume("jobs");
        }
        publisher.publish_above("", "jobs", 9, ALARM);
        publisher.purge("others");
        let before = bytes_before_alarm(receiver);
        assert!(before <= MOST, "{before} of {MOST} bytes, waits: {waits}");
    }
}
