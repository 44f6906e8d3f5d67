//! A group: several sessions share what one filter brings; each message goes to one of them.
//!
//! The group is a queue of its own. A message that no member can take waits in the group, not at a member, so a slow or
//! dead member holds nothing back; what a member has not settled when its link ends returns to the group. One shard
//! owns the group: messages wait there and members are chosen there; see `group_home` for members on other shards.

use crate::books::Delta;
use crate::entry::{Entry, Via};
use crate::groups::given_back::GivenBack;
use crate::groups::policy::Policy;
use crate::groups::seats::{Seats, key, key_of};
use crate::groups::view::GroupCounters;
use crate::ids::{GroupId, QueueId, SessionId, ShardId};
use crate::limits::Limits;
use crate::publish::pace::Pace;
use crate::queue::{Backlog, Item, Mark, Place, Selectors};
use std::sync::Arc;
use thalweg_balance::GroupStrategy;
use thalweg_filter::Predicate;
use thalweg_model::{Message, Reliability, Span};

/// Members of one filter under one name. The same name on another filter is another group.
pub(crate) struct Group {
    key: Arc<str>,
    filter: Box<str>,
    /// The shard that chooses.
    owner: ShardId,
    policy: Policy,
    origin: Origin,
    members: Vec<Member>,
    /// What other shards have, in the order of their numbers.
    peers: Vec<Peer>,
    /// Members with a link on other shards; only the owner has them. No session here has their numbers.
    away: Vec<Member>,
    errands: Errands,
    /// Once publishers have waited for it.
    pace: Option<Box<Pace>>,
    /// Away only while it is asked.
    seats: Option<Box<Seats>>,
    /// If one of its members has a content filter.
    selectors: Option<Box<Selectors>>,
    pub waiting: Backlog,
    pub given_back: GivenBack,
    pub counters: GroupCounters,
}

/// Where a group's messages come from, and where they stand in the journal.
#[derive(Default)]
struct Origin {
    /// The queue that it takes from; then nothing waits in the group that has not been with a member.
    feed: Option<QueueId>,
    /// While a session that outlives its link is a member, on whichever shard, what the group holds is written down under
    /// this number, or it is the queue's; otherwise 0.
    number: u64,
    /// What of it may have been delivered.
    mark: Mark,
}

/// What is under way to members on other shards.
#[derive(Default)]
struct Errands {
    /// Copies whose outcome is not known yet.
    out: usize,
    /// The group ends, or what it holds is no longer written down, when they are back.
    is_awaited: bool,
}

/// The members that another shard has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub shard: ShardId,
    pub all: u32,
    /// Whether a session that outlives the broker is among them.
    pub durable: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub session: SessionId,
    /// How surely it wants messages.
    pub asked: Reliability,
    /// The same, as far as the policies of the group's filter allow it.
    pub reliability: Reliability,
    pub id: u32,
    /// Given if its copies come like those of queues.
    pub line: Option<LineMember>,
}

/// A member that is a consumer of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineMember {
    pub line: u16,
    pub consumer: u32,
    pub settles: bool,
}

impl Group {
    pub(crate) fn new(key: Arc<str>, filter: &str, owner: ShardId, policy: Policy) -> Self {
        let seats = Seats::new(policy.strategy);
        Group {
            key,
            filter: filter.into(),
            owner,
            policy,
            origin: Origin::default(),
            members: Vec::new(),
            peers: Vec::new(),
            away: Vec::new(),
            errands: Errands::default(),
            pace: None,
            seats: Some(Box::new(seats)),
            selectors: None,
            waiting: Backlog::shared(),
            given_back: GivenBack::default(),
            counters: GroupCounters::default(),
        }
    }

    /// Its name and filter, as [`group_key`] puts them together.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// The shard that chooses.
    pub(crate) fn owner(&self) -> ShardId {
        self.owner
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its operator's policy is another now. With another strategy members are seated anew.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        let strategy = policy.strategy;
        if self.policy != policy {
            self.policy = policy;
            self.seats_changed();
        }
        if self.strategy() != strategy {
            let old = self.seats.take();
            self.seats = Some(Box::new(Seats::after(old, strategy)));
        }
    }

    // --- members

    /// Members on this shard, with or without a link.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Members with a link on other shards, if this shard is the owner.
    pub(crate) fn away(&self) -> &[Member] {
        &self.away
    }

    /// Whether there is a member, with or without a link, on any shard.
    pub(crate) fn has_members(&self) -> bool {
        !self.members.is_empty() || !self.peers.is_empty()
    }

    /// Whether it chooses here and all its members are here.
    #[inline]
    pub(crate) fn is_all_on(&self, shard: ShardId) -> bool {
        self.owner == shard && self.peers.is_empty() && self.away.is_empty()
    }

