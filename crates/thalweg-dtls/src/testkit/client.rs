//! A client for the tests: as small as it can be, and it can be made to do wrong. (Foreign clients speak to the running
//! server in `thalweg-tests`.)

use core::net::SocketAddr;
use std::rc::Rc;

use ring::digest::{SHA256, digest};
use thalweg_wire::Reader;

use super::certificate::{Identity, SIGNS_WITH, agreement};
use crate::cipher::{Exchange, Keys, Suite, prf};
use crate::hello::bytes8;
use crate::message::{self, Message, Piece, Reassembly, bytes24, push_u24};
use crate::psk::premaster;
use crate::record::{Record, ReplayWindow, VERSION_1_2, content, write_header};

/// Parameters of a client.
#[derive(Clone)]
pub struct Plan {
    pub suites: Vec<u16>,
    pub extended_master_secret: bool,
    pub identity: Vec<u8>,
    pub key: Vec<u8>,
    pub certificate: Option<Identity>,
    /// Signs with nonsense in CertificateVerify.
    pub forges: bool,
    /// The longest piece of a message.
    pub piece_max: usize,
    /// Changes what the client says and believes to have said: kind and body.
    pub twists_body: Option<BodyTwist>,
    /// Changes what leaves of it: a whole message, and the records for it, each with its content and whether it is
    /// protected.
    pub twists_wire: Option<WireTwist>,
}

/// See [`Plan::twists_body`].
pub type BodyTwist = Rc<dyn Fn(u8, &mut Vec<u8>)>;

/// See [`Plan::twists_wire`].
pub type WireTwist = Rc<dyn Fn(&[u8], bool) -> Vec<(u8, bool, Vec<u8>)>>;

impl Default for Plan {
    fn default() -> Self {
        Plan {
            suites: vec![0xc0a8],
            extended_master_secret: true,
            identity: b"dev1".to_vec(),
            key: b"secret".to_vec(),
            certificate: None,
            forges: false,
            piece_max: 1000,
            twists_body: None,
            twists_wire: None,
        }
    }
}

pub struct Client {
    pub address: SocketAddr,
    plan: Plan,
    random: [u8; 32],
    server_random: [u8; 32],
    cookie: Vec<u8>,
    suite: Option<&'static Suite>,
    pub extended: bool,
    transcript: Vec<u8>,
    reassembly: Reassembly,
    next_send: u16,
    next_receive: u16,
    number: u64,
    protected_number: u64,
    window: ReplayWindow,
    server_leaf: Vec<u8>,
    secret: Vec<u8>,
    public: Vec<u8>,
    asked: bool,
    master: [u8; 48],
    keys: Option<Keys>,
    /// The last messages, whole, and whether they go protected.
    flight: Vec<(bool, Vec<u8>)>,
    /// Datagrams to the server.
    pub out: Vec<Vec<u8>>,
    pub is_done: bool,
    pub received: Vec<Vec<u8>>,
    pub alerts: Vec<(u8, u8)>,
}

impl Client {
    pub fn new(address: SocketAddr, seed: u8, plan: Plan) -> Client {
        let mut client = Client {
            address,
            plan,
            random: [seed; 32],
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
            server_leaf: Vec::new(),
            secret: Vec::new(),
            public: Vec::new(),
            asked: false,
            master: [0; 48],
            keys: None,
            flight: Vec::new(),
            out: Vec::new(),
            is_done: false,
            received: Vec::new(),
            alerts: Vec::new(),
        };
        client.random[..2].copy_from_slice(&address.port().to_be_bytes());
        client.say_hello();
        client
    }

    /// Sends the last flight (again).
    pub fn send(&mut self) {
        for (protected, whole) in self.flight.clone() {
            if let Some(twists) = self.plan.twists_wire.clone() {
                for (content, protected, bytes) in twists(&whole, protected) {
                    self.send_record(content, protected && self.keys.is_some(), &bytes);
                }
                continue;
            }
            let piece = Piece::take(&mut Reader::new(&whole)).unwrap();
            // A server need not take a ClientHello in pieces.
            let whole = if piece.kind == message::CLIENT_HELLO {
                piece.length
            } else {
                self.plan.piece_max
            };
            let mut begins = 0;
            loop {
                let part = &piece.bytes[begins..piece.length.min(begins + whole)];
                let mut bytes = Vec::new();
                message::write_header(
                    &mut bytes,
                    piece.kind,
                    piece.length,
                    piece.sequence,
                    begins,
                    part.len(),
                );
                bytes.extend_from_slice(part);
                self.send_record(content::HANDSHAKE, protected, &bytes);
                begins += part.len();
                if begins == piece.length {
                    break;
                }
            }
        }
    }

