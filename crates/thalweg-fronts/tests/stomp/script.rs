//! Two STOMP connections that do whatever a string of bytes says: send nonsense or sense in pieces, stop reading,
//! vanish, come back, while time goes by. Used by the seeded test beside it and by `fuzz/fuzz_targets/stomp_connection.rs`.

use std::sync::Arc;
use thalweg_fronts::stomp::{Dialect, StompFront, StompSettings};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginRefusal, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};
use thalweg_stomp::{FrameLimits, ServerLimits};

const HEAD_BYTES_MAX: u32 = 512;
const BODY_BYTES_MAX: u32 = 1024;
const OUTPUT_MAX: usize = 4096;

/// More than a link may hold: its own limit, one message more, and answers to what was read at once.
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
    kernel: Kernel,
    links: Links,
    settings: Arc<StompSettings>,
    now: Time,
    ends: [End; 2],
}

/// One connection, if it is open, and what it has sent that was not consumed.
#[derive(Default)]
struct End {
    link: Option<LinkId>,
    tail: Vec<u8>,
}

impl Stage {
    pub fn new(choice: u8) -> Self {
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
        Stage {
            kernel: Kernel::new(limits, ShardId(0), 1, 7),
            links: Links::new(outputs),
            settings: Arc::new(settings),
            now: Time::from_secs(1_795_000_000),
            ends: [End::default(), End::default()],
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

    fn link(&mut self, which: usize, word: usize) -> LinkId {
        if let Some(link) = self.ends[which].link {
            return link;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = StompFront::new(self.settings.clone(), 9 + which as u64, anonymous);
        let link = self.links.open(Front::Stomp(Box::new(front)));
        self.ends[which] = End {
            link: Some(link),
            tail: CONNECTS[word % 4].to_vec(),
        };
        link
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        let id = self.link(which, bytes.len());
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
        let is_open = self
            .links
            .get(id)
            .is_some_and(|link| !link.closing && link.pause_until.is_none());
        let bound = (HEAD_BYTES_MAX + BODY_BYTES_MAX) as usize + 256;
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

    /// What happens beside frames, and what the server may say about a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        match number {
            0..8 => return self.flush(which, 1 << number),
            8..16 => return self.flush(which, usize::MAX),
            16..22 => return self.wait(Span::from_millis(1 << (number - 16 + 4))),
            22 => return self.close(which),
            _ => {}
        }
        let Some(id) = self.ends[which].link else {
            return;
        };
        match number {
            23 if self.links.silence_max(id).is_some() => self.links.on_silence(id),
            24 => self.links.on_idle(id, self.now),
            25 => self.links.on_login_expired(id, &mut self.kernel, self.now),
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
