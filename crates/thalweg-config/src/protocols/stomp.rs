//! `stomp.*`: the section of STOMP.

use crate::choices::words;
use crate::section::section;
use thalweg_fronts::stomp::Dialect;
use thalweg_model::Span;

section! {
    pub struct Stomp {
        /// How STOMP clients write destinations. `rabbitmq`: /queue/name, /topic/a.b with * and #, /exchange/name/key,
        /// /amq/queue/name. `activemq`: /queue/name, /topic/a.b with * and >. `slash`: /queue/name, and for topics
        /// levels between slashes as in MQTT, with + and #.
        dialect: Dialect = Word(Dialect::WORDS), "rabbitmq", NewConnections;
        /// Names of this machine that STOMP clients may send as `host` without meaning a tenant. `localhost`, addresses
        /// and names with a dot count as such anyhow, unless they are in `tenants`.
        hosts: Vec<String> = NAMES, "", NewConnections;
        /// Whether a message that a STOMP client refuses with NACK goes back into its queue, if the frame does not say
        /// itself with `requeue`. If not, it is dead-lettered or dropped.
        nack_requeues: bool = Flag, "true", NewConnections;
        /// Whether SUBSCRIBE with a `selector` is refused.
        selectors_refused: bool = Flag, "false", NewConnections;
        /// How often we are ready to give STOMP clients a sign of life, and how often we want one from them. It counts
        /// only for clients that offer or want some themselves. 0s is never.
        heart_beat: Span = whole_millis(0, 3_600_000), "10s", NewConnections;
        /// Largest body of a STOMP frame. A client that sends a larger one gets ERROR and is disconnected.
        message_bytes_max: usize = MESSAGE_BYTES, "16MiB", NewConnections;
        /// Most headers of one STOMP frame.
        headers_max: usize = count(10, 65_536), "128", NewConnections;
        /// Most bytes of command and headers of one STOMP frame together.
        head_bytes_max: usize = size(KIB, 16 * MIB), "64KiB", NewConnections;
        /// Most unacknowledged messages of a STOMP subscription that does not say itself with `prefetch-count`. 0 is no
        /// limit.
        prefetch: u32 = count(0, 4_294_967_295), "0", NewConnections;
        /// Most subscriptions of one STOMP connection.
        subscriptions_max: usize = count(1, 65_535), "1024", NewConnections;
        /// Most open transactions of one STOMP connection.
        transactions_max: usize = count(1, 65_536), "64", NewConnections;
    }
}

words! { for Dialect { RabbitMq = "rabbitmq", ActiveMq = "activemq", Slash = "slash", } }
