//! The server's side of one handshake (RFC 5246 §7.3, RFC 6347 §4.2), from a ClientHello with a good cookie to the
//! client's Finished.
//!
//! ```text
//!  client                              server
//!  ClientHello            ------->
//!                         <-------     HelloVerifyRequest        nothing is remembered
//!  ClientHello (cookie)   ------->                               a Handshake begins
//!                         <-------     ServerHello, (Certificate), (ServerKeyExchange),
//!                                      (CertificateRequest), ServerHelloDone
//!  (Certificate), ClientKeyExchange,
//!  (CertificateVerify), Finished  ------->
//!                         <-------     ChangeCipherSpec, Finished
//! ```
//!
//! ChangeCipherSpec is sent and not awaited: every record has its epoch, and Finished authenticates the change.

use core::net::SocketAddr;
use std::sync::Arc;

use ring::digest;
use subtle::ConstantTimeEq;
use thalweg_wire::{Reader, Span, Time};

use super::{Output, PeerIdentity, ServerConfig};
use crate::alert::{self, Alert};
use crate::certificate::{Agreement, Certificate, SCHEMES};
use crate::cipher::{Exchange, Keys, Suite, prf};
use crate::hello::{COOKIE_BYTES, ClientHello, bytes8, write_server_hello};
use crate::message::{self, HEADER_BYTES, Message, Piece, Reassembly, bytes24, push_u24};
use crate::psk::PskEntry;
use crate::random::Random;
use crate::record::{Record, ReplayWindow, VERSION_1_2, content, write_header};

/// A handshake under way.
pub(super) struct Handshake {
    config: Arc<ServerConfig>,
    suite: &'static Suite,
    extended_master_secret: bool,
    client_random: [u8; 32],
    /// Of the ClientHello that began this.
    cookie: [u8; COOKIE_BYTES],
    server_random: [u8; 32],
    /// Key material for unknown identities, so that their handshake fails as with a wrong key.
    decoy: [u8; 32],
    /// Every message so far, as if none had been sent in pieces (RFC 6347 §4.2.6).
    transcript: Vec<u8>,
    /// Our messages, ready to be sent again.
    flight: Vec<u8>,
    /// Of the next record without protection.
    record_number: u64,
    next_send: u16,
    next_receive: u16,
    expects: Expects,
    reassembly: Reassembly,
    /// Gone once it was used.
    ephemeral: Option<Box<dyn Agreement>>,
    client_chain: Vec<Vec<u8>>,
    identity: PeerIdentity,
    psk: Option<Arc<PskEntry>>,
    /// The identity that the client gave is in the key file. Always true without pre-shared keys.
    is_known: bool,
    master: [u8; 48],
    keys: Option<Keys>,
    window: ReplayWindow,
    /// A protected record that overtook what is needed to open it.
    early: Option<(u8, u64, Box<[u8]>)>,
    resend_at: Time,
    resend_after: Span,
    sent: u8,
    began_at: Time,
    gives_up_at: Time,
}

/// Next message expected from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expects {
    Certificate,
    ClientKeyExchange,
    CertificateVerify,
    Finished,
}

/// Result of a completed handshake.
pub(super) struct Done {
    pub keys: Keys,
    pub window: ReplayWindow,
    pub identity: PeerIdentity,
    pub psk: Option<Arc<PskEntry>>,
    pub cookie: [u8; COOKIE_BYTES],
    pub last_flight: LastFlight,
}

/// ChangeCipherSpec and Finished, sent again when the client says its own again (RFC 6347 §4.2.4).
pub(super) struct LastFlight {
    /// Of the next record without protection.
    record_number: u64,
    /// Finished, with its header.
    message: Vec<u8>,
}

/// Result of opening a protected record.
pub(super) enum Opened {
    /// It was ours; this is what it carried.
    Yes(u8, Vec<u8>),
    /// It was seen, or there are no keys yet.
    Passed,
    /// There are keys, and it was not made with them.
    No,
}

/// Our answer leaves again this long after the first time, and each further time after twice as long (RFC 6347
/// §4.2.4.1).
const RESEND_AFTER: Span = Span::from_secs(1);

/// Most transmissions of our flight, after timeouts and after the client's repetitions together.
const SENT_MAX: u8 = 8;

/// A message without a certificate in it is shorter than this.
const MESSAGE_BYTES_MAX: usize = 512;

