//! Tests of both machines.

mod bytewise;
mod goodbye;
mod limits;
mod mirror;
mod mutations;
mod properties;
mod transcripts;
mod traps;

use crate::*;

/// Limits of the servers in these tests: small enough to be met.
fn limits() -> ServerLimits {
    let frame = FrameLimits {
        command_bytes_max: 20,
        header_bytes_max: 100,
        headers_max: 12,
        head_bytes_max: 500,
        body_bytes_max: 1000,
    };
    ServerLimits {
        frame: frame.clone(),
        connect: frame,
    }
}

/// Both ends of a connection of this version, CONNECT and CONNECTED exchanged.
fn pair(version: Version) -> (ClientSide, ServerSide) {
    let (mut client, mut server) = (
        ClientSide::new(FrameLimits::default()),
        ServerSide::new(limits()),
    );
    let (mut there, mut back) = (Vec::new(), Vec::new());
    client.connect(
        &ConnectOut {
            lowest: version,
            highest: version,
            ..ConnectOut::default()
        },
        &mut there,
    );
    assert!(matches!(server_event(&mut server, &there), Event::Connect(c) if c.version == version));
    server.connected(&ConnectedOut::default(), &mut back);
    assert!(matches!(
        client_event(&mut client, &back),
        ClientEvent::Connected(_)
    ));
    assert!(client.is_connected() && server.is_connected());
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

/// Written bytes, NUL as `^@`.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "^@")
}
