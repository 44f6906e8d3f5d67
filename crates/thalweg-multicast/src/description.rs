//! What a receiver must know of a group, as JSON.

use core::net::{IpAddr, SocketAddr};
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use thalweg_wire::Span;

use crate::KEY_BYTES;

/// Of a group: where it is, what it carries, and the key. Its holder can read everything that is sent to the group.
#[derive(Clone, PartialEq, Eq)]
pub struct Description {
    /// Multicast address and port.
    pub group: SocketAddr,
    /// Number of one start of the sender.
    pub epoch: u64,
    /// The key of this epoch.
    pub key: [u8; KEY_BYTES],
    /// Topic filters of what is sent to the group.
    pub filters: Vec<String>,
    /// Where lost datagrams are asked for.
    pub repair: String,
    /// The longest time in which a sender says nothing.
    pub heartbeat: Span,
    /// The longest packet that is sent to the group, in bytes.
    pub packet_bytes_max: u32,
}

/// So that the key is in no log.
impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Description({}, {:016x})", self.group, self.epoch)
    }
}

/// Why a text is not a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotADescription(String);

impl fmt::Display for NotADescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the description of a multicast group: {}", self.0)
    }
}

impl std::error::Error for NotADescription {}

/// The fields as they are written.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    group: IpAddr,
    port: u16,
    epoch: String,
    key: String,
    filters: Vec<String>,
    repair: String,
    heartbeat_ms: u64,
    packet_bytes_max: u32,
}

const VERSION: u32 = 1;

impl Description {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        let written = Written {
            version: VERSION,
            group: self.group.ip(),
            port: self.group.port(),
            epoch: epoch_to_text(self.epoch),
            key: BASE64_STANDARD.encode(self.key),
            filters: self.filters.clone(),
            repair: self.repair.clone(),
            heartbeat_ms: self.heartbeat.millis(),
            packet_bytes_max: self.packet_bytes_max,
        };
        serde_json::to_string(&written).expect("numbers and texts are JSON")
    }

    /// Reads what [`Description::to_json`] wrote; fields that are not known are passed over.
    pub fn from_json(json: &[u8]) -> Result<Self, NotADescription> {
        let wrong = |what: &str| NotADescription(what.to_owned());
        let written: Written =
            serde_json::from_slice(json).map_err(|error| NotADescription(error.to_string()))?;
        if written.version != VERSION {
            return Err(wrong("it is of another version"));
        }
        if !written.group.is_multicast() || written.port == 0 {
            return Err(wrong("its group is no multicast address with a port"));
        }
        let key = BASE64_STANDARD.decode(written.key).ok();
        Ok(Description {
            group: (written.group, written.port).into(),
            epoch: epoch_of(&written.epoch).ok_or_else(|| wrong("its epoch is no number"))?,
            key: key
                .and_then(|key| key.try_into().ok())
                .ok_or_else(|| wrong("its key is not 32 bytes in base64"))?,
            filters: written.filters,
            repair: written.repair,
            heartbeat: Span::from_millis(written.heartbeat_ms),
            packet_bytes_max: written.packet_bytes_max,
        })
    }
}

/// Sixteen hexadecimal digits: readers of JSON may lose digits of a number.
pub(crate) fn epoch_to_text(epoch: u64) -> String {
    format!("{epoch:016x}")
}

pub(crate) fn epoch_of(text: &str) -> Option<u64> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(group: &str) -> Description {
        Description {
            group: group.parse().expect("it is an address"),
            epoch: 0xFEDC_BA98_7654_3210,
            key: [9; KEY_BYTES],
            filters: vec!["plant/+/pose".into(), "a \"quoted\" one".into()],
            repair: crate::repair_address("poses"),
            heartbeat: Span::from_millis(1000),
            packet_bytes_max: 65_536,
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_key_is_in_no_log() {
        for group in ["239.255.10.1:7500", "[ff15::1]:7500"] {
            let written = description(group);
            let json = written.to_json();
            assert_eq!(Description::from_json(json.as_bytes()), Ok(written.clone()));
            assert!(json.contains("\"epoch\":\"fedcba9876543210\""), "{json}");
            let logged = format!("Description({group}, fedcba9876543210)");
            assert_eq!(format!("{written:?}"), logged);
        }
    }

    #[test]
    fn what_is_no_description_is_refused_with_a_reason() {
        let json = description("239.255.10.1:7500").to_json();
        for (part, instead, why) in [
            ("\"version\":1", "\"version\":2", "another version"),
            ("239.255.10.1", "10.0.0.1", "no multicast address"),
            (":7500", ":0", "no multicast address"),
            ("fedc", "+edc", "epoch"),
            ("CQkJ", "CQk", "key"),
            ("{", "", "expected"),
        ] {
            let wrong = json.replacen(part, instead, 1);
            let error = Description::from_json(wrong.as_bytes()).expect_err(part);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
