//! AUTH (§3.15), MQTT 5 only.
//!
//! ```text
//!  reason code, properties; both may be left out if the code is 0 and there are none
//! ```

use thalweg_wire::Reader;

use super::ack::{Info, fitting};
use super::frame::{packet_size, put_header};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, Property, PropertySource, block_size, put_block};
use crate::{PeerFault, Properties, ReasonCode, varint};

/// AUTH as received (MQTT 5 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'b> {
    /// `Success` (server only), `ContinueAuthentication` or `ReAuthenticate` (client only).
    pub reason: ReasonCode,
    /// The method; the same as in CONNECT. [MQTT-4.12.0-5]
    pub method: &'b str,
    /// Data of the authentication method.
    pub data: Option<&'b [u8]>,
    /// All properties, for reason string and user properties.
    pub properties: Properties<'b>,
}

/// Decodes the body; `method` is the one of CONNECT.
pub(crate) fn decode<'b>(
    body: &'b [u8],
    sender: Sender,
    method: Option<&str>,
) -> Result<Auth<'b>, PeerFault> {
    let method = method.ok_or(PeerFault::AUTH_UNASKED)?;
    let mut r = Reader::new(body);
    let reason = ReasonCode::received(r.u8().unwrap_or(0), PacketType::Auth, sender)?;
    let properties = if r.is_empty() {
        Properties::EMPTY
    } else {
        Properties::decode(&mut r, Place::Auth)?
    };
    if !r.is_empty() {
        return Err(PeerFault::TRAILING);
    }
    match properties.auth_method() {
        None => Err(PeerFault::AUTH_METHOD_MISSING),
        Some(other) if other != method => Err(PeerFault::AUTH_METHOD_CHANGED),
        Some(method) => Ok(Auth {
            reason,
            method,
            data: properties.auth_data(),
            properties,
        }),
    }
}

struct AuthOut<'a> {
    method: &'a str,
    data: Option<&'a [u8]>,
    info: Info<'a>,
}

impl PropertySource for AuthOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        sink(Property::AuthMethod(self.method));
        if let Some(data) = self.data {
            sink(Property::AuthData(data));
        }
        self.info.each(sink);
    }
}

/// Appends AUTH, if it fits `bytes_max`.
pub(crate) fn encode(
    reason: ReasonCode,
    method: &str,
    data: Option<&[u8]>,
    info: &Info<'_>,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    let size = |info: &Info<'_>| {
        let block = block_size(&AuthOut {
            method,
            data,
            info: *info,
        })?;
        let body = 1 + varint::size(block as u32) + block;
        (packet_size(body) <= bytes_max as usize).then_some((body, block))
    };
    let info = fitting(info, |info| size(info).is_some());
    let Some((body, block)) = size(&info) else {
        return;
    };
    put_header(PacketType::Auth.first_byte(), body, out);
    out.push(reason.byte());
    put_block(&AuthOut { method, data, info }, block, out);
}
