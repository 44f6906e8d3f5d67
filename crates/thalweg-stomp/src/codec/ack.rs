//! ACK and NACK: what became of a message.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// Identification of a message, which differs by version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckTarget<'b> {
    /// 1.2: the `ack` header of MESSAGE. [1.2#ACK]
    Id(Cow<'b, str>),
    /// 1.0 and 1.1: the `message-id` of MESSAGE, and since 1.1 the subscription. [1.1#ACK]
    Message {
        /// `message-id` of MESSAGE.
        message_id: Cow<'b, str>,
        /// The subscription that brought it; in 1.0 it may be absent.
        subscription: Option<Cow<'b, str>>,
    },
}

/// ACK or NACK as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckFrame<'b> {
    /// The message that it settles, by its version's header.
    pub target: AckTarget<'b>,
    /// The transaction it belongs to.
    pub transaction: Option<Cow<'b, str>>,
    /// Name of a requested RECEIPT.
    pub receipt: Option<Cow<'b, str>>,
    /// Everything, the above included; e.g. `requeue`.
    pub headers: Headers<'b>,
}

impl<'b> AckFrame<'b> {
    #[inline]
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        let target = if frame.version == Version::V12 {
            AckTarget::Id(frame.required(Known::Id, PeerFault::ACK_ID)?)
        } else {
            let message_id = frame.required(Known::MessageId, PeerFault::ACK_MESSAGE_ID)?;
            let subscription = frame.get(Known::Subscription);
            if subscription.is_none() && frame.version == Version::V11 {
                return Err(PeerFault::ACK_SUBSCRIPTION);
            }
            AckTarget::Message {
                message_id,
                subscription,
            }
        };
        Ok(AckFrame {
            target,
            transaction: frame.get(Known::Transaction),
            receipt: frame.get(Known::Receipt),
            headers: frame.headers,
        })
    }
}

/// ACK or NACK as written: what MESSAGE said, of which each version uses its part.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOut<'a> {
    /// `ack` of MESSAGE.
    pub ack: &'a str,
    /// `message-id` of MESSAGE.
    pub message_id: &'a str,
    /// `subscription` of MESSAGE.
    pub subscription: Option<&'a str>,
    /// The transaction it belongs to.
    pub transaction: Option<&'a str>,
    /// Asks for a RECEIPT with this name.
    pub receipt: Option<&'a str>,
}

impl AckOut<'_> {
    /// `command`: ACK or NACK.
    pub(crate) fn encode(&self, command: Command, version: Version, out: &mut Vec<u8>) {
        let mut w = HeaderWriter::begin(command, version, out);
        if version == Version::V12 {
            w.ours("id", self.ack);
        } else {
            w.ours("message-id", self.message_id);
            w.maybe("subscription", self.subscription);
        }
        w.maybe("transaction", self.transaction);
        w.maybe("receipt", self.receipt);
        w.end(&[]);
    }
}
