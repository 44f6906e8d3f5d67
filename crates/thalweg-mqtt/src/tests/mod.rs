//! Tests of both machines. A tag such as `[MQTT-3.1.0-1]` names the statement that a test shows.

mod bytewise;
mod client_connection;
mod limits;
mod malformed;
mod mirror;
mod mutations;
mod pair;
mod peek;
mod properties;
mod reports;
mod roundtrip;
mod transcripts;

use thalweg_wire::testkit::parse_bytes;

use crate::*;

/// Bytes in the notation of transcripts.
fn bytes(text: &str) -> Vec<u8> {
    parse_bytes(text).expect("the test writes valid notation")
}

/// Limits of the servers in these tests: small enough to be met.
fn limits() -> ServerLimits {
    ServerLimits {
        packet_bytes_max: 4096,
        topic_alias_max: 4,
        topic_alias_out_max: 4,
        receive_max: 3,
        ..ServerLimits::default()
    }
}

/// Both ends of a connection of this version, CONNECT and CONNACK exchanged.
fn pair(connect: &ConnectOut<'_>, limits: ServerLimits) -> (ClientSide, ServerSide) {
    let mut client = ClientSide::new(1 << 20);
    let mut server = ServerSide::new(limits);
    let mut wire = Vec::new();
    client.connect(connect, &mut wire).expect("CONNECT fits");
    let (consumed, event) = server
        .handle_input(&wire)
        .expect("CONNECT is valid")
        .expect("CONNECT is complete");
    assert_eq!(consumed, wire.len());
    assert!(matches!(event, Event::Connect(_)));
    let mut back = Vec::new();
    server.connack(&ConnAck::default(), &mut back);
    let (consumed, event) = client
        .handle_input(&back)
        .expect("CONNACK is valid")
        .expect("CONNACK is complete");
    assert_eq!(consumed, back.len());
    assert!(matches!(event, ClientEvent::ConnAck(_)));
    (client, server)
}

fn plain_pair(version: Version) -> (ClientSide, ServerSide) {
    pair(
        &ConnectOut {
            version,
            client_id: "c",
            ..ConnectOut::default()
        },
        limits(),
    )
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
