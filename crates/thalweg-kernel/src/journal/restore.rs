//! A new process takes up where the last one ended.

use crate::access::Access;
use crate::books::Delta;
use crate::effects::{Effects, Safety};
use crate::entry::Entry;
use crate::groups::group::{Member, group_key};
use crate::ids::{GroupId, SessionId, ShardId, Tag};
use crate::journal::terms::StoredTerms;
use crate::queue::{Item, filter_cost, flagged};
use crate::remote::group_home::owner_of;
use crate::remote::transfer::Destination;
use crate::routes::cached::{NO_LOCAL, RETAIN_AS_PUBLISHED, Sink, SinkKind};
use crate::session::{HeldTickets, Left, Life, Session, SlotState, Who, Will, Window};
use crate::timers::TimerKey;
use crate::{DropReason, Kernel, home};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Message, Time};
use thalweg_records::{
    Record, Sequences, State, StoredGroup, StoredSession, StoredSlot, StoredSubscription,
    StoredWill, Waiting,
};

/// A group's name and its filter.
pub type GroupName = (Box<str>, Box<str>);

/// One shard's part of a state.
#[derive(Debug, Default)]
pub struct Part {
    /// Sessions whose home is the shard, by the number that names them in the journal, lowest first.
    pub sessions: Vec<(u64, StoredSession)>,
    /// What waits in groups that the shard owns, by the group's number.
    pub groups: Vec<(u64, StoredGroup)>,
    /// The shards that have members of a group, by its name and filter.
    pub members: Arc<HashMap<GroupName, BTreeSet<u16>>>,
    /// Name and filter of each group that held anything, wherever it is now, by its number.
    pub group_names: Arc<HashMap<u64, GroupName>>,
    /// Queues with names, exchanges and bindings, and what waits in them.
    pub terms: Vec<(u64, StoredGroup)>,
    /// What was under way between shards, by the number of the queue where it stands meanwhile.
    pub transfers: Vec<(u64, StoredGroup)>,
    /// Last values: place and length of their messages' records.
    pub last_values: Vec<(u64, u32)>,
    /// What addresses keep that keep several messages, by address: number, place and length of each record, oldest first.
    pub kept: BTreeMap<Box<str>, VecDeque<(u64, u64, u32)>>,
    /// Publishers that stamp their messages, by user and number, and what was taken of theirs.
    pub publishers: Vec<(Box<str>, u64, Sequences)>,
    /// The highest number of a session or group, of any shard.
    pub number_last: u64,
    /// The highest serial, of any shard.
    pub serial_last: u64,
}

impl Part {
    /// Splits a state into what each of `shards` kernels takes up. The number of shards may have changed since the state was written.
    pub fn split(state: State, shards: u16) -> Vec<Part> {
        let mut parts: Vec<Part> = (0..shards.max(1))
            .map(|_| Part {
                number_last: state.queue_last,
                serial_last: state.serial_last,
                ..Part::default()
            })
            .collect();
        // A group's entries go to its owner, who is to know where members are.
        let mut members: HashMap<GroupName, BTreeSet<u16>> = HashMap::new();
        for (number, session) in state.sessions {
            let shard = home(&session.client, shards).0;
            for subscription in &session.subscriptions {
                if let Some(group) = &subscription.group {
                    members
                        .entry((group.clone(), subscription.filter.clone()))
                        .or_default()
                        .insert(shard);
                }
            }
            parts[usize::from(shard)].sessions.push((number, session));
        }
        let names = state
            .groups
            .iter()
            .map(|(number, group)| (*number, (group.name.clone(), group.filter.clone())));
        let group_names = Arc::new(names.collect::<HashMap<_, _>>());
        for (number, group) in state.groups {
            if let Some(to) = Destination::of(&group) {
                parts[usize::from(to.bringer(shards))]
                    .transfers
                    .push((number, group));
                continue;
            }
            if StoredTerms::of(&group).is_some() {
                parts[usize::from(home(crate::queue::HOME, shards).0)]
                    .terms
                    .push((number, group));
                continue;
            }
            if crate::queue::is_queue_address(&group.filter) {
                parts[usize::from(home(crate::queue::HOME, shards).0)]
                    .groups
                    .push((number, group));
                continue;
            }
            let owner = owner_of(
                &group_key(&group.name, &group.filter),
                &group.filter,
                shards,
            );
            parts[usize::from(owner.0)].groups.push((number, group));
        }
        for (address, value) in state.last_values {
            parts[usize::from(home(&address, shards).0)]
                .last_values
                .push(value);
        }
        for (address, kept) in state.kept {
            parts[usize::from(home(&address, shards).0)]
                .kept
                .insert(address, kept);
        }
        let owner = &mut parts[usize::from(home(crate::queue::HOME, shards).0)].publishers;
        for (user, known) in state.publishers {
            owner.extend(
                known
                    .into_iter()
                    .map(|(publisher, sequences)| (user.clone(), publisher, sequences)),
            );
        }
        let members = Arc::new(members);
        for part in &mut parts {
            // The order in which they were opened; a map has none.
            part.sessions.sort_unstable_by_key(|(number, _)| *number);
            part.groups.sort_unstable_by_key(|(number, _)| *number);
            part.terms
                .sort_unstable_by_key(|(number, group)| (StoredTerms::of(group), *number));
            part.group_names = group_names.clone();
            part.members = members.clone();
            part.transfers.sort_unstable_by_key(|(number, _)| *number);
        }
        parts
    }
}

