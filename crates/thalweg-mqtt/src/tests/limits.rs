//! Counters and limits of the machines, and the packets allowed in each state.

use super::*;

const V5: Version = Version::V5;

fn v5(text: &str) -> ConnectOut<'_> {
    ConnectOut {
        version: V5,
        client_id: text,
        ..ConnectOut::default()
    }
}

/// [MQTT-3.3.4-7] [MQTT-4.9.0-1] [MQTT-4.9.0-3] [MQTT-3.3.4-8]
#[test]
fn a_client_that_exceeds_receive_maximum_is_cut_off_and_acknowledgements_give_back() {
    let (_, mut server) = plain_pair(V5);
    let mut out = Vec::new();
    for id in ["0001", "0002", "0003"] {
        server_event(&mut server, &bytes(&format!("32 [ 't' {id} [] ]")));
    }
    // QoS 0 and everything else go on.
    server_event(&mut server, &bytes("30 [ 't' [] ]"));
    server_event(&mut server, &bytes("C0 00"));
    server.puback(1, ReasonCode::Success, &mut out);
    server_event(&mut server, &bytes("34 [ 't' 0004 [] ]"));
    // PUBREC keeps the place, PUBREC with an error and PUBCOMP give it back.
    server.pubrec(4, ReasonCode::Success, &mut out);
    let fault = server
        .handle_input(&bytes("34 [ 't' 0005 [] ]"))
        .expect_err("the fourth");
    assert_eq!(fault, PeerFault::RECEIVE_MAXIMUM);
    server.pubcomp(4, ReasonCode::Success, &mut out);
    server_event(&mut server, &bytes("34 [ 't' 0005 [] ]"));
    server.pubrec(5, ReasonCode::QuotaExceeded, &mut out);
    server_event(&mut server, &bytes("32 [ 't' 0006 [] ]"));
}

#[test]
fn mqtt3_knows_no_receive_maximum() {
    let (_, mut server) = plain_pair(Version::V311);
    for _ in 0..100 {
        server_event(&mut server, &bytes("32 [ 't' 0001 ]"));
    }
}

/// [MQTT-3.3.4-9] [MQTT-4.9.0-2] [MQTT-3.2.2-11] [MQTT-3.2.2-14] [MQTT-3.2.2-15]
#[test]
fn a_client_keeps_within_what_the_server_offers() {
    let mut client = ClientSide::new(1 << 20);
    let mut out = Vec::new();
    client.connect(&v5("c"), &mut out).expect("fits");
    let connack = bytes("20 [ 00 00 [ 13 0007 21 0001 24 01 25 00 27 00000020 ] ]");
    client_event(&mut client, &connack);
    assert_eq!(client.offer().keep_alive, 7);
    out.clear();
    let message = PublishOut {
        topic: "t",
        qos: QoS::AtLeastOnce,
        id: 1,
        ..PublishOut::default()
    };
    assert_eq!(client.send_quota(), 1);
    assert_eq!(client.publish(&message, &mut out), Ok(()));
    assert_eq!(
        client.publish(&message, &mut out),
        Err(PublishError::ReceiveMaximum)
    );
    let qos2 = PublishOut {
        qos: QoS::ExactlyOnce,
        ..message
    };
    assert_eq!(
        client.publish(&qos2, &mut out),
        Err(PublishError::QosNotSupported)
    );
    let retained = PublishOut {
        retain: true,
        qos: QoS::AtMostOnce,
        ..message
    };
    assert_eq!(
        client.publish(&retained, &mut out),
        Err(PublishError::RetainNotSupported)
    );
    let long = PublishOut {
        qos: QoS::AtMostOnce,
        payload: &[0; 40],
        ..message
    };
    assert!(matches!(
        client.publish(&long, &mut out),
        Err(PublishError::TooLarge(_))
    ));
    assert_eq!(out, bytes("32 [ 't' 0001 [] ]"));
    client_event(&mut client, &bytes("40 [ 0001 ]"));
    assert_eq!(client.send_quota(), 1);
}

/// [MQTT-3.3.4-9]
#[test]
fn a_server_that_exceeds_the_clients_receive_maximum_is_cut_off() {
    let connect = ConnectOut {
        receive_max: 1,
        ..v5("c")
    };
    let (mut client, _) = pair(&connect, limits());
    client_event(&mut client, &bytes("32 [ 't' 0001 [] ]"));
    match client.handle_input(&bytes("32 [ 't' 0002 [] ]")) {
        Err(fault) => assert_eq!(fault.reason, ReasonCode::ReceiveMaximumExceeded),
        Ok(_) => panic!("it was taken"),
    }
    client.puback(1, ReasonCode::Success, &mut Vec::new());
    client_event(&mut client, &bytes("32 [ 't' 0003 [] ]"));
    // Unless the client says that it does not mind.
    client.tolerate_excess();
    client_event(&mut client, &bytes("32 [ 't' 0004 [] ]"));
}

