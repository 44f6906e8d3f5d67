//! Two connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading, vanish, come
//! back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/connection.rs`.

use std::sync::Arc;
use thalweg_fronts::mqtt::{MqttFront, MqttSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginRefusal, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId, ShardMessage};
use thalweg_model::{Span, Time};
use thalweg_mqtt::ServerLimits;

const PACKET_BYTES_MAX: u32 = 4096;
const OUTPUT_MAX: usize = 4096;
const IN_FLIGHT_MAX: u16 = 8;
const SESSIONS_MAX: usize = 6;
const QUEUE_BYTES_MAX: usize = 16 << 10;
const RETAINED_BYTES_MAX: usize = 16 << 10;

/// More than a link may hold: its own limit, repeats after a reconnect, and answers to what was read at once.
const OUTPUT_BOUND: usize =
    OUTPUT_MAX + (IN_FLIGHT_MAX as usize + 2) * (PACKET_BYTES_MAX as usize + 64) + 4096;
/// More than a kernel may hold: each session's queue and window, as much again for groups, and last values.
const HELD_BOUND: usize = SESSIONS_MAX
    * (2 * QUEUE_BYTES_MAX + IN_FLIGHT_MAX as usize * (PACKET_BYTES_MAX as usize + 512))
    + 64 * QUEUE_BYTES_MAX
    + RETAINED_BYTES_MAX;

/// How to begin: three times MQTT 3.1.1, then MQTT 5.
const CONNECTS: [&[u8]; 8] = [
    b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a",
    b"\x10\x0d\x00\x04MQTT\x04\x00\x00\x00\x00\x01a",
    b"\x10\x13\x00\x04MQTT\x04\x2c\x00\x05\x00\x01b\x00\x01t\x00\x01m",
    b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01a",
    b"\x10\x16\x00\x04MQTT\x05\x00\x00\x00\x08\x11\x00\x00\x00\x09\x21\x00\x01\x00\x01b",
    b"\x10\x1a\x00\x04MQTT\x05\x2e\x00\x01\x05\x11\xff\xff\xff\xff\x00\x01b\x00\x00\x01t\x00\x01m",
    b"\x10\x14\x00\x04MQTT\x05\x02\x00\x00\x06\x15\x00\x03abc\x00\x01c",
    b"\x10\x13\x00\x04MQTT\x05\x00\x00\x00\x05\x11\x00\x00\x00\x03\x00\x01a",
];

/// Packets that make sense after CONNECT in MQTT 3.1.1, so that a script gets somewhere.
const SENSE_3: [&[u8]; 16] = [
    b"\x82\x06\x00\x01\x00\x01#\x02",
    b"\x82\x06\x00\x01\x00\x01t\x01",
    b"\x82\x0f\x00\x04\x00\x0a$share/g/t\x01",
    b"\x82\x0f\x00\x04\x00\x0a$share/g/#\x02",
    b"\xa2\x05\x00\x05\x00\x01#",
    b"\x30\x04\x00\x01tx",
    b"\x33\x06\x00\x01t\x00\x07x",
    b"\x34\x06\x00\x01t\x00\x08x",
    b"\x34\x06\x00\x01t\x00\x09y",
    b"\x62\x02\x00\x08",
    b"\x40\x02\x00\x01",
    b"\x50\x02\x00\x01",
    b"\x70\x02\x00\x01",
    b"\xc0\x00",
    b"\x40\x02\x00\x02",
    b"\xa2\x0e\x00\x05\x00\x0a$share/g/t",
];

/// The same in MQTT 5, with properties here and there.
const SENSE_5: [&[u8]; 16] = [
    b"\x82\x09\x00\x02\x02\x0b\x07\x00\x01#\x01",
    b"\x82\x07\x00\x02\x00\x00\x01t\x2e",
    b"\x82\x10\x00\x03\x00\x00\x0a$share/g/t\x02",
    b"\x82\x10\x00\x03\x00\x00\x0a$share/g/#\x01",
    b"\xa2\x06\x00\x05\x00\x00\x01#",
    b"\x30\x0a\x00\x01t\x05\x02\x00\x00\x00\x01x",
    b"\x33\x0a\x00\x01t\x00\x07\x03\x23\x00\x01x",
    b"\x34\x07\x00\x01t\x00\x08\x00x",
    b"\x32\x09\x00\x00\x00\x09\x03\x23\x00\x01y",
    b"\x62\x02\x00\x08",
    b"\x40\x02\x00\x01",
    b"\x50\x02\x00\x01",
    b"\x70\x02\x00\x01",
    b"\xc0\x00",
    b"\x40\x03\x00\x02\x80",
    b"\xc0\x2e\x00{\"msgsInQueue\":3,\"processingTimePerMsg\":25.0}",
];

pub struct Stage {
    kernel: Kernel,
    links: Links,
    settings: Arc<MqttSettings>,
    now: Time,
    ends: [End; 2],
}

/// One connection, if it is open, and what it has sent that was not consumed.
#[derive(Default)]
struct End {
    link: Option<LinkId>,
    tail: Vec<u8>,
    /// It began with MQTT 5.
    v5: bool,
    /// The script's last word: decides how a new connection begins.
    word: u8,
}

