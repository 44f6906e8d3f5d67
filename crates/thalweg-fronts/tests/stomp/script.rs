//! Two STOMP connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading,
//! vanish, come back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/stomp_connection.rs`.

use std::sync::Arc;
use thalweg_fronts::stomp::{Dialect, StompSettings};
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_stomp::{FrameLimits, ServerLimits};
use thalweg_testbed::Settings;
use thalweg_testbed::script::{SESSIONS_MAX, Script, small};

const HEAD_BYTES_MAX: u32 = 512;
const BODY_BYTES_MAX: u32 = 1024;
const OUTPUT_MAX: usize = 4096;

/// Upper bound of a link's output: its own limit, one message more, and answers to one read.
const OUTPUT_BOUND: usize = OUTPUT_MAX + 8192;
/// More than a kernel may hold: what scripts can send before time makes the queues end.
const QUEUE_BYTES_MAX: usize = 64 << 10;

const CONNECTS: [&[u8]; 4] = [
    b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    b"STOMP\naccept-version:1.0,1.1\nhost:localhost\nheart-beat:1000,1000\nclient-id:c\n\n\0",
    b"CONNECT\nlogin:guest\npasscode:guest\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:blue\nlogin:anna\npasscode:x\n\n\0",
];

/// Frames that make sense, so that a script gets somewhere.
const SENSE: [&[u8]; 32] = [
    b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\nprefetch-count:2\n\n\0",
    b"SUBSCRIBE\nid:2\ndestination:/queue/q\nack:client-individual\n\n\0",
    b"SUBSCRIBE\nid:3\ndestination:/topic/a.*\n\n\0",
    b"SUBSCRIBE\nid:4\ndestination:/topic/#\ndurable:true\nauto-delete:false\nack:client\n\n\0",
    b"SUBSCRIBE\nid:5\ndestination:/exchange/amq.fanout\n\n\0",
    b"SUBSCRIBE\nid:6\ndestination:/temp-queue/t\n\n\0",
    b"SUBSCRIBE\nid:7\ndestination:/queue/short\nx-max-length:2\nx-dead-letter-exchange:\nx-dead-letter-routing-key:q\n\n\0",
    b"SUBSCRIBE\nid:8\ndestination:/amq/queue/$g/g/a/+\nack:client\n\n\0",
    b"SUBSCRIBE\nid:9\ndestination:/topic/a\nactivemq.subscriptionName:s\nselector:a = 1\n\n\0",
    b"UNSUBSCRIBE\nid:1\n\n\0",
    b"UNSUBSCRIBE\nid:4\ndurable:true\n\n\0",
    b"UNSUBSCRIBE\nid:3\ndestination:/queue/q\n\n\0",
    b"SEND\ndestination:/queue/q\nreceipt:1\n\nbody\0",
    b"SEND\ndestination:/queue/q\nreply-to:/temp-queue/u\npersistent:true\n\nbody\0",
    b"SEND\ndestination:/queue/short\nexpiration:5\npriority:9\n\nbody\0",
    b"SEND\ndestination:/topic/a.b\nretain:set\ncontent-type:x\nk:v\n\nbody\0",
    b"SEND\ndestination:/topic/a.b\nretain:clear\ntransaction:t\n\n\0",
    b"SEND\ndestination:/exchange/amq.fanout/k\ntransaction:t\n\nbody\0",
    b"SEND\ndestination:/temp-queue/t\ncorrelation-id:AAA=\ncorrelation-id-encoding:base64\n\nbody\0",
    b"SEND\ndestination:/reply-queue/x\nexpires:1\n\nbody\0",
    b"BEGIN\ntransaction:t\n\n\0",
    b"COMMIT\ntransaction:t\nreceipt:2\n\n\0",
    b"ABORT\ntransaction:t\nreceipt:3\n\n\0",
    b"ACK\nid:1-1\nmessage-id:1-1\nsubscription:1\n\n\0",
    b"ACK\nid:1-2\nmessage-id:2-1\nsubscription:1\ntransaction:t\n\n\0",
    b"ACK\nid:2-1\nmessage-id:1-2\nsubscription:1\n\n\0",
    b"NACK\nid:1-1\nmessage-id:1-1\nsubscription:1\n\n\0",
    b"NACK\nid:2-1\nmessage-id:2-1\nsubscription:2\nrequeue:false\n\n\0",
    b"NACK\nid:1-3\nmessage-id:2-2\nsubscription:2\n\n\0",
    b"ACK\nid:3-a1\nmessage-id:3-a1\nsubscription:3\n\n\0",
    b"\n",
    b"DISCONNECT\nreceipt:9\n\n\0",
];