impl Kernel {
    /// Takes up what an earlier run left: sessions, their subscriptions, queues and windows, groups, last values. All
    /// sessions are without a link; wills and expiries run from `now` for those that had one. To be called once, on a
    /// new kernel, before anything else; [`Kernel::on_timeout`] should follow when all shards have done so, before any
    /// link is opened and as long as something is due, so that wills and ends that are overdue happen first.
    ///
    /// `read` gets a message back by the place and length of its record; `access` says what a session may do, by client and user.
    pub fn restore<E: Effects>(
        &mut self,
        part: Part,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
        fx: &mut E,
    ) {
        self.journal
            .restore_numbers(part.number_last, part.serial_last);
        // Each last value that is among those that its address keeps, by its place, so that it is in memory once.
        let mut shared: HashMap<u64, Message> = HashMap::new();
        for (address, kept) in part.kept {
            let mut newest = None;
            let found: Vec<(u64, Option<Message>)> = kept
                .into_iter()
                .map(|(number, place, len)| {
                    let message = read(place, len);
                    if message.is_none() {
                        self.books.dropped_many(DropReason::Unreadable, 1);
                    }
                    let message = message.map(|it| self.capped(&it).unwrap_or(it));
                    newest = message.clone().map(|it| (place, it)).or(newest.take());
                    (number, message)
                })
                .collect();
            shared.extend(newest);
            self.restore_kept(&address, &found, now);
        }
        for (place, len) in part.last_values {
            match shared.remove(&place).or_else(|| read(place, len)) {
                Some(message) if message.expires() <= now => {
                    self.journal.persist(
                        &Record::Cleared {
                            address: message.address(),
                        },
                        Safety::Lazy,
                    );
                }
                Some(message) => {
                    let message = self.capped(&message).unwrap_or(message);
                    if !self.values.retain(&message) {
                        self.books.retain_refused();
                    }
                }
                None => self.books.dropped_many(DropReason::Unreadable, 1),
            }
        }
        self.restore_publishers(part.publishers, now);
        for (number, terms) in part.terms {
            self.restore_terms(number, terms, read, access, now);
        }
        let mut group_copies: Vec<(SessionId, u16, u64)> = Vec::new();
        for (number, stored) in part.sessions {
            let through_groups: Vec<(u16, u64)> = stored
                .window
                .iter()
                .filter(|(_, slot)| slot.entry.group() != 0)
                .map(|(tag, slot)| (*tag, slot.entry.group()))
                .collect();
            let id = self.restore_session(number, stored, read, access, now);
            group_copies.extend(
                through_groups
                    .into_iter()
                    .map(|(tag, group)| (id, tag, group)),
            );
        }
        let mut groups: HashMap<u64, GroupId> = HashMap::new();
        for (number, group) in part.groups {
            self.expect_members(&group, &part.members);
            if let Some(group_id) = self.restore_group(number, group, read) {
                groups.insert(number, group_id);
            }
        }
        for (id, tag, group) in group_copies {
            // What waited in the group may be on another shard now. A copy whose session has left it is the session's own.
            let named = || {
                part.group_names
                    .get(&group)
                    .and_then(|(name, filter)| self.find_group(name, filter))
            };
            let of_queue = || self.group_of_queue(id, group);
            let Some(group_id) = groups.get(&group).copied().or_else(named).or_else(of_queue)
            else {
                continue;
            };
            let Some(session) = self.sessions.get_mut(id) else {
                continue;
            };
            session.window.restore_group(tag, group_id);
        }
        self.make_groups_durable();
        for (number, transfer) in part.transfers {
            self.restore_transfer(number, transfer, read, now);
        }
        if self.env.limits().group_redispatch {
            // All links are lost: as when one is.
            let ids: Vec<SessionId> = self.sessions.iter().map(|(id, _)| id).collect();
            for id in ids {
                self.return_group_copies(id, now, fx);
            }
        }
    }

