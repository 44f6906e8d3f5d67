//! CoAP: the codec, streams, and a server's answers and notifications.

use core::net::SocketAddr;
use std::hint::black_box;
use std::sync::Arc;

use crate::Operation;

use thalweg_coap::stream::{self, StreamSettings};
use thalweg_coap::{
    Code, Datagrams, Delivery, Encoder, Event, Message, Notified, RelationId, Response,
    ServerSettings, ServerSide, SharedBody, Token, Type, option,
};
use thalweg_wire::Time;

pub const OPERATIONS: &[Operation] = &[
    ("decode_put", decode_put),
    ("decode_put_and_read_it", decode_put_and_read_it),
    ("decode_ack", decode_ack),
    ("encode_changed", encode_changed),
    ("encode_notification", encode_notification),
    ("stream_decode_put", stream_decode_put),
    ("stream_encode_notification", stream_encode_notification),
    ("serve_put", serve_put),
    ("serve_repeated_put", serve_repeated_put),
    ("notify", notify),
    ("notify_confirmably", notify_confirmably),
];

/// 60 bytes under `ps/data/plant/temp`.
const LEVELS: [&[u8]; 4] = [b"ps", b"data", b"plant", b"temp"];
const PAYLOAD: [u8; 60] = [b'x'; 60];

fn put() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::start(
        &mut out,
        Type::Confirmable,
        Code::PUT,
        7,
        Token::from_number(0x1234),
    );
    put_options(&mut encoder);
    encoder.payload(&PAYLOAD);
    out
}

fn put_options(encoder: &mut Encoder<'_>) {
    for level in LEVELS {
        encoder.option(option::URI_PATH, level);
    }
    encoder.uint(option::CONTENT_FORMAT, 50);
}

fn decode_put(count: u32) {
    let datagram = put();
    for _ in 0..count {
        let message = Message::decode(black_box(&datagram)).expect("legal");
        black_box(&message);
    }
}

/// What a front does with each publish: the path as one text, what is there and what is not, and nothing it must refuse.
fn decode_put_and_read_it(count: u32) {
    let datagram = put();
    let mut path = Vec::with_capacity(64);
    for _ in 0..count {
        let message = Message::decode(black_box(&datagram)).expect("legal");
        let options = message.options;
        path.clear();
        for level in options.all(option::URI_PATH) {
            path.push(b'/');
            path.extend_from_slice(level);
        }
        black_box(&path);
        black_box(options.uint(option::CONTENT_FORMAT));
        for absent in [
            option::OBSERVE,
            option::BLOCK1,
            option::MAX_AGE,
            option::IF_MATCH,
            option::IF_NONE_MATCH,
        ] {
            black_box(options.get(absent));
        }
        black_box(options.refused(|number| matches!(number, option::URI_HOST..=option::BLOCK1)));
    }
}

fn decode_ack(count: u32) {
    for _ in 0..count {
        black_box(Message::decode(black_box(&[0x60, 0, 0x12, 0x34])).expect("legal"));
    }
}

fn encode_changed(count: u32) {
    let mut out = Vec::with_capacity(1 << 10);
    for _ in 0..count {
        out.clear();
        let token = black_box(Token::from_number(0x1234));
        Encoder::start(&mut out, Type::Acknowledgement, Code::CHANGED, 7, token).payload(&[]);
        black_box(&out);
    }
}

fn encode_notification(count: u32) {
    let mut out = Vec::with_capacity(1 << 10);
    for sequence in 0..count {
        out.clear();
        let token = black_box(Token::from_number(0x1234));
        let mut encoder = Encoder::start(
            &mut out,
            Type::NonConfirmable,
            Code::CONTENT,
            sequence as u16,
            token,
        );
        encoder
            .uint(option::OBSERVE, black_box(70_000))
            .uint(option::CONTENT_FORMAT, 50)
            .uint(option::MAX_AGE, 60);
        encoder.payload(black_box(&PAYLOAD));
        black_box(&out);
    }
}

fn stream_decode_put(count: u32) {
    let mut message = Vec::new();
    stream::encode(
        &mut message,
        Code::PUT,
        Token::from_number(0x1234),
        put_options,
        &PAYLOAD,
    );
    let mut server = stream::ServerSide::new(StreamSettings::default());
    server.handle_input(&[0x00, 0xE1]).expect("CSM");
    for _ in 0..count {
        let (_, event) = server
            .handle_input(black_box(&message))
            .expect("legal")
            .expect("complete");
        assert!(matches!(black_box(event), stream::Event::Request(_)));
    }
}

