//! A group: several sessions share what one filter brings; each message goes to one of them.
//!
//! The group is a queue of its own. A message that no member can take waits in the group, not at a member, so a slow or
//! dead member holds nothing back; what a member has not settled when its link ends returns to the group. Each shard
//! keeps the group's local members and knows how many the other shards have; the shard that receives a publish picks a
//! shard in proportion to members, and that shard picks the member.

use crate::durable::{Pending, Put};
use crate::effects::{Effects, Safety};
use crate::ids::{SessionId, ShardId, Tag};
use crate::journal::Record;
use crate::ledger::DropReason;
use crate::limits::GroupStrategy;
use crate::queue::{HOME, is_queue_address};
use crate::route_cache::{Sink, SinkKind};
use crate::session::{Entry, Held, NO_GROUP, Pressure, SubscriptionIds};
use crate::shards::ShardMessage;
use crate::subscribe::{PendingSubscribe, Wish};
use crate::timers::TimerKind;
use crate::window::SlotState;
use crate::{Kernel, home};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Message, Reliability, Time};

/// Members of one filter under one name. The same name on another filter is another group.
pub(crate) struct Group {
    pub(crate) key: Arc<str>,
    /// No other group ever had it: places in the list are used again.
    pub(crate) made: u64,
    /// While a session that outlives its link is a member, on whichever shard, what the group holds is written down under
    /// this number; otherwise 0.
    pub(crate) number: u64,
    pub(crate) filter: Box<str>,
    pub(crate) members: Vec<Member>,
    /// What other shards have, in the order of their numbers.
    pub(crate) peers: Vec<Peer>,
    cursor: usize,
    peer_cursor: u64,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) waiting_bytes: usize,
    /// The queue that it takes from, by index and number; then nothing waits here that has not been with a member.
    pub(crate) feed: Option<(u32, u64)>,
}

/// The members that another shard has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) shard: ShardId,
    /// Those with a link.
    pub(crate) online: u32,
    pub(crate) all: u32,
    /// Whether a session that outlives the broker is among them.
    pub(crate) durable: bool,
}

/// A member's terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) session: SessionId,
    pub(crate) reliability: Reliability,
    pub(crate) id: u32,
    /// Given if its copies come like those of queues.
    pub(crate) line: Option<LineMember>,
}

/// A member that is a consumer of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineMember {
    pub(crate) line: u16,
    pub(crate) consumer: u32,
    pub(crate) settles: bool,
}

impl Member {
    /// A copy for this member.
    pub(crate) fn entry(&self, group: u32, message: Message, redelivered: bool) -> Entry {
        Entry {
            subscription_ids: if self.id == 0 { SubscriptionIds::None } else { SubscriptionIds::One(self.id) },
            group,
            serial: 0,
            of_group: false,
            reliability: self.reliability.min(message.reliability()),
            retain: false,
            redelivered,
            message,
        }
    }
}

/// A message nobody could take yet.
pub(crate) struct Waiting {
    pub(crate) message: Message,
    pub(crate) redelivered: bool,
    /// Names it in the group's queue in the journal; 0 if it is not written down there.
    pub(crate) serial: u64,
}

/// The name by which a group is known on every shard.
pub(crate) fn group_key(name: &str, filter: &str) -> Arc<str> {
    // A group's name holds no '/', so this is unambiguous.
    format!("{name}/{filter}").into()
}

impl Kernel {
    pub(crate) fn find_group(&self, name: &str, filter: &str) -> Option<u32> {
        self.group_by_key.get(&*group_key(name, filter)).copied()
    }

    pub(crate) fn group_for(&mut self, key: &Arc<str>, filter: &str) -> u32 {
        if let Some(&index) = self.group_by_key.get(key) {
            return index;
        }
        let group = Group {
            key: key.clone(),
            made: self.next_number(),
            number: 0,
            filter: filter.into(),
            members: Vec::new(),
            peers: Vec::new(),
            cursor: 0,
            peer_cursor: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            feed: None,
        };
        let index = match self.groups.iter().position(Option::is_none) {
            Some(free) => {
                self.groups[free] = Some(group);
                free as u32
            }
            None => {
                self.groups.push(Some(group));
                self.groups.len() as u32 - 1
            }
        };
        self.group_by_key.insert(key.clone(), index);
        if is_queue_address(filter) {
            // What is published there waits in the queue.
            self.link_group_to_queue(index, filter);
            return index;
        }
        let reliability = Reliability::ExactlyOnce;
        self.routes.insert(filter, Sink { target: index, id: 0, kind: SinkKind::Group, reliability, flags: 0 });
        index
    }