/// [MQTT-3.1.2-24] [MQTT-3.1.2-25] [MQTT-3.4.2-2] [MQTT-3.4.2-3] [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.14.2-3]
/// [MQTT-3.14.2-4] [MQTT-3.5.2-2] [MQTT-3.6.2-2] [MQTT-3.7.2-2] [MQTT-3.11.2-1]
#[test]
fn nothing_larger_than_the_clients_maximum_packet_size_is_written() {
    let (_, mut server) = pair(
        &ConnectOut {
            packet_bytes_max: Some(20),
            ..v5("c")
        },
        limits(),
    );
    let mut out = Vec::new();
    let fits = PublishOut {
        topic: "topic",
        payload: b"0123456789",
        ..PublishOut::default()
    };
    assert_eq!(server.publish(&fits, &mut out), Ok(()));
    assert_eq!(out.len(), 20);
    assert!(server.fits(20) && !server.fits(21));
    out.clear();
    let more = PublishOut {
        payload: b"0123456789a",
        ..fits
    };
    assert_eq!(
        server.publish(&more, &mut out),
        Err(TooLarge {
            packet_bytes: 21,
            packet_bytes_max: 20
        })
    );
    let props = PublishOut {
        content_type: Some("text/plain"),
        ..fits
    };
    assert!(server.publish(&props, &mut out).is_err());
    assert!(out.is_empty());
    // Words give way: first the user properties, then the reason.
    let user = [("key", "value")];
    let info = Info {
        reason_string: Some("because"),
        user: Some(&user),
    };
    server.ack_with(
        PacketType::PubAck,
        1,
        ReasonCode::QuotaExceeded,
        &info,
        &mut out,
    );
    assert_eq!(out, bytes("40 [ 0001 97 [ 1F 'because' ] ]"));
    out.clear();
    let info = Info {
        reason_string: Some("because it is so"),
        user: None,
    };
    server.ack_with(
        PacketType::PubAck,
        1,
        ReasonCode::QuotaExceeded,
        &info,
        &mut out,
    );
    assert_eq!(out, bytes("40 [ 0001 97 ]"));
    out.clear();
    server.suback_with(1, &[ReasonCode::Success], &info, &mut out);
    assert_eq!(out, bytes("90 [ 0001 [] 00 ]"));
    out.clear();
    let props = DisconnectProps {
        reason_string: Some("because it is so"),
        ..DisconnectProps::default()
    };
    server.disconnect(ReasonCode::ServerBusy, &props, &mut out);
    assert_eq!(out, bytes("E0 [ 89 ]"));
}

/// [MQTT-3.2.2-19] [MQTT-3.2.2-20]
#[test]
fn connack_drops_words_that_would_not_fit() {
    let mut server = ServerSide::new(limits());
    server_event(
        &mut server,
        &bytes("10 [ 'MQTT' 05 02 003c [ 27 00000019 ] 'c' ]"),
    );
    let mut out = Vec::new();
    let user = [("key", "value")];
    let a = ConnAck {
        reason_string: Some("hi"),
        user: Some(&user),
        ..ConnAck::default()
    };
    server.connack(&a, &mut out);
    assert_eq!(
        out,
        bytes("20 [ 00 00 [ 21 0003 22 0004 27 00001000 1F 'hi' ] ]")
    );
}

/// [MQTT-3.1.2-29]
#[test]
fn a_client_that_wants_no_problem_information_hears_none_but_in_connack_and_disconnect() {
    let (_, mut server) = pair(
        &ConnectOut {
            request_problem_info: false,
            ..v5("c")
        },
        limits(),
    );
    let info = Info {
        reason_string: Some("why"),
        user: None,
    };
    let mut out = Vec::new();
    server.ack_with(
        PacketType::PubRec,
        1,
        ReasonCode::QuotaExceeded,
        &info,
        &mut out,
    );
    server.suback_with(2, &[ReasonCode::Success], &info, &mut out);
    server.unsuback_with(3, &[ReasonCode::Success], &info, &mut out);
    assert_eq!(
        out,
        bytes("50 [ 0001 97 ] 90 [ 0002 [] 00 ] B0 [ 0003 [] 00 ]")
    );
    out.clear();
    server.disconnect(
        ReasonCode::ServerBusy,
        &DisconnectProps {
            reason_string: Some("why"),
            ..DisconnectProps::default()
        },
        &mut out,
    );
    assert_eq!(out, bytes("E0 [ 89 [ 1F 'why' ] ]"));
}

