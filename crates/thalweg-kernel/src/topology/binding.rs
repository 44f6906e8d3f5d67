//! Bindings: what of an exchange goes where. They stand in the route table as filters in the exchange's subtree.

use super::condition::{predicate_of, rule_of};
use super::exchange::{self, key_of, write_address};
use super::maker::MadeBy;
use super::spec::{BindSpec, BindTo, ExchangeKind};
use crate::Kernel;
use crate::access::{Access, Permission, is_brokers};
use crate::effects::Effects;
use crate::ids::{BindingId, QueueId, SessionId};
use crate::memory::{Kept, binding_cost};
use crate::publish::subject::Subject;
use crate::queue::Queue;
use crate::routes::cached::{Route, Sink, SinkKind};
use crate::verdict::Refusal;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::syntax::{DOTTED, write_level};
use thalweg_model::{PropertyValue, Reliability};

pub(crate) struct Binding {
    pub exchange: Box<str>,
    pub to: To,
    /// As its maker wrote it.
    pub key: Box<str>,
    pub arguments: Box<[(Box<str>, PropertyValue)]>,
    /// Where it stands in the route table.
    pub filter: Box<str>,
    /// What it really wants, if the table's filter wants more.
    pub pattern: Option<Box<str>>,
    pub made_by: MadeBy,
    /// Its arguments are compared with properties.
    pub compares_headers: bool,
    /// The content filter among its arguments.
    pub predicate: Option<Box<Predicate>>,
    /// Its number in the journal; 0 if it is not written down.
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Queue(QueueId),
    /// The exchange of this address.
    Exchange(Arc<str>),
}

/// How deep exchanges may lead to exchanges.
const DEPTH_MAX: usize = 16;

