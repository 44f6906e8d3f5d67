//! The common middleware: publish a reading and know that it arrived, whatever protocol carries it.
//!
//! *Knows:* sockets, the client's side of every protocol, what a network costs. *Must never know:* the kernel, a front, the
//! server.
//!
//! ```text
//!  Client (handle, any thread) ── inbox ──> driver thread: sockets, TLS, WebSocket, DTLS, timers
//!                                               │ bytes and times
//!                                               v
//!                                           Engine (no I/O): outbox, tickets, lanes, subscriptions
//!                                               │ asks            │ one per lane
//!                                               v                 v
//!                                           Chooser           Transport: MQTT, CoAP, AMQP, STOMP, ZMTP, XMPP, yours
//! ```
// One place asks the system for `TCP_INFO` through a macro of `nix`, which may say otherwise: `driver/network.rs`.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod adaptive;
#[cfg(feature = "amqp")]
pub mod amqp;
pub mod blocking;
mod builder;
mod client;
#[cfg(feature = "coap")]
pub mod coap;
mod driver;
pub mod engine;
mod events;
pub mod message;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod pace;
#[cfg(test)]
mod pair;
#[cfg(feature = "zmtp")]
mod peer;
#[cfg(any(
    feature = "amqp",
    feature = "coap",
    feature = "mqtt",
    feature = "stomp",
    feature = "xmpp",
    feature = "zmtp"
))]
// A build with few protocols leaves parts of the kit unused.
#[cfg_attr(
    not(all(
        feature = "mqtt",
        feature = "coap",
        feature = "amqp",
        feature = "stomp",
        feature = "zmtp",
        feature = "xmpp"
    )),
    allow(dead_code)
)]
mod plugin;
mod presence;
#[cfg(any(feature = "amqp", feature = "stomp"))]
mod queues;
pub mod spool;
#[cfg(feature = "stomp")]
pub mod stomp;
mod subscription;
mod ticket;
pub mod transport;
pub mod url;
#[cfg(test)]
mod witness;
#[cfg(feature = "xmpp")]
pub mod xmpp;
#[cfg(feature = "zmtp")]
pub mod zmtp;

pub use adaptive::{Calibration, Constraints, Explanation, Objective};
pub use builder::{BufferSettings, ClientBuilder, TlsFiles, Via};
pub use client::{Client, ClientError, Failure, Lane, PeerCounts, Status};
pub use engine::{LaneState, Overflow, Success, WhenRefused};
pub use events::{Event, EventQueue, Level};
pub use message::{Message, Options, Retain};
pub use pace::{BatchSettings, ThrottleSettings};
#[cfg(feature = "zmtp")]
pub use peer::PeerSettings;
pub use presence::{Leaving, Presence, PresenceSubscription};
pub use subscription::{SubscribeOptions, Subscription};
pub use thalweg_model::{Reliability, Span, Stamp, Time};
pub use ticket::Ticket;
pub use transport::{Capabilities, Endpoint, Events, Inbound, Outbound, Output, Transport, Will};
pub use url::{BrokerUrl, Scheme};

/// The list of plugins: the lanes to a URL, most often one; none if this build has no plugin, which
/// [`builder::check_feature`] said before.
#[allow(unused_variables)]
pub(crate) fn transports_for(
    url: &BrokerUrl,
    plugins: &builder::Plugins,
) -> Vec<Box<dyn Transport>> {
    let endpoint = url.endpoint();
    let lane: Option<Box<dyn Transport>> = match url.scheme.protocol() {
        #[cfg(feature = "mqtt")]
        "mqtt" => {
            let settings = mqtt::MqttSettings {
                version: plugins.mqtt_version,
                ..Default::default()
            };
            Some(Box::new(mqtt::Mqtt::new(endpoint, settings)))
        }
        #[cfg(feature = "coap")]
        "coap" if url.scheme.is_datagrams() => {
            Some(Box::new(coap::Coap::new(endpoint, Default::default())))
        }
        #[cfg(feature = "coap")]
        "coap" => Some(Box::new(coap::CoapStream::new(
            endpoint,
            Default::default(),
        ))),
        #[cfg(feature = "amqp")]
        "amqp" => {
            let mut settings = amqp::AmqpSettings::default();
            if let Some(vhost) = &url.virtual_host {
                settings.vhost.clone_from(vhost);
            }
            Some(Box::new(amqp::Amqp::new(endpoint, settings)))
        }
        #[cfg(feature = "stomp")]
        "stomp" => {
            let mut settings = stomp::StompSettings::default();
            if let Some(vhost) = &url.virtual_host {
                settings.vhost.clone_from(vhost);
            }
            Some(Box::new(stomp::Stomp::new(endpoint, settings)))
        }
        #[cfg(feature = "zmtp")]
        "zmtp" => {
            let pair = zmtp::Zmtp::pair(&endpoint, &plugins.zmtp);
            return pair.map(|lane| Box::new(lane) as _).into();
        }
        #[cfg(feature = "xmpp")]
        "xmpp" => builder::random().ok().map(|random| {
            let mut settings = xmpp::XmppSettings::default();
            settings.seed.copy_from_slice(&random[..16]);
            settings.tls_required = plugins.has_tls_files;
            Box::new(xmpp::Xmpp::new(endpoint, settings)) as _
        }),
        _ => None,
    };
    lane.into_iter().collect()
}
