//! The server's end of a connection.

use crate::codec::{disconnect, *};
use crate::headers::unescaped;
use crate::known::Known;
use crate::scanner::{Frame, Scanner, line_ends, unpadded};
use crate::version::VERSIONS;
use crate::{Command, FrameLimits, HeaderWriter, PeerFault, Version};

/// Limits of a server for each of its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// Limits of a frame's size.
    pub frame: FrameLimits,
    /// The largest first frame, whose sender is not authenticated yet.
    pub connect: FrameLimits,
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  ExpectConnect --CONNECT--> ExpectConnected --connected()--> Connected --DISCONNECT--> Goodbye
///      |                          |                                |                        |
///      +---- error(), fault() ----+--------------------------------+------------------------+--> Closed
/// ```
#[derive(Debug)]
pub struct ServerSide {
    limits: ServerLimits,
    version: Version,
    state: State,
    scanner: Scanner,
    /// Receipt requested by the frame that broke the protocol.
    offender_receipt: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectConnect,
    /// CONNECT was handed out; the caller owes `connected`.
    ExpectConnected,
    Connected,
    /// DISCONNECT was handed out; what it waits for may still be written.
    Goodbye,
    Closed,
}

/// An event from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// First frame. Boxed: it is large, and once per connection.
    Connect(Box<ConnectFrame<'b>>),
    /// A message that the client sends.
    Send(SendFrame<'b>),
    /// The client asks for a new subscription.
    Subscribe(SubscribeFrame<'b>),
    /// The end of a subscription.
    Unsubscribe(UnsubscribeFrame<'b>),
    /// A message was taken.
    Ack(AckFrame<'b>),
    /// A message was not taken.
    Nack(AckFrame<'b>),
    /// The client begins a transaction.
    Begin(TransactionFrame<'b>),
    /// The client commits a transaction.
    Commit(TransactionFrame<'b>),
    /// A transaction does not happen.
    Abort(TransactionFrame<'b>),
    /// The client is about to close; a receipt that it asks for is its answer.
    Disconnect(DisconnectFrame<'b>),
    /// A sign of life without content. Their number depends on how the bytes arrive.
    HeartBeat,
}

impl ServerSide {
    /// A machine that waits for CONNECT.
    pub fn new(limits: ServerLimits) -> Self {
        ServerSide {
            limits,
            version: Version::V10,
            state: State::ExpectConnect,
            scanner: Scanner::default(),
            offender_receipt: None,
        }
    }

    /// The limits given to [`ServerSide::new`].
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// The version that was agreed on; 1.0 until then.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether CONNECTED was written and the connection has not ended.
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// The next frame out of `bytes`. `Ok(None)`: incomplete, nothing consumed; the next call must bring the same bytes
    /// and more, of which only the new ones are looked at. `Ok(Some((consumed, event)))`: the event borrows from
    /// `bytes` only, so the machine can be used while the event is held. `Err`: call [`ServerSide::fault`] and close.
    ///
    /// Between the CONNECT event and [`ServerSide::connected`] nothing comes out; what the client has sent already
    /// stays in `bytes`, so **call again after `connected`**. After DISCONNECT nothing comes out any more.
    #[inline]
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if !matches!(self.state, State::Connected | State::ExpectConnect) {
            return Ok(None);
        }
        let beats = line_ends(bytes);
        let rest = bytes.get(beats..).unwrap_or_default();
        match self.next_event(rest) {
            Ok(Some((len, event))) => {
                self.scanner.reset();
                Ok(Some((beats + len, event)))
            }
            // The rest will be at the start of the buffer next time, and its scanned part still holds.
            Ok(None) if beats > 0 => Ok(Some((beats, Event::HeartBeat))),
            Ok(None) => Ok(None),
            Err(fault) => {
                self.note_offender(rest);
                Err(fault)
            }
        }
    }

    #[inline]
    fn next_event<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (state, version) = (self.state, self.version);
        let admit = |command: Option<Command>| admit(command, state, version);
        let limits = if state == State::ExpectConnect {
            &self.limits.connect
        } else {
            &self.limits.frame
        };
        let Some(frame) = self.scanner.frame(bytes, limits, version, admit)? else {
            return Ok(None);
        };
        let len = frame.whole.len();
        let event = match frame.command {
            Command::Send => Event::Send(SendFrame::decode(&frame)?),
            Command::Ack => Event::Ack(AckFrame::decode(&frame)?),
            _ => {
                let event = other(&frame)?;
                match &event {
                    Event::Connect(connect) => {
                        self.version = connect.version;
                        self.state = State::ExpectConnected;
                    }
                    Event::Disconnect(_) => self.state = State::Goodbye,
                    _ => {}
                }
                event
            }
        };
        Ok(Some((len, event)))
    }

    /// Remembers what ERROR must name, and makes ready for an offender to be looked at again.
    #[cold]
    fn note_offender(&mut self, bytes: &[u8]) {
        let plain = self.scanner.command().is_none_or(Command::is_plain);
        let version = if plain { Version::V10 } else { self.version };
        let raw = self
            .scanner
            .place(Known::Receipt)
            .and_then(|place| bytes.get(place));
        let text = raw.and_then(|raw| std::str::from_utf8(raw).ok());
        let text = text.map(|text| {
            if self.version == Version::V10 {
                unpadded(text)
            } else {
                text
            }
        });
        self.offender_receipt = text.map(|text| unescaped(text, version).into());
        self.scanner.reset();
    }

    /// Answers CONNECT. Writes nothing unless a CONNECT waits for its answer. To refuse, call [`ServerSide::error`].
    pub fn connected(&mut self, c: &ConnectedOut<'_>, out: &mut Vec<u8>) {
        if self.state == State::ExpectConnected {
            c.encode(self.version, out);
            self.state = State::Connected;
        }
    }

    /// Delivers a message. `more` writes further headers behind those of `m`; it must not repeat them.
    #[inline]
    pub fn message(
        &self,
        m: &MessageOut<'_>,
        more: impl FnOnce(&mut HeaderWriter<'_>),
        out: &mut Vec<u8>,
    ) {
        if self.state == State::Connected {
            m.encode(self.version, more, out);
        }
    }

    /// Says that the frame with this `receipt` has been dealt with, and all before it.
    #[inline]
    pub fn receipt(&self, id: &str, out: &mut Vec<u8>) {
        if matches!(self.state, State::Connected | State::Goodbye) {
            disconnect::encode_receipt(id, self.version, out);
        }
    }

    /// A sign of life.
    #[inline]
    pub fn heart_beat(&self, out: &mut Vec<u8>) {
        if matches!(self.state, State::Connected | State::Goodbye) {
            out.push(b'\n');
        }
    }

    /// Ends the connection with words: `message` in short, `body` at length, `receipt_id` if the frame to blame asked
    /// for a receipt. Nothing is read or written after that. Close the connection. [1.2#ERROR]
    pub fn error(
        &mut self,
        message: &str,
        receipt_id: Option<&str>,
        body: &str,
        out: &mut Vec<u8>,
    ) {
        self.refuse(
            &ErrorOut {
                message,
                receipt_id,
                versions: None,
                body,
            },
            out,
        );
    }

    /// Ends the connection after a fault, as [`ServerSide::error`].
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        let receipt = self.offender_receipt.take();
        let versions = (*f == PeerFault::VERSION_UNSUPPORTED).then_some(VERSIONS);
        let body = f.to_string();
        self.refuse(
            &ErrorOut {
                message: f.what,
                receipt_id: receipt.as_deref(),
                versions,
                body: &body,
            },
            out,
        );
    }

    fn refuse(&mut self, e: &ErrorOut<'_>, out: &mut Vec<u8>) {
        if self.state != State::Closed {
            e.encode(self.version, out);
        }
        self.state = State::Closed;
    }
}

/// Whether this command may come now.
#[inline]
fn admit(command: Option<Command>, state: State, version: Version) -> Result<Command, PeerFault> {
    match (command, state) {
        (Some(command @ (Command::Connect | Command::Stomp)), State::ExpectConnect) => Ok(command),
        (_, State::ExpectConnect) => Err(PeerFault::EXPECTED_CONNECT),
        (Some(Command::Connect | Command::Stomp), _) => Err(PeerFault::SECOND_CONNECT),
        (Some(command), _) if command.is_of_server() => Err(PeerFault::DIRECTION),
        (Some(Command::Nack), _) if version == Version::V10 => {
            Err(PeerFault::COMMAND_NOT_IN_VERSION)
        }
        (Some(command), _) => Ok(command),
        (None, _) => Err(PeerFault::COMMAND_UNKNOWN),
    }
}

#[inline(never)]
fn other<'b>(frame: &Frame<'_, 'b>) -> Result<Event<'b>, PeerFault> {
    Ok(match frame.command {
        Command::Connect | Command::Stomp => Event::Connect(Box::new(ConnectFrame::decode(frame)?)),
        Command::Send => Event::Send(SendFrame::decode(frame)?),
        Command::Subscribe => Event::Subscribe(SubscribeFrame::decode(frame)?),
        Command::Unsubscribe => Event::Unsubscribe(UnsubscribeFrame::decode(frame)?),
        Command::Ack => Event::Ack(AckFrame::decode(frame)?),
        Command::Nack => Event::Nack(AckFrame::decode(frame)?),
        Command::Begin => Event::Begin(TransactionFrame::decode(frame)?),
        Command::Commit => Event::Commit(TransactionFrame::decode(frame)?),
        Command::Abort => Event::Abort(TransactionFrame::decode(frame)?),
        Command::Disconnect => Event::Disconnect(DisconnectFrame::decode(frame)),
        // `admit` let none of these in.
        Command::Connected | Command::Message | Command::Receipt | Command::Error => {
            return Err(PeerFault::DIRECTION);
        }
    })
}
