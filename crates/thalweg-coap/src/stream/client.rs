//! The client's end of a connection.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::connection::{Connection, PeerMessage, verbs_of_both_ends};
use super::{Abort, Csm, NotSent, PeerFault, Release, StreamMessage, StreamSettings};
use crate::{Code, Encoder, Token, option};

/// An event from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent<'b> {
    /// The server's capabilities: the first event, and again on every change.
    Csm(Csm),
    /// A response to the request of its token; or a notification, if more may follow.
    Response {
        /// The response; its token names the request.
        message: StreamMessage<'b>,
        /// Whether nothing more comes for this token.
        is_last: bool,
    },
    /// The server asks something of us; a client that is no server answers 5.01 or nothing.
    Request(StreamMessage<'b>),
    /// As `Event::Ping`.
    Ping {
        /// Token for the Pong.
        token: Token,
        /// Whether the Pong must wait until all earlier messages have been processed.
        custody: bool,
    },
    /// As `Event::Pong`.
    Pong {
        /// Token of the Ping that it answers.
        token: Token,
        /// Whether it is promised that all was dealt with.
        custody: bool,
    },
    /// The server asks to end the connection: send no new request, wait for pending responses, close.
    Release(Release<'b>),
    /// The server has ended the connection: close.
    Abort(Abort<'b>),
    /// A sign of life and nothing else, or a response to nothing that waits.
    Ignored,
}

/// The client's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer. It chooses the
/// tokens and knows which of them wait for a response. Make a new one for each connection. Whatever is said first has our
/// CSM before it.
#[derive(Debug)]
pub struct ClientSide {
    connection: Connection,
    /// Tokens that wait for a response; true: for notifications.
    waiting: HashMap<Token, bool, FixedState>,
    /// The number of the last token.
    token: u16,
}

impl ClientSide {
    /// Most pending requests and observations: fewer than there are tokens of two bytes.
    pub const WAITING_MAX: usize = 1 << 15;

    /// A machine that has not said anything yet.
    pub fn new(settings: StreamSettings) -> ClientSide {
        let waiting = HashMap::with_hasher(FixedState::default());
        ClientSide {
            connection: Connection::new(settings),
            waiting,
            token: 0,
        }
    }

    verbs_of_both_ends!();

    /// Number of pending requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next message out of `bytes`; as `ServerSide::handle_input`.
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        let Some((consumed, heard)) = self.connection.hear(bytes)? else {
            return Ok(None);
        };
        let event = match heard {
            PeerMessage::Response(message) => self.response(message),
            PeerMessage::Request(message) => ClientEvent::Request(message),
            PeerMessage::Empty => ClientEvent::Ignored,
            PeerMessage::Csm(csm) => ClientEvent::Csm(csm),
            PeerMessage::Ping { token, custody } => ClientEvent::Ping { token, custody },
            PeerMessage::Pong { token, custody } => ClientEvent::Pong { token, custody },
            PeerMessage::Release(release) => ClientEvent::Release(release),
            PeerMessage::Abort(abort) => ClientEvent::Abort(abort),
        };
        Ok(Some((consumed, event)))
    }

    fn response<'b>(&mut self, message: StreamMessage<'b>) -> ClientEvent<'b> {
        let Some(observes) = self.waiting.get(&message.token) else {
            return ClientEvent::Ignored;
        };
        // A server that does not know Observe, or has no room, answers once and without it. RFC 7641 §3.1
        let is_last =
            !(*observes && message.code.is_success() && message.options.has(option::OBSERVE));
        if is_last {
            self.waiting.remove(&message.token);
        }
        ClientEvent::Response { message, is_last }
    }

    /// Asks; the token is that of the response. `observes`: `options` has Observe of value 0, and notifications follow
    /// until one is the last. Writes nothing if it fails.
    pub fn request(
        &mut self,
        code: Code,
        observes: bool,
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Token, NotSent> {
        if self.waiting.len() >= ClientSide::WAITING_MAX {
            return Err(NotSent::TooManyRequests);
        }
        let mut token = self.next_token();
        while self.waiting.contains_key(&token) {
            token = self.next_token();
        }
        self.connection.say(code, token, options, payload, out)?;
        self.waiting.insert(token, observes);
        Ok(token)
    }

    /// Asks again under the token of a request that waits: to end an observation, with Observe of value 1 and the options
    /// it was begun with. RFC 7641 §3.6
    pub fn request_again(
        &mut self,
        token: Token,
        code: Code,
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        self.connection.say(code, token, options, payload, out)
    }

    /// Says something that is not to be answered: `options` ought to have No-Response. RFC 7967
    pub fn tell(
        &mut self,
        code: Code,
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        self.connection
            .say(code, Token::EMPTY, options, payload, out)
    }

    /// Waits for nothing more under this token; whatever still comes is ignored.
    pub fn forget(&mut self, token: Token) {
        self.waiting.remove(&token);
    }

    /// Answers a request of the server.
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

    /// Appends a Release: this client ends the connection in order.
    pub fn release(&mut self, out: &mut Vec<u8>) {
        self.connection.release(&[], None, out);
    }

    /// Never the empty token, which some servers take for none.
    fn next_token(&mut self) -> Token {
        self.token = self.token.wrapping_add(1).max(1);
        Token::from_number(self.token.into())
    }
}
