//! A member's side of a group that another shard owns (decision 0020).
//!
//! *Knows:* which members here sit in groups of other owners, and which of their deliveries are errands. *Must never know:*
//! how the owner chooses. What happens to a member is said to the owner at the end of the turn, or with whatever else goes
//! there; all of it keeps its order.

use crate::Kernel;
use crate::effects::Effects;
use crate::entry::Entry;
use crate::group::Member;
use crate::group_backlog::Waiting;
use crate::group_mail::{CopyBack, Errand, Mail, Notice, Refused, Report, Said};
use crate::ids::{GroupId, SessionId, ShardId};
use crate::kernel::Map;
use crate::ledger::DropReason;
use crate::seats::{Key, key};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_balance::{LoadReport, Parcel, Step};
use thalweg_model::{Message, Reliability, Span, Time};

/// What owners know of members here, and what they are still to be told.
#[derive(Default)]
pub(crate) struct SeatsAway {
    /// By session, line, consumer and group.
    here: BTreeMap<Place, Here>,
    by_sitting: Map<u32, Place>,
    sitting_last: u32,
    epoch_last: u32,
    /// Sittings that could take nothing.
    shut: Vec<u32>,
    /// Deliveries that are to be settled, by session, line and tag.
    errands: BTreeMap<(u32, u16, u64), Running>,
    /// The number of the last errand that came, by owner.
    seen: Map<ShardId, u64>,
    /// The errand that is just being run.
    current: Option<Running>,
    /// The sitting and number of one that did not fit, while it goes back.
    unsent: Option<(u32, u64)>,
    /// By owner.
    reports: Vec<(ShardId, Report)>,
    /// Members that owners are to be told of anew; and all of them.
    retell: Vec<SessionId>,
    retell_all: bool,
}

type Place = (u32, u16, u32, GroupId);

#[derive(Clone, Copy)]
struct Here {
    owner: ShardId,
    sitting: u32,
    /// 0 while it is shut or has no link.
    epoch: u32,
}

/// An errand that a member has.
#[derive(Clone, Copy)]
struct Running {
    owner: ShardId,
    sitting: u32,
    number: u64,
    group: GroupId,
}

fn place(group_id: GroupId, member: Key) -> Place {
    (member.0.0, member.1, member.2, group_id)
}

fn member_of(place: Place) -> Key {
    (SessionId(place.0), place.1, place.2)
}

impl SeatsAway {
    fn report(&mut self, owner: ShardId) -> &mut Report {
        let at = self
            .reports
            .iter()
            .position(|(shard, _)| *shard == owner)
            .unwrap_or_else(|| {
                self.reports.push((owner, Report::default()));
                self.reports.len() - 1
            });
        &mut self.reports[at].1
    }

    fn say(&mut self, owner: ShardId, sitting: u32, said: Said) {
        self.report(owner).said.push((sitting, said));
    }

    fn bring(&mut self, owner: ShardId, key: Arc<str>, copy: CopyBack) {
        let copies = &mut self.report(owner).copies;
        match copies.iter_mut().find(|(known, _)| *known == key) {
            Some((_, copies)) => copies.push(copy),
            None => copies.push((key, vec![copy])),
        }
    }

    /// A shut seat takes nothing, not even what has room again, until the owner knows that it is open: what the owner sent
    /// before would overtake what went back.
    fn shut(&mut self, sitting: u32) {
        let Some(here) = self
            .by_sitting
            .get(&sitting)
            .and_then(|place| self.here.get_mut(place))
        else {
            return;
        };
        if here.epoch != 0 {
            here.epoch = 0;
            let owner = here.owner;
            self.shut.push(sitting);
            self.say(owner, sitting, Said::Shut);
        }
    }

    /// Whether [`Kernel::tell_owners`] has something to do.
    pub(crate) fn has_news(&self) -> bool {
        !self.reports.is_empty() || !self.retell.is_empty() || self.retell_all
    }

    /// What an owner knows of a session is no longer right.
    pub(crate) fn has_changed(&mut self, id: SessionId) {
        if !self.here.is_empty() && !self.retell.contains(&id) {
            self.retell.push(id);
        }
    }

    /// What owners know of all sessions is no longer right.
    pub(crate) fn have_changed(&mut self) {
        self.retell_all = !self.here.is_empty();
    }

