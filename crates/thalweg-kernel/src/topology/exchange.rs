//! Exchanges: what is known about the reserved subtrees of addresses that messages are published to by key.

use super::maker::MadeBy;
use super::spec::{ExchangeKind, ExchangeSpec};
use crate::Kernel;
use crate::access::Access;
use crate::effects::Effects;
use crate::ids::{BindingId, SessionId};
use crate::memory::{Kept, exchange_cost};
use crate::queue::is_queue_address;
use crate::remote::shards::ShardMessage;
use crate::routes::cached::SinkKind;
use crate::verdict::Refusal;
use std::borrow::Cow;
use std::collections::BTreeSet;
use thalweg_model::syntax::{DOTTED, read_level, write_key, write_level};

/// An exchange. Those of [`PREDECLARED`] are here only while they have bindings.
pub(crate) struct Exchange {
    pub kind: ExchangeKind,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub alternate: Option<Box<str>>,
    /// The maker of the setting of its alternate.
    pub made_by: MadeBy,
    /// Its number in the journal; 0 if it is not written down.
    pub number: u64,
    /// Bindings from it, and to it.
    pub bindings: BTreeSet<BindingId>,
    pub incoming: BTreeSet<BindingId>,
}

/// Exchanges that every tenant has.
pub(super) const PREDECLARED: [(&str, ExchangeKind); 5] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
];

/// The exchange whose messages are those of plain addresses: everybody's.
const PLAIN: &str = "amq.topic";

impl Exchange {
    /// What it costs, with what others can see of it; nothing where every tenant has it.
    fn cost(&self, address: &str) -> usize {
        if predeclared(address).is_some() {
            return 0;
        }
        exchange_cost(address, self.alternate.as_deref())
    }

    pub(crate) fn predeclared(kind: ExchangeKind) -> Self {
        Exchange {
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            alternate: None,
            made_by: MadeBy::default(),
            number: 0,
            bindings: BTreeSet::new(),
            incoming: BTreeSet::new(),
        }
    }
}

/// Tenant and name in the address of an exchange.
pub(crate) fn parts(address: &str) -> Option<(&str, Cow<'_, str>)> {
    let rest = address.strip_prefix("$x")?;
    let (tenant, name) = rest.split_once('/')?;
    let tenant = if tenant.is_empty() {
        ""
    } else {
        tenant.strip_prefix('@')?
    };
    (!name.contains('/')).then(|| (tenant, read_level(name)))
}

/// The kind of an exchange that every tenant has.
pub(crate) fn predeclared(address: &str) -> Option<ExchangeKind> {
    let (_, name) = parts(address)?;
    PREDECLARED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, kind)| *kind)
}

/// A filter of all addresses of an exchange.
fn everything_in(address: &str) -> String {
    let mut filter = String::new();
    subtree(address, &mut filter);
    filter.push('#');
    filter
}

/// Appends what all addresses of an exchange begin with.
pub(crate) fn subtree(address: &str, out: &mut String) {
    match parts(address) {
        Some((tenant, name)) if name == PLAIN => {
            if !tenant.is_empty() {
                out.push_str("$t@");
                out.push_str(tenant);
                out.push('/');
            }
        }
        _ => {
            out.push_str(address);
            out.push('/');
        }
    }
}

pub(crate) fn is_plain(address: &str) -> bool {
    parts(address).is_some_and(|(_, name)| name == PLAIN)
}

/// The exchange whose addresses an address is one of, and the part of it that stands for the key.
pub(crate) fn exchange_of(address: &str) -> (Cow<'_, str>, &str) {
    let is_reserved = |letter: &str| {
        address
            .strip_prefix('$')
            .and_then(|rest| rest.strip_prefix(letter))
    };
    if let Some(rest) = is_reserved("x")
        && (rest.starts_with('/') || rest.starts_with('@'))
    {
        let mut slashes = address.match_indices('/').map(|(at, _)| at);
        let (_, second) = (slashes.next(), slashes.next());
        return match second {
            Some(at) => (Cow::Borrowed(&address[..at]), &address[at + 1..]),
            None => (Cow::Borrowed(address), ""),
        };
    }
    if let Some(rest) = is_reserved("t@")
        && let Some((tenant, tail)) = rest.split_once('/')
    {
        return (Cow::Owned(format!("$x@{tenant}/{PLAIN}")), tail);
    }
    (Cow::Owned(format!("$x/{PLAIN}")), address)
}

/// The key under which a message was published to an address: the queue's name, or the exchange's key.
pub(crate) fn key_of(address: &str) -> String {
    let mut key = String::new();
    if is_queue_address(address) {
        let name = address.rsplit('/').next().unwrap_or("");
        key.push_str(&read_level(name));
        return key;
    }
    let (exchange, tail) = exchange_of(address);
    if is_plain(&exchange) {
        DOTTED.write_address(tail, &mut key);
    } else {
        write_key(tail, &mut key);
    }
    key
}

