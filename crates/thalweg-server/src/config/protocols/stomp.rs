//! `stomp.*`: the section of STOMP.

use crate::config::declare::{KIB, MIB, given, keys, message_bytes, prefix};
use crate::config::keys::Key;
use crate::config::keys::Reload::NewConnections;
use crate::config::kind::Kind::{Count, Duration, Flag, Names, Size, Word};
use crate::config::kind::Value;
use crate::config::landing::{Field, Landing, land, protocol};
use crate::config::words::words;
use thalweg_model::Span;

/// `stomp.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stomp {
    /// How destinations are written.
    pub dialect: StompDialect,
    /// Names of this server, which are no tenants.
    pub hosts: Vec<String>,
    /// Whether what NACK names goes back into its queue.
    pub nack_requeues: bool,
    /// Whether SUBSCRIBE with a selector is refused.
    pub selectors_refused: bool,
    /// How often signs of life are offered and wanted; [`Span::ZERO`] is never.
    pub heart_beat: Span,
    pub message_bytes_max: usize,
    /// Most headers of a frame.
    pub headers_max: usize,
    /// Most bytes of all headers of a frame.
    pub head_bytes_max: usize,
    /// Most unsettled messages of a subscription that does not say itself; 0 is no limit.
    pub prefetch: u32,
    /// Most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Most open transactions of one connection.
    pub transactions_max: usize,
}

words! {
    /// How STOMP destinations are written.
    StompDialect {
        /// As RabbitMQ's users write them.
        RabbitMq = "rabbitmq",
        /// As ActiveMQ's users write them.
        ActiveMq = "activemq",
        /// Levels between slashes, as MQTT's users write them.
        Slash = "slash",
    }
}

keys! {
    protocol stomp.dialect: Word(StompDialect::WORDS), default "rabbitmq", NewConnections;
        "How STOMP clients write destinations. `rabbitmq`: /queue/name, /topic/a.b with * and #, /exchange/name/key, \
         /amq/queue/name. `activemq`: /queue/name, /topic/a.b with * and >. `slash`: /queue/name, and for topics \
         levels between slashes as in MQTT, with + and #.";
    protocol stomp.hosts: Names { max: 1000 }, default "", NewConnections;
        "Names of this machine that STOMP clients may send as `host` without meaning a tenant. `localhost`, addresses \
         and names with a dot count as such anyhow, unless they are in `tenants`.";
    protocol stomp.nack_requeues: Flag, default "true", NewConnections;
        "Whether a message that a STOMP client refuses with NACK goes back into its queue, if the frame does not say \
         itself with `requeue`. If not, it is dead-lettered or dropped.";
    protocol stomp.selectors_refused: Flag, default "false", NewConnections;
        "Whether SUBSCRIBE with a `selector` is refused.";
    protocol stomp.heart_beat: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: Span::from_millis(1) },
        default "10s", NewConnections;
        "How often we are ready to give STOMP clients a sign of life, and how often we want one from them. It counts \
         only for clients that offer or want some themselves. 0s is never.";
    protocol stomp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest body of a STOMP frame. A client that sends a larger one gets ERROR and is disconnected.";
    protocol stomp.headers_max: Count { min: 10, max: 65_536 }, default "128", NewConnections;
        "Most headers of one STOMP frame.";
    protocol stomp.head_bytes_max: Size { min: KIB, max: 16 * MIB }, default "64KiB", NewConnections;
        "Most bytes of command and headers of one STOMP frame together.";
    protocol stomp.prefetch: Count { min: 0, max: 4_294_967_295 }, default "0", NewConnections;
        "Most unacknowledged messages of a STOMP subscription that does not say itself with `prefetch-count`. 0 is no \
         limit.";
    protocol stomp.subscriptions_max: Count { min: 1, max: 65_535 }, default "1024", NewConnections;
        "Most subscriptions of one STOMP connection.";
    protocol stomp.transactions_max: Count { min: 1, max: 65_536 }, default "64", NewConnections;
        "Most open transactions of one STOMP connection.";
}