impl Kernel {
    /// Binds; nothing changes if there is such a binding.
    pub fn bind<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &BindSpec<'_>,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let (to, kind) = self.check_bind(id, spec)?;
        if let Some(index) = self.find_binding(spec, &to) {
            self.bind_anew(id, index, kind, fx);
            return Ok(());
        }
        if self.topology.binding_count() >= self.env.limits().bindings_max {
            return Err(Refusal::TooMany);
        }
        let (filter, _) = filter_of(spec.exchange, kind, spec.key);
        let predicate = predicate_of(spec.arguments)?;
        let predicate_cost = predicate.as_ref().map_or(0, Predicate::bytes);
        let cost = binding_cost(spec.exchange, spec.key, &filter, spec.arguments);
        if !self.may_keep(0, cost + predicate_cost) {
            return Err(Refusal::Short);
        }
        if thalweg_model::Filter::check(&filter).is_err() {
            return Err(Refusal::Invalid("no filter can be made of this key"));
        }
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        let made_by = MadeBy::session(session);
        if !self.is_told_here(&filter) {
            return Err(Refusal::Denied);
        }
        let durable = self.env.limits().journal
            && self.topology.is_durable(spec.exchange)
            && self.is_durable_target(&to);
        if durable && self.env.journal_full() {
            return Err(Refusal::Full);
        }
        let number = if durable {
            self.journal.next_number()
        } else {
            0
        };
        let index = self.add_binding(spec.exchange, kind, to, spec.key, spec.arguments, number);
        self.set_bindings_maker(index, made_by);
        if number != 0 {
            let safety = self.session_safety(id);
            self.persist_binding(index, safety);
            self.hold(id, fx);
        }
        Ok(())
    }

    /// Binds a queue as [`Kernel::bind`] does, in place of what binds it with the same key and other arguments.
    pub fn bind_instead<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &BindSpec<'_>,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let (to, _) = self.check_bind(id, spec)?;
        self.bind(id, spec, fx)?;
        let To::Queue(queue) = to else { return Ok(()) };
        let is_other = |index: &BindingId| {
            self.topology.binding(*index).is_some_and(|binding| {
                *binding.exchange == *spec.exchange
                    && *binding.key == *spec.key
                    && *binding.arguments != *spec.arguments
            })
        };
        let all = self.queues.get(queue).into_iter().flat_map(Queue::bindings);
        for index in all.filter(is_other).collect::<Vec<_>>() {
            self.end_binding(index, fx);
        }
        Ok(())
    }

    /// Ends a binding; it is no error if there is none.
    pub fn unbind<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &BindSpec<'_>,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let (to, _) = self.check_bind(id, spec)?;
        if let Some(index) = self.find_binding(spec, &to) {
            let binding = self.topology.binding(index);
            if binding.is_some_and(|binding| binding.number != 0) {
                self.hold(id, fx);
            }
            self.end_binding(index, fx);
        }
        Ok(())
    }

    fn check_bind(
        &self,
        id: SessionId,
        spec: &BindSpec<'_>,
    ) -> Result<(To, ExchangeKind), Refusal> {
        let to = match spec.to {
            BindTo::Queue(address) => {
                let queue_id = self.queues.find(address).ok_or(Refusal::NoQueue)?;
                self.may_configure_queue(id, queue_id)?;
                To::Queue(queue_id)
            }
            BindTo::Exchange(address) => {
                self.topology.kind_of(address).ok_or(Refusal::NoExchange)?;
                To::Exchange(address.into())
            }
        };
        let (kind, _) = self
            .topology
            .kind_of(spec.exchange)
            .ok_or(Refusal::NoExchange)?;
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        let (filter, _) = filter_of(spec.exchange, kind, spec.key);
        if !self.may_bind(session.access(), &filter, kind, spec.key, &to) {
            return Err(Refusal::Denied);
        }
        if kind == ExchangeKind::Headers && rule_of(spec.arguments).is_none() {
            return Err(Refusal::Invalid(
                "x-match must be all, any, all-with-x or any-with-x",
            ));
        }
        Ok((to, kind))
    }

    /// Who binds reads from the one, and publishes to the other whatever has a key that the binding lets through.
    fn may_bind(
        &self,
        access: &Access,
        filter: &str,
        kind: ExchangeKind,
        key: &str,
        to: &To,
    ) -> bool {
        if !access.allows(Permission::Subscribe, filter) {
            return false;
        }
        let target = match to {
            To::Queue(at) => return self.may_lead_to_queue(access, *at),
            To::Exchange(target) => target,
        };
        let has_wildcard = key.split('.').any(|word| matches!(word, "*" | "#"));
        let is_any = match kind {
            ExchangeKind::Direct => false,
            ExchangeKind::Topic => has_wildcard,
            ExchangeKind::Fanout | ExchangeKind::Headers => true,
        };
        self.may_publish_in(access, target, (!is_any).then_some(key))
    }

    /// An exclusive queue is led to by its owner alone, as was asked when the binding was made.
    fn may_lead_to_queue(&self, access: &Access, queue_id: QueueId) -> bool {
        self.queues
            .get(queue_id)
            .is_none_or(|to| to.is_exclusive() || access.may_configure(to.address()))
    }

    /// A session binds again what is bound. The one that may bring more by the binding is its maker from now on, so that what has
    /// come to stand still goes on.
    fn bind_anew<E: Effects>(
        &mut self,
        id: SessionId,
        index: BindingId,
        kind: ExchangeKind,
        fx: &mut E,
    ) {
        let (Some(binding), Some(session)) = (self.topology.binding(index), self.sessions.get(id))
        else {
            return;
        };
        let Some(known) = binding.made_by.access() else {
            return;
        };
        let rank = |access: &Access| match self.may_bind(
            access,
            &binding.filter,
            kind,
            &binding.key,
            &binding.to,
        ) {
            false => 0,
            true => 1 + u8::from(access.covers(Permission::Receive, &binding.filter)),
        };
        if rank(session.access()) <= rank(known) {
            return;
        }
        let (made_by, number) = (MadeBy::session(session), binding.number);
        self.set_bindings_maker(index, made_by);
        if number != 0 {
            let safety = self.session_safety(id);
            self.persist_binding(index, safety);
            self.hold(id, fx);
        }
    }

    pub(crate) fn set_bindings_maker(&mut self, index: BindingId, made_by: MadeBy) {
        let entered = made_by.bytes();
        let Some(before) = self.topology.set_maker(index, made_by) else {
            return;
        };
        self.env.entered(Kept::Topology, entered);
        self.env.left(Kept::Topology, before.bytes());
        self.routes.all_have_changed();
    }

    fn is_durable_target(&self, to: &To) -> bool {
        match to {
            To::Queue(queue) => self.queues.get(*queue).is_some_and(|it| it.is_durable()),
            To::Exchange(address) => self.topology.is_durable(address),
        }
    }

    fn find_binding(&self, spec: &BindSpec<'_>, to: &To) -> Option<BindingId> {
        self.topology
            .find_binding(spec.exchange, to, spec.key, spec.arguments)
    }

    pub(crate) fn add_binding(
        &mut self,
        exchange: &str,
        kind: ExchangeKind,
        to: To,
        key: &str,
        arguments: &[(Box<str>, PropertyValue)],
        number: u64,
    ) -> BindingId {
        let (filter, pattern) = filter_of(exchange, kind, key);
        // One that was written down, and is no filter now, stays and leads nowhere.
        let predicate = predicate_of(arguments).unwrap_or_else(|_| Some(Predicate::never()));
        let predicate_cost = predicate.as_ref().map_or(0, Predicate::bytes);
        let binding = Binding {
            exchange: exchange.into(),
            to: to.clone(),
            key: key.into(),
            arguments: arguments.into(),
            filter: filter.clone().into(),
            pattern: pattern.map(Into::into),
            made_by: MadeBy::default(),
            compares_headers: kind == ExchangeKind::Headers,
            predicate: predicate.map(Box::new),
            number,
        };
        let index = self.topology.insert_binding(binding, kind);
        self.env.entered(
            Kept::Topology,
            binding_cost(exchange, key, &filter, arguments) + predicate_cost,
        );
        if let To::Queue(queue) = to
            && let Some(queue) = self.queues.get_mut(queue)
        {
            queue.bound(index);
        }
        self.add_sink(&filter, SinkKind::Binding, index.index());
        if let Some(second) = second_filter_of(exchange, key) {
            self.add_sink(&second, SinkKind::Binding, index.index());
        }
        self.routes.all_have_changed();
        index
    }

    pub(crate) fn end_binding<E: Effects>(&mut self, index: BindingId, fx: &mut E) {
        let Some(binding) = self.topology.remove_binding(index) else {
            return;
        };
        let cost = binding_cost(
            &binding.exchange,
            &binding.key,
            &binding.filter,
            &binding.arguments,
        );
        self.env.left(
            Kept::Topology,
            cost + binding.predicate_cost() + binding.made_by.bytes(),
        );
        self.remove_sink(&binding.filter, SinkKind::Binding, index.index());
        if let Some(second) = second_filter_of(&binding.exchange, &binding.key) {
            self.remove_sink(&second, SinkKind::Binding, index.index());
        }
        self.persist_ended(binding.number);
        if let To::Queue(queue) = binding.to
            && let Some(queue) = self.queues.get_mut(queue)
        {
            queue.unbound(index);
        }
        let from = self.topology.exchange(&binding.exchange);
        if from.is_some_and(|from| from.auto_delete && from.bindings.is_empty()) {
            self.end_exchange(&binding.exchange, fx);
        }
        self.routes.all_have_changed();
    }

    /// Puts a queue or binding into the route table.
    pub(crate) fn add_sink(&mut self, filter: &str, kind: SinkKind, target: u32) {
        let first_here = !self.is_wanted_here(filter);
        self.routes.insert(
            filter,
            Sink {
                target,
                id: 0,
                kind,
                reliability: Reliability::ExactlyOnce,
                flags: 0,
            },
        );
        if first_here {
            // Nothing waits: what is declared here is published to from here, or soon.
            self.tell_interest(filter, 0);
        }
    }

    pub(crate) fn remove_sink(&mut self, filter: &str, kind: SinkKind, target: u32) {
        self.routes
            .remove(filter, |sink| sink.kind == kind && sink.target == target);
        self.withdraw_interest(filter);
    }

    // --- routes

    /// Adds to a route what bindings lead to: those whose filters match the message's addresses, each with its own. Of
    /// several keys each counts at every exchange on the way, as in RabbitMQ.
    pub(crate) fn follow(
        &self,
        from: &[(String, Vec<BindingId>)],
        is_wanted: bool,
        route: &mut Route,
    ) {
        let keys: Vec<&str> = from.iter().map(|(address, _)| address.as_str()).collect();
        let mut walk = Walk {
            keys: &keys,
            seen: keys.iter().map(|&address| address.into()).collect(),
            route,
        };
        self.follow_into(from, is_wanted, &mut walk, 0);
    }

    /// Goes on from one exchange: `from` are its addresses.
    fn follow_into(
        &self,
        from: &[(String, Vec<BindingId>)],
        mut is_wanted: bool,
        walk: &mut Walk<'_>,
        depth: usize,
    ) {
        let mut compared = false;
        for (address, bindings) in from {
            for &index in bindings {
                let Some(binding) = self.topology.binding(index) else {
                    continue;
                };
                if binding
                    .pattern
                    .as_deref()
                    .is_some_and(|pattern| !pattern_matches(pattern, address))
                {
                    continue;
                }
                if !self.is_allowed(binding, address) {
                    continue;
                }
                if binding.compares() {
                    compared = true;
                    walk.route
                        .onward_mut()
                        .conditional
                        .push((index, address.as_str().into()));
                    continue;
                }
                is_wanted = true;
                match &binding.to {
                    To::Queue(queue) => walk.route.add_queue(*queue),
                    To::Exchange(to) => self.lead_on(to, &binding.made_by, walk, depth),
                }
            }
        }
        if is_wanted {
            return;
        }
        // A message that no binding matches goes to the alternate exchange.
        for (address, _) in from {
            let (exchange, _) = exchange::exchange_of(address);
            let Some(exchange) = self.topology.exchange(&exchange) else {
                continue;
            };
            let Some(alternate) = exchange.alternate.as_deref() else {
                continue;
            };
            if !exchange
                .made_by
                .may(Permission::Publish, &self.address_at(address, alternate))
            {
                continue;
            }
            match compared {
                true => walk
                    .route
                    .onward_mut()
                    .alternates
                    .push((address.as_str().into(), alternate.into())),
                false => self.lead_on(alternate, &exchange.made_by, walk, depth),
            }
        }
    }

    /// Whether the maker of a binding may have what it brings from an address, and may publish it where that goes.
    fn is_allowed(&self, binding: &Binding, address: &str) -> bool {
        let Some(access) = binding
            .made_by
            .access()
            .filter(|access| !access.is_allow_all())
        else {
            return true;
        };
        let may_lead = || match &binding.to {
            To::Queue(at) => self.may_lead_to_queue(access, *at),
            To::Exchange(to) => access.allows(Permission::Publish, &self.address_at(address, to)),
        };
        access.allows(Permission::Subscribe, &binding.filter)
            && access.allows(Permission::Receive, address)
            && may_lead()
    }

    /// Adds what another exchange does with the same keys, as far as who leads there may publish there.
    fn lead_on(&self, exchange: &str, made_by: &MadeBy, walk: &mut Walk<'_>, depth: usize) {
        let Some((kind, _)) = self.topology.kind_of(exchange) else {
            return;
        };
        if depth >= DEPTH_MAX {
            return;
        }
        let (mut from, mut is_wanted) = (Vec::new(), false);
        for key in walk.keys {
            let mut next = String::new();
            write_address(exchange, kind, &key_of(key), &mut next);
            // A binding grants no right that access rules cannot.
            if is_brokers(&next)
                || walk.seen.iter().any(|known| **known == *next)
                || !made_by.may(Permission::Publish, &next)
            {
                continue;
            }
            walk.seen.push(next.clone().into());
            let route = &mut *walk.route;
            route.onward_mut().led.push(self.routes.as_of_now(&next));
            let (mut bindings, mut has_others, mut queue) = (Vec::new(), false, None);
            self.routes.for_each_match(&next, |sink| match sink.kind {
                SinkKind::Binding => bindings.extend(self.topology.binding_at(sink.target)),
                SinkKind::Queue => queue = self.queues.at(sink.target),
                SinkKind::Session | SinkKind::Group | SinkKind::Shard | SinkKind::Cell => {
                    has_others = true
                }
                SinkKind::Alternate => {}
            });
            queue.into_iter().for_each(|queue| route.add_queue(queue));
            if has_others
                && !route
                    .onward()
                    .redirects
                    .iter()
                    .any(|known| **known == *next)
            {
                route.onward_mut().redirects.push(next.clone().into());
            }
            is_wanted |= has_others || queue.is_some();
            from.push((next, bindings));
        }
        self.follow_into(&from, is_wanted, walk, depth + 1);
    }

    /// What the bindings of a route that compare properties lead to for one message: queues, and addresses where others
    /// may want it, too.
    pub(crate) fn compare(&self, route: &Route, subject: &Subject<'_>) -> Compared {
        let mut compared = Compared::default();
        let mut matched: Vec<&str> = Vec::new();
        for (index, address) in &route.onward().conditional {
            let Some(binding) = self.topology.binding(*index) else {
                continue;
            };
            if !binding.is_for(subject) {
                continue;
            }
            matched.push(address);
            match &binding.to {
                To::Queue(queue) => compared.queues.push(*queue),
                To::Exchange(to) => compared.next.push(self.address_at(address, to)),
            }
        }
        for (address, alternate) in &route.onward().alternates {
            if !matched.contains(&&**address) {
                compared.next.push(self.address_at(address, alternate));
            }
        }
        compared
    }

    fn address_at(&self, address: &str, exchange: &str) -> String {
        let mut next = String::new();
        if let Some((kind, _)) = self.topology.kind_of(exchange) {
            write_address(exchange, kind, &key_of(address), &mut next);
        }
        next
    }
}

