//! A connection of a client that sends anything: all at once and in two pieces, which must come to the same; and as one
//! WebSocket message. The first byte of the input chooses the cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_coap::Code;
use thalweg_coap::stream::{
    Event, ServerSide, StreamSettings, append_from_websocket, decode, decode_websocket,
    next_for_websocket,
};

/// What the server makes of `input`, of which only the first `first` bytes arrive at first, and what it answers.
fn hear(input: &[u8], first: usize) -> (Vec<String>, Vec<u8>) {
    let mut server = ServerSide::new(StreamSettings {
        message_bytes_max: 1 << 10,
        blockwise: true,
    });
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match server.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    match event {
                        Event::Request(message) => {
                            let mut again = Vec::new();
                            assert_eq!(message.encode(&mut again), consumed);
                            assert_eq!(again, &input[from - consumed..from]);
                            let _ = server.respond(
                                message.token,
                                Code::CONTENT,
                                |_| {},
                                message.payload,
                                &mut out,
                            );
                        }
                        Event::Ping { token, custody } => server.pong(token, custody, &mut out),
                        Event::Release(release) => {
                            assert!(release.alternatives().all(|address| !address.is_empty()))
                        }
                        _ => {}
                    }
                    heard.push(format!("{event:?}"));
                }
                Ok(None) => break,
                Err(fault) => {
                    server.fault(&fault, &mut out);
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
    // Once more for one that has said what it can do, so that the fuzzer need not find out how.
    let csm = [0x30, 0xE1, 0x22, 0x02, 0x00];
    let whole = [&csm[..], input].concat();
    let (heard, out) = hear(&whole, whole.len());
    assert_eq!((heard, out.clone()), hear(&whole, csm.len() + cut));
    // What we write is ours to read, and to send over WebSocket.
    let mut rest = &out[..];
    while !rest.is_empty() {
        let (len, message) = decode(rest, usize::MAX)
            .expect("we wrote it")
            .expect("all of it");
        let (taken, parts) = next_for_websocket(rest).expect("we wrote it");
        assert_eq!(len, taken);
        assert_eq!(
            decode_websocket(&[&[parts.first][..], parts.rest].concat()),
            Ok(message)
        );
        rest = &rest[len..];
    }
    let mut stream = Vec::new();
    let one = decode_websocket(input);
    match append_from_websocket(input, &mut stream) {
        Ok(()) => assert_eq!(
            decode(&stream, usize::MAX).map(|all| all.expect("all of it").1),
            one
        ),
        Err(why) => assert_eq!(one, Err(why)),
    }
});
