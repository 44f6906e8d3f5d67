//! Membership of a group: sessions join and leave, other shards report how many members they have, and from that
//! follows whether the group's messages are persisted.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder, Safety};
use crate::groups::group::{Group, Member, Peer, group_key};
use crate::ids::{GroupId, SessionId};
use crate::ledger::DropReason;
use crate::memory::{Kept, group_cost, subscription_cost};
use crate::queue::{filter_cost, is_queue_address};
use crate::remote::group_home::owner_of;
use crate::remote::shards::ShardMessage;
use crate::routes::cached::{Sink, SinkKind};
use crate::session::subscribe::{PendingSubscribe, Wish};
use std::sync::Arc;
use thalweg_model::{Reliability, Time};

impl Kernel {
    pub(crate) fn find_group(&self, name: &str, filter: &str) -> Option<GroupId> {
        self.groups.find(&group_key(name, filter))
    }

    pub(crate) fn group_for(&mut self, key: &Arc<str>, filter: &str) -> GroupId {
        if let Some(group_id) = self.groups.find(key) {
            return group_id;
        }
        let policy = self.env.limits().policy_of(filter);
        let owner = owner_of(key, filter, self.env.shards());
        let group = Group::new(key.clone(), filter, owner, policy);
        let group_id = self.groups.insert(group);
        self.env
            .entered(Kept::Subscriptions, group_cost(key, filter));
        if is_queue_address(filter) {
            // What is published there waits in the queue.
            self.link_group_to_queue(group_id, filter);
            return group_id;
        }
        let reliability = Reliability::ExactlyOnce;
        self.routes.insert(
            filter,
            Sink {
                target: group_id.index(),
                id: 0,
                kind: SinkKind::Group,
                reliability,
                flags: 0,
            },
        );
        group_id
    }

    /// Whether the membership is new; `None` if the session holds too many subscriptions.
    pub(crate) fn join_group(
        &mut self,
        id: SessionId,
        name: &str,
        wish: &Wish<'_>,
        (asked, reliability): (Reliability, Reliability),
        question: u32,
        pending: &mut PendingSubscribe,
    ) -> Option<bool> {
        let limit = self.env.limits().subscriptions_max;
        let known = self.find_group(name, wish.filter);
        let member = Member {
            session: id,
            asked,
            reliability,
            id: wish.id,
            line: None,
        };
        let condition = pending.condition.clone();
        let bytes = condition.as_deref().map_or(0, filter_cost);
        if bytes > 0 && !self.may_subscribe(id, bytes) {
            return None;
        }
        if let Some(group_id) = known
            && let Some(group) = self.groups.get_mut(group_id)
            && group.renew(member, &condition)
        {
            self.weigh_condition(id, wish.filter, known, bytes);
            self.tell_seats(group_id, id);
            return Some(false);
        }
        let key = group_key(name, wish.filter);
        let cost =
            subscription_cost(wish.filter) + known.map_or(group_cost(&key, wish.filter), |_| 0);
        if self.sessions.get(id)?.subscriptions.len() >= limit
            || !self.may_subscribe(id, cost + bytes)
        {
            return None;
        }
        self.ensure_queue(wish.filter);
        let group_id = self.group_for(&key, wish.filter);
        self.groups.get_mut(group_id)?.add(member, condition);
        self.hold_subscription(id, wish.filter, Some(group_id));
        self.weigh_condition(id, wish.filter, Some(group_id), bytes);
        let session = self.sessions.get_mut(id)?;
        session.membership.join(group_id);
        if session.is_durable()
            || (self.env.limits().journal && self.is_of_queue_elsewhere(group_id))
        {
            let safety = self.session_safety(id);
            self.make_group_durable(group_id, safety);
        }
        // Before the question, so that the owner knows whom to choose when it is answered.
        self.tell_seats(group_id, id);
        pending.answers_missing += self.tell_membership(group_id, question);
        Some(true)
    }

    /// From now on what the group holds is written down.
    pub(crate) fn make_group_durable(&mut self, group_id: GroupId, safety: Safety) {
        if self.group_number(group_id) != 0 || self.is_fed(group_id) {
            return;
        }
        let number = self.journal.next_number();
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.begin_durability(number);
        self.journal.forget_marks(Holder::Group(group_id));
        let (name, filter) = (group.name(), group.filter());
        self.journal.write_group(number, &name, filter, safety);
    }

    /// Whether a session that outlives the broker is among this shard's members.
    fn has_durable_member(&self, group: &Group) -> bool {
        group.members().iter().any(|member| {
            self.sessions
                .get(member.session)
                .is_some_and(|session| session.is_durable())
        })
    }

