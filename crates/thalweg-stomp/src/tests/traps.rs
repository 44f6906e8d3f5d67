//! Known errors of other implementations.

use super::*;

const NASTY: &str = "a:b\nc\\d";

/// A message after an encoding and a decoding.
fn crossed(version: Version, headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let (mut client, server) = pair(version);
    let mut wire = Vec::new();
    let m = MessageOut {
        subscription: Some("0"),
        message_id: "1",
        destination: "/topic/t",
        ..MessageOut::default()
    };
    server.message(&m, |w| w.extend(headers.iter().copied()), &mut wire);
    let ClientEvent::Message(m) = client_event(&mut client, &wire) else {
        panic!("not MESSAGE")
    };
    m.headers
        .iter()
        .skip(4)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

#[test]
fn a_header_with_colon_and_newline_arrives_whole_in_1_1_and_1_2_and_is_left_out_of_1_0() {
    for version in [Version::V11, Version::V12] {
        assert_eq!(
            crossed(version, &[(NASTY, NASTY)]),
            [(NASTY.to_owned(), NASTY.to_owned())],
            "{version}"
        );
    }
    assert_eq!(
        crossed(Version::V10, &[(NASTY, "v"), ("k", NASTY), ("l", "a:b")]),
        [("l".into(), "a:b".into())]
    );
}

#[test]
fn no_header_can_end_a_line_or_a_frame_early() {
    for version in Version::ALL {
        let headers = [("k\0", "v"), ("k", "v\0"), ("", "v"), ("ok", "v")];
        assert_eq!(
            crossed(version, &headers),
            [("ok".into(), "v".into())],
            "{version}"
        );
        // Headers of ours are not left out, so what cannot be said becomes a space.
        let (mut client, server) = pair(version);
        let mut wire = Vec::new();
        server.receipt("a\0b\nfake:header", &mut wire);
        let ClientEvent::Receipt(id) = client_event(&mut client, &wire) else {
            panic!("not RECEIPT")
        };
        let expected = if version == Version::V10 {
            "a b fake:header"
        } else {
            "a b\nfake:header"
        };
        assert_eq!(id, expected);
    }
}

#[test]
fn connected_is_never_escaped_and_cannot_be_made_to_lie() {
    let mut server = ServerSide::new(limits());
    server_event(
        &mut server,
        b"CONNECT\naccept-version:1.2\nlogin:a\\nb:c\n\n\0",
    );
    let mut out = Vec::new();
    let connected = ConnectedOut {
        user: Some("a:b\\\nadmin:true"),
        ..ConnectedOut::default()
    };
    server.connected(&connected, &mut out);
    assert_eq!(
        text(&out),
        "CONNECTED\nversion:1.2\nheart-beat:0,0\nuser-name:a:b\\ admin:true\n\n^@"
    );
}

#[test]
fn connect_is_never_escaped() {
    for command in ["CONNECT", "STOMP"] {
        let input = format!("{command}\naccept-version:1.2\nlogin:a\\nb:c\\t\npasscode:p\\c\n\n\0");
        let mut server = ServerSide::new(limits());
        let Event::Connect(c) = server_event(&mut server, input.as_bytes()) else {
            panic!("not CONNECT")
        };
        assert_eq!(
            (c.login.as_deref(), c.passcode.as_deref()),
            (Some("a\\nb:c\\t"), Some("p\\c"))
        );
        assert_eq!(c.headers.get("login").as_deref(), Some("a\\nb:c\\t"));
    }
}

#[test]
fn stompjs_finds_version_and_heart_beat_whatever_it_asked_for() {
    for connect in [
        "CONNECT\n\n\0",
        "CONNECT\naccept-version:1.0\n\n\0",
        "STOMP\naccept-version:1.1,1.2\n\n\0",
    ] {
        let mut server = ServerSide::new(limits());
        server_event(&mut server, connect.as_bytes());
        let mut out = Vec::new();
        server.connected(&ConnectedOut::default(), &mut out);
        let out = text(&out);
        assert!(
            out.contains("\nheart-beat:0,0\n") && out.contains("\nversion:1."),
            "{out}"
        );
    }
}

#[test]
fn the_first_of_repeated_headers_counts_and_the_others_are_history() {
    let (_, mut server) = pair(Version::V12);
    let input = b"SEND\ndestination:first\nk:1\ndestination:second\nk:2\nl:3\n\n\0";
    let Event::Send(s) = server_event(&mut server, input) else {
        panic!("not SEND")
    };
    assert_eq!(s.destination, "first");
    assert_eq!(s.headers.get("k").as_deref(), Some("1"));
    assert_eq!(s.headers.iter().count(), 5);
    let first: Vec<_> = s
        .headers
        .iter_first()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(first, ["destination=first", "k=1", "l=3"]);
}

#[test]
fn the_examples_of_the_1_0_specification_are_understood_padding_included() {
    let mut server = ServerSide::new(limits());
    let Event::Connect(c) = server_event(
        &mut server,
        b"CONNECT\nlogin: guest\npasscode:secret \n\n\0",
    ) else {
        panic!("not CONNECT")
    };
    assert_eq!(
        (c.login.as_deref(), c.passcode.as_deref()),
        (Some("guest"), Some("secret "))
    );
    server.connected(&ConnectedOut::default(), &mut Vec::new());
    let input = b"SUBSCRIBE\ndestination: /queue/foo\nack: client\nreceipt: r\nother: kept\n\n\0";
    let Event::Subscribe(s) = server_event(&mut server, input) else {
        panic!("not SUBSCRIBE")
    };
    assert_eq!(
        (&*s.destination, s.ack, s.receipt.as_deref()),
        ("/queue/foo", AckMode::Client, Some("r"))
    );
    assert_eq!(s.headers.get("other").as_deref(), Some(" kept"));
    let fault = server
        .handle_input(b"BEGIN\nreceipt: r\n\n\0")
        .expect_err("no transaction");
    let mut out = Vec::new();
    server.fault(&fault, &mut out);
    assert!(text(&out).contains("receipt-id:r\n"), "{}", text(&out));
}

#[test]
fn nothing_is_trimmed_since_1_1() {
    let (_, mut server) = pair(Version::V12);
    let input = b"SEND\ndestination: /queue/q \n k :\tv\n\n\0";
    let Event::Send(s) = server_event(&mut server, input) else {
        panic!("not SEND")
    };
    assert_eq!(s.destination, " /queue/q ");
    assert_eq!(s.headers.get(" k ").as_deref(), Some("\tv"));
}

#[test]
fn headers_without_escapes_are_borrowed() {
    use std::borrow::Cow;
    let (_, mut server) = pair(Version::V12);
    let input = b"SEND\ndestination:/queue/q\nk:v\\c\n\n\0";
    let Event::Send(s) = server_event(&mut server, input) else {
        panic!("not SEND")
    };
    assert!(matches!(s.destination, Cow::Borrowed(_)));
    let owned: Vec<bool> = s
        .headers
        .iter()
        .map(|(_, value)| matches!(value, Cow::Owned(_)))
        .collect();
    assert_eq!(owned, [false, true]);
}

#[test]
fn carriage_returns_end_lines_in_every_version() {
    for version in Version::ALL {
        let (_, mut server) = pair(version);
        let input = b"\r\nSEND\r\ndestination:/queue/q\r\nk:\r\n\r\nbody\r\n\0";
        let Event::Send(s) = server_event(&mut server, input) else {
            panic!("not SEND")
        };
        assert_eq!((&*s.destination, s.body), ("/queue/q", &b"body\r\n"[..]));
        assert_eq!(s.headers.get("k").as_deref(), Some(""));
        assert_eq!(s.frame, &input[2..]);
    }
}

#[test]
fn line_ends_between_frames_are_signs_of_life_and_part_of_no_frame() {
    let (_, mut server) = pair(Version::V12);
    assert_eq!(
        server.handle_input(b"\n\r\n\n"),
        Ok(Some((4, Event::HeartBeat)))
    );
    // Before an incomplete frame they go first, so that the frame is at the start of the buffer.
    let input = b"\n\nSEND\ndestination:d\n\n\0";
    assert_eq!(
        server.handle_input(&input[..10]),
        Ok(Some((2, Event::HeartBeat)))
    );
    assert_eq!(server.handle_input(&input[2..12]), Ok(None));
    assert!(matches!(
        server_event(&mut server, &input[2..]),
        Event::Send(_)
    ));
}

#[test]
fn frames_that_end_with_an_empty_line_too_many_are_understood() {
    let (_, mut server) = pair(Version::V12);
    let input = b"SUBSCRIBE\nid:0\ndestination:d\n\n\n\0";
    assert!(matches!(
        server_event(&mut server, input),
        Event::Subscribe(_)
    ));
}

#[test]
fn numbers_and_truths_are_written_without_a_detour() {
    let (mut client, server) = pair(Version::V12);
    let mut wire = Vec::new();
    let m = MessageOut {
        subscription: Some("0"),
        message_id: "1",
        destination: "d",
        ..MessageOut::default()
    };
    let more = |w: &mut HeaderWriter<'_>| {
        assert!(w.put_display("n", -5) && w.put_display("t", true) && w.put_display("x", "a:b"));
        assert!(!w.put_display("", 1));
    };
    server.message(
        &MessageOut {
            body: &[0; 1234],
            ..m
        },
        more,
        &mut wire,
    );
    let ClientEvent::Message(m) = client_event(&mut client, &wire) else {
        panic!("not MESSAGE")
    };
    let all: Vec<_> = m
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(all[3..], ["content-length=1234", "n=-5", "t=true", "x=a:b"]);
    assert_eq!(m.body, [0; 1234]);
}