/// [MQTT-3.1.2-28]
#[test]
fn response_information_is_returned_only_on_request() {
    for (asked, expected) in [(false, None), (true, Some("answers/"))] {
        let mut client = ClientSide::new(1 << 20);
        let mut server = ServerSide::new(limits());
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client
            .connect(
                &ConnectOut {
                    request_response_info: asked,
                    ..v5("c")
                },
                &mut there,
            )
            .expect("fits");
        server_event(&mut server, &there);
        server.connack(
            &ConnAck {
                response_information: Some("answers/"),
                ..ConnAck::default()
            },
            &mut back,
        );
        let ClientEvent::ConnAck(a) = client_event(&mut client, &back) else {
            panic!("not CONNACK")
        };
        assert_eq!(a.values.response_information, expected);
    }
}

/// [MQTT-3.2.2-2] [MQTT-3.2.2-3] [MQTT-3.2.2-6] [MQTT3-3.2.2-1] [MQTT3-3.2.2-2] [MQTT3-3.2.2-3] [MQTT3-3.2.2-4]
#[test]
fn session_present_is_said_only_where_it_can_be() {
    for (connect, reason, expected) in [
        ("10 [ 'MQTT' 05 00 003c [] 'c' ]", ReasonCode::Success, 1),
        ("10 [ 'MQTT' 05 02 003c [] 'c' ]", ReasonCode::Success, 0),
        (
            "10 [ 'MQTT' 05 00 003c [] 'c' ]",
            ReasonCode::NotAuthorized,
            0,
        ),
        ("10 [ 'MQTT' 04 00 003c 'c' ]", ReasonCode::Success, 1),
        ("10 [ 'MQTT' 04 02 003c 'c' ]", ReasonCode::Success, 0),
        ("10 [ 'MQTT' 04 00 003c 'c' ]", ReasonCode::NotAuthorized, 0),
        ("10 [ 'MQIsdp' 03 00 003c 'c' ]", ReasonCode::Success, 0),
    ] {
        let mut server = ServerSide::new(limits());
        let mut out = Vec::new();
        server_event(&mut server, &bytes(connect));
        server.connack(
            &ConnAck {
                session_present: true,
                reason,
                ..ConnAck::default()
            },
            &mut out,
        );
        assert_eq!(out[2], expected, "{connect}");
        assert_eq!(server.is_connected(), reason == ReasonCode::Success);
        // A second CONNACK is never written. [MQTT-3.2.0-2]
        let before = out.len();
        server.connack(&ConnAck::default(), &mut out);
        assert_eq!(out.len(), before);
    }
}

/// [MQTT3-3.2.2-5] [MQTT3-3.2.2-6]
#[test]
fn mqtt3_hears_refusals_as_return_codes() {
    for (reason, code) in [
        (ReasonCode::UnsupportedProtocolVersion, 1),
        (ReasonCode::ClientIdentifierNotValid, 2),
        (ReasonCode::ServerUnavailable, 3),
        (ReasonCode::ServerBusy, 3),
        (ReasonCode::QuotaExceeded, 3),
        (ReasonCode::BadUserNameOrPassword, 4),
        (ReasonCode::NotAuthorized, 5),
        (ReasonCode::Banned, 5),
    ] {
        let mut server = ServerSide::new(limits());
        server_event(&mut server, &bytes("10 [ 'MQTT' 04 02 003c 'c' ]"));
        let mut out = Vec::new();
        server.fault(
            &PeerFault {
                reason,
                clause: "§0",
                what: "refused",
            },
            &mut out,
        );
        assert_eq!(out, [0x20, 2, 0, code], "{reason}");
    }
}

