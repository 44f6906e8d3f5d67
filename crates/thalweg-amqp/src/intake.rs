//! Input of both ends once the connection is open: frames become methods and messages, and every rule about frames and
//! channels is checked here.

use crate::channels::{ChannelState, Channels};
use crate::codec::frame::{self, Frame};
use crate::codec::{BasicProperties, DecodeError, HeaderStart, Malformed, MethodId, Sender};
use crate::gathering::{Gathered, Gathering, Missing};
use crate::methods::{Method, channel, connection};
use crate::{PeerFault, Scope};

/// Limits of the content that is held for one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntakeLimits {
    /// Body of one message.
    pub(crate) message_bytes_max: u64,
    /// Unfinished messages of all channels.
    pub(crate) gathered_bytes_max: usize,
}

#[derive(Debug)]
pub(crate) struct Intake {
    /// The side whose methods are accepted.
    peer: Sender,
    limits: IntakeLimits,
    /// Largest frame; never 0.
    pub(crate) frame_max: u32,
    pub(crate) channel_max: u16,
    pub(crate) channels: Channels,
    /// Bytes of unfinished messages.
    pub(crate) gathered_bytes: usize,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one turn of a loop; a box would be allocated per message"
)]
pub(crate) enum Incoming<'b> {
    Heartbeat,
    Consumed,
    /// On channel 0.
    Connection(Method<'b>),
    /// On an open channel, or one that opens or closes just now.
    Method(u16, Method<'b>),
    Content(Content<'b>),
    /// The channel is closed on our side; the fault has to be sent.
    Fault(PeerFault),
}

/// A message and the method that brings it.
#[derive(Debug)]
pub(crate) struct Content<'b> {
    pub(crate) channel: u16,
    pub(crate) method: Method<'b>,
    pub(crate) properties: BasicProperties<'b>,
    pub(crate) header: &'b [u8],
    pub(crate) payload: &'b [u8],
}

/// Header and body of a message whose method has just been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'b> {
    pub(crate) consumed: usize,
    pub(crate) start: HeaderStart<'b>,
    pub(crate) header: &'b [u8],
    pub(crate) payload: &'b [u8],
}

impl Intake {
    pub(crate) fn new(peer: Sender, limits: IntakeLimits, frame_max: u32) -> Self {
        Intake {
            peer,
            limits,
            frame_max,
            channel_max: 0,
            channels: Channels::default(),
            gathered_bytes: 0,
        }
    }

