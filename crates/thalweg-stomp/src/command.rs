//! The first line of a frame.

/// Command of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// The client's first frame.
    Connect,
    /// The same by its newer name. [1.1#CONNECT_or_STOMP_Frame]
    Stomp,
    /// The server's first frame.
    Connected,
    /// A message of a client.
    Send,
    /// The client asks for a new subscription.
    Subscribe,
    /// The end of a subscription.
    Unsubscribe,
    /// A message was taken.
    Ack,
    /// A message was not taken; not in 1.0.
    Nack,
    /// The client begins a transaction.
    Begin,
    /// The client commits a transaction.
    Commit,
    /// A transaction does not happen.
    Abort,
    /// The client's last frame.
    Disconnect,
    /// A message to a client.
    Message,
    /// A frame that asked for it has been dealt with.
    Receipt,
    /// The server's last frame.
    Error,
}

impl Command {
    /// Every command of the three versions.
    pub const ALL: [Command; 15] = [
        Command::Connect,
        Command::Stomp,
        Command::Connected,
        Command::Send,
        Command::Subscribe,
        Command::Unsubscribe,
        Command::Ack,
        Command::Nack,
        Command::Begin,
        Command::Commit,
        Command::Abort,
        Command::Disconnect,
        Command::Message,
        Command::Receipt,
        Command::Error,
    ];

    /// The command with this name; names are upper case.
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Option<Command> {
        Some(match name {
            b"SEND" => Command::Send,
            b"MESSAGE" => Command::Message,
            b"ACK" => Command::Ack,
            b"NACK" => Command::Nack,
            b"RECEIPT" => Command::Receipt,
            b"CONNECT" => Command::Connect,
            b"STOMP" => Command::Stomp,
            b"CONNECTED" => Command::Connected,
            b"SUBSCRIBE" => Command::Subscribe,
            b"UNSUBSCRIBE" => Command::Unsubscribe,
            b"BEGIN" => Command::Begin,
            b"COMMIT" => Command::Commit,
            b"ABORT" => Command::Abort,
            b"DISCONNECT" => Command::Disconnect,
            b"ERROR" => Command::Error,
            _ => return None,
        })
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Connect => "CONNECT",
            Command::Stomp => "STOMP",
            Command::Connected => "CONNECTED",
            Command::Send => "SEND",
            Command::Subscribe => "SUBSCRIBE",
            Command::Unsubscribe => "UNSUBSCRIBE",
            Command::Ack => "ACK",
            Command::Nack => "NACK",
            Command::Begin => "BEGIN",
            Command::Commit => "COMMIT",
            Command::Abort => "ABORT",
            Command::Disconnect => "DISCONNECT",
            Command::Message => "MESSAGE",
            Command::Receipt => "RECEIPT",
            Command::Error => "ERROR",
        }
    }

    /// Whether such a frame may have a body. [1.2#Body]
    pub(crate) const fn has_body(self) -> bool {
        matches!(self, Command::Send | Command::Message | Command::Error)
    }

    /// Whether servers send it.
    pub(crate) const fn is_of_server(self) -> bool {
        matches!(
            self,
            Command::Connected | Command::Message | Command::Receipt | Command::Error
        )
    }

    /// Whether its headers are never escaped, because they are older than the agreement on a version.
    /// [1.2#Value_Encoding]
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Command::Connect | Command::Stomp | Command::Connected)
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_are_one_to_one() {
        for command in Command::ALL {
            assert_eq!(
                Command::from_bytes(command.name().as_bytes()),
                Some(command)
            );
        }
        assert_eq!(Command::from_bytes(b"send"), None);
    }
}