pub struct Stage {
    script: Script,
}

impl Stage {
    pub fn new(choice: u8) -> Self {
        let frame = FrameLimits {
            head_bytes_max: HEAD_BYTES_MAX,
            header_bytes_max: HEAD_BYTES_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            ..FrameLimits::default()
        };
        let settings = StompSettings {
            limits: ServerLimits {
                connect: frame.clone(),
                frame,
            },
            dialect: [Dialect::RabbitMq, Dialect::ActiveMq, Dialect::Slash]
                [usize::from(choice % 3)],
            tenants: Box::new(["blue".into()]),
            subscriptions_max: 8,
            transactions_max: 2,
            ..StompSettings::default()
        };
        let bed = Settings {
            stomp: Arc::new(settings),
            ..small(OUTPUT_MAX, QUEUE_BYTES_MAX)
        };
        let input_max = (HEAD_BYTES_MAX + BODY_BYTES_MAX) as usize + 256;
        Stage {
            script: Script::new(bed, input_max, OUTPUT_BOUND),
        }
    }

    /// Does what the script says. Panics if the broker does, or holds more than it may.
    pub fn play(&mut self, mut script: &[u8]) {
        while let Some((&what, rest)) = script.split_first() {
            script = rest;
            let which = usize::from(what & 1);
            let number = usize::from(what >> 3);
            match what >> 1 & 3 {
                0 | 1 => self.send(which, SENSE[number]),
                2 if number < 8 => {
                    // Whatever the script says.
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.send(which, bytes);
                }
                2 => {
                    // Half a frame now, the rest later.
                    let (first, second) = SENSE[number].split_at(SENSE[number].len() / 2);
                    self.send(which, first);
                    self.send(which, second);
                }
                _ => self.trouble(which, number),
            }
            self.check();
        }
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        if !self.script.is_open(which) {
            // The second connection has to prove who it is.
            let anonymous = (which == 0).then_some(Access::ALL);
            let front = self.script.bed.stomp_front(anonymous);
            self.script.open(which, front);
            self.script.write(which, CONNECTS[bytes.len() % 4]);
        }
        self.script.send(which, bytes, OUTPUT_MAX);
    }

    /// Events besides frames, and the server's possible requests on a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        let script = &mut self.script;
        match number {
            0..8 => script.flush(which, 1 << number),
            8..16 => script.flush(which, usize::MAX),
            16..22 => script.wait(Span::from_millis(1 << (number - 16 + 4))),
            22 => script.close(which),
            23 => script.on_link(which, |links, link, _, _| {
                if links.silence_max(link).is_some() {
                    links.on_silence(link);
                }
            }),
            24 => script.on_link(which, |links, link, _, now| links.on_idle(link, now)),
            25 => script.on_link(which, |links, link, kernel, now| {
                links.on_login_expired(link, kernel, now)
            }),
            _ => script.on_login(which, number),
        }
    }

    fn check(&self) {
        self.script.check();
        assert!(self.script.bed.total(|totals| totals.sessions) <= SESSIONS_MAX);
    }

    pub fn end(mut self) {
        self.script.end();
        let sessions = self.script.bed.total(|totals| totals.sessions);
        assert_eq!(sessions, 0, "sessions end with their connections");
    }
}
