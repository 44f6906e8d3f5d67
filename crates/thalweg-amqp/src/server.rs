//! The server's end of a connection.

use crate::channels::ChannelState;
use crate::codec::frame::{self, FRAME_MIN, Frame, PROTOCOL_HEADER, frame_len, put_frame};
use crate::codec::{Arguments, Sender, put_content};
use crate::gathering::Gathered;
use crate::intake::{
    Content, Farewell, Incoming, Intake, IntakeLimits, listen_for_farewell, peek_id,
};
use crate::methods::{Method, ReplyCode, basic, channel, connection};
use crate::outlet::{
    put_ack, put_channel_close, put_connection_close, put_deliver, put_heartbeat, put_method,
};
use crate::{BasicProperties, ContentHeader, MethodId, PeerFault, Scope, Table, TooLarge};

/// Limits of a server for each of its clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Highest channel number, and so the number of channels; offered in `connection.tune`. At least 1.
    pub channel_max: u16,
    /// Largest frame, in bytes with its eight of overhead; offered in `connection.tune`. At least 4096.
    pub frame_max: u32,
    /// Largest frame before that is negotiated: `connection.start-ok` may carry a long token.
    pub frame_max_before_tune: u32,
    /// Seconds between heartbeats; offered in `connection.tune`. 0: none.
    pub heartbeat: u16,
    /// Largest body of a message. A larger one closes its channel.
    pub message_bytes_max: u64,
    /// Unfinished messages of all channels together. More close the connection.
    pub gathered_bytes_max: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            channel_max: 2047,
            frame_max: 131_072,
            frame_max_before_tune: 8192,
            heartbeat: 60,
            message_bytes_max: 16 << 20,
            gathered_bytes_max: 64 << 20,
        }
    }
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  ExpectHeader --> OweStart --start()--> ExpectStartOk --> OweTune --tune()--> ExpectTuneOk --> ExpectOpen
///                                            ^                 | secure()                           |
///                                            +-- ExpectSecureOk+                                    v
///  Closed <--CloseOk, Close-- Closing <--close(), fault()-- Open <--open_ok()------------------- OweOpenOk
/// ```
///
/// While the caller owes a verb nothing comes out; **call again after it**, because more may have arrived already.
#[derive(Debug)]
pub struct ServerSide {
    limits: ServerLimits,
    state: State,
    /// Seconds between heartbeats, as the client chose.
    heartbeat: u16,
    intake: Intake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectHeader,
    OweStart,
    ExpectStartOk,
    OweTune,
    ExpectSecureOk,
    ExpectTuneOk,
    ExpectOpen,
    OweOpenOk,
    Open,
    /// We said `connection.close` and wait for the answer.
    Closing,
    Closed,
}

