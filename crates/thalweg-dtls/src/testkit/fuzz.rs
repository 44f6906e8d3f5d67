//! Entry points of the fuzz targets in `/fuzz` and of seeded tests: each of the three reads its input as a script and
//! checks the invariants after each step.

#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_wire::{Reader, Span, Time};

use super::certificate::{AUTHORITY, Identity, ServerIdentity, Wanted};
use super::client::{Client, Plan};
use crate::message;
use crate::record::{VERSION_1_2, content, write_header};
use crate::{
    Certificate, ClientSide, Counts, Event, Output, PeerIdentity, PskTable, ServerConfig,
    ServerLimits, ServerSide,
};

/// Long enough to reach every state, and short enough that no peer times out.
const SCRIPT_BYTES_MAX: usize = 4096;

const KEYS: &str = "dev1:\"secret\"\ndev2:\"other\"\n";

fn begin() -> Time {
    Time::from_secs(100)
}

fn config(keys: &str) -> Arc<ServerConfig> {
    let certificate = Box::new(ServerIdentity::new(Wanted::Optional)) as Box<dyn Certificate>;
    Arc::new(
        ServerConfig::new(Some(PskTable::parse(keys).unwrap()), Some(certificate), "").unwrap(),
    )
}

fn server() -> ServerSide {
    ServerSide::new(config(KEYS), ServerLimits::default(), [3; 32])
}

fn at(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 5684))
}

fn script(input: &[u8]) -> Reader<'_> {
    Reader::new(&input[..input.len().min(SCRIPT_BYTES_MAX)])
}

/// So many bytes of a script, or as many as are left.
fn some<'s>(script: &mut Reader<'s>, length: usize) -> &'s [u8] {
    script
        .take(length.min(script.remaining()))
        .unwrap_or_default()
}

/// A vector of a script with a length of one byte; with none left it is empty.
fn few<'s>(script: &mut Reader<'s>) -> &'s [u8] {
    let length = usize::from(script.u8().unwrap_or_default());
    some(script, length)
}

/// A handshake message in a script: kind, length, number and where the piece begins are near what would fit.
fn crooked(script: &mut Reader<'_>) -> Vec<u8> {
    let mut number = || usize::from(script.u8().unwrap_or_default());
    let kinds = [
        message::CLIENT_HELLO,
        message::SERVER_HELLO,
        message::HELLO_VERIFY_REQUEST,
        message::CERTIFICATE,
        message::SERVER_KEY_EXCHANGE,
        message::CERTIFICATE_REQUEST,
        message::SERVER_HELLO_DONE,
        message::CERTIFICATE_VERIFY,
        message::CLIENT_KEY_EXCHANGE,
        message::FINISHED,
        // HelloRequest
        0,
    ];
    let (kind, sequence, begins, behind) = (
        kinds[number() % kinds.len()],
        number() % 9,
        number() % 4,
        number() % 4,
    );
    let body = few(script);
    let mut bytes = Vec::new();
    message::write_header(
        &mut bytes,
        kind,
        begins + body.len() + behind,
        sequence as u16,
        begins,
        body.len(),
    );
    bytes.extend_from_slice(body);
    bytes
}

/// A datagram with one byte changed, or without its end.
fn damaged(mut datagram: Vec<u8>, script: &mut Reader<'_>) -> Vec<u8> {
    let (place, change) = (
        script.u16().unwrap_or_default(),
        script.u8().unwrap_or_default(),
    );
    let place = usize::from(place) % datagram.len().max(1);
    match (change, datagram.get_mut(place)) {
        (0, _) => datagram.truncate(place),
        (_, Some(byte)) => *byte ^= change,
        _ => {}
    }
    datagram
}

