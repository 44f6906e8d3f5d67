//! Messages that a ZeroMQ socket sends in one write reach every subscriber as they do one by one.

use std::sync::Arc;
use thalweg_fronts::LinksLimits;
use thalweg_fronts::zmtp::{CurveSettings, ZmtpSettings};
use thalweg_kernel::access::Access;
use thalweg_kernel::{DropReason, Ledger};
use thalweg_mqtt::{QoS, SubscribeOptions};
use thalweg_testbed::zmtp::Zmtp;
use thalweg_testbed::{Settings, Testbed, Who};
use thalweg_zmtp::{ClientMechanism, CurveClient, KeyPair, SocketType};

type Messages = Vec<Vec<Vec<u8>>>;

fn message(frames: &[&[u8]]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.to_vec()).collect()
}

/// Names of one and two frames, short and long, with runs of all lengths; more than is published at once.
fn conversation() -> Messages {
    let long = [b'x'; 600];
    let kinds: [&[&[u8]]; 6] = [
        &[b"a/b", b"1"],
        &[b"a/b 1"],
        &[b"a/b", &long],
        &[b"a/bc", b"1"],
        &[b"a/b", b"1", b"2"],
        &[b"a/b|"],
    ];
    let mut all = Vec::new();
    for (at, length) in [1, 2, 300, 3, 1, 700, 2, 40].into_iter().enumerate() {
        let numbered = |number: usize| {
            let mut frames = message(kinds[at % kinds.len()]);
            let last = frames.last_mut().expect("there is a frame");
            last.extend_from_slice(format!("{number:04}").as_bytes());
            frames
        };
        all.extend((0..length).map(numbered));
    }
    all
}

fn send(bed: &mut Testbed, who: Who<Zmtp>, messages: &[Vec<Vec<u8>>], at_once: usize) {
    for some in messages.chunks(at_once) {
        bed.says(who, |client, up| {
            for frames in some {
                let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                client.send(&frames, up);
            }
        });
    }
}

fn ledgers(bed: &Testbed) -> Vec<Ledger> {
    let ledgers = bed.shards.iter().map(|shard| shard.kernel.ledger().clone());
    ledgers.collect()
}

fn packets(bed: &Testbed) -> Vec<String> {
    let shown = |shard: &thalweg_testbed::Shard| {
        let packets = shard.links.packets();
        let packets = packets.map(|(name, counts)| format!("{name} {counts:?}"));
        packets.collect::<Vec<_>>().join(", ")
    };
    bed.shards.iter().map(shown).collect()
}

fn subscriber(bed: &mut Testbed, prefixes: &[&[u8]]) -> Who<Zmtp> {
    let who = bed.zmtp(SocketType::Sub);
    for prefix in prefixes {
        bed.zmtp_subscribe(who, prefix);
    }
    who
}

#[test]
fn subscribers_of_all_kinds_get_what_they_get_one_by_one() {
    let run = |at_once: usize| {
        let keys = KeyPair::from_secret([9; 32]);
        let curve = CurveClient {
            server: *keys.public(),
            keys: KeyPair::from_secret([3; 32]),
            seed: [4; 32],
        };
        let mut bed = Testbed::new(Settings {
            zmtp: Arc::new(ZmtpSettings {
                curve: Some(Arc::new(CurveSettings {
                    keys,
                    random: [5; 32],
                    users: None,
                })),
                ..ZmtpSettings::default()
            }),
            ..Settings::default()
        });
        let publisher = bed.zmtp(SocketType::Pub);
        let prefixes: [&[&[u8]]; 4] = [&[b""], &[b"a/b"], &[b"a/b 1000"], &[b"a", b"a/", b"a/bc"]];
        let mut subscribers = prefixes.map(|it| subscriber(&mut bed, it)).to_vec();
        let curve = ClientMechanism::Curve(Box::new(curve));
        let encrypted = bed.open_zmtp(SocketType::Sub, curve, Some(Access::ALL));
        bed.zmtp_subscribe(encrypted, b"a");
        subscribers.push(encrypted);
        let devices = [QoS::AtMostOnce, QoS::AtLeastOnce].map(|qos| {
            let device = bed.mqtt(&format!("device-{qos:?}"));
            let options = SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            };
            bed.mqtt_subscribe(device, "a/#", options);
            device
        });
        send(&mut bed, publisher, &conversation(), at_once);
        let got: Vec<Messages> = subscribers.iter().map(|who| bed.zmtp_got(*who)).collect();
        let seen = devices.map(|who| {
            let seen = bed.mqtt_got(who).into_iter();
            seen.map(|it| (it.topic, it.payload)).collect::<Vec<_>>()
        });
        (got, seen, ledgers(&bed), packets(&bed))
    };
    let (got, seen, ledgers, packets) = run(1);
    assert_eq!(got[0], conversation());
    assert_eq!(seen[0].len(), got[0].len());
    for at_once in [2, 7, 256, 2000] {
        let all = run(at_once);
        assert!(all.0 == got, "ZeroMQ, {at_once} at once");
        assert!(all.1 == seen, "MQTT, {at_once} at once");
        assert_eq!(
            (all.2, all.3),
            (ledgers.clone(), packets.clone()),
            "{at_once} at once"
        );
    }
}