/// [MQTT-3.1.4-6] [MQTT-3.2.0-1] [MQTT-3.14.0-1]
#[test]
fn what_a_client_sends_behind_connect_waits_for_connack() {
    let mut server = ServerSide::new(limits());
    let mut out = Vec::new();
    server_event(&mut server, &bytes("10 [ 'MQTT' 05 02 003c [] 'c' ]"));
    let eager = bytes("30 [ 't' [] ]");
    assert_eq!(server.handle_input(&eager), Ok(None));
    // Nothing but CONNACK and AUTH is written before the client is accepted.
    assert!(
        server
            .publish(
                &PublishOut {
                    topic: "t",
                    ..PublishOut::default()
                },
                &mut out
            )
            .is_err()
    );
    server.puback(1, ReasonCode::Success, &mut out);
    server.suback(1, &[ReasonCode::Success], &mut out);
    server.pingresp(&mut out);
    assert!(out.is_empty());
    server.connack(&ConnAck::default(), &mut out);
    assert!(matches!(
        server_event(&mut server, &eager),
        Event::Publish(_)
    ));
    // Refused instead: no DISCONNECT, and nothing more is read.
    let mut server = ServerSide::new(limits());
    server_event(&mut server, &bytes("10 [ 'MQTT' 05 02 003c [] 'c' ]"));
    server.connack(
        &ConnAck {
            reason: ReasonCode::Banned,
            ..ConnAck::default()
        },
        &mut out,
    );
    out.clear();
    server.disconnect(
        ReasonCode::ServerBusy,
        &DisconnectProps::default(),
        &mut out,
    );
    assert!(out.is_empty());
    assert_eq!(server.handle_input(&eager), Ok(None));
}

/// [MQTT-3.1.2-30]
#[test]
fn during_authentication_only_auth_and_disconnect_are_heard() {
    let mut server = ServerSide::new(limits());
    server_event(
        &mut server,
        &bytes("10 [ 'MQTT' 05 02 003c [ 15 'X' ] 'c' ]"),
    );
    assert_eq!(
        server.handle_input(&bytes("30 [ 't' [] ]")),
        Err(PeerFault::BEFORE_CONNACK)
    );
    assert!(matches!(
        server_event(&mut server, &bytes("F0 [ 18 [ 15 'X' ] ]")),
        Event::Auth(_)
    ));
    assert!(matches!(
        server_event(&mut server, &bytes("E0 00")),
        Event::Disconnect(_)
    ));
    // [MQTT-4.12.0-6] [MQTT-4.12.0-7] Without a method neither side sends AUTH.
    let (mut client, mut server) = plain_pair(V5);
    let mut out = Vec::new();
    server.auth(ReasonCode::ContinueAuthentication, "X", None, &mut out);
    client.auth(ReasonCode::ReAuthenticate, "X", None, &mut out);
    assert!(out.is_empty());
}

/// [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT3-3.14.4-1] [MQTT3-3.14.4-2]
#[test]
fn after_disconnect_nothing_is_read_or_written() {
    for version in [Version::V31, Version::V311, V5] {
        let (mut client, mut server) = plain_pair(version);
        let mut out = Vec::new();
        client.disconnect(ReasonCode::Success, &DisconnectProps::default(), &mut out);
        assert_eq!(out, bytes("E0 00"));
        assert!(matches!(
            server_event(&mut server, &out),
            Event::Disconnect(_)
        ));
        out.clear();
        let message = PublishOut {
            topic: "t",
            ..PublishOut::default()
        };
        assert!(server.publish(&message, &mut out).is_err());
        assert_eq!(
            client.publish(&message, &mut out),
            Err(PublishError::NotConnected)
        );
        server.pingresp(&mut out);
        client.ping(&mut out);
        server.disconnect(
            ReasonCode::ServerBusy,
            &DisconnectProps::default(),
            &mut out,
        );
        assert!(out.is_empty());
        assert_eq!(server.handle_input(&bytes("C0 00")), Ok(None));
        assert!(matches!(client.handle_input(&bytes("D0 00")), Ok(None)));
    }
}

/// [MQTT-3.2.2-9] [MQTT-3.2.2-11] [MQTT-3.2.2-14]
#[test]
fn what_connack_ruled_out_is_refused() {
    for (a, text, fault) in [
        (
            ConnAck {
                maximum_qos: QoS::AtLeastOnce,
                ..ConnAck::default()
            },
            "34 [ 't' 0001 [] ]",
            PeerFault::QOS_NOT_SUPPORTED,
        ),
        (
            ConnAck {
                maximum_qos: QoS::AtMostOnce,
                ..ConnAck::default()
            },
            "32 [ 't' 0001 [] ]",
            PeerFault::QOS_NOT_SUPPORTED,
        ),
        (
            ConnAck {
                retain_available: false,
                ..ConnAck::default()
            },
            "31 [ 't' [] ]",
            PeerFault::RETAIN_NOT_SUPPORTED,
        ),
    ] {
        let mut server = ServerSide::new(limits());
        server_event(&mut server, &bytes("10 [ 'MQTT' 05 02 003c [] 'c' ]"));
        server.connack(&a, &mut Vec::new());
        assert_eq!(server.handle_input(&bytes(text)), Err(fault));
        server_event(&mut server, &bytes("30 [ 't' [] ]"));
    }
}