/// Datagrams of unknown senders without a cookie: they cost no memory, and each answer is shorter than its datagram. A
/// script has for each datagram its sender, its length in two bytes, and its bytes.
pub fn strangers(input: &[u8]) -> Counts {
    let (mut server, mut out, mut script) = (server(), Output::default(), Reader::new(input));
    while let (Some(host), Some(length)) = (script.u8(), script.u16()) {
        let datagram = some(&mut script, usize::from(length));
        out.clear();
        server.handle_datagram(at(host), datagram, begin(), &mut out);
        let answers: Vec<_> = out.datagrams().collect();
        assert!(answers.len() <= 1, "{} answers", answers.len());
        assert!(
            answers
                .iter()
                .all(|(to, answer)| *to == at(host) && answer.len() < datagram.len())
        );
        assert!(out.events().is_empty(), "{:?}", out.events());
        assert_eq!(
            (server.handshakes(), server.peers(), server.poll_timeout()),
            (0, 0, Time::NEVER)
        );
    }
    server.counts()
}

/// States that a script has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Handshakes that were completed.
    pub completed: usize,
    /// Handshakes that were refused or given up.
    pub refused: usize,
    /// Associations that were ended by either side.
    pub closed: usize,
    /// Texts that came through.
    pub texts: usize,
}

/// The address whose owner plays the script, and that of a peer that must not notice.
const HERE: u8 = 1;
const THERE: u8 = 2;

/// A peer that can receive at its address and does what a script says: it goes on with a handshake, repeats, damages and
/// invents datagrams, records, messages, under its keys too once it has some, and begins anew. And a server whose keys
/// change and that closes.
pub fn peer(input: &[u8]) -> Reached {
    let mut stage = Stage::new();
    let mut script = script(input);
    while let Some(step) = script.u8() {
        stage.step(step, &mut script);
    }
    stage.end();
    stage.reached
}

struct Stage {
    server: ServerSide,
    out: Output,
    now: Time,
    bystander: Client,
    client: Client,
    clients: u8,
    /// Identities for which the clients so far have credentials.
    allowed: Vec<PeerIdentity>,
    /// The authenticated identity of the current peer.
    open: Option<PeerIdentity>,
    /// Texts that have left the peer and not come.
    texts: Vec<Vec<u8>>,
    /// Datagrams that have left the peer.
    past: Vec<Vec<u8>>,
    keys_are_others: bool,
    reached: Reached,
}

impl Stage {
    fn new() -> Stage {
        let plan = Plan {
            identity: b"dev2".to_vec(),
            key: b"other".to_vec(),
            ..Plan::default()
        };
        let mut stage = Stage {
            server: server(),
            out: Output::default(),
            now: begin(),
            bystander: Client::new(at(THERE), 1, plan),
            client: Client::new(at(HERE), 0, Plan::default()),
            clients: 0,
            allowed: Vec::new(),
            open: None,
            texts: Vec::new(),
            past: Vec::new(),
            keys_are_others: false,
            reached: Reached::default(),
        };
        while !stage.bystander.is_done {
            let datagram = stage.bystander.out.remove(0);
            stage
                .server
                .handle_datagram(at(THERE), &datagram, stage.now, &mut stage.out);
            stage
                .out
                .datagrams()
                .for_each(|(_, answer)| stage.bystander.handle_datagram(answer));
            stage.out.clear();
        }
        stage.another_client(0);
        stage
    }

    fn another_client(&mut self, which: u8) {
        let (suites, certificate, identity) = match which % 6 {
            0 => (vec![0xc0a8], None, PeerIdentity::Psk("dev1".into())),
            1 => (vec![0xc0a4], None, PeerIdentity::Psk("dev1".into())),
            2 => (vec![0x00a8], None, PeerIdentity::Psk("dev1".into())),
            3 => (vec![0xc0ae], None, PeerIdentity::Unnamed),
            4 => {
                let certificate = Identity::new(AUTHORITY, "sensor 7");
                (
                    vec![0xc0ac],
                    Some(certificate),
                    PeerIdentity::Certificate("sensor 7".into()),
                )
            }
            _ => {
                let certificate = Identity::new(AUTHORITY, "sensor 7");
                (
                    vec![0xc02b],
                    Some(certificate),
                    PeerIdentity::Certificate("sensor 7".into()),
                )
            }
        };
        let extended_master_secret = which & 0x40 == 0;
        let plan = Plan {
            suites,
            certificate,
            extended_master_secret,
            ..Plan::default()
        };
        self.clients = self.clients.wrapping_add(1);
        self.client = Client::new(at(HERE), self.clients, plan);
        self.allowed.push(identity);
    }

