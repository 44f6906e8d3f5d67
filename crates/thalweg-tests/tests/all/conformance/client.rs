//! Our own clients, `thalweg sub` and `thalweg pub`, before a server that is written by hand.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::oracle_deviates;
use crate::broker::{free_port, thalweg_binary};

/// A client process and the server's end of its connection.
struct Session {
    client: Child,
    stream: TcpStream,
    version: Version,
}

impl Session {
    /// Starts `thalweg` with these words and waits for its CONNECT.
    fn start(version: Version, words: &[&str]) -> Self {
        let listener = TcpListener::bind(free_port()).expect("the port was free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let level = if version == V5 { "5" } else { "3.1.1" };
        let client = Command::new(thalweg_binary())
            .args(words)
            .args(["--url", &format!("mqtt://{address}"), "--v", level])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let (stream, _) = listener.accept().expect("the client connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a fresh socket takes options");
        let mut session = Self {
            client,
            stream,
            version,
        };
        let (first, body) = session.packet().expect("the client says CONNECT");
        assert_eq!(first, 0x10);
        assert_eq!(&body[..6], b"\0\x04MQTT");
        session
    }

    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// CONNACK with these flags and success.
    fn accept(&mut self, flags: u8) {
        let body: &[u8] = if self.version == V5 {
            &[flags, 0, 0]
        } else {
            &[flags, 0]
        };
        self.send(&packet(0x20, body));
    }

    /// First byte and body of the next packet, or `None` at the end.
    fn packet(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut first = [0];
        if self
            .stream
            .read(&mut first)
            .expect("a packet or the end comes in time")
            == 0
        {
            return None;
        }
        let (mut length, mut shift) = (0, 0);
        loop {
            let mut byte = [0];
            self.stream
                .read_exact(&mut byte)
                .expect("the packet is whole");
            length |= usize::from(byte[0] & 0x7F) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream
            .read_exact(&mut body)
            .expect("the packet is whole");
        Some((first[0], body))
    }

    /// The next `count` packets, each with the identifier in front of its body.
    fn identified(&mut self, count: usize) -> Vec<(u8, u16)> {
        let mut packet = || self.packet().expect("the client stays");
        (0..count)
            .map(|_| packet())
            .map(|(first, body)| (first, u16::from_be_bytes([body[0], body[1]])))
            .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// It acknowledges what it does not print, too. [MQTT-4.5.0-2] [MQTT-4.6.0-2] [MQTT-4.6.0-3] [MQTT-4.3.2-4] [MQTT-4.3.3-8]
/// [MQTT-4.3.3-11] [MQTT-3.1.0-1] [MQTT3-4.5.0-2] [MQTT3-4.6.0-2] [MQTT3-4.6.0-3] [MQTT3-3.1.0-1] [MQTT3-7.1.2-1]
#[test]
fn a_subscriber_acknowledges_everything_in_order() {
    if oracle_deviates("has other clients") {
        return;
    }
    for version in BOTH {
        let mut session = Session::start(version, &["sub", "-q", "2", "--retained-only", "t/#"]);
        session.accept(0);
        let (first, body) = session.packet().expect("the client subscribes");
        assert_eq!(first, 0x82);
        let granted: &[u8] = if version == V5 { &[0, 2] } else { &[2] };
        session.send(&packet(0x90, &[&body[..2], granted].concat()));
        let mut all = Vec::new();
        for (qos, id) in [(1, 11), (2, 21), (1, 9), (2, 8), (1, 65_535), (2, 1)] {
            all.extend(Publish::new("t/x", "x").qos(qos, id).bytes(version));
        }
        session.send(&all);
        let answers = session.identified(6);
        let of = |kind: u8| {
            answers
                .iter()
                .filter(|(first, _)| *first == kind)
                .map(|(_, id)| *id)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(PUBACK), [11, 9, 65_535]);
        assert_eq!(of(PUBREC), [21, 8, 1]);
        session.send(&[ack(PUBREL, 21), ack(PUBREL, 8), ack(PUBREL, 1)].concat());
        assert_eq!(
            session.identified(3),
            [(PUBCOMP, 21), (PUBCOMP, 8), (PUBCOMP, 1)]
        );
    }
}

/// [MQTT-4.6.0-4] [MQTT-2.2.1-3] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-3.14.4-1] [MQTT-3.14.4-2]
/// [MQTT3-4.6.0-4] [MQTT3-2.3.1-1] [MQTT3-2.3.1-2] [MQTT3-3.14.4-1] [MQTT3-3.14.4-2]
#[test]
fn a_publisher_releases_in_the_order_of_pubrec_and_leaves_with_disconnect() {
    if oracle_deviates("has other clients") {
        return;
    }
    for version in BOTH {
        let mut session = Session::start(version, &["pub", "-q", "2", "-l", "t"]);
        let mut lines = session.client.stdin.take().expect("it was piped");
        lines
            .write_all(b"one\ntwo\nthree\n")
            .expect("the client reads its lines");
        drop(lines);
        session.accept(0);
        let (mut received, mut released) = (Vec::new(), Vec::new());
        while released.len() < 3 {
            let (first, body) = session
                .packet()
                .expect("the client stays until all is acknowledged");
            match first {
                0x34 => {
                    let id = u16::from_be_bytes([body[3], body[4]]);
                    assert!(
                        id != 0 && !received.contains(&id) || released.contains(&id),
                        "{id} is in use"
                    );
                    received.push(id);
                    session.send(&ack(PUBREC, id));
                }
                PUBREL => {
                    let id = u16::from_be_bytes([body[0], body[1]]);
                    released.push(id);
                    session.send(&ack(PUBCOMP, id));
                }
                other => panic!("{other:#04x}"),
            }
        }
        assert_eq!(released, received);
        let (first, body) = session.packet().expect("the client says DISCONNECT");
        assert_eq!(first, 0xE0);
        assert!(body.is_empty() || body[0] == 0, "{body:?}");
        // Whoever closes first, the other follows.
        session
            .stream
            .shutdown(Shutdown::Write)
            .expect("the socket is still there");
        assert_eq!(session.packet(), None, "and closes");
        assert!(session.client.wait().expect("it was ours").success());
    }
}

/// [MQTT-3.2.2-4]
#[test]
fn a_client_without_a_session_closes_when_told_that_there_is_one() {
    if oracle_deviates("has other clients") {
        return;
    }
    let mut session = Session::start(V5, &["sub", "t"]);
    session.accept(1);
    while let Some((first, _)) = session.packet() {
        assert_eq!(first, 0xE0, "only DISCONNECT may come before the end");
    }
}