    /// A delivery is settled, or not; whether it was an errand.
    fn end(&mut self, of: Key, tag: u64, is_done: bool) -> bool {
        if self.errands.is_empty() {
            return false;
        }
        let Some(running) = self.errands.remove(&(of.0.0, of.1, tag)) else {
            return false;
        };
        let said = if is_done {
            Said::Done(running.number)
        } else {
            Said::Back(running.number)
        };
        self.say(running.owner, running.sitting, said);
        true
    }

    /// A delivery is taken away from its receiver.
    pub(crate) fn give_back(&mut self, of: Key, tag: u64) {
        self.end(of, tag, false);
    }

    /// The group has nothing to do any more with deliveries that are meant.
    fn give_up_errands(&mut self, id: SessionId, is_meant: impl Fn(&Running) -> bool) {
        let range = (id.0, 0, 0)..=(id.0, u16::MAX, u64::MAX);
        let meant = self
            .errands
            .range(range)
            .filter(|(_, running)| is_meant(running));
        let given_up: Vec<((u32, u16, u64), Running)> =
            meant.map(|(at, running)| (*at, *running)).collect();
        for (at, running) in given_up {
            self.errands.remove(&at);
            self.say(running.owner, running.sitting, Said::Back(running.number));
        }
    }

    /// A session has no link any more.
    fn go_down(&mut self, place: Place) {
        let Some(here) = self.here.get_mut(&place) else {
            return;
        };
        here.epoch = 0;
        let (owner, sitting) = (here.owner, here.sitting);
        self.shut.retain(|shut| *shut != sitting);
        self.say(owner, sitting, Said::Down);
    }

    fn get_up(&mut self, place: Place) {
        let Some(here) = self.here.remove(&place) else {
            return;
        };
        self.by_sitting.remove(&here.sitting);
        self.shut.retain(|sitting| *sitting != here.sitting);
        self.say(here.owner, here.sitting, Said::Left);
    }
}

impl Kernel {
    // --- members sit down and get up

    /// Tells the owner of a group, if that is another shard, how a session's memberships are now.
    pub(crate) fn tell_seats(&mut self, group_id: GroupId, id: SessionId) {
        if self.env.shards() == 1 || !self.is_owned_elsewhere(group_id) {
            return;
        }
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let members: Vec<Member> = group
            .members()
            .iter()
            .filter(|member| member.session == id)
            .copied()
            .collect();
        for member in members {
            self.tell_seat(group_id, &member);
        }
    }

    fn tell_seat(&mut self, group_id: GroupId, member: &Member) {
        let place = place(group_id, key(member));
        let Some(session) = self.sessions.get(member.session) else {
            return;
        };
        let opening = session.link().map(|_| session.connection.opening());
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let owner = group.owner();
        let waits = session
            .membership
            .trial()
            .is_some_and(|trial| trial.waits());
        let away = &mut self.remote.seats;
        let mut here = away.here.get(&place).copied().unwrap_or_else(|| {
            away.sitting_last = away.sitting_last.wrapping_add(1);
            Here {
                owner,
                sitting: away.sitting_last,
                epoch: 0,
            }
        });
        away.shut.retain(|sitting| *sitting != here.sitting);
        if opening.is_none() || waits {
            here.epoch = 0;
            if waits {
                away.shut.push(here.sitting);
            }
        } else if here.epoch == 0 {
            away.epoch_last = away.epoch_last.wrapping_add(1).max(1);
            here.epoch = away.epoch_last;
        }
        away.here.insert(place, here);
        away.by_sitting.insert(here.sitting, place);
        let notice = Notice {
            key: group.key().clone(),
            filter: group.filter().into(),
            sitting: here.sitting,
            opening,
            epoch: here.epoch,
            seen: self.remote.seats.seen.get(&owner).copied().unwrap_or(0),
            client: session.client().clone(),
            uid: session.uid(),
            reliability: member.reliability,
            terms: self.terms_of(member, group.key()),
            ordered: self.order_wished(member, group.key()),
            access: session.access().clone(),
            is_shut: waits,
            on_trial: session.membership.trial().is_some(),
        };
        self.send_report(owner);
        self.send_group_mail(owner, Mail::Seat(notice));
    }

    /// A session leaves a group. What it has of it stays the group's.
    pub(crate) fn leave_seats(&mut self, group_id: GroupId, id: SessionId) {
        if self.remote.seats.here.is_empty() || !self.is_owned_elsewhere(group_id) {
            return;
        }
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let members: Vec<Key> = group
            .members()
            .iter()
            .filter(|member| member.session == id)
            .map(key)
            .collect();
        for member in members {
            self.leave_seat(group_id, member);
        }
    }