    fn step(&mut self, step: u8, script: &mut Reader<'_>) {
        match step % 16 {
            0..6 => {
                let datagram = self.next_datagram();
                self.deliver(&datagram);
            }
            6 => {
                let datagram = self.next_datagram();
                self.deliver(&damaged(datagram, script));
            }
            7 => {
                let place = usize::from(script.u8().unwrap_or_default());
                if let Some(datagram) = self.past.get(place % self.past.len().max(1)).cloned() {
                    self.deliver(&datagram);
                }
            }
            8 => {
                let datagram = few(script);
                self.deliver(datagram);
            }
            9 => {
                let content = 18 + script.u8().unwrap_or_default() % 8;
                self.invent(content, step >= 128, few(script));
            }
            10 => self.invent(content::HANDSHAKE, step >= 128, &crooked(script)),
            11 => {
                let text = few(script);
                self.invent(content::APPLICATION_DATA, true, text);
            }
            12 => {
                self.now += Span::from_millis(100 * u64::from(script.u8().unwrap_or_default()));
                self.server.handle_timeout(self.now, &mut self.out);
                assert!(self.server.poll_timeout() > self.now);
                self.note(true);
            }
            13 => {
                let (text, mut datagram) = (few(script), Vec::new());
                let sent = self.server.encrypt(at(HERE), text, &mut datagram);
                assert_eq!(sent.is_ok(), self.open.is_some());
                self.client.handle_datagram(&datagram);
            }
            14 => self.another_client(script.u8().unwrap_or_default()),
            _ if step < 128 => {
                self.server.close(at(HERE), &mut self.out);
                self.open = None;
                self.note(true);
            }
            _ => {
                self.keys_are_others = !self.keys_are_others;
                let keys = if self.keys_are_others {
                    "dev1:\"changed\"\ndev2:\"other\"\n"
                } else {
                    KEYS
                };
                self.server.renew(config(keys), &mut self.out);
                self.note(true);
            }
        }
    }

    /// Returns a new datagram of the client, or an earlier one.
    fn next_datagram(&mut self) -> Vec<u8> {
        if self.client.out.is_empty() {
            self.client.send();
        }
        let datagram = self.client.out.remove(0);
        self.past.push(datagram.clone());
        datagram
    }

    /// A record out of turn, protected if the client has keys.
    fn invent(&mut self, content: u8, protected: bool, bytes: &[u8]) {
        let protected = protected && self.client.has_keys();
        if protected && content == content::APPLICATION_DATA {
            self.texts.push(bytes.to_vec());
        }
        self.client.send_record(content, protected, bytes);
        let datagram = self.client.out.pop().expect("a record");
        self.past.push(datagram.clone());
        self.deliver(&datagram);
    }

    fn deliver(&mut self, datagram: &[u8]) {
        self.server
            .handle_datagram(at(HERE), datagram, self.now, &mut self.out);
        self.note(true);
    }

