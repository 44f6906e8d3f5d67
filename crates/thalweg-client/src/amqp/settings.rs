//! Settings of the AMQP lane.

/// Settings of the AMQP lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpSettings {
    /// The virtual host that the connection opens; `/` unless the URL names one.
    pub vhost: String,
    /// Deliveries of one subscription that may be unsettled; 0: no limit.
    pub prefetch: u16,
    /// Publishes that may wait for their confirm; at least 1.
    pub unconfirmed_max: usize,
    /// Largest payload that is sent and taken, in bytes.
    pub payload_bytes_max: usize,
    /// Largest frame that is taken, in bytes; at least 4,096.
    pub frame_bytes_max: u32,
    /// Log in by the certificate that TLS shows (`EXTERNAL`), not by user name and password (`PLAIN`).
    pub external: bool,
}

impl Default for AmqpSettings {
    fn default() -> Self {
        AmqpSettings {
            vhost: "/".to_owned(),
            prefetch: 256,
            unconfirmed_max: 8192,
            payload_bytes_max: 16 << 20,
            frame_bytes_max: 128 << 10,
            external: false,
        }
    }
}
