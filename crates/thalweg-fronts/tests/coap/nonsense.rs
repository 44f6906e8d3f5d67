//! A socket and two connections of CoAP that do whatever a string of bytes says: nonsense or sense, whole or in pieces, stop
//! reading, vanish, come back, while time goes by. Used by the seeded tests and by `fuzz/fuzz_targets/coap_connection.rs` and
//! `coap_datagrams.rs`.

use std::sync::Arc;
use thalweg_coap::stream::encode;
use thalweg_coap::{Code, Encoder, ServerSettings, Token};
use thalweg_fronts::coap::CoapSettings;
use thalweg_fronts::{LinksLimits, LoginAsk};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Effects, Limits};
use thalweg_model::Span;
use thalweg_testbed::Settings;
use thalweg_testbed::coap::{self, Manner, PeerId, stream_request};
use thalweg_testbed::script::{Script, answer};

/// The largest body, and with its head the largest message that is taken.
const BODY_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX + (4 << 10);
/// Upper bound of the output of a connection whose peer does not read: the limit that stops answers, and the messages
/// in flight then.
const OUTPUT_BOUND: usize = (256 << 10) + (64 << 10);
const WAITING_MAX: usize = 64;

/// Requests that make sense, so that a script gets somewhere.
const LINES: [&str; 24] = [
    "GET /ps/data/a observe=0",
    "GET /ps/data/a observe=1",
    "GET /ps/data/a?queue=9 observe=0",
    "GET /ps/data/a block2=1/16",
    "PUT /ps/data/a ct=50 max-age=1 : text",
    "PUT /ps/data/a : a longer text, which goes in blocks where somebody asks for small ones",
    "POST /ps/data/a?qos=2&h.k=v&expiry=3&retain=0 : text",
    "DELETE /ps/data/a",
    "FETCH /ps/data?filter=%2B/%23 accept=60",
    "PUT /ps/data/a if-none-match : text",
    "GET /ps/data/a etag=01020304 accept=50",
    "GET /ps",
    "FETCH /ps ct=606 : \u{a2}",
    "DELETE /ps/abcdefgh",
    "GET /.well-known/core?rt=core.ps*",
    "POST /q/work : job",
    "GET /q/work",
    "GET /q/work block2=0/16",
    "GET /q/work block2=1/16",
    "POST /rpc/a : ask",
    "PUT /ps/data/a block1=0+/16 : 0123456789abcdef",
    "PUT /ps/data/a block1=1/16 : rest",
    "PUT /ps/data/a no-response=26 : quiet",
    "GET /elsewhere host=a port=7 proxy=x",
];

/// Possible beginnings of a connection: CSMs with large, small and tiny limits, and without blocks; or no CSM.
const BEGINNINGS: [&[u8]; 5] = [
    &[0x40, 0xE1, 0x22, 0x10, 0x00, 0x20],
    &[0x30, 0xE1, 0x21, 0x40, 0x20],
    &[0x30, 0xE1, 0x21, 0x08, 0x20],
    &[0x00, 0xE1],
    &[],
];

pub struct Stage {
    script: Script,
    peers: Vec<PeerId>,
    id: u16,
}

impl Stage {
    pub fn new(choice: u8) -> Self {
        let limits = Limits {
            queue_messages_max: 50,
            sessions_max: 8,
            retained_messages_max: 20,
            watches_max: 20,
            publish_rate: 1000,
            journal: choice & 1 != 0,
            ..Limits::default()
        };
        let machine = ServerSettings {
            transfer_bytes_max: BODY_BYTES_MAX,
            relations_per_peer: 4,
            peers_max: 3,
            requests_per_second: if choice & 2 != 0 { 100 } else { 0 },
            answer_within: Span::from_secs(3),
            ..ServerSettings::default()
        };
        let settings = Arc::new(CoapSettings {
            machine: Arc::new(machine),
            auto_declare_queues: true,
            rpc_timeout: Span::from_secs(2),
            rpc_waiting_max: 5,
            waiting_max: WAITING_MAX,
            takes_max: 4,
            topics_max: 5,
            silence_max: (choice & 4 != 0).then(|| Span::from_secs(20)),
            ..CoapSettings::default()
        });
        let outputs = LinksLimits {
            output_high: 2048,
            output_max: 4096,
            unflushed_max: 1000,
        };
        let settings = Settings {
            limits,
            outputs,
            coap: vec![settings.clone()],
            coap_stream: settings,
            coap_anonymous: (choice & 8 == 0).then_some(Access::ALL),
            ..Settings::default()
        };
        let mut script = Script::new(settings, MESSAGE_BYTES_MAX, OUTPUT_BOUND);
        let peers = (0..4).map(|_| script.bed.peer(0, 0)).collect();
        Stage {
            script,
            peers,
            id: 0,
        }
    }

    /// Lets connections do what the script says. Panics if the broker does, or holds more than it may.
    pub fn play(&mut self, mut script: &[u8]) {
        while let Some((&what, rest)) = script.split_first() {
            script = rest;
            let (which, number) = (usize::from(what & 1), usize::from(what >> 3));
            match what >> 1 & 3 {
                0 | 1 if number < LINES.len() => {
                    let bytes = self.message(number);
                    self.send(which, &bytes);
                }
                2 if number < LINES.len() => {
                    let bytes = self.message(number);
                    let (first, second) = bytes.split_at(bytes.len() / 2);
                    self.send(which, first);
                    self.send(which, second);
                }
                0..3 => {
                    // Whatever the script says.
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.send(which, bytes);
                }
                _ => self.trouble(which, number),
            }
            self.check();
        }
    }

