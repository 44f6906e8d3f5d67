//! What a message can carry in CoAP.

use super::settings::METRICS;
use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, ExpiryUnit, PropertyModel, Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "coap",
    carries: &[COAP],
    services: &[SERVICE],
    metrics: &METRICS,
};

/// CoAP with publish and subscribe: topics are resources, and a subscriber observes one.
pub const COAP: Capabilities = Capabilities {
    name: "CoAP",
    reliability: "at least once",
    syntax: Syntax {
        example: "`/ps/data/a/b`, an option each",
        separator: '/',
        wildcards: None,
        escaped: "nothing",
    },
    address_bytes_max: None,
    level_bytes_max: Some(255),
    receives: Receives::Values,
    content_type: ContentTypeModel::Number,
    properties: PropertyModel::No,
    correlation: CorrelationModel::No,
    reply_to: None,
    request: Some("`POST /rpc/a/b`, answered in its response"),
    expiry: Some(ExpiryUnit::Seconds),
    priority_max: None,
    last_value_in: Some("every `PUT`"),
    last_value_out: "`GET`, and the first notification",
    redelivered: None,
    queue: Some("`POST` to and `GET` from `/q/name`"),
    group: None,
};

const SERVICE: Service = Service {
    name: COAP.name,
    lifespan: Some("Max-Age, in whole seconds"),
    priority: None,
    last_value: "GET and Observe; with `off` a PUT leaves no representation",
    history: "GET and Observe have the last one",
    acknowledgement: Some("the response"),
    at_most_once: "NON requests, or those with `qos=0`",
    downgraded: "observers, whatever `qos` they asked for; option 65024 of the answer tells them, and that their notifications are NON",
    throttle: "4.29 with Max-Age for what comes too soon",
    reject: "4.29 with Max-Age",
    subscriber_rate: "observers, who have the latest value then; not GET",
    filter: Ok(Filtering {
        place: "query `filter=` of an observation, percent-encoded in a URI; at most 248 bytes, as an option has 255",
        refused: "4.00, with the byte in the diagnostic payload",
    }),
    consumer_filter: Ok("query `filter=` of a GET from `/q/`"),
};
