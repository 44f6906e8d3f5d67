//! The client's end of a connection.

use crate::channels::ChannelState;
use crate::codec::frame::{self, FRAME_MIN, Frame, PROTOCOL_HEADER, frame_len, put_frame};
use crate::codec::{Sender, put_content};
use crate::gathering::Gathered;
use crate::intake::{Content, Farewell, Incoming, Intake, IntakeLimits, listen_for_farewell};
use crate::methods::{Method, ReplyCode, basic, channel, confirm, connection};
use crate::outlet::{put_ack, put_channel_close, put_connection_close, put_heartbeat, put_method};
use crate::{BasicProperties, ContentHeader, MethodId, PeerFault, Scope, Table, TooLarge};

/// The client's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  Idle --connect()--> ExpectStart --> OweStartOk --start_ok()--> ExpectTune --> OweTuneOk --tune_ok()--> OweOpen
///                                                    secure_ok() <-> Secure                                |
///  Closed <--CloseOk, Close-- Closing <--close(), fault()-- Open <--OpenOk-- ExpectOpenOk <--open()--------+
/// ```
#[derive(Debug)]
pub struct ClientSide {
    state: State,
    /// Largest frame that we take.
    frame_max: u32,
    heartbeat: u16,
    intake: Intake,
    /// Channels with publisher confirms, and the number of their last publish. Few, mostly one.
    confirms: Vec<(u16, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    ExpectStart,
    OweStartOk,
    /// Tune or another step of authentication.
    ExpectTune,
    OweSecureOk,
    OweTuneOk,
    OweOpen,
    ExpectOpenOk,
    Open,
    Closing,
    Closed,
}

/// The limits that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOffer {
    /// Highest channel number; 0: no limit.
    pub channel_max: u16,
    /// Largest frame; 0: no limit.
    pub frame_max: u32,
    /// Seconds between heartbeats; 0: none.
    pub heartbeat: u16,
}

/// An event from a server.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an event lives for one turn of a loop; a box would be allocated per message"
)]
pub enum ClientEvent<'b> {
    /// It does not speak AMQP 0-9-1 but this: close.
    WrongProtocol([u8; 8]),
    /// The server's properties and mechanisms: answer with [`ClientSide::start_ok`].
    Start(connection::Start<'b>),
    /// Another step of authentication: answer with [`ClientSide::secure_ok`].
    Secure {
        /// Challenge of the SASL mechanism.
        challenge: &'b [u8],
    },
    /// Logged in; the limits it offers: answer with [`ClientSide::tune_ok`] and [`ClientSide::open`].
    Tune(ServerOffer),
    /// The connection can be used.
    OpenOk,
    /// Goodbye: answer with [`ClientSide::close_ok`] and close.
    CloseConnection {
        /// Why, as a number.
        code: u16,
        /// The broker's reply text, for people.
        text: &'b str,
        /// The method that caused it, if any.
        cause: MethodId,
    },
    /// Our `connection.close` is confirmed: close.
    CloseConnectionOk,
    /// The new credentials hold.
    UpdateSecretOk,
    /// Publishing is held back.
    Blocked {
        /// The resource that the server is short of.
        reason: &'b str,
    },
    /// The broker accepts publishes again.
    Unblocked,
    /// The channel can be used.
    ChannelOpenOk(u16),
    /// The end of a channel: answer with [`ClientSide::channel_close_ok`].
    ChannelClose {
        /// Number of the channel.
        ch: u16,
        /// Why, as a number.
        code: u16,
        /// The broker's reply text, for people.
        text: &'b str,
        /// The method that caused it, if any.
        cause: MethodId,
    },
    /// Our `channel.close` is confirmed; the number is free.
    ChannelCloseOk(u16),
    /// The broker sent a heartbeat.
    Heartbeat,
    /// A message: a delivery, the answer to a get, or one that comes back.
    Content {
        /// Number of the channel.
        ch: u16,
        /// `BasicDeliver`, `BasicGetOk` or `BasicReturn`.
        method: Method<'b>,
        /// Properties of the message, decoded on request.
        properties: BasicProperties<'b>,
        /// Body of the message, all its frames joined.
        payload: &'b [u8],
        /// The content header as it came, for [`ContentHeader::Raw`].
        header: &'b [u8],
    },
    /// Everything else that is said on a channel; `BasicAck` and `BasicNack` are confirms.
    Method {
        /// Number of the channel.
        ch: u16,
        /// The method, which has no content.
        method: Method<'b>,
    },
    /// The server made an error that concerns only one channel: call [`ClientSide::fault`] and go on.
    ChannelFault(PeerFault),
    /// Bytes were taken in that mean nothing yet, or nothing any more.
    Consumed,
}

