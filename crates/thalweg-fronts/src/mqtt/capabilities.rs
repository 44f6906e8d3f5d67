//! What a message can carry in MQTT.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, ExpiryUnit, PropertyModel, Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "mqtt",
    carries: &[MQTT_3, MQTT_5],
    services: &[MQTT_3_SERVICE, MQTT_5_SERVICE],
    metrics: &[],
};

/// MQTT 3.1 and 3.1.1.
pub const MQTT_3: Capabilities = Capabilities {
    name: "MQTT 3.1.1",
    reliability: "exactly once",
    syntax: Syntax {
        example: "a/b",
        separator: '/',
        wildcards: Some("`+` `#`"),
        escaped: "`/` `+` `#` and NUL, which cannot occur",
    },
    address_bytes_max: Some(65_535),
    level_bytes_max: None,
    receives: Receives::Messages,
    content_type: ContentTypeModel::No,
    properties: PropertyModel::No,
    correlation: CorrelationModel::No,
    reply_to: None,
    request: None,
    expiry: None,
    priority_max: None,
    last_value_in: Some("retain flag"),
    last_value_out: "always",
    redelivered: Some("DUP"),
    queue: Some("publish to `$q/name`, subscribe to `$share/name/$q/name`"),
    group: Some("`$share/g/a/+`"),
};

/// MQTT 5.0.
pub const MQTT_5: Capabilities = Capabilities {
    name: "MQTT 5",
    content_type: ContentTypeModel::Text,
    properties: PropertyModel::RepeatableText,
    correlation: CorrelationModel::Bytes,
    reply_to: Some("Response Topic"),
    expiry: Some(ExpiryUnit::Seconds),
    last_value_out: "Retain Handling",
    ..MQTT_3
};

const MQTT_3_SERVICE: Service = Service {
    name: MQTT_3.name,
    lifespan: None,
    priority: None,
    last_value: "retained messages",
    history: "a new subscriber gets the last one",
    acknowledgement: Some("PUBACK or PUBREC"),
    at_most_once: "QoS 0",
    downgraded: "subscribers; SUBACK grants the lower QoS",
    throttle: "not read; PUBACK and PUBREC of what follows come later",
    reject: "QoS 1 and 2 wait; QoS 0 in silence",
    subscriber_rate: "its own subscriptions, and shared ones",
    filter: Err("SUBSCRIBE has no properties"),
    consumer_filter: Err("SUBSCRIBE has no properties"),
};

const MQTT_5_SERVICE: Service = Service {
    name: MQTT_5.name,
    lifespan: Some("Message Expiry Interval, in whole seconds"),
    reject: "PUBACK or PUBREC 0x97; QoS 0 in silence",
    filter: Ok(Filtering {
        place: "user property `filter` of SUBSCRIBE, for all its topic filters, shared ones, too",
        refused: "SUBACK 0x8F for each, with the byte in the reason string",
    }),
    consumer_filter: Ok("user property `filter` of SUBSCRIBE to `$share/…/$q/…`"),
    ..MQTT_3_SERVICE
};
