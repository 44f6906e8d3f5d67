//! The WebSocket layer (RFC 6455): the upgrade, then frames. MQTT packets may span frames and a frame may hold several
//! packets [MQTT-6.0.0-2]; only the bytes inside binary frames matter. STOMP comes in text frames as well. Of CoAP each
//! message is a binary WebSocket message of its own (RFC 8323 §4), of XMPP each element a text message (RFC 7395 §3.3).

use std::sync::Arc;

use tungstenite::Error;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tungstenite::protocol::frame::coding::CloseCode;

use super::TransportFault;
use super::frames::{
    BINARY, CLOSE, End, FrameReader, TEXT, write_close, write_frame, write_messages, write_texts,
};
pub use super::origin::OriginRule;

/// Requirements of a WebSocket listener on its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// Paths that may be upgraded, for instance `/mqtt`; empty means every path.
    pub paths: Vec<String>,
    /// Name of the protocol inside, for error texts to other clients.
    pub protocol: &'static str,
    /// Sub-protocols that may be agreed, the best first.
    pub sub_protocols: Vec<String>,
    /// Whether who offers no sub-protocol at all may come in.
    pub sub_protocol_optional: bool,
    /// Whether text frames are accepted like binary ones. A client that sends text gets answers as text, where they are
    /// text.
    pub allows_text: bool,
    /// Relation of WebSocket messages to the protocol's.
    pub messages: Messages,
    /// Origins of web pages that may connect; others get 403.
    pub origins: OriginRule,
    /// Largest upgrade request, in bytes; beyond it the answer is HTTP 431.
    pub request_bytes_max: usize,
    /// Largest payload of one frame, in bytes; beyond it the connection closes with 1009.
    pub frame_bytes_max: usize,
    /// Largest message (all its frames together), in bytes; beyond it the connection closes with 1009.
    pub message_bytes_max: usize,
}