    /// The next thing out of `bytes`, and how many of them it took.
    pub(crate) fn hear<'b>(
        &mut self,
        bytes: &'b [u8],
        gathered: &'b mut Gathered,
    ) -> Result<Option<(usize, Incoming<'b>)>, PeerFault> {
        let Some(frame) = Frame::split(bytes, self.frame_max)? else {
            return Ok(None);
        };
        let len = frame.len();
        let heard = match frame.kind {
            frame::HEARTBEAT if frame.channel == 0 && frame.payload.is_empty() => {
                Incoming::Heartbeat
            }
            frame::HEARTBEAT => return Err(PeerFault::HEARTBEAT),
            frame::METHOD if frame.channel == 0 => {
                Incoming::Connection(self.on_connection_method(frame)?)
            }
            frame::METHOD => {
                let heard = self.on_method(frame)?;
                // A message of which everything is here already is not gathered.
                if let Incoming::Method(channel, method) = &heard
                    && method.has_content()
                {
                    let rest = bytes.get(len..).unwrap_or_default();
                    if let Some(whole) = self.whole(rest, *channel)
                        && let Ok(properties) = whole.start.properties()
                    {
                        let Whole {
                            consumed,
                            header,
                            payload,
                            ..
                        } = whole;
                        let (channel, method) = (*channel, *method);
                        let content = Content {
                            channel,
                            method,
                            properties,
                            header,
                            payload,
                        };
                        return Ok(Some((len + consumed, Incoming::Content(content))));
                    }
                    return Ok(Some((len, self.begin_gathering(frame)?)));
                }
                heard
            }
            frame::HEADER => self.on_header(frame, gathered)?,
            _ => self.on_body(frame, gathered)?,
        };
        Ok(Some((len, heard)))
    }

    /// Header and body at the start of `bytes`, if they are complete, the body is one frame at most, and nothing is
    /// wrong; only the properties are not looked at yet. For all else there is the slow way.
    #[inline(always)]
    pub(crate) fn whole<'b>(&self, bytes: &'b [u8], channel: u16) -> Option<Whole<'b>> {
        let head = Frame::split(bytes, self.frame_max).ok()??;
        let start = HeaderStart::split(head.payload)?;
        if head.kind != frame::HEADER
            || head.channel != channel
            || !start.is_basic()
            || start.body_size > self.limits.message_bytes_max
        {
            return None;
        }
        let mut consumed = head.len();
        let mut payload: &[u8] = &[];
        if start.body_size != 0 {
            let body = Frame::split(bytes.get(consumed..)?, self.frame_max).ok()??;
            if body.kind != frame::BODY
                || body.channel != channel
                || body.payload.len() as u64 != start.body_size
            {
                return None;
            }
            consumed += body.len();
            payload = body.payload;
        }
        Some(Whole {
            consumed,
            start,
            header: head.payload,
            payload,
        })
    }

    /// A channel on which a new message may begin.
    #[inline]
    pub(crate) fn is_ready(&mut self, channel: u16) -> bool {
        self.channels
            .get(channel)
            .is_some_and(|c| c.state == ChannelState::Open && c.gathering.is_none())
    }

    fn on_connection_method<'b>(&self, frame: Frame<'b>) -> Result<Method<'b>, PeerFault> {
        let method = self.decode(frame.payload)?;
        if method.id().class != connection::Close::ID.class {
            return Err(PeerFault::CONNECTION_CLASS.by(method.id()));
        }
        Ok(method)
    }

    /// Also checks the direction.
    pub(crate) fn decode<'b>(&self, payload: &'b [u8]) -> Result<Method<'b>, PeerFault> {
        let method = Method::decode(payload).map_err(|error| match error {
            DecodeError::Unknown(id) => PeerFault::METHOD_UNKNOWN.by(id),
            DecodeError::Malformed { id, what } => PeerFault::METHOD_MALFORMED
                .saying(format!("{id}: {what}"))
                .by(id),
        })?;
        let sender = method.sender();
        if sender == self.peer || sender == Sender::Both {
            Ok(method)
        } else {
            Err(PeerFault::DIRECTION.by(method.id()))
        }
    }

    fn on_method<'b>(&mut self, frame: Frame<'b>) -> Result<Incoming<'b>, PeerFault> {
        let number = frame.channel;
        let id = peek_id(frame.payload)?;
        let Some(channel) = self.channels.get(number) else {
            return self.on_new_channel(frame, id);
        };
        match channel.state {
            ChannelState::Closing if !matches!(id, channel::Close::ID | channel::CloseOk::ID) => {
                return Ok(Incoming::Consumed);
            }
            ChannelState::Opening if id == channel::OpenOk::ID => {
                channel.state = ChannelState::Open
            }
            // Refused at once.
            ChannelState::Opening if id == channel::Close::ID => {}
            ChannelState::Opening => return Err(PeerFault::METHOD_UNEXPECTED.by(id)),
            ChannelState::Open if id == channel::OpenOk::ID && self.peer == Sender::Server => {
                return Err(PeerFault::METHOD_UNEXPECTED.by(id));
            }
            _ => match channel
                .gathering
                .as_ref()
                .map(|gathering| gathering.missing())
            {
                None => {}
                Some(Missing::Header) => return Err(PeerFault::EXPECTED_HEADER.by(id)),
                Some(_) => return Err(PeerFault::EXPECTED_BODY.by(id)),
            },
        }
        let state = channel.state;
        let method = self.decode(frame.payload)?;
        match method {
            Method::ChannelOpen(_) => return Err(PeerFault::CHANNEL_OPEN_TWICE.by(id)),
            // If both sides close at once, ours still has to be confirmed.
            Method::ChannelClose(_) if state != ChannelState::Closing => self.forget(number),
            Method::ChannelCloseOk(_) if state == ChannelState::Closing => self.forget(number),
            Method::ChannelCloseOk(_) => return Err(PeerFault::CLOSE_OK_UNASKED.by(id)),
            _ if id.class == connection::Close::ID.class => {
                return Err(PeerFault::CONNECTION_CLASS.by(id));
            }
            _ => {}
        }
        Ok(Incoming::Method(number, method))
    }

    fn on_new_channel<'b>(
        &mut self,
        frame: Frame<'b>,
        id: MethodId,
    ) -> Result<Incoming<'b>, PeerFault> {
        if id != channel::Open::ID || self.peer != Sender::Client {
            return Err(PeerFault::CHANNEL_CLOSED.by(id));
        }
        let method = self.decode(frame.payload)?;
        let max = self.channel_max;
        if frame.channel > max {
            let what = format!(
                "channel {} is above the negotiated channel_max ({max})",
                frame.channel
            );
            return Err(PeerFault::CHANNEL_MAX.saying(what).by(id));
        }
        self.channels.insert(frame.channel, ChannelState::Open);
        Ok(Incoming::Method(frame.channel, method))
    }

    fn begin_gathering<'b>(&mut self, frame: Frame<'b>) -> Result<Incoming<'b>, PeerFault> {
        self.hold(frame.payload.len())?;
        if let Some(channel) = self.channels.get(frame.channel) {
            channel.gathering = Some(Box::new(Gathering::begin(frame.payload)));
        }
        Ok(Incoming::Consumed)
    }

    fn on_header<'b>(
        &mut self,
        frame: Frame<'b>,
        gathered: &'b mut Gathered,
    ) -> Result<Incoming<'b>, PeerFault> {
        let limits = self.limits;
        let number = frame.channel;
        let Some(channel) = self.content_channel(number)? else {
            return Ok(Incoming::Consumed);
        };
        match channel
            .gathering
            .as_ref()
            .map(|gathering| gathering.missing())
        {
            None => return Err(PeerFault::EXPECTED_METHOD),
            Some(Missing::Header) => {}
            Some(_) => return Err(PeerFault::EXPECTED_BODY),
        }
        let malformed = |what: Malformed| {
            PeerFault::PROPERTIES_MALFORMED.saying(format!("content header: {what}"))
        };
        let start =
            HeaderStart::split(frame.payload).ok_or_else(|| malformed(Malformed::Truncated))?;
        if !start.is_basic() {
            return Err(PeerFault::HEADER_CLASS);
        }
        start.properties().map_err(malformed)?;
        if start.body_size > limits.message_bytes_max {
            let (size, max) = (start.body_size, limits.message_bytes_max);
            let cause = channel
                .gathering
                .as_ref()
                .map_or(MethodId::NONE, |g| g.method_id());
            let what = format!("message size {size} is larger than configured max size {max}");
            let fault = PeerFault::MESSAGE_TOO_LARGE
                .saying(what)
                .by(cause)
                .on(number);
            self.close_channel(number);
            return Ok(Incoming::Fault(fault));
        }
        self.hold(frame.payload.len())?;
        self.gather(number, gathered, |gathering| {
            gathering.header(frame.payload, &start)
        })
    }

    fn on_body<'b>(
        &mut self,
        frame: Frame<'b>,
        gathered: &'b mut Gathered,
    ) -> Result<Incoming<'b>, PeerFault> {
        let number = frame.channel;
        let Some(channel) = self.content_channel(number)? else {
            return Ok(Incoming::Consumed);
        };
        match channel
            .gathering
            .as_ref()
            .map(|gathering| gathering.missing())
        {
            Some(Missing::Body(rest)) if frame.payload.len() as u64 <= rest => {}
            Some(Missing::Body(_)) => return Err(PeerFault::BODY_TOO_LONG),
            Some(Missing::Header) => return Err(PeerFault::EXPECTED_HEADER),
            _ => return Err(PeerFault::EXPECTED_METHOD),
        }
        self.hold(frame.payload.len())?;
        self.gather(number, gathered, |gathering| gathering.body(frame.payload))
    }

    /// The channel of a header or body, or `None` if we closed it.
    fn content_channel(
        &mut self,
        number: u16,
    ) -> Result<Option<&mut crate::channels::Channel>, PeerFault> {
        if number == 0 {
            return Err(PeerFault::EXPECTED_METHOD.saying("channel 0 carries no content"));
        }
        match self.channels.get(number) {
            None => Err(PeerFault::CHANNEL_CLOSED),
            Some(channel) if channel.state == ChannelState::Closing => Ok(None),
            some => Ok(some),
        }
    }

    /// Adds a part; the message is handed out if it was the last.
    fn gather<'b>(
        &mut self,
        number: u16,
        gathered: &'b mut Gathered,
        add: impl FnOnce(&mut Gathering),
    ) -> Result<Incoming<'b>, PeerFault> {
        let Some(slot) = self
            .channels
            .get(number)
            .map(|channel| &mut channel.gathering)
        else {
            return Ok(Incoming::Consumed);
        };
        let Some(gathering) = slot.as_mut() else {
            return Ok(Incoming::Consumed);
        };
        add(gathering);
        if gathering.missing() != Missing::Nothing {
            return Ok(Incoming::Consumed);
        }
        let Some(gathering) = slot.take() else {
            return Ok(Incoming::Consumed);
        };
        self.gathered_bytes = self.gathered_bytes.saturating_sub(gathering.len());
        *gathered = gathering.finish();
        let gathered: &'b Gathered = gathered;
        // Both were checked when they arrived.
        let method = self.decode(gathered.method())?;
        let properties = BasicProperties::of_header(gathered.header());
        let properties =
            properties.map_err(|what| PeerFault::PROPERTIES_MALFORMED.saying(what.to_string()))?;
        let (header, payload) = (gathered.header(), gathered.body());
        Ok(Incoming::Content(Content {
            channel: number,
            method,
            properties,
            header,
            payload,
        }))
    }

    fn hold(&mut self, bytes: usize) -> Result<(), PeerFault> {
        self.gathered_bytes += bytes;
        if self.gathered_bytes > self.limits.gathered_bytes_max {
            return Err(PeerFault::GATHERED_TOO_MUCH);
        }
        Ok(())
    }

    /// We close it: what it gathered is dropped.
    pub(crate) fn close_channel(&mut self, number: u16) {
        if self.channels.state(number).is_some() {
            self.forget(number);
            self.channels.insert(number, ChannelState::Closing);
        }
    }

    /// Its number is free again.
    pub(crate) fn forget(&mut self, number: u16) {
        let channel = self.channels.remove(number);
        let held = channel
            .and_then(|channel| channel.gathering)
            .map_or(0, |gathering| gathering.len());
        self.gathered_bytes = self.gathered_bytes.saturating_sub(held);
    }

    /// The connection is over.
    pub(crate) fn clear(&mut self) {
        self.channels.clear();
        self.gathered_bytes = 0;
    }
}

