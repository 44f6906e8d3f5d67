//! CoAP over TCP, TLS and WebSocket (RFC 8323): libcoap's clients, and a client of our own that says what they never would.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thalweg_coap::stream::{
    StreamMessage, append_from_websocket, decode, encode, next_for_websocket,
};
use thalweg_coap::{Code, Encoder, Token, option};

use crate::broker::{Broker, Options, free_port};
use crate::coap_command::{Observer, ask};

const PATIENCE: Duration = Duration::from_secs(60);
const RULES: &str = "user interop\ntopic readwrite mine/#\n";

fn plain(broker: &Broker, arguments: &[&str], path: &str) -> String {
    ask(
        "coap-client-notls",
        arguments,
        &format!("coap+tcp://{}{path}", broker.coap()),
    )
}

#[test]
fn libcoap_publishes_and_reads_over_tcp_what_others_read_over_udp() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    assert_eq!(
        plain(
            &broker,
            &["-m", "put", "-e", "21.5", "-t", "text/plain"],
            "/ps/data/room/a"
        ),
        ""
    );
    assert_eq!(plain(&broker, &["-m", "get"], "/ps/data/room/a"), "21.5");
    let by_udp = |path: &str| {
        ask(
            "coap-client-notls",
            &["-m", "get"],
            &format!("coap://{}{path}", broker.coap()),
        )
    };
    assert_eq!(by_udp("/ps/data/room/a"), "21.5");
    assert_eq!(plain(&broker, &["-m", "delete"], "/ps/data/room/a"), "");
    assert!(plain(&broker, &["-m", "get"], "/ps/data/room/a").starts_with("4.04 "));
    assert!(
        plain(&broker, &["-m", "get"], "/.well-known/core")
            .contains("</ps>;rt=\"core.ps core.ps.coll\"")
    );
}

#[test]
fn an_observer_over_tcp_is_told_what_is_published() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    assert_eq!(
        plain(&broker, &["-m", "put", "-e", "<first>"], "/ps/data/a"),
        ""
    );
    let observer = Observer::start(
        "coap-client-notls",
        &[],
        &format!("coap+tcp://{}/ps/data/a", broker.coap()),
    );
    let mut seen = Vec::new();
    for next in ["<second>", "<third>"] {
        seen.extend(observer.value());
        assert_eq!(plain(&broker, &["-m", "put", "-e", next], "/ps/data/a"), "");
    }
    seen.extend(observer.value());
    assert_eq!(seen, ["<first>", "<second>", "<third>"]);
}

#[test]
fn long_texts_go_whole_and_in_blocks_and_not_beyond_the_limit() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let text: String = (0..100_000).map(|number| format!("{number} ")).collect();
    let path = |name: &str| broker.folder().join(name).display().to_string();
    for (name, text, size) in [
        ("whole", &text[..500_000], None),
        ("small", &text[..3_000], Some("64")),
    ] {
        fs::write(path(name), text).expect("the test's folder is writable");
        let blocks: Vec<&str> = size
            .map(|size| ["-b", size])
            .into_iter()
            .flatten()
            .collect();
        let resource = format!("/ps/data/{name}");
        assert_eq!(
            plain(
                &broker,
                &[&blocks[..], &["-m", "put", "-f", &path(name)]].concat(),
                &resource
            ),
            ""
        );
        plain(
            &broker,
            &[&blocks[..], &["-m", "get", "-o", &path("back")]].concat(),
            &resource,
        );
        assert!(
            fs::read_to_string(path("back")).is_ok_and(|back| back == text),
            "{name}"
        );
    }
    fs::write(path("huge"), text.repeat(3)).expect("the test's folder is writable");
    assert!(
        plain(
            &broker,
            &["-m", "put", "-f", &path("huge")],
            "/ps/data/huge"
        )
        .starts_with("4.13 ")
    );
    assert!(plain(&broker, &["-m", "get"], "/ps/data/huge").starts_with("4.04 "));
}

