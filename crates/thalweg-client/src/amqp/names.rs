//! Canonical addresses as exchanges and routing keys, and back. Text to text.
//!
//! ```text
//!  a/b                 amq.topic, key a.b; what a level holds that would be read as something else is written %HH
//!  $q/work             the default exchange, key work
//!  $x/logs/a/b         the exchange logs, key a.b
//! ```

use std::borrow::Cow;

use thalweg_model::place::{Place, place};
use thalweg_model::syntax::{DOTTED, write_key};
use thalweg_model::{Address, Filter};

use crate::queues::{
    ALIAS, NAME_BYTES_MAX, TOPICS, binding_key, is_group, is_plain, shared, write_exchange,
    write_queue,
};
use crate::transport::Refusal;

/// Where the last message went.
#[derive(Debug, Default)]
pub(super) struct Target {
    address: String,
    pub(super) exchange: String,
    pub(super) key: String,
}

impl Target {
    /// Makes this the place of an address.
    #[inline]
    pub(super) fn set(&mut self, address: &str) -> Result<(), Refusal> {
        // No address is empty; without one nothing is remembered.
        if self.address == address && !address.is_empty() {
            return Ok(());
        }
        self.make(address)
    }

    fn make(&mut self, address: &str) -> Result<(), Refusal> {
        self.address.clear();
        Address::check(address).map_err(|_| Refusal::Address)?;
        let (exchange, key) = (&mut self.exchange, &mut self.key);
        exchange.clear();
        key.clear();
        match place(address) {
            Place::Queue { tenant: "", name } if !name.is_empty() => key.push_str(&name),
            Place::Exchange {
                tenant: "",
                name,
                words,
            } if !name.is_empty() => {
                exchange.push_str(&name);
                write_key(words, key);
            }
            Place::Plain {
                tenant: "",
                address,
            } => {
                exchange.push_str(TOPICS);
                DOTTED.write_address(address, key);
            }
            // Another tenant, which is another virtual host.
            _ => return Err(Refusal::Address),
        }
        if key.len() > NAME_BYTES_MAX || exchange.len() > NAME_BYTES_MAX {
            return Err(Refusal::Address);
        }
        self.address.push_str(address);
        Ok(())
    }
}

/// Where the last message came from.
#[derive(Debug, Default)]
pub(super) struct Origin {
    exchange: String,
    key: String,
    pub(super) address: String,
}

impl Origin {
    /// Makes this the address of a delivery.
    #[inline]
    pub(super) fn set(&mut self, exchange: &str, key: &str) {
        if self.address.is_empty() || self.key != key || self.exchange != exchange {
            self.make(exchange, key);
        }
    }

    fn make(&mut self, exchange: &str, key: &str) {
        for (kept, new) in [(&mut self.exchange, exchange), (&mut self.key, key)] {
            kept.clear();
            kept.push_str(new);
        }
        self.address.clear();
        match exchange {
            "" => write_queue(key, &mut self.address),
            name => write_exchange(name, key, &mut self.address),
        }
    }
}

/// The key of the default exchange that reaches a canonical address, as `reply-to` has it.
pub(super) fn reply_key(address: &str) -> Result<Cow<'_, str>, Refusal> {
    let key = match place(address) {
        Place::Queue { tenant: "", name } => name,
        _ => Cow::Owned(format!("{ALIAS}{address}")),
    };
    if key.len() > NAME_BYTES_MAX {
        Err(Refusal::Address)
    } else {
        Ok(key)
    }
}

/// Where a subscription takes its messages from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A queue that is there.
    Queue(String),
    /// A queue of its own, bound to an exchange.
    Bound(Binding),
    /// A queue shared by the members of a group.
    Group {
        /// The group and its filter, as our broker knows it, and STOMP.
        name: String,
        /// The group's source, which decides how other members must declare the queue.
        inner: Box<Source>,
    },
}

/// Exchange and routing key that feed a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) exchange: String,
    pub(super) key: String,
}

