//! How protocols write addresses and filters, and how we do: pure text to text, exact both ways.
//!
//! Ours is the canonical rendering of [`thalweg_model::Address`]: levels joined by `/`. A protocol that joins levels by
//! another character is a [`Syntax`]. What a level holds that would be read as something else is written `%HH`
//! ([`Codes`]). Whatever a peer writes comes back to peers of its own protocol byte for byte.
//!
//! *Must never know:* a link, the kernel, a message.

use std::borrow::Cow;

/// Bytes that must not stand in a level as they are, and how they are written.
///
/// A byte of the set is written `%HH` in upper-case digits. A `%` that would then be read as the beginning of such a
/// code is written `%25`, which means: if any number of `25` and then a code of the set follow it. Nothing else is
/// touched, so text that merely holds `%` stays as it is, and each text has exactly one written form.
#[derive(Clone, Copy, Debug)]
pub struct Codes(&'static [u8]);

/// The codes of the canonical rendering.
pub const CANONICAL: Codes = Codes(b"/+#\0");

impl Codes {
    /// Appends a level as it is written.
    pub fn write(self, level: &str, out: &mut String) {
        let bytes = level.as_bytes();
        let mut plain = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let written = if self.0.contains(byte) {
                Some(hex(*byte))
            } else if *byte == b'%' && self.begins_code(&bytes[at..]) {
                Some(*b"%25")
            } else {
                None
            };
            if let Some(written) = written {
                // Cut at an ASCII byte: both sides are whole characters.
                out.push_str(&level[plain..at]);
                out.extend(written.map(char::from));
                plain = at + 1;
            }
        }
        out.push_str(&level[plain..]);
    }

    /// Appends what a written level says.
    pub fn read(self, written: &str, out: &mut String) {
        let bytes = written.as_bytes();
        let (mut plain, mut at) = (0, 0);
        while at < bytes.len() {
            if bytes[at] != b'%' || !self.begins_code(&bytes[at..]) {
                at += 1;
                continue;
            }
            out.push_str(&written[plain..at]);
            // `begins_code` has seen that two digits follow.
            let byte = code_of(&bytes[at..]).unwrap_or(b'%');
            out.push(char::from(byte));
            at += 3;
            plain = at;
        }
        out.push_str(&written[plain..]);
    }

    /// Whether this begins with `%`, any number of `25` and a code of the set.
    fn begins_code(self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(byte) = code_of(rest) {
            if self.0.contains(&byte) {
                return true;
            }
            // `%25`: what stands behind it is read as if the `%` stood directly before it.
            let Some(behind) = rest.get(2..).filter(|_| byte == b'%') else { return false };
            rest = behind;
        }
        false
    }
}

