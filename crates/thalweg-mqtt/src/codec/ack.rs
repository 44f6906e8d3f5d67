//! PUBACK, PUBREC, PUBREL and PUBCOMP (§3.4 to §3.7): one layout.
//!
//! ```text
//!  packet identifier, 2 bytes
//!  MQTT 5: reason code, may be left out if 0 and nothing follows
//!  MQTT 5: properties, may be left out if there are none
//! ```

use thalweg_wire::Reader;

use super::frame::{packet_size, put_header};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, Property, PropertySource, block_size, each_user, put_block};
use crate::{PeerFault, Properties, ReasonCode, TextPairs};

/// Reason string and user properties of an acknowledgement, SUBACK, UNSUBACK, AUTH or DISCONNECT. MQTT 5 only; left out
/// when they would not fit the peer's Maximum Packet Size, or when the peer asked for no problem information.
/// [MQTT-3.1.2-29]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info<'a> {
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties, in their order; MQTT 5 only.
    pub user: Option<&'a dyn TextPairs>,
}

impl Info<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.reason_string.is_none() && self.user.is_none()
    }
}

impl PropertySource for Info<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        if let Some(reason) = self.reason_string {
            sink(Property::ReasonString(reason));
        }
        each_user(self.user, sink);
    }
}

/// Optional properties of a packet: first all, then without user properties, then none; the first that fits so many
/// bytes. [MQTT-3.4.2-2] [MQTT-3.4.2-3]
pub(crate) fn fitting<'a>(info: &Info<'a>, mut fits: impl FnMut(&Info<'a>) -> bool) -> Info<'a> {
    let terse = Info {
        user: None,
        ..*info
    };
    [*info, terse]
        .into_iter()
        .find(|info| fits(info))
        .unwrap_or_default()
}

#[inline]
pub(crate) fn decode<'b>(
    body: &'b [u8],
    packet: PacketType,
    sender: Sender,
    v5: bool,
) -> Result<(u16, ReasonCode, Properties<'b>), PeerFault> {
    if let [high, low] = body {
        let id = u16::from_be_bytes([*high, *low]);
        return if id == 0 {
            Err(PeerFault::PACKET_ID_ZERO)
        } else {
            Ok((id, ReasonCode::Success, Properties::EMPTY))
        };
    }
    decode_long(body, packet, sender, v5)
}

fn decode_long<'b>(
    body: &'b [u8],
    packet: PacketType,
    sender: Sender,
    v5: bool,
) -> Result<(u16, ReasonCode, Properties<'b>), PeerFault> {
    let mut r = Reader::new(body);
    let id = r.u16().ok_or(PeerFault::TRUNCATED)?;
    if !v5 {
        return Err(PeerFault::TRAILING);
    }
    if id == 0 {
        return Err(PeerFault::PACKET_ID_ZERO);
    }
    let reason = ReasonCode::received(r.u8().ok_or(PeerFault::TRUNCATED)?, packet, sender)?;
    let properties = if r.is_empty() {
        Properties::EMPTY
    } else {
        Properties::decode(&mut r, Place::Ack)?
    };
    if r.is_empty() {
        Ok((id, reason, properties))
    } else {
        Err(PeerFault::TRAILING)
    }
}

/// Appends an acknowledgement, if it fits `bytes_max`.
#[inline]
pub(crate) fn encode(
    packet: PacketType,
    id: u16,
    reason: ReasonCode,
    v5: bool,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    if !v5 || reason == ReasonCode::Success {
        if bytes_max >= 4 {
            let [high, low] = id.to_be_bytes();
            out.extend_from_slice(&[packet.first_byte(), 2, high, low]);
        }
    } else {
        encode_with(packet, id, reason, &Info::default(), bytes_max, out);
    }
}

/// Appends an acknowledgement of MQTT 5 that says more.
pub(crate) fn encode_with(
    packet: PacketType,
    id: u16,
    reason: ReasonCode,
    info: &Info<'_>,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    let body = |info: &Info<'_>| {
        let block = if info.is_empty() {
            Some(0)
        } else {
            block_size(info).map(|block| packet_size(block) - 1)
        };
        block.map(|block| 3 + block)
    };
    let fits =
        |info: &Info<'_>| body(info).is_some_and(|body| packet_size(body) <= bytes_max as usize);
    let info = fitting(info, fits);
    let Some(len) = body(&info).filter(|body| packet_size(*body) <= bytes_max as usize) else {
        return;
    };
    put_header(packet.first_byte(), len, out);
    out.extend_from_slice(&id.to_be_bytes());
    out.push(reason.byte());
    if !info.is_empty() {
        put_block(&info, block_size(&info).unwrap_or_default(), out);
    }
}
