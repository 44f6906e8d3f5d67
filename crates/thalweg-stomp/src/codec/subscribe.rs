//! SUBSCRIBE and UNSUBSCRIBE.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// Acknowledgement mode of a subscription. [1.2#SUBSCRIBE_ack_Header]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AckMode {
    /// Not at all: sent is taken.
    #[default]
    Auto,
    /// An ACK speaks for all messages up to it.
    Client,
    /// An ACK speaks for its message.
    ClientIndividual,
}

impl AckMode {
    /// As the header has it.
    pub const fn name(self) -> &'static str {
        match self {
            AckMode::Auto => "auto",
            AckMode::Client => "client",
            AckMode::ClientIndividual => "client-individual",
        }
    }

    fn from_name(name: &str) -> Option<AckMode> {
        [AckMode::Auto, AckMode::Client, AckMode::ClientIndividual]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// A SUBSCRIBE as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeFrame<'b> {
    /// The client's name for it; only in 1.0 it may be absent, and then the destination names it.
    pub id: Option<Cow<'b, str>>,
    /// Destination, as the client wrote it.
    pub destination: Cow<'b, str>,
    /// Acknowledgement mode of the subscription.
    pub ack: AckMode,
    /// Name of a requested RECEIPT.
    pub receipt: Option<Cow<'b, str>>,
    /// Everything, the above included; e.g. `selector`, `durable`, `prefetch-count`.
    pub headers: Headers<'b>,
}

impl<'b> SubscribeFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let id = frame.get(Known::Id);
        if id.is_none() && frame.version != Version::V10 {
            return Err(PeerFault::SUBSCRIBE_ID);
        }
        let ack = match frame.get(Known::Ack) {
            Some(name) => AckMode::from_name(&name).ok_or(PeerFault::SUBSCRIBE_ACK)?,
            None => AckMode::Auto,
        };
        Ok(SubscribeFrame {
            id,
            destination: frame.required(Known::Destination, PeerFault::SUBSCRIBE_DESTINATION)?,
            ack,
            receipt: frame.get(Known::Receipt),
            headers: frame.headers,
        })
    }
}

/// Headers of a SUBSCRIBE to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscribeOut<'a> {
    /// Our name for it.
    pub id: Option<&'a str>,
    /// Destination to subscribe to, in the server's dialect.
    pub destination: &'a str,
    /// Acknowledgement mode of the subscription.
    pub ack: AckMode,
    /// Asks for a RECEIPT with this name.
    pub receipt: Option<&'a str>,
    /// Further headers, e.g. `selector`.
    pub headers: &'a [(&'a str, &'a str)],
}

impl SubscribeOut<'_> {
    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut w = HeaderWriter::begin(Command::Subscribe, version, out);
        w.maybe("id", self.id);
        w.ours("destination", self.destination);
        w.ours("ack", self.ack.name());
        w.maybe("receipt", self.receipt);
        w.extend(self.headers.iter().copied());
        w.end(&[]);
    }
}

/// UNSUBSCRIBE as received. One of `id` and `destination` is there; since 1.1 it is `id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsubscribeFrame<'b> {
    /// The client's name for the subscription.
    pub id: Option<Cow<'b, str>>,
    /// Destination that 1.0 may name instead.
    pub destination: Option<Cow<'b, str>>,
    /// Name of a requested RECEIPT.
    pub receipt: Option<Cow<'b, str>>,
    /// Everything, the above included.
    pub headers: Headers<'b>,
}

impl<'b> UnsubscribeFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let (id, destination) = (frame.get(Known::Id), frame.get(Known::Destination));
        match (&id, &destination, frame.version) {
            (None, None, Version::V10) => return Err(PeerFault::UNSUBSCRIBE_WHAT),
            (None, _, Version::V11 | Version::V12) => return Err(PeerFault::UNSUBSCRIBE_ID),
            _ => {}
        }
        Ok(UnsubscribeFrame {
            id,
            destination,
            receipt: frame.get(Known::Receipt),
            headers: frame.headers,
        })
    }
}

pub(crate) fn unsubscribe(
    (id, destination): (Option<&str>, Option<&str>),
    receipt: Option<&str>,
    headers: &[(&str, &str)],
    version: Version,
    out: &mut Vec<u8>,
) {
    let mut w = HeaderWriter::begin(Command::Unsubscribe, version, out);
    w.maybe("id", id);
    w.maybe("destination", destination);
    w.maybe("receipt", receipt);
    w.extend(headers.iter().copied());
    w.end(&[]);
}
