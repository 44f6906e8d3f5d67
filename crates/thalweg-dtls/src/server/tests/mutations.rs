//! Whole handshakes in which one message is modified: its lengths, body, header, protection or fragments. A consistent
//! client includes the change in its transcript, so its Finished fits; an inconsistent one does not. The states that
//! the machine reaches are counted, to show how deep the test goes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::*;

/// Of each kind of message, in each kind of suite, in either manner.
const SEEDS: u64 = 240;

/// Most bytes of a handshake: transcript and flight with the server's certificate, and messages that a client sends
/// ahead.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

struct Case {
    suite: u16,
    kind: u8,
    sincere: bool,
    seed: u64,
}

#[derive(Default)]
struct Seen {
    /// Suite, and the message that the server waited for.
    states: BTreeSet<(bool, String)>,
    refusals: BTreeMap<String, usize>,
    completed: usize,
    silent: usize,
    bytes_max: usize,
}

#[test]
fn no_handshake_with_a_changed_message_lets_anybody_in_as_somebody_else() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let certificate = sensor_7();
    let mut seen = Seen::default();
    let both = [CLIENT_HELLO, message::CLIENT_KEY_EXCHANGE, FINISHED];
    let with_certificate = [message::CERTIFICATE, message::CERTIFICATE_VERIFY];
    for seed in 0..SEEDS {
        let (psk, ecdhe) = (
            PSK_SUITES[seed as usize % 3],
            ECDHE_SUITES[seed as usize % 3],
        );
        let cases = both
            .map(|kind| (psk, kind))
            .into_iter()
            .chain(both.map(|kind| (ecdhe, kind)));
        for (suite, kind) in cases.chain(with_certificate.map(|kind| (ecdhe, kind))) {
            for sincere in [true, false] {
                run(
                    &mut bench,
                    &certificate,
                    &Case {
                        suite,
                        kind,
                        sincere,
                        seed,
                    },
                    &mut seen,
                );
            }
        }
    }
    let Seen {
        states,
        refusals,
        completed,
        silent,
        bytes_max,
    } = &seen;
    println!(
        "{states:?}\n{refusals:#?}\n{completed} completed, {silent} silent, at most {bytes_max} bytes"
    );
    assert!(*bytes_max <= HANDSHAKE_BYTES_MAX, "{bytes_max}");
    let waited = |psk: bool| {
        states
            .iter()
            .filter(|(of, _)| *of == psk)
            .map(|(_, state)| &state[..])
            .collect::<Vec<_>>()
    };
    assert_eq!(waited(true), ["ClientKeyExchange", "Finished"]);
    assert_eq!(
        waited(false),
        [
            "Certificate",
            "CertificateVerify",
            "ClientKeyExchange",
            "Finished"
        ]
    );
    for deep in [
        "a Certificate is cut short",
        "a ClientKeyExchange without an identity",
        "a ClientKeyExchange without a point",
        "a CertificateVerify is cut short",
        "a client certificate is required",
        "a signature of a kind that was not asked for",
        "bytes behind the list of a Certificate",
        "no cipher suite",
        "the peer does not speak DTLS 1.2",
        "the peer has another key",
        "the peer's point is not on the curve",
        "the peer's signature was not made",
        "came where Finished was expected",
        "came where Certificate was expected",
    ] {
        assert!(
            refusals.keys().any(|why| why.contains(deep)),
            "never refused because {deep}"
        );
    }
    assert!(
        *completed > 100,
        "what changes nothing must not keep anybody out: {completed}"
    );
}

/// RFC 6347 §4.2.3 has pieces kept until their message is whole; a peer that says much and sends little costs no more
/// than this.
#[test]
fn what_is_kept_of_messages_in_pieces_is_bounded() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let mut most = 0;
    for seed in 0..40 {
        let suite = [0xc0a8, 0xc0ae][seed as usize % 2];
        let mut client = Client::new(
            at(HERE),
            1,
            Plan {
                suites: vec![suite],
                ..Plan::default()
            },
        );
        for _ in 0..2 {
            let hello = client.out.remove(0);
            bench
                .take(at(HERE), &hello)
                .into_iter()
                .for_each(|(_, answer)| client.handle_datagram(&answer));
        }
        let mut dice = Dice(seed);
        for _ in 0..500 {
            let mut bytes = Vec::new();
            let length = [100, 512, 513, 8 * 1024, 8 * 1024 + 1, 0xff_ffff][dice.below(6).unwrap()];
            // The next message is left out: with it, the machine would go on.
            let sequence = 3 + dice.below(9).unwrap() as u16;
            let (begins, piece) = (dice.below(length).unwrap(), dice.below(2).unwrap());
            message::write_header(
                &mut bytes,
                message::CERTIFICATE,
                length,
                sequence,
                begins,
                piece,
            );
            bytes.extend_from_slice(&[1][..piece]);
            client.out.clear();
            client.send_record(content::HANDSHAKE, false, &bytes);
            bench.take(at(HERE), &client.out[0]);
            let place = bench.listener.peers.place(&at(HERE)).unwrap();
            most = most.max(
                bench
                    .listener
                    .peers
                    .handshake(place)
                    .expect("it waits")
                    .footprint()
                    .0,
            );
        }
        bench.tick(Span::from_secs(31));
        assert_eq!(bench.listener.peers.addresses(), 0, "seed {seed}");
    }
    assert!((20 * 1024..=HANDSHAKE_BYTES_MAX).contains(&most), "{most}");
}

