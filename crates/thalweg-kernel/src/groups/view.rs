//! Groups as operators see them: what waits, who works, and what became of what came.
//!
//! *Knows:* how to copy a group's state for observers. *Must never know:* how it is shown. Counting costs the path of a
//! message an addition; times are taken only of messages that waited.

use crate::Kernel;
use crate::groups::group::{Group, Member};
use crate::groups::ordered::Order;
use crate::groups::seats::{Seats, key};
use crate::groups::work_terms::OrderKey;
use std::sync::Arc;
use thalweg_balance::{GroupStrategy, MemberView, Signal};
use thalweg_filter::Predicate;
use thalweg_model::{Span, Time};

/// A group, as operators see it: one shard's part of it.
#[derive(Clone, Debug)]
pub struct GroupView {
    pub name: Box<str>,
    pub filter: Box<str>,
    pub strategy: GroupStrategy,
    /// What stays in order, if anything does.
    pub ordered: Option<OrderKey>,
    /// Members on this shard, with or without a link.
    pub members: usize,
    /// Messages that wait for any member.
    pub waiting: usize,
    pub waiting_bytes: usize,
    /// How long the first of them has waited.
    pub oldest: Option<Span>,
    /// What became of what came.
    pub counters: GroupCounters,
    /// Members; all that have a link are shown by the group's owner, the others by their own shard.
    pub seats: Vec<GroupMemberView>,
}

/// A member of a group, as operators see it.
#[derive(Clone, Debug)]
pub struct GroupMemberView {
    pub client: Arc<str>,
    /// The content filter of what it takes.
    pub condition: Option<Arc<Predicate>>,
    /// It has a link.
    pub online: bool,
    /// How the group sees what it does; nothing if the strategy does not look.
    pub signal: Option<Signal>,
    /// What a message is thought to take there.
    pub service: Option<Span>,
    /// The network's part of that, there and back, if it was measured.
    pub round_trip: Option<Span>,
    /// Deliveries of this group's that it has not settled.
    pub unsettled: usize,
    /// It gets nothing for now.
    pub suspended: bool,
    /// Messages that went to it.
    pub chosen: u64,
    /// Messages that it has settled.
    pub settled: u64,
    /// Reports that were believed.
    pub reports: u64,
    /// Reports that could not be true.
    pub reports_refused: u64,
    /// How often its connection was closed because it had stalled.
    pub stalls: u32,
}

/// What became of a group's messages since it was made; only growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    pub arrived: u64,
    /// Deliveries to members, repeated ones among them.
    pub chosen: u64,
    /// Messages that waited for a better member although one could have had them.
    pub held: u64,
    /// Messages that waited, or were dropped, because no member could have them.
    pub nobody: u64,
    /// Deliveries that were settled.
    pub settled: u64,
    /// Deliveries that came back from a member.
    pub returned: u64,
    /// Members whose connections were closed because they had stalled.
    pub stalls: u64,
    /// Reports of members that were believed.
    pub reports: u64,
    /// Reports that could not be true.
    pub reports_refused: u64,
    /// Messages whose time ran out in the group's queue.
    pub expired: u64,
    /// Messages that were dropped.
    pub dropped: u64,
    /// How long messages waited in the group's queue until they were delivered for the first time; those that went on at
    /// once are not among them.
    pub wait: Waits,
}

/// How long messages waited: a histogram with fixed bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits no longer than the bound of the same place and longer than the one before; the last is for all beyond.
    pub counts: [u64; Waits::BOUNDS_MS.len() + 1],
    /// All of them together.
    pub sum: Span,
}

/// What became of what a member was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub chosen: u64,
    pub settled: u64,
    pub reports: u64,
    pub reports_refused: u64,
    pub stalls: u32,
    pub unsettled: u32,
}

