//! What a message can carry in STOMP.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, DOTTED_ESCAPES, ExpiryUnit, PropertyModel,
    Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "stomp",
    carries: &[STOMP],
    services: &[SERVICE],
    metrics: &[],
};

/// STOMP 1.0 to 1.2, in the dialect of RabbitMQ.
pub const STOMP: Capabilities = Capabilities {
    name: "STOMP 1.2",
    reliability: "at least once",
    syntax: Syntax {
        example: "`/topic/a.b`",
        separator: '.',
        wildcards: Some("`*` `#`"),
        escaped: DOTTED_ESCAPES,
    },
    address_bytes_max: None,
    level_bytes_max: None,
    receives: Receives::Messages,
    content_type: ContentTypeModel::Text,
    properties: PropertyModel::UniqueText,
    correlation: CorrelationModel::Text,
    reply_to: Some("`reply-to`, a destination"),
    request: None,
    expiry: Some(ExpiryUnit::Milliseconds),
    priority_max: Some(255),
    last_value_in: Some("header `retain:set`"),
    last_value_out: "header `x-last-value:true` of SUBSCRIBE",
    redelivered: Some("`redelivered:true`"),
    queue: Some("send to and subscribe to `/queue/name`"),
    group: Some("subscribe to `/amq/queue/$g/g/a/+`"),
};

const SERVICE: Service = Service {
    name: STOMP.name,
    lifespan: Some("`expiration`"),
    priority: Some("`priority`"),
    last_value: "`x-last-value` of a subscription",
    history: "a new subscriber gets the last one",
    acknowledgement: Some("RECEIPT"),
    at_most_once: "SEND without `persistent`, a receipt or a transaction",
    downgraded: "none, as subscriptions settle what they take from queues",
    throttle: "not read; receipts of what follows come later",
    reject: "ERROR, which ends the connection, if a receipt was asked for",
    subscriber_rate: "subscriptions",
    filter: Ok(Filtering {
        place: "header `selector` of SUBSCRIBE to `/topic/` or `/exchange/`",
        refused: "ERROR `Invalid selector`; the body names the byte",
    }),
    consumer_filter: Ok("header `selector` of SUBSCRIBE to a queue or group"),
};