/// [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11] [MQTT-3.3.2-9] [MQTT-3.2.2-17] [MQTT-3.2.2-18]
#[test]
fn outgoing_aliases_stay_within_both_maxima() {
    for (client_max, expected_max) in [(0, 0), (2, 2), (100, 4)] {
        let (mut client, mut server) = pair(
            &ConnectOut {
                topic_alias_max: client_max,
                ..v5("c")
            },
            limits(),
        );
        let mut highest = 0;
        for round in 0..50 {
            let topic = format!("some/topic/{}", round % 6);
            let mut out = Vec::new();
            let message = PublishOut {
                topic: &topic,
                allow_alias: true,
                payload: b"x",
                ..PublishOut::default()
            };
            server.publish(&message, &mut out).expect("fits");
            let ClientEvent::Publish(p) = client_event(&mut client, &out) else {
                panic!("not PUBLISH")
            };
            assert_eq!(p.topic.as_str(), topic);
            assert!(!p.plain || expected_max == 0);
            highest = highest.max(p.properties.topic_alias().unwrap_or(0));
        }
        assert_eq!(highest, expected_max);
    }
    // A message that is too large defines no alias.
    let connect = ConnectOut {
        topic_alias_max: 2,
        packet_bytes_max: Some(30),
        ..v5("c")
    };
    let (mut client, mut server) = pair(&connect, limits());
    let mut out = Vec::new();
    let large = PublishOut {
        topic: "topic",
        allow_alias: true,
        payload: &[0; 50],
        ..PublishOut::default()
    };
    assert!(server.publish(&large, &mut out).is_err());
    server
        .publish(
            &PublishOut {
                payload: b"x",
                ..large
            },
            &mut out,
        )
        .expect("fits");
    let ClientEvent::Publish(p) = client_event(&mut client, &out) else {
        panic!("not PUBLISH")
    };
    assert_eq!(p.topic.as_str(), "topic");
}

#[test]
fn plain_frames_are_those_that_may_be_sent_on_verbatim() {
    let (_, mut server) = plain_pair(V5);
    for (text, plain) in [
        ("30 [ 'a' [] \"x\" ]", true),
        ("30 [ 'a' [ 26 'k' 'v' ] \"x\" ]", true),
        ("31 [ 'a' [] \"x\" ]", false),
        ("32 [ 'a' 0001 [] \"x\" ]", false),
        ("30 [ 'a' [ 02 00000001 ] \"x\" ]", false),
        ("30 [ 'a' [ 23 0001 ] \"x\" ]", false),
        ("30 [ '' [ 23 0001 ] \"x\" ]", false),
    ] {
        let input = bytes(text);
        let Event::Publish(p) = server_event(&mut server, &input) else {
            panic!("not PUBLISH")
        };
        assert_eq!(
            (p.plain, p.frame, p.topic.as_str()),
            (plain, &input[..], "a"),
            "{text}"
        );
    }
    let (_, mut server) = plain_pair(Version::V311);
    let input = bytes("30 [ 'a' \"x\" ]");
    let Event::Publish(p) = server_event(&mut server, &input) else {
        panic!("not PUBLISH")
    };
    assert!(p.plain);
}

/// [MQTT-3.1.3-5] [MQTT-3.1.3-6] [MQTT3-3.1.3-5] [MQTT3-3.1.3-6] [MQTT3-3.1.3-7]
#[test]
fn client_identifiers_of_every_legal_kind_are_taken() {
    let all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for text in [
        format!("10 [ 'MQTT' 05 02 003c [] '{}' ]", &all[..23]),
        format!("10 [ 'MQTT' 04 02 003c '{}' ]", &all[39..]),
        "10 [ 'MQTT' 05 00 003c [] '' ]".into(),
        "10 [ 'MQTT' 05 02 003c [] '' ]".into(),
        "10 [ 'MQTT' 04 02 003c '' ]".into(),
    ] {
        let mut server = ServerSide::new(limits());
        assert!(
            matches!(server_event(&mut server, &bytes(&text)), Event::Connect(_)),
            "{text}"
        );
    }
}
