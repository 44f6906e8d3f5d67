//! The handshake of the end that authenticates: usually the one that accepted the connection.

use crate::command::{self, ERROR, HELLO, INITIATE, READY, WELCOME};
use crate::curve::{Cipher, Cookie};
use crate::greeting::{self, Greeting};
use crate::handshake::next_command;
use crate::{
    Announcement, CurveServer, HandshakeEvent, Limits, Login, Mechanism, Metadata, Peer, PeerFault,
    Traffic, Version,
};

/// Mechanisms that a listener accepts. With more than one the client's choice decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMechanisms {
    /// Peers without credentials (NULL).
    pub null: bool,
    /// Clients with a user name and a password.
    pub plain: bool,
    /// Clients that know the server's public key; [`Peer::curve_key`] identifies them.
    pub curve: Option<CurveServer>,
}

impl ServerMechanisms {
    fn has(&self, mechanism: Mechanism) -> bool {
        match mechanism {
            Mechanism::Null => self.null,
            Mechanism::Plain => self.plain,
            Mechanism::Curve => self.curve.is_some(),
        }
    }
}

/// The server's end of a handshake: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  NULL   Greeting --READY----------------------------------------> Peer --ready()--> Traffic
///  PLAIN  Greeting --HELLO--> Login --welcome()--> --INITIATE-----> Peer --ready()--> Traffic
///  CURVE  Greeting --HELLO--> --INITIATE--------------------------> Peer --ready()--> Traffic
/// ```
#[derive(Debug)]
pub struct ServerSide {
    limits: Limits,
    mechanisms: ServerMechanisms,
    /// Octets of our greeting that were sent.
    greeted: usize,
    version: Version,
    peer_subscribes: bool,
    cipher: Option<Box<Cipher>>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Greeting,
    /// NULL: the client's READY comes first.
    Ready,
    Hello,
    /// HELLO was handed out; the caller owes `welcome`.
    Login,
    Initiate,
    CurveHello,
    CurveInitiate(Cookie),
    /// The peer was handed out; the caller owes `ready`.
    Peer,
    Closed,
}

impl ServerSide {
    /// A machine that has not greeted yet.
    pub fn new(limits: Limits, mechanisms: ServerMechanisms) -> Self {
        ServerSide {
            limits,
            mechanisms,
            greeted: 0,
            version: Version::V30,
            peer_subscribes: false,
            cipher: None,
            state: State::Greeting,
        }
    }

    /// Begins; call it once, before all else.
    ///
    /// A greeting names one mechanism. Where the listener takes several, the part that names it waits for the client's
    /// greeting: no client waits for more than 11 octets before it sends its own. [37#Version_Negotiation]
    pub fn greet(&mut self, out: &mut Vec<u8>) {
        let mut offered = Mechanism::ALL
            .into_iter()
            .filter(|m| self.mechanisms.has(*m));
        let first = offered.next().unwrap_or(Mechanism::Null);
        let len = if offered.next().is_some() {
            greeting::FIRST_LEN
        } else {
            greeting::LEN
        };
        self.greet_up_to(len, first, out);
    }

    fn greet_up_to(&mut self, len: usize, mechanism: Mechanism, out: &mut Vec<u8>) {
        let greeting = greeting::encode(mechanism, true);
        out.extend_from_slice(greeting.get(self.greeted..len).unwrap_or_default());
        self.greeted = len;
    }

