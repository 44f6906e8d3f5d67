//! Canonical addresses as destinations, and back. Text to text.
//!
//! ```text
//!  a/b                 /topic/a.b, in the dialect of the broker
//!  $q/work             /amq/queue/work: the queue, if it is there
//!  $x/logs/a/b         /exchange/logs/a.b
//!  $share/g/a/+        /amq/queue/$g/g/a/+ where there are groups
//! ```

use std::fmt::Write as _;

use thalweg_model::place::{Place, place};
use thalweg_model::syntax::{DOTTED_ARROW, DOTTED_WITHOUT_SLASH, SLASHED, Syntax, write_key};
use thalweg_model::{Address, Filter};
use thalweg_stomp::{Destination, Dialect};

use crate::queues::{
    binding_key, is_group, is_plain, shared, write_exchange, write_queue, write_reply,
};
use crate::transport::Refusal;

/// Begin the names of queues that are found by `/reply-queue/` only, whatever else stands in them.
const PASSING: [&str; 2] = ["amq.", "stomp."];
/// Bytes of a destination that our broker takes.
const BYTES_MAX: usize = 4096;

/// The broker's naming of destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Idiom {
    pub(super) dialect: Dialect,
    /// RabbitMQ reads and writes codes in destinations that ours leaves alone.
    pub(super) is_thalweg: bool,
}

impl Idiom {
    fn syntax(self) -> Syntax {
        match self.dialect {
            Dialect::Rabbitmq => DOTTED_WITHOUT_SLASH,
            Dialect::Activemq => DOTTED_ARROW,
            Dialect::Slash => SLASHED,
        }
    }

    /// Appends a canonical address as a destination to send to.
    pub(super) fn write(self, address: &str, out: &mut String) -> Result<(), Refusal> {
        Address::check(address).map_err(|_| Refusal::Address)?;
        let before = out.len();
        match place(address) {
            Place::Queue { tenant: "", name }
                if PASSING.iter().any(|prefix| name.starts_with(prefix)) =>
            {
                out.push_str("/reply-queue/");
                out.push_str(&name);
            }
            Place::Queue { tenant: "", name } if !name.is_empty() => {
                let _ = write!(out, "{}", Destination::AmqQueue(name));
            }
            Place::Exchange {
                tenant: "",
                name,
                words,
            } if !name.is_empty() => {
                let mut key = String::with_capacity(words.len());
                write_key(words, &mut key);
                let key = (!key.is_empty()).then_some(key.into());
                let _ = write!(out, "{}", Destination::Exchange { name, key });
            }
            Place::Plain {
                tenant: "",
                address,
            } => {
                out.push_str("/topic/");
                self.syntax().write_address(address, out);
            }
            // Another tenant, which is another virtual host.
            _ => return Err(Refusal::Address),
        }
        if out.len() - before > BYTES_MAX {
            Err(Refusal::Address)
        } else {
            Ok(())
        }
    }

    /// Appends the canonical address that a destination names; what is no destination stays as it is.
    pub(super) fn read(self, destination: &str, out: &mut String) {
        match Destination::parse(destination, self.dialect) {
            Ok(Destination::Topic(topic)) if self.is_thalweg || !topic.contains('%') => {
                self.syntax().read_address(topic, out);
            }
            Ok(Destination::Topic(topic)) => self.syntax().read_address(&uncoded(topic), out),
            Ok(
                Destination::Queue(name)
                | Destination::AmqQueue(name)
                | Destination::TempQueue(name),
            ) => {
                write_queue(&name, out);
            }
            Ok(Destination::ReplyQueue(name)) => write_queue(name, out),
            Ok(Destination::Exchange { name, key }) => {
                write_exchange(&name, key.as_deref().unwrap_or_default(), out)
            }
            Err(_) => out.push_str(destination),
        }
    }

    /// Appends the canonical address that a `reply-to` names.
    pub(super) fn read_reply(self, destination: &str, out: &mut String) {
        match Destination::parse(destination, self.dialect) {
            Ok(Destination::Queue(name) | Destination::AmqQueue(name)) => write_reply(&name, out),
            Ok(Destination::ReplyQueue(name)) => write_reply(name, out),
            _ => self.read(destination, out),
        }
    }

    /// Translates a filter into a destination.
    pub(super) fn source(self, filter: &str) -> Result<Source, Refusal> {
        if let Some((group, inner)) = shared(filter) {
            if !is_group(group, inner) {
                return Err(Refusal::Address);
            }
            let name = format!("$g/{group}/{inner}");
            return match self.source(inner)? {
                _ if self.is_thalweg => Ok(Source::Queue(format!("/amq/queue/{name}"))),
                Source::Bound(destination) => Ok(Source::Shared {
                    destination,
                    queue: name,
                }),
                // All consumers of a queue share it.
                queue => Ok(queue),
            };
        }
        Filter::check(filter).map_err(|_| Refusal::Address)?;
        let mut out = String::with_capacity(filter.len() + 16);
        let source = match place(filter) {
            Place::Queue { .. } if is_plain(filter) => {
                self.write(filter, &mut out)?;
                Source::Queue(out)
            }
            Place::Exchange {
                tenant: "",
                name,
                words,
            } if !name.is_empty() && is_plain(&name) => {
                let key = binding_key(words);
                let key = (!key.is_empty()).then_some(key.into());
                let _ = write!(out, "{}", Destination::Exchange { name, key });
                Source::Bound(out)
            }
            Place::Plain {
                tenant: "",
                address,
            } => {
                out.push_str("/topic/");
                self.syntax().write_filter(address, &mut out);
                Source::Bound(out)
            }
            _ => return Err(Refusal::Address),
        };
        let (Source::Queue(destination)
        | Source::Bound(destination)
        | Source::Shared { destination, .. }) = &source;
        if destination.len() > BYTES_MAX {
            Err(Refusal::Address)
        } else {
            Ok(source)
        }
    }
}

