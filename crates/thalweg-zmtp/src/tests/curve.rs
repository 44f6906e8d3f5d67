//! CURVE: what a wrong key, a changed octet and a repeated one come to.

use thalweg_wire::testkit::{Side, parse_transcript};

use super::*;
use crate::greeting::encode;

/// Result of a handshake at each end.
struct Attempt {
    client: Result<Option<Traffic>, PeerFault>,
    server: Result<Option<(Traffic, [u8; 32])>, PeerFault>,
}

/// A handshake with this client. `change` may damage each command on its way; it gets the number of the command, from 0.
fn attempt(mechanism: ClientMechanism, mut change: impl FnMut(usize, &mut Vec<u8>)) -> Attempt {
    let ours = Announcement::of(SocketType::Dealer);
    let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
    let mut server = ServerSide::new(Limits::default(), mechanisms());
    let mut out = Vec::new();
    server
        .handle_input(&encode(Mechanism::Curve, false), &mut out)
        .expect("valid");
    let mut attempt = Attempt {
        client: Ok(None),
        server: Ok(None),
    };
    let mut hello = Vec::new();
    client
        .handle_input(&encode(Mechanism::Curve, true), &mut hello)
        .expect("valid");
    let mut command = hello;
    for number in 0..4 {
        change(number, &mut command);
        let mut answer = Vec::new();
        if number % 2 == 0 {
            match server.handle_input(&command, &mut answer) {
                Err(fault) => attempt.server = Err(fault),
                Ok(Some((_, HandshakeEvent::Peer(peer)))) => {
                    let ours = Announcement::of(SocketType::Router);
                    let traffic = server.ready(&ours, &mut answer).expect("it waits");
                    attempt.server = Ok(Some((traffic, peer.curve_key.expect("CURVE has one"))));
                }
                Ok(_) => {}
            }
        } else {
            if let Err(fault) = client.handle_input(&command, &mut answer) {
                attempt.client = Err(fault);
            }
            if let Some(traffic) = client.traffic() {
                attempt.client = Ok(Some(traffic));
            }
        }
        if answer.is_empty() {
            break;
        }
        command = answer;
    }
    attempt
}

#[test]
fn commands_have_the_lengths_of_the_rfc_and_the_client_is_known_by_its_key() {
    let mut lengths = Vec::new();
    let attempt = attempt(curve(), |_, command| lengths.push(command.len()));
    // Bodies of 200, 168, 257 and 30 octets without metadata, which are 30 and 34 here; heads of 2 and 9.
    let (dealer, router) = (
        Announcement::of(SocketType::Dealer).encode().len(),
        Announcement::of(SocketType::Router).encode().len(),
    );
    assert_eq!(lengths, [202, 170, 9 + 257 + dealer, 2 + 30 + router]);
    let (_, key) = attempt.server.expect("valid").expect("a peer");
    assert_eq!(&key, KeyPair::from_secret([3; 32]).public());
    assert!(attempt.client.expect("valid").is_some());
}

#[test]
fn a_wrong_server_key_or_none_ends_at_hello() {
    for (server, fault) in [
        (*KeyPair::from_secret([9; 32]).public(), true),
        ([0; 32], false),
    ] {
        let mechanism = ClientMechanism::Curve(Box::new(CurveClient {
            server,
            keys: KeyPair::from_secret([3; 32]),
            seed: [4; 32],
        }));
        if fault {
            let attempt = attempt(mechanism, |_, _| {});
            assert_eq!(attempt.server.err(), Some(PeerFault::CURVE_BOX));
        } else {
            let ours = Announcement::of(SocketType::Dealer);
            let mut client = ClientSide::new(Limits::default(), mechanism, &ours);
            let greeting = encode(Mechanism::Curve, true);
            let heard = client.handle_input(&greeting, &mut Vec::new());
            assert_eq!(heard, Err(PeerFault::CURVE_BOX));
        }
    }
}

