//! Where presence is published: `$presence/<name>`, of clients in a tenant `$presence@<tenant>/<name>`. Whatever else a
//! tenant's own clients can name lies below `$t@<tenant>`, so none of its wildcards reaches there. A name that its bearer
//! only claims has a level more, so that it is not taken for the name's owner: `$presence/<protocol>/<name>`.

use std::borrow::Cow;

use crate::syntax::{read_level, write_level};

/// The first level of the addresses, without a tenant.
const FIRST: &str = "$presence";

/// The canonical address at which the presence of a client of this name is published.
pub fn address(tenant: &str, name: &str) -> String {
    let at = if tenant.is_empty() { "" } else { "@" };
    format!("{FIRST}{at}{tenant}/{}", write_level(name))
}

/// The same of a name that its bearer only claims, in a protocol with this name (one level, e.g. `amqp`).
pub fn claimed_address(tenant: &str, protocol: &str, name: &str) -> String {
    let at = if tenant.is_empty() { "" } else { "@" };
    format!("{FIRST}{at}{tenant}/{protocol}/{}", write_level(name))
}

/// The client that an address of presence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceName<'a> {
    /// The client's name, decoded.
    pub name: Cow<'a, str>,
    /// The protocol in which the name is only claimed; nothing if it is its bearer's.
    pub claimed_in: Option<&'a str>,
}

/// Whether an address or filter is one of presence: the broker alone publishes there.
#[inline]
pub fn is_presence(text: &str) -> bool {
    // Asked for every publish, and nearly always answered by the first byte.
    text.as_bytes().first() == Some(&b'$') && is_below_first(text)
}

#[cold]
fn is_below_first(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(FIRST) else {
        return false;
    };
    matches!(rest.bytes().next(), None | Some(b'/' | b'@'))
}

/// The client whose presence is published at an address; `None` for any other address.
pub fn name_of(address: &str) -> Option<PresenceName<'_>> {
    let (_, levels) = address.split_once('/').filter(|_| is_presence(address))?;
    let (claimed_in, level) = match levels.split_once('/') {
        Some((protocol, level)) => (Some(protocol), level),
        None => (None, levels),
    };
    (!level.contains('/')).then(|| PresenceName {
        name: read_level(level),
        claimed_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_an_address_of_one_level() {
        for (tenant, name, told) in [
            ("", "gateway-7", "$presence/gateway-7"),
            ("blue", "gateway-7", "$presence@blue/gateway-7"),
            ("", "a/b", "$presence/a%2Fb"),
            ("", "+", "$presence/%2B"),
            ("", "#", "$presence/%23"),
            ("", "", "$presence/"),
            ("", "100%", "$presence/100%"),
            ("", "a%2Fb", "$presence/a%252Fb"),
            ("", "a b\0é", "$presence/a b%00é"),
        ] {
            assert_eq!(address(tenant, name), told);
            assert_eq!(
                name_of(told),
                Some(PresenceName {
                    name: name.into(),
                    claimed_in: None
                })
            );
            assert_eq!(crate::Address::check(told), Ok(()));
            let claimed = claimed_address(tenant, "amqp", name);
            assert_eq!(
                name_of(&claimed),
                Some(PresenceName {
                    name: name.into(),
                    claimed_in: Some("amqp")
                })
            );
        }
    }

    #[test]
    fn what_only_looks_alike_is_another_address() {
        for text in [
            "$presence",
            "$presence/#",
            "$presence/+",
            "$presence@blue/x",
        ] {
            assert!(is_presence(text), "{text}");
        }
        for text in [
            "$presences/x",
            "presence/x",
            "x/$presence/y",
            "$SYS/x",
            "$t@blue/$presence/x",
            "",
        ] {
            assert!(!is_presence(text), "{text}");
            assert_eq!(name_of(text), None);
        }
        assert_eq!(
            (name_of("$presence"), name_of("$presence/a/b/c")),
            (None, None)
        );
        // A name with a slash is one level: it is not another protocol's.
        assert_eq!(
            name_of(&address("", "amqp/pump")).and_then(|told| told.claimed_in),
            None
        );
    }
}