/// An event from a client.
#[derive(Debug)]
pub enum Event<'b> {
    /// It speaks our protocol: answer with [`ServerSide::start`].
    ProtocolHeader,
    /// The client's properties and credentials: answer with [`ServerSide::secure`], [`ServerSide::tune`] or
    /// [`ServerSide::close`].
    StartOk(connection::StartOk<'b>),
    /// Another step of authentication: answer as above.
    SecureOk(connection::SecureOk<'b>),
    /// The limits, already checked and in force.
    TuneOk {
        /// Highest channel number, as agreed on.
        channel_max: u16,
        /// Largest frame in bytes, as agreed on.
        frame_max: u32,
        /// Seconds between heartbeats; 0: none.
        heartbeat: u16,
    },
    /// It opens a virtual host: answer with [`ServerSide::open_ok`] or [`ServerSide::close`].
    Open {
        /// Name of the virtual host.
        vhost: &'b str,
    },
    /// Goodbye: answer with [`ServerSide::close_ok`] and close. Nothing comes out any more.
    CloseConnection {
        /// Why, as a number.
        code: u16,
        /// The client's reply text, for people.
        text: &'b str,
        /// The method that caused it, if any.
        cause: MethodId,
    },
    /// Our `connection.close` is confirmed: close. Nothing comes out any more.
    CloseConnectionOk,
    /// New credentials: answer with [`ServerSide::update_secret_ok`] or [`ServerSide::close`].
    UpdateSecret(connection::UpdateSecret<'b>),
    /// A channel: answer with [`ServerSide::channel_open_ok`].
    ChannelOpen(u16),
    /// The end of a channel: answer with [`ServerSide::channel_close_ok`].
    ChannelClose {
        /// Number of the channel.
        ch: u16,
        /// Why, as a number.
        code: u16,
        /// The client's reply text, for people.
        text: &'b str,
        /// The method that caused it, if any.
        cause: MethodId,
    },
    /// Our `channel.close` is confirmed; the number is free.
    ChannelCloseOk(u16),
    /// The client sent a heartbeat.
    Heartbeat,
    /// A message that the client publishes.
    Publish(Publish<'b>),
    /// Everything else that is said on a channel.
    Method {
        /// Number of the channel.
        ch: u16,
        /// The method, which has no content.
        method: Method<'b>,
    },
    /// The client made an error that concerns only one channel: call [`ServerSide::fault`] and go on.
    ChannelFault(PeerFault),
    /// Bytes were taken in that mean nothing yet, or nothing any more: part of a message, or something for a channel or
    /// connection that is being closed.
    Consumed,
}

/// A message from a client.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'b> {
    /// Number of the channel.
    pub ch: u16,
    /// Name of the exchange; empty: the default one.
    pub exchange: &'b str,
    /// Routing key for the exchange.
    pub routing_key: &'b str,
    /// To be returned if no queue takes it.
    pub mandatory: bool,
    /// To be returned if no consumer takes it at once. RabbitMQ refuses it with 540.
    pub immediate: bool,
    /// Properties of the message, decoded on request.
    pub properties: BasicProperties<'b>,
    /// Body of the message, all its frames joined.
    pub payload: &'b [u8],
    /// The content header as it came, for [`ContentHeader::Raw`].
    pub header: &'b [u8],
}

/// Bytes of a `basic.ack` with its frame.
const ACK_FRAME: usize = 21;

impl ServerSide {
    /// A machine that waits for the protocol header.
    pub fn new(limits: ServerLimits) -> Self {
        let limits = ServerLimits {
            channel_max: limits.channel_max.max(1),
            frame_max: limits.frame_max.max(FRAME_MIN),
            frame_max_before_tune: limits.frame_max_before_tune.max(FRAME_MIN),
            ..limits
        };
        let bounds = IntakeLimits {
            message_bytes_max: limits.message_bytes_max,
            gathered_bytes_max: limits.gathered_bytes_max,
        };
        let intake = Intake::new(Sender::Client, bounds, limits.frame_max_before_tune);
        ServerSide {
            limits,
            state: State::ExpectHeader,
            heartbeat: 0,
            intake,
        }
    }

    /// The limits given to [`ServerSide::new`].
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Whether `connection.open-ok` was written and the connection has not ended.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether this channel can be written to: opened, and closed by neither side.
    #[inline]
    pub fn is_channel_open(&self, ch: u16) -> bool {
        self.is_open() && self.intake.channels.is_open(ch)
    }

    /// Bytes of messages whose frames have not all come.
    pub fn gathered_bytes(&self) -> usize {
        self.intake.gathered_bytes
    }

    /// Largest frame in force.
    pub fn frame_max(&self) -> u32 {
        self.intake.frame_max
    }

    /// Highest channel number in force.
    pub fn channel_max(&self) -> u16 {
        self.intake.channel_max
    }

    /// Seconds between heartbeats, as the client chose; 0: none.
    pub fn heartbeat_seconds(&self) -> u16 {
        self.heartbeat
    }

    /// Length of the whole frame at the start of `bytes`, once its header is complete.
    pub fn frame_len(bytes: &[u8]) -> Option<usize> {
        frame_len(bytes)
    }

    /// The next event out of `bytes`. `Ok(None)`: incomplete, nothing consumed. `Ok(Some((consumed, event)))`: the event
    /// borrows from `bytes`, or from `gathered` if its message came in pieces, and never from the machine. `Err`: nothing
    /// consumed; call [`ServerSide::fault`], then go on with the same bytes until `CloseConnectionOk` comes out, or
    /// close when that takes too long.
    #[inline]
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if self.state != State::Open {
            return self.handle_early(bytes);
        }
        // The path of nearly every byte: a message whose frames are all here, or its settlement.
        match bytes.get(7..11) {
            Some([0, 60, 0, 40]) => {
                if let Some((len, ch, publish)) = self.publish_method(bytes)
                    && let Some(whole) = bytes
                        .get(len..)
                        .and_then(|rest| self.intake.whole(rest, ch))
                {
                    let basic::Publish {
                        exchange,
                        routing_key,
                        mandatory,
                        immediate,
                    } = publish;
                    let (payload, header) = (whole.payload, whole.header);
                    let properties = BasicProperties::default();
                    let mut publish = Publish {
                        ch,
                        exchange,
                        routing_key,
                        mandatory,
                        immediate,
                        properties,
                        payload,
                        header,
                    };
                    if whole.start.fill(&mut publish.properties).is_ok() {
                        return Ok(Some((len + whole.consumed, Event::Publish(publish))));
                    }
                }
            }
            Some([0, 60, 0, 80]) => {
                if let Some((ch, ack)) = self.ack_method(bytes) {
                    return Ok(Some((
                        ACK_FRAME,
                        Event::Method {
                            ch,
                            method: Method::BasicAck(ack),
                        },
                    )));
                }
            }
            _ => {}
        }
        self.handle_open(bytes, gathered)
    }

    /// `basic.publish` on a channel that is ready for it. `None` for whatever is not quite so: that is the slow way's.
    #[inline]
    fn publish_method<'b>(&mut self, bytes: &'b [u8]) -> Option<(usize, u16, basic::Publish<'b>)> {
        let frame = Frame::split(bytes, self.intake.frame_max).ok()??;
        if frame.kind != frame::METHOD || !self.intake.is_ready(frame.channel) {
            return None;
        }
        let (_, mut arguments) = Arguments::of_method(frame.payload).ok()?;
        let publish = basic::Publish::decode(&mut arguments).ok()?;
        arguments.end().ok()?;
        Some((frame.len(), frame.channel, publish))
    }

    /// `basic.ack`, as above. Its frame always has the same length.
    #[inline(always)]
    fn ack_method(&mut self, bytes: &[u8]) -> Option<(u16, basic::Ack)> {
        let &[
            1,
            c1,
            c2,
            0,
            0,
            0,
            13,
            _,
            _,
            _,
            _,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            t8,
            bits,
            0xCE,
        ] = bytes.first_chunk::<ACK_FRAME>()?
        else {
            return None;
        };
        let channel = u16::from_be_bytes([c1, c2]);
        let delivery_tag = u64::from_be_bytes([t1, t2, t3, t4, t5, t6, t7, t8]);
        self.intake.is_ready(channel).then_some((
            channel,
            basic::Ack {
                delivery_tag,
                multiple: bits & 1 != 0,
            },
        ))
    }

    #[inline(never)]
    fn handle_open<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let Some((consumed, heard)) = self.intake.hear(bytes, gathered)? else {
            return Ok(None);
        };
        let event = match heard {
            Incoming::Heartbeat => Event::Heartbeat,
            Incoming::Consumed => Event::Consumed,
            Incoming::Fault(fault) => Event::ChannelFault(fault),
            Incoming::Connection(method) => self.on_connection_method(method)?,
            Incoming::Method(ch, Method::ChannelOpen(_)) => Event::ChannelOpen(ch),
            Incoming::Method(ch, Method::ChannelClose(c)) => Event::ChannelClose {
                ch,
                code: c.reply_code,
                text: c.reply_text,
                cause: MethodId::new(c.class_id, c.method_id),
            },
            Incoming::Method(ch, Method::ChannelCloseOk(_)) => Event::ChannelCloseOk(ch),
            Incoming::Method(ch, method) => Event::Method { ch, method },
            Incoming::Content(content) => Self::on_content(content)?,
        };
        Ok(Some((consumed, event)))
    }

    fn on_content(content: Content<'_>) -> Result<Event<'_>, PeerFault> {
        let Content {
            channel: ch,
            method,
            properties,
            header,
            payload,
        } = content;
        let Method::BasicPublish(basic::Publish {
            exchange,
            routing_key,
            mandatory,
            immediate,
        }) = method
        else {
            return Err(PeerFault::DIRECTION.by(method.id()));
        };
        let publish = Publish {
            ch,
            exchange,
            routing_key,
            mandatory,
            immediate,
            properties,
            payload,
            header,
        };
        Ok(Event::Publish(publish))
    }

    fn on_connection_method<'b>(&mut self, method: Method<'b>) -> Result<Event<'b>, PeerFault> {
        match method {
            Method::ConnectionClose(close) => Ok(self.on_close(close)),
            Method::ConnectionUpdateSecret(update) => Ok(Event::UpdateSecret(update)),
            other => Err(PeerFault::METHOD_UNEXPECTED.by(other.id())),
        }
    }

    fn on_close<'b>(&mut self, c: connection::Close<'b>) -> Event<'b> {
        self.end(State::Closed);
        let cause = MethodId::new(c.class_id, c.method_id);
        Event::CloseConnection {
            code: c.reply_code,
            text: c.reply_text,
            cause,
        }
    }

    /// Input before the connection is open, and while it ends.
    #[inline(never)]
    fn handle_early<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        match self.state {
            State::ExpectHeader => {
                // The first byte that differs decides; waiting for the rest would only tie up memory. §4.2.2
                if bytes
                    .iter()
                    .zip(PROTOCOL_HEADER)
                    .any(|(byte, ours)| *byte != ours)
                {
                    return Err(PeerFault::PROTOCOL_HEADER);
                }
                if bytes.len() < PROTOCOL_HEADER.len() {
                    return Ok(None);
                }
                self.state = State::OweStart;
                Ok(Some((PROTOCOL_HEADER.len(), Event::ProtocolHeader)))
            }
            State::ExpectStartOk
            | State::ExpectSecureOk
            | State::ExpectTuneOk
            | State::ExpectOpen => self.handle_handshake(bytes),
            State::Closing => Ok(
                listen_for_farewell(bytes, self.intake.frame_max).map(|heard| match heard {
                    Farewell::Consumed(consumed) => (consumed, Event::Consumed),
                    Farewell::Close(consumed, close) => (consumed, self.on_close(close)),
                    Farewell::CloseOk(consumed) => {
                        self.state = State::Closed;
                        (consumed, Event::CloseConnectionOk)
                    }
                }),
            ),
            _ => Ok(None),
        }
    }

    fn handle_handshake<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let Some(frame) = Frame::split(bytes, self.intake.frame_max)? else {
            return Ok(None);
        };
        let event = match frame {
            Frame {
                kind: frame::HEARTBEAT,
                channel: 0,
                payload: [],
            } => Event::Heartbeat,
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
                payload,
                ..
            } => {
                return Err(PeerFault::CHANNEL_CLOSED
                    .saying("the connection is not open yet")
                    .by(peek_id(payload)?));
            }
            _ => return Err(PeerFault::EXPECTED_METHOD),
        };
        Ok(Some((frame.len(), event)))
    }

    fn on_handshake<'b>(&mut self, method: Method<'b>) -> Result<Event<'b>, PeerFault> {
        Ok(match (self.state, method) {
            (_, Method::ConnectionClose(close)) => self.on_close(close),
            (State::ExpectStartOk, Method::ConnectionStartOk(start_ok)) => {
                self.state = State::OweTune;
                Event::StartOk(start_ok)
            }
            (State::ExpectSecureOk, Method::ConnectionSecureOk(ok)) => {
                self.state = State::OweTune;
                Event::SecureOk(ok)
            }
            (State::ExpectTuneOk, Method::ConnectionTuneOk(ok)) => self.on_tune_ok(ok)?,
            (State::ExpectOpen, Method::ConnectionOpen(open)) => {
                self.state = State::OweOpenOk;
                Event::Open {
                    vhost: open.virtual_host,
                }
            }
            (_, other) => return Err(PeerFault::METHOD_UNEXPECTED.by(other.id())),
        })
    }

    /// Each limit may be lowered, and 0 would lift it. RabbitMQ's words.
    fn on_tune_ok(&mut self, ok: connection::TuneOk) -> Result<Event<'static>, PeerFault> {
        let connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        } = ok;
        let id = connection::Tune::ID;
        let refuse = |fault: PeerFault, field: &str, value: u32, than: &str, bound: u32| {
            let no_limit = if value == 0 { " (no limit)" } else { "" };
            fault
                .saying(format!(
                    "negotiated {field} = {value}{no_limit} is {than} allowed value ({bound})"
                ))
                .by(id)
        };
        let (lower, higher) = ("lower than the minimum", "higher than the maximum");
        let ServerLimits {
            channel_max: channels,
            frame_max: frames,
            ..
        } = self.limits;
        if channel_max == 0 || channel_max > channels {
            let (field, value) = ("channel_max", channel_max.into());
            return Err(refuse(
                PeerFault::TUNE_CHANNEL_MAX,
                field,
                value,
                higher,
                channels.into(),
            ));
        }
        if frame_max != 0 && frame_max < FRAME_MIN {
            return Err(refuse(
                PeerFault::TUNE_FRAME_MAX,
                "frame_max",
                frame_max,
                lower,
                FRAME_MIN,
            ));
        }
        if frame_max == 0 || frame_max > frames {
            return Err(refuse(
                PeerFault::TUNE_FRAME_MAX,
                "frame_max",
                frame_max,
                higher,
                frames,
            ));
        }
        self.intake.channel_max = channel_max;
        self.intake.frame_max = frame_max;
        self.heartbeat = heartbeat;
        self.state = State::ExpectOpen;
        Ok(Event::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        })
    }

    /// Nothing is gathered or delivered any more.
    fn end(&mut self, state: State) {
        self.state = state;
        self.intake.clear();
    }
}

