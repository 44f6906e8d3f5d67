//! MESSAGE: a message to a client.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// A MESSAGE as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFrame<'b> {
    /// The subscription that brought it; 1.0 may leave it out.
    pub subscription: Option<Cow<'b, str>>,
    /// The server's name for the message.
    pub message_id: Cow<'b, str>,
    /// Id for ACK and NACK in 1.2, if they are expected.
    pub ack: Option<Cow<'b, str>>,
    /// Where it was sent to.
    pub destination: Cow<'b, str>,
    /// Media type of the body.
    pub content_type: Option<Cow<'b, str>>,
    /// It was delivered before.
    pub redelivered: bool,
    /// Everything, the above included.
    pub headers: Headers<'b>,
    /// Payload of the message; may be empty.
    pub body: &'b [u8],
    /// The frame's bytes as they came.
    pub frame: &'b [u8],
}

impl<'b> MessageFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let subscription = frame.get(Known::Subscription);
        if subscription.is_none() && frame.version != Version::V10 {
            return Err(PeerFault::MESSAGE_SUBSCRIPTION);
        }
        Ok(MessageFrame {
            subscription,
            message_id: frame.required(Known::MessageId, PeerFault::MESSAGE_ID)?,
            ack: frame.get(Known::Ack),
            destination: frame.required(Known::Destination, PeerFault::MESSAGE_DESTINATION)?,
            content_type: frame.get(Known::ContentType),
            redelivered: frame.get(Known::Redelivered).as_deref() == Some("true"),
            headers: frame.headers,
            body: frame.body,
            frame: frame.whole,
        })
    }
}

/// MESSAGE as written. `content-length` is always added: bodies may hold NUL.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageOut<'a> {
    /// The subscription that brings it; only a 1.0 client that gave none has none.
    pub subscription: Option<&'a str>,
    /// Our name for the message.
    pub message_id: &'a str,
    /// Id for ACK and NACK in 1.2; not written in earlier versions. `None` if none is expected.
    pub ack: Option<&'a str>,
    /// Where it was sent to, as this client would write it.
    pub destination: &'a str,
    /// Media type of the body.
    pub content_type: Option<&'a str>,
    /// It was delivered before; written only if so.
    pub redelivered: bool,
    /// Payload of the message; may be empty.
    pub body: &'a [u8],
}

impl MessageOut<'_> {
    /// `more` writes further headers.
    #[inline]
    pub(crate) fn encode(
        &self,
        version: Version,
        more: impl FnOnce(&mut HeaderWriter<'_>),
        out: &mut Vec<u8>,
    ) {
        // Names, numbers and line feeds are less than 128 bytes; what further headers take is not known here.
        let text =
            self.subscription.map_or(0, str::len) + self.message_id.len() + self.destination.len();
        out.reserve(128 + text + self.body.len());
        let mut w = HeaderWriter::begin(Command::Message, version, out);
        w.maybe("subscription", self.subscription);
        w.ours("message-id", self.message_id);
        w.ours("destination", self.destination);
        if version == Version::V12 {
            w.maybe("ack", self.ack);
        }
        w.maybe("content-type", self.content_type);
        w.number("content-length", self.body.len());
        if self.redelivered {
            w.ours("redelivered", "true");
        }
        more(&mut w);
        w.end(self.body);
    }
}
