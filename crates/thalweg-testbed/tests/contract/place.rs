//! Where messages go, in the words of each protocol.

use thalweg_model::syntax::{DOTTED_WITHOUT_SLASH, Syntax, read_level};
use thalweg_stomp::Destination;

/// Where something is published or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A plain address, in the canonical rendering.
    Address(&'a str),
    /// A queue that exists, by its name.
    Queue(&'a str),
}

impl Place<'_> {
    /// An address as one publishes to it in this syntax.
    pub fn key(address: &str, syntax: Syntax) -> String {
        let mut key = String::new();
        syntax.write_address(address, &mut key);
        key
    }

    /// An address as one asks for it in this syntax: what would be a wildcard is written otherwise.
    pub fn pattern(address: &str, syntax: Syntax) -> String {
        let mut pattern = String::new();
        syntax.write_filter(address, &mut pattern);
        pattern
    }

    pub fn topic(self) -> String {
        match self {
            Place::Address(address) => address.to_owned(),
            Place::Queue(name) => thalweg_kernel::queue_address("", name).to_string(),
        }
    }

    /// A destination of STOMP; only the name of a topic depends on the operation.
    pub fn destination(self, name: fn(&str, Syntax) -> String) -> String {
        match self {
            Place::Address(address) => {
                Destination::Topic(&name(address, DOTTED_WITHOUT_SLASH)).to_string()
            }
            Place::Queue(name) => Destination::AmqQueue(name.into()).to_string(),
        }
    }

    /// The path of a resource, every byte of its levels as `%HH`.
    pub fn path(self) -> String {
        let mut path = String::new();
        let mut level = |bytes: &[u8]| {
            path.push('/');
            path.extend(bytes.iter().map(|byte| format!("%{byte:02X}")));
        };
        match self {
            Place::Address(address) => {
                level(b"ps");
                level(b"data");
                for part in address.split('/') {
                    level(read_level(part).as_bytes());
                }
            }
            Place::Queue(name) => {
                level(b"q");
                level(name.as_bytes());
            }
        }
        path
    }
}