#[test]
fn clients_that_hold_on_to_1_0_say_nothing_it_has_no_word_for() {
    let (client, _) = pair(Version::V10);
    let mut out = Vec::new();
    client.nack(
        &AckOut {
            message_id: "m",
            ..AckOut::default()
        },
        &mut out,
    );
    assert!(out.is_empty());
    let (client, _) = pair(Version::V12);
    client.unsubscribe_destination("d", None, &mut out);
    assert!(out.is_empty());
}

#[test]
fn only_1_2_is_told_what_to_call_a_message_in_ack() {
    for version in Version::ALL {
        let (mut client, server) = pair(version);
        let mut wire = Vec::new();
        let m = MessageOut {
            subscription: Some("0"),
            message_id: "1",
            ack: Some("a"),
            ..MessageOut::default()
        };
        server.message(&m, |_| {}, &mut wire);
        let ClientEvent::Message(m) = client_event(&mut client, &wire) else {
            panic!("not MESSAGE")
        };
        assert_eq!(
            m.ack.as_deref(),
            (version == Version::V12).then_some("a"),
            "{version}"
        );
    }
}

/// A client that writes its frames with a NUL too many, as some with a buffer of C strings do.
#[test]
fn a_nul_between_frames_is_passed_over() {
    let (_, mut server) = pair(Version::V12);
    for frame in [
        &b"\0SEND\ndestination:d\n\nx\0"[..],
        b"\n\0\r\n\0SEND\ndestination:d\n\nx\0",
    ] {
        assert!(matches!(server_event(&mut server, frame), Event::Send(send) if send.body == b"x"));
    }
    assert!(matches!(server_event(&mut server, b"\0"), Event::HeartBeat));
}