/// Class and method id in the payload of a method frame.
pub(crate) fn peek_id(payload: &[u8]) -> Result<MethodId, PeerFault> {
    match payload {
        [c1, c2, m1, m2, ..] => Ok(MethodId::new(
            u16::from_be_bytes([*c1, *c2]),
            u16::from_be_bytes([*m1, *m2]),
        )),
        _ => Err(PeerFault::METHOD_MALFORMED),
    }
}

/// Input that still counts on a connection that we close.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Farewell<'b> {
    /// Everything else, and how much of it.
    Consumed(usize),
    Close(usize, connection::Close<'b>),
    CloseOk(usize),
}

/// Looks for the peer's confirmation of the close. Other bytes are skipped: after a malformed frame the beginning of
/// the next is unknown, but the confirmation always looks the same.
pub(crate) fn listen_for_farewell<'b>(bytes: &'b [u8], frame_max: u32) -> Option<Farewell<'b>> {
    const CLOSE_OK: [u8; 12] = [1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, 0xCE];
    match Frame::split(bytes, frame_max) {
        Ok(None) => None,
        Ok(Some(frame)) => Some(match Method::decode(frame.payload) {
            Ok(Method::ConnectionCloseOk(_)) if is_connection_method(&frame) => {
                Farewell::CloseOk(frame.len())
            }
            Ok(Method::ConnectionClose(close)) if is_connection_method(&frame) => {
                Farewell::Close(frame.len(), close)
            }
            _ => Farewell::Consumed(frame.len()),
        }),
        Err(PeerFault {
            scope: Scope::Connection,
            ..
        }) => {
            Some(match memchr::memmem::find(bytes, &CLOSE_OK) {
                Some(at) => Farewell::CloseOk(at + CLOSE_OK.len()),
                // The last bytes may be the beginning of it.
                None if bytes.len() >= CLOSE_OK.len() => {
                    Farewell::Consumed(bytes.len() + 1 - CLOSE_OK.len())
                }
                None => return None,
            })
        }
        Err(_) => None,
    }
}

fn is_connection_method(frame: &Frame<'_>) -> bool {
    frame.kind == frame::METHOD && frame.channel == 0
}
