//! What a publish to an address leads to, worked out once and remembered until something changes it.

use crate::Kernel;
use crate::access::Permission;
use crate::effects::Safety;
use crate::ids::{BindingId, GroupId, QueueId, SessionId};
use crate::policy::Terms;
use crate::routes::filtered::Filtered;
use crate::routes::store::{AsOf, Routes};
use std::rc::Rc;
use thalweg_model::{Reliability, Time};

/// What sits at a filter of the route table. Small, because there are millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sink {
    /// Session, group, shard, queue, binding or cell, as `kind` says.
    pub target: u32,
    /// The subscription's identifier, 0 if it has none.
    pub id: u32,
    pub kind: SinkKind,
    pub reliability: Reliability,
    pub flags: u8,
}

// Each receiver of a route has one; the fan-out loop walks over them.
const _: () = assert!(size_of::<Sink>() <= 12);

/// What a sink's target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkKind {
    /// A session on this shard.
    Session,
    /// A group; one of its members gets the copy.
    Group,
    /// Another shard has sessions that want it.
    Shard,
    /// A queue with a name.
    Queue,
    /// A binding of an exchange.
    Binding,
    /// The readers of this shard who watch the address.
    Cell,
    /// An exchange with an alternate: whatever is published to it on other shards is for this one.
    Alternate,
}

/// The publisher's own messages are not wanted.
pub(crate) const NO_LOCAL: u8 = 1;
/// The receiver wants to see the publisher's retain flag.
pub(crate) const RETAIN_AS_PUBLISHED: u8 = 2;
/// The subscriber follows all that an address keeps.
pub(crate) const FOLLOWS: u8 = 8;
/// A session's sink that wants only what passes a content filter: its `id` is the number of its [`Condition`].
pub(crate) const FILTERED: u8 = 4;

/// Everything that wants an address. Shared and immutable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// When it was worked out.
    as_of: AsOf,
    goes: Goes,
    /// Receivers on this shard, each once.
    receivers: Vec<Receiver>,
    /// Receivers on this shard, each once, that want some of it; few routes have any.
    filtered: Option<Box<Filtered>>,
    groups: Vec<GroupId>,
    shards: Vec<u16>,
    /// Queues with names, each once.
    queues: Vec<QueueId>,
    /// Those who watch it.
    cell: Option<u32>,
    /// Whatever is published there is remembered.
    is_kept: bool,
    /// What exchanges make of it, if they do more than name queues. Few messages go that way, so it stands apart.
    onward: Option<Box<Onward>>,
    /// How safe publishes there are before they are acknowledged, if a filter says so.
    safety: Option<Safety>,
    /// What the operator asks of messages there, if anything.
    terms: Option<Box<Terms>>,
}

/// Whether all that wants an address is of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Goes {
    #[default]
    Anywhere,
    /// Only receivers on this shard match: the most frequent case.
    ToReceivers,
    /// Only one queue matches.
    ToQueue,
    /// Only one group matches.
    ToGroup,
}

/// Where exchanges lead a message on to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Onward {
    /// Bindings that compare properties, and the address under which each does.
    pub conditional: Vec<(BindingId, Box<str>)>,
    /// Addresses whose messages go to an alternate exchange if none of their `conditional` bindings wants them.
    pub alternates: Vec<(Box<str>, Box<str>)>,
    /// Addresses that exchanges lead to and that sessions want.
    pub redirects: Vec<Box<str>>,
    /// Addresses to which its publisher published it as well, and that sessions want.
    pub also: Vec<Box<str>>,
    /// When it was worked out what those addresses lead to.
    pub led: Vec<AsOf>,
}

static NOWHERE: Onward = Onward {
    conditional: Vec::new(),
    alternates: Vec::new(),
    redirects: Vec::new(),
    also: Vec::new(),
    led: Vec::new(),
};

/// A session that wants an address, through one subscription or several.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub session: SessionId,
    pub reliability: Reliability,
    pub flags: u8,
    pub id: u32,
    /// All of them, if it is more than one: they collapse into one delivery.
    pub overlap: Option<Box<[Sink]>>,
}

