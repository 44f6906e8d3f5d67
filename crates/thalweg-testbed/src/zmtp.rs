//! Sockets of ZeroMQ.

use crate::bed::Testbed;
use crate::client::{Client, Who};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_fronts::zmtp::{ZmtpDial, ZmtpFront};
use thalweg_fronts::{AnyFront, FrontSettings};
use thalweg_kernel::access::Access;
use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, Event, Gathered, HandshakeEvent, Limits, PeerFault,
    ServerMechanisms, ServerSide, SocketType, Traffic,
};

/// A socket that connects, or to which the broker connects.
pub struct Zmtp {
    handshake: Handshake,
    /// There once the handshake is over.
    pub traffic: Option<Traffic>,
    /// Frames of each message that arrived.
    pub got: VecDeque<Vec<Vec<u8>>>,
    /// Prefixes to which the broker subscribes.
    pub wanted: Vec<Vec<u8>>,
    /// Why the broker refuses it.
    pub refused: Option<Vec<u8>>,
    pub pings: u32,
    pub pongs: u32,
    gathered: Gathered,
}

enum Handshake {
    Connects(ClientSide),
    Binds(Box<ServerSide>, SocketType),
}

impl Zmtp {
    /// A socket that binds, to which the broker connects.
    pub fn bound(socket: SocketType) -> Zmtp {
        let mechanisms = ServerMechanisms {
            null: true,
            ..ServerMechanisms::default()
        };
        let side = ServerSide::new(Limits::default(), mechanisms);
        Zmtp::with(Handshake::Binds(Box::new(side), socket))
    }

    fn with(handshake: Handshake) -> Zmtp {
        Zmtp {
            handshake,
            traffic: None,
            got: VecDeque::new(),
            wanted: Vec::new(),
            refused: None,
            pings: 0,
            pongs: 0,
            gathered: Gathered::default(),
        }
    }

    pub fn new(mechanism: ClientMechanism, socket: SocketType) -> Zmtp {
        Zmtp::named(mechanism, socket, b"")
    }

    /// A socket with a routing id, and with the same as the name of its service, which a REP has instead.
    pub fn named(mechanism: ClientMechanism, socket: SocketType, id: &[u8]) -> Zmtp {
        let service = [("X-Service", id)];
        let more = if id.is_empty() { &[][..] } else { &service };
        Zmtp::announcing(mechanism, socket, id, more)
    }

    /// A socket with a routing id that says more of itself.
    pub fn announcing(
        mechanism: ClientMechanism,
        socket: SocketType,
        identity: &[u8],
        more: &[(&str, &[u8])],
    ) -> Zmtp {
        let ours = Announcement {
            identity,
            more,
            ..Announcement::of(socket)
        };
        let side = ClientSide::new(Limits::default(), mechanism, &ours);
        Zmtp::with(Handshake::Connects(side))
    }

    fn greet(&mut self, up: &mut Vec<u8>) {
        match &mut self.handshake {
            Handshake::Connects(side) => side.greet(up),
            Handshake::Binds(side, _) => side.greet(up),
        }
    }

    /// Sends a message; nothing before the handshake is over.
    pub fn send(&mut self, frames: &[&[u8]], up: &mut Vec<u8>) {
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        for (at, frame) in frames.iter().enumerate() {
            traffic.frame(frame, at + 1 < frames.len(), up);
        }
    }

    pub fn subscribe(&mut self, prefix: &[u8], up: &mut Vec<u8>) {
        if let Some(traffic) = &mut self.traffic {
            traffic.subscribe(prefix, up);
        }
    }

    pub fn cancel(&mut self, prefix: &[u8], up: &mut Vec<u8>) {
        if let Some(traffic) = &mut self.traffic {
            traffic.cancel(prefix, up);
        }
    }

