//! ERROR: the server's last frame.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, Version};

/// An ERROR as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFrame<'b> {
    /// Short description of the error.
    pub message: Option<Cow<'b, str>>,
    /// The `receipt` of the frame that is to blame.
    pub receipt_id: Option<Cow<'b, str>>,
    /// Everything, the above included; e.g. `version` when none could be agreed on.
    pub headers: Headers<'b>,
    /// Long description of the error.
    pub body: &'b [u8],
}

impl<'b> ErrorFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Self {
        ErrorFrame {
            message: frame.get(Known::Message),
            receipt_id: frame.get(Known::ReceiptId),
            headers: frame.headers,
            body: frame.body,
        }
    }
}

/// ERROR as written, with a body of plain text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorOut<'a> {
    /// Short description of the error.
    pub message: &'a str,
    /// The `receipt` of the frame that is to blame.
    pub receipt_id: Option<&'a str>,
    /// The versions we speak, if that is the trouble.
    pub versions: Option<&'a str>,
    /// Long description of the error; may be empty.
    pub body: &'a str,
}

impl ErrorOut<'_> {
    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut w = HeaderWriter::begin(Command::Error, version, out);
        w.ours("message", self.message);
        w.maybe("receipt-id", self.receipt_id);
        w.maybe("version", self.versions);
        w.ours("content-type", "text/plain");
        w.number("content-length", self.body.len());
        w.end(self.body.as_bytes());
    }
}
