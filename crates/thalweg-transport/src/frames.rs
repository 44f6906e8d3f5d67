//! WebSocket frames (RFC 6455 §5), without ever holding one: payload goes on to the reader as it comes.
//!
//! ```text
//!  0               1               2                                2 to 10         up to 4 more
//! +-+-+-+-+-------+-+-------------+-------------------------------+---------------+-------------
//! |F|R|R|R| opcode|M| length 7 bit| length: 16 bit if the 7 are   | masking key   | payload
//! |I|S|S|S|  4 bit|A|             | 126, 64 bit if they are 127,  | if M          |
//! |N|V|V|V|       |S|             | else absent                   |               |
//! |1 2 3          |K|             |                               |               |
//! +-+-+-+-+-------+-+-------------+-------------------------------+---------------+-------------
//! ```
//!
//! A library that assembles messages would copy each byte twice more, keep a buffer for every idle connection, and
//! reserve the length in a frame's header before its first byte came. MQTT, which has its own lengths, needs none of it
//! [MQTT-6.0.0-2]; STOMP frames have an end of their own, and that of an XMPP message is marked by a NUL. CoAP is the
//! exception: a WebSocket message is a CoAP message, which has no other length, so it is assembled here (RFC 8323
//! §4.2).

use super::websocket::Messages;
use ring::rand::{SecureRandom, SystemRandom};
use thalweg_coap::stream::{append_from_websocket, next_for_websocket};
use tungstenite::protocol::frame::coding::CloseCode;

/// The end that reads: clients mask their frames, servers do not (RFC 6455 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// Reads frames of the other end.
#[derive(Debug)]
pub(super) struct FrameReader {
    end: End,
    frame_bytes_max: u64,
    message_bytes_max: u64,
    /// Text is as good as binary.
    allows_text: bool,
    messages: Messages,
    /// The other end's last message was text.
    hears_text: bool,
    /// The message under way, as far as it came, where messages are taken whole.
    whole: Option<Vec<u8>>,
    /// The header of the next frame, as far as it came.
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    /// The frame whose payload is being read.
    frame: Option<Frame>,
    /// Payload bytes of the message under way, while it is not complete.
    message_bytes: Option<u64>,
    /// The payload of a control frame, as far as it came.
    control: Vec<u8>,
    /// Payload of the newest unanswered ping.
    pong: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_final: bool,
    bytes_left: u64,
    mask: Option<[u8; 4]>,
    /// Payload bytes read so far; where the mask goes on.
    bytes_read: u64,
}

/// Why the other end has to go.
#[derive(Debug)]
pub(super) struct FrameFault {
    pub(super) code: CloseCode,
    pub(super) words: &'static str,
}

/// The other end said goodbye: the payload to echo.
pub(super) type Goodbye = Vec<u8>;

impl FrameReader {
    pub(super) fn new(end: End, frame_bytes_max: usize, message_bytes_max: usize) -> FrameReader {
        FrameReader {
            end,
            frame_bytes_max: frame_bytes_max as u64,
            message_bytes_max: message_bytes_max as u64,
            allows_text: false,
            messages: Messages::Parts,
            hears_text: false,
            whole: None,
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            frame: None,
            message_bytes: None,
            control: Vec::new(),
            pong: None,
        }
    }

    /// The same, for a protocol that may come as text, too.
    pub(super) fn with_text(self, allows_text: bool) -> FrameReader {
        FrameReader {
            allows_text,
            ..self
        }
    }

    /// The same, for a protocol of which each message may be a WebSocket message of its own.
    pub(super) fn with_messages(self, messages: Messages) -> FrameReader {
        FrameReader {
            whole: (messages == Messages::Whole).then(Vec::new),
            allows_text: self.allows_text || messages == Messages::Text,
            messages,
            ..self
        }
    }

    /// Whether the other end speaks text.
    pub(super) fn hears_text(&self) -> bool {
        self.hears_text
    }

    /// Bytes of a message that is not complete.
    pub(super) fn buffered(&self) -> usize {
        self.whole.as_ref().map_or(0, Vec::len)
    }

