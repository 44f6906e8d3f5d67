//! CoAP over TCP and over WebSocket, by libraries that know them: the same resources as over UDP.

use std::net::SocketAddr;

use serde_json::json;

use super::endpoint::Endpoint;
use super::puppet::{Library, PATIENCE};
use super::speaker::Post;
use crate::broker::{Broker, free_port};

/// Observes, publishes in one block and in many, reads, deletes.
fn everything_works(
    transport: &str,
    library: Library,
    address: SocketAddr,
    takes: usize,
    other: &Endpoint,
) {
    let (who, path) = (
        format!("{library:?} over {transport}"),
        format!("/ps/data/over/{transport}/{library:?}"),
    );
    let endpoint = Endpoint::over(transport, library, address);
    endpoint.send(&path, &Post::new("first"));
    endpoint.observe(&path, true);
    assert_eq!(
        endpoint
            .receive_within(PATIENCE)
            .expect("the value")
            .payload,
        b"first",
        "{who}"
    );
    other.send(&path, &Post::new("over UDP"));
    let seen = endpoint
        .receive_within(PATIENCE)
        .unwrap_or_else(|| panic!("{who} is notified"));
    assert_eq!(seen.payload, b"over UDP", "{who}");
    let large: Vec<u8> = (0..=255u8).cycle().take(takes).collect();
    let place = format!("{path}/large");
    endpoint.send(&place, &Post::new(large.clone()));
    let answer = endpoint.request("GET", &place, json!({}));
    assert_eq!(
        answer["payload"].as_str().map(str::len),
        Some(2 * large.len()),
        "{who}: {}",
        answer["code"]
    );
    endpoint.send(
        &path,
        &Post {
            clear: true,
            ..Post::default()
        },
    );
    assert_eq!(
        other.request("GET", &path, json!({}))["code"],
        "4.04",
        "{who}"
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn libraries_speak_over_tcp_and_websocket() {
    let websocket = free_port();
    let options = Broker::with()
        .coap()
        .set("listeners.coap-ws.kind", "coap")
        .set("listeners.coap-ws.transport", "ws")
        .set("listeners.coap-ws.bind", &websocket.to_string());
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let other = Endpoint::open(Library::NodeCoap, broker.coap());
    // It never announces a message size above the 1,152 bytes that every peer accepts, nor support of blocks.
    everything_works("tcp", Library::GoCoap, broker.coap(), 1000, &other);
    everything_works("tcp", Library::Aiocoap, broker.coap(), 20_000, &other);
    everything_works("ws", Library::Aiocoap, websocket, 20_000, &other);
}

/// An unproven address is sent only small responses, and none of these libraries supports Echo (RFC 9175): they get
/// small blocks at first.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_new_endpoint_reads_and_observes_large_values() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let writer = Endpoint::open(Library::Aiocoap, broker.coap());
    for (size, path) in [(1000, "/ps/data/large/one"), (5000, "/ps/data/large/five")] {
        writer.send(path, &Post::new(vec![b'x'; size]));
        for library in [Library::Aiocoap, Library::GoCoap, Library::NodeCoap] {
            let answer = Endpoint::open(library, broker.coap()).request("GET", path, json!({}));
            let length = answer["payload"].as_str().map(|digits| digits.len() / 2);
            assert_eq!(
                (answer["code"].as_str(), length),
                (Some("2.05"), Some(size)),
                "{library:?}"
            );
        }
        for library in [Library::Aiocoap, Library::GoCoap] {
            let endpoint = Endpoint::open(library, broker.coap());
            endpoint.observe(path, true);
            assert_eq!(
                endpoint
                    .receive_within(PATIENCE)
                    .expect("the value")
                    .payload
                    .len(),
                size,
                "{library:?} observes"
            );
        }
    }
}
