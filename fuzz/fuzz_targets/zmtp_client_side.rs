//! A connection to a ZeroMQ server that sends anything: all at once and in two pieces, which must come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, CurveClient, Gathered, KeyPair, Limits, SocketType,
    Traffic,
};

/// What the client makes of `input`, of which only the first `first` octets arrive at first, and what it writes.
fn hear(mechanism: ClientMechanism, input: &[u8], first: usize) -> (Vec<String>, Vec<u8>) {
    let ours = Announcement::of(SocketType::Dealer);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    let mut traffic: Option<Traffic> = None;
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    client.greet(&mut out);
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            let arrived = &input[from..until];
            let step = match &mut traffic {
                Some(traffic) => traffic
                    .handle_input(arrived, &mut gathered)
                    .map(|step| step.map(|(len, event)| (len, format!("{event:?}")))),
                None => client
                    .handle_input(arrived, &mut out)
                    .map(|step| step.map(|(len, event)| (len, format!("{event:?}")))),
            };
            match step {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    heard.push(event);
                    traffic = traffic.or_else(|| client.traffic());
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

fuzz_target!(|input: &[u8]| {
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % (input.len() + 1));
    let (name, mechanism) = match cut % 3 {
        0 => ("NULL", ClientMechanism::Null),
        1 => {
            let [username, password] = [b"ada".to_vec(), b"secret".to_vec()];
            ("PLAIN", ClientMechanism::Plain { username, password })
        }
        _ => {
            let curve = CurveClient {
                server: *KeyPair::from_secret([1; 32]).public(),
                keys: KeyPair::from_secret([3; 32]),
                seed: [4; 32],
            };
            ("CURVE", ClientMechanism::Curve(Box::new(curve)))
        }
    };
    // Once as it is, and once behind a greeting, so that the fuzzer need not find out how.
    let mut greeting = [b"\xFF\0\0\0\0\0\0\0\0\x7F\x03\x01", name.as_bytes()].concat();
    greeting.resize(64, 0);
    for input in [input, &[&greeting, input].concat()] {
        let before = input.len().min(cut);
        assert_eq!(
            hear(mechanism.clone(), input, input.len()),
            hear(mechanism.clone(), input, before)
        );
    }
});
