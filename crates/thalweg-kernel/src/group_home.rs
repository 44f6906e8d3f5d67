//! A group's owner, and its members on other shards (decision 0020).
//!
//! *Knows:* what other shards have said of their members: terms, rights, whether there is room. *Must never know:* their
//! sessions. A member on another shard is a seat away: the balancer is told of it what it is told of others, and what is
//! chosen for it leaves as an errand, which is answered by a settlement or comes back. The other side is `seat_away`.

use crate::Kernel;
use crate::access::{Access, Permission};
use crate::durable::Pending;
use crate::effects::Effects;
use crate::given_back::BackId;
use crate::group::{Group, Member};
use crate::group_backlog::Waiting;
use crate::home;
use crate::ids::{GroupId, SessionId, ShardId};
use crate::kernel::Map;
use crate::ledger::DropReason;
use crate::queue::{HOME, is_queue_address};
use crate::seats::Key;
use crate::shards::ShardMessage;
use crate::work_terms::OrderKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_balance::{LoadReport, Parcel, Step, Terms};
use thalweg_model::{Message, Reliability, Span, Time};

/// Marks the number of a member whose session is on another shard.
const AWAY: u32 = 1 << 31;

/// Whether a member's session is on another shard; then the number is that of its seat away.
pub(crate) fn is_away(id: SessionId) -> bool {
    id.0 & AWAY != 0
}

/// The shard that owns a group.
pub(crate) fn owner_of(key: &str, filter: &str, shards: u16) -> ShardId {
    // A queue and the groups that take from it are together.
    home(if is_queue_address(filter) { HOME } else { key }, shards)
}

/// Between a group's owner and a shard that has members of it.
#[derive(Debug)]
pub struct GroupMail(pub(crate) Box<Mail>);

#[derive(Debug)]
pub(crate) enum Mail {
    /// To the owner: there is a member, or something about it has changed.
    Seat(Notice),
    /// To the owner: what members said, and what comes back.
    Report(Report),
    /// From the owner: for a member.
    Errand(Errand),
    /// From the owner: a member has been silent for too long, and others are there.
    Evict { sitting: u32 },
}

/// A member.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) key: Arc<str>,
    pub(crate) filter: Box<str>,
    /// Names the seat: no other of that shard ever had it.
    pub(crate) sitting: u32,
    /// Tells its link from earlier ones; nothing if it has none.
    pub(crate) opening: Option<u32>,
    /// Errands of another epoch come back.
    pub(crate) epoch: u32,
    /// The number of the last errand that had come when this was said.
    pub(crate) seen: u64,
    pub(crate) client: Arc<str>,
    /// The session's number, which outlives links.
    pub(crate) uid: u64,
    pub(crate) reliability: Reliability,
    pub(crate) terms: Terms,
    pub(crate) ordered: Option<OrderKey>,
    pub(crate) access: Access,
    /// It gets nothing for now.
    pub(crate) is_shut: bool,
    /// It was silent before: it gets one message at a time until it settles one.
    pub(crate) on_trial: bool,
}

/// What a shard has to say to an owner.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// In the order in which it happened, by the number of the sitting.
    pub(crate) said: Vec<(u32, Said)>,
    /// By group, those to go first first. All of that is over when they come.
    pub(crate) copies: Vec<(Arc<str>, Vec<CopyBack>)>,
}

/// Something about a seat.
#[derive(Debug)]
pub(crate) enum Said {
    /// An errand is settled.
    Done(u64),
    /// An errand, exactly once, has come so far, and when.
    Stepped(u64, Step, Time),
    /// An errand was taken away again, or could not be delivered at all.
    Back(u64),
    /// It can take nothing until it is announced anew.
    Shut,
    /// It has no link any more.
    Down,
    /// It is no longer a member.
    Left,
    /// It has told how it is.
    Load(LoadReport),
    /// What the network takes.
    RoundTrip(Span, Span),
    /// It has not settled something in time.
    Overdue,
}

