//! Clients of CoAP: peers of a datagram socket, and connections.

use crate::bed::{Shard, Testbed};
use crate::client::{Client, Who};
pub use crate::coap_text::{ReceivedMessage, request, request_with};
use std::collections::VecDeque;
use std::net::SocketAddr;
use thalweg_coap::stream::{ClientSide, StreamSettings, decode, encode};
use thalweg_coap::{Code, Datagrams, Encoder, Message, Type, empty};
use thalweg_fronts::coap::{CoapCounts, CoapStreamFront, PeerSecurity};
use thalweg_fronts::{AnyFront, Datagram};
use thalweg_kernel::access::Access;

/// A peer of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerId(pub usize);

/// A peer's handling of confirmable messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Polite,
    Silent,
    /// It rejects every message that is no acknowledgement.
    Rejecting,
}

pub(crate) struct Peer {
    address: SocketAddr,
    shard: usize,
    /// The shard's socket that it uses.
    socket: usize,
    /// Its identity in DTLS.
    identity: Option<String>,
    id_last: u16,
    manner: Manner,
    heard: VecDeque<ReceivedMessage>,
}

impl Testbed {
    /// A peer at an address of its own that talks to a socket of a shard.
    pub fn peer(&mut self, shard: usize, socket: usize) -> PeerId {
        let number = self.peers.len();
        self.peers.push(Peer {
            address: SocketAddr::from(([127, 0, 0, 1], 40_000 + number as u16)),
            shard,
            socket,
            identity: None,
            id_last: 100,
            manner: Manner::Polite,
            heard: VecDeque::new(),
        });
        PeerId(number)
    }

    pub fn set_identity(&mut self, peer: PeerId, identity: &str) {
        self.peers[peer.0].identity = Some(identity.to_owned());
    }

    pub fn set_manner(&mut self, peer: PeerId, manner: Manner) {
        self.peers[peer.0].manner = manner;
    }

    /// A message id that the peer has not used.
    pub fn next_id(&mut self, peer: PeerId) -> u16 {
        let peer = &mut self.peers[peer.0];
        peer.id_last += 1;
        peer.id_last
    }

    /// Sends several datagrams at once, and does not wait for anything.
    pub fn write_datagrams(&mut self, peer: PeerId, datagrams: &[&[u8]]) {
        self.deliver(peer, datagrams, false);
    }

    /// Sends a datagram to the group of all nodes, and lets everything come to rest.
    pub fn send_to_group(&mut self, peer: PeerId, datagram: &[u8]) {
        self.now += self.step;
        self.deliver(peer, &[datagram], true);
        self.rest();
    }

    fn deliver(&mut self, peer: PeerId, datagrams: &[&[u8]], is_multicast: bool) {
        let peer = &self.peers[peer.0];
        let Shard {
            kernel,
            links,
            sockets,
            ..
        } = &mut self.shards[peer.shard];
        let security = || match &peer.identity {
            None => PeerSecurity::None,
            Some(identity) => PeerSecurity::Identified(identity),
        };
        let batch = datagrams.iter().map(|datagram| Datagram {
            from: peer.address,
            security: security(),
            is_multicast,
            bytes: datagram,
        });
        links.handle_datagrams(sockets[peer.socket], batch, self.now, kernel);
        let shard = peer.shard;
        self.gather(shard);
    }

    /// Sends several datagrams at once, and lets everything come to rest.
    pub fn send_datagrams(&mut self, peer: PeerId, datagrams: &[&[u8]]) {
        self.now += self.step;
        self.write_datagrams(peer, datagrams);
        self.rest();
    }

    /// Sends the request that a line says, with a token of its own; its message id.
    pub fn request(&mut self, peer: PeerId, line: &str) -> u16 {
        let id = self.next_id(peer);
        let token = [peer.0 as u8, (id >> 8) as u8, id as u8];
        self.send_datagrams(peer, &[&request(line, id, &token)]);
        id
    }

    /// Messages that a peer received since the last call.
    pub fn heard(&mut self, peer: PeerId) -> Vec<ReceivedMessage> {
        self.peers[peer.0].heard.drain(..).collect()
    }

    /// The same, and it stays there.
    pub fn unheard(&self, peer: PeerId) -> &VecDeque<ReceivedMessage> {
        &self.peers[peer.0].heard
    }

    /// DTLS has forgotten a peer.
    pub fn peer_gone(&mut self, peer: PeerId) {
        let Peer {
            address,
            shard,
            socket,
            ..
        } = self.peers[peer.0];
        let Shard {
            kernel,
            links,
            sockets,
            ..
        } = &mut self.shards[shard];
        links.on_peer_gone(sockets[socket], address, self.now, kernel);
        self.rest();
    }

    /// Closes all datagram sockets.
    pub fn close_sockets(&mut self) {
        for Shard {
            kernel,
            links,
            sockets,
            ..
        } in &mut self.shards
        {
            for socket in sockets {
                links.close(*socket, kernel, self.now);
            }
        }
        self.rest();
    }

