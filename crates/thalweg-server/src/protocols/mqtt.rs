//! MQTT listeners, and sessions of the broker's own.

pub(crate) mod own;

use super::Protocol;
use crate::config::mqtt::LoadReports;
use crate::config::{self, Config};
use crate::lobby::Route;
use crate::settings::{binds_client_ids, safety, seconds};
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::mqtt::{MqttSettings, home_key};
use thalweg_mqtt::{QoS, ServerLimits};

pub(super) struct Mqtt;

impl Protocol for Mqtt {
    fn fronts(
        &self,
        config: &Config,
        listener: &config::Listener,
        _: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        Some(Arc::new(settings(config, listener)))
    }

    fn route(&self) -> fn(&[u8], usize) -> Route {
        route
    }

    fn completes_handshake_on_shard(&self) -> bool {
        false
    }

    fn chooses_client_ids(&self) -> bool {
        true
    }
}

fn settings(config: &Config, listener: &config::Listener) -> MqttSettings {
    let mqtt = &config.protocols.mqtt;
    MqttSettings {
        limits: ServerLimits {
            packet_bytes_max: u32::try_from(config.packet_bytes_max(listener)).unwrap_or(u32::MAX),
            connect_bytes_max: u32::try_from(config.limits.connect_bytes_max).unwrap_or(u32::MAX),
            topic_alias_max: mqtt.topic_alias_maximum,
            topic_alias_out_max: mqtt.topic_alias_out_max,
            receive_max: mqtt.receive_maximum,
            client_id_bytes_max: u16::try_from(config.limits.client_id_bytes_max)
                .unwrap_or(u16::MAX),
            load_reports: mqtt.load_reports == LoadReports::Announced,
        },
        keep_alive_max: seconds(mqtt.keep_alive_max),
        keep_alive_default: seconds(mqtt.keep_alive_default),
        v3_expiry: config.session.v3_expiry,
        maximum_qos: match mqtt.maximum_qos {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        },
        retain_available: config.retained.enabled,
        wildcard_available: mqtt.wildcard_subscriptions,
        shared_available: mqtt.shared_subscriptions,
        subscription_ids_available: mqtt.subscription_identifiers,
        response_information: mqtt.response_information.as_str().into(),
        server_reference: mqtt.server_reference.as_str().into(),
        topic_bytes_max: config.limits.topic_bytes_max,
        assigned_may_return: !binds_client_ids(config),
        publish_rate: listener.publish_rate,
        safety: listener.fsync.map(safety),
    }
}

/// Where a connection belongs: by its client identifier.
fn route(bytes: &[u8], connect_bytes_max: usize) -> Route {
    match home_key(bytes, connect_bytes_max) {
        Ok(None) => Route::NeedMore,
        Ok(Some(key)) => Route::Key(key),
        Err(why) => Route::NotOurs(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_stays_in_the_lobby_until_all_of_it_is_there() {
        let connect = b"\x10\x12\x00\x04MQTT\x05\xc2\x00\x3c\x00\x00\x01a\x00\x00\x00\x00";
        for cut in 1..connect.len() {
            assert_eq!(
                route(&connect[..cut], 1_000),
                Route::NeedMore,
                "{cut} bytes"
            );
        }
        assert!(matches!(route(connect, 1_000), Route::Key(1..)));
        assert!(matches!(
            route(
                b"\x10\xff\x7f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01a",
                1_000
            ),
            Route::NotOurs(_)
        ));
    }
}
