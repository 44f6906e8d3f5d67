//! Kinds of canonical addresses: queues, messages published to exchanges, and all others.

use std::borrow::Cow;

use crate::syntax::read_level;

/// The object that a canonical address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A named queue, `$q/<name>`.
    Queue {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// Its name, as clients say it.
        name: Cow<'a, str>,
    },
    /// A message published to an exchange.
    Exchange {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// The exchange's name, as clients say it.
        name: Cow<'a, str>,
        /// The key's words as levels; [`crate::syntax::write_key`] makes a key of them.
        words: &'a str,
    },
    /// An address that is no queue's and no exchange's.
    Plain {
        /// The tenant; empty for the default one.
        tenant: &'a str,
        /// The address within the tenant.
        address: &'a str,
    },
}

/// Returns the object that a canonical address names.
pub fn place(canonical: &str) -> Place<'_> {
    let plain = Place::Plain {
        tenant: "",
        address: canonical,
    };
    let Some(reserved) = canonical.strip_prefix('$') else {
        return plain;
    };
    let (first, rest) = reserved.split_once('/').unwrap_or((reserved, ""));
    let (kind, tenant) = first.split_once('@').unwrap_or((first, ""));
    match kind {
        "q" if !rest.contains('/') => Place::Queue {
            tenant,
            name: read_level(rest),
        },
        "x" => {
            let (name, words) = rest.split_once('/').unwrap_or((rest, ""));
            Place::Exchange {
                tenant,
                name: read_level(name),
                words,
            }
        }
        "t" if !tenant.is_empty() => Place::Plain {
            tenant,
            address: rest,
        },
        _ => plain,
    }
}