    /// The same of one member.
    pub(crate) fn leave_seat(&mut self, group_id: GroupId, member: Key) {
        self.remote.seats.get_up(place(group_id, member));
    }

    /// A session ends: what it holds is no errand from then on.
    pub(crate) fn end_errands(&mut self, id: SessionId) {
        if !self.remote.seats.errands.is_empty() {
            self.remote.seats.give_up_errands(id, |_| true);
        }
        self.seats_down(id);
    }

    /// A session has no link any more. What stays with it nevertheless is still an errand.
    pub(crate) fn seats_down(&mut self, id: SessionId) {
        if self.remote.seats.here.is_empty() {
            return;
        }
        let places = self
            .remote
            .seats
            .here
            .range((id.0, 0, 0, GroupId::MIN)..)
            .take_while(|(place, _)| place.0 == id.0);
        for place in places.map(|(place, _)| *place).collect::<Vec<Place>>() {
            self.remote.seats.go_down(place);
        }
    }

    /// A group ends here: nobody will settle anything of it.
    pub(crate) fn forget_errands(&mut self, group_id: GroupId) {
        let of_group = self
            .remote
            .seats
            .errands
            .iter()
            .filter(|(_, running)| running.group == group_id);
        for id in of_group
            .map(|(at, _)| SessionId(at.0))
            .collect::<Vec<SessionId>>()
        {
            self.remote
                .seats
                .give_up_errands(id, |running| running.group == group_id);
        }
    }

    // --- errands

    /// The owner of a group has chosen a member here.
    pub(crate) fn on_errand<E: Effects>(
        &mut self,
        owner: ShardId,
        errand: Errand,
        now: Time,
        fx: &mut E,
    ) {
        self.books.arrived();
        self.remote.seats.seen.insert(owner, errand.number);
        let place = self.remote.seats.by_sitting.get(&errand.sitting).copied();
        let here = place
            .and_then(|place| self.remote.seats.here.get(&place))
            .copied();
        let member = place.and_then(|place| self.member_at(place));
        let (Some(place), Some(here), Some(member)) = (place, here, member) else {
            return self.send_back(owner, errand);
        };
        if here.epoch != errand.epoch {
            return self.send_back(owner, errand);
        }
        let group_id = place.3;
        // Its rights may have changed since the owner was told of them.
        let is_denied = !self.is_member_allowed(group_id, member.session, &errand.message);
        if !is_denied && self.member_can_take(&member, &errand.message, self.upgrades(group_id)) {
            return self.run_errand(owner, group_id, &member, errand, now, fx);
        }
        self.remote.seats.shut(errand.sitting);
        self.send_back(owner, errand);
        if is_denied {
            // The owner does not know what it may.
            self.tell_seat(group_id, &member);
        }
    }

    fn member_at(&self, place: Place) -> Option<Member> {
        let group = self.groups.get(place.3)?;
        group
            .members()
            .iter()
            .find(|member| key(member) == member_of(place))
            .copied()
    }

    /// An errand that cannot be run goes back as it came.
    fn send_back(&mut self, owner: ShardId, errand: Errand) {
        let Errand {
            key,
            sitting,
            number,
            from,
            deliveries,
            back,
            message,
            ..
        } = errand;
        self.books.forwarded();
        let refused = Refused {
            by: None,
            known: back,
        };
        let copy = CopyBack {
            message,
            from,
            deliveries,
            errand: Some((sitting, number)),
            refused,
        };
        self.remote.seats.bring(owner, key, copy);
    }