/// Relation of a WebSocket message to the protocol's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// A part of a stream of bytes.
    #[default]
    Parts,
    /// A message of CoAP.
    Whole,
    /// Text, which a NUL ends in the stream of the protocol: an element of XMPP.
    Text,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        WebSocketSettings {
            paths: vec!["/mqtt".into(), "/".into()],
            protocol: "MQTT",
            // [MQTT-6.0.0-3] for 3.1.1 and 5.0; `mqttv3.1` is what clients of MQTT 3.1 say.
            sub_protocols: vec!["mqtt".into(), "mqttv3.1".into()],
            sub_protocol_optional: false,
            allows_text: false,
            messages: Messages::Parts,
            origins: OriginRule::default(),
            request_bytes_max: 8 * 1024,
            frame_bytes_max: 16 * 1024 * 1024,
            message_bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// One end of a WebSocket connection.
///
/// ```text
/// ExpectRequest (server) ──┐
///                          ├─ upgrade agreed ─> Open ─ close frame, fault ─> Over
/// ExpectResponse (client) ─┘
/// ```
#[derive(Debug)]
pub struct WebSocketLayer {
    state: State,
    settings: Arc<WebSocketSettings>,
    end: End,
    /// Wire bytes that wait for `take_output`.
    output: Vec<u8>,
    /// Protocol bytes that were to be sent before the upgrade was complete.
    waiting: Vec<u8>,
    sub_protocol: Option<Box<str>>,
    /// The peer said goodbye, or failed.
    is_closed: bool,
    /// We said goodbye: nothing may follow (RFC 6455 §5.5.1).
    said_close: bool,
}

#[derive(Debug)]
enum State {
    ExpectRequest {
        received: Vec<u8>,
    },
    ExpectResponse {
        accept_key: String,
        sub_protocol: Box<str>,
        received: Vec<u8>,
    },
    Open(FrameReader),
    Over,
}

impl WebSocketLayer {
    /// The server's end: expects an upgrade request.
    pub fn server(settings: &Arc<WebSocketSettings>) -> WebSocketLayer {
        WebSocketLayer::new(
            State::ExpectRequest {
                received: Vec::new(),
            },
            settings,
            End::Server,
        )
    }

    /// The client's end, whose `request` waits in the output at once; expects a response that proves `accept_key`.
    pub(super) fn client(
        request: Vec<u8>,
        accept_key: String,
        sub_protocol: Box<str>,
        settings: &Arc<WebSocketSettings>,
    ) -> WebSocketLayer {
        let state = State::ExpectResponse {
            accept_key,
            sub_protocol,
            received: Vec::new(),
        };
        let mut layer = WebSocketLayer::new(state, settings, End::Client);
        layer.output = request;
        layer
    }

    fn new(state: State, settings: &Arc<WebSocketSettings>, end: End) -> WebSocketLayer {
        WebSocketLayer {
            state,
            settings: settings.clone(),
            end,
            output: Vec::new(),
            waiting: Vec::new(),
            sub_protocol: None,
            is_closed: false,
            said_close: false,
        }
    }

    /// See [`Filtered::handle_input`](super::Filtered::handle_input).
    pub fn handle_input(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        match &mut self.state {
            State::Open(_) => self.read_frames(wire, plain),
            State::Over => Ok(()),
            State::ExpectRequest { received, .. } | State::ExpectResponse { received, .. } => {
                received.extend_from_slice(wire);
                self.upgrade(plain)
            }
        }
    }

    /// See [`Filtered::encode`](super::Filtered::encode); each call becomes one frame, a binary one [MQTT-6.0.0-1] unless
    /// the peer speaks text; of CoAP and XMPP each message does, and a call has whole messages.
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TransportFault> {
        self.take_output(wire);
        match &self.state {
            _ if plain.is_empty() => {}
            State::Open(frames) if !self.said_close => {
                // A text frame that is not UTF-8 would end the connection (RFC 6455 §8.1).
                let as_text = frames.hears_text() && std::str::from_utf8(plain).is_ok();
                return self.write(if as_text { TEXT } else { BINARY }, plain, wire);
            }
            State::Open(_) | State::Over => {
                return Err(TransportFault::WebSocket("the connection is closed".into()));
            }
            State::ExpectRequest { .. } | State::ExpectResponse { .. } => {
                self.waiting.extend_from_slice(plain)
            }
        }
        Ok(())
    }

    fn write(&self, opcode: u8, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TransportFault> {
        let is_whole = match self.settings.messages {
            Messages::Parts => {
                write_frame(self.end, opcode, plain, wire);
                true
            }
            Messages::Whole => write_messages(self.end, plain, wire),
            Messages::Text => write_texts(self.end, plain, wire),
        };
        if !is_whole {
            return Err(TransportFault::WebSocket(
                "half a message was to be sent".into(),
            ));
        }
        Ok(())
    }

    /// See [`Filtered::take_output`](super::Filtered::take_output).
    pub fn take_output(&mut self, wire: &mut Vec<u8>) {
        if !self.output.is_empty() {
            // Taken whole: an idle connection keeps no buffer.
            wire.extend_from_slice(&std::mem::take(&mut self.output));
        }
        if let (State::Open(frames), false) = (&mut self.state, self.said_close) {
            frames.take_pong(wire);
        }
    }

    /// See [`Filtered::buffered`](super::Filtered::buffered).
    pub fn buffered(&self) -> usize {
        match &self.state {
            State::ExpectRequest { received } | State::ExpectResponse { received, .. } => {
                received.len()
            }
            State::Open(frames) => frames.buffered(),
            State::Over => 0,
        }
    }

    /// True once a close frame came in, or the connection failed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True until the upgrade is agreed.
    pub fn is_handshaking(&self) -> bool {
        matches!(
            self.state,
            State::ExpectRequest { .. } | State::ExpectResponse { .. }
        )
    }

    /// The agreed sub-protocol, once the upgrade is complete; none, too, if the peer offered none.
    pub fn sub_protocol(&self) -> Option<&str> {
        self.sub_protocol.as_deref()
    }

    /// Appends a close frame with code 1000, once, and only if the connection is open.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        self.take_output(wire);
        if matches!(self.state, State::Open(_)) && !self.said_close {
            self.said_close = true;
            write_close(self.end, CloseCode::Normal, "", wire);
        }
    }

    fn upgrade(&mut self, plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        let verdict = match &self.state {
            State::ExpectRequest { received } => judge_request(&self.settings, received),
            State::ExpectResponse {
                accept_key,
                sub_protocol,
                received,
            } => super::upgrade::judge_response(accept_key, sub_protocol, received),
            State::Open(_) | State::Over => return Ok(()),
        };
        match verdict {
            Ok(None) => Ok(()),
            Ok(Some(agreed)) => {
                let settings = &self.settings;
                let frames = FrameReader::new(
                    self.end,
                    settings.frame_bytes_max,
                    settings.message_bytes_max,
                )
                .with_text(settings.allows_text)
                .with_messages(settings.messages);
                let tail = match std::mem::replace(&mut self.state, State::Open(frames)) {
                    State::ExpectRequest { mut received, .. }
                    | State::ExpectResponse { mut received, .. } => {
                        received.split_off(agreed.consumed.min(received.len()))
                    }
                    State::Open(_) | State::Over => Vec::new(),
                };
                self.output.extend_from_slice(&agreed.answer);
                self.sub_protocol = Some(agreed.sub_protocol).filter(|agreed| !agreed.is_empty());
                let waiting = std::mem::take(&mut self.waiting);
                if !waiting.is_empty() {
                    let mut output = std::mem::take(&mut self.output);
                    let written = self.write(BINARY, &waiting, &mut output);
                    self.output = output;
                    written?;
                }
                // Frames may follow the request in the same segment.
                self.read_frames(&tail, plain)
            }
            Err(refusal) => {
                self.state = State::Over;
                self.is_closed = true;
                self.output.extend_from_slice(&refusal.answer);
                Err(TransportFault::Upgrade {
                    status: refusal.status,
                    reason: refusal.reason,
                })
            }
        }
    }

    fn read_frames(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        let State::Open(frames) = &mut self.state else {
            return Ok(());
        };
        let outcome = frames.read(wire, plain);
        let (fault, goodbye) = match outcome {
            Ok(None) => return Ok(()),
            Ok(Some(goodbye)) => (None, goodbye),
            Err(fault) => (Some(fault), Vec::new()),
        };
        if !self.said_close {
            frames.take_pong(&mut self.output);
            match &fault {
                Some(fault) => write_close(self.end, fault.code, fault.words, &mut self.output),
                None => write_frame(self.end, CLOSE, &goodbye, &mut self.output),
            }
        }
        self.said_close = true;
        self.is_closed = true;
        self.state = State::Over;
        fault.map_or(Ok(()), |fault| {
            Err(TransportFault::WebSocket(fault.words.into()))
        })
    }
}

/// The upgrade was agreed.
pub(super) struct Agreed {
    /// Bytes of the request or response; frames may follow.
    pub(super) consumed: usize,
    /// The response, on the server's side.
    pub(super) answer: Vec<u8>,
    /// Empty if none was offered.
    pub(super) sub_protocol: Box<str>,
}

/// The upgrade was refused.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) answer: Vec<u8>,
}

