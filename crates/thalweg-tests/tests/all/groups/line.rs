//! A connection that returns the next packet, with a timeout.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::conformance::packet::*;

const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// A connection that was greeted.
#[derive(Debug)]
pub struct MqttConnection {
    socket: TcpStream,
    version: Version,
    unread: Vec<u8>,
    /// Messages that came while something else was awaited.
    early: Vec<Packet>,
    next_id: u16,
}

#[derive(Debug)]
pub enum Came {
    Packet(Packet),
    Nothing,
    /// The connection is no more.
    End,
}

impl MqttConnection {
    /// Connects; `None` if the broker does not answer or dies meanwhile. Returns whether the session was present.
    pub fn open(broker: SocketAddr, connect: &Connect) -> Option<(MqttConnection, bool)> {
        let socket = TcpStream::connect(broker).ok()?;
        let ready = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(ANSWERED_WITHIN)));
        ready.expect("a fresh socket takes options");
        let mut line = MqttConnection {
            socket,
            version: connect.version,
            unread: Vec::new(),
            early: Vec::new(),
            next_id: 0,
        };
        line.send(&connect.bytes());
        match line.next(ANSWERED_WITHIN) {
            Came::Packet(Packet::Connack { flags, code: 0, .. }) => Some((line, flags & 1 == 1)),
            Came::End => None,
            other => panic!(
                "CONNECT of {} was answered with {other:?}",
                String::from_utf8_lossy(&connect.client_id)
            ),
        }
    }

    /// The same where the broker is there.
    pub fn connect(broker: SocketAddr, connect: &Connect) -> MqttConnection {
        MqttConnection::open(broker, connect)
            .expect("the broker is there")
            .0
    }

    /// Writes bytes; a broker that has gone is found out by the next read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    pub fn id(&mut self) -> u16 {
        self.next_id = self.next_id % 60_000 + 1;
        self.next_id
    }

    /// Subscribes; false if the connection ends before it is granted.
    pub fn subscribe(&mut self, filter: &str, qos: u8) -> bool {
        let id = self.id();
        self.send(&subscribe(self.version, id, &[], &[(filter, qos)]));
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            match self.read(until.saturating_duration_since(Instant::now())) {
                Came::Packet(Packet::Suback { id: of, codes, .. }) if of == id => {
                    assert_eq!(codes, [qos], "{filter}");
                    return true;
                }
                Came::Packet(packet) => self.early.push(packet),
                Came::Nothing => panic!("SUBSCRIBE was not answered"),
                Came::End => return false,
            }
        }
    }

    pub fn next(&mut self, within: Duration) -> Came {
        if self.early.is_empty() {
            self.read(within)
        } else {
            Came::Packet(self.early.remove(0))
        }
    }

    /// Everything that has come, up to the answer to a ping; `None` if the connection ends before.
    pub fn until_pong(&mut self) -> Option<Vec<Packet>> {
        self.send(&pingreq());
        let mut packets = Vec::new();
        loop {
            match self.next(ANSWERED_WITHIN) {
                Came::Packet(Packet::Pingresp) => return Some(packets),
                Came::Packet(packet) => packets.push(packet),
                Came::Nothing => panic!("PINGREQ was not answered"),
                Came::End => return None,
            }
        }
    }

    fn read(&mut self, within: Duration) -> Came {
        let until = Instant::now() + within;
        loop {
            if let Some(packet) = read(self.version, &mut self.unread) {
                return Came::Packet(packet);
            }
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_micros(100));
            self.socket.set_read_timeout(Some(left)).expect("not zero");
            let mut chunk = [0; 8192];
            match self.socket.read(&mut chunk) {
                Ok(0) => return Came::End,
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Came::Nothing;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Came::End,
            }
        }
    }

    /// DISCONNECT, and the end.
    pub fn leave(mut self) {
        self.send(&disconnect());
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// The end without a word.
    pub fn drop_dead(self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub fn reset(self) {
        let _ = socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }
}
