//! A connection to a server that sends anything: all at once and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_amqp::{ClientEvent, ClientSide, Gathered, Table};

/// What the client makes of `input`, of which only the first `first` bytes arrive at first.
fn hear(input: &[u8], first: usize) -> Vec<String> {
    let mut client = ClientSide::new(1 << 14, 1 << 12);
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    client.connect(&mut out);
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match client.handle_input(&input[from..until], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    if !matches!(event, ClientEvent::Consumed) {
                        heard.push(format!("{event:?}"));
                    }
                    match event {
                        ClientEvent::Start(_) => {
                            client.start_ok(Table::default(), "PLAIN", b"", &mut out)
                        }
                        ClientEvent::Secure { .. } => client.secure_ok(b"", &mut out),
                        ClientEvent::Tune(offer) => {
                            client.tune_ok(offer, &mut out);
                            client.open("/", &mut out);
                        }
                        ClientEvent::OpenOk => {
                            (1..=3).for_each(|ch| client.channel_open(ch, &mut out))
                        }
                        ClientEvent::ChannelClose { ch, .. } => {
                            client.channel_close_ok(ch, &mut out)
                        }
                        ClientEvent::ChannelFault(fault) => client.fault(&fault, &mut out),
                        ClientEvent::CloseConnection { .. } => client.close_ok(&mut out),
                        _ => {}
                    }
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    client.fault(&fault, &mut out);
                    return heard;
                }
            }
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    let input = input.get(1..).unwrap_or_default();
    assert_eq!(hear(input, input.len()), hear(input, cut.min(input.len())));
});
