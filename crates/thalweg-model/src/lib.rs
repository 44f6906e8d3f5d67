//! The words that every layer of Thalweg shares: addresses, filters, messages, reliability, ids and time.
//!
//! *Knows:* nothing but itself. *Must never know:* a protocol, a socket, a file, a clock or a thread; time comes in as
//! a value. Start reading at [`Message`], then [`Address`] and [`Filter`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
pub mod calendar;
pub mod filter;
mod message;
pub mod octets;
pub mod place;
pub mod presence;
mod properties;
mod stamp;
pub mod syntax;
pub mod tenant;
mod time;

pub use address::{Address, AddressError, LEVEL_SEPARATOR, TENANT_DEFAULT, first_level};
pub use filter::{Filter, FilterError, FilterKind, Level};
pub use message::{Message, Reliability, RetainOp};
pub use properties::{Death, DeathReason, Details, NativeProperties, Properties, PropertyValue};
pub use stamp::{STAMP_OPTION, STAMP_PROPERTY, STAMPS_ANNOUNCEMENT, Stamp, StampError};
pub use time::{Span, Time};
