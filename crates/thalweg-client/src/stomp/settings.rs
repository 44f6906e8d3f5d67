//! Settings of the STOMP lane.

use thalweg_stomp::Dialect;

/// Settings of the STOMP lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StompSettings {
    /// The virtual host; empty: the endpoint's name.
    pub vhost: String,
    /// The broker's syntax of topics. STOMP defines none; it depends on the broker's settings.
    pub dialect: Dialect,
    /// Deliveries of one subscription that may be unsettled; at least 1.
    pub prefetch: u16,
    /// Publishes that may wait for their receipt; at least 1.
    pub unconfirmed_max: usize,
    /// Largest payload that is sent and taken, in bytes.
    pub payload_bytes_max: usize,
}

impl Default for StompSettings {
    fn default() -> Self {
        StompSettings {
            vhost: "/".to_owned(),
            dialect: Dialect::Rabbitmq,
            prefetch: 256,
            unconfirmed_max: 8192,
            payload_bytes_max: 16 << 20,
        }
    }
}