#[test]
fn each_changed_octet_of_the_handshake_is_noticed_by_who_reads_it() {
    let mut lengths = Vec::new();
    attempt(curve(), |_, command| lengths.push(command.len()));
    for (number, len) in lengths.into_iter().enumerate() {
        // Behind the frame's head every octet counts. A step of 5 meets every field.
        let head = if len > 257 { 9 } else { 2 };
        for at in (head..len).step_by(5) {
            let attempt = attempt(curve(), |n, command| {
                if n == number {
                    command[at] ^= 0x10;
                }
            });
            let noticed = if number % 2 == 0 {
                attempt.server.err()
            } else {
                attempt.client.err()
            };
            assert!(noticed.is_some(), "octet {at} of command {number}");
        }
        let attempt = attempt(curve(), |n, command| {
            if n == number {
                command.pop();
                let at = head - 1;
                command[at] = command[at].wrapping_sub(1);
            }
        });
        assert!(
            attempt.server.is_err() || attempt.client.is_err(),
            "command {number} cut short"
        );
    }
}

#[test]
fn what_is_repeated_changed_or_in_clear_ends_the_connection() {
    let (mut client, mut server) = pair(curve(), SocketType::Dealer, SocketType::Router);
    let mut gathered = Gathered::default();
    let mut wire = Vec::new();
    client.frame(b"secret", false, &mut wire);
    assert!(!wire.windows(6).any(|part| part == b"secret"));
    let heard = server.handle_input(&wire, &mut gathered).expect("valid");
    let (consumed, event) = heard.expect("complete");
    assert!(matches!(event, Event::Message(m) if m.raw() == b"\x00\x06secret"));
    assert_eq!(consumed, wire.len());
    assert_eq!(
        server.handle_input(&wire, &mut gathered),
        Err(PeerFault::CURVE_NONCE)
    );

    for at in [3, 17, 18, wire.len() - 1] {
        let mut wire = Vec::new();
        client.frame(b"secret", false, &mut wire);
        wire[at] ^= 1;
        let heard = server
            .handle_input(&wire, &mut gathered)
            .expect_err("changed");
        let faults = [PeerFault::CURVE_BOX, PeerFault::EXPECTED_MESSAGE];
        assert!(faults.contains(&heard), "octet {at}: {heard}");
    }
    for clear in [&b"\x00\x01x"[..], b"\x04\x07\x04PING\x00\x00"] {
        let heard = server.handle_input(clear, &mut gathered);
        assert_eq!(heard, Err(PeerFault::EXPECTED_MESSAGE));
    }
    // An end does not take for the peer's what it has said itself.
    let mut echo = Vec::new();
    for _ in 0..9 {
        echo.clear();
        server.frame(b"secret", false, &mut echo);
    }
    assert_eq!(
        server.handle_input(&echo, &mut gathered),
        Err(PeerFault::CURVE_BOX)
    );
}

#[test]
fn commands_and_frames_of_several_frames_keep_their_places() {
    let (mut client, mut server) = pair(curve(), SocketType::Sub, SocketType::Xpub);
    let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
    client.frame(b"a", true, &mut wire);
    client.ping(50, b"ctx", &mut wire);
    client.frame(&[b'b'; 300], false, &mut wire);
    client.subscribe(b"p", &mut wire);
    client.cancel(b"p", &mut wire);
    client.pong(b"", &mut wire);
    let mut heard = Vec::new();
    let mut from = 0;
    while let Some((consumed, event)) = server
        .handle_input(&wire[from..], &mut gathered)
        .expect("valid")
    {
        from += consumed;
        heard.push(match event {
            Event::Message(m) => format!("{:?}", m.frames().map(<[u8]>::len).collect::<Vec<_>>()),
            event => words(&event),
        });
    }
    let ping = Event::Ping {
        ttl: 50,
        context: b"ctx",
    };
    let expected = [
        words(&Event::Consumed),
        words(&ping),
        "[1, 300]".to_owned(),
        words(&Event::Subscribe(b"p")),
        words(&Event::Cancel(b"p")),
        words(&Event::Pong(b"")),
    ];
    assert_eq!((heard, from), (expected.to_vec(), wire.len()));
}