/// The certificates of a client are shorter than this.
const CERTIFICATE_BYTES_MAX: usize = 8 * 1024;

/// With more than this, the authorities are not listed: a client then chooses its certificate by itself.
const AUTHORITIES_BYTES_MAX: usize = 2 * 1024;

/// Length of a Finished body (RFC 5246 §7.4.9).
const VERIFY_BYTES: usize = 12;

impl Handshake {
    /// Answers a ClientHello whose cookie is good. `message` is the whole of it, `record` its record's number: ours
    /// begin with the same (RFC 6347 §4.2.1).
    pub fn start(
        config: Arc<ServerConfig>,
        hello: &ClientHello<'_>,
        message: &Piece<'_>,
        record: u64,
        random: &mut Random,
        now: Time,
        timeout: Span,
    ) -> Result<Handshake, Alert> {
        // The older of two versions has the greater number.
        if hello.version > VERSION_1_2 || hello.version >> 8 != 0xfe {
            return Err(Alert::new(
                alert::PROTOCOL_VERSION,
                "the peer does not speak DTLS 1.2",
            ));
        }
        let chosen = choose(&config, hello)?;
        // RFC 8422 §5.1.2
        if hello.compressed_points_only && chosen.agreement.is_some() {
            return Err(Alert::new(
                alert::ILLEGAL_PARAMETER,
                "the peer does not understand uncompressed points",
            ));
        }
        let mut handshake = Handshake {
            suite: chosen.suite,
            extended_master_secret: hello.extended_master_secret,
            client_random: *hello.random,
            cookie: *hello.cookie.first_chunk().ok_or(unasked())?,
            server_random: random.bytes(),
            decoy: random.bytes(),
            transcript: Vec::new(),
            flight: Vec::new(),
            record_number: record,
            next_send: message.sequence,
            next_receive: message.sequence.wrapping_add(1),
            expects: Expects::ClientKeyExchange,
            reassembly: Reassembly::default(),
            ephemeral: None,
            client_chain: Vec::new(),
            identity: PeerIdentity::Unnamed,
            psk: None,
            is_known: true,
            master: [0; 48],
            keys: None,
            window: ReplayWindow::default(),
            early: None,
            resend_at: now + RESEND_AFTER,
            resend_after: RESEND_AFTER,
            sent: 0,
            began_at: now,
            gives_up_at: now + timeout,
            config: config.clone(),
        };
        handshake.record_message(message.kind, message.sequence, message.bytes);
        let (server_random, suite) = (handshake.server_random, chosen.suite);
        handshake.say(message::SERVER_HELLO, |body| {
            write_server_hello(
                body,
                &server_random,
                suite.id,
                suite.exchange != Exchange::Psk,
                hello,
            );
        });
        match (chosen.agreement, &config.certificate) {
            (Some(agreement), Some(certificate)) => {
                handshake.say_certificate(&**certificate, agreement)?
            }
            _ if !config.identity_hint.is_empty() => {
                handshake.say(message::SERVER_KEY_EXCHANGE, |body| {
                    push_bytes16(body, config.identity_hint.as_bytes());
                })
            }
            _ => {}
        }
        handshake.say(message::SERVER_HELLO_DONE, |_| {});
        Ok(handshake)
    }

    fn say_certificate(
        &mut self,
        certificate: &dyn Certificate,
        agreement: ChosenAgreement,
    ) -> Result<(), Alert> {
        self.say(message::CERTIFICATE, |body| {
            push_u24(
                body,
                certificate.chain().iter().map(|der| 3 + der.len()).sum(),
            );
            for der in certificate.chain() {
                push_u24(body, der.len());
                body.extend_from_slice(der);
            }
        });
        let ChosenAgreement {
            group,
            scheme,
            ephemeral,
        } = agreement;
        // A named curve and a point on it (RFC 8422 §5.4).
        let mut parameters = vec![3];
        parameters.extend_from_slice(&group.to_be_bytes());
        parameters.push(ephemeral.public().len() as u8);
        parameters.extend_from_slice(ephemeral.public());
        self.ephemeral = Some(ephemeral);
        let signed = [&self.client_random[..], &self.server_random, &parameters].concat();
        let signature = certificate
            .sign(scheme, &signed)
            .map_err(|why| Alert::new(alert::INTERNAL_ERROR, why))?;
        self.say(message::SERVER_KEY_EXCHANGE, |body| {
            body.extend_from_slice(&parameters);
            body.extend_from_slice(&scheme.to_be_bytes());
            push_bytes16(body, &signature);
        });
        if certificate.asks_clients() {
            self.expects = Expects::Certificate;
            self.say(message::CERTIFICATE_REQUEST, |body| {
                write_certificate_request(body, certificate)
            });
        }
        Ok(())
    }

