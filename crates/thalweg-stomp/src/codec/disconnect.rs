//! DISCONNECT: the client's last frame; and RECEIPT, which it waits for.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// A DISCONNECT as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisconnectFrame<'b> {
    /// The client waits for a RECEIPT with this name before it closes.
    pub receipt: Option<Cow<'b, str>>,
    /// Everything, the above included.
    pub headers: Headers<'b>,
}

impl<'b> DisconnectFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Self {
        DisconnectFrame {
            receipt: frame.get(Known::Receipt),
            headers: frame.headers,
        }
    }
}

pub(crate) fn encode(receipt: Option<&str>, version: Version, out: &mut Vec<u8>) {
    let mut w = HeaderWriter::begin(Command::Disconnect, version, out);
    w.maybe("receipt", receipt);
    w.end(&[]);
}

pub(crate) fn decode_receipt<'b>(frame: &Frame<'_, 'b>) -> Result<Cow<'b, str>, PeerFault> {
    frame.required(Known::ReceiptId, PeerFault::RECEIPT_ID)
}

#[inline]
pub(crate) fn encode_receipt(id: &str, version: Version, out: &mut Vec<u8>) {
    let mut w = HeaderWriter::begin(Command::Receipt, version, out);
    w.ours("receipt-id", id);
    w.end(&[]);
}
