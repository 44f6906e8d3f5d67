//! The client's end of DTLS 1.2 with a pre-shared key (RFC 6347, RFC 4279): what RFC 7252 §9.1.3.1 asks of every CoAP
//! device. No certificates.
//!
//! ```text
//! ClientHello ──> HelloVerifyRequest ──> ClientHello with the cookie ──> ServerHello … ServerHelloDone
//!     ──> ClientKeyExchange, ChangeCipherSpec, Finished ──> ChangeCipherSpec, Finished ──> open
//! ```

#[cfg(test)]
mod tests;

use std::fmt;

use ring::digest::{SHA256, digest};
use thalweg_wire::{Reader, Span, Time};

use crate::alert::{self, Alert};
use crate::cipher::{Keys, Suite, prf};
use crate::hello::bytes8;
use crate::message::{self, Message, Piece, Reassembly};
use crate::psk::premaster;
use crate::record::{
    NUMBER_MAX, PLAIN_MAX, Record, ReplayWindow, VERSION_1_2, content, write_header,
};

/// Offered suites, the best first: the one that RFC 7252 makes mandatory, and two related ones.
const SUITES: [u16; 3] = [0xc0a8, 0xc0a4, 0x00a8];

/// The first wait for an answer, doubled with each repetition (RFC 6347 §4.2.4.1).
const WAIT_FIRST: Span = Span::from_secs(1);
const WAIT_MAX: Span = Span::from_secs(60);

/// A handshake message of a server with a key is shorter than this.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// RFC 5746 §3.4: we know what a renegotiation would have to say; and RFC 7627.
const EXTENSIONS: [u8; 9] = [0xff, 0x01, 0, 1, 0, 0, 23, 0, 0];
const RENEGOTIATION_INFO: u16 = 0xff01;
const EXTENDED_MASTER_SECRET: u16 = 23;

/// The client's end of one association.
pub struct ClientSide {
    identity: Vec<u8>,
    key: Vec<u8>,
    random: [u8; 32],
    server_random: [u8; 32],
    cookie: Vec<u8>,
    suite: Option<&'static Suite>,
    extended: bool,
    /// All messages of the handshake so far, but the first ClientHello and the answer to it (RFC 6347 §4.2.1).
    transcript: Vec<u8>,
    reassembly: Reassembly,
    next_send: u16,
    next_receive: u16,
    /// Numbers of the next records, unprotected and protected.
    number: u64,
    protected_number: u64,
    window: ReplayWindow,
    master: [u8; 48],
    keys: Option<Keys>,
    /// The last flight, for retransmission.
    flight: Vec<Part>,
    /// Datagrams on their way out.
    out: Vec<Vec<u8>>,
    again_at: Time,
    wait: Span,
    is_open: bool,
    is_closed: bool,
}

enum Part {
    /// A whole handshake message.
    Message {
        is_protected: bool,
        bytes: Vec<u8>,
    },
    ChangeCipherSpec,
}

impl ClientSide {
    /// Begins a handshake; the first datagram waits in [`ClientSide::take_datagram`]. `random` are unpredictable
    /// bytes, for this handshake alone.
    pub fn new(
        identity: &[u8],
        key: &[u8],
        random: [u8; 32],
        now: Time,
    ) -> Result<ClientSide, ClientFault> {
        if identity.len() > 128 || key.is_empty() || key.len() > 64 {
            // Largest sizes that RFC 4279 §5.3 asks implementations to accept.
            return Err(fault("an identity has at most 128 bytes, a key 1 to 64"));
        }
        let mut client = ClientSide {
            identity: identity.to_vec(),
            key: key.to_vec(),
            random,
            server_random: [0; 32],
            cookie: Vec::new(),
            suite: None,
            extended: false,
            transcript: Vec::new(),
            reassembly: Reassembly::default(),
            next_send: 0,
            next_receive: 0,
            number: 0,
            protected_number: 0,
            window: ReplayWindow::default(),
            master: [0; 48],
            keys: None,
            flight: Vec::new(),
            out: Vec::new(),
            again_at: Time::NEVER,
            wait: WAIT_FIRST,
            is_open: false,
            is_closed: false,
        };
        client.say_hello();
        client.send_flight(now);
        Ok(client)
    }

