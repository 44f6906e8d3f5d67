//! A group: several sessions share what one filter brings; each message goes to one of them.
//!
//! The group is a queue of its own. A message that no member can take waits in the group, not at a member, so a slow or
//! dead member holds nothing back; what a member has not settled when its link ends returns to the group. One shard owns
//! the group, and only there does anything wait or is anybody chosen: see `group_home` for members on other shards.

use crate::Kernel;
use crate::books::Delta;
use crate::cause::Cause;
use crate::durable::{Pending, Put};
use crate::effects::{Effects, Safety};
use crate::entry::{Entry, Via};
use crate::given_back::{BackId, GivenBack};
use crate::group_home::{is_away, owner_of};
use crate::group_policy::Policy;
use crate::group_view::GroupCounters;
use crate::ids::{GroupId, QueueId, SessionId, ShardId};
use crate::ledger::DropReason;
use crate::memory::{Kept, group_cost, subscription_cost};
use crate::queue::is_queue_address;
use crate::route_cache::{Sink, SinkKind};
use crate::seats::{Chosen, Seats};
use crate::shards::ShardMessage;
use crate::subscribe::{PendingSubscribe, Wish};
use crate::window::{Slot, SlotState};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_balance::{GroupStrategy, LOOK_AHEAD};
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::Record;

/// Members of one filter under one name. The same name on another filter is another group.
pub(crate) struct Group {
    pub(crate) key: Arc<str>,
    /// While a session that outlives its link is a member, on whichever shard, what the group holds is written down under
    /// this number; otherwise 0.
    pub(crate) number: u64,
    pub(crate) filter: Box<str>,
    pub(crate) members: Vec<Member>,
    /// What other shards have, in the order of their numbers.
    pub(crate) peers: Vec<Peer>,
    /// The shard that chooses.
    pub(crate) owner: ShardId,
    /// Members with a link on other shards; only the owner has them. No session here has their numbers.
    pub(crate) away: Vec<Member>,
    /// Errands of which nothing was heard.
    pub(crate) out: usize,
    /// It ends, or what it holds is no longer written down, when they are back.
    pub(crate) is_ending: bool,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) waiting_bytes: usize,
    /// Once publishers have waited for it.
    pub(crate) pace: Option<Box<crate::pace::Pace>>,
    /// What of it may have been delivered to members that end with their links.
    pub(crate) delivered: crate::queue::Delivered,
    /// The queue that it takes from; then nothing waits here that has not been with a member.
    pub(crate) feed: Option<QueueId>,
    pub(crate) policy: Policy,
    pub(crate) given_back: GivenBack,
    pub(crate) counters: GroupCounters,
    /// Away only while it is asked.
    pub(crate) seats: Option<Box<Seats>>,
}

/// The members that another shard has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) shard: ShardId,
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

impl Group {
    pub(crate) fn add(&mut self, member: Member) {
        self.members.push(member);
        self.seats_changed();
    }

