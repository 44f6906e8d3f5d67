//! A connection to a server that sends anything: all at once and in two pieces, which must come to the same. The first
//! byte of the input chooses the cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_coap::Code;
use thalweg_coap::stream::{ClientEvent, ClientSide, StreamSettings};

/// What the client makes of `input`, of which only the first `first` bytes arrive at first, and what it answers.
fn hear(input: &[u8], first: usize) -> (Vec<String>, Vec<u8>) {
    let mut client = ClientSide::new(StreamSettings {
        message_bytes_max: 1 << 10,
        blockwise: true,
    });
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    // Tokens 01 to 04; 02 and 04 observe.
    for observes in [false, true, false, true] {
        client
            .request(Code::GET, observes, |_| {}, &[], &mut out)
            .expect("room");
    }
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            let waiting = client.waiting();
            match client.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    let is_last = matches!(event, ClientEvent::Response { is_last: true, .. });
                    assert_eq!(client.waiting(), waiting - usize::from(is_last));
                    match event {
                        ClientEvent::Request(message) => {
                            let _ = client.respond(
                                message.token,
                                Code::NOT_IMPLEMENTED,
                                |_| {},
                                &[],
                                &mut out,
                            );
                        }
                        ClientEvent::Ping { token, custody } => {
                            client.pong(token, custody, &mut out)
                        }
                        ClientEvent::Release(release) => {
                            assert!(release.alternatives().all(|address| !address.is_empty()));
                            assert!(
                                release
                                    .hold_off_seconds()
                                    .is_none_or(|seconds| seconds < 1 << 24)
                            );
                        }
                        _ => {}
                    }
                    heard.push(format!("{event:?}"));
                }
                Ok(None) => break,
                Err(fault) => {
                    client.fault(&fault, &mut out);
                    heard.push(fault.to_string());
                    return (heard, out);
                }
            }
        }
    }
    (heard, out)
}

fuzz_target!(|input: &[u8]| {
    let [cut, input @ ..] = input else { return };
    let cut = usize::from(*cut) % (input.len() + 1);
    assert_eq!(hear(input, input.len()), hear(input, cut));
    // Once more from one that has said what it can do, so that the fuzzer need not find out how.
    let csm = [0x00, 0xE1];
    let whole = [&csm[..], input].concat();
    assert_eq!(hear(&whole, whole.len()), hear(&whole, csm.len() + cut));
});