fn run(bench: &mut Bench, certificate: &Identity, case: &Case, seen: &mut Seen) {
    let Case {
        suite,
        kind,
        sincere,
        seed,
    } = *case;
    let is_psk = PSK_SUITES.contains(&suite);
    let name = format!("suite {suite:x}, message {kind}, sincere {sincere}, seed {seed}");
    let mut plan = Plan {
        suites: vec![suite],
        certificate: Some(certificate.clone()),
        ..Plan::default()
    };
    let changed = Rc::new(Cell::new(false));
    if sincere {
        let changed = changed.clone();
        plan.twists_body = Some(Rc::new(move |of, body| {
            if of == kind {
                let before = body.clone();
                change_body(kind, is_psk, &mut Dice(seed), body);
                changed.set(*body != before);
            }
        }));
    } else {
        plan.twists_wire = Some(Rc::new(move |whole, protected| {
            if whole[0] == kind {
                change_wire(whole, protected, &mut Dice(seed))
            } else {
                as_it_is(whole, protected)
            }
        }));
    }
    let mut client = Client::new(at(HERE), 1, plan);
    bench.events.clear();
    for _ in 0..4 {
        for datagram in std::mem::take(&mut client.out) {
            for (_, answer) in bench.take(at(HERE), &datagram) {
                client.handle_datagram(&answer);
            }
            let place = bench.listener.peers.place(&at(HERE));
            if let Some(handshake) = place.and_then(|place| bench.listener.peers.handshake(place)) {
                let (bytes, expects) = handshake.footprint();
                seen.bytes_max = seen.bytes_max.max(bytes);
                seen.states.insert((is_psk, format!("{expects:?}")));
            }
        }
    }
    let expected = if is_psk {
        psk("dev1")
    } else {
        named("sensor 7")
    };
    match bench.listener.identity(at(HERE)).cloned() {
        // The client has checked the server's Finished, so both have the same transcript and the same secret.
        Some(identity) => {
            assert!(client.is_done, "{name}");
            assert_eq!(identity, expected, "{name}");
            // A hello may say something else; nothing that proves who the client is may.
            assert!(kind == CLIENT_HELLO || !changed.get(), "{name}");
            seen.completed += 1;
            bench.listener.close(at(HERE), &mut Output::default());
        }
        None => {
            assert!(!client.is_done, "{name}");
            match bench.events.last() {
                Some(Event::Refused { why, .. }) => {
                    *seen.refusals.entry(why.clone()).or_default() += 1
                }
                None => seen.silent += 1,
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    bench.tick(Span::from_secs(31));
    assert_eq!(
        (
            bench.listener.handshakes(),
            bench.listener.peers.addresses()
        ),
        (0, 0),
        "{name}"
    );
}

/// Where a message says how long something is: place and width.
fn lengths(kind: u8, is_psk: bool) -> &'static [(usize, usize)] {
    match kind {
        // Version, session, cookie, suites, compression, extensions, and the first two of these.
        CLIENT_HELLO => &[
            (0, 2),
            (34, 1),
            (35, 1),
            (36, 2),
            (40, 1),
            (42, 2),
            (46, 2),
            (48, 2),
            (54, 2),
            (56, 2),
        ],
        message::CERTIFICATE => &[(0, 3), (3, 3)],
        message::CLIENT_KEY_EXCHANGE if is_psk => &[(0, 2)],
        message::CLIENT_KEY_EXCHANGE => &[(0, 1)],
        // The first is the kind of signature.
        message::CERTIFICATE_VERIFY => &[(0, 2), (2, 2)],
        _ => &[],
    }
}

fn change_body(kind: u8, is_psk: bool, dice: &mut Dice, body: &mut Vec<u8>) {
    // The same change in both hellos, or the cookie would not fit.
    let cookie = match kind {
        CLIENT_HELLO => body.splice(35..36 + usize::from(body[35]), [0]).collect(),
        _ => Vec::new(),
    };
    let lengths = lengths(kind, is_psk);
    match dice.below(10).unwrap() {
        0..4 if !lengths.is_empty() => {
            let (place, width) = lengths[dice.below(lengths.len()).unwrap()];
            let field = &mut body[place..place + width];
            let number = field
                .iter()
                .fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            let others = [
                number.wrapping_add(1),
                number.wrapping_sub(1),
                0,
                u32::MAX,
                number << 8,
                number / 2,
            ];
            let other = others[dice.below(others.len()).unwrap()].to_be_bytes();
            field.copy_from_slice(&other[4 - width..]);
        }
        4 => body.truncate(dice.below(body.len() + 1).unwrap()),
        5 => (0..=dice.below(40).unwrap()).for_each(|byte| body.push(byte as u8)),
        6 => {
            let from = dice.below(body.len() + 1).unwrap();
            body.drain(from..body.len().min(from + 1 + dice.below(8).unwrap()));
        }
        7 => {
            let from = dice.below(body.len() + 1).unwrap();
            let again = body[from..].to_vec();
            body.extend_from_slice(&again);
        }
        8 => {
            *body = vec![
                [0, 1, 4, 255][dice.below(4).unwrap()];
                [0, 1, 3, 65, 600][dice.below(5).unwrap()]
            ]
        }
        _ => {
            let place = dice.below(body.len().max(1)).unwrap();
            body.iter_mut()
                .skip(place)
                .take(1)
                .for_each(|byte| *byte ^= 1 << dice.below(8).unwrap());
        }
    }
    if body.get(35) == Some(&0) && cookie.len() > 1 {
        body.splice(35..36, cookie);
    }
}

fn as_it_is(whole: &[u8], protected: bool) -> Vec<(u8, bool, Vec<u8>)> {
    vec![(content::HANDSHAKE, protected, whole.to_vec())]
}

fn fragment(whole: &[u8], from: usize, to: usize) -> Vec<u8> {
    let piece = Piece::take(&mut Reader::new(whole)).unwrap();
    let mut bytes = Vec::new();
    message::write_header(
        &mut bytes,
        piece.kind,
        piece.length,
        piece.sequence,
        from,
        to - from,
    );
    bytes.extend_from_slice(&piece.bytes[from..to]);
    bytes
}

fn change_wire(whole: &[u8], protected: bool, dice: &mut Dice) -> Vec<(u8, bool, Vec<u8>)> {
    let length = whole.len() - message::HEADER_BYTES;
    let record = |bytes: Vec<u8>| (content::HANDSHAKE, protected, bytes);
    match dice.below(10).unwrap() {
        // Kind, length, number, where the piece begins, how long it is.
        0..4 => {
            let mut bytes = whole.to_vec();
            bytes[[0, 1, 2, 3, 4, 5, 6, 8, 9, 11][dice.below(10).unwrap()]] ^=
                1 << dice.below(8).unwrap();
            vec![record(bytes)]
        }
        4 => vec![(content::HANDSHAKE, !protected, whole.to_vec())],
        5 => vec![(
            [20, 21, 23, 24][dice.below(4).unwrap()],
            protected,
            whole.to_vec(),
        )],
        6 => Vec::new(),
        // Three times, and cut and whole.
        7 => [
            whole.to_vec(),
            fragment(whole, 0, length / 2),
            whole.to_vec(),
        ]
        .map(record)
        .into(),
        // Pieces that overlap and agree, or do not.
        8 => {
            let (middle, reaches) = (length / 2, (length / 2 + 5).min(length));
            let (mut first, last) = (fragment(whole, 0, reaches), fragment(whole, middle, length));
            if dice.below(2) == Some(0) {
                first
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|byte| *byte ^= 1);
            }
            let mut pieces = vec![first, fragment(whole, middle, middle), last];
            if dice.below(2) == Some(0) {
                pieces.reverse();
            }
            pieces.into_iter().map(record).collect()
        }
        // Another message in its place, and then it.
        _ => {
            let mut other = whole.to_vec();
            other[0] = [0, 2, 11, 14, 15, 16, 20][dice.below(7).unwrap()];
            vec![
                (
                    content::HANDSHAKE,
                    protected && dice.below(2) == Some(0),
                    other,
                ),
                record(whole.to_vec()),
            ]
        }
    }
}