    /// The ClientHello that began this.
    pub fn began_with(&self, random: &[u8; 32]) -> bool {
        self.client_random == *random
    }

    pub fn began_at(&self) -> Time {
        self.began_at
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn wakes_at(&self) -> Time {
        self.resend_at.min(self.gives_up_at)
    }

    /// False: it has taken too long.
    pub fn handle_timeout(
        &mut self,
        to: SocketAddr,
        mtu: usize,
        now: Time,
        out: &mut Output,
    ) -> bool {
        if now >= self.gives_up_at {
            return false;
        }
        if now >= self.resend_at {
            self.resend_after = Span::from_nanos(self.resend_after.nanos() * 2);
            self.resend_at = now + self.resend_after;
            self.send(to, mtu, out);
        }
        true
    }

    /// Sends our flight, for the first time or again, in datagrams of `mtu` bytes at most.
    pub fn send(&mut self, to: SocketAddr, mtu: usize, out: &mut Output) {
        if self.sent >= SENT_MAX {
            return;
        }
        self.sent += 1;
        let (headers, mut datagram) = (13 + HEADER_BYTES, Vec::new());
        let mut messages = Reader::new(&self.flight);
        while let Some(whole) = Piece::take(&mut messages) {
            let mut rest = whole.bytes;
            loop {
                // A piece that would be all header waits for the next datagram.
                if !datagram.is_empty() && datagram.len() + headers + rest.len().min(32) > mtu {
                    out.send(to, &datagram);
                    datagram.clear();
                }
                let room = mtu.saturating_sub(datagram.len() + headers).max(1);
                let (piece, behind) = rest.split_at(rest.len().min(room));
                let begins = whole.length - rest.len();
                let number = self.record_number;
                self.record_number += 1;
                write_header(
                    &mut datagram,
                    content::HANDSHAKE,
                    VERSION_1_2,
                    0,
                    number,
                    HEADER_BYTES + piece.len(),
                );
                message::write_header(
                    &mut datagram,
                    whole.kind,
                    whole.length,
                    whole.sequence,
                    begins,
                    piece.len(),
                );
                datagram.extend_from_slice(piece);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        out.send(to, &datagram);
    }

    /// Appends a record with a fatal alert. Our side has no protection yet.
    pub fn write_alert(&mut self, description: u8, out: &mut Vec<u8>) {
        write_header(out, content::ALERT, VERSION_1_2, 0, self.record_number, 2);
        self.record_number += 1;
        out.extend_from_slice(&[alert::FATAL, description]);
    }

    /// Takes a piece of a message. Protection begins with Finished and not before it; what says otherwise was not sent
    /// by the peer of this handshake.
    pub fn add(&mut self, piece: Piece<'_>, protected: bool) {
        if protected != (piece.kind == message::FINISHED) {
            return;
        }
        if protected {
            self.reassembly.make_way(piece.sequence, piece.kind);
        }
        let certificate = self
            .config
            .certificate
            .as_ref()
            .is_some_and(|it| it.asks_clients());
        let large = certificate && self.suite.exchange != Exchange::Psk;
        let bytes_max = if large {
            CERTIFICATE_BYTES_MAX
        } else {
            MESSAGE_BYTES_MAX
        };
        self.reassembly.add(self.next_receive, piece, bytes_max);
    }

    /// Opens a protected record.
    pub fn open(&mut self, record: &Record<'_>) -> Opened {
        let Some(keys) = &self.keys else {
            if self.may_be_finished(record) {
                self.early = Some((record.content, record.number, record.fragment.into()));
            }
            return Opened::Passed;
        };
        if !self.window.is_new(record.number) {
            return Opened::Passed;
        }
        let mut plain = Vec::new();
        if !keys.open(
            record.content,
            record.epoch,
            record.number,
            record.fragment,
            &mut plain,
        ) {
            return Opened::No;
        }
        self.window.remember(record.number);
        Opened::Yes(record.content, plain)
    }

    /// Whether a record looks as the client's Finished does, which nothing but its key opens.
    fn may_be_finished(&self, record: &Record<'_>) -> bool {
        let length = self
            .suite
            .protection
            .fragment_bytes(HEADER_BYTES + VERIFY_BYTES);
        record.content == content::HANDSHAKE && record.fragment.len() == length
    }

    /// Whether a record that does not open says that the client has another key. A peer with a certificate has the right
    /// key or is another peer, whose records are passed over (RFC 6347 §4.1.2.7).
    pub fn shows_another_key(&self, record: &Record<'_>) -> bool {
        self.suite.exchange == Exchange::Psk && self.may_be_finished(record)
    }

    /// Entry of the peer's key.
    pub fn psk(&self) -> Option<&Arc<PskEntry>> {
        self.psk.as_ref()
    }

    /// Bytes that the handshake keeps, and the message that it waits for.
    #[cfg(test)]
    pub fn footprint(&self) -> (usize, Expects) {
        let chain: usize = self.client_chain.iter().map(|der| der.len()).sum();
        let early = self.early.as_ref().map_or(0, |(_, _, bytes)| bytes.len());
        let bytes = self.transcript.capacity()
            + self.flight.capacity()
            + self.reassembly.bytes()
            + chain
            + early;
        (size_of::<Handshake>() + bytes, self.expects)
    }

    /// The protected record that came too early, once there are keys to open it.
    pub fn take_early(&mut self) -> Option<(u8, u64, Box<[u8]>)> {
        self.keys.as_ref().and(self.early.take())
    }

    /// Takes the messages that are due. True: the client's Finished was good, and [`finish`](Self::finish) is next.
    pub fn step(&mut self) -> Result<bool, Alert> {
        while let Some(message) = self.reassembly.take(self.next_receive) {
            self.next_receive = self.next_receive.wrapping_add(1);
            if self.take_message(&message)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_message(&mut self, message: &Message) -> Result<bool, Alert> {
        let body = &message.body[..];
        match (self.expects, message.kind) {
            (Expects::Certificate, message::CERTIFICATE) => self.take_certificate(body)?,
            (Expects::ClientKeyExchange, message::CLIENT_KEY_EXCHANGE) => {
                let secret = match self.suite.exchange {
                    Exchange::Psk => self.take_identity(body)?,
                    Exchange::EcdheEcdsa | Exchange::EcdheRsa => self.take_point(body)?,
                };
                self.record_message(message.kind, message.sequence, body);
                self.derive(&secret);
                return Ok(false);
            }
            (Expects::CertificateVerify, message::CERTIFICATE_VERIFY) => self.take_proof(body)?,
            (Expects::Finished, message::FINISHED) => {
                let good = self.finished(b"client finished").ct_eq(body);
                if !(bool::from(good) && self.is_known) {
                    return Err(wrong_key());
                }
                self.record_message(message.kind, message.sequence, body);
                return Ok(true);
            }
            (expects, kind) => {
                let why = format!("message {kind} came where {expects:?} was expected");
                return Err(Alert::new(alert::UNEXPECTED_MESSAGE, why));
            }
        }
        self.record_message(message.kind, message.sequence, body);
        Ok(false)
    }

    fn take_certificate(&mut self, body: &[u8]) -> Result<(), Alert> {
        let mut reader = Reader::new(body);
        let mut list = Reader::new(
            bytes24(&mut reader).ok_or(Alert::malformed("a Certificate is cut short"))?,
        );
        while !list.is_empty() {
            let der = bytes24(&mut list).ok_or(Alert::malformed("a Certificate is cut short"))?;
            self.client_chain.push(der.to_vec());
        }
        if !reader.is_empty() {
            return Err(Alert::malformed("bytes behind the list of a Certificate"));
        }
        let config = self.config.clone();
        let certificate = config.certificate.as_ref().ok_or(unasked())?;
        if let Some(name) = certificate.judge(&self.client_chain)? {
            self.identity = PeerIdentity::Certificate(name);
        }
        self.expects = Expects::ClientKeyExchange;
        Ok(())
    }

    /// RFC 4279 §2: the premaster secret of the identity that the client claims.
    fn take_identity(&mut self, body: &[u8]) -> Result<Vec<u8>, Alert> {
        let mut reader = Reader::new(body);
        let identity = reader.bytes16().filter(|_| reader.is_empty());
        let identity =
            identity.ok_or(Alert::malformed("a ClientKeyExchange without an identity"))?;
        let lookup = self
            .config
            .keys
            .as_ref()
            .ok_or(unasked())?
            .entry(identity, &self.decoy);
        self.is_known = lookup.entry.is_some();
        let known = lookup
            .entry
            .as_ref()
            .map(|entry| PeerIdentity::Psk(entry.identity.clone()));
        self.identity = known.unwrap_or(PeerIdentity::Unnamed);
        self.psk = lookup.entry;
        Ok(lookup.secret)
    }

    /// RFC 8422 §5.7: the secret of both points.
    fn take_point(&mut self, body: &[u8]) -> Result<Vec<u8>, Alert> {
        let mut reader = Reader::new(body);
        let point = bytes8(&mut reader).filter(|_| reader.is_empty());
        let point = point.ok_or(Alert::malformed("a ClientKeyExchange without a point"))?;
        let ephemeral = self.ephemeral.take().ok_or(unasked())?;
        let wrong = || {
            Alert::new(
                alert::ILLEGAL_PARAMETER,
                "the peer's point is not on the curve",
            )
        };
        ephemeral.agree(point).ok_or_else(wrong)
    }

    fn take_proof(&mut self, body: &[u8]) -> Result<(), Alert> {
        let mut reader = Reader::new(body);
        let proof = reader
            .u16()
            .zip(reader.bytes16())
            .filter(|_| reader.is_empty());
        let (scheme, signature) =
            proof.ok_or(Alert::malformed("a CertificateVerify is cut short"))?;
        let (leaf, certificate) = self
            .client_chain
            .first()
            .zip(self.config.certificate.as_ref())
            .ok_or(unasked())?;
        if !SCHEMES.contains(&scheme) {
            return Err(Alert::new(
                alert::ILLEGAL_PARAMETER,
                "a signature of a kind that was not asked for",
            ));
        }
        certificate.check_signature(leaf, scheme, &self.transcript, signature)?;
        self.expects = Expects::Finished;
        Ok(())
    }

    /// The master secret (RFC 5246 §8.1, RFC 7627 §4) and the keys.
    fn derive(&mut self, secret: &[u8]) {
        if self.extended_master_secret {
            prf(
                secret,
                b"extended master secret",
                &[self.hash().as_ref()],
                &mut self.master,
            );
        } else {
            prf(
                secret,
                b"master secret",
                &[&self.client_random, &self.server_random],
                &mut self.master,
            );
        }
        self.keys = Some(Keys::expand(
            self.suite.protection,
            &self.master,
            &self.client_random,
            &self.server_random,
        ));
        self.expects = if self.client_chain.is_empty() {
            Expects::Finished
        } else {
            Expects::CertificateVerify
        };
    }

    /// Returns the last flight and the association. The record of Finished has number 0 in its epoch.
    pub fn finish(mut self) -> Option<Done> {
        self.flight.clear();
        let verify = self.finished(b"server finished");
        self.say(message::FINISHED, |body| body.extend_from_slice(&verify));
        Some(Done {
            keys: self.keys?,
            window: self.window,
            identity: self.identity,
            psk: self.psk,
            cookie: self.cookie,
            last_flight: LastFlight {
                record_number: self.record_number,
                message: self.flight,
            },
        })
    }

    /// The suite's name, for the log.
    pub fn suite(&self) -> &'static str {
        self.suite.name
    }

    fn finished(&self, label: &[u8]) -> [u8; VERIFY_BYTES] {
        let mut verify = [0; VERIFY_BYTES];
        prf(&self.master, label, &[self.hash().as_ref()], &mut verify);
        verify
    }

    fn hash(&self) -> digest::Digest {
        digest::digest(&digest::SHA256, &self.transcript)
    }

    /// Adds a message to our flight.
    fn say(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        write(&mut body);
        let sequence = self.next_send;
        self.next_send = self.next_send.wrapping_add(1);
        let start = self.flight.len();
        message::write_header(&mut self.flight, kind, body.len(), sequence, 0, body.len());
        self.flight.extend_from_slice(&body);
        self.transcript.extend_from_slice(&self.flight[start..]);
    }

    fn record_message(&mut self, kind: u8, sequence: u16, body: &[u8]) {
        message::write_header(
            &mut self.transcript,
            kind,
            body.len(),
            sequence,
            0,
            body.len(),
        );
        self.transcript.extend_from_slice(body);
    }
}

impl LastFlight {
    /// Appends the flight as one datagram. `number` is that of the protected record.
    pub fn write(&mut self, keys: &Keys, number: u64, out: &mut Vec<u8>) {
        write_header(
            out,
            content::CHANGE_CIPHER_SPEC,
            VERSION_1_2,
            0,
            self.record_number,
            1,
        );
        self.record_number += 1;
        out.push(1);
        keys.seal(content::HANDSHAKE, 1, number, &self.message, out);
    }
}

/// Alert for records or a Finished made with another key than the configured one. It is sent for an unknown identity,
/// too.
pub(super) fn wrong_key() -> Alert {
    Alert::new(
        alert::DECRYPT_ERROR,
        "the peer has another key, or nobody is known by its identity",
    )
}

fn unasked() -> Alert {
    Alert::new(
        alert::UNEXPECTED_MESSAGE,
        "a message that does not belong to the suite",
    )
}

struct Chosen {
    suite: &'static Suite,
    /// None with pre-shared keys.
    agreement: Option<ChosenAgreement>,
}

struct ChosenAgreement {
    group: u16,
    /// Of the signature over our half.
    scheme: u16,
    ephemeral: Box<dyn Agreement>,
}

/// The first of the client's suites that can be served.
fn choose(config: &ServerConfig, hello: &ClientHello<'_>) -> Result<Chosen, Alert> {
    // An exchange that cannot be served is not tried again for each suite: lists of thousands would make that expensive.
    let mut futile = Vec::new();
    for suite in hello.suites().filter_map(Suite::by_id) {
        if futile.contains(&suite.exchange) {
            continue;
        }
        if suite.exchange == Exchange::Psk {
            if config.keys.is_some() {
                return Ok(Chosen {
                    suite,
                    agreement: None,
                });
            }
        } else {
            let agreement = config
                .certificate
                .as_ref()
                .and_then(|it| agreement(&**it, suite.exchange, hello));
            if agreement.is_some() {
                return Ok(Chosen { suite, agreement });
            }
        }
        futile.push(suite.exchange);
    }
    let ours = match (&config.keys, &config.certificate) {
        (Some(_), None) => "this listener has keys and no certificate",
        (None, Some(_)) => "this listener has a certificate and no keys",
        _ => "this listener has keys and a certificate",
    };
    let why = format!("no cipher suite, group and signature in common with the peer; {ours}");
    Err(Alert::new(alert::HANDSHAKE_FAILURE, why))
}

/// The first of the client's groups that is known, if the client understands a signature of ours.
fn agreement(
    certificate: &dyn Certificate,
    exchange: Exchange,
    hello: &ClientHello<'_>,
) -> Option<ChosenAgreement> {
    let understood: Vec<u16> = hello
        .signatures()
        .filter(|scheme| SCHEMES.contains(scheme))
        .collect();
    let scheme = certificate.scheme(exchange, &understood)?;
    let (group, ephemeral) = hello
        .groups()
        .find_map(|group| Some((group, certificate.agree(group)?)))?;
    Some(ChosenAgreement {
        group,
        scheme,
        ephemeral,
    })
}

/// RFC 5246 §7.4.4: the kinds of certificate, the signatures and the authorities that are good here.
fn write_certificate_request(body: &mut Vec<u8>, certificate: &dyn Certificate) {
    const ECDSA_SIGN: u8 = 64;
    const RSA_SIGN: u8 = 1;
    body.extend_from_slice(&[2, ECDSA_SIGN, RSA_SIGN]);
    body.extend_from_slice(&(2 * SCHEMES.len() as u16).to_be_bytes());
    SCHEMES
        .iter()
        .for_each(|scheme| body.extend_from_slice(&scheme.to_be_bytes()));
    let mut names = Vec::new();
    certificate
        .authorities()
        .into_iter()
        .for_each(|name| push_bytes16(&mut names, name));
    if names.len() > AUTHORITIES_BYTES_MAX {
        names.clear();
    }
    push_bytes16(body, &names);
}

fn push_bytes16(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}
