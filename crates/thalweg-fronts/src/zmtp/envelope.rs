//! Envelopes of requests and answers: frames up to an empty one, and what Majordomo writes behind it. [28, 7, 8]

use thalweg_zmtp::Message;

/// Begins what a client of Majordomo asks: the service and the request follow. [7#MDP/Client]
pub(super) const MDP_CLIENT: &[u8] = b"MDPC01";
/// Begins what a worker of Majordomo says: a command follows. [7#MDP/Worker]
pub(super) const MDP_WORKER: &[u8] = b"MDPW01";
/// Services of Majordomo that begin so are the broker's own. [8]
pub(super) const MMI: &[u8] = b"mmi.";
/// Of these the one that says whether a service has a worker.
pub(super) const MMI_SERVICE: &[u8] = b"mmi.service";
pub(super) const READY: &[u8] = &[1];
pub(super) const REQUEST: &[u8] = &[2];
pub(super) const REPLY: &[u8] = &[3];
pub(super) const HEARTBEAT: &[u8] = &[4];
pub(super) const DISCONNECT: &[u8] = &[5];

/// The frames up to the first empty one, that included, and those behind it. Without an empty frame there is no envelope.
pub(super) fn split(message: Message<'_>) -> (Message<'_>, Message<'_>) {
    let mut frames = message.frames();
    while let Some(frame) = frames.next() {
        if frame.is_empty() {
            return (before(message, frames.rest()), frames.rest());
        }
    }
    (Message::from_raw(&[]), message)
}

/// The frames of a message before its last ones.
pub(super) fn before<'b>(message: Message<'b>, last: Message<'b>) -> Message<'b> {
    let len = message.raw().len().saturating_sub(last.raw().len());
    Message::from_raw(message.raw().get(..len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames<'b>(message: Message<'b>) -> Vec<&'b [u8]> {
        message.frames().collect()
    }

    #[test]
    fn an_envelope_ends_with_the_first_empty_frame() {
        let raw = b"\x01\x01a\x01\x00\x01\x01b\x01\x00\x00\x01c";
        let (envelope, body) = split(Message::from_raw(raw));
        assert_eq!(frames(envelope), [&b"a"[..], b""]);
        assert_eq!(frames(body), [&b"b"[..], b"", b"c"]);
        let none = Message::from_raw(b"\x01\x01a\x00\x01b");
        assert_eq!(split(none), (Message::from_raw(b""), none));
        let empty = split(Message::from_raw(b"\x00\x00"));
        assert_eq!((frames(empty.0), frames(empty.1)), (vec![&b""[..]], vec![]));
    }
}