/// Where a subscription takes its messages from; the destinations of SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A queue or a group that is there.
    Queue(String),
    /// A queue of its own, which the broker binds.
    Bound(String),
    /// A queue that members of a group share, where there are no groups.
    Shared {
        /// Destination that feeds the queue.
        destination: String,
        queue: String,
    },
}

/// Undoes every `%HH`, as RabbitMQ writes them; what is no code or would be no text stays as it is.
fn uncoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| {
            behind
                .get(at)
                .and_then(|digit| char::from(*digit).to_digit(16))
        };
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idiom(dialect: Dialect) -> Idiom {
        Idiom {
            dialect,
            is_thalweg: true,
        }
    }

    const RABBITMQ: Idiom = Idiom {
        dialect: Dialect::Rabbitmq,
        is_thalweg: false,
    };

    fn written(idiom: Idiom, address: &str) -> Option<String> {
        let mut out = String::new();
        idiom.write(address, &mut out).ok()?;
        Some(out)
    }

    fn read(idiom: Idiom, destination: &str) -> String {
        let mut out = String::new();
        idiom.read(destination, &mut out);
        out
    }

    #[test]
    fn an_address_goes_there_and_comes_back() {
        for (dialect, address, destination) in [
            (Dialect::Rabbitmq, "a/b", "/topic/a.b"),
            (Dialect::Rabbitmq, "spBv1.0/x%2Fy", "/topic/spBv1%2E0.x%2Fy"),
            (Dialect::Activemq, "/a//", "/topic/.a.."),
            (Dialect::Slash, "a/b.c", "/topic/a/b.c"),
            (Dialect::Rabbitmq, "$q/work", "/amq/queue/work"),
            (Dialect::Rabbitmq, "$q/a%2Fb", "/amq/queue/a%2Fb"),
            (
                Dialect::Rabbitmq,
                "$q/amq.gen-1%2F2",
                "/reply-queue/amq.gen-1/2",
            ),
            (Dialect::Rabbitmq, "$x/logs/a/b", "/exchange/logs/a.b"),
            (
                Dialect::Rabbitmq,
                "$x/amq.direct/a.b",
                "/exchange/amq.direct/a.b",
            ),
        ] {
            assert_eq!(
                written(idiom(dialect), address).as_deref(),
                Some(destination),
                "{address}"
            );
            assert_eq!(read(idiom(dialect), destination), address);
        }
        assert_eq!(
            read(idiom(Dialect::Slash), "/exchange/amq.topic/a.b%2Ec"),
            "a/b.c"
        );
    }

    #[test]
    fn rabbitmq_reads_and_writes_codes() {
        assert_eq!(
            written(RABBITMQ, "a%2Fb/c").as_deref(),
            Some("/topic/a%2Fb.c")
        );
        assert_eq!(read(RABBITMQ, "/topic/a%2Fb.c%20d.%C3%A4"), "a%2Fb/c d/ä");
        assert_eq!(read(RABBITMQ, "/topic/100%.%FF"), "100%/%FF");
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for address in [
            "",
            "a/+",
            "$q@blue/x",
            "$t@blue/a",
            "$x/",
            "$q/",
            &"a".repeat(5000),
        ] {
            assert_eq!(written(RABBITMQ, address), None, "{address}");
        }
        for filter in [
            "",
            "a/#/b",
            "$q/+",
            "$x/+/a",
            "$share//a",
            "$share/g/",
            "$share/g/$share/h/a",
        ] {
            for idiom in [RABBITMQ, idiom(Dialect::Rabbitmq)] {
                assert_eq!(idiom.source(filter), Err(Refusal::Address), "{filter}");
            }
        }
    }

    #[test]
    fn filters_are_in_the_dialect_and_groups_where_there_are_some() {
        let bound = |text: &str| Ok(Source::Bound(text.to_owned()));
        let queue = |text: &str| Ok(Source::Queue(text.to_owned()));
        assert_eq!(
            idiom(Dialect::Rabbitmq).source("a/+/#"),
            bound("/topic/a.*.#")
        );
        assert_eq!(
            idiom(Dialect::Activemq).source("a/+/#"),
            bound("/topic/a.*.>")
        );
        assert_eq!(idiom(Dialect::Slash).source("a/+/#"), bound("/topic/a/+/#"));
        assert_eq!(RABBITMQ.source("$x/logs/a/+"), bound("/exchange/logs/a.*"));
        assert_eq!(RABBITMQ.source("$q/work"), queue("/amq/queue/work"));
        assert_eq!(
            idiom(Dialect::Rabbitmq).source("$share/g/a/+"),
            queue("/amq/queue/$g/g/a/+")
        );
        assert_eq!(
            idiom(Dialect::Rabbitmq).source("$share/g/$q/work"),
            queue("/amq/queue/$g/g/$q/work")
        );
        let shared = Source::Shared {
            destination: "/topic/a.*".to_owned(),
            queue: "$g/g/a/+".to_owned(),
        };
        assert_eq!(RABBITMQ.source("$share/g/a/+"), Ok(shared));
        assert_eq!(
            RABBITMQ.source("$share/g/$q/work"),
            queue("/amq/queue/work")
        );
    }
}