/// Verbs: each appends what it says. Those that do not fit the state of the connection or channel say nothing.
impl ServerSide {
    /// Answers the protocol header with the server's properties and mechanisms.
    pub fn start(
        &mut self,
        server_properties: Table<'_>,
        mechanisms: &str,
        locales: &str,
        out: &mut Vec<u8>,
    ) {
        if self.state == State::OweStart {
            let (mechanisms, locales) = (mechanisms.as_bytes(), locales.as_bytes());
            let start = connection::Start {
                version_major: 0,
                version_minor: 9,
                server_properties,
                mechanisms,
                locales,
            };
            put_method(0, &Method::ConnectionStart(start), out);
            self.state = State::ExpectStartOk;
        }
    }

    /// Asks for another step of authentication.
    pub fn secure(&mut self, challenge: &[u8], out: &mut Vec<u8>) {
        if self.state == State::OweTune {
            put_method(
                0,
                &Method::ConnectionSecure(connection::Secure { challenge }),
                out,
            );
            self.state = State::ExpectSecureOk;
        }
    }

    /// Accepts the login and offers our limits.
    pub fn tune(&mut self, out: &mut Vec<u8>) {
        if self.state == State::OweTune {
            let ServerLimits {
                channel_max,
                frame_max,
                heartbeat,
                ..
            } = self.limits;
            put_method(
                0,
                &Method::ConnectionTune(connection::Tune {
                    channel_max,
                    frame_max,
                    heartbeat,
                }),
                out,
            );
            self.state = State::ExpectTuneOk;
        }
    }

