//! What a peer can do wrong: one constant per broken clause, in one table.

use crate::ReasonCode;

/// A peer broke the protocol. The connection cannot go on; `ServerSide::fault` writes the goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// What to tell the peer in CONNACK or DISCONNECT (MQTT 5) or as CONNACK return code (MQTT 3).
    pub reason: ReasonCode,
    /// The statement that was broken, without brackets: `MQTT-…` of MQTT 5.0, `MQTT3-…` of 3.1.1, or a section (`§2.1.4`).
    pub clause: &'static str,
    /// What was wrong, as half a sentence.
    pub what: &'static str,
}

impl std::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the peer is at fault: {} [{}]; {}; the connection is closed, correct the peer or raise the limit it met",
            self.what, self.clause, self.reason
        )
    }
}

impl std::error::Error for PeerFault {}

macro_rules! faults {
    ($($name:ident: $reason:ident $clause:literal $what:literal;)*) => {
        /// The table of everything a peer can do wrong.
        impl PeerFault {
            $(#[doc = concat!($what, " [", $clause, "].")]
            pub const $name: PeerFault =
                PeerFault { reason: ReasonCode::$reason, clause: $clause, what: $what };)*

            /// Every fault that this crate can report, for documents and tests.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    PACKET_TOO_LARGE: PacketTooLarge "MQTT-3.1.2-24" "the packet is larger than the Maximum Packet Size";
}
