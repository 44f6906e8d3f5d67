//! Metadata of each end in the handshake: properties, each a name and a value.

use std::borrow::Cow;

use crate::{PeerFault, SocketType};

const SOCKET_TYPE: &str = "Socket-Type";
const IDENTITY: &str = "Identity";
/// The property, with the value `1`, of an end that takes messages with a header frame. They have one if both ends are. It is
/// not of the specification, and means nothing to others.
pub const HEADER_FRAME: &str = "X-Header-Frame";
/// "0 to 2,147,483,647 octets".
const VALUE_LEN_MAX: u32 = i32::MAX as u32;

/// The properties of a peer, well-formed.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata<'b> {
    bytes: Cow<'b, [u8]>,
}

impl<'b> Metadata<'b> {
    /// Checks that these bytes are properties.
    pub(crate) fn parse(bytes: impl Into<Cow<'b, [u8]>>) -> Result<Self, PeerFault> {
        let bytes = bytes.into();
        let mut rest = &*bytes;
        while !rest.is_empty() {
            (_, _, rest) = property(rest).ok_or(PeerFault::METADATA)?;
        }
        let metadata = Metadata { bytes };
        let identity = metadata.identity();
        if identity.len() > 255 || identity.first() == Some(&0) {
            return Err(PeerFault::IDENTITY);
        }
        Ok(metadata)
    }

    /// Names and values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let (name, value, after) = property(rest)?;
            rest = after;
            Some((name, value))
        })
    }

    /// The first value of this name, whose case does not matter.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The socket type; `None` if it is missing or unknown.
    pub fn socket_type(&self) -> Option<SocketType> {
        SocketType::from_name(self.get(SOCKET_TYPE)?)
    }

    /// The identity; empty if there is none.
    pub fn identity(&self) -> &[u8] {
        self.get(IDENTITY).unwrap_or_default()
    }
}

impl std::fmt::Debug for Metadata<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let properties = self.iter();
        f.debug_map()
            .entries(properties.map(|(name, value)| (name, value.escape_ascii().to_string())))
            .finish()
    }
}

/// Metadata that an end announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// Type of the socket.
    pub socket_type: SocketType,
    /// Its address in a ROUTER's eyes, at most 255 octets, not beginning with a zero; said by REQ, DEALER and ROUTER only.
    pub identity: &'a [u8],
    /// Further properties: names of 1 to 255 letters, digits and `-_.+`, with values.
    pub more: &'a [(&'a str, &'a [u8])],
}

impl<'a> Announcement<'a> {
    /// Only a socket type.
    pub const fn of(socket_type: SocketType) -> Self {
        Announcement {
            socket_type,
            identity: &[],
            more: &[],
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_property(SOCKET_TYPE, self.socket_type.name().as_bytes(), &mut out);
        if self.socket_type.has_identity() {
            put_property(IDENTITY, self.identity, &mut out);
        }
        for (name, value) in self.more {
            put_property(name, value, &mut out);
        }
        out
    }
}

/// Name and value of the property at the start, and the rest.
fn property(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    let is_name_char = |b: &u8| b.is_ascii_alphanumeric() || b"-_.+".contains(b);
    if name.is_empty() || !name.iter().all(is_name_char) {
        return None;
    }
    let (len, rest) = rest.split_first_chunk()?;
    let len = u32::from_be_bytes(*len);
    if len > VALUE_LEN_MAX {
        return None;
    }
    let (value, rest) = rest.split_at_checked(len as usize)?;
    Some((std::str::from_utf8(name).ok()?, value, rest))
}

fn put_property(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}