    /// Checks the server's output, and passes it to the client if `is_heard`.
    fn note(&mut self, is_heard: bool) {
        let out = std::mem::take(&mut self.out);
        for event in out.events() {
            match event {
                Event::Ready { peer, identity } => {
                    assert!(*peer == at(HERE) && self.open.is_none());
                    assert!(self.allowed.contains(identity), "{identity:?}");
                    self.open = Some(identity.clone());
                    self.reached.completed += 1;
                }
                Event::Received {
                    peer,
                    identity,
                    text,
                } => {
                    assert!(*peer == at(HERE) && self.open.as_ref() == Some(identity));
                    let text = out.text(text);
                    let place = self.texts.iter().position(|sent| sent == text);
                    self.texts
                        .swap_remove(place.expect("a text that nobody sent, or that came already"));
                    self.reached.texts += 1;
                }
                Event::Closed { peer, .. } => {
                    assert!(*peer == at(HERE) && self.open.take().is_some());
                    self.reached.closed += 1;
                }
                Event::Refused { peer, .. } => {
                    assert_eq!(*peer, at(HERE));
                    self.reached.refused += 1;
                }
            }
        }
        for (to, answer) in out.datagrams() {
            assert!(
                to == at(HERE) && answer.len() <= ServerLimits::default().mtu,
                "{to} {}",
                answer.len()
            );
            // Answers to invented messages are not passed to the client, which takes the server to be consistent.
            if is_heard && self.client.alerts.is_empty() {
                self.client.handle_datagram(answer);
            }
        }
        self.out = out;
        self.out.clear();
        assert_eq!(self.server.peers(), 1 + usize::from(self.open.is_some()));
        assert!(self.server.handshakes() <= 1);
    }

    fn end(&mut self) {
        self.now += ServerLimits::default().handshake_timeout;
        self.server.handle_timeout(self.now, &mut self.out);
        self.note(false);
        assert_eq!(self.server.handshakes(), 0);
        self.bystander.send_text(b"to the server");
        let datagram = self.bystander.out.pop().expect("a record");
        self.server
            .handle_datagram(at(THERE), &datagram, self.now, &mut self.out);
        let heard = self.out.events().iter().find_map(|event| match event {
            Event::Received { identity, text, .. } => Some((identity.clone(), self.out.text(text))),
            _ => None,
        });
        assert_eq!(
            heard,
            Some((PeerIdentity::Psk("dev2".into()), &b"to the server"[..]))
        );
        let mut answer = Vec::new();
        self.server
            .encrypt(at(THERE), b"to the client", &mut answer)
            .expect("an association");
        self.bystander.handle_datagram(&answer);
        assert_eq!(
            self.bystander.received.pop().as_deref(),
            Some(&b"to the client"[..])
        );
    }
}

/// Datagrams to a client: those of a consistent or inconsistent server, which has its key, and those of an attacker
/// without one; repeated, damaged, invented, reordered and late.
pub fn client(input: &[u8]) -> Reached {
    let mut script = script(input);
    let mut line = FuzzedPair {
        server: server(),
        client: ClientSide::new(b"dev1", b"secret", [7; 32], begin()).unwrap(),
        now: begin(),
        answers: VecDeque::new(),
        past: Vec::new(),
        texts: Vec::new(),
        number: 0,
        reached: Reached::default(),
    };
    while let Some(step) = script.u8() {
        line.step(step, &mut script);
        if line.is_over() {
            break;
        }
    }
    line.reached
}

struct FuzzedPair {
    server: ServerSide,
    client: ClientSide,
    now: Time,
    /// Datagrams on their way to the client.
    answers: VecDeque<Vec<u8>>,
    past: Vec<Vec<u8>>,
    /// Texts that have left the server and not come.
    texts: Vec<Vec<u8>>,
    number: u64,
    reached: Reached,
}

impl FuzzedPair {
    fn step(&mut self, step: u8, script: &mut Reader<'_>) {
        match step % 16 {
            0..6 => self.go_on(),
            6 => {
                self.go_on();
                if let Some(datagram) = self.past.last().cloned() {
                    self.deliver(&damaged(datagram, script));
                }
            }
            7 => {
                let place = usize::from(script.u8().unwrap_or_default());
                if let Some(datagram) = self.past.get(place % self.past.len().max(1)).cloned() {
                    self.deliver(&datagram);
                }
            }
            8 => {
                let datagram = few(script);
                self.deliver(datagram);
            }
            9 => {
                let content = 18 + script.u8().unwrap_or_default() % 8;
                self.invent(content, step >= 128, few(script));
            }
            10 => self.invent(content::HANDSHAKE, step >= 128, &crooked(script)),
            11 => {
                let text = few(script);
                self.invent(content::APPLICATION_DATA, true, text);
            }
            12 => {
                self.now = self
                    .client
                    .poll_timeout()
                    .min(self.now + Span::from_secs(60));
                self.client.handle_timeout(self.now);
            }
            13 => {
                let mut datagram = Vec::new();
                self.client.encode(few(script), &mut datagram);
                assert_ne!(datagram.is_empty(), self.client.is_open());
                self.give_server(&datagram);
            }
            14 if step >= 240 => {
                let mut goodbye = Vec::new();
                self.client.close(&mut goodbye);
                self.give_server(&goodbye);
            }
            _ => {
                // Reorders datagrams in flight.
                self.answers
                    .rotate_left(usize::from(self.answers.len() > 1));
            }
        }
    }