    pub fn send_record(&mut self, content: u8, protected: bool, bytes: &[u8]) {
        let mut record = Vec::new();
        if protected {
            let keys = self.keys.as_ref().expect("keys");
            keys.seal(content, 1, self.protected_number, bytes, &mut record);
            self.protected_number += 1;
        } else {
            write_header(
                &mut record,
                content,
                VERSION_1_2,
                0,
                self.number,
                bytes.len(),
            );
            self.number += 1;
            record.extend_from_slice(bytes);
        }
        self.out.push(record);
    }

    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub fn send_text(&mut self, text: &[u8]) {
        self.send_record(content::APPLICATION_DATA, true, text);
    }

    pub fn handle_datagram(&mut self, datagram: &[u8]) {
        let mut rest = Reader::new(datagram);
        while let Some(record) = Record::take(&mut rest) {
            let mut plain = Vec::new();
            let bytes = match (record.epoch, &self.keys) {
                (0, _) => record.fragment,
                (1, Some(keys)) if self.window.is_new(record.number) => {
                    if !keys.open(
                        record.content,
                        1,
                        record.number,
                        record.fragment,
                        &mut plain,
                    ) {
                        continue;
                    }
                    self.window.remember(record.number);
                    &plain[..]
                }
                _ => continue,
            };
            match record.content {
                content::HANDSHAKE => {
                    let mut pieces = Reader::new(bytes);
                    while let Some(piece) = Piece::take(&mut pieces) {
                        self.take_piece(piece);
                    }
                }
                content::ALERT => self.alerts.push((bytes[0], bytes[1])),
                content::APPLICATION_DATA => self.received.push(bytes.to_vec()),
                _ => {}
            }
        }
    }

    fn take_piece(&mut self, piece: Piece<'_>) {
        if piece.kind == message::HELLO_VERIFY_REQUEST {
            if self.cookie.is_empty() && self.suite.is_none() {
                let mut reader = Reader::new(piece.bytes);
                reader.u16();
                self.cookie = bytes8(&mut reader).unwrap().to_vec();
                self.next_receive = piece.sequence.wrapping_add(1);
                self.say_hello();
            }
            return;
        }
        self.reassembly.add(self.next_receive, piece, 100_000);
        while let Some(message) = self.reassembly.take(self.next_receive) {
            self.next_receive += 1;
            self.take_message(&message);
        }
    }

