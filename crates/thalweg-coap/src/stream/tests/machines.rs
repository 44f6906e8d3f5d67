//! Behaviour of the state machines.

use super::*;

#[test]
fn whatever_is_said_first_has_our_csm_before_it() {
    type Verb = fn(&mut ServerSide, &mut Vec<u8>);
    let verbs: [Verb; 8] = [
        |server, out| server.open(out),
        |server, out| {
            server
                .respond(Token::EMPTY, Code::CONTENT, none, &[], out)
                .expect("small")
        },
        |server, out| server.ping(Token::EMPTY, true, out),
        |server, out| server.pong(Token::EMPTY, false, out),
        |server, out| server.release(&[], None, out),
        |server, out| server.abort("", out),
        |server, out| server.keep_alive(out),
        |server, out| server.fault(&PeerFault::EXPECTED_CSM, out),
    ];
    for (at, verb) in verbs.iter().enumerate() {
        let (mut server, mut client) = (ServerSide::new(settings()), ClientSide::new(settings()));
        let mut out = Vec::new();
        verb(&mut server, &mut out);
        let Ok(Some((consumed, ClientEvent::Csm(csm)))) = client.handle_input(&out) else {
            panic!("verb {at}")
        };
        assert_eq!((csm.message_bytes_max, csm.blockwise), (1 << 20, true));
        let rest = &out[consumed..];
        assert_eq!(rest.is_empty(), at == 0);
        assert!(
            at == 0
                || client
                    .handle_input(rest)
                    .is_ok_and(|heard| heard.is_some_and(|(len, _)| len == rest.len()))
        );
        out.clear();
        server.open(&mut out);
        assert_eq!(out, [0u8; 0], "verb {at}: once");
    }
}

#[test]
fn what_a_csm_does_not_say_is_as_it_was() {
    let (mut server, mut out) = (ServerSide::new(settings()), Vec::new());
    assert_eq!(server.peer(), Csm::BASE);
    // An empty CSM says that the base values hold.
    assert_eq!(
        server_event(&mut server, &[0x00, 0xE1]),
        Event::Csm(Csm::BASE)
    );
    assert_eq!(
        server_event(&mut server, &[0x10, 0xE1, 0x40]),
        Event::Csm(Csm {
            blockwise: true,
            ..Csm::BASE
        })
    );
    assert!(!server.peer().takes_bert());
    let csm = Csm {
        message_bytes_max: 2000,
        blockwise: true,
    };
    assert_eq!(
        server_event(&mut server, &[0x30, 0xE1, 0x22, 0x07, 0xD0]),
        Event::Csm(csm)
    );
    assert!(server.peer().takes_bert());
    // Base values need not be said.
    let base = StreamSettings {
        message_bytes_max: 1152,
        blockwise: false,
    };
    ServerSide::new(base).open(&mut out);
    assert_eq!(out, [0x00, 0xE1]);
}

#[test]
fn nothing_larger_than_the_peer_takes_is_sent() {
    let small = StreamSettings {
        message_bytes_max: 100,
        blockwise: true,
    };
    let (mut client, mut server) = pair(small);
    let mut out = Vec::new();
    let too_large = Err(NotSent::TooLarge {
        message_bytes_max: 100,
    });
    // Head, length, code, marker: four bytes.
    for (len, outcome) in [(96, Ok(())), (97, too_large), (1000, too_large)] {
        out.clear();
        assert_eq!(
            server.respond(Token::EMPTY, Code::CONTENT, none, &vec![0; len], &mut out),
            outcome,
            "{len}"
        );
        assert_eq!(out.len(), if outcome.is_ok() { 100 } else { 0 });
    }
    let options = |encoder: &mut Encoder<'_>| {
        encoder.option(option::URI_PATH, &[b'x'; 99]);
    };
    out.clear();
    assert_eq!(
        client.request(Code::GET, false, options, &[], &mut out),
        too_large.map(|()| Token::EMPTY)
    );
    assert_eq!((out.len(), client.waiting()), (0, 0));
    // Last words are shortened rather than swallowed.
    server.abort(&"why".repeat(100), &mut out);
    assert_eq!(out, [0x00, 0xE5]);
}

