//! Queues that a peer brings about by using them, and what its headers say about them.

use super::{DURABLE_QUEUES, Trouble};
use crate::native::{Term, TermWriter, queue_terms};
use std::fmt::Write as _;
use thalweg_kernel::QueueLimits;
use thalweg_stomp::Headers;

/// What headers say about a queue.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) durable: Option<bool>,
    pub(super) auto_delete: Option<bool>,
    pub(super) exclusive: Option<bool>,
    pub(super) limits: QueueLimits,
    /// Whether anything is said.
    pub(super) are_any: bool,
    /// The queue shall be called so.
    pub(super) name: Option<Box<str>>,
}

impl Wishes {
    /// Reads the headers that RabbitMQ knows, by the names it gives them.
    pub(super) fn read(headers: &Headers<'_>, tenant: &str) -> Result<Wishes, Trouble> {
        let mut wishes = Wishes::default();
        let mut arguments = Vec::new();
        let mut table = TermWriter::new(&mut arguments);
        for (name, value) in headers.iter_first() {
            match &*name {
                "durable" => wishes.durable = Some(truth(&name, &value)?),
                "auto-delete" => wishes.auto_delete = Some(truth(&name, &value)?),
                "exclusive" => wishes.exclusive = Some(truth(&name, &value)?),
                "x-queue-name" => wishes.name = Some(value.into()),
                "x-message-ttl" | "x-expires" | "x-max-length" | "x-max-length-bytes"
                | "x-max-priority" | "x-delivery-limit" => {
                    table.value(&name, number(&name, &value)?);
                }
                "x-single-active-consumer" => _ = table.bool(&name, truth(&name, &value)?),
                "x-overflow"
                | "x-queue-type"
                | "x-dead-letter-exchange"
                | "x-dead-letter-routing-key" => _ = table.str(&name, &value),
                _ => continue,
            }
            wishes.are_any = true;
        }
        wishes.limits = queue_terms(table.finish(), "the queue", tenant)
            .map_err(|why| Trouble::new("precondition_failed", why))?;
        Ok(wishes)
    }
}

/// Some clients write `True` and `False`.
pub(super) fn truth(name: &str, value: &str) -> Result<bool, Trouble> {
    match value.trim() {
        value if value.eq_ignore_ascii_case("true") => Ok(true),
        value if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(wrong(name, value, "true or false")),
    }
}

fn number(name: &str, value: &str) -> Result<Term<'static>, Trouble> {
    let text = value.trim();
    let number = text.parse().map(Term::I64);
    number
        .or_else(|_| text.parse().map(Term::U64))
        .map_err(|_| wrong(name, value, "a whole number that is not too large"))
}

fn wrong(name: &str, value: &str, should: &str) -> Trouble {
    Trouble::new(
        "precondition_failed",
        format!("header '{name}' is '{value}', but should be {should}\n"),
    )
}

/// The longest name that every protocol can say.
const NAME_BYTES_MAX: usize = 255;

/// The name of the queue behind a durable subscription: the same parts give the same queue, on any connection.
pub(super) fn durable_name(parts: &[&str]) -> String {
    let mut name = String::from(DURABLE_QUEUES);
    for part in parts {
        name.push(':');
        name.push_str(part);
    }
    if name.len() > NAME_BYTES_MAX {
        let hash = fnv(name.as_bytes());
        let mut end = NAME_BYTES_MAX - 33;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        let _ = write!(name, ":{hash:032x}");
    }
    name
}

/// FNV-1a, 128 bits: tells long names apart.
fn fnv(bytes: &[u8]) -> u128 {
    let step = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
    };
    bytes
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_durable_subscriptions_fit_and_differ() {
        assert_eq!(
            durable_name(&["7", "/topic/a.b"]),
            "stomp-durable:7:/topic/a.b"
        );
        let (one, two) = ("é".repeat(300), "é".repeat(301));
        let (one, two) = (durable_name(&["7", &one]), durable_name(&["7", &two]));
        assert!(
            one.len() <= NAME_BYTES_MAX && two.len() <= NAME_BYTES_MAX && one != two,
            "{one}"
        );
    }
}
