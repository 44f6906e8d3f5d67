//! The protocols of listeners: from the configuration to the settings of their fronts. The only place in the server
//! that names them.

mod amqp;
mod coap;
mod mqtt;
mod stomp;
mod xmpp;
mod zmtp;

pub(crate) use mqtt::own;

use crate::config::{Config, Listener, ListenerKind, Words};
use crate::connector::DialSpec;
use crate::lobby::Route;
use crate::settings::FRAMING_BYTES;
use crate::transport::websocket::WebSocketSettings;
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_kernel::home;

/// What the server must know of a protocol.
pub(crate) trait Protocol: Sync {
    /// Settings of a listener's fronts; none if the program that started the server provides them.
    fn fronts(&self, _: &Config, _: &Listener, _: usize) -> Option<Arc<dyn FrontSettings>> {
        None
    }

    /// Whether what the configuration names can be used; words on what is wrong with it.
    fn check(&self, _: &Listener) -> Result<(), String> {
        Ok(())
    }

    /// The peers that the broker connects to.
    fn dials(&self, _: &Config) -> Vec<DialSpec> {
        Vec::new()
    }

    /// Finds the routing key of a connection in its first bytes.
    fn route(&self) -> fn(&[u8], usize) -> Route {
        anywhere
    }

    /// How it is spoken over WebSocket.
    fn websocket(
        &self,
        config: &Config,
        listener: &Listener,
        defaults: WebSocketSettings,
    ) -> WebSocketSettings {
        let largest = config.packet_bytes_max(listener).max(FRAMING_BYTES);
        WebSocketSettings {
            frame_bytes_max: largest,
            message_bytes_max: largest,
            ..defaults
        }
    }

    /// Whether a connection that is on its shard has still to finish its handshake; otherwise its first bytes did.
    fn completes_handshake_on_shard(&self) -> bool {
        true
    }

    /// Whether peers without credentials choose their session's name, which may belong to a user.
    fn chooses_client_ids(&self) -> bool {
        false
    }
}

/// A protocol by what the configuration calls it.
pub(crate) fn of(kind: ListenerKind) -> &'static dyn Protocol {
    match kind {
        ListenerKind::Mqtt => &mqtt::Mqtt,
        ListenerKind::Amqp => &amqp::Amqp,
        ListenerKind::Stomp => &stomp::Stomp,
        ListenerKind::Coap => &coap::Coap,
        ListenerKind::Zmtp => &zmtp::Zmtp,
        ListenerKind::Xmpp => &xmpp::Xmpp,
        ListenerKind::Extension => &Extension,
    }
}

/// The peers that the broker connects to, of all protocols.
pub(crate) fn dials(config: &Config) -> Vec<DialSpec> {
    let kinds = ListenerKind::ALL.iter();
    kinds
        .flat_map(|(kind, _)| of(*kind).dials(config))
        .collect()
}

/// A protocol of the program that started the server.
struct Extension;

impl Protocol for Extension {}

/// The first bytes name no client: the shards take turns. The end that connects sends first (RFC 8323 §5.3).
fn anywhere(_: &[u8], _: usize) -> Route {
    Route::Key(0)
}

/// Queues, and so everybody who speaks a protocol of queues, have one home. The first bytes are only waited for.
fn to_queues(_: &[u8], _: usize) -> Route {
    Route::Key(queues_key())
}

/// The routing key of the home of all queues.
pub(crate) fn queues_key() -> u64 {
    u64::from(home(QUEUES, u16::MAX).0) + 1
}

/// The name of the home of all queues.
const QUEUES: &str = "$q";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_speaks_a_protocol_of_queues_is_shown_to_the_home_of_queues() {
        for shards in 1..=64 {
            let Route::Key(key) = to_queues(b"AMQP", 0) else {
                panic!("no bytes are needed")
            };
            assert_eq!(
                (key - 1) % u64::from(shards),
                u64::from(home(QUEUES, shards).0)
            );
        }
    }
}
