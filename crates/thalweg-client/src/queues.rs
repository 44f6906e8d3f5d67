//! Common to brokers of AMQP and STOMP: named queues and exchanges, and their canonical addresses.

use std::fmt::Write as _;

use thalweg_model::syntax::{CANONICAL, DOTTED, write_level};
use thalweg_model::{Reliability, Span};

use crate::transport::{Capabilities, Endpoint, Opening, RequestId};

/// Capabilities common to both.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    reliability_max: Reliability::AtLeastOnce,
    receive_max: Reliability::AtLeastOnce,
    carries_stamps: true,
    wildcards: true,
    keeps_all: true,
    settles: true,
    properties: true,
    lifespan: true,
    priority: true,
    ..Capabilities::STREAM
};

/// The exchange whose keys are plain addresses.
pub(crate) const TOPICS: &str = "amq.topic";
/// Exchanges of every broker whose keys are not words.
const WHOLE_KEYS: [&str; 4] = ["amq.direct", "amq.fanout", "amq.headers", "amq.match"];
/// Begin filters that are shared.
const GROUPS: [&str; 2] = ["$share/", "$g/"];
/// Bytes of the name of a queue: a short string of AMQP.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// The longest time that RabbitMQ takes, in milliseconds.
pub(crate) const MILLIS_MAX: u64 = u32::MAX as u64;
/// Priorities up to this one say nothing: a message without a priority has RabbitMQ's least.
pub(crate) const PRIORITY_USUAL: u8 = 4;

/// Appends the canonical address of a queue.
pub(crate) fn write_queue(name: &str, out: &mut String) {
    out.push_str("$q/");
    out.push_str(&write_level(name));
}

/// Begins a key of the default exchange that is a plain address. A convention of our broker, for answers.
pub(crate) const ALIAS: &str = "$a/";

/// Appends the canonical address of a `reply-to` that is a key of the default exchange: a queue, or an address.
/// RabbitMQ hands a key of AMQP to STOMP as a queue, and a destination of STOMP to AMQP as a key.
pub(crate) fn write_reply(key: &str, out: &mut String) {
    let queue = ["/queue/", "/amq/queue/", "/reply-queue/"]
        .iter()
        .find_map(|prefix| key.strip_prefix(prefix));
    match (key.strip_prefix(ALIAS), key.strip_prefix("/topic/")) {
        (Some(address), _) if !address.is_empty() => out.push_str(address),
        (_, Some(topic)) if !topic.is_empty() => DOTTED.read_address(topic, out),
        _ => write_queue(queue.unwrap_or(key), out),
    }
}

/// Appends the canonical address of a message published to an exchange.
pub(crate) fn write_exchange(name: &str, key: &str, out: &mut String) {
    if name == TOPICS {
        return DOTTED.read_address(key, out);
    }
    out.push_str("$x/");
    out.push_str(&write_level(name));
    if WHOLE_KEYS.contains(&name) {
        out.push('/');
        return CANONICAL.write(key, out);
    }
    // The kind of the exchange is unknown; most exchanges with meaningful keys are topic exchanges.
    for word in key.split('.') {
        out.push('/');
        CANONICAL.write(word, out);
    }
}

/// The binding key for the rest of a filter behind the name of an exchange.
pub(crate) fn binding_key(words: &str) -> String {
    let mut key = String::with_capacity(words.len());
    for (at, word) in words.split('/').enumerate() {
        if at > 0 {
            key.push('.');
        }
        match word {
            "+" => key.push('*'),
            "#" => key.push('#'),
            word => CANONICAL.read(word, &mut key),
        }
    }
    key
}

/// Group and filter of a filter that is shared.
pub(crate) fn shared(filter: &str) -> Option<(&str, &str)> {
    GROUPS
        .iter()
        .find_map(|prefix| filter.strip_prefix(prefix))?
        .split_once('/')
}

/// Whether these can be group and filter.
pub(crate) fn is_group(group: &str, filter: &str) -> bool {
    !group.is_empty() && !group.contains(['+', '#']) && shared(filter).is_none()
}

/// Whether nothing in this is a wildcard.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(['+', '#'])
}

/// Names and lifetime of the queues that outlive the client's connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    /// Prefix of the queues that keep messages while their client is away: client and protocol, since ending a
    /// subscription on one protocol must not end it on another. Empty without a client name.
    prefix: String,
    /// Longest absence of the client; zero: subscriptions end with the connection.
    span: Span,
}

impl Session {
    pub(crate) fn of(protocol: &str, endpoint: &Endpoint, opening: &Opening) -> Self {
        let secure = if endpoint.is_encrypted { "s" } else { "" };
        let websocket = if endpoint.websocket.is_some() {
            "+ws"
        } else {
            ""
        };
        let prefix = match opening.client_id.as_str() {
            "" => String::new(),
            client => format!("client/{client}/{protocol}{websocket}{secure}/"),
        };
        let span = opening.session;
        Session { prefix, span }
    }

    /// Whether there is one.
    pub(crate) fn lives_on(&self) -> bool {
        self.span > Span::ZERO
    }

    /// How long a queue without consumers is kept, in milliseconds; `None` without limit.
    pub(crate) fn expires(&self) -> Option<u64> {
        let millis = self.span.millis().clamp(1, MILLIS_MAX);
        (self.span != Span::FOREVER).then_some(millis)
    }

    /// The name of a queue that outlives the connection, for a subscription to this filter; other subscriptions have `taken`.
    pub(crate) fn queue<'n>(
        &self,
        filter: &str,
        taken: impl Iterator<Item = &'n str> + Clone,
    ) -> Option<String> {
        if !self.lives_on() || self.prefix.is_empty() {
            return None;
        }
        let mut names = (0..).map(|number| session_queue(&self.prefix, filter, number));
        names.find(|name| taken.clone().all(|other| other != name))
    }
}

/// Returns the correlation data of a request.
pub(crate) fn correlation_of(request: RequestId) -> Vec<u8> {
    format!("{:x}", request.0).into_bytes()
}

/// The name of the queue of a subscription, the `number`th to this filter; hashed where it would be too long.
fn session_queue(prefix: &str, filter: &str, number: usize) -> String {
    let mut name = format!("{prefix}{filter}");
    if number > 0 {
        let _ = write!(name, "/{number}");
    }
    if name.len() > NAME_BYTES_MAX {
        // FNV-1a: the same on every machine.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        let hash = format!("~{:016x}", name.bytes().fold(0xCBF2_9CE4_8422_2325, mix));
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX - hash.len()));
        name += &hash;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_address_is_read_whoever_wrote_it() {
        for (key, address) in [
            ("answers", "$q/answers"),
            ("$a/a/b", "a/b"),
            ("$a/", "$q/$a%2F"),
            ("/topic/a.b", "a/b"),
            ("/reply-queue/amq.gen-1/2", "$q/amq.gen-1%2F2"),
        ] {
            let mut out = String::new();
            write_reply(key, &mut out);
            assert_eq!(out, address);
        }
    }

    #[test]
    fn a_long_queue_name_is_cut_and_tells_filters_apart() {
        let name = |filter: &str, number| session_queue("client/c/amqp/", filter, number);
        let (one, two) = (name(&"ä".repeat(200), 0), name(&"ä".repeat(201), 0));
        assert!(
            one.len() <= 255 && one != two && one.starts_with("client/c/amqp/ä"),
            "{one} {two}"
        );
        assert_ne!(name("a", 0), name("a", 1));
    }
}
