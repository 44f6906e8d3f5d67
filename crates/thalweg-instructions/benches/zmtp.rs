//! The codec of ZMTP, with CURVE.

use std::hint::black_box;

use crate::Operation;
use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, CurveClient, CurveServer, Event, Gathered,
    HandshakeEvent, KeyPair, Limits, ServerMechanisms, ServerSide, SocketType, Traffic,
};

pub const OPERATIONS: &[Operation] = &[
    ("decode_short_frame", |count| decode(&[SHORT], count)),
    ("decode_address_and_payload", |count| {
        decode(&[ADDRESS, SHORT], count)
    }),
    ("decode_subscribe", decode_subscribe),
    ("encode_address_and_payload", encode),
    ("forward_address_and_payload", forward),
    ("curve_short_frame_both_ends", curve_short_frame),
];

/// What the measured messages look like: 36 octets under a topic of three levels.
const SHORT: &[u8] = &[b'x'; 36];
const ADDRESS: &[u8] = b"plant/line-7/temperature";

/// Both ends behind their handshake.
fn pair(mechanism: ClientMechanism, client: SocketType, server: SocketType) -> (Traffic, Traffic) {
    let mechanisms = ServerMechanisms {
        null: true,
        plain: true,
        curve: Some(CurveServer {
            keys: KeyPair::from_secret([1; 32]),
            seed: [2; 32],
        }),
    };
    let mut accepting = ServerSide::new(Limits::default(), mechanisms);
    let mut client = ClientSide::new(Limits::default(), mechanism, &Announcement::of(client));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.greet(&mut there);
    accepting.greet(&mut back);
    let mut ready = None;
    loop {
        while let Some((consumed, event)) =
            accepting.handle_input(&there, &mut back).expect("valid")
        {
            if let HandshakeEvent::Peer(_) = event {
                ready = accepting.ready(&Announcement::of(server), &mut back);
            }
            there.drain(..consumed);
        }
        while let Some((consumed, _)) = client.handle_input(&back, &mut there).expect("valid") {
            back.drain(..consumed);
        }
        if let Some(client) = client.traffic() {
            return (client, ready.expect("the server was first"));
        }
    }
}

fn publisher_and_subscriber() -> (Traffic, Traffic) {
    pair(ClientMechanism::Null, SocketType::Pub, SocketType::Sub)
}

fn decode(frames: &[&[u8]], count: u32) {
    let (mut from, mut to) = publisher_and_subscriber();
    let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
    for (at, body) in frames.iter().enumerate() {
        from.frame(body, at + 1 < frames.len(), &mut wire);
    }
    for _ in 0..count {
        let heard = to.handle_input(black_box(&wire), &mut gathered);
        let Ok(Some((_, Event::Message(message)))) = heard else {
            panic!("not a message")
        };
        message.frames().for_each(|body| {
            black_box(body);
        });
    }
}

fn decode_subscribe(count: u32) {
    let (mut from, mut to) = pair(ClientMechanism::Null, SocketType::Sub, SocketType::Xpub);
    let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
    from.subscribe(ADDRESS, &mut wire);
    for _ in 0..count {
        let heard = to.handle_input(black_box(&wire), &mut gathered);
        black_box(&heard.expect("valid").expect("complete"));
    }
}

fn encode(count: u32) {
    let (mut from, _) = publisher_and_subscriber();
    let mut out = Vec::with_capacity(1 << 10);
    for _ in 0..count {
        out.clear();
        from.frame(black_box(ADDRESS), true, &mut out);
        from.frame(black_box(SHORT), false, &mut out);
        black_box(&out);
    }
}

fn forward(count: u32) {
    let (mut from, mut to) = publisher_and_subscriber();
    let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
    from.frame(ADDRESS, true, &mut wire);
    from.frame(SHORT, false, &mut wire);
    let heard = to.handle_input(&wire, &mut gathered);
    let Ok(Some((_, Event::Message(message)))) = heard else {
        panic!("not a message")
    };
    let mut out = Vec::with_capacity(1 << 10);
    for _ in 0..count {
        out.clear();
        from.forward(black_box(message), &mut out);
        black_box(&out);
    }
}

fn curve_short_frame(count: u32) {
    let mechanism = ClientMechanism::Curve(Box::new(CurveClient {
        server: *KeyPair::from_secret([1; 32]).public(),
        keys: KeyPair::from_secret([3; 32]),
        seed: [4; 32],
    }));
    let (mut from, mut to) = pair(mechanism, SocketType::Push, SocketType::Pull);
    let (mut wire, mut gathered) = (Vec::with_capacity(1 << 10), Gathered::default());
    for _ in 0..count {
        wire.clear();
        from.frame(black_box(SHORT), false, &mut wire);
        let heard = to.handle_input(&wire, &mut gathered);
        black_box(&heard.expect("valid").expect("complete"));
    }
}