impl Stage {
    /// `shards` other than 1 make the kernel ask shards that never answer, or answer late.
    pub fn new(shards: u16) -> Self {
        let limits = Limits {
            queue_messages_max: 50,
            queue_bytes_max: QUEUE_BYTES_MAX,
            group_messages_max: 50,
            group_bytes_max: QUEUE_BYTES_MAX,
            in_flight_max: IN_FLIGHT_MAX,
            subscriptions_max: 20,
            sessions_max: SESSIONS_MAX,
            retained_messages_max: 20,
            retained_bytes_max: RETAINED_BYTES_MAX,
            group_settle_timeout: Span::from_secs(2),
            publish_rate: 1000,
            ..Limits::default()
        };
        let outputs = LinksLimits {
            output_high: OUTPUT_MAX / 2,
            output_max: OUTPUT_MAX,
            unflushed_max: 1000,
        };
        let server = ServerLimits {
            packet_bytes_max: PACKET_BYTES_MAX,
            receive_max: 4,
            load_reports: true,
            ..ServerLimits::default()
        };
        Stage {
            kernel: Kernel::new(limits, ShardId(0), shards, 7),
            links: Links::new(outputs),
            settings: Arc::new(MqttSettings {
                limits: server,
                ..MqttSettings::default()
            }),
            now: Time::from_secs(1),
            ends: [End::default(), End::default()],
        }
    }

    /// Does what the script says. Panics if the broker does, or holds more than it may.
    pub fn play(&mut self, mut script: &[u8]) {
        while let Some((&what, rest)) = script.split_first() {
            script = rest;
            let which = usize::from(what & 1);
            let number = usize::from(what >> 4);
            self.ends[which].word = what.rotate_left(3) ^ script.len() as u8;
            match what >> 1 & 7 {
                0..=2 => {
                    let packet = self.sense(which, number);
                    self.send(which, packet);
                }
                3 if number == 0 => {
                    // Whatever the script says.
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.send(which, bytes);
                }
                3 if number == 1 => self.send(which, b"\xe0\x00"),
                3 => {
                    // Half a packet now, the rest later.
                    let packet = self.sense(which, number);
                    self.send(which, &packet[..packet.len() / 2]);
                    self.send(which, &packet[packet.len() / 2..]);
                }
                4 => self.flush(which, 1 << number),
                5 => self.wait(Span::from_millis(1 << number)),
                6 if number < 3 => self.close(which),
                6 => self.flush(which, usize::MAX),
                _ => self.trouble(which, number),
            }
            self.check();
        }
    }

    fn link(&mut self, which: usize) -> LinkId {
        if let Some(link) = self.ends[which].link {
            return link;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = MqttFront::new(self.settings.clone(), 9, anonymous);
        let link = self.links.open(Front::Mqtt(Box::new(front)));
        let word = self.ends[which].word;
        let connect = usize::from(word & 7);
        self.ends[which] = End {
            link: Some(link),
            tail: Vec::new(),
            v5: connect >= 3,
            word,
        };
        if word < 250 {
            self.ends[which].tail.extend_from_slice(CONNECTS[connect]);
        }
        link
    }

    fn sense(&mut self, which: usize, number: usize) -> &'static [u8] {
        self.link(which);
        if self.ends[which].v5 {
            SENSE_5[number]
        } else {
            SENSE_3[number]
        }
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        let id = self.link(which);
        let Some(link) = self.links.get(id) else {
            panic!("it is open")
        };
        // Like the server, which reads nothing from a peer that does not read.
        if link.closing {
            return self.flush(which, usize::MAX);
        }
        if link.waiting() > OUTPUT_MAX {
            return;
        }
        self.ends[which].tail.extend_from_slice(bytes);
        self.drive(which);
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
        assert!(
            self.ends[which].tail.len() <= 2 * PACKET_BYTES_MAX as usize,
            "input that waits is bounded"
        );
    }

    /// Other shards answer questions at once and send nothing else.
    fn gather(&mut self) {
        self.links.take_dirty(&mut Vec::new());
        self.links.take_congested(&mut Vec::new());
        self.links.take_ended();
        for (shard, message) in self.kernel.take_outbox() {
            let question = match message {
                ShardMessage::Interest { question, .. }
                | ShardMessage::Membership { question, .. } => question,
                ShardMessage::Scan {
                    session, serial, ..
                } => {
                    let found = ShardMessage::Found {
                        session,
                        serial,
                        messages: Vec::new(),
                        cursor: None,
                    };
                    self.kernel
                        .on_shard(shard, found, self.now, &mut self.links);
                    continue;
                }
                _ => continue,
            };
            self.kernel.on_shard(
                shard,
                ShardMessage::Done { question },
                self.now,
                &mut self.links,
            );
        }
        self.links.take_dirty(&mut Vec::new());
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
        if link.waiting() <= OUTPUT_MAX / 4 {
            self.links.on_drained(id, self.now, &mut self.kernel);
            self.gather();
        }
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
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

    /// What the server may say about a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        let Some(id) = self.ends[which].link else {
            return;
        };
        match number {
            0 if self.links.silence_max(id).is_some() => self.links.on_silence(id),
            1 if self.ends[which].word < 50 => {
                self.links.on_login_expired(id, &mut self.kernel, self.now)
            }
            _ => {
                self.links.take_logins();
                let answer = match number % 3 {
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
        let held = self.kernel.bytes_held();
        assert!(held <= HELD_BOUND, "{held} bytes are held");
        assert!(self.kernel.totals().sessions <= SESSIONS_MAX);
    }

    /// Everybody goes, and every session ends: the books must balance.
    pub fn end(mut self) {
        for which in 0..2 {
            self.close(which);
        }
        for name in ["a", "b", "c"] {
            self.kernel.kick(
                name,
                thalweg_kernel::CloseReason::Kicked,
                true,
                self.now,
                &mut self.links,
            );
        }
        self.gather();
        self.wait(Span::from_secs(1_000_000));
        let (books, totals) = (self.kernel.ledger(), self.kernel.totals());
        let gone = books.delivered + books.expired + books.dropped_total();
        if totals.sessions == 0 {
            assert_eq!(books.routed, gone, "the books do not balance");
            assert_eq!(
                self.kernel.bytes_held(),
                totals.retained_bytes,
                "only last values are held"
            );
        }
    }
}