fn stream_encode_notification(count: u32) {
    let mut server = stream::ServerSide::new(StreamSettings::default());
    server.handle_input(&[0x00, 0xE1]).expect("CSM");
    let mut out = Vec::with_capacity(1 << 10);
    server.open(&mut out);
    for _ in 0..count {
        out.clear();
        let token = black_box(Token::from_number(0x1234));
        let options = |encoder: &mut Encoder<'_>| {
            encoder
                .option(option::OBSERVE, &[])
                .uint(option::CONTENT_FORMAT, 50);
        };
        server
            .respond(token, Code::CONTENT, options, black_box(&PAYLOAD), &mut out)
            .expect("small");
        black_box(&out);
    }
}

/// A server in datagrams without a limit on notifications, and its first peer.
fn served() -> (ServerSide, SocketAddr, Datagrams) {
    let settings = ServerSettings {
        remembered_max: 1024,
        notifications_per_round_trip: 0,
        confirm_every: 255,
        addresses_are_proven: true,
        ..ServerSettings::default()
    };
    (
        ServerSide::new(Arc::new(settings), 1),
        SocketAddr::from(([10, 0, 0, 1], 5683)),
        Datagrams::new(),
    )
}

/// A confirmable PUT of 60 bytes, a new one each time, answered with 2.04 at once.
fn serve_put(count: u32) {
    let (mut server, peer, mut out) = served();
    let mut datagram = put();
    for n in 0..count {
        datagram[2..4].copy_from_slice(&(n as u16).to_be_bytes());
        out.clear();
        let event =
            server.handle_datagram(peer, black_box(&datagram), Time::from_secs(1), &mut out);
        if let Some(Event::Request(request)) = event {
            server.respond(
                request.exchange,
                &Response::of(Code::CHANGED),
                Time::from_secs(1),
                &mut out,
            );
        }
        black_box(out.bytes());
    }
}

/// The same one again and again.
fn serve_repeated_put(count: u32) {
    let (mut server, peer, mut out) = served();
    let datagram = put();
    for _ in 0..count {
        out.clear();
        let event =
            server.handle_datagram(peer, black_box(&datagram), Time::from_secs(1), &mut out);
        if let Some(Event::Request(request)) = event {
            server.respond(
                request.exchange,
                &Response::of(Code::CHANGED),
                Time::from_secs(1),
                &mut out,
            );
        }
        black_box(out.bytes());
    }
}

/// A server with an observer of whom a round trip is known.
fn observed() -> (ServerSide, SocketAddr, RelationId, Datagrams) {
    let (mut server, peer, mut out) = served();
    let now = Time::from_secs(1);
    let mut get = Vec::new();
    Encoder::start(
        &mut get,
        Type::Confirmable,
        Code::GET,
        7,
        Token::from_number(0x1234),
    )
    .uint(option::OBSERVE, 0);
    let Some(Event::Request(request)) = server.handle_datagram(peer, &get, now, &mut out) else {
        panic!("no request")
    };
    let relation = server
        .observe(request.exchange, 1, None, now)
        .expect("room");
    server.respond(
        request.exchange,
        &Response::of(Code::CONTENT),
        now,
        &mut out,
    );
    (server, peer, relation, out)
}

fn acknowledge(server: &mut ServerSide, peer: SocketAddr, out: &mut Datagrams) {
    let sent = out
        .iter()
        .last()
        .map(|(_, datagram)| [0x60, 0, datagram[2], datagram[3]]);
    server.handle_datagram(peer, &sent.expect("it was sent"), Time::from_secs(1), out);
    out.clear();
}

/// A notification of 60 bytes that is not confirmable; one in 255 is.
fn notify(count: u32) {
    let (mut server, peer, relation, mut out) = observed();
    let body = Arc::new(SharedBody::new(Code::CONTENT, &[], &PAYLOAD));
    for _ in 0..count {
        out.clear();
        let notified = server.notify(
            relation,
            black_box(&body),
            Delivery::Auto,
            Time::from_secs(1),
            &mut out,
        );
        if notified == (Notified::Sent { confirmable: true }) {
            acknowledge(&mut server, peer, &mut out);
        }
        black_box(out.bytes());
    }
}

/// A confirmable one, and its acknowledgement.
fn notify_confirmably(count: u32) {
    let (mut server, peer, relation, mut out) = observed();
    let body = Arc::new(SharedBody::new(Code::CONTENT, &[], &PAYLOAD));
    for _ in 0..count {
        out.clear();
        let notified = server.notify(
            relation,
            black_box(&body),
            Delivery::Confirmable,
            Time::from_secs(1),
            &mut out,
        );
        assert_eq!(notified, Notified::Sent { confirmable: true });
        acknowledge(&mut server, peer, &mut out);
    }
}
