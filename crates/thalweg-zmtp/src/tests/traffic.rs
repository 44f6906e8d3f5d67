//! Messages and commands where they are likely to be mistaken for each other.

use super::*;

fn hear<'b>(to: &mut Traffic, input: &'b [u8], gathered: &'b mut Gathered) -> (usize, Event<'b>) {
    to.handle_input(input, gathered)
        .expect("valid")
        .expect("complete")
}

#[test]
fn a_first_octet_is_a_subscription_only_from_a_subscriber_and_in_a_single_frame() {
    let mut gathered = Gathered::default();
    let mut pusher = server_for(SocketType::Push);
    let (_, event) = hear(&mut pusher, b"\x00\x02\x01a", &mut gathered);
    assert!(matches!(event, Event::Message(_)));
    let mut subscriber = server_for(SocketType::Xsub);
    let (_, event) = hear(&mut subscriber, b"\x00\x02\x01a", &mut gathered);
    assert_eq!(event, Event::Subscribe(b"a"));
    for message in [&b"\x00\x00"[..], b"\x00\x02\x02a", b"\x01\x02\x01a\x00\x00"] {
        let (_, event) = hear(&mut subscriber, message, &mut gathered);
        assert!(matches!(event, Event::Message(m) if m.raw() == message));
    }
}

#[test]
fn a_whole_message_is_what_the_long_way_finds_too() {
    let inputs: [&[u8]; 6] = [
        b"\x00\x00",
        b"\x00\x02ab",
        b"\x01\x00\x00\x00",
        b"\x01\x01a\x00\x02bc",
        b"\x02\0\0\0\0\0\0\0\x02ab",
        b"\x01\x01a\x02\0\0\0\0\0\0\0\x02bc",
    ];
    for input in inputs {
        let more = [input, b"\x00\x01z"].concat();
        let mut to = server_for(SocketType::Pub);
        let whole = to.whole_message(&more).expect("it is whole");
        assert_eq!(whole.message.raw(), input);
        let bodies: Vec<&[u8]> = [whole.first].into_iter().chain(whole.second).collect();
        assert_eq!(bodies, whole.message.frames().collect::<Vec<_>>());
        // From a subscriber it may be a subscription.
        assert!(server_for(SocketType::Sub).whole_message(&more).is_none());
    }
    let others: [&[u8]; 11] = [
        b"",
        b"\x00",
        b"\x00\x02a",
        b"\x01\x01a\x00",
        b"\x01\x01a\x01\x01b\x00\x01c",
        b"\x02\0\0\0\0\0\0\0\x02a",
        b"\x02\x7f\xff\xff\xff\xff\xff\xff\xffa",
        b"\x02\xff\xff\xff\xff\xff\xff\xff\xffa",
        b"\x01\x01a\x02\0\0\0",
        b"\x01\x01a\x04\x05\x04PONG",
        b"\x08\x01a",
    ];
    for input in others {
        let mut to = server_for(SocketType::Pub);
        assert!(to.whole_message(input).is_none(), "{input:?}");
    }
    // The beginning of its message is kept already.
    let (mut to, mut gathered) = (server_for(SocketType::Pub), Gathered::default());
    let (consumed, _) = hear(
        &mut to,
        b"\x01\x01a\x04\x05\x04PONG\x00\x01b",
        &mut gathered,
    );
    assert_eq!(
        (consumed, to.whole_message(b"\x00\x01b").is_none()),
        (10, true)
    );
}

