//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.

/// Why something ended or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ReplyCode {
    /// The method was carried out.
    ReplySuccess = 200,
    /// The content is larger than can be taken now.
    ContentTooLarge = 311,
    /// A mandatory message met no queue; only in `basic.return`.
    NoRoute = 312,
    /// An immediate message met no consumer.
    NoConsumers = 313,
    /// An operator ends the connection.
    ConnectionForced = 320,
    /// The virtual host is not known.
    InvalidPath = 402,
    /// The client may not do this.
    AccessRefused = 403,
    /// What was named does not exist.
    NotFound = 404,
    /// Another client holds it exclusively.
    ResourceLocked = 405,
    /// What exists is not what was asked for.
    PreconditionFailed = 406,
    /// A frame cannot be read.
    FrameError = 501,
    /// A field has a value that cannot be read.
    SyntaxError = 502,
    /// A method has no place here.
    CommandInvalid = 503,
    /// A channel is not open, or open already.
    ChannelError = 504,
    /// A frame of another kind was due.
    UnexpectedFrame = 505,
    /// The server lacks the means.
    ResourceError = 506,
    /// The server forbids it whoever asks.
    NotAllowed = 530,
    /// The server has no such function.
    NotImplemented = 540,
    /// The server failed; not the client's fault.
    InternalError = 541,
}

impl ReplyCode {
    /// Every reply code, ascending.
    pub const ALL: &'static [ReplyCode] = &[
        ReplyCode::ReplySuccess,
        ReplyCode::ContentTooLarge,
        ReplyCode::NoRoute,
        ReplyCode::NoConsumers,
        ReplyCode::ConnectionForced,
        ReplyCode::InvalidPath,
        ReplyCode::AccessRefused,
        ReplyCode::NotFound,
        ReplyCode::ResourceLocked,
        ReplyCode::PreconditionFailed,
        ReplyCode::FrameError,
        ReplyCode::SyntaxError,
        ReplyCode::CommandInvalid,
        ReplyCode::ChannelError,
        ReplyCode::UnexpectedFrame,
        ReplyCode::ResourceError,
        ReplyCode::NotAllowed,
        ReplyCode::NotImplemented,
        ReplyCode::InternalError,
    ];

    /// The code with this number.
    pub fn of(code: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.code() == code)
    }

    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The name that stands at the head of reply texts.
    pub const fn name(self) -> &'static str {
        match self {
            ReplyCode::ReplySuccess => "REPLY_SUCCESS",
            ReplyCode::ContentTooLarge => "CONTENT_TOO_LARGE",
            ReplyCode::NoRoute => "NO_ROUTE",
            ReplyCode::NoConsumers => "NO_CONSUMERS",
            ReplyCode::ConnectionForced => "CONNECTION_FORCED",
            ReplyCode::InvalidPath => "INVALID_PATH",
            ReplyCode::AccessRefused => "ACCESS_REFUSED",
            ReplyCode::NotFound => "NOT_FOUND",
            ReplyCode::ResourceLocked => "RESOURCE_LOCKED",
            ReplyCode::PreconditionFailed => "PRECONDITION_FAILED",
            ReplyCode::FrameError => "FRAME_ERROR",
            ReplyCode::SyntaxError => "SYNTAX_ERROR",
            ReplyCode::CommandInvalid => "COMMAND_INVALID",
            ReplyCode::ChannelError => "CHANNEL_ERROR",
            ReplyCode::UnexpectedFrame => "UNEXPECTED_FRAME",
            ReplyCode::ResourceError => "RESOURCE_ERROR",
            ReplyCode::NotAllowed => "NOT_ALLOWED",
            ReplyCode::NotImplemented => "NOT_IMPLEMENTED",
            ReplyCode::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Whether it ends the connection, not only the channel.
    pub const fn is_hard(self) -> bool {
        matches!(
            self,
            ReplyCode::ConnectionForced
                | ReplyCode::InvalidPath
                | ReplyCode::FrameError
                | ReplyCode::SyntaxError
                | ReplyCode::CommandInvalid
                | ReplyCode::ChannelError
                | ReplyCode::UnexpectedFrame
                | ReplyCode::ResourceError
                | ReplyCode::NotAllowed
                | ReplyCode::NotImplemented
                | ReplyCode::InternalError
        )
    }
}
