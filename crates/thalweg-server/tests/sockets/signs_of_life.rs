//! Heart-beats over a real socket: what is sent to a peer that would otherwise hear nothing, and what becomes of one that
//! says nothing. Nothing here sleeps; reads wait with a limit.

use crate::support::amqp::{Amqp, HEARTBEAT};
use crate::support::folder::Folder;
use crate::{PATIENCE, address};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use thalweg_server::Server;

const SHARED: [&str; 6] = [
    "shards=2",
    "listeners.mqtt.bind=127.0.0.1:0",
    "listeners.websocket.enabled=false",
    "listeners.stomp.bind=127.0.0.1:0",
    "listeners.amqp.bind=127.0.0.1:0",
    "journal.enabled=false",
];

fn start(sets: &[&str]) -> (Server, Folder) {
    let folder = Folder::new("signs");
    let server = Server::start(folder.configuration(&SHARED, sets));
    (server.expect("a server"), folder)
}

fn connect(server: &Server, listener: &str) -> TcpStream {
    let stream = TcpStream::connect(address(server, listener)).expect("a connection");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    stream
}

/// Reads until `enough` says so; the time that it took.
fn read_until(
    stream: &mut TcpStream,
    heard: &mut Vec<u8>,
    enough: impl Fn(&[u8]) -> bool,
) -> Duration {
    let since = Instant::now();
    let mut buffer = [0; 4096];
    while !enough(heard) {
        let count = stream
            .read(&mut buffer)
            .unwrap_or_else(|error| panic!("{error} after {heard:?}"));
        assert!(
            count > 0,
            "closed after {:?}",
            String::from_utf8_lossy(heard)
        );
        heard.extend_from_slice(&buffer[..count]);
    }
    since.elapsed()
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
            Err(_) => return false,
        }
    }
}

fn stomp_connect(server: &Server, heart_beat: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = connect(server, "stomp");
    let frame =
        format!("CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:{heart_beat}\n\n\0");
    stream.write_all(frame.as_bytes()).expect("it leaves");
    let mut heard = Vec::new();
    read_until(&mut stream, &mut heard, |heard| heard.contains(&0));
    assert!(
        heard.starts_with(b"CONNECTED\n"),
        "{}",
        String::from_utf8_lossy(&heard)
    );
    let end = heard
        .iter()
        .position(|byte| *byte == 0)
        .map_or(0, |at| at + 1);
    (stream, heard.split_off(end))
}

#[test]
fn a_peer_that_wants_signs_of_life_gets_them_and_need_not_give_any() {
    let (server, _folder) = start(&["stomp.heart_beat=100ms"]);
    let (mut stream, mut heard) = stomp_connect(&server, "0,100");
    read_until(&mut stream, &mut heard, |heard| {
        heard.iter().filter(|byte| **byte == b'\n').count() >= 6
    });
    assert!(heard.iter().all(|byte| *byte == b'\n'), "{heard:?}");
    drop(server);
}

#[test]
fn a_peer_that_promised_signs_of_life_and_gives_none_is_disconnected_and_one_that_gives_parts_is_not()
 {
    let (server, _folder) = start(&["stomp.heart_beat=1s"]);
    let (mut silent, _) = stomp_connect(&server, "1000,0");
    let (mut slow, _) = stomp_connect(&server, "1000,0");
    // A frame that comes in small pieces, for longer than a silent peer is borne with.
    slow.set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time limit");
    slow.write_all(b"SEND\ndestination:/topic/a\nreceipt:1\n\n")
        .expect("it leaves");
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        slow.write_all(b"x").expect("it is still there");
        let error = slow.read(&mut [0; 100]).expect_err("nobody says anything");
        assert!(
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "{error}"
        );
    }
    slow.write_all(b"\0").expect("it leaves");
    slow.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    read_until(&mut slow, &mut Vec::new(), |heard| {
        heard.starts_with(b"RECEIPT\n") && heard.contains(&0)
    });
    assert!(
        is_closed(&mut silent),
        "nothing came from it for five seconds"
    );
    drop(server);
}

#[test]
fn an_amqp_client_hears_something_in_half_its_interval_and_is_let_go_after_two_silent_ones() {
    let (server, _folder) = start(&[]);
    // Before the last thing that the broker hears.
    let since = Instant::now();
    let mut client = Amqp::connect(address(&server, "amqp"), 1);
    let mut beats = 0;
    while let Some(frame) = client.receive() {
        assert_eq!((frame.kind, frame.channel), (HEARTBEAT, 0), "{frame:?}");
        beats += 1;
    }
    let lived = since.elapsed();
    assert!(
        (Duration::from_secs(1)..PATIENCE).contains(&lived),
        "{lived:?}"
    );
    assert!(beats >= 2, "{beats} heartbeats in {lived:?}");
    drop(server);
}

/// What a peer says while it has not taken our answers waits in its socket, so silence is no sign of its death.
#[test]
fn a_consumer_that_takes_a_large_message_slowly_is_not_taken_for_dead() {
    const BYTES: usize = 64 << 20;
    let (server, _folder) = start(&["amqp.message_bytes_max=128MiB"]);
    let mut consumer = Amqp::connect(address(&server, "amqp"), 2);
    consumer.declare_queue("jobs");
    Amqp::connect(address(&server, "amqp"), 0).publish("", "jobs", &vec![7; BYTES]);
    consumer.consume("jobs");
    consumer.expect(60, 60);
    let since = Instant::now();
    let (mut got, mut beats) = (0, 0);
    while got < BYTES {
        let frame = consumer
            .receive()
            .unwrap_or_else(|| panic!("closed after {got} bytes, {:?}", since.elapsed()));
        got += if frame.kind == 3 {
            frame.payload.len()
        } else {
            0
        };
        // About 8 MiB each second, and a heartbeat each half.
        if got / (4 << 20) > beats {
            beats += 1;
            consumer.send(HEARTBEAT, 0, &[]);
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    assert!(
        since.elapsed() > Duration::from_secs(5),
        "too fast to prove anything: {:?}",
        since.elapsed()
    );
    drop(server);
}

#[test]
fn an_amqp_publisher_hears_that_memory_is_short_and_that_it_is_not_any_more() {
    let (server, _folder) = start(&["limits.memory_bytes_max=16MiB"]);
    let mut client = Amqp::connect(address(&server, "amqp"), 0);
    client.declare_queue("jobs");
    let body = vec![7; 1 << 20];
    for _ in 0..15 {
        client.publish("", "jobs", &body);
    }
    let blocked = client.expect(10, 60);
    assert!(
        blocked.payload.ends_with(b"\x0dlow on memory"),
        "{blocked:?}"
    );
    let mut late = Amqp::connect(address(&server, "amqp"), 0);
    assert!(late.heard_blocked, "who comes later is told, too");
    late.purge("jobs");
    late.expect(10, 61);
    client.expect(10, 61);
    drop(server);
}
