//! Syntax of destinations. The specification leaves them to the server; these are the conventions of existing clients
//! ([1.2#SEND] says only that the value is an opaque string).
//!
//! ```text
//!  /topic/a.b              all subscribers; separator and wildcards by dialect
//!  /queue/q                one of those who take from q
//!  /amq/queue/q            the same, of a queue that others have declared
//!  /exchange/e  /exchange/e/key
//!  /temp-queue/n           a queue of this connection, for answers
//!  /reply-queue/x          where an answer goes
//!  q                       /queue/q, in the dialect of RabbitMQ
//! ```

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Write as _};

/// Conventions that a listener follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// RabbitMQ: `a.b`, `*`, `#`.
    #[default]
    Rabbitmq,
    /// ActiveMQ: `a.b`, `*`, `>`.
    Activemq,
    /// Levels as MQTT has them: `a/b`, `+`, `#`; `*` is `+`.
    Slash,
}

impl Dialect {
    /// Separator of the levels of a topic.
    pub const fn separator(self) -> char {
        match self {
            Dialect::Rabbitmq | Dialect::Activemq => '.',
            Dialect::Slash => '/',
        }
    }

    /// Wildcard for any one level, as we write it.
    pub const fn one(self) -> &'static str {
        match self {
            Dialect::Rabbitmq | Dialect::Activemq => "*",
            Dialect::Slash => "+",
        }
    }

    /// Wildcard for any number of levels.
    pub const fn many(self) -> &'static str {
        match self {
            Dialect::Rabbitmq | Dialect::Slash => "#",
            Dialect::Activemq => ">",
        }
    }

    /// Kind of a level of a topic.
    pub fn level(self, level: &str) -> TopicLevel<'_> {
        if level == self.many() {
            TopicLevel::Many
        } else if level == self.one() || level == "*" {
            TopicLevel::One
        } else {
            TopicLevel::Text(level)
        }
    }

    /// Levels of the text after `/topic/`.
    pub fn levels(self, topic: &str) -> impl Iterator<Item = TopicLevel<'_>> {
        topic
            .split(self.separator())
            .map(move |level| self.level(level))
    }
}

/// A level of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicLevel<'a> {
    /// A level with exactly this text.
    Text(&'a str),
    /// Any one level: a wildcard.
    One,
    /// Any number of levels.
    Many,
}

/// A destination taken apart. Names of queues and exchanges, and keys, have their `%2F` undone; topics are as written,
/// because what must be undone there depends on the dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// `/topic/…`.
    Topic(&'a str),
    /// `/queue/…`.
    Queue(Cow<'a, str>),
    /// `/amq/queue/…`: only if it exists.
    AmqQueue(Cow<'a, str>),
    /// `/exchange/…`.
    Exchange {
        /// Name of the exchange.
        name: Cow<'a, str>,
        /// Routing key, or binding pattern.
        key: Option<Cow<'a, str>>,
    },
    /// `/temp-queue/…`: the name means something on its connection only.
    TempQueue(Cow<'a, str>),
    /// `/reply-queue/…`: whatever follows, slashes included.
    ReplyQueue(&'a str),
}

/// Why a destination cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DestinationError {
    /// It begins with none of the prefixes.
    UnknownPrefix,
    /// Nothing follows the prefix.
    NoName,
    /// More slashes than this kind has parts; write `%2F` for one that belongs to a name.
    TooManyParts,
}

impl Display for DestinationError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DestinationError::UnknownPrefix => {
                "the destination begins with none of /topic/, /queue/, /amq/queue/, /exchange/, /temp-queue/, /reply-queue/"
            }
            DestinationError::NoName => "the destination has a prefix and no name",
            DestinationError::TooManyParts => {
                "the destination has too many parts; a slash that belongs to a name is written %2F"
            }
        })
    }
}

impl std::error::Error for DestinationError {}

impl<'a> Destination<'a> {
    /// Takes a destination apart.
    pub fn parse(text: &'a str, dialect: Dialect) -> Result<Self, DestinationError> {
        if let Some(rest) = text.strip_prefix("/topic/") {
            let is_parted = dialect == Dialect::Rabbitmq && rest.contains('/');
            return if is_parted {
                Err(DestinationError::TooManyParts)
            } else {
                named(rest).map(Destination::Topic)
            };
        }
        if let Some(rest) = text.strip_prefix("/queue/") {
            return queue(rest).map(Destination::Queue);
        }
        if let Some(rest) = text.strip_prefix("/exchange/") {
            return exchange(rest);
        }
        if let Some(rest) = text.strip_prefix("/temp-queue/") {
            return queue(rest).map(Destination::TempQueue);
        }
        if let Some(rest) = text.strip_prefix("/reply-queue/") {
            return named(rest).map(Destination::ReplyQueue);
        }
        if let Some(rest) = text.strip_prefix("/amq/queue/") {
            return queue(rest).map(Destination::AmqQueue);
        }
        if dialect == Dialect::Rabbitmq && !text.is_empty() && !text.contains('/') {
            return Ok(Destination::Queue(unescape(text)));
        }
        let is_bare = [
            "/topic",
            "/queue",
            "/exchange",
            "/temp-queue",
            "/reply-queue",
            "/amq/queue",
        ]
        .contains(&text);
        Err(if is_bare {
            DestinationError::NoName
        } else {
            DestinationError::UnknownPrefix
        })
    }
}