#[test]
fn a_command_between_the_frames_of_a_message_comes_first_and_tears_nothing() {
    let mut to = server_for(SocketType::Dealer);
    let mut gathered = Gathered::default();
    let input = b"\x01\x01a\x04\x07\x04PING\x00\x00\x01\x01b\x04\x06\x04PONGx\x00\x01c\x00\x01d";
    let (consumed, event) = hear(&mut to, input, &mut gathered);
    assert_eq!(
        event,
        Event::Ping {
            ttl: 0,
            context: b""
        }
    );
    let rest = &input[consumed..];
    let (consumed, event) = hear(&mut to, rest, &mut gathered);
    assert_eq!(event, Event::Pong(b"x"));
    let rest = &rest[consumed..];
    let (consumed, event) = hear(&mut to, rest, &mut gathered);
    assert!(matches!(event, Event::Message(m) if m.raw() == b"\x01\x01a\x01\x01b\x00\x01c"));
    let rest = &rest[consumed..];
    let (consumed, event) = hear(&mut to, rest, &mut gathered);
    assert!(matches!(event, Event::Message(m) if m.raw() == b"\x00\x01d"));
    assert_eq!(rest.len(), consumed);
}

#[test]
fn limits_are_met_when_the_head_is_there_however_the_message_is_cut_into_frames() {
    let with = |max: u64| {
        let limits = Limits {
            command_bytes_max: 12,
            message_bytes_max: max,
            ..Limits::default()
        };
        Traffic::new(&limits, Version::V31, true, None)
    };
    let mut gathered = Gathered::default();
    let cases: [(&[u8], u64); 3] = [
        (b"\x00\x04abcd", 6),
        (b"\x01\x00\x01\x00\x00\x00", 6),
        (b"\x01\x01a\x00\x01b", 6),
    ];
    for (message, len) in cases {
        assert_eq!(
            hear(&mut with(len), message, &mut gathered).0,
            message.len()
        );
        let fault = with(len - 1).handle_input(message, &mut gathered);
        assert_eq!(fault, Err(PeerFault::MESSAGE_TOO_LARGE));
    }
    // A command between frames does not start the count again.
    let mut to = with(6);
    let (consumed, _) = hear(&mut to, b"\x01\x02ab\x04\x06\x04PONGx", &mut gathered);
    assert_eq!(consumed, 12);
    let fault = to.handle_input(b"\x00\x01c", &mut gathered);
    assert_eq!(fault, Err(PeerFault::MESSAGE_TOO_LARGE));

    let long = b"\x04\x0D\x09SUBSCRIBEabc";
    assert_eq!(
        with(99).handle_input(long, &mut gathered),
        Err(PeerFault::COMMAND_TOO_LARGE)
    );
    let old = b"\x00\x0B\x01abcdefghij";
    assert_eq!(
        with(99).handle_input(old, &mut gathered),
        Err(PeerFault::COMMAND_TOO_LARGE)
    );
    assert_eq!(
        hear(&mut with(99), b"\x04\x0C\x09SUBSCRIBEab", &mut gathered).0,
        14
    );
}

#[test]
fn an_older_peer_gets_subscriptions_as_messages_and_no_ping_but_its_ping_is_answered() {
    let mut to = Traffic::new(&Limits::default(), Version::V30, false, None);
    let mut out = Vec::new();
    to.subscribe(b"a", &mut out);
    to.cancel(b"a", &mut out);
    to.ping(10, b"", &mut out);
    assert_eq!(out, b"\x00\x02\x01a\x00\x02\x00a");
    // libzmq 4.2 says 3.0 and sends PING.
    let mut gathered = Gathered::default();
    let (_, event) = hear(&mut to, b"\x04\x09\x04PING\x00\x0Axy", &mut gathered);
    assert_eq!(
        event,
        Event::Ping {
            ttl: 10,
            context: b"xy"
        }
    );
}

#[test]
fn a_message_is_forwarded_in_the_octets_in_which_it_came() {
    let mut to = server_for(SocketType::Dealer);
    let mut gathered = Gathered::default();
    let input = b"\x01\x01a\x02\x00\x00\x00\x00\x00\x00\x00\x01b";
    let (_, Event::Message(message)) = hear(&mut to, input, &mut gathered) else {
        panic!("not a message")
    };
    let mut out = Vec::new();
    server_for(SocketType::Router).forward(message, &mut out);
    assert_eq!(out, input);
    assert_eq!(format!("{message:?}"), r#"Message["a", "b"]"#);
}
