//! Two AMQP connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading, vanish,
//! come back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/amqp_connection.rs`.

use std::sync::Arc;
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_testbed::Settings;
use thalweg_testbed::script::{SESSIONS_MAX, Script, small};

const MESSAGE_BYTES_MAX: usize = 1024;
const FRAME_MAX: u32 = 4096;
const OUTPUT_MAX: usize = 8192;

/// Upper bound of a link's output: its own limit, and answers to one read, returned messages included.
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

/// Beginning of a connection: everything up to an open channel, without waiting for answers.
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
    script: Script,
    connects: Vec<Vec<u8>>,
    sense: Vec<Vec<u8>>,
    /// Bytes of each connection's output that were looked at.
    seen: [usize; 2],
}

impl Stage {
    pub fn new() -> Self {
        let settings = AmqpSettings {
            tenants: Box::new(["blue".into()]),
            frame_max: FRAME_MAX,
            channel_max: 8,
            message_bytes_max: MESSAGE_BYTES_MAX,
            consumers_max: 8,
            ..AmqpSettings::default()
        };
        let bed = Settings {
            amqp: Arc::new(settings),
            ..small(OUTPUT_MAX, QUEUE_BYTES_MAX)
        };
        Stage {
            script: Script::new(bed, FRAME_MAX as usize + 4096, OUTPUT_BOUND),
            connects: connects(),
            sense: sense(),
            seen: [0; 2],
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

    fn open(&mut self, which: usize, word: usize) {
        if self.script.is_open(which) {
            return;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = self.script.bed.amqp_front(anonymous);
        self.script.open(which, front);
        let connect = if which == 0 { word % 3 } else { word % 4 };
        self.script.write(which, &self.connects[connect]);
        self.seen[which] = 0;
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        let is_odd = !bytes.len().is_multiple_of(3);
        if self.script.link(which).is_some_and(|link| link.closing) {
            self.flush(which, usize::MAX);
        }
        self.open(which, bytes.len());
        let link = self.script.link(which).expect("it is open");
        // Like the server, which reads nothing from a peer that does not read.
        if link.waiting() > OUTPUT_MAX {
            return self.flush(which, usize::MAX);
        }
        if link.fault().is_some() && is_odd {
            // Most peers come back at once; some go on as if nothing had been said.
            self.script.close(which);
            self.open(which, bytes.len());
        }
        self.script.write(which, bytes);
        self.script.drive(which);
        let link = self.script.link(which);
        if link.is_some_and(|link| link.holds_input()) && is_odd {
            self.script.on_login(which, 30);
        }
        self.mend_channel(which);
    }

    /// Like most peers: a channel that was closed is opened again.
    fn mend_channel(&mut self, which: usize) {
        let Some(link) = self.script.link(which) else {
            return;
        };
        let output = link.output();
        let new = output.get(self.seen[which].min(output.len())..);
        let mut frames = new.unwrap_or_default().windows(4);
        let is_closed = frames.any(|bytes| bytes == [0, 20, 0, 40]);
        self.seen[which] = output.len();
        if is_closed {
            let again = [method(1, 20, 41, &[]), method(1, 20, 10, &[&short("")])].concat();
            self.script.write(which, &again);
            self.script.drive(which);
        }
    }

    fn flush(&mut self, which: usize, count: usize) {
        self.script.flush(which, count);
        let left = self
            .script
            .link(which)
            .map_or(0, |link| link.output().len());
        self.seen[which] = self.seen[which].min(left);
    }

    /// Events besides frames, and the server's possible requests on a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        let script = &mut self.script;
        match number {
            0..8 => self.flush(which, 4 << number),
            8..16 => self.flush(which, usize::MAX),
            16..21 => {
                script.bed.shards[0].kernel.set_journal_full(false);
                script.wait(Span::from_millis(1 << (number - 16 + 4)));
            }
            21 => script.close(which),
            22 => script.bed.shards[0]
                .links
                .on_blocked(Some("the disk is full")),
            23 => script.bed.shards[0].links.on_blocked(None),
            24 => script.on_link(which, |links, link, _, _| {
                if which == 1 && links.silence_max(link).is_some() {
                    links.on_silence(link);
                }
            }),
            25 => script.on_link(which, |links, link, _, now| links.on_idle(link, now)),
            26 => script.on_link(which, |links, link, kernel, now| {
                links.on_login_expired(link, kernel, now)
            }),
            27 => script.on_link(which, |_, _, kernel, _| kernel.set_journal_full(true)),
            _ => script.on_login(which, number),
        }
    }

    fn check(&self) {
        self.script.check();
        assert!(self.script.bed.total(|totals| totals.sessions) <= SESSIONS_MAX);
    }

    pub fn end(mut self) {
        self.script.bed.shards[0].kernel.set_journal_full(false);
        self.script.end();
        let sessions = self.script.bed.total(|totals| totals.sessions);
        assert_eq!(sessions, 0, "sessions end with their connections");
    }
}
