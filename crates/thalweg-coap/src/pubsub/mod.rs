//! Topics of the pubsub draft: what their configuration says and how it is written. draft-ietf-core-coap-pubsub.
//!
//! A topic's configuration is a CBOR map from small numbers to values ([`Property`] has the table). A peer makes one
//! with the first map it sends ([`Configuration::decode`]), changes it with others ([`Configuration::replaced_by`],
//! [`Configuration::patched_by`]), asks for parts of it ([`Selection`]) and for topics that are like it
//! ([`TopicFilter`]). All of it is values: what a map would make of a configuration is answered without making it.
//!
//! *Must never know:* which topics there are, where their data are, what time it is.
//!
//! The clauses that are cited are those of the working group's text after revision -19.

mod configuration;
mod field;
mod filter;
mod property;
mod refusal;
#[cfg(test)]
mod tests;
mod walk;

pub use configuration::Configuration;
pub use filter::TopicFilter;
pub use property::{Property, Selection};
pub use refusal::{Refusal, Unfit};

/// The Content-Format of `application/core-pubsub+cbor`, §6.2. The draft asks for it and writes TBD606; the registry has
/// not assigned it yet.
pub const CONTENT_FORMAT: u16 = 606;

/// The resource type of a broker, §6.3.
pub const RT_BROKER: &str = "core.ps";
/// The resource type of a topic collection, §6.3.
pub const RT_COLLECTION: &str = "core.ps.coll";
/// The resource type of a topic, §6.3.
pub const RT_TOPIC: &str = "core.ps.conf";
/// The resource type of a topic's data, §6.3; also the usual value of [`Property::ResourceType`].
pub const RT_DATA: &str = "core.ps.data";

/// The default of [`Property::ObserverCheck`]: 24 hours, §2.2.1 and RFC 7641 §4.5.
pub const OBSERVER_CHECK_DEFAULT: u32 = 86_400;

/// The longest payload that is read. A configuration is small; what may be large in it is `initialize`.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The longest text of a property.
pub const TEXT_BYTES_MAX: usize = 1_024;
