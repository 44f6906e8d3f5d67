//! Filters between a socket and a protocol machine, for listeners and clients alike.
//!
//! *Knows:* TLS (feature `tls`), WebSocket (`websocket`), the PROXY header. *Must never know:* sockets, and the meaning
//! of the bytes; of CoAP over WebSocket it knows where a message ends (RFC 8323 §4.2).
//!
//! A filter does no I/O. Wire bytes go in, protocol bytes come out, and the other way round; a filter's own output (a
//! TLS handshake flight, a WebSocket pong) waits until [`Filtered::take_output`]. The layers have a fixed order, seen
//! from the socket: TLS, then WebSocket. The PROXY header ([`proxy`]) precedes both and is a plain parser, because it
//! is read once and then forgotten.
//!
//! [`Transport::Plain`] costs nothing: the owner of the socket reads and writes it directly.

#![forbid(unsafe_code)]

mod absent;
#[cfg(all(feature = "tls", feature = "server"))]
mod acceptor;
#[cfg(any(test, feature = "testkit"))]
pub mod certificates;
pub mod client;
#[cfg(feature = "tls")]
mod connector;
#[cfg(feature = "websocket")]
mod frames;
#[cfg(feature = "websocket")]
mod origin;
pub mod proxy;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "websocket")]
mod upgrade;
#[cfg(feature = "websocket")]
pub mod websocket;

use std::fmt;
use std::sync::Arc;

#[cfg(not(feature = "tls"))]
use absent::Absent as TlsLayer;
#[cfg(not(feature = "websocket"))]
use absent::Absent as WebSocketLayer;
#[cfg(feature = "tls")]
use tls::TlsLayer;
#[cfg(feature = "websocket")]
use websocket::WebSocketLayer;

/// Octets of a channel binding.
pub const CHANNEL_BINDING_BYTES: usize = 32;

/// Layers between a socket and its protocol machine.
#[derive(Debug)]
pub enum Transport {
    /// Nothing: wire bytes are protocol bytes.
    Plain,
    /// TLS, WebSocket or both.
    Filtered(Box<Filtered>),
}

impl Transport {
    /// True when wire bytes are protocol bytes and no filter has to be asked.
    pub fn is_plain(&self) -> bool {
        matches!(self, Transport::Plain)
    }

    /// See [`Filtered::buffered`].
    pub fn buffered(&self) -> usize {
        match self {
            Transport::Plain => 0,
            Transport::Filtered(filtered) => filtered.buffered(),
        }
    }
}

/// A stack of layers: TLS, then WebSocket; at least one of them is there.
#[derive(Debug)]
pub struct Filtered {
    tls: Option<TlsLayer>,
    websocket: Option<WebSocketLayer>,
    /// Bytes between the two layers while one call runs; empty between calls.
    between: Vec<u8>,
}

/// The buffer between two layers is freed when a burst made it larger than this.
const BETWEEN_BYTES_KEPT: usize = 4 * 1024;

impl Filtered {
    /// A stack of the given layers; [`Transport::Plain`] when there is none.
    pub fn stack(tls: Option<TlsLayer>, websocket: Option<WebSocketLayer>) -> Transport {
        if tls.is_none() && websocket.is_none() {
            return Transport::Plain;
        }
        Transport::Filtered(Box::new(Filtered {
            tls,
            websocket,
            between: Vec::new(),
        }))
    }

    /// Takes bytes from the socket and appends the protocol bytes they carry to `plain`.
    ///
    /// May produce bytes to send, on success and on a fault alike (a handshake flight, an alert, a refusal in HTTP):
    /// fetch them with [`take_output`](Self::take_output). After a fault the connection is over: send what is there
    /// and close.
    pub fn handle_input(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        match (&mut self.tls, &mut self.websocket) {
            (Some(tls), None) => tls.handle_input(wire, plain),
            (None, Some(websocket)) => websocket.handle_input(wire, plain),
            (None, None) => {
                plain.extend_from_slice(wire);
                Ok(())
            }
            (Some(tls), Some(websocket)) => {
                let decrypted = tls.handle_input(wire, &mut self.between);
                let unframed = websocket.handle_input(&self.between, plain);
                self.empty_between();
                // A fault of the outer layer explains a fault of the inner one, not the other way round.
                decrypted.and(unframed)
            }
        }
    }