    /// Delivers an errand to a member that can take it.
    fn run_errand<E: Effects>(
        &mut self,
        owner: ShardId,
        group_id: GroupId,
        member: &Member,
        errand: Errand,
        now: Time,
        fx: &mut E,
    ) {
        let Errand {
            sitting,
            number,
            from,
            deliveries,
            back,
            message,
            ..
        } = errand;
        self.book_routed(None, message.address());
        self.remote.seats.current = Some(Running {
            owner,
            sitting,
            number,
            group: group_id,
        });
        if let Some(line) = member.line {
            self.offer_to_line(
                group_id,
                member.session,
                line,
                Waiting {
                    back,
                    ..Waiting::new(message.clone(), 0, deliveries, now)
                },
                now,
                fx,
            );
            self.write_down_errand(&message, from);
        } else if self.is_of_queue_elsewhere(group_id) {
            // The queue may end at any time, and with it the entry; so the message is written down anew.
            self.deliver_anew(group_id, member, &message, deliveries, now, fx);
            self.write_down_errand(&message, from);
        } else {
            let durable = self
                .sessions
                .get(member.session)
                .is_some_and(|session| session.is_durable());
            let mut serial = from.1;
            if !durable && self.group_number(group_id) == 0 {
                // Nobody who outlives the broker wants it any more.
                self.took_over(from);
                serial = 0;
            }
            let entry = member.entry(group_id, message, deliveries, self.upgrades(group_id));
            self.hand_out(member.session);
            self.move_to(
                *member,
                Entry { serial, ..entry },
                from.0,
                group_id,
                now,
                fx,
            );
        }
        if self.remote.seats.current.take().is_none() {
            return;
        }
        // It did not leave: it was dropped, or its output is full.
        self.remote.seats.say(owner, sitting, Said::Back(number));
        let unsent = |entry: &Entry| entry.group() == Some(group_id);
        let is_full = self
            .sessions
            .get(member.session)
            .is_some_and(|session| session.backlog.iter().any(unsent))
            || self
                .groups
                .get_mut(group_id)
                .is_some_and(|group| !group.waiting.is_empty());
        if is_full {
            self.remote.seats.shut(sitting);
            // It keeps its place before what else goes back.
            self.remote.seats.unsent = Some((sitting, number));
            self.return_unsent(member.session, now, fx);
        }
        self.send_home(group_id);
        self.remote.seats.unsent = None;
    }

    /// In the same batch, so that it is never in both queues nor in none.
    fn write_down_errand(&mut self, message: &Message, from: (u64, u64)) {
        if self.journal.has_references() {
            self.persist_kept(message, false, self.env.limits().safety);
        }
        self.took_over(from);
    }

    /// A delivery left; whether it is the errand that is just being run.
    pub(crate) fn is_errand_sent(&mut self, group_id: GroupId, to: Key, parcel: &Parcel) -> bool {
        let Some(running) = self.remote.seats.current.take() else {
            return false;
        };
        debug_assert_eq!(running.group, group_id);
        if parcel.settles {
            self.remote
                .seats
                .errands
                .insert((to.0.0, to.1, parcel.tag), running);
        }
        true
    }

    /// An exactly-once delivery has come so far; whether it was an errand, and its owner is told.
    pub(crate) fn is_errand_stepped(&mut self, of: Key, tag: u64, step: Step, now: Time) -> bool {
        let away = &mut self.remote.seats;
        let Some(running) = away.errands.get(&(of.0.0, of.1, tag)).copied() else {
            return false;
        };
        away.say(
            running.owner,
            running.sitting,
            Said::Stepped(running.number, step, now),
        );
        true
    }

    /// A delivery is settled, or goes back; whether it was an errand.
    pub(crate) fn is_errand_over(&mut self, of: Key, tag: u64, is_done: bool) -> bool {
        self.remote.seats.end(of, tag, is_done)
    }

    /// The owner has found that a member is silent for too long.
    pub(crate) fn on_evict<E: Effects>(&mut self, sitting: u32, now: Time, fx: &mut E) {
        if let Some(place) = self.remote.seats.by_sitting.get(&sitting).copied() {
            self.evict_now(SessionId(place.0), place.3, now, fx);
        }
    }

    // --- what members say

    fn sitting_in(&self, group_id: GroupId, id: SessionId) -> Option<Here> {
        self.remote
            .seats
            .here
            .get(&place(group_id, (id, u16::MAX, 0)))
            .copied()
    }

    pub(crate) fn tell_load(&mut self, group_id: GroupId, id: SessionId, report: &LoadReport) {
        if let Some(here) = self.sitting_in(group_id, id) {
            self.remote
                .seats
                .say(here.owner, here.sitting, Said::Load(*report));
        }
    }

    pub(crate) fn tell_round_trip(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        least: Span,
        jitter: Span,
    ) {
        if let Some(here) = self.sitting_in(group_id, id) {
            self.remote
                .seats
                .say(here.owner, here.sitting, Said::RoundTrip(least, jitter));
        }
    }

