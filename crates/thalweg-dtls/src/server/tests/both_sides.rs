//! The client library's end against this listener.

use super::*;
use crate::ClientSide;

/// Carries datagrams between the two until both are silent; returns the texts at the client. Datagrams for which
/// `loses` is true do not arrive.
fn exchange(
    bench: &mut Bench,
    client: &mut ClientSide,
    loses: &mut dyn FnMut() -> bool,
) -> Vec<Vec<u8>> {
    let mut heard = Vec::new();
    while let Some(datagram) = client.take_datagram() {
        if loses() {
            continue;
        }
        for (_, answer) in bench.take(at("10.0.0.1:5684"), &datagram) {
            if !loses() {
                let now = bench.now;
                client
                    .handle_datagram(&answer, now, &mut |text| heard.push(text.to_vec()))
                    .unwrap();
            }
        }
    }
    heard
}

#[test]
fn the_librarys_client_and_this_listener_understand_each_other() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = ClientSide::new(b"dev1", b"secret", [7; 32], bench.now).unwrap();
    exchange(&mut bench, &mut client, &mut || false);
    assert!(client.is_open() && client.poll_timeout() == Time::NEVER);
    let mut datagram = Vec::new();
    client.encode(b"to the server", &mut datagram);
    bench.take(at("10.0.0.1:5684"), &datagram);
    assert_eq!(
        bench.texts.pop().map(|(_, text)| text),
        Some(b"to the server".to_vec())
    );
    datagram.clear();
    bench
        .listener
        .encrypt(at("10.0.0.1:5684"), b"to the client", &mut datagram)
        .unwrap();
    let mut heard = Vec::new();
    for _ in 0..2 {
        // The second time it is a repetition.
        client
            .handle_datagram(&datagram, bench.now, &mut |text| heard.push(text.to_vec()))
            .unwrap();
    }
    assert_eq!(heard, [b"to the client".to_vec()]);
}

/// RFC 5246 §7.2.1: nothing is said behind a goodbye, and nothing that comes behind one counts.
#[test]
fn behind_a_goodbye_nothing_is_said_and_nothing_is_heard() {
    for by_server in [true, false] {
        let mut bench = Bench::new(ServerLimits::default());
        let mut client = ClientSide::new(b"dev1", b"secret", [7; 32], bench.now).unwrap();
        exchange(&mut bench, &mut client, &mut || false);
        let (mut goodbye, mut late) = (Vec::new(), Vec::new());
        bench
            .listener
            .encrypt(at("10.0.0.1:5684"), b"late", &mut late)
            .unwrap();
        if by_server {
            let mut out = Output::default();
            bench.listener.close(at("10.0.0.1:5684"), &mut out);
            out.datagrams()
                .for_each(|(_, datagram)| goodbye.extend_from_slice(datagram));
            client
                .handle_datagram(&goodbye, bench.now, &mut |_| panic!("no text"))
                .unwrap();
        } else {
            client.close(&mut goodbye);
            assert_eq!(
                bench.take(at("10.0.0.1:5684"), &goodbye).len(),
                1,
                "answered"
            );
        }
        let mut wire = Vec::new();
        client.encode(b"text", &mut wire);
        client.close(&mut wire);
        client
            .handle_datagram(&late, bench.now, &mut |_| panic!("no text"))
            .unwrap();
        assert!(
            client.is_closed() && wire.is_empty() && client.take_datagram().is_none(),
            "{by_server}"
        );
    }
}

#[test]
fn a_handshake_survives_what_a_network_loses() {
    for seed in 1..200_u64 {
        // So long that cookies grow old meanwhile. (What the client library waits for is shorter.)
        let patient = ServerLimits {
            handshake_timeout: Span::from_secs(3600),
            ..ServerLimits::default()
        };
        let mut bench = Bench::new(patient);
        let mut client = ClientSide::new(b"dev2", b"other", [7; 32], bench.now).unwrap();
        let mut dice = seed;
        let mut loses = || {
            dice = dice
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (dice >> 40) % 10 < 3
        };
        // A round is a question and its answer, of which about half arrive; three are needed, and 60 leave no doubt.
        for _ in 0..60 {
            exchange(&mut bench, &mut client, &mut loses);
            if client.is_open() {
                break;
            }
            bench.now = client.poll_timeout();
            client.handle_timeout(bench.now);
        }
        assert!(client.is_open(), "seed {seed}");
    }
}

#[test]
fn a_wrong_key_ends_in_words() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = ClientSide::new(b"dev1", b"wrong", [7; 32], bench.now).unwrap();
    let mut words = None;
    while let Some(datagram) = client.take_datagram() {
        for (_, answer) in bench.take(at("10.0.0.1:5684"), &datagram) {
            if let Err(fault) =
                client.handle_datagram(&answer, bench.now, &mut |_| panic!("nothing is open"))
            {
                words = Some(fault.to_string());
            }
        }
    }
    assert!(
        words
            .as_ref()
            .is_some_and(|words| words.contains("is the key right?")),
        "{words:?}"
    );
}
