//! What a message can carry in ZMTP.

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, PropertyModel, Receives, Syntax,
};
use crate::protocol::Protocol;

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "zmtp",
    carries: &[ZMTP],
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
    queue: "PUSH and PULL: the queue `zmtp.queue`",
    group: None,
};
