//! Protocol errors of a peer: one constant per broken clause, in one table.

/// A peer broke the protocol, or a limit of ours. The connection cannot go on; `ServerSide::fault` writes the ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// The clause that was broken: a version, and a heading of its specification.
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
    // Frames.
    COMMAND_TOO_LONG: "1.2#Size_Limits" "the first line of the frame is longer than this server allows";
    COMMAND_UNKNOWN: "1.2#STOMP_Frames" "the command is not one of STOMP";
    COMMAND_NOT_IN_VERSION: "1.1#NACK" "the command is not one of the version that was agreed on";
    DIRECTION: "1.2#Augmented_BNF" "this command is sent only by the other side";
    HEADERS_TOO_MANY: "1.2#Size_Limits" "the frame has more headers than this server allows";
    HEADER_TOO_LONG: "1.2#Size_Limits" "a header is longer than this server allows";
    HEAD_TOO_LARGE: "1.2#Size_Limits" "the headers of the frame are together larger than this server allows";
    HEADER_WITHOUT_COLON: "1.2#Augmented_BNF" "a header line has no colon";
    HEADER_WITHOUT_NAME: "1.2#Augmented_BNF" "a header has an empty name";
    HEADER_ESCAPE: "1.2#Value_Encoding" "a header has an escape that this version does not define";
    HEADER_UTF8: "1.2#Value_Encoding" "the headers are not well-formed UTF-8";
    NUL_IN_HEAD: "1.2#STOMP_Frames" "the frame ends before the blank line behind its headers";
    BODY_TOO_LARGE: "1.2#Size_Limits" "the body is larger than this server allows";
    BODY_FORBIDDEN: "1.2#Body" "only SEND, MESSAGE and ERROR may have a body";
    CONTENT_LENGTH: "1.2#Header_content-length" "content-length is not a number";
    CONTENT_LENGTH_WRONG: "1.2#Header_content-length" "no NUL follows the body after as many bytes as content-length says";

    // Connecting.
    EXPECTED_CONNECT: "1.2#Connecting" "the first frame is not CONNECT or STOMP";
    SECOND_CONNECT: "1.2#Connecting" "CONNECT was sent a second time";
    VERSION_UNSUPPORTED: "1.2#Protocol_Negotiation" "accept-version names no version that this server speaks";
    HEART_BEAT: "1.2#Heart-beating" "heart-beat is not two numbers with a comma between them";
    EXPECTED_CONNECTED: "1.2#Connecting" "the server's first frame is neither CONNECTED nor ERROR";
    SECOND_CONNECTED: "1.2#Connecting" "CONNECTED was sent a second time";
    VERSION_UNASKED: "1.2#Protocol_Negotiation" "CONNECTED has a version that the client did not offer";

    // Required headers.
    SEND_DESTINATION: "1.2#SEND" "SEND has no destination";
    SUBSCRIBE_DESTINATION: "1.2#SUBSCRIBE" "SUBSCRIBE has no destination";
    SUBSCRIBE_ID: "1.2#SUBSCRIBE_id_Header" "SUBSCRIBE has no id";
    SUBSCRIBE_ACK: "1.2#SUBSCRIBE_ack_Header" "ack of SUBSCRIBE is not auto, client or client-individual";
    UNSUBSCRIBE_ID: "1.2#UNSUBSCRIBE" "UNSUBSCRIBE has no id";
    UNSUBSCRIBE_WHAT: "1.0#UNSUBSCRIBE" "UNSUBSCRIBE has neither id nor destination";
    ACK_ID: "1.2#ACK" "ACK or NACK has no id";
    ACK_MESSAGE_ID: "1.1#ACK" "ACK or NACK has no message-id";
    ACK_SUBSCRIPTION: "1.1#ACK" "ACK or NACK has no subscription";
    TRANSACTION: "1.2#BEGIN" "BEGIN, COMMIT or ABORT has no transaction";
    MESSAGE_DESTINATION: "1.2#MESSAGE" "MESSAGE has no destination";
    MESSAGE_ID: "1.2#MESSAGE" "MESSAGE has no message-id";
    MESSAGE_SUBSCRIPTION: "1.2#MESSAGE" "MESSAGE has no subscription";
    RECEIPT_ID: "1.2#RECEIPT" "RECEIPT has no receipt-id";
}
