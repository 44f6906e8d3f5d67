//! What peers say of exchanges and bindings.

use crate::made_up::reserved_address;
use thalweg_model::PropertyValue;

/// How an exchange compares keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The key is the binding's.
    Direct,
    Fanout,
    /// Word by word, with wildcards.
    Topic,
    /// Not at all; the binding's arguments are compared with the message's properties.
    Headers,
}

/// An exchange, as a client declares it.
#[derive(Clone, Debug)]
pub struct ExchangeSpec<'a> {
    /// Its address, see [`exchange_address`].
    pub address: &'a str,
    pub kind: ExchangeKind,
    /// It outlives the broker.
    pub durable: bool,
    /// It ends with its last binding.
    pub auto_delete: bool,
    /// Peers cannot publish to it.
    pub internal: bool,
    /// The address of the exchange that gets what no binding leads on.
    pub alternate: Option<&'a str>,
}

/// Whereto an exchange's messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindTo<'a> {
    /// The queue of this address.
    Queue(&'a str),
    /// The exchange of this address.
    Exchange(&'a str),
}

#[derive(Clone, Debug)]
pub struct BindSpec<'a> {
    /// The address of the exchange.
    pub exchange: &'a str,
    pub to: BindTo<'a>,
    /// The key, as its maker wrote it.
    pub key: &'a str,
    /// What headers exchanges compare, the rule itself (`x-match`) included.
    pub arguments: &'a [(Box<str>, PropertyValue)],
}

/// The address of the exchange `name` of a tenant; the default tenant's name is empty.
pub fn exchange_address(tenant: &str, name: &str) -> String {
    reserved_address('x', tenant, name)
}