    pub(crate) fn group_mut(&mut self, index: u32) -> Option<&mut Group> {
        self.groups.get_mut(index as usize)?.as_mut()
    }

    /// Whether the membership is new; `None` if the session holds too many subscriptions.
    #[allow(clippy::too_many_arguments)] // The same shape as `subscribe_alone`, plus the name.
    pub(crate) fn join_group<E: Effects>(
        &mut self,
        id: SessionId,
        name: &str,
        wish: &Wish<'_>,
        reliability: Reliability,
        question: u32,
        pending: &mut PendingSubscribe,
        fx: &mut E,
    ) -> Option<bool> {
        let limit = self.limits.subscriptions_max;
        let known = self.find_group(name, wish.filter);
        let member = Member { session: id, reliability, id: wish.id, line: None };
        if let Some(group) = known.and_then(|index| self.group_mut(index))
            && let Some(old) = group.members.iter_mut().find(|old| old.session == id)
        {
            *old = member;
            return Some(false);
        }
        if self.sessions.get(id)?.subscriptions.len() >= limit {
            return None;
        }
        self.ensure_queue(wish.filter, fx);
        let index = self.group_for(&group_key(name, wish.filter), wish.filter);
        self.group_mut(index)?.members.push(member);
        let session = self.sessions.get_mut(id)?;
        session.subscriptions.push(Held { filter: wish.filter.into(), group: index });
        session.groups.push(index);
        self.subscriptions += 1;
        if session.durable || (self.limits.journal && self.is_of_queue_elsewhere(index)) {
            let safety = self.session_safety(id);
            self.make_group_durable(index, safety, fx);
        }
        pending.answers_missing += self.tell_membership(index, question, fx);
        Some(true)
    }

    /// From now on what the group holds is written down.
    pub(crate) fn make_group_durable<E: Effects>(&mut self, index: u32, safety: Safety, fx: &mut E) {
        if self.group_number(index) != 0 || self.is_fed(index) {
            return;
        }
        let number = self.next_number();
        let Some(group) = self.group_mut(index) else { return };
        group.number = number;
        let (name, filter) = (group.name(), &group.filter);
        fx.persist(&Record::Group { queue: number, name: &name, filter }, safety);
    }

    /// Whether a session that outlives the broker is among this shard's members.
    fn has_durable_member(&self, group: &Group) -> bool {
        group.members.iter().any(|member| self.sessions.get(member.session).is_some_and(|session| session.durable))
    }

    /// The last member that outlives its link may have left: then what the others were given is theirs alone.
    fn end_group_durability<E: Effects>(&mut self, index: u32, fx: &mut E) {
        let Some(Some(group)) = self.groups.get(index as usize) else { return };
        if group.number == 0
            || group.feed.is_some()
            || self.has_durable_member(group)
            || (!group.members.is_empty() && self.is_of_queue_elsewhere(index))
            || group.peers.iter().any(|peer| peer.durable)
        {
            return;
        }
        fx.persist(&Record::GroupEnded { queue: group.number }, Safety::Lazy);
        let members: Vec<SessionId> = group.members.iter().map(|member| member.session).collect();
        if let Some(group) = self.group_mut(index) {
            group.number = 0;
            group.waiting.iter_mut().for_each(|waiting| waiting.serial = 0);
        }
        for member in members {
            let Some(session) = self.sessions.get_mut(member) else { continue };
            for entry in session.entries_of_group(index).filter(|entry| entry.of_group) {
                (entry.serial, entry.of_group) = (0, false);
            }
        }
    }

