//! The WebSocket layer (RFC 6455): the upgrade, then frames. MQTT packets may span frames and a frame may hold several
//! packets [MQTT-6.0.0-2]; only the bytes inside binary frames matter.

use std::io::{self, Read, Write};
use std::sync::Arc;

use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, FrameHeader};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Bytes, Error, Message};

use super::TransportFault;

/// What a WebSocket listener asks of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// Paths that may be upgraded, for instance `/mqtt`; empty means every path.
    pub paths: Vec<String>,
    /// Sub-protocols that may be agreed; the first of the client's list that is here wins.
    pub sub_protocols: Vec<String>,
    /// Largest upgrade request, in bytes; beyond it the answer is HTTP 431.
    pub request_bytes_max: usize,
    /// Largest payload of one frame, in bytes; beyond it the connection closes with 1009.
    pub frame_bytes_max: usize,
    /// Largest message (all its frames together), in bytes; beyond it the connection closes with 1009.
    pub message_bytes_max: usize,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        WebSocketSettings {
            paths: vec!["/mqtt".into(), "/".into()],
            // [MQTT-6.0.0-3] for 3.1.1 and 5.0; `mqttv3.1` is what clients of MQTT 3.1 say.
            sub_protocols: vec!["mqtt".into(), "mqttv3.1".into()],
            request_bytes_max: 8 * 1024,
            frame_bytes_max: 16 * 1024 * 1024,
            message_bytes_max: 16 * 1024 * 1024,
        }
    }
}

impl WebSocketSettings {
    pub(super) fn frames(&self) -> WebSocketConfig {
        WebSocketConfig::default()
            // The library fills a buffer of this size for each connection, idle ones too.
            .read_buffer_size(2 * 1024)
            // Every frame goes straight to the caller's buffer.
            .write_buffer_size(0)
            .max_frame_size(Some(self.frame_bytes_max))
            .max_message_size(Some(self.message_bytes_max))
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
    settings: WebSocketConfig,
    role: Role,
    /// Wire bytes that wait for `take_output`.
    output: Vec<u8>,
    /// Protocol bytes that were to be sent before the upgrade was complete.
    waiting: Vec<u8>,
    sub_protocol: Option<Box<str>>,
    closed: bool,
}

#[derive(Debug)]
enum State {
    ExpectRequest { settings: Arc<WebSocketSettings>, received: Vec<u8> },
    ExpectResponse { accept_key: String, sub_protocol: Box<str>, received: Vec<u8> },
    Open(Box<WebSocketContext>),
    Over,
}

impl WebSocketLayer {
    /// The server's end: expects an upgrade request.
    pub fn server(settings: &Arc<WebSocketSettings>) -> WebSocketLayer {
        WebSocketLayer::new(
            State::ExpectRequest { settings: settings.clone(), received: Vec::new() },
            settings.frames(),
            Role::Server,
        )
    }

    /// The client's end, whose `request` waits in the output at once; expects a response that proves `accept_key`.
    pub(super) fn client(
        request: Vec<u8>,
        accept_key: String,
        sub_protocol: Box<str>,
        settings: &WebSocketSettings,
    ) -> WebSocketLayer {
        let state = State::ExpectResponse { accept_key, sub_protocol, received: Vec::new() };
        let mut layer = WebSocketLayer::new(state, settings.frames(), Role::Client);
        layer.output = request;
        layer
    }

