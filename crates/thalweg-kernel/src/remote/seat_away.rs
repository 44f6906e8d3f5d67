//! A member's side of a group that another shard owns (decision 0020).
//!
//! What happens to a member is said to the owner at the end of the turn, or with whatever else goes
//! there; all of it keeps its order.

use crate::Kernel;
use crate::effects::Effects;
use crate::entry::Entry;
use crate::groups::group::Member;
use crate::groups::seats::{Key, key};
use crate::ids::{GroupId, SessionId, ShardId};
use crate::ledger::DropReason;
use crate::queue::Item;
use crate::remote::group_mail::{CopyBack, Errand, Mail, Notice, Refused, SeatEvent};
use crate::remote::seats_away::{Place, Running, member_of, place};
use crate::remote::transfer::entry_in;
use std::sync::Arc;
use thalweg_balance::LoadReport;
use thalweg_model::{Message, Reliability, Span, Time};

impl Kernel {
    // --- members sit down and get up

    /// Tells the owner of a group, if that is another shard, how a session's memberships are now.
    pub(crate) fn tell_seats(&mut self, group_id: GroupId, id: SessionId) {
        if self.env.shards() == 1 || !self.is_owned_elsewhere(group_id) {
            return;
        }
        for member in self.members_of(group_id, id) {
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
        let seats = &mut self.remote.seats;
        let here = seats.sit(place, owner, opening.is_some(), waits);
        let notice = Notice {
            key: group.key().clone(),
            filter: group.filter().into(),
            sitting: here.sitting,
            opening,
            epoch: here.epoch,
            seen: seats.seen(owner),
            client: session.client().clone(),
            uid: session.uid(),
            reliability: member.reliability,
            terms: self.terms_of(member, group.key()),
            ordered: self.order_wished(member, group.key()),
            access: session.access().clone(),
            condition: group
                .selectors()
                .and_then(|it| it.filter(key(member)))
                .cloned(),
            is_shut: waits,
            on_trial: session.membership.trial().is_some(),
        };
        self.send_report(owner);
        self.send_group_mail(owner, Mail::Seat(notice));
    }

    /// A session leaves a group. What it has of it stays the group's.
    pub(crate) fn leave_seats(&mut self, group_id: GroupId, id: SessionId) {
        if self.remote.seats.is_empty() || !self.is_owned_elsewhere(group_id) {
            return;
        }
        for member in self.members_of(group_id, id) {
            self.leave_seat(group_id, key(&member));
        }
    }

    fn members_of(&self, group_id: GroupId, id: SessionId) -> Vec<Member> {
        let members = self.groups.get(group_id).map(|group| group.members());
        let of_session = members.into_iter().flatten();
        of_session
            .filter(|member| member.session == id)
            .copied()
            .collect()
    }

    /// The same of one member.
    pub(crate) fn leave_seat(&mut self, group_id: GroupId, member: Key) {
        self.remote.seats.get_up(place(group_id, member));
    }

    /// A session ends: what it holds is no errand from then on.
    pub(crate) fn end_errands(&mut self, id: SessionId) {
        self.remote.seats.give_up_all(id);
        self.remote.seats.all_go_down(id);
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
        self.remote.seats.came(owner, errand.number);
        let place = self.remote.seats.place_of(errand.sitting);
        let here = place.and_then(|place| self.remote.seats.at(&place));
        let member = place.and_then(|place| self.member_at(place));
        let (Some(place), Some(here), Some(member)) = (place, here, member) else {
            return self.send_back(owner, errand);
        };
        if here.epoch != errand.epoch {
            return self.send_back(owner, errand);
        }
        let group_id = place.3;
        // Its rights and its filter may have changed since they were reported to the owner.
        let passes = self.groups.get(group_id).is_some_and(|group| {
            let screen = self.screen(group, &errand.message);
            screen.passes(key(&member))
        });
        let is_denied =
            !passes || !self.is_member_allowed(group_id, member.session, &errand.message);
        if !is_denied && self.member_can_take(&member, &errand.message, self.upgrades(group_id)) {
            return self.run_errand(owner, group_id, &member, errand, now, fx);
        }
        self.remote.seats.shut(errand.sitting);
        self.send_back(owner, errand);
        if is_denied {
            // The owner does not know what it may, or takes.
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
        self.books.forwarded();
        let copy = CopyBack {
            message: errand.message,
            from: errand.from,
            deliveries: errand.deliveries,
            errand: Some((errand.sitting, errand.number, errand.order)),
            is_dead: false,
            refused: Refused {
                by: None,
                known: errand.back,
            },
        };
        self.remote.seats.bring(owner, errand.key, copy);
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
            order,
            deliveries,
            back,
            message,
            ..
        } = errand;
        self.book_routed(None, message.address());
        self.remote.seats.begin(Running {
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
                Item {
                    back,
                    ..Item::new(message.clone(), 0, deliveries)
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
            let session = self.sessions.get(member.session);
            let durable = session.is_some_and(|session| session.is_durable());
            let mut serial = from.1;
            if !durable && self.group_number(group_id) == 0 {
                // No persistent session matches it any more.
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
        if self.remote.seats.is_over() {
            return;
        }
        // It did not leave: it was dropped, or its output is full.
        self.remote
            .seats
            .say(owner, sitting, SeatEvent::Back(number));
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
            self.remote.seats.set_unsent(Some((sitting, number, order)));
            self.return_unsent(member.session, now, fx);
        }
        self.send_home(group_id);
        self.remote.seats.set_unsent(None);
    }

    /// In the same batch, so that it is never in both queues nor in none.
    fn write_down_errand(&mut self, message: &Message, from: (u64, u64)) {
        if self.journal.has_references() {
            self.persist_kept(message, self.env.limits().safety);
        }
        self.took_over(from);
    }

    /// The owner has found that a member is silent for too long.
    pub(crate) fn on_evict<E: Effects>(&mut self, sitting: u32, now: Time, fx: &mut E) {
        if let Some(place) = self.remote.seats.place_of(sitting) {
            self.evict_now(SessionId(place.0), place.3, now, fx);
        }
    }

    // --- what members say

    pub(crate) fn tell_load(&mut self, group_id: GroupId, id: SessionId, report: &LoadReport) {
        let said = SeatEvent::Load(*report);
        self.remote.seats.say_of(group_id, id, said);
    }

    pub(crate) fn tell_round_trip(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        least: Span,
        jitter: Span,
    ) {
        let said = SeatEvent::RoundTrip(least, jitter);
        self.remote.seats.say_of(group_id, id, said);
    }

    // --- what goes to owners

    /// Whatever waits in a group of another owner goes there; seats that had been shut and have room again are open.
    pub(crate) fn send_home(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let (owner, name, number) = (group.owner(), group.key().clone(), group.number());
        while let Some(item) = self.take_waiting(group_id, 0) {
            let (errand, known) = (self.remote.seats.unsent(), item.back);
            let refused = Refused { by: None, known };
            self.bring_home(owner, name.clone(), number, item, errand, refused);
        }
        // What is only said waits for the end of the turn.
        if self.remote.seats.has_copies_for(owner) {
            self.send_report(owner);
        }
        for place in self.remote.seats.shut_in(group_id) {
            if let Some(member) = self.member_at(place)
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
        item: Item,
        errand: Option<(u32, u64, i64)>,
        refused: Refused,
    ) {
        let Item {
            message,
            deliveries,
            serial,
            ..
        } = item;
        // The other shard routes and books it anew.
        self.unbook_routed(None, message.address());
        self.books.forwarded();
        let from = entry_in(number, serial);
        self.remote.seats.bring(
            owner,
            name,
            CopyBack {
                message,
                from,
                deliveries,
                errand,
                is_dead: false,
                refused,
            },
        );
    }

    /// A member here refuses a message of another shard's queue for good. That shard knows what becomes of it; until it has
    /// it, it stays written down here.
    pub(crate) fn bring_dead_home(&mut self, id: SessionId, group_id: GroupId, entry: &Entry) {
        let uid = self.sessions.get(id).map_or(0, |session| session.uid());
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let queue = if entry.of_group { group.number() } else { uid };
        let from = entry_in(queue, entry.serial);
        self.books.forwarded();
        let copy = CopyBack {
            message: entry.message.clone(),
            from,
            deliveries: entry.deliveries,
            errand: None,
            is_dead: true,
            refused: Refused { by: None, known: 0 },
        };
        let (owner, name) = (group.owner(), group.key().clone());
        self.remote.seats.bring(owner, name, copy);
    }

    /// A member here returns a message of a group that another shard owns.
    pub(crate) fn refuse_errand(&mut self, group_id: GroupId, by: Key, item: Item) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return self.book_drop(None, item.message.address(), DropReason::GroupEnded);
        };
        let (owner, name, number) = (group.owner(), group.key().clone(), group.number());
        let here = self.remote.seats.at(&place(group_id, by));
        let refused = Refused {
            by: here.map(|here| here.sitting),
            known: item.back,
        };
        self.bring_home(owner, name, number, item, None, refused);
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
        if let Some(report) = self.remote.seats.take_report(owner) {
            self.send_group_mail(owner, Mail::Report(report));
        }
    }

    /// Sends owners the changes of members here, at the end of a turn.
    pub(crate) fn tell_owners(&mut self) {
        for place in self.remote.seats.take_changed() {
            if let Some(member) = self.member_at(place) {
                self.tell_seat(place.3, &member);
            }
        }
        self.send_reports();
    }

    /// The same without looking for what has changed.
    pub(crate) fn send_reports(&mut self) {
        for (owner, report) in self.remote.seats.take_reports() {
            self.send_group_mail(owner, Mail::Report(report));
        }
    }
}
