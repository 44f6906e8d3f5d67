//! The codec of MQTT.

use std::hint::black_box;

use crate::Operation;
use thalweg_mqtt::{
    ConnAck, ConnectOut, Event, PublishOut, QoS, ReasonCode, ServerLimits, ServerSide, Version,
};

/// What the measured messages look like: 36 bytes under a topic of three levels.
const TOPIC: &str = "plant/line-7/temperature";
const PAYLOAD: [u8; 36] = [b'x'; 36];

pub const OPERATIONS: &[Operation] = &[
    ("decode_publish_qos0", |count| {
        decode(&publish(QoS::AtMostOnce), count)
    }),
    ("decode_publish_qos1", |count| {
        decode(&publish(QoS::AtLeastOnce), count)
    }),
    ("decode_publish_qos0_v5_properties", |count| {
        decode(&publish_with_properties(), count)
    }),
    ("decode_puback", |count| decode(&[0x40, 2, 0, 7], count)),
    ("encode_publish_qos0", |count| {
        encode(QoS::AtMostOnce, count)
    }),
    ("encode_publish_qos1", |count| {
        encode(QoS::AtLeastOnce, count)
    }),
];

fn connected(version: Version) -> ServerSide {
    let mut client = thalweg_mqtt::ClientSide::new(1 << 20);
    let mut bytes = Vec::new();
    let connect = ConnectOut {
        version,
        client_id: "bench",
        ..ConnectOut::default()
    };
    client
        .connect(&connect, &mut bytes)
        .expect("a short client id");
    let mut server = ServerSide::new(ServerLimits::default());
    let input = server.handle_input(&bytes).expect("a legal CONNECT");
    assert!(matches!(input, Some((_, Event::Connect(_)))));
    server.connack(
        &ConnAck {
            reason: ReasonCode::Success,
            ..ConnAck::default()
        },
        &mut Vec::new(),
    );
    server
}

/// A PUBLISH as an MQTT 3.1.1 client writes it.
fn publish(qos: QoS) -> Vec<u8> {
    let id: &[u8] = if qos == QoS::AtMostOnce { &[] } else { &[0, 7] };
    let length = 2 + TOPIC.len() + id.len() + PAYLOAD.len();
    let mut bytes = vec![0x30 | (qos as u8) << 1, length as u8, 0, TOPIC.len() as u8];
    bytes.extend_from_slice(TOPIC.as_bytes());
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(&PAYLOAD);
    bytes
}

/// The same at QoS 0 with a content type and a message expiry (MQTT 5).
fn publish_with_properties() -> Vec<u8> {
    let properties = [&[3, 0, 4][..], b"text", &[2, 0, 0, 0, 60]].concat();
    let length = 2 + TOPIC.len() + 1 + properties.len() + PAYLOAD.len();
    let mut bytes = vec![0x30, length as u8, 0, TOPIC.len() as u8];
    bytes.extend_from_slice(TOPIC.as_bytes());
    bytes.push(properties.len() as u8);
    bytes.extend_from_slice(&properties);
    bytes.extend_from_slice(&PAYLOAD);
    bytes
}

fn decode(packet: &[u8], count: u32) {
    let version = if packet.len() > 73 {
        Version::V5
    } else {
        Version::V311
    };
    let mut server = connected(version);
    for _ in 0..count {
        let event = server
            .handle_input(black_box(packet))
            .expect("a legal packet");
        black_box(&event);
        assert!(event.is_some_and(|(consumed, _)| consumed == packet.len()));
    }
}

fn encode(qos: QoS, count: u32) {
    let mut server = connected(Version::V311);
    let mut out = Vec::with_capacity(1024);
    for _ in 0..count {
        out.clear();
        let publish = PublishOut {
            qos,
            id: 7,
            topic: TOPIC,
            payload: &PAYLOAD,
            ..PublishOut::default()
        };
        server
            .publish(black_box(&publish), &mut out)
            .expect("small enough");
        black_box(&out);
    }
}
