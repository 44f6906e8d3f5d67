//! What things are called: replies, routing keys of deliveries, reserved names. Pure text to text.

use crate::address::{self, Place};
use std::borrow::Cow;
use thalweg_kernel::queue_address;

/// The pseudo queue: a client that consumes from it gets a queue of its own for replies.
pub(super) const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";
/// Begins the names that only the server gives.
pub(super) const RESERVED: &str = "amq.";
/// The exchange whose keys are plain addresses.
pub(super) const TOPICS: &str = "amq.topic";
/// Begins a key of the default exchange that is an address of another protocol, so that it can be answered there.
const ALIAS: &str = "$a/";
/// Begin the names of queues that are the groups of shared subscriptions.
const GROUPS: [&str; 2] = ["$share/", "$g/"];
/// Bytes of a short string.
const KEY_BYTES_MAX: usize = 255;

/// Appends the canonical address that a key of the default exchange leads to.
pub(super) fn write_default_address(tenant: &str, key: &str, out: &mut String) {
    match key.strip_prefix(ALIAS) {
        Some(address) if !address.is_empty() => address::in_tenant(tenant, address, out),
        _ => out.push_str(&queue_address(tenant, key)),
    }
}

/// The reply-to by which a peer reaches a canonical address.
pub(super) fn reply_key(canonical: &str) -> Cow<'_, str> {
    match address::place(canonical) {
        Place::Queue { name, .. } => name,
        Place::Plain { address, .. } => Cow::Owned(format!("{ALIAS}{address}")),
        Place::Exchange { .. } => Cow::Owned(format!("{ALIAS}{canonical}")),
    }
}

/// The canonical address that a reply-to names.
pub(super) fn reply_address(tenant: &str, key: &str) -> String {
    let mut address = String::new();
    write_default_address(tenant, key, &mut address);
    address
}

/// The group that a queue's name means, as the kernel has it: `$share/g/f` as MQTT writes it, or `$g/g/f`.
pub(super) fn group_source(tenant: &str, name: &str) -> Option<String> {
    let (group, filter) = GROUPS
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?
        .split_once('/')?;
    let mut source = format!("$g/{group}/");
    address::in_tenant(tenant, filter, &mut source);
    Some(source)
}

/// A name that was made up of these bits.
pub(super) fn fresh(prefix: &str, bits: u128) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letters = (0..22).map(|at| char::from(LETTERS[(bits >> (6 * at)) as usize & 63]));
    prefix.chars().chain(letters).collect()
}

/// The name of a queue or an exchange as RabbitMQ declares, binds and deletes it: line ends are left out.
pub(super) fn in_one_line(name: &str) -> Cow<'_, str> {
    match name.contains(['\r', '\n']) {
        true => Cow::Owned(name.replace(['\r', '\n'], "")),
        false => Cow::Borrowed(name),
    }
}

/// Exchange and routing key of a message, as it is delivered.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The canonical address it was made of.
    pub(super) address: String,
    pub(super) exchange: String,
    pub(super) key: String,
    /// The key did not fit; it begins like the whole one and ends in a hash of it.
    pub(super) is_cut: bool,
}

impl Origin {
    /// Makes this the origin of a message with that address.
    #[inline]
    pub(super) fn set(&mut self, address: &str) {
        if !is_same(self.address.as_bytes(), address.as_bytes()) {
            self.make(address);
        }
    }

    fn make(&mut self, address: &str) {
        self.address.clear();
        self.address.push_str(address);
        self.exchange.clear();
        self.key.clear();
        match address::place(address) {
            Place::Queue { name, .. } => self.key.push_str(&name),
            Place::Exchange { name, words, .. } => {
                self.exchange.push_str(&name);
                address::write_key(words, &mut self.key);
            }
            Place::Plain { address, .. } => {
                self.exchange.push_str(TOPICS);
                address::DOTTED.write_address(address, &mut self.key);
            }
        }
        self.is_cut = self.key.len() > KEY_BYTES_MAX;
        if self.is_cut {
            let hash = format!("~{:016x}", hash(self.key.as_bytes()));
            self.key
                .truncate(self.key.floor_char_boundary(KEY_BYTES_MAX - hash.len()));
            self.key.push_str(&hash);
        }
    }
}

/// Whether these are the same, for texts of a few words: most are shorter than it takes to call for help.
#[inline]
pub(super) fn is_same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let (one, two) = (one.as_chunks::<8>(), two.as_chunks::<8>());
    one.0
        .iter()
        .zip(two.0)
        .all(|(one, two)| u64::from_ne_bytes(*one) == u64::from_ne_bytes(*two))
        && one.1.iter().zip(two.1).all(|(one, two)| one == two)
}

/// FNV-1a: tells cut keys apart, and is the same on every machine.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str) -> (String, String, bool) {
        let mut origin = Origin::default();
        origin.set(address);
        (origin.exchange, origin.key, origin.is_cut)
    }

    #[test]
    fn a_delivery_names_the_exchange_and_key_that_a_publisher_would_have_used() {
        for (address, exchange, key) in [
            ("$q/work", "", "work"),
            ("$q/a%2Fb", "", "a/b"),
            ("$q@blue/work", "", "work"),
            ("$x/logs/a/b", "logs", "a.b"),
            ("$x/amq.direct/a.b", "amq.direct", "a.b"),
            ("$x/logs/", "logs", ""),
            ("sensors/1.5", "amq.topic", "sensors.1%2E5"),
            ("$t@blue/a/b", "amq.topic", "a.b"),
        ] {
            assert_eq!(
                origin(address),
                (exchange.to_string(), key.to_string(), false),
                "{address}"
            );
        }
    }

    #[test]
    fn texts_are_the_same_if_every_byte_is() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).collect();
            assert!(is_same(&text, &text.clone()));
            assert!(!is_same(&text, &[&text[..], &[0]].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!is_same(&text, &other), "{len} {at}");
            }
        }
    }

    #[test]
    fn groups_are_queues_by_two_names() {
        for name in ["$share/g/a/+", "$g/g/a/+"] {
            assert_eq!(group_source("", name).as_deref(), Some("$g/g/a/+"));
            assert_eq!(
                group_source("blue", name).as_deref(),
                Some("$g/g/$t@blue/a/+")
            );
        }
        assert_eq!(
            (group_source("", "q"), group_source("", "$share/g")),
            (None, None)
        );
    }

    #[test]
    fn a_key_that_does_not_fit_is_cut_and_still_tells_addresses_apart() {
        let (one, two) = (
            format!("{}1", "ä".repeat(200)),
            format!("{}2", "ä".repeat(200)),
        );
        let ((_, one, cut), (_, two, _)) = (origin(&one), origin(&two));
        assert!(
            cut && one.len() <= 255 && one.starts_with("ää") && one != two,
            "{one} {two}"
        );
    }

    #[test]
    fn a_reply_to_leads_back_to_the_address_it_was_made_of() {
        for address in [
            "$q/replies",
            "$q/a%2Fb",
            "a/b",
            "reply/to/me.7",
            "$reply/00f1/2-1",
        ] {
            assert_eq!(reply_address("", &reply_key(address)), address);
        }
        for address in ["$q@blue/replies", "$t@blue/a/b"] {
            assert_eq!(reply_address("blue", &reply_key(address)), address);
        }
        assert_eq!(reply_key("a/b"), "$a/a/b");
    }
}