    fn restore_session(
        &mut self,
        number: u64,
        stored: StoredSession,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
    ) -> SessionId {
        let had_link = stored.expires_at == Time::NEVER;
        let user = stored.user.as_deref();
        let will = stored.will.map(|will| {
            let due = will.due;
            (Box::new(will.into()), due)
        });
        let life = Life::restored(stored.expiry, stored.expires_at, will, now);
        let (expires_at, will_due) = (life.expires_at(), life.will_due());
        let mut held = HeldTickets::default();
        for ticket in &stored.held {
            held.insert(*ticket);
        }
        let client: Arc<str> = (&*stored.client).into();
        let mut slots: Vec<(u16, StoredSlot)> = stored.window.into_iter().collect();
        slots.sort_by_key(|(_, slot)| slot.entry.serial);
        let mut lost: Vec<u16> = Vec::new();
        let mut restored = stored.waiting.len();
        let mut states = Vec::new();
        for (tag, slot) in slots {
            if slot.received {
                states.push((
                    tag,
                    SlotState::ExpectReleased {
                        durable: true,
                        of_group: None,
                    },
                ));
                continue;
            }
            restored += 1;
            match read(slot.entry.place, slot.entry.len) {
                Some(message) => {
                    self.books.sent(Delta::copy(message.bytes()));
                    self.books.restored_address(message.address());
                    states.push((
                        tag,
                        SlotState::ExpectSettle(Entry::restored(slot.entry, message)),
                    ));
                }
                None => lost.push(tag),
            }
        }
        order_by_sending(&mut states);
        let window = Window::restored(states, now);
        let access = Access::restored(&stored.access, || access(&client, user));
        let left = Left {
            who: Who {
                client,
                user: user.map(Into::into),
                uid: number,
            },
            access,
            life,
            in_flight_max: stored.in_flight_max,
            tickets: held,
            window,
            waiting: stored.waiting,
            copies: restored,
        };
        let session = Session::restored(left, now);
        self.books.entered(Delta::copies(
            session.backlog.len(),
            session.backlog.memory_held(),
        ));
        self.books.restored(restored);
        let (id, other) = self.sessions.insert(session);
        if let Some(other) = other {
            self.end_double(other, id, now);
        }
        for tag in lost {
            self.book_drop(Some(id), "", DropReason::Unreadable);
            self.journal
                .persist(&Record::Settled { queue: number, tag }, Safety::Lazy);
        }
        self.weigh_session(id);
        for subscription in stored.subscriptions {
            self.restore_subscription(id, subscription);
        }
        if will_due != Time::NEVER {
            self.agenda.set_timer(will_due, TimerKey::Will(id));
        }
        if expires_at != Time::NEVER {
            self.agenda
                .set_timer(expires_at, TimerKey::SessionExpiry(id));
        }
        if had_link {
            self.persist_session(id, Safety::Lazy);
        }
        id
    }

