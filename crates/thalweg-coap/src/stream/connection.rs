//! Common to both ends of a connection: framing, signals, limits of the peer. §3, §5

use super::frame::{self, StreamMessage};
use super::signal::{self, Abort, Csm, Release, has_custody, number};
use super::{PeerFault, decode};
use crate::{Code, Encoder, Token};

/// Limits of this end, announced in its CSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// Largest message, from the first byte of its length to the last of its payload.
    pub message_bytes_max: u32,
    /// Whether this end understands block-wise transfer.
    pub blockwise: bool,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            message_bytes_max: 1 << 20,
            blockwise: true,
        }
    }
}

/// Why a message was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// It is larger than the peer takes, which is this many bytes; block-wise transfer may help.
    TooLarge {
        /// The peer's largest message.
        message_bytes_max: u32,
    },
    /// As many requests as are allowed wait for their response.
    TooManyRequests,
    /// The connection has ended.
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    settings: StreamSettings,
    peer: Csm,
    state: State,
    has_said_csm: bool,
    /// Option number that Abort must name.
    bad_csm_option: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectCsm,
    Open,
    Closed,
}

/// A message of the peer, at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerMessage<'b> {
    Csm(Csm),
    Request(StreamMessage<'b>),
    Response(StreamMessage<'b>),
    Ping { token: Token, custody: bool },
    Pong { token: Token, custody: bool },
    Release(Release<'b>),
    Abort(Abort<'b>),
    Empty,
}

impl Connection {
    pub fn new(settings: StreamSettings) -> Connection {
        Connection {
            settings,
            peer: Csm::BASE,
            state: State::ExpectCsm,
            has_said_csm: false,
            bad_csm_option: None,
        }
    }

    pub fn peer(&self) -> Csm {
        self.peer
    }

    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The next message out of `bytes`. Every fault but one needs a message that is complete, so what has been looked at
    /// already and was not complete is not looked at again but for its length.
    #[inline]
    pub fn hear<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, PeerMessage<'b>)>, PeerFault> {
        if self.state == State::Closed {
            return Ok(None);
        }
        // Before its first message neither end may assume more than the base value (RFC 8323 §5.3.1).
        let bytes_max = match self.state {
            State::ExpectCsm => self
                .settings
                .message_bytes_max
                .min(Csm::BASE.message_bytes_max),
            _ => self.settings.message_bytes_max,
        };
        let Some((len, message)) = decode(bytes, bytes_max as usize)? else {
            return Ok(None);
        };
        let heard = match message.code.class() {
            0 if message.code == Code::EMPTY => PeerMessage::Empty,
            7 => self.signal(&message)?,
            _ if self.state == State::ExpectCsm => return Err(PeerFault::EXPECTED_CSM),
            0 => PeerMessage::Request(message),
            _ if message.code.is_response() => PeerMessage::Response(message),
            _ => return Err(PeerFault::CODE_RESERVED),
        };
        Ok(Some((len, heard)))
    }

    fn signal<'b>(&mut self, message: &StreamMessage<'b>) -> Result<PeerMessage<'b>, PeerFault> {
        let (code, token, options) = (message.code, message.token, message.options);
        // A peer that aborts before it has said anything is gone all the same.
        if self.state == State::ExpectCsm && !matches!(code, Code::CSM | Code::ABORT) {
            return Err(PeerFault::EXPECTED_CSM);
        }
        if !signal::is_known(code) {
            return Err(PeerFault::SIGNAL_UNKNOWN);
        }
        match (signal::critical(options), code) {
            (None, _) | (Some(_), Code::ABORT) => {}
            (Some(option), Code::CSM) => {
                self.bad_csm_option = Some(option);
                return Err(PeerFault::CSM_OPTION);
            }
            (Some(_), _) => return Err(PeerFault::SIGNAL_OPTION),
        }
        Ok(match code {
            Code::CSM => {
                self.peer.update(options);
                self.state = State::Open;
                PeerMessage::Csm(self.peer)
            }
            Code::PING => PeerMessage::Ping {
                token,
                custody: has_custody(options),
            },
            Code::PONG => PeerMessage::Pong {
                token,
                custody: has_custody(options),
            },
            Code::RELEASE => PeerMessage::Release(Release::new(options)),
            _ => {
                self.state = State::Closed;
                PeerMessage::Abort(Abort::new(options, message.payload))
            }
        })
    }

    /// Says what this end can do, once; everything else that is said comes behind it. §5.3
    #[inline]
    pub fn open(&mut self, out: &mut Vec<u8>) {
        if !self.has_said_csm && self.state != State::Closed {
            self.has_said_csm = true;
            let StreamSettings {
                message_bytes_max,
                blockwise,
            } = self.settings;
            let csm = Csm {
                message_bytes_max,
                blockwise,
            };
            frame::encode(
                out,
                Code::CSM,
                Token::EMPTY,
                |encoder| csm.encode(encoder),
                &[],
            );
        }
    }

    /// Says something, unless the peer does not take so much.
    #[inline]
    pub fn say(
        &mut self,
        code: Code,
        token: Token,
        options: impl FnOnce(&mut Encoder<'_>),
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        let message_bytes_max = self.peer.message_bytes_max;
        if payload.len() > message_bytes_max as usize {
            return Err(NotSent::TooLarge { message_bytes_max });
        }
        self.say_body(
            code,
            token,
            payload.len(),
            |out| {
                let mut encoder = Encoder::body(out);
                options(&mut encoder);
                encoder.payload(payload);
            },
            out,
        )
    }

    /// The same, everything behind the token by `body`, most of which is a payload of about `payload_bytes`.
    #[inline]
    pub fn say_body(
        &mut self,
        code: Code,
        token: Token,
        payload_bytes: usize,
        body: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        if self.state == State::Closed {
            return Err(NotSent::Closed);
        }
        self.open(out);
        let start = out.len();
        let len = frame::encode_body(out, code, token, payload_bytes, body);
        let message_bytes_max = self.peer.message_bytes_max;
        if len > message_bytes_max as usize {
            out.truncate(start);
            return Err(NotSent::TooLarge { message_bytes_max });
        }
        Ok(())
    }

    /// A Ping or its Pong, by `code`. §5.4
    pub fn ping(&mut self, code: Code, token: Token, custody: bool, out: &mut Vec<u8>) {
        let options = |encoder: &mut Encoder<'_>| {
            if custody {
                encoder.option(number::PING_CUSTODY, &[]);
            }
        };
        // It is smaller than anything a peer can refuse, and on a closed connection there is nothing to do.
        let _ = self.say(code, token, options, &[], out);
    }

    /// Asks the peer to end the connection, in order. §5.5
    pub fn release(
        &mut self,
        alternatives: &[&str],
        hold_off_seconds: Option<u32>,
        out: &mut Vec<u8>,
    ) {
        let options = |encoder: &mut Encoder<'_>| {
            for address in alternatives
                .iter()
                .filter(|address| (1..=255).contains(&address.len()))
            {
                encoder.option(number::RELEASE_ALTERNATIVE_ADDRESS, address.as_bytes());
            }
            if let Some(seconds) = hold_off_seconds {
                encoder.uint(number::RELEASE_HOLD_OFF, seconds.min(0xFF_FFFF));
            }
        };
        if self
            .say(Code::RELEASE, Token::EMPTY, options, &[], out)
            .is_err()
        {
            // Too many addresses for a peer that takes next to nothing.
            let _ = self.say(Code::RELEASE, Token::EMPTY, |_| {}, &[], out);
        }
    }

    /// Ends the connection: no message is read or written after it. `diagnostic` is left out if it is too long for the
    /// peer.
    pub fn abort(&mut self, diagnostic: &str, out: &mut Vec<u8>) {
        let bad = self.bad_csm_option;
        let options = |encoder: &mut Encoder<'_>| {
            if let Some(option) = bad {
                encoder.uint(number::ABORT_BAD_CSM_OPTION, option.into());
            }
        };
        if let Err(NotSent::TooLarge { .. }) = self.say(
            Code::ABORT,
            Token::EMPTY,
            options,
            diagnostic.as_bytes(),
            out,
        ) {
            let _ = self.say(Code::ABORT, Token::EMPTY, options, &[], out);
        }
        self.state = State::Closed;
    }

    /// A sign of life and nothing else.
    pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.open(out);
        if self.state != State::Closed {
            frame::encode(out, Code::EMPTY, Token::EMPTY, |_| {}, &[]);
        }
    }
}