impl Waits {
    /// Upper bounds, in milliseconds.
    pub const BOUNDS_MS: [u64; 14] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000,
    ];

    /// A message waited for so long.
    pub fn add(&mut self, wait: Span) {
        let at = Self::BOUNDS_MS
            .iter()
            .position(|bound| wait <= Span::from_millis(*bound));
        if let Some(count) = self.counts.get_mut(at.unwrap_or(Self::BOUNDS_MS.len())) {
            *count += 1;
        }
        self.sum = Span::from_nanos(self.sum.nanos().saturating_add(wait.nanos()));
    }

    /// How many messages waited.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl GroupCounters {
    /// A message was delivered that had waited for so long; nothing if it was not the first time.
    pub(crate) fn waited(&mut self, wait: Option<Span>) {
        if let Some(wait) = wait {
            self.wait.add(wait);
        }
    }
}

impl std::ops::AddAssign for Waits {
    /// For the sum over shards.
    fn add_assign(&mut self, other: Waits) {
        self.counts
            .iter_mut()
            .zip(other.counts)
            .for_each(|(count, more)| *count += more);
        self.sum = Span::from_nanos(self.sum.nanos().saturating_add(other.sum.nanos()));
    }
}

impl std::ops::AddAssign for GroupCounters {
    /// For the sum over shards.
    fn add_assign(&mut self, other: GroupCounters) {
        self.arrived += other.arrived;
        self.chosen += other.chosen;
        self.held += other.held;
        self.nobody += other.nobody;
        self.settled += other.settled;
        self.returned += other.returned;
        self.stalls += other.stalls;
        self.reports += other.reports;
        self.reports_refused += other.reports_refused;
        self.expired += other.expired;
        self.dropped += other.dropped;
        self.wait += other.wait;
    }
}

fn member_view(
    client: Arc<str>,
    condition: Option<&Arc<Predicate>>,
    online: bool,
    waits: bool,
    tally: &Tally,
    seen: Option<MemberView>,
) -> GroupMemberView {
    GroupMemberView {
        client,
        condition: condition.cloned(),
        online,
        signal: seen.map(|seen| seen.signal),
        service: seen.map(|seen| seen.service),
        round_trip: seen
            .map(|seen| seen.round_trip)
            .filter(|measured| *measured > Span::ZERO),
        unsettled: tally.unsettled as usize,
        suspended: waits || seen.is_some_and(|seen| seen.suspended),
        chosen: tally.chosen,
        settled: tally.settled,
        reports: tally.reports,
        reports_refused: tally.reports_refused,
        stalls: tally.stalls,
    }
}

impl Kernel {
    /// Shows `f` every group this shard knows.
    pub fn for_each_group(&self, now: Time, mut f: impl FnMut(GroupView)) {
        for group in self.groups.iter() {
            f(self.view_group(group, now));
        }
    }

    /// What became of the messages of all this shard's groups together, those among them that have ended.
    pub fn group_sums(&self) -> GroupCounters {
        self.groups.sums()
    }

    pub(crate) fn view_group(&self, group: &Group, now: Time) -> GroupView {
        let is_owner = group.owner() == self.env.shard();
        let condition = |member: &Member| group.selectors().and_then(|it| it.filter(key(member)));
        let seats = group.members().iter().filter_map(|member| {
            let session = self.sessions.get(member.session)?;
            let (tally, seen) = group
                .seats()
                .map(|seats| seats.seen(member, now))
                .unwrap_or_default();
            let waits = !session.is_trusted() || session.connection.is_congested();
            let online = session.link().is_some();
            // Connected members are shown by the owner, which has more of them.
            (is_owner || !online).then(|| {
                let client = session.client().clone();
                member_view(client, condition(member), online, waits, &tally, seen)
            })
        });
        let away = group.away().iter().filter_map(|member| {
            let (client, waits) = self.view_away(member)?;
            let (tally, seen) = group
                .seats()
                .map(|seats| seats.seen(member, now))
                .unwrap_or_default();
            let (client, condition) = (client.clone(), condition(member));
            Some(member_view(client, condition, true, waits, &tally, seen))
        });
        GroupView {
            name: group.name(),
            filter: group.filter().into(),
            strategy: group.strategy(),
            ordered: group.seats().and_then(Seats::order).map(Order::by),
            members: group.members().len(),
            waiting: group.waiting.len(),
            waiting_bytes: group.waiting.bytes(),
            oldest: group.waiting.oldest().map(|came| now.since(came)),
            counters: group.counters,
            seats: seats.chain(away).collect(),
        }
    }
}
