//! SUBSCRIBE (§3.8).
//!
//! ```text
//!  packet identifier, 2 bytes
//!  MQTT 5: properties
//!  one or more of: topic filter, subscription options (1 byte)
//! ```

use thalweg_wire::Reader;

use super::frame::{packet_size, put_header};
use crate::packet::PacketType;
use crate::properties::{Place, Property, PropertySource, block_size, each_user, put_block};
use crate::text::{self, fits16, put16};
use crate::{PeerFault, Properties, QoS, TextPairs, TooLarge, Version, varint};

/// SUBSCRIBE as received: at least one filter, every byte checked; whether a filter is a valid *topic filter* is left
/// to `topic::validate_filter`, so that the server can answer 0x8F for that one alone (§3.9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'b> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// Comes back with every delivery; not 0.
    pub subscription_id: Option<u32>,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
    pub(crate) filters: &'b [u8],
    pub(crate) v5: bool,
}

impl<'b> Subscribe<'b> {
    /// The filters and their options, in the order of the packet.
    pub fn filters(&self) -> SubscribeFilters<'b> {
        SubscribeFilters {
            bytes: self.filters,
            v5: self.v5,
        }
    }
}

/// Iterator over the filters of a SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct SubscribeFilters<'b> {
    bytes: &'b [u8],
    v5: bool,
}

impl<'b> Iterator for SubscribeFilters<'b> {
    type Item = (&'b str, SubscribeOptions);
    fn next(&mut self) -> Option<Self::Item> {
        let mut r = Reader::new(self.bytes);
        let filter = text::string(&mut r).ok()?;
        let options = SubscribeOptions::decode(r.u8()?, self.v5).ok()?;
        self.bytes = r.rest();
        Some((filter, options))
    }
}

/// Subscription options.
///
/// ```text
///  bit 7 6 | 5 4             | 3                   | 2        | 1 0
///  reserved| retain handling | retain as published | no local | QoS
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Highest QoS at which the subscriber asks for deliveries.
    pub qos: QoS,
    /// Do not send back what this client published.
    pub no_local: bool,
    /// Keep the retain flag as published.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// When a subscription brings retained messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RetainHandling {
    /// At every SUBSCRIBE, also one that replaces a subscription.
    #[default]
    Send = 0,
    /// Only if the subscription is new.
    SendIfNew = 1,
    /// No retained messages are sent.
    DoNotSend = 2,
}

/// Fields of a SUBSCRIBE to be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscribeOut<'a> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// Filters with their options, at least one.
    pub filters: &'a [(&'a str, SubscribeOptions)],
    /// MQTT 5.
    pub subscription_id: Option<u32>,
    /// MQTT 5.
    pub user: Option<&'a dyn TextPairs>,
}

impl SubscribeOptions {
    fn decode(byte: u8, v5: bool) -> Result<SubscribeOptions, PeerFault> {
        if byte & if v5 { 0b1100_0000 } else { 0b1111_1100 } != 0 {
            return Err(PeerFault::SUBSCRIBE_OPTIONS);
        }
        Ok(SubscribeOptions {
            qos: QoS::from_bits(byte & 0b11).ok_or(PeerFault::SUBSCRIBE_QOS_3)?,
            no_local: byte & 0b100 != 0,
            retain_as_published: byte & 0b1000 != 0,
            retain_handling: match byte >> 4 {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return Err(PeerFault::RETAIN_HANDLING_3),
            },
        })
    }

    /// The byte on the wire; MQTT 3 has only the QoS.
    fn byte(self, v5: bool) -> u8 {
        let extra = u8::from(self.no_local) << 2
            | u8::from(self.retain_as_published) << 3
            | (self.retain_handling as u8) << 4;
        self.qos as u8 | if v5 { extra } else { 0 }
    }
}

pub(crate) fn decode(body: &[u8], v5: bool) -> Result<Subscribe<'_>, PeerFault> {
    let mut r = Reader::new(body);
    let id = r.u16().ok_or(PeerFault::TRUNCATED)?;
    if id == 0 {
        return Err(PeerFault::PACKET_ID_ZERO);
    }
    let properties = if v5 {
        Properties::decode(&mut r, Place::Subscribe)?
    } else {
        Properties::EMPTY
    };
    let filters = r.rest();
    if filters.is_empty() {
        return Err(PeerFault::SUBSCRIBE_EMPTY);
    }
    while !r.is_empty() {
        let filter = text::string(&mut r)?;
        let options = SubscribeOptions::decode(r.u8().ok_or(PeerFault::TRUNCATED)?, v5)?;
        if options.no_local && filter.starts_with("$share/") {
            return Err(PeerFault::NO_LOCAL_SHARED);
        }
    }
    Ok(Subscribe {
        id,
        subscription_id: properties.subscription_id(),
        properties,
        filters,
        v5,
    })
}

impl PropertySource for SubscribeOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        if let Some(id) = self.subscription_id {
            sink(Property::SubscriptionId(id));
        }
        each_user(self.user, sink);
    }
}

pub(crate) fn encode(
    s: &SubscribeOut<'_>,
    version: Version,
    bytes_max: u32,
    out: &mut Vec<u8>,
) -> Result<(), TooLarge> {
    let v5 = version.is_v5();
    let block = if v5 { block_size(s) } else { Some(0) }.ok_or(TooLarge {
        packet_bytes: usize::MAX,
        packet_bytes_max: bytes_max,
    })?;
    let mut body = 2 + if v5 {
        varint::size(block as u32) + block
    } else {
        0
    };
    for (filter, _) in s.filters {
        if !fits16(filter.len()) {
            return Err(TooLarge {
                packet_bytes: filter.len(),
                packet_bytes_max: bytes_max,
            });
        }
        body += 3 + filter.len();
    }
    if packet_size(body) > bytes_max as usize {
        return Err(TooLarge {
            packet_bytes: packet_size(body),
            packet_bytes_max: bytes_max,
        });
    }
    put_header(PacketType::Subscribe.first_byte(), body, out);
    out.extend_from_slice(&s.id.to_be_bytes());
    if v5 {
        put_block(s, block, out);
    }
    for (filter, options) in s.filters {
        put16(filter.as_bytes(), out);
        out.push(options.byte(v5));
    }
    Ok(())
}
