//! AMQP listeners.

use super::Protocol;
use crate::config::{self, Config};
use crate::lobby::Route;
use crate::settings::{safety, tenants};
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::amqp::AmqpSettings;

pub(super) struct Amqp;

impl Protocol for Amqp {
    fn fronts(
        &self,
        config: &Config,
        listener: &config::Listener,
        _: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        Some(Arc::new(settings(config, listener)))
    }

    fn route(&self) -> fn(&[u8], usize) -> Route {
        super::to_queues
    }
}

fn settings(config: &Config, listener: &config::Listener) -> AmqpSettings {
    let amqp = &config.protocols.amqp;
    AmqpSettings {
        tenants: tenants(config),
        frame_max: u32::try_from(amqp.frame_bytes_max).unwrap_or(u32::MAX),
        channel_max: amqp.channels_max,
        heartbeat: amqp.heartbeat,
        message_bytes_max: config.packet_bytes_max(listener),
        consumers_max: amqp.consumers_per_channel_max,
        publish_rate: listener.publish_rate,
        safety: listener.fsync.map(safety),
        ..AmqpSettings::default()
    }
}
