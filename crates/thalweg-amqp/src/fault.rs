//! Protocol errors of a peer: one constant per broken rule, in one table.

use std::borrow::Cow;

use crate::{MethodId, ReplyCode};

/// Scope that a fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The peer does not speak AMQP 0-9-1: it is sent our protocol header.
    ProtocolHeader,
    /// The connection with all its channels.
    Connection,
    /// This channel only; the connection goes on.
    Channel(u16),
}

/// A peer broke the protocol. `fault` of the machine that found it writes the close method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// The scope that is closed because of it.
    pub scope: Scope,
    /// Reply code for the peer.
    pub code: ReplyCode,
    /// Section of the specification that was broken.
    pub clause: &'static str,
    /// The error, as half a sentence.
    pub what: Cow<'static, str>,
    /// The method that caused it, or [`MethodId::NONE`].
    pub cause: MethodId,
}

impl std::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PeerFault {
            scope,
            code,
            clause,
            what,
            cause,
        } = self;
        write!(
            f,
            "the peer is at fault: {what} [{clause}]; {} {}",
            code.code(),
            code.name()
        )?;
        if *cause != MethodId::NONE {
            write!(f, ", {cause}")?;
        }
        match scope {
            Scope::ProtocolHeader => {
                f.write_str("; the connection is closed, have the peer speak AMQP 0-9-1")
            }
            Scope::Connection => f.write_str(
                "; the connection is closed, correct the peer or raise the limit it met",
            ),
            Scope::Channel(ch) => write!(
                f,
                "; channel {ch} is closed, correct the peer or raise the limit it met"
            ),
        }
    }
}

impl std::error::Error for PeerFault {}

impl PeerFault {
    /// The same fault in better words.
    pub(crate) fn saying(self, what: impl Into<Cow<'static, str>>) -> Self {
        PeerFault {
            what: what.into(),
            ..self
        }
    }

    /// The same fault with the method that caused it.
    pub(crate) fn by(self, cause: MethodId) -> Self {
        PeerFault { cause, ..self }
    }

    /// The same fault, of a channel only.
    pub(crate) fn on(self, channel: u16) -> Self {
        PeerFault {
            scope: Scope::Channel(channel),
            ..self
        }
    }
}

macro_rules! faults {
    ($($name:ident: $scope:ident $code:ident $clause:literal $what:literal;)*) => {
        /// The table of everything a peer can do wrong.
        impl PeerFault {
            $(#[doc = concat!($what, " [", $clause, "].")]
            pub const $name: PeerFault = PeerFault {
                scope: Scope::$scope,
                code: ReplyCode::$code,
                clause: $clause,
                what: Cow::Borrowed($what),
                cause: MethodId::NONE,
            };)*

            /// Every fault that this crate can report, for documents and tests. Some are said in more words, with
            /// numbers, and `MESSAGE_TOO_LARGE` with its channel.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    PROTOCOL_HEADER: ProtocolHeader FrameError "§4.2.2" "the connection does not begin with the header of AMQP 0-9-1";

    // Frames.
    FRAME_TYPE: Connection FrameError "§4.2.3" "the frame type is not defined";
    FRAME_TOO_LARGE: Connection FrameError "§4.2.3" "the frame is larger than frame_max";
    FRAME_END: Connection FrameError "§4.2.3" "the frame does not end in the frame-end octet";
    HEARTBEAT: Connection FrameError "§4.2.7" "a heartbeat has a payload or is not on channel 0";
    BODY_TOO_LONG: Connection FrameError "§4.2.6.2" "the body is longer than its header announced";

    // Methods.
    METHOD_UNKNOWN: Connection NotImplemented "§4.2.4" "there is no such method";
    METHOD_MALFORMED: Connection SyntaxError "§4.2.4" "the arguments of a method cannot be read";
    PROPERTIES_MALFORMED: Connection SyntaxError "§4.2.6.1" "the properties of a message cannot be read";
    DIRECTION: Connection CommandInvalid "§2.2.2" "this method is sent only by the other side";
    METHOD_UNEXPECTED: Connection CommandInvalid "§2.2.4" "this method has no place in this state of the connection";
    CONNECTION_CLASS: Connection CommandInvalid "§4.3" "connection methods belong on channel 0, and only they";

    // Channels.
    CHANNEL_CLOSED: Connection ChannelError "§4.3" "expected 'channel.open'";
    CHANNEL_OPEN_TWICE: Connection ChannelError "§4.3" "second 'channel.open' seen";
    CHANNEL_MAX: Connection NotAllowed "§4.3" "the channel number is above the negotiated channel_max";
    CLOSE_OK_UNASKED: Connection CommandInvalid "§2.2.5" "'channel.close-ok' without 'channel.close'";

    // Content.
    EXPECTED_METHOD: Connection UnexpectedFrame "§4.2.6" "expected method frame, got non method frame instead";
    EXPECTED_HEADER: Connection UnexpectedFrame "§4.2.6" "expected content header for class 60, got non content header frame instead";
    EXPECTED_BODY: Connection UnexpectedFrame "§4.2.6" "expected content body, got non content body frame instead";
    HEADER_CLASS: Connection UnexpectedFrame "§4.2.6.1" "expected content header for class 60, got one for another class or with a weight";
    MESSAGE_TOO_LARGE: Connection PreconditionFailed "§4.2.6.1" "message size is larger than configured max size";
    GATHERED_TOO_MUCH: Connection ResourceError "§4.2.6" "the unfinished messages of all channels exceed what a connection may hold";

    // Negotiation.
    TUNE_CHANNEL_MAX: Connection NotAllowed "§2.2.4" "negotiated channel_max is higher than the maximum allowed value";
    TUNE_FRAME_MAX: Connection NotAllowed "§2.2.4" "negotiated frame_max is not within the allowed values";
}