/// A message's way from exchange to exchange.
struct Walk<'a> {
    /// The addresses it was published to; each has one of its keys.
    keys: &'a [&'a str],
    /// Where it has been.
    seen: Vec<Box<str>>,
    route: &'a mut Route,
}

/// What a comparison of properties led to.
#[derive(Default)]
pub(crate) struct Compared {
    pub queues: Vec<QueueId>,
    /// Addresses whose routes the message takes as well.
    pub next: Vec<String>,
}

/// The filter for the route table, and the pattern if that filter matches more.
pub(crate) fn filter_of(exchange: &str, kind: ExchangeKind, key: &str) -> (String, Option<String>) {
    let mut filter = String::new();
    if key.is_empty() && exchange::is_plain(exchange) {
        exchange::write_empty_key(exchange, &mut filter);
        return (filter, None);
    }
    exchange::subtree(exchange, &mut filter);
    if exchange::is_plain(exchange) {
        DOTTED.read_filter(key, &mut filter);
    } else {
        match kind {
            ExchangeKind::Direct => filter.push_str(&write_level(key)),
            ExchangeKind::Fanout | ExchangeKind::Headers => filter.push('#'),
            ExchangeKind::Topic => {
                for (at, word) in key.split('.').enumerate() {
                    if at > 0 {
                        filter.push('/');
                    }
                    match word {
                        "*" => filter.push('+'),
                        "#" => filter.push('#'),
                        _ => filter.push_str(&write_level(word)),
                    }
                }
            }
        }
    }
    match many_inside(&filter) {
        None => (filter, None),
        Some(end) => (filter[..end].to_owned(), Some(filter)),
    }
}

