//! Settings of the MQTT lane.

/// Settings of the MQTT lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttSettings {
    /// 5, or 4 for MQTT 3.1.1, or 3 for MQTT 3.1 (which needs a client name). With 5, a server that says that it knows 3.1.1 only is spoken to in that from then on.
    pub version: u8,
    /// Whether the first connection begins a new session; later ones go on with it if it outlives its connection. None: a
    /// session that outlives its connection is resumed, any other begins anew.
    pub clean_start: Option<bool>,
    /// Publishes of this connection are not delivered to its own subscriptions (MQTT 5).
    pub no_local: bool,
    /// Delay before the server publishes the will, in seconds (MQTT 5).
    pub will_delay_secs: u32,
    /// Messages that the server may have under way to us, unacknowledged (MQTT 5); at least 1.
    pub receive_max: u16,
    /// Largest packet that is accepted, in bytes; announced to the server (MQTT 5).
    pub packet_bytes_max: u32,
    /// Most topic aliases that are given when the server allows them, and that the server may give (MQTT 5); 0: none.
    pub aliases_max: u16,
    /// The levels before the client's name in the topic where answers come, if the server does not say which.
    pub reply_base: String,
    /// Whether members of shared subscriptions tell a server that asks for it how much they have to do.
    pub load_reports: bool,
    /// Makes correlation data of requests repeatable, for tests; None: by chance.
    pub seed: Option<u64>,
}

impl Default for MqttSettings {
    fn default() -> Self {
        MqttSettings {
            version: 5,
            clean_start: None,
            no_local: false,
            will_delay_secs: 0,
            receive_max: 1024,
            packet_bytes_max: 16 << 20,
            aliases_max: 1024,
            reply_base: "responses".to_owned(),
            load_reports: true,
            seed: None,
        }
    }
}
