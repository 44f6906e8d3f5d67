//! The codec of AMQP.

use std::hint::black_box;

use crate::Operation;

use thalweg_amqp::methods::basic;
use thalweg_amqp::{
    BasicProperties, ClientEvent, ClientSide, ContentHeader, Event, Gathered, ServerLimits,
    ServerSide, Table,
};

/// What the measured messages look like: 36 bytes under a key of three words.
const PUBLISH: basic::Publish<'_> = basic::Publish {
    exchange: "amq.topic",
    routing_key: "plant.line-7.temperature",
    mandatory: false,
    immediate: false,
};
const PAYLOAD: [u8; 36] = [b'x'; 36];

pub const OPERATIONS: &[Operation] = &[
    ("decode_publish", |count| {
        decode(&publish(&BasicProperties::default()), count)
    }),
    ("decode_publish_properties", |count| {
        decode(&publish(&some_properties()), count)
    }),
    ("decode_ack", |count| {
        decode(
            b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x07\0\xce",
            count,
        )
    }),
    ("encode_deliver", |count| {
        encode(&BasicProperties::default(), count)
    }),
    ("encode_deliver_properties", |count| {
        encode(&some_properties(), count)
    }),
    ("encode_ack", encode_ack),
];

/// What most clients set.
fn some_properties() -> BasicProperties<'static> {
    BasicProperties {
        content_type: Some("application/json"),
        delivery_mode: Some(2),
        ..BasicProperties::default()
    }
}

/// Both ends of a connection with channel 1 open.
fn connected() -> (ClientSide, ServerSide) {
    let (mut client, mut server) = (
        ClientSide::new(1 << 17, 1 << 20),
        ServerSide::new(ServerLimits::default()),
    );
    let (mut there, mut back, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    client.connect(&mut there);
    while !there.is_empty() {
        let mut from = 0;
        while let Some((consumed, event)) = server
            .handle_input(&there[from..], &mut gathered)
            .expect("legal input")
        {
            match event {
                Event::ProtocolHeader => {
                    server.start(Table::default(), "PLAIN", "en_US", &mut back)
                }
                Event::StartOk(_) => server.tune(&mut back),
                Event::Open { .. } => server.open_ok(&mut back),
                Event::ChannelOpen(ch) => server.channel_open_ok(ch, &mut back),
                _ => {}
            }
            from += consumed;
        }
        there.clear();
        from = 0;
        while let Some((consumed, event)) = client
            .handle_input(&back[from..], &mut gathered)
            .expect("legal input")
        {
            match event {
                ClientEvent::Start(_) => {
                    client.start_ok(Table::default(), "PLAIN", b"", &mut there)
                }
                ClientEvent::Tune(offer) => {
                    client.tune_ok(offer, &mut there);
                    client.open("/", &mut there);
                }
                ClientEvent::OpenOk => client.channel_open(1, &mut there),
                _ => {}
            }
            from += consumed;
        }
        back.clear();
    }
    assert!(server.is_channel_open(1));
    (client, server)
}

fn publish(properties: &BasicProperties<'_>) -> Vec<u8> {
    let (mut client, mut bytes) = (connected().0, Vec::new());
    let header = ContentHeader::Properties(properties);
    client
        .publish(1, &PUBLISH, header, &PAYLOAD, &mut bytes)
        .expect("it fits");
    bytes
}

fn decode(frames: &[u8], count: u32) {
    let (_, mut server) = connected();
    let mut gathered = Gathered::default();
    for _ in 0..count {
        let event = server
            .handle_input(black_box(frames), &mut gathered)
            .expect("legal frames");
        black_box(&event);
        assert!(event.is_some_and(|(consumed, _)| consumed == frames.len()));
    }
}

fn encode(properties: &BasicProperties<'_>, count: u32) {
    let (_, mut server) = connected();
    let bytes = publish(properties);
    let mut gathered = Gathered::default();
    let (_, event) = connected()
        .1
        .handle_input(&bytes, &mut gathered)
        .expect("legal")
        .map_or((0, None), |e| (e.0, Some(e.1)));
    let Some(Event::Publish(p)) = event else {
        return;
    };
    let mut out = Vec::with_capacity(1024);
    for _ in 0..count {
        out.clear();
        let deliver = basic::Deliver {
            consumer_tag: "ctag1.9f3a",
            delivery_tag: 7,
            redelivered: false,
            exchange: p.exchange,
            routing_key: p.routing_key,
        };
        let header = ContentHeader::Raw(p.header);
        server
            .deliver(
                1,
                black_box(&deliver),
                black_box(header),
                black_box(p.payload),
                &mut out,
            )
            .expect("it fits");
        black_box(&out);
    }
}

fn encode_ack(count: u32) {
    let (_, mut server) = connected();
    let mut out = Vec::with_capacity(1024);
    for tag in 0..count {
        out.clear();
        server.ack(1, black_box(tag.into()), false, &mut out);
        black_box(&out);
    }
}
