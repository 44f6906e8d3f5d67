//! A connection of a client that sends anything: all at once and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_mqtt::{ConnAck, Event, ServerLimits, ServerSide, peek_connect, topic};

/// What the server makes of `input`, of which only the first `first` bytes arrive at first.
fn hear(input: &[u8], first: usize) -> Vec<String> {
    let limits = ServerLimits {
        // So small that inputs have larger ones.
        packet_bytes_max: 1 << 11,
        topic_alias_max: 8,
        receive_max: 8,
        load_reports: true,
        ..Default::default()
    };
    let mut server = ServerSide::new(limits);
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match server.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    // How many pieces a PINGREQ that is too long comes in is the network's affair.
                    if event != Event::PassedOver {
                        heard.push(format!("{event:?}"));
                    }
                    match event {
                        Event::Connect(_) => server.connack(&ConnAck::default(), &mut out),
                        Event::Publish(p) => {
                            assert_eq!(topic::validate_name(p.topic.as_str()), Ok(()));
                            assert_eq!(p.frame.len(), consumed);
                        }
                        Event::Subscribe(s) => assert!(s.filters().count() > 0),
                        Event::Unsubscribe(u) => assert!(u.filters().count() > 0),
                        _ => {}
                    }
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    server.fault(&fault, &mut out);
                    return heard;
                }
            }
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let _ = peek_connect(input, 1 << 16);
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    assert_eq!(hear(input, input.len()), hear(input, cut));
});
