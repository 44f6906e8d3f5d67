//! A connection of a client that sends anything: all at once and in two pieces, which must come to the same. The first byte
//! of the input says where it is cut, and whether the connection is open already.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_amqp::{
    BasicProperties, ClientEvent, ClientSide, Event, Gathered, Scope, ServerLimits, ServerSide,
    Table,
};

fn answer(server: &mut ServerSide, event: &Event<'_>, out: &mut Vec<u8>) {
    match event {
        Event::ProtocolHeader => server.start(Table::default(), "PLAIN", "en_US", out),
        Event::StartOk(_) | Event::SecureOk { .. } => server.tune(out),
        Event::Open { .. } => server.open_ok(out),
        Event::ChannelOpen(ch) => server.channel_open_ok(*ch, out),
        Event::ChannelClose { ch, .. } => server.channel_close_ok(*ch, out),
        Event::CloseConnection { .. } => server.close_ok(out),
        Event::ChannelFault(fault) => {
            assert!(matches!(fault.scope, Scope::Channel(_)));
            server.fault(fault, out);
        }
        Event::Publish(p) => {
            assert_eq!(BasicProperties::of_header(p.header), Ok(p.properties));
            assert!(server.is_channel_open(p.ch) && p.payload.len() <= 1 << 12);
        }
        _ => {}
    }
}

/// A server with channels 1 and 2 open.
fn open() -> ServerSide {
    let (mut server, mut client) = (fresh(), ClientSide::new(1 << 16, 1 << 16));
    let (mut there, mut back, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    client.connect(&mut there);
    while !there.is_empty() {
        let mut from = 0;
        while let Ok(Some((consumed, event))) = server.handle_input(&there[from..], &mut gathered) {
            answer(&mut server, &event, &mut back);
            from += consumed;
        }
        there.clear();
        from = 0;
        while let Ok(Some((consumed, event))) = client.handle_input(&back[from..], &mut gathered) {
            match event {
                ClientEvent::Start(_) => {
                    client.start_ok(Table::default(), "PLAIN", b"", &mut there)
                }
                ClientEvent::Tune(offer) => {
                    client.tune_ok(offer, &mut there);
                    client.open("/", &mut there);
                }
                ClientEvent::OpenOk => (1..=2).for_each(|ch| client.channel_open(ch, &mut there)),
                _ => {}
            }
            from += consumed;
        }
        back.clear();
    }
    assert!(server.is_channel_open(2));
    server
}

fn fresh() -> ServerSide {
    ServerSide::new(ServerLimits {
        message_bytes_max: 1 << 12,
        frame_max: 1 << 14,
        ..ServerLimits::default()
    })
}

/// What the server makes of `input`, of which only the first `first` bytes arrive at first.
fn hear(mut server: ServerSide, input: &[u8], first: usize) -> Vec<String> {
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match server.handle_input(&input[from..until], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    if !matches!(event, Event::Consumed) {
                        heard.push(format!("{event:?}"));
                    }
                    answer(&mut server, &event, &mut out);
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    assert!(!matches!(fault.scope, Scope::Channel(_)));
                    heard.push(fault.to_string());
                    server.fault(&fault, &mut out);
                    // What comes after is passed over, and comes to an end.
                    while let Ok(Some((consumed, _))) =
                        server.handle_input(&input[from..], &mut gathered)
                    {
                        assert!(consumed > 0);
                        from += consumed;
                    }
                    return heard;
                }
            }
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let cut = usize::from(*choice >> 1) % (input.len() + 1);
    let server = || if choice & 1 == 0 { open() } else { fresh() };
    assert_eq!(
        hear(server(), input, input.len()),
        hear(server(), input, cut)
    );
});
