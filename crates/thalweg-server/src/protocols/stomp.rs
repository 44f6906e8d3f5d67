//! STOMP listeners.

use super::Protocol;
use crate::config::{self, Config};
use crate::lobby::Route;
use crate::settings::{FRAMING_BYTES, names, safety, tenants};
use crate::transport::websocket::WebSocketSettings;
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::stomp::StompSettings;
use thalweg_stomp::FrameLimits;

pub(super) struct Stomp;

impl Protocol for Stomp {
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

    fn websocket(
        &self,
        config: &Config,
        listener: &config::Listener,
        defaults: WebSocketSettings,
    ) -> WebSocketSettings {
        let largest = config.packet_bytes_max(listener);
        let largest = largest + config.protocols.stomp.head_bytes_max + FRAMING_BYTES;
        WebSocketSettings {
            protocol: "STOMP",
            sub_protocols: ["v12.stomp", "v11.stomp", "v10.stomp"]
                .map(Into::into)
                .into(),
            // The CONNECT frame says which version it is, so some libraries leave it to that.
            sub_protocol_optional: true,
            allows_text: true,
            frame_bytes_max: largest,
            message_bytes_max: largest,
            ..defaults
        }
    }
}

fn settings(config: &Config, listener: &config::Listener) -> StompSettings {
    let stomp = &config.protocols.stomp;
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let frame = FrameLimits {
        headers_max: small(stomp.headers_max),
        header_bytes_max: small(stomp.head_bytes_max),
        head_bytes_max: small(stomp.head_bytes_max),
        body_bytes_max: small(config.packet_bytes_max(listener)),
        ..FrameLimits::default()
    };
    let connect_bytes_max = small(config.limits.connect_bytes_max);
    let connect = FrameLimits {
        header_bytes_max: frame.header_bytes_max.min(connect_bytes_max),
        head_bytes_max: frame.head_bytes_max.min(connect_bytes_max),
        // No body belongs to it, but some clients end it with a line too many.
        body_bytes_max: 16,
        ..frame
    };
    StompSettings {
        limits: thalweg_stomp::ServerLimits { frame, connect },
        selectors_refused: stomp.selectors_refused,
        dialect: stomp.dialect,
        tenants: tenants(config),
        hosts: names(&config.protocols.stomp.hosts),
        nack_requeues: stomp.nack_requeues,
        heart_beat_give: stomp.heart_beat,
        heart_beat_want: stomp.heart_beat,
        prefetch: stomp.prefetch,
        subscriptions_max: stomp.subscriptions_max,
        transactions_max: stomp.transactions_max,
        publish_rate: listener.publish_rate,
        safety: listener.fsync.map(safety),
        ..StompSettings::default()
    }
}