/// A message for a member.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) key: Arc<str>,
    pub(crate) sitting: u32,
    pub(crate) epoch: u32,
    /// Names it at the owner.
    pub(crate) number: u64,
    /// The entry that it is in the owner's queue, if it is written down there: number and serial.
    pub(crate) from: (u64, u64),
    pub(crate) deliveries: u8,
    /// The owner's; it comes back with the message.
    pub(crate) back: BackId,
    pub(crate) message: Message,
}

/// A message that comes back.
#[derive(Debug)]
pub(crate) struct CopyBack {
    pub(crate) message: Message,
    /// The entry that it is until the owner has it: number and serial, 0 for none.
    pub(crate) from: (u64, u64),
    pub(crate) deliveries: u8,
    /// The errand, if its member never saw it: the sitting and its number.
    pub(crate) errand: Option<(u32, u64)>,
    pub(crate) refused: Refused,
}

/// What is said of a message by those who gave it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// The sitting of who has just done so.
    pub(crate) by: Option<u32>,
    /// Of those before.
    pub(crate) known: BackId,
}

/// A seat away.
pub(crate) struct Away {
    shard: ShardId,
    sitting: u32,
    opening: Option<u32>,
    epoch: u32,
    group: GroupId,
    client: Arc<str>,
    uid: u64,
    reliability: Reliability,
    pub(crate) terms: Terms,
    ordered: Option<OrderKey>,
    access: Access,
    is_shut: bool,
    /// Errands of these numbers were under way to it when it was announced anew, and come back: nothing may overtake them.
    returning: (u64, u64),
    pub(crate) on_trial: bool,
    /// What is to be settled and is not, by number, with the time at which it left.
    errands: BTreeMap<u64, (Message, Time, BackId)>,
    /// When it last settled something.
    progress: Time,
    /// It has left, and errands are still under way.
    is_gone: bool,
}

/// All seats away of the groups that are owned here.
#[derive(Default)]
pub(crate) struct Aways {
    seats: Vec<Option<Box<Away>>>,
    free: Vec<u32>,
    by_sitting: Map<(ShardId, u32), u32>,
    errand_last: u64,
}

impl Aways {
    pub(crate) fn get(&self, id: SessionId) -> Option<&Away> {
        if !is_away(id) {
            return None;
        }
        self.seats.get((id.0 & !AWAY) as usize)?.as_deref()
    }

    fn get_mut(&mut self, id: SessionId) -> Option<&mut Away> {
        self.seats.get_mut((id.0 & !AWAY) as usize)?.as_deref_mut()
    }

    fn find(&self, shard: ShardId, sitting: u32) -> Option<SessionId> {
        self.by_sitting
            .get(&(shard, sitting))
            .map(|at| SessionId(at | AWAY))
    }

    fn insert(&mut self, away: Away) -> SessionId {
        let name = (away.shard, away.sitting);
        let at = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() as u32 - 1
        });
        if let Some(seat) = self.seats.get_mut(at as usize) {
            *seat = Some(Box::new(away));
        }
        self.by_sitting.insert(name, at);
        SessionId(at | AWAY)
    }

    fn remove(&mut self, id: SessionId) -> Option<Away> {
        let at = id.0 & !AWAY;
        let away = *self.seats.get_mut(at as usize)?.take()?;
        self.by_sitting.remove(&(away.shard, away.sitting));
        self.free.push(at);
        Some(away)
    }
}

impl Away {
    /// Tells a link from an earlier one; nothing if there is none.
    pub(crate) fn opening(&self) -> Option<u32> {
        self.opening
    }

    fn is_waiting_for_errands(&self) -> bool {
        let (first, last) = self.returning;
        first <= last && self.errands.range(first..=last).next().is_some()
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.errands.values().map(|(message, ..)| message)
    }
}

