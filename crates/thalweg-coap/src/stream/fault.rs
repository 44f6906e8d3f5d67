//! Protocol errors of a peer on a connection: one constant per broken clause, in one table.

use crate::Malformed;

/// A peer broke the protocol, or a limit of ours. The connection cannot go on; `fault` of either side writes the Abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// The clause that was broken: number of the RFC and section.
    pub clause: &'static str,
    /// The error, as half a sentence.
    pub what: &'static str,
}

impl std::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the peer is at fault: {} [{}]; the connection is closed, correct the peer or raise the limit it met",
            self.what, self.clause
        )
    }
}

impl std::error::Error for PeerFault {}

macro_rules! faults {
    ($($name:ident: $clause:literal $what:literal;)*) => {
        /// The table of everything a peer can do wrong.
        impl PeerFault {
            $(#[doc = concat!($what, " [", $clause, "].")]
            pub const $name: PeerFault = PeerFault { clause: $clause, what: $what };)*

            /// Every fault that this module can report, for documents and tests.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    TOO_LARGE: "8323§5.3.1" "the message is larger than this end takes";
    TOKEN_LENGTH: "8323§3.2" "the token is longer than eight bytes";
    OPTION_CUT_SHORT: "7252§3.1" "the message ends within an option";
    OPTION_RESERVED: "7252§3.1" "an option has a reserved form";
    OPTION_NUMBER: "7252§12.2" "an option has a number above 65535";
    PAYLOAD_MISSING: "7252§3" "a payload marker has no payload behind it";
    EXPECTED_CSM: "8323§5.3" "the first message is not CSM";
    CODE_RESERVED: "7252§12.1" "the code is of a reserved class";
    SIGNAL_UNKNOWN: "8323§5.1" "the signal is not one of those that are defined";
    CSM_OPTION: "8323§5.6" "CSM has a critical option that this end does not understand";
    SIGNAL_OPTION: "8323§5.2" "a signal has a critical option that this end does not understand";
}

impl From<Malformed> for PeerFault {
    fn from(why: Malformed) -> PeerFault {
        match why {
            Malformed::TooLarge => PeerFault::TOO_LARGE,
            // The other three are of datagrams: in a stream nothing is cut short before an option.
            Malformed::TokenLength
            | Malformed::TokenCutShort
            | Malformed::HeadCutShort
            | Malformed::Version
            | Malformed::EmptyWithMore => PeerFault::TOKEN_LENGTH,
            Malformed::CodeReserved => PeerFault::CODE_RESERVED,
            Malformed::OptionCutShort => PeerFault::OPTION_CUT_SHORT,
            Malformed::OptionReserved => PeerFault::OPTION_RESERVED,
            Malformed::OptionNumber => PeerFault::OPTION_NUMBER,
            Malformed::PayloadMissing => PeerFault::PAYLOAD_MISSING,
        }
    }
}
