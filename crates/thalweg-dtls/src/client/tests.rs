//! The client alone; `server/tests/both_sides.rs` has it against our server, `thalweg-tests` against the running broker.

use thalweg_wire::{Reader, Span, Time};

use super::ClientSide;
use crate::alert;
use crate::message::{self, Piece};
use crate::record::{Record, VERSION_1_2, content, write_header};

fn client() -> ClientSide {
    ClientSide::new(b"sensor-1", b"secret", [7; 32], Time::from_secs(100)).expect("a legal key")
}

/// The hello in a datagram: its sequence, and its body.
fn hello(datagram: &[u8]) -> (u16, Vec<u8>) {
    let record = Record::take(&mut Reader::new(datagram)).expect("a record");
    assert_eq!((record.content, record.epoch), (content::HANDSHAKE, 0));
    let piece = Piece::take(&mut Reader::new(record.fragment)).expect("a message");
    assert!(piece.kind == message::CLIENT_HELLO && piece.is_whole());
    (piece.sequence, piece.bytes.to_vec())
}

fn handshake(kind: u8, sequence: u16, body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    message::write_header(&mut text, kind, body.len(), sequence, 0, body.len());
    text.extend_from_slice(body);
    let mut datagram = Vec::new();
    write_header(
        &mut datagram,
        content::HANDSHAKE,
        VERSION_1_2,
        0,
        u64::from(sequence),
        text.len(),
    );
    datagram.extend_from_slice(&text);
    datagram
}

#[test]
fn what_is_not_answered_is_said_again_after_longer_and_longer_waits() {
    let mut client = client();
    let first = hello(&client.take_datagram().expect("a hello"));
    let mut now = Time::from_secs(100);
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(client.poll_timeout(), now + Span::from_secs(wait));
        now = client.poll_timeout();
        client.handle_timeout(now);
        assert_eq!(hello(&client.take_datagram().expect("again")), first);
        assert_eq!(client.take_datagram(), None);
    }
}

#[test]
fn a_cookie_is_brought_back_once_with_the_same_random() {
    let mut client = client();
    let (sequence, first) = hello(&client.take_datagram().expect("a hello"));
    assert_eq!(sequence, 0);
    let ask = handshake(message::HELLO_VERIFY_REQUEST, 0, &[0xfe, 0xfd, 3, 7, 8, 9]);
    for _ in 0..2 {
        client
            .handle_datagram(&ask, Time::from_secs(100), &mut |_| {
                unreachable!("nothing is said yet")
            })
            .expect("legal");
    }
    let (sequence, second) = hello(&client.take_datagram().expect("a hello with the cookie"));
    assert_eq!(sequence, 1);
    assert_eq!(
        (&second[..34], &second[34..39]),
        (&first[..34], &[0, 3, 7, 8, 9][..])
    );
    assert_eq!(client.take_datagram(), None);
}

/// Or one datagram from anywhere would have us send thousands.
#[test]
fn a_datagram_with_many_cookies_brings_one_hello() {
    let mut client = client();
    client.take_datagram().expect("a hello");
    let asks: Vec<u8> = (0..100)
        .flat_map(|cookie| handshake(message::HELLO_VERIFY_REQUEST, 0, &[0xfe, 0xff, 1, cookie]))
        .collect();
    client
        .handle_datagram(&asks, Time::from_secs(100), &mut |_| {
            unreachable!("nothing is said yet")
        })
        .expect("legal");
    let (_, second) = hello(
        &client
            .take_datagram()
            .expect("a hello with the first cookie"),
    );
    assert_eq!(second[34..37], [0, 1, 0]);
    assert_eq!(client.take_datagram(), None);
}

