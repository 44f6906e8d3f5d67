//! AMQP 0-9-1 by hand, one channel per connection: the specification's tables, and nothing of our codec.
//!
//! It blocks: each client of these tests has a thread. Bytes before a connection's end are read completely, for they
//! may hold confirmations.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A client without an answer within this time counts as stuck.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The one channel that is used.
const CHANNEL: u16 = 1;

/// `delivery-mode` is present.
const DELIVERY_MODE: u16 = 1 << 12;

pub const CONFIRM_SELECT: Call = Call(85, 10);
pub const TX_SELECT: Call = Call(90, 10);
pub const TX_COMMIT: Call = Call(90, 20);
pub const TX_ROLLBACK: Call = Call(90, 30);
const CHANNEL_OPEN: Call = Call(20, 10);
const CONNECTION_OPEN: Call = Call(10, 40);
const CONNECTION_CLOSE: Call = Call(10, 50);
const EXCHANGE_DECLARE: Call = Call(40, 10);
const EXCHANGE_BIND: Call = Call(40, 30);
const QUEUE_DECLARE: Call = Call(50, 10);
const QUEUE_BIND: Call = Call(50, 20);
const QUEUE_PURGE: Call = Call(50, 30);
const QUEUE_UNBIND: Call = Call(50, 50);
const QUEUE_DELETE: Call = Call(50, 40);
const QOS: Call = Call(60, 10);
const CONSUME: Call = Call(60, 20);

/// A method that is answered by the one after it: class and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call(u16, u16);

/// Why something did not happen.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The connection is no more.
    Gone,
    /// The broker closed the channel with this code and text; it is open again.
    Refused(u16, String),
    Silent,
}

/// A message that came.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub tag: u64,
    pub redelivered: bool,
    /// The content header's flags and properties, as they came.
    pub properties: Vec<u8>,
    pub body: Vec<u8>,
}

/// Methods that answer no call.
#[derive(Clone, Debug)]
pub enum Event {
    Deliver(Delivery),
    /// Confirmation of publishes: tag, and whether of all before it.
    Ack(u64, bool),
    Nack(u64),
    /// A mandatory message that no queue wanted.
    Returned(Vec<u8>),
    /// The broker ended a consumer.
    Cancelled,
}

/// An open channel on a connection of its own.
#[derive(Debug)]
pub struct Amqp {
    socket: TcpStream,
    unread: Vec<u8>,
    events: VecDeque<Event>,
    answers: VecDeque<Answer>,
    /// A method whose content has not come in full.
    content: Option<Content>,
    /// The channel was closed and is being reopened; no caller waits for that.
    reopening: bool,
    closed: bool,
}

#[derive(Debug)]
struct Content {
    method: (u16, u16),
    arguments: Vec<u8>,
    /// Unknown until the content header is there.
    size: Option<usize>,
    properties: Vec<u8>,
    body: Vec<u8>,
}

impl Content {
    fn of(method: (u16, u16), arguments: Vec<u8>) -> Self {
        Self {
            method,
            arguments,
            size: None,
            properties: Vec::new(),
            body: Vec::new(),
        }
    }
}

#[derive(Debug)]
enum Answer {
    Done(u16, u16, Vec<u8>),
    Got(Option<Delivery>),
    Refused(u16, String),
}

