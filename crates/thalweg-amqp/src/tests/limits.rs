//! Limits, and the behaviour at them.

use super::*;
use crate::methods::{basic, confirm};

fn tight() -> ServerLimits {
    ServerLimits {
        channel_max: 2,
        frame_max: 4096,
        message_bytes_max: 10_000,
        gathered_bytes_max: 15_000,
        ..ServerLimits::default()
    }
}

fn publish_of(size: u64, channel: u16) -> Vec<u8> {
    let ch = format!("{channel:04x}");
    bytes(&format!(
        "01 {ch} 000000 [ 003C 0028 0000 00 [ \"q\" ] 00 ] CE 02 {ch} 000000 [ 003C 0000 {size:016x} 0000 ] CE"
    ))
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    codec::frame::put_whole(kind, channel, payload, &mut out);
    out
}

#[test]
fn a_message_that_is_too_large_closes_its_channel_and_no_other() {
    let (_, mut server) = pair(tight());
    let mut out = Vec::new();
    let mut input = publish_of(10_001, 1);
    input.extend(frame(3, 1, &[0; 4000]));
    // Still not knowing, the client goes on.
    input.extend(publish_of(1, 1));
    input.extend(frame(3, 1, b"x"));
    input.extend(publish_of(1, 2));
    input.extend(frame(3, 2, b"y"));
    let mut heard = Vec::new();
    let left = server_hears(&mut server, &input, |server, event| {
        welcome(server, event, &mut out);
        match event {
            Event::ChannelFault(fault) => {
                heard.push(format!("{} {}", fault.code.code(), fault.reply_text()))
            }
            Event::Publish(p) => heard.push(format!("{} {:?}", p.ch, p.payload)),
            Event::Consumed => {}
            other => heard.push(format!("{other:?}")),
        }
    });
    assert!(left.is_empty());
    let text = "PRECONDITION_FAILED - message size 10001 is larger than configured max size 10000";
    assert_eq!(heard, [format!("406 {text}"), "2 [121]".to_owned()]);
    assert_eq!(
        out,
        bytes(&format!(
            "01 0001 000000 [ 0014 0028 0196 [ \"{text}\" ] 003C 0028 ] CE"
        ))
    );
    assert!(!server.is_channel_open(1) && server.is_channel_open(2));
    // Confirmed, the number is free again.
    out.clear();
    let input = bytes("01 0001 000000 [ 0014 0029 ] CE 01 0001 000000 [ 0014 000A 00 ] CE");
    server_hears(&mut server, &input, |server, event| {
        welcome(server, event, &mut out)
    });
    assert_eq!(out, bytes("01 0001 000000 [ 0014 000B 00000000 ] CE"));
}

#[test]
fn a_message_of_exactly_the_limit_is_taken() {
    let (mut client, mut server) = pair(tight());
    let mut input = Vec::new();
    let publish = basic::Publish {
        routing_key: "q",
        ..basic::Publish::default()
    };
    let properties = BasicProperties::default();
    client
        .publish(
            1,
            &publish,
            ContentHeader::Properties(&properties),
            &[7; 10_000],
            &mut input,
        )
        .expect("it fits");
    let mut sizes = Vec::new();
    server_hears(&mut server, &input, |_, event| {
        if let Event::Publish(p) = event {
            sizes.push(p.payload.len());
        }
    });
    assert_eq!(sizes, [10_000]);
}

#[test]
fn unfinished_messages_of_all_channels_are_bounded_together() {
    let (_, mut server) = pair(tight());
    let mut input = Vec::new();
    for channel in [1, 2] {
        input.extend(publish_of(10_000, channel));
    }
    for _ in 0..2 {
        input.extend(frame(3, 1, &[0; 3500]));
        input.extend(frame(3, 2, &[0; 3500]));
    }
    input = server_hears(&mut server, &input, |_, event| {
        assert!(matches!(event, Event::Consumed))
    })
    .to_vec();
    assert!(input.is_empty());
    let fault = fault_in(&mut server, &frame(3, 1, &[0; 3000]));
    assert_eq!(
        (fault.code, fault.scope),
        (ReplyCode::ResourceError, Scope::Connection)
    );
}

