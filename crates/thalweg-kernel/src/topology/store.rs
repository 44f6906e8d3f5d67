//! Exchanges, and the bindings between them and to queues.
//!
//! *Knows:* what was declared, and what leads where. *Must never know:* a queue but by its index, a session, the route
//! table.

use super::binding::{Binding, To};
use super::exchange::{Exchange, exchange_of, predeclared};
use super::maker::MadeBy;
use super::spec::ExchangeKind;
use crate::ids::BindingId;
use crate::kernel::Map;
use crate::slots::Slots;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};
use thalweg_model::PropertyValue;

/// The exchanges and bindings of a shard.
#[derive(Default)]
pub(crate) struct Topology {
    exchanges: Map<Box<str>, Exchange>,
    /// Internal exchanges of other shards.
    internal_elsewhere: BTreeSet<Box<str>>,
    bindings: Slots<BindingId, Box<Binding>>,
    /// How many bindings there are.
    binding_count: usize,
    /// Bindings by what tells one from another, as a hash; nearly always one each.
    by_terms: Map<u64, SmallVec<[BindingId; 1]>>,
    /// Bindings that compare properties.
    comparing: usize,
}

impl Topology {
    // --- exchanges

    pub(crate) fn exchange(&self, address: &str) -> Option<&Exchange> {
        self.exchanges.get(address)
    }

    pub(crate) fn exchanges(&self) -> impl Iterator<Item = (&str, &Exchange)> {
        self.exchanges
            .iter()
            .map(|(address, exchange)| (&**address, exchange))
    }

