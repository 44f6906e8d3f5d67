//! The sections of the configuration that belong to one protocol each, and the protocols that listeners speak.

pub mod amqp;
pub mod coap;
pub mod dds;
pub mod mqtt;
pub mod stomp;
pub mod xmpp;
pub mod zmtp;

pub use zmtp::{Dial, Endpoint};

use super::choices::words;
use super::listener::Listener;
use super::section::section;
use super::settings::Config;
use std::net::IpAddr;
use thalweg_model::Span;

section! {
    /// The sections, by their names.
    pub struct Protocols {
        in "mqtt." mqtt: mqtt::Mqtt;
        in "amqp." amqp: amqp::Amqp;
        in "stomp." stomp: stomp::Stomp;
        in "zmtp." zmtp: zmtp::Zmtp;
        in "xmpp." xmpp: xmpp::Xmpp;
        in "coap." coap: coap::Coap;
        in "dds." dds: dds::Dds;
    }
}

impl Protocols {
    /// Most unsettled copies of a session that says nothing itself.
    pub fn in_flight_max(&self) -> u16 {
        self.mqtt.inflight_max
    }

    /// Most watches on last values.
    pub fn observations_max(&self) -> usize {
        self.coap.observations_max
    }

    /// How long a message that was taken from a queue by itself may go unsettled.
    pub fn take_timeout(&self) -> Span {
        self.coap.take_timeout
    }

    /// Most peers of a socket of datagrams.
    pub fn datagram_peers_max(&self) -> usize {
        self.coap.peers_max
    }

    /// Rules between settings: whether each is broken, and its name in `rules.toml`.
    pub(super) fn contradictions(&self) -> impl IntoIterator<Item = (bool, &'static str)> {
        self.coap.contradictions()
    }
}

words! {
    /// The protocol a listener speaks once the transport is up.
    pub enum ListenerKind {
        /// MQTT 3.1, 3.1.1 and 5.0, told apart by the CONNECT packet.
        Mqtt = "mqtt",
        /// AMQP 0-9-1.
        Amqp = "amqp",
        /// STOMP 1.0, 1.1 and 1.2, told apart by the CONNECT frame.
        Stomp = "stomp",
        /// CoAP: RFC 7252 in datagrams, RFC 8323 in streams.
        Coap = "coap",
        /// ZMTP 3.0 and 3.1, the protocol between sockets of ZeroMQ.
        Zmtp = "zmtp",
        /// XMPP 1.0 between client and server, with XEP-0060.
        Xmpp = "xmpp",
        /// What the program that started the server speaks on the listener of this name.
        Extension = "extension",
    }
}

impl ListenerKind {
    pub fn has_websocket(self) -> bool {
        !matches!(self, ListenerKind::Amqp | ListenerKind::Zmtp)
    }

    /// Whether keys of CURVE can be the log-in.
    pub fn has_curve(self) -> bool {
        self == ListenerKind::Zmtp
    }

    /// Whether its sockets send to a queue that the listener names.
    pub fn has_queue(self) -> bool {
        self == ListenerKind::Zmtp
    }

    pub fn has_starttls(self) -> bool {
        self == ListenerKind::Xmpp
    }

    pub fn has_datagrams(self) -> bool {
        self == ListenerKind::Coap
    }

    /// The groups by which clients look for a broker, where it has datagrams.
    pub fn groups(self) -> &'static [IpAddr] {
        match self {
            ListenerKind::Coap => &thalweg_coap::ALL_COAP_NODES,
            _ => &[],
        }
    }

    /// Whether clients can say a user name and a password.
    pub fn has_passwords(self) -> bool {
        self != ListenerKind::Coap
    }
}

impl Config {
    /// The largest packet `listener` accepts; for protocols whose messages come in pieces, the largest message.
    pub fn packet_bytes_max(&self, listener: &Listener) -> usize {
        let of = &self.protocols;
        listener.packet_bytes_max.unwrap_or(match listener.kind {
            ListenerKind::Mqtt | ListenerKind::Extension => self.limits.packet_bytes_max,
            ListenerKind::Amqp => of.amqp.message_bytes_max,
            ListenerKind::Stomp => of.stomp.message_bytes_max,
            ListenerKind::Coap => of.coap.message_bytes_max,
            ListenerKind::Zmtp => of.zmtp.message_bytes_max,
            ListenerKind::Xmpp => of.xmpp.stanza_bytes_max,
        })
    }
}

impl Listener {
    /// The HTTP path of the upgrade: the setting, or the default of the protocol's clients.
    pub fn websocket_path(&self) -> &str {
        match (self.websocket.path.as_str(), self.kind) {
            ("", ListenerKind::Stomp) => "/ws",
            ("", ListenerKind::Coap) => "/.well-known/coap",
            ("", ListenerKind::Xmpp) => "/xmpp-websocket",
            ("", _) => "/mqtt",
            (path, _) => path,
        }
    }
}