    /// The next datagram to send.
    pub fn take_datagram(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| self.out.remove(0))
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether one of the two has ended it: what comes is passed over, and nothing more is said.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// When [`ClientSide::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Time {
        self.again_at
    }

    /// Says again what was not answered.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.again_at <= now {
            self.wait = Span::from_nanos(self.wait.nanos().saturating_mul(2)).min(WAIT_MAX);
            self.send_flight(now);
        }
    }

    /// Handles a datagram; each text in it is appended to `plain`. Records that are not authentic are ignored (RFC 6347
    /// §4.1.2.7).
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        now: Time,
        plain: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ClientFault> {
        let mut rest = Reader::new(datagram);
        let mut opened = Vec::new();
        while let Some(record) = Record::take(&mut rest)
            && !self.is_closed
        {
            opened.clear();
            let bytes = match (record.epoch, &self.keys) {
                // Nothing unprotected counts once there are keys that have been proven.
                (0, _) if !self.is_open => record.fragment,
                (1, Some(keys)) if self.window.is_new(record.number) => {
                    if !keys.open(
                        record.content,
                        1,
                        record.number,
                        record.fragment,
                        &mut opened,
                    ) {
                        continue;
                    }
                    self.window.remember(record.number);
                    opened.as_slice()
                }
                _ => continue,
            };
            match record.content {
                content::HANDSHAKE if !self.is_open => {
                    let mut pieces = Reader::new(bytes);
                    while let Some(piece) = Piece::take(&mut pieces) {
                        // Finished alone comes protected, and only it does (RFC 5246 §7.4.9).
                        if (record.epoch == 1) == (piece.kind == message::FINISHED) {
                            self.take_piece(piece, now)?;
                        }
                    }
                }
                content::ALERT => self.take_alert(bytes)?,
                content::APPLICATION_DATA if self.is_open && record.epoch == 1 => plain(bytes),
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends a datagram with this text. Nothing if the association does not stand, or the text is too long for it.
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        if self.is_open && !self.is_closed && plain.len() <= PLAIN_MAX {
            self.seal(content::APPLICATION_DATA, plain, wire);
        }
    }

    /// Appends a close_notify alert.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if self.is_open && !self.is_closed {
            self.seal(content::ALERT, &[alert::WARNING, alert::CLOSE_NOTIFY], wire);
        }
        self.end();
    }

    fn end(&mut self) {
        self.is_closed = true;
        self.again_at = Time::NEVER;
    }

    /// Ends it with an alert, which waits in [`ClientSide::take_datagram`].
    fn refuse(&mut self, alert: Alert) -> ClientFault {
        let (mut datagram, bytes) = (Vec::new(), [alert::FATAL, alert.description]);
        match self.keys {
            Some(_) => self.seal(content::ALERT, &bytes, &mut datagram),
            None => self.write_plain(content::ALERT, &bytes, &mut datagram),
        }
        self.out.push(datagram);
        self.end();
        ClientFault(alert.why.into_owned())
    }

    fn seal(&mut self, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
        // No number twice with one key; an association that has sent 2^48 records has ended long before.
        if let (Some(keys), true) = (&self.keys, self.protected_number < NUMBER_MAX) {
            keys.seal(kind, 1, self.protected_number, plain, wire);
            self.protected_number += 1;
        }
    }

    fn take_alert(&mut self, alert: &[u8]) -> Result<(), ClientFault> {
        match *alert {
            [_, alert::CLOSE_NOTIFY] => {
                self.end();
                Ok(())
            }
            // Before the handshake is complete they are not authenticated; an attacker who can inject one can as well
            // block ours.
            [alert::FATAL, what] => {
                let meaning = match what {
                    40 => {
                        " (handshake failure: no common cipher suite, or no keys are taken there)"
                    }
                    51 | 20 => " (is the key right?)",
                    115 => " (the identity is not known)",
                    _ => "",
                };
                self.end();
                Err(ClientFault(format!(
                    "the server ends it with alert {what}{meaning}"
                )))
            }
            _ => Ok(()),
        }
    }

    fn take_piece(&mut self, piece: Piece<'_>, now: Time) -> Result<(), ClientFault> {
        if piece.kind == message::HELLO_VERIFY_REQUEST {
            if self.suite.is_none() && piece.is_whole() {
                let mut reader = Reader::new(piece.bytes);
                let cookie = reader
                    .u16()
                    .and_then(|_| bytes8(&mut reader))
                    .unwrap_or_default();
                // Another one is asked for when ours has grown old on its way (RFC 6347 §4.2.1); the same one again is
                // a repetition, and one that comes before the last hello has left answers none.
                if !cookie.is_empty() && cookie != self.cookie && self.out.is_empty() {
                    self.cookie = cookie.to_vec();
                    self.next_receive = piece.sequence.wrapping_add(1);
                    self.wait = WAIT_FIRST;
                    self.say_hello();
                    self.send_flight(now);
                }
            }
            return Ok(());
        }
        self.reassembly
            .add(self.next_receive, piece, MESSAGE_BYTES_MAX);
        while let Some(message) = self.reassembly.take(self.next_receive) {
            self.next_receive = self.next_receive.wrapping_add(1);
            self.take_message(&message, now)?;
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message, now: Time) -> Result<(), ClientFault> {
        if message.kind == message::FINISHED {
            if self.keys.is_none() || message.body != self.finished(b"server finished") {
                let why = "the server's Finished is not what it must be";
                return Err(self.refuse(Alert::new(alert::DECRYPT_ERROR, why)));
            }
            self.is_open = true;
            self.again_at = Time::NEVER;
            self.flight.clear();
            self.transcript = Vec::new();
            return Ok(());
        }
        let length = message.body.len();
        message::write_header(
            &mut self.transcript,
            message.kind,
            length,
            message.sequence,
            0,
            length,
        );
        self.transcript.extend_from_slice(&message.body);
        match (message.kind, self.suite) {
            (message::SERVER_HELLO, None) => self
                .take_hello(&message.body)
                .map_err(|alert| self.refuse(alert)),
            // A hint at an identity (RFC 4279 §2): we have but one.
            (message::SERVER_KEY_EXCHANGE, Some(_)) => Ok(()),
            (message::SERVER_HELLO_DONE, Some(suite)) if self.keys.is_none() => {
                self.wait = WAIT_FIRST;
                self.say_last(suite);
                self.send_flight(now);
                Ok(())
            }
            _ => {
                let why = "the server says what has no place in a handshake with a key";
                Err(self.refuse(Alert::new(alert::UNEXPECTED_MESSAGE, why)))
            }
        }
    }

    fn take_hello(&mut self, body: &[u8]) -> Result<(), Alert> {
        let hello = ServerHello::read(body).ok_or(Alert::malformed(
            "the server's hello is not what its lengths say",
        ))?;
        if hello.version != VERSION_1_2 {
            return Err(Alert::new(
                alert::PROTOCOL_VERSION,
                "the server does not speak DTLS 1.2",
            ));
        }
        let suite = Suite::by_id(hello.suite)
            .filter(|suite| SUITES.contains(&suite.id) && hello.compression == 0);
        let why = "the server chose a suite or a compression that was not offered";
        let suite = suite.ok_or(Alert::new(alert::ILLEGAL_PARAMETER, why))?;
        for (kind, data) in hello.extensions {
            match (kind, data) {
                (EXTENDED_MASTER_SECRET, []) => self.extended = true,
                (RENEGOTIATION_INFO, [0]) => {}
                // RFC 7627 §5.1, RFC 5746 §3.4.
                (EXTENDED_MASTER_SECRET, _) => {
                    return Err(Alert::malformed(
                        "the server's extended_master_secret is not empty",
                    ));
                }
                (RENEGOTIATION_INFO, _) => {
                    let why = "the server's renegotiation_info is not that of a first handshake";
                    return Err(Alert::new(alert::HANDSHAKE_FAILURE, why));
                }
                // RFC 5246 §7.4.1.4.
                _ => {
                    let why =
                        format!("the server answers to extension {kind}, which was not offered");
                    return Err(Alert::new(alert::UNSUPPORTED_EXTENSION, why));
                }
            }
        }
        self.server_random = *hello.random;
        self.suite = Some(suite);
        Ok(())
    }

    fn say_hello(&mut self) {
        let mut body = VERSION_1_2.to_be_bytes().to_vec();
        body.extend_from_slice(&self.random);
        body.push(0);
        body.push(self.cookie.len() as u8);
        body.extend_from_slice(&self.cookie);
        body.extend_from_slice(&(2 * SUITES.len() as u16).to_be_bytes());
        SUITES
            .iter()
            .for_each(|suite| body.extend_from_slice(&suite.to_be_bytes()));
        // No compression.
        body.extend_from_slice(&[1, 0]);
        body.extend_from_slice(&(EXTENSIONS.len() as u16).to_be_bytes());
        body.extend_from_slice(&EXTENSIONS);
        self.transcript.clear();
        self.flight.clear();
        self.say(message::CLIENT_HELLO, false, &body);
    }

    fn say_last(&mut self, suite: &Suite) {
        self.flight.clear();
        let mut body = (self.identity.len() as u16).to_be_bytes().to_vec();
        body.extend_from_slice(&self.identity);
        self.say(message::CLIENT_KEY_EXCHANGE, false, &body);
        let secret = premaster(&self.key);
        if self.extended {
            let hash = digest(&SHA256, &self.transcript);
            prf(
                &secret,
                b"extended master secret",
                &[hash.as_ref()],
                &mut self.master,
            );
        } else {
            prf(
                &secret,
                b"master secret",
                &[&self.random, &self.server_random],
                &mut self.master,
            );
        }
        self.keys = Some(
            Keys::expand(
                suite.protection,
                &self.master,
                &self.random,
                &self.server_random,
            )
            .turned(),
        );
        self.flight.push(Part::ChangeCipherSpec);
        let verify = self.finished(b"client finished");
        self.say(message::FINISHED, true, &verify);
    }

    fn say(&mut self, kind: u8, is_protected: bool, body: &[u8]) {
        let mut bytes = Vec::new();
        message::write_header(&mut bytes, kind, body.len(), self.next_send, 0, body.len());
        self.next_send = self.next_send.wrapping_add(1);
        bytes.extend_from_slice(body);
        self.transcript.extend_from_slice(&bytes);
        self.flight.push(Part::Message {
            is_protected,
            bytes,
        });
    }

    /// Sends the flight, as one datagram: none of ours is longer than a path takes.
    fn send_flight(&mut self, now: Time) {
        let mut datagram = Vec::new();
        for part in std::mem::take(&mut self.flight) {
            match &part {
                Part::Message {
                    is_protected: true,
                    bytes,
                } => self.seal(content::HANDSHAKE, bytes, &mut datagram),
                Part::Message {
                    is_protected: false,
                    bytes,
                } => {
                    self.write_plain(content::HANDSHAKE, bytes, &mut datagram);
                }
                Part::ChangeCipherSpec => {
                    self.write_plain(content::CHANGE_CIPHER_SPEC, &[1], &mut datagram)
                }
            }
            self.flight.push(part);
        }
        self.out.push(datagram);
        self.again_at = now + self.wait;
    }

    fn write_plain(&mut self, kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        write_header(out, kind, VERSION_1_2, 0, self.number, bytes.len());
        out.extend_from_slice(bytes);
        self.number += 1;
    }

    fn finished(&self, label: &[u8]) -> [u8; 12] {
        let mut verify = [0; 12];
        prf(
            &self.master,
            label,
            &[digest(&SHA256, &self.transcript).as_ref()],
            &mut verify,
        );
        verify
    }
}

