//! A message comes into a group: it goes to a member, here or on another shard, or waits until one can take it.

use crate::Kernel;
use crate::effects::{Effects, Holder, Safety};
use crate::entry::Entry;
use crate::groups::group::{Group, Member};
use crate::groups::seats::{Chosen, key};
use crate::groups::selected::Search;
use crate::ids::{GroupId, SessionId};
use crate::journal::durable::{Pending, Put};
use crate::ledger::DropReason;
use crate::publish::cause::Cause;
use crate::queue::{Item, is_queue_address};
use crate::remote::aways::is_away;
use crate::remote::shards::ShardMessage;
use thalweg_balance::LOOK_AHEAD;
use thalweg_model::{DeathReason, Message, Reliability, Span, Time};
use thalweg_records::Record;

impl Kernel {
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
        if group.owner() == self.env.shard() {
            self.offer(group_id, message, now, fx);
            return;
        }
        self.books.forwarded();
        self.journal.promise();
        let (owner, key, number, message) = (
            group.owner(),
            group.key().clone(),
            group.number(),
            message.clone(),
        );
        let mut from = (0, 0);
        if cause.must_arrive && number != 0 {
            // On its way it waits in the group's queue here.
            from = (number, self.journal.next_serial());
            self.journal
                .refer(Pending::new(number, from.1, message.reliability(), 0));
        }
        if cause.question != 0 {
            self.sessions.crowd.note_asked_for_group();
        }
        self.remote.send(
            owner,
            ShardMessage::PublishToGroup {
                key,
                message,
                safety: cause.safety,
                from,
                question: cause.question,
            },
        );
    }

    /// Another shard received a message for a group that is owned here. False if there is no such group, or it is for none of
    /// its members.
    pub(crate) fn on_publish_to_group<E: Effects>(
        &mut self,
        key: &str,
        message: &Message,
        now: Time,
        fx: &mut E,
    ) -> bool {
        match self.groups.find(key) {
            Some(group_id) => self.offer(group_id, message, now, fx),
            None => {
                // The last member left while the message was on its way.
                self.book_routed(None, message.address());
                self.book_drop(None, message.address(), DropReason::GroupEnded);
                false
            }
        }
    }

    /// Whether a message that comes now would wait here in memory.
    pub(crate) fn group_must_wait(&self, group_id: GroupId, may_go_to_disk: bool) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let can_take = |member: &Member| {
            let session = self.sessions.get(member.session);
            !group.selects(member)
                && (is_away(member.session)
                    || session.is_some_and(|it| {
                        it.link().is_some() && !it.connection.is_congested() && it.has_credit()
                    }))
        };
        let to_disk = may_go_to_disk && group.number() != 0 && !self.books.has_accounts();
        group.owner() == self.env.shard()
            && !to_disk
            && (!group.waiting.is_empty() || !group.everybody().any(can_take))
    }

    /// Gives a message to a member, or lets it wait in the group. What it refers to is written down by the caller. False if it
    /// passes the content filter of no member, connected or not: it is not the group's then.
    fn offer<E: Effects>(
        &mut self,
        group_id: GroupId,
        message: &Message,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let is_for_it = self.is_for_group(group_id, message);
        if is_for_it {
            self.take_in(group_id, message, now, fx);
        }
        is_for_it
    }

    fn take_in<E: Effects>(&mut self, group_id: GroupId, message: &Message, now: Time, fx: &mut E) {
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
                let serial = self.journal.serial_if(is_kept);
                if serial != 0 {
                    // Its member's output is not held here.
                    let pending = Pending::new(number, serial, message.reliability(), 0);
                    self.journal.refer(Pending {
                        handed: true,
                        ..pending
                    });
                }
                let order = |group: &mut Group| group.waiting.next_order();
                let item = Item {
                    order: self.groups.get_mut(group_id).map_or(0, order),
                    ..Item::new(message.clone(), serial, 0)
                };
                return self.send_errand(group_id, member.session, item, now);
            }
            if let Some(line) = member.line {
                return self.offer_to_line(
                    group_id,
                    member.session,
                    line,
                    Item::new(message.clone(), 0, 0),
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
        // A message behind others wants a member for reasons of its own.
        let is_wanted = (waits && !is_behind)
            || upgrades
            || message.reliability() > Reliability::AtMostOnce
            || self.has_receiver_with_link(group_id, message);
        let (messages_max, bytes_max) = (
            self.env.limits().group_messages_max,
            self.env.limits().group_bytes_max,
        );
        let to_disk = self.group_goes_deep(group_id, message);
        let pressed = self.env.drops_what_waits(message, to_disk);
        let bytes = message.bytes();
        let Some(group) = self.groups.get_mut(group_id) else {
            return self.book_drop(None, message.address(), DropReason::GroupEnded);
        };
        let number = group.number();
        *(if waits {
            &mut group.counters.held
        } else {
            &mut group.counters.nobody
        }) += 1;
        let reason = if !is_wanted {
            DropReason::NoMember
        } else if pressed {
            DropReason::Memory
        } else if (group.waiting.len() >= messages_max || group.waiting.bytes() + bytes > bytes_max)
            // What comes from a queue was accepted there.
            && !is_queue_address(group.filter())
        {
            DropReason::QueueFull
        } else {
            // Behind those on disk it can only be as safe as they are.
            let is_kept =
                to_disk || (number != 0 && message.reliability() > Reliability::AtMostOnce);
            let serial = self.journal.serial_if(is_kept);
            let holder = Holder::Group(group_id);
            if serial != 0 {
                let pending = Pending::new(number, serial, message.reliability(), 0);
                self.journal.refer(Pending {
                    to_disk: to_disk.then_some(holder),
                    ..pending
                });
            }
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            let item = Item::new(message.clone(), serial, 0);
            if to_disk {
                let order = group.waiting.next_order();
                self.push_deep(holder, Item { order, ..item });
            } else {
                self.books.entered(group.waiting.push_back(item));
            }
            self.note_waiting_in_group(group_id, now);
            if is_behind {
                // More waiting may be reason enough to send. What is to be written down first waits for that.
                if serial == 0 {
                    return self.hand_over_waiting(group_id, now, fx);
                }
                self.look_at_group(group_id, now);
            }
            if matches!(chosen, Chosen::Bound) {
                self.look_at_group(group_id, now + crate::groups::ordered::LOOK_ANEW);
            }
            return;
        };
        if reason != DropReason::NoMember {
            self.sessions.crowd.note_left_out();
            self.note_waiting_in_group(group_id, now);
        }
        self.drop_of_group(group_id, message, reason);
    }

    /// Whether what comes now goes behind what waits in memory. It must be written down then.
    fn group_goes_deep(&self, group_id: GroupId, message: &Message) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| {
            group.waiting.is_deep()
                || group.number() != 0
                    && self.exceeds_memory(&group.waiting, message)
                    && !self.books.has_accounts()
        })
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

    /// Whether a connected member may receive a message and takes such, though perhaps not now.
    fn has_receiver_with_link(&self, group_id: GroupId, message: &Message) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let screen = self.screen(group, message);
        group.everybody().any(|member| {
            self.member_is_there(member.session)
                && self.member_may_have_at(member.session, group, message.address())
                && screen.passes(key(member))
        })
    }

    /// Sends a new copy to a member that can take it. What it refers to is written down by the caller.
    pub(crate) fn deliver_anew<E: Effects>(
        &mut self,
        group_id: GroupId,
        member: &Member,
        message: &Message,
        deliveries: u16,
        now: Time,
        fx: &mut E,
    ) {
        let upgrades = self.upgrades(group_id);
        let mut entry = member.entry(group_id, message.clone(), deliveries, upgrades);
        let owner = self.own(group_id, member, &mut entry);
        let (serial, of_group, reliability) = (entry.serial, entry.of_group, entry.reliability);
        let subscription_ids = entry.via.to_subscription_ids();
        self.hand_out(member.session);
        let mut put = self.send_to_member(member.session, entry, now, fx);
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

    /// Sends a copy to the member that was chosen for it.
    fn send_to_member<E: Effects>(
        &mut self,
        id: SessionId,
        entry: Entry,
        now: Time,
        fx: &mut E,
    ) -> Put {
        let toll = self.toll(&entry.message, now);
        let put = self.send_entry(id, entry, now, fx);
        if put != Put::Waits {
            self.pay_toll(toll, id);
        }
        put
    }

    /// Decides in which queue of the journal a member's new copy is, and names it there; returns the queue's number.
    fn own(&mut self, group_id: GroupId, member: &Member, entry: &mut Entry) -> u64 {
        let durable = self
            .sessions
            .get(member.session)
            .filter(|session| session.is_durable())
            .map(|session| session.uid());
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

    /// Whether a copy was sent that can go to no other member, to a receiver whose session ends with the broker at the
    /// latest: then nothing of it is persisted from now on.
    fn is_gone_for_good(&mut self, id: SessionId, reliability: Reliability, put: Put) -> bool {
        let Put::Sent(tag) = put else { return false };
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        if session.is_durable() || reliability != Reliability::ExactlyOnce {
            return false;
        }
        session.window.forget_serial(tag);
        true
    }

    /// Delivers a message that waited in the group to a member that can take it now; returns it if there is none.
    fn give<E: Effects>(
        &mut self,
        group_id: GroupId,
        waiting: Item,
        now: Time,
        fx: &mut E,
    ) -> Option<Item> {
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
        waiting: Item,
        now: Time,
        fx: &mut E,
    ) -> Option<Item> {
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
            // It was accepted when no persistent session matched it.
            self.send_to_member(id, entry, now, fx);
            return;
        }
        let owner = self.own(group_id, &member, &mut entry);
        let (serial, of_group, message) = (entry.serial, entry.of_group, entry.message.clone());
        let subscription_ids = entry.via.to_subscription_ids();
        if of_group
            && reliability == Reliability::ExactlyOnce
            && let Some(link) = self.sessions.link_of(id)
        {
            // That it belongs to this member alone must be persisted first.
            fx.hold(link, self.journal.awaited());
        }
        // It leaves the group's queue here, or is there from now on.
        if of_group || from == self.group_number(group_id) {
            self.note_delivery(Holder::Group(group_id), old, id, fx);
        }
        let mut put = self.send_to_member(id, entry, now, fx);
        if of_group
            && reliability == Reliability::ExactlyOnce
            && let Put::Sent(tag) = put
        {
            self.journal.tell_when_left(id, tag);
        }
        if of_group && self.is_gone_for_good(id, reliability, put) {
            if old != 0 {
                self.journal.remove(from, serial, self.session_safety(id));
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
        let (tag, safety) = match put {
            Put::Done => return self.journal.remove(from, serial, Safety::Lazy),
            _ if from == owner => return,
            Put::Sent(tag) if reliability == Reliability::ExactlyOnce => {
                (tag, self.session_safety(id))
            }
            Put::Sent(tag) => (tag, Safety::Lazy),
            Put::Waits | Put::WaitsForDisk => (0, Safety::Lazy),
        };
        let moved = Record::Moved {
            from,
            serial,
            to: owner,
            tag,
            redelivered,
            grant,
        };
        self.journal.persist(&moved, safety);
    }

    /// Dispatches what waits in a session's groups to members that can receive it.
    pub(crate) fn pump_groups<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let mut at = 0;
        while let Some(group_id) = self
            .sessions
            .get(id)
            .and_then(|session| session.membership.groups().get(at).copied())
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
        if let Some(queue) = self.groups.get_mut(group_id).and_then(|group| group.feed()) {
            return self.pump_queue(queue, now, fx);
        }
        if self.is_owned_elsewhere(group_id) {
            return self.send_home(group_id);
        }
        let group = self.groups.get_mut(group_id);
        if group.is_some_and(|group| group.waiting.is_empty()) {
            return;
        }
        if self.is_ordered(group_id, now) {
            return self.hand_over_in_order(group_id, now, fx);
        }
        // Messages at the head that no connected member may receive do not block those behind them.
        let mut at = 0;
        let mut search = self.is_selected_by(group_id).then(Search::default);
        loop {
            if let Some(search) = &mut search {
                at = match self.next_selected(group_id, search, now) {
                    Some(next) => next,
                    None if self.reads_on(Holder::Group(group_id)) => continue,
                    None => return,
                };
            }
            if self.next_waits_for_mark(group_id, at) {
                return;
            }
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            let Some((waiting, delta)) = group.waiting.remove(at) else {
                if self.refill_group(group_id) {
                    continue;
                }
                return;
            };
            self.books.left(delta);
            if group.waiting.is_deep() {
                self.refill_group(group_id);
            }
            let (priority, waited) = (waiting.message.priority(), waited(&waiting, now));
            if waiting.message.expires() <= now {
                if !self.agenda.may_expire(Holder::Group(group_id)) {
                    if let Some(group) = self.groups.get_mut(group_id) {
                        self.books.entered(group.waiting.put_back(waiting));
                    }
                    return;
                }
                self.give_up_of_group(group_id, waiting, DeathReason::Expired, now);
                continue;
            }
            // While it waits for a member that has not returned it, the others receive what is behind it.
            let is_refused = waiting.back != 0;
            if let Some(waiting) = self.give(group_id, waiting, now, fx) {
                if let Some(group) = self.groups.get_mut(group_id) {
                    self.books.entered(group.waiting.put_back(waiting));
                }
                if let Some(search) = &mut search {
                    self.rest_at(group_id, at, search);
                    continue;
                }
                if at < LOOK_AHEAD && (is_refused || self.is_nobodys_for_now(group_id, at)) {
                    at += 1;
                    continue;
                }
                return;
            }
            if let Some(group) = self.groups.get_mut(group_id) {
                group.gave(priority, waited);
            }
        }
    }

    /// Whether the message at this place stays in the group until it is marked as delivered, because members are on other
    /// shards.
    pub(crate) fn next_waits_for_mark(&mut self, group_id: GroupId, at: usize) -> bool {
        let group = self.groups.get(group_id);
        let Some(group) = group.filter(|group| !group.away().is_empty()) else {
            return false;
        };
        let Some(next) = group.waiting.get(at) else {
            return false;
        };
        let serial = next.serial;
        self.has_member_for(group_id, &next.message)
            && !self.is_marked(Holder::Group(group_id), serial)
    }

    /// Brings more of what waits in a group into memory; true if there is something new at once.
    pub(crate) fn refill_group(&mut self, group_id: GroupId) -> bool {
        let is_deep = |kernel: &Kernel| {
            let group = kernel.groups.get(group_id);
            group.is_some_and(|group| group.waiting.is_deep())
        };
        if !is_deep(self) {
            return false;
        }
        self.refill_backlog(Holder::Group(group_id));
        !is_deep(self)
    }

    /// Whether members are connected, none of them may receive the message at this place of the queue, and others wait
    /// behind it.
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
        let has_seats = group.seats().is_some_and(|seats| seats.has_any());
        has_seats && !self.has_receiver_with_link(group_id, &waiting.message)
    }
}

/// How long a message that was never delivered has waited.
pub(crate) fn waited(item: &Item, now: Time) -> Option<Span> {
    (item.deliveries == 0).then(|| now.since(item.message.ingress()))
}