    pub(crate) fn leave_group<E: Effects>(&mut self, id: SessionId, index: u32, now: Time, fx: &mut E) {
        let mut left: Vec<u64> = Vec::new();
        if let Some(session) = self.sessions.get_mut(id) {
            session.groups.retain(|group| *group != index);
            // What it was given already is its own now. The group's number may name another group later.
            for entry in session.entries_of_group(index) {
                entry.group = NO_GROUP;
                if std::mem::take(&mut entry.of_group) {
                    left.push(std::mem::take(&mut entry.serial));
                }
            }
        }
        for serial in left {
            self.persist_group_removed(index, serial, fx);
        }
        if let Some(group) = self.group_mut(index) {
            group.members.retain(|member| member.session != id);
            group.cursor = 0;
        }
        self.end_group_durability(index, fx);
        self.tell_membership(index, 0, fx);
        self.hand_over_waiting(index, now, fx);
        self.forget_group_if_empty(index, now, fx);
    }

    pub(crate) fn forget_group_if_empty<E: Effects>(&mut self, index: u32, now: Time, fx: &mut E) {
        let Some(group) = self.group_mut(index) else { return };
        if !group.members.is_empty() || !group.peers.is_empty() {
            return;
        }
        let (key, filter) = (group.key.clone(), group.filter.clone());
        let (waiting, bytes) = (std::mem::take(&mut group.waiting), group.waiting_bytes);
        for waiting in &waiting {
            self.book_drop(None, waiting.message.address(), DropReason::GroupEnded);
        }
        self.waiting -= waiting.len();
        self.bytes_held = self.bytes_held.saturating_sub(bytes);
        self.routes.remove(&filter, |sink| sink.kind == SinkKind::Group && sink.target == index);
        self.unlink_group_from_queue(index, now, fx);
        self.group_by_key.remove(&key);
        self.groups[index as usize] = None;
    }

    pub(crate) fn online_members(&self, group: &Group) -> u32 {
        let online = |member: &&Member| self.sessions.get(member.session).is_some_and(|s| s.link.is_some());
        group.members.iter().filter(online).count() as u32
    }

    /// Tells the other shards how many members this one has; how many of them will answer.
    pub(crate) fn tell_membership<E: Effects>(&mut self, index: u32, question: u32, fx: &mut E) -> usize {
        if self.shards == 1 {
            return 0;
        }
        let Some(Some(group)) = self.groups.get(index as usize) else { return 0 };
        let (online, all) = (self.online_members(group), group.members.len() as u32);
        let durable = self.has_durable_member(group);
        let (key, filter) = (group.key.clone(), group.filter.clone());
        self.tell_shards(fx, |_| ShardMessage::Membership {
            key: key.clone(),
            filter: filter.clone(),
            online,
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
            self.ensure_queue(filter, fx);
        }
        let index = self.group_for(key, filter);
        if let Some(group) = self.group_mut(index) {
            group.peers.retain(|peer| peer.shard != from.shard);
            if from.all > 0 {
                group.peers.push(from);
                group.peers.sort_unstable_by_key(|peer| peer.shard);
            }
        }
        if from.durable && self.limits.journal {
            // No message is written for the group before this is.
            self.make_group_durable(index, Safety::Lazy, fx);
        } else {
            self.end_group_durability(index, fx);
        }
        self.hand_over_waiting(index, now, fx);
        self.forget_group_if_empty(index, now, fx);
    }

    /// A session of this shard went online or offline.
    pub(crate) fn groups_member_changed<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let groups = match self.sessions.get(id) {
            Some(session) if !session.groups.is_empty() => session.groups.clone(),
            _ => return,
        };
        for index in groups {
            self.tell_membership(index, 0, fx);
            self.hand_over_waiting(index, now, fx);
        }
    }

    /// One message for one member, wherever it is. Whether it went to another shard.
    pub(crate) fn publish_to_group<E: Effects>(
        &mut self,
        index: u32,
        message: &Message,
        safety: Safety,
        must_arrive: bool,
        now: Time,
        fx: &mut E,
    ) -> bool {
        match self.choose_shard(index, message) {
            Some(shard) if shard != self.shard => {
                let Some(Some(group)) = self.groups.get(index as usize) else { return false };
                self.ledger.forwarded += 1;
                let (key, number, message) = (group.key.clone(), group.number, message.clone());
                let mut from = (0, 0);
                if must_arrive && number != 0 {
                    // On its way it waits in the group's queue here.
                    from = (number, self.next_serial());
                    self.pending_references.push(Pending::new(number, from.1, message.reliability(), 0));
                }
                fx.send(shard, ShardMessage::PublishToGroup { key, message, safety, from, redelivered: false });
                true
            }
            _ => {
                self.offer(index, message, false, now, fx);
                false
            }
        }
    }

