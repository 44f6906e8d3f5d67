//! XMPP listeners.

use super::Protocol;
use crate::config::{Config, Listener, Transport};
use crate::settings::{FRAMING_BYTES, safety};
use crate::transport::websocket::{Messages, WebSocketSettings};
use std::sync::Arc;
use thalweg_fronts::FrontSettings;
use thalweg_fronts::xmpp::XmppSettings;
use thalweg_model::Span;
use thalweg_xmpp::{Framing, Limits, StartTls};

pub(super) struct Xmpp;

impl Protocol for Xmpp {
    fn fronts(
        &self,
        config: &Config,
        listener: &Listener,
        _: usize,
    ) -> Option<Arc<dyn FrontSettings>> {
        let xmpp = &config.protocols.xmpp;
        let begins_later = listener.transport == Transport::StartTls;
        Some(Arc::new(XmppSettings {
            limits: Limits {
                stanza_bytes_max: config.packet_bytes_max(listener),
                ..Limits::default()
            },
            framing: match listener.transport.is_websocket() {
                true => Framing::Elements,
                false => Framing::Document,
            },
            domain: xmpp.domain.to_lowercase().into(),
            secured: listener.transport.opens_encrypted()
                || xmpp.plaintext_passwords && !begins_later,
            starttls: match (begins_later, listener.tls.required) {
                (false, _) => StartTls::Off,
                (true, false) => StartTls::Offered,
                (true, true) => StartTls::Required,
            },
            anonymous: config.admits_strangers(listener),
            scram: xmpp.scram && config.access.scram,
            node_wildcards: xmpp.node_wildcards,
            offline_messages: xmpp.offline_messages,
            offline_messages_max: xmpp.offline_messages_max,
            roster: xmpp
                .roster
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            request_timeout: xmpp.request_timeout,
            resume_max: xmpp.resume_max.unwrap_or(Span::ZERO),
            publish_rate: listener.publish_rate,
            safety: listener.fsync.map(safety),
            ..XmppSettings::default()
        }))
    }

    fn websocket(
        &self,
        config: &Config,
        listener: &Listener,
        defaults: WebSocketSettings,
    ) -> WebSocketSettings {
        let largest = config.packet_bytes_max(listener) + FRAMING_BYTES;
        WebSocketSettings {
            protocol: "XMPP",
            sub_protocols: vec!["xmpp".into()],
            messages: Messages::Text,
            frame_bytes_max: largest,
            message_bytes_max: largest,
            ..defaults
        }
    }
}
