//! Two AMQP connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading, vanish,
//! come back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/amqp_connection.rs`.

use std::sync::Arc;
use thalweg_fronts::amqp::{AmqpFront, AmqpSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginRefusal, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};

const MESSAGE_BYTES_MAX: usize = 1024;
const FRAME_MAX: u32 = 4096;
const OUTPUT_MAX: usize = 8192;

/// More than a link may hold: its own limit, and answers to what was read at once, messages that come back included.
const OUTPUT_BOUND: usize = OUTPUT_MAX + 64 * 1024;
const QUEUE_BYTES_MAX: usize = 64 << 10;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &size, payload, &[0xCE]].concat()
}

fn method(channel: u16, class: u16, method: u16, arguments: &[&[u8]]) -> Vec<u8> {
    let payload = [
        &class.to_be_bytes()[..],
        &method.to_be_bytes(),
        &arguments.concat(),
    ]
    .concat();
    frame(1, channel, &payload)
}

fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A table with text and numbers.
fn table(entries: &[(&str, Result<&str, i64>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in entries {
        bytes.extend(short(name));
        match value {
            Ok(text) => bytes.extend([&b"S"[..], &long(text.as_bytes())].concat()),
            Err(number) => bytes.extend([&b"l"[..], &number.to_be_bytes()].concat()),
        }
    }
    long(&bytes)
}

fn publish(
    channel: u16,
    exchange: &str,
    key: &str,
    bits: u8,
    flags: u16,
    fields: &[&[u8]],
    body: &[u8],
) -> Vec<u8> {
    let method = method(
        channel,
        60,
        40,
        &[&[0, 0], &short(exchange), &short(key), &[bits]],
    );
    let size = (body.len() as u64).to_be_bytes();
    let header = [
        &[0, 60, 0, 0][..],
        &size,
        &flags.to_be_bytes(),
        &fields.concat(),
    ]
    .concat();
    [method, frame(2, channel, &header), frame(3, channel, body)].concat()
}

/// What a connection begins with: everything up to an open channel, without waiting for answers.
fn connects() -> Vec<Vec<u8>> {
    let connect = |mechanism: &str, response: &[u8], vhost: &str| {
        let capabilities = [
            &short("capabilities")[..],
            b"F",
            &long(&[&short("consumer_cancel_notify")[..], b"t\x01"].concat()),
        ];
        [
            b"AMQP\x00\x00\x09\x01".to_vec(),
            method(
                0,
                10,
                11,
                &[
                    &long(&capabilities.concat()),
                    &short(mechanism),
                    &long(response),
                    &short("en_US"),
                ],
            ),
            method(0, 10, 31, &[&[0, 8], &FRAME_MAX.to_be_bytes(), &[0, 5]]),
            method(0, 10, 40, &[&short(vhost), &short(""), &[0]]),
            method(1, 20, 10, &[&short("")]),
            method(1, 50, 10, &[&[0, 0], &short("q"), &[0], &table(&[])]),
        ]
        .concat()
    };
    vec![
        connect("PLAIN", b"\0guest\0guest", "/"),
        connect("ANONYMOUS", b"", "blue"),
        connect("PLAIN", b"\0ada\0secret", ""),
        connect("AMQPLAIN", b"nonsense", "/"),
    ]
}

/// Frames that make sense, so that a script gets somewhere.
fn sense() -> Vec<Vec<u8>> {
    let none = table(&[]);
    let limits = table(&[
        ("x-max-length", Err(2)),
        ("x-message-ttl", Err(20)),
        ("x-dead-letter-exchange", Ok("")),
        ("x-dead-letter-routing-key", Ok("q")),
    ]);
    let declare = |queue: &str, bits: u8, arguments: &[u8]| {
        method(1, 50, 10, &[&[0, 0], &short(queue), &[bits], arguments])
    };
    let consume = |queue: &str, tag: &str, bits: u8| {
        method(
            1,
            60,
            20,
            &[&[0, 0], &short(queue), &short(tag), &[bits], &none],
        )
    };
    let exchange = |name: &str, kind: &str| {
        method(
            1,
            40,
            10,
            &[&[0, 0], &short(name), &short(kind), &[0], &none],
        )
    };
    let bind = |queue: &str, from: &str, key: &str| {
        method(
            1,
            50,
            20,
            &[
                &[0, 0],
                &short(queue),
                &short(from),
                &short(key),
                &[0],
                &none,
            ],
        )
    };
    let tag = |number: u64| number.to_be_bytes();
    vec![
        declare("q", 0, &none),
        declare("", 4, &none),
        declare("short", 8, &limits),
        declare(
            "p",
            0,
            &table(&[
                ("x-max-priority", Err(5)),
                ("x-overflow", Ok("reject-publish")),
                ("x-max-length", Err(3)),
            ]),
        ),
        consume("q", "c", 0),
        consume("q", "d", 2),
        consume("amq.rabbitmq.reply-to", "r", 2),
        consume("$share/g/a/+", "g", 0),
        method(1, 60, 30, &[&short("c"), &[0]]),
        exchange("x", "topic"),
        exchange("h", "headers"),
        bind("q", "x", "a.#"),
        bind("q", "amq.fanout", ""),
        method(
            1,
            40,
            30,
            &[&[0, 0], &short("h"), &short("x"), &short("#"), &[0], &none],
        ),
        method(1, 40, 20, &[&[0, 0], &short("x"), &[0]]),
        method(1, 50, 40, &[&[0, 0], &short("q"), &[0]]),
        method(1, 50, 30, &[&[0, 0], &short("short"), &[0]]),
        method(1, 60, 10, &[&[0; 4], &[0, 2], &[0]]),
        method(1, 60, 10, &[&[0; 4], &[0, 1], &[1]]),
        publish(1, "", "q", 0, 0, &[], b"body"),
        publish(1, "", "short", 1, 1 << 12, &[&[2]], b"body"),
        publish(
            1,
            "x",
            "a.b",
            1,
            1 << 13 | 1 << 9,
            &[
                &table(&[("k", Ok("v")), ("x-retain", Ok("set"))]),
                &short("q"),
            ],
            b"body",
        ),
        publish(
            1,
            "",
            "p",
            0,
            1 << 11 | 1 << 8,
            &[&[9], &short("30")],
            b"body",
        ),
        publish(
            1,
            "amq.topic",
            "a.b",
            0,
            1 << 9,
            &[&short("amq.rabbitmq.reply-to")],
            &[7; 900],
        ),
        method(1, 60, 70, &[&[0, 0], &short("q"), &[0]]),
        method(1, 60, 80, &[&tag(1), &[0]]),
        method(1, 60, 80, &[&tag(0), &[1]]),
        method(1, 60, 120, &[&tag(2), &[3]]),
        method(1, 60, 90, &[&tag(1), &[0]]),
        method(1, 60, 110, &[&[1]]),
        method(1, 85, 10, &[&[0]]),
        method(1, 90, 10, &[]),
        method(1, 90, 20, &[]),
        method(1, 90, 30, &[]),
        [
            method(1, 20, 40, &[&[0, 200], &short(""), &[0; 4]]),
            method(1, 20, 10, &[&short("")]),
        ]
        .concat(),
        [method(1, 20, 41, &[]), method(1, 20, 10, &[&short("")])].concat(),
        method(0, 10, 70, &[&long(b"secret"), &short("why")]),
        method(0, 10, 50, &[&[0, 200], &short(""), &[0; 4]]),
        method(0, 10, 51, &[]),
        frame(8, 0, &[]),
    ]
}

pub struct Stage {
    kernel: Kernel,
    links: Links,
    settings: Arc<AmqpSettings>,
    now: Time,
    ends: [End; 2],
    connects: Vec<Vec<u8>>,
    sense: Vec<Vec<u8>>,
}

/// One connection, if it is open, and what it has sent that was not consumed.
#[derive(Default)]
struct End {
    link: Option<LinkId>,
    tail: Vec<u8>,
    /// Bytes of its output that were looked at.
    seen: usize,
}

impl Stage {
    pub fn new() -> Self {
        let limits = Limits {
            queue_messages_max: 50,
            queue_bytes_max: QUEUE_BYTES_MAX,
            group_messages_max: 50,
            group_bytes_max: QUEUE_BYTES_MAX,
            sessions_max: 6,
            retained_messages_max: 20,
            retained_bytes_max: QUEUE_BYTES_MAX,
            publish_rate: 1000,
            ..Limits::default()
        };
        let outputs = LinksLimits {
            output_high: OUTPUT_MAX / 2,
            output_max: OUTPUT_MAX,
            unflushed_max: 1000,
        };
        let settings = AmqpSettings {
            tenants: Box::new(["blue".into()]),
            frame_max: FRAME_MAX,
            channel_max: 8,
            message_bytes_max: MESSAGE_BYTES_MAX,
            consumers_max: 8,
            ..AmqpSettings::default()
        };
        Stage {
            kernel: Kernel::new(limits, ShardId(0), 1, 7),
            links: Links::new(outputs),
            settings: Arc::new(settings),
            now: Time::from_secs(1_795_000_000),
            ends: [End::default(), End::default()],
            connects: connects(),
            sense: sense(),
        }
    }

    /// Does what the script says. Panics if the broker does, or holds more than it may.
    pub fn play(&mut self, mut script: &[u8]) {
        while let Some((&what, rest)) = script.split_first() {
            script = rest;
            let which = usize::from(what & 1);
            let (word, rest) = script
                .split_first()
                .map_or((0, script), |(word, rest)| (*word, rest));
            let sense = self.sense[usize::from(word) % self.sense.len()].clone();
            match what >> 1 & 7 {
                0..=3 => {
                    script = rest;
                    self.send(which, &sense);
                }
                4 => {
                    // Half a frame now, the rest later.
                    script = rest;
                    let (first, second) = sense.split_at(sense.len() / 2);
                    self.send(which, first);
                    self.send(which, second);
                }
                5 if what >> 4 < 4 => {
                    // Whatever the script says.
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.send(which, bytes);
                }
                5 => {
                    // Sense with one byte of it changed.
                    script = rest;
                    let mut broken = sense;
                    let at = usize::from(what >> 4) * 7 % broken.len();
                    broken[at] ^= word | 1;
                    self.send(which, &broken);
                }
                _ => self.trouble(
                    which,
                    usize::from(what >> 4) * 2 + usize::from(what >> 1 & 1),
                ),
            }
            self.check();
        }
    }

    fn link(&mut self, which: usize, word: usize) -> LinkId {
        if let Some(link) = self.ends[which].link {
            return link;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = AmqpFront::new(self.settings.clone(), 9 + which as u64, anonymous);
        let link = self.links.open(Front::Amqp(Box::new(front)));
        let connect = if which == 0 { word % 3 } else { word % 4 };
        self.ends[which] = End {
            link: Some(link),
            tail: self.connects[connect].clone(),
            seen: 0,
        };
        link
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        if self.ends[which]
            .link
            .and_then(|id| self.links.get(id))
            .is_some_and(|link| link.closing)
        {
            self.flush(which, usize::MAX);
        }
        let id = self.link(which, bytes.len());
        let Some(link) = self.links.get(id) else {
            panic!("it is open")
        };
        // Like the server, which reads nothing from a peer that does not read.
        if link.waiting() > OUTPUT_MAX {
            return self.flush(which, usize::MAX);
        }
        if link.fault().is_some() && !bytes.len().is_multiple_of(3) {
            // Most peers come back at once; some go on as if nothing had been said.
            self.close(which);
            self.link(which, bytes.len());
        }
        self.ends[which].tail.extend_from_slice(bytes);
        self.drive(which);
        let is_held = self.ends[which]
            .link
            .and_then(|id| self.links.get(id))
            .is_some_and(|link| link.holds_input());
        if is_held && !bytes.len().is_multiple_of(3) {
            self.trouble(which, 30);
        }
        self.mend_channel(which);
    }

    /// Like most peers: a channel that was closed is opened again.
    fn mend_channel(&mut self, which: usize) {
        let Some(link) = self.ends[which].link.and_then(|id| self.links.get(id)) else {
            return;
        };
        let output = link.output();
        let new = output
            .get(self.ends[which].seen.min(output.len())..)
            .unwrap_or_default();
        let is_closed = new.windows(4).any(|bytes| bytes == [0, 20, 0, 40]);
        self.ends[which].seen = output.len();
        if is_closed {
            let again = [method(1, 20, 41, &[]), method(1, 20, 10, &[&short("")])].concat();
            self.ends[which].tail.extend_from_slice(&again);
            self.drive(which);
        }
    }

    fn drive(&mut self, which: usize) {
        let Some(id) = self.ends[which].link else {
            return;
        };
        let tail = std::mem::take(&mut self.ends[which].tail);
        let mut used = 0;
        loop {
            let driven = self
                .links
                .drive(id, &tail[used..], self.now, &mut self.kernel);
            used += driven.consumed;
            assert!(used <= tail.len());
            self.gather();
            if driven.stopped != Stopped::FlushFirst {
                break;
            }
        }
        self.ends[which].tail = tail[used..].to_vec();
        let is_open = self
            .links
            .get(id)
            .is_some_and(|link| !link.closing && link.pause_until.is_none());
        let bound = FRAME_MAX as usize + 4096;
        let is_held = self.links.get(id).is_some_and(|link| link.holds_input());
        assert!(
            is_held || !is_open || self.ends[which].tail.len() <= bound,
            "input that waits is bounded"
        );
        if !is_open || is_held {
            self.ends[which].tail.truncate(bound);
        }
    }

    fn gather(&mut self) {
        self.links.take_dirty(&mut Vec::new());
        self.links.take_congested(&mut Vec::new());
        self.links.take_ended();
        assert!(self.kernel.take_outbox().is_empty(), "there is one shard");
    }

    fn flush(&mut self, which: usize, count: usize) {
        let Some(id) = self.ends[which].link else {
            return;
        };
        let Some(link) = self.links.get_mut(id) else {
            panic!("it is open")
        };
        link.advance(count.min(link.sendable().len()));
        if link.closing && link.output().is_empty() {
            return self.close(which);
        }
        self.ends[which].seen = self.ends[which].seen.min(link.output().len());
        if link.waiting() <= OUTPUT_MAX / 4 {
            self.links.on_drained(id, self.now, &mut self.kernel);
            self.gather();
        }
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        self.kernel.set_journal_full(false);
        if self.kernel.poll_timeout() <= self.now {
            self.kernel.on_timeout(self.now, &mut self.links);
        }
        self.kernel.work(self.now, &mut self.links);
        self.gather();
        for which in 0..2 {
            let link = self.ends[which].link.and_then(|id| self.links.get_mut(id));
            if let Some(link) = link
                && link.pause_until.is_some_and(|until| until <= self.now)
            {
                link.pause_until = None;
                self.drive(which);
            }
        }
    }

    fn close(&mut self, which: usize) {
        self.ends[which].tail.clear();
        if let Some(id) = self.ends[which].link.take() {
            self.links.close(id, &mut self.kernel, self.now);
            self.gather();
        }
    }

    /// What happens beside frames, and what the server may say about a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        match number {
            0..8 => return self.flush(which, 4 << number),
            8..16 => return self.flush(which, usize::MAX),
            16..21 => return self.wait(Span::from_millis(1 << (number - 16 + 4))),
            21 => return self.close(which),
            22 => return self.links.on_blocked(Some("the disk is full")),
            23 => return self.links.on_blocked(None),
            _ => {}
        }
        let Some(id) = self.ends[which].link else {
            return;
        };
        match number {
            24 if which == 1 && self.links.silence_max(id).is_some() => self.links.on_silence(id),
            25 => self.links.on_idle(id, self.now),
            26 => self.links.on_login_expired(id, &mut self.kernel, self.now),
            27 => self.kernel.set_journal_full(true),
            _ => {
                self.links.take_logins();
                let answer = match number % 4 {
                    0 => LoginAnswer::Continue {
                        data: b"data".as_slice().into(),
                    },
                    1 => LoginAnswer::Refused(LoginRefusal::BadUserOrPassword),
                    _ => LoginAnswer::Allowed {
                        user: None,
                        access: Access::ALL,
                        expires: None,
                        data: None,
                    },
                };
                self.links.on_login(id, answer, self.now, &mut self.kernel);
                self.gather();
                return self.drive(which);
            }
        }
        self.gather();
    }

    fn check(&self) {
        for end in &self.ends {
            let link = end.link.and_then(|id| self.links.get(id));
            let waiting = link.map_or(0, |link| link.waiting());
            assert!(waiting <= OUTPUT_BOUND, "{waiting} bytes of output wait");
        }
        assert!(self.kernel.totals().sessions <= 6);
    }

    /// Everybody goes.
    pub fn end(mut self) {
        for which in 0..2 {
            self.close(which);
        }
        self.wait(Span::from_secs(1_000_000));
        assert_eq!(
            self.kernel.totals().sessions,
            0,
            "sessions end with their connections"
        );
    }
}
