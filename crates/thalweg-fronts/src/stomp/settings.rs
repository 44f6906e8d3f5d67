//! What the operator decides about STOMP.

use crate::address::{ACTIVEMQ, RABBITMQ, SLASH, Syntax};
use thalweg_kernel::Safety;
use thalweg_model::Span;
use thalweg_stomp::ServerLimits;

/// How the words of a `/topic/` destination are parted, and what its wildcards are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `/topic/a.b`, wildcards `*` and `#`.
    #[default]
    RabbitMq,
    /// `/topic/a.b`, wildcards `*` and `>`.
    ActiveMq,
    /// `/topic/a/b`, wildcards `+` and `#`, as MQTT has them.
    Slash,
}

impl Dialect {
    pub(super) fn syntax(self) -> Syntax {
        match self {
            Dialect::RabbitMq => RABBITMQ,
            Dialect::ActiveMq => ACTIVEMQ,
            Dialect::Slash => SLASH,
        }
    }

    pub(super) fn of_wire(self) -> thalweg_stomp::Dialect {
        match self {
            Dialect::RabbitMq => thalweg_stomp::Dialect::Rabbitmq,
            Dialect::ActiveMq => thalweg_stomp::Dialect::Activemq,
            Dialect::Slash => thalweg_stomp::Dialect::Slash,
        }
    }
}

/// What the operator decides about STOMP.
#[derive(Clone, Debug)]
pub struct StompSettings {
    pub limits: ServerLimits,
    /// How topics are written.
    pub dialect: Dialect,
    /// Tenants that exist beside the default one; a peer names one by `host`.
    pub tenants: Box<[Box<str>]>,
    /// The tenant of peers that name none, or `/`; `""` is the default one.
    pub tenant: Box<str>,
    /// Names of this server: a peer whose `host` is one of them names no tenant. Names with a dot or a colon, and
    /// `localhost`, are names of servers anyhow, unless they are tenants.
    pub hosts: Box<[Box<str>]>,
    /// The longest interval between heart-beats that we send; zero sends none.
    pub heart_beat_give: Span,
    /// The longest interval between heart-beats that we require; zero requires none.
    pub heart_beat_want: Span,
    /// What CONNECTED says in `server`.
    pub server: Box<str>,
    /// How many deliveries of a subscription may be unsettled if SUBSCRIBE does not say; 0 is no limit.
    pub prefetch: u32,
    /// Whether NACK without the header `requeue` puts the message back into its queue, or rejects it.
    pub nack_requeues: bool,
    /// Whether SUBSCRIBE with a selector is refused.
    pub selectors_refused: bool,
    /// Subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Open transactions of one connection.
    pub transactions_max: usize,
    /// Largest destination in bytes.
    pub destination_bytes_max: usize,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe answers to clients of this listener must be, in place of the kernel's setting.
    pub safety: Option<Safety>,
}

impl Default for StompSettings {
    fn default() -> Self {
        StompSettings {
            limits: ServerLimits::default(),
            dialect: Dialect::RabbitMq,
            tenants: Box::default(),
            tenant: "".into(),
            hosts: Box::default(),
            heart_beat_give: Span::from_secs(10),
            heart_beat_want: Span::from_secs(10),
            server: concat!("Thalweg/", env!("CARGO_PKG_VERSION")).into(),
            prefetch: 0,
            nack_requeues: true,
            selectors_refused: false,
            subscriptions_max: 1024,
            transactions_max: 64,
            destination_bytes_max: 4096,
            publish_rate: None,
            safety: None,
        }
    }
}
