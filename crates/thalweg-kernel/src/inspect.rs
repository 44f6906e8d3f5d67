//! Looking in: what operators ask. Answers are copies; none of these change anything.

use crate::Kernel;
use crate::access::{Access, Permission};
use crate::groups::group::Group;
use crate::groups::seats::key_of;
use crate::ids::{LinkId, SessionId, ShardId, WatchId};
use crate::ledger::Account;
use crate::publish::subject::Subject;
use crate::routes::cached::{Sink, SinkKind};
use crate::session::Session;
use crate::values::{NONE, Watcher};
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Filter, Message, Properties, Reliability, RetainOp, Span, Time};

/// A session, as operators see it.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The name it is found by.
    pub client: Arc<str>,
    pub user: Option<Arc<str>>,
    /// Its link, if it has one now.
    pub link: Option<LinkId>,
    /// The peer's protocol and version.
    pub dialect: &'static str,
    /// How long it outlives its link.
    pub expiry: Span,
    /// When it was opened, resumed or left.
    pub since: Time,
    /// How many subscriptions it has.
    pub subscriptions: usize,
    /// Copies that wait for it.
    pub waiting: usize,
    pub waiting_bytes: usize,
    /// Copies sent and not settled.
    pub in_flight: u32,
    /// How many of those it allows.
    pub in_flight_max: u16,
    /// Its link's output is above the high-water mark.
    pub congested: bool,
    pub received: u64,
    /// It outlives the broker, too.
    pub durable: bool,
    /// The copies for it: all that was routed to it or left by an earlier run, and what became of that.
    pub account: Account,
}

/// A subscription, as operators see it.
#[derive(Clone, Debug)]
pub struct SubscriptionView {
    pub client: Arc<str>,
    /// The canonical filter; see [`thalweg_model::filter::shown`].
    pub filter: Box<str>,
    /// The group it is shared with.
    pub group: Option<Box<str>>,
    /// The most reliable it is granted.
    pub reliability: Reliability,
    /// How reliably it is sent messages at best, by the policies of now.
    pub offered: Reliability,
    /// Its identifier, 0 for none.
    pub id: u32,
    /// The content filter that messages must pass.
    pub condition: Option<Arc<Predicate>>,
    /// The number of the watch that it is.
    pub watch: Option<WatchId>,
}

/// What a publish to some address would do; see [`Kernel::explain`].
#[derive(Clone, Debug)]
pub struct Explained {
    /// One line per receiver on this shard: client, what would happen.
    pub receivers: Vec<(Arc<str>, String)>,
    /// Clients or groups, and content filters, of receivers that do not get this message.
    pub rejecting: Vec<(Arc<str>, String)>,
    /// One line per group: name and filter, what would happen.
    pub groups: Vec<(Arc<str>, String)>,
    /// One line per queue with a name: address, what would happen.
    pub queues: Vec<(Arc<str>, String)>,
    /// Readers on this shard who watch the address.
    pub watches: usize,
    /// Other shards that have receivers.
    pub shards: Vec<u16>,
    /// The publisher may not publish there: the publish would reach no receiver.
    pub denied: bool,
    /// Whether a last value is kept on this shard.
    pub has_last_value: bool,
    /// How many messages are kept on this shard, the last value among them.
    pub kept_messages: usize,
    /// Whether every publish there is remembered, retained or not.
    pub is_kept: bool,
}

/// Totals of a kernel at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions with a link.
    pub sessions_online: usize,
    pub sessions: usize,
    /// All subscriptions of this shard's sessions.
    pub subscriptions: usize,
    pub retained: usize,
    /// Messages of addresses that keep several, their last values among them.
    pub kept_messages: usize,
    /// Bytes of last values, and of what addresses keep beside them.
    pub retained_bytes: usize,
    /// Copies that wait in sessions, groups, queues and watches.
    pub waiting: usize,
    /// Copies sent and not settled.
    pub in_flight: usize,
    /// Bytes of copies that wait or are in flight.
    pub queued_bytes: usize,
    pub groups: usize,
    pub watches: usize,
    /// Last values that are kept by `keep_last`, not by a retained publish.
    pub kept_values: usize,
    /// Publishers known by their stamps.
    pub publishers: usize,
}

