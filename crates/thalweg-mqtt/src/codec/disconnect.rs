//! DISCONNECT (§3.14).
//!
//! ```text
//!  MQTT 5: reason code, may be left out if 0 and nothing follows
//!  MQTT 5: properties, may be left out if there are none
//! ```

use thalweg_wire::Reader;

use super::ack::{Info, fitting};
use super::frame::{packet_size, put_header};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, Property, PropertySource, block_size, put_block};
use crate::{PeerFault, Properties, ReasonCode, TextPairs, varint};

/// A DISCONNECT as received; borrows from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'b> {
    /// Why; `Success` for MQTT 3.
    pub reason: ReasonCode,
    /// Seconds: replaces the session expiry of CONNECT (client to server).
    pub session_expiry: Option<u32>,
    /// Another server to use (server to client).
    pub server_reference: Option<&'b str>,
    /// All properties, for reason string and user properties.
    pub properties: Properties<'b>,
}

/// Properties of a DISCONNECT of MQTT 5.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisconnectProps<'a> {
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties, in their order; MQTT 5 only.
    pub user: Option<&'a dyn TextPairs>,
    /// Another server to use; only from a server (§4.11).
    pub server_reference: Option<&'a str>,
    /// Seconds; only from a client. [MQTT-3.14.2-2]
    pub session_expiry: Option<u32>,
}

pub(crate) fn decode(body: &[u8], sender: Sender, v5: bool) -> Result<Disconnect<'_>, PeerFault> {
    let mut r = Reader::new(body);
    if !v5 && !r.is_empty() {
        return Err(PeerFault::TRAILING);
    }
    let reason = ReasonCode::received(r.u8().unwrap_or(0), PacketType::Disconnect, sender)?;
    let place = match sender {
        Sender::Client => Place::DisconnectToServer,
        Sender::Server => Place::DisconnectToClient,
    };
    let properties = if r.is_empty() {
        Properties::EMPTY
    } else {
        Properties::decode(&mut r, place)?
    };
    if !r.is_empty() {
        return Err(PeerFault::TRAILING);
    }
    let session_expiry = properties.session_expiry();
    Ok(Disconnect {
        reason,
        session_expiry,
        server_reference: properties.server_reference(),
        properties,
    })
}

struct DisconnectOut<'a> {
    props: &'a DisconnectProps<'a>,
    info: Info<'a>,
}

impl PropertySource for DisconnectOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        if let Some(seconds) = self.props.session_expiry {
            sink(Property::SessionExpiry(seconds));
        }
        if let Some(server) = self.props.server_reference {
            sink(Property::ServerReference(server));
        }
        self.info.each(sink);
    }
}

/// Appends DISCONNECT of MQTT 5, if it fits `bytes_max`. [MQTT-3.14.2-3] [MQTT-3.14.2-4]
pub(crate) fn encode(
    reason: ReasonCode,
    props: &DisconnectProps<'_>,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    let size = |info: &Info<'_>| {
        let block = block_size(&DisconnectOut { props, info: *info })?;
        let body = match (block, reason) {
            (0, ReasonCode::Success) => 0,
            (0, _) => 1,
            _ => 1 + varint::size(block as u32) + block,
        };
        (packet_size(body) <= bytes_max as usize).then_some((body, block))
    };
    let info = Info {
        reason_string: props.reason_string,
        user: props.user,
    };
    let info = fitting(&info, |info| size(info).is_some());
    let Some((body, block)) = size(&info) else {
        return;
    };
    put_header(PacketType::Disconnect.first_byte(), body, out);
    if body > 0 {
        out.push(reason.byte());
    }
    if body > 1 {
        put_block(&DisconnectOut { props, info }, block, out);
    }
}
