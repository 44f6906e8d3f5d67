//! A client by hand that takes no answer for an answer: for brokers that are about to stop answering.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

/// For what has to come, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Prefix of the marks of [`Hand::take_numbers`].
const MARK: &str = "mark";

#[derive(Debug)]
pub struct Hand {
    stream: TcpStream,
    unread: Vec<u8>,
    pub session_present: bool,
    next_id: u16,
}

/// Outcome of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The reason code of PUBACK.
    Puback(u8),
    /// None came in time.
    Silence,
    /// The connection ended instead.
    End,
}

impl Hand {
    /// A session that lasts.
    pub fn lasting(broker: SocketAddr, client: &str) -> Self {
        let connect = Connect::new(V5, client)
            .clean(false)
            .with(property::four(property::SESSION_EXPIRY, 3600));
        Self::connect(broker, &connect)
    }

    pub fn passing(broker: SocketAddr, client: &str) -> Self {
        Self::connect(broker, &Connect::new(V5, client))
    }

    fn connect(broker: SocketAddr, connect: &Connect) -> Self {
        let stream = TcpStream::connect(broker).expect("the broker accepts");
        stream
            .set_nodelay(true)
            .expect("a fresh socket takes options");
        let mut hand = Self {
            stream,
            unread: Vec::new(),
            session_present: false,
            next_id: 0,
        };
        hand.write(&connect.bytes());
        match hand.next(PATIENCE) {
            Some(Packet::Connack { flags, code: 0, .. }) => hand.session_present = flags & 1 == 1,
            other => panic!("expected CONNACK, got {other:?}"),
        }
        hand
    }

    /// Subscribes with QoS 1.
    pub fn subscribe(mut self, filter: &str) -> Self {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&subscribe(V5, id, &[], &[(filter, 1)]));
        match self.next(PATIENCE) {
            Some(Packet::Suback { codes, .. }) if codes == [1] => self,
            other => panic!("expected SUBACK, got {other:?}"),
        }
    }

    /// Leaves with DISCONNECT, and waits until the broker has closed too.
    pub fn leave(mut self) {
        self.write(&disconnect());
        while self.next(PATIENCE).is_some() {}
    }

    /// Publishes one QoS 1 message; returns its outcome within `patience`.
    pub fn publish(&mut self, topic: &str, payload: &[u8], patience: Duration) -> Answer {
        self.next_id = self.next_id % 60_000 + 1;
        let id = self.next_id;
        self.write(&Publish::new(topic, payload).qos(1, id).bytes(V5));
        let deadline = Instant::now() + patience;
        loop {
            match self.read_before(deadline) {
                Ok(Packet::Ack {
                    kind: PUBACK,
                    id: of,
                    reason,
                    ..
                }) if of == id => return Answer::Puback(reason),
                Ok(_) => {}
                Err(answer) => return answer,
            }
        }
    }

    /// Publishes `0`, `1`, `2` … one after the other, filled up to `size` bytes, until `enough` says so; which were
    /// acknowledged, and the last answer.
    pub fn publish_numbers(
        &mut self,
        topic: &str,
        size: usize,
        mut enough: impl FnMut(u32, Answer) -> bool,
    ) -> (BTreeSet<u32>, Answer) {
        let mut acknowledged = BTreeSet::new();
        for number in 0.. {
            let answer = self.publish(topic, &numbered(number, size), PATIENCE);
            if matches!(answer, Answer::Puback(code) if code < 0x80) {
                acknowledged.insert(number);
            }
            if enough(number, answer) || matches!(answer, Answer::End | Answer::Silence) {
                return (acknowledged, answer);
            }
        }
        unreachable!("numbers end")
    }

    /// Takes and acknowledges all messages that wait at `topic`, to which it is subscribed: those that come before a mark that
    /// it publishes there. Returns the numbers in them.
    pub fn take_numbers(&mut self, topic: &str) -> BTreeSet<u32> {
        static MARKS: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{MARK} {}", MARKS.fetch_add(1, Ordering::Relaxed));
        self.next_id += 1;
        let publish = Publish::new(topic, &mark).qos(1, self.next_id);
        self.write(&publish.bytes(V5));
        let mut numbers = BTreeSet::new();
        loop {
            let (_, payload) = self.take_one(PATIENCE).expect("the mark comes");
            if payload == mark.as_bytes() {
                return numbers;
            }
            // Earlier marks may come again.
            if !payload.starts_with(MARK.as_bytes()) {
                numbers.insert(number_in(&payload));
            }
        }
    }

    /// Takes and acknowledges so many messages; the numbers in them.
    pub fn take(&mut self, count: usize) -> BTreeSet<u32> {
        (0..count)
            .map(|at| {
                let message = self.take_one(PATIENCE);
                let (_, payload) = message.unwrap_or_else(|| panic!("{at} of {count} came"));
                number_in(&payload)
            })
            .collect()
    }

    /// Takes and acknowledges the next message: its topic and payload.
    pub fn take_one(&mut self, patience: Duration) -> Option<(String, Vec<u8>)> {
        loop {
            let Packet::Publish(message) = self.next(patience)? else {
                continue;
            };
            if message.qos == 1 {
                self.write(&ack(PUBACK, message.id));
            }
            return Some((message.topic, message.payload));
        }
    }

    fn next(&mut self, patience: Duration) -> Option<Packet> {
        self.read_before(Instant::now() + patience).ok()
    }

    fn read_before(&mut self, deadline: Instant) -> Result<Packet, Answer> {
        loop {
            if let Some(packet) = read(V5, &mut self.unread) {
                return Ok(packet);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Answer::Silence);
            }
            self.stream
                .set_read_timeout(Some(left))
                .expect("the timeout is not zero");
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Answer::End),
                Ok(count) => self.unread.extend(&chunk[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => return Err(Answer::End),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }
}

fn number_in(payload: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(payload);
    let number = text.split('|').next().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("nobody sent `{text}`"))
}

fn numbered(number: u32, size: usize) -> Vec<u8> {
    let mut payload = format!("{number}|").into_bytes();
    payload.resize(size.max(payload.len()), b'.');
    payload
}