#[test]
fn nonsense_ends_in_words_or_in_silence_and_never_in_a_panic() {
    let hello_done = handshake(message::SERVER_HELLO_DONE, 0, &[]);
    let mut server_hello = vec![0xfe, 0xfd];
    server_hello.extend_from_slice(&[7; 32]);
    server_hello.extend_from_slice(&[0, 0xc0, 0xa8, 0, 0, 4, 0, 23, 0, 0]);
    let good = handshake(message::SERVER_HELLO, 0, &server_hello);
    let early = handshake(message::FINISHED, 0, &[0; 12]);
    assert!(
        client()
            .handle_datagram(&hello_done, Time::ZERO, &mut |_| {})
            .is_err()
    );
    assert!(
        client()
            .handle_datagram(&good, Time::ZERO, &mut |_| {})
            .is_ok()
    );
    // Finished is taken only when it comes protected.
    assert!(
        client()
            .handle_datagram(&early, Time::ZERO, &mut |_| {})
            .is_ok()
    );
    for whole in [&hello_done, &good, &early] {
        for at in 0..whole.len() {
            let _ = client().handle_datagram(&whole[..at], Time::ZERO, &mut |_| {});
            for bit in 0..8 {
                let mut bent = whole.clone();
                bent[at] ^= 1 << bit;
                let mut client = client();
                let _ =
                    client.handle_datagram(&bent, Time::ZERO, &mut |_| panic!("nothing is open"));
                assert!(!client.is_open());
            }
        }
    }
    // An unauthenticated alert ends an unfinished handshake with a helpful error.
    let mut alert = Vec::new();
    write_header(&mut alert, content::ALERT, VERSION_1_2, 0, 1, 2);
    alert.extend_from_slice(&[2, 51]);
    let words = client()
        .handle_datagram(&alert, Time::ZERO, &mut |_| {})
        .expect_err("fatal")
        .to_string();
    assert!(words.contains("is the key right?"), "{words}");
}

/// RFC 5246 §7.4.1.3 and §7.4.1.4, RFC 5746 §3.4, RFC 7627 §5.1.
#[test]
fn a_server_hello_with_what_was_not_offered_is_refused_with_an_alert() {
    let start = [&[0xfe, 0xfd][..], &[7; 32], &[0]].concat();
    let with = |suite: [u8; 3], rest: &[u8]| [&start[..], &suite, rest].concat();
    let psk = [0xc0, 0xa8, 0];
    for (hello, description) in [
        (with(psk, &[]), None),
        (with(psk, &[0, 9, 0, 23, 0, 0, 0xff, 1, 0, 1, 0]), None),
        // max_fragment_length, session_ticket
        (
            with(psk, &[0, 9, 0, 23, 0, 0, 0, 1, 0, 1, 2]),
            Some(alert::UNSUPPORTED_EXTENSION),
        ),
        (
            with(psk, &[0, 4, 0, 35, 0, 0]),
            Some(alert::UNSUPPORTED_EXTENSION),
        ),
        (
            with(psk, &[0, 5, 0, 23, 0, 1, 0]),
            Some(alert::DECODE_ERROR),
        ),
        (
            with(psk, &[0, 6, 0xff, 1, 0, 2, 1, 7]),
            Some(alert::HANDSHAKE_FAILURE),
        ),
        (
            with(psk, &[0, 4, 0, 23, 0, 0, 9]),
            Some(alert::DECODE_ERROR),
        ),
        (with(psk, &[0, 4, 0, 23, 0]), Some(alert::DECODE_ERROR)),
        // With a certificate; and compressed.
        (with([0xc0, 0xae, 0], &[]), Some(alert::ILLEGAL_PARAMETER)),
        (with([0xc0, 0xa8, 1], &[]), Some(alert::ILLEGAL_PARAMETER)),
        (
            [&[0xfe, 0xff], &with(psk, &[])[2..]].concat(),
            Some(alert::PROTOCOL_VERSION),
        ),
    ] {
        let mut client = client();
        client.take_datagram().expect("a hello");
        let taken = client.handle_datagram(
            &handshake(message::SERVER_HELLO, 0, &hello),
            Time::ZERO,
            &mut |_| {},
        );
        assert_eq!(
            (taken.is_err(), client.is_closed()),
            (description.is_some(), description.is_some()),
            "{hello:?}"
        );
        let said = client.take_datagram();
        let record = said
            .as_deref()
            .and_then(|datagram| Record::take(&mut Reader::new(datagram)));
        let said = record.map(|record| (record.content, record.epoch, record.fragment));
        let expected = description.map(|description| [alert::FATAL, description]);
        assert_eq!(
            said,
            expected
                .as_ref()
                .map(|bytes| (content::ALERT, 0, &bytes[..])),
            "{hello:?}"
        );
        assert!(
            client.poll_timeout() == Time::NEVER || description.is_none(),
            "{hello:?}"
        );
    }
}

#[test]
fn keys_and_identities_have_limits() {
    for (identity, key) in [(&[b'x'; 129][..], &b"k"[..]), (b"a", b""), (b"a", &[0; 65])] {
        assert!(ClientSide::new(identity, key, [7; 32], Time::ZERO).is_err());
    }
}
