//! Two connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading, vanish, come
//! back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/connection.rs`.

use std::sync::Arc;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::CloseReason;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_mqtt::ServerLimits;
use thalweg_testbed::script::{SESSIONS_MAX, Script, small};

const PACKET_BYTES_MAX: u32 = 4096;
const OUTPUT_MAX: usize = 4096;
const IN_FLIGHT_MAX: u16 = 8;
const QUEUE_BYTES_MAX: usize = 16 << 10;

/// Upper bound of a link's output: its own limit, repetitions after a reconnect, and answers to one read.
const OUTPUT_BOUND: usize =
    OUTPUT_MAX + (IN_FLIGHT_MAX as usize + 2) * (PACKET_BYTES_MAX as usize + 64) + 4096;
/// More than a kernel may hold: each session's queue and window, as much again for groups, and last values.
const HELD_BOUND: usize = SESSIONS_MAX
    * (2 * QUEUE_BYTES_MAX + IN_FLIGHT_MAX as usize * (PACKET_BYTES_MAX as usize + 512))
    + 64 * QUEUE_BYTES_MAX
    + QUEUE_BYTES_MAX;

/// Beginnings of a connection: three times MQTT 3.1.1, then MQTT 5.
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
    script: Script,
    ends: [End; 2],
}

#[derive(Default)]
struct End {
    /// It began with MQTT 5.
    v5: bool,
    /// The script's last word: decides how a new connection begins.
    word: u8,
}

impl Stage {
    pub fn new(shards: u16) -> Self {
        let server = ServerLimits {
            packet_bytes_max: PACKET_BYTES_MAX,
            receive_max: 4,
            load_reports: true,
            ..ServerLimits::default()
        };
        let settings = MqttSettings {
            limits: server,
            ..MqttSettings::default()
        };
        let mut bed = small(OUTPUT_MAX, QUEUE_BYTES_MAX);
        bed.shards = shards;
        bed.mqtt = Arc::new(settings);
        bed.limits.in_flight_max = IN_FLIGHT_MAX;
        bed.limits.subscriptions_max = 20;
        bed.limits.group_settle_timeout = Span::from_secs(2);
        Stage {
            script: Script::new(bed, 2 * PACKET_BYTES_MAX as usize, OUTPUT_BOUND),
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
                4 => self.script.flush(which, 1 << number),
                5 => self.script.wait(Span::from_millis(1 << number)),
                6 if number < 3 => self.script.close(which),
                6 => self.script.flush(which, usize::MAX),
                _ => self.trouble(which, number),
            }
            self.check();
        }
    }

    fn open(&mut self, which: usize) {
        if self.script.is_open(which) {
            return;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = self.script.bed.mqtt_front(anonymous);
        self.script.open(which, front);
        let word = self.ends[which].word;
        let connect = usize::from(word & 7);
        self.ends[which].v5 = connect >= 3;
        if word < 250 {
            self.script.write(which, CONNECTS[connect]);
        }
    }

    fn sense(&mut self, which: usize, number: usize) -> &'static [u8] {
        self.open(which);
        if self.ends[which].v5 {
            SENSE_5[number]
        } else {
            SENSE_3[number]
        }
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        self.open(which);
        self.script.send(which, bytes, OUTPUT_MAX);
    }

    /// The server's possible requests on a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        let script = &mut self.script;
        match number {
            0 => script.on_link(which, |links, link, _, _| {
                if links.silence_max(link).is_some() {
                    links.on_silence(link);
                }
            }),
            1 if self.ends[which].word < 50 => script.on_link(which, |links, link, kernel, now| {
                links.on_login_expired(link, kernel, now)
            }),
            _ => script.on_login(which, number),
        }
    }

    fn check(&self) {
        self.script.check();
        let kernel = &self.script.bed.shards[0].kernel;
        let held = kernel.bytes_held();
        assert!(held <= HELD_BOUND, "{held} bytes are held");
        assert!(kernel.totals().sessions <= SESSIONS_MAX);
    }

    /// Everybody goes, and every session ends: the books must balance.
    pub fn end(mut self) {
        for which in 0..2 {
            self.script.close(which);
        }
        let bed = &mut self.script.bed;
        let shard = &mut bed.shards[0];
        for name in ["a", "b", "c"] {
            let (kernel, links) = (&mut shard.kernel, &mut shard.links);
            kernel.kick(name, CloseReason::Kicked, true, bed.now, links);
        }
        self.script.end();
        self.script.bed.check();
        let kernel = &self.script.bed.shards[0].kernel;
        let (books, totals) = (kernel.ledger(), kernel.totals());
        let gone = books.delivered + books.expired + books.dropped_total();
        if totals.sessions == 0 {
            assert_eq!(books.routed, gone, "the books do not balance");
            assert_eq!(
                kernel.bytes_held(),
                totals.retained_bytes,
                "only last values are held"
            );
        }
    }
}
