//! Exchanges and bindings, as operators see them.

use super::binding::To;
use super::exchange::PREDECLARED;
use super::spec::{ExchangeKind, exchange_address};
use crate::Kernel;
use thalweg_model::PropertyValue;

#[derive(Clone, Debug)]
pub struct ExchangeView {
    pub address: Box<str>,
    pub kind: ExchangeKind,
    /// It outlives the broker.
    pub durable: bool,
    /// It ends with its last binding.
    pub auto_delete: bool,
    /// Peers cannot publish to it.
    pub internal: bool,
    /// The address of the exchange that gets what no binding leads on.
    pub alternate: Option<Box<str>>,
    pub bindings: Vec<BindingView>,
}

#[derive(Clone, Debug)]
pub struct BindingView {
    /// The address of the queue or exchange that it leads to.
    pub to: Box<str>,
    /// The key, as its maker wrote it.
    pub key: Box<str>,
    pub arguments: Box<[(Box<str>, PropertyValue)]>,
}

impl Kernel {
    /// Shows `f` every exchange: those of the default tenant that are always there, and all that were declared or bound.
    pub fn for_each_exchange(&self, mut f: impl FnMut(ExchangeView)) {
        for (name, kind) in PREDECLARED {
            let address = exchange_address("", name);
            if self.topology.exchange(&address).is_none() {
                f(ExchangeView {
                    address: address.into(),
                    kind,
                    durable: true,
                    auto_delete: false,
                    internal: false,
                    alternate: None,
                    bindings: Vec::new(),
                });
            }
        }
        for (address, exchange) in self.topology.exchanges() {
            let bindings = exchange
                .bindings
                .iter()
                .filter_map(|index| self.topology.binding(*index));
            f(ExchangeView {
                address: address.into(),
                kind: exchange.kind,
                durable: exchange.durable,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
                alternate: exchange.alternate.clone(),
                bindings: bindings
                    .map(|binding| BindingView {
                        to: match &binding.to {
                            To::Queue(index) => self
                                .queues
                                .get(*index)
                                .map_or("".into(), |queue| Box::from(&**queue.address())),
                            To::Exchange(address) => Box::from(&**address),
                        },
                        key: binding.key.clone(),
                        arguments: binding.arguments.clone(),
                    })
                    .collect(),
            });
        }
    }
}
