use crate::{Properties, PublishProperties, QoS, TextPairs, Version};

/// CONNECT as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'b> {
    /// The version spoken from here on.
    pub version: Version,
    /// Whether the protocol level had the bridge bit (0x80) set, as mosquitto's bridges do.
    pub bridge: bool,
    /// May be empty: the server assigns one, or answers 0x85 / return code 2 for a 3.1.1 client with `clean_start` unset.
    pub client_id: &'b str,
    /// Clean Start (MQTT 5), Clean Session (MQTT 3).
    pub clean_start: bool,
    /// Seconds; 0 switches it off.
    pub keep_alive: u16,
    /// What to publish when the client is lost.
    pub will: Option<Will<'b>>,
    /// For authentication.
    pub username: Option<&'b str>,
    /// For authentication.
    pub password: Option<&'b [u8]>,
    /// Seconds; 0xFFFF_FFFF never. MQTT 3: 0 with clean session, else 0xFFFF_FFFF.
    pub session_expiry: u32,
    /// Unacknowledged QoS 1 and 2 publishes the client takes; 65,535 if it did not say.
    pub receive_max: u16,
    /// Largest packet the client takes, in bytes.
    pub packet_bytes_max: Option<u32>,
    /// Highest topic alias the server may use; 0 none.
    pub topic_alias_max: u16,
    /// Whether the client wants Response Information.
    pub request_response_info: bool,
    /// Whether the client wants reasons in words.
    pub request_problem_info: bool,
    /// Enhanced authentication method.
    pub auth_method: Option<&'b str>,
    /// Its data.
    pub auth_data: Option<&'b [u8]>,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
}

/// The will of a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'b> {
    /// A valid topic name.
    pub topic: &'b str,
    /// Its payload.
    pub payload: &'b [u8],
    /// Its QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Seconds to wait before it is published.
    pub delay_secs: u32,
    /// Its properties.
    pub properties: PublishProperties<'b>,
}

/// CONNECT as sent by a client.
#[derive(Clone, Copy)]
pub struct ConnectOut<'a> {
    /// The version to speak.
    pub version: Version,
    /// May be empty to get one assigned.
    pub client_id: &'a str,
    /// Clean Start, or Clean Session.
    pub clean_start: bool,
    /// Seconds; 0 switches it off.
    pub keep_alive: u16,
    /// What the server publishes when the client is lost.
    pub will: Option<WillOut<'a>>,
    /// For authentication.
    pub username: Option<&'a str>,
    /// For authentication.
    pub password: Option<&'a [u8]>,
    /// Seconds (MQTT 5).
    pub session_expiry: u32,
    /// Unacknowledged QoS 1 and 2 publishes the client takes (MQTT 5); not 0.
    pub receive_max: u16,
    /// Largest packet the client takes, in bytes (MQTT 5).
    pub packet_bytes_max: Option<u32>,
    /// Highest topic alias the server may use (MQTT 5).
    pub topic_alias_max: u16,
    /// Ask for Response Information (MQTT 5).
    pub request_response_info: bool,
    /// Ask for reasons in words (MQTT 5).
    pub request_problem_info: bool,
    /// User properties (MQTT 5).
    pub user: Option<&'a dyn TextPairs>,
    /// Enhanced authentication method (MQTT 5).
    pub auth_method: Option<&'a str>,
    /// Its data.
    pub auth_data: Option<&'a [u8]>,
}

impl Default for ConnectOut<'_> {
    fn default() -> Self {
        ConnectOut {
            version: Version::V5,
            client_id: "",
            clean_start: true,
            keep_alive: 60,
            will: None,
            username: None,
            password: None,
            session_expiry: 0,
            receive_max: u16::MAX,
            packet_bytes_max: None,
            topic_alias_max: 0,
            request_response_info: false,
            request_problem_info: true,
            user: None,
            auth_method: None,
            auth_data: None,
        }
    }
}

/// The will of a CONNECT as sent by a client.
#[derive(Clone, Copy, Default)]
pub struct WillOut<'a> {
    /// The will as a publish: topic, payload, QoS, retain and properties count; `dup`, `id`, `subscription_ids` and
    /// `allow_alias` do not.
    pub message: crate::PublishOut<'a>,
    /// Seconds to wait before it is published (MQTT 5).
    pub delay_secs: u32,
}

/// What the first bytes of a connection are, seen without a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'b> {
    /// Too few bytes to tell; `want` is how many there must be at least before asking again is worth it.
    NeedMore {
        /// Bytes from the start of the connection.
        want: usize,
    },
    /// Not a CONNECT of any MQTT version.
    NotMqtt,
    /// A CONNECT larger than the limit.
    TooLarge,
    /// A CONNECT with this client identifier, which may be empty. The rest has not been checked.
    ClientId(&'b str),
}

/// Looks at the first packet of a connection far enough to learn the client identifier. `limit` bounds the whole
/// packet in bytes.
pub fn peek_connect(bytes: &[u8], limit: usize) -> Peek<'_> {
    let _ = (bytes, limit);
    Peek::NotMqtt
}
