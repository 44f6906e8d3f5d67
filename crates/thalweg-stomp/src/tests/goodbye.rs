//! Ends of connections: ERROR, DISCONNECT, and frames that are no longer accepted.

use super::*;

#[test]
fn a_fault_names_the_receipt_of_the_frame_that_is_to_blame() {
    for (input, receipt) in [
        (&b"SEND\nreceipt:r\\c1\n\n\0"[..], "receipt-id:r\\c1\n"),
        (b"SEND\nreceipt:r\nreceipt:s\nno colon\n", "receipt-id:r\n"),
        (b"SEND\n\n\0", ""),
    ] {
        let (_, mut server) = pair(Version::V12);
        let mut out = Vec::new();
        let fault = server.handle_input(input).expect_err("faulty");
        server.fault(&fault, &mut out);
        let body = fault.to_string();
        let expected = format!(
            "ERROR\nmessage:{}\n{receipt}content-type:text/plain\ncontent-length:{}\n\n{body}^@",
            fault.what,
            body.len()
        );
        assert_eq!(text(&out), expected);
    }
}

#[test]
fn the_receipt_of_an_earlier_frame_is_not_named() {
    let (_, mut server) = pair(Version::V12);
    server_event(&mut server, b"SEND\nreceipt:early\ndestination:d\n\n\0");
    let fault = server.handle_input(b"SEND\n\n\0").expect_err("faulty");
    let mut out = Vec::new();
    server.fault(&fault, &mut out);
    assert!(!text(&out).contains("receipt-id"), "{}", text(&out));
}

#[test]
fn a_client_of_another_century_hears_which_versions_there_are() {
    let mut server = ServerSide::new(limits());
    let fault = server
        .handle_input(b"CONNECT\naccept-version:2.1\nhost:h\n\n\0")
        .expect_err("no version in common");
    assert_eq!(fault, PeerFault::VERSION_UNSUPPORTED);
    let mut out = Vec::new();
    server.fault(&fault, &mut out);
    assert!(
        text(&out).contains("\nversion:1.0,1.1,1.2\n"),
        "{}",
        text(&out)
    );
}

#[test]
fn after_an_error_nothing_is_read_or_written() {
    let (_, mut server) = pair(Version::V12);
    let mut out = Vec::new();
    server.error("no", None, "", &mut out);
    assert_eq!(
        text(&out),
        "ERROR\nmessage:no\ncontent-type:text/plain\ncontent-length:0\n\n^@"
    );
    out.clear();
    assert_eq!(server.handle_input(b"SEND\ndestination:d\n\n\0"), Ok(None));
    server.error("again", None, "", &mut out);
    server.receipt("r", &mut out);
    server.heart_beat(&mut out);
    server.message(&MessageOut::default(), |_| {}, &mut out);
    server.connected(&ConnectedOut::default(), &mut out);
    assert!(out.is_empty(), "{}", text(&out));
}

#[test]
fn a_login_can_be_refused() {
    let mut server = ServerSide::new(limits());
    let mut client = ClientSide::new(FrameLimits::default());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.connect(
        &ConnectOut {
            login: Some("u"),
            ..ConnectOut::default()
        },
        &mut there,
    );
    server_event(&mut server, &there);
    server.error("Access refused", None, "wrong password", &mut back);
    let ClientEvent::Error(error) = client_event(&mut client, &back) else {
        panic!("not ERROR")
    };
    assert_eq!(
        (error.message.as_deref(), error.body),
        (Some("Access refused"), &b"wrong password"[..])
    );
    assert_eq!(client.handle_input(b"MESSAGE\n"), Ok(None));
}

#[test]
fn a_disconnect_gets_its_receipt_and_nothing_else_is_read() {
    let (mut client, mut server) = pair(Version::V12);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.disconnect(Some("bye"), &mut there);
    let Event::Disconnect(d) = server_event(&mut server, &there) else {
        panic!("not DISCONNECT")
    };
    server.message(&MessageOut::default(), |_| {}, &mut back);
    assert!(back.is_empty());
    server.receipt(&d.receipt.expect("asked for"), &mut back);
    assert_eq!(
        client_event(&mut client, &back),
        ClientEvent::Receipt("bye".into())
    );
    assert_eq!(server.handle_input(b"SEND\ndestination:d\n\n\0"), Ok(None));
    there.clear();
    client.send(&SendOut::default(), |_| {}, &mut there);
    client.heart_beat(&mut there);
    assert!(there.is_empty());
}

#[test]
fn what_a_client_sends_behind_connect_waits_for_connected() {
    let mut server = ServerSide::new(limits());
    let input = b"CONNECT\naccept-version:1.2\n\n\0SEND\ndestination:d\n\n\0";
    let (consumed, _) = server
        .handle_input(input)
        .expect("valid")
        .expect("complete");
    let rest = &input[consumed..];
    assert_eq!(server.handle_input(rest), Ok(None));
    let mut out = Vec::new();
    server.message(&MessageOut::default(), |_| {}, &mut out);
    server.receipt("r", &mut out);
    server.heart_beat(&mut out);
    assert!(out.is_empty());
    server.connected(&ConnectedOut::default(), &mut out);
    assert!(matches!(server_event(&mut server, rest), Event::Send(_)));
    // CONNECTED is written once.
    let len = out.len();
    server.connected(&ConnectedOut::default(), &mut out);
    assert_eq!(out.len(), len);
}

#[test]
fn each_version_demands_its_own_headers() {
    for (version, input, expected) in [
        (Version::V10, &b"SUBSCRIBE\ndestination:d\n\n\0"[..], None),
        (
            Version::V11,
            b"SUBSCRIBE\ndestination:d\n\n\0",
            Some(PeerFault::SUBSCRIBE_ID),
        ),
        (Version::V10, b"UNSUBSCRIBE\ndestination:d\n\n\0", None),
        (
            Version::V10,
            b"UNSUBSCRIBE\n\n\0",
            Some(PeerFault::UNSUBSCRIBE_WHAT),
        ),
        (
            Version::V11,
            b"UNSUBSCRIBE\ndestination:d\n\n\0",
            Some(PeerFault::UNSUBSCRIBE_ID),
        ),
        (Version::V10, b"ACK\nmessage-id:m\n\n\0", None),
        (
            Version::V10,
            b"ACK\nid:m\n\n\0",
            Some(PeerFault::ACK_MESSAGE_ID),
        ),
        (
            Version::V11,
            b"ACK\nmessage-id:m\n\n\0",
            Some(PeerFault::ACK_SUBSCRIPTION),
        ),
        (
            Version::V11,
            b"ACK\nid:m\n\n\0",
            Some(PeerFault::ACK_MESSAGE_ID),
        ),
        (
            Version::V11,
            b"NACK\nmessage-id:m\nsubscription:s\n\n\0",
            None,
        ),
        (
            Version::V12,
            b"ACK\nmessage-id:m\nsubscription:s\n\n\0",
            Some(PeerFault::ACK_ID),
        ),
        (Version::V12, b"NACK\nid:m\n\n\0", None),
    ] {
        let (_, mut server) = pair(version);
        assert_eq!(
            server.handle_input(input).err(),
            expected,
            "{version} {}",
            text(input)
        );
    }
}
