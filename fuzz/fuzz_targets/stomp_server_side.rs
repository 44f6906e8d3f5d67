//! A connection of a client that sends anything: all at once and in two pieces, which must come to the same. Then what it
//! asks for: destinations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_stomp::{
    ConnectedOut, Destination, Dialect, Event, FrameLimits, ServerLimits, ServerSide,
};

/// What the server makes of `input`, of which only the first `first` bytes arrive at first. Heart-beats are not counted:
/// how many there are depends on how the bytes arrive.
fn hear(input: &[u8], first: usize) -> Vec<String> {
    let frame = FrameLimits {
        command_bytes_max: 16,
        header_bytes_max: 64,
        headers_max: 8,
        head_bytes_max: 256,
        body_bytes_max: 1 << 10,
    };
    let mut server = ServerSide::new(ServerLimits {
        connect: frame.clone(),
        frame,
    });
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match server.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    match &event {
                        Event::HeartBeat => continue,
                        Event::Connect(_) => server.connected(&ConnectedOut::default(), &mut out),
                        Event::Send(send) => {
                            assert!(send.frame.len() <= consumed);
                            let written = send.headers.get("destination").expect("required");
                            assert!(
                                written.trim_start_matches(' ')
                                    == send.destination.trim_start_matches(' ')
                            );
                            read_destination(&send.destination);
                        }
                        _ => {}
                    }
                    heard.push(format!("{event:?}"));
                }
                Ok(None) => break,
                Err(fault) => {
                    out.clear();
                    server.fault(&fault, &mut out);
                    heard.push(String::from_utf8_lossy(&out).into_owned());
                    return heard;
                }
            }
        }
    }
    heard
}

/// A destination that means something means the same when it is written again.
fn read_destination(text: &str) {
    for dialect in [Dialect::Rabbitmq, Dialect::Activemq, Dialect::Slash] {
        if let Ok(destination) = Destination::parse(text, dialect) {
            assert_eq!(
                Destination::parse(&destination.to_string(), dialect),
                Ok(destination)
            );
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    // Once more for one that is connected, so that the fuzzer need not find out how.
    let connect = format!(
        "STOMP\naccept-version:{}\n\n\0",
        ["1.0", "1.1", "1.2"][cut % 3]
    );
    let connected = [connect.as_bytes(), input].concat();
    assert_eq!(hear(input, input.len()), hear(input, cut));
    assert_eq!(
        hear(&connected, connected.len()),
        hear(&connected, connect.len() + cut)
    );
    if let Ok(text) = std::str::from_utf8(input) {
        read_destination(text);
    }
});
