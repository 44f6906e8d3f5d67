//! A group's owner, and its members on other shards (decision 0020).
//!
//! *Knows:* what other shards report of their members: terms, rights, whether there is room. *Must never know:* their
//! sessions. A member on another shard is a seat away: the balancer gets the same inputs for it as for others, and what
//! is chosen for it leaves as an errand, which is answered by a settlement or comes back. The other side is
//! `seat_away`.

use crate::Kernel;
use crate::access::{Access, Permission};
use crate::effects::Effects;
use crate::groups::group::{Group, Member};
use crate::groups::seats::Key;
use crate::groups::work_terms::OrderKey;
use crate::home;
use crate::ids::{GroupId, SessionId, ShardId};
use crate::journal::durable::Pending;
use crate::ledger::DropReason;
use crate::queue::{Dead, HOME, Item, is_queue_address};
use crate::remote::group_mail::{CopyBack, Errand, GroupMail, Mail, Notice, Report, SeatEvent};
use crate::remote::shards::ShardMessage;
use crate::remote::transfer::entry_in;
use std::sync::Arc;
use thalweg_balance::Parcel;
use thalweg_model::{DeathReason, Message, Reliability, Span, Time};

/// The shard that owns a group.
pub(crate) fn owner_of(key: &str, filter: &str, shards: u16) -> ShardId {
    // A queue and the groups that take from it are together.
    home(if is_queue_address(filter) { HOME } else { key }, shards)
}

/// Whether a member may be in a group at all: without the right to take from a queue it gets nothing of a group that
/// does, however long it has been a member.
pub(crate) fn may_sit(access: &Access, group: &Group) -> bool {
    !is_queue_address(group.filter()) || access.allows(Permission::Take, group.filter())
}