    /// Takes up what an earlier run left of a queue, exchange or binding.
    fn restore_terms(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        access: &dyn Fn(&str, Option<&str>) -> Access,
        now: Time,
    ) {
        match StoredTerms::of(&stored) {
            Some(StoredTerms::Exchange) => self.restore_exchange(number, &stored.filter, access),
            Some(StoredTerms::Queue) => self.restore_queue(number, stored, read, access, now),
            Some(StoredTerms::Binding)
                if self
                    .restore_binding(number, &stored.filter, access)
                    .is_none() =>
            {
                // One of its ends is gone; the record that says so was lost with the machine.
                self.persist_ended(number);
            }
            Some(StoredTerms::Binding) | None => {}
        }
    }

    /// Two sessions of one client id, as older journals may hold them: the one that would be kept longer stays, the other
    /// ends as if it had expired.
    fn end_double(&mut self, first: SessionId, second: SessionId, now: Time) {
        let expires_at = |id| {
            self.sessions
                .get(id)
                .map_or(Time::ZERO, |session| session.life.expires_at())
        };
        let (stays, goes) = if expires_at(first) > expires_at(second) {
            (first, second)
        } else {
            (second, first)
        };
        if let Some(session) = self.sessions.get_mut(goes) {
            session.life.expire_at(now);
        }
        self.sessions.name(stays);
        self.agenda.set_timer(now, TimerKey::SessionExpiry(goes));
    }

