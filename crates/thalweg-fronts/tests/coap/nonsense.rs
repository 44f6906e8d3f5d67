//! A socket and two connections of CoAP that do whatever a string of bytes says: nonsense or sense, whole or in pieces, stop
//! reading, vanish, come back, while time goes by. Used by the seeded tests and by `fuzz/fuzz_targets/coap_connection.rs` and
//! `coap_datagrams.rs`.

use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_coap::stream::encode;
use thalweg_coap::{Code, Datagrams, Encoder, Kind, Message, ServerSettings, Token, empty};
use thalweg_fronts::coap::{CoapFront, CoapSettings, CoapStreamFront, PeerSecurity};
use thalweg_fronts::{Front, Links, LinksLimits, LoginAnswer, LoginAsk, LoginRefusal, Stopped};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Effects, Kernel, Limits, LinkId, ShardId};
use thalweg_model::{Span, Time};
use thalweg_testbed::coap as script;

/// The largest body, and with its head the largest message that is taken.
const BODY_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX + (4 << 10);
/// More than a connection may hold for who does not read: what stops answers, and what was on its way then.
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

/// What a connection may begin with: CSMs that take much, little, next to nothing, and no blocks; or no CSM.
const BEGINNINGS: [&[u8]; 5] = [
    &[0x40, 0xE1, 0x22, 0x10, 0x00, 0x20],
    &[0x30, 0xE1, 0x21, 0x40, 0x20],
    &[0x30, 0xE1, 0x21, 0x08, 0x20],
    &[0x00, 0xE1],
    &[],
];

