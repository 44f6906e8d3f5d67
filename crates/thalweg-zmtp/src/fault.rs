//! Protocol errors of a peer: one constant per broken clause, in one table.

/// A peer broke the protocol, or a limit of ours. Close the connection: nothing is written, for that is how RFC 37
/// wants errors to be signalled other than the refusal of a login ("Error Handling").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// The clause that was broken: the number of an RFC, and a heading in it.
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

            /// Every fault that this crate can report, for documents and tests.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    // Greeting.
    ZMTP_1: "37#Detecting_ZMTP_1.0_and_2.0_Peers" "the peer speaks ZMTP 1.0, or no ZMTP at all; 3.0 or later is needed";
    ZMTP_2: "37#Detecting_ZMTP_2.0_Peers" "the peer speaks ZMTP 2.0; 3.0 or later is needed";
    SIGNATURE: "37#Formal_Grammar" "the signature of the greeting does not end in 7F";
    MECHANISM: "37#Authentication_and_Confidentiality" "the peer has another security mechanism than this end";
    AS_SERVER: "37#Topology" "both ends say that they are the server of the security mechanism";

    // Frames and commands.
    FRAME_FLAGS: "37#Framing" "a reserved bit of the frame's flags is set, or MORE on a command";
    FRAME_LENGTH: "37#Framing" "the length of the frame is above 2^63-1";
    MESSAGE_TOO_LARGE: "37#Messages" "the message is larger than this end allows";
    COMMAND_TOO_LARGE: "37#Commands" "the command is larger than this end allows";
    COMMAND_NAME: "37#Commands" "the command's name is empty, longer than the command, or has other characters than letters";

    // Handshake.
    EXPECTED_COMMAND: "37#The_NULL_Security_Mechanism" "a message came before the end of the handshake";
    UNEXPECTED_COMMAND: "37#The_NULL_Security_Mechanism" "the command has no place in this step of the handshake";
    ERROR_REASON: "37#The_NULL_Security_Mechanism" "the reason of ERROR does not fill the command";
    LOGIN: "24#Implementation" "user name and password do not fill HELLO";
    WELCOME: "24#Implementation" "WELCOME of PLAIN has data";
    METADATA: "37#The_NULL_Security_Mechanism" "the metadata cannot be read";
    IDENTITY: "37#The_Identity_Property" "the identity is longer than 255 octets or begins with a zero";
    SOCKET_TYPE: "37#The_Socket-Type_Property" "the peer's socket type is missing, unknown, or does not go with ours";

    // CURVE.
    CURVE_LENGTH: "26#CurveZMQ_Commands" "a command of CURVE is too short or too long";
    CURVE_HELLO: "26#The_HELLO_Command" "HELLO has another version than 1.0, or other octets where zeros belong";
    CURVE_BOX: "26#CurveZMQ_Commands" "a box does not open: one end has a wrong key, or what came was changed on its way";
    CURVE_VOUCH: "26#The_INITIATE_Command" "the vouch does not show that the client has its lasting key";
    CURVE_NONCE: "26#The_HELLO_Command" "the peer's nonces do not rise";
    EXPECTED_MESSAGE: "26#The_MESSAGE_Command" "something else than MESSAGE came on an encrypted connection";

    // Traffic.
    NOT_A_SUBSCRIBER: "37#The_Publish-Subscribe_Pattern" "SUBSCRIBE or CANCEL comes from a socket that is neither SUB nor XSUB";
    PING: "37#Connection_Heartbeating" "PING has no time-to-live, or a context of more than 16 octets";
    PONG: "37#Connection_Heartbeating" "PONG has a context of more than 16 octets";
}