/// The verbs that both ends of a connection have, for a machine whose `connection` it is.
macro_rules! verbs_of_both_ends {
    () => {
        /// Capabilities that the peer has announced so far.
        pub fn peer(&self) -> Csm {
            self.connection.peer()
        }

        /// Whether the peer's CSM came and the connection has not ended.
        pub fn is_open(&self) -> bool {
            self.connection.is_open()
        }

        /// Says what this end can do; need not wait for the peer to say the same. Does nothing the second time.
        pub fn open(&mut self, out: &mut Vec<u8>) {
            self.connection.open(out);
        }

        /// Asks whether the peer is there.
        pub fn ping(&mut self, token: Token, custody: bool, out: &mut Vec<u8>) {
            self.connection.ping(Code::PING, token, custody, out);
        }

        /// Answers a Ping. `custody` promises that what came before the Ping has been dealt with.
        pub fn pong(&mut self, token: Token, custody: bool, out: &mut Vec<u8>) {
            self.connection.ping(Code::PONG, token, custody, out);
        }

        /// A sign of life without an answer.
        pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
            self.connection.keep_alive(out);
        }

        /// Ends the connection at once, with words for a person. Nothing is read or written after that. Close it.
        pub fn abort(&mut self, diagnostic: &str, out: &mut Vec<u8>) {
            self.connection.abort(diagnostic, out);
        }

        /// Ends the connection after a fault, as [`Self::abort`].
        pub fn fault(&mut self, fault: &PeerFault, out: &mut Vec<u8>) {
            self.connection.abort(fault.what, out);
        }
    };
}
pub(super) use verbs_of_both_ends;
