//! MQTT over WebSocket (section 6): frames written and read by hand, RFC 6455 §5.2.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CONTINUATION: u8 = 0;
const PING: u8 = 9;
const LAST: u8 = 0x80;

/// A WebSocket to the shared broker.
struct Socket {
    stream: TcpStream,
    bytes: Vec<u8>,
    mqtt: Vec<u8>,
    version: Version,
}

impl Socket {
    /// Upgrades, offering these subprotocols; the socket and the broker's answer.
    fn upgrade(version: Version, offered: &str) -> (Self, String) {
        let mut stream =
            TcpStream::connect(shared_broker().websocket()).expect("the broker accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a fresh socket takes options");
        let request = format!(
            "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{offered}\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .expect("the broker reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                break;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("HTTP heads are ASCII");
        (
            Self {
                stream,
                bytes: Vec::new(),
                mqtt: Vec::new(),
                version,
            },
            head,
        )
    }

    fn open(version: Version) -> Self {
        let (socket, head) = Self::upgrade(version, "Sec-WebSocket-Protocol: mqtt\r\n");
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        socket
    }

    /// A masked frame, as every client's must be.
    fn send(&mut self, first: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend(
                    u16::try_from(length)
                        .expect("the tests send little")
                        .to_be_bytes(),
                );
            }
        }
        frame.extend(mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        let _ = self.stream.write_all(&frame);
    }

    /// The next frame's opcode and payload; `None` when the broker closes.
    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(found) = self.whole_frame() {
                return Some(found);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.bytes.extend(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("neither a frame nor the end came: {error}"),
            }
        }
    }

    fn whole_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let (first, second) = (*self.bytes.first()?, *self.bytes.get(1)?);
        assert_eq!(second & 0x80, 0, "a broker does not mask");
        let (head, length) = match second {
            126 => (
                4,
                usize::from(u16::from_be_bytes([
                    *self.bytes.get(2)?,
                    *self.bytes.get(3)?,
                ])),
            ),
            length => (2, usize::from(length)),
        };
        if self.bytes.len() < head + length {
            return None;
        }
        let rest = self.bytes.split_off(head + length);
        let frame = std::mem::replace(&mut self.bytes, rest);
        Some((first & 0x0F, frame[head..].to_vec()))
    }

    /// The next MQTT packet, whichever frames it comes in.
    fn packet(&mut self) -> Packet {
        loop {
            if let Some(packet) = read(self.version, &mut self.mqtt) {
                return packet;
            }
            let (opcode, payload) = self.frame().expect("the connection stays open");
            if opcode < 8 {
                assert!(
                    [BINARY, CONTINUATION].contains(&opcode),
                    "MQTT comes in binary frames"
                );
                self.mqtt.extend(payload);
            }
        }
    }

    /// Expects the broker to close; a close frame may come first.
    fn expect_end(mut self) {
        while let Some((opcode, payload)) = self.frame() {
            assert!(opcode == 8 || opcode == BINARY, "{opcode} {payload:?}");
        }
    }
}

/// [MQTT-6.0.0-3] [MQTT-6.0.0-4] [MQTT3-6.0.0-3] [MQTT3-6.0.0-4]
#[test]
fn the_broker_selects_the_subprotocol_mqtt() {
    for offered in ["mqtt", "mqttv3.1, mqtt", "chat, mqtt, other"] {
        if offered != "mqtt" && oracle_deviates("looks at the first offer only") {
            continue;
        }
        let (_, head) = Socket::upgrade(V5, &format!("Sec-WebSocket-Protocol: {offered}\r\n"));
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let lines: Vec<String> = head.lines().map(str::to_ascii_lowercase).collect();
        assert!(
            lines.contains(&"sec-websocket-protocol: mqtt".to_owned()),
            "{head}"
        );
        // The key is RFC 6455's own example.
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    }
}

/// [MQTT-6.0.0-3] [MQTT3-6.0.0-3]
#[test]
fn a_client_that_does_not_offer_mqtt_gets_no_mqtt_selected() {
    if oracle_deviates("upgrades anything") {
        return;
    }
    let (_, head) = Socket::upgrade(V5, "Sec-WebSocket-Protocol: chat\r\n");
    assert!(
        !head
            .to_ascii_lowercase()
            .contains("sec-websocket-protocol: chat"),
        "{head}"
    );
}

/// [MQTT-6.0.0-2] [MQTT3-6.0.0-2]
#[test]
fn packets_and_frames_need_not_begin_or_end_together() {
    for version in BOTH {
        let topic = unique("ws");
        let mut all = Connect::new(version, unique("ws")).bytes();
        all.extend(subscribe(version, 1, &[], &[(&topic, 0)]));
        all.extend(Publish::new(&topic, vec![b'x'; 300]).bytes(version));
        all.extend(pingreq());
        for size in [1, 3, 50, all.len()] {
            let mut socket = Socket::open(version);
            for part in all.chunks(size) {
                socket.send(LAST | BINARY, part);
            }
            assert!(matches!(socket.packet(), Packet::Connack { code: 0, .. }));
            let answers: Vec<Packet> = (0..3).map(|_| socket.packet()).collect();
            assert!(
                answers
                    .iter()
                    .any(|p| matches!(p, Packet::Publish(m) if m.payload.len() == 300)),
                "{answers:?}"
            );
            assert!(answers.contains(&Packet::Pingresp), "{answers:?}");
        }
        // One message in fragments, with a ping between them.
        let mut socket = Socket::open(version);
        let (start, rest) = all.split_at(7);
        let (middle, end) = rest.split_at(5);
        socket.send(BINARY, start);
        socket.send(CONTINUATION, middle);
        socket.send(LAST | PING, b"?");
        socket.send(LAST | CONTINUATION, end);
        assert!(matches!(socket.packet(), Packet::Connack { code: 0, .. }));
    }
}

/// [MQTT-6.0.0-1] [MQTT3-6.0.0-1]
#[test]
fn mqtt_in_a_text_frame_closes_the_connection() {
    if oracle_deviates("takes text frames as well") {
        return;
    }
    for version in BOTH {
        let connect = Connect::new(version, unique("ws")).bytes();
        let mut socket = Socket::open(version);
        socket.send(LAST | TEXT, b"\x10");
        socket.expect_end();
        let mut socket = Socket::open(version);
        socket.send(LAST | BINARY, &connect);
        assert!(matches!(socket.packet(), Packet::Connack { code: 0, .. }));
        socket.send(LAST | TEXT, &[0x40, 0x00]);
        socket.expect_end();
    }
}