#[test]
fn a_filter_passes_of_a_run_what_it_passes_one_by_one() {
    let messages: Messages = (0..400)
        .map(|number: u32| message(&[b"a/b", format!(r#"{{"n": {number}}}"#).as_bytes()]))
        .collect();
    for at_once in [1, 400] {
        let mut bed = Testbed::new(Settings {
            zmtp: Arc::new(ZmtpSettings {
                filters: true,
                ..ZmtpSettings::default()
            }),
            ..Settings::default()
        });
        let publisher = bed.zmtp(SocketType::Pub);
        let all = subscriber(&mut bed, &[b"a/b"]);
        let some = bed.zmtp(SocketType::Xsub);
        bed.zmtp_subscribe(some, b"a/b\0payload.n < 10");
        send(&mut bed, publisher, &messages, at_once);
        assert!(bed.zmtp_got(all) == messages, "{at_once} at once");
        assert_eq!(bed.zmtp_got(some), messages[..10], "{at_once} at once");
    }
}

#[test]
fn one_puller_gets_all_and_two_take_turns() {
    let run = |pullers: usize, at_once: usize| {
        let mut bed = Testbed::new(Settings::default());
        let pushes = bed.zmtp(SocketType::Push);
        let pulls: Vec<_> = (0..pullers).map(|_| bed.zmtp(SocketType::Pull)).collect();
        let messages: Messages = conversation()
            .into_iter()
            .filter(|it| it.len() < 3)
            .collect();
        send(&mut bed, pushes, &messages, at_once);
        let got: Vec<Messages> = pulls.iter().map(|who| bed.zmtp_got(*who)).collect();
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), messages.len());
        if pullers == 1 {
            assert_eq!(got[0], messages);
        }
        (got, ledgers(&bed), packets(&bed))
    };
    for pullers in [1, 2] {
        let one_by_one = run(pullers, 1);
        for at_once in [2, 256, 2000] {
            assert!(run(pullers, at_once) == one_by_one, "{pullers}, {at_once}");
        }
    }
}

#[test]
fn one_that_does_not_read_has_its_mark_and_costs_others_nothing() {
    let mut bed = Testbed::new(Settings {
        outputs: LinksLimits {
            output_high: 1000,
            output_max: 2000,
            ..LinksLimits::default()
        },
        zmtp: Arc::new(ZmtpSettings {
            high_water: 10,
            ..ZmtpSettings::default()
        }),
        ..Settings::default()
    });
    let publisher = bed.zmtp(SocketType::Pub);
    let slow = subscriber(&mut bed, &[b"a"]);
    let quick = subscriber(&mut bed, &[b"a"]);
    bed.set_reading(slow, false);
    let messages: Messages = (0..1000)
        .map(|number: u32| message(&[b"a", format!("{number:04}").as_bytes()]))
        .collect();
    send(&mut bed, publisher, &messages, 50);
    assert!(bed.zmtp_got(quick) == messages);
    bed.set_reading(slow, true);
    bed.rest();
    let got = bed.zmtp_got(slow);
    let dropped = bed.sum(|kernel| kernel.ledger().dropped[DropReason::QueueFull as usize]);
    assert_eq!(got.len() as u64 + dropped, 1000);
    assert!((10..400).contains(&got.len()), "{} came", got.len());
    assert!(got.is_sorted());
}

#[test]
fn a_fan_out_stops_for_a_flush_before_its_outputs_are_large() {
    let unflushed_max = 64 << 10;
    let mut bed = Testbed::new(Settings {
        outputs: LinksLimits {
            unflushed_max,
            ..LinksLimits::default()
        },
        ..Settings::default()
    });
    let publisher = bed.zmtp(SocketType::Pub);
    let all: Vec<_> = (0..100).map(|_| subscriber(&mut bed, &[b"a"])).collect();
    let messages: Messages = (0..2000)
        .map(|number: u32| message(&[b"a", format!("{number:04}").as_bytes()]))
        .collect();
    let up: Vec<u8> = {
        let (client, up) = bed.end(publisher);
        for frames in &messages {
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            client.send(&frames, up);
        }
        std::mem::take(up)
    };
    // One read, driven as far as it goes before a flush.
    let (shard, id, now) = (bed.shard_of(publisher), bed.link_id(publisher), bed.now);
    let shard = &mut bed.shards[shard];
    let driven = shard.links.drive(id, &up, now, &mut shard.kernel);
    assert!((1..up.len()).contains(&driven.consumed));
    let waiting: usize = all.iter().map(|who| bed.waiting(*who)).sum();
    // One message more is what it may be above that.
    assert!(
        (unflushed_max..unflushed_max + 100 * 20).contains(&waiting),
        "{waiting}"
    );
}
