//! Destinations: what a peer calls queues, exchanges and topics, and what we do. Text to text; nothing is looked up here.

use super::Dialect;
use crate::address::{self, DOTTED, Place, in_tenant, write_key};
use std::fmt::Write as _;
use thalweg_kernel::{exchange_address, queue_address};
use thalweg_stomp::Destination;

/// The exchange that publishes to plain addresses.
pub(super) const TOPIC_EXCHANGE: &str = "amq.topic";

/// How a peer asks to become a member of a group: `/amq/queue/$g/<group>/<filter>`, the filter in canonical form.
const GROUP_PREFIX: &str = "/amq/queue/$g/";

/// The group and the filter that a destination names, if it names a group.
pub(super) fn group_of(destination: &str) -> Option<(&str, &str)> {
    let (group, filter) = destination.strip_prefix(GROUP_PREFIX)?.split_once('/')?;
    (!group.is_empty() && !filter.is_empty()).then_some((group, filter))
}

/// The canonical address of a topic.
pub(super) fn topic_address(topic: &str, dialect: Dialect, tenant: &str, out: &mut String) {
    in_tenant(tenant, "", out);
    dialect.syntax().read_address(topic, out);
}

/// The key under which a queue is bound to the exchange of topics so that it gets what matches, and whether it holds a
/// wildcard.
pub(super) fn topic_key(filter: &str, dialect: Dialect) -> (String, bool) {
    let mut canonical = String::with_capacity(filter.len());
    dialect.syntax().read_filter(filter, &mut canonical);
    let is_pattern = canonical.split('/').any(|level| matches!(level, "+" | "#"));
    let mut key = String::with_capacity(canonical.len());
    DOTTED.write_filter(&canonical, &mut key);
    (key, is_pattern)
}

/// Where answers go: the canonical address of a `reply-to`. What is no destination is left as it is. `in_exchange`
/// works out the address of an exchange and a key.
pub(super) fn reply_address(
    reply_to: &str,
    dialect: Dialect,
    tenant: &str,
    in_exchange: impl FnOnce(&str, &str, &mut String),
) -> String {
    let mut out = String::new();
    match Destination::parse(reply_to, dialect.of_wire()) {
        Ok(Destination::Topic(topic)) => topic_address(topic, dialect, tenant, &mut out),
        Ok(Destination::Queue(name) | Destination::AmqQueue(name)) => {
            out = queue_address(tenant, &name)
        }
        Ok(Destination::ReplyQueue(name)) => out = queue_address(tenant, name),
        Ok(Destination::Exchange { name, key }) => {
            in_exchange(
                &exchange_address(tenant, &name),
                key.as_deref().unwrap_or_default(),
                &mut out,
            );
        }
        // Those of the connection are replaced before it comes to this.
        Ok(Destination::TempQueue(_)) | Err(_) => out.push_str(reply_to),
    }
    out
}

/// Names of queues that belong to a connection begin so; to declare them again would be refused.
const PASSING: [&str; 3] = [
    "amq.gen-",
    "amq.rabbitmq.reply-to.",
    super::SUBSCRIPTION_QUEUES,
];

/// Appends a canonical address as a destination to which the peer can send.
pub(super) fn write_reply(canonical: &str, dialect: Dialect, out: &mut String) {
    match address::place(canonical) {
        Place::Queue { name, .. } if PASSING.iter().any(|prefix| name.starts_with(prefix)) => {
            out.push_str("/reply-queue/");
            out.push_str(&name);
        }
        _ => write_address(canonical, dialect, out),
    }
}

/// Appends a canonical address as a destination.
pub(super) fn write_address(canonical: &str, dialect: Dialect, out: &mut String) {
    match address::place(canonical) {
        Place::Queue { name, .. } => {
            let _ = write!(out, "{}", Destination::Queue(name));
        }
        Place::Exchange { name, words, .. } => write_exchange(&name, words, out),
        Place::Plain { address, .. } => {
            out.push_str("/topic/");
            dialect.syntax().write_address(address, out);
        }
    }
}

/// Appends what was published to an exchange under the key of these words.
fn write_exchange(name: &str, words: &str, out: &mut String) {
    let mut key = String::with_capacity(words.len());
    write_key(words, &mut key);
    let key = (!key.is_empty()).then_some(key.into());
    let _ = write!(
        out,
        "{}",
        Destination::Exchange {
            name: name.into(),
            key
        }
    );
}

