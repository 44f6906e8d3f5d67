//! What the operator decides about AMQP.

use thalweg_kernel::Safety;
use thalweg_model::Span;

/// What the operator decides about AMQP.
#[derive(Clone, Debug)]
pub struct AmqpSettings {
    /// Tenants that exist beside the default one, which is the virtual host `/`; a peer names one in `connection.open`.
    pub tenants: Box<[Box<str>]>,
    /// The largest frame, in bytes, head and end included; 4,096 or more.
    pub frame_max: u32,
    /// The highest channel number.
    pub channel_max: u16,
    /// The interval of heartbeats in both directions; whole seconds, zero is never. Clients may choose less.
    pub heartbeat: Span,
    /// The largest message body.
    pub message_bytes_max: usize,
    /// Consumers of one channel.
    pub consumers_max: usize,
    /// What the server calls itself in `cluster_name`.
    pub cluster_name: Box<str>,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe answers to clients of this listener must be, in place of the kernel's setting.
    pub safety: Option<Safety>,
}

impl Default for AmqpSettings {
    fn default() -> Self {
        AmqpSettings {
            tenants: Box::default(),
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat: Span::from_secs(60),
            message_bytes_max: 128 << 20,
            consumers_max: 4096,
            cluster_name: "thalweg".into(),
            publish_rate: None,
            safety: None,
        }
    }
}
