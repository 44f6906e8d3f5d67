//! The two sides in memory: whole exchanges in every version.

use super::*;

const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

/// [MQTT-4.3.1-1] [MQTT-4.3.2-2] [MQTT-4.3.3-2] [MQTT-2.2.1-2] [MQTT-2.2.1-5] [MQTT-2.2.1-6] [MQTT3-2.3.1-5]
/// [MQTT3-4.3.1-1]
#[test]
fn a_message_crosses_both_ways_at_every_qos() {
    for version in VERSIONS {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let (mut client, mut server) = plain_pair(version);
            let id = if qos == QoS::AtMostOnce {
                0
            } else {
                client.next_id().expect("free")
            };
            let message = PublishOut {
                topic: "a/b",
                payload: b"hello",
                qos,
                id,
                ..PublishOut::default()
            };
            let (mut there, mut back) = (Vec::new(), Vec::new());
            client.publish(&message, &mut there).expect("fits");
            let Event::Publish(p) = server_event(&mut server, &there) else {
                panic!("not PUBLISH")
            };
            assert_eq!(
                (p.topic.as_str(), p.payload, p.qos, p.id, p.dup),
                ("a/b", &b"hello"[..], qos, id, false)
            );
            // The event borrows from the bytes only: the machine is free while it is held.
            match qos {
                QoS::AtMostOnce => {}
                QoS::AtLeastOnce => {
                    server.puback(p.id, ReasonCode::Success, &mut back);
                    assert!(
                        matches!(client_event(&mut client, &back), ClientEvent::PubAck(a) if a.id == id)
                    );
                }
                QoS::ExactlyOnce => {
                    server.pubrec(p.id, ReasonCode::Success, &mut back);
                    assert!(
                        matches!(client_event(&mut client, &back), ClientEvent::PubRec(a) if a.id == id)
                    );
                    there.clear();
                    client.pubrel(id, ReasonCode::Success, &mut there);
                    assert!(
                        matches!(server_event(&mut server, &there), Event::PubRel { id: i, .. } if i == id)
                    );
                    back.clear();
                    server.pubcomp(id, ReasonCode::Success, &mut back);
                    assert!(
                        matches!(client_event(&mut client, &back), ClientEvent::PubComp(a) if a.id == id)
                    );
                }
            }
            // And from the server to the client.
            back.clear();
            server
                .publish(
                    &PublishOut {
                        id: 9,
                        retain: true,
                        ..message
                    },
                    &mut back,
                )
                .expect("fits");
            let ClientEvent::Publish(p) = client_event(&mut client, &back) else {
                panic!("not PUBLISH")
            };
            assert_eq!(
                (p.topic.as_str(), p.payload, p.retain),
                ("a/b", &b"hello"[..], true)
            );
            assert_eq!(p.id, if qos == QoS::AtMostOnce { 0 } else { 9 });
        }
    }
}

/// [MQTT-3.8.4-2] [MQTT-3.8.4-6] [MQTT-3.10.4-5] [MQTT-3.12.4-1] [MQTT3-2.3.1-7]
#[test]
fn subscriptions_and_pings_are_answered_under_their_identifier() {
    for version in VERSIONS {
        let (mut client, mut server) = plain_pair(version);
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let id = client.next_id().expect("free");
        let qos1 = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        let filters = [("a/+", qos1), ("#", SubscribeOptions::default())];
        client
            .subscribe(
                &SubscribeOut {
                    id,
                    filters: &filters,
                    ..SubscribeOut::default()
                },
                &mut there,
            )
            .expect("fits");
        let Event::Subscribe(s) = server_event(&mut server, &there) else {
            panic!("not SUBSCRIBE")
        };
        assert_eq!(s.filters().collect::<Vec<_>>(), filters);
        server.suback(
            s.id,
            &[ReasonCode::GrantedQos1, ReasonCode::NotAuthorized],
            &mut back,
        );
        let ClientEvent::SubAck(a) = client_event(&mut client, &back) else {
            panic!("not SUBACK")
        };
        let refused = if version.is_v5() {
            ReasonCode::NotAuthorized
        } else {
            ReasonCode::Unspecified
        };
        assert_eq!(
            a.codes().collect::<Vec<_>>(),
            [ReasonCode::GrantedQos1, refused]
        );
        assert_eq!(a.id, id);
        let id = client.next_id().expect("free");
        there.clear();
        client
            .unsubscribe(
                &UnsubscribeOut {
                    id,
                    filters: &["a/+", "#"],
                    user: None,
                },
                &mut there,
            )
            .expect("fits");
        let Event::Unsubscribe(u) = server_event(&mut server, &there) else {
            panic!("not UNSUBSCRIBE")
        };
        assert_eq!(u.filters().collect::<Vec<_>>(), ["a/+", "#"]);
        back.clear();
        server.unsuback(
            u.id,
            &[ReasonCode::Success, ReasonCode::NoSubscriptionExisted],
            &mut back,
        );
        let ClientEvent::UnsubAck(a) = client_event(&mut client, &back) else {
            panic!("not UNSUBACK")
        };
        assert_eq!(
            (a.id, a.codes().len()),
            (id, if version.is_v5() { 2 } else { 0 })
        );
        (there, back) = (Vec::new(), Vec::new());
        client.ping(&mut there);
        assert!(matches!(
            server_event(&mut server, &there),
            Event::PingReq(PingReq::Plain)
        ));
        server.pingresp(&mut back);
        assert!(matches!(
            client_event(&mut client, &back),
            ClientEvent::PingResp
        ));
    }
}

