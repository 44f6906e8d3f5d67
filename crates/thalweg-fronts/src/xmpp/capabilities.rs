//! What policies and content filters become in XMPP.

use crate::protocol::Protocol;
use crate::service::{Filtering, NOT_READ, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "xmpp",
    carries: &[],
    services: &[SERVICE],
    metrics: &[],
};

const SERVICE: Service = Service {
    name: "XMPP",
    lifespan: None,
    priority: None,
    last_value: "items of a node; with `off` a node has none",
    acknowledgement: Some("the result of the `iq`"),
    throttle: NOT_READ,
    reject: "error `resource-constraint` of type `wait`",
    subscriber_rate: "subscriptions to nodes, not to those of queues",
    filter: Some(Filtering {
        place: "field `x-filter` of a subscription's options, with `<subscribe/>` or later; not for a queue's node",
        refused: "`<invalid-options/>`, with the byte in its text",
    }),
    consumer_filter: None,
};