    /// All that can be chosen.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.away)
    }

    /// Adds a member, with or without a content filter.
    pub(crate) fn add(&mut self, member: Member, filter: Option<Arc<Predicate>>) {
        self.select(&member, filter);
        self.members.push(member);
        self.seats_changed();
    }

    /// Renews the terms of a session that is a member; false if it is not.
    pub(crate) fn renew(&mut self, member: Member, filter: &Option<Arc<Predicate>>) -> bool {
        let known = self.members.iter_mut();
        match { known }.find(|known| known.session == member.session) {
            Some(known) => *known = member,
            None => return false,
        }
        self.select(&member, filter.clone());
        self.seats_changed();
        true
    }

    /// What members here that have no line are granted of what they asked for is another now; those of whom that is true.
    pub(crate) fn grant_anew(&mut self, limits: &Limits) -> Vec<SessionId> {
        let mut changed = Vec::new();
        for member in self.members.iter_mut().filter(|it| it.line.is_none()) {
            let granted = limits.reliability_within(&self.filter, member.asked);
            if std::mem::replace(&mut member.reliability, granted) != granted {
                changed.push(member.session);
            }
        }
        if !changed.is_empty() {
            self.seats_changed();
        }
        changed
    }

    fn select(&mut self, member: &Member, filter: Option<Arc<Predicate>>) {
        let others = self.members.iter().chain(&self.away).map(key);
        Selectors::join(&mut self.selectors, key(member), filter, others);
    }

    /// The content filters of members, if there are any.
    #[inline]
    pub(crate) fn selectors(&self) -> Option<&Selectors> {
        self.selectors.as_deref()
    }

    pub(crate) fn selectors_mut(&mut self) -> Option<&mut Selectors> {
        self.selectors.as_deref_mut()
    }

    /// Whether a member takes only some of what there is.
    pub(crate) fn selects(&self, member: &Member) -> bool {
        let selectors = self.selectors();
        selectors.is_some_and(|it| it.filter(key(member)).is_some())
    }

    /// Its members look at everything again: what they may have, or what waits, is another.
    pub(crate) fn look_again(&mut self) {
        if let Some(selectors) = self.selectors_mut() {
            selectors.look_again();
        }
    }

    /// Whether it knows every member there is, with the content filters; if this shard is the owner.
    pub(crate) fn knows_everybody(&self) -> bool {
        let elsewhere: usize = self.peers.iter().map(|peer| peer.all as usize).sum();
        elsewhere <= self.away.len()
    }

    /// A message waits where it waited before.
    pub(crate) fn comes_back(&mut self, item: Item) -> Delta {
        self.came_back_to(self.waiting.place_of(&item));
        self.waiting.insert(item)
    }

    /// Members who have looked at a place, of its own or of its queue's, look there again.
    pub(crate) fn came_back_to(&mut self, place: Place) {
        if let Some(selectors) = self.selectors.as_deref_mut() {
            selectors.came_back(place);
        }
    }

    /// A message waits before all others.
    pub(crate) fn comes_back_first(&mut self, item: Item) -> Delta {
        let order = self.waiting.order_before(&item.message);
        self.comes_back(Item { order, ..item })
    }

    /// Forgets all memberships of a session.
    pub(crate) fn leave(&mut self, id: SessionId) {
        for gone in self.members.extract_if(.., |member| member.session == id) {
            Selectors::leave(&mut self.selectors, key(&gone));
        }
        self.seats_changed();
    }

    /// Forgets a member that is a consumer of a line; the content filter that it had.
    pub(crate) fn leave_line(
        &mut self,
        id: SessionId,
        line: u16,
        consumer: u32,
    ) -> Option<Arc<Predicate>> {
        let is = |line_of: LineMember| (line_of.line, line_of.consumer) == (line, consumer);
        self.members
            .retain(|member| !(member.session == id && member.line.is_some_and(is)));
        self.seats_changed();
        Selectors::leave(&mut self.selectors, (id, line, consumer))
    }

    /// Notes how many members another shard has.
    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.peers.retain(|known| known.shard != peer.shard);
        if peer.all > 0 {
            self.peers.push(peer);
            self.peers.sort_unstable_by_key(|peer| peer.shard);
        }
    }

    /// Takes it for granted that another shard has durable members, until it says how many.
    pub(crate) fn expect_peer(&mut self, shard: ShardId) {
        if self.peers.iter().all(|peer| peer.shard != shard) {
            self.peers.push(Peer {
                shard,
                all: 1,
                durable: true,
            });
        }
    }

    /// Whether a session that outlives the broker is a member on another shard.
    pub(crate) fn has_durable_peer(&self) -> bool {
        self.peers.iter().any(|peer| peer.durable)
    }

    /// Adds a member on another shard, or renews its terms.
    pub(crate) fn add_away(&mut self, member: Member, filter: Option<Arc<Predicate>>) {
        self.select(&member, filter);
        let known = self.away.iter_mut();
        match { known }.find(|known| known.session == member.session) {
            Some(known) => *known = member,
            None => self.away.push(member),
        }
        self.seats_changed();
    }

    pub(crate) fn forget_away(&mut self, id: SessionId) {
        Selectors::leave(&mut self.selectors, key_of(id));
        self.away.retain(|member| member.session != id);
        self.seats_changed();
    }

    pub(crate) fn take_away(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.away)
    }

    /// A member took what was removed from those that wait.
    pub(crate) fn gave(&mut self, priority: u8, waited: Option<Span>) {
        self.waiting.take_turn(priority);
        self.counters.waited(waited);
    }

    /// Whether it keeps order: then what waits is in the order in which it came, whatever its priority.
    pub(crate) fn keep_in_line(&mut self, is_ordered: bool) {
        if self.waiting.keep_in_line(is_ordered) {
            self.look_again();
        }
    }

    // --- what is under way to members on other shards

    pub(crate) fn has_errands(&self) -> bool {
        self.errands.out > 0
    }

    pub(crate) fn errand_left(&mut self) {
        self.errands.out += 1;
    }

    pub(crate) fn errand_is_back(&mut self) {
        self.errands.out = self.errands.out.saturating_sub(1);
    }

    /// What must wait for errands, and for what is on disk, is done when they are back.
    pub(crate) fn end_after_errands(&mut self) {
        self.errands.is_awaited = true;
    }

    /// Whether that is now; it is said once.
    pub(crate) fn ends_now(&mut self) -> bool {
        let is_now = self.errands.out == 0 && !self.waiting.is_deep();
        is_now && std::mem::take(&mut self.errands.is_awaited)
    }

    // --- the journal, the queue

    /// The number under which what it holds is written down; 0 if it is not.
    pub(crate) fn number(&self) -> u64 {
        self.origin.number
    }

    /// What it holds is written down from now on.
    pub(crate) fn begin_durability(&mut self, number: u64) {
        (self.origin.number, self.origin.mark) = (number, Mark::default());
    }

    /// What it holds is not written down any more.
    pub(crate) fn end_durability(&mut self) {
        self.origin.number = 0;
        self.waiting.forget_serials();
    }

    /// An earlier run left it under that number, and what may have been delivered of it.
    pub(crate) fn restore(&mut self, number: u64, mark: Option<Mark>) {
        self.origin.number = number;
        if let Some(mark) = mark {
            self.origin.mark = mark;
        }
    }

    /// What may have been delivered of what is written down here, and not in a queue that it takes from.
    #[inline]
    pub(crate) fn mark_mut(&mut self) -> Option<&mut Mark> {
        (self.origin.number != 0 && self.origin.feed.is_none()).then_some(&mut self.origin.mark)
    }

    /// The queue that it takes from.
    #[inline]
    pub(crate) fn feed(&self) -> Option<QueueId> {
        self.origin.feed
    }

    /// It takes from a queue from now on; its entries are the queue's, which is written down under that number.
    pub(crate) fn link(&mut self, queue: QueueId, number: u64) {
        (self.origin.feed, self.origin.number) = (Some(queue), number);
        self.look_again();
    }

    /// It takes from no queue any more.
    pub(crate) fn unlink(&mut self) -> Option<QueueId> {
        self.look_again();
        self.origin.feed.take()
    }

    /// Its queue has ended: what members have is theirs alone.
    pub(crate) fn lose_queue(&mut self) {
        (self.origin.feed, self.origin.number) = (None, 0);
        self.look_again();
    }

    // --- seats

    #[inline]
    pub(crate) fn seats(&self) -> Option<&Seats> {
        self.seats.as_deref()
    }

    #[inline]
    pub(crate) fn seats_mut(&mut self) -> Option<&mut Seats> {
        self.seats.as_deref_mut()
    }

    /// Takes them out while the kernel is asked about members; [`Group::put_seats`] brings them back.
    pub(crate) fn take_seats(&mut self) -> Option<Box<Seats>> {
        self.seats.take()
    }

    pub(crate) fn put_seats(&mut self, seats: Box<Seats>) {
        self.seats = Some(seats);
    }

    /// Members have come or gone, or their terms are others.
    pub(crate) fn seats_changed(&mut self) {
        if let Some(seats) = &mut self.seats {
            seats.changed();
        }
    }

    pub(crate) fn strategy(&self) -> GroupStrategy {
        self.seats
            .as_ref()
            .map_or(GroupStrategy::RoundRobin, |seats| seats.strategy())
    }

    /// How long its publishers wait.
    pub(crate) fn pace_mut(&mut self) -> &mut Pace {
        self.pace.get_or_insert_default()
    }
}

impl Member {
    /// How surely it gets a message; `upgrades`: as surely as it wanted, however that was published.
    pub(crate) fn reliability_of(&self, message: &Message, upgrades: bool) -> Reliability {
        if upgrades {
            self.reliability
        } else {
            self.reliability.min(message.reliability())
        }
    }

    /// A copy for this member.
    pub(crate) fn entry(
        &self,
        group: GroupId,
        message: Message,
        deliveries: u16,
        upgrades: bool,
    ) -> Entry {
        Entry {
            via: Via::Group(group, self.id),
            serial: 0,
            of_group: false,
            reliability: self.reliability_of(&message, upgrades),
            retain: false,
            deliveries,
            message,
        }
    }
}

/// The name by which a group is known on every shard.
pub(crate) fn group_key(name: &str, filter: &str) -> Arc<str> {
    // A group's name holds no '/', so this is unambiguous.
    format!("{name}/{filter}").into()
}
