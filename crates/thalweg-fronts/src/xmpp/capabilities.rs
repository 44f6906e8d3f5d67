//! What a message can carry in XMPP, and what policies and content filters become there.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, ExpiryUnit, PropertyModel, Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, NOT_READ, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "xmpp",
    carries: &[XMPP],
    services: &[SERVICE],
    metrics: &[],
};

/// XEP-0060: items of nodes, and requests by IQ.
pub const XMPP: Capabilities = Capabilities {
    name: "XMPP",
    reliability: "at least once",
    syntax: Syntax {
        example: "node `a/b`",
        separator: '/',
        wildcards: Some(
            "`pubsub#subscription_depth` `1` and `all`, below a node; with `xmpp.node_wildcards` also `+` `#` within its name",
        ),
        escaped: "nothing",
    },
    address_bytes_max: Some(8192),
    level_bytes_max: None,
    receives: Receives::Messages,
    content_type: ContentTypeModel::Text,
    properties: PropertyModel::No,
    correlation: CorrelationModel::No,
    reply_to: None,
    request: Some("IQ to `rpc.DOMAIN/a/b`"),
    expiry: Some(ExpiryUnit::Untold("seconds")),
    priority_max: None,
    last_value_in: Some("every publish without `persist_items` off"),
    last_value_out: "always, and `<items/>`",
    redelivered: Some("SHIM header `Redelivered`"),
    queue: Some("publish and subscribe to the node `$q/name`"),
    group: None,
};

const SERVICE: Service = Service {
    name: XMPP.name,
    lifespan: None,
    priority: None,
    last_value: "items of a node; with `off` a node has none",
    history: "all, as items of the node, oldest first; a subscriber gets the last one. `max_items` of the node's configuration is the depth",
    acknowledgement: Some("the result of the `iq`"),
    at_most_once: "messages to full names and presence; publications to nodes are at least once",
    downgraded: "subscriptions to nodes; the answer to `<subscribe/>` or `<options/>` has a form with `x-reliability`, which a client can also ask for. What comes to a client's own address is not subscribed to",
    throttle: NOT_READ,
    reject: "error `resource-constraint` of type `wait`",
    subscriber_rate: "subscriptions to nodes",
    filter: Ok(Filtering {
        place: "field `x-filter` of a subscription's options, with `<subscribe/>` or later",
        refused: "`<invalid-options/>`, with the byte in its text",
    }),
    consumer_filter: Ok("field `x-filter` of a subscription to the node of a queue"),
};
