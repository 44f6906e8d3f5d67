//! Bytes that mean nothing, mean too much, or never end.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;

/// A broker with a listener of every kind; where each is.
fn with_every_listener() -> Option<(Victim, Vec<SocketAddr>)> {
    let proxied = crate::broker::free_port();
    let options = Broker::with()
        .encrypted()
        .set("listeners.unix.bind", "{folder}/broker.sock")
        .set("listeners.unix.transport", "unix")
        .set("listeners.proxied.bind", &proxied.to_string())
        .set("listeners.proxied.proxy_protocol", "any")
        .set("listeners.proxied.proxy_trusted", "127.0.0.1")
        .set("listeners.proxied.anonymous", "true")
        .set("limits.connect_timeout", "1s");
    let victim = Victim::with(options)?;
    let broker = &victim.broker;
    let places = vec![
        broker.mqtt(),
        broker.websocket(),
        broker.tls(),
        broker.secure_websocket(),
        proxied,
        broker.admin(),
    ];
    Some((victim, places))
}

/// First bytes of valid clients of each protocol.
fn beginnings() -> Vec<Vec<u8>> {
    let upgrade = b"GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
    let will = Connect::new(V5, "will")
        .will("t", "gone", 1, true)
        .user_name("u")
        .password("p");
    let session = [
        hello("session"),
        subscribe(V5, 1, &[], &[("a/+", 1), ("$share/g/#", 2)]),
        Publish::new("a/b", "payload").qos(2, 7).bytes(V5),
        ack(PUBREL, 7),
        pingreq(),
        disconnect(),
    ];
    vec![
        Vec::new(),
        hello("garbage"),
        will.bytes(),
        session.concat(),
        upgrade.to_vec(),
        b"PROXY TCP4 203.0.113.7 203.0.113.1 1234 1883\r\n".to_vec(),
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3],
    ]
}

#[test]
fn random_and_damaged_bytes_on_every_listener_harm_nobody() {
    let Some((victim, places)) = with_every_listener() else {
        return;
    };
    let socket = victim.broker.folder().join("broker.sock");
    let beginnings = beginnings();
    let times = again_and_again(3, move |_, luck| {
        let mut bytes = beginnings[luck.below(beginnings.len())].clone();
        if !bytes.is_empty() {
            for _ in 0..luck.below(4) {
                let at = luck.below(bytes.len());
                bytes[at] = luck.below(256) as u8;
            }
            bytes.truncate(1 + luck.below(2 * bytes.len()));
        }
        let tail = luck.below(2000);
        bytes.extend(luck.bytes(tail));
        let place = luck.below(places.len() + 1);
        // A write fails if the broker has closed the connection early, which it may.
        if let Some(place) = places.get(place) {
            let Ok(mut stream) = abrupt(*place) else {
                return;
            };
            let _ = stream.write_all(&bytes);
            if luck.below(2) == 0 {
                let _ = stream.shutdown(Shutdown::Write);
                drain(stream);
            }
        } else if let Ok(mut stream) = UnixStream::connect(&socket) {
            let _ = stream.write_all(&bytes);
        }
    });
    println!("{times} connections with garbage");
    victim.assert_unharmed("random bytes", 24 << 10);
}

#[test]
fn who_sends_half_a_packet_or_drips_is_closed_in_time_and_stands_in_nobodys_way() {
    const MANY: usize = 400;
    let options = Broker::with()
        .set("limits.connect_timeout", "1s")
        .set("limits.handshakes_max", "300");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let bytes = Connect::new(V5, "drip".repeat(300)).bytes();
    let mut streams: Vec<_> = (0..MANY)
        .filter_map(|_| abrupt(victim.broker.mqtt()).ok())
        .collect();
    let begun = Instant::now();
    let mut open = streams.len();
    for byte in &bytes {
        // One byte each per round: to each of them something has just come, and still their time runs out.
        streams.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        if streams.len() < open {
            open = streams.len();
        }
        if streams.is_empty() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    println!(
        "{MANY} dripping connections were gone after {:?}",
        begun.elapsed()
    );
    assert!(streams.is_empty(), "{open} of {MANY} are still open");
    assert!(victim.figure("thalweg_lobby_turned_away_total") >= MANY as u64);
    victim.wait_for("thalweg_lobby_waiting", |waiting| waiting == 0);
    victim.assert_unharmed("slowloris", 16 << 10);
}

#[test]
fn half_packets_after_connect_wait_for_the_keep_alive_and_no_longer() {
    const MANY: usize = 200;
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    let half = &Publish::new("t", [b'x'; 100]).bytes(V5)[..50];
    let streams: Vec<_> = (0..MANY)
        .map(|number| {
            let mut stream = abrupt(victim.broker.mqtt()).expect("it accepts");
            let connect = Connect::new(V5, format!("half{number}"))
                .keep_alive(1)
                .bytes();
            stream
                .write_all(&[&connect, half].concat())
                .expect("it reads");
            stream
        })
        .collect();
    for stream in streams {
        let said = drain(stream);
        // CONNACK, and DISCONNECT with Keep Alive timeout.
        assert!(
            said.starts_with(&[0x20])
                && said
                    .windows(3)
                    .any(|bytes| bytes[0] == 0xE0 && bytes[2] == 0x8D),
            "{said:x?}"
        );
    }
    victim.wait_for("thalweg_sessions_online", |online| online == 2);
    victim.assert_unharmed("half packets", 16 << 10);
}

#[test]
fn packets_up_to_the_limit_are_taken_and_larger_ones_cost_nothing() {
    let options = Broker::with().set("limits.packet_bytes_max", "4MiB");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let limit = 4 << 20;
    let head = 1 + 4 + 2 + 1 + 2 + 1; // Fixed header, topic, packet identifier, no properties.
    let address = victim.broker.mqtt();
    let mut sender = Talker::tcp(address).named("largest");
    for _ in 0..4 {
        assert_eq!(sender.publish("t", &"x".repeat(limit - head), 1), 0x10);
    }
    sender.send(
        &Publish::new("t", "x".repeat(limit - head + 1))
            .qos(1, 1)
            .bytes(V5),
    );
    sender.expect_disconnect(0x95);

    // Announced and not sent: before CONNECT 256 MB, afterwards as much as may be.
    let mut held = Vec::new();
    for number in 0..100 {
        let mut stream = abrupt(address).expect("it accepts");
        let _ = stream.write_all(&[
            0x10, 0xFF, 0xFF, 0xFF, 0x7F, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0,
        ]);
        held.push(stream);
        let mut stream = abrupt(address).expect("it accepts");
        let publish = Publish::new("t", "x".repeat(limit - head))
            .qos(1, 1)
            .bytes(V5);
        let _ = stream.write_all(&[&hello(&format!("big{number}")), &publish[..2000]].concat());
        held.push(stream);
    }
    victim.wait_for("thalweg_sessions_online", |online| online == 102);
    let growth = victim.growth();
    println!("200 connections that announce large packets: {growth} KiB");
    assert!(growth < 48 << 10, "{growth} KiB");
    drop(held);
    victim.wait_for("thalweg_sessions_online", |online| online == 2);
    victim.assert_unharmed("huge packets", 48 << 10);
}