    fn restore_subscription(&mut self, id: SessionId, stored: StoredSubscription) {
        // What is no filter any more is true of nothing.
        let condition = stored
            .condition
            .as_deref()
            .map(|text| Arc::new(Predicate::parse(text).unwrap_or_else(|_| Predicate::never())));
        let group = match &stored.group {
            None => None,
            Some(name) => {
                let group_id = self.group_for(&group_key(name, &stored.filter), &stored.filter);
                let limits = self.env.limits();
                let member = Member {
                    session: id,
                    asked: stored.reliability,
                    reliability: limits.reliability_within(&stored.filter, stored.reliability),
                    id: stored.id,
                    line: None,
                };
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.add(member, condition.clone());
                }
                Some(group_id)
            }
        };
        let first_here = group.is_none() && !self.is_wanted_here(&stored.filter);
        if group.is_none() {
            let no_local = u8::from(stored.no_local) * NO_LOCAL;
            let flags = no_local | (u8::from(stored.retain_as_published) * RETAIN_AS_PUBLISHED);
            let mut sink = Sink {
                target: id.0,
                id: stored.id,
                kind: SinkKind::Session,
                reliability: stored.reliability,
                flags,
            };
            if let Some(condition) = &condition {
                self.routes.filter(&mut sink, condition.clone());
            }
            self.routes.insert(&stored.filter, sink);
        }
        if let (Some(group), Some(session)) = (group, self.sessions.get_mut(id)) {
            session.membership.join(group);
        }
        self.hold_subscription(id, &stored.filter, group);
        if let Some(condition) = condition {
            let bytes = group.map_or(condition.bytes(), |_| filter_cost(&condition));
            self.weigh_condition(id, &stored.filter, group, bytes);
        }
        if let Some(group) = group {
            self.tell_seats(group, id);
            self.tell_membership(group, 0);
        } else if first_here {
            self.tell_interest(&stored.filter, 0);
        }
    }

    /// Other shards will report their members of a group that is owned here; until then the restored members are
    /// assumed.
    fn expect_members(
        &mut self,
        stored: &StoredGroup,
        members: &HashMap<GroupName, BTreeSet<u16>>,
    ) {
        let Some(shards) = members.get(&(stored.name.clone(), stored.filter.clone())) else {
            return;
        };
        let key = group_key(&stored.name, &stored.filter);
        let own = self.env.shard();
        for shard in shards
            .iter()
            .map(|shard| ShardId(*shard))
            .filter(|shard| *shard != own)
        {
            let group_id = self.group_for(&key, &stored.filter);
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            group.expect_peer(shard);
        }
    }

    fn restore_group(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
    ) -> Option<GroupId> {
        if self.restore_into_queue(number, &stored, read) {
            return None;
        }
        let count = stored.waiting.len();
        self.books.restored(count);
        let Some(group_id) = self.find_group(&stored.name, &stored.filter) else {
            // Its last member has left; the record that says so was lost with the machine.
            self.books.dropped_many(DropReason::GroupEnded, count);
            self.journal.end_group(number, Safety::Lazy);
            return None;
        };
        // Each shard that had members had a queue of its own for the group; now they are one.
        let to = match self.group_number(group_id) {
            0 => number,
            other => other,
        };
        let delivered_to = stored.delivered_to;
        let waiting = flagged(stored.waiting, delivered_to);
        if to != number {
            for stored in waiting.iter() {
                let (serial, redelivered) = (stored.serial, stored.deliveries > 0);
                self.journal.move_entry(number, serial, to, redelivered);
            }
        }
        let read = match self.books.has_accounts() {
            true => Some(self.read_restored(to, &waiting, read)),
            false => None,
        };
        let group = self.groups.get_mut(group_id)?;
        self.books.entered(match read {
            Some(items) => group.waiting.restore(items),
            None => group.waiting.restore_deep(waiting),
        });
        if to != number {
            self.journal.end_group(number, Safety::Lazy);
        }
        // What comes from now on has not been delivered.
        let serial_last = self.journal.serial_last();
        let group = self.groups.get_mut(group_id)?;
        let is_known = to == number && delivered_to > 0;
        let serial = delivered_to.min(serial_last);
        group.restore(to, is_known.then(|| crate::queue::Mark::restored(serial)));
        if is_known {
            let queue = number;
            self.journal
                .persist(&Record::Delivered { queue, serial }, Safety::Lazy);
        }
        Some(group_id)
    }

    /// Reads what an earlier run left in a group or queue, because it is booked by address.
    pub(crate) fn read_restored(
        &mut self,
        queue: u64,
        waiting: &Waiting,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
    ) -> Vec<Item> {
        let mut items = Vec::with_capacity(waiting.len());
        for stored in waiting.iter() {
            let serial = stored.serial;
            let Some(message) = read(stored.place, stored.len) else {
                self.book_drop(None, "", DropReason::Unreadable);
                self.journal.remove(queue, serial, Safety::Lazy);
                continue;
            };
            self.books.restored_address(message.address());
            items.push(Item::new(message, serial, stored.deliveries));
        }
        items
    }

    /// Groups with restored members hold what is written down from now on, whether or not they did before.
    fn make_groups_durable(&mut self) {
        for group_id in self.groups.ids() {
            self.make_group_durable(group_id, Safety::Lazy);
        }
    }
}

impl From<StoredWill> for Will {
    fn from(stored: StoredWill) -> Self {
        Will {
            address: stored.address,
            payload: stored.payload,
            reliability: stored.reliability,
            retain: stored.retain,
            delay: stored.delay,
            expires_in: stored.expires_in,
            properties: stored.properties,
        }
    }
}

/// Puts what was in flight, which is by serial, into the order in which it was sent: that is another where there are several
/// priorities. Most tags are free, so the widest gap between two is before the oldest.
fn order_by_sending(states: &mut [(Tag, SlotState)]) {
    let mut priorities = states.iter().filter_map(|(_, state)| match state {
        SlotState::ExpectSettle(entry) => Some(entry.message.priority()),
        SlotState::ExpectReleased { .. } => None,
    });
    let first = priorities.next();
    if priorities.all(|priority| Some(priority) == first) {
        return;
    }
    states.sort_by_key(|(tag, _)| *tag);
    let mut before = states.last().map_or(0, |(tag, _)| *tag);
    let gaps = states.iter().map(|(tag, _)| {
        let before = std::mem::replace(&mut before, *tag);
        tag.wrapping_sub(before)
    });
    let oldest = gaps.enumerate().max_by_key(|(_, gap)| *gap);
    states.rotate_left(oldest.map_or(0, |(at, _)| at));
}