/// Where a binding stands beside its filter: that takes all plain addresses, and with them the empty key.
fn second_filter_of(exchange: &str, key: &str) -> Option<String> {
    let takes_all = exchange::is_plain(exchange) && key.split('.').all(|word| word == "#");
    takes_all.then(|| {
        let mut filter = String::new();
        exchange::write_empty_key(exchange, &mut filter);
        filter
    })
}

/// Where the first level ends that stands for many levels, if it is not the last: the table knows it only there.
fn many_inside(filter: &str) -> Option<usize> {
    let mut end = 0;
    for level in filter.split('/') {
        end += level.len();
        if level == "#" {
            return (end < filter.len()).then_some(end);
        }
        end += 1;
    }
    None
}

/// Whether a filter matches in which any level may stand for many.
pub(crate) fn pattern_matches(pattern: &str, address: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let address: Vec<&str> = address.split('/').collect();
    let (mut at, mut of) = (0, 0);
    // Where to go on if what follows the last `#` does not fit: one level further.
    let mut retry: Option<(usize, usize)> = None;
    while at < address.len() {
        match pattern.get(of) {
            Some(&"#") => {
                retry = Some((of, at));
                of += 1;
            }
            Some(&level) if level == "+" || level == address[at] => {
                at += 1;
                of += 1;
            }
            _ => match retry {
                Some((many, from)) => {
                    retry = Some((many, from + 1));
                    of = many + 1;
                    at = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[of..].iter().all(|level| *level == "#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_levels_may_stand_anywhere() {
        for (pattern, address, expected) in [
            ("#/error", "error", true),
            ("#/error", "a/b/error", true),
            ("#/error", "a/b/errors", false),
            ("a/#/b", "a/b", true),
            ("a/#/b", "a/x/y/b", true),
            ("a/#/b", "a/x/b/y", false),
            ("a/#/b/#", "a/x/b/y", true),
            ("#/+/#", "a", true),
            ("+/#/+", "a", false),
            ("a/#/+/b", "a/x/b", true),
            ("a/#/+/b", "a/b", false),
            ("#/#", "", true),
        ] {
            assert_eq!(
                pattern_matches(pattern, address),
                expected,
                "{pattern} on {address}"
            );
        }
    }

    #[test]
    fn a_key_with_many_inside_has_a_wider_filter_in_the_table() {
        let (filter, pattern) = filter_of("$x/logs", ExchangeKind::Topic, "a.#.b");
        assert_eq!(
            (&*filter, pattern.as_deref()),
            ("$x/logs/a/#", Some("$x/logs/a/#/b"))
        );
        assert_eq!(
            filter_of("$x/logs", ExchangeKind::Topic, "a.#"),
            ("$x/logs/a/#".into(), None)
        );
        assert_eq!(
            filter_of("$x/amq.topic", ExchangeKind::Topic, "a.*"),
            ("a/+".into(), None)
        );
        assert_eq!(
            filter_of("$x/d", ExchangeKind::Direct, "a.*"),
            ("$x/d/a.*".into(), None)
        );
    }
}