/// Judges an upgrade request; `None` when it is not complete.
fn judge_request(settings: &WebSocketSettings, received: &[u8]) -> Result<Option<Agreed>, Refusal> {
    let (consumed, request) = match Request::try_parse(received) {
        Ok(Some((consumed, _))) if consumed > settings.request_bytes_max => {
            return Err(too_large(settings));
        }
        Ok(Some(parsed)) => parsed,
        Ok(None) if received.len() > settings.request_bytes_max => return Err(too_large(settings)),
        Ok(None) => return Ok(None),
        Err(Error::Protocol(tungstenite::error::ProtocolError::WrongHttpMethod)) => {
            return Err(refuse(
                405,
                "Method Not Allowed",
                "a WebSocket upgrade is a GET request",
            ));
        }
        Err(error) => return Err(refuse(400, "Bad Request", &not_http(received, &error))),
    };
    let wants_upgrade = request.headers().get("Upgrade").is_some();
    if !wants_upgrade {
        let (protocol, name) = (
            settings.protocol,
            settings.sub_protocols.first().map_or("", String::as_str),
        );
        let words = format!(
            "this port speaks {protocol} over WebSocket: connect with a client of {protocol} that uses WebSocket \
             (sub-protocol `{name}`), not with a browser's address bar"
        );
        return Err(refuse(426, "Upgrade Required", &words));
    }
    let path = request.uri().path();
    if !settings.paths.is_empty() && !settings.paths.iter().any(|known| known == path) {
        let words = format!(
            "no WebSocket at this path; there is one at {}",
            settings.paths.join(", ")
        );
        return Err(refuse(404, "Not Found", &words));
    }
    settings
        .origins
        .judge(request.headers())
        .map_err(|words| refuse(403, "Forbidden", words))?;
    let mut response = create_response(&request).map_err(|error| {
        refuse(
            400,
            "Bad Request",
            &format!("not a valid WebSocket upgrade: {error}"),
        )
    })?;
    let offered = request
        .headers()
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|list| list.to_str().ok());
    let offered: Vec<&str> = offered
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .collect();
    if offered.is_empty() && settings.sub_protocol_optional {
        let mut answer = Vec::new();
        write_response(&mut answer, &response).map_err(|error| {
            refuse(
                400,
                "Bad Request",
                &format!("no answer is possible: {error}"),
            )
        })?;
        return Ok(Some(Agreed {
            consumed,
            answer,
            sub_protocol: "".into(),
        }));
    }
    // In our order, not the client's: `mqtt` whenever it is offered. [MQTT-6.0.0-4]
    let chosen = settings
        .sub_protocols
        .iter()
        .find(|known| offered.contains(&known.as_str()));
    let Some((chosen, header)) =
        chosen.and_then(|name| Some((name, HeaderValue::from_str(name).ok()?)))
    else {
        let known = settings.sub_protocols.join("` or `");
        let words = format!("offer the sub-protocol `{known}` in Sec-WebSocket-Protocol");
        return Err(refuse(400, "Bad Request", &words));
    };
    response
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, header);
    let mut answer = Vec::new();
    write_response(&mut answer, &response).map_err(|error| {
        refuse(
            400,
            "Bad Request",
            &format!("no answer is possible: {error}"),
        )
    })?;
    Ok(Some(Agreed {
        consumed,
        answer,
        sub_protocol: chosen.as_str().into(),
    }))
}

fn too_large(settings: &WebSocketSettings) -> Refusal {
    let words = format!(
        "the request is larger than {} bytes",
        settings.request_bytes_max
    );
    refuse(431, "Request Header Fields Too Large", &words)
}

/// Says what came instead of HTTP, when the first byte gives it away.
fn not_http(received: &[u8], error: &Error) -> String {
    match received.first() {
        // The fixed header of CONNECT [MQTT-3.1.0-1].
        Some(0x10) => {
            "this is MQTT without WebSocket: use the plain MQTT port, or WebSocket in the client"
                .into()
        }
        // A TLS handshake record (RFC 8446 §5.1).
        Some(0x16) => {
            "this is TLS, and this port is without: use ws:// here, or the wss:// port".into()
        }
        _ => format!("not an HTTP request: {error}"),
    }
}

fn refuse(status: u16, phrase: &str, words: &str) -> Refusal {
    let upgrade = if status == 426 {
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    } else {
        ""
    };
    let answer = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         {upgrade}Connection: close\r\n\r\n{words}\n",
        words.len() + 1
    );
    Refusal {
        status,
        reason: words.to_owned(),
        answer: answer.into_bytes(),
    }
}
