//! CoAP listeners, of datagrams and of streams.

use super::Protocol;
use crate::config::{self, Config};
use crate::settings::{FRAMING_BYTES, safety};
use crate::transport::websocket::{Messages, WebSocketSettings};
use std::sync::Arc;
use thalweg_coap::Transmission;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::coap::CoapSettings;
use thalweg_model::Span;

pub(super) struct Coap;

impl Protocol for Coap {
    fn fronts(
        &self,
        config: &Config,
        listener: &config::Listener,
        shards: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        Some(Arc::new(settings(config, listener, shards)))
    }

    fn websocket(
        &self,
        config: &Config,
        listener: &config::Listener,
        defaults: WebSocketSettings,
    ) -> WebSocketSettings {
        let largest = config.packet_bytes_max(listener) + FRAMING_BYTES;
        WebSocketSettings {
            protocol: "CoAP",
            // RFC 8323 §4
            sub_protocols: [thalweg_coap::stream::WEBSOCKET_PROTOCOL]
                .map(Into::into)
                .into(),
            messages: Messages::Whole,
            frame_bytes_max: largest,
            message_bytes_max: largest,
            ..defaults
        }
    }
}

fn settings(config: &Config, listener: &config::Listener, shards: usize) -> CoapSettings {
    let coap = &config.protocols.coap;
    let share = |total: usize| total.div_ceil(shards);
    let machine = thalweg_coap::ServerSettings {
        transmission: Transmission {
            ack_timeout: coap.ack_timeout,
            ack_random_percent: coap.ack_random_percent,
            max_retransmit: coap.max_retransmit,
            nstart: coap.nstart,
            probing_rate: coap.probing_rate,
            // What a client may take that writes to a disk before it acknowledges.
            adaptive_least: coap.adaptive_timeout.then_some(Span::from_millis(100)),
            ..Transmission::default()
        },
        peers_max: share(coap.peers_max),
        addresses_are_proven: listener.transport == config::Transport::Dtls,
        amplification_factor: coap.amplification_factor,
        echo_for_observe: coap.echo,
        requests_per_second: coap
            .request_rate
            .map_or(0, |rate| u32::try_from(rate).unwrap_or(u32::MAX)),
        remembered_max: share(coap.duplicates_max),
        remembered_bytes_max: share(coap.duplicates_bytes_max),
        relations_max: share(coap.observations_max),
        relations_per_peer: coap.observations_per_peer_max,
        confirm_within: coap.observer_check,
        // 16 bytes are size exponent 0. RFC 7959 §2.2
        block_exponent_max: (coap.max_block_size.max(16).ilog2() - 4) as u8,
        transfer_bytes_max: config.packet_bytes_max(listener),
        transfers_bytes_max: share(coap.transfers_bytes_max).max(config.packet_bytes_max(listener)),
        // One that has no room could never be taken from a queue.
        kept_responses_bytes_max: (4 << 20).max(config.packet_bytes_max(listener)),
        fetch_within: coap.take_timeout,
        ..thalweg_coap::ServerSettings::default()
    };
    CoapSettings {
        machine: Arc::new(machine),
        max_age_secs: u32::try_from(coap.max_age.secs()).unwrap_or(u32::MAX),
        queue: coap.queue,
        queue_max: coap.queue_max,
        notify: coap.notifications,
        observer_check: coap.observer_check,
        discovery: coap.discovery,
        leisure: coap.leisure,
        notify_etag: coap.notify_etag,
        observe_empty: coap.observe_empty,
        auto_create: coap.auto_create,
        emqx_paths: coap.plain_paths,
        auto_declare_queues: coap.auto_declare_queues,
        take_timeout: coap.take_timeout,
        silence_max: coap.idle_timeout,
        rpc_timeout: coap.rpc_timeout,
        topics_max: coap.topics_max,
        observers_max: share(coap.observations_max),
        publish_rate: listener.publish_rate,
        safety: listener.fsync.map(safety),
        ..CoapSettings::default()
    }
}