#[test]
fn what_libcoap_takes_from_a_queue_is_gone() {
    let options = Broker::with()
        .coap()
        .set("coap.auto_declare_queues", "true");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    for job in ["one", "two"] {
        assert_eq!(plain(&broker, &["-m", "post", "-e", job], "/q/work"), "");
    }
    assert_eq!(plain(&broker, &["-m", "get"], "/q/work"), "one");
    assert_eq!(plain(&broker, &["-m", "get"], "/q/work"), "two");
    assert!(plain(&broker, &["-m", "get"], "/q/work").starts_with("4.04"));
}

/// The listener `coaps` speaks CoAP over TLS and knows clients by their certificates.
fn encrypted(address: &str) -> Options {
    [
        ("kind", "coap"),
        ("transport", "tls"),
        ("bind", address),
        ("tls.certificate", "{folder}/server.pem"),
        ("tls.key", "{folder}/server.key"),
        ("tls.client_ca", "{folder}/authority.pem"),
        ("tls.client_certificate", "required"),
        ("tls.identity", "common_name"),
    ]
    .into_iter()
    .fold(
        Broker::with().coap().encrypted(),
        |options, (key, value)| options.set(&format!("listeners.coaps.{key}"), value),
    )
    .file("rules", RULES)
    .set("access.acl_file", "{folder}/rules")
}

#[test]
fn over_tls_the_rules_know_a_client_by_its_certificate() {
    let address = free_port().to_string();
    let Some(broker) = encrypted(&address).start_for_queues() else {
        return;
    };
    let file = |name: &str| broker.folder().join(name).display().to_string();
    let own = [
        "-c",
        &file("client.pem"),
        "-j",
        &file("client.key"),
        "-C",
        &file("authority.pem"),
    ];
    for client in ["coap-client-openssl", "coap-client-gnutls"] {
        let ask = |arguments: &[&str], path: &str| {
            ask(
                client,
                &[&own[..], arguments].concat(),
                &format!("coaps+tcp://{address}{path}"),
            )
        };
        assert_eq!(
            ask(&["-m", "put", "-e", client], "/ps/data/mine/a"),
            "",
            "{client}"
        );
        assert_eq!(ask(&["-m", "get"], "/ps/data/mine/a"), client);
        assert!(
            ask(&["-m", "put", "-e", "x"], "/ps/data/other/a").contains("4.03"),
            "{client}"
        );
    }
}

/// A connection of our own.
struct Peer {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Messages are those of WebSocket.
    framed: bool,
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReceivedMessage {
    code: Code,
    token: Vec<u8>,
    observes: bool,
    payload: Vec<u8>,
}

impl ReceivedMessage {
    fn of(message: &StreamMessage<'_>) -> Self {
        let (code, token, payload) = (
            message.code,
            message.token.as_slice().to_vec(),
            message.payload.to_vec(),
        );
        Self {
            code,
            token,
            observes: message.options.has(option::OBSERVE),
            payload,
        }
    }

    fn words(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

impl Peer {
    fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the broker accepts");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a fresh socket takes options");
        Self {
            stream,
            bytes: Vec::new(),
            framed: false,
        }
    }

    fn connected(broker: &Broker) -> Self {
        let mut peer = Self::silent(broker.coap());
        peer.say_csm();
        peer
    }

    /// Upgrades, offering this sub-protocol; the broker's answer.
    fn upgrade(address: SocketAddr, path: &str, offered: &str) -> (Self, String) {
        let mut peer = Self::silent(address);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: {offered}\r\n\r\n"
        );
        peer.stream
            .write_all(request.as_bytes())
            .expect("the broker reads");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && peer.stream.read(&mut byte).unwrap_or(0) > 0 {
            head.push(byte[0]);
        }
        peer.framed = true;
        (peer, String::from_utf8(head).expect("HTTP heads are ASCII"))
    }

