//! Load reports, byte for byte as the thesis's clients send them, in standard packets, and malformed in every way: none
//! of that ends a connection that accepts reports, and a connection that does not accept them reads none.

use proptest::prelude::*;
use thalweg_wire::testkit::Dice;

use super::*;
use crate::load::{REPORT_BYTES_MAX, Refusal, Report, Spelling, Unit};

/// Limits of a server that takes reports.
fn taking() -> ServerLimits {
    ServerLimits {
        load_reports: true,
        ..limits()
    }
}

fn taking_pair() -> (ClientSide, ServerSide) {
    pair(
        &ConnectOut {
            client_id: "c",
            ..ConnectOut::default()
        },
        taking(),
    )
}

/// A PINGREQ with this body.
fn pingreq(body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xC0];
    varint::put(body.len() as u32, &mut packet);
    packet.extend_from_slice(body);
    packet
}

/// Event of a server that accepts reports for a PINGREQ with this body.
fn hears(body: &[u8]) -> PingReq {
    let (_, mut server) = taking_pair();
    match server_event(&mut server, &pingreq(body)) {
        Event::PingReq(said) => said,
        other => panic!("{other:?}"),
    }
}

fn report(waiting: u32, each_ms: f64) -> PingReq {
    PingReq::Report(Report::new(waiting, each_ms))
}

#[test]
fn a_ping_of_the_thesis_is_57_bytes_and_these() {
    let listing = bytes(
        "C0 37 00 7B 22 6E 75 6D 62 65 72 4F 66 4D 73 67 73 49 6E 51 75 65 75 65 22 3A 33 2C 22 70 72 6F 63 65 73 73 69 6E
         67 54 69 6D 65 72 50 65 72 4D 73 67 22 3A 32 35 2E 30 7D",
    );
    assert_eq!(listing.len(), 57);
    let (mut client, mut server) = taking_pair();
    let mut said = Vec::new();
    assert!(client.ping_with(&Report::new(3, 25.0), &mut said));
    assert_eq!(said, listing);
    assert_eq!(
        server_event(&mut server, &listing),
        Event::PingReq(report(3, 25.0))
    );
    let mut back = Vec::new();
    server.pingresp(&mut back);
    assert_eq!(back, [0xD0, 0]);
}