    /// All that can be chosen.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.away)
    }

    pub(crate) fn seats_changed(&mut self) {
        if let Some(seats) = &mut self.seats {
            seats.changed();
        }
    }

    pub(crate) fn strategy(&self) -> GroupStrategy {
        self.seats
            .as_ref()
            .map_or(GroupStrategy::RoundRobin, |seats| seats.strategy)
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
        deliveries: u8,
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

/// A message nobody could take yet.
pub(crate) struct Waiting {
    pub(crate) message: Message,
    /// How often it was delivered to somebody who did not settle it.
    pub(crate) deliveries: u8,
    /// Names it in the group's queue in the journal; 0 if it is not written down there.
    pub(crate) serial: u64,
    /// Since when.
    pub(crate) since: Time,
    /// The errand that it came back from undelivered; 0 for none.
    pub(crate) errand: u64,
    /// Under which it is known who gave it back; 0 if nobody did.
    pub(crate) back: BackId,
}

// Each message that waits in a group has one.
const _: () = assert!(size_of::<Waiting>() <= 40);

impl Waiting {
    pub(crate) fn new(message: Message, serial: u64, deliveries: u8, since: Time) -> Self {
        Waiting {
            message,
            deliveries,
            serial,
            since,
            errand: 0,
            back: 0,
        }
    }
}

/// The name by which a group is known on every shard.
pub(crate) fn group_key(name: &str, filter: &str) -> Arc<str> {
    // A group's name holds no '/', so this is unambiguous.
    format!("{name}/{filter}").into()
}

impl Kernel {
    pub(crate) fn find_group(&self, name: &str, filter: &str) -> Option<GroupId> {
        self.groups.find(&group_key(name, filter))
    }

    pub(crate) fn group_for(&mut self, key: &Arc<str>, filter: &str) -> GroupId {
        if let Some(group_id) = self.groups.find(key) {
            return group_id;
        }
        let policy = self.env.limits().policy_of(filter);
        let group = Group {
            key: key.clone(),
            number: 0,
            filter: filter.into(),
            members: Vec::new(),
            peers: Vec::new(),
            owner: owner_of(key, filter, self.env.shards()),
            away: Vec::new(),
            out: 0,
            is_ending: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            pace: None,
            delivered: crate::queue::Delivered::default(),
            feed: None,
            policy,
            given_back: GivenBack::default(),
            counters: GroupCounters::default(),
            seats: Some(Box::new(Seats::new(policy.strategy))),
        };
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
        reliability: Reliability,
        question: u32,
        pending: &mut PendingSubscribe,
    ) -> Option<bool> {
        let limit = self.env.limits().subscriptions_max;
        let known = self.find_group(name, wish.filter);
        let member = Member {
            session: id,
            reliability,
            id: wish.id,
            line: None,
        };
        if let Some(group) = known.and_then(|group_id| self.groups.get_mut(group_id))
            && let Some(old) = group.members.iter_mut().find(|old| old.session == id)
        {
            *old = member;
            group.seats_changed();
            if let Some(group_id) = known {
                self.tell_seats(group_id, id);
            }
            return Some(false);
        }
        let key = group_key(name, wish.filter);
        let cost =
            subscription_cost(wish.filter) + known.map_or(group_cost(&key, wish.filter), |_| 0);
        if self.sessions.get(id)?.subscriptions.len() >= limit || !self.may_subscribe(id, cost) {
            return None;
        }
        self.ensure_queue(wish.filter);
        let group_id = self.group_for(&key, wish.filter);
        self.groups.get_mut(group_id)?.add(member);
        self.hold_subscription(id, wish.filter, Some(group_id));
        let session = self.sessions.get_mut(id)?;
        session.groups.push(group_id);
        if session.durable || (self.env.limits().journal && self.is_of_queue_elsewhere(group_id)) {
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
        (group.number, group.delivered) = (number, Default::default());
        let (name, filter) = (group.name(), &group.filter);
        self.journal.persist(
            &Record::Group {
                queue: number,
                name: &name,
                filter,
            },
            safety,
        );
    }

    /// Whether a session that outlives the broker is among this shard's members.
    fn has_durable_member(&self, group: &Group) -> bool {
        group.members.iter().any(|member| {
            self.sessions
                .get(member.session)
                .is_some_and(|session| session.durable)
        })
    }

    /// The last member that outlives its link may have left: then what the others were given is theirs alone.
    pub(crate) fn end_group_durability(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        if group.number == 0
            || group.feed.is_some()
            || self.has_durable_member(group)
            || (!group.members.is_empty() && self.is_of_queue_elsewhere(group_id))
            || group.peers.iter().any(|peer| peer.durable)
        {
            return;
        }
        if group.out > 0 {
            // What is under way is still named in the queue.
            return self.note_group_ending(group_id);
        }
        self.journal.persist(
            &Record::GroupEnded {
                queue: group.number,
            },
            Safety::Lazy,
        );
        let mut members: Vec<SessionId> =
            group.members.iter().map(|member| member.session).collect();
        members.extend(self.leavers_of(group_id));
        if let Some(group) = self.groups.get_mut(group_id) {
            group.number = 0;
            group
                .waiting
                .iter_mut()
                .for_each(|waiting| waiting.serial = 0);
        }
        for member in members {
            let Some(session) = self.sessions.get_mut(member) else {
                continue;
            };
            for entry in session
                .entries_of_group(group_id)
                .filter(|entry| entry.of_group)
            {
                (entry.serial, entry.of_group) = (0, false);
            }
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
            session.groups.retain(|group| *group != group_id);
        }
        let mut key = None;
        self.leave_seats(group_id, id);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.members.retain(|member| member.session != id);
            group.seats_changed();
            key = Some(group.key.clone());
        }
        // It gets up now: what it still has is told of no more, and it may come back, or another in its place.
        self.seat_if_stale(group_id, now);
        let work = self
            .sessions
            .get_mut(id)
            .and_then(|session| session.work.as_deref_mut());
        if let (Some(work), Some(key)) = (work, key) {
            work.forget(&key);
        }
        self.end_group_durability(group_id);
        self.tell_membership(group_id, 0);
        self.hand_over_waiting(group_id, now, fx);
        self.forget_group_if_empty(group_id, now, fx);
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
        if !group.members.is_empty() || !group.peers.is_empty() {
            return;
        }
        if group.out > 0 {
            return self.note_group_ending(group_id);
        }
        let (key, filter) = (group.key.clone(), group.filter.clone());
        self.end_leavers(group_id);
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let (waiting, bytes) = (std::mem::take(&mut group.waiting), group.waiting_bytes);
        group.counters.dropped += waiting.len() as u64;
        for waiting in &waiting {
            self.book_drop(None, waiting.message.address(), DropReason::GroupEnded);
        }
        self.books.left(Delta::copies(waiting.len(), bytes));
        self.routes.remove(&filter, |sink| {
            sink.kind == SinkKind::Group && sink.target == group_id.index()
        });
        self.unlink_group_from_queue(group_id, now, fx);
        self.forget_all_away(group_id);
        self.forget_errands(group_id);
        self.env
            .left(Kept::Subscriptions, group_cost(&key, &filter));
        self.groups.remove(group_id);
    }

    /// Tells the other shards how many members this one has; how many of them will answer.
    pub(crate) fn tell_membership(&mut self, group_id: GroupId, question: u32) -> usize {
        if self.env.shards() == 1 {
            return 0;
        }
        // Who has left has left before.
        self.send_reports();
        let Some(group) = self.groups.get(group_id) else {
            return 0;
        };
        let all = group.members.len() as u32;
        let durable = self.has_durable_member(group);
        let (key, filter) = (group.key.clone(), group.filter.clone());
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
            group.peers.retain(|peer| peer.shard != from.shard);
            if from.all > 0 {
                group.peers.push(from);
                group.peers.sort_unstable_by_key(|peer| peer.shard);
            }
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
            Some(session) if !session.groups.is_empty() => session.groups.clone(),
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

    /// One message for one member, wherever it is.
    pub(crate) fn publish_to_group<E: Effects>(
        &mut self,
        group_id: GroupId,
        message: &Message,
        cause: &Cause,
        now: Time,
        fx: &mut E,
    ) {
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        if group.owner == self.env.shard() {
            return self.offer(group_id, message, now, fx);
        }
        self.books.forwarded();
        self.journal.promise();
        let (owner, key, number, message) = (
            group.owner,
            group.key.clone(),
            group.number,
            message.clone(),
        );
        let mut from = (0, 0);
        if cause.must_arrive && number != 0 {
            // On its way it waits in the group's queue here.
            from = (number, self.journal.next_serial());
            self.journal
                .refer(Pending::new(number, from.1, message.reliability(), 0));
        }
        self.remote.send(
            owner,
            ShardMessage::PublishToGroup {
                key,
                message,
                safety: cause.safety,
                from,
            },
        );
    }

    /// Another shard received a message for a group that is owned here.
    pub(crate) fn on_publish_to_group<E: Effects>(
        &mut self,
        key: &str,
        message: &Message,
        now: Time,
        fx: &mut E,
    ) {
        match self.groups.find(key) {
            Some(group_id) => self.offer(group_id, message, now, fx),
            None => {
                // The last member left while the message was on its way.
                self.book_routed(None, message.address());
                self.book_drop(None, message.address(), DropReason::GroupEnded);
            }
        }
    }

    /// Whether a message that comes now would wait here.
    pub(crate) fn group_must_wait(&self, group_id: GroupId) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let can_take = |member: &Member| {
            let session = self.sessions.get(member.session);
            is_away(member.session)
                || session.is_some_and(|it| it.link.is_some() && !it.congested && it.has_credit())
        };
        group.owner == self.env.shard()
            && (!group.waiting.is_empty() || !group.everybody().any(can_take))
    }

    /// Gives a message to a member, or lets it wait in the group. What it refers to is written down by the caller.
    fn offer<E: Effects>(&mut self, group_id: GroupId, message: &Message, now: Time, fx: &mut E) {
        self.book_routed(None, message.address());
        self.group_arrival(group_id, now);
        // What came before goes before.
        let is_behind = self
            .groups
            .get_mut(group_id)
            .is_some_and(|group| !group.waiting.is_empty())
            && self.is_in_line(group_id, now);
        let chosen = if is_behind {
            Chosen::Later
        } else {
            self.choose_member(group_id, message, false, &[], now)
        };
        let waits = matches!(chosen, Chosen::Later | Chosen::Bound);
        let upgrades = self.upgrades(group_id);
        if let Chosen::Member(member) = chosen {
            if is_away(member.session) {
                let number = self.group_number(group_id);
                let is_kept = number != 0 && message.reliability() > Reliability::AtMostOnce;
                let serial = if is_kept {
                    self.journal.next_serial()
                } else {
                    0
                };
                if serial != 0 {
                    self.journal
                        .refer(Pending::new(number, serial, message.reliability(), 0));
                }
                let waiting = Waiting::new(message.clone(), serial, 0, now);
                return self.send_errand(group_id, member.session, waiting, now);
            }
            if let Some(line) = member.line {
                return self.offer_to_line(
                    group_id,
                    member.session,
                    line,
                    Waiting::new(message.clone(), 0, 0, now),
                    now,
                    fx,
                );
            }
            return self.deliver_anew(group_id, &member, message, 0, now, fx);
        }
        if !waits && self.is_forbidden(group_id, message) {
            // It must not stand in the way of what waits behind it.
            return self.drop_of_group(group_id, message, DropReason::AccessDenied);
        }
        // Who waits behind others is wanted for reasons of its own.
        let is_wanted = (waits && !is_behind)
            || upgrades
            || message.reliability() > Reliability::AtMostOnce
            || self.has_receiver_with_link(group_id, message.address());
        let (messages_max, bytes_max) = (
            self.env.limits().group_messages_max,
            self.env.limits().group_bytes_max,
        );
        let pressed = self.env.drops_waiting();
        let bytes = message.bytes();
        let Some(group) = self.groups.get_mut(group_id) else {
            return self.book_drop(None, message.address(), DropReason::GroupEnded);
        };
        let number = group.number;
        *(if waits {
            &mut group.counters.held
        } else {
            &mut group.counters.nobody
        }) += 1;
        let reason = if !is_wanted {
            DropReason::NoMember
        } else if pressed {
            DropReason::Memory
        } else if (group.waiting.len() >= messages_max || group.waiting_bytes + bytes > bytes_max)
            // What comes from a queue was accepted there.
            && !is_queue_address(&group.filter)
        {
            DropReason::QueueFull
        } else {
            let is_kept = number != 0 && message.reliability() > Reliability::AtMostOnce;
            let serial = if is_kept {
                self.journal.next_serial()
            } else {
                0
            };
            if serial != 0 {
                let pending = Pending::new(number, serial, message.reliability(), 0);
                self.journal.refer(pending);
            }
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            group.waiting_bytes += bytes;
            group
                .waiting
                .push_back(Waiting::new(message.clone(), serial, 0, now));
            self.books.entered(Delta::copy(bytes));
            self.note_waiting_in_group(group_id, now);
            if is_behind {
                // More waiting may be reason enough to send. What is to be written down first waits for that.
                if serial == 0 {
                    return self.hand_over_waiting(group_id, now, fx);
                }
                self.look_at_group(group_id, now);
            }
            if matches!(chosen, Chosen::Bound) {
                self.look_at_group(group_id, now + crate::ordered::LOOK_ANEW);
            }
            return;
        };
        if reason != DropReason::NoMember {
            self.sessions.crowd.note_left_out();
            self.note_waiting_in_group(group_id, now);
        }
        self.drop_of_group(group_id, message, reason);
    }

    pub(crate) fn drop_of_group(
        &mut self,
        group_id: GroupId,
        message: &Message,
        reason: DropReason,
    ) {
        if let Some(group) = self.groups.get_mut(group_id) {
            group.counters.dropped += 1;
        }
        self.book_drop(None, message.address(), reason);
    }

    /// Whether somebody is here who may receive from the address, though perhaps not now.
    fn has_receiver_with_link(&self, group_id: GroupId, address: &str) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        group.everybody().any(|member| {
            self.member_is_there(member.session)
                && self.member_may_have_at(member.session, group, address)
        })
    }

    /// Sends a new copy to a member that can take it. What it refers to is written down by the caller.
    pub(crate) fn deliver_anew<E: Effects>(
        &mut self,
        group_id: GroupId,
        member: &Member,
        message: &Message,
        deliveries: u8,
        now: Time,
        fx: &mut E,
    ) {
        let upgrades = self.upgrades(group_id);
        let mut entry = member.entry(group_id, message.clone(), deliveries, upgrades);
        let owner = self.own(group_id, member, &mut entry);
        let (serial, of_group, reliability) = (entry.serial, entry.of_group, entry.reliability);
        let subscription_ids = entry.via.to_subscription_ids();
        self.hand_out(member.session);
        let mut put = self.send_entry(member.session, entry, now, fx);
        if serial != 0 && !(of_group && self.is_gone_for_good(member.session, reliability, put)) {
            // In the group's queue it waits, whatever the member does with it.
            let handed = of_group && matches!(put, Put::Sent(_));
            if of_group && put != Put::Done {
                put = Put::Waits;
            }
            let group = self.group_number(group_id);
            let pending = Pending {
                subscription_ids,
                handed,
                ..Pending::new(owner, serial, reliability, group)
            };
            self.refer(member.session, pending, put);
        }
    }

    /// Decides in which queue of the journal a member's new copy is, and names it there; returns the queue's number.
    fn own(&mut self, group_id: GroupId, member: &Member, entry: &mut Entry) -> u64 {
        let durable = self
            .sessions
            .get(member.session)
            .filter(|session| session.durable)
            .map(|session| session.uid);
        let owner = durable.unwrap_or_else(|| self.group_number(group_id));
        // What was published to be had once at the most is not written down, however surely it is handed on.
        if owner != 0
            && entry.reliability.min(entry.message.reliability()) > Reliability::AtMostOnce
        {
            if entry.serial == 0 {
                entry.serial = self.journal.next_serial();
            }
            entry.of_group = durable.is_none();
        }
        owner
    }

    /// Whether a copy has left that can go to nobody else, for a receiver whose session ends with the broker at the latest:
    /// then nothing of it is written down from now on.
    fn is_gone_for_good(&mut self, id: SessionId, reliability: Reliability, put: Put) -> bool {
        let Put::Sent(tag) = put else { return false };
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        if session.durable || reliability != Reliability::ExactlyOnce {
            return false;
        }
        if let Some(Slot {
            state: SlotState::ExpectSettle(entry),
            ..
        }) = session.window.get_mut(tag)
        {
            (entry.serial, entry.of_group) = (0, false);
        }
        true
    }

    /// Hands a message that waited in the group to a member that can take it now; gives it back if there is none.
    fn give<E: Effects>(
        &mut self,
        group_id: GroupId,
        waiting: Waiting,
        now: Time,
        fx: &mut E,
    ) -> Option<Waiting> {
        let chosen = self.choose_again(
            group_id,
            &waiting.message,
            waiting.deliveries > 0,
            waiting.back,
            now,
        );
        let Chosen::Member(member) = chosen else {
            if matches!(chosen, Chosen::Later | Chosen::Bound) {
                return Some(waiting);
            }
            if self.is_forbidden(group_id, &waiting.message) {
                // It must not stand in the way of what waits behind it.
                self.drop_of_group(group_id, &waiting.message, DropReason::AccessDenied);
                self.persist_group_removed(group_id, waiting.serial);
                return None;
            }
            return Some(waiting);
        };
        self.give_to(group_id, member, waiting, now, fx)
    }

    /// The same for the member that was chosen.
    pub(crate) fn give_to<E: Effects>(
        &mut self,
        group_id: GroupId,
        member: Member,
        waiting: Waiting,
        now: Time,
        fx: &mut E,
    ) -> Option<Waiting> {
        if is_away(member.session) {
            self.send_errand(group_id, member.session, waiting, now);
            return None;
        }
        if let Some(line) = member.line {
            return self.give_to_line(group_id, member.session, line, waiting, now, fx);
        }
        // It settles or is lost; it does not give back.
        self.forget_given_back(group_id, waiting.back);
        let from = if waiting.serial == 0 {
            0
        } else {
            self.group_number(group_id)
        };
        let upgrades = self.upgrades(group_id);
        let entry = member.entry(group_id, waiting.message, waiting.deliveries, upgrades);
        let entry = Entry {
            serial: waiting.serial,
            ..entry
        };
        self.hand_out(member.session);
        self.move_to(member, entry, from, group_id, now, fx);
        None
    }

    /// Sends a copy to a member and writes down how it came there from queue `from`; 0 if it was not written down.
    pub(crate) fn move_to<E: Effects>(
        &mut self,
        member: Member,
        entry: Entry,
        from: u64,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        let mut entry = entry;
        let (id, old, redelivered, reliability) = (
            member.session,
            entry.serial,
            entry.deliveries > 0,
            entry.reliability,
        );
        if old == 0 && reliability < Reliability::ExactlyOnce {
            // It was accepted when nobody who outlives the broker wanted it.
            self.send_entry(id, entry, now, fx);
            return;
        }
        let owner = self.own(group_id, &member, &mut entry);
        let (serial, of_group, message) = (entry.serial, entry.of_group, entry.message.clone());
        let subscription_ids = entry.via.to_subscription_ids();
        if of_group
            && reliability == Reliability::ExactlyOnce
            && let Some(link) = self.sessions.get(id).and_then(|session| session.link)
        {
            // That it is nobody else's must be written down first.
            fx.hold(link, self.journal.awaited());
        }
        self.note_group_delivery(group_id, if of_group { old } else { 0 }, id, fx);
        let mut put = self.send_entry(id, entry, now, fx);
        if of_group
            && reliability == Reliability::ExactlyOnce
            && let Put::Sent(tag) = put
        {
            self.journal.tell_when_left(id, tag);
        }
        if of_group && self.is_gone_for_good(id, reliability, put) {
            if old != 0 {
                self.journal.persist(
                    &Record::Removed {
                        queue: from,
                        serial,
                    },
                    self.session_safety(id),
                );
            }
            return;
        }
        if of_group && put != Put::Done {
            put = Put::Waits;
        }
        if old == 0 {
            let group = self.group_number(group_id);
            let pending = Pending {
                subscription_ids,
                ..Pending::new(owner, serial, reliability, group)
            };
            if owner != 0 && serial != 0 {
                self.persist_entry(id, &message, pending, put);
            }
            return;
        }
        let grant = (!of_group).then_some((reliability, member.id));
        match put {
            Put::Done => {
                self.journal.persist(
                    &Record::Removed {
                        queue: from,
                        serial,
                    },
                    Safety::Lazy,
                );
            }
            _ if from == owner => {}
            Put::Sent(tag) => {
                let exactly_once = reliability == Reliability::ExactlyOnce;
                let safety = if exactly_once {
                    self.session_safety(id)
                } else {
                    Safety::Lazy
                };
                self.journal.persist(
                    &Record::Moved {
                        from,
                        serial,
                        to: owner,
                        tag,
                        redelivered,
                        grant,
                    },
                    safety,
                );
            }
            Put::Waits | Put::WaitsForDisk => {
                self.journal.persist(
                    &Record::Moved {
                        from,
                        serial,
                        to: owner,
                        tag: 0,
                        redelivered,
                        grant,
                    },
                    Safety::Lazy,
                );
            }
        }
    }

    /// Gives what waits in a session's groups to whoever can take it.
    pub(crate) fn pump_groups<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let mut at = 0;
        while let Some(group_id) = self
            .sessions
            .get(id)
            .and_then(|session| session.groups.get(at).copied())
        {
            self.hand_over_waiting(group_id, now, fx);
            at += 1;
        }
    }

    pub(crate) fn hand_over_waiting<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        if let Some(queue) = self.groups.get_mut(group_id).and_then(|group| group.feed) {
            return self.pump_queue(queue, now, fx);
        }
        if self.is_owned_elsewhere(group_id) {
            return self.send_home(group_id);
        }
        if self
            .groups
            .get_mut(group_id)
            .is_some_and(|group| group.waiting.is_empty())
        {
            return;
        }
        if self.is_ordered(group_id, now) {
            return self.hand_over_in_order(group_id, now, fx);
        }
        // Those at the head that nobody who is there may have stand in nobody's way.
        let mut at = 0;
        loop {
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            let Some(waiting) = group.waiting.remove(at) else {
                return;
            };
            let (bytes, since) = (waiting.message.bytes(), waiting.since);
            group.waiting_bytes -= bytes;
            if waiting.message.expires() <= now {
                group.counters.expired += 1;
            }
            self.books.left(Delta::copy(bytes));
            if waiting.message.expires() <= now {
                self.forget_given_back(group_id, waiting.back);
                self.book_expired(None, waiting.message.address());
                self.persist_group_removed(group_id, waiting.serial);
                continue;
            }
            // While it waits for somebody who has not given it back, the others take what is behind it.
            let is_refused = waiting.back != 0;
            if let Some(waiting) = self.give(group_id, waiting, now, fx) {
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.waiting_bytes += bytes;
                    group.waiting.insert(at, waiting);
                    self.books.entered(Delta::copy(bytes));
                }
                if at < LOOK_AHEAD && (is_refused || self.is_nobodys_for_now(group_id, at)) {
                    at += 1;
                    continue;
                }
                return;
            }
            if let Some(group) = self.groups.get_mut(group_id) {
                group.counters.wait.add(now.since(since));
            }
        }
    }

    /// Whether somebody is there, but nobody who may have the message at this place of the queue, and others wait behind it.
    fn is_nobodys_for_now(&self, group_id: GroupId, at: usize) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let Some(waiting) = group
            .waiting
            .get(at)
            .filter(|_| group.waiting.len() > at + 1)
        else {
            return false;
        };
        let has_seats = group.seats.as_ref().is_some_and(|seats| seats.has_any());
        has_seats && !self.has_receiver_with_link(group_id, waiting.message.address())
    }
}
