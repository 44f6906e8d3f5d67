//! The server's end of a connection.

use super::connection::{Connection, PeerMessage, verbs_of_both_ends};
use super::{Abort, Csm, NotSent, PeerFault, Release, StreamMessage, StreamSettings};
use crate::{Code, Encoder, Token};

/// An event from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// The client's capabilities: the first event, and again on every change.
    Csm(Csm),
    /// A request, with a code of class 0.
    Request(StreamMessage<'b>),
    /// The client asks whether we are there: owes a [`ServerSide::pong`] of this token. With `custody` it should wait
    /// until everything asked before has been dealt with. RFC 8323 §5.4.1
    Ping {
        /// Token for the Pong.
        token: Token,
        /// Whether the Pong must wait until all earlier messages have been processed.
        custody: bool,
    },
    /// The client is there. With `custody` it has dealt with everything that was sent before the Ping.
    Pong {
        /// Token of the Ping that it answers.
        token: Token,
        /// Whether that is promised.
        custody: bool,
    },
    /// The client asks to end the connection: answer pending requests, then close.
    Release(Release<'b>),
    /// The client has ended the connection: close.
    Abort(Abort<'b>),
    /// A sign of life without content, or a response, which a server does not expect.
    Ignored,
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer. Whatever is said
/// first has our CSM before it.
///
/// ```text
///  ExpectCsm --CSM--> Open --Abort, abort(), fault()--> Closed
/// ```
#[derive(Debug)]
pub struct ServerSide {
    connection: Connection,
}

impl ServerSide {
    /// A machine that waits for CSM.
    pub fn new(settings: StreamSettings) -> ServerSide {
        ServerSide {
            connection: Connection::new(settings),
        }
    }

    verbs_of_both_ends!();

    /// The next message out of `bytes`. `Ok(None)`: incomplete, nothing consumed; the next call must bring the same bytes
    /// and more. `Ok(Some((consumed, event)))`: the event borrows from `bytes` only, so the machine can be used while the
    /// event is held. `Err`: call [`ServerSide::fault`] and close. After Abort nothing comes out any more.
    #[inline]
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        let Some((consumed, heard)) = self.connection.hear(bytes)? else {
            return Ok(None);
        };
        let event = match heard {
            PeerMessage::Request(message) => Event::Request(message),
            PeerMessage::Response(_) | PeerMessage::Empty => Event::Ignored,
            PeerMessage::Csm(csm) => Event::Csm(csm),
            PeerMessage::Ping { token, custody } => Event::Ping { token, custody },
            PeerMessage::Pong { token, custody } => Event::Pong { token, custody },
            PeerMessage::Release(release) => Event::Release(release),
            PeerMessage::Abort(abort) => Event::Abort(abort),
        };
        Ok(Some((consumed, event)))
    }

    /// Answers the request of this token, or notifies its observer: that is the same here, but that notifications have
    /// Observe, with no value. Writes nothing if it fails.
    #[inline]
    pub fn respond(
        &mut self,
        token: Token,
        code: Code,
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        self.connection.say(code, token, options, payload, out)
    }

    /// The same with a body that is encoded already, of about so many bytes.
    #[inline]
    pub(super) fn respond_encoded(
        &mut self,
        token: Token,
        code: Code,
        bytes: usize,
        body: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        self.connection.say_body(code, token, bytes, body, out)
    }

    /// Asks the client to end the connection, in order; it may connect to `alternatives` (`host:port`) instead, or come
    /// back later. Pending requests can still be answered.
    pub fn release(
        &mut self,
        alternatives: &[&str],
        hold_off_seconds: Option<u32>,
        out: &mut Vec<u8>,
    ) {
        self.connection.release(alternatives, hold_off_seconds, out);
    }
}
