//! Everything has a limit, and meeting it is a fault that does not depend on how the bytes arrive.

use super::*;

fn fault_of(input: &[u8]) -> Option<PeerFault> {
    let (_, mut server) = pair(Version::V12);
    let whole = server.handle_input(input).err();
    let (_, mut server) = pair(Version::V12);
    let bytewise = (1..=input.len()).find_map(|end| server.handle_input(&input[..end]).err());
    assert_eq!(whole, bytewise, "{}", text(input));
    whole
}

#[test]
fn a_first_line_may_be_so_long_and_no_longer() {
    assert_eq!(fault_of(&[b'X'; 20]), None);
    assert_eq!(fault_of(&[b'X'; 21]), Some(PeerFault::COMMAND_TOO_LONG));
    assert_eq!(
        fault_of(&[&[b'X'; 20][..], b"\n"].concat()),
        Some(PeerFault::COMMAND_UNKNOWN)
    );
    assert_eq!(
        fault_of(&[&[b'X'; 30][..], b"\n"].concat()),
        Some(PeerFault::COMMAND_TOO_LONG)
    );
}

#[test]
fn a_header_line_may_be_so_long_and_no_longer() {
    for (len, expected) in [
        (98, None),
        (99, Some(PeerFault::HEADER_TOO_LONG)),
        (300, Some(PeerFault::HEADER_TOO_LONG)),
    ] {
        let value = "v".repeat(len);
        assert_eq!(
            fault_of(format!("SEND\nk:{value}").as_bytes()),
            expected,
            "{len}"
        );
        let complete = format!("SEND\nk:{value}\ndestination:/queue/q\n\n\0");
        assert_eq!(fault_of(complete.as_bytes()), expected, "{len}");
    }
}

#[test]
fn headers_may_be_so_many_and_no_more() {
    for (count, expected) in [(11, None), (12, Some(PeerFault::HEADERS_TOO_MANY))] {
        let input = format!("SEND\n{}destination:/queue/q\n\n\0", "k:v\n".repeat(count));
        assert_eq!(fault_of(input.as_bytes()), expected, "{count}");
    }
}

#[test]
fn headers_may_be_so_large_together_and_no_larger() {
    let line = format!("k:{}\n", "v".repeat(97));
    for (len, expected) in [
        (91, PeerFault::SEND_DESTINATION),
        (92, PeerFault::HEAD_TOO_LARGE),
    ] {
        let input = format!("SEND\n{}k:{}\n\n\0", line.repeat(4), "v".repeat(len));
        assert_eq!(
            input.len() - 1,
            500 - 91 + len,
            "the head, with its blank line"
        );
        assert_eq!(fault_of(input.as_bytes()), Some(expected), "{len}");
    }
}

#[test]
fn a_body_may_be_so_large_and_no_larger() {
    for (len, expected) in [(1000, None), (1001, Some(PeerFault::BODY_TOO_LARGE))] {
        let body = "x".repeat(len);
        let counted = format!("SEND\ndestination:d\ncontent-length:{len}\n\n{body}\0");
        assert_eq!(fault_of(counted.as_bytes()), expected, "{len}");
        let uncounted = format!("SEND\ndestination:d\n\n{body}\0");
        assert_eq!(fault_of(uncounted.as_bytes()), expected, "{len}");
        // It is known before the NUL has come.
        let incomplete = format!("SEND\ndestination:d\n\n{body}");
        assert_eq!(fault_of(incomplete.as_bytes()), expected, "{len}");
    }
    let absurd = b"SEND\ndestination:d\ncontent-length:18446744073709551615\n\n";
    assert_eq!(fault_of(absurd), Some(PeerFault::BODY_TOO_LARGE));
    let beyond = b"SEND\ndestination:d\ncontent-length:18446744073709551616\n\n";
    assert_eq!(fault_of(beyond), Some(PeerFault::CONTENT_LENGTH));
}

#[test]
fn a_stranger_is_sent_away_before_its_headers_and_never_gets_to_send_a_body() {
    for (input, expected) in [
        (&b"SEND\n"[..], PeerFault::EXPECTED_CONNECT),
        (b"\x16\x03\x01\x02\x00", PeerFault::NUL_IN_HEAD),
        (b"CONNECT\ncontent-length:1\n\n", PeerFault::BODY_FORBIDDEN),
        (
            b"CONNECT\naccept-version:1.2\n\nx",
            PeerFault::BODY_FORBIDDEN,
        ),
    ] {
        assert_eq!(
            ServerSide::new(limits()).handle_input(input),
            Err(expected),
            "{}",
            text(input)
        );
    }
}

#[test]
fn an_idle_connection_takes_little_memory() {
    // No heap at all: the machine holds no bytes of its peer.
    assert!(
        size_of::<ServerSide>() <= 320,
        "{}",
        size_of::<ServerSide>()
    );
    assert!(
        size_of::<ClientSide>() <= 320,
        "{}",
        size_of::<ClientSide>()
    );
}

/// Limits before the login are lower than a client's.
#[test]
fn the_first_frame_has_limits_of_its_own() {
    let connect = FrameLimits {
        head_bytes_max: 60,
        body_bytes_max: 2,
        ..limits().frame
    };
    let mut server = ServerSide::new(ServerLimits {
        connect: connect.clone(),
        ..limits()
    });
    let head = format!(
        "CONNECT\naccept-version:1.2\nhost:/\nlogin:{}\n",
        "x".repeat(40)
    );
    assert_eq!(
        server.handle_input(head.as_bytes()),
        Err(PeerFault::HEAD_TOO_LARGE)
    );
    let mut server = ServerSide::new(ServerLimits {
        connect: connect.clone(),
        ..limits()
    });
    let body = b"CONNECT\naccept-version:1.2\nhost:/\n\n\n\n\n\n";
    assert_eq!(server.handle_input(body), Err(PeerFault::BODY_TOO_LARGE));
    let mut server = ServerSide::new(ServerLimits {
        connect: connect.clone(),
        ..limits()
    });
    server_event(&mut server, b"CONNECT\naccept-version:1.2\nhost:/\n\n\n\0");
    server.connected(&ConnectedOut::default(), &mut Vec::new());
    let send = format!(
        "SEND\ndestination:/queue/a\n{0}:{0}\n\n{0}\0",
        "x".repeat(40)
    );
    server_event(&mut server, send.as_bytes());
}