/// Appends the address of a key in an exchange of a kind.
pub(crate) fn write_address(exchange: &str, kind: ExchangeKind, key: &str, out: &mut String) {
    if key.is_empty() && is_plain(exchange) {
        return write_empty_key(exchange, out);
    }
    subtree(exchange, out);
    if is_plain(exchange) {
        DOTTED.read_address(key, out);
    } else if kind == ExchangeKind::Topic {
        for (at, word) in key.split('.').enumerate() {
            if at > 0 {
                out.push('/');
            }
            out.push_str(&write_level(word));
        }
    } else {
        out.push_str(&write_level(key));
    }
}

/// Appends the address of the empty key: no plain address is empty, so the exchange of those has one of its own for it.
pub(crate) fn write_empty_key(exchange: &str, out: &mut String) {
    out.push_str(exchange);
    out.push('/');
}

impl Kernel {
    /// The address that a message goes to which is published to an exchange with a key.
    pub fn address_in(&self, exchange: &str, key: &str, out: &mut String) -> Result<(), Refusal> {
        out.clear();
        let Some((kind, internal)) = self.topology.kind_of(exchange) else {
            return Err(Refusal::NoExchange);
        };
        if internal {
            return Err(Refusal::Denied);
        }
        write_address(exchange, kind, key, out);
        thalweg_model::Address::check(out)
            .map_err(|_| Refusal::Invalid("no address can be made of this key"))
    }

    /// Whether peers may not publish to an address, because its exchange is internal.
    pub(crate) fn is_internal(&self, address: &str) -> bool {
        self.topology.is_internal(address)
    }

    /// Whether any exchange compares properties: then publishers must show them.
    #[inline]
    pub fn compares_headers(&self) -> bool {
        self.topology.compares_properties()
    }

    /// Declares an exchange; nothing changes if it is there already just so.
    pub fn declare_exchange<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &ExchangeSpec<'_>,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let Some((_, name)) = parts(spec.address) else {
            return Err(Refusal::Invalid("no exchange can have this name"));
        };
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        if let Some(kind) = predeclared(spec.address) {
            let is_same = kind == spec.kind && spec.durable && !spec.auto_delete && !spec.internal;
            return if is_same {
                Ok(())
            } else {
                Err(Refusal::Differs(difference_to_predeclared(kind, spec)))
            };
        }
        if let Some(known) = self.topology.exchange(spec.address) {
            if let Some(what) = difference(known, spec) {
                return Err(Refusal::Differs(what));
            }
            self.declare_exchange_anew(id, spec, fx);
            return Ok(());
        }
        if name.starts_with("amq.") {
            return Err(Refusal::Reserved);
        }
        if !session.access().may_configure(spec.address)
            || !spec
                .alternate
                .is_none_or(|to| self.may_publish_in(session.access(), to, None))
        {
            return Err(Refusal::Denied);
        }
        if self.topology.exchange_count() >= self.env.limits().exchanges_max {
            return Err(Refusal::TooMany);
        }
        if !self.may_keep(0, exchange_cost(spec.address, spec.alternate)) {
            return Err(Refusal::Short);
        }
        if self.env.journal_full() && spec.durable {
            return Err(Refusal::Full);
        }
        let made_by = spec
            .alternate
            .map(|_| MadeBy::session(session))
            .unwrap_or_default();
        let number = if spec.durable && self.env.limits().journal {
            self.journal.next_number()
        } else {
            0
        };
        let exchange = Exchange {
            kind: spec.kind,
            durable: spec.durable,
            auto_delete: spec.auto_delete,
            internal: spec.internal,
            alternate: spec.alternate.map(Into::into),
            made_by,
            number,
            bindings: BTreeSet::new(),
            incoming: BTreeSet::new(),
        };
        if number != 0 {
            let safety = self.session_safety(id);
            self.persist_exchange(spec.address, &exchange, safety);
            self.hold(id, fx);
        }
        self.add_exchange(spec.address, exchange);
        self.routes.all_have_changed();
        Ok(())
    }

    /// A session declares an exchange again. If the exchange's maker may not lead to the alternate any more and this session
    /// may, the session is its maker from now on.
    fn declare_exchange_anew<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &ExchangeSpec<'_>,
        fx: &mut E,
    ) {
        let (Some(alternate), Some(session)) = (spec.alternate, self.sessions.get(id)) else {
            return;
        };
        let may = |access: &Access| self.may_publish_in(access, alternate, None);
        let known = self
            .topology
            .exchange(spec.address)
            .and_then(|exchange| exchange.made_by.access());
        let is_better = known.is_some_and(|known| !may(known) && may(session.access()));
        if !is_better || !session.access().may_configure(spec.address) {
            return;
        }
        let made_by = MadeBy::session(session);
        let Some(mut exchange) = self.topology.remove_exchange(spec.address) else {
            return;
        };
        exchange.made_by = made_by;
        if exchange.number != 0 {
            let safety = self.session_safety(id);
            self.persist_exchange(spec.address, &exchange, safety);
            self.hold(id, fx);
        }
        self.topology.insert_exchange(spec.address, exchange);
        self.routes.all_have_changed();
    }

    /// An exchange is there from now on. If it has an alternate, all that other shards publish to it comes here.
    pub(crate) fn add_exchange(&mut self, address: &str, exchange: Exchange) {
        if exchange.alternate.is_some() {
            self.add_sink(&everything_in(address), SinkKind::Alternate, 0);
        }
        self.env.entered(Kept::Topology, exchange.cost(address));
        if exchange.internal {
            self.tell_internal(address, true);
        }
        self.topology.insert_exchange(address, exchange);
    }

    /// Reports it to the other shards, whose sessions publish to exchanges, too.
    fn tell_internal(&mut self, address: &str, is_internal: bool) {
        self.tell_shards(|_| ShardMessage::Internal {
            exchange: address.into(),
            is_internal,
        });
    }

    pub(crate) fn on_internal(&mut self, exchange: &str, is_internal: bool) {
        self.topology.set_internal_elsewhere(exchange, is_internal);
        self.routes.all_have_changed();
    }

    /// The kind of an exchange.
    pub fn inspect_exchange(&self, _: SessionId, address: &str) -> Result<ExchangeKind, Refusal> {
        self.topology
            .kind_of(address)
            .map(|(kind, _)| kind)
            .ok_or(Refusal::NoExchange)
    }

    /// Deletes an exchange and all bindings from and to it.
    pub fn delete_exchange<E: Effects>(
        &mut self,
        id: SessionId,
        address: &str,
        if_unused: bool,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        if predeclared(address).is_some() {
            return Err(Refusal::Reserved);
        }
        let exchange = self.topology.exchange(address).ok_or(Refusal::NoExchange)?;
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        if !session.access().may_configure(address) {
            return Err(Refusal::Denied);
        }
        if if_unused && !exchange.bindings.is_empty() {
            return Err(Refusal::InUse);
        }
        if exchange.number != 0 {
            self.hold(id, fx);
        }
        self.end_exchange(address, fx);
        Ok(())
    }

    pub(crate) fn end_exchange<E: Effects>(&mut self, address: &str, fx: &mut E) {
        let Some(exchange) = self.topology.remove_exchange(address) else {
            return;
        };
        self.env.left(Kept::Topology, exchange.cost(address));
        if exchange.internal {
            self.tell_internal(address, false);
        }
        if exchange.alternate.is_some() {
            self.remove_sink(&everything_in(address), SinkKind::Alternate, 0);
        }
        for binding in exchange.bindings.into_iter().chain(exchange.incoming) {
            self.end_binding(binding, fx);
        }
        self.persist_ended(exchange.number);
        self.routes.all_have_changed();
    }
}