    /// In proportion to online members; to all members if none is online.
    fn choose_shard(&mut self, index: u32, message: &Message) -> Option<ShardId> {
        let own = self.shard;
        let strategy = self.limits.group_strategy;
        let group = self.groups.get(index as usize)?.as_ref()?;
        if group.peers.is_empty() {
            return Some(own);
        }
        let online_here = self.online_members(group);
        let online: u32 = online_here + group.peers.iter().map(|peer| peer.online).sum::<u32>();
        let all_here = group.members.len() as u32;
        let weight = |peer: &Peer| if online > 0 { peer.online } else { peer.all };
        let here = if online > 0 { online_here } else { all_here };
        let total = u64::from(here + group.peers.iter().map(weight).sum::<u32>());
        if total == 0 {
            return Some(own);
        }
        let binds = matches!(strategy, GroupStrategy::HashPublisher | GroupStrategy::HashAddress);
        let mut turn = if binds { fixed_turn(strategy, message) } else { group.peer_cursor } % total;
        // In the order of their numbers, so that all shards choose alike.
        let before = group.peers.iter().filter(|peer| peer.shard < own).map(|peer| (peer.shard, weight(peer)));
        let after = group.peers.iter().filter(|peer| peer.shard > own).map(|peer| (peer.shard, weight(peer)));
        let mut chosen = own;
        for (shard, weight) in before.chain([(own, here)]).chain(after) {
            if turn < u64::from(weight) {
                chosen = shard;
                break;
            }
            turn -= u64::from(weight);
        }
        self.group_mut(index)?.peer_cursor += 1;
        Some(chosen)
    }

    /// Another shard chose this one.
    pub(crate) fn on_publish_to_group<E: Effects>(
        &mut self,
        key: &str,
        message: &Message,
        redelivered: bool,
        now: Time,
        fx: &mut E,
    ) {
        let queue = key.split_once('/').and_then(|(_, filter)| self.find_queue(filter));
        match (queue, self.group_by_key.get(key).copied()) {
            (Some(queue), _) => self.return_from_elsewhere(queue, message, redelivered, now, fx),
            (None, Some(index)) => self.offer(index, message, redelivered, now, fx),
            (None, None) => {
                // The last member left while the message was on its way.
                self.book_routed(None, message.address());
                self.book_drop(None, message.address(), DropReason::GroupEnded);
            }
        }
    }

    /// Gives a message to a member, or lets it wait in the group. What it refers to is written down by the caller.
    fn offer<E: Effects>(&mut self, index: u32, message: &Message, redelivered: bool, now: Time, fx: &mut E) {
        self.book_routed(None, message.address());
        if let Some(member) = self.choose_member(index, message, None) {
            if let Some(line) = member.line {
                return self.offer_to_line(index, member.session, line, message, redelivered, now, fx);
            }
            let mut entry = member.entry(index, message.clone(), redelivered);
            let owner = self.own(index, &member, &mut entry);
            let (serial, of_group, reliability) = (entry.serial, entry.of_group, entry.reliability);
            let subscription_ids = entry.subscription_ids.clone();
            self.hand_out(member.session);
            let put = self.send_entry(member.session, entry, now, fx);
            if serial != 0 {
                // In the group's queue it waits, whatever the member does with it.
                let put = if of_group && put != Put::Done { Put::Waits } else { put };
                let group = self.group_number(index);
                let pending = Pending { subscription_ids, ..Pending::new(owner, serial, reliability, group) };
                self.refer(member.session, pending, put);
            }
            return;
        }
        if self.is_forbidden(index, message.address()) {
            // It must not stand in the way of what waits behind it.
            return self.book_drop(None, message.address(), DropReason::AccessDenied);
        }
        let (messages_max, bytes_max) = (self.limits.group_messages_max, self.limits.group_bytes_max);
        let pressed = self.pressure >= Pressure::DropWaiting;
        let bytes = message.bytes();
        let Some(group) = self.group_mut(index) else {
            return self.book_drop(None, message.address(), DropReason::GroupEnded);
        };
        let number = group.number;
        let reason = if message.reliability() == Reliability::AtMostOnce {
            DropReason::NoMember
        } else if pressed {
            DropReason::Memory
        } else if (group.waiting.len() >= messages_max || group.waiting_bytes + bytes > bytes_max)
            // What comes from a queue was accepted there.
            && !is_queue_address(&group.filter)
        {
            DropReason::QueueFull
        } else {
            let serial = if number == 0 { 0 } else { self.next_serial() };
            if serial != 0 {
                let pending = Pending::new(number, serial, message.reliability(), 0);
                self.pending_references.push(pending);
            }
            let Some(group) = self.group_mut(index) else { return };
            group.waiting_bytes += bytes;
            group.waiting.push_back(Waiting { message: message.clone(), redelivered, serial });
            self.bytes_held += bytes;
            self.waiting += 1;
            // The last online member may have left while the message was on its way here.
            return self.hand_to_other_shard(index, fx);
        };
        self.book_drop(None, message.address(), reason);
    }