#[test]
fn a_message_is_refused_before_it_has_arrived() {
    let (mut client, mut server) = pair(StreamSettings {
        message_bytes_max: 1152,
        blockwise: true,
    });
    // Two bytes of length say 1149 + 269 bytes behind the code.
    assert_eq!(server.handle_input(&[0xE0, 0x04]), Ok(None));
    assert_eq!(
        server.handle_input(&[0xE0, 0x04, 0x7D]),
        Err(PeerFault::TOO_LARGE)
    );
    assert_eq!(
        client.handle_input(&[0xF0, 0xFF, 0xFF, 0xFF, 0xFF]),
        Err(PeerFault::TOO_LARGE)
    );
    // To the byte: 1 + 2 + 1 + 1148.
    assert_eq!(
        server.handle_input(&[0xE0, 0x03, 0x70]),
        Err(PeerFault::TOO_LARGE)
    );
    assert_eq!(server.handle_input(&[0xE0, 0x03, 0x6F]), Ok(None));
    let mut out = Vec::new();
    server.fault(&PeerFault::TOO_LARGE, &mut out);
    let ClientEvent::Abort(abort) = client_event(&mut client, &out) else {
        panic!("no Abort")
    };
    assert_eq!(abort.diagnostic, PeerFault::TOO_LARGE.what.as_bytes());
}

#[test]
fn responses_find_their_requests_by_token() {
    let (mut client, mut server) = pair(settings());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let first = client
        .request(Code::GET, false, none, &[], &mut there)
        .expect("room");
    let second = client
        .request(Code::PUT, false, none, b"x", &mut there)
        .expect("room");
    assert!(first != second && !first.is_empty());
    // Answered the other way round.
    for token in [second, first] {
        back.clear();
        server
            .respond(token, Code::CHANGED, none, &[], &mut back)
            .expect("small");
        let ClientEvent::Response { message, is_last } = client_event(&mut client, &back) else {
            panic!("no response")
        };
        assert_eq!((message.token, is_last), (token, true));
        assert_eq!(
            client_event(&mut client, &back),
            ClientEvent::Ignored,
            "a second response"
        );
    }
    assert_eq!(client.waiting(), 0);
}

#[test]
fn an_observation_lives_until_a_response_without_observe() {
    let (mut client, mut server) = pair(settings());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let token = client
        .request(Code::GET, true, observe_a(0), &[], &mut there)
        .expect("room");
    let mut hears = |client: &mut ClientSide, code, observe: Option<&[u8]>| {
        back.clear();
        let options = |encoder: &mut Encoder<'_>| {
            if let Some(value) = observe {
                encoder.option(option::OBSERVE, value);
            }
        };
        server
            .respond(token, code, options, b"1", &mut back)
            .expect("small");
        match client_event(client, &back) {
            ClientEvent::Response { is_last, .. } => Some(is_last),
            _ => None,
        }
    };
    // Numbers mean nothing here: they may be left out, or go back.
    for value in [&[][..], &[9], &[3], &[]] {
        assert_eq!(hears(&mut client, Code::CONTENT, Some(value)), Some(false));
    }
    client
        .request_again(token, Code::GET, observe_a(1), &[], &mut there)
        .expect("small");
    // A notification that was under way when the observation ended.
    assert_eq!(hears(&mut client, Code::CONTENT, Some(&[])), Some(false));
    assert_eq!(hears(&mut client, Code::CONTENT, None), Some(true));
    assert_eq!(hears(&mut client, Code::CONTENT, None), None);
    // An error ends it whatever it has with it.
    let again = client
        .request(Code::GET, true, observe_a(0), &[], &mut there)
        .expect("room");
    assert_ne!(again, token);
    back.clear();
    server
        .respond(again, Code::NOT_FOUND, observe_a(7), &[], &mut back)
        .expect("small");
    assert!(matches!(
        client_event(&mut client, &back),
        ClientEvent::Response { is_last: true, .. }
    ));
    assert_eq!(client.waiting(), 0);
}

#[test]
fn what_is_forgotten_is_ignored() {
    let (mut client, mut server) = pair(settings());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let token = client
        .request(Code::GET, true, observe_a(0), &[], &mut there)
        .expect("room");
    client.forget(token);
    server
        .respond(token, Code::CONTENT, none, &[], &mut back)
        .expect("small");
    assert_eq!(client_event(&mut client, &back), ClientEvent::Ignored);
}

#[test]
fn tokens_are_at_most_two_bytes_and_not_used_twice_at_once() {
    let (mut client, mut out) = (ClientSide::new(settings()), Vec::new());
    let kept = client
        .request(Code::GET, true, observe_a(0), &[], &mut out)
        .expect("room");
    for _ in 0..70_000 {
        out.clear();
        let token = client
            .request(Code::GET, false, none, &[], &mut out)
            .expect("room");
        assert!(token != kept && (1..=2).contains(&token.len()));
        client.forget(token);
    }
    while client.waiting() < ClientSide::WAITING_MAX {
        client
            .request(Code::GET, false, none, &[], &mut out)
            .expect("room");
    }
    out.clear();
    assert_eq!(
        client.request(Code::GET, false, none, &[], &mut out),
        Err(NotSent::TooManyRequests)
    );
    assert!(out.is_empty());
}

