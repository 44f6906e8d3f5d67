//! A connection of a ZeroMQ client that sends anything: all at once and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_zmtp::{
    Announcement, CurveServer, Event, Gathered, HandshakeEvent, KeyPair, Limits, ServerMechanisms,
    ServerSide, SocketType, Traffic,
};

/// What the server makes of `input`, of which only the first `first` octets arrive at first, and what it writes. Every login
/// and every peer is accepted.
fn hear(input: &[u8], first: usize) -> (Vec<String>, Vec<u8>) {
    let limits = Limits {
        handshake_bytes_max: 600,
        command_bytes_max: 100,
        message_bytes_max: 1 << 10,
    };
    let mechanisms = ServerMechanisms {
        null: true,
        plain: true,
        curve: Some(CurveServer {
            keys: KeyPair::from_secret([1; 32]),
            seed: [2; 32],
        }),
    };
    let mut server = ServerSide::new(limits, mechanisms);
    let mut traffic: Option<Traffic> = None;
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    server.greet(&mut out);
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            let arrived = &input[from..until];
            let step = match &mut traffic {
                Some(traffic) => traffic.handle_input(arrived, &mut gathered).map(|step| {
                    step.map(|(len, event)| (len, on_event(&event, traffic, &mut out)))
                }),
                None => match server.handle_input(arrived, &mut out) {
                    Ok(Some((len, event))) => {
                        match &event {
                            HandshakeEvent::Login(_) => server.welcome(&mut out),
                            HandshakeEvent::Peer(_) => {
                                let ours = Announcement::of(SocketType::Xpub);
                                traffic = server.ready(&ours, &mut out);
                            }
                            _ => {}
                        }
                        Ok(Some((len, format!("{event:?}"))))
                    }
                    Ok(None) => Ok(None),
                    Err(fault) => Err(fault),
                },
            };
            match step {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    heard.push(event);
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return (heard, out);
                }
            }
        }
    }
    (heard, out)
}

fn on_event(event: &Event<'_>, traffic: &mut Traffic, out: &mut Vec<u8>) -> String {
    match event {
        Event::Message(message) => {
            assert!(message.raw().len() <= 1 << 10 && message.frames().count() > 0);
            traffic.forward(*message, out);
        }
        Event::Subscribe(prefix) | Event::Cancel(prefix) => assert!(prefix.len() <= 100),
        Event::Ping { context, .. } => traffic.pong(context, out),
        _ => {}
    }
    format!("{event:?}")
}

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    assert_eq!(hear(input, input.len()), hear(input, cut));
    // Once more behind a handshake, so that the fuzzer need not find out how.
    let greeting = [&b"\xFF\0\0\0\0\0\0\0\0\x7F\x03\x01NULL"[..], &[0; 48]].concat();
    let ready: [&[u8]; 2] = [
        b"\x04\x19\x05READY\x0BSocket-Type\0\0\0\x03SUB",
        b"\x04\x1A\x05READY\x0BSocket-Type\0\0\0\x04PUSH",
    ];
    let connected = [&greeting, ready[cut % 2], input].concat();
    let before = connected.len() - input.len();
    assert_eq!(
        hear(&connected, connected.len()),
        hear(&connected, before + cut)
    );
});
