use crate::{ReasonCode, TextPairs};

/// CONNACK, as sent and as received. Fields of MQTT 5 are left out on the wire when they hold their default.
#[derive(Clone, Copy)]
pub struct ConnAck<'a> {
    /// Whether the server resumes a session. [MQTT-3.2.2-2]
    pub session_present: bool,
    /// The outcome; mapped to a return code for MQTT 3.
    pub reason: ReasonCode,
    /// Seconds, if not what the client asked for. [MQTT-3.2.2-21]
    pub session_expiry: Option<u32>,
    /// Unacknowledged QoS 1 and 2 publishes the server takes; 65,535 is the default and says nothing.
    pub receive_max: u16,
    /// The highest QoS a client may publish with.
    pub maximum_qos: crate::QoS,
    /// Whether retained messages are kept.
    pub retain_available: bool,
    /// Largest packet the server takes, in bytes.
    pub packet_bytes_max: Option<u32>,
    /// The name given to a client that had none. [MQTT-3.1.3-7]
    pub assigned_client_id: Option<&'a str>,
    /// Highest topic alias a client may use; 0 none.
    pub topic_alias_max: u16,
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user: Option<&'a dyn TextPairs>,
    /// Whether wildcard subscriptions work.
    pub wildcard_available: bool,
    /// Whether subscription identifiers work.
    pub subscription_ids_available: bool,
    /// Whether shared subscriptions work.
    pub shared_available: bool,
    /// Seconds; replaces the client's keep alive. [MQTT-3.1.2-21]
    pub server_keep_alive: Option<u16>,
    /// Basis for response topics.
    pub response_information: Option<&'a str>,
    /// Another server to use.
    pub server_reference: Option<&'a str>,
    /// Enhanced authentication method, the one of CONNECT.
    pub auth_method: Option<&'a str>,
    /// Its data.
    pub auth_data: Option<&'a [u8]>,
}

impl Default for ConnAck<'_> {
    fn default() -> Self {
        ConnAck {
            session_present: false,
            reason: ReasonCode::Success,
            session_expiry: None,
            receive_max: u16::MAX,
            maximum_qos: crate::QoS::ExactlyOnce,
            retain_available: true,
            packet_bytes_max: None,
            assigned_client_id: None,
            topic_alias_max: 0,
            reason_string: None,
            user: None,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            server_keep_alive: None,
            response_information: None,
            server_reference: None,
            auth_method: None,
            auth_data: None,
        }
    }
}