    fn say_csm(&mut self) {
        self.say(
            Code::CSM,
            &[],
            |encoder| _ = encoder.uint(2, 1 << 20).option(4, &[]),
            &[],
        );
        assert_eq!(self.hear().map(|heard| heard.code), Some(Code::CSM));
    }

    fn say(
        &mut self,
        code: Code,
        token: &[u8],
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
    ) {
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            code,
            Token::new(token).expect("short"),
            options,
            payload,
        );
        if self.framed {
            let (_, message) = next_for_websocket(&bytes).expect("a message");
            let message = [&[message.first], message.rest].concat();
            return self.frame(0x82, &message);
        }
        // A peer that aborts may have closed before all bytes have arrived.
        let _ = self.stream.write_all(&bytes);
    }

    /// Sends one masked frame.
    fn frame(&mut self, first: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        self.stream.write_all(&frame).expect("the broker reads");
    }

    fn put(&mut self, token: &[u8], level: &str, payload: &[u8]) {
        self.say(Code::PUT, token, path(level, None), payload);
    }

    fn get(&mut self, token: &[u8], level: &str) {
        self.say(Code::GET, token, path(level, None), &[]);
    }

    fn observe(&mut self, token: &[u8], level: &str) {
        self.say(Code::GET, token, path(level, Some(0)), &[]);
    }

    /// The next message; nothing when the connection has ended.
    fn hear(&mut self) -> Option<ReceivedMessage> {
        loop {
            if let Some(heard) = self.next() {
                return Some(heard);
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    fn next(&mut self) -> Option<ReceivedMessage> {
        if !self.framed {
            let (len, heard) = decode(&self.bytes, usize::MAX)
                .expect("the broker writes what can be read")
                .map(|(len, message)| (len, ReceivedMessage::of(&message)))?;
            self.bytes.drain(..len);
            return Some(heard);
        }
        let [first, length, ..] = self.bytes[..] else {
            return None;
        };
        assert_eq!(first, 0x82, "each message is a binary frame of its own");
        let (head, length) = match length {
            126 => (
                4,
                usize::from(u16::from_be_bytes([
                    *self.bytes.get(2)?,
                    *self.bytes.get(3)?,
                ])),
            ),
            length => (2, usize::from(length)),
        };
        let message = self.bytes.get(head..head + length)?;
        let mut stream = Vec::new();
        append_from_websocket(message, &mut stream).expect("the broker writes what can be read");
        let (len, message) = decode(&stream, usize::MAX)
            .expect("a message")
            .expect("whole");
        assert_eq!(len, stream.len(), "one message each");
        let heard = ReceivedMessage::of(&message);
        self.bytes.drain(..head + length);
        Some(heard)
    }

    /// The code of the close frame that comes next.
    fn hear_close(&mut self) -> u16 {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        let bytes = [&self.bytes[..], &rest].concat();
        assert_eq!(bytes.first(), Some(&0x88), "a close frame: {bytes:?}");
        u16::from_be_bytes([bytes[2], bytes[3]])
    }
}

fn path(level: &str, observe: Option<u32>) -> impl Fn(&mut Encoder<'_>) {
    move |encoder| {
        if let Some(observe) = observe {
            encoder.uint(option::OBSERVE, observe);
        }
        for level in ["ps", "data", level] {
            encoder.option(option::URI_PATH, level.as_bytes());
        }
    }
}

#[test]
fn many_requests_in_one_segment_and_one_in_many_are_all_answered() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let mut peer = Peer::connected(&broker);
    let mut bytes = Vec::new();
    for number in 0..500_u16 {
        let token = Token::new(&number.to_be_bytes()).expect("short");
        encode(
            &mut bytes,
            Code::PUT,
            token,
            path("a", None),
            &number.to_be_bytes(),
        );
    }
    peer.stream.write_all(&bytes).expect("the broker reads");
    let mut tokens: Vec<_> = (0..500)
        .map(|_| peer.hear().expect("an answer").token)
        .collect();
    tokens.sort();
    assert_eq!(
        tokens,
        (0..500_u16)
            .map(|number| number.to_be_bytes().to_vec())
            .collect::<Vec<_>>()
    );
    peer.stream
        .set_nodelay(true)
        .expect("a socket takes options");
    bytes.clear();
    encode(
        &mut bytes,
        Code::PUT,
        Token::EMPTY,
        path("a", None),
        &[b'x'; 100],
    );
    for byte in bytes {
        peer.stream.write_all(&[byte]).expect("the broker reads");
    }
    assert_eq!(peer.hear().map(|heard| heard.code), Some(Code::CHANGED));
    // Half a message, and then silence.
    peer.stream
        .write_all(&[0xD3, 0x20, 0x03])
        .expect("the broker reads");
    peer.stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(peer.hear(), None);
}

#[test]
fn who_says_nonsense_is_told_so_and_others_are_not_disturbed() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let mut other = Peer::connected(&broker);
    let long = [b'x'; 2000].repeat(1000);
    let cases: [(&[u8], bool, &str); 7] = [
        // TLS, and HTTP.
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            false,
            "an option has a reserved form",
        ),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            false,
            "an option has a reserved form",
        ),
        (b"\x00\x01", false, "the first message is not CSM"),
        (b"\x09\xe1", true, "the token is longer than eight bytes"),
        (
            b"\xf0\xff\xff\xff\xff\x03",
            true,
            "the message is larger than this end takes",
        ),
        (
            b"\x20\x03\xdd\x01",
            true,
            "the message ends within an option",
        ),
        (
            b"\x00\xe9",
            true,
            "the signal is not one of those that are defined",
        ),
    ];
    for (bytes, is_open, words) in cases {
        let mut peer = if is_open {
            Peer::connected(&broker)
        } else {
            Peer::silent(broker.coap())
        };
        peer.stream.write_all(bytes).expect("the broker reads");
        let mut heard = peer.hear();
        if !is_open {
            assert_eq!(
                heard.map(|heard| heard.code),
                Some(Code::CSM),
                "what is said first has CSM before it"
            );
            heard = peer.hear();
        }
        let heard = heard.expect("a last word");
        assert_eq!((heard.code, heard.words().as_str()), (Code::ABORT, words));
        assert_eq!(peer.hear(), None);
    }
    let mut peer = Peer::connected(&broker);
    peer.put(b"t", "a", &long);
    assert_eq!(
        peer.hear().map(|heard| heard.code),
        Some(Code::ABORT),
        "refused by its length alone"
    );
    other.get(b"t", "a");
    assert_eq!(other.hear().map(|heard| heard.code), Some(Code::NOT_FOUND));
}