pub struct Stage {
    kernel: Kernel,
    links: Links,
    settings: Arc<CoapSettings>,
    now: Time,
    socket: LinkId,
    ends: [End; 2],
    id: u16,
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
        let mut links = Links::new(LinksLimits {
            output_high: 2048,
            output_max: 4096,
            unflushed_max: 1000,
        });
        let front = CoapFront::new(
            settings.clone(),
            5,
            (choice & 8 == 0).then_some(Access::ALL),
        );
        let socket = links.open(Front::CoapDatagrams(Box::new(front)));
        let mut stage = Stage {
            kernel: Kernel::new(limits, ShardId(0), 1, 7),
            links,
            settings,
            now: Time::from_secs(1_795_000_000),
            socket,
            ends: [End::default(), End::default()],
            id: 0,
        };
        stage.wait(Span::ZERO);
        stage
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
            let (from, number) = (
                SocketAddr::from(([127, 0, 0, 1], 7000 + u16::from(what & 3))),
                usize::from(what >> 3),
            );
            match what >> 2 & 1 {
                0 if number < LINES.len() => {
                    let (&how, rest) = script.split_first().unwrap_or((&0, &[]));
                    script = rest;
                    // Low numbers repeat messages.
                    let kind = if how & 1 == 0 { "CON" } else { "NON" };
                    let line =
                        format!("{kind} {}", LINES.get(number).copied().unwrap_or("GET /ps"));
                    let datagram = script::request(&line, u16::from(how >> 1 & 31), &[how >> 6]);
                    self.datagram(from, &datagram);
                }
                0 => {
                    let (bytes, rest) = script.split_at(script.len().min(40));
                    script = rest;
                    self.datagram(from, bytes);
                }
                _ => self.datagram_trouble(from, number),
            }
            self.check();
        }
    }

    /// A request as a stream has it; its token is one of three.
    fn message(&mut self, number: usize) -> Vec<u8> {
        self.id = self.id.wrapping_add(1);
        let datagram = script::request(LINES[number], self.id, &[(self.id % 3) as u8]);
        let message = Message::decode(&datagram).expect("it was just encoded");
        let mut out = Vec::new();
        let options = |encoder: &mut Encoder<'_>| {
            for (number, value) in message.options.iter() {
                encoder.option(number, value);
            }
        };
        encode(
            &mut out,
            message.code,
            message.token,
            options,
            message.payload,
        );
        out
    }

    fn link(&mut self, which: usize, word: usize) -> LinkId {
        if let Some(link) = self.ends[which].link {
            return link;
        }
        // The second connection has to prove who it is.
        let anonymous = (which == 0).then_some(Access::ALL);
        let front = CoapStreamFront::new(
            self.settings.clone(),
            9 + u64::from(self.id) + which as u64,
            anonymous,
        );
        let link = self.links.open(Front::CoapStream(Box::new(front)));
        self.ends[which] = End {
            link: Some(link),
            tail: BEGINNINGS[word % BEGINNINGS.len()].to_vec(),
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
        self.ends[which].tail.extend_from_slice(bytes);
        self.drive(which);
    }

    fn drive(&mut self, which: usize) {
        let Some(id) = self.ends[which].link else {
            return;
        };
        let tail = std::mem::take(&mut self.ends[which].tail);
        let mut used = 0;
        let stopped = loop {
            let driven = self
                .links
                .drive(id, &tail[used..], self.now, &mut self.kernel);
            used += driven.consumed;
            assert!(used <= tail.len());
            self.gather();
            if driven.stopped != Stopped::FlushFirst {
                break driven.stopped;
            }
        };
        self.ends[which].tail = tail[used..].to_vec();
        let tail = &mut self.ends[which].tail;
        assert!(
            stopped == Stopped::Hold || tail.len() <= MESSAGE_BYTES_MAX,
            "input that waits is bounded"
        );
        tail.truncate(MESSAGE_BYTES_MAX);
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let batch = std::iter::once((from, PeerSecurity::None, bytes));
        self.links
            .handle_datagrams(self.socket, batch, self.now, &mut self.kernel);
        self.gather();
    }

    /// Everything that does not happen on a connection by itself.
    fn gather(&mut self) {
        self.links.work(self.now, &mut self.kernel);
        self.kernel.work(self.now, &mut self.links);
        self.links.work(self.now, &mut self.kernel);
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
        self.links.on_drained(id, self.now, &mut self.kernel);
        self.gather();
        self.drive(which);
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        if self.kernel.poll_timeout() <= self.now {
            self.kernel.on_timeout(self.now, &mut self.links);
        }
        for id in [Some(self.socket), self.ends[0].link, self.ends[1].link]
            .into_iter()
            .flatten()
        {
            if self.links.datagram_timeout(id) <= self.now {
                self.links
                    .on_datagram_timeout(id, self.now, &mut self.kernel);
                let next = self.links.datagram_timeout(id);
                assert!(
                    next > self.now,
                    "what is due is done: {id:?} at {next:?}, now {:?}",
                    self.now
                );
            }
        }
        self.gather();
    }

    fn sync(&mut self) {
        while let Some(batch) = self.kernel.take_batch(Vec::new()) {
            self.links.complete(batch.number);
            self.gather();
        }
    }

    fn close(&mut self, which: usize) {
        self.ends[which].tail.clear();
        if let Some(id) = self.ends[which].link.take() {
            self.links.close(id, &mut self.kernel, self.now);
            self.gather();
        }
    }

    /// What happens beside messages, and what the server may say about a connection at any time.
    fn trouble(&mut self, which: usize, number: usize) {
        match number {
            0..6 => return self.flush(which, 1 << (2 * number)),
            6..9 => return self.flush(which, usize::MAX),
            9..15 => return self.wait(Span::from_millis(1 << (2 * (number - 9) + 4))),
            15 => return self.close(which),
            16..18 => return self.sync(),
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
        let Some(id) = self.ends[which].link else {
            return;
        };
        match number {
            23 if self.links.silence_max(id).is_some() => self.links.on_silence(id),
            24 => self.links.on_login_expired(id, &mut self.kernel, self.now),
            25 => self
                .links
                .disconnect(id, [CloseReason::Kicked, CloseReason::ShuttingDown][which]),
            _ => {
                self.answer_logins(number);
                return self.drive(which);
            }
        }
        self.gather();
    }

    fn answer_logins(&mut self, number: usize) {
        for (id, ask) in self.links.take_logins() {
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
            match ask {
                LoginAsk::Proven { identity } => {
                    self.links
                        .on_proven(id, &identity, answer, self.now, &mut self.kernel);
                }
                _ => self.links.on_login(id, answer, self.now, &mut self.kernel),
            }
        }
        self.gather();
    }

    fn datagram_trouble(&mut self, from: SocketAddr, number: usize) {
        match number {
            0..8 => {
                let mut out = Datagrams::new();
                self.links.take_datagrams(self.socket, &mut out);
                // Who is asked to acknowledge does, or rejects, or not.
                let mut replies = Vec::new();
                for (to, bytes) in out.iter().filter(|(to, _)| *to == from) {
                    let message =
                        Message::decode(bytes).expect("the server writes what can be read");
                    let mut reply = Vec::new();
                    match (number, message.kind) {
                        (0..5, Kind::Confirmable) => {
                            empty(&mut reply, Kind::Acknowledgement, message.id)
                        }
                        (5, Kind::Confirmable | Kind::NonConfirmable) => {
                            empty(&mut reply, Kind::Reset, message.id)
                        }
                        _ => continue,
                    }
                    replies.push((to, reply));
                }
                for (to, reply) in replies {
                    self.datagram(to, &reply);
                }
            }
            8..20 => self.wait(Span::from_millis(1 << (number - 8 + 4))),
            20..24 => self.sync(),
            24 => self
                .links
                .on_peer_gone(self.socket, from, self.now, &mut self.kernel),
            25 => self.links.disconnect(self.socket, CloseReason::Kicked),
            _ => self.answer_logins(number),
        }
        self.gather();
    }

    fn check(&self) {
        for end in &self.ends {
            let link = end.link.and_then(|id| self.links.get(id));
            let waiting = link.map_or(0, |link| link.waiting());
            assert!(waiting <= OUTPUT_BOUND, "{waiting} bytes of output wait");
        }
        let totals = self.kernel.totals();
        assert!(totals.sessions <= 8 && totals.watches <= 20);
    }

    /// Everybody goes.
    pub fn end(mut self) {
        for which in 0..2 {
            self.close(which);
        }
        self.sync();
        self.links.close(self.socket, &mut self.kernel, self.now);
        self.gather();
        let totals = self.kernel.totals();
        assert_eq!(
            (totals.sessions, totals.watches),
            (1, 0),
            "only the desk's session does not end"
        );
    }
}