    /// Takes protocol bytes to send and appends wire bytes to `wire`, behind everything that waits in
    /// [`take_output`](Self::take_output). Before the handshake is complete the bytes wait inside.
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TransportFault> {
        match (&mut self.tls, &mut self.websocket) {
            (Some(tls), None) => tls.encode(plain, wire),
            (None, Some(websocket)) => websocket.encode(plain, wire),
            (None, None) => {
                wire.extend_from_slice(plain);
                Ok(())
            }
            (Some(tls), Some(websocket)) => {
                let done = websocket
                    .encode(plain, &mut self.between)
                    .and_then(|()| tls.encode(&self.between, wire));
                self.empty_between();
                done
            }
        }
    }

    /// Appends to `wire` what the layers want to say by themselves. Call it after every
    /// [`handle_input`](Self::handle_input).
    pub fn take_output(&mut self, wire: &mut Vec<u8>) {
        match (&mut self.tls, &mut self.websocket) {
            (Some(tls), None) => tls.take_output(wire),
            (None, Some(websocket)) => websocket.take_output(wire),
            (None, None) => {}
            (Some(tls), Some(websocket)) => {
                websocket.take_output(&mut self.between);
                if self.between.is_empty() || tls.encode(&self.between, wire).is_err() {
                    tls.take_output(wire);
                }
                self.empty_between();
            }
        }
    }

    /// Bytes of an upgrade or of a message in frames that came so far and cannot be passed on before more has come.
    pub fn buffered(&self) -> usize {
        self.websocket.as_ref().map_or(0, WebSocketLayer::buffered)
    }

    /// True once the peer said goodbye: a TLS `close_notify` or a WebSocket close frame. Nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsLayer::is_closed)
            || self
                .websocket
                .as_ref()
                .is_some_and(WebSocketLayer::is_closed)
    }

    /// True while a handshake of any layer is under way, and so no protocol byte can pass.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsLayer::is_handshaking)
            || self
                .websocket
                .as_ref()
                .is_some_and(WebSocketLayer::is_handshaking)
    }

    /// Appends the goodbyes of all layers to `wire`: a WebSocket close frame (1000), then a TLS `close_notify`.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if let Some(websocket) = &mut self.websocket {
            websocket.close(&mut self.between);
        }
        match &mut self.tls {
            Some(tls) => {
                if !self.between.is_empty() && tls.encode(&self.between, wire).is_err() {
                    tls.take_output(wire);
                }
                tls.close(wire);
            }
            None => wire.extend_from_slice(&self.between),
        }
        self.empty_between();
    }

    /// Channel binding for a login on this connection; see [`TlsLayer::channel_binding`].
    pub fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        self.tls.as_ref().and_then(TlsLayer::channel_binding)
    }

    /// The name in the peer's certificate (common name, else the first alternative name), once the TLS handshake is
    /// done and the peer showed one that was verified.
    pub fn certificate_name(&self) -> Option<Arc<str>> {
        self.tls.as_ref().and_then(TlsLayer::certificate_name)
    }

    /// The sub-protocol agreed in the WebSocket upgrade (`mqtt`, `mqttv3.1`), once it is complete.
    pub fn sub_protocol(&self) -> Option<&str> {
        self.websocket
            .as_ref()
            .and_then(WebSocketLayer::sub_protocol)
    }

    fn empty_between(&mut self) {
        if self.between.capacity() > BETWEEN_BYTES_KEPT {
            self.between = Vec::new();
        } else {
            self.between.clear();
        }
    }
}

/// Why a layer gave up. The connection is over; the words are for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportFault {
    /// TLS failed: not TLS at all, no common version or cipher, a certificate that is missing or not trusted.
    Tls(String),
    /// The HTTP upgrade to WebSocket failed; this HTTP status was sent to the peer.
    Upgrade {
        /// HTTP status sent to the peer (server side) or received from it (client side); 0 when there was none.
        status: u16,
        /// Description of the error.
        reason: String,
    },
    /// The peer broke RFC 6455 after the upgrade, or a limit on frames.
    WebSocket(String),
    /// A PROXY header was expected and did not come, or is malformed.
    Proxy(proxy::ProxyFault),
}

impl fmt::Display for TransportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportFault::Tls(words) => write!(f, "TLS: {words}"),
            TransportFault::Upgrade { status: 0, reason } => {
                write!(f, "WebSocket upgrade: {reason}")
            }
            TransportFault::Upgrade { status, reason } => {
                write!(f, "WebSocket upgrade ({status}): {reason}")
            }
            TransportFault::WebSocket(words) => write!(f, "WebSocket: {words}"),
            TransportFault::Proxy(fault) => write!(f, "PROXY protocol: {fault}"),
        }
    }
}

impl std::error::Error for TransportFault {}