#[test]
fn what_was_gathered_is_given_back() {
    let (_, mut server) = pair(tight());
    for round in 0..10 {
        let mut input = publish_of(7000, 1);
        input.extend(frame(3, 1, &[0; 3500]));
        if round % 2 == 0 {
            input.extend(frame(3, 1, &[0; 3500]));
            assert!(server_hears(&mut server, &input, |_, _| {}).is_empty());
        } else {
            // We close the channel with half a message on it.
            assert!(server_hears(&mut server, &input, |_, _| {}).is_empty());
            let mut out = Vec::new();
            server.channel_close(
                1,
                ReplyCode::NotFound,
                "no exchange 'x' in vhost '/'",
                basic::Publish::ID,
                &mut out,
            );
            assert!(!out.is_empty());
            let again = bytes("01 0001 000000 [ 0014 0029 ] CE 01 0001 000000 [ 0014 000A 00 ] CE");
            assert!(server_hears(&mut server, &again, |_, _| {}).is_empty());
        }
    }
}

#[test]
fn a_frame_may_be_as_large_as_negotiated_and_eight_bytes_more() {
    let (_, mut server) = pair(tight());
    assert_eq!(server.frame_max(), 4096);
    for payload in [4088, 4096] {
        let mut input = publish_of(payload, 1);
        input.extend(frame(3, 1, &vec![0; payload as usize]));
        assert!(server_hears(&mut server, &input, |_, _| {}).is_empty());
    }
    assert!(server_hears(&mut server, &publish_of(4097, 1), |_, _| {}).is_empty());
    let fault = fault_in(&mut server, &frame(3, 1, &[0; 4097])[..7]);
    assert_eq!(
        fault.reply_text(),
        "FRAME_ERROR - type 3, payload of 4097 bytes is above the 4096 of frame_max"
    );
}

#[test]
fn what_we_send_is_cut_into_frames_that_the_client_takes() {
    let (mut client, mut server) = pair(tight());
    let deliver = basic::Deliver {
        consumer_tag: "c",
        delivery_tag: 1,
        ..basic::Deliver::default()
    };
    let properties = BasicProperties::default();
    for size in [0usize, 1, 4087, 4088, 4089, 8176, 8177, 9999] {
        let body: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let mut out = Vec::new();
        server
            .deliver(
                1,
                &deliver,
                ContentHeader::Properties(&properties),
                &body,
                &mut out,
            )
            .expect("it fits");
        let (mut at, mut frames) = (0, 0);
        while at < out.len() {
            let len = ServerSide::frame_len(&out[at..]).expect("complete");
            assert!(len <= 4096);
            (at, frames) = (at + len, frames + 1);
        }
        assert_eq!(frames, 2 + size.div_ceil(4088), "{size}");
        let mut heard = Vec::new();
        client_hears(&mut client, &out, |_, event| {
            if let ClientEvent::Content { payload, .. } = event {
                heard.push(payload.to_vec());
            }
        });
        assert_eq!(heard, [body]);
    }
}

#[test]
fn properties_that_fill_more_than_a_frame_are_not_sent() {
    let (_, mut server) = pair(tight());
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    // Header frame: 8 of frame, 14 of header, 4 of table, 6 of key and value.
    let fitting = "x".repeat(4096 - 8 - 14 - 4 - 7);
    writer.str("k", &fitting);
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        ..BasicProperties::default()
    };
    let (mut out, deliver) = (b"before".to_vec(), basic::Deliver::default());
    server
        .deliver(
            1,
            &deliver,
            ContentHeader::Properties(&properties),
            b"x",
            &mut out,
        )
        .expect("it fits");
    let mut longer = Vec::new();
    let mut writer = TableWriter::new(&mut longer);
    writer.str("k", &(fitting + "x"));
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        ..BasicProperties::default()
    };
    let before = out.clone();
    let refused = server.deliver(
        1,
        &deliver,
        ContentHeader::Properties(&properties),
        b"x",
        &mut out,
    );
    assert_eq!(
        refused,
        Err(TooLarge {
            frame_bytes: 4097,
            frame_bytes_max: 4096
        })
    );
    assert_eq!(out, before);
}