#[test]
fn limits_hold_for_what_was_decrypted() {
    let (mut client, _) = pair(curve(), SocketType::Dealer, SocketType::Router);
    let (_, mut server) = pair(curve(), SocketType::Dealer, SocketType::Router);
    let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
    // 1 MiB with the head of the frame that it would be in clear.
    client.frame(&vec![0; (1 << 20) - 9], false, &mut wire);
    let heard = server.handle_input(&wire, &mut gathered).expect("valid");
    assert!(heard.is_some());
    wire.clear();
    client.frame(&vec![0; (1 << 20) - 8], false, &mut wire);
    let heard = server.handle_input(&wire, &mut gathered);
    assert_eq!(heard, Err(PeerFault::MESSAGE_TOO_LARGE));
}

#[test]
fn a_recorded_client_of_libzmq_gets_the_recorded_answers() {
    let transcript = include_str!("../../transcripts/curve-server.txt");
    let mut server = ServerSide::new(Limits::default(), mechanisms());
    let (mut out, mut gathered) = (Vec::new(), Gathered::default());
    server.greet(&mut out);
    let mut traffic: Option<Traffic> = None;
    let mut heard = Vec::new();
    for line in parse_transcript(transcript).expect("it parses") {
        if line.side == Side::Server {
            assert_eq!(out, line.bytes, "line {}", line.number);
            out.clear();
            continue;
        }
        let mut rest = &line.bytes[..];
        while !rest.is_empty() {
            let consumed = match &mut traffic {
                Some(traffic) => {
                    let event = traffic.handle_input(rest, &mut gathered);
                    let (consumed, event) = event.expect("valid").expect("complete");
                    heard.push(words(&event));
                    if let Event::Message(message) = event {
                        traffic.forward(message, &mut out);
                    }
                    consumed
                }
                None => {
                    let event = server.handle_input(rest, &mut out);
                    let (consumed, event) = event.expect("valid").expect("complete");
                    if let HandshakeEvent::Peer(peer) = event {
                        assert_eq!(peer.metadata.identity(), b"dev-1");
                        let ours = Announcement::of(SocketType::Router);
                        traffic = server.ready(&ours, &mut out);
                    }
                    consumed
                }
            };
            rest = &rest[consumed..];
        }
    }
    assert_eq!(
        heard,
        [
            words(&Event::Consumed),
            r#"Message(Message["a", "payload"])"#.to_owned()
        ]
    );
}

#[test]
fn a_recorded_server_of_libzmq_hears_what_it_heard() {
    let transcript = include_str!("../../transcripts/curve-client.txt");
    let ours = Announcement::of(SocketType::Sub);
    let mut client = ClientSide::new(Limits::default(), curve(), &ours);
    let (mut out, mut gathered) = (Vec::new(), Gathered::default());
    client.greet(&mut out);
    let mut traffic: Option<Traffic> = None;
    let mut heard = Vec::new();
    for line in parse_transcript(transcript).expect("it parses") {
        if line.side == Side::Client {
            assert_eq!(out, line.bytes, "line {}", line.number);
            out.clear();
            continue;
        }
        let mut rest = &line.bytes[..];
        while !rest.is_empty() {
            let consumed = match &mut traffic {
                Some(traffic) => {
                    let event = traffic.handle_input(rest, &mut gathered);
                    let (consumed, event) = event.expect("valid").expect("complete");
                    heard.push(words(&event));
                    consumed
                }
                None => {
                    let event = client.handle_input(rest, &mut out);
                    let (consumed, _) = event.expect("valid").expect("complete");
                    traffic = client.traffic();
                    if let Some(traffic) = &mut traffic {
                        traffic.subscribe(b"a", &mut out);
                    }
                    consumed
                }
            };
            rest = &rest[consumed..];
        }
    }
    assert_eq!(
        heard,
        [
            words(&Event::Consumed),
            r#"Message(Message["a/b", "payload"])"#.to_owned()
        ]
    );
}