/// Translates a filter into queue and bindings.
pub(super) fn source(filter: &str) -> Result<Source, Refusal> {
    if let Some((group, behind)) = shared(filter) {
        let inner = Box::new(source(behind)?);
        let name = format!("$g/{group}/{behind}");
        let is_legal = is_group(group, behind) && name.len() <= NAME_BYTES_MAX;
        return if is_legal {
            Ok(Source::Group { name, inner })
        } else {
            Err(Refusal::Address)
        };
    }
    Filter::check(filter).map_err(|_| Refusal::Address)?;
    let mut key = String::with_capacity(filter.len());
    let source = match place(filter) {
        Place::Queue { tenant: "", name } if is_plain(filter) && !name.is_empty() => {
            return if name.len() <= NAME_BYTES_MAX {
                Ok(Source::Queue(name.into_owned()))
            } else {
                Err(Refusal::Address)
            };
        }
        Place::Exchange {
            tenant: "",
            name,
            words,
        } if !name.is_empty() && is_plain(&name) => {
            key = binding_key(words);
            Binding {
                exchange: name.into_owned(),
                key,
            }
        }
        Place::Plain {
            tenant: "",
            address,
        } => {
            DOTTED.write_filter(address, &mut key);
            Binding {
                exchange: TOPICS.to_owned(),
                key,
            }
        }
        _ => return Err(Refusal::Address),
    };
    let fits = source.key.len() <= NAME_BYTES_MAX && source.exchange.len() <= NAME_BYTES_MAX;
    if fits {
        Ok(Source::Bound(source))
    } else {
        Err(Refusal::Address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::write_reply;

    fn target(address: &str) -> Option<(String, String)> {
        let mut target = Target::default();
        target.set(address).ok()?;
        Some((target.exchange, target.key))
    }

    fn origin(exchange: &str, key: &str) -> String {
        let mut origin = Origin::default();
        origin.set(exchange, key);
        origin.address
    }

    #[test]
    fn an_address_goes_there_and_comes_back() {
        for (address, exchange, key) in [
            ("a/b", "amq.topic", "a.b"),
            ("sensors/1.5", "amq.topic", "sensors.1%2E5"),
            ("/a//", "amq.topic", ".a.."),
            ("a%2Fb/100%", "amq.topic", "a/b.100%"),
            ("$SYS/x", "amq.topic", "$SYS.x"),
            ("$q/work", "", "work"),
            ("$q/a%2Fb", "", "a/b"),
            ("$x/logs/a/b", "logs", "a.b"),
            ("$x/amq.direct/a.b", "amq.direct", "a.b"),
            ("$x/logs/", "logs", ""),
        ] {
            assert_eq!(
                target(address),
                Some((exchange.to_owned(), key.to_owned())),
                "{address}"
            );
            assert_eq!(origin(exchange, key), address);
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for address in [
            "",
            "$q/",
            "a/+",
            "a/#",
            "$q@blue/x",
            "$t@blue/a",
            "$x/",
            &"a".repeat(256),
        ] {
            assert_eq!(target(address), None, "{address}");
        }
        for filter in [
            "",
            "$q/",
            "a/#/b",
            "$q/+",
            "$x/+/a",
            "$share//a",
            "$share/g/",
            "$share/g/$share/h/a",
            "$t@blue/#",
        ] {
            assert_eq!(source(filter), Err(Refusal::Address), "{filter}");
        }
    }

    #[test]
    fn filters_are_bindings_queues_and_groups() {
        let bound = |exchange: &str, key: &str| {
            Source::Bound(Binding {
                exchange: exchange.into(),
                key: key.into(),
            })
        };
        for (filter, expected) in [
            ("a/+/#", bound("amq.topic", "a.*.#")),
            ("a/*/b.c", bound("amq.topic", "a.%2A.b%2Ec")),
            ("$x/logs/a/+", bound("logs", "a.*")),
            ("$x/amq.direct/a.b", bound("amq.direct", "a.b")),
            ("$q/work", Source::Queue("work".into())),
        ] {
            assert_eq!(source(filter), Ok(expected.clone()), "{filter}");
            for shared in [format!("$share/g/{filter}"), format!("$g/g/{filter}")] {
                let group = Source::Group {
                    name: format!("$g/g/{filter}"),
                    inner: Box::new(expected.clone()),
                };
                assert_eq!(source(&shared), Ok(group));
            }
        }
    }

    #[test]
    fn answers_find_their_way() {
        for (address, key) in [
            ("$q/answers", "answers"),
            ("$q/a%2Fb", "a/b"),
            ("a/b", "$a/a/b"),
            ("$reply/1", "$a/$reply/1"),
        ] {
            assert_eq!(reply_key(address).as_deref(), Ok(key));
            let mut back = String::new();
            write_reply(key, &mut back);
            assert_eq!(back, address);
        }
    }
}
