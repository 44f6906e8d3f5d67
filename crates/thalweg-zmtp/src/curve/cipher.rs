//! Encryption after the handshake: everything is a MESSAGE with a box.
//!
//! ```text
//!  07 "MESSAGE" | count, 8 octets | box of flags and body
//! ```
//!
//! libzmq sends MESSAGE as a message frame, although RFC 37 requires a command ("Wire Analysis of the Connection"), and
//! copies the frame's flags to the content of the box. We write it as libzmq does, and read both. Bit 1 of the flags in
//! the box, which RFC 26 reserves, says that the body is a command.

use super::BoxKey;
use super::boxes::{TAG_LEN, Text, short_nonce};
use crate::PeerFault;
use crate::frame::{MORE, put_head};

const NAME: &[u8; 8] = b"\x07MESSAGE";
const READY: &[u8; 16] = b"CurveZMQREADY---";
const FROM_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const FROM_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";

/// Octets of a MESSAGE's body beside the body in its box.
pub(crate) const OVERHEAD: usize = NAME.len() + 8 + TAG_LEN + 1;

/// The flag of a command in a box; its neighbour is [`MORE`].
pub(crate) const BOXED_COMMAND: u8 = 2;

/// One end's key and counts.
pub(crate) struct Cipher {
    key: BoxKey,
    is_server: bool,
    /// The nonce that was used last.
    sent: u64,
    /// The peer's last nonce.
    heard: u64,
}

impl Cipher {
    pub(super) fn new(key: BoxKey, is_server: bool, sent: u64, heard: u64) -> Self {
        Cipher {
            key,
            is_server,
            sent,
            heard,
        }
    }

    /// The data of READY.
    pub(crate) fn seal_ready(&mut self, metadata: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let nonce = short_nonce(READY, self.sent);
        [
            &self.sent.to_be_bytes()[..],
            &self.key.sealed(&nonce, &[metadata]),
        ]
        .concat()
    }

    /// The metadata in the data of READY.
    pub(crate) fn open_ready(&mut self, ready: &[u8]) -> Result<Vec<u8>, PeerFault> {
        let (count, boxed) = ready.split_first_chunk().ok_or(PeerFault::CURVE_LENGTH)?;
        self.heard = u64::from_be_bytes(*count);
        let text = self.key.open(&short_nonce(READY, self.heard), boxed);
        Ok(text.ok_or(PeerFault::CURVE_BOX)?.decrypted())
    }

    pub(crate) fn seal(&mut self, flags: u8, body: &[&[u8]], out: &mut Vec<u8>) {
        self.sent += 1;
        let len: usize = body.iter().map(|part| part.len()).sum();
        put_head(0, OVERHEAD + len, out);
        out.extend_from_slice(NAME);
        out.extend_from_slice(&self.sent.to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; TAG_LEN]);
        out.push(flags);
        body.iter().for_each(|part| out.extend_from_slice(part));
        let prefix = if self.is_server {
            FROM_SERVER
        } else {
            FROM_CLIENT
        };
        let nonce = short_nonce(prefix, self.sent);
        self.key.seal(&nonce, out.get_mut(at..).unwrap_or_default());
    }

    /// Flags and body in the box of a MESSAGE.
    pub(crate) fn open<'b>(&mut self, message: &'b [u8]) -> Result<(u8, Text<'b>), PeerFault> {
        let rest = message
            .strip_prefix(NAME)
            .ok_or(PeerFault::EXPECTED_MESSAGE)?;
        let (count, boxed) = rest.split_first_chunk().ok_or(PeerFault::CURVE_LENGTH)?;
        let count = u64::from_be_bytes(*count);
        // "SHALL disconnect clients that reuse a short nonce." [26#The_HELLO_Command]
        if count <= self.heard {
            return Err(PeerFault::CURVE_NONCE);
        }
        let prefix = if self.is_server {
            FROM_CLIENT
        } else {
            FROM_SERVER
        };
        let text = self.key.open(&short_nonce(prefix, count), boxed);
        let mut text = text.ok_or(PeerFault::CURVE_BOX)?;
        let flags = text.take_octet().ok_or(PeerFault::CURVE_LENGTH)?;
        if flags & !(MORE | BOXED_COMMAND) != 0 || flags == MORE | BOXED_COMMAND {
            return Err(PeerFault::FRAME_FLAGS);
        }
        self.heard = count;
        Ok((flags, text))
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cipher(sent {}, heard {})", self.sent, self.heard)
    }
}
