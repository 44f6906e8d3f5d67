//! A connection to a server that sends anything: all at once and in two pieces, which must come to the same. The first
//! byte of the input chooses the version, the second the cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_stomp::{ClientEvent, ClientSide, ConnectOut, FrameLimits, Version};

/// What the client makes of `input`, of which only the first `first` bytes arrive at first. Heart-beats are not counted:
/// how many there are depends on how the bytes arrive.
fn hear(version: Version, input: &[u8], first: usize) -> Vec<String> {
    let mut client = ClientSide::new(FrameLimits {
        body_bytes_max: 1 << 10,
        ..FrameLimits::default()
    });
    client.connect(
        &ConnectOut {
            lowest: version,
            highest: version,
            ..ConnectOut::default()
        },
        &mut Vec::new(),
    );
    let mut heard = Vec::new();
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match client.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    if event != ClientEvent::HeartBeat {
                        heard.push(format!("{event:?}"));
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return heard;
                }
            }
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let [choice, cut, input @ ..] = input else {
        return;
    };
    let version = Version::ALL[usize::from(*choice) % 3];
    let cut = usize::from(*cut) % (input.len() + 1);
    assert_eq!(hear(version, input, input.len()), hear(version, input, cut));
    // Once more for one that is connected, so that the fuzzer need not find out how.
    let connected = format!("CONNECTED\nversion:{version}\n\n\0");
    let (whole, cut) = (
        [connected.as_bytes(), input].concat(),
        connected.len() + cut,
    );
    assert_eq!(
        hear(version, &whole, whole.len()),
        hear(version, &whole, cut)
    );
});
