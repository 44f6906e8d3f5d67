//! The client's end of a connection.

use std::borrow::Cow;

use crate::codec::{disconnect, subscribe, transaction, *};
use crate::scanner::{Frame, Scanner, line_ends};
use crate::{Command, FrameLimits, HeaderWriter, PeerFault, Version};

/// An event from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent<'b> {
    /// The connection is accepted.
    Connected(Box<ConnectedFrame<'b>>),
    /// A message for one of our subscriptions.
    Message(MessageFrame<'b>),
    /// The frame that asked for this receipt has been dealt with.
    Receipt(Cow<'b, str>),
    /// The server ends the connection.
    Error(ErrorFrame<'b>),
    /// A sign of life without content. Their number depends on how the bytes arrive.
    HeartBeat,
}

/// The client's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer. Make a new one
/// for each connection. Verbs write nothing unless connected.
///
/// ```text
///  ExpectConnect --connect()--> ExpectConnected --CONNECTED--> Connected --disconnect()--> Goodbye --ERROR--> Closed
/// ```
#[derive(Debug)]
pub struct ClientSide {
    limits: FrameLimits,
    version: Version,
    /// The versions that CONNECT offered.
    offered: (Version, Version),
    state: State,
    scanner: Scanner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The caller owes `connect`.
    ExpectConnect,
    ExpectConnected,
    Connected,
    /// DISCONNECT was written; its receipt may come, and messages that were under way.
    Goodbye,
    Closed,
}

impl ClientSide {
    /// A machine that has not sent CONNECT yet.
    pub fn new(limits: FrameLimits) -> Self {
        ClientSide {
            limits,
            version: Version::V10,
            offered: (Version::V10, Version::V12),
            state: State::ExpectConnect,
            scanner: Scanner::default(),
        }
    }

    /// The version that was agreed on; 1.0 until then.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether CONNECTED came and the connection has not ended.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// The next frame out of `bytes`; as `ServerSide::handle_input`. After ERROR nothing comes out any more.
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        if matches!(self.state, State::ExpectConnect | State::Closed) {
            return Ok(None);
        }
        let beats = line_ends(bytes);
        let rest = bytes.get(beats..).unwrap_or_default();
        let next = self.next_event(rest);
        if !matches!(next, Ok(None)) {
            self.scanner.reset();
        }
        match next? {
            Some((len, event)) => Ok(Some((beats + len, event))),
            None if beats > 0 => Ok(Some((beats, ClientEvent::HeartBeat))),
            None => Ok(None),
        }
    }

    fn next_event<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let state = self.state;
        let admit = |command: Option<Command>| admit(command, state);
        let Some(frame) = self
            .scanner
            .frame(bytes, &self.limits, self.version, admit)?
        else {
            return Ok(None);
        };
        let len = frame.whole.len();
        let event = event(&frame)?;
        match &event {
            ClientEvent::Connected(connected) => {
                if !(self.offered.0..=self.offered.1).contains(&connected.version) {
                    return Err(PeerFault::VERSION_UNASKED);
                }
                self.version = connected.version;
                self.state = State::Connected;
            }
            ClientEvent::Error(_) => self.state = State::Closed,
            _ => {}
        }
        Ok(Some((len, event)))
    }

    /// Appends the CONNECT frame; called once, before anything else.
    pub fn connect(&mut self, c: &ConnectOut<'_>, out: &mut Vec<u8>) {
        if self.state == State::ExpectConnect {
            c.encode(out);
            self.offered = (c.lowest, c.highest);
            self.state = State::ExpectConnected;
        }
    }

    /// Sends a message. `more` writes further headers behind those of `m`; it must not repeat them.
    pub fn send(
        &self,
        m: &SendOut<'_>,
        more: impl FnOnce(&mut HeaderWriter<'_>),
        out: &mut Vec<u8>,
    ) {
        if self.is_connected() {
            m.encode(self.version, more, out);
        }
    }

    /// Appends a SUBSCRIBE frame.
    pub fn subscribe(&self, s: &SubscribeOut<'_>, out: &mut Vec<u8>) {
        if self.is_connected() {
            s.encode(self.version, out);
        }
    }

    /// Ends a subscription that has an id.
    pub fn unsubscribe(
        &self,
        id: &str,
        receipt: Option<&str>,
        headers: &[(&str, &str)],
        out: &mut Vec<u8>,
    ) {
        if self.is_connected() {
            subscribe::unsubscribe((Some(id), None), receipt, headers, self.version, out);
        }
    }

    /// Ends a subscription without an id, in 1.0; nothing is written in later versions.
    pub fn unsubscribe_destination(
        &self,
        destination: &str,
        receipt: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        if self.is_connected() && self.version == Version::V10 {
            subscribe::unsubscribe((None, Some(destination)), receipt, &[], self.version, out);
        }
    }

    /// A message was taken.
    pub fn ack(&self, a: &AckOut<'_>, out: &mut Vec<u8>) {
        if self.is_connected() {
            a.encode(Command::Ack, self.version, out);
        }
    }

    /// A message was not taken. Nothing is written in 1.0, which has no word for it.
    pub fn nack(&self, a: &AckOut<'_>, out: &mut Vec<u8>) {
        if self.is_connected() && self.version != Version::V10 {
            a.encode(Command::Nack, self.version, out);
        }
    }

    /// Appends a BEGIN frame; `name` is unique among open transactions.
    pub fn begin(&self, name: &str, receipt: Option<&str>, out: &mut Vec<u8>) {
        self.transaction(Command::Begin, name, receipt, out);
    }

    /// Makes a transaction happen.
    pub fn commit(&self, name: &str, receipt: Option<&str>, out: &mut Vec<u8>) {
        self.transaction(Command::Commit, name, receipt, out);
    }

    /// Gives a transaction up.
    pub fn abort(&self, name: &str, receipt: Option<&str>, out: &mut Vec<u8>) {
        self.transaction(Command::Abort, name, receipt, out);
    }

    fn transaction(&self, command: Command, name: &str, receipt: Option<&str>, out: &mut Vec<u8>) {
        if self.is_connected() {
            transaction::encode(command, name, receipt, self.version, out);
        }
    }

    /// Says goodbye. With a receipt, wait for it before closing. [1.2#DISCONNECT]
    pub fn disconnect(&mut self, receipt: Option<&str>, out: &mut Vec<u8>) {
        if self.is_connected() {
            disconnect::encode(receipt, self.version, out);
            self.state = State::Goodbye;
        }
    }

    /// A sign of life.
    pub fn heart_beat(&self, out: &mut Vec<u8>) {
        if self.is_connected() {
            out.push(b'\n');
        }
    }
}

fn admit(command: Option<Command>, state: State) -> Result<Command, PeerFault> {
    match (command, state) {
        (Some(command @ (Command::Connected | Command::Error)), State::ExpectConnected) => {
            Ok(command)
        }
        (_, State::ExpectConnected) => Err(PeerFault::EXPECTED_CONNECTED),
        (Some(Command::Connected), _) => Err(PeerFault::SECOND_CONNECTED),
        (Some(command), _) if command.is_of_server() => Ok(command),
        (Some(_), _) => Err(PeerFault::DIRECTION),
        (None, _) => Err(PeerFault::COMMAND_UNKNOWN),
    }
}

fn event<'b>(frame: &Frame<'_, 'b>) -> Result<ClientEvent<'b>, PeerFault> {
    Ok(match frame.command {
        Command::Message => ClientEvent::Message(MessageFrame::decode(frame)?),
        Command::Receipt => ClientEvent::Receipt(disconnect::decode_receipt(frame)?),
        Command::Error => ClientEvent::Error(ErrorFrame::decode(frame)),
        Command::Connected => ClientEvent::Connected(Box::new(ConnectedFrame::decode(frame)?)),
        // `admit` let none of the others in.
        _ => return Err(PeerFault::DIRECTION),
    })
}