#[test]
fn a_ping_of_the_figure_is_48_bytes_and_with_a_unit_59() {
    let json = Report::new(3, 25.0).json(Spelling::Figure);
    assert_eq!(json, br#"{"msgsInQueue":3,"processingTimePerMsg":25.0}"#);
    let plain = [&[0xC0, 0x2E, 0x00][..], &json].concat();
    assert_eq!(plain.len(), 48);
    let unit = [
        &bytes("C0 39 0B 26 00 04 75 6E 69 74 00 02 6D 73")[..],
        &json,
    ]
    .concat();
    assert_eq!(unit.len(), 59);
    for packet in [plain, unit] {
        let (_, mut server) = taking_pair();
        assert_eq!(
            server_event(&mut server, &packet),
            Event::PingReq(report(3, 25.0))
        );
    }
}

#[test]
fn all_mixtures_of_the_two_spellings_are_read() {
    for waiting in ["numberOfMsgsInQueue", "msgsInQueue"] {
        for each in ["processingTimerPerMsg", "processingTimePerMsg"] {
            let json = format!(" {{ \"{each}\" : 2.5e1 ,\n\"{waiting}\":3.0 }} ");
            assert_eq!(
                hears(&[&[0], json.as_bytes()].concat()),
                report(3, 25.0),
                "{json}"
            );
        }
    }
}

#[test]
fn a_body_without_a_property_block_is_told_by_its_first_two_bytes() {
    let json = Report::new(3, 25.0).json(Spelling::Figure);
    assert_eq!(hears(&json), report(3, 25.0));
    // A property block of 0x7B bytes begins with the same byte and goes on with 0x26.
    let block = bytes(&format!("26 'unit' 'us' 26 '' '{}'", "v".repeat(107)));
    assert_eq!(block.len(), 0x7B);
    let body = [
        &[0x7B][..],
        &block,
        br#"{"msgsInQueue":3,"processingTimePerMsg":25000}"#,
    ]
    .concat();
    assert_eq!(hears(&body), report(3, 25.0));
}

#[test]
fn the_unit_is_milliseconds_unless_a_user_property_says_otherwise() {
    let json = br#"{"msgsInQueue":0,"processingTimePerMsg":25000000,"sd":5000000}"#;
    for (unit, each, sd) in [
        ("ms", None, None),
        ("us", Some(25_000.0), Some(5_000.0)),
        ("ns", Some(25.0), Some(5.0)),
    ] {
        let block = bytes(&format!("[ 26 'unit' '{unit}' ]"));
        let wanted = match each {
            Some(each_ms) => PingReq::Report(Report {
                each_ms,
                sd_ms: sd,
                ..Report::default()
            }),
            None => PingReq::Refused(Refusal::Range),
        };
        assert_eq!(hears(&[&block, &json[..]].concat()), wanted, "{unit}");
    }
    // Unsaid, it may be anything that an hour is, even in nanoseconds: the kernel knows how much was done.
    let unsaid = Report::from_json(
        br#"{"msgsInQueue":0,"processingTimePerMsg":3.6e12}"#,
        Unit::Unsaid,
    );
    assert_eq!(unsaid.map(|report| report.each_ms), Ok(3.6e12));
    for wrong in [
        "26 'unit' 'h'",
        "26 'unit' ''",
        "26 'unit' 'MS' 26 'unit' 'ms'",
    ] {
        let block = bytes(&format!("[ {wrong} ]"));
        assert_eq!(
            hears(&[&block, &json[..]].concat()),
            PingReq::Refused(Refusal::Unit),
            "{wrong}"
        );
    }
}

#[test]
fn what_is_optional_is_read_and_written_and_what_is_unknown_is_passed_over() {
    let json = br#"{"numberOfMsgsInQueue":3,"processingTimerPerMsg":25.0,"inProcess":2,"received":10,"processed":5,"concurrency":4,"sd":1.5}"#;
    let all = Report {
        in_process: Some(2),
        received: Some(10),
        processed: Some(5),
        sd_ms: Some(1.5),
        concurrency: Some(4),
        ..Report::new(3, 25.0)
    };
    assert_eq!(Report::from_json(json, Unit::Unsaid), Ok(all));
    assert_eq!(all.json(Spelling::Listing), json);
    for odd in [
        r#"{"host":"w\"}1\\","up":true,"msgsInQueue":9,"msgsInQueue":3,"processingTimePerMsg":25,"x":null,"":-1e-3}"#,
        r#"{"msgsInQueue":3,"processingTimePerMsg":25,"sd":-1,"concurrency":1e9,"received":"many","inProcess":NaN}"#,
    ] {
        assert_eq!(
            Report::from_json(odd.as_bytes(), Unit::Unsaid),
            Ok(Report::new(3, 25.0)),
            "{odd}"
        );
    }
}

/// Invalid reports, each with the reason.
const HOSTILE: &[(&str, Refusal)] = &[
    (
        r#"{"msgsInQueue":NaN,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":NaN}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":Infinity}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":-Infinity}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":-1,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":-25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":1000001,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":3600000000001}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":1e999,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":99999999999999999999999999,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":"3","processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (
        r#"{"msgsInQueue":null,"processingTimePerMsg":25.0}"#,
        Refusal::Range,
    ),
    (r#"{"msgsInQueue":3}"#, Refusal::Missing),
    (r#"{"processingTimePerMsg":25.0}"#, Refusal::Missing),
    ("{}", Refusal::Missing),
    ("{", Refusal::Syntax),
    ("}", Refusal::Syntax),
    ("[]", Refusal::Syntax),
    ("3;25.0", Refusal::Syntax),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":25.0"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":25.0}}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":25.0} x"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,,"processingTimePerMsg":25.0}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3 "processingTimePerMsg":25.0}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":25,0}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":--1}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":0x19}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"msgsInQueue":3,"processingTimePerMsg":[25.0]}"#,
        Refusal::Syntax,
    ),
    (
        r#"{"a":{"msgsInQueue":3,"processingTimePerMsg":25.0}}"#,
        Refusal::Syntax,
    ),
    (r#"{"msgsInQueue:3,"#, Refusal::Syntax),
    (r#"{"msgsInQueue\":3}"#, Refusal::Syntax),
    (
        r#"{msgsInQueue:3,processingTimePerMsg:25.0}"#,
        Refusal::Syntax,
    ),
];

#[test]
fn a_hostile_report_is_refused_with_its_reason_and_the_connection_goes_on() {
    let (_, mut server) = taking_pair();
    let mut input = Vec::new();
    for (json, _) in HOSTILE {
        input.extend(pingreq(&[&[0], json.as_bytes()].concat()));
    }
    let broken: &[(&[u8], Refusal)] = &[
        (b"\x00{\"msgsInQueue\":\xFF}", Refusal::Syntax),
        // Property blocks: longer than the body, endless, cut in a string, no user property, not UTF-8.
        (&[0x05, 0x26], Refusal::Properties),
        (&[0x80, 0x80, 0x80, 0x80, 0x01], Refusal::Properties),
        (&[0xFF], Refusal::Properties),
        (
            &[0x05, 0x26, 0x00, 0x04, b'u', b'n', b'i', b't'],
            Refusal::Properties,
        ),
        (&[0x02, 0x01, 0x01, b'{', b'}'], Refusal::Properties),
        (&[0x05, 0x02, 0, 0, 0, 1, b'{', b'}'], Refusal::Properties),
        (
            &[0x06, 0x26, 0x00, 0x01, 0xFF, 0x00, 0x00, b'{', b'}'],
            Refusal::Properties,
        ),
        (&[0x7B, 0x26], Refusal::Properties),
        (b" {}", Refusal::Properties),
    ];
    for (body, _) in broken {
        input.extend(pingreq(body));
    }
    input.extend([0xC0, 0]);
    let mut wanted: Vec<_> = HOSTILE
        .iter()
        .map(|(_, why)| PingReq::Refused(*why))
        .collect();
    wanted.extend(broken.iter().map(|(_, why)| PingReq::Refused(*why)));
    wanted.push(PingReq::Plain);
    let mut rest = &input[..];
    for (number, wanted) in wanted.iter().enumerate() {
        let (consumed, event) = server
            .handle_input(rest)
            .expect("no fault")
            .expect("complete");
        assert_eq!(
            event,
            Event::PingReq(*wanted),
            "{number}: {:?}",
            rest.get(..60)
        );
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_report_of_1024_bytes_is_read_and_one_more_is_not_looked_at() {
    let mut json = Report::new(3, 25.0).json(Spelling::Figure);
    while json.len() < REPORT_BYTES_MAX - 1 {
        json.push(b' ');
    }
    let body = [&[0], &json[..]].concat();
    assert_eq!(hears(&body), report(3, 25.0));
    let body = [&body[..], b" "].concat();
    assert_eq!(hears(&body), PingReq::Refused(Refusal::TooLong));
    assert_eq!(
        Report::from_json(&body[1..], Unit::Unsaid),
        Report::from_json(&json, Unit::Unsaid)
    );
    assert_eq!(
        Report::from_json(&[b' '; 1025], Unit::Unsaid),
        Err(Refusal::TooLong)
    );
    assert_eq!(Report::from_text(&"1".repeat(1025)), Err(Refusal::TooLong));
}

#[test]
fn a_body_of_two_million_bytes_is_answered_at_its_beginning_and_passed_over_without_being_collected()
 {
    // Above the Maximum Packet Size of 4096 that this server announces.
    let (_, mut server) = taking_pair();
    let mut input = pingreq(&vec![b'{'; 2_000_000]);
    input.extend([0xC0, 0]);
    let mut heard = Vec::new();
    let (mut from, mut kept_max) = (0, 0);
    for until in (0..=input.len()).step_by(1500).chain([input.len()]) {
        while let Some((consumed, event)) =
            server.handle_input(&input[from..until]).expect("no fault")
        {
            assert!(consumed > 0);
            assert!(server.is_connected());
            from += consumed;
            if event != Event::PassedOver {
                heard.push(event);
            }
        }
        kept_max = kept_max.max(until - from);
    }
    let refused = Event::PingReq(PingReq::Refused(Refusal::TooLong));
    assert_eq!(heard, [refused, Event::PingReq(PingReq::Plain)]);
    assert!(kept_max < 5, "{kept_max} bytes had to be kept");
    // Any other packet of that size is a fault as ever, and so is this one where no reports are taken.
    let publish = [&[0x30][..], &input[1..10]].concat();
    assert_eq!(
        server.handle_input(&publish),
        Err(PeerFault::PACKET_TOO_LARGE)
    );
    let (_, mut plain) = plain_pair(Version::V5);
    assert_eq!(
        plain.handle_input(&input[..10]),
        Err(PeerFault::PACKET_TOO_LARGE)
    );
}

#[test]
fn what_came_behind_a_body_that_is_passed_over_is_read() {
    // Above the Maximum Packet Size of 4096 that this server announces, and all of it in one read.
    for behind in [&[][..], &[0xC0, 0, 0xC0, 0]] {
        let (_, mut server) = taking_pair();
        let long = pingreq(&[b'{'; 5000]);
        let input = [&long[..], behind].concat();
        let refused = Event::PingReq(PingReq::Refused(Refusal::TooLong));
        assert_eq!(server.handle_input(&input), Ok(Some((long.len(), refused))));
        let rest = &input[long.len()..];
        let plain = (!rest.is_empty()).then_some((2, Event::PingReq(PingReq::Plain)));
        assert_eq!(server.handle_input(rest), Ok(plain));
        assert_eq!(
            server.handle_input(&[0xC0, 0]),
            Ok(Some((2, Event::PingReq(PingReq::Plain))))
        );
    }
}

#[test]
fn the_goodbye_is_heard_by_who_is_being_passed_over() {
    let (_, mut server) = taking_pair();
    let input = pingreq(&[0; 2000]);
    assert!(
        server
            .handle_input(&input[..100])
            .is_ok_and(|event| event.is_some())
    );
    let mut out = Vec::new();
    server.disconnect(
        ReasonCode::ServerShuttingDown,
        &DisconnectProps::default(),
        &mut out,
    );
    assert_eq!(out, bytes("E0 [ 8B ]"));
    assert_eq!(server.handle_input(&input[100..]), Ok(None));
}

#[test]
fn a_report_that_never_ends_is_waited_for_like_any_packet_while_it_could_still_be_one() {
    let (_, mut server) = taking_pair();
    let input = pingreq(&[0; REPORT_BYTES_MAX]);
    assert_eq!(server.handle_input(&input[..REPORT_BYTES_MAX]), Ok(None));
    assert_eq!(server.handle_input(&[0xC0, 0x80]), Ok(None));
    assert_eq!(
        server.handle_input(&[0xC0, 0xFF, 0xFF, 0xFF, 0xFF]),
        Err(PeerFault::LENGTH_MALFORMED)
    );
}

/// §3.12: PINGREQ has no payload.
#[test]
fn a_ping_with_a_body_is_malformed_in_mqtt_3_and_wherever_reports_are_not_taken() {
    let input = pingreq(&[&[0], &Report::new(3, 25.0).json(Spelling::Listing)[..]].concat());
    for (version, limits) in [
        (Version::V5, limits()),
        (Version::V311, taking()),
        (Version::V31, taking()),
    ] {
        let (mut client, mut server) = pair(
            &ConnectOut {
                version,
                client_id: "c",
                ..ConnectOut::default()
            },
            limits,
        );
        assert_eq!(
            server.handle_input(&input),
            Err(PeerFault::TRAILING),
            "{version:?}"
        );
        let mut out = Vec::new();
        assert!(
            !client.ping_with(&Report::new(3, 25.0), &mut out),
            "{version:?}"
        );
        assert_eq!(out, [0xC0, 0]);
        assert_eq!(
            client.handle_input(&[0xD0, 1, 0]).err(),
            Some(PeerFault::TRAILING)
        );
    }
}

#[test]
fn a_server_announces_that_it_takes_reports_once_and_only_to_those_who_can_send_them() {
    for (version, reason, said) in [
        (Version::V5, ReasonCode::Success, 1),
        (Version::V5, ReasonCode::ServerBusy, 0),
        (Version::V311, ReasonCode::Success, 0),
    ] {
        for limits in [limits(), taking()] {
            let said = said * usize::from(limits.load_reports);
            let mut server = ServerSide::new(limits);
            let mut client = ClientSide::new(1 << 20);
            let mut wire = Vec::new();
            client
                .connect(
                    &ConnectOut {
                        version,
                        client_id: "c",
                        ..ConnectOut::default()
                    },
                    &mut wire,
                )
                .expect("fits");
            server_event(&mut server, &wire);
            let mut back = Vec::new();
            let user = [("k", "v"), ("x-lb-report", "1")];
            let user = if said == 0 { &user[..1] } else { &user[..] };
            server.connack(
                &ConnAck {
                    reason,
                    user: Some(&user),
                    ..ConnAck::default()
                },
                &mut back,
            );
            let text = String::from_utf8_lossy(&back);
            assert_eq!(
                text.matches("x-lb-report").count(),
                said,
                "{version:?} {reason:?}"
            );
            client_event(&mut client, &back);
            assert_eq!(client.offer().load_reports, said == 1);
        }
    }
}

/// Request Problem Information 0 rules user properties out of acknowledgements, not out of CONNACK. [MQTT-3.1.2-29]
#[test]
fn a_client_that_wants_no_problem_information_is_told_all_the_same() {
    let connect = ConnectOut {
        client_id: "c",
        request_problem_info: false,
        ..ConnectOut::default()
    };
    assert!(pair(&connect, taking()).0.offer().load_reports);
}

#[test]
fn a_client_reports_to_nobody_before_connack_nor_more_than_fits() {
    let mut client = ClientSide::new(1 << 20);
    let mut wire = Vec::new();
    client
        .connect(
            &ConnectOut {
                client_id: "c",
                ..ConnectOut::default()
            },
            &mut wire,
        )
        .expect("fits");
    wire.clear();
    assert!(!client.ping_with(&Report::new(3, 25.0), &mut wire));
    assert_eq!(wire, [0xC0, 0]);
    wire.clear();
    client_event(
        &mut client,
        &bytes("20 [ 00 00 [ 27 00000038 26 'x-lb-report' '1' ] ]"),
    );
    assert!(
        !client.ping_with(&Report::new(3, 25.0), &mut wire),
        "57 bytes are one too many"
    );
    assert!(client.ping_with(&Report::new(3, 5.0), &mut wire));
}

/// [MQTT-3.1.2-24] [MQTT-3.2.2-20]
#[test]
fn a_client_with_a_tiny_maximum_packet_size_is_not_told_and_is_let_in_all_the_same() {
    let mut server = ServerSide::new(taking());
    let connect = bytes("10 [ 'MQTT' 05 02 003c [ 27 00000014 ] 'c' ]");
    server_event(&mut server, &connect);
    let mut out = Vec::new();
    server.connack(&ConnAck::default(), &mut out);
    assert!(!out.is_empty() && out.len() <= 20, "{out:02X?}");
    assert!(server.is_connected());
}

#[test]
fn an_acknowledgement_carries_a_report_in_19_bytes() {
    let packet = bytes("40 11 12 34 00 0D 26 00 02 6C 62 00 06 33 3B 32 35 2E 30");
    assert_eq!(packet.len(), 19);
    let (mut client, mut server) = plain_pair(Version::V5);
    let (id, reason) = (0x1234, ReasonCode::Success);
    let load = Some(Ok(Report::new(3, 25.0)));
    assert_eq!(
        server_event(&mut server, &packet),
        Event::PubAck { id, reason, load }
    );
    let text = Report::new(3, 25.0).text();
    let user = [(load::ACK_PROPERTY, &*text)];
    let mut said = Vec::new();
    client.ack_with(
        PacketType::PubAck,
        id,
        reason,
        &Info {
            user: Some(&user),
            ..Info::default()
        },
        &mut said,
    );
    assert_eq!(said, packet);
    said.clear();
    client.ack_with(
        PacketType::PubRec,
        id,
        reason,
        &Info {
            user: Some(&user),
            ..Info::default()
        },
        &mut said,
    );
    assert_eq!(
        server_event(&mut server, &said),
        Event::PubRec { id, reason, load }
    );
    for (text, why) in [
        ("", Refusal::Missing),
        ("3", Refusal::Missing),
        ("3;", Refusal::Syntax),
        (";25", Refusal::Syntax),
        ("3;25;1", Refusal::Syntax),
        ("three;25", Refusal::Syntax),
        ("-3;25", Refusal::Range),
        ("3;NaN", Refusal::Range),
        ("3;1e99", Refusal::Range),
        ("1e7;1", Refusal::Range),
    ] {
        let packet = bytes(&format!("50 [ 1234 00 [ 26 'lb' '{text}' ] ]"));
        assert_eq!(
            server_event(&mut server, &packet),
            Event::PubRec {
                id,
                reason,
                load: Some(Err(why))
            },
            "{text}"
        );
    }
}

#[test]
fn what_is_no_number_is_written_as_none() {
    for each in [f64::NAN, f64::INFINITY, -1.0, -0.0] {
        assert_eq!(Report::new(1, each).text(), "1;0.0");
        let sd = Report {
            sd_ms: Some(each),
            ..Report::new(1, each)
        };
        assert!(
            Report::from_json(&sd.json(Spelling::Listing), Unit::Unsaid)
                .is_ok_and(|read| read.each_ms == 0.0)
        );
    }
}

proptest! {
    #[test]
    fn reports_survive_every_carrier(
        waiting in 0..=1_000_000_u32, each_ms in 0.0..=3.6e6, in_process in prop::option::of(0..=1_000_000_u32),
        received in prop::option::of(0..1_u64 << 53), processed in prop::option::of(0..1_u64 << 53),
        sd_ms in prop::option::of(0.0..=3.6e6), concurrency in prop::option::of(any::<u16>()),
    ) {
        let whole = Report { waiting, each_ms, in_process, received, processed, sd_ms, concurrency };
        for spelling in [Spelling::Listing, Spelling::Figure] {
            prop_assert_eq!(Report::from_json(&whole.json(spelling), Unit::Unsaid), Ok(whole));
        }
        prop_assert_eq!(Report::from_text(&whole.text()), Ok(Report::new(waiting, each_ms)));
        let (mut client, mut server) = taking_pair();
        let mut wire = Vec::new();
        prop_assert!(client.ping_with(&whole, &mut wire));
        prop_assert_eq!(server_event(&mut server, &wire), Event::PingReq(PingReq::Report(whole)));
    }

    #[test]
    fn any_text_is_a_credible_report_or_none(text in "[{}\",:;0-9eE+. a-]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for read in [
            Report::from_json(text.as_bytes(), Unit::Unsaid),
            Report::from_json(&bytes, Unit::Nanoseconds),
            Report::from_text(&text),
        ] {
            prop_assert!(read.map_or(true, credible), "{:?}", read);
        }
    }
}

fn credible(report: Report) -> bool {
    report.waiting <= 1_000_000
        && report.each_ms.is_finite()
        && (0.0..=3.6e12).contains(&report.each_ms)
}

#[test]
fn damaged_pings_never_end_a_connection_and_are_credible_or_refused() {
    const SEED: u64 = 20_261_121;
    let mut dice = Dice::new(SEED);
    let (_, mut server) = taking_pair();
    let (mut read, mut refused) = (0, 0);
    for round in 0..100_000 {
        let spelling = if dice.below(2) == 0 {
            Spelling::Listing
        } else {
            Spelling::Figure
        };
        let unit: &[u8] = if dice.below(2) == 0 {
            &[0]
        } else {
            b"\x0B\x26\x00\x04unit\x00\x02us"
        };
        let report = Report {
            concurrency: Some(dice.below(9) as u16),
            ..Report::new(dice.below(99) as u32, 2.5)
        };
        let mut body = [unit, &report.json(spelling)].concat();
        for _ in 0..dice.below(4) {
            let at = dice.below(body.len().max(1));
            match dice.below(4) {
                0 => body.truncate(at),
                1 => body.insert(at.min(body.len()), dice.throw() as u8),
                2 => drop((at < body.len()).then(|| body.remove(at))),
                _ => body
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 1 << dice.below(8)),
            }
        }
        match server_event(&mut server, &pingreq(&body)) {
            Event::PingReq(PingReq::Report(report)) => {
                assert!(credible(report), "seed {SEED}, round {round}: {report:?}");
                read += 1;
            }
            Event::PingReq(_) => refused += 1,
            other => panic!("seed {SEED}, round {round}: {other:?}"),
        }
    }
    assert!(
        read > 10_000 && refused > 10_000,
        "{read} read, {refused} refused"
    );
}
