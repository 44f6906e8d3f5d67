//! A message in a stream. §3.2

use crate::{Code, Encoder, Malformed, Options, Token};

/// A message that came over a reliable transport; it borrows from the received bytes.
///
/// ```text
///  0 1 2 3 4 5 6 7
/// +-------+-------+---------------------+------+-----------------+---------+------+---------+
/// |  Len  |  TKL  | Extended Length 0-4 | Code | Token 0-8 bytes | Options | 0xFF | Payload |
/// +-------+-------+---------------------+------+-----------------+---------+------+---------+
///   Len: bytes of options, marker and payload; 13, 14, 15: in 1, 2, 4 further bytes, less 13, 269, 65805
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMessage<'b> {
    /// Method, response code, signal, or nothing.
    pub code: Code,
    /// Token, common to a request and its responses.
    pub token: Token,
    /// Its options; those of signals have numbers of their own.
    pub options: Options<'b>,
    /// Payload; empty if the message has none.
    pub payload: &'b [u8],
}

/// The first message of a stream, and how many bytes it takes. `Ok(None)`: it has not arrived yet. A message of more
/// than `message_bytes_max` bytes is refused by its first bytes.
#[inline]
pub fn decode(
    bytes: &[u8],
    message_bytes_max: usize,
) -> Result<Option<(usize, StreamMessage<'_>)>, Malformed> {
    let Some(Head {
        token_len,
        len,
        rest,
    }) = head(bytes)?
    else {
        return Ok(None);
    };
    let body_len = 1 + token_len as u64 + len;
    if (bytes.len() - rest.len()) as u64 + body_len > message_bytes_max as u64 {
        return Err(Malformed::TooLarge);
    }
    let Some((body, behind)) = rest.split_at_checked(body_len as usize) else {
        return Ok(None);
    };
    let message = StreamMessage::decode_body(token_len, body)?;
    Ok(Some((bytes.len() - behind.len(), message)))
}

impl<'b> StreamMessage<'b> {
    /// Reads everything behind the length.
    #[inline]
    pub(super) fn decode_body(
        token_len: usize,
        body: &'b [u8],
    ) -> Result<StreamMessage<'b>, Malformed> {
        let (code, rest) = body.split_first().ok_or(Malformed::HeadCutShort)?;
        let (token, rest) = Token::split(rest, token_len).ok_or(Malformed::TokenCutShort)?;
        let (options, payload) = Options::decode(rest)?;
        Ok(StreamMessage {
            code: Code(*code),
            token,
            options,
            payload,
        })
    }

    /// Encodes the message. The result of [`decode`] is encoded to the same bytes: a message has only one form.
    pub fn encode(&self, out: &mut Vec<u8>) -> usize {
        encode(
            out,
            self.code,
            self.token,
            |encoder| copy(self.options, encoder),
            self.payload,
        )
    }
}

/// Writes the same options again.
pub(super) fn copy(options: Options<'_>, encoder: &mut Encoder<'_>) {
    for (number, value) in options {
        encoder.option(number, value);
    }
}

/// The bytes before the code.
pub(super) struct Head<'b> {
    pub token_len: usize,
    /// Value of Len and its extension bytes.
    pub len: u64,
    pub rest: &'b [u8],
}

/// Reads what stands before the code; `None` while it has not arrived.
#[inline]
pub(super) fn head(bytes: &[u8]) -> Result<Option<Head<'_>>, Malformed> {
    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let token_len = usize::from(first & 0x0F);
    if token_len > Token::LEN_MAX {
        return Err(Malformed::TokenLength);
    }
    let length = match first >> 4 {
        13 => rest
            .split_first()
            .map(|(more, rest)| (13 + u64::from(*more), rest)),
        14 => rest
            .split_first_chunk()
            .map(|(more, rest)| (269 + u64::from(u16::from_be_bytes(*more)), rest)),
        15 => rest
            .split_first_chunk()
            .map(|(more, rest)| (65_805 + u64::from(u32::from_be_bytes(*more)), rest)),
        len => Some((u64::from(len), rest)),
    };
    Ok(length.map(|(len, rest)| Head {
        token_len,
        len,
        rest,
    }))
}

/// Writes a message, its options by `options`; says how many bytes it takes.
#[inline]
pub fn encode(
    out: &mut Vec<u8>,
    code: Code,
    token: Token,
    options: impl FnOnce(&mut Encoder<'_>),
    payload: &[u8],
) -> usize {
    encode_body(out, code, token, payload.len(), |out| {
        let mut encoder = Encoder::body(out);
        options(&mut encoder);
        encoder.payload(payload);
    })
}

/// The same, everything behind the token by `body`, most of which is a payload of about `payload_bytes`.
#[inline]
pub(super) fn encode_body(
    out: &mut Vec<u8>,
    code: Code,
    token: Token,
    payload_bytes: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> usize {
    let start = out.len();
    // Options are rarely long, so the payload determines how many bytes the length will take. Room is left for that many.
    let room = match payload_bytes {
        0 => 0,
        1..230 => 1,
        230..65_000 => 2,
        _ => 4,
    };
    let mut head = [0; 1 + 4];
    let behind_room = start + 1 + room;
    out.extend_from_slice(head.get(..1 + room).unwrap_or_default());
    out.push(code.0);
    out.extend_from_slice(token.as_slice());
    let body = out.len();
    write(out);
    let extended = put_length(out.len() - body, &mut head);
    if extended != room {
        move_body(out, behind_room, start + 1 + extended);
    }
    head[0] |= token.len() as u8;
    if let (Some(place), Some(head)) =
        (out.get_mut(start..=start + extended), head.get(..=extended))
    {
        place.copy_from_slice(head);
    }
    out.len() - start
}

/// Writes Len and its extension; returns the number of extension bytes.
#[inline]
pub(super) fn put_length(len: usize, head: &mut [u8; 5]) -> usize {
    let [first, more @ ..] = head;
    match len {
        0..13 => {
            *first = (len as u8) << 4;
            0
        }
        13..269 => {
            *first = 13 << 4;
            more[0] = (len - 13) as u8;
            1
        }
        269..65_805 => {
            *first = 14 << 4;
            more[..2].copy_from_slice(&((len - 269) as u16).to_be_bytes());
            2
        }
        _ => {
            *first = 15 << 4;
            more.copy_from_slice(&((len - 65_805) as u32).to_be_bytes());
            4
        }
    }
}

/// Moves what begins at `from` and ends with the buffer, so that it begins at `to`.
#[cold]
fn move_body(out: &mut Vec<u8>, from: usize, to: usize) {
    let end = out.len();
    if to > from {
        out.resize(end + to - from, 0);
    }
    out.copy_within(from..end, to);
    out.truncate(end + to - from);
}
