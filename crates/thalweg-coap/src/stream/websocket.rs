//! Messages inside WebSocket: one per WebSocket message, whose length makes Len needless. §4.2
//!
//! The machines of this module use TCP's framing. Over WebSocket, the caller converts each received message into that
//! framing with [`append_from_websocket`], and a machine's output into WebSocket messages with [`next_for_websocket`].

use super::frame::{self, Head, put_length};
use super::{StreamMessage, decode};
use crate::{Code, Encoder, Malformed, Token};

/// A message to send in one binary WebSocket message: the first byte and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSocketMessage<'b> {
    /// Len, which is 0, and the length of the token.
    pub first: u8,
    /// Code, token, options, payload.
    pub rest: &'b [u8],
}

/// Decodes a WebSocket message. The value of its Len is ignored.
pub fn decode_websocket(message: &[u8]) -> Result<StreamMessage<'_>, Malformed> {
    let (token_len, body) = split(message)?;
    StreamMessage::decode_body(token_len, body)
}

/// Writes a message, its options by `options`, as one WebSocket message carries it.
pub fn encode_websocket(
    out: &mut Vec<u8>,
    code: Code,
    token: Token,
    options: impl FnOnce(&mut Encoder<'_>),
    payload: &[u8],
) {
    out.extend_from_slice(&[token.len() as u8, code.0]);
    out.extend_from_slice(token.as_slice());
    let mut encoder = Encoder::body(out);
    options(&mut encoder);
    encoder.payload(payload);
}

/// Appends what `message` would be in a stream. An error is the peer's fault, and a reason to close the connection; of
/// the rest of the message nothing is checked yet.
pub fn append_from_websocket(message: &[u8], stream: &mut Vec<u8>) -> Result<(), Malformed> {
    let (token_len, body) = split(message)?;
    let len = body
        .len()
        .checked_sub(1 + token_len)
        .ok_or(Malformed::TokenCutShort)?;
    let mut head = [0; 5];
    let extended = put_length(len, &mut head);
    head[0] |= token_len as u8;
    stream.extend_from_slice(head.get(..=extended).unwrap_or_default());
    stream.extend_from_slice(body);
    Ok(())
}

/// The first message of a stream that one of our machines wrote, for WebSocket, and how many bytes of the stream it takes.
pub fn next_for_websocket(stream: &[u8]) -> Option<(usize, WebSocketMessage<'_>)> {
    let Head {
        token_len, rest, ..
    } = frame::head(stream).ok()??;
    let (len, _) = decode(stream, usize::MAX).ok()??;
    let body = rest.get(..len - (stream.len() - rest.len()))?;
    Some((
        len,
        WebSocketMessage {
            first: token_len as u8,
            rest: body,
        },
    ))
}

/// Returns the length of the token, and the bytes from the code on.
fn split(message: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    let (first, body) = message.split_first().ok_or(Malformed::HeadCutShort)?;
    let token_len = usize::from(first & 0x0F);
    if token_len > Token::LEN_MAX {
        return Err(Malformed::TokenLength);
    }
    if body.is_empty() {
        return Err(Malformed::HeadCutShort);
    }
    Ok((token_len, body))
}
