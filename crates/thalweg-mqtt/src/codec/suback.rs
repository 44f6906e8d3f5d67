//! SUBACK and UNSUBACK (§3.9, §3.11): one layout.
//!
//! ```text
//!  packet identifier, 2 bytes
//!  MQTT 5: properties
//!  one reason code per topic filter (UNSUBACK of MQTT 3: none)
//! ```

use thalweg_wire::Reader;

use super::ack::{Info, fitting};
use super::frame::{packet_size, put_header};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, block_size, put_block};
use crate::{PeerFault, Properties, ReasonCode, varint};

/// SUBACK or UNSUBACK as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'b> {
    /// The packet identifier of the request.
    pub id: u16,
    /// Reason string and user properties (MQTT 5).
    pub properties: Properties<'b>,
    pub(crate) codes: &'b [u8],
}

impl<'b> SubAck<'b> {
    /// One outcome per filter, in the order of the request; none for an UNSUBACK of MQTT 3.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = ReasonCode> + use<'b> {
        self.codes
            .iter()
            .map(|byte| ReasonCode::from_byte(*byte).unwrap_or(ReasonCode::Unspecified))
    }
}

/// Decodes the body of a SUBACK or UNSUBACK.
pub(crate) fn decode(body: &[u8], packet: PacketType, v5: bool) -> Result<SubAck<'_>, PeerFault> {
    let mut r = Reader::new(body);
    let id = r.u16().ok_or(PeerFault::TRUNCATED)?;
    if id == 0 {
        return Err(PeerFault::PACKET_ID_ZERO);
    }
    let properties = if v5 {
        Properties::decode(&mut r, Place::Ack)?
    } else {
        Properties::EMPTY
    };
    let codes = r.rest();
    for code in codes {
        ReasonCode::received(*code, packet, Sender::Server)?;
        // MQTT 3 has three grants and one failure. [MQTT3-3.9.3-2]
        if !v5 && !matches!(code, 0 | 1 | 2 | 0x80) {
            return Err(packet.reason_fault());
        }
    }
    match (packet, v5, codes.is_empty()) {
        (PacketType::UnsubAck, false, true) => {}
        (PacketType::UnsubAck, false, false) => return Err(PeerFault::TRAILING),
        (_, _, true) => return Err(PeerFault::TRUNCATED),
        _ => {}
    }
    Ok(SubAck {
        id,
        properties,
        codes,
    })
}

/// Appends a SUBACK or UNSUBACK, if it fits `bytes_max`. A failure becomes 0x80 in MQTT 3. [MQTT3-3.9.3-2]
pub(crate) fn encode(
    packet: PacketType,
    id: u16,
    codes: &[ReasonCode],
    info: &Info<'_>,
    v5: bool,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    let codes = if !v5 && packet == PacketType::UnsubAck {
        &[]
    } else {
        codes
    };
    let size = |info: &Info<'_>| {
        let block = if v5 { block_size(info)? } else { 0 };
        let body =
            2 + if v5 {
                varint::size(block as u32) + block
            } else {
                0
            } + codes.len();
        (packet_size(body) <= bytes_max as usize).then_some((body, block))
    };
    let info = fitting(info, |info| size(info).is_some());
    let Some((body, block)) = size(&info) else {
        return;
    };
    put_header(packet.first_byte(), body, out);
    out.extend_from_slice(&id.to_be_bytes());
    if v5 {
        put_block(&info, block, out);
        out.extend(
            codes
                .iter()
                .map(|code| code.fitted_to(packet, Sender::Server).byte()),
        );
    } else {
        out.extend(
            codes
                .iter()
                .map(|code| if code.is_error() { 0x80 } else { code.byte() }),
        );
    }
}
