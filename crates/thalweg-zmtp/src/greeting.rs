//! The first 64 octets of each end.
//!
//! ```text
//!  FF 8 octets of padding 7F | major minor | mechanism, 20 octets | as-server | 31 zeros
//!  0                         | 10    11    | 12                   | 32        | 33
//! ```

use crate::PeerFault;

/// Octets of a greeting.
pub(crate) const LEN: usize = 64;

/// Octets up to the major version, which may be sent before the peer's mechanism is known. [37#Version_Negotiation]
pub(crate) const FIRST_LEN: usize = 11;

const SIGNATURE_END: usize = 9;
const MAJOR: usize = 10;
const MINOR: usize = 11;
const MECHANISM: usize = 12;
const MECHANISM_LEN: usize = 20;
const AS_SERVER: usize = 32;

/// The version that a connection speaks: the lower one of both ends, at most 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Subscriptions are messages. libzmq 4.0 to 4.3.2, go-zeromq.
    V30,
    /// Subscriptions are commands. libzmq from 4.3.3 on.
    V31,
}

/// A security mechanism that the greeting can name. [37#Greeting]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// Neither authentication nor encryption.
    Null,
    /// User name and password in clear text.
    Plain,
    /// Authenticated keys and encryption.
    Curve,
}

impl Mechanism {
    /// All mechanisms, from the least secure to the most.
    pub const ALL: [Mechanism; 3] = [Mechanism::Null, Mechanism::Plain, Mechanism::Curve];

    /// The name in the greeting.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Null => "NULL",
            Mechanism::Plain => "PLAIN",
            Mechanism::Curve => "CURVE",
        }
    }

    fn padded(self) -> [u8; MECHANISM_LEN] {
        let mut padded = [0; MECHANISM_LEN];
        for (to, from) in padded.iter_mut().zip(self.name().bytes()) {
            *to = from;
        }
        padded
    }
}

/// Contents of a peer's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: Version,
    /// `None`: one that this crate does not know.
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) as_server: bool,
}

impl Greeting {
    /// The greeting at the start of `bytes`; what is wrong is found as soon as its octet is there.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Greeting>, PeerFault> {
        // A 1.0 peer begins with the length of its identity: one octet, or FF and eight octets and flags whose lowest bit
        // is 0. [37#Detecting_ZMTP_1.0_and_2.0_Peers]
        match (bytes.first(), bytes.get(SIGNATURE_END)) {
            (Some(first), _) if *first != 0xFF => return Err(PeerFault::ZMTP_1),
            (_, Some(end)) if end & 1 == 0 => return Err(PeerFault::ZMTP_1),
            (_, Some(end)) if *end != 0x7F => return Err(PeerFault::SIGNATURE),
            _ => {}
        }
        if bytes.get(MAJOR).is_some_and(|major| *major < 3) {
            return Err(PeerFault::ZMTP_2);
        }
        let Some(bytes) = bytes.first_chunk::<LEN>() else {
            return Ok(None);
        };
        // "A peer MUST accept higher protocol versions as valid." [37#Version_Negotiation]
        let version = match (bytes[MAJOR], bytes[MINOR]) {
            (3, 0) => Version::V30,
            _ => Version::V31,
        };
        let name = &bytes[MECHANISM..MECHANISM + MECHANISM_LEN];
        let mechanism = Mechanism::ALL.into_iter().find(|m| m.padded() == name);
        Ok(Some(Greeting {
            version,
            mechanism,
            as_server: bytes[AS_SERVER] != 0,
        }))
    }
}

/// The whole greeting of this end, 3.1.
pub(crate) fn encode(mechanism: Mechanism, as_server: bool) -> [u8; LEN] {
    let mut greeting = [0; LEN];
    greeting[0] = 0xFF;
    greeting[SIGNATURE_END] = 0x7F;
    (greeting[MAJOR], greeting[MINOR]) = (3, 1);
    greeting[MECHANISM..MECHANISM + MECHANISM_LEN].copy_from_slice(&mechanism.padded());
    // "When a peer uses the NULL security mechanism, the as-server field MUST be zero."
    greeting[AS_SERVER] = (as_server && mechanism != Mechanism::Null).into();
    greeting
}
