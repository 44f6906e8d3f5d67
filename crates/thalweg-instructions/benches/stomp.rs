//! The codec of STOMP.

use std::hint::black_box;

use crate::Operation;
use thalweg_stomp::{ConnectedOut, Event, MessageOut, ServerLimits, ServerSide};

pub const OPERATIONS: &[Operation] = &[
    ("decode_send", |count| decode(SEND, count)),
    ("decode_send_with_receipt_and_more", |count| {
        decode(SEND_WITH_RECEIPT_AND_MORE, count)
    }),
    ("decode_send_without_length", |count| {
        decode(SEND_WITHOUT_LENGTH, count)
    }),
    ("decode_ack", |count| {
        decode(b"ACK\nid:sub-0-12345\n\n\0", count)
    }),
    ("encode_message", encode),
];

/// What the measured messages look like: 36 bytes under a topic of three levels.
const SEND: &[u8] = b"SEND\ndestination:/topic/plant.line-7.temperature\ncontent-length:36\n\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\0";

const SEND_WITHOUT_LENGTH: &[u8] = b"SEND\ndestination:/topic/plant.line-7.temperature\n\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\0";

const SEND_WITH_RECEIPT_AND_MORE: &[u8] = b"SEND\ndestination:/queue/line-7\ncontent-type:text/plain\n\
    persistent:true\nreceipt:message-12345\ncontent-length:36\n\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\0";

fn connected() -> ServerSide {
    let mut server = ServerSide::new(ServerLimits::default());
    let input = server
        .handle_input(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        .expect("a legal CONNECT");
    assert!(matches!(input, Some((_, Event::Connect(_)))));
    server.connected(&ConnectedOut::default(), &mut Vec::new());
    server
}

fn decode(frame: &[u8], count: u32) {
    let mut server = connected();
    for _ in 0..count {
        let event = server
            .handle_input(black_box(frame))
            .expect("legal")
            .expect("complete");
        black_box(&event);
    }
}

fn encode(count: u32) {
    let server = connected();
    let mut out = Vec::with_capacity(1 << 10);
    let message = MessageOut {
        subscription: Some("sub-0"),
        message_id: "sub-0-12345",
        destination: "/topic/plant.line-7.temperature",
        body: &[b'x'; 36],
        ..MessageOut::default()
    };
    for _ in 0..count {
        out.clear();
        server.message(black_box(&message), |_| {}, &mut out);
        black_box(&out);
    }
}