impl ClientSide {
    /// A machine that takes frames of `frame_max` bytes and messages of `message_bytes_max`.
    pub fn new(frame_max: u32, message_bytes_max: u64) -> Self {
        let frame_max = frame_max.max(FRAME_MIN);
        let gathered_bytes_max =
            usize::try_from(message_bytes_max.saturating_mul(4)).unwrap_or(usize::MAX);
        let limits = IntakeLimits {
            message_bytes_max,
            gathered_bytes_max,
        };
        let intake = Intake::new(Sender::Server, limits, frame_max);
        ClientSide {
            state: State::Idle,
            frame_max,
            heartbeat: 0,
            intake,
            confirms: Vec::new(),
        }
    }

    /// Whether the connection was opened and has not ended.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether this channel can be written to.
    pub fn is_channel_open(&self, ch: u16) -> bool {
        self.is_open() && self.intake.channels.is_open(ch)
    }

    /// Largest frame in force.
    pub fn frame_max(&self) -> u32 {
        self.intake.frame_max
    }

    /// Highest channel number in force.
    pub fn channel_max(&self) -> u16 {
        self.intake.channel_max
    }

    /// Seconds between heartbeats in force; 0: none.
    pub fn heartbeat_seconds(&self) -> u16 {
        self.heartbeat
    }

    /// Length of the whole frame at the start of `bytes`, once its header is complete.
    pub fn frame_len(bytes: &[u8]) -> Option<usize> {
        frame_len(bytes)
    }

    /// The next event out of `bytes`; as [`crate::ServerSide::handle_input`].
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        match self.state {
            State::Open => self.handle_open(bytes, gathered),
            State::ExpectStart | State::ExpectTune | State::ExpectOpenOk => {
                self.handle_handshake(bytes)
            }
            State::Closing => Ok(
                listen_for_farewell(bytes, self.intake.frame_max).map(|heard| match heard {
                    Farewell::Consumed(consumed) => (consumed, ClientEvent::Consumed),
                    Farewell::Close(consumed, close) => (consumed, self.on_close(close)),
                    Farewell::CloseOk(consumed) => {
                        self.state = State::Closed;
                        (consumed, ClientEvent::CloseConnectionOk)
                    }
                }),
            ),
            _ => Ok(None),
        }
    }

    fn handle_open<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        let Some((consumed, heard)) = self.intake.hear(bytes, gathered)? else {
            return Ok(None);
        };
        let event = match heard {
            Incoming::Heartbeat => ClientEvent::Heartbeat,
            Incoming::Consumed => ClientEvent::Consumed,
            Incoming::Fault(fault) => ClientEvent::ChannelFault(fault),
            Incoming::Connection(method) => match method {
                Method::ConnectionClose(close) => self.on_close(close),
                Method::ConnectionBlocked(blocked) => ClientEvent::Blocked {
                    reason: blocked.reason,
                },
                Method::ConnectionUnblocked(_) => ClientEvent::Unblocked,
                Method::ConnectionUpdateSecretOk(_) => ClientEvent::UpdateSecretOk,
                other => return Err(PeerFault::METHOD_UNEXPECTED.by(other.id())),
            },
            Incoming::Method(ch, Method::ChannelOpenOk(_)) => ClientEvent::ChannelOpenOk(ch),
            Incoming::Method(ch, Method::ChannelClose(c)) => {
                self.confirms.retain(|(number, _)| *number != ch);
                let cause = MethodId::new(c.class_id, c.method_id);
                ClientEvent::ChannelClose {
                    ch,
                    code: c.reply_code,
                    text: c.reply_text,
                    cause,
                }
            }
            Incoming::Method(ch, Method::ChannelCloseOk(_)) => ClientEvent::ChannelCloseOk(ch),
            Incoming::Method(ch, method) => ClientEvent::Method { ch, method },
            Incoming::Content(Content {
                channel: ch,
                method,
                properties,
                header,
                payload,
            }) => ClientEvent::Content {
                ch,
                method,
                properties,
                payload,
                header,
            },
        };
        Ok(Some((consumed, event)))
    }

    fn handle_handshake<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        if self.state == State::ExpectStart && bytes.first() == PROTOCOL_HEADER.first() {
            let Some(header) = bytes.first_chunk::<8>() else {
                return Ok(None);
            };
            self.end(State::Closed);
            return Ok(Some((header.len(), ClientEvent::WrongProtocol(*header))));
        }
        let Some(frame) = Frame::split(bytes, self.intake.frame_max)? else {
            return Ok(None);
        };
        let event = match frame {
            Frame {
                kind: frame::HEARTBEAT,
                channel: 0,
                payload: [],
            } => ClientEvent::Heartbeat,
            Frame {
                kind: frame::HEARTBEAT,
                ..
            } => return Err(PeerFault::HEARTBEAT),
            Frame {
                kind: frame::METHOD,
                channel: 0,
                payload,
            } => {
                let method = self.intake.decode(payload)?;
                self.on_handshake(method)?
            }
            Frame {
                kind: frame::METHOD,
                ..
            } => return Err(PeerFault::CHANNEL_CLOSED),
            _ => return Err(PeerFault::EXPECTED_METHOD),
        };
        Ok(Some((frame.len(), event)))
    }

    fn on_handshake<'b>(&mut self, method: Method<'b>) -> Result<ClientEvent<'b>, PeerFault> {
        Ok(match (self.state, method) {
            (_, Method::ConnectionClose(close)) => self.on_close(close),
            (State::ExpectStart, Method::ConnectionStart(start)) => {
                self.state = State::OweStartOk;
                ClientEvent::Start(start)
            }
            (State::ExpectTune, Method::ConnectionSecure(secure)) => {
                self.state = State::OweSecureOk;
                ClientEvent::Secure {
                    challenge: secure.challenge,
                }
            }
            (State::ExpectTune, Method::ConnectionTune(tune)) => {
                self.state = State::OweTuneOk;
                let connection::Tune {
                    channel_max,
                    frame_max,
                    heartbeat,
                } = tune;
                ClientEvent::Tune(ServerOffer {
                    channel_max,
                    frame_max,
                    heartbeat,
                })
            }
            (State::ExpectOpenOk, Method::ConnectionOpenOk(_)) => {
                self.state = State::Open;
                ClientEvent::OpenOk
            }
            (_, other) => return Err(PeerFault::METHOD_UNEXPECTED.by(other.id())),
        })
    }

    fn on_close<'b>(&mut self, c: connection::Close<'b>) -> ClientEvent<'b> {
        self.end(State::Closed);
        let cause = MethodId::new(c.class_id, c.method_id);
        ClientEvent::CloseConnection {
            code: c.reply_code,
            text: c.reply_text,
            cause,
        }
    }

    fn end(&mut self, state: State) {
        self.state = state;
        self.intake.clear();
        self.confirms = Vec::new();
    }
}