    fn take_message(&mut self, message: &Message) {
        let mut reader = Reader::new(&message.body);
        if message.kind == message::FINISHED {
            assert_eq!(
                message.body,
                self.finished(b"server finished"),
                "the server's Finished"
            );
            self.is_done = true;
            return;
        }
        if self.suite.is_none() && message.kind != message::SERVER_HELLO {
            // The answer to a damaged hello may have the number of an answer to ours.
            return;
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
        match message.kind {
            message::SERVER_HELLO => {
                assert_eq!(reader.u16(), Some(VERSION_1_2));
                self.server_random.copy_from_slice(reader.take(32).unwrap());
                assert_eq!(bytes8(&mut reader), Some(&b""[..]));
                self.suite = Suite::by_id(reader.u16().unwrap());
                assert_eq!(reader.u8(), Some(0));
                let extensions = reader.bytes16().unwrap_or_default();
                self.extended = extensions.windows(4).any(|window| window == [0, 23, 0, 0]);
            }
            message::CERTIFICATE => {
                let mut list = Reader::new(bytes24(&mut reader).unwrap());
                self.server_leaf = bytes24(&mut list).unwrap().to_vec();
            }
            message::SERVER_KEY_EXCHANGE if self.suite.unwrap().exchange != Exchange::Psk => {
                let parameters = &message.body[..4 + usize::from(message.body[3])];
                assert_eq!(parameters[..3], [3, 0, 23], "the named curve P-256");
                reader.take(parameters.len());
                let (scheme, signature) = (reader.u16().unwrap(), reader.bytes16().unwrap());
                let signed = [&self.random[..], &self.server_random, parameters].concat();
                if scheme != SIGNS_WITH
                    || !Identity::has_signed(&self.server_leaf, &signed, signature)
                {
                    return;
                }
                let ephemeral = agreement(&self.random);
                self.public = ephemeral.public().to_vec();
                self.secret = ephemeral.agree(&parameters[4..]).unwrap();
            }
            message::CERTIFICATE_REQUEST => self.asked = true,
            message::SERVER_HELLO_DONE => self.say_last(),
            _ => {}
        }
    }

    fn say_hello(&mut self) {
        let mut body = VERSION_1_2.to_be_bytes().to_vec();
        body.extend_from_slice(&self.random);
        body.extend_from_slice(&[0, self.cookie.len() as u8]);
        body.extend_from_slice(&self.cookie);
        body.extend_from_slice(&(2 * self.plan.suites.len() as u16).to_be_bytes());
        self.plan
            .suites
            .iter()
            .for_each(|suite| body.extend_from_slice(&suite.to_be_bytes()));
        body.extend_from_slice(&[1, 0]);
        let mut extensions = vec![0, 10, 0, 4, 0, 2, 0, 23];
        extensions.extend_from_slice(&[0, 13, 0, 8, 0, 6, 8, 7, 8, 4, 4, 1]);
        if self.plan.extended_master_secret {
            extensions.extend_from_slice(&[0, 23, 0, 0]);
        }
        body.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
        body.extend_from_slice(&extensions);
        self.transcript.clear();
        self.flight.clear();
        self.say(message::CLIENT_HELLO, false, &body);
        self.send();
    }

    fn say_last(&mut self) {
        self.flight.clear();
        let certificate = self.plan.certificate.clone().filter(|_| self.asked);
        if self.asked {
            let mut list = Vec::new();
            for der in certificate.iter().flat_map(Identity::chain) {
                push_u24(&mut list, der.len());
                list.extend_from_slice(der);
            }
            let mut body = Vec::new();
            push_u24(&mut body, list.len());
            body.extend_from_slice(&list);
            self.say(message::CERTIFICATE, false, &body);
        }
        let suite = self.suite.unwrap();
        let body = if suite.exchange == Exchange::Psk {
            self.secret = premaster(&self.plan.key);
            [
                &(self.plan.identity.len() as u16).to_be_bytes()[..],
                &self.plan.identity,
            ]
            .concat()
        } else {
            [&[self.public.len() as u8][..], &self.public].concat()
        };
        self.say(message::CLIENT_KEY_EXCHANGE, false, &body);
        if self.extended {
            let hash = digest(&SHA256, &self.transcript);
            prf(
                &self.secret,
                b"extended master secret",
                &[hash.as_ref()],
                &mut self.master,
            );
        } else {
            prf(
                &self.secret,
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
        if let Some(identity) = certificate {
            let signed = if self.plan.forges {
                b"something else"
            } else {
                &self.transcript[..]
            };
            let signature = identity.sign(signed);
            let mut body = SIGNS_WITH.to_be_bytes().to_vec();
            body.extend_from_slice(&(signature.len() as u16).to_be_bytes());
            body.extend_from_slice(&signature);
            self.say(message::CERTIFICATE_VERIFY, false, &body);
        }
        let verify = self.finished(b"client finished");
        self.say(message::FINISHED, true, &verify);
        self.send();
    }

    fn say(&mut self, kind: u8, protected: bool, body: &[u8]) {
        let mut body = body.to_vec();
        if let Some(twists) = &self.plan.twists_body {
            twists(kind, &mut body);
        }
        let mut whole = Vec::new();
        message::write_header(&mut whole, kind, body.len(), self.next_send, 0, body.len());
        self.next_send += 1;
        whole.extend_from_slice(&body);
        self.transcript.extend_from_slice(&whole);
        self.flight.push((protected, whole));
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
