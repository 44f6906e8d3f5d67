//! PINGREQ and PINGRESP (§3.12, §3.13): a fixed header and nothing else.
//!
//! Where the server has said that it takes them, a PINGREQ of MQTT 5 may carry a report of the client's load:
//!
//! ```text
//!  property length, varint
//!  user properties
//!  the report as JSON, to the end
//! ```

use thalweg_wire::Reader;

use super::frame::{packet_size, put_header};
use crate::PeerFault;
use crate::load::{REPORT_BYTES_MAX, Refusal, Report, Spelling, UNIT_PROPERTY, Unit};
use crate::packet::PacketType;
use crate::properties::{Place, Properties};

/// A PINGREQ. Whatever it holds, it is answered by PINGRESP. [MQTT-3.12.4-1]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PingReq {
    /// Nothing but the question.
    Plain,
    /// A load report, which no specification of MQTT has: `load`.
    Report(Report),
    /// With something that is no report.
    Refused(Refusal),
}

/// Checks the body. Unless the server takes reports, there must be none.
pub(crate) fn decode(body: &[u8], takes_reports: bool) -> Result<PingReq, PeerFault> {
    match body {
        [] => Ok(PingReq::Plain),
        _ if !takes_reports => Err(PeerFault::TRAILING),
        _ => Ok(read(body).unwrap_or_else(PingReq::Refused)),
    }
}

/// Whether a packet of so many bytes is too long to hold a report.
pub(crate) const fn too_long(packet_bytes: usize) -> bool {
    packet_bytes > packet_size(REPORT_BYTES_MAX)
}

fn read(body: &[u8]) -> Result<PingReq, Refusal> {
    if body.len() > REPORT_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let (json, unit) = match body {
        // A property block of 0x7B bytes would go on with a user property: this is `{`, and there is no block.
        [b'{', second, ..] if *second != 0x26 => (body, Unit::Unsaid),
        _ => {
            let mut r = Reader::new(body);
            let properties =
                Properties::decode(&mut r, Place::PingReq).map_err(|_| Refusal::Properties)?;
            let named = properties
                .user_properties()
                .find(|(name, _)| *name == UNIT_PROPERTY);
            let unit = named.map_or(Ok(Unit::Unsaid), |(_, unit)| {
                Unit::named(unit).ok_or(Refusal::Unit)
            })?;
            (r.rest(), unit)
        }
    };
    if json.is_empty() {
        Ok(PingReq::Plain)
    } else {
        Report::from_json(json, unit).map(PingReq::Report)
    }
}

/// Appends a PINGREQ or PINGRESP, if it fits `bytes_max`.
#[inline]
pub(crate) fn encode(packet: PacketType, bytes_max: u32, out: &mut Vec<u8>) {
    if bytes_max >= 2 {
        out.extend_from_slice(&[packet.first_byte(), 0]);
    }
}

/// Appends a PINGREQ with a report behind an empty property block, if it fits `bytes_max`.
pub(crate) fn encode_report(report: &Report, bytes_max: u32, out: &mut Vec<u8>) -> bool {
    let json = report.json(Spelling::Listing);
    let body = 1 + json.len();
    let fits = packet_size(body) <= bytes_max as usize;
    if fits {
        put_header(PacketType::PingReq.first_byte(), body, out);
        out.push(0);
        out.extend_from_slice(&json);
    }
    fits
}
