//! Load reports of a group's members, in each packet that can carry them, and their effects.

use crate::world::{Hello, Who, World};
use std::sync::Arc;
use thalweg_fronts::LoadCounts;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::{GroupStrategy, Limits};
use thalweg_mqtt::load::{ACK_PROPERTY, Report, Spelling};
use thalweg_mqtt::{
    ClientSide, Info, PacketType, PublishOut, QoS, ReasonCode, ServerLimits, Version,
};
use thalweg_testbed::Settings;

const SHARED: &str = "$share/g/t/#";

/// One shard that takes reports in PINGREQ.
fn world() -> World {
    let limits = Limits {
        group_strategy: GroupStrategy::Adaptive,
        ..Limits::default()
    };
    let server = ServerLimits {
        load_reports: true,
        ..ServerLimits::default()
    };
    let settings = MqttSettings {
        limits: server,
        ..MqttSettings::default()
    };
    World::of(Settings {
        limits,
        mqtt: Arc::new(settings),
        ..Settings::default()
    })
}

fn counts(world: &World) -> (u64, u64) {
    let LoadCounts { taken, refused, .. } = world.bed.shards[0].links.load_counts();
    (taken, refused)
}

/// Lets a client's machine write what the world has no word for.
fn say(world: &mut World, who: Who, say: impl FnOnce(&mut ClientSide, &mut Vec<u8>)) {
    world.bed.says(who, |client, up| say(&mut client.side, up));
}

fn ack_with_load(world: &mut World, who: Who, packet: PacketType, id: u16, text: &str) {
    say(world, who, |machine, up| {
        let user = [(ACK_PROPERTY, text)];
        machine.ack_with(
            packet,
            id,
            ReasonCode::Success,
            &Info {
                user: Some(&user),
                ..Info::default()
            },
            up,
        );
    });
}

fn members(world: &mut World, version: Version, qos: QoS) -> [Who; 2] {
    ["one", "two"].map(|name| {
        let who = world
            .connect_with(
                name,
                &Hello {
                    version,
                    ..Hello::default()
                },
            )
            .0;
        world.subscribe(who, SHARED, qos);
        who
    })
}

#[test]
fn a_report_in_a_ping_sends_messages_to_the_other_member() {
    for busy in 0..2 {
        let mut world = world();
        let members = members(&mut world, Version::V5, QoS::AtMostOnce);
        for (number, who) in members.into_iter().enumerate() {
            let report = if number == busy {
                Report::new(500, 1000.0)
            } else {
                Report::new(0, 1.0)
            };
            say(&mut world, who, |machine, up| {
                assert!(machine.ping_with(&report, up))
            });
        }
        assert_eq!(counts(&world), (2, 0));
        let publisher = world.connect("p");
        world.publish(publisher, "t/1", "m", QoS::AtMostOnce);
        assert_eq!(world.texts(members[busy]), [""; 0]);
        assert_eq!(world.texts(members[1 - busy]), ["m"]);
    }
}

#[test]
fn a_report_published_by_an_old_client_does_the_same_at_every_qos() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for (version, busy) in [(Version::V31, 0), (Version::V311, 1), (Version::V5, 0)] {
            let mut world = world();
            let members = members(&mut world, version, QoS::AtMostOnce);
            for (number, who) in members.into_iter().enumerate() {
                let report = if number == busy {
                    Report::new(500, 1000.0)
                } else {
                    Report::new(0, 1.0)
                };
                let payload = report.json(Spelling::Figure);
                let publish = PublishOut {
                    qos,
                    topic: "$load/report",
                    payload: &payload,
                    ..PublishOut::default()
                };
                assert_eq!(world.publish_with(who, &publish), ReasonCode::Success);
            }
            assert_eq!(counts(&world), (2, 0));
            assert_eq!(
                world.sum(|kernel| kernel.ledger().received),
                0,
                "it was no message"
            );
            let publisher = world.connect("p");
            world.publish(publisher, "t/1", "m", QoS::AtMostOnce);
            assert_eq!(world.texts(members[busy]), [""; 0], "{version:?}");
            assert_eq!(world.texts(members[1 - busy]), ["m"], "{version:?}");
        }
    }
}

#[test]
fn a_report_on_an_acknowledgement_counts_and_settles_as_ever() {
    for (qos, packet) in [
        (QoS::AtLeastOnce, PacketType::PubAck),
        (QoS::ExactlyOnce, PacketType::PubRec),
    ] {
        let mut world = world();
        let who = world.connect("one");
        world.subscribe(who, SHARED, qos);
        world.answer(who, false);
        let publisher = world.connect("p");
        for (text, wanted) in [
            ("3;25.0", (1, 0)),
            ("3;NaN", (1, 1)),
            ("", (1, 2)),
            ("0;0", (2, 2)),
        ] {
            world.publish(publisher, "t/1", text, qos);
            let got = world.messages(who);
            assert_eq!(got.len(), 1, "{text:?}");
            ack_with_load(&mut world, who, packet, got[0].id, text);
            assert_eq!(counts(&world), wanted, "{text:?}");
            assert_eq!(world.bed.total(|totals| totals.in_flight), 0, "{text:?}");
        }
        assert!(!world.is_closed(who));
    }
}

#[test]
fn who_lies_or_babbles_keeps_its_connection_and_the_others_their_messages() {
    let mut world = world();
    let members = members(&mut world, Version::V5, QoS::AtLeastOnce);
    let bodies: [&[u8]; 6] = [
        b"{\"msgsInQueue\":NaN,\"processingTimePerMsg\":-1}",
        b"{\"msgsInQueue\":1e99,\"processingTimePerMsg\":1}",
        b"{",
        b"\x80\x80",
        b"\x05\x26\x00\x04u",
        &[b'{'; 5000],
    ];
    for (number, body) in bodies.iter().enumerate() {
        say(&mut world, members[0], |_, up| {
            up.push(0xC0);
            match body.len() {
                len @ 0..0x80 => up.push(len as u8),
                len => up.extend([len as u8 | 0x80, (len >> 7) as u8]),
            }
            up.extend_from_slice(body);
        });
        assert_eq!(counts(&world), (0, number as u64 + 1));
        assert!(!world.is_closed(members[0]), "{body:?}");
    }
    let publisher = world.connect("p");
    for number in 0..20 {
        world.publish(publisher, "t/1", &number.to_string(), QoS::AtLeastOnce);
    }
    let got = members.map(|who| world.texts(who).len());
    assert_eq!(got[0] + got[1], 20, "{got:?}");
}

#[test]
fn two_megabytes_of_report_are_passed_over_while_they_come() {
    let mut world = world();
    let who = world.connect("one");
    say(&mut world, who, |_, up| {
        up.extend([0xC0, 0x80, 0x89, 0x7A]);
        up.resize(up.len() + 2_000_000, b'{');
    });
    assert_eq!(counts(&world), (0, 1));
    say(&mut world, who, |machine, up| {
        assert!(machine.ping_with(&Report::new(1, 1.0), up))
    });
    assert_eq!(counts(&world), (1, 1));
    assert!(!world.is_closed(who));
}
