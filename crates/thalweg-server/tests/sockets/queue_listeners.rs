//! Listeners of AMQP and STOMP over every transport they have, and where their connections live; and STARTTLS and WebSocket of XMPP.

mod xmpp_log_ins;

use crate::support::amqp::Amqp;
use crate::support::folder::Folder;
use crate::support::pipe::{Pipe, Wire};
use crate::{PATIENCE, address};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use thalweg_server::Server;
use thalweg_server::transport::Filtered;
use thalweg_server::transport::client::{TlsClientFiles, TlsConnector, websocket};
use thalweg_server::transport::websocket::{Messages, WebSocketSettings};

const SHARED: [&str; 4] = [
    "shards=5",
    "listeners.mqtt.bind=127.0.0.1:0",
    "listeners.websocket.enabled=false",
    "journal.enabled=false",
];

fn start(folder: &Folder, sets: &[&str]) -> Server {
    Server::start(folder.configuration(&SHARED, sets)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn tcp(server: &Server, listener: &str) -> TcpStream {
    let stream = TcpStream::connect(address(server, listener)).expect("a connection");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    stream
}

fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("a connection");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    stream
}

/// Who is there: user, dialect, transport and shard of each session.
fn present(server: &Server) -> Vec<(Option<String>, &'static str, &'static str, u16)> {
    let parts = server.observer().on_shards(|inside| {
        let mut present = Vec::new();
        inside.kernel.for_each_session(|session| {
            if let Some(view) = session.link.and_then(|link| inside.connections.view(link)) {
                let user = session.user.as_deref().map(str::to_owned);
                present.push((user, session.dialect, view.transport, inside.shard));
            }
        });
        present
    });
    let mut present: Vec<_> = parts.into_iter().flatten().collect();
    present.sort();
    present
}

/// CONNECT and CONNECTED; then a subscription gets what is sent.
fn speak_stomp(stream: &mut (impl Read + Write)) {
    stream
        .write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        .expect("it leaves");
    assert!(frame(stream).starts_with("CONNECTED\n"));
    stream
        .write_all(b"SUBSCRIBE\nid:1\ndestination:/queue/jobs\nreceipt:r\n\n\0")
        .expect("it leaves");
    assert!(frame(stream).contains("receipt-id:r\n"));
    stream
        .write_all(b"SEND\ndestination:/queue/jobs\n\nwork\0")
        .expect("it leaves");
    let message = frame(stream);
    assert!(
        message.starts_with("MESSAGE\n") && message.ends_with("\n\nwork"),
        "{message}"
    );
}

/// The next STOMP frame, without what may stand between two.
fn frame(stream: &mut impl Read) -> String {
    let mut frame = Vec::new();
    let mut byte = [0];
    loop {
        assert_eq!(
            stream.read(&mut byte).expect("something comes"),
            1,
            "closed after {frame:?}"
        );
        match byte[0] {
            0 => return String::from_utf8(frame).expect("text"),
            b'\n' if frame.is_empty() => {}
            other => frame.push(other),
        }
    }
}

#[test]
fn whoever_speaks_a_protocol_of_queues_lives_on_one_shard_whatever_the_transport() {
    let folder = Folder::new("queues");
    let (amqp_socket, stomp_socket) = (folder.0.join("amqp.sock"), folder.0.join("stomp.sock"));
    let server = start(
        &folder,
        &[
            "listeners.amqp.bind=127.0.0.1:0",
            "listeners.stomp.bind=127.0.0.1:0",
            "listeners.a.kind=amqp",
            "listeners.a.transport=unix",
            "listeners.a.bind={folder}/amqp.sock",
            "listeners.s.kind=stomp",
            "listeners.s.transport=unix",
            "listeners.s.bind={folder}/stomp.sock",
            "listeners.w.kind=stomp",
            "listeners.w.transport=ws",
            "listeners.w.bind=127.0.0.1:0",
        ],
    );
    let _over_tcp = Amqp::over(tcp(&server, "amqp"), "PLAIN", b"\0guest\0guest", "/", 0);
    let _over_unix = Amqp::over(unix(&amqp_socket), "PLAIN", b"\0guest\0guest", "/", 0);
    let mut plain = tcp(&server, "stomp");
    speak_stomp(&mut plain);
    let mut local = unix(&stomp_socket);
    // Else the two would share what is sent.
    drop(plain);
    speak_stomp(&mut local);
    drop(local);
    let settings = Arc::new(WebSocketSettings::default());
    let layer = websocket("localhost", "/ws", "v12.stomp", &settings);
    let mut web = Pipe::new(tcp(&server, "w"), Filtered::stack(None, Some(layer)));
    speak_stomp(&mut web);
    let there = present(&server);
    let home = thalweg_kernel::home("$q", 5).0;
    let expected = [
        ("AMQP 0-9-1", "tcp"),
        ("AMQP 0-9-1", "unix"),
        ("STOMP 1.2", "tcp+websocket"),
    ];
    let expected: Vec<_> = expected
        .map(|(dialect, transport)| (None, dialect, transport, home))
        .into();
    // Those who have left may be noticed later.
    let there: Vec<_> = there
        .into_iter()
        .filter(|one| one.1 != "STOMP 1.2" || one.2 == "tcp+websocket")
        .collect();
    assert_eq!(there, expected);
}

#[test]
fn a_clients_certificate_is_its_log_in_in_both_protocols() {
    let folder = Folder::new("queues");
    let authority = Authority::new(&folder);
    authority.issue(&folder, "server", "the broker");
    authority.issue(&folder, "client", "pump-7");
    let mut sets = vec!["access.password_file={folder}/users".to_owned()];
    std::fs::write(folder.0.join("users"), "").expect("the folder is writable");
    for (name, kind) in [("amqps", "amqp"), ("stomps", "stomp")] {
        let keys = [
            ("kind", kind),
            ("transport", "tls"),
            ("bind", "127.0.0.1:0"),
            ("anonymous", "false"),
            ("tls.certificate", "{folder}/server.pem"),
            ("tls.key", "{folder}/server.key"),
            ("tls.client_ca", "{folder}/authority.pem"),
            ("tls.client_certificate", "optional"),
            ("tls.identity", "common_name"),
        ];
        sets.extend(keys.map(|(key, value)| format!("listeners.{name}.{key}={value}")));
    }
    let server = start(
        &folder,
        &sets.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let pipe = |listener: &str, shows: bool| {
        let files = TlsClientFiles {
            ca: Some(folder.0.join("authority.pem")),
            identity: shows.then(|| (folder.0.join("client.pem"), folder.0.join("client.key"))),
            ..TlsClientFiles::default()
        };
        let tls = TlsConnector::new(&files)
            .expect("files")
            .connect("localhost")
            .expect("a name");
        Pipe::new(tcp(&server, listener), Filtered::stack(Some(tls), None))
    };
    let _amqp = Amqp::over(pipe("amqps", true), "EXTERNAL", b"", "/", 0);
    let mut stomp = pipe("stomps", true);
    speak_stomp(&mut stomp);
    let user = Some("pump-7".to_owned());
    let home = thalweg_kernel::home("$q", 5).0;
    let expected =
        ["AMQP 0-9-1", "STOMP 1.2"].map(|dialect| (user.clone(), dialect, "tcp+tls", home));
    assert_eq!(present(&server), expected);

    let mut nobody = pipe("stomps", false);
    nobody
        .write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        .expect("it leaves");
    assert!(
        frame(&mut nobody).starts_with("ERROR\n"),
        "without a certificate there is nothing to know it by"
    );
}

const XMPP_HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
    to='localhost' version='1.0'>";
const XMPP_LOGIN: &[u8] =
    b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";

/// What comes until `end` or the end of the connection.
fn read_until(stream: &mut impl Read, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

#[test]
fn tls_begins_within_a_stream_of_xmpp() {
    let folder = Folder::new("queues");
    let authority = Authority::new(&folder);
    authority.issue(&folder, "server", "the broker");
    let server = start(
        &folder,
        &[
            "listeners.xmpp.bind=127.0.0.1:0",
            "listeners.xmpp.transport=starttls",
            "listeners.xmpp.tls.certificate={folder}/server.pem",
            "listeners.xmpp.tls.key={folder}/server.key",
        ],
    );
    let asked = |more: &[u8]| {
        let mut socket = tcp(&server, "xmpp");
        socket.write_all(XMPP_HEADER).expect("it leaves");
        let features = read_until(&mut socket, "</stream:features>");
        assert!(
            features.contains("<required/>") && !features.contains("<mechanism>"),
            "{features}"
        );
        let mut request = b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>".to_vec();
        request.extend_from_slice(more);
        socket.write_all(&request).expect("it leaves");
        socket
    };
    let mut socket = asked(b"");
    let proceed = read_until(&mut socket, "/>");
    assert!(proceed.starts_with("<proceed"), "{proceed}");
    let files = TlsClientFiles {
        ca: Some(folder.0.join("authority.pem")),
        ..TlsClientFiles::default()
    };
    let tls = TlsConnector::new(&files).expect("files");
    let tls = tls.connect("localhost").expect("a name");
    let mut client = Pipe::new(socket, Filtered::stack(Some(tls), None));
    client.write_all(XMPP_HEADER).expect("it leaves");
    let features = read_until(&mut client, "</stream:features>");
    assert!(
        features.contains("<mechanism>PLAIN</mechanism>") && !features.contains("starttls"),
        "{features}"
    );
    client.write_all(XMPP_LOGIN).expect("it leaves");
    let success = read_until(&mut client, ">");
    assert!(success.starts_with("<success"), "{success}");
    client.write_all(XMPP_HEADER).expect("it leaves");
    read_until(&mut client, "</stream:features>");
    let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
    client.write_all(bind.as_bytes()).expect("it leaves");
    let bound = read_until(&mut client, "</iq>");
    assert!(bound.contains("<jid>"), "{bound}");
    let there = present(&server);
    assert_eq!((there[0].1, there[0].2), ("XMPP 1.0", "tcp+tls"));

    // What comes in plaintext behind the request is never part of the stream, in the same packet or in one of its own.
    let mut slipped = asked(XMPP_LOGIN);
    let heard = read_until(&mut slipped, "</stream:stream>");
    assert!(heard.contains("<policy-violation"), "{heard}");
    let mut slipped = asked(b"");
    read_until(&mut slipped, "/>");
    slipped.write_all(XMPP_LOGIN).expect("it leaves");
    let mut rest = Vec::new();
    // A TLS alert, and the end.
    let _ = slipped.read_to_end(&mut rest);
    assert!(rest.len() < 32, "{rest:?}");
}

#[test]
fn xmpp_lies_in_websocket_messages() {
    let folder = Folder::new("queues");
    let server = start(
        &folder,
        &[
            "listeners.xmpp.bind=127.0.0.1:0",
            "listeners.xmpp.transport=ws",
        ],
    );
    let settings = Arc::new(WebSocketSettings {
        messages: Messages::Text,
        ..WebSocketSettings::default()
    });
    let layer = websocket("localhost", "/xmpp-websocket", "xmpp", &settings);
    let mut client = Pipe::new(tcp(&server, "xmpp"), Filtered::stack(None, Some(layer)));
    let open = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' version='1.0'/>";
    let close = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
    let auth = str::from_utf8(XMPP_LOGIN).expect("text");
    let bind = "<iq xmlns='jabber:client' type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
    // Each answer is messages of one element.
    for (says, answers) in [
        (open, &["<open ", "<stream:features "][..]),
        (auth, &["<success "]),
        (open, &["<open ", "<stream:features "]),
        (bind, &["<iq xmlns='jabber:client' "]),
    ] {
        client
            .write_all(format!("{says}\0").as_bytes())
            .expect("it leaves");
        for expected in answers {
            let answer = read_until(&mut client, "\0");
            assert!(answer.starts_with(expected), "{answer}");
        }
    }
    let there = present(&server);
    assert_eq!((there[0].1, there[0].2), ("XMPP 1.0", "tcp+websocket"));
    client
        .write_all(format!("{close}\0").as_bytes())
        .expect("it leaves");
    assert_eq!(read_until(&mut client, "\0"), format!("{close}\0"));
}

#[test]
fn a_reload_opens_and_closes_listeners_of_queues_and_their_clients_stay() {
    let folder = Folder::new("queues");
    let mut server = start(&folder, &[]);
    let names = |server: &Server| {
        server
            .listening()
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&server), ["mqtt"]);
    server
        .reload(folder.configuration(
            &SHARED,
            &["listeners.amqp.bind=127.0.0.1:0", "tenants=plant"],
        ))
        .expect("it is legal");
    assert_eq!(names(&server), ["mqtt", "amqp"]);
    let mut client = Amqp::over(tcp(&server, "amqp"), "PLAIN", b"\0guest\0guest", "plant", 0);
    server
        .reload(folder.configuration(&SHARED, &[]))
        .expect("it is legal");
    assert_eq!(names(&server), ["mqtt"]);
    client.declare_queue("jobs");
}

#[test]
fn a_connection_that_does_not_get_to_its_open_is_closed_in_time() {
    let folder = Folder::new("queues");
    let server = start(
        &folder,
        &[
            "listeners.amqp.bind=127.0.0.1:0",
            "limits.connect_timeout=1s",
        ],
    );
    let mut stream = tcp(&server, "amqp");
    stream.write_all(b"AMQP\0\0\x09\x01").expect("it leaves");
    let mut heard = Vec::new();
    stream
        .read_to_end(&mut heard)
        .expect("an end, not a time limit");
    assert_eq!(
        heard.get(7..11),
        Some(&[0, 10, 0, 10][..]),
        "connection.start"
    );
}

/// Far more than the server reads at once.
const BEHIND_CLOSE: usize = 12;

/// AMQP: `connection.close` with much behind it, as a client sends that has not flushed its channels.
fn close_amqp(stream: impl Read + Write + 'static) {
    let mut client = Amqp::over(stream, "PLAIN", b"\0guest\0guest", "/", 0);
    client.call(0, 10, 50, &[0, 200, 0, 0, 0, 0, 0]);
    for _ in 0..BEHIND_CLOSE {
        client.send(3, 1, &[0; 100_000]);
    }
    client.expect(10, 51);
    assert_eq!(client.receive(), None, "the server closes after close-ok");
    // The connection was not reset: an `error` event would be all that some libraries report.
    client.send(3, 1, &[0]);
}

/// Sends `last`, which ends the connection, and much behind it; the answer, up to the end of the stream.
fn answer_to(mut stream: impl Read + Write + Wire, last: &[u8]) -> Vec<u8> {
    stream.write_all(last).expect("it leaves");
    for _ in 0..BEHIND_CLOSE {
        stream
            .write_all(&[b'\n'; 100_000])
            .expect("it leaves, whatever the server still wants");
    }
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .expect("the end of the stream, not a reset");
    stream
        .wire()
        .write_all(b"\n")
        .expect("the connection is not reset");
    answer
}

#[test]
fn the_answer_to_a_close_arrives_although_the_client_still_sends() {
    let folder = Folder::new("queues");
    let authority = Authority::new(&folder);
    authority.issue(&folder, "server", "the broker");
    let mut sets = Vec::new();
    for kind in ["mqtt", "amqp", "stomp"] {
        for transport in ["tcp", "tls", "ws"]
            .iter()
            .filter(|transport| (kind, **transport) != ("amqp", "ws"))
        {
            let name = if *transport == "tcp" {
                kind.to_owned()
            } else {
                format!("{kind}-{transport}")
            };
            let keys = [
                ("kind", kind),
                ("transport", transport),
                ("bind", "127.0.0.1:0"),
            ];
            sets.extend(keys.map(|(key, value)| format!("listeners.{name}.{key}={value}")));
            if *transport == "tls" {
                sets.push(format!(
                    "listeners.{name}.tls.certificate={{folder}}/server.pem"
                ));
                sets.push(format!("listeners.{name}.tls.key={{folder}}/server.key"));
            }
        }
    }
    let server = start(
        &folder,
        &sets.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let tls = |listener: &str| {
        let ca = Some(folder.0.join("authority.pem"));
        let files = TlsClientFiles {
            ca,
            identity: None,
            ..TlsClientFiles::default()
        };
        let tls = TlsConnector::new(&files)
            .expect("files")
            .connect("localhost")
            .expect("a name");
        Pipe::new(tcp(&server, listener), Filtered::stack(Some(tls), None))
    };
    let web = |listener: &str, protocol: &str| {
        let settings = Arc::new(WebSocketSettings::default());
        let path = if protocol == "mqtt" { "/mqtt" } else { "/ws" };
        let layer = websocket("localhost", path, protocol, &settings);
        Pipe::new(tcp(&server, listener), Filtered::stack(None, Some(layer)))
    };

    close_amqp(tcp(&server, "amqp"));
    close_amqp(tls("amqp-tls"));

    // A second CONNECT is a protocol error: DISCONNECT with its reason.
    let connect = b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x02me";
    let again = [&connect[..], connect].concat();
    let answers = [
        answer_to(tcp(&server, "mqtt"), &again),
        answer_to(tls("mqtt-tls"), &again),
        answer_to(web("mqtt-ws", "mqtt"), &again),
    ];
    for answer in answers {
        assert!(
            answer
                .windows(3)
                .any(|part| matches!(part, [0xE0, _, 0x82])),
            "{answer:?}"
        );
    }

    let goodbye =
        b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0DISCONNECT\nreceipt:last\n\n\0";
    let answers = [
        answer_to(tcp(&server, "stomp"), goodbye),
        answer_to(tls("stomp-tls"), goodbye),
        answer_to(web("stomp-ws", "v12.stomp"), goodbye),
    ];
    for answer in answers {
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.contains("RECEIPT\nreceipt-id:last\n"), "{answer}");
    }
}

/// A certificate authority whose certificate is in `authority.pem`.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    fn new(folder: &Folder) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.0.join("authority.pem"), certificate.pem())
            .expect("the folder is writable");
        Authority(Issuer::new(params, key))
    }

    fn issue(&self, folder: &Folder, file: &str, common: &str) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        for (ending, text) in [("pem", certificate.pem()), ("key", key.serialize_pem())] {
            std::fs::write(folder.0.join(format!("{file}.{ending}")), text)
                .expect("the folder is writable");
        }
    }
}