impl Route {
    pub(crate) fn is_empty(&self) -> bool {
        !self.wants_more_than_queues() && !self.has_queues()
    }

    #[cold]
    fn add_group(&mut self, group: Option<GroupId>) {
        if let Some(group) = group.filter(|group| !self.groups.contains(group)) {
            self.groups.push(group);
        }
    }

    /// Adds what is neither a session, a group, a queue nor a binding.
    #[cold]
    fn add_sink(&mut self, sink: &Sink) {
        match sink.kind {
            SinkKind::Shard => {
                let shard = sink.target as u16;
                if !self.shards.contains(&shard) {
                    self.shards.push(shard);
                }
            }
            SinkKind::Cell => self.cell = Some(sink.target),
            SinkKind::Session
            | SinkKind::Group
            | SinkKind::Queue
            | SinkKind::Binding
            | SinkKind::Alternate => {}
        }
    }

    /// What `other` leads to, the route of another address the same message is published to.
    fn add(&mut self, address: &str, other: &Route) {
        other.queues.iter().for_each(|queue| self.add_queue(*queue));
        if let Some(theirs) = &other.onward {
            let ours = self.onward_mut();
            ours.conditional.extend(theirs.conditional.iter().cloned());
            ours.alternates.extend(theirs.alternates.iter().cloned());
            ours.redirects.extend(theirs.redirects.iter().cloned());
        }
        if other.wants_more_than_queues() {
            self.onward_mut().also.push(address.into());
        }
    }

    /// Whether sessions or readers want it, here or elsewhere.
    pub(crate) fn wants_more_than_queues(&self) -> bool {
        !(self.receivers.is_empty()
            && self.filtered.is_none()
            && self.groups.is_empty()
            && self.shards.is_empty()
            && self.cell.is_none())
    }

    /// Whether queues want it, or may want it, or it is led on.
    #[inline]
    pub(crate) fn has_queues(&self) -> bool {
        !self.queues.is_empty() || self.onward.as_ref().is_some_and(|onward| onward.leads_on())
    }

    #[inline]
    pub(crate) fn goes(&self) -> Goes {
        self.goes
    }

    /// Receivers on this shard, each once.
    #[inline]
    pub(crate) fn receivers(&self) -> &[Receiver] {
        &self.receivers
    }

    #[inline]
    pub(crate) fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    /// Other shards where it is wanted.
    #[inline]
    pub(crate) fn shards(&self) -> &[u16] {
        &self.shards
    }

    /// Queues with names, each once.
    #[inline]
    pub(crate) fn queues(&self) -> &[QueueId] {
        &self.queues
    }

    /// Adds a queue unless it is there.
    pub(crate) fn add_queue(&mut self, queue: QueueId) {
        if !self.queues.contains(&queue) {
            self.queues.push(queue);
        }
    }

    /// The cell of those that watch it.
    #[inline]
    pub(crate) fn cell(&self) -> Option<u32> {
        self.cell
    }

    /// Whether whatever is published there is remembered.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether some want it only if it says what they ask for.
    #[inline]
    pub(crate) fn is_conditional(&self) -> bool {
        self.filtered.is_some() || !self.onward().conditional.is_empty()
    }

    /// Receivers of this shard that want some of it.
    #[inline]
    pub(crate) fn filtered(&self) -> Option<&Filtered> {
        self.filtered.as_deref()
    }

    /// Receivers of this shard, those that want only some of it included.
    pub(crate) fn any_receivers(&self) -> impl Iterator<Item = &Receiver> {
        let filtered = self.filtered.iter().flat_map(|it| it.receivers());
        self.receivers.iter().chain(filtered)
    }

    /// Whether sessions or readers want it whatever it says.
    pub(crate) fn wants_unconditionally(&self) -> bool {
        !(self.receivers.is_empty()
            && self.groups.is_empty()
            && self.shards.is_empty()
            && self.cell.is_none())
    }

    /// How safe publishes there are before they are acknowledged, if a filter says so.
    #[inline]
    pub(crate) fn safety(&self) -> Option<Safety> {
        self.safety
    }