    /// Lets four peers of the socket send what the script says.
    pub fn play_datagrams(&mut self, mut script: &[u8]) {
        while let Some((&what, rest)) = script.split_first() {
            script = rest;
            let (from, number) = (self.peers[usize::from(what & 3)], usize::from(what >> 3));
            match what >> 2 & 1 {
                0 if number < LINES.len() => {
                    let (&how, rest) = script.split_first().unwrap_or((&0, &[]));
                    script = rest;
                    // Low numbers repeat messages.
                    let kind = if how & 1 == 0 { "CON" } else { "NON" };
                    let line =
                        format!("{kind} {}", LINES.get(number).copied().unwrap_or("GET /ps"));
                    let datagram = coap::request(&line, u16::from(how >> 1 & 31), &[how >> 6]);
                    self.script.bed.write_datagrams(from, &[&datagram]);
                }
                0 => {
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.script.bed.write_datagrams(from, &[bytes]);
                }
                _ => self.datagram_trouble(from, number),
            }
            self.check();
        }
    }

    /// A request as a stream has it; its token is one of three.
    fn message(&mut self, number: usize) -> Vec<u8> {
        self.id = self.id.wrapping_add(1);
        stream_request(LINES[number], None, &[(self.id % 3) as u8])
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        if !self.script.is_open(which) {
            // The second connection has to prove who it is.
            let anonymous = (which == 0).then_some(Access::ALL);
            let front = self.script.bed.coap_stream_front(anonymous);
            self.script.open(which, front);
            let beginning = BEGINNINGS[bytes.len() % BEGINNINGS.len()];
            self.script.write(which, beginning);
        }
        self.script.send(which, bytes, usize::MAX);
    }

    fn flush(&mut self, which: usize, count: usize) {
        self.script.flush(which, count);
        self.script.bed.tick(0);
        self.script.drive(which);
    }

    /// Events besides messages, and the server's possible requests on a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        match number {
            0..6 => return self.flush(which, 1 << (2 * number)),
            6..9 => return self.flush(which, usize::MAX),
            9..15 => {
                let span = Span::from_millis(1 << (2 * (number - 9) + 4));
                return self.script.wait(span);
            }
            15 => return self.script.close(which),
            16..18 => {
                self.script.bed.write_all();
                return;
            }
            _ => {}
        }
        if let 18..23 = number {
            let code = [
                Code::PING,
                Code::PONG,
                Code::RELEASE,
                Code::ABORT,
                Code::CSM,
            ][number - 18];
            let mut bytes = Vec::new();
            let token = Token::from_number(u64::from(self.id % 3));
            let options = |encoder: &mut Encoder<'_>| {
                if code == Code::PING {
                    encoder.option(2, &[]);
                }
            };
            encode(&mut bytes, code, token, options, &[]);
            return self.send(which, &bytes);
        }
        match number {
            23 => self.script.on_link(which, |links, link, _, _| {
                if links.silence_max(link).is_some() {
                    links.on_silence(link);
                }
            }),
            24 => self.script.on_link(which, |links, link, kernel, now| {
                links.on_login_expired(link, kernel, now)
            }),
            25 => self.script.on_link(which, |links, link, _, _| {
                let why = [CloseReason::Kicked, CloseReason::ShuttingDown][which];
                links.disconnect(link, why)
            }),
            _ if self.script.is_open(which) => {
                self.answer_logins(number);
                self.script.drive(which);
            }
            _ => {}
        }
    }

    fn answer_logins(&mut self, number: usize) {
        let bed = &mut self.script.bed;
        let shard = &mut bed.shards[0];
        let (links, kernel, now) = (&mut shard.links, &mut shard.kernel, bed.now);
        for asked in std::mem::take(&mut bed.asked) {
            let answer = answer(number);
            match asked.ask {
                LoginAsk::Proven { identity } => {
                    links.on_proven(asked.link, &identity, answer, now, kernel);
                }
                _ => links.on_login(asked.link, answer, now, kernel),
            }
        }
    }

    fn datagram_trouble(&mut self, from: PeerId, number: usize) {
        let bed = &mut self.script.bed;
        match number {
            0..8 => {
                // A peer that gets a confirmable message acknowledges, rejects or ignores it.
                for peer in &self.peers {
                    let manner = match number {
                        0..5 if *peer == from => Manner::Polite,
                        5 if *peer == from => Manner::Rejecting,
                        _ => Manner::Silent,
                    };
                    bed.set_manner(*peer, manner);
                }
                bed.exchange_datagrams();
                for peer in &self.peers {
                    bed.heard(*peer);
                }
            }
            8..20 => self.script.wait(Span::from_millis(1 << (number - 8 + 4))),
            20..24 => _ = bed.write_all(),
            24 => bed.peer_gone(from),
            25 => {
                let socket = bed.shards[0].sockets[0];
                bed.shards[0].links.disconnect(socket, CloseReason::Kicked);
            }
            _ => self.answer_logins(number),
        }
    }

    fn check(&mut self) {
        self.script.bed.tick(0);
        self.script.check();
        let totals = self.script.bed.shards[0].kernel.totals();
        assert!(totals.sessions <= 8 && totals.watches <= 20);
    }

    pub fn end(mut self) {
        for which in 0..2 {
            self.script.close(which);
        }
        self.script.bed.close_sockets();
        let totals = self.script.bed.shards[0].kernel.totals();
        assert_eq!(
            (totals.sessions, totals.watches),
            (1, 0),
            "only the desk's session does not end"
        );
    }
}
