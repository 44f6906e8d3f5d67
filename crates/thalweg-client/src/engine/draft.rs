//! A message on its way out, as one piece of bytes: in the inbox, in the outbox and in the spool.

use thalweg_model::{Reliability, Time};

use crate::message::Retain;
use crate::transport::{MessageId, Properties};

/// A message to publish, borrowed from the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draft<'m> {
    /// Its name and the sequence of its stamp: rises from [`crate::engine::Engine::next_id`] on by one for each.
    pub id: MessageId,
    /// The brokers that it is sent to: 0 are the client's, others come from [`crate::engine::Engine::add_way`].
    pub way: u32,
    /// Canonical address: levels joined by `/`; at most 65,535 bytes.
    pub address: &'m str,
    /// Payload, at most 4 GiB.
    pub payload: &'m [u8],
    /// The delivery guarantee that is asked for; what a lane cannot give by itself stamps add.
    pub reliability: Reliability,
    /// Effect on the last value of the topic.
    pub retain: Retain,
    /// When it is not worth delivering any more; [`Time::NEVER`] without end.
    pub expires: Time,
    /// 0 to 9; more counts as 9.
    pub priority: u8,
    /// Media type of the payload; at most 65,535 bytes.
    pub content_type: Option<&'m str>,
    /// The publisher says that the payload is UTF-8 text.
    pub is_text: bool,
    /// User properties, in the order in which they are sent.
    pub properties: Properties<'m>,
    /// Where an answer goes; at most 65,535 bytes.
    pub reply_to: Option<&'m str>,
    /// Correlation data of a request; at most 65,535 bytes.
    pub correlation: Option<&'m [u8]>,
}

/// Bytes before the texts. All numbers are little-endian:
/// length of all u32, id u64, expires u64, way u32, payload u32, properties u32, address u16, content type u16,
/// reply address u16, correlation u16, reliability u8, retain u8, priority u8, which are there u8.
const HEAD_BYTES: usize = 44;

const HAS_CONTENT_TYPE: u8 = 1;
const HAS_REPLY_TO: u8 = 2;
const HAS_CORRELATION: u8 = 4;
const IS_TEXT: u8 = 8;

impl<'m> Draft<'m> {
    /// A plain message at least once.
    pub fn new(id: MessageId, address: &'m str, payload: &'m [u8]) -> Self {
        Draft {
            id,
            way: 0,
            address,
            payload,
            reliability: Reliability::AtLeastOnce,
            retain: Retain::No,
            expires: Time::NEVER,
            priority: 4,
            content_type: None,
            is_text: false,
            properties: Properties(&[]),
            reply_to: None,
            correlation: None,
        }
    }