impl Kernel {
    /// Shows `f` every session of this shard.
    pub fn for_each_session(&self, mut f: impl FnMut(SessionView)) {
        for (_, session) in self.sessions.iter() {
            f(session.view());
        }
    }

    /// One session by its client's name.
    pub fn session_view(&self, client: &str) -> Option<SessionView> {
        self.sessions.of_client(client).map(Session::view)
    }

    /// The session of that number, if it still exists: its client's name.
    pub fn client_of(&self, id: SessionId) -> Option<&Arc<str>> {
        self.sessions.get(id).map(|session| session.client())
    }

    /// The user whose session it is; none for the anonymous, and for sessions that have ended.
    pub fn session_user(&self, id: SessionId) -> Option<&str> {
        self.sessions.get(id)?.user().map(|user| &**user)
    }

    /// What a session may do now.
    pub fn session_access(&self, id: SessionId) -> Option<&Access> {
        self.sessions.get(id).map(|session| session.access())
    }

    /// Whether a session is a member of any group.
    pub fn is_in_group(&self, id: SessionId) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| !session.membership.groups().is_empty())
    }

    /// Which of the kernels this is.
    pub fn shard(&self) -> ShardId {
        self.env.shard()
    }

    /// How many kernels share the work.
    pub fn shards(&self) -> u16 {
        self.env.shards()
    }

    /// Whether a session has this permission now. For lists, which leave out what the session may not see; operations
    /// check their rights themselves.
    pub fn may(&self, id: SessionId, permission: Permission, address: &str) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| session.access().allows(permission, address))
    }

    /// The latest value of a watch's address, retained or not. Nothing if there was none, it was cleared, has expired or does
    /// not pass the watch's content filter.
    pub fn watched_value(&self, watch: WatchId, now: Time) -> Option<&Message> {
        let watches = &self.values.watches;
        let value = watches.cell(watches.get(watch.0)?.cell())?.value()?;
        let is_there = value.retain() != RetainOp::Clear && value.expires() > now;
        (is_there && self.passes_filter_of(watch.0, value, &mut None)).then_some(value)
    }

    /// The text of a watch's content filter, if it has one.
    pub fn watched_filter(&self, watch: WatchId) -> Option<&str> {
        let condition = self.values.watches.condition(watch.0)?;
        Some(condition.text())
    }

    /// What a watch watches.
    pub fn watched_address(&self, watch: WatchId) -> Option<&str> {
        let watches = &self.values.watches;
        Some(watches.cell(watches.get(watch.0)?.cell())?.address())
    }

    /// A client's name that no session of this shard has and whose home is this shard, made from `nonce`.
    pub fn unused_client_id(&self, nonce: u64) -> Box<str> {
        let key = self.name_key(nonce);
        let tries = (0..).map(|n| format!("auto-{:016x}", key.name("client", n) as u64));
        let fits = |name: &String| {
            crate::home(name, self.env.shards()) == self.env.shard()
                && self.sessions.id_of(name).is_none()
        };
        tries.into_iter().find(fits).unwrap_or_default().into()
    }

    /// Shows `f` every subscription of this shard's sessions, or of one of them.
    pub fn for_each_subscription(&self, client: Option<&str>, mut f: impl FnMut(SubscriptionView)) {
        for (id, session) in self
            .sessions
            .iter()
            .filter(|(_, s)| client.is_none_or(|client| **s.client() == *client))
        {
            for held in session.subscriptions.iter() {
                let condition;
                let (group, reliability, granted, number) = if held.group.is_none() {
                    let is = |sink: &&Sink| sink.kind == SinkKind::Session && sink.target == id.0;
                    let sink = self.routes.sinks(&held.filter).iter().find(is);
                    let filtered = sink.and_then(|sink| self.routes.condition(sink));
                    condition = filtered.map(|it| it.predicate.clone());
                    (
                        None,
                        sink.map(|sink| sink.reliability),
                        None,
                        filtered.map_or(sink.map_or(0, |sink| sink.id), |it| it.id),
                    )
                } else {
                    let group = held.group.and_then(|group| self.groups.get(group));
                    let member =
                        group.and_then(|group| group.members().iter().find(|m| m.session == id));
                    let selectors = group.and_then(Group::selectors);
                    condition = selectors.and_then(|it| it.filter(key_of(id))).cloned();
                    (
                        group.map(Group::name),
                        member.map(|m| m.asked),
                        member.map(|m| m.reliability),
                        member.map_or(0, |m| m.id),
                    )
                };
                let reliability = reliability.unwrap_or_default();
                let limits = self.env.limits();
                f(SubscriptionView {
                    client: session.client().clone(),
                    filter: held.filter.clone(),
                    group,
                    reliability,
                    offered: granted
                        .unwrap_or_else(|| limits.reliability_within(&held.filter, reliability)),
                    id: number,
                    condition,
                    watch: None,
                });
            }
        }
    }

    /// Shows `f` every watch of this shard's sessions, or of one of them, as a subscription to its address.
    pub fn for_each_watch(&self, client: Option<&str>, mut f: impl FnMut(SubscriptionView)) {
        let watches = &self.values.watches;
        let mut show = |(number, watcher): (u32, &Watcher)| {
            let session = self.sessions.get(watcher.session());
            if let (Some(session), Some(cell)) = (session, watches.cell(watcher.cell())) {
                let (address, asked) = (cell.address(), watcher.reliability());
                f(SubscriptionView {
                    client: session.client().clone(),
                    filter: address.into(),
                    group: None,
                    reliability: asked,
                    offered: self.env.limits().reliability_at(address, asked),
                    id: 0,
                    condition: watches.condition(number).cloned(),
                    watch: Some(WatchId(number)),
                });
            }
        };
        let Some(client) = client else {
            return watches.iter().for_each(show);
        };
        let session = self.sessions.of_client(client);
        let mut next = session.map_or(NONE, |session| session.first_watch());
        while let Some(watcher) = watches.get(next) {
            show((next, watcher));
            next = watcher.next_of_session();
        }
    }

    /// Up to `max` last values of this shard that match.
    pub fn last_values_matching(&self, filter: &Filter, max: usize, now: Time) -> Vec<Message> {
        let mut cursor = crate::values::last_value::ScanCursor::default();
        let mut found = std::collections::VecDeque::new();
        while found.len() < max && !self.look(filter.as_str(), &mut cursor, now, &mut found) {
            if found.len() >= max {
                break;
            }
        }
        found.truncate(max);
        found.into()
    }

    /// The messages that an address of this shard keeps, oldest first.
    pub fn kept_at(&self, address: &str, now: Time) -> Vec<Message> {
        self.values.kept(address, now)
    }

    /// What a publish would do, without doing it. Of groups it is said whom a message that must be settled would go to, or
    /// that it would wait, and why.
    pub fn explain(&mut self, address: &str, publisher: Option<&str>, now: Time) -> Explained {
        self.explain_message(address, publisher, None, now)
    }

    /// The same of a message with a payload and properties, of which content filters are asked.
    pub fn explain_message(
        &mut self,
        address: &str,
        publisher: Option<&str>,
        sample: Option<(&[u8], &Properties)>,
        now: Time,
    ) -> Explained {
        let route = self.route(address);
        let uid = publisher.and_then(|client| self.sessions.of_client(client));
        let uid = uid.map_or(0, |session| session.uid());
        let (mut receivers, mut rejecting, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for group_id in route.groups() {
            match self.explain_group(*group_id, (address, sample), uid, now) {
                Some((true, key, what)) => groups.push((key, what)),
                Some((false, key, what)) => rejecting.push((key, what)),
                None => {}
            }
        }
        let says = |session: &Session| match (
            session.link(),
            session.connection.is_congested(),
            session.has_credit(),
        ) {
            (None, ..) => "offline: at-most-once copies are dropped, others wait in its queue",
            (_, true, _) => {
                "its output is congested: at-most-once copies may be dropped, others wait"
            }
            (_, _, false) => "its window is full: copies that must be settled wait",
            _ => "delivered at once",
        };
        let subject = sample.map(|sample| Subject::of_sample(address, sample));
        for receiver in route.any_receivers() {
            let Some(session) = self.sessions.get(receiver.session) else {
                continue;
            };
            let client = session.client().clone();
            let filter = route
                .filtered()
                .and_then(|it| it.filter_of(receiver.session));
            let what = format!("{} ({:?})", says(session), receiver.reliability);
            match (filter, &subject) {
                (None, _) => receivers.push((client, what)),
                (Some((text, _)), None) => {
                    receivers.push((client, format!("if it passes the filter {text}: {what}")));
                }
                (Some((text, filter)), Some(subject)) if filter.passes(subject) => {
                    receivers.push((client, format!("it passes the filter {text}: {what}")));
                }
                (Some((text, _)), Some(_)) => {
                    rejecting.push((client, format!("it does not pass the filter {text}")));
                }
            }
        }
        let queues = route
            .queues()
            .iter()
            .filter_map(|queue| self.explain_queue(*queue, subject.as_ref()));
        let mut explained = Explained {
            receivers,
            rejecting,
            groups,
            queues: queues.collect(),
            watches: route.cell().map_or(0, |cell| self.watchers_of(cell)),
            shards: route.shards().to_vec(),
            denied: false,
            has_last_value: self.values.latest(address, Time::ZERO).is_some(),
            kept_messages: self.values.kept(address, Time::ZERO).len(),
            is_kept: route.is_kept(),
        };
        if let Some(session) = publisher.and_then(|client| self.sessions.of_client(client))
            && !session.access().allows(Permission::Publish, address)
        {
            explained.denied = true;
            explained.receivers = vec![(
                session.client().clone(),
                "the publisher may not publish there".into(),
            )];
            explained.rejecting.clear();
            explained.groups.clear();
            explained.watches = 0;
            explained.queues.clear();
        }
        explained
    }

    /// Totals right now, without looking at each session.
    pub fn totals(&self) -> Totals {
        Totals {
            sessions_online: self.sessions.online(),
            sessions: self.sessions.len(),
            subscriptions: self.sessions.subscriptions(),
            retained: self.values.retained_count(),
            kept_messages: self.values.history.count(),
            retained_bytes: self.values.retained_bytes(),
            waiting: self.books.waiting(),
            in_flight: self.books.in_flight(),
            queued_bytes: self.books.bytes_held(),
            groups: self.groups.count(),
            watches: self.values.watches.count(),
            kept_values: self.values.remembered_count(),
            publishers: self.dedup.len(),
        }
    }
}

impl Group {
    pub(crate) fn name(&self) -> Box<str> {
        self.key().split('/').next().unwrap_or("").into()
    }
}

impl Session {
    fn view(&self) -> SessionView {
        let (connection, lines) = (&self.connection, self.lines.as_ref());
        SessionView {
            client: self.client().clone(),
            user: self.user().cloned(),
            link: self.link(),
            dialect: connection.dialect(),
            expiry: self.life.expiry(),
            since: connection.since(),
            subscriptions: self.subscriptions.len(),
            waiting: self.backlog.len(),
            waiting_bytes: self.backlog.bytes(),
            in_flight: self.window.len() + lines.map_or(0, |lines| lines.unsettled() as u32),
            in_flight_max: connection.in_flight_max(),
            congested: connection.is_congested(),
            received: self.counts.received(),
            durable: self.is_durable(),
            account: self.counts.account(),
        }
    }
}
