//! What a message can carry in ZMTP.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, PropertyModel, Receives, Syntax,
};
use crate::protocol::Protocol;
use crate::service::{Filtering, NOT_READ, Service};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "zmtp",
    carries: &[ZMTP],
    services: &[SERVICE],
    metrics: &[],
};

/// ZeroMQ: a message is its frames, of which the first is the address.
pub const ZMTP: Capabilities = Capabilities {
    name: "ZeroMQ",
    reliability: "at most once",
    syntax: Syntax {
        example: "`a/b`, any bytes",
        separator: '/',
        wildcards: None,
        escaped: "nothing",
    },
    address_bytes_max: None,
    level_bytes_max: None,
    receives: Receives::Messages,
    content_type: ContentTypeModel::No,
    properties: PropertyModel::No,
    correlation: CorrelationModel::No,
    reply_to: None,
    request: None,
    expiry: None,
    priority_max: None,
    last_value_in: None,
    last_value_out: "subscribe, with `zmtp.last_value`",
    redelivered: None,
    queue: Some("PUSH and PULL: the queue `zmtp.queue`"),
    group: None,
};

const SERVICE: Service = Service {
    name: ZMTP.name,
    lifespan: Some("with header frames; else it expires in the broker"),
    priority: Some("with header frames"),
    last_value: "with `zmtp.last_value`",
    history: "a new subscriber gets the last one",
    acknowledgement: None,
    at_most_once: "PUB, and PUSH without `zmtp.durable`",
    downgraded: "none, as SUB has everything at most once and PULL takes from queues",
    throttle: NOT_READ,
    reject: "PUB in silence; PUSH and REQ wait",
    subscriber_rate: "SUB and PULL",
    filter: Ok(Filtering {
        place: "with `zmtp.filters`, behind the prefix and a zero byte: `plant/\\0n > 3`. Sockets are XSUB: a SUB drops messages that do \
                not begin with the whole subscription",
        refused: "the connection ends, as ZMTP has no answer to a subscription; the log names the byte",
    }),
    consumer_filter: Err("PULL subscribes to nothing, and so has no place for one"),
};