#[test]
fn pings_and_custody_go_both_ways() {
    let (mut client, mut server) = pair(settings());
    let token = Token::from_number(77);
    for custody in [false, true] {
        let mut out = Vec::new();
        client.ping(token, custody, &mut out);
        assert_eq!(
            server_event(&mut server, &out),
            Event::Ping { token, custody }
        );
        out.clear();
        server.pong(token, custody, &mut out);
        assert_eq!(
            client_event(&mut client, &out),
            ClientEvent::Pong { token, custody }
        );
        out.clear();
        server.ping(token, custody, &mut out);
        assert_eq!(
            client_event(&mut client, &out),
            ClientEvent::Ping { token, custody }
        );
        out.clear();
        client.pong(token, custody, &mut out);
        assert_eq!(
            server_event(&mut server, &out),
            Event::Pong { token, custody }
        );
    }
}

#[test]
fn a_release_says_where_to_go_and_when_and_lets_answers_through() {
    let (mut client, mut server) = pair(settings());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let token = client
        .request(Code::GET, false, none, &[], &mut there)
        .expect("room");
    server.release(&["a:1", "b:2", ""], Some(u32::MAX), &mut back);
    let ClientEvent::Release(release) = client_event(&mut client, &back) else {
        panic!("no Release")
    };
    assert_eq!(release.alternatives().collect::<Vec<_>>(), ["a:1", "b:2"]);
    assert_eq!(release.hold_off_seconds(), Some(0xFF_FFFF));
    back.clear();
    server
        .respond(token, Code::CONTENT, none, &[], &mut back)
        .expect("open");
    assert!(matches!(
        client_event(&mut client, &back),
        ClientEvent::Response { is_last: true, .. }
    ));
    // A hold-off of four bytes is none.
    let ClientEvent::Release(release) = client_event(&mut client, b"\x50\xE4\x44\0\0\0\x01") else {
        panic!("no Release")
    };
    assert_eq!(
        (release.hold_off_seconds(), release.alternatives().count()),
        (None, 0)
    );
}

#[test]
fn after_an_abort_nothing_is_heard_or_said() {
    let (mut client, mut server) = pair(settings());
    let mut out = Vec::new();
    client.abort("enough", &mut out);
    let Event::Abort(abort) = server_event(&mut server, &out) else {
        panic!("no Abort")
    };
    assert_eq!(
        (abort.diagnostic, abort.bad_csm_option),
        (&b"enough"[..], None)
    );
    assert!(!client.is_open() && !server.is_open());
    for bytes in [&[0x00, 0xE2][..], &out, &[0xFF; 20]] {
        assert_eq!(server.handle_input(bytes), Ok(None));
        assert_eq!(client.handle_input(bytes), Ok(None));
    }
    out.clear();
    server.open(&mut out);
    server.ping(Token::EMPTY, false, &mut out);
    server.keep_alive(&mut out);
    server.release(&[], None, &mut out);
    server.abort("again", &mut out);
    assert_eq!(
        server.respond(Token::EMPTY, Code::CONTENT, none, &[], &mut out),
        Err(NotSent::Closed)
    );
    assert_eq!(
        client.request(Code::GET, false, none, &[], &mut out),
        Err(NotSent::Closed)
    );
    assert!(out.is_empty());
}

#[test]
fn an_option_of_csm_that_is_critical_and_unknown_is_named_in_the_abort() {
    let (mut client, mut server) = (ClientSide::new(settings()), ServerSide::new(settings()));
    // Option 259: 13 and 246.
    assert_eq!(
        server.handle_input(&[0x20, 0xE1, 0xD0, 246]),
        Err(PeerFault::CSM_OPTION)
    );
    let mut out = Vec::new();
    server.fault(&PeerFault::CSM_OPTION, &mut out);
    let (csm, _) = client.handle_input(&out).expect("valid").expect("CSM");
    let ClientEvent::Abort(abort) = client_event(&mut client, &out[csm..]) else {
        panic!("no Abort")
    };
    assert_eq!(abort.bad_csm_option, Some(259));
}

#[test]
fn a_server_knows_nothing_of_responses() {
    let (_, mut server) = pair(settings());
    assert_eq!(
        server_event(&mut server, &[0x01, 0x45, 0x01]),
        Event::Ignored
    );
}

/// Before its CSM a peer cannot know that more than the base value is accepted (RFC 8323 §5.3.1).
#[test]
fn a_first_message_above_the_base_value_is_refused_before_it_is_awaited() {
    let mut server = ServerSide::new(StreamSettings {
        message_bytes_max: 1 << 20,
        blockwise: true,
    });
    // Len 15: four bytes of extended length. Far more than 1152 bytes are announced, and none has come.
    assert!(server.handle_input(&[0xF0, 0, 1, 0, 0, 0xE1]).is_err());
}