#[test]
fn who_never_says_csm_does_not_stay() {
    let options = Broker::with().coap().set("limits.connect_timeout", "1s");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let since = Instant::now();
    let (mut silent, mut half) = (Peer::silent(broker.coap()), Peer::silent(broker.coap()));
    half.stream.write_all(&[0x70]).expect("the broker reads");
    assert_eq!((silent.hear(), half.hear()), (None, None));
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(800), "{took:?}");
}

#[test]
fn who_is_silent_is_asked_and_then_given_up() {
    let options = Broker::with().coap().set("coap.idle_timeout", "2s");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let (mut alive, mut dead) = (Peer::connected(&broker), Peer::connected(&broker));
    for _ in 0..3 {
        assert_eq!(alive.hear().map(|heard| heard.code), Some(Code::PING));
        alive.say(Code::PONG, &[], |_| {}, &[]);
    }
    let heard = [dead.hear(), dead.hear()].map(|heard| heard.map(|heard| heard.code));
    assert_eq!(heard, [Some(Code::PING), Some(Code::ABORT)]);
    assert_eq!(dead.hear(), None);
    alive.get(b"t", "a");
    assert_eq!(alive.hear().map(|heard| heard.code), Some(Code::NOT_FOUND));
}

#[test]
fn who_does_not_read_is_told_the_newest_later() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let (mut observer, mut writer) = (Peer::connected(&broker), Peer::connected(&broker));
    observer.observe(b"o", "a");
    assert_eq!(
        observer.hear().map(|heard| (heard.code, heard.observes)),
        Some((Code::CONTENT, true))
    );
    let count = 1000_u32;
    for number in 0..count {
        let mut value = vec![b'x'; 50_000];
        value[..4].copy_from_slice(&number.to_be_bytes());
        writer.put(&[], "a", &value);
        assert!(writer.hear().is_some_and(|heard| heard.code.class() == 2));
    }
    let (mut seen, mut last) = (0, None);
    while last != Some(count - 1) {
        let heard = observer.hear().expect("the newest is still to come");
        let number = u32::from_be_bytes(heard.payload[..4].try_into().expect("four bytes"));
        assert!(last.is_none_or(|last| last < number), "in order");
        (seen, last) = (seen + 1, Some(number));
    }
    assert!(
        seen < count / 2,
        "{seen} of {count}: most are not worth telling any more"
    );
}