    /// Lets the client into the virtual host.
    pub fn open_ok(&mut self, out: &mut Vec<u8>) {
        if self.state == State::OweOpenOk {
            put_method(0, &Method::ConnectionOpenOk(connection::OpenOk), out);
            self.state = State::Open;
        }
    }

    /// Ends the connection; `what` goes behind the name of the code. Nothing is read or written after that but the end.
    pub fn close(&mut self, code: ReplyCode, what: &str, cause: MethodId, out: &mut Vec<u8>) {
        match self.state {
            // A peer that has not sent our protocol header yet would not understand.
            State::ExpectHeader | State::OweStart => self.end(State::Closed),
            State::Closing | State::Closed => {}
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

    /// The new credentials hold.
    pub fn update_secret_ok(&mut self, out: &mut Vec<u8>) {
        if self.is_open() {
            put_method(
                0,
                &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk),
                out,
            );
        }
    }

    /// Answers `ChannelOpen`.
    pub fn channel_open_ok(&mut self, ch: u16, out: &mut Vec<u8>) {
        self.method(ch, &Method::ChannelOpenOk(channel::OpenOk), out);
    }

    /// Ends a channel; `what` goes behind the name of the code. Nothing is read or written on it after that but the end.
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
            self.intake.close_channel(ch);
        }
    }

    /// Answers `ChannelClose`.
    pub fn channel_close_ok(&mut self, ch: u16, out: &mut Vec<u8>) {
        if self.is_open() {
            put_method(ch, &Method::ChannelCloseOk(channel::CloseOk), out);
        }
    }

    /// Says any method without content and without a verb of its own, on an open channel.
    #[inline]
    pub fn method(&mut self, ch: u16, method: &Method<'_>, out: &mut Vec<u8>) {
        if self.is_channel_open(ch) && !method.has_content() {
            put_method(ch, method, out);
        }
    }

    /// Delivers a message to a consumer. `Err`: its properties do not fit the client's frames; nothing was written.
    #[inline]
    pub fn deliver(
        &mut self,
        ch: u16,
        deliver: &basic::Deliver<'_>,
        header: ContentHeader<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        if !self.is_channel_open(ch) {
            return Ok(());
        }
        let start = out.len();
        put_deliver(ch, deliver, out);
        put_content(ch, header, payload, self.intake.frame_max, start, out)
    }

    /// Answers `basic.get` with a message. `Err`: its properties do not fit the client's frames; nothing was written.
    pub fn get_ok(
        &mut self,
        ch: u16,
        get_ok: &basic::GetOk<'_>,
        header: ContentHeader<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        self.content(ch, header, payload, out, |out| get_ok.encode(out))
    }

    /// Gives a message back. `Err`: its properties do not fit the client's frames; nothing was written.
    pub fn return_(
        &mut self,
        ch: u16,
        return_: &basic::Return<'_>,
        header: ContentHeader<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        self.content(ch, header, payload, out, |out| return_.encode(out))
    }

    #[inline]
    fn content(
        &mut self,
        ch: u16,
        header: ContentHeader<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
        method: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TooLarge> {
        if !self.is_channel_open(ch) {
            return Ok(());
        }
        let start = out.len();
        put_frame(frame::METHOD, ch, out, method);
        put_content(ch, header, payload, self.intake.frame_max, start, out)
    }

    /// Confirms one publish, or all up to the tag.
    #[inline]
    pub fn ack(&mut self, ch: u16, delivery_tag: u64, multiple: bool, out: &mut Vec<u8>) {
        if self.is_channel_open(ch) {
            put_ack(ch, delivery_tag, multiple, out);
        }
    }

    /// Reports that one publish was lost, or all up to the tag.
    pub fn nack(&mut self, ch: u16, delivery_tag: u64, multiple: bool, out: &mut Vec<u8>) {
        self.method(
            ch,
            &Method::BasicNack(basic::Nack {
                delivery_tag,
                multiple,
                requeue: false,
            }),
            out,
        );
    }

    /// Appends a heartbeat frame.
    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        if !matches!(
            self.state,
            State::ExpectHeader | State::OweStart | State::Closing | State::Closed
        ) {
            put_heartbeat(out);
        }
    }

    /// Publishing is held back. Only for clients with the capability `connection.blocked`.
    pub fn blocked(&mut self, reason: &str, out: &mut Vec<u8>) {
        if self.is_open() {
            put_method(
                0,
                &Method::ConnectionBlocked(connection::Blocked { reason }),
                out,
            );
        }
    }

    /// Publishing goes on. Only for clients with the capability `connection.blocked`.
    pub fn unblocked(&mut self, out: &mut Vec<u8>) {
        if self.is_open() {
            put_method(0, &Method::ConnectionUnblocked(connection::Unblocked), out);
        }
    }

    /// Says what a fault asks for: our protocol header, `connection.close` or `channel.close`. After the first close the
    /// connection at once, after the second when the client has confirmed.
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        match f.scope {
            Scope::ProtocolHeader if self.state == State::ExpectHeader => {
                out.extend_from_slice(&PROTOCOL_HEADER);
                self.end(State::Closed);
            }
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
