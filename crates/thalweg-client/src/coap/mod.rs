//! CoAP as a lane: over datagrams ([`Coap`]), and over streams ([`CoapStream`], RFC 8323).

mod datagrams;
mod observations;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod words;

pub use datagrams::Coap;
pub use settings::CoapSettings;
pub use stream::CoapStream;

use crate::presence;
use crate::transport::{Capabilities, Refusal};

/// What is the same over datagrams and streams. Nothing is settled: a notification is acknowledged when it comes.
const CAPABILITIES: Capabilities = Capabilities {
    reliability_max: thalweg_model::Reliability::AtLeastOnce,
    requests: true,
    last_values: true,
    ..Capabilities::STREAM
};

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
