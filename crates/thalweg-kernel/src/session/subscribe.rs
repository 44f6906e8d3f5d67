//! A session subscribes and unsubscribes.

use crate::Kernel;
use crate::access::Permission;
use crate::effects::{Answer, Effects, Subscribed};
use crate::groups::group::Group;
use crate::ids::{GroupId, LinkId, SessionId, Ticket};
use crate::memory::{Kept, subscription_cost, will_cost};
use crate::queue::is_queue_address;
use crate::routes::cached::{FOLLOWS, NO_LOCAL, RETAIN_AS_PUBLISHED, Sink, SinkKind};
use crate::session::{Grants, Held, Session};
use crate::values::retained::Scan;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::filter::kind_of;
use thalweg_model::{Filter, FilterKind, Reliability, Time};
use thalweg_records::Record;

/// One subscription that a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Canonical rendering of a filter of either kind; a group's is of levels.
    pub filter: &'a str,
    /// The group to share it with, if any.
    pub group: Option<&'a str>,
    /// The most that is wanted.
    pub reliability: Reliability,
    /// Leave out what this session publishes itself.
    pub no_local: bool,
    /// Show the publisher's retain flag.
    pub retain_as_published: bool,
    /// Which last values are wanted at once.
    pub last_values: LastValueWish,
    /// The subscription's identifier, 0 for none.
    pub id: u32,
}

/// Which last values a subscriber gets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastValueWish {
    Always,
    /// With all that addresses keep beside them, oldest first, and what the session has published itself.
    AllKept,
    /// All that match, unless the subscription existed before.
    IfNew,
    Never,
}

/// A subscribe that is in force here but not yet on every shard.
pub(crate) struct PendingSubscribe {
    pub session: SessionId,
    pub uid: u64,
    pub openings: u32,
    pub link: LinkId,
    pub ticket: Ticket,
    pub outcomes: Vec<Subscribed>,
    pub scans: Vec<Scan>,
    pub answers_missing: usize,
    /// What messages must say.
    pub condition: Option<Arc<Predicate>>,
}

