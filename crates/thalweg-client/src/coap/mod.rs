//! CoAP as a lane: over datagrams ([`Coap`]), and over streams ([`CoapStream`], RFC 8323).

mod datagrams;
mod observations;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod wording;

pub use datagrams::Coap;
pub use settings::CoapSettings;
pub use stream::CoapStream;

use thalweg_model::Reliability;

use crate::plugin::PluginSettings;
use crate::presence;
use crate::transport::{Capabilities, Refusal, Transport};
use crate::url::BrokerUrl;

/// The lane to a broker.
pub(crate) fn lanes(url: &BrokerUrl, settings: &PluginSettings) -> Vec<Box<dyn Transport>> {
    let (endpoint, settings) = (url.endpoint(), settings.get());
    vec![match url.scheme.is_datagrams() {
        true => Box::new(Coap::new(endpoint, settings)),
        false => Box::new(CoapStream::new(endpoint, settings)),
    }]
}

/// Capabilities common to datagrams and streams. Nothing is settled: a notification is acknowledged on arrival.
const CAPABILITIES: Capabilities = Capabilities {
    reliability_max: Reliability::AtLeastOnce,
    requests: true,
    last_values: true,
    ..Capabilities::STREAM
};

/// Returns the capabilities that a server has announced.
fn offers(wording: &wording::Wording) -> Capabilities {
    let is_ours = !wording.settings().is_plain();
    let receive_max = match is_ours {
        true => Reliability::AtLeastOnce,
        false => Reliability::AtMostOnce,
    };
    Capabilities {
        receive_max,
        stamps: wording.stamps,
        carries_stamps: wording.stamps,
        // A broker that knows stamps is one that insists on each notification.
        keeps_all: wording.stamps && is_ours,
        properties: is_ours,
        lifespan: is_ours,
        priority: is_ours,
        ..CAPABILITIES
    }
}

/// Why a filter cannot be observed: an observation is of one resource.
fn unobservable(filter: &str, is_thalweg: bool) -> Option<Refusal> {
    if filter.starts_with("$share/") || filter.starts_with("$q/") {
        return Some(Refusal::Unsupported(
            "CoAP has no shared subscriptions, and takes from queues one by one",
        ));
    }
    let has_wildcard = filter.split('/').any(|level| level == "+" || level == "#");
    if has_wildcard {
        return Some(Refusal::Unsupported(
            "CoAP observes single addresses, no wildcards",
        ));
    }
    presence::refusal(filter, is_thalweg)
}
