//! Exchanges, which say what goes into which queue, and bindings between them and to queues.
//!
//! An exchange is a reserved subtree of addresses, and what is written about it here; bindings stand in the route table like
//! subscriptions. The store is [`store::Topology`]. Start reading at `binding.rs`.

mod binding;
mod condition;
mod exchange;
mod maker;
mod spec;
mod store;
mod view;
mod written;

pub(crate) use binding::{Binding, filter_of, pattern_matches};
pub(crate) use condition::predicate_of;
pub(crate) use exchange::{Exchange, key_of, subtree, write_address};
pub(crate) use maker::{MadeBy, StoredMaker};
pub use spec::{BindSpec, BindTo, ExchangeKind, ExchangeSpec, exchange_address};
pub(crate) use store::Topology;
pub use view::{BindingView, ExchangeView};