impl Kernel {
    pub(crate) fn is_owned_elsewhere(&self, group_id: GroupId) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| group.owner() != self.env.shard())
    }

    /// What another shard has to say of a group.
    pub(crate) fn on_group_mail<E: Effects>(
        &mut self,
        from: ShardId,
        mail: GroupMail,
        now: Time,
        fx: &mut E,
    ) {
        match mail.open() {
            Mail::Seat(notice) => self.on_notice(from, notice, now, fx),
            Mail::Report(report) => self.on_report(from, report, now, fx),
            Mail::Errand(errand) => self.on_errand(from, errand, now, fx),
            Mail::Evict { sitting } => self.on_evict(sitting, now, fx),
        }
    }

    // --- who is away

    fn on_notice<E: Effects>(&mut self, from: ShardId, notice: Notice, now: Time, fx: &mut E) {
        self.ensure_queue(&notice.filter);
        let group_id = self.group_for(&notice.key, &notice.filter);
        let (reliability, is_shut) = (notice.reliability, notice.is_shut);
        let condition = notice.condition.clone();
        let aways = &mut self.remote.aways;
        let before = aways
            .find(from, notice.sitting)
            .and_then(|id| aways.get(id));
        let has_other_rights = before.is_some_and(|it| it.access() != Some(&notice.access));
        let id = aways.announce(from, group_id, notice);
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let member = Member {
            session: id,
            asked: reliability,
            reliability,
            id: 0,
            line: None,
        };
        group.add_away(member, condition);
        if has_other_rights {
            group.look_again();
        }
        self.seat_blocked(group_id, id, is_shut);
        self.hand_over_waiting(group_id, now, fx);
    }

    fn forget_away(&mut self, id: SessionId) -> Option<GroupId> {
        let group_id = self.remote.aways.remove(id)?;
        if let Some(group) = self.groups.get_mut(group_id) {
            group.forget_away(id);
        }
        Some(group_id)
    }

    pub(crate) fn forget_all_away(&mut self, group_id: GroupId) {
        let group = self.groups.get_mut(group_id);
        let away = group.map_or_else(Vec::new, |group| group.take_away());
        for member in away {
            self.remote.aways.remove(member.session);
        }
    }

    /// Whether a message could leave for a seat away right now.
    pub(crate) fn away_can_take(&self, member: &Member, message: &Message, upgrades: bool) -> bool {
        let away = self.remote.aways.get(member.session);
        away.is_some_and(|away| away.can_take(message, upgrades))
    }

    /// What a member, here or away, may do.
    pub(crate) fn member_access(&self, id: SessionId) -> Option<&Access> {
        match self.remote.aways.get(id) {
            Some(away) => away.access(),
            None => self.sessions.get(id).map(|session| session.access()),
        }
    }

    /// What a member, here or away, wants to be kept in order.
    pub(crate) fn order_wished(&self, member: &Member, group: &str) -> Option<OrderKey> {
        if let Some(away) = self.remote.aways.get(member.session) {
            return away.ordered();
        }
        self.sessions
            .get(member.session)?
            .membership
            .terms
            .as_ref()?
            .of(group)
            .ordered
    }

    /// A member's session's number; the same over links.
    pub(crate) fn member_number(&self, id: SessionId) -> u64 {
        let away = self.remote.aways.get(id).map(|away| away.uid());
        away.or_else(|| self.sessions.get(id).map(|session| session.uid()))
            .unwrap_or(0)
    }

    /// Whether a member, here or away, has a link.
    pub(crate) fn member_is_there(&self, id: SessionId) -> bool {
        let away = self
            .remote
            .aways
            .get(id)
            .map(|away| away.opening().is_some());
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| session.link().is_some())
        })
    }

    /// Whether a member, here or away, was silent before and has to show first that it works.
    pub(crate) fn member_is_on_trial(&self, id: SessionId) -> bool {
        let away = self.remote.aways.get(id).map(|away| away.is_on_trial());
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| !session.is_trusted())
        })
    }

    /// Whether a member's output, here or away, takes no more.
    pub(crate) fn member_is_full(&self, id: SessionId) -> bool {
        let away = self.remote.aways.get(id).map(|away| away.is_shut());
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| session.connection.is_congested())
        })
    }

    /// A member's name, here or away.
    pub(crate) fn member_client(&self, id: SessionId) -> Option<Arc<str>> {
        let away = self.remote.aways.get(id).map(|away| away.client().clone());
        away.or_else(|| {
            self.sessions
                .get(id)
                .map(|session| session.client().clone())
        })
    }

    /// Members away, as operators see them, if they have a link.
    pub(crate) fn view_away(&self, member: &Member) -> Option<(&Arc<str>, bool)> {
        let away = self
            .remote
            .aways
            .get(member.session)
            .filter(|away| away.opening().is_some())?;
        Some((away.client(), away.is_shut() || away.is_on_trial()))
    }

    // --- errands

    /// Sends a message to a member away. If it is written down, that is in the group's queue, where it stays until the
    /// member's shard has moved it.
    pub(crate) fn send_errand(&mut self, group_id: GroupId, id: SessionId, item: Item, now: Time) {
        let from = entry_in(self.group_number(group_id), item.serial);
        let upgrades = self.upgrades(group_id);
        let Item {
            message,
            order,
            deliveries,
            back,
            ..
        } = item;
        let toll = self.toll(&message, now);
        self.pay_toll(toll, id);
        let sent = self.remote.aways.send(id, &message, upgrades, back, now);
        let (Some(group), Some(sent)) = (self.groups.get_mut(group_id), sent) else {
            debug_assert!(false, "who is chosen has a seat");
            return self.book_drop(None, message.address(), DropReason::NoMember);
        };
        if sent.is_open {
            group.errand_left();
        }
        let key = group.key().clone();
        let parcel = Parcel {
            tag: sent.number,
            size: message.payload().len() as u32,
            settles: sent.settles,
            again: deliveries > 0,
        };
        self.group_copy_sent(id, group_id, &parcel, now);
        // The other shard routes and books it anew.
        self.unbook_routed(None, message.address());
        self.books.forwarded();
        let errand = Errand {
            key,
            sitting: sent.sitting,
            epoch: sent.epoch,
            number: sent.number,
            from,
            order,
            deliveries,
            back,
            message,
        };
        self.send_group_mail(sent.shard, Mail::Errand(errand));
    }

    pub(crate) fn send_group_mail(&mut self, to: ShardId, mail: Mail) {
        self.remote
            .send(to, ShardMessage::Group(GroupMail::new(mail)));
    }

    fn on_report<E: Effects>(&mut self, from: ShardId, report: Report, now: Time, fx: &mut E) {
        let mut touched: Vec<GroupId> = Vec::new();
        let mut touch = |group_id: GroupId| {
            if !touched.contains(&group_id) {
                touched.push(group_id);
            }
        };
        for (sitting, said) in report.said {
            let Some(id) = self.remote.aways.find(from, sitting) else {
                continue;
            };
            let Some(group_id) = self.remote.aways.get(id).map(|away| away.group()) else {
                continue;
            };
            touch(group_id);
            self.on_said(id, group_id, said, now, fx);
        }
        for (key, copies) in report.copies {
            if let Some(group_id) = self.groups.find(&key) {
                touch(group_id);
            }
            for copy in copies.into_iter().rev() {
                self.take_back_copy(from, &key, copy, now);
            }
        }
        for group_id in touched {
            self.hand_over_waiting(group_id, now, fx);
            self.end_group_if_due(group_id, now, fx);
        }
    }

    fn on_said<E: Effects>(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        said: SeatEvent,
        now: Time,
        fx: &mut E,
    ) {
        match said {
            SeatEvent::Done(number) => self.errand_answered(id, group_id, number, true, now),
            SeatEvent::Back(number) => self.errand_answered(id, group_id, number, false, now),
            SeatEvent::Stepped(number, step, at) => {
                self.group_stepped(group_id, (id, u16::MAX, 0), number, step, at);
            }
            SeatEvent::Shut => {
                self.remote.aways.shut(id);
                self.seat_blocked(group_id, id, true);
            }
            SeatEvent::Down | SeatEvent::Left => {
                let has_left = matches!(said, SeatEvent::Left);
                self.remote.aways.go_down(id, has_left);
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.seats_changed();
                }
                self.forget_if_gone(id);
            }
            SeatEvent::Load(report) => {
                self.seat_reported(group_id, id, &report, now);
            }
            SeatEvent::RoundTrip(least, jitter) => {
                self.seat_round_trip(group_id, id, least, jitter)
            }
            SeatEvent::Overdue => {
                let silent = self.silent_with(id, group_id, now);
                self.evict(id, group_id, &silent, now, fx);
            }
        }
    }

    fn errand_answered(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        number: u64,
        is_done: bool,
        now: Time,
    ) {
        let answered = self.remote.aways.answered(id, number, is_done, now);
        let Some((message, back)) = answered else {
            return;
        };
        if is_done {
            self.forget_given_back(group_id, back);
        }
        if let Some(group) = self.groups.get_mut(group_id) {
            group.errand_is_back();
        }
        let holder: Key = (id, u16::MAX, 0);
        self.group_settled(group_id, holder, number, is_done, now);
        match is_done {
            true => self.order_settled(group_id, holder, &message),
            false => self.order_changed(group_id),
        }
        self.forget_if_gone(id);
    }

    fn forget_if_gone(&mut self, id: SessionId) {
        if self.remote.aways.get(id).is_some_and(|away| away.is_over()) {
            self.forget_away(id);
        }
    }

    // --- silence

    /// Members of a group that have not settled what they have of it for so long, among those away.
    pub(crate) fn late_away(&self, group_id: GroupId, limit: Span, now: Time) -> Vec<SessionId> {
        let Some(group) = self.groups.get(group_id) else {
            return Vec::new();
        };
        let is_late = |id: &SessionId| {
            let away = self
                .remote
                .aways
                .get(*id)
                .filter(|away| away.opening().is_some());
            away.and_then(|away| away.silent_since())
                .is_some_and(|since| since + limit <= now)
        };
        group
            .away()
            .iter()
            .map(|member| member.session)
            .filter(is_late)
            .collect()
    }

    /// A message that a seat away has and that others may have.
    pub(crate) fn held_away(&self, id: SessionId) -> Option<Message> {
        let away = self.remote.aways.get(id)?;
        away.movable(self.upgrades(away.group())).cloned()
    }

    /// A member away has been silent for too long; its shard ends its link.
    pub(crate) fn evict_away(&mut self, id: SessionId, group_id: GroupId) {
        let Some(away) = self.remote.aways.get(id) else {
            return;
        };
        let (shard, sitting) = away.name();
        self.note_stall(id, group_id);
        self.send_group_mail(shard, Mail::Evict { sitting });
    }

    /// A message that a member's shard sends back: it waits again, in front.
    fn take_back_copy(&mut self, from: ShardId, key: &str, copy: CopyBack, now: Time) {
        let CopyBack {
            message,
            from: entry,
            deliveries,
            errand,
            is_dead,
            refused,
        } = copy;
        self.books.arrived();
        let group_id = self.groups.find(key);
        let number = group_id.map_or(0, |group_id| self.group_number(group_id));
        if let (Some((sitting, errand, _)), Some(group_id)) = (errand, group_id)
            && let Some(id) = self.remote.aways.find(from, sitting)
        {
            self.errand_answered(id, group_id, errand, false, now);
        }
        let queue = key
            .split_once('/')
            .and_then(|(_, filter)| self.queues.find(filter));
        if is_dead {
            if let Some(queue) = queue {
                self.note_dead_letter(queue, Dead::new(message, DeathReason::Rejected), now);
            }
            return self.took_over(entry);
        }
        if let Some(queue) = queue {
            // A queue has its own ways with what returns.
            self.return_from_elsewhere(queue, &message, deliveries, now);
            return self.took_over(entry);
        }
        self.book_routed(None, message.address());
        let Some(group_id) = group_id else {
            self.book_drop(None, message.address(), DropReason::GroupEnded);
            return self.took_over(entry);
        };
        let mut serial = 0;
        if entry.0 == number {
            // It has not left the queue, as far as the journal is concerned.
            serial = entry.1;
        } else {
            if number != 0 && message.reliability() > Reliability::AtMostOnce {
                // Its serial is its place in line, after a restart, too.
                serial = if entry.1 == 0 {
                    self.journal.next_serial()
                } else {
                    entry.1
                };
                self.journal
                    .refer(Pending::new(number, serial, message.reliability(), 0));
                self.persist_kept(&message, self.env.limits().safety);
            }
            // In the same batch, so that it is never in both queues nor in none.
            self.took_over(entry);
        }
        let by = refused
            .by
            .and_then(|sitting| self.remote.aways.find(from, sitting));
        let back = match by {
            Some(by) => self.note_given_back(group_id, refused.known, (by, u16::MAX, 0), now),
            None => refused.known,
        };
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.returned += u64::from(deliveries > 0);
        let mut item = Item {
            back,
            ..Item::new(message, serial, deliveries)
        };
        if self.is_too_often(group_id, serial, deliveries) {
            return self.give_up_of_group(group_id, item, DeathReason::DeliveryLimit, now);
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        // What its member never saw is where it was.
        item.order = match errand {
            Some((_, _, order)) => order,
            None => group.waiting.order_before(&item.message),
        };
        self.books.entered(group.comes_back(item));
    }

    // --- the end

    /// Whatever must wait for errands is done when they are back.
    pub(crate) fn note_group_ending(&mut self, group_id: GroupId) {
        if let Some(group) = self.groups.get_mut(group_id) {
            group.end_after_errands();
        }
    }

    pub(crate) fn end_group_if_due<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        if group.ends_now() {
            self.end_group_durability(group_id);
            self.forget_group_if_empty(group_id, now, fx);
        }
    }
}