    /// Decides in which queue of the journal a member's new copy is, and names it there; returns the queue's number.
    fn own(&mut self, index: u32, member: &Member, entry: &mut Entry) -> u64 {
        let durable = self.sessions.get(member.session).filter(|session| session.durable).map(|session| session.uid);
        let owner = durable.unwrap_or_else(|| self.group_number(index));
        if owner != 0 && entry.reliability > Reliability::AtMostOnce {
            if entry.serial == 0 {
                entry.serial = self.next_serial();
            }
            entry.of_group = durable.is_none();
        }
        owner
    }

    /// Hands a message that waited in the group to a member that can take it now; gives it back if there is none.
    fn give<E: Effects>(&mut self, index: u32, waiting: Waiting, now: Time, fx: &mut E) -> Option<Waiting> {
        let Some(member) = self.choose_member(index, &waiting.message, None) else {
            if self.is_forbidden(index, waiting.message.address()) {
                // It must not stand in the way of what waits behind it.
                self.book_drop(None, waiting.message.address(), DropReason::AccessDenied);
                self.persist_group_removed(index, waiting.serial, fx);
                return None;
            }
            return Some(waiting);
        };
        if let Some(line) = member.line {
            return self.give_to_line(index, member.session, line, waiting, now, fx);
        }
        let from = if waiting.serial == 0 { 0 } else { self.group_number(index) };
        let entry = Entry { serial: waiting.serial, ..member.entry(index, waiting.message, waiting.redelivered) };
        self.hand_out(member.session);
        self.move_to(member, entry, from, index, now, fx);
        None
    }

    /// Sends a copy to a member and writes down how it came there from queue `from`; 0 if it was not written down.
    pub(crate) fn move_to<E: Effects>(
        &mut self,
        member: Member,
        entry: Entry,
        from: u64,
        index: u32,
        now: Time,
        fx: &mut E,
    ) {
        let mut entry = entry;
        let (id, old, redelivered, reliability) = (member.session, entry.serial, entry.redelivered, entry.reliability);
        if old == 0 && reliability < Reliability::ExactlyOnce {
            // It was accepted when nobody who outlives the broker wanted it.
            self.send_entry(id, entry, now, fx);
            return;
        }
        let owner = self.own(index, &member, &mut entry);
        let (serial, of_group, message) = (entry.serial, entry.of_group, entry.message.clone());
        let subscription_ids = entry.subscription_ids.clone();
        let mut put = self.send_entry(id, entry, now, fx);
        if of_group && put != Put::Done {
            put = Put::Waits;
        }
        if old == 0 {
            let group = self.group_number(index);
            let pending = Pending { subscription_ids, ..Pending::new(owner, serial, reliability, group) };
            if owner != 0 {
                self.persist_entry(id, &message, pending, put, fx);
            }
            return;
        }
        match put {
            Put::Done => {
                fx.persist(&Record::Removed { queue: from, serial }, Safety::Lazy);
            }
            _ if from == owner => {}
            Put::Sent(tag) => {
                let exactly_once = reliability == Reliability::ExactlyOnce;
                let safety = if exactly_once { self.session_safety(id) } else { Safety::Lazy };
                fx.persist(&Record::Moved { from, serial, to: owner, tag, redelivered }, safety);
            }
            Put::Waits | Put::WaitsForDisk => {
                fx.persist(&Record::Moved { from, serial, to: owner, tag: 0, redelivered }, Safety::Lazy);
            }
        }
    }

