//! UNSUBSCRIBE (§3.10).
//!
//! ```text
//!  packet identifier, 2 bytes
//!  MQTT 5: properties
//!  one or more topic filters
//! ```

use thalweg_wire::Reader;

use super::frame::{packet_size, put_header};
use crate::packet::PacketType;
use crate::properties::{Place, Property, PropertySource, block_size, each_user, put_block};
use crate::text::{self, fits16, put16};
use crate::{PeerFault, Properties, TextPairs, TooLarge, Version, varint};

/// UNSUBSCRIBE as received: at least one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'b> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
    pub(crate) filters: &'b [u8],
}

impl<'b> Unsubscribe<'b> {
    /// The filters in the order of the packet.
    pub fn filters(&self) -> UnsubscribeFilters<'b> {
        UnsubscribeFilters {
            bytes: self.filters,
        }
    }
}

/// Iterator over the filters of an UNSUBSCRIBE.
#[derive(Clone, Debug)]
pub struct UnsubscribeFilters<'b> {
    bytes: &'b [u8],
}

impl<'b> Iterator for UnsubscribeFilters<'b> {
    type Item = &'b str;
    fn next(&mut self) -> Option<&'b str> {
        let mut r = Reader::new(self.bytes);
        let filter = text::string(&mut r).ok()?;
        self.bytes = r.rest();
        Some(filter)
    }
}

/// Fields of an UNSUBSCRIBE to be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsubscribeOut<'a> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// Filters to end, at least one.
    pub filters: &'a [&'a str],
    /// MQTT 5.
    pub user: Option<&'a dyn TextPairs>,
}

pub(crate) fn decode(body: &[u8], v5: bool) -> Result<Unsubscribe<'_>, PeerFault> {
    let mut r = Reader::new(body);
    let id = r.u16().ok_or(PeerFault::TRUNCATED)?;
    if id == 0 {
        return Err(PeerFault::PACKET_ID_ZERO);
    }
    let properties = if v5 {
        Properties::decode(&mut r, Place::Unsubscribe)?
    } else {
        Properties::EMPTY
    };
    let filters = r.rest();
    if filters.is_empty() {
        return Err(PeerFault::UNSUBSCRIBE_EMPTY);
    }
    while !r.is_empty() {
        text::string(&mut r)?;
    }
    Ok(Unsubscribe {
        id,
        properties,
        filters,
    })
}

impl PropertySource for UnsubscribeOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        each_user(self.user, sink);
    }
}

pub(crate) fn encode(
    u: &UnsubscribeOut<'_>,
    version: Version,
    bytes_max: u32,
    out: &mut Vec<u8>,
) -> Result<(), TooLarge> {
    let v5 = version.is_v5();
    let block = if v5 { block_size(u) } else { Some(0) }.ok_or(TooLarge {
        packet_bytes: usize::MAX,
        packet_bytes_max: bytes_max,
    })?;
    let mut body = 2 + if v5 {
        varint::size(block as u32) + block
    } else {
        0
    };
    for filter in u.filters {
        if !fits16(filter.len()) {
            return Err(TooLarge {
                packet_bytes: filter.len(),
                packet_bytes_max: bytes_max,
            });
        }
        body += 2 + filter.len();
    }
    if packet_size(body) > bytes_max as usize {
        return Err(TooLarge {
            packet_bytes: packet_size(body),
            packet_bytes_max: bytes_max,
        });
    }
    put_header(PacketType::Unsubscribe.first_byte(), body, out);
    out.extend_from_slice(&u.id.to_be_bytes());
    if v5 {
        put_block(u, block, out);
    }
    for filter in u.filters {
        put16(filter.as_bytes(), out);
    }
    Ok(())
}