fn difference(known: &Exchange, spec: &ExchangeSpec<'_>) -> Option<&'static str> {
    match () {
        () if known.kind != spec.kind => Some("kind"),
        () if known.durable != spec.durable => Some("durable"),
        () if known.auto_delete != spec.auto_delete => Some("auto_delete"),
        () if known.internal != spec.internal => Some("internal"),
        () if known.alternate.as_deref() != spec.alternate => Some("alternate"),
        () => None,
    }
}

fn difference_to_predeclared(kind: ExchangeKind, spec: &ExchangeSpec<'_>) -> &'static str {
    difference(&Exchange::predeclared(kind), spec).unwrap_or("kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_its_exchange_and_key() {
        for (address, exchange, key) in [
            ("$x/orders/eu/de", "$x/orders", "eu.de"),
            ("$x/direct/a.b", "$x/direct", "a.b"),
            ("$x@plant/e/k", "$x@plant/e", "k"),
            ("$x/e/", "$x/e", ""),
            ("a/b", "$x/amq.topic", "a.b"),
            ("a.b/c", "$x/amq.topic", "a%2Eb.c"),
            ("$t@plant/a/b", "$x@plant/amq.topic", "a.b"),
        ] {
            assert_eq!(exchange_of(address).0, exchange, "{address}");
            assert_eq!(key_of(address), key, "{address}");
        }
        assert_eq!(key_of("$q/work"), "work");
        assert_eq!(key_of("$q/a%2Fb"), "a/b");
    }

    #[test]
    fn a_key_makes_the_address_that_gives_it_back() {
        for (exchange, kind, key, address) in [
            ("$x/e", ExchangeKind::Topic, "a.b", "$x/e/a/b"),
            ("$x/e", ExchangeKind::Direct, "a.b", "$x/e/a.b"),
            ("$x/e", ExchangeKind::Direct, "a/b", "$x/e/a%2Fb"),
            ("$x/amq.topic", ExchangeKind::Topic, "a.b", "a/b"),
            ("$x@t/amq.topic", ExchangeKind::Topic, "a", "$t@t/a"),
        ] {
            let mut out = String::new();
            write_address(exchange, kind, key, &mut out);
            assert_eq!(out, address);
            assert_eq!(key_of(&out), key);
        }
    }
}
