//! Both machines talk to each other.

use thalweg_wire::testkit::Dice;

use super::*;
use crate::methods::{basic, channel, connection, queue};

const SEED: u64 = 7;

#[test]
fn messages_of_all_sizes_arrive_as_they_were_sent_however_they_are_cut() {
    let limits = ServerLimits {
        frame_max: 4096,
        ..ServerLimits::default()
    };
    let (mut client, mut server) = pair(limits);
    let mut dice = Dice::new(SEED);
    let (mut wire, mut sent) = (Vec::new(), Vec::new());
    for number in 0..300 {
        let size = [0, 1, 36, 1024, 4087, 4088, 4089, 20_000][dice.below(8)];
        let body: Vec<u8> = (0..size).map(|_| dice.throw() as u8).collect();
        let ch = 1 + dice.below(2) as u16;
        let key = format!("key.{number}");
        let publish = basic::Publish {
            exchange: "amq.topic",
            routing_key: &key,
            mandatory: number % 2 == 0,
            immediate: false,
        };
        let properties = BasicProperties {
            message_id: Some(&key),
            delivery_mode: Some(2),
            ..BasicProperties::default()
        };
        client
            .publish(
                ch,
                &publish,
                ContentHeader::Properties(&properties),
                &body,
                &mut wire,
            )
            .expect("it fits");
        sent.push((ch, key, body));
    }
    let (mut heard, mut arrived, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    let (mut back, mut tag) = (Vec::new(), 0);
    for piece in wire.chunks(1 + dice.below(3000)) {
        arrived.extend_from_slice(piece);
        let mut from = 0;
        while let Some((consumed, event)) = server
            .handle_input(&arrived[from..], &mut gathered)
            .expect("valid")
        {
            if let Event::Publish(p) = event {
                assert_eq!(p.properties.message_id, Some(p.routing_key), "seed {SEED}");
                assert_eq!(p.mandatory, heard.len() % 2 == 0);
                heard.push((p.ch, p.routing_key.to_owned(), p.payload.to_vec()));
                tag += 1;
                // The machine can be used while the event is held, and the header is good for another frame size.
                let (exchange, routing_key) = (p.exchange, p.routing_key);
                let deliver = basic::Deliver {
                    consumer_tag: "c",
                    delivery_tag: tag,
                    redelivered: false,
                    exchange,
                    routing_key,
                };
                server
                    .deliver(
                        p.ch,
                        &deliver,
                        ContentHeader::Raw(p.header),
                        p.payload,
                        &mut back,
                    )
                    .expect("it fits");
            }
            from += consumed;
        }
        arrived.drain(..from);
    }
    assert!(arrived.is_empty());
    assert_eq!(heard, sent, "seed {SEED}");
    let mut delivered = Vec::new();
    client_hears(&mut client, &back, |_, event| {
        if let ClientEvent::Content {
            ch,
            method: Method::BasicDeliver(deliver),
            payload,
            properties,
            ..
        } = event
        {
            assert_eq!(properties.delivery_mode, Some(2));
            delivered.push((*ch, deliver.routing_key.to_owned(), payload.to_vec()));
        }
    });
    assert_eq!(delivered, sent, "seed {SEED}");
}

#[test]
fn publishes_on_a_channel_with_confirms_are_numbered() {
    let (mut client, mut server) = pair(ServerLimits::default());
    let (mut wire, publish, header) = (
        Vec::new(),
        basic::Publish::default(),
        ContentHeader::Raw(&[]),
    );
    assert_eq!(client.publish(1, &publish, header, b"a", &mut wire), Ok(0));
    client.confirm_select(1, false, &mut wire);
    assert_eq!(client.publish(1, &publish, header, b"b", &mut wire), Ok(1));
    assert_eq!(client.publish(2, &publish, header, b"c", &mut wire), Ok(0));
    assert_eq!(client.publish(1, &publish, header, b"d", &mut wire), Ok(2));
    assert_eq!(client.publish(9, &publish, header, b"e", &mut wire), Ok(0));
    let mut payloads = Vec::new();
    server_hears(&mut server, &wire, |_, event| {
        if let Event::Publish(p) = event {
            payloads.extend_from_slice(p.payload);
        }
    });
    assert_eq!(payloads, b"abcd");
    let mut out = Vec::new();
    server.ack(1, 2, true, &mut out);
    let mut acks = Vec::new();
    client_hears(&mut client, &out, |_, event| {
        if let ClientEvent::Method {
            ch: 1,
            method: Method::BasicAck(ack),
        } = event
        {
            acks.push(*ack);
        }
    });
    assert_eq!(
        acks,
        [basic::Ack {
            delivery_tag: 2,
            multiple: true
        }]
    );
    // A new channel with the same number counts anew.
    let mut wire = Vec::new();
    client.channel_close(1, ReplyCode::ReplySuccess, "", MethodId::NONE, &mut wire);
    client_hears(
        &mut client,
        &bytes("01 0001 000000 [ 0014 0029 ] CE"),
        |_, _| {},
    );
    client.channel_open(1, &mut wire);
    client_hears(
        &mut client,
        &bytes("01 0001 000000 [ 0014 000B 00000000 ] CE"),
        |_, _| {},
    );
    assert_eq!(client.publish(1, &publish, header, b"f", &mut wire), Ok(0));
}

#[test]
fn nothing_comes_out_while_the_server_owes_an_answer() {
    let mut server = ServerSide::new(ServerLimits::default());
    let mut gathered = Gathered::default();
    let mut out = Vec::new();
    let start_ok =
        bytes("01 0000 000000 [ 000A 000B 00000000 [ \"PLAIN\" ] 00000000 [ \"en_US\" ] ] CE");
    let tune_ok = bytes("01 0000 000000 [ 000A 001F 07FF 00020000 0000 ] CE");
    let open =
        bytes("01 0000 000000 [ 000A 0028 [ \"/\" ] 00 00 ] CE 01 0001 000000 [ 0014 000A 00 ] CE");
    let input = [b"AMQP\x00\x00\x09\x01".to_vec(), start_ok, tune_ok, open].concat();
    let (mut from, mut events) = (0, 0);
    while let Some((consumed, event)) = server
        .handle_input(&input[from..], &mut gathered)
        .expect("valid")
    {
        from += consumed;
        events += 1;
        if matches!(
            event,
            Event::ProtocolHeader | Event::StartOk(_) | Event::Open { .. }
        ) {
            assert!(
                server
                    .handle_input(&input[from..], &mut Gathered::default())
                    .expect("valid")
                    .is_none()
            );
        }
        welcome(&mut server, &event, &mut out);
    }
    assert_eq!((events, from), (5, input.len()));
    assert_eq!(server.heartbeat_seconds(), 0);
    assert!(server.is_channel_open(1));
}

#[test]
fn a_refused_login_is_told_and_then_only_the_end_is_heard() {
    let mut server = ServerSide::new(ServerLimits::default());
    let mut out = Vec::new();
    let input = [
        b"AMQP\x00\x00\x09\x01".to_vec(),
        bytes("01 0000 000000 [ 000A 000B 00000000 [ \"PLAIN\" ] 00000000 [ \"en_US\" ] ] CE"),
        bytes("01 0000 000000 [ 000A 0028 [ \"/\" ] 00 00 ] CE 01 0000 000000 [ 000A 0033 ] CE 08 0000 00000000 CE"),
    ]
    .concat();
    let mut heard = Vec::new();
    let left = server_hears(&mut server, &input, |server, event| {
        heard.push(
            format!("{event:?}")
                .split([' ', '('])
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
        match event {
            Event::StartOk(_) => server.close(
                ReplyCode::AccessRefused,
                "Login was refused",
                MethodId::NONE,
                &mut out,
            ),
            other => welcome(server, other, &mut out),
        }
    });
    assert_eq!(
        heard,
        ["ProtocolHeader", "StartOk", "Consumed", "CloseConnectionOk"]
    );
    assert_eq!(
        left,
        bytes("08 0000 00000000 CE"),
        "nothing is heard after the end"
    );
    let close = bytes(
        "01 0000 000000 [ 000A 0032 0193 [ \"ACCESS_REFUSED - Login was refused\" ] 0000 0000 ] CE",
    );
    assert!(out.ends_with(&close));
}

#[test]
fn a_client_of_another_protocol_is_told_ours() {
    let mut server = ServerSide::new(ServerLimits::default());
    let mut out = Vec::new();
    let fault = fault_in(&mut server, b"AMQP\x00\x01");
    assert_eq!(fault.scope, Scope::ProtocolHeader);
    server.fault(&fault, &mut out);
    assert_eq!(out, b"AMQP\x00\x00\x09\x01");
    assert!(
        server
            .handle_input(b"AMQP\x00\x01\x00\x00", &mut Gathered::default())
            .expect("closed")
            .is_none()
    );
    let mut client = client();
    client.connect(&mut Vec::new());
    let mut gathered = Gathered::default();
    assert!(
        client
            .handle_input(b"AMQP", &mut gathered)
            .expect("incomplete")
            .is_none()
    );
    let event = client
        .handle_input(b"AMQP\x00\x01\x00\x00", &mut gathered)
        .expect("valid");
    assert!(matches!(
        event,
        Some((
            8,
            ClientEvent::WrongProtocol([b'A', b'M', b'Q', b'P', 0, 1, 0, 0])
        ))
    ));
}

#[test]
fn both_sides_may_close_a_channel_at_once() {
    let (mut client, mut server) = pair(ServerLimits::default());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.channel_close(
        1,
        ReplyCode::ReplySuccess,
        "bye",
        MethodId::NONE,
        &mut there,
    );
    server.channel_close(
        1,
        ReplyCode::NotFound,
        "no queue 'q'",
        basic::Get::ID,
        &mut back,
    );
    let (mut there2, mut back2) = (Vec::new(), Vec::new());
    server_hears(&mut server, &there, |server, event| {
        welcome(server, event, &mut back2)
    });
    client_hears(&mut client, &back, |client, event| {
        enter(client, event, &mut there2)
    });
    let mut ends = 0;
    server_hears(&mut server, &there2, |_, event| {
        ends += usize::from(matches!(event, Event::ChannelCloseOk(1)))
    });
    client_hears(&mut client, &back2, |_, event| {
        ends += usize::from(matches!(event, ClientEvent::ChannelCloseOk(1)))
    });
    assert_eq!(ends, 2);
    let mut again = Vec::new();
    client.channel_open(1, &mut again);
    let mut opened = 0;
    server_hears(&mut server, &again, |_, event| {
        opened += usize::from(matches!(event, Event::ChannelOpen(1)))
    });
    assert_eq!(opened, 1);
}

#[test]
fn a_fault_names_the_method_and_says_who_is_to_blame() {
    let (_, mut server) = pair(ServerLimits::default());
    let fault = fault_in(&mut server, &bytes("01 0001 000000 [ 003C 0050 00 ] CE"));
    let text = fault.to_string();
    for part in [
        "the peer is at fault",
        "basic.ack: the bytes end inside a field",
        "§4.2.4",
        "502 SYNTAX_ERROR",
        "correct the peer",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let mut out = Vec::new();
    server.fault(&fault, &mut out);
    let reply = "SYNTAX_ERROR - basic.ack: the bytes end inside a field";
    assert_eq!(
        out,
        bytes(&format!(
            "01 0000 000000 [ 000A 0032 01F6 [ \"{reply}\" ] 003C 0050 ] CE"
        ))
    );
    let unknown = fault_in(
        &mut pair(ServerLimits::default()).1,
        &bytes("01 0001 000000 [ 0063 0007 ] CE"),
    );
    assert!(
        unknown.to_string().contains("class 99, method 7"),
        "{unknown}"
    );
}

#[test]
fn methods_have_names_numbers_and_a_direction() {
    assert_eq!(queue::DeclareOk::ID.to_string(), "queue.declare-ok");
    assert_eq!(MethodId::new(60, 40).name(), Some("basic.publish"));
    assert_eq!(MethodId::new(60, 41).name(), None);
    assert_eq!(
        Method::ChannelCloseOk(channel::CloseOk).id(),
        MethodId::new(20, 41)
    );
    assert_eq!(
        Method::ConnectionStartOk(connection::StartOk::default()).sender(),
        codec::Sender::Client
    );
    assert_eq!(
        Method::ConnectionTune(connection::Tune::default()).sender(),
        codec::Sender::Server
    );
    assert_eq!(
        Method::BasicAck(basic::Ack::default()).sender(),
        codec::Sender::Both
    );
    assert!(Method::BasicDeliver(basic::Deliver::default()).has_content());
    assert!(!Method::BasicGet(basic::Get::default()).has_content());
    for code in ReplyCode::ALL {
        assert_eq!(ReplyCode::of(code.code()), Some(*code));
    }
    assert_eq!(ReplyCode::of(599), None);
    assert!(ReplyCode::FrameError.is_hard() && !ReplyCode::NotFound.is_hard());
}

#[test]
fn what_proves_who_one_is_does_not_show_in_logs() {
    let response = b"\0guest\0secret";
    let start_ok = connection::StartOk {
        mechanism: "PLAIN",
        response,
        ..connection::StartOk::default()
    };
    let secure_ok = connection::SecureOk { response };
    let update = connection::UpdateSecret {
        new_secret: response,
        reason: "expired",
    };
    for shown in [
        format!("{:?}", Event::StartOk(start_ok)),
        format!("{:?}", Event::SecureOk(secure_ok)),
        format!("{:?}", Event::UpdateSecret(update)),
        format!("{:?}", Method::ConnectionStartOk(start_ok)),
    ] {
        assert!(
            shown.contains("[13 bytes]") && !shown.contains("115, 101"),
            "{shown}"
        );
    }
}

#[test]
fn a_body_that_looks_like_a_method_is_a_body() {
    let (mut client, mut server) = pair(ServerLimits {
        frame_max: 4096,
        ..ServerLimits::default()
    });
    // The second body frame begins as `basic.publish` and `basic.ack` do.
    for beginning in [[0, 60, 0, 40], [0, 60, 0, 80]] {
        let body = [vec![0; 4088], beginning.to_vec(), vec![0; 9]].concat();
        let mut wire = Vec::new();
        client
            .publish(
                1,
                &basic::Publish::default(),
                ContentHeader::Raw(&[]),
                &body,
                &mut wire,
            )
            .expect("it fits");
        let mut heard = Vec::new();
        assert!(
            server_hears(&mut server, &wire, |_, event| match event {
                Event::Publish(p) => heard.push(p.payload.to_vec()),
                Event::Consumed => {}
                other => panic!("{other:?}"),
            })
            .is_empty()
        );
        assert_eq!(heard, [body]);
    }
}

#[test]
fn a_channel_may_be_refused_before_it_is_open() {
    let (mut client, _) = pair(ServerLimits::default());
    let mut out = Vec::new();
    client.channel_open(3, &mut out);
    let refusal =
        bytes("01 0003 000000 [ 0014 0028 0193 [ \"ACCESS_REFUSED - no\" ] 0014 000A ] CE");
    let mut refused = 0;
    client_hears(&mut client, &refusal, |_, event| {
        refused += usize::from(matches!(
            event,
            ClientEvent::ChannelClose {
                ch: 3,
                code: 403,
                ..
            }
        ));
    });
    assert_eq!(refused, 1);
    out.clear();
    client.channel_open(3, &mut out);
    assert!(!out.is_empty(), "its number is free");
}

#[test]
fn a_method_with_content_is_not_said_without_it() {
    let (mut client, mut server) = pair(ServerLimits::default());
    let mut out = Vec::new();
    server.method(
        1,
        &Method::BasicDeliver(basic::Deliver::default()),
        &mut out,
    );
    client.method(
        1,
        &Method::BasicPublish(basic::Publish::default()),
        &mut out,
    );
    assert_eq!(out, []);
}
