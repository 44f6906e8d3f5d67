//! What a message can carry in AMQP 0-9-1.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, DOTTED_ESCAPES, ExpiryUnit, PropertyModel,
    Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "amqp",
    carries: &[AMQP],
    services: &[SERVICE],
    metrics: &[],
};

/// AMQP 0-9-1.
pub const AMQP: Capabilities = Capabilities {
    name: "AMQP 0-9-1",
    reliability: "at least once",
    syntax: Syntax {
        example: "`amq.topic`, key `a.b`",
        separator: '.',
        wildcards: Some("`*` `#`"),
        escaped: DOTTED_ESCAPES,
    },
    address_bytes_max: Some(255),
    level_bytes_max: None,
    receives: Receives::Messages,
    content_type: ContentTypeModel::Text,
    properties: PropertyModel::UniqueTyped,
    correlation: CorrelationModel::ShortText,
    reply_to: Some("`reply-to`, a key of the default exchange"),
    request: None,
    expiry: Some(ExpiryUnit::Milliseconds),
    priority_max: Some(255),
    last_value_in: Some("header `x-retain: set`"),
    last_value_out: "argument `x-last-value: true` of bind",
    redelivered: Some("`redelivered`"),
    queue: Some("default exchange, key `name`; consume from `name`"),
    group: Some("consume from `$g/g/a/+`"),
};

const SERVICE: Service = Service {
    name: AMQP.name,
    lifespan: Some("`expiration`"),
    priority: Some("`priority`"),
    last_value: "`x-last-value` of a binding",
    history: "a new consumer with `x-last-value` gets the last one",
    acknowledgement: Some("a confirm or `tx.commit-ok`"),
    at_most_once: "what is not persistent, on channels without confirms or transactions",
    downgraded: "none, as consumers settle what they take from queues",
    throttle: "not read; confirms of what follows come later",
    reject: "`basic.nack` with confirms, in silence without",
    subscriber_rate: "consumers, not `basic.get`",
    filter: Ok(Filtering {
        place: "argument `x-filter` of a binding to an exchange of any type",
        refused: "406 with the byte",
    }),
    consumer_filter: Ok(
        "argument `x-filter` of `basic.consume`, or `x-filter-jms-selector` as Qpid's clients call it",
    ),
};