    /// The next datagram between the two.
    fn go_on(&mut self) {
        if let Some(datagram) = self.client.take_datagram() {
            self.give_server(&datagram);
        } else if let Some(answer) = self.answers.pop_front() {
            self.past.push(answer.clone());
            self.deliver(&answer);
        }
    }

    fn give_server(&mut self, datagram: &[u8]) {
        let mut out = Output::default();
        self.server
            .handle_datagram(at(HERE), datagram, self.now, &mut out);
        self.answers
            .extend(out.datagrams().map(|(_, answer)| answer.to_vec()));
    }

    /// A record out of turn, under the server's keys if there is an association.
    fn invent(&mut self, content: u8, protected: bool, bytes: &[u8]) {
        let mut datagram = Vec::new();
        if protected
            && self
                .server
                .seal(at(HERE), content, bytes, &mut datagram)
                .is_ok()
        {
            if content == content::APPLICATION_DATA {
                self.texts.push(bytes.to_vec());
            }
        } else {
            write_header(
                &mut datagram,
                content,
                VERSION_1_2,
                0,
                self.number,
                bytes.len(),
            );
            datagram.extend_from_slice(bytes);
            self.number += 1;
        }
        self.past.push(datagram.clone());
        self.deliver(&datagram);
    }

    /// Sends what waits; how many datagrams those were.
    fn drain(&mut self) -> usize {
        let waiting: Vec<_> = std::iter::from_fn(|| self.client.take_datagram()).collect();
        for datagram in &waiting {
            assert!(datagram.len() < 1200, "{}", datagram.len());
            self.give_server(datagram);
        }
        waiting.len()
    }

    fn deliver(&mut self, datagram: &[u8]) {
        self.drain();
        let (texts, reached, was_open) =
            (&mut self.texts, &mut self.reached, self.client.is_open());
        let taken = self
            .client
            .handle_datagram(datagram, self.now, &mut |text| {
                let place = texts.iter().position(|sent| sent == text);
                texts.swap_remove(place.expect("a text that nobody sent, or that came already"));
                reached.texts += 1;
            });
        self.reached.completed += usize::from(self.client.is_open() && !was_open);
        assert!(!self.client.is_open() || self.server.counts().completed > 0);
        self.reached.refused += usize::from(taken.is_err());
        assert!(taken.is_ok() || self.client.is_closed());
        // A hello, the last flight, an alert.
        let said = self.drain();
        assert!(said <= 3, "{said} datagrams");
    }

    /// Whether there is nothing more to come; if so, it is silent.
    fn is_over(&mut self) -> bool {
        if !self.client.is_closed() {
            return false;
        }
        self.reached.closed += 1;
        self.drain();
        assert_eq!(self.client.poll_timeout(), Time::NEVER);
        let mut wire = Vec::new();
        self.client.encode(b"text", &mut wire);
        self.client.close(&mut wire);
        for datagram in self.past.iter().chain(&self.answers) {
            let heard = self
                .client
                .handle_datagram(datagram, self.now, &mut |_| panic!("a text behind the end"));
            assert!(heard.is_ok() && self.client.take_datagram().is_none());
        }
        assert!(wire.is_empty());
        true
    }
}