/// The byte that `%HH` or, inside a row of `25`, `5HH` stands for.
fn code_of(bytes: &[u8]) -> Option<u8> {
    let [_, high, low, ..] = bytes else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn hex(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// How a protocol writes levels and wildcards.
#[derive(Clone, Copy, Debug)]
pub struct Syntax {
    separator: char,
    one: &'static str,
    many: &'static str,
    codes: Codes,
}

/// AMQP topic exchanges, and STOMP as RabbitMQ has it: `a.b`, `*`, `#`.
pub const AMQP: Syntax = Syntax { separator: '.', one: "*", many: "#", codes: Codes(b".") };
/// STOMP as ActiveMQ has it: `a.b`, `*`, `>`.
pub const ACTIVEMQ: Syntax = Syntax { separator: '.', one: "*", many: ">", codes: Codes(b".") };
/// STOMP with destinations that look like MQTT topics: `a/b`, `+`, `#`.
pub const SLASH: Syntax = Syntax { separator: '/', one: "+", many: "#", codes: Codes(b"/") };

impl Syntax {
    /// Appends the canonical address for what a peer publishes to.
    pub fn read_address(self, text: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in text.split(self.separator).enumerate() {
            if at > 0 {
                out.push('/');
            }
            self.read_literal(level, &mut level_read, out);
        }
    }

    /// Appends a canonical address as the peer would have written it to publish there.
    pub fn write_address(self, canonical: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in canonical.split('/').enumerate() {
            if at > 0 {
                out.push(self.separator);
            }
            self.write_literal(level, &mut level_read, out);
        }
    }

    /// Appends the canonical filter (`+`, `#`) for what a peer wants. A level that is exactly `%HH` of a wildcard
    /// means that character. Whether the filter is legal is for the kernel to say.
    pub fn read_filter(self, text: &str, out: &mut String) {
        let mut level_read = String::new();
        for (at, level) in text.split(self.separator).enumerate() {
            if at > 0 {
                out.push('/');
            }
            if level == self.one {
                out.push('+');
            } else if level == self.many {
                out.push('#');
            } else if let Some(wildcard) = self.escaped_wildcard(level) {
                self.read_literal(&wildcard, &mut level_read, out);
            } else {
                self.read_literal(level, &mut level_read, out);
            }
        }
    }

    /// Appends a canonical filter as the peer would have written it.
    pub fn write_filter(self, canonical: &str, out: &mut String) {
        let (mut level_read, mut literal) = (String::new(), String::new());
        for (at, level) in canonical.split('/').enumerate() {
            if at > 0 {
                out.push(self.separator);
            }
            match level {
                "+" => out.push_str(self.one),
                "#" => out.push_str(self.many),
                _ => {
                    literal.clear();
                    self.write_literal(level, &mut level_read, &mut literal);
                    if literal == self.one || literal == self.many {
                        out.extend(literal.bytes().flat_map(hex).map(char::from));
                    } else if self.escaped_wildcard(&literal).is_some() {
                        // The level is the code itself: one more `25` tells it from the character.
                        out.push_str("%25");
                        out.push_str(&literal[1..]);
                    } else {
                        out.push_str(&literal);
                    }
                }
            }
        }
    }

    /// What a level that is exactly `%HH` of a wildcard, with any number of `25` before the digits, says.
    fn escaped_wildcard(self, level: &str) -> Option<Cow<'static, str>> {
        let mut rest = level.strip_prefix('%')?;
        let mut depth = 0_usize;
        loop {
            for wildcard in [self.one, self.many] {
                let code = wildcard.bytes().next().map(hex)?;
                if rest.as_bytes() == &code[1..] {
                    return Some(match depth {
                        0 => Cow::Borrowed(wildcard),
                        _ => Cow::Owned(format!("%{}{rest}", "25".repeat(depth - 1))),
                    });
                }
            }
            rest = rest.strip_prefix("25")?;
            depth += 1;
        }
    }

    fn read_literal(self, level: &str, level_read: &mut String, out: &mut String) {
        if is_plain(level) {
            return out.push_str(level);
        }
        level_read.clear();
        self.codes.read(level, level_read);
        CANONICAL.write(level_read, out);
    }

    fn write_literal(self, level: &str, level_read: &mut String, out: &mut String) {
        if is_plain(level) {
            return out.push_str(level);
        }
        level_read.clear();
        CANONICAL.read(level, level_read);
        self.codes.write(level_read, out);
    }
}

/// Whether a level reads the same in every syntax.
fn is_plain(level: &str) -> bool {
    !level.bytes().any(|byte| matches!(byte, b'%' | b'.' | b'/' | b'+' | b'#' | 0))
}

/// What a canonical address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A queue.
    Queue {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// Its name, as clients say it.
        name: Cow<'a, str>,
    },
    /// What was published to an exchange.
    Exchange {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// The exchange's name, as clients say it.
        name: Cow<'a, str>,
        /// The key's words as levels; [`write_key`] makes a key of them.
        words: &'a str,
    },
    /// Any other address.
    Plain {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// The address within the tenant.
        address: &'a str,
    },
}

