//! BEGIN, COMMIT and ABORT.

use std::borrow::Cow;

use crate::known::Known;
use crate::scanner::Frame;
use crate::{Command, HeaderWriter, Headers, PeerFault, Version};

/// BEGIN, COMMIT or ABORT as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionFrame<'b> {
    /// The client's name for the transaction.
    pub transaction: Cow<'b, str>,
    /// Name of a requested RECEIPT.
    pub receipt: Option<Cow<'b, str>>,
    /// Everything, the above included.
    pub headers: Headers<'b>,
}

impl<'b> TransactionFrame<'b> {
    pub(crate) fn decode(frame: &Frame<'_, 'b>) -> Result<Self, PeerFault> {
        Ok(TransactionFrame {
            transaction: frame.required(Known::Transaction, PeerFault::TRANSACTION)?,
            receipt: frame.get(Known::Receipt),
            headers: frame.headers,
        })
    }
}

/// `command`: BEGIN, COMMIT or ABORT.
pub(crate) fn encode(
    command: Command,
    name: &str,
    receipt: Option<&str>,
    version: Version,
    out: &mut Vec<u8>,
) {
    let mut w = HeaderWriter::begin(command, version, out);
    w.ours("transaction", name);
    w.maybe("receipt", receipt);
    w.end(&[]);
}
