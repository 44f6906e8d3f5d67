//! An AMQP 0-9-1 client by hand: the frames that tests of listeners, of lists and of the loop need, byte for byte from
//! the specification, so that they do not pass because both ends share a mistake.
#![allow(dead_code)] // Each test program uses a part.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What carries the frames.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A connection, and the one channel it uses.
pub struct Amqp {
    stream: Box<dyn Stream>,
    /// `connection.blocked` came while something else was expected.
    pub heard_blocked: bool,
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub channel: u16,
    pub payload: Vec<u8>,
}

pub const HEARTBEAT: u8 = 8;

impl Frame {
    /// Class and method of a method frame.
    pub fn method(&self) -> Option<(u16, u16)> {
        match (self.kind, self.payload.as_slice()) {
            (1, [a, b, c, d, ..]) => {
                Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
            }
            _ => None,
        }
    }
}

impl Amqp {
    /// Up to `connection.open-ok`, as the user that libraries name if nobody tells them.
    pub fn connect(address: impl ToSocketAddrs, heartbeat: u16) -> Amqp {
        Amqp::connect_to(address, "/", heartbeat)
    }

    pub fn connect_to(address: impl ToSocketAddrs, vhost: &str, heartbeat: u16) -> Amqp {
        let stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        Amqp::over(stream, "PLAIN", b"\0guest\0guest", vhost, heartbeat)
    }

    /// Over a stream whose reads end some time.
    pub fn over(
        stream: impl Stream + 'static,
        mechanism: &str,
        response: &[u8],
        vhost: &str,
        heartbeat: u16,
    ) -> Amqp {
        let mut amqp = Amqp {
            stream: Box::new(stream),
            heard_blocked: false,
        };
        amqp.stream
            .write_all(b"AMQP\0\0\x09\x01")
            .expect("it leaves");
        amqp.expect(10, 10);
        let text =
            |name: &str, value: &str| [short(name), b"S".to_vec(), long(value.as_bytes())].concat();
        // A table in a table: the one capability that is of interest.
        let mut capabilities = short("connection.blocked");
        capabilities.extend(b"t\x01");
        let mut properties = [
            text("product", "by hand"),
            text("connection_name", "tests"),
            short("capabilities"),
        ]
        .concat();
        properties.extend(b"F");
        properties.extend(long(&capabilities));
        amqp.call(
            0,
            10,
            11,
            &[
                long(&properties),
                short(mechanism),
                long(response),
                short("en_US"),
            ]
            .concat(),
        );
        amqp.expect(10, 30);
        let tune = [
            2047_u16.to_be_bytes().to_vec(),
            131_072_u32.to_be_bytes().to_vec(),
            heartbeat.to_be_bytes().to_vec(),
        ];
        amqp.call(0, 10, 31, &tune.concat());
        amqp.call(0, 10, 40, &[short(vhost), short(""), vec![0]].concat());
        amqp.expect(10, 41);
        amqp.call(1, 20, 10, &short(""));
        amqp.expect(20, 11);
        amqp
    }

    pub fn declare_queue(&mut self, name: &str) {
        self.declare_queue_with(name, b"");
    }

    /// With arguments: a table's fields.
    pub fn declare_queue_with(&mut self, name: &str, arguments: &[u8]) {
        self.call(
            1,
            50,
            10,
            &[vec![0, 0], short(name), vec![0], long(arguments)].concat(),
        );
        self.expect(50, 11);
    }

    pub fn bind(&mut self, queue: &str, exchange: &str, key: &str) {
        let names = [short(queue), short(exchange), short(key)].concat();
        self.call(1, 50, 20, &[vec![0, 0], names, vec![0], long(b"")].concat());
        self.expect(50, 21);
    }

    /// What is sent is settled.
    pub fn consume(&mut self, queue: &str) {
        self.consume_with(queue, b"");
    }

    /// With arguments: a table's fields.
    pub fn consume_with(&mut self, queue: &str, arguments: &[u8]) {
        let names = [vec![0, 0], short(queue), short(""), vec![2]].concat();
        self.call(1, 60, 20, &[names, long(arguments)].concat());
        self.expect(60, 21);
    }

    pub fn purge(&mut self, queue: &str) {
        self.call(1, 50, 30, &[vec![0, 0], short(queue), vec![0]].concat());
        self.expect(50, 31);
    }

    /// In frames that fit into what was agreed on.
    pub fn publish(&mut self, exchange: &str, key: &str, body: &[u8]) {
        self.publish_with(exchange, key, &[0, 0], body);
    }

    /// As basic properties say it: 9 is above 0.
    pub fn publish_above(&mut self, exchange: &str, key: &str, priority: u8, body: &[u8]) {
        self.publish_with(exchange, key, &[0x08, 0, priority], body);
    }

    fn publish_with(&mut self, exchange: &str, key: &str, properties: &[u8], body: &[u8]) {
        self.call(
            1,
            60,
            40,
            &[vec![0, 0], short(exchange), short(key), vec![0]].concat(),
        );
        let head = [
            &[0, 60, 0, 0][..],
            &(body.len() as u64).to_be_bytes(),
            properties,
        ]
        .concat();
        self.send(2, 1, &head);
        for part in body.chunks(100_000) {
            self.send(3, 1, part);
        }
    }

    pub fn call(&mut self, channel: u16, class: u16, method: u16, arguments: &[u8]) {
        let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
        self.send(1, channel, &payload);
    }

    pub fn send(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let mut frame = vec![kind];
        frame.extend(channel.to_be_bytes());
        frame.extend((payload.len() as u32).to_be_bytes());
        frame.extend(payload);
        frame.push(0xCE);
        self.stream.write_all(&frame).expect("it leaves");
    }

    /// The next frame; nothing at the end of the connection.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).ok()?;
        let [kind, a, b, lengths @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes(lengths) as usize + 1];
        self.stream.read_exact(&mut payload).ok()?;
        assert_eq!(payload.pop(), Some(0xCE), "a frame ends");
        Some(Frame {
            kind,
            channel: u16::from_be_bytes([a, b]),
            payload,
        })
    }

    /// The next frame that is no heartbeat must be this method; `connection.blocked` may come at any time.
    pub fn expect(&mut self, class: u16, method: u16) -> Frame {
        loop {
            let frame = self
                .receive()
                .unwrap_or_else(|| panic!("closed instead of {class}.{method}"));
            let words = String::from_utf8_lossy(&frame.payload).into_owned();
            match frame.method() {
                Some(came) if came == (class, method) => return frame,
                Some((10, 60)) => self.heard_blocked = true,
                Some(other) => panic!("{other:?} instead of {class}.{method}: {words}"),
                None => assert_eq!(frame.kind, HEARTBEAT, "{words}"),
            }
        }
    }
}

pub fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}
