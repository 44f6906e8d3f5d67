//! Greetings, refusals, and the order of steps.

use super::*;
use crate::greeting::{self, encode};

fn server() -> (ServerSide, Vec<u8>) {
    let mut out = Vec::new();
    let mut server = ServerSide::new(Limits::default(), mechanisms());
    server.greet(&mut out);
    (server, out)
}

fn only(null: bool) -> ServerSide {
    let plain = !null;
    ServerSide::new(
        Limits::default(),
        ServerMechanisms {
            null,
            plain,
            curve: None,
        },
    )
}

#[test]
fn older_peers_are_refused_at_the_octet_that_shows_their_version() {
    let cases: [(&[u8], PeerFault); 6] = [
        // An unversioned identity of no octets, short and long.
        (b"\x01\x00", PeerFault::ZMTP_1),
        (b"\xFF\0\0\0\0\0\0\x01\x2C\x00", PeerFault::ZMTP_1),
        (b"GET / HTTP/1.1\r\n", PeerFault::ZMTP_1),
        (b"\xFF\0\0\0\0\0\0\0\x01\x7F\x01", PeerFault::ZMTP_2),
        (b"\xFF\0\0\0\0\0\0\0\x01\x7F\x00", PeerFault::ZMTP_2),
        (b"\xFF\0\0\0\0\0\0\0\x01\x7D\x03", PeerFault::SIGNATURE),
    ];
    for (input, fault) in cases {
        let (mut server, mut out) = server();
        let written = out.len();
        assert_eq!(server.handle_input(input, &mut out), Err(fault));
        assert_eq!(
            out.len(),
            written,
            "nothing is written to a peer of another version"
        );
        let ours = Announcement::of(SocketType::Sub);
        let mut client = ClientSide::new(Limits::default(), ClientMechanism::Null, &ours);
        assert_eq!(client.handle_input(input, &mut out), Err(fault));
    }
    let (mut server, mut out) = server();
    assert_eq!(
        server.handle_input(b"\xFF\0\0\0\0\0\0\0\x01\x7F", &mut out),
        Ok(None)
    );
}

#[test]
fn higher_versions_are_valid_and_get_our_own() {
    for (major, minor, version) in [
        (3, 0, Version::V30),
        (3, 1, Version::V31),
        (3, 7, Version::V31),
        (4, 0, Version::V31),
    ] {
        let mut greeting = encode(Mechanism::Null, false);
        (greeting[10], greeting[11]) = (major, minor);
        let read = greeting::Greeting::decode(&greeting)
            .expect("valid")
            .expect("whole");
        assert_eq!(read.version, version);
    }
}

#[test]
fn a_listener_of_one_mechanism_greets_at_once_and_of_several_when_it_knows_the_clients() {
    let mut out = Vec::new();
    only(true).greet(&mut out);
    assert_eq!(out, encode(Mechanism::Null, true));
    let mut whole = Vec::new();
    only(false).greet(&mut whole);
    assert_eq!(whole, encode(Mechanism::Plain, true));
    assert_eq!(
        (whole[32], out[32]),
        (1, 0),
        "as-server of NULL must be zero"
    );

    for mechanism in Mechanism::ALL {
        let (mut server, mut out) = server();
        assert_eq!(out, encode(mechanism, true)[..11]);
        let greeting = encode(mechanism, false);
        let step = server.handle_input(&greeting, &mut out);
        assert_eq!(step, Ok(Some((64, HandshakeEvent::Consumed))));
        assert_eq!(out, encode(mechanism, true));
    }
}

#[test]
fn another_mechanism_is_refused_behind_a_whole_greeting() {
    for (theirs, mut server) in [
        (Mechanism::Curve, only(true)),
        (Mechanism::Null, only(false)),
        (Mechanism::Plain, only(true)),
    ] {
        let mut out = Vec::new();
        server.greet(&mut out);
        let greeting = encode(theirs, false);
        assert_eq!(
            server.handle_input(&greeting, &mut out),
            Err(PeerFault::MECHANISM)
        );
        assert_eq!(out.len(), 64);
    }
    let (mut server, mut out) = server();
    let greeting = encode(Mechanism::Plain, true);
    assert_eq!(
        server.handle_input(&greeting, &mut out),
        Err(PeerFault::AS_SERVER)
    );
}

#[test]
fn every_mechanism_leads_both_ends_to_traffic() {
    for mechanism in client_mechanisms() {
        let (mut client, mut server) = pair(mechanism, SocketType::Sub, SocketType::Xpub);
        let (mut wire, mut gathered) = (Vec::new(), Gathered::default());
        client.subscribe(b"a", &mut wire);
        let heard = server.handle_input(&wire, &mut gathered).expect("valid");
        assert_eq!(heard, Some((wire.len(), Event::Subscribe(b"a"))));
    }
}