    fn new(state: State, settings: WebSocketConfig, role: Role) -> WebSocketLayer {
        let (output, waiting) = (Vec::new(), Vec::new());
        WebSocketLayer { state, settings, role, output, waiting, sub_protocol: None, closed: false }
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

    /// See [`Filtered::encode`](super::Filtered::encode); each call becomes one binary frame [MQTT-6.0.0-1].
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TransportFault> {
        self.take_output(wire);
        match &mut self.state {
            _ if plain.is_empty() => Ok(()),
            State::Open(context) => write_frame(context, self.role, plain, wire),
            State::Over => Err(TransportFault::WebSocket("the connection is closed".into())),
            State::ExpectRequest { .. } | State::ExpectResponse { .. } => {
                self.waiting.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    /// See [`Filtered::take_output`](super::Filtered::take_output).
    pub fn take_output(&mut self, wire: &mut Vec<u8>) {
        wire.append(&mut self.output);
    }

    /// True once a close frame came in, or the connection failed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True until the upgrade is agreed.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::ExpectRequest { .. } | State::ExpectResponse { .. })
    }

    /// The agreed sub-protocol, once the upgrade is complete.
    pub fn sub_protocol(&self) -> Option<&str> {
        self.sub_protocol.as_deref()
    }

    /// Appends a close frame with code 1000, once, and only if the connection is open.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        self.take_output(wire);
        if let State::Open(context) = &mut self.state {
            send_close(context, CloseCode::Normal, "", wire);
        }
    }

    fn upgrade(&mut self, plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        let verdict = match &self.state {
            State::ExpectRequest { settings, received } => judge_request(settings, received),
            State::ExpectResponse { accept_key, sub_protocol, received } => {
                super::client::judge_response(accept_key, sub_protocol, received)
            }
            State::Open(_) | State::Over => return Ok(()),
        };
        match verdict {
            Ok(None) => Ok(()),
            Ok(Some(agreed)) => {
                let open = State::Open(Box::new(WebSocketContext::new(self.role, Some(self.settings))));
                let tail = match std::mem::replace(&mut self.state, open) {
                    State::ExpectRequest { mut received, .. } | State::ExpectResponse { mut received, .. } => {
                        received.split_off(agreed.consumed.min(received.len()))
                    }
                    State::Open(_) | State::Over => Vec::new(),
                };
                self.output.extend_from_slice(&agreed.answer);
                self.sub_protocol = Some(agreed.sub_protocol);
                let waiting = std::mem::take(&mut self.waiting);
                if let (State::Open(context), false) = (&mut self.state, waiting.is_empty()) {
                    write_frame(context, self.role, &waiting, &mut self.output)?;
                }
                // Frames may follow the request in the same segment.
                if tail.is_empty() { Ok(()) } else { self.read_frames(&tail, plain) }
            }
            Err(refusal) => {
                self.state = State::Over;
                self.closed = true;
                self.output.extend_from_slice(&refusal.answer);
                Err(TransportFault::Upgrade { status: refusal.status, reason: refusal.reason })
            }
        }
    }

    fn read_frames(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        let State::Open(context) = &mut self.state else { return Ok(()) };
        if self.closed {
            return Ok(());
        }
        let mut pipe = Pipe { input: wire, output: &mut self.output };
        let (code, words) = loop {
            match context.read(&mut pipe) {
                Ok(Message::Binary(payload)) => plain.extend_from_slice(&payload),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
                    // The echo of the close frame waits inside; the library reports the end while it writes it.
                    let _ = context.flush(&mut pipe);
                    self.closed = true;
                    return Ok(());
                }
                // RFC 6455 §7.4.1: 1003 for a type of data that cannot be accepted [MQTT-6.0.0-1].
                Ok(Message::Text(_)) => {
                    break (CloseCode::Unsupported, "MQTT is carried in binary frames, not in text".to_owned());
                }
                Err(Error::Io(blocked)) if blocked.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => break (close_code(&error), error.to_string()),
            }
        };
        send_close(context, code, &words, pipe.output);
        self.closed = true;
        self.state = State::Over;
        Err(TransportFault::WebSocket(words))
    }
}

/// The upgrade was agreed.
pub(super) struct Agreed {
    /// Bytes of the request or response; frames may follow.
    pub(super) consumed: usize,
    /// The response, on the server's side.
    pub(super) answer: Vec<u8>,
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
        Ok(Some((consumed, _))) if consumed > settings.request_bytes_max => return Err(too_large(settings)),
        Ok(Some(parsed)) => parsed,
        Ok(None) if received.len() > settings.request_bytes_max => return Err(too_large(settings)),
        Ok(None) => return Ok(None),
        Err(Error::Protocol(tungstenite::error::ProtocolError::WrongHttpMethod)) => {
            return Err(refuse(405, "Method Not Allowed", "a WebSocket upgrade is a GET request"));
        }
        Err(error) => return Err(refuse(400, "Bad Request", &not_http(received, &error))),
    };
    let wants_upgrade = request.headers().get("Upgrade").is_some();
    if !wants_upgrade {
        let words = "this port speaks MQTT over WebSocket: connect with an MQTT client that uses WebSocket \
                     (sub-protocol `mqtt`), not with a browser's address bar";
        return Err(refuse(426, "Upgrade Required", words));
    }
    let path = request.uri().path();
    if !settings.paths.is_empty() && !settings.paths.iter().any(|known| known == path) {
        let words = format!("no WebSocket at this path; there is one at {}", settings.paths.join(", "));
        return Err(refuse(404, "Not Found", &words));
    }
    let mut response = create_response(&request)
        .map_err(|error| refuse(400, "Bad Request", &format!("not a valid WebSocket upgrade: {error}")))?;
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|list| list.to_str().ok());
    let chosen = offered
        .flat_map(|list| list.split(','))
        .find_map(|name| settings.sub_protocols.iter().find(|known| *known == name.trim()));
    let Some((chosen, header)) = chosen.and_then(|name| Some((name, HeaderValue::from_str(name).ok()?))) else {
        let known = settings.sub_protocols.join("` or `");
        let words = format!("offer the sub-protocol `{known}` in Sec-WebSocket-Protocol");
        return Err(refuse(400, "Bad Request", &words));
    };
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, header);
    let mut answer = Vec::new();
    write_response(&mut answer, &response)
        .map_err(|error| refuse(400, "Bad Request", &format!("no answer is possible: {error}")))?;
    Ok(Some(Agreed { consumed, answer, sub_protocol: chosen.as_str().into() }))
}