impl Kernel {
    /// Adds or replaces subscriptions. Answers `ticket` through `fx` once every shard routes to them, and delivers last
    /// values after that.
    pub fn subscribe<E: Effects>(
        &mut self,
        id: SessionId,
        ticket: Ticket,
        wishes: &[Wish<'_>],
        now: Time,
        fx: &mut E,
    ) {
        self.subscribe_if(id, ticket, wishes, None, now, fx);
    }

    /// The same of subscriptions with a content filter. A group's that takes from a queue has none.
    pub fn subscribe_if<E: Effects>(
        &mut self,
        id: SessionId,
        ticket: Ticket,
        wishes: &[Wish<'_>],
        condition: Option<Arc<Predicate>>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let Some(link) = session.link() else { return };
        let mut pending = PendingSubscribe {
            session: id,
            uid: session.uid(),
            openings: session.connection.opening(),
            link,
            ticket,
            outcomes: Vec::with_capacity(wishes.len()),
            scans: Vec::new(),
            answers_missing: 0,
            condition,
        };
        let number = self.remote.next_question();
        for wish in wishes {
            let outcome = self.subscribe_one(id, wish, number, &mut pending);
            pending.outcomes.push(outcome);
            // Members of groups are sent little ahead anyway.
            let is_own = wish.group.is_none() && matches!(outcome, Subscribed::Granted(_));
            if is_own && self.env.limits().prioritizes_within(wish.filter) {
                self.prioritize(id, fx);
            }
        }
        if pending.answers_missing == 0 {
            self.finish_subscribe(pending, now, fx);
        } else {
            self.remote.wait_for(number, pending);
        }
        self.end_command(now, fx);
    }

    pub(crate) fn finish_subscribe<E: Effects>(
        &mut self,
        pending: PendingSubscribe,
        now: Time,
        fx: &mut E,
    ) {
        let id = pending.session;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let same_opening =
            (session.uid(), session.connection.opening()) == (pending.uid, pending.openings);
        if !same_opening || session.link() != Some(pending.link) {
            return;
        }
        // It may have unsubscribed meanwhile. Only the new ones are looked at: what is asked for earlier may be much.
        let mut scans = pending.scans;
        scans.retain(|scan| self.holds(id, scan.filter()));
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.subscriptions.add_scans(scans);
        if session.is_durable() {
            fx.hold(pending.link, self.journal.awaited());
        }
        fx.answer(
            pending.link,
            pending.ticket,
            Answer::Subscribed(&pending.outcomes),
        );
        self.pump(id, now, fx);
    }

    fn subscribe_one(
        &mut self,
        id: SessionId,
        wish: &Wish<'_>,
        number: u32,
        pending: &mut PendingSubscribe,
    ) -> Subscribed {
        if let Err(refusal) = self.check_wish(id, wish) {
            return refusal;
        }
        let limits = self.env.limits();
        let asked = wish
            .reliability
            .min(limits.reliability_max)
            .min(self.grants(id).reliability_max);
        let offered = limits.reliability_within(wish.filter, asked);
        // What a session is sent alone is bounded by each address; members of a group by its filter.
        let is_new = match wish.group {
            Some(group) => self.join_group(id, group, wish, (asked, offered), number, pending),
            None => self.subscribe_alone(id, wish, asked, number, pending),
        };
        let Some(is_new) = is_new else {
            return Subscribed::TooMany;
        };
        let condition = pending.condition.clone();
        self.persist_subscription(id, wish, asked, condition.as_deref());
        // Last values are not sent to groups : a new member would make everybody receive them again.
        let wanted = match wish.last_values {
            LastValueWish::Always | LastValueWish::AllKept => true,
            LastValueWish::IfNew => is_new,
            LastValueWish::Never => false,
        };
        if wanted && wish.group.is_none() && self.env.limits().retain_enabled {
            pending.scans.push(self.scan_for(wish, asked, condition));
        }
        if offered < asked {
            self.books.downgraded();
        }
        Subscribed::Granted(offered)
    }

    fn grants(&self, id: SessionId) -> Grants {
        self.sessions
            .get(id)
            .map(|session| *session.connection.grants())
            .unwrap_or_default()
    }

    fn check_wish(&self, id: SessionId, wish: &Wish<'_>) -> Result<(), Subscribed> {
        let Ok(filter) = Filter::from_canonical(wish.filter) else {
            return Err(Subscribed::BadFilter);
        };
        // Groups are named and found by filters of levels.
        if wish.group.is_some() && kind_of(wish.filter) == FilterKind::Prefix {
            return Err(Subscribed::BadFilter);
        }
        if filter.levels().count() > self.env.limits().levels_max {
            return Err(Subscribed::BadFilter);
        }
        let grants = self.grants(id);
        if wish.group.is_some() && !(self.env.limits().groups_enabled && grants.groups) {
            return Err(Subscribed::NoShared);
        }
        if filter.has_wildcard() && !(self.env.limits().wildcards_enabled && grants.wildcards) {
            return Err(Subscribed::NoWildcards);
        }
        match self.sessions.get(id) {
            Some(session) if may_subscribe(session, wish) => match self.is_told_here(wish.filter) {
                true => Ok(()),
                false => Err(Subscribed::Denied),
            },
            _ => Err(Subscribed::Denied),
        }
    }

    /// Whether it is new; `None` if the session has too many.
    fn subscribe_alone(
        &mut self,
        id: SessionId,
        wish: &Wish<'_>,
        reliability: Reliability,
        number: u32,
        pending: &mut PendingSubscribe,
    ) -> Option<bool> {
        let flags = (u8::from(wish.no_local) * NO_LOCAL)
            | (u8::from(wish.retain_as_published) * RETAIN_AS_PUBLISHED)
            | (u8::from(wish.last_values == LastValueWish::AllKept) * FOLLOWS);
        let mut sink = Sink {
            target: id.0,
            id: wish.id,
            kind: SinkKind::Session,
            reliability,
            flags,
        };
        let condition_bytes = pending.condition.as_ref().map_or(0, |it| it.bytes());
        let is_held = self.holds(id, wish.filter);
        let cost = if is_held {
            0
        } else {
            subscription_cost(wish.filter)
        };
        if (!is_held || condition_bytes > 0) && !self.may_subscribe(id, cost + condition_bytes) {
            return None;
        }
        if is_held {
            if let Some(condition) = &pending.condition {
                self.routes.filter(&mut sink, condition.clone());
            }
            let mut replaced = None;
            self.routes.update(wish.filter, |old| {
                let found = old.kind == SinkKind::Session && old.target == id.0;
                if found {
                    replaced = Some(std::mem::replace(old, sink));
                }
                found
            });
            if let Some(replaced) = replaced {
                self.routes.drop_condition(&replaced);
            }
            self.weigh_condition(id, wish.filter, None, condition_bytes);
            if self.has_open_questions() {
                pending.answers_missing += self.tell_interest(wish.filter, number);
            }
            return Some(false);
        }
        let session = self.sessions.get(id)?;
        if session.subscriptions.len() >= self.env.limits().subscriptions_max {
            return None;
        }
        if let Some(condition) = &pending.condition {
            self.routes.filter(&mut sink, condition.clone());
        }
        self.hold_subscription(id, wish.filter, None);
        self.weigh_condition(id, wish.filter, None, condition_bytes);
        let first_here = !self.is_wanted_here(wish.filter);
        self.routes.insert(wish.filter, sink);
        // While a question is open, the other shards may not know even a filter that another session here has; their
        // answers come in order, so asking again waits for both.
        if first_here || self.has_open_questions() {
            pending.answers_missing += self.tell_interest(wish.filter, number);
        }
        Some(true)
    }

    /// Whether a session may have one more subscription of this cost.
    pub(crate) fn may_subscribe(&self, id: SessionId, cost: usize) -> bool {
        let will = |session: &Session| session.life.will().map_or(0, will_cost);
        let session = self.sessions.get(id);
        let own = session.map_or(0, |session| session.subscriptions.bytes() + will(session));
        self.may_keep(own, cost)
    }

    /// A session has one subscription more.
    pub(crate) fn hold_subscription(
        &mut self,
        id: SessionId,
        filter: &str,
        group: Option<GroupId>,
    ) {
        if let Some(cost) = self.sessions.hold(id, filter, group) {
            self.env.entered(Kept::Subscriptions, cost);
        }
    }

    /// The content filter of a subscription that is held costs so much from now on.
    pub(crate) fn weigh_condition(
        &mut self,
        id: SessionId,
        filter: &str,
        group: Option<GroupId>,
        bytes: usize,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let before = session.subscriptions.set_condition(filter, group, bytes);
        self.env.entered(Kept::Subscriptions, bytes);
        self.env.left(Kept::Subscriptions, before);
    }

    /// Whether some shard may not know yet what is wanted here.
    fn has_open_questions(&self) -> bool {
        self.remote.has_pending() || self.values.watches.has_questions()
    }

    /// Whether the session has a subscription of its own to exactly this filter.
    fn holds(&self, id: SessionId, filter: &str) -> bool {
        let sinks = self.routes.sinks(filter);
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        // Whichever list is shorter: some filters have 100,000 sinks, some sessions 10,000 filters.
        if session.subscriptions.len() < sinks.len() {
            session.subscriptions.has(filter)
        } else {
            sinks
                .iter()
                .any(|sink| sink.kind == SinkKind::Session && sink.target == id.0)
        }
    }

    /// Whether a session or reader of this shard, or one of its queues, wants exactly this filter.
    pub(crate) fn is_wanted_here(&self, filter: &str) -> bool {
        let is_ours = |sink: &Sink| !matches!(sink.kind, SinkKind::Group | SinkKind::Shard);
        self.routes.sinks(filter).iter().any(is_ours)
    }

    /// Removes subscriptions and answers `ticket` at once: what other shards still forward finds no receiver here.
    pub fn unsubscribe<E: Effects>(
        &mut self,
        id: SessionId,
        ticket: Ticket,
        filters: &[(&str, Option<&str>)],
        now: Time,
        fx: &mut E,
    ) {
        let Some(link) = self.sessions.link_of(id) else {
            return;
        };
        let existed: Vec<bool> = filters
            .iter()
            .map(|(filter, group)| self.unsubscribe_one(id, filter, *group, now, fx))
            .collect();
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.is_durable()) {
            fx.hold(link, self.journal.awaited());
        }
        fx.answer(link, ticket, Answer::Unsubscribed(&existed));
        self.end_command(now, fx);
    }

    fn unsubscribe_one<E: Effects>(
        &mut self,
        id: SessionId,
        filter: &str,
        group: Option<&str>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let group = match group {
            None => None,
            Some(name) => match self.find_group(name, filter) {
                None => return false,
                found => found,
            },
        };
        let Some(held) = self.sessions.let_go(id, filter, group) else {
            return false;
        };
        let name = held
            .group
            .and_then(|group| self.groups.get(group))
            .map(Group::name);
        self.drop_subscription(id, &held, now, fx);
        if let Some(session) = self.sessions.get(id).filter(|session| session.is_durable()) {
            let record = Record::Unsubscribed {
                queue: session.uid(),
                filter,
                group: name.as_deref(),
            };
            let safety = self.session_safety(id);
            self.journal.persist(&record, safety);
        }
        true
    }

    pub(crate) fn drop_all_subscriptions<E: Effects>(
        &mut self,
        id: SessionId,
        now: Time,
        fx: &mut E,
    ) {
        for held in self.sessions.let_all_go(id) {
            self.drop_subscription(id, &held, now, fx);
        }
    }

    fn drop_subscription<E: Effects>(&mut self, id: SessionId, held: &Held, now: Time, fx: &mut E) {
        self.env.left(Kept::Subscriptions, held.cost());
        if let Some(group) = held.group {
            self.leave_group(id, group, now, fx);
            return;
        }
        self.routes.remove(&held.filter, |sink| {
            sink.kind == SinkKind::Session && sink.target == id.0
        });
        self.withdraw_interest(&held.filter);
    }
}

/// Members of a group on a queue's address take from the queue; that is a right of its own.
fn may_subscribe(session: &Session, wish: &Wish<'_>) -> bool {
    let takes = wish.group.is_some() && is_queue_address(wish.filter);
    session.access().allows(
        if takes {
            Permission::Take
        } else {
            Permission::Subscribe
        },
        wish.filter,
    )
}
