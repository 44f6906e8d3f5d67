//! Every transport, alone and on top of another, and the peer's address through it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use thalweg_server::transport::client::TlsClientFiles;

use super::home::Home;
use super::talker::Talker;
use crate::certificates::Certificates;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::folder::Folder;

fn with_certificates() -> Folder {
    let folder = Folder::new();
    Certificates::shared().write_into(folder.path());
    folder
}

fn trusting(folder: &Folder) -> TlsClientFiles {
    TlsClientFiles {
        ca: Some(folder.path().join("authority.pem")),
        ..TlsClientFiles::default()
    }
}

fn identified(folder: &Folder) -> TlsClientFiles {
    let identity = Some((
        folder.path().join("client.pem"),
        folder.path().join("client.key"),
    ));
    TlsClientFiles {
        identity,
        ..trusting(folder)
    }
}

#[test]
fn every_transport_carries_small_and_large_messages_both_ways() {
    let mut sets = vec![
        "listeners.unix.bind={folder}/broker.sock".to_owned(),
        "listeners.unix.transport=unix".into(),
    ];
    for transport in ["ws", "tls", "wss"] {
        sets.push(format!("listeners.{transport}.bind=127.0.0.1:0"));
        sets.push(format!("listeners.{transport}.transport={transport}"));
    }
    for transport in ["tls", "wss"] {
        sets.push(format!(
            "listeners.{transport}.tls.certificate={{folder}}/server.pem"
        ));
        sets.push(format!(
            "listeners.{transport}.tls.key={{folder}}/server.key"
        ));
    }
    let home = Home::in_folder(
        with_certificates(),
        &sets.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let files = trusting(&home.folder);
    let filtered = |listener: &str, tls, path| {
        Talker::filtered(home.address(listener), tls, path)
            .expect("the handshake succeeds")
            .named(listener)
    };
    let mut talkers = [
        Talker::unix(&home.folder.path().join("broker.sock")).named("unix"),
        filtered("ws", None, Some("/mqtt")),
        filtered("tls", Some(&files), None),
        filtered("wss", Some(&files), Some("/mqtt")),
        home.client("tcp"),
    ];
    for talker in &mut talkers {
        // With No Local, so that senders have only their acknowledgements to read.
        assert_eq!(talker.subscribe("t", 2 | 4), 2);
    }
    for (size, qos) in [(0, 0), (10, 1), (100_000, 2), (1_000_000, 1)] {
        let payload = "x".repeat(size);
        for sender in 0..talkers.len() {
            assert_eq!(talkers[sender].publish("t", &payload, qos), 0);
            for (number, talker) in talkers.iter_mut().enumerate() {
                if number != sender {
                    assert_eq!(talker.message().payload.len(), size);
                }
            }
        }
    }
}

#[test]
fn a_client_certificate_is_the_login_and_the_rules_know_its_name() {
    let folder = with_certificates();
    folder.write("acl", "user interop\ntopic readwrite mine/#\n");
    let home = Home::in_folder(
        folder,
        &[
            "listeners.tls.bind=127.0.0.1:0",
            "listeners.tls.transport=tls",
            "listeners.tls.tls.certificate={folder}/server.pem",
            "listeners.tls.tls.key={folder}/server.key",
            "listeners.tls.tls.client_ca={folder}/authority.pem",
            "listeners.tls.tls.client_certificate=required",
            "listeners.tls.tls.identity=common_name",
            "listeners.tls.anonymous=false",
            "access.acl_file={folder}/acl",
        ],
    );
    let address = home.address("tls");
    let mut named = Talker::filtered(address, Some(&identified(&home.folder)), None)
        .expect("trusted")
        .named("a");
    assert!(named.publish("mine/x", "", 1) < 0x80);
    assert_eq!(named.publish("other", "", 1), 0x87);
    let nameless = Talker::filtered(address, Some(&trusting(&home.folder)), None);
    // In TLS 1.3 the client has finished before the server misses the certificate.
    assert!(nameless.is_none_or(|mut talker| talker.try_connect(&Connect::new(V5, "b")).is_none()));
}

#[test]
fn a_required_certificate_without_a_name_lets_in_where_nothing_else_could() {
    let home = Home::in_folder(
        with_certificates(),
        &[
            "listeners.tls.bind=0.0.0.0:0",
            "listeners.tls.transport=tls",
            "listeners.tls.tls.certificate={folder}/server.pem",
            "listeners.tls.tls.key={folder}/server.key",
            "listeners.tls.tls.client_ca={folder}/authority.pem",
            "listeners.tls.tls.client_certificate=required",
        ],
    );
    let address = SocketAddr::from(([127, 0, 0, 1], home.address("tls").port()));
    let mut talker =
        Talker::filtered(address, Some(&identified(&home.folder)), None).expect("trusted");
    assert_eq!(talker.connect(&Connect::new(V5, "a")).code, 0);
}

#[test]
fn only_the_path_of_the_listener_is_upgraded() {
    let home = Home::new(&[
        "listeners.ws.bind=127.0.0.1:0",
        "listeners.ws.transport=ws",
        "listeners.ws.websocket.path=/there",
    ]);
    let upgraded = |path| Talker::filtered(home.address("ws"), None, Some(path)).is_some();
    assert!(upgraded("/there"));
    assert!(upgraded("/"));
    assert!(!upgraded("/mqtt"));
}

#[test]
fn the_proxy_names_the_client_and_others_are_not_believed() {
    let home = Home::new(&[
        "listeners.proxied.bind=127.0.0.1:0",
        "listeners.proxied.proxy_protocol=any",
        "listeners.proxied.proxy_trusted=127.0.0.1",
        "listeners.proxied.anonymous=true",
        "listeners.strict.bind=127.0.0.1:0",
        "listeners.strict.proxy_protocol=v2",
        "listeners.strict.proxy_trusted=192.0.2.1",
        "listeners.strict.anonymous=true",
    ]);
    let v1 = b"PROXY TCP4 203.0.113.7 203.0.113.1 1234 1883\r\n".to_vec();
    let v2 = [
        b"\r\n\r\n\0\r\nQUIT\n".as_slice(),
        &[0x21, 0x11, 0, 12, 203, 0, 113, 8, 203, 0, 113, 1],
        &1235u16.to_be_bytes(),
        &1883u16.to_be_bytes(),
    ]
    .concat();
    let mut talkers = Vec::new();
    for (client, header) in [("one", v1), ("two", v2.clone())] {
        let mut talker = Talker::tcp(home.address("proxied"));
        talker.send_raw(&header);
        talkers.push(talker.named(client));
    }
    let mut peers: Vec<String> = home
        .observer()
        .on_shards(|inside| {
            let mut links = Vec::new();
            inside
                .kernel
                .for_each_session(|session| links.extend(session.link));
            links
                .into_iter()
                .filter_map(|link| inside.connections.view(link)?.peer)
                .collect::<Vec<_>>()
        })
        .concat()
        .iter()
        .map(ToString::to_string)
        .collect();
    peers.sort();
    assert_eq!(peers, ["203.0.113.7:1234", "203.0.113.8:1235"]);

    let mut plain = Talker::tcp(home.address("proxied"));
    assert!(
        plain.try_connect(&Connect::new(V5, "three")).is_none(),
        "a header must come first"
    );
    let mut stranger = Talker::tcp(home.address("strict"));
    stranger.send_raw(&v2);
    assert!(
        stranger.try_connect(&Connect::new(V5, "four")).is_none(),
        "loopback is not the trusted proxy"
    );
}

/// The status that an upgrade request gets with these headers beside the usual ones.
fn upgrade_status(address: SocketAddr, path: &str, protocol: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    stream
        .set_read_timeout(Some(super::talker::PATIENCE))
        .expect("a fresh socket takes options");
    let request = format!(
        "GET {path} HTTP/1.1\r\n{headers}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    stream
        .write_all(request.as_bytes())
        .expect("the request is sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("the server answers");
    String::from_utf8_lossy(&status[9..]).into_owned()
}

#[test]
fn web_pages_of_other_hosts_are_refused_on_every_websocket_listener() {
    let home = Home::new(&[
        "listeners.ws.bind=127.0.0.1:0",
        "listeners.ws.transport=ws",
        "listeners.ws.websocket.origins=https://app.example",
        "listeners.stomp-ws.bind=127.0.0.1:0",
        "listeners.stomp-ws.kind=stomp",
        "listeners.stomp-ws.transport=ws",
        "listeners.coap-ws.bind=127.0.0.1:0",
        "listeners.coap-ws.kind=coap",
        "listeners.coap-ws.transport=ws",
        "listeners.public.bind=0.0.0.0:0",
        "listeners.public.anonymous=true",
        "listeners.public.transport=ws",
    ]);
    for (listener, protocol) in [
        ("ws", "mqtt"),
        ("stomp-ws", "v12.stomp"),
        ("coap-ws", "coap"),
    ] {
        let status = |headers: &str| {
            let path = if listener == "coap-ws" {
                "/.well-known/coap"
            } else {
                "/"
            };
            upgrade_status(home.address(listener), path, protocol, headers)
        };
        assert_eq!(status("Host: localhost:8083\r\n"), "101", "{listener}");
        assert_eq!(
            status("Host: 127.0.0.1:8083\r\nOrigin: http://127.0.0.1:3000\r\n"),
            "101",
            "{listener}"
        );
        assert_eq!(
            status("Host: localhost:8083\r\nOrigin: https://attacker.example\r\n"),
            "403",
            "{listener}"
        );
        let rebound = "Host: attacker.example:8083\r\nOrigin: http://attacker.example:8083\r\n";
        assert_eq!(status(rebound), "403", "{listener}");
        let listed = if listener == "ws" { "101" } else { "403" };
        assert_eq!(
            status("Host: localhost:8083\r\nOrigin: https://app.example\r\n"),
            listed,
            "{listener}"
        );
    }
    let public = SocketAddr::from(([127, 0, 0, 1], home.address("public").port()));
    let status = |headers: &str| upgrade_status(public, "/mqtt", "mqtt", headers);
    assert_eq!(
        status("Host: broker.example\r\nOrigin: https://broker.example\r\n"),
        "101"
    );
    assert_eq!(
        status("Host: broker.example\r\nOrigin: https://attacker.example\r\n"),
        "403"
    );
}

/// The balancer's header is not the client's own claim of its address.
#[test]
fn a_certificate_name_in_a_proxy_header_is_no_login_unless_the_listener_takes_it() {
    let folder = Folder::new();
    folder.write("users", "");
    let home = Home::in_folder(
        folder,
        &[
            "access.password_file={folder}/users",
            "listeners.proxied.bind=127.0.0.1:0",
            "listeners.proxied.proxy_protocol=v2",
            "listeners.proxied.proxy_trusted=127.0.0.1",
            "listeners.certified.bind=127.0.0.1:0",
            "listeners.certified.proxy_protocol=v2",
            "listeners.certified.proxy_trusted=127.0.0.1",
            "listeners.certified.proxy_identity=true",
        ],
    );
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1a".to_vec();
    header.extend([192, 0, 2, 7, 198, 51, 100, 9, 0xAB, 0xCD, 0x07, 0x5B]);
    header.extend(b"\x20\0\x0b\x03\0\0\0\0\x22\0\x03svc");
    for (listener, code) in [("proxied", 0x87), ("certified", 0)] {
        let mut talker = Talker::tcp(home.address(listener));
        talker.send_raw(&header);
        assert_eq!(
            talker.connect(&Connect::new(V5, "a")).code,
            code,
            "{listener}"
        );
    }
}