    /// The last member that outlives its link may have left: then what the others were given is theirs alone.
    pub(crate) fn end_group_durability(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        if group.number() == 0
            || group.feed().is_some()
            || self.has_durable_member(group)
            || (!group.members().is_empty() && self.is_of_queue_elsewhere(group_id))
            || group.has_durable_peer()
        {
            return;
        }
        if group.has_errands() || group.waiting.is_deep() {
            // What is under way, or on disk, is still named in the queue.
            return self.note_group_ending(group_id);
        }
        let queue = group.number();
        self.bury_soon(queue);
        self.journal.end_group(queue, Safety::Lazy);
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let mut members: Vec<SessionId> = group
            .members()
            .iter()
            .map(|member| member.session)
            .collect();
        members.extend(self.leavers_of(group_id));
        if let Some(group) = self.groups.get_mut(group_id) {
            group.end_durability();
        }
        for member in members {
            let Some(session) = self.sessions.get_mut(member) else {
                continue;
            };
            session.forget_serials_of_group(group_id);
        }
    }

    pub(crate) fn leave_group<E: Effects>(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        // What it was given already stays the group's until it is settled: the session may settle it, and if its link ends
        // before that, others get it.
        self.note_leaver(id, group_id);
        if let Some(session) = self.sessions.get_mut(id) {
            session.membership.leave(group_id);
        }
        let mut key = None;
        self.leave_seats(group_id, id);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.leave(id);
            key = Some(group.key().clone());
        }
        // It leaves its seat now: settlements of its remaining copies are not reported any more, and it or another may
        // take the seat.
        self.seat_if_stale(group_id, now);
        let session = self.sessions.get_mut(id);
        let work = session.and_then(|session| session.membership.terms.as_deref_mut());
        if let (Some(work), Some(key)) = (work, key) {
            work.forget(&key);
        }
        self.end_group_durability(group_id);
        self.group_lost_member(group_id, now, fx);
    }

    pub(crate) fn forget_group_if_empty<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        if group.has_members() {
            return;
        }
        if group.has_errands() {
            return self.note_group_ending(group_id);
        }
        let (key, filter) = (group.key().clone(), Box::<str>::from(group.filter()));
        self.end_leavers(group_id);
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.dropped += group.waiting.len() as u64;
        let lost = group.waiting.drop_deep(usize::MAX);
        // What was on disk has kept it.
        let number = group.feed().map_or(group.number(), |_| 0);
        while let Some(item) = self.take_waiting(group_id, 0) {
            self.book_drop(None, item.message.address(), DropReason::GroupEnded);
        }
        if let Some(lost) = lost {
            let count = lost.serials.len();
            self.books.left(Delta::copies(count, lost.memory));
            self.books.dropped_many(DropReason::GroupEnded, count);
        }
        if number != 0 {
            self.bury_soon(number);
            self.journal.end_group(number, Safety::Lazy);
        }
        self.routes.remove(&filter, |sink| {
            sink.kind == SinkKind::Group && sink.target == group_id.index()
        });
        self.unlink_group_from_queue(group_id, now, fx);
        self.forget_all_away(group_id);
        self.remote.seats.give_up_group(group_id);
        self.env
            .left(Kept::Subscriptions, group_cost(&key, &filter));
        self.groups.remove(group_id);
    }

    /// Tells the other shards how many members this one has; how many of them will answer.
    pub(crate) fn tell_membership(&mut self, group_id: GroupId, question: u32) -> usize {
        if self.env.shards() == 1 {
            return 0;
        }
        // Members that have left are reported first.
        self.send_reports();
        let Some(group) = self.groups.get(group_id) else {
            return 0;
        };
        let all = group.members().len() as u32;
        let durable = self.has_durable_member(group);
        let (key, filter) = (group.key().clone(), Box::<str>::from(group.filter()));
        self.tell_shards(|_| ShardMessage::Membership {
            key: key.clone(),
            filter: filter.clone(),
            all,
            durable,
            question,
        })
    }

    /// Another shard's members have changed.
    pub(crate) fn on_membership<E: Effects>(
        &mut self,
        from: Peer,
        key: &Arc<str>,
        filter: &str,
        now: Time,
        fx: &mut E,
    ) {
        if from.all > 0 {
            self.ensure_queue(filter);
        }
        let group_id = self.group_for(key, filter);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.set_peer(from);
        }
        if from.durable && self.env.limits().journal {
            // No message is written for the group before this is.
            self.make_group_durable(group_id, Safety::Lazy);
        } else {
            self.end_group_durability(group_id);
        }
        self.hand_over_waiting(group_id, now, fx);
        self.forget_group_if_empty(group_id, now, fx);
    }

    /// A session of this shard went online or offline.
    pub(crate) fn groups_member_changed<E: Effects>(
        &mut self,
        id: SessionId,
        now: Time,
        fx: &mut E,
    ) {
        let groups = match self.sessions.get(id) {
            Some(session) if !session.membership.groups().is_empty() => {
                session.membership.groups().to_vec()
            }
            _ => return,
        };
        for group_id in groups {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.seats_changed();
            }
            self.tell_seats(group_id, id);
            self.hand_over_waiting(group_id, now, fx);
        }
    }
}
