//! Keep-alive, PINGREQ and DISCONNECT.

use std::time::{Duration, Instant};

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// [MQTT-3.12.4-1] [MQTT3-3.12.4-1]
#[test]
fn each_pingreq_has_its_pingresp() {
    for version in [V31, V311, V5] {
        let mut peer = Peer::new(version);
        peer.send(&pingreq().repeat(3));
        for _ in 0..3 {
            assert_eq!(peer.next(), Packet::Pingresp);
        }
        assert_eq!(peer.until_pong(), []);
    }
}

/// [MQTT-3.1.2-22] [MQTT-3.2.2-22] [MQTT-3.1.2-8] [MQTT3-3.1.2-24] [MQTT3-3.1.2-8] [MQTT3-3.1.2-23] [MQTT-3.1.2-20]
#[test]
fn one_and_a_half_keep_alive_times_of_silence_end_the_connection() {
    let clients: Vec<_> = BOTH
        .into_iter()
        .map(|version| {
            std::thread::spawn(move || {
                let topic = unique("silent");
                let mut watcher = Peer::new(version);
                watcher.subscribe(&topic, 0);
                let connect = Connect::new(version, unique("c"))
                    .keep_alive(1)
                    .will(&topic, "failed", 0, false);
                let (mut peer, connack) = Peer::connect(&connect);
                assert!(
                    !connack.properties.has(property::SERVER_KEEP_ALIVE),
                    "the client's own counts"
                );
                // Before the last packet that the broker reads.
                let begun = Instant::now();
                peer.until_pong();
                peer.expect_end(&[0x8D]);
                let silence = begun.elapsed();
                assert!(
                    silence >= Duration::from_millis(1400)
                        || oracle_deviates("counts whole seconds"),
                    "{silence:?}"
                );
                assert_eq!(
                    watcher.message().text(),
                    "failed",
                    "as if the network had failed"
                );
            })
        })
        .collect();
    for client in clients {
        client.join().expect("as above");
    }
}

/// [MQTT-3.1.2-22] [MQTT3-3.1.2-24]
#[test]
fn no_keep_alive_means_no_limit_and_any_packet_counts_as_life() {
    let (mut endless, _) = Peer::connect(&Connect::new(V311, unique("c")));
    let (mut busy, _) = Peer::connect(&Connect::new(V311, unique("c")).keep_alive(1));
    let (silent, _) = Peer::connect(&Connect::new(V311, unique("c")).keep_alive(2));
    let clock = std::thread::spawn(move || silent.expect_silent_end());
    // The busy client publishes again and again until the silent one, with twice its time, is gone.
    while !clock.is_finished() {
        busy.publish(&Publish::new("life", "x").qos(1, 1));
        std::thread::park_timeout(Duration::from_millis(100));
    }
    clock.join().expect("the silent one was closed");
    assert_eq!(busy.until_pong(), []);
    assert_eq!(endless.until_pong(), []);
}

/// [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT3-3.14.4-1] [MQTT3-3.14.4-2]
#[test]
fn after_disconnect_nothing_is_processed_and_the_broker_closes() {
    for version in BOTH {
        let topic = unique("after");
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        let mut peer = Peer::new(version);
        let mut bytes = Publish::new(&topic, "before").bytes(version);
        bytes.extend(disconnect());
        bytes.extend(Publish::new(&topic, "after").bytes(version));
        bytes.extend(pingreq());
        peer.send(&bytes);
        peer.expect_end_without_answer();
        let received: Vec<_> = watcher
            .messages_until_mark(&mut Peer::new(version))
            .iter()
            .map(|m| m.text().to_owned())
            .collect();
        assert_eq!(received, ["before"]);
    }
}

/// [MQTT-3.14.2-1] [MQTT-3.14.4-3]
#[test]
fn disconnect_may_be_written_in_each_of_its_forms() {
    let forms = [
        packet(0xE0, &[]),
        packet(0xE0, &[0]),
        packet(0xE0, &[0, 0]),
        disconnect_with(0, &property::text(property::REASON_STRING, "enough")),
        disconnect_with(
            0,
            &[property::user("a", "b"), property::user("a", "b")].concat(),
        ),
    ];
    for form in forms {
        let topic = unique("will");
        let mut watcher = Peer::new(V5);
        watcher.subscribe(&topic, 0);
        let (mut peer, _) =
            Peer::connect(&Connect::new(V5, unique("c")).will(&topic, "no", 0, false));
        peer.send(&form);
        peer.expect_end_without_answer();
        assert_eq!(watcher.messages_until_mark(&mut Peer::new(V5)), []);
    }
}

/// [MQTT-4.2.0-1] [MQTT3-7.1.1-1]
#[test]
fn packets_may_arrive_one_byte_at_a_time_or_many_at_once() {
    for version in BOTH {
        let topic = unique("bytes");
        let connect = Connect::new(version, unique("c"))
            .will("w", "x", 1, false)
            .user_name("n")
            .password("p");
        let mut all = connect.bytes();
        all.extend(subscribe(version, 1, &[], &[(&topic, 2)]));
        all.extend(
            Publish::new(&topic, vec![b'x'; 300])
                .qos(1, 2)
                .bytes(version),
        );
        all.extend(pingreq());
        for chunk in [1, 2, 7, all.len()] {
            let mut peer = Peer::open(version);
            for bytes in all.chunks(chunk) {
                peer.send(bytes);
            }
            assert_eq!(peer.connack().code, 0);
            let answers: Vec<Packet> = (0..4).map(|_| peer.next()).collect();
            assert!(
                answers
                    .iter()
                    .any(|p| matches!(p, Packet::Publish(m) if m.payload.len() == 300)),
                "{answers:?}"
            );
            assert!(answers.contains(&Packet::Pingresp), "{answers:?}");
        }
    }
}
