//! How protocols write addresses and filters, and how we do: pure text to text, exact both ways.
//!
//! Ours is the canonical rendering of [`thalweg_model::Address`]: levels joined by `/`. A protocol that joins levels by
//! another character is a [`Syntax`]. What a level holds that would be read as something else is written `%HH`
//! ([`Codes`]). Whatever a peer writes comes back to peers of its own protocol byte for byte.
//!
//! *Must never know:* a link, the kernel, a message.

pub use thalweg_model::place::{Place, place};
pub use thalweg_model::syntax::{
    CANONICAL, Codes, DOTTED, DOTTED_ARROW as ACTIVEMQ, DOTTED_WITHOUT_SLASH as RABBITMQ,
    SLASHED as SLASH, Syntax, read_level, write_key, write_level,
};

/// Appends the canonical address of a plain address in a tenant.
pub fn in_tenant(tenant: &str, address: &str, out: &mut String) {
    if !tenant.is_empty() {
        out.push_str("$t@");
        out.push_str(tenant);
        out.push('/');
    }
    out.push_str(address);
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

    const ALL: [Syntax; 3] = [DOTTED, ACTIVEMQ, SLASH];

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
            for syntax in ALL.into_iter().chain([RABBITMQ]) {
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
            assert_eq!(address(DOTTED, theirs), ours);
            assert_eq!(back(DOTTED, ours), theirs);
        }
    }

    #[test]
    fn wildcards_become_ours_and_literal_ones_can_be_said() {
        for (syntax, theirs, ours) in [
            (DOTTED, "a.*.#", "a/+/#"),
            (DOTTED, "#.b", "#/b"),
            (DOTTED, "a*.b#", "a*/b%23"),
            (DOTTED, "a.%2A.%23", "a/*/%23"),
            (DOTTED, "%252A", "%2A"),
            (DOTTED, "a.+", "a/%2B"),
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
        let queue = |tenant, name: &'static str| Place::Queue {
            tenant,
            name: name.into(),
        };
        let exchange = |tenant, name: &'static str, words| Place::Exchange {
            tenant,
            name: name.into(),
            words,
        };
        assert_eq!(place("$q/work"), queue("", "work"));
        assert_eq!(place("$q@blue/a%2Fb"), queue("blue", "a/b"));
        assert_eq!(place("$x/logs/a/b"), exchange("", "logs", "a/b"));
        assert_eq!(place("$x@blue/logs/"), exchange("blue", "logs", ""));
        assert_eq!(
            place("a/b"),
            Place::Plain {
                tenant: "",
                address: "a/b"
            }
        );
        assert_eq!(
            place("$t@blue/a/b"),
            Place::Plain {
                tenant: "blue",
                address: "a/b"
            }
        );
        assert_eq!(
            place("$SYS/x"),
            Place::Plain {
                tenant: "",
                address: "$SYS/x"
            }
        );
        assert_eq!(
            place("$q/a/b"),
            Place::Plain {
                tenant: "",
                address: "$q/a/b"
            }
        );
    }
}