    /// Number of bytes that [`Draft::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        HEAD_BYTES
            + self.address.len()
            + self.content_type.map_or(0, str::len)
            + self.reply_to.map_or(0, str::len)
            + self.correlation.map_or(0, <[u8]>::len)
            + self.properties.0.len()
            + self.payload.len()
    }

    /// Appends it; `false` and nothing if a part is longer than its limit.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let short = |len: usize| u16::try_from(len).ok();
        let (Some(address), Some(content_type), Some(reply_to), Some(correlation)) = (
            short(self.address.len()),
            short(self.content_type.map_or(0, str::len)),
            short(self.reply_to.map_or(0, str::len)),
            short(self.correlation.map_or(0, <[u8]>::len)),
        ) else {
            return false;
        };
        let Ok(total) = u32::try_from(self.encoded_len()) else {
            return false;
        };
        let has = |is: bool, flag: u8| if is { flag } else { 0 };
        let mut head = [0; HEAD_BYTES];
        head[0..4].copy_from_slice(&total.to_le_bytes());
        head[4..12].copy_from_slice(&self.id.to_le_bytes());
        head[12..20].copy_from_slice(&self.expires.nanos().to_le_bytes());
        head[20..24].copy_from_slice(&self.way.to_le_bytes());
        // Both fit, as their sum with the rest does.
        head[24..28].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        head[28..32].copy_from_slice(&(self.properties.0.len() as u32).to_le_bytes());
        head[32..34].copy_from_slice(&address.to_le_bytes());
        head[34..36].copy_from_slice(&content_type.to_le_bytes());
        head[36..38].copy_from_slice(&reply_to.to_le_bytes());
        head[38..40].copy_from_slice(&correlation.to_le_bytes());
        head[40] = self.reliability as u8;
        head[41] = self.retain as u8;
        head[42] = self.priority.min(9);
        head[43] = has(self.content_type.is_some(), HAS_CONTENT_TYPE)
            | has(self.reply_to.is_some(), HAS_REPLY_TO)
            | has(self.correlation.is_some(), HAS_CORRELATION)
            | has(self.is_text, IS_TEXT);
        out.reserve(total as usize);
        out.extend_from_slice(&head);
        out.extend_from_slice(self.address.as_bytes());
        out.extend_from_slice(self.content_type.unwrap_or_default().as_bytes());
        out.extend_from_slice(self.reply_to.unwrap_or_default().as_bytes());
        out.extend_from_slice(self.correlation.unwrap_or_default());
        out.extend_from_slice(self.properties.0);
        out.extend_from_slice(self.payload);
        true
    }

    /// Decodes the output of [`Draft::encode`]; returns the remaining bytes too.
    pub fn decode(bytes: &'m [u8]) -> Option<(Draft<'m>, &'m [u8])> {
        let (head, _) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let long =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let short = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let number = |at: usize| u64::from(long(at)) | (u64::from(long(at + 4)) << 32);
        let (entry, after) = bytes.split_at_checked(long(0) as usize)?;
        let mut rest = entry.get(HEAD_BYTES..)?;
        let mut next = |len: usize| -> Option<&'m [u8]> {
            let (part, tail) = rest.split_at_checked(len)?;
            rest = tail;
            Some(part)
        };
        let text = |part: &'m [u8]| std::str::from_utf8(part).ok();
        let address = text(next(short(32))?)?;
        let content_type = text(next(short(34))?)?;
        let reply_to = text(next(short(36))?)?;
        let correlation = next(short(38))?;
        let properties = next(long(28) as usize)?;
        let payload = next(long(24) as usize)?;
        let has = |flag: u8| head[43] & flag != 0;
        let draft = Draft {
            id: number(4),
            way: long(20),
            address,
            payload,
            reliability: match head[40] {
                0 => Reliability::AtMostOnce,
                1 => Reliability::AtLeastOnce,
                2 => Reliability::ExactlyOnce,
                _ => return None,
            },
            retain: match head[41] {
                0 => Retain::No,
                1 => Retain::Set,
                2 => Retain::Clear,
                _ => return None,
            },
            expires: Time::from_nanos(number(12)),
            priority: head[42].min(9),
            content_type: has(HAS_CONTENT_TYPE).then_some(content_type),
            is_text: has(IS_TEXT),
            properties: Properties(properties),
            reply_to: has(HAS_REPLY_TO).then_some(reply_to),
            correlation: has(HAS_CORRELATION).then_some(correlation),
        };
        Some((draft, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_comes_back_from_its_bytes() {
        let mut properties = Vec::new();
        assert!(Properties::push("unit", "°C", &mut properties));
        let full = Draft {
            id: u64::MAX - 1,
            way: 3,
            reliability: Reliability::ExactlyOnce,
            retain: Retain::Clear,
            expires: Time::from_secs(7),
            priority: 9,
            content_type: Some("text/plain"),
            is_text: true,
            properties: Properties(&properties),
            reply_to: Some(""),
            correlation: Some(b"\x00\xff"),
            ..Draft::new(0, "a/b", b"21.5")
        };
        let plain = Draft::new(1, "", b"");
        let mut bytes = Vec::new();
        for draft in [&full, &plain] {
            let before = bytes.len();
            assert!(draft.encode(&mut bytes));
            assert_eq!(bytes.len() - before, draft.encoded_len());
        }
        let (first, rest) = Draft::decode(&bytes).expect("whole");
        assert_eq!(first, full);
        assert_eq!(Draft::decode(rest), Some((plain, &[][..])));
    }

    #[test]
    fn what_is_cut_or_bent_is_no_draft() {
        let mut bytes = Vec::new();
        assert!(Draft::new(1, "a/b", b"21.5").encode(&mut bytes));
        for len in 0..bytes.len() {
            assert_eq!(Draft::decode(&bytes[..len]), None);
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                // Anything but a panic.
                let _ = Draft::decode(&bent);
            }
        }
        let long = "x".repeat(70_000);
        assert!(!Draft::new(1, &long, b"").encode(&mut bytes));
    }
}