    /// A member has not settled something in time: the owner knows whether others are there.
    pub(crate) fn tell_overdue(&mut self, id: SessionId, group_id: GroupId) {
        if let Some(here) = self.sitting_in(group_id, id) {
            self.remote
                .seats
                .say(here.owner, here.sitting, Said::Overdue);
        }
    }

    // --- what goes to owners

    /// Whatever waits in a group of another owner goes there; seats that had been shut and have room again are open.
    pub(crate) fn send_home(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let (owner, name, number) = (group.owner(), group.key().clone(), group.number());
        if !group.waiting.is_empty() {
            let (waiting, delta) = group.waiting.take_all();
            self.books.left(delta);
            for waiting in waiting {
                let (errand, known) = (self.remote.seats.unsent, waiting.back);
                self.bring_home(
                    owner,
                    name.clone(),
                    number,
                    waiting,
                    errand,
                    Refused { by: None, known },
                );
            }
        }
        // What is only said waits for the end of the turn.
        if self
            .remote
            .seats
            .reports
            .iter()
            .any(|(shard, report)| *shard == owner && !report.copies.is_empty())
        {
            self.send_report(owner);
        }
        for sitting in self.remote.seats.shut.clone() {
            let Some(place) = self.remote.seats.by_sitting.get(&sitting).copied() else {
                continue;
            };
            if place.3 == group_id
                && let Some(member) = self.member_at(place)
                && self.has_room(&member)
            {
                self.tell_seat(group_id, &member);
            }
        }
    }

    /// A copy of a group goes to its owner.
    fn bring_home(
        &mut self,
        owner: ShardId,
        name: Arc<str>,
        number: u64,
        waiting: Waiting,
        errand: Option<(u32, u64)>,
        refused: Refused,
    ) {
        let Waiting {
            message,
            deliveries,
            serial,
            ..
        } = waiting;
        // The other shard routes and books it anew.
        self.unbook_routed(None, message.address());
        self.books.forwarded();
        let from = if serial == 0 {
            (0, 0)
        } else {
            (number, serial)
        };
        self.remote.seats.bring(
            owner,
            name,
            CopyBack {
                message,
                from,
                deliveries,
                errand,
                refused,
            },
        );
    }

    /// A member here gives back what it was given of a group that another shard owns.
    pub(crate) fn refuse_errand(&mut self, group_id: GroupId, by: Key, waiting: Waiting) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return self.book_drop(None, waiting.message.address(), DropReason::GroupEnded);
        };
        let (owner, name, number) = (group.owner(), group.key().clone(), group.number());
        let sitting = self
            .remote
            .seats
            .here
            .get(&place(group_id, by))
            .map(|here| here.sitting);
        let refused = Refused {
            by: sitting,
            known: waiting.back,
        };
        self.bring_home(owner, name, number, waiting, None, refused);
    }

    fn has_room(&self, member: &Member) -> bool {
        let Some(session) = self
            .sessions
            .get(member.session)
            .filter(|session| session.is_trusted())
        else {
            return false;
        };
        match member.line {
            Some(line) => self.consumer_can_take(member.session, line.line, line.consumer),
            None if member.reliability == Reliability::AtMostOnce => {
                session.link().is_some() && !session.connection.is_congested()
            }
            None => session.can_take(),
        }
    }

    fn send_report(&mut self, owner: ShardId) {
        if let Some(at) = self
            .remote
            .seats
            .reports
            .iter()
            .position(|(shard, _)| *shard == owner)
        {
            let (_, report) = self.remote.seats.reports.swap_remove(at);
            self.send_group_mail(owner, Mail::Report(report));
        }
    }

    /// Tells owners what they have not been told, at the end of a turn.
    pub(crate) fn tell_owners(&mut self) {
        let all = std::mem::take(&mut self.remote.seats.retell_all);
        let some = std::mem::take(&mut self.remote.seats.retell);
        if all || !some.is_empty() {
            let places = self.remote.seats.here.keys().copied();
            let changed = |place: &Place| all || some.contains(&SessionId(place.0));
            for place in places.filter(changed).collect::<Vec<Place>>() {
                if let Some(member) = self.member_at(place) {
                    self.tell_seat(place.3, &member);
                }
            }
        }
        self.send_reports();
    }

    /// The same without looking for what has changed.
    pub(crate) fn send_reports(&mut self) {
        for (owner, report) in std::mem::take(&mut self.remote.seats.reports) {
            self.send_group_mail(owner, Mail::Report(report));
        }
    }
}