    pub(crate) fn exchange_count(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether any exchange was declared or bound.
    pub(crate) fn has_exchanges(&self) -> bool {
        !self.exchanges.is_empty()
    }

    /// An exchange's kind, and whether it is internal.
    pub(crate) fn kind_of(&self, address: &str) -> Option<(ExchangeKind, bool)> {
        match self.exchanges.get(address) {
            Some(exchange) => Some((exchange.kind, exchange.internal)),
            None => predeclared(address).map(|kind| (kind, false)),
        }
    }

    /// Whether peers may not publish to an address, because its exchange is internal.
    pub(crate) fn is_internal(&self, address: &str) -> bool {
        if !address.starts_with("$x") {
            return false;
        }
        let exchange = exchange_of(address).0;
        let own = self.exchanges.get(&*exchange);
        own.is_some_and(|it| it.internal) || self.internal_elsewhere.contains(&*exchange)
    }

    /// An exchange of another shard is internal from now on, or no more.
    pub(crate) fn set_internal_elsewhere(&mut self, address: &str, is_internal: bool) {
        match is_internal {
            true => self.internal_elsewhere.insert(address.into()),
            false => self.internal_elsewhere.remove(address),
        };
    }

    pub(crate) fn is_durable(&self, address: &str) -> bool {
        self.exchanges
            .get(address)
            .is_none_or(|exchange| exchange.durable)
    }

    pub(crate) fn insert_exchange(&mut self, address: &str, exchange: Exchange) {
        self.exchanges.insert(address.into(), exchange);
    }

    pub(crate) fn remove_exchange(&mut self, address: &str) -> Option<Exchange> {
        self.exchanges.remove(address)
    }

    // --- bindings

    pub(crate) fn binding(&self, id: BindingId) -> Option<&Binding> {
        self.bindings.get(id).map(|binding| &**binding)
    }

    /// The binding that is at an index of the route table now.
    pub(crate) fn binding_at(&self, index: u32) -> Option<BindingId> {
        self.bindings.at(index)
    }

    pub(crate) fn binding_count(&self) -> usize {
        self.binding_count
    }

    /// Whether any binding compares properties.
    #[inline]
    pub(crate) fn compares_properties(&self) -> bool {
        self.comparing > 0
    }

    pub(crate) fn find_binding(
        &self,
        exchange: &str,
        to: &To,
        key: &str,
        arguments: &[(Box<str>, PropertyValue)],
    ) -> Option<BindingId> {
        let is = |id: &BindingId| {
            self.binding(*id).is_some_and(|binding| {
                *binding.exchange == *exchange
                    && binding.to == *to
                    && *binding.key == *key
                    && *binding.arguments == *arguments
            })
        };
        let terms = terms_of(self.by_terms.hasher(), exchange, to, key, arguments);
        self.by_terms.get(&terms)?.iter().copied().find(is)
    }

    /// Adds a binding from an exchange of `kind`; exchanges that every tenant has are here from now on.
    pub(crate) fn insert_binding(&mut self, binding: Binding, kind: ExchangeKind) -> BindingId {
        self.comparing += usize::from(binding.compares());
        let terms = self.terms_of(&binding);
        let (exchange, to) = (binding.exchange.clone(), binding.to.clone());
        let id = self.bindings.insert(Box::new(binding));
        self.binding_count += 1;
        self.by_terms.entry(terms).or_default().push(id);
        self.exchanges
            .entry(exchange)
            .or_insert_with(|| Exchange::predeclared(kind))
            .bindings
            .insert(id);
        if let To::Exchange(address) = &to
            && let Some((kind, _)) = self.kind_of(address)
        {
            self.exchanges
                .entry((**address).into())
                .or_insert_with(|| Exchange::predeclared(kind))
                .incoming
                .insert(id);
        }
        id
    }

    /// Removes a binding; the exchange that it came from may be without any then.
    pub(crate) fn remove_binding(&mut self, id: BindingId) -> Option<Box<Binding>> {
        let binding = self.bindings.remove(id)?;
        self.binding_count -= 1;
        self.comparing -= usize::from(binding.compares());
        let terms = self.terms_of(&binding);
        if let Some(known) = self.by_terms.get_mut(&terms) {
            known.retain(|other| *other != id);
            if known.is_empty() {
                self.by_terms.remove(&terms);
            }
        }
        if let To::Exchange(address) = &binding.to
            && let Some(exchange) = self.exchanges.get_mut(&**address)
        {
            exchange.incoming.remove(&id);
        }
        if let Some(exchange) = self.exchanges.get_mut(&*binding.exchange) {
            exchange.bindings.remove(&id);
        }
        Some(binding)
    }

    /// Replaces a binding's maker and returns the one it had.
    pub(crate) fn set_maker(&mut self, id: BindingId, made_by: MadeBy) -> Option<MadeBy> {
        let binding = self.bindings.get_mut(id)?;
        Some(std::mem::replace(&mut binding.made_by, made_by))
    }

    /// All queues, exchanges and bindings, by their maker.
    pub(crate) fn makers_mut(&mut self) -> impl Iterator<Item = &mut MadeBy> {
        let bindings = self.bindings.iter_mut();
        let exchanges = self.exchanges.values_mut();
        bindings
            .map(|(_, binding)| &mut binding.made_by)
            .chain(exchanges.map(|exchange| &mut exchange.made_by))
    }

    fn terms_of(&self, binding: &Binding) -> u64 {
        let Binding {
            exchange,
            to,
            key,
            arguments,
            ..
        } = binding;
        terms_of(self.by_terms.hasher(), exchange, to, key, arguments)
    }
}

/// A hash of what tells a binding from another.
fn terms_of(
    by: &impl BuildHasher,
    exchange: &str,
    to: &To,
    key: &str,
    arguments: &[(Box<str>, PropertyValue)],
) -> u64 {
    let mut hasher = by.build_hasher();
    exchange.hash(&mut hasher);
    key.hash(&mut hasher);
    match to {
        To::Queue(index) => index.hash(&mut hasher),
        To::Exchange(address) => address.hash(&mut hasher),
    }
    for (name, value) in arguments {
        name.hash(&mut hasher);
        match value {
            PropertyValue::Text(text) => text.hash(&mut hasher),
            PropertyValue::Bytes(bytes) => bytes.hash(&mut hasher),
            PropertyValue::Bool(truth) => truth.hash(&mut hasher),
            PropertyValue::Integer(number) => number.hash(&mut hasher),
            PropertyValue::Float(number) => number.to_bits().hash(&mut hasher),
            PropertyValue::Nothing => {}
        }
    }
    hasher.finish()
}