/// A ServerHello (RFC 5246 §7.4.1.3).
struct ServerHello<'m> {
    version: u16,
    random: &'m [u8; 32],
    suite: u16,
    compression: u8,
    extensions: Vec<(u16, &'m [u8])>,
}

impl<'m> ServerHello<'m> {
    fn read(body: &'m [u8]) -> Option<ServerHello<'m>> {
        let mut reader = Reader::new(body);
        let (version, random) = (reader.u16()?, reader.take(32)?.first_chunk()?);
        // The session's identifier: none is taken up again.
        bytes8(&mut reader)?;
        let (suite, compression) = (reader.u16()?, reader.u8()?);
        let mut list = Reader::new(if reader.is_empty() {
            &[]
        } else {
            reader.bytes16()?
        });
        let mut extensions = Vec::new();
        while !list.is_empty() {
            extensions.push((list.u16()?, list.bytes16()?));
        }
        reader.is_empty().then_some(ServerHello {
            version,
            random,
            suite,
            compression,
            extensions,
        })
    }
}

fn fault(words: &str) -> ClientFault {
    ClientFault(words.to_owned())
}

/// Why an association cannot be or is over; the words are for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFault(String);

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DTLS: {}", self.0)
    }
}

impl std::error::Error for ClientFault {}

/// Says nothing of the key.
impl fmt::Debug for ClientSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSide")
            .field("is_open", &self.is_open)
            .finish_non_exhaustive()
    }
}