fn too_large(settings: &WebSocketSettings) -> Refusal {
    let words = format!("the request is larger than {} bytes", settings.request_bytes_max);
    refuse(431, "Request Header Fields Too Large", &words)
}

/// Says what came instead of HTTP, when the first byte gives it away.
fn not_http(received: &[u8], error: &Error) -> String {
    match received.first() {
        // The fixed header of CONNECT [MQTT-3.1.0-1].
        Some(0x10) => "this is MQTT without WebSocket: use the plain MQTT port, or WebSocket in the client".into(),
        // A TLS handshake record (RFC 8446 §5.1).
        Some(0x16) => "this is TLS, and this port is without: use ws:// here, or the wss:// port".into(),
        _ => format!("not an HTTP request: {error}"),
    }
}

fn refuse(status: u16, phrase: &str, words: &str) -> Refusal {
    let upgrade = if status == 426 { "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         {upgrade}Connection: close\r\n\r\n{words}\n",
        words.len() + 1
    );
    Refusal { status, reason: words.to_owned(), answer: answer.into_bytes() }
}

fn write_frame(
    context: &mut WebSocketContext,
    role: Role,
    plain: &[u8],
    wire: &mut Vec<u8>,
) -> Result<(), TransportFault> {
    if !context.can_write() {
        return Err(TransportFault::WebSocket("the connection is closing".into()));
    }
    let written = match role {
        // A server's frame is a header and the bytes as they are, so they need not pass through the library.
        Role::Server => {
            let header = FrameHeader { opcode: OpCode::Data(Data::Binary), ..FrameHeader::default() };
            let done = header.format(plain.len() as u64, wire);
            wire.extend_from_slice(plain);
            done
        }
        // A client's frame is masked (RFC 6455 §5.3).
        Role::Client => {
            let mut pipe = Pipe { input: &[], output: wire };
            context
                .write(&mut pipe, Message::Binary(Bytes::copy_from_slice(plain)))
                .and_then(|()| context.flush(&mut pipe))
        }
    };
    written.map_err(|error| TransportFault::WebSocket(error.to_string()))
}

fn send_close(context: &mut WebSocketContext, code: CloseCode, words: &str, wire: &mut Vec<u8>) {
    // A control frame carries at most 125 bytes, two of them the code (RFC 6455 §5.5).
    let reason: String = words.chars().take(60).collect();
    let mut pipe = Pipe { input: &[], output: wire };
    // Fails only when a close frame was sent before: then there is nothing left to say.
    let _ = context.close(&mut pipe, Some(CloseFrame { code, reason: reason.into() }));
}

/// RFC 6455 §7.4.1.
fn close_code(error: &Error) -> CloseCode {
    match error {
        Error::Capacity(_) => CloseCode::Size,
        Error::Utf8(_) => CloseCode::Invalid,
        _ => CloseCode::Protocol,
    }
}

/// What the library takes for a socket: one call's input, and the caller's buffer.
struct Pipe<'a> {
    input: &'a [u8],
    output: &'a mut Vec<u8>,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.input.read(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