#[test]
fn a_broker_that_stops_releases_its_connections() {
    let Some(broker) = Broker::with().coap().start_for_queues() else {
        return;
    };
    let mut peer = Peer::connected(&broker);
    peer.put(b"t", "a", b"1");
    assert_eq!(peer.hear().map(|heard| heard.code), Some(Code::CREATED));
    assert!(broker.stop().success());
    assert_eq!(peer.hear().map(|heard| heard.code), Some(Code::RELEASE));
    assert_eq!(peer.hear(), None);
}

#[test]
fn over_websocket_each_message_is_a_binary_frame_of_its_own() {
    let address = free_port();
    let options = Broker::with()
        .coap()
        .set("listeners.web.kind", "coap")
        .set("listeners.web.transport", "ws");
    let Some(broker) = options
        .set("listeners.web.bind", &address.to_string())
        .start_for_queues()
    else {
        return;
    };
    let upgrade = |offered| Peer::upgrade(address, "/.well-known/coap", offered);
    let (mut peer, head) = upgrade("chat, coap");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(
        head.to_lowercase()
            .contains("sec-websocket-protocol: coap\r\n"),
        "{head}"
    );
    peer.say_csm();
    for (token, len) in [(b"1", 3), (b"2", 300), (b"3", 40_000)] {
        peer.put(token, "a", &vec![token[0]; len]);
        assert!(
            peer.hear()
                .is_some_and(|heard| heard.token == token && heard.code.class() == 2)
        );
    }
    peer.observe(b"o", "a");
    assert_eq!(
        peer.hear().map(|heard| heard.payload),
        Some(vec![b'3'; 40_000])
    );
    let mut other = Peer::connected(&broker);
    other.put(b"t", "a", b"by TCP");
    assert_eq!(
        peer.hear().map(|heard| heard.words()).as_deref(),
        Some("by TCP")
    );
    // Several answers that leave together are still one frame each, and a message may come in pieces.
    peer.say(Code::GET, b"x", path("a", None), &[]);
    peer.frame(0x02, b"\x01\x01y\xb2ps");
    peer.frame(0x00, b"\x04data");
    peer.frame(0x80, b"\x01a");
    let mut tokens = [peer.hear(), peer.hear()].map(|heard| heard.expect("an answer").token);
    tokens.sort();
    assert_eq!(tokens, [b"x", b"y"]);
    peer.frame(0x81, b"\x00\x01");
    assert_eq!(peer.hear_close(), 1003, "text is refused");
    let (mut peer, _) = upgrade("coap");
    peer.say_csm();
    peer.frame(0x82, b"\x04\x01a");
    assert_eq!(peer.hear_close(), 1002, "less than its token");
    let (_, head) = upgrade("mqtt");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    let (_, head) = Peer::upgrade(address, "/mqtt", "coap");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}
