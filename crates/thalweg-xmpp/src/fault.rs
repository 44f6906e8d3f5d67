//! Protocol errors of a peer: one constant per broken clause, in one table.

/// A peer broke the protocol, or a limit of ours. The machine has written the stream error; close the connection after it has
/// left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// The clause that was broken: the number of an RFC or XEP, and a section of it.
    pub clause: &'static str,
    /// The condition of the stream error, of RFC 6120, 4.9.3.
    pub condition: &'static str,
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
    ($($name:ident: $clause:literal $condition:literal $what:literal;)*) => {
        /// The table of everything a peer can do wrong.
        impl PeerFault {
            $(#[doc = concat!($what, " [", $clause, "].")]
            pub const $name: PeerFault =
                PeerFault { clause: $clause, condition: $condition, what: $what };)*

            /// Every fault that this crate can report, for documents and tests.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    // XML.
    MALFORMED: "6120#4.9.3.13" "not-well-formed" "what came is no well-formed XML in UTF-8";
    RESTRICTED: "6120#4.9.3.18" "restricted-xml" "a document type, an entity, a comment or a processing instruction came, or a name or attribute longer than this end allows";
    PREFIX: "6120#4.9.3.2" "bad-namespace-prefix" "a prefix is used that is declared nowhere";
    DUPLICATE: "6120#4.9.3.13" "not-well-formed" "an element has one attribute twice";
    TEXT: "6120#4.9.3.1" "bad-format" "text stands between stanzas";

    TWO_ELEMENTS: "7395#3.3" "bad-format" "a WebSocket message has more than one element";

    // Limits.
    STANZA_TOO_LARGE: "6120#13.12" "policy-violation" "the stanza is larger than this end allows";
    TOO_DEEP: "6120#13.12" "policy-violation" "elements are nested deeper than this end allows";
    TOO_MANY_ATTRIBUTES: "6120#13.12" "policy-violation" "an element has more attributes and namespaces than this end allows";
    TOO_MANY_ELEMENTS: "6120#13.12" "policy-violation" "the stanza has more elements than this end allows";
    LOGINS: "6120#6.4.4" "policy-violation" "too many log-ins have failed on this stream";

    // Streams.
    HEADER: "6120#4.9.3.10" "invalid-namespace" "the stream does not begin with <stream> of its namespace, or has another default namespace than jabber:client";
    VERSION: "6120#4.9.3.25" "unsupported-version" "the stream has no version, or one that is not 1.x";
    STANZA_TYPE: "6120#4.9.3.24" "unsupported-stanza-type" "the element has no place in this step of the stream";
    NOT_LOGGED_IN: "6120#4.9.3.12" "not-authorized" "a stanza came before log-in and binding";
    BIND: "6120#7.6.1" "not-authorized" "the stanza before the binding of a resource is no request to bind one";
    EARLY: "6120#5.4.3.3" "policy-violation" "octets follow <starttls/> before it is answered";
    STREAM_ERROR: "6120#4.9.1" "undefined-condition" "the peer has ended the stream with an error";

    // The server's end, as a client sees it.
    NO_TLS: "6120#5.3.1" "policy-violation" "the server offers no TLS, and this end insists on it";
    TLS_REFUSED: "6120#5.4.2.2" "policy-violation" "the server refuses TLS that it has offered";
    NO_MECHANISM: "6120#6.3.3" "policy-violation" "the server offers no mechanism to log in by that this end has and may use";
    LOGIN_REFUSED: "6120#6.4.5" "not-authorized" "the server refuses the log-in";
    SERVER_NOT_PROVEN: "6120#6.4.6" "not-authorized" "the server has not shown that it knows the password, or its message of SCRAM is malformed";
    BIND_REFUSED: "6120#7.7.2.1" "undefined-condition" "the server refuses to bind the resource, or answers with no address";

    // Stream management.
    MANAGEMENT: "0198#4" "undefined-condition" "an acknowledgement is malformed, or came where stream management is off";
    ACKNOWLEDGED_TOO_MUCH: "0198#4" "undefined-condition" "the peer acknowledges stanzas that were never sent";
}
