//! A network that delivers one byte at a time changes nothing.

use thalweg_wire::testkit::{Side, feed_bytewise, feed_whole, parse_transcript};

use super::*;

/// Events of a server, and the remaining bytes.
fn server_hears(
    limits: ServerLimits,
    input: &[u8],
    bytewise: bool,
) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut server = ServerSide::new(limits);
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = server.handle_input(bytes)? else {
            return Ok(None);
        };
        heard.push(format!("{event:?}"));
        if let Event::Connect(_) = event {
            server.connack(&ConnAck::default(), &mut Vec::new());
        }
        settle(&mut server, &event);
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    (heard, left)
}

fn settle(server: &mut ServerSide, event: &Event<'_>) {
    if let Event::Publish(p) = event {
        match p.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => server.puback(p.id, ReasonCode::Success, &mut Vec::new()),
            QoS::ExactlyOnce => server.pubcomp(p.id, ReasonCode::Success, &mut Vec::new()),
        }
    }
}

/// Events of a client, and the remaining bytes.
fn client_hears(
    connect: &[u8],
    input: &[u8],
    bytewise: bool,
) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut client = ClientSide::new(1 << 20);
    let mut server = ServerSide::new(limits());
    let (_, event) = server
        .handle_input(connect)
        .expect("valid")
        .expect("complete");
    mirror::by_client(&event, &mut client, &mut Vec::new());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = client.handle_input(bytes)? else {
            return Ok(None);
        };
        heard.push(format!("{event:?}"));
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    (heard, left)
}

/// [MQTT-4.2.0-1] [MQTT-6.0.0-2] [MQTT3-7.1.1-1]
#[test]
fn one_byte_at_a_time_says_the_same_as_all_at_once() {
    for (name, text) in transcripts::ALL {
        let lines = parse_transcript(text).expect("it parses");
        let of = |side: Side| -> Vec<u8> {
            lines
                .iter()
                .filter(|line| line.side == side)
                .flat_map(|line| line.bytes.clone())
                .collect()
        };
        // The session ends once; what came before it is repeated to make it long.
        let mut input = of(Side::Client);
        let whole = server_hears(transcripts::limits_of(name), &input, false);
        assert!(!whole.0.is_empty() || whole.1.is_err(), "{name}");
        assert_eq!(
            whole,
            server_hears(transcripts::limits_of(name), &input, true),
            "{name}"
        );
        let extra = bytes("30 [ 'a/b' [] \"x\" ] C0 00 32 [ 'a/b' 0001 [] ]");
        input.extend(extra.repeat(100));
        assert_eq!(
            server_hears(transcripts::limits_of(name), &input, false),
            server_hears(transcripts::limits_of(name), &input, true),
            "{name}"
        );
        if lines[0].mark == thalweg_wire::testkit::Mark::Canonical {
            let input = of(Side::Server);
            let whole = client_hears(&lines[0].bytes, &input, false);
            assert_eq!(whole, client_hears(&lines[0].bytes, &input, true), "{name}");
        }
    }
}

#[test]
fn the_length_of_a_frame_is_known_from_its_header() {
    let input = bytes("30 [ 'a/b' [] \"payload\" ] C0 00");
    assert_eq!(ServerSide::frame_len(&[]), None);
    assert_eq!(ServerSide::frame_len(&input[..1]), None);
    assert_eq!(ServerSide::frame_len(&input[..2]), Some(15));
    assert_eq!(ServerSide::frame_len(&bytes("30 80")), None);
    assert_eq!(ServerSide::frame_len(&bytes("30 80 01")), Some(131));
}

#[test]
fn a_publish_is_decoded_outside_of_a_connection() {
    let input = bytes("30 07 00 01 61 00 78 79 7A 30");
    for end in 0..9 {
        assert_eq!(Publish::decode(&input[..end], 64), Ok(None), "{end}");
    }
    let (length, publish) = Publish::decode(&input, 64)
        .expect("it is one")
        .expect("it is whole");
    assert_eq!((length, publish.topic.as_str()), (9, "a"));
    assert_eq!(
        (publish.payload, publish.qos),
        (&b"xyz"[..], QoS::AtMostOnce)
    );
    let fault = |text: &str, max| Publish::decode(&bytes(text), max).map(|_| ());
    assert_eq!(fault("30 07", 8), Err(PeerFault::PACKET_TOO_LARGE));
    assert_eq!(fault("E0 00", 64), Err(PeerFault::DIRECTION));
    // Topic alias 1, which is not defined.
    let alias = fault("30 06 00 00 03 23 00 01", 64);
    assert_eq!(alias, Err(PeerFault::TOPIC_ALIAS_TOO_HIGH));
}