    /// Whether this shard has members and none of them, here or away, may receive from the address.
    pub(crate) fn is_forbidden(&self, index: u32, address: &str) -> bool {
        let Some(Some(group)) = self.groups.get(index as usize) else { return false };
        let may = |member: &Member| {
            let session = self.sessions.get(member.session);
            session.is_some_and(|session| session.access.allows(crate::access::Permission::Receive, address))
        };
        !group.members.is_empty() && !group.members.iter().any(may)
    }

    /// A member that can take the message now, other than `except`.
    pub(crate) fn choose_member(&mut self, index: u32, message: &Message, except: Option<SessionId>) -> Option<Member> {
        let strategy = self.limits.group_strategy;
        let random = self.random();
        let group = self.groups.get(index as usize)?.as_ref()?;
        let count = group.members.len();
        let can_take = |at: usize| -> bool {
            let member = &group.members[at % count];
            if Some(member.session) == except {
                return false;
            }
            let Some(session) = self.sessions.get(member.session) else { return false };
            if !session.access.allows(crate::access::Permission::Receive, message.address()) {
                return false;
            }
            if let Some(line) = &member.line {
                return self.consumer_can_take(member.session, line.line, line.consumer);
            }
            match member.reliability.min(message.reliability()) {
                Reliability::AtMostOnce => session.link.is_some() && !session.congested,
                _ => session.can_take(),
            }
        };
        if count == 0 {
            return None;
        }
        let first = match strategy {
            GroupStrategy::RoundRobin | GroupStrategy::Sticky | GroupStrategy::LeastOutstanding => group.cursor,
            GroupStrategy::Random => random as usize % count,
            GroupStrategy::HashPublisher | GroupStrategy::HashAddress => fixed_turn(strategy, message) as usize % count,
        };
        let chosen = match strategy {
            GroupStrategy::LeastOutstanding => (first..first + count)
                .filter(|at| can_take(*at))
                .min_by_key(|at| self.sessions.get(group.members[at % count].session).map(|s| s.window.len())),
            _ => (first..first + count).find(|at| can_take(*at)),
        }? % count;
        let member = group.members[chosen];
        let next = if strategy == GroupStrategy::Sticky { chosen } else { (chosen + 1) % count };
        self.group_mut(index)?.cursor = next;
        Some(member)
    }