    /// Reads frames and appends the payload of those that carry data to `plain`. Stops at a close frame.
    pub(super) fn read(
        &mut self,
        mut wire: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Option<Goodbye>, FrameFault> {
        loop {
            let Some(frame) = &mut self.frame else {
                let Some((byte, rest)) = wire.split_first() else {
                    return Ok(None);
                };
                wire = rest;
                self.take_head(*byte)?;
                continue;
            };
            let now =
                usize::try_from(frame.bytes_left).map_or(wire.len(), |left| left.min(wire.len()));
            let (payload, rest) = wire.split_at(now);
            wire = rest;
            let target = match (frame.opcode & CONTROL == 0, &mut self.whole) {
                (true, None) => &mut *plain,
                (true, Some(whole)) => whole,
                (false, _) => &mut self.control,
            };
            let start = target.len();
            target.extend_from_slice(payload);
            if let (Some(mask), Some(added)) = (frame.mask, target.get_mut(start..)) {
                unmask(added, mask, frame.bytes_read);
            }
            frame.bytes_left -= now as u64;
            frame.bytes_read += now as u64;
            if frame.bytes_left > 0 {
                return Ok(None);
            }
            let opcode = frame.opcode;
            if frame.is_final && opcode & CONTROL == 0 {
                self.message_bytes = None;
                self.end_message(plain)?;
            }
            self.frame = None;
            match opcode {
                PING => self.pong = Some(std::mem::take(&mut self.control)),
                PONG => self.control.clear(),
                CLOSE => return judge_goodbye(std::mem::take(&mut self.control)).map(Some),
                _ => {}
            }
        }
    }

    /// A message is complete: where they are taken whole it goes on in the form that streams have.
    #[inline]
    fn end_message(&mut self, plain: &mut Vec<u8>) -> Result<(), FrameFault> {
        let Some(whole) = &mut self.whole else {
            if self.messages == Messages::Text {
                plain.push(TEXT_END);
            }
            return Ok(());
        };
        // Taken: an idle connection keeps no buffer.
        let message = std::mem::take(whole);
        append_from_websocket(&message, plain).map_err(|_| FrameFault {
            code: CloseCode::Protocol,
            words: "a message that is no CoAP message",
        })
    }

    /// Appends the answer to the newest ping; older ones need none (RFC 6455 §5.5.3), so that a flood of pings becomes
    /// no flood of pongs.
    pub(super) fn take_pong(&mut self, wire: &mut Vec<u8>) {
        if let Some(payload) = self.pong.take() {
            write_frame(self.end, PONG, &payload, wire);
        }
    }

    /// Takes one byte of a header; once it is complete, judges it.
    fn take_head(&mut self, byte: u8) -> Result<(), FrameFault> {
        if let Some(place) = self.head.get_mut(self.head_bytes) {
            *place = byte;
        }
        self.head_bytes += 1;
        let [first, second, rest @ ..] = self.head;
        let length_bytes = match second & 0x7F {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if second & MASKED == 0 { 0 } else { 4 };
        if self.head_bytes < 2 || self.head_bytes < 2 + length_bytes + mask_bytes {
            return Ok(());
        }
        self.head_bytes = 0;
        let [a, b, c, d, e, f, g, h, ..] = rest;
        let (length, mask) = match length_bytes {
            0 => (u64::from(second & 0x7F), [a, b, c, d]),
            2 => (u64::from(u16::from_be_bytes([a, b])), [c, d, e, f]),
            _ => (
                u64::from_be_bytes([a, b, c, d, e, f, g, h]),
                [rest[8], rest[9], rest[10], rest[11]],
            ),
        };
        let frame = Frame {
            opcode: first & 0x0F,
            is_final: first & FINAL != 0,
            bytes_left: length,
            mask: (mask_bytes != 0).then_some(mask),
            bytes_read: 0,
        };
        self.judge_head(first, &frame)?;
        self.frame = Some(frame);
        Ok(())
    }

    fn judge_head(&mut self, first: u8, frame: &Frame) -> Result<(), FrameFault> {
        let broken = |words| {
            Err(FrameFault {
                code: CloseCode::Protocol,
                words,
            })
        };
        if first & RESERVED_BITS != 0 {
            return broken("a reserved bit is set, and no extension was agreed");
        }
        match (self.end, frame.mask) {
            (End::Server, None) => return broken("frames of a client have to be masked"),
            (End::Client, Some(_)) => return broken("frames of a server must not be masked"),
            _ => {}
        }
        match (frame.opcode, self.message_bytes) {
            (PING | PONG | CLOSE, _) if !frame.is_final => broken("a control frame in fragments"),
            (PING | PONG | CLOSE, _) if frame.bytes_left > CONTROL_BYTES_MAX => {
                broken("a control frame of more than 125 bytes")
            }
            (PING | PONG | CLOSE, _) => Ok(()),
            (CONTINUATION, None) => broken("a continuation of nothing"),
            (BINARY | TEXT, Some(_)) => broken("a new message before the last one was complete"),
            // RFC 6455 §7.4.1, [MQTT-6.0.0-1].
            (TEXT, None) if !self.allows_text => Err(FrameFault {
                code: CloseCode::Unsupported,
                words: "this protocol comes in binary frames, not in text",
            }),
            (BINARY, None) if self.messages == Messages::Text => Err(FrameFault {
                code: CloseCode::Unsupported,
                words: "this protocol comes in text frames",
            }),
            (BINARY | TEXT | CONTINUATION, before) => {
                let message_bytes = before.unwrap_or(0).saturating_add(frame.bytes_left);
                if frame.bytes_left > self.frame_bytes_max {
                    return Err(FrameFault {
                        code: CloseCode::Size,
                        words: "a frame beyond the limit",
                    });
                }
                if message_bytes > self.message_bytes_max {
                    return Err(FrameFault {
                        code: CloseCode::Size,
                        words: "a message beyond the limit",
                    });
                }
                self.message_bytes = Some(message_bytes);
                if frame.opcode != CONTINUATION {
                    self.hears_text = frame.opcode == TEXT;
                }
                Ok(())
            }
            _ => broken("an opcode that is not defined"),
        }
    }
}

/// Appends one whole frame.
pub(super) fn write_frame(end: End, opcode: u8, payload: &[u8], wire: &mut Vec<u8>) {
    wire.push(FINAL | opcode);
    let masked = if end == End::Client { MASKED } else { 0 };
    match payload.len() {
        short @ 0..=125 => wire.push(masked | short as u8),
        middle @ 126..=0xFFFF => {
            wire.push(masked | 126);
            wire.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            wire.push(masked | 127);
            wire.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    match end {
        End::Server => wire.extend_from_slice(payload),
        End::Client => {
            let mask = masking_key();
            wire.extend_from_slice(&mask);
            let start = wire.len();
            wire.extend_from_slice(payload);
            if let Some(added) = wire.get_mut(start..) {
                unmask(added, mask, 0);
            }
        }
    }
}

/// Appends one frame for each CoAP message in `plain`, which is as it would be in a stream. False if it ends within one.
pub(super) fn write_messages(end: End, mut plain: &[u8], wire: &mut Vec<u8>) -> bool {
    let mut message = Vec::new();
    while let Some((len, next)) = next_for_websocket(plain) {
        message.clear();
        message.push(next.first);
        message.extend_from_slice(next.rest);
        write_frame(end, BINARY, &message, wire);
        plain = plain.get(len..).unwrap_or_default();
    }
    plain.is_empty()
}

/// Appends one text frame for each text in `plain`, each of which ends with a NUL. False if the last one does not.
pub(super) fn write_texts(end: End, mut plain: &[u8], wire: &mut Vec<u8>) -> bool {
    while let Some(len) = plain.iter().position(|octet| *octet == TEXT_END) {
        let (text, rest) = plain.split_at(len);
        write_frame(end, TEXT, text, wire);
        plain = rest.get(1..).unwrap_or_default();
    }
    plain.is_empty()
}

/// Appends a close frame with a code and at most 60 characters of words: all of it has to fit into 125 bytes.
pub(super) fn write_close(end: End, code: CloseCode, words: &str, wire: &mut Vec<u8>) {
    let mut payload = u16::from(code).to_be_bytes().to_vec();
    payload.extend(
        words
            .chars()
            .filter(char::is_ascii)
            .take(60)
            .map(|letter| letter as u8),
    );
    write_frame(end, CLOSE, &payload, wire);
}

/// A close frame holds nothing, or a code that may be sent and a reason in UTF-8 (RFC 6455 §5.5.1, §7.4).
fn judge_goodbye(mut payload: Vec<u8>) -> Result<Goodbye, FrameFault> {
    match payload.split_first_chunk::<2>() {
        None if payload.is_empty() => Ok(payload),
        Some((code, reason)) if CloseCode::from(u16::from_be_bytes(*code)).is_allowed() => {
            if std::str::from_utf8(reason).is_err() {
                return Err(FrameFault {
                    code: CloseCode::Invalid,
                    words: "the reason of a close frame is not UTF-8",
                });
            }
            // The code is echoed, the reason is theirs.
            payload.truncate(2);
            Ok(payload)
        }
        _ => Err(FrameFault {
            code: CloseCode::Protocol,
            words: "a close frame without a valid code",
        }),
    }
}

/// Masks and unmasks alike (RFC 6455 §5.3). `offset` is the place of `bytes` in the payload.
fn unmask(bytes: &mut [u8], mut mask: [u8; 4], offset: u64) {
    mask.rotate_left((offset % 4) as usize);
    // Sixteen at a time becomes one vector instruction.
    let mut wide = [0; 16];
    wide.iter_mut()
        .zip(mask.iter().cycle())
        .for_each(|(place, byte)| *place = *byte);
    let mut blocks = bytes.chunks_exact_mut(wide.len());
    for block in &mut blocks {
        block
            .iter_mut()
            .zip(wide)
            .for_each(|(byte, mask)| *byte ^= mask);
    }
    blocks
        .into_remainder()
        .iter_mut()
        .zip(wide)
        .for_each(|(byte, mask)| *byte ^= mask);
}

/// Unpredictable, so that no peer can make a client write bytes of their choice onto the wire (RFC 6455 §10.3).
fn masking_key() -> [u8; 4] {
    let mut key = [0; 4];
    // The system's generator fails on no system that runs TLS; a key of zeros would still be a valid one.
    let _ = SystemRandom::new().fill(&mut key);
    key
}

pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
/// Ends a text in the stream of its protocol: see [`Messages::Text`].
const TEXT_END: u8 = 0;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
/// The bit that distinguishes control frames from data.
const CONTROL: u8 = 0x8;
const FINAL: u8 = 0x80;
const RESERVED_BITS: u8 = 0x70;
const MASKED: u8 = 0x80;
const HEAD_BYTES_MAX: usize = 14;
const CONTROL_BYTES_MAX: u64 = 125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_at_every_edge_come_back_whole_in_pieces_of_any_size() {
        for length in [0, 1, 125, 126, 127, 0xFFFF, 0x1_0000, 0x1_0001] {
            let payload: Vec<u8> = (0..length).map(|n: u32| n as u8).collect();
            for (writer, reader) in [(End::Client, End::Server), (End::Server, End::Client)] {
                let mut wire = Vec::new();
                write_frame(writer, BINARY, &payload, &mut wire);
                for piece in [1, 3, 7, 1_000, 100_000] {
                    let mut frames = FrameReader::new(reader, 0x1_0001, 0x1_0001);
                    let mut plain = Vec::new();
                    for wire in wire.chunks(piece) {
                        assert!(frames.read(wire, &mut plain).unwrap().is_none());
                    }
                    assert!(plain == payload, "{length} bytes in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn a_frame_of_eight_exabytes_is_refused_by_its_header_alone() {
        let mut frames = FrameReader::new(End::Server, 1 << 20, 1 << 20);
        let head = [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        let fault = frames.read(&head, &mut Vec::new()).unwrap_err();
        assert_eq!(fault.code, CloseCode::Size);
    }

    #[test]
    fn a_flood_of_pings_gets_one_answer_to_the_newest() {
        let mut frames = FrameReader::new(End::Client, 100, 100);
        let (mut wire, mut said) = (Vec::new(), Vec::new());
        for number in 0..1_000_u16 {
            write_frame(End::Server, PING, &number.to_be_bytes(), &mut wire);
        }
        frames.read(&wire, &mut Vec::new()).unwrap();
        frames.take_pong(&mut said);
        assert_eq!(said.len(), 2 + 4 + 2, "one masked pong");
        assert_eq!(
            [said[6] ^ said[2], said[7] ^ said[3]],
            999_u16.to_be_bytes()
        );
    }

    /// RFC 7395 §3.3: of XMPP each element is a text message.
    #[test]
    fn each_text_of_xmpp_is_a_message_in_both_directions() {
        let plain = "<open/>\0<a>é</a>\0".as_bytes();
        let mut wire = Vec::new();
        assert!(write_texts(End::Client, plain, &mut wire));
        assert!(!write_texts(End::Client, b"<c/>", &mut Vec::new()));
        for piece in [1, 3, 100] {
            let mut frames = FrameReader::new(End::Server, 100, 100).with_messages(Messages::Text);
            let mut heard = Vec::new();
            for wire in wire.chunks(piece) {
                assert!(frames.read(wire, &mut heard).unwrap().is_none());
            }
            assert_eq!(heard, plain);
        }
        wire.clear();
        write_frame(End::Client, BINARY, plain, &mut wire);
        let mut frames = FrameReader::new(End::Server, 100, 100).with_messages(Messages::Text);
        let fault = frames.read(&wire, &mut Vec::new()).unwrap_err();
        assert_eq!(fault.code, CloseCode::Unsupported);
    }

    #[test]
    fn goodbyes_are_judged() {
        type Judged = Result<&'static [u8], u16>;
        let table: [(&[u8], Judged); 6] = [
            (b"", Ok(b"")),
            (b"\x03\xe8bye", Ok(b"\x03\xe8")),
            (b"\x03", Err(1002)),
            // 1005 is never sent (RFC 6455 §7.4.1).
            (b"\x03\xed", Err(1002)),
            (b"\0\x01", Err(1002)),
            (b"\x03\xe8\xff", Err(1007)),
        ];
        for (payload, expected) in table {
            let judged = judge_goodbye(payload.to_vec());
            match expected {
                Ok(echo) => assert_eq!(judged.unwrap(), echo),
                Err(code) => assert_eq!(u16::from(judged.unwrap_err().code), code, "{payload:?}"),
            }
        }
    }
}