/// Verbs: each appends what it says. Those that do not fit the state of the connection or channel say nothing.
impl ClientSide {
    /// Says which protocol we speak.
    pub fn connect(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Idle {
            out.extend_from_slice(&PROTOCOL_HEADER);
            self.state = State::ExpectStart;
        }
    }

    /// Says who we are. `response` is what the mechanism says first; [`ClientSide::plain`] makes that of `PLAIN`.
    pub fn start_ok(
        &mut self,
        client_properties: Table<'_>,
        mechanism: &str,
        response: &[u8],
        out: &mut Vec<u8>,
    ) {
        if self.state == State::OweStartOk {
            let start_ok = connection::StartOk {
                client_properties,
                mechanism,
                response,
                locale: "en_US",
            };
            put_method(0, &Method::ConnectionStartOk(start_ok), out);
            self.state = State::ExpectTune;
        }
    }

    /// The response of mechanism `PLAIN` (RFC 4616).
    pub fn plain(user: &str, password: &str) -> Vec<u8> {
        format!("\0{user}\0{password}").into_bytes()
    }

    /// Another step of authentication.
    pub fn secure_ok(&mut self, response: &[u8], out: &mut Vec<u8>) {
        if self.state == State::OweSecureOk {
            put_method(
                0,
                &Method::ConnectionSecureOk(connection::SecureOk { response }),
                out,
            );
            self.state = State::ExpectTune;
        }
    }

    /// Accepts the server's limits as far as ours allow.
    pub fn tune_ok(&mut self, offer: ServerOffer, out: &mut Vec<u8>) {
        if self.state == State::OweTuneOk {
            let channel_max = if offer.channel_max == 0 {
                u16::MAX
            } else {
                offer.channel_max
            };
            let frame_max = if offer.frame_max == 0 {
                self.frame_max
            } else {
                offer.frame_max.min(self.frame_max)
            };
            let heartbeat = offer.heartbeat;
            put_method(
                0,
                &Method::ConnectionTuneOk(connection::TuneOk {
                    channel_max,
                    frame_max,
                    heartbeat,
                }),
                out,
            );
            self.intake.channel_max = channel_max;
            self.intake.frame_max = frame_max;
            self.heartbeat = heartbeat;
            self.state = State::OweOpen;
        }
    }

    /// Enters a virtual host.
    pub fn open(&mut self, vhost: &str, out: &mut Vec<u8>) {
        if self.state == State::OweOpen {
            put_method(
                0,
                &Method::ConnectionOpen(connection::Open {
                    virtual_host: vhost,
                }),
                out,
            );
            self.state = State::ExpectOpenOk;
        }
    }

