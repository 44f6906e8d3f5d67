//! Tests of both machines.

mod bytewise;
mod conversation;
mod limits;
mod mirror;
mod mutations;
mod roundtrip;
mod tables;
mod transcripts;

use thalweg_wire::testkit::parse_bytes;

use crate::*;

/// Bytes in the notation of transcripts.
fn bytes(text: &str) -> Vec<u8> {
    parse_bytes(text).expect("the test writes valid notation")
}

fn client() -> ClientSide {
    ClientSide::new(131_072, 1 << 20)
}

/// Every event in `input`, with its borrowed data; returns the remaining bytes.
fn server_hears<'b>(
    server: &mut ServerSide,
    mut input: &'b [u8],
    mut on: impl FnMut(&mut ServerSide, &Event<'_>),
) -> &'b [u8] {
    let mut gathered = Gathered::default();
    while let Some((consumed, event)) = server.handle_input(input, &mut gathered).expect("valid") {
        on(server, &event);
        input = &input[consumed..];
    }
    input
}

fn client_hears<'b>(
    client: &mut ClientSide,
    mut input: &'b [u8],
    mut on: impl FnMut(&mut ClientSide, &ClientEvent<'_>),
) -> &'b [u8] {
    let mut gathered = Gathered::default();
    while let Some((consumed, event)) = client.handle_input(input, &mut gathered).expect("valid") {
        on(client, &event);
        input = &input[consumed..];
    }
    input
}

/// Answers of a server that accepts every client.
fn welcome(server: &mut ServerSide, event: &Event<'_>, out: &mut Vec<u8>) {
    match event {
        Event::ProtocolHeader => server.start(Table::default(), "PLAIN", "en_US", out),
        Event::StartOk(_) | Event::SecureOk { .. } => server.tune(out),
        Event::Open { .. } => server.open_ok(out),
        Event::ChannelOpen(ch) => server.channel_open_ok(*ch, out),
        Event::ChannelClose { ch, .. } => server.channel_close_ok(*ch, out),
        Event::CloseConnection { .. } => server.close_ok(out),
        Event::ChannelFault(fault) => server.fault(fault, out),
        _ => {}
    }
}

/// Answers of a client that opens `/` and channels 1 and 2.
fn enter(client: &mut ClientSide, event: &ClientEvent<'_>, out: &mut Vec<u8>) {
    match event {
        ClientEvent::Start(_) => client.start_ok(
            Table::default(),
            "PLAIN",
            &ClientSide::plain("guest", "guest"),
            out,
        ),
        ClientEvent::Secure { .. } => client.secure_ok(b"", out),
        ClientEvent::Tune(offer) => {
            client.tune_ok(*offer, out);
            client.open("/", out);
        }
        ClientEvent::OpenOk => {
            client.channel_open(1, out);
            client.channel_open(2, out);
        }
        ClientEvent::ChannelClose { ch, .. } => client.channel_close_ok(*ch, out),
        ClientEvent::CloseConnection { .. } => client.close_ok(out),
        _ => {}
    }
}

/// Both ends of a connection with channels 1 and 2 open.
fn pair(limits: ServerLimits) -> (ClientSide, ServerSide) {
    let (mut client, mut server) = (client(), ServerSide::new(limits));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.connect(&mut there);
    while !there.is_empty() {
        assert!(
            server_hears(&mut server, &there, |server, event| welcome(
                server, event, &mut back
            ))
            .is_empty()
        );
        there.clear();
        assert!(
            client_hears(&mut client, &back, |client, event| enter(
                client, event, &mut there
            ))
            .is_empty()
        );
        back.clear();
    }
    assert!(server.is_channel_open(1) && client.is_channel_open(2));
    (client, server)
}

/// The fault in `input`.
fn fault_in(server: &mut ServerSide, input: &[u8]) -> PeerFault {
    server
        .handle_input(input, &mut Gathered::default())
        .expect_err("it is wrong")
}