#[test]
fn verbs_out_of_turn_write_nothing() {
    let (mut server, mut out) = server();
    out.clear();
    server.welcome(&mut out);
    assert!(
        server
            .ready(&Announcement::of(SocketType::Xpub), &mut out)
            .is_none()
    );
    server.error("400", &mut out);
    assert!(out.is_empty());
    assert_eq!(
        server.handle_input(&encode(Mechanism::Null, false), &mut out),
        Ok(None)
    );
}

#[test]
fn a_refused_login_reads_the_reason_also_as_libzmq_misspells_it() {
    for error in [&b"\x04\x0A\x05ERROR\x03400"[..], b"\x04\x09^RROR\x03400"] {
        let ours = Announcement::of(SocketType::Push);
        let mut client = ClientSide::new(Limits::default(), plain(), &ours);
        let mut out = Vec::new();
        let greeting = encode(Mechanism::Plain, true);
        client.handle_input(&greeting, &mut out).expect("valid");
        let event = client.handle_input(error, &mut out);
        assert_eq!(
            event,
            Ok(Some((error.len(), HandshakeEvent::Error(b"400"))))
        );
        assert!(client.traffic().is_none());
    }
    let (mut server, mut out) = server();
    server
        .handle_input(&encode(Mechanism::Plain, false), &mut out)
        .expect("valid");
    let login = server.handle_input(b"\x04\x0D\x05HELLO\x03ada\x02no", &mut out);
    assert!(matches!(login, Ok(Some((15, HandshakeEvent::Login(_))))));
    out.clear();
    server.error("400", &mut out);
    assert_eq!(out, b"\x04\x0A\x05ERROR\x03400");
}

#[test]
fn steps_out_of_order_and_what_cannot_be_read_are_faults() {
    let null: [(&[u8], PeerFault); 9] = [
        (b"\x00\x01x", PeerFault::EXPECTED_COMMAND),
        (b"\x04\x06\x05HELLO", PeerFault::UNEXPECTED_COMMAND),
        (b"\x04\x06\x05READY", PeerFault::SOCKET_TYPE),
        (b"\x04\x07\x05READY\x00", PeerFault::METADATA),
        (
            b"\x04\x0C\x05READY\x01a\xFF\xFF\xFF\xFF",
            PeerFault::METADATA,
        ),
        (
            b"\x04\x0C\x05READY\x01 \x00\x00\x00\x00",
            PeerFault::METADATA,
        ),
        (
            b"\x04\x14\x05READY\x08Identity\x00\x00\x00\x01\x00",
            PeerFault::IDENTITY,
        ),
        (b"\x04\x07\x05ERROR\x01", PeerFault::ERROR_REASON),
        (
            b"\x06\x00\x00\x00\x00\x00\x01\x00\x00",
            PeerFault::COMMAND_TOO_LARGE,
        ),
    ];
    let plain: [(&[u8], PeerFault); 4] = [
        (b"\x04\x06\x05READY", PeerFault::UNEXPECTED_COMMAND),
        (b"\x04\x06\x05HELLO", PeerFault::LOGIN),
        (b"\x04\x08\x05HELLO\x02a", PeerFault::LOGIN),
        (b"\x04\x09\x05HELLO\x00\x00x", PeerFault::LOGIN),
    ];
    let null = null.map(|case| (Mechanism::Null, case));
    let plain = plain.map(|case| (Mechanism::Plain, case));
    for (mechanism, (input, fault)) in null.into_iter().chain(plain) {
        let (mut server, mut out) = server();
        server
            .handle_input(&encode(mechanism, false), &mut out)
            .expect("valid");
        let heard = server.handle_input(input, &mut out);
        assert_eq!(heard, Err(fault), "{}", input.escape_ascii());
    }
}

#[test]
fn a_client_refuses_a_server_that_it_cannot_talk_to() {
    let ours = Announcement::of(SocketType::Sub);
    for (kind, fault) in [(&b"PULL"[..], true), (b"XPUB", false)] {
        let mut client = ClientSide::new(Limits::default(), ClientMechanism::Null, &ours);
        let mut out = Vec::new();
        client
            .handle_input(&encode(Mechanism::Null, false), &mut out)
            .expect("valid");
        let ready = [b"\x04\x1A\x05READY\x0BSocket-Type\0\0\0\x04", kind].concat();
        let heard = client.handle_input(&ready, &mut out);
        assert_eq!(heard.err(), fault.then_some(PeerFault::SOCKET_TYPE));
    }
    let mut client = ClientSide::new(Limits::default(), plain(), &ours);
    let greeting = encode(Mechanism::Null, false);
    let heard = client.handle_input(&greeting, &mut Vec::new());
    assert_eq!(heard, Err(PeerFault::MECHANISM));
}

#[test]
fn what_goes_with_what_goes_both_ways() {
    for a in SocketType::ALL {
        assert_eq!(SocketType::from_name(a.name().as_bytes()), Some(*a));
        assert!(SocketType::ALL.iter().any(|b| a.goes_with(*b)));
        for b in SocketType::ALL {
            assert_eq!(a.goes_with(*b), b.goes_with(*a), "{a:?} {b:?}");
        }
    }
}
