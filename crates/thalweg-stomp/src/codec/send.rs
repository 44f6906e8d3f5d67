//! SEND: a message of a client.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// A SEND as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFrame<'b> {
    /// Where to, as the client wrote it.
    pub destination: Cow<'b, str>,
    /// The transaction it belongs to.
    pub transaction: Option<Cow<'b, str>>,
    /// Name of a requested RECEIPT.
    pub receipt: Option<Cow<'b, str>>,
    /// Media type of the body.
    pub content_type: Option<Cow<'b, str>>,
    /// Everything, the above included.
    pub headers: Headers<'b>,
    /// Payload of the message; may be empty.
    pub body: &'b [u8],
    /// The frame's bytes as they came.
    pub frame: &'b [u8],
}

impl<'b> SendFrame<'b> {
    #[inline]
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        Ok(SendFrame {
            destination: frame.required(Known::Destination, PeerFault::SEND_DESTINATION)?,
            transaction: frame.get(Known::Transaction),
            receipt: frame.get(Known::Receipt),
            content_type: frame.get(Known::ContentType),
            headers: frame.headers,
            body: frame.body,
            frame: frame.whole,
        })
    }
}

/// Headers and body of a SEND to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOut<'a> {
    /// Destination, in the server's dialect.
    pub destination: &'a str,
    /// The transaction it belongs to.
    pub transaction: Option<&'a str>,
    /// Asks for a RECEIPT with this name.
    pub receipt: Option<&'a str>,
    /// Media type of the body.
    pub content_type: Option<&'a str>,
    /// Payload of the message; may be empty.
    pub body: &'a [u8],
}

impl SendOut<'_> {
    /// `more` writes further headers.
    pub(crate) fn encode(
        &self,
        version: Version,
        more: impl FnOnce(&mut HeaderWriter<'_>),
        out: &mut Vec<u8>,
    ) {
        let mut w = HeaderWriter::begin(Command::Send, version, out);
        w.ours("destination", self.destination);
        w.maybe("content-type", self.content_type);
        w.number("content-length", self.body.len());
        w.maybe("transaction", self.transaction);
        w.maybe("receipt", self.receipt);
        more(&mut w);
        w.end(self.body);
    }
}
