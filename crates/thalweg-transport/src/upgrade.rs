//! The client's end of a WebSocket's upgrade.

use std::sync::Arc;

use tungstenite::Error;
use tungstenite::handshake::client::{Response, generate_key};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;

use super::websocket::{Agreed, Refusal, WebSocketLayer, WebSocketSettings};

/// The client's end of a WebSocket connection; the upgrade request waits in its output.
///
/// `host` goes into the `Host` header (with the port, unless it is the scheme's own), `path` starts with `/`, and
/// `sub_protocol` is `mqtt` or `mqttv3.1`.
pub fn websocket(
    host: &str,
    path: &str,
    sub_protocol: &str,
    settings: &Arc<WebSocketSettings>,
) -> WebSocketLayer {
    let key = generate_key();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {sub_protocol}\r\n\r\n"
    );
    WebSocketLayer::client(
        request.into_bytes(),
        derive_accept_key(key.as_bytes()),
        sub_protocol.into(),
        settings,
    )
}

/// Judges the server's answer to the upgrade request (RFC 6455 §4.1); `None` when it is not complete.
pub(super) fn judge_response(
    accept_key: &str,
    sub_protocol: &str,
    received: &[u8],
) -> Result<Option<Agreed>, Refusal> {
    let fail = |status: u16, reason: String| Refusal {
        status,
        reason,
        answer: Vec::new(),
    };
    let (consumed, response) = match Response::try_parse(received) {
        Ok(Some(parsed)) => parsed,
        Ok(None) if received.len() > RESPONSE_BYTES_MAX => {
            return Err(fail(0, "the server's answer does not end".into()));
        }
        Ok(None) => return Ok(None),
        Err(Error::HttpFormat(_) | Error::Protocol(_)) | Err(_) => {
            return Err(fail(
                0,
                "the server does not answer in HTTP: is this a WebSocket port?".into(),
            ));
        }
    };
    let status = response.status().as_u16();
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
    };
    if status != 101 {
        // A broker that explains itself does so in the body, if it came along.
        let body = received
            .get(consumed..)
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        return Err(fail(
            status,
            format!("the server refuses: {} {}", response.status(), body.trim()),
        ));
    }
    if header("Sec-WebSocket-Accept") != accept_key
        || !header("Upgrade").eq_ignore_ascii_case("websocket")
    {
        return Err(fail(
            status,
            "the server's answer does not belong to the request".into(),
        ));
    }
    if header("Sec-WebSocket-Protocol") != sub_protocol {
        return Err(fail(
            status,
            format!("the server did not agree to the sub-protocol `{sub_protocol}`"),
        ));
    }
    Ok(Some(Agreed {
        consumed,
        answer: Vec::new(),
        sub_protocol: sub_protocol.into(),
    }))
}

const RESPONSE_BYTES_MAX: usize = 64 * 1024;
