//! What a message can carry in STOMP.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, DOTTED_ESCAPES, ExpiryUnit, PropertyModel,
    Receives, Syntax,
};
use crate::protocol::Protocol;

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "stomp",
    carries: &[STOMP],
    metrics: &[],
};

/// STOMP 1.0 to 1.2, in the dialect of RabbitMQ.
pub const STOMP: Capabilities = Capabilities {
    name: "STOMP 1.2",
    reliability: "at least once",
    syntax: Syntax {
        example: "`/topic/a.b`",
        separator: '.',
        wildcards: Some(("*", "#")),
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
    queue: "send to and subscribe to `/queue/name`",
    group: Some("subscribe to `/amq/queue/$g/g/a/+`"),
};
