//! A scripted client over any transport: it sends what a test says and waits for the answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_server::transport::client::{TlsClientFiles, TlsConnector, websocket};
use thalweg_server::transport::websocket::WebSocketSettings;
use thalweg_server::transport::{Filtered, Transport};

use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

/// Longer than anything here takes; a test that waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Talker {
    socket: Socket,
    transport: Transport,
    version: Version,
    unread: Vec<u8>,
    next_id: u16,
}

#[derive(Clone, Debug)]
pub struct Connack {
    pub code: u8,
    pub session_present: bool,
    pub properties: Properties,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Talker {
    /// A plain TCP connection on which nothing was said yet.
    pub fn tcp(address: SocketAddr) -> Talker {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream
            .set_nodelay(true)
            .expect("a fresh socket takes options");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a fresh socket takes options");
        Talker::over(Socket::Tcp(stream), Transport::Plain)
    }

    /// A connection over a unix socket.
    pub fn unix(path: &Path) -> Talker {
        let stream = UnixStream::connect(path).expect("the server accepts");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a fresh socket takes options");
        Talker::over(Socket::Unix(stream), Transport::Plain)
    }

    /// A connection through TLS, WebSocket or both; `None` if the server ends it during the handshake.
    pub fn filtered(
        address: SocketAddr,
        tls: Option<&TlsClientFiles>,
        path: Option<&str>,
    ) -> Option<Talker> {
        let tls = tls.map(|files| {
            TlsConnector::new(files)
                .expect("the files are good")
                .connect("localhost")
        });
        let tls = tls.map(|layer| layer.expect("localhost is a name"));
        let settings = Arc::new(WebSocketSettings::default());
        let websocket = path.map(|path| websocket("localhost", path, "mqtt", &settings));
        let mut talker = Talker::tcp(address);
        talker.transport = Filtered::stack(tls, websocket);
        talker.shake_hands().then_some(talker)
    }

    fn over(socket: Socket, transport: Transport) -> Talker {
        Talker {
            socket,
            transport,
            version: V5,
            unread: Vec::new(),
            next_id: 1,
        }
    }

    fn shake_hands(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            let Transport::Filtered(filtered) = &mut self.transport else {
                return true;
            };
            let mut wire = Vec::new();
            filtered.take_output(&mut wire);
            if self.write(&wire).is_err() {
                return false;
            }
            let Transport::Filtered(filtered) = &mut self.transport else {
                return true;
            };
            if !filtered.is_handshaking() {
                return true;
            }
            let Ok(got @ 1..) = self.socket.read(&mut buffer) else {
                return false;
            };
            let Transport::Filtered(filtered) = &mut self.transport else {
                return true;
            };
            if filtered
                .handle_input(&buffer[..got], &mut self.unread)
                .is_err()
            {
                return false;
            }
        }
    }

    /// Sends CONNECT and returns the answer; `None` if the server closes instead.
    pub fn try_connect(&mut self, connect: &Connect) -> Option<Connack> {
        self.version = connect.version;
        self.send(&connect.bytes());
        match self.next_or_end()? {
            Packet::Connack {
                flags,
                code,
                properties,
            } => Some(Connack {
                code,
                session_present: flags & 1 == 1,
                properties,
            }),
            other => panic!("expected CONNACK, got {other:?}"),
        }
    }

    /// Sends CONNECT and returns the answer.
    pub fn connect(&mut self, connect: &Connect) -> Connack {
        self.try_connect(connect)
            .expect("the server answers CONNECT")
    }

    /// Connects and must be let in.
    pub fn accepted(mut self, connect: &Connect) -> Talker {
        let connack = self.connect(connect);
        assert_eq!(connack.code, 0, "refused: {connack:?}");
        self
    }

    /// Connects under a name with MQTT 5 and must be let in.
    pub fn named(self, client: &str) -> Talker {
        self.accepted(&Connect::new(V5, client))
    }

    /// Writes bytes; a server that has closed already is found out by the next read.
    pub fn send(&mut self, bytes: &[u8]) {
        let mut wire = Vec::new();
        match &mut self.transport {
            Transport::Plain => wire.extend_from_slice(bytes),
            Transport::Filtered(filtered) => filtered
                .encode(bytes, &mut wire)
                .expect("the client may send"),
        }
        let _ = self.write(&wire);
    }