impl Amqp {
    /// Connects and opens the channel.
    pub fn open(broker: SocketAddr) -> Result<Self, Trouble> {
        let socket = TcpStream::connect(broker).map_err(|_| Trouble::Gone)?;
        let ready = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(ANSWERED_WITHIN)));
        ready.expect("a fresh socket takes options");
        let mut me = Self {
            socket,
            unread: Vec::new(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            content: None,
            reopening: false,
            closed: false,
        };
        me.write(b"AMQP\x00\x00\x09\x01");
        me.wait_for(10, 10)?;
        let no_properties = long(0);
        me.method(
            0,
            10,
            11,
            &[
                no_properties,
                short_text("PLAIN"),
                long_text(b"\0guest\0guest"),
                short_text("en_US"),
            ],
        );
        let tune = me.wait_for(10, 30)?;
        let (channels, frame) = (tune[..2].to_vec(), tune[2..6].to_vec());
        me.method(0, 10, 31, &[channels, frame, short(0)]);
        me.ask(
            0,
            CONNECTION_OPEN,
            &[short_text("/"), short_text(""), vec![0]],
        )?;
        me.ask(CHANNEL, CHANNEL_OPEN, &[short_text("")])?;
        Ok(me)
    }

    /// A call without arguments that matter.
    pub fn call(&mut self, call: Call) -> Result<(), Trouble> {
        self.ask(
            CHANNEL,
            call,
            &[if call == CONFIRM_SELECT {
                vec![0]
            } else {
                Vec::new()
            }],
        )
        .map(drop)
    }

    pub fn declare_exchange(
        &mut self,
        name: &str,
        kind: &str,
        passive: bool,
    ) -> Result<(), Trouble> {
        let bits = u8::from(passive) | 2;
        let arguments = [
            short(0),
            short_text(name),
            short_text(kind),
            vec![bits],
            long(0),
        ];
        self.ask(CHANNEL, EXCHANGE_DECLARE, &arguments).map(drop)
    }

    /// A durable one with these arguments.
    pub fn declare_exchange_with(
        &mut self,
        name: &str,
        kind: &str,
        table: &[u8],
    ) -> Result<(), Trouble> {
        let arguments = [
            short(0),
            short_text(name),
            short_text(kind),
            vec![2],
            long_text(table),
        ];
        self.ask(CHANNEL, EXCHANGE_DECLARE, &arguments).map(drop)
    }

    /// Binds exchange `from` to `to` with this key.
    pub fn bind_exchange(&mut self, to: &str, from: &str, key: &str) -> Result<(), Trouble> {
        let names = [short_text(to), short_text(from), short_text(key)].concat();
        self.ask(CHANNEL, EXCHANGE_BIND, &[short(0), names, vec![0], long(0)])
            .map(drop)
    }

    /// `dead`: the queue that rejected messages go to.
    pub fn declare_queue(
        &mut self,
        name: &str,
        terms: Terms,
        dead: Option<&str>,
    ) -> Result<(), Trouble> {
        let mut table = Vec::new();
        if let Some(dead) = dead {
            table = [
                table_text("x-dead-letter-exchange", ""),
                table_text("x-dead-letter-routing-key", dead),
            ]
            .concat();
        }
        self.declare_with(name, terms, &table)
    }

    pub fn declare_with(&mut self, name: &str, terms: Terms, table: &[u8]) -> Result<(), Trouble> {
        let arguments = [
            short(0),
            short_text(name),
            vec![terms as u8],
            long_text(table),
        ];
        self.ask(CHANNEL, QUEUE_DECLARE, &arguments).map(drop)
    }

    /// A passive declare; answered after all earlier methods. Returns the number of waiting messages.
    pub fn look(&mut self, queue: &str) -> Result<u32, Trouble> {
        let answer = self.ask(
            CHANNEL,
            QUEUE_DECLARE,
            &[short(0), short_text(queue), vec![1], long(0)],
        )?;
        let count = &answer[1 + usize::from(answer[0])..];
        Ok(u32::from_be_bytes([count[0], count[1], count[2], count[3]]))
    }

    pub fn purge_queue(&mut self, name: &str) -> Result<(), Trouble> {
        self.ask(CHANNEL, QUEUE_PURGE, &[short(0), short_text(name), vec![0]])
            .map(drop)
    }

    pub fn unbind(&mut self, queue: &str, exchange: &str, key: &str) -> Result<(), Trouble> {
        let names = [short_text(queue), short_text(exchange), short_text(key)].concat();
        self.ask(CHANNEL, QUEUE_UNBIND, &[short(0), names, long(0)])
            .map(drop)
    }

    pub fn delete_queue(&mut self, name: &str) -> Result<(), Trouble> {
        self.ask(
            CHANNEL,
            QUEUE_DELETE,
            &[short(0), short_text(name), vec![0]],
        )
        .map(drop)
    }

    pub fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> Result<(), Trouble> {
        let names = [short_text(queue), short_text(exchange), short_text(key)].concat();
        self.ask(CHANNEL, QUEUE_BIND, &[short(0), names, vec![0], long(0)])
            .map(drop)
    }

    /// Begins to consume, with credit; 0 is no limit.
    pub fn consume(&mut self, queue: &str, prefetch: u16, exclusive: bool) -> Result<(), Trouble> {
        self.ask(CHANNEL, QOS, &[long(0), short(prefetch), vec![0]])?;
        let bits = u8::from(exclusive) << 2;
        self.ask(
            CHANNEL,
            CONSUME,
            &[
                short(0),
                short_text(queue),
                short_text("c"),
                vec![bits],
                long(0),
            ],
        )
        .map(drop)
    }

    /// One message, if there is one.
    pub fn get(&mut self, queue: &str) -> Result<Option<Delivery>, Trouble> {
        self.method(CHANNEL, 60, 70, &[short(0), short_text(queue), vec![0]]);
        match self.answer()? {
            Answer::Got(delivery) => Ok(delivery),
            Answer::Refused(code, text) => Err(Trouble::Refused(code, text)),
            Answer::Done(class, method, _) => {
                panic!("basic.get was answered with method {class}.{method}")
            }
        }
    }

    /// A persistent message, mandatory.
    pub fn publish(&mut self, exchange: &str, key: &str, body: &[u8]) {
        self.publish_with(
            exchange,
            key,
            &[&DELIVERY_MODE.to_be_bytes()[..], &[2]].concat(),
            body,
        );
    }

    /// A mandatory message with flags and properties as given.
    pub fn publish_with(&mut self, exchange: &str, key: &str, properties: &[u8], body: &[u8]) {
        let arguments = [short(0), short_text(exchange), short_text(key), vec![1]].concat();
        let size = body.len() as u64;
        let header = [
            short(60),
            short(0),
            size.to_be_bytes().to_vec(),
            properties.to_vec(),
        ]
        .concat();
        let mut bytes = frame(1, CHANNEL, &[short(60), short(40), arguments].concat());
        bytes.extend(frame(2, CHANNEL, &header));
        // No larger frames than the smallest maximum that every peer must accept.
        for part in body.chunks(4096 - 8) {
            bytes.extend(frame(3, CHANNEL, part));
        }
        self.write(&bytes);
    }

    pub fn ack(&mut self, tag: u64, multiple: bool) {
        self.method(
            CHANNEL,
            60,
            80,
            &[tag.to_be_bytes().to_vec(), vec![u8::from(multiple)]],
        );
    }

    /// All up to this one, and for good.
    pub fn reject_all(&mut self, tag: u64) {
        self.method(CHANNEL, 60, 120, &[tag.to_be_bytes().to_vec(), vec![1]]);
    }

    pub fn reject(&mut self, tag: u64, requeue: bool) {
        self.method(
            CHANNEL,
            60,
            90,
            &[tag.to_be_bytes().to_vec(), vec![u8::from(requeue)]],
        );
    }

    /// The next event, if one comes within this.
    pub fn event(&mut self, within: Duration) -> Result<Option<Event>, Trouble> {
        let until = Instant::now() + within;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some(Answer::Refused(code, text)) = self.answers.pop_front() {
                return Err(Trouble::Refused(code, text));
            }
            if !self.read_until(until)? {
                return Ok(None);
            }
        }
    }

    pub fn close(mut self) {
        let _ = self.ask(
            0,
            CONNECTION_CLOSE,
            &[short(200), short_text("bye"), short(0), short(0)],
        );
    }

    /// An end without a word.
    pub fn drop_dead(self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    // --- calls and answers

    fn ask(
        &mut self,
        channel: u16,
        Call(class, method): Call,
        arguments: &[Vec<u8>],
    ) -> Result<Vec<u8>, Trouble> {
        self.method(channel, class, method, arguments);
        self.wait_for(class, method + 1)
    }

    fn wait_for(&mut self, class: u16, method: u16) -> Result<Vec<u8>, Trouble> {
        match self.answer()? {
            Answer::Done(c, m, arguments) if (c, m) == (class, method) => Ok(arguments),
            Answer::Refused(code, text) => Err(Trouble::Refused(code, text)),
            other => panic!("{class}.{method} was awaited and {other:?} came"),
        }
    }

    fn answer(&mut self) -> Result<Answer, Trouble> {
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            if !self.read_until(until)? {
                return Err(Trouble::Silent);
            }
        }
    }

    // --- bytes

    /// Reads what there is; false if nothing comes until then.
    fn read_until(&mut self, until: Instant) -> Result<bool, Trouble> {
        if self.closed {
            return Err(Trouble::Gone);
        }
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_micros(100));
        self.socket.set_read_timeout(Some(left)).expect("not zero");
        let mut chunk = [0; 16 * 1024];
        match self.socket.read(&mut chunk) {
            Ok(0) => self.closed = true,
            Ok(count) => {
                self.unread.extend(&chunk[..count]);
                self.take_frames();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.closed = true,
        }
        Ok(true)
    }

    fn take_frames(&mut self) {
        let mut at = 0;
        while let Some(head) = self.unread.get(at..at + 7) {
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let kind = head[0];
            let Some(payload) = self.unread.get(at + 7..at + 7 + size) else {
                break;
            };
            let Some(end) = self.unread.get(at + 7 + size) else {
                break;
            };
            assert_eq!(*end, 0xCE, "a frame ends with its mark");
            let payload = payload.to_vec();
            at += size + 8;
            self.take_frame(kind, &payload);
        }
        self.unread.drain(..at);
    }

    fn take_frame(&mut self, kind: u8, payload: &[u8]) {
        match (kind, &mut self.content) {
            (1, None) => self.take_method(payload),
            (2, Some(content)) => {
                let size = u64::from_be_bytes(payload[4..12].try_into().expect("eight bytes"));
                content.size = Some(size as usize);
                content.properties = payload[12..].to_vec();
            }
            (3, Some(content)) => content.body.extend(payload),
            (8, _) => {}
            (kind, content) => panic!("a frame of type {kind} came while {content:?} was"),
        }
        if self
            .content
            .as_ref()
            .is_some_and(|content| content.size == Some(content.body.len()))
        {
            let content = self.content.take().expect("just seen");
            self.take_content(content);
        }
    }

    fn take_method(&mut self, payload: &[u8]) {
        let (class, method) = (number(payload, 0), number(payload, 2));
        let arguments = payload[4..].to_vec();
        let confirmed = |multiple: u8| (tag(&arguments), arguments[8] & multiple != 0);
        match (class, method) {
            (60, 50 | 60 | 71) => {
                self.content = Some(Content::of((class, method), arguments));
            }
            (60, 72) => self.answers.push_back(Answer::Got(None)),
            (60, 80) => {
                let (tag, multiple) = confirmed(1);
                self.events.push_back(Event::Ack(tag, multiple));
            }
            (60, 120) => {
                let (tag, _) = confirmed(1);
                self.events.push_back(Event::Nack(tag));
            }
            (60, 30) => self.events.push_back(Event::Cancelled),
            // The channel, or the connection, is closed by the broker.
            (20, 40) => {
                self.method(CHANNEL, 20, 41, &[]);
                self.method(CHANNEL, 20, 10, &[short_text("")]);
                self.reopening = true;
                self.answers.push_back(refused(&arguments));
            }
            (10, 50) => {
                self.method(0, 10, 51, &[]);
                self.answers.push_back(refused(&arguments));
            }
            (20, 11) if self.reopening => self.reopening = false,
            // Connection.blocked and unblocked.
            (10, 60 | 61) => {}
            _ => self
                .answers
                .push_back(Answer::Done(class, method, arguments)),
        }
    }

    fn take_content(&mut self, content: Content) {
        let Content {
            method,
            arguments,
            properties,
            body,
            ..
        } = content;
        match method {
            (60, 60) => {
                let rest = &arguments[1 + usize::from(arguments[0])..];
                let (tag, redelivered) = (tag(rest), rest[8] & 1 == 1);
                self.events.push_back(Event::Deliver(Delivery {
                    tag,
                    redelivered,
                    properties,
                    body,
                }));
            }
            (60, 71) => {
                let (tag, redelivered) = (tag(&arguments), arguments[8] & 1 == 1);
                let delivery = Delivery {
                    tag,
                    redelivered,
                    properties,
                    body,
                };
                self.answers.push_back(Answer::Got(Some(delivery)));
            }
            _ => self.events.push_back(Event::Returned(body)),
        }
    }

    fn method(&mut self, channel: u16, class: u16, method: u16, arguments: &[Vec<u8>]) {
        self.write(&frame(
            1,
            channel,
            &[short(class), short(method), arguments.concat()].concat(),
        ));
    }

    /// A broken connection is found out by the next who reads.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }
}

/// The flag bits of `queue.declare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Terms {
    Transient = 0,
    Durable = 2,
    /// Durable and exclusive, so that only exclusiveness can end it.
    Exclusive = 6,
}

fn refused(arguments: &[u8]) -> Answer {
    let text = &arguments[3..3 + usize::from(arguments[2])];
    Answer::Refused(
        number(arguments, 0),
        String::from_utf8_lossy(text).into_owned(),
    )
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    [
        &[kind],
        &channel.to_be_bytes()[..],
        &(payload.len() as u32).to_be_bytes(),
        payload,
        &[0xCE],
    ]
    .concat()
}

fn number(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn tag(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn short(value: u16) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn long(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn short_text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

fn long_text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A text in a table.
pub fn table_text(name: &str, value: &str) -> Vec<u8> {
    [short_text(name), vec![b'S'], long_text(value.as_bytes())].concat()
}

/// A number in a table.
pub fn table_number(name: &str, value: i32) -> Vec<u8> {
    [short_text(name), vec![b'I'], value.to_be_bytes().to_vec()].concat()
}