/// As a client would write it.
impl Display for Destination<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (prefix, name) = match self {
            Destination::Topic(rest) => return write!(f, "/topic/{rest}"),
            Destination::ReplyQueue(rest) => return write!(f, "/reply-queue/{rest}"),
            Destination::Queue(name) => ("/queue/", name),
            Destination::AmqQueue(name) => ("/amq/queue/", name),
            Destination::TempQueue(name) => ("/temp-queue/", name),
            Destination::Exchange { name, .. } => ("/exchange/", name),
        };
        f.write_str(prefix)?;
        escape(name, f)?;
        if let Destination::Exchange { key: Some(key), .. } = self {
            f.write_char('/')?;
            escape(key, f)?;
        }
        Ok(())
    }
}

fn named(rest: &str) -> Result<&str, DestinationError> {
    if rest.is_empty() {
        Err(DestinationError::NoName)
    } else {
        Ok(rest)
    }
}

fn queue(rest: &str) -> Result<Cow<'_, str>, DestinationError> {
    let name = named(rest)?;
    if name.contains('/') {
        Err(DestinationError::TooManyParts)
    } else {
        Ok(unescape(name))
    }
}

fn exchange(rest: &str) -> Result<Destination<'_>, DestinationError> {
    let (name, key) = match rest.split_once('/') {
        Some((name, key)) => (name, Some(key)),
        None => (rest, None),
    };
    if key.is_some_and(|key| key.contains('/')) {
        return Err(DestinationError::TooManyParts);
    }
    Ok(Destination::Exchange {
        name: unescape(named(name)?),
        key: key.map(unescape),
    })
}

/// Undoes `%2F`, and nothing else: so does RabbitMQ, and names that merely hold a `%` stay as they are.
fn unescape(name: &str) -> Cow<'_, str> {
    if name.contains(SLASH) {
        Cow::Owned(name.replace(SLASH, "/"))
    } else {
        Cow::Borrowed(name)
    }
}

/// Writes a name so that [`unescape`] gives it back. (A name that holds `%2F` itself comes back with a slash.)
fn escape(name: &str, f: &mut Formatter<'_>) -> std::fmt::Result {
    for (at, part) in name.split('/').enumerate() {
        if at > 0 {
            f.write_str(SLASH)?;
        }
        f.write_str(part)?;
    }
    Ok(())
}

const SLASH: &str = "%2F";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_recognised_and_written_again() {
        for (text, expected) in [
            ("/topic/a.b", Destination::Topic("a.b")),
            ("/topic/a%2F.b", Destination::Topic("a%2F.b")),
            ("/queue/q", Destination::Queue("q".into())),
            ("/queue/a%2Fb%25", Destination::Queue("a/b%25".into())),
            ("/amq/queue/q", Destination::AmqQueue("q".into())),
            (
                "/exchange/e",
                Destination::Exchange {
                    name: "e".into(),
                    key: None,
                },
            ),
            (
                "/exchange/e/k.#",
                Destination::Exchange {
                    name: "e".into(),
                    key: Some("k.#".into()),
                },
            ),
            (
                "/exchange/a%2Fb/c%2Fd",
                Destination::Exchange {
                    name: "a/b".into(),
                    key: Some("c/d".into()),
                },
            ),
            (
                "/exchange/e/",
                Destination::Exchange {
                    name: "e".into(),
                    key: Some("".into()),
                },
            ),
            ("/temp-queue/foo", Destination::TempQueue("foo".into())),
            (
                "/reply-queue/amq.gen-a/b==",
                Destination::ReplyQueue("amq.gen-a/b=="),
            ),
        ] {
            assert_eq!(
                Destination::parse(text, Dialect::Rabbitmq).as_ref(),
                Ok(&expected)
            );
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused_for_the_right_reason() {
        for (text, expected) in [
            ("", DestinationError::UnknownPrefix),
            ("/", DestinationError::UnknownPrefix),
            ("/topics/a", DestinationError::UnknownPrefix),
            ("a/b", DestinationError::UnknownPrefix),
            ("/topic", DestinationError::NoName),
            ("/topic/", DestinationError::NoName),
            ("/queue/", DestinationError::NoName),
            ("/exchange//k", DestinationError::NoName),
            ("/reply-queue/", DestinationError::NoName),
            ("/queue/a/b", DestinationError::TooManyParts),
            ("/topic/a/b", DestinationError::TooManyParts),
            ("/temp-queue/a/b", DestinationError::TooManyParts),
            ("/exchange/a/b/c", DestinationError::TooManyParts),
        ] {
            assert_eq!(
                Destination::parse(text, Dialect::Rabbitmq),
                Err(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn a_bare_name_is_a_queue_in_the_dialect_of_rabbitmq_only() {
        assert_eq!(
            Destination::parse("q", Dialect::Rabbitmq),
            Ok(Destination::Queue("q".into()))
        );
        assert_eq!(
            Destination::parse("q", Dialect::Activemq),
            Err(DestinationError::UnknownPrefix)
        );
        assert_eq!(
            Destination::parse("q", Dialect::Slash),
            Err(DestinationError::UnknownPrefix)
        );
    }

    #[test]
    fn levels_are_read_in_the_dialect() {
        use TopicLevel::*;
        for (dialect, topic, expected) in [
            (Dialect::Rabbitmq, "a.*.#", vec![Text("a"), One, Many]),
            (Dialect::Activemq, "a.*.>", vec![Text("a"), One, Many]),
            (Dialect::Activemq, "#", vec![Text("#")]),
            (Dialect::Slash, "a/+/*/#", vec![Text("a"), One, One, Many]),
            (
                Dialect::Slash,
                "a.b//",
                vec![Text("a.b"), Text(""), Text("")],
            ),
        ] {
            assert_eq!(
                dialect.levels(topic).collect::<Vec<_>>(),
                expected,
                "{topic}"
            );
        }
    }
}