/// Appends a canonical address for a subscriber of `/exchange/…`.
pub(super) fn write_for_exchange(canonical: &str, dialect: Dialect, out: &mut String) {
    match address::place(canonical) {
        Place::Plain { address, .. } => {
            let mut key = String::with_capacity(address.len());
            DOTTED.write_address(address, &mut key);
            let _ = write!(
                out,
                "{}",
                Destination::Exchange {
                    name: TOPIC_EXCHANGE.into(),
                    key: Some(key.into())
                }
            );
        }
        _ => write_address(canonical, dialect, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(canonical: &str, dialect: Dialect) -> String {
        let mut out = String::new();
        write_address(canonical, dialect, &mut out);
        out
    }

    fn topic(text: &str, dialect: Dialect, tenant: &str) -> String {
        let mut out = String::new();
        topic_address(text, dialect, tenant, &mut out);
        out
    }

    #[test]
    fn a_topic_comes_back_as_it_was_written_in_every_dialect_and_tenant() {
        for (dialect, text) in [
            (Dialect::RabbitMq, "a.b%2Fc.100%"),
            (Dialect::RabbitMq, "spBv1%2E0.group"),
            (Dialect::ActiveMq, "a..b."),
            (Dialect::Slash, "a/b.c//"),
        ] {
            for tenant in ["", "blue"] {
                let canonical = topic(text, dialect, tenant);
                assert_eq!(
                    written(&canonical, dialect),
                    format!("/topic/{text}"),
                    "by {canonical}"
                );
            }
        }
    }

    #[test]
    fn a_topic_of_mqtt_with_a_dot_in_it_survives() {
        assert_eq!(
            written("spBv1.0/group", Dialect::RabbitMq),
            "/topic/spBv1%2E0.group"
        );
        assert_eq!(
            topic("spBv1%2E0.group", Dialect::RabbitMq, ""),
            "spBv1.0/group"
        );
    }

    #[test]
    fn wildcards_are_those_of_the_dialect() {
        for (dialect, filter, key, is_pattern) in [
            (Dialect::RabbitMq, "a.*.#", "a.*.#", true),
            (Dialect::RabbitMq, "a.>", "a.>", false),
            (Dialect::ActiveMq, "a.*.>", "a.*.#", true),
            (Dialect::Slash, "a/+/#", "a.*.#", true),
            (Dialect::Slash, "a/b.c", "a.b%2Ec", false),
        ] {
            assert_eq!(
                topic_key(filter, dialect),
                (key.to_owned(), is_pattern),
                "{filter}"
            );
        }
    }

    #[test]
    fn what_was_published_to_an_exchange_keeps_its_key() {
        assert_eq!(
            written("$x/logs/a/b", Dialect::RabbitMq),
            "/exchange/logs/a.b"
        );
        assert_eq!(written("$x/all/", Dialect::RabbitMq), "/exchange/all");
        let mut out = String::new();
        write_for_exchange("a/b.c", Dialect::Slash, &mut out);
        assert_eq!(out, "/exchange/amq.topic/a.b%2Ec");
    }

    #[test]
    fn answers_find_their_way() {
        for reply_to in ["/queue/answers", "/topic/a.b", "/reply-queue/amq.gen-x/y"] {
            for tenant in ["", "blue"] {
                let canonical = reply_address(reply_to, Dialect::RabbitMq, tenant, |_, _, _| ());
                let mut out = String::new();
                write_reply(&canonical, Dialect::RabbitMq, &mut out);
                assert_eq!(out, reply_to, "by {canonical}");
            }
        }
        assert_eq!(
            reply_address("whatever/it is", Dialect::ActiveMq, "", |_, _, _| ()),
            "whatever/it is"
        );
    }

    #[test]
    fn a_group_is_named_like_a_queue() {
        assert_eq!(
            group_of("/amq/queue/$g/workers/a/+/#"),
            Some(("workers", "a/+/#"))
        );
        assert_eq!(group_of("/amq/queue/$g/workers"), None);
        assert_eq!(group_of("/amq/queue/q"), None);
    }
}