    /// Writes bytes below all transports.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.write(bytes);
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.write_all(bytes),
            Socket::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// The next packet; `None` at the end of the connection.
    pub fn next_or_end(&mut self) -> Option<Packet> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(packet) = read(self.version, &mut self.unread) {
                return Some(packet);
            }
            let got = match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(got) => got,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                    ) =>
                {
                    return None;
                }
                Err(error) => panic!("nothing came: {error}"),
            };
            match &mut self.transport {
                Transport::Plain => self.unread.extend_from_slice(&buffer[..got]),
                Transport::Filtered(filtered) => {
                    let result = filtered.handle_input(&buffer[..got], &mut self.unread);
                    let mut wire = Vec::new();
                    filtered.take_output(&mut wire);
                    let is_over =
                        result.is_err() || (filtered.is_closed() && self.unread.is_empty());
                    let _ = self.write(&wire);
                    if is_over {
                        return None;
                    }
                }
            }
        }
    }

    pub fn next(&mut self) -> Packet {
        self.next_or_end()
            .expect("the server closed the connection")
    }

    /// The next packet of a connection whose CONNECT was sent by hand.
    pub fn next_as_v5(&mut self) -> Packet {
        self.version = V5;
        self.next()
    }

    /// The next packet, which is a PUBLISH; QoS 1 is acknowledged, QoS 2 taken to its end.
    pub fn message(&mut self) -> Message {
        match self.next() {
            Packet::Publish(message) => {
                self.settle(&message);
                message
            }
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }

    /// The next packet, which is a PUBLISH, without answering it.
    pub fn unsettled(&mut self) -> Message {
        match self.next() {
            Packet::Publish(message) => message,
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }

    fn settle(&mut self, message: &Message) {
        match message.qos {
            0 => {}
            1 => self.send(&ack(PUBACK, message.id)),
            _ => {
                self.send(&ack(PUBREC, message.id));
                let next = self.next();
                assert!(
                    matches!(next, Packet::Ack { kind: PUBREL, id, .. } if id == message.id),
                    "{next:?}"
                );
                self.send(&ack(PUBCOMP, message.id));
            }
        }
    }

    fn id(&mut self) -> u16 {
        self.next_id = self.next_id % u16::MAX + 1;
        self.next_id
    }

    /// Subscribes and returns the code.
    pub fn subscribe(&mut self, filter: &str, options: u8) -> u8 {
        let id = self.id();
        self.send(&subscribe(self.version, id, &[], &[(filter, options)]));
        match self.next() {
            Packet::Suback { id: of, codes, .. } if of == id => codes[0],
            other => panic!("expected SUBACK, got {other:?}"),
        }
    }

    /// Publishes to the end of the exchange and returns its last reason code; 0 for QoS 0.
    pub fn publish(&mut self, topic: &str, payload: &str, qos: u8) -> u8 {
        let id = self.id();
        self.publish_as(&Publish::new(topic, payload).qos(qos, id))
    }

    /// The same with the retain flag.
    pub fn retain(&mut self, topic: &str, payload: &str) -> u8 {
        let id = self.id();
        self.publish_as(&Publish::new(topic, payload).qos(1, id).retain())
    }

    fn publish_as(&mut self, publish: &Publish) -> u8 {
        self.send(&publish.bytes(self.version));
        match publish.qos {
            0 => 0,
            1 => self.answer(PUBACK, publish.id),
            _ => {
                let reason = self.answer(PUBREC, publish.id);
                if reason >= 0x80 {
                    return reason;
                }
                self.send(&ack(PUBREL, publish.id));
                self.answer(PUBCOMP, publish.id)
            }
        }
    }

    /// The next packet, which is this acknowledgement; its reason code.
    pub fn answer(&mut self, expected: u8, of: u16) -> u8 {
        match self.next() {
            Packet::Ack {
                kind, id, reason, ..
            } if kind == expected && id == of => reason,
            other => panic!("expected acknowledgement {expected:#04x} of {of}, got {other:?}"),
        }
    }

    /// Asks for a PINGRESP and returns the messages that came before it: what was sent to us before is among them.
    pub fn until_pong(&mut self) -> Vec<Message> {
        self.send(&pingreq());
        let mut messages = Vec::new();
        loop {
            match self.next() {
                Packet::Pingresp => return messages,
                Packet::Publish(message) => messages.push(message),
                other => panic!("expected PUBLISH or PINGRESP, got {other:?}"),
            }
        }
    }

    /// Waits for the end, which this DISCONNECT announces.
    pub fn expect_disconnect(&mut self, expected: u8) {
        match self.next() {
            Packet::Disconnect { reason, .. } => assert_eq!(reason, expected, "{reason:#04x}"),
            other => panic!("expected DISCONNECT, got {other:?}"),
        }
        assert_eq!(self.next_or_end(), None);
    }

    /// Ends the connection without a word, so that the server sees it at once.
    pub fn vanish(self) {
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Socket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}