/// What a canonical address names.
pub fn place(canonical: &str) -> Place<'_> {
    let plain = Place::Plain { tenant: "", address: canonical };
    let Some(reserved) = canonical.strip_prefix('$') else { return plain };
    let (first, rest) = reserved.split_once('/').unwrap_or((reserved, ""));
    let (kind, tenant) = first.split_once('@').unwrap_or((first, ""));
    match kind {
        "q" if !rest.contains('/') => Place::Queue { tenant, name: read_level(rest) },
        "x" => {
            let (name, words) = rest.split_once('/').unwrap_or((rest, ""));
            Place::Exchange { tenant, name: read_level(name), words }
        }
        "t" if !tenant.is_empty() => Place::Plain { tenant, address: rest },
        _ => plain,
    }
}

/// Appends the canonical address of a plain address in a tenant.
pub fn in_tenant(tenant: &str, address: &str, out: &mut String) {
    if !tenant.is_empty() {
        out.push_str("$t@");
        out.push_str(tenant);
        out.push('/');
    }
    out.push_str(address);
}

/// Appends the key whose words are these levels.
pub fn write_key(words: &str, out: &mut String) {
    for (at, word) in words.split('/').enumerate() {
        if at > 0 {
            out.push('.');
        }
        CANONICAL.read(word, out);
    }
}

/// What a level of a canonical address says.
pub fn read_level(level: &str) -> Cow<'_, str> {
    if !level.contains('%') {
        return Cow::Borrowed(level);
    }
    let mut read = String::with_capacity(level.len());
    CANONICAL.read(level, &mut read);
    Cow::Owned(read)
}

