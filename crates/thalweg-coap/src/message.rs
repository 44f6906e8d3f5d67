//! A message in a datagram. RFC 7252 §3

use std::fmt;

use crate::{Code, Encoder, Options, Token};

/// Type of a message for the message layer. RFC 7252 §4.2, §4.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// CON: it is repeated until it is acknowledged or rejected.
    Confirmable = 0,
    /// NON: it is sent once.
    NonConfirmable = 1,
    /// ACK: the confirmable message of this id arrived.
    Acknowledgement = 2,
    /// RST: the message of this id arrived and means nothing here.
    Reset = 3,
}

impl Type {
    #[inline]
    fn of(bits: u8) -> Type {
        match bits & 3 {
            0 => Type::Confirmable,
            1 => Type::NonConfirmable,
            2 => Type::Acknowledgement,
            _ => Type::Reset,
        }
    }
}

/// A message that came in a datagram; it borrows from the datagram.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |Ver| T |  TKL  |      Code     |          Message ID           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Token (0 to 8 bytes), options                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |1 1 1 1 1 1 1 1|   Payload, unless it is empty                 |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    /// Type of the message.
    pub kind: Type,
    /// Method, response code, or nothing.
    pub code: Code,
    /// Message id, common to the message, its repetitions and acknowledgement.
    pub id: u16,
    /// Token, common to a request and its responses.
    pub token: Token,
    /// Options of the message, in their order.
    pub options: Options<'b>,
    /// Payload; empty if the message has none.
    pub payload: &'b [u8],
}

/// Reason why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Fewer bytes than a head has.
    HeadCutShort,
    /// Another version than 1, which must be ignored. RFC 7252 §3
    Version,
    /// A token longer than eight bytes. RFC 7252 §3
    TokenLength,
    /// Fewer bytes than its token has.
    TokenCutShort,
    /// A code of class 1, 6 or 7. RFC 7252 §4.2
    CodeReserved,
    /// An empty message with bytes behind its message id. RFC 7252 §4.1
    EmptyWithMore,
    /// Fewer bytes than an option has.
    OptionCutShort,
    /// An option whose delta or length is 15. RFC 7252 §3.1
    OptionReserved,
    /// An option whose number needs more than 16 bits. RFC 7252 §12.2
    OptionNumber,
    /// A payload marker with no payload. RFC 7252 §3
    PayloadMissing,
    /// More bytes than the receiver takes; only on streams. RFC 8323 §5.3.1
    TooLarge,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::HeadCutShort => "the message is shorter than a head",
            Malformed::Version => "another version than 1",
            Malformed::TokenLength => "a token of more than eight bytes",
            Malformed::TokenCutShort => "the message ends within its token",
            Malformed::CodeReserved => "a code of a reserved class",
            Malformed::EmptyWithMore => "an empty message with more than a head",
            Malformed::OptionCutShort => "the message ends within an option",
            Malformed::OptionReserved => "an option of a reserved form",
            Malformed::OptionNumber => "an option number above 65535",
            Malformed::PayloadMissing => "a payload marker without a payload",
            Malformed::TooLarge => "a message larger than the receiver takes",
        })
    }
}

/// A datagram that is no message, with the fields needed to reset or ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Why it could not be read.
    pub why: Malformed,
    /// Type of the message. `None` if it must be silently ignored: too short, or of another version.
    pub kind: Option<Type>,
    /// Its message id; there when `kind` is.
    pub id: Option<u16>,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl std::error::Error for DecodeError {}

impl<'b> Message<'b> {
    /// Reads the message that is a datagram.
    #[inline]
    pub fn decode(datagram: &'b [u8]) -> Result<Message<'b>, DecodeError> {
        let Some((&[first, code, id @ ..], rest)) = datagram.split_first_chunk::<4>() else {
            return Err(DecodeError {
                why: Malformed::HeadCutShort,
                kind: None,
                id: None,
            });
        };
        if first >> 6 != 1 {
            return Err(DecodeError {
                why: Malformed::Version,
                kind: None,
                id: None,
            });
        }
        let (kind, id) = (Type::of(first >> 4), u16::from_be_bytes(id));
        match Message::decode_body(kind, Code(code), id, usize::from(first & 0x0F), rest) {
            Ok(message) => Ok(message),
            Err(why) => Err(DecodeError {
                why,
                kind: Some(kind),
                id: Some(id),
            }),
        }
    }

    #[inline]
    fn decode_body(
        kind: Type,
        code: Code,
        id: u16,
        len: usize,
        rest: &'b [u8],
    ) -> Result<Message<'b>, Malformed> {
        if len > Token::LEN_MAX {
            return Err(Malformed::TokenLength);
        }
        if code == Code::EMPTY {
            if len != 0 || !rest.is_empty() {
                return Err(Malformed::EmptyWithMore);
            }
            return Ok(Message {
                kind,
                code,
                id,
                token: Token::EMPTY,
                options: Options::EMPTY,
                payload: &[],
            });
        }
        if code.is_reserved() {
            return Err(Malformed::CodeReserved);
        }
        let (token, rest) = Token::split(rest, len).ok_or(Malformed::TokenCutShort)?;
        let (options, payload) = Options::decode(rest)?;
        Ok(Message {
            kind,
            code,
            id,
            token,
            options,
            payload,
        })
    }

    /// Encodes the message. The result of [`Message::decode`] is encoded to the same bytes: a message has only one
    /// form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut encoder = Encoder::start(out, self.kind, self.code, self.id, self.token);
        self.options.iter().for_each(|(number, value)| {
            encoder.option(number, value);
        });
        encoder.payload(self.payload);
    }
}