    fn shake_hands(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) -> bool {
        let handled = match &mut self.handshake {
            Handshake::Connects(side) => side.handle_input(down, up),
            Handshake::Binds(side, _) => side.handle_input(down, up),
        };
        let (len, event) = match handled {
            Ok(Some(step)) => step,
            Ok(None) => return false,
            Err(PeerFault::MECHANISM) => {
                self.refused = Some(b"mechanism".to_vec());
                return false;
            }
            Err(fault) => panic!("the broker breaks ZMTP: {fault}"),
        };
        match event {
            HandshakeEvent::Peer(_) => {
                self.traffic = match &mut self.handshake {
                    Handshake::Connects(side) => side.traffic(),
                    Handshake::Binds(side, socket) => side.ready(&Announcement::of(*socket), up),
                }
            }
            HandshakeEvent::Error(reason) => self.refused = Some(reason.to_vec()),
            HandshakeEvent::Consumed | HandshakeEvent::Login(_) => {}
        }
        down.drain(..len);
        true
    }
}

impl Client for Zmtp {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        while self.traffic.is_none() {
            if !self.shake_hands(down, up) {
                return;
            }
        }
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        let mut used = 0;
        loop {
            let handled = traffic.handle_input(&down[used..], &mut self.gathered);
            let Some((len, event)) = handled.expect("the broker speaks ZMTP") else {
                break;
            };
            used += len;
            match event {
                Event::Message(message) => self
                    .got
                    .push_back(message.frames().map(<[u8]>::to_vec).collect()),
                Event::Subscribe(prefix) => self.wanted.push(prefix.to_vec()),
                Event::Ping { context, .. } => {
                    self.pings += 1;
                    traffic.pong(context, up);
                }
                Event::Pong(_) => self.pongs += 1,
                Event::Consumed | Event::Cancel(_) | Event::Unknown { .. } => {}
            }
        }
        down.drain(..used);
    }
}

impl Testbed {
    pub fn zmtp_front(&mut self, anonymous: Option<Access>) -> AnyFront {
        let nonce = self.next_nonce();
        ZmtpFront::new(self.settings.zmtp.clone(), nonce, anonymous).into()
    }

    /// Connects a socket. Without `anonymous` the broker asks who it is.
    pub fn open_zmtp(
        &mut self,
        socket: SocketType,
        mechanism: ClientMechanism,
        anonymous: Option<Access>,
    ) -> Who<Zmtp> {
        self.connect_zmtp(Zmtp::new(mechanism, socket), anonymous)
    }

    /// Connects a socket of this program.
    pub fn connect_zmtp(&mut self, client: Zmtp, anonymous: Option<Access>) -> Who<Zmtp> {
        let front = self.zmtp_front(anonymous);
        let who = self.open(self.queue_shard(), front, client);
        self.write(who, |client, up| client.greet(up));
        self.rest();
        who
    }

    /// Has the broker connect to a socket that binds.
    pub fn zmtp_dialed(&mut self, dial: ZmtpDial, peer: SocketType) -> Who<Zmtp> {
        let nonce = self.next_nonce();
        let front = Arc::new(dial).dialed_front(nonce).expect("a front");
        let who = self.open(self.queue_shard(), front, Zmtp::bound(peer));
        self.write(who, |client, up| client.greet(up));
        self.rest();
        who
    }

    /// Connects a socket that needs no login.
    pub fn zmtp(&mut self, socket: SocketType) -> Who<Zmtp> {
        self.open_zmtp(socket, ClientMechanism::Null, Some(Access::ALL))
    }

    /// Connects a socket with a routing id that needs no login.
    pub fn zmtp_named(&mut self, socket: SocketType, id: &[u8]) -> Who<Zmtp> {
        let client = Zmtp::named(ClientMechanism::Null, socket, id);
        self.connect_zmtp(client, Some(Access::ALL))
    }

    pub fn zmtp_send(&mut self, who: Who<Zmtp>, frames: &[&[u8]]) {
        self.says(who, |client, up| client.send(frames, up));
    }

    /// Subscribes to a prefix.
    pub fn zmtp_subscribe(&mut self, who: Who<Zmtp>, prefix: &[u8]) {
        self.says(who, |client, up| client.subscribe(prefix, up));
    }

    /// The messages that arrived since this was last asked.
    pub fn zmtp_got(&mut self, who: Who<Zmtp>) -> Vec<Vec<Vec<u8>>> {
        self.client(who).got.drain(..).collect()
    }
}
