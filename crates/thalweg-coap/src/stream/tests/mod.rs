//! Tests of both machines.

mod machines;
mod mirror;
mod mutations;
mod requests;
mod transcripts;
mod websocket;

use super::*;
use crate::{Code, Encoder, Token, option};

/// Settings of the ends in these tests, unless they say otherwise.
fn settings() -> StreamSettings {
    StreamSettings::default()
}

/// Both ends of a connection, CSMs exchanged.
fn pair(settings: StreamSettings) -> (ClientSide, ServerSide) {
    let (mut client, mut server) = (ClientSide::new(settings), ServerSide::new(settings));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.open(&mut there);
    server.open(&mut back);
    assert!(matches!(server_event(&mut server, &there), Event::Csm(_)));
    assert!(matches!(
        client_event(&mut client, &back),
        ClientEvent::Csm(_)
    ));
    assert!(client.is_open() && server.is_open());
    (client, server)
}

/// The only event in these bytes.
fn server_event<'b>(server: &mut ServerSide, bytes: &'b [u8]) -> Event<'b> {
    let (consumed, event) = server
        .handle_input(bytes)
        .expect("valid")
        .expect("complete");
    assert_eq!(consumed, bytes.len());
    event
}

/// The only event in these bytes.
fn client_event<'b>(client: &mut ClientSide, bytes: &'b [u8]) -> ClientEvent<'b> {
    let (consumed, event) = client
        .handle_input(bytes)
        .expect("valid")
        .expect("complete");
    assert_eq!(consumed, bytes.len());
    event
}

fn none(_: &mut Encoder<'_>) {}

/// Asks to observe, or to observe no more, `a`.
fn observe_a(value: u32) -> impl Fn(&mut Encoder<'_>) {
    move |encoder| {
        encoder
            .uint(option::OBSERVE, value)
            .option(option::URI_PATH, b"a");
    }
}
