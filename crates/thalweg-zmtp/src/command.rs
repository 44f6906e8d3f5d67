//! Commands: a frame whose body is a name behind its length, and data.

use crate::PeerFault;
use crate::frame::{COMMAND, put_head};

pub(crate) const READY: &[u8] = b"READY";
pub(crate) const ERROR: &[u8] = b"ERROR";
pub(crate) const HELLO: &[u8] = b"HELLO";
pub(crate) const WELCOME: &[u8] = b"WELCOME";
pub(crate) const INITIATE: &[u8] = b"INITIATE";
pub(crate) const SUBSCRIBE: &[u8] = b"SUBSCRIBE";
pub(crate) const CANCEL: &[u8] = b"CANCEL";
pub(crate) const PING: &[u8] = b"PING";
pub(crate) const PONG: &[u8] = b"PONG";

/// First bytes of PLAIN's ERROR in libzmq up to 4.3.5: its source spells it "\x5ERROR", which C++ reads as the octet 5E
/// and "RROR". It is read like the right name. We write the right one, which a PLAIN client of libzmq takes for a
/// broken protocol: it closes all the same, but its monitor says ..._FAILED_PROTOCOL instead of ..._FAILED_AUTH.
const LIBZMQ_ERROR: &[u8] = b"^RROR";

/// Name and data of a command's body.
pub(crate) fn split(body: &[u8]) -> Result<(&[u8], &[u8]), PeerFault> {
    if let Some(data) = body.strip_prefix(LIBZMQ_ERROR) {
        return Ok((ERROR, data));
    }
    let (len, rest) = body.split_first().ok_or(PeerFault::COMMAND_NAME)?;
    match rest.split_at_checked(usize::from(*len)) {
        Some((name, data)) if !name.is_empty() && name.iter().all(u8::is_ascii_alphabetic) => {
            Ok((name, data))
        }
        _ => Err(PeerFault::COMMAND_NAME),
    }
}

/// Appends a command's body.
pub(crate) fn put_body(name: &[u8], data: &[&[u8]], out: &mut Vec<u8>) {
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Octets of a command's body.
pub(crate) fn body_len(name: &[u8], data: &[&[u8]]) -> usize {
    1 + name.len() + data.iter().map(|part| part.len()).sum::<usize>()
}

/// Appends a whole command.
pub(crate) fn put(name: &[u8], data: &[&[u8]], out: &mut Vec<u8>) {
    put_head(COMMAND, body_len(name, data), out);
    put_body(name, data, out);
}

/// Appends ERROR; a reason of more than 255 octets is cut.
pub(crate) fn put_error(reason: &str, out: &mut Vec<u8>) {
    let reason = reason.as_bytes();
    let reason = reason.get(..255).unwrap_or(reason);
    put(ERROR, &[&[reason.len() as u8], reason], out);
}

/// The text behind its length that fills `data`.
pub(crate) fn error_reason(data: &[u8]) -> Result<&[u8], PeerFault> {
    match data.split_first() {
        Some((len, reason)) if usize::from(*len) == reason.len() => Ok(reason),
        _ => Err(PeerFault::ERROR_REASON),
    }
}