impl GroupMail {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Mail>()
            + match &*self.0 {
                Mail::Errand(errand) => errand.message.bytes(),
                Mail::Report(report) => {
                    let copies = report.copies.iter().flat_map(|(_, copies)| copies);
                    copies.map(|copy| copy.message.bytes()).sum::<usize>()
                        + report.said.len() * size_of::<(u32, Said)>()
                }
                _ => 0,
            }
    }
}

/// Whether a member may be in a group at all: who may not take from a queue gets nothing of a group that does, however long
/// it has been a member.
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
        match *mail.0 {
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
        let Notice {
            sitting,
            opening,
            epoch,
            client,
            uid,
            reliability,
            terms,
            ordered,
            ..
        } = notice;
        let Notice {
            access,
            is_shut,
            on_trial,
            seen,
            ..
        } = notice;
        let errand_last = self.remote.aways.errand_last;
        let id = match self.remote.aways.find(from, sitting) {
            Some(id) => {
                if let Some(away) = self.remote.aways.get_mut(id) {
                    if away.epoch != epoch {
                        away.returning = (seen + 1, errand_last);
                    }
                    (away.opening, away.epoch) = (opening, epoch);
                    (away.is_shut, away.on_trial) = (is_shut, on_trial);
                    (away.reliability, away.terms, away.ordered, away.access) =
                        (reliability, terms, ordered, access);
                }
                id
            }
            None => self.remote.aways.insert(Away {
                shard: from,
                sitting,
                opening,
                epoch,
                group: group_id,
                client,
                uid,
                reliability,
                terms,
                ordered,
                access,
                is_shut,
                returning: (1, 0),
                on_trial,
                errands: BTreeMap::new(),
                progress: Time::ZERO,
                is_gone: false,
            }),
        };
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let member = Member {
            session: id,
            reliability,
            id: 0,
            line: None,
        };
        group.add_away(member);
        self.seat_blocked(group_id, id, is_shut);
        self.hand_over_waiting(group_id, now, fx);
    }

    fn forget_away(&mut self, id: SessionId) -> Option<GroupId> {
        let group_id = self.remote.aways.remove(id)?.group;
        if let Some(group) = self.groups.get_mut(group_id) {
            group.forget_away(id);
        }
        Some(group_id)
    }

    /// A group ends.
    pub(crate) fn forget_all_away(&mut self, group_id: GroupId) {
        let away = self
            .groups
            .get_mut(group_id)
            .map_or_else(Vec::new, |group| group.take_away());
        for member in away {
            self.remote.aways.remove(member.session);
        }
    }

    /// Whether a message could leave for a seat away right now.
    pub(crate) fn away_can_take(&self, member: &Member, message: &Message, upgrades: bool) -> bool {
        let there = self
            .remote
            .aways
            .get(member.session)
            .filter(|away| away.opening.is_some() && !away.is_shut);
        let Some(away) = there else { return false };
        let out = away.errands.len() as u32;
        if away.is_waiting_for_errands() {
            return false;
        }
        (!away.on_trial || out == 0)
            && (member.reliability_of(message, upgrades) == Reliability::AtMostOnce
                || out < away.terms.window_max)
            && away.access.may_receive(message)
    }

    /// What a member, here or away, may do.
    pub(crate) fn member_access(&self, id: SessionId) -> Option<&Access> {
        match self.remote.aways.get(id) {
            Some(away) => (!away.is_gone).then_some(&away.access),
            None => self.sessions.get(id).map(|session| session.access()),
        }
    }

    /// What a member, here or away, wants to be kept in order.
    pub(crate) fn order_wished(&self, member: &Member, group: &str) -> Option<OrderKey> {
        if let Some(away) = self.remote.aways.get(member.session) {
            return away.ordered;
        }
        self.sessions
            .get(member.session)?
            .terms
            .as_ref()?
            .of(group)
            .ordered
    }

    /// A member's session's number; the same over links.
    pub(crate) fn member_number(&self, id: SessionId) -> u64 {
        let away = self.remote.aways.get(id).map(|away| away.uid);
        away.or_else(|| self.sessions.get(id).map(|session| session.uid()))
            .unwrap_or(0)
    }

    /// Whether a member, here or away, has a link.
    pub(crate) fn member_is_there(&self, id: SessionId) -> bool {
        let away = self.remote.aways.get(id).map(|away| away.opening.is_some());
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| session.link().is_some())
        })
    }

    /// Whether a member, here or away, was silent before and has to show first that it works.
    pub(crate) fn member_is_on_trial(&self, id: SessionId) -> bool {
        let away = self.remote.aways.get(id).map(|away| away.on_trial);
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| !session.is_trusted())
        })
    }

    /// Whether a member's output, here or away, takes no more.
    pub(crate) fn member_is_full(&self, id: SessionId) -> bool {
        let away = self.remote.aways.get(id).map(|away| away.is_shut);
        away.unwrap_or_else(|| {
            self.sessions
                .get(id)
                .is_some_and(|session| session.connection.is_congested())
        })
    }

    /// A member's name, here or away.
    pub(crate) fn member_client(&self, id: SessionId) -> Option<Arc<str>> {
        let away = self.remote.aways.get(id).map(|away| away.client.clone());
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
            .filter(|away| away.opening.is_some())?;
        Some((&away.client, away.is_shut || away.on_trial))
    }

    // --- errands

    /// Sends a message to a member away. If it is written down, that is in the group's queue, where it stays until the
    /// member's shard has moved it.
    pub(crate) fn send_errand(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        waiting: Waiting,
        now: Time,
    ) {
        let from = if waiting.serial == 0 {
            (0, 0)
        } else {
            (self.group_number(group_id), waiting.serial)
        };
        self.remote.aways.errand_last += 1;
        let number = self.remote.aways.errand_last;
        let Waiting {
            message,
            deliveries,
            back,
            ..
        } = waiting;
        let (Some(group), Some(away)) = (
            self.groups.get_mut(group_id),
            self.remote
                .aways
                .seats
                .get_mut((id.0 & !AWAY) as usize)
                .and_then(Option::as_deref_mut),
        ) else {
            debug_assert!(false, "who is chosen has a seat");
            return self.book_drop(None, message.address(), DropReason::NoMember);
        };
        let upgrades = group.policy().upgrade_reliability;
        let reliability = if upgrades {
            away.reliability
        } else {
            away.reliability.min(message.reliability())
        };
        let settles = reliability > Reliability::AtMostOnce;
        if settles {
            away.errands.insert(number, (message.clone(), now, back));
            group.errand_left();
        }
        let (shard, sitting, epoch, key) =
            (away.shard, away.sitting, away.epoch, group.key().clone());
        let settles = settles && away.terms.settles;
        let parcel = Parcel {
            tag: number,
            size: message.payload().len() as u32,
            settles,
            again: deliveries > 0,
        };
        self.group_copy_sent(id, group_id, &parcel, now);
        // The other shard routes and books it anew.
        self.unbook_routed(None, message.address());
        self.books.forwarded();
        let errand = Errand {
            key,
            sitting,
            epoch,
            number,
            from,
            deliveries,
            back,
            message,
        };
        self.remote.send(
            shard,
            ShardMessage::Group(GroupMail(Box::new(Mail::Errand(errand)))),
        );
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
            let Some(group_id) = self.remote.aways.get(id).map(|away| away.group) else {
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
        said: Said,
        now: Time,
        fx: &mut E,
    ) {
        match said {
            Said::Done(number) => self.errand_answered(id, group_id, number, true, now),
            Said::Back(number) => self.errand_answered(id, group_id, number, false, now),
            Said::Stepped(number, step, at) => {
                self.group_stepped(group_id, (id, u16::MAX, 0), number, step, at);
            }
            Said::Shut => {
                if let Some(away) = self.remote.aways.get_mut(id) {
                    away.is_shut = true;
                }
                self.seat_blocked(group_id, id, true);
            }
            Said::Down | Said::Left => {
                if let Some(away) = self.remote.aways.get_mut(id) {
                    away.opening = None;
                    away.is_gone = matches!(said, Said::Left);
                }
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.seats_changed();
                }
                self.forget_if_gone(id);
            }
            Said::Load(report) => {
                self.seat_reported(group_id, id, &report, now);
            }
            Said::RoundTrip(least, jitter) => self.seat_round_trip(group_id, id, least, jitter),
            Said::Overdue => {
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
        let Some(away) = self.remote.aways.get_mut(id) else {
            return;
        };
        let Some((message, _, back)) = away.errands.remove(&number) else {
            return;
        };
        if is_done {
            away.progress = now;
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
        if self
            .remote
            .aways
            .get(id)
            .is_some_and(|away| away.is_gone && away.errands.is_empty())
        {
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
                .filter(|away| away.opening.is_some());
            away.and_then(|away| Some(away.errands.first_key_value()?.1.1.max(away.progress)))
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
        let upgrades = self.upgrades(away.group);
        let may_move = |message: &&Message| {
            let asked = if upgrades {
                away.reliability
            } else {
                away.reliability.min(message.reliability())
            };
            asked == Reliability::AtLeastOnce
        };
        away.messages().find(may_move).cloned()
    }

    /// A member away has been silent for too long; its shard ends its link.
    pub(crate) fn evict_away(&mut self, id: SessionId, group_id: GroupId) {
        let Some(away) = self.remote.aways.get(id) else {
            return;
        };
        let (shard, sitting) = (away.shard, away.sitting);
        self.note_stall(id, group_id);
        self.remote.send(
            shard,
            ShardMessage::Group(GroupMail(Box::new(Mail::Evict { sitting }))),
        );
    }

    /// A message that a member's shard sends back: it waits again, in front.
    fn take_back_copy(&mut self, from: ShardId, key: &str, copy: CopyBack, now: Time) {
        let CopyBack {
            message,
            from: entry,
            deliveries,
            errand,
            refused,
        } = copy;
        self.books.arrived();
        let group_id = self.groups.find(key);
        let number = group_id.map_or(0, |group_id| self.group_number(group_id));
        if let (Some((sitting, errand)), Some(group_id)) = (errand, group_id)
            && let Some(id) = self.remote.aways.find(from, sitting)
        {
            self.errand_answered(id, group_id, errand, false, now);
        }
        let queue = key
            .split_once('/')
            .and_then(|(_, filter)| self.queues.find(filter));
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
                self.persist_kept(&message, false, self.env.limits().safety);
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
        let errand = errand.map_or(0, |(_, number)| number);
        // What a member has had, and what came back from earlier errands, goes before.
        let goes_before =
            |other: &&Waiting| other.deliveries > 0 || (other.errand != 0 && other.errand < errand);
        let at = if errand == 0 {
            0
        } else {
            group.waiting.iter().take_while(goes_before).count()
        };
        let waiting = Waiting {
            errand,
            back,
            ..Waiting::new(message, serial, deliveries, now)
        };
        self.books.entered(group.waiting.insert(at, waiting));
    }

    // --- the end

    /// Whatever must wait for errands is done when they are back.
    pub(crate) fn note_group_ending(&mut self, group_id: GroupId) {
        if let Some(group) = self.groups.get_mut(group_id) {
            group.end_after_errands();
        }
    }

    fn end_group_if_due<E: Effects>(&mut self, group_id: GroupId, now: Time, fx: &mut E) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        if group.ends_now() {
            self.end_group_durability(group_id);
            self.forget_group_if_empty(group_id, now, fx);
        }
    }
}
