use crate::{Properties, ReasonCode, TextPairs};

/// DISCONNECT as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'b> {
    /// Why; `Success` for MQTT 3.
    pub reason: ReasonCode,
    /// Seconds: replaces the session expiry of CONNECT (client to server).
    pub session_expiry: Option<u32>,
    /// Another server to use (server to client).
    pub server_reference: Option<&'b str>,
    /// All properties, for reason string and user properties.
    pub properties: Properties<'b>,
}

/// What may be said in a DISCONNECT of MQTT 5.
#[derive(Clone, Copy, Default)]
pub struct DisconnectProps<'a> {
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user: Option<&'a dyn TextPairs>,
    /// Another server to use; only from a server. [MQTT-4.13.0]
    pub server_reference: Option<&'a str>,
    /// Seconds; only from a client. [MQTT-3.14.2-2]
    pub session_expiry: Option<u32>,
}