#[test]
fn channels_are_as_many_as_negotiated() {
    let (_, mut server) = pair(tight());
    let fault = fault_in(&mut server, &bytes("01 0003 000000 [ 0014 000A 00 ] CE"));
    assert_eq!(
        fault.reply_text(),
        "NOT_ALLOWED - channel 3 is above the negotiated channel_max (2)"
    );
}

#[test]
fn an_idle_connection_is_small() {
    let channel = size_of::<channels::Channel>();
    // A list of one has room for four.
    let idle = size_of::<ServerSide>() + 4 * channel;
    assert!(idle < 320, "{idle} bytes");
    assert!(channel <= 16, "{channel} bytes");
}

#[test]
fn strings_that_do_not_fit_the_wire_are_cut_between_characters() {
    let (mut client, mut server) = pair(ServerLimits::default());
    let (mut out, what) = (Vec::new(), "ä".repeat(200));
    server.channel_close(1, ReplyCode::NotFound, &what, MethodId::NONE, &mut out);
    let mut texts = Vec::new();
    client_hears(&mut client, &out, |_, event| {
        if let ClientEvent::ChannelClose { text, .. } = event {
            texts.push((*text).to_owned());
        }
    });
    assert_eq!(texts, [format!("NOT_FOUND - {}", "ä".repeat(121))]);
    let id = [7; 300];
    let properties = BasicProperties {
        correlation_id: Some(&id),
        ..BasicProperties::default()
    };
    let mut encoded = Vec::new();
    properties.encode(&mut encoded);
    assert_eq!(
        BasicProperties::decode(&encoded)
            .expect("valid")
            .correlation_id,
        Some(&id[..255])
    );
}

#[test]
fn nothing_is_said_on_a_channel_or_connection_that_is_not_open() {
    let mut server = ServerSide::new(ServerLimits::default());
    let mut out = Vec::new();
    let say_all = |server: &mut ServerSide, out: &mut Vec<u8>| {
        let header = ContentHeader::Raw(&[]);
        server
            .deliver(1, &basic::Deliver::default(), header, b"", out)
            .expect("nothing to fit");
        server
            .get_ok(1, &basic::GetOk::default(), header, b"", out)
            .expect("nothing to fit");
        server
            .return_(1, &basic::Return::default(), header, b"", out)
            .expect("nothing to fit");
        server.method(1, &Method::ConfirmSelectOk(confirm::SelectOk), out);
        server.ack(1, 1, false, out);
        server.nack(1, 1, false, out);
        server.channel_open_ok(1, out);
        server.channel_close(1, ReplyCode::NotFound, "", MethodId::NONE, out);
        server.blocked("memory", out);
        server.unblocked(out);
        server.update_secret_ok(out);
        server.secure(b"", out);
        server.tune(out);
        server.open_ok(out);
    };
    say_all(&mut server, &mut out);
    server.heartbeat(&mut out);
    server.start(Table::default(), "PLAIN", "en_US", &mut out);
    assert_eq!(out, []);
    let (_, mut server) = pair(ServerLimits::default());
    server.close(
        ReplyCode::ConnectionForced,
        "shut down",
        MethodId::NONE,
        &mut out,
    );
    assert_eq!(
        out,
        bytes(
            "01 0000 000000 [ 000A 0032 0140 [ \"CONNECTION_FORCED - shut down\" ] 0000 0000 ] CE"
        )
    );
    out.clear();
    say_all(&mut server, &mut out);
    server.heartbeat(&mut out);
    server.close(ReplyCode::InternalError, "again", MethodId::NONE, &mut out);
    assert_eq!(out, []);
}
