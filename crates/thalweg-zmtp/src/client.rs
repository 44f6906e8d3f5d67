//! The handshake of the end that is authenticated: usually the one that dialled.

use crate::command::{self, ERROR, HELLO, INITIATE, READY, WELCOME};
use crate::curve::{Cipher, Hello};
use crate::greeting::{self, Greeting};
use crate::handshake::next_command;
use crate::{
    Announcement, CurveClient, HandshakeEvent, Limits, Mechanism, Metadata, Peer, PeerFault,
    SocketType, Traffic, Version,
};

/// Credentials of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientMechanism {
    /// Without any credentials: the mechanism NULL.
    Null,
    /// By user name and password, at most 255 octets each; what is longer is cut.
    Plain {
        /// The user name, as octets.
        username: Vec<u8>,
        /// The password, as octets.
        password: Vec<u8>,
    },
    /// By the secret key behind a public one.
    Curve(Box<CurveClient>),
}

impl ClientMechanism {
    fn name(&self) -> Mechanism {
        match self {
            ClientMechanism::Null => Mechanism::Null,
            ClientMechanism::Plain { .. } => Mechanism::Plain,
            ClientMechanism::Curve(_) => Mechanism::Curve,
        }
    }
}

impl std::fmt::Debug for ClientMechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name().name())
    }
}

/// The client's end of a handshake: bytes in, events out. It decides nothing, so that it needs no verbs.
///
/// ```text
///  NULL   Greeting --READY--> --READY--------------------------------> Peer --traffic()--> Traffic
///  PLAIN, CURVE
///         Greeting --HELLO--> --WELCOME--> --INITIATE--> --READY-----> Peer --traffic()--> Traffic
///         (what is sent stands before the arrow of what it is answered with)
/// ```
#[derive(Debug)]
pub struct ClientSide {
    limits: Limits,
    mechanism: ClientMechanism,
    socket_type: SocketType,
    metadata: Vec<u8>,
    version: Version,
    peer_subscribes: bool,
    cipher: Option<Box<Cipher>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Greeting,
    /// HELLO was sent; by CURVE it has a state.
    Welcome(Option<Box<Hello>>),
    Ready,
    Over,
    Closed,
}

impl ClientSide {
    /// A machine that has not greeted yet.
    pub fn new(limits: Limits, mechanism: ClientMechanism, ours: &Announcement<'_>) -> Self {
        ClientSide {
            limits,
            mechanism,
            socket_type: ours.socket_type,
            metadata: ours.encode(),
            version: Version::V30,
            peer_subscribes: false,
            cipher: None,
            state: State::Greeting,
        }
    }

    /// Begins; call it once, before all else.
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&greeting::encode(self.mechanism.name(), false));
    }

    /// The next step out of `bytes`, as [`ServerSide::handle_input`](crate::ServerSide::handle_input).
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, HandshakeEvent<'b>)>, PeerFault> {
        match self.state {
            State::Over | State::Closed => return Ok(None),
            State::Greeting => {
                return match Greeting::decode(bytes)? {
                    None => Ok(None),
                    Some(theirs) => {
                        self.on_greeting(theirs, out)?;
                        Ok(Some((greeting::LEN, HandshakeEvent::Consumed)))
                    }
                };
            }
            _ => {}
        }
        let Some((len, name, data)) = next_command(bytes, &self.limits)? else {
            return Ok(None);
        };
        let event = match (&self.state, name) {
            (State::Welcome(_), WELCOME) => {
                self.on_welcome(data, out)?;
                HandshakeEvent::Consumed
            }
            (State::Ready, READY) => {
                let metadata = match &mut self.cipher {
                    None => Metadata::parse(data)?,
                    Some(cipher) => Metadata::parse(cipher.open_ready(data)?)?,
                };
                self.on_ready(metadata)?
            }
            (_, ERROR) => {
                self.state = State::Closed;
                HandshakeEvent::Error(command::error_reason(data)?)
            }
            _ => return Err(PeerFault::UNEXPECTED_COMMAND),
        };
        Ok(Some((len, event)))
    }

    fn on_greeting(&mut self, theirs: Greeting, out: &mut Vec<u8>) -> Result<(), PeerFault> {
        // The peer's as-server means nothing: libzmq always says 0.
        if theirs.mechanism != Some(self.mechanism.name()) {
            return Err(PeerFault::MECHANISM);
        }
        self.version = theirs.version;
        self.state = match &self.mechanism {
            ClientMechanism::Null => {
                command::put(READY, &[&self.metadata], out);
                State::Ready
            }
            ClientMechanism::Plain { username, password } => {
                let [username, password] = [username, password].map(|text| {
                    let text = text.get(..255).unwrap_or(text);
                    (text.len() as u8, text)
                });
                let data: [&[u8]; 4] = [&[username.0], username.1, &[password.0], password.1];
                command::put(HELLO, &data, out);
                State::Welcome(None)
            }
            ClientMechanism::Curve(curve) => {
                let (data, hello) = curve.hello().ok_or(PeerFault::CURVE_BOX)?;
                command::put(HELLO, &[&data], out);
                State::Welcome(Some(Box::new(hello)))
            }
        };
        Ok(())
    }

    fn on_welcome(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), PeerFault> {
        match (&self.mechanism, &self.state) {
            (ClientMechanism::Curve(curve), State::Welcome(Some(hello))) => {
                let (initiate, cipher) = curve.initiate(hello, data, &self.metadata)?;
                command::put(INITIATE, &[&initiate], out);
                self.cipher = Some(Box::new(cipher));
            }
            _ if !data.is_empty() => return Err(PeerFault::WELCOME),
            _ => command::put(INITIATE, &[&self.metadata], out),
        }
        self.state = State::Ready;
        Ok(())
    }

    fn on_ready<'b>(&mut self, metadata: Metadata<'b>) -> Result<HandshakeEvent<'b>, PeerFault> {
        let peer = Peer::new(self.version, metadata)?;
        if !self.socket_type.goes_with(peer.socket_type) {
            return Err(PeerFault::SOCKET_TYPE);
        }
        self.peer_subscribes = peer.socket_type.subscribes();
        self.state = State::Over;
        Ok(HandshakeEvent::Peer(Box::new(peer)))
    }

    /// Returns the traffic after the handshake; `None` before its end, and after the first call.
    pub fn traffic(&mut self) -> Option<Traffic> {
        if !matches!(self.state, State::Over) {
            return None;
        }
        self.state = State::Closed;
        Some(Traffic::new(
            &self.limits,
            self.version,
            self.peer_subscribes,
            self.cipher.take(),
        ))
    }
}