    /// What the operator asks of messages there.
    #[inline]
    pub(crate) fn terms(&self) -> Option<&Terms> {
        self.terms.as_deref()
    }

    /// Whether the operator gives its publishers, or all of them together, a rate.
    #[inline]
    pub(crate) fn has_rate(&self) -> bool {
        self.terms().is_some_and(|terms| terms.rate().is_some())
    }

    /// When a message expires there that was to expire then and comes now.
    pub(crate) fn expires(&self, expires: Time, now: Time) -> Time {
        self.terms()
            .map_or(expires, |terms| terms.expires(expires, now))
    }

    /// Where exchanges lead it on to.
    #[inline]
    pub(crate) fn onward(&self) -> &Onward {
        self.onward.as_deref().unwrap_or(&NOWHERE)
    }

    pub(crate) fn onward_mut(&mut self) -> &mut Onward {
        self.onward.get_or_insert_default()
    }
}

impl Onward {
    /// Whether sessions or readers of other addresses get copies.
    #[inline]
    pub(crate) fn has_copies(&self) -> bool {
        !(self.redirects.is_empty() && self.also.is_empty())
    }

    fn leads_on(&self) -> bool {
        !(self.conditional.is_empty()
            && self.alternates.is_empty()
            && self.redirects.is_empty()
            && self.also.is_empty())
    }
}

/// What wants an address of itself.
struct Alone {
    route: Route,
    /// The bindings that match it.
    bindings: Vec<BindingId>,
    /// Whether anything but bindings does, allowed to or not.
    is_wanted: bool,
}

impl Routes {
    /// Whether a remembered route is what one would work out now.
    #[inline(always)]
    pub(crate) fn still_holds(&self, route: &Route) -> bool {
        self.is_current(&route.as_of)
            && route
                .onward
                .as_ref()
                .is_none_or(|onward| self.is_onward_current(onward))
    }

    #[cold]
    fn is_onward_current(&self, onward: &Onward) -> bool {
        onward.led.iter().all(|led| self.is_current(led))
    }
}

impl Kernel {
    /// The route of an address, remembered or worked out.
    pub(crate) fn route(&mut self, address: &str) -> Rc<Route> {
        if let Some(route) = self.routes.remembered(address)
            && self.routes.still_holds(&route)
        {
            return route;
        }
        let route = Rc::new(self.work_out(address));
        self.routes
            .remember(address, route.clone(), self.env.limits().route_cache_max);
        route
    }

    /// The route of an address as far as it concerns some of this shard's sessions.
    pub(crate) fn work_out_for(&self, address: &str, is_meant: impl Fn(&str) -> bool) -> Route {
        let mut route = self.work_out(address);
        route.goes = Goes::Anywhere;
        route.cell = None;
        let is_meant = |receiver: &Receiver| {
            self.sessions
                .get(receiver.session)
                .is_some_and(|s| is_meant(s.client()))
        };
        route.receivers.retain(is_meant);
        if let Some(filtered) = &mut route.filtered {
            filtered.retain(is_meant);
        }
        route
    }

    /// The route of a message that is published to several addresses at once, the first of which is its own: `routes` are
    /// theirs. It is not remembered.
    pub(crate) fn route_of_all(&self, routes: &[(&str, Rc<Route>)]) -> Route {
        let is_led_on = routes.iter().any(|(_, route)| route.onward.is_some());
        let mut route = Route::default();
        let (mut from, mut is_wanted) = (Vec::new(), false);
        for (at, (address, known)) in routes.iter().enumerate() {
            let found = is_led_on.then(|| self.work_out_alone(address));
            let alone = found.as_ref().map_or(&**known, |found| &found.route);
            match at {
                0 => {
                    route = Route {
                        goes: Goes::Anywhere,
                        ..alone.clone()
                    }
                }
                _ => route.add(address, alone),
            }
            if let Some(found) = found {
                is_wanted |= found.is_wanted;
                from.push((address.to_string(), found.bindings));
            }
        }
        if is_led_on {
            self.follow(&from, is_wanted, &mut route);
        }
        route
    }

