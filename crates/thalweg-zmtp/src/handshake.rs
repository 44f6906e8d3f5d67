//! Common to both ends of a handshake.

use crate::frame::Head;
use crate::{Metadata, PeerFault, SocketType, Version, command};

/// Limits of this end for its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest command of the handshake, whose sender is not known yet.
    pub handshake_bytes_max: u64,
    /// Largest command afterwards, and so the longest subscription.
    pub command_bytes_max: u64,
    /// Largest message: all its frames with their heads of 2 or 9 octets each, decrypted.
    pub message_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshake_bytes_max: 8 << 10,
            command_bytes_max: 64 << 10,
            message_bytes_max: 1 << 20,
        }
    }
}

/// An event in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeEvent<'b> {
    /// A step that the machine has answered itself. Send what it wrote.
    Consumed,
    /// PLAIN, on the server's end: [`ServerSide::welcome`](crate::ServerSide::welcome) or
    /// [`ServerSide::error`](crate::ServerSide::error) answers it.
    Login(Login<'b>),
    /// The peer is known. On the server's end [`ServerSide::ready`](crate::ServerSide::ready) or
    /// [`ServerSide::error`](crate::ServerSide::error) answers it; on the client's end the handshake is over, and
    /// [`ClientSide::traffic`](crate::ClientSide::traffic) has what follows. Boxed: it is large, and once per connection.
    Peer(Box<Peer<'b>>),
    /// The peer refuses. libzmq says a status code of RFC 27: 400 for a wrong login, 300 for "try again later". Close the
    /// connection, and do not come back with the same credentials. [37#Error_Handling]
    Error(&'b [u8]),
}

/// Credentials of a client that logs in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login<'b> {
    /// The user name, as octets; at most 255.
    pub username: &'b [u8],
    /// The password, as octets; at most 255.
    pub password: &'b [u8],
}

impl std::fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.username.escape_ascii())
    }
}

impl<'b> Login<'b> {
    pub(crate) fn decode(data: &'b [u8]) -> Result<Self, PeerFault> {
        let text = |bytes: &'b [u8]| {
            let (len, rest) = bytes.split_first()?;
            rest.split_at_checked(usize::from(*len))
        };
        let (username, rest) = text(data).ok_or(PeerFault::LOGIN)?;
        match text(rest) {
            Some((password, [])) => Ok(Login { username, password }),
            _ => Err(PeerFault::LOGIN),
        }
    }
}

/// Properties of the other end from the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer<'b> {
    /// The version that the connection speaks.
    pub version: Version,
    /// Type of its socket.
    pub socket_type: SocketType,
    /// All that it says about itself.
    pub metadata: Metadata<'b>,
    /// CURVE, on the server's end: the client's permanent public key. The client has proven that it has the secret one;
    /// its user has to be looked up.
    pub curve_key: Option<[u8; 32]>,
}

impl<'b> Peer<'b> {
    pub(crate) fn new(version: Version, metadata: Metadata<'b>) -> Result<Self, PeerFault> {
        let socket_type = metadata.socket_type().ok_or(PeerFault::SOCKET_TYPE)?;
        Ok(Peer {
            version,
            socket_type,
            metadata,
            curve_key: None,
        })
    }
}

/// A command of the handshake: its octets, name and data.
pub(crate) type Command<'b> = (usize, &'b [u8], &'b [u8]);

/// The command at the start of `bytes`, or `None` if it is incomplete.
pub(crate) fn next_command<'b>(
    bytes: &'b [u8],
    limits: &Limits,
) -> Result<Option<Command<'b>>, PeerFault> {
    let Some(head) = Head::decode(bytes)? else {
        return Ok(None);
    };
    if !head.is_command() {
        return Err(PeerFault::EXPECTED_COMMAND);
    }
    if head.body_len > limits.handshake_bytes_max {
        return Err(PeerFault::COMMAND_TOO_LARGE);
    }
    let len = head.frame_len() as usize;
    let Some(body) = bytes.get(head.len..len) else {
        return Ok(None);
    };
    let (name, data) = command::split(body)?;
    Ok(Some((len, name, data)))
}