/// [MQTT-3.1.3-2] [MQTT-3.1.2-7] [MQTT3-3.1.2-24]
#[test]
fn connect_arrives_as_it_was_sent() {
    for version in VERSIONS {
        let user = [("k", "v"), ("k", "w")];
        let message = PublishOut {
            topic: "will/topic",
            payload: b"gone",
            qos: QoS::ExactlyOnce,
            retain: true,
            expiry_secs: Some(60),
            user: Some(&user),
            ..PublishOut::default()
        };
        let sent = ConnectOut {
            version,
            client_id: "sensor",
            clean_start: false,
            keep_alive: 17,
            will: Some(WillOut {
                message,
                delay_secs: 5,
            }),
            username: Some("user"),
            password: Some(b"\x00secret"),
            session_expiry: 3600,
            receive_max: 10,
            packet_bytes_max: Some(1000),
            topic_alias_max: 3,
            request_response_info: true,
            request_problem_info: false,
            user: Some(&user),
            ..ConnectOut::default()
        };
        let mut wire = Vec::new();
        ClientSide::new(1 << 20)
            .connect(&sent, &mut wire)
            .expect("fits");
        let mut server = ServerSide::new(limits());
        let Event::Connect(c) = server_event(&mut server, &wire) else {
            panic!("not CONNECT")
        };
        assert_eq!(server.version(), version);
        assert_eq!(
            (c.version, c.client_id, c.clean_start, c.keep_alive),
            (version, "sensor", false, 17)
        );
        assert_eq!(
            (c.username, c.password),
            (Some("user"), Some(&b"\x00secret"[..]))
        );
        let will = c.will.expect("a will");
        assert_eq!(
            (will.topic, will.payload, will.qos, will.retain),
            ("will/topic", &b"gone"[..], QoS::ExactlyOnce, true)
        );
        if version.is_v5() {
            assert_eq!(
                (c.session_expiry, c.receive_max, c.packet_bytes_max),
                (3600, 10, Some(1000))
            );
            assert_eq!(
                (
                    c.topic_alias_max,
                    c.request_response_info,
                    c.request_problem_info
                ),
                (3, true, false)
            );
            assert_eq!(
                (will.delay_secs, will.properties.message_expiry()),
                (5, Some(60))
            );
            assert_eq!(c.properties.user_properties().collect::<Vec<_>>(), user);
            assert_eq!(will.properties.user_properties().collect::<Vec<_>>(), user);
        } else {
            assert_eq!(
                (c.session_expiry, c.receive_max, c.packet_bytes_max),
                (u32::MAX, u16::MAX, None)
            );
            assert!(c.properties.is_empty() && will.properties.is_empty());
        }
    }
}

#[test]
fn bridges_are_recognised_by_the_top_bit_of_the_level() {
    for (text, version) in [
        ("10 [ 'MQTT' 84 02 003c 'bridge' ]", Version::V311),
        ("10 [ 'MQIsdp' 83 02 003c 'bridge' ]", Version::V31),
    ] {
        let mut server = ServerSide::new(limits());
        let input = bytes(text);
        let Event::Connect(c) = server_event(&mut server, &input) else {
            panic!("not CONNECT")
        };
        assert_eq!((c.bridge, c.version), (true, version));
    }
}

/// A v5 client of a server of MQTT 3 receives return code 1 and handles it.
#[test]
fn a_v5_client_understands_the_refusal_of_an_old_server() {
    let mut client = ClientSide::new(1 << 20);
    client
        .connect(&ConnectOut::default(), &mut Vec::new())
        .expect("fits");
    let ClientEvent::ConnAck(a) = client_event(&mut client, &[0x20, 2, 0, 1]) else {
        panic!("not CONNACK")
    };
    assert_eq!(a.values.reason, ReasonCode::UnsupportedProtocolVersion);
    assert!(!client.is_connected());
}

/// DUP with QoS 0 is never written. [MQTT-3.3.1-2] A client never sends subscription identifiers. [MQTT-3.3.4-6]
#[test]
fn verbs_do_not_write_what_the_specification_forbids() {
    let (mut client, mut server) = plain_pair(Version::V5);
    let message = PublishOut {
        topic: "t",
        dup: true,
        subscription_ids: &[7],
        ..PublishOut::default()
    };
    let mut out = Vec::new();
    client.publish(&message, &mut out).expect("fits");
    assert_eq!(out, bytes("30 [ 't' [] ]"));
    out.clear();
    server.publish(&message, &mut out).expect("fits");
    assert_eq!(out, bytes("30 [ 't' [ 0B 07 ] ]"));
    // A reason that does not belong to the packet becomes one that does.
    out.clear();
    server.puback(1, ReasonCode::PacketTooLarge, &mut out);
    server.pubrec(2, ReasonCode::ServerBusy, &mut out);
    assert_eq!(out, bytes("40 [ 0001 80 ] 50 [ 0002 80 ]"));
    // A string that no length can carry.
    out.clear();
    let long = "x".repeat(65_536);
    assert!(
        server
            .publish(
                &PublishOut {
                    topic: &long,
                    ..PublishOut::default()
                },
                &mut out
            )
            .is_err()
    );
    let property = PublishOut {
        topic: "t",
        content_type: Some(&long),
        ..PublishOut::default()
    };
    assert!(server.publish(&property, &mut out).is_err());
    assert!(out.is_empty());
}