/// A text as one level of a canonical address.
pub fn write_level(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 8);
    CANONICAL.write(text, &mut written);
    Cow::Owned(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(syntax: Syntax, text: &str) -> String {
        let mut out = String::new();
        syntax.read_address(text, &mut out);
        out
    }

    fn back(syntax: Syntax, canonical: &str) -> String {
        let mut out = String::new();
        syntax.write_address(canonical, &mut out);
        out
    }

    fn filter(syntax: Syntax, text: &str) -> String {
        let mut out = String::new();
        syntax.read_filter(text, &mut out);
        out
    }

    fn filter_back(syntax: Syntax, canonical: &str) -> String {
        let mut out = String::new();
        syntax.write_filter(canonical, &mut out);
        out
    }

    const ALL: [Syntax; 3] = [AMQP, ACTIVEMQ, SLASH];

    /// Text in which everything that means something somewhere is frequent.
    fn tricky() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("%"),
            Just("%25"),
            Just("25"),
            Just("%2F"),
            Just("2F"),
            Just("%2E"),
            Just("2E"),
            Just("%2A"),
            Just("2A"),
            Just("%23"),
            Just("%3E"),
            Just("*"),
            Just("#"),
            Just(">"),
            Just("+"),
            Just("."),
            Just("/"),
            Just("a"),
            Just("é"),
            Just("\0"),
            Just("%00"),
            Just("%2B"),
            Just("%2e"),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// The same, as a topic of MQTT can be.
    fn topic() -> impl Strategy<Value = String> {
        tricky().prop_map(|text| text.replace(['+', '#', '\0'], "x"))
    }

    proptest! {
        #[test]
        fn a_level_is_read_as_it_was_written(text in tricky()) {
            for codes in [CANONICAL, AMQP.codes] {
                let mut written = String::new();
                codes.write(&text, &mut written);
                prop_assert!(!written.bytes().any(|byte| codes.0.contains(&byte)), "{written}");
                let mut read = String::new();
                codes.read(&written, &mut read);
                prop_assert_eq!(&read, &text);
            }
        }

        #[test]
        fn what_a_peer_writes_comes_back_to_its_protocol_byte_for_byte(text in tricky()) {
            for syntax in ALL {
                let canonical = address(syntax, &text);
                if !text.is_empty() {
                    prop_assert_eq!(thalweg_model::Address::check(&canonical), Ok(()), "{}", text);
                }
                prop_assert_eq!(back(syntax, &canonical), text.clone(), "by {}", canonical);
            }
        }

        #[test]
        fn any_topic_survives_every_protocol_and_back(topic in topic()) {
            for syntax in ALL {
                let theirs = back(syntax, &topic);
                prop_assert_eq!(address(syntax, &theirs), topic.clone(), "by {}", theirs);
            }
        }

        #[test]
        fn a_filter_of_a_peer_comes_back_and_so_does_one_of_ours(text in tricky(), ours in topic()) {
            for syntax in ALL {
                let canonical = filter(syntax, &text);
                prop_assert_eq!(filter_back(syntax, &canonical), text.clone(), "by {}", canonical);
                for ours in [ours.clone(), format!("{ours}/+/x/#")] {
                    let theirs = filter_back(syntax, &ours);
                    prop_assert_eq!(filter(syntax, &theirs), ours, "by {}", theirs);
                }
            }
        }

        #[test]
        fn keys_of_exchanges_come_back(key in tricky()) {
            // As topic exchanges have them, a level per word, and as others do, one level.
            let words: Vec<String> = key.split('.').map(|word| write_level(word).into_owned()).collect();
            for levels in [words.join("/"), write_level(&key).into_owned()] {
                let mut read = String::new();
                write_key(&levels, &mut read);
                prop_assert_eq!(&read, &key);
            }
        }
    }

    #[test]
    fn dots_and_slashes_change_places_and_what_was_there_is_escaped() {
        for (theirs, ours) in [
            ("a.b", "a/b"),
            ("a..b.", "a//b/"),
            (".", "/"),
            ("a/b", "a%2Fb"),
            ("sensors.1%2E5", "sensors/1.5"),
            ("a.#.+", "a/%23/%2B"),
            ("100%", "100%"),
            ("%25", "%25"),
            ("a%252E", "a%2E"),
        ] {
            assert_eq!(address(AMQP, theirs), ours);
            assert_eq!(back(AMQP, ours), theirs);
        }
    }

    #[test]
    fn wildcards_become_ours_and_literal_ones_can_be_said() {
        for (syntax, theirs, ours) in [
            (AMQP, "a.*.#", "a/+/#"),
            (AMQP, "#.b", "#/b"),
            (AMQP, "a*.b#", "a*/b%23"),
            (AMQP, "a.%2A.%23", "a/*/%23"),
            (AMQP, "%252A", "%2A"),
            (AMQP, "a.+", "a/%2B"),
            (ACTIVEMQ, "a.*.>", "a/+/#"),
            (ACTIVEMQ, "a.#", "a/%23"),
            (SLASH, "a/+/#", "a/+/#"),
            (SLASH, "a/%2B", "a/%2B"),
        ] {
            assert_eq!(filter(syntax, theirs), ours, "{theirs}");
            assert_eq!(filter_back(syntax, ours), theirs, "{ours}");
        }
    }

    #[test]
    fn reserved_addresses_say_what_they_name() {
        let queue = |tenant, name: &'static str| Place::Queue { tenant, name: name.into() };
        let exchange = |tenant, name: &'static str, words| Place::Exchange { tenant, name: name.into(), words };
        assert_eq!(place("$q/work"), queue("", "work"));
        assert_eq!(place("$q@blue/a%2Fb"), queue("blue", "a/b"));
        assert_eq!(place("$x/logs/a/b"), exchange("", "logs", "a/b"));
        assert_eq!(place("$x@blue/logs/"), exchange("blue", "logs", ""));
        assert_eq!(place("a/b"), Place::Plain { tenant: "", address: "a/b" });
        assert_eq!(place("$t@blue/a/b"), Place::Plain { tenant: "blue", address: "a/b" });
        assert_eq!(place("$SYS/x"), Place::Plain { tenant: "", address: "$SYS/x" });
        assert_eq!(place("$q/a/b"), Place::Plain { tenant: "", address: "$q/a/b" });
    }
}
