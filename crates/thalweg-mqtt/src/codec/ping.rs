//! PINGREQ and PINGRESP (§3.12, §3.13): a fixed header and nothing else.

use crate::PeerFault;
use crate::packet::PacketType;

/// Checks the body.
pub(crate) fn decode(body: &[u8]) -> Result<(), PeerFault> {
    if body.is_empty() { Ok(()) } else { Err(PeerFault::TRAILING) }
}

/// Appends a PINGREQ or PINGRESP, if it fits `bytes_max`.
#[inline]
pub(crate) fn encode(packet: PacketType, bytes_max: u32, out: &mut Vec<u8>) {
    if bytes_max >= 2 {
        out.extend_from_slice(&[packet.first_byte(), 0]);
    }
}