    /// Returns the next event in `bytes`. `Ok(None)`: incomplete, nothing consumed; the next call must bring the same
    /// bytes and more. `Err`: close the connection, after `out` was sent.
    ///
    /// After [`HandshakeEvent::Login`] and [`HandshakeEvent::Peer`] nothing comes out until they are answered, so **call
    /// again after `welcome`**, and give what is left after `ready` to the [`Traffic`].
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, HandshakeEvent<'b>)>, PeerFault> {
        if self.state == State::Greeting {
            return match Greeting::decode(bytes)? {
                None => Ok(None),
                Some(theirs) => {
                    self.on_greeting(theirs, out)?;
                    Ok(Some((greeting::LEN, HandshakeEvent::Consumed)))
                }
            };
        }
        if matches!(self.state, State::Login | State::Peer | State::Closed) {
            return Ok(None);
        }
        let Some((len, name, data)) = next_command(bytes, &self.limits)? else {
            return Ok(None);
        };
        let event = match (&self.state, name) {
            (State::Ready, READY) | (State::Initiate, INITIATE) => {
                self.on_peer(Peer::new(self.version, Metadata::parse(data)?)?)
            }
            (State::Ready, ERROR) => {
                self.state = State::Closed;
                HandshakeEvent::Error(command::error_reason(data)?)
            }
            (State::Hello, HELLO) => {
                self.state = State::Login;
                HandshakeEvent::Login(Login::decode(data)?)
            }
            (State::CurveHello, HELLO) => {
                self.on_curve_hello(data, out)?;
                HandshakeEvent::Consumed
            }
            (State::CurveInitiate(cookie), INITIATE) => {
                let curve = self.mechanisms.curve.as_ref();
                let curve = curve.ok_or(PeerFault::UNEXPECTED_COMMAND)?;
                let (cipher, key, metadata) = curve.initiate(cookie, data)?;
                self.cipher = Some(Box::new(cipher));
                let mut peer = Peer::new(self.version, Metadata::parse(metadata)?)?;
                peer.curve_key = Some(key);
                self.on_peer(peer)
            }
            _ => return Err(PeerFault::UNEXPECTED_COMMAND),
        };
        Ok(Some((len, event)))
    }

    fn on_greeting(&mut self, theirs: Greeting, out: &mut Vec<u8>) -> Result<(), PeerFault> {
        let mechanism = theirs.mechanism.filter(|m| self.mechanisms.has(*m));
        // "A peer that reads a full greeting, including mechanism, MUST also send a full greeting", also to one that is
        // refused. [37#Authentication_and_Confidentiality]
        self.greet_up_to(greeting::LEN, mechanism.unwrap_or(Mechanism::Null), out);
        let mechanism = mechanism.ok_or(PeerFault::MECHANISM)?;
        if theirs.as_server && mechanism != Mechanism::Null {
            return Err(PeerFault::AS_SERVER);
        }
        self.version = theirs.version;
        self.state = match mechanism {
            Mechanism::Null => State::Ready,
            Mechanism::Plain => State::Hello,
            Mechanism::Curve => State::CurveHello,
        };
        Ok(())
    }

    fn on_curve_hello(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), PeerFault> {
        let curve = self.mechanisms.curve.as_ref();
        let curve = curve.ok_or(PeerFault::UNEXPECTED_COMMAND)?;
        let (welcome, cookie) = curve.welcome(data)?;
        command::put(WELCOME, &[&welcome], out);
        self.state = State::CurveInitiate(cookie);
        Ok(())
    }

    fn on_peer<'b>(&mut self, peer: Peer<'b>) -> HandshakeEvent<'b> {
        self.peer_subscribes = peer.socket_type.subscribes();
        self.state = State::Peer;
        HandshakeEvent::Peer(Box::new(peer))
    }

    /// Accepts a login. Writes nothing unless one waits for its answer.
    pub fn welcome(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Login {
            command::put(WELCOME, &[], out);
            self.state = State::Initiate;
        }
    }

    /// Accepts the peer and ends the handshake; `None`, and nothing written, unless a peer waits for it.
    pub fn ready(&mut self, ours: &Announcement<'_>, out: &mut Vec<u8>) -> Option<Traffic> {
        if self.state != State::Peer {
            return None;
        }
        let mut metadata = ours.encode();
        let mut cipher = self.cipher.take();
        if let Some(cipher) = &mut cipher {
            metadata = cipher.seal_ready(&metadata);
        }
        command::put(READY, &[&metadata], out);
        self.state = State::Closed;
        Some(Traffic::new(
            &self.limits,
            self.version,
            self.peer_subscribes,
            cipher,
        ))
    }

    /// Refuses a login or a peer; close the connection then. libzmq understands status codes of RFC 27 as reason: `400`
    /// keeps it from coming back, `300` does not.
    pub fn error(&mut self, reason: &str, out: &mut Vec<u8>) {
        if matches!(self.state, State::Login | State::Peer) {
            command::put_error(reason, out);
        }
        self.state = State::Closed;
    }
}