    #[inline(always)]
    fn work_out(&self, address: &str) -> Route {
        let Alone {
            mut route,
            bindings,
            is_wanted,
        } = self.work_out_alone(address);
        if !bindings.is_empty() || (self.topology.has_exchanges() && address.starts_with('$')) {
            self.follow(&[(address.to_owned(), bindings)], is_wanted, &mut route);
        }
        if route.is_kept
            || route.cell.is_some()
            || route.filtered.is_some()
            || route.terms.is_some()
        {
            route.goes = Goes::Anywhere;
        } else if !route.receivers.is_empty()
            && route.groups.is_empty()
            && route.shards.is_empty()
            && !route.has_queues()
        {
            route.goes = Goes::ToReceivers;
        } else if route.queues.len() == 1
            && route.onward.is_none()
            && !route.wants_more_than_queues()
        {
            route.goes = Goes::ToQueue;
        } else if route.groups.len() == 1
            && route.receivers.is_empty()
            && route.shards.is_empty()
            && !route.has_queues()
        {
            route.goes = Goes::ToGroup;
        }
        route
    }

    /// What wants an address, without what its bindings lead to.
    #[inline(always)]
    fn work_out_alone(&self, address: &str) -> Alone {
        let mut route = Route {
            as_of: self.routes.as_of_now(address),
            ..Route::default()
        };
        route.safety = self.env.limits().safety_at(address);
        route.terms = Terms::of(self.env.limits(), address);
        let mut sinks: Vec<Sink> = Vec::new();
        let mut bindings: Vec<BindingId> = Vec::new();
        self.routes.for_each_match(address, |sink| match sink.kind {
            SinkKind::Session => sinks.push(*sink),
            SinkKind::Binding => bindings.extend(self.topology.binding_at(sink.target)),
            SinkKind::Queue => route.queues.extend(self.queues.at(sink.target)),
            SinkKind::Group => route.add_group(self.groups.at(sink.target)),
            _ => route.add_sink(sink),
        });
        let is_wanted = !sinks.is_empty() || !route.is_empty();
        let limits = self.env.limits();
        if limits.bounds_reliability() {
            let most = limits.reliability_at(address, Reliability::ExactlyOnce);
            let each = sinks.iter_mut();
            each.for_each(|sink| sink.reliability = sink.reliability.min(most));
        }
        // Stable: a session's subscriptions stay in the order in which they matched.
        sinks.sort_by_key(|sink| sink.target);
        for same in sinks.chunk_by(|a, b| a.target == b.target) {
            let session = SessionId(same[0].target);
            let may = self
                .sessions
                .get(session)
                .is_some_and(|s| s.access().allows(Permission::Receive, address));
            if !may {
                continue;
            }
            if same.iter().any(|sink| sink.flags & FILTERED != 0) {
                let filtered = route.filtered.get_or_insert_default();
                filtered.push(session, same, &self.routes);
            } else {
                route.receivers.push(Receiver::of(session, same));
            }
        }
        route.is_kept = self.values.is_kept(address, self.env.limits());
        Alone {
            route,
            bindings,
            is_wanted,
        }
    }
}

impl Receiver {
    pub(super) fn of(session: SessionId, sinks: &[Sink]) -> Self {
        let reliability = sinks
            .iter()
            .map(|sink| sink.reliability)
            .max()
            .unwrap_or_default();
        let flags = sinks.iter().fold(0, |flags, sink| flags | sink.flags);
        let id = sinks.first().map_or(0, |sink| sink.id);
        Receiver {
            session,
            reliability,
            flags,
            id,
            overlap: (sinks.len() > 1).then(|| sinks.into()),
        }
    }

    /// This receiver without the subscriptions that do not want the publisher's own messages; `None` if none is left.
    pub(crate) fn without_no_local(&self) -> Option<Receiver> {
        let sinks = self.overlap.as_deref()?;
        let rest: Vec<Sink> = sinks
            .iter()
            .copied()
            .filter(|sink| sink.flags & NO_LOCAL == 0)
            .collect();
        (!rest.is_empty()).then(|| Receiver::of(self.session, &rest))
    }
}