    /// Counters of all datagram sockets.
    pub fn datagram_counts(&self) -> CoapCounts {
        let mut counts = CoapCounts::default();
        for Shard { links, sockets, .. } in &self.shards {
            for socket in sockets {
                counts.add(&thalweg_fronts::coap::counts(links, *socket).expect("a socket"));
            }
        }
        counts
    }

    /// The broker's datagrams arrive, and peers answer as configured. Returns whether there were any.
    pub fn exchange_datagrams(&mut self) -> bool {
        let (mut happened, mut replies) = (false, Vec::new());
        for (number, Shard { links, sockets, .. }) in self.shards.iter_mut().enumerate() {
            for socket in sockets {
                let mut out = Datagrams::new();
                links.take_datagrams(*socket, &mut out);
                for (to, bytes) in out.iter() {
                    happened = true;
                    // Peers have their addresses in the order of their numbers.
                    let at = usize::from(to.port()).wrapping_sub(40_000);
                    let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.address == to)
                    else {
                        continue;
                    };
                    assert_eq!(peer.shard, number, "a peer is on one shard");
                    let heard = ReceivedMessage::read(bytes);
                    let is_message = matches!(heard.kind, Type::Confirmable | Type::NonConfirmable)
                        && heard.code != Code::EMPTY;
                    let reply = match peer.manner {
                        Manner::Polite if heard.kind == Type::Confirmable => {
                            Some(Type::Acknowledgement)
                        }
                        Manner::Rejecting if is_message => Some(Type::Reset),
                        _ => None,
                    };
                    if let Some(kind) = reply {
                        let mut reply = Vec::new();
                        empty(&mut reply, kind, heard.id);
                        replies.push((PeerId(at), reply));
                    }
                    peer.heard.push_back(heard);
                }
            }
        }
        for (peer, reply) in replies {
            self.write_datagrams(peer, &[&reply]);
        }
        happened
    }

    pub fn coap_stream_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = 0xC0A9_0000_0000 + 77 * self.next_nonce();
        let settings = self.settings.coap_stream.clone();
        let front = CoapStreamFront::new(settings, nonce, anonymous);
        front.into()
    }

    /// Opens a connection on which nothing has been said.
    pub fn open_coap(&mut self, shard: usize, anonymous: Option<Access>) -> Who<CoapStream> {
        let front = self.coap_stream_front(anonymous);
        self.open(shard, front, CoapStream::default())
    }
}

/// Messages that a client of a connection has received.
#[derive(Clone, Debug)]
pub enum StreamReply {
    Response(ReceivedMessage),
    Signal(String),
}

/// A client at the end of a connection, which answers Pings unless that is disabled.
pub struct CoapStream {
    pub said: VecDeque<StreamReply>,
    pub answers_pings: bool,
    token: u16,
}

impl Default for CoapStream {
    fn default() -> Self {
        CoapStream {
            said: VecDeque::new(),
            answers_pings: true,
            token: 0,
        }
    }
}

impl CoapStream {
    pub fn csm(&mut self, settings: StreamSettings, up: &mut Vec<u8>) {
        ClientSide::new(settings).open(up);
    }

    /// The request that a line says, with a token of its own.
    pub fn request(&mut self, line: &str) -> Vec<u8> {
        self.token += 1;
        stream_request(line, None, &self.token.to_be_bytes())
    }

    /// Responses received since this was last asked; signals are forgotten.
    pub fn heard(&mut self) -> Vec<ReceivedMessage> {
        let response = |said| match said {
            StreamReply::Response(heard) => Some(heard),
            StreamReply::Signal(_) => None,
        };
        self.said.drain(..).filter_map(response).collect()
    }
}

impl Client for CoapStream {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        let mut used = 0;
        while let Some((len, message)) =
            decode(&down[used..], usize::MAX).expect("the broker writes what can be read")
        {
            used += len;
            let token: String = message
                .token
                .as_slice()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let words = String::from_utf8_lossy(message.payload);
            let words = if words.is_empty() {
                String::new()
            } else {
                format!(" : {words}")
            };
            let signal = match message.code {
                Code::CSM => continue,
                Code::PING => {
                    if self.answers_pings {
                        encode(up, Code::PONG, message.token, |_| {}, &[]);
                    }
                    "ping".to_owned()
                }
                Code::PONG if message.options.is_empty() => format!("pong {token}"),
                Code::PONG => format!("pong {token} custody"),
                Code::RELEASE => format!("release{words}"),
                Code::ABORT => format!("abort{words}"),
                code => {
                    self.said.push_back(StreamReply::Response(ReceivedMessage {
                        kind: Type::Acknowledgement,
                        code,
                        id: 0,
                        token: message.token.as_slice().to_vec(),
                        options: message
                            .options
                            .iter()
                            .map(|(number, value)| (number, value.to_vec()))
                            .collect(),
                        payload: message.payload.to_vec(),
                    }));
                    continue;
                }
            };
            self.said.push_back(StreamReply::Signal(signal));
        }
        down.drain(..used);
    }
}

/// Writes the request that a line says as it stands in a stream.
pub fn stream_request(line: &str, payload: Option<&[u8]>, token: &[u8]) -> Vec<u8> {
    let datagram = request_with(line, payload, 0, token);
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