    /// Gives what waits in a session's groups to whoever can take it.
    pub(crate) fn pump_groups<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let mut at = 0;
        while let Some(index) = self.sessions.get(id).and_then(|session| session.groups.get(at).copied()) {
            self.hand_over_waiting(index, now, fx);
            at += 1;
        }
    }

    pub(crate) fn hand_over_waiting<E: Effects>(&mut self, index: u32, now: Time, fx: &mut E) {
        if let Some((queue, _)) = self.group_mut(index).and_then(|group| group.feed) {
            return self.pump_queue(queue, now, fx);
        }
        loop {
            let Some(group) = self.group_mut(index) else { return };
            let Some(waiting) = group.waiting.pop_front() else { return };
            let bytes = waiting.message.bytes();
            group.waiting_bytes -= bytes;
            self.waiting -= 1;
            self.bytes_held = self.bytes_held.saturating_sub(bytes);
            if waiting.message.expires() <= now {
                self.book_expired(None, waiting.message.address());
                self.persist_group_removed(index, waiting.serial, fx);
                continue;
            }
            if let Some(waiting) = self.give(index, waiting, now, fx) {
                if let Some(group) = self.group_mut(index) {
                    group.waiting_bytes += bytes;
                    group.waiting.push_front(waiting);
                    self.bytes_held += bytes;
                    self.waiting += 1;
                }
                self.hand_to_other_shard(index, fx);
                return;
            }
        }
    }

    /// Nobody here is online, but somebody elsewhere is: the waiting messages go there.
    fn hand_to_other_shard<E: Effects>(&mut self, index: u32, fx: &mut E) {
        let Some(Some(group)) = self.groups.get(index as usize) else { return };
        let of_queue = self.is_of_queue_elsewhere(index);
        if group.feed.is_some() || (group.peers.is_empty() && !of_queue) || self.online_members(group) > 0 {
            return;
        }
        let online = group.peers.iter().find(|peer| peer.online > 0).map(|peer| peer.shard);
        let to = if of_queue { Some(home(HOME, self.shards)) } else { online };
        let Some(shard) = to else { return };
        let Some(group) = self.group_mut(index) else { return };
        let (key, mut waiting, bytes) = (group.key.clone(), std::mem::take(&mut group.waiting), group.waiting_bytes);
        let number = group.number;
        group.waiting_bytes = 0;
        self.waiting -= waiting.len();
        self.bytes_held = self.bytes_held.saturating_sub(bytes);
        if of_queue {
            // There each becomes the first of all.
            waiting.make_contiguous().reverse();
        }
        for waiting in waiting {
            // The other shard routes and books it anew.
            self.unbook_routed(None, waiting.message.address());
            self.ledger.forwarded += 1;
            let (key, from, redelivered) = (key.clone(), (number, waiting.serial), waiting.redelivered);
            let (message, safety) = (waiting.message, self.limits.safety);
            fx.send(shard, ShardMessage::PublishToGroup { key, message, safety, from, redelivered });
        }
    }

    /// A member's link has ended: its unsettled at-least-once copies return to their groups, in order. Exactly-once
    /// copies stay with the member, which may have begun to process them.
    pub(crate) fn return_group_copies<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(number) = self.sessions.get(id).map(|session| session.uid) else { return };
        let entries = self.take_group_copies(id);
        self.return_to_groups(number, entries, now, fx);
    }

    /// Takes from a session what another member of a group may have: copies that never left, and unsettled
    /// at-least-once copies.
    pub(crate) fn take_group_copies(&mut self, id: SessionId) -> Vec<Entry> {
        let Some(session) = self.sessions.get_mut(id) else { return Vec::new() };
        if session.groups.is_empty() {
            return Vec::new();
        }
        let is_movable = |entry: &Entry| entry.group != NO_GROUP && entry.reliability == Reliability::AtLeastOnce;
        let tags: Vec<u16> = session
            .window
            .iter_mut()
            .filter(|(_, slot)| matches!(&slot.state, SlotState::ExpectSettle(entry) if is_movable(entry)))
            .map(|(tag, _)| tag)
            .collect();
        let mut entries = Vec::with_capacity(tags.len());
        for tag in tags {
            let Some(slot) = session.window.remove(tag) else { continue };
            if let SlotState::ExpectSettle(mut entry) = slot.state {
                entry.redelivered = true;
                session.group_in_flight = session.group_in_flight.saturating_sub(1);
                self.unsettled -= 1;
                self.bytes_held = self.bytes_held.saturating_sub(entry.message.bytes());
                session.take_back();
                entries.push(entry);
            }
        }
        for entry in std::mem::take(&mut session.waiting) {
            if entry.group == NO_GROUP {
                session.waiting.push_back(entry);
            } else {
                session.waiting_bytes -= entry.message.bytes();
                session.take_back();
                self.waiting -= 1;
                self.bytes_held = self.bytes_held.saturating_sub(entry.message.bytes());
                entries.push(entry);
            }
        }
        entries
    }

    /// Puts copies of session `number` back at the head of their groups' queues and offers them to other members.
    pub(crate) fn return_to_groups<E: Effects>(&mut self, number: u64, entries: Vec<Entry>, now: Time, fx: &mut E) {
        let mut touched: Vec<u32> = Vec::new();
        for entry in entries.into_iter().rev() {
            let Entry { message, group: index, mut serial, of_group, redelivered, .. } = entry;
            let bytes = message.bytes();
            let to = self.group_number(index);
            if to == 0 {
                serial = 0;
            } else if serial != 0 && !of_group {
                fx.persist(&Record::Moved { from: number, serial, to, tag: 0, redelivered }, Safety::Lazy);
            }
            let Some(group) = self.group_mut(index) else {
                self.book_drop(None, message.address(), DropReason::GroupEnded);
                continue;
            };
            if let Some((queue, _)) = group.feed {
                self.return_to_queue(queue, message, serial, redelivered);
                continue;
            }
            group.waiting_bytes += bytes;
            group.waiting.push_front(Waiting { message, redelivered, serial });
            self.bytes_held += bytes;
            self.waiting += 1;
            if !touched.contains(&index) {
                touched.push(index);
            }
        }
        for index in touched {
            self.hand_over_waiting(index, now, fx);
        }
        if self.has_queue_work() {
            self.after_queues(now, fx);
        }
    }

    /// The time limit of a member's group copies: overdue ones go to other members if one can take them, and else have
    /// the same time again.
    pub(crate) fn on_group_settle_timeout<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let limit = self.limits.group_settle_timeout;
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.group_timer = false;
        let mut overdue: Vec<Tag> = Vec::new();
        let mut next_due = Time::NEVER;
        for (tag, slot) in session.window.iter_mut() {
            let SlotState::ExpectSettle(entry) = &slot.state else { continue };
            if entry.group == NO_GROUP || entry.reliability != Reliability::AtLeastOnce {
                continue;
            }
            if slot.sent_at + limit > now {
                next_due = next_due.min(slot.sent_at + limit);
                continue;
            }
            slot.sent_at = now;
            overdue.push(tag);
        }
        for tag in overdue {
            if !self.move_to_other_member(id, tag, now, fx) {
                next_due = next_due.min(now + limit);
            }
        }
        if next_due != Time::NEVER
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.group_timer = true;
            self.timers.set(next_due, id, TimerKind::GroupSettle);
        }
    }

    /// False if no other member can take the copy.
    fn move_to_other_member<E: Effects>(&mut self, id: SessionId, tag: Tag, now: Time, fx: &mut E) -> bool {
        let Some(slot) = self.sessions.get_mut(id).and_then(|session| session.window.get_mut(tag)) else { return true };
        let SlotState::ExpectSettle(entry) = &slot.state else { return true };
        let (index, message, serial, of_group) = (entry.group, entry.message.clone(), entry.serial, entry.of_group);
        // One that takes like from a queue is given what comes next, not what another has had.
        let member = self.choose_member(index, &message, Some(id)).filter(|member| member.line.is_none());
        let Some(Some(group)) = self.groups.get(index as usize) else { return true };
        let (key, number) = (group.key.clone(), group.number);
        let shard = group.peers.iter().find(|peer| peer.online > 0).map(|peer| peer.shard);
        if member.is_none() && shard.is_none() {
            return false;
        }
        let mut from = 0;
        if let Some(session) = self.sessions.get_mut(id)
            && let Some(slot) = session.window.get_mut(tag)
        {
            slot.state = SlotState::Moved;
            session.group_in_flight = session.group_in_flight.saturating_sub(1);
            from = if of_group { number } else { session.uid };
            self.unsettled -= 1;
            self.bytes_held = self.bytes_held.saturating_sub(message.bytes());
        }
        match (member, shard) {
            (Some(member), _) => {
                self.hand_back(Some(id));
                self.hand_out(member.session);
                let entry = Entry { serial, ..member.entry(index, message, true) };
                self.move_to(member, entry, from, index, now, fx);
            }
            (None, Some(shard)) => {
                // The other shard routes and books it anew.
                self.unbook_routed(Some(id), message.address());
                self.ledger.forwarded += 1;
                if serial != 0 && !of_group {
                    // On its way it is the group's: the session may end before it arrives.
                    fx.persist(&Record::Moved { from, serial, to: number, tag: 0, redelivered: true }, Safety::Lazy);
                }
                let (safety, from) = (self.limits.safety, (number, serial));
                fx.send(shard, ShardMessage::PublishToGroup { key, message, safety, from, redelivered: true });
            }
            (None, None) => {}
        }
        true
    }
}

/// What a strategy that binds messages to members goes by; the same on every shard.
fn fixed_turn(strategy: GroupStrategy, message: &Message) -> u64 {
    match strategy {
        GroupStrategy::HashPublisher => spread(message.publisher()),
        _ => u64::from(home(message.address(), u16::MAX).0),
    }
}

/// Spreads consecutive numbers.
fn spread(number: u64) -> u64 {
    (number ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}