    /// Ends the connection. Nothing is read or written after that but the end.
    pub fn close(&mut self, code: ReplyCode, what: &str, cause: MethodId, out: &mut Vec<u8>) {
        match self.state {
            State::Closing | State::Closed => {}
            State::Idle | State::ExpectStart => self.end(State::Closed),
            _ => {
                put_connection_close(code, what, cause, out);
                self.end(State::Closing);
            }
        }
    }

    /// Answers `CloseConnection`. Close the connection afterwards.
    pub fn close_ok(&mut self, out: &mut Vec<u8>) {
        put_method(0, &Method::ConnectionCloseOk(connection::CloseOk), out);
        self.end(State::Closed);
    }

    /// Appends `connection.update-secret`: new credentials before the old ones expire.
    pub fn update_secret(&mut self, new_secret: &[u8], reason: &str, out: &mut Vec<u8>) {
        if self.is_open() {
            let update = connection::UpdateSecret { new_secret, reason };
            put_method(0, &Method::ConnectionUpdateSecret(update), out);
        }
    }

    /// Begins a channel; says nothing if the number is taken or above the server's limit.
    pub fn channel_open(&mut self, ch: u16, out: &mut Vec<u8>) {
        if self.is_open()
            && (1..=self.intake.channel_max).contains(&ch)
            && self.intake.channels.state(ch).is_none()
        {
            put_method(ch, &Method::ChannelOpen(channel::Open), out);
            self.intake.channels.insert(ch, ChannelState::Opening);
        }
    }

    /// Ends a channel. Nothing is read or written on it after that but the end.
    pub fn channel_close(
        &mut self,
        ch: u16,
        code: ReplyCode,
        what: &str,
        cause: MethodId,
        out: &mut Vec<u8>,
    ) {
        if self.is_channel_open(ch) {
            put_channel_close(ch, code, what, cause, out);
            self.confirms.retain(|(number, _)| *number != ch);
            self.intake.close_channel(ch);
        }
    }

    /// Answers `ChannelClose`.
    pub fn channel_close_ok(&mut self, ch: u16, out: &mut Vec<u8>) {
        if self.is_open() {
            put_method(ch, &Method::ChannelCloseOk(channel::CloseOk), out);
        }
    }

    /// Asks for publisher confirms on this channel: publishes are numbered from 1 from now on.
    pub fn confirm_select(&mut self, ch: u16, no_wait: bool, out: &mut Vec<u8>) {
        if self.is_channel_open(ch) {
            put_method(ch, &Method::ConfirmSelect(confirm::Select { no_wait }), out);
            if !self.confirms.iter().any(|(number, _)| *number == ch) {
                self.confirms.push((ch, 0));
            }
        }
    }

    /// Says any method without content and without a verb of its own, on an open channel.
    pub fn method(&mut self, ch: u16, method: &Method<'_>, out: &mut Vec<u8>) {
        match method {
            Method::ConfirmSelect(select) => self.confirm_select(ch, select.no_wait, out),
            _ if self.is_channel_open(ch) && !method.has_content() => put_method(ch, method, out),
            _ => {}
        }
    }

    /// Publishes a message: its number on a channel with confirms, 0 on others and if the channel is not open. `Err`: its
    /// properties do not fit the server's frames; nothing was written.
    pub fn publish(
        &mut self,
        ch: u16,
        publish: &basic::Publish<'_>,
        header: ContentHeader<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, TooLarge> {
        if !self.is_channel_open(ch) {
            return Ok(0);
        }
        let start = out.len();
        put_frame(frame::METHOD, ch, out, |out| publish.encode(out));
        put_content(ch, header, payload, self.intake.frame_max, start, out)?;
        let confirm = self.confirms.iter_mut().find(|(number, _)| *number == ch);
        Ok(confirm.map_or(0, |(_, last)| {
            *last += 1;
            *last
        }))
    }

    /// Acknowledges one delivery, or all up to the tag.
    pub fn ack(&mut self, ch: u16, delivery_tag: u64, multiple: bool, out: &mut Vec<u8>) {
        if self.is_channel_open(ch) {
            put_ack(ch, delivery_tag, multiple, out);
        }
    }

    /// Appends a heartbeat frame.
    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        if !matches!(
            self.state,
            State::Idle | State::ExpectStart | State::Closing | State::Closed
        ) {
            put_heartbeat(out);
        }
    }

    /// Says what a fault asks for: `connection.close` or `channel.close`.
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        match f.scope {
            Scope::ProtocolHeader => self.end(State::Closed),
            Scope::Connection => self.close(f.code, &f.what, f.cause, out),
            // The machine closed the channel when it found the fault, so `channel_close` would say nothing.
            Scope::Channel(ch)
                if self.is_open()
                    && self.intake.channels.state(ch) == Some(ChannelState::Closing) =>
            {
                put_channel_close(ch, f.code, &f.what, f.cause, out);
            }
            Scope::Channel(_) => {}
        }
    }
}
