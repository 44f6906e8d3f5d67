//! ZeroMQ listeners.

use super::Protocol;
use crate::config::{Config, Listener};
use crate::lobby::Route;
use crate::settings::safety;
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::zmtp::ZmtpSettings;
use thalweg_zmtp::Limits;

pub(super) struct Zmtp;

impl Protocol for Zmtp {
    fn fronts(
        &self,
        config: &Config,
        listener: &Listener,
        _: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        let zmtp = &config.zmtp;
        Some(Arc::new(ZmtpSettings {
            limits: Limits {
                handshake_bytes_max: config.limits.connect_bytes_max as u64,
                command_bytes_max: zmtp.subscription_bytes_max as u64 + FRAMING_OF_SUBSCRIBE,
                message_bytes_max: config.packet_bytes_max(listener) as u64,
            },
            high_water: zmtp.high_water,
            last_values: zmtp.last_value,
            queue: zmtp.queue.as_str().into(),
            heart_beat: zmtp.heart_beat,
            publish_rate: listener.publish_rate,
            safety: listener.fsync.map(safety),
            ..ZmtpSettings::default()
        }))
    }

    /// Which sockets use queues shows after the handshake.
    fn route(&self) -> fn(&[u8], usize) -> Route {
        super::to_queues
    }
}

/// The name of a SUBSCRIBE command of ZMTP and its length, which a subscription has beside its prefix.
const FRAMING_OF_SUBSCRIBE: u64 = 10;
