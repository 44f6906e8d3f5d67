//! Inputs of a group's balancer: deliveries, settlements, load reports, round trips, silence.

use crate::Kernel;
use crate::effects::Effects;
use crate::groups::group::LineMember;
use crate::groups::seats::{Key, Seats};
use crate::ids::{GroupId, SessionId, Tag};
use crate::timers::TimerKey;
use thalweg_balance::{LoadReport, Parcel, Step};
use thalweg_model::{Message, Span, Time};

impl Kernel {
    fn seats_mut(&mut self, group_id: GroupId) -> Option<&mut Seats> {
        self.groups.get_mut(group_id)?.seats_mut()
    }

    /// A message came into a group.
    pub(crate) fn group_arrival(&mut self, group_id: GroupId, now: Time) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.arrived += 1;
        if let Some(seats) = group.seats_mut() {
            seats.arrived(now);
        }
    }

    /// What waits in a group is looked at again soon.
    pub(crate) fn look_at_group(&mut self, group_id: GroupId, at: Time) {
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if seats.look_at(at) {
            self.agenda.set_timer(at, TimerKey::GroupLook(group_id));
        }
    }

    /// A copy of a group's left for a member.
    pub(crate) fn group_copy_sent(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        parcel: &Parcel,
        now: Time,
    ) {
        self.group_sent(group_id, (id, u16::MAX, 0), parcel, now);
    }

    /// The same for a consumer of a line.
    pub(crate) fn group_line_sent(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        to: LineMember,
        parcel: &Parcel,
        now: Time,
    ) {
        if to.settles && !parcel.settles {
            // It was not even shown.
            return;
        }
        self.group_sent(group_id, (id, to.line, to.consumer), parcel, now);
    }

    fn group_sent(&mut self, group_id: GroupId, to: Key, parcel: &Parcel, now: Time) {
        if self.remote.seats.sent(group_id, to, parcel) {
            return;
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.chosen += 1;
        let seats = group.seats_mut();
        if let Some(at) = seats.and_then(|seats| seats.sent(&to, parcel, now)) {
            self.agenda.set_timer(at, TimerKey::GroupWatch(group_id));
        }
    }

    /// A consumer of a line has settled a copy, or returns it.
    pub(crate) fn group_line_settled(
        &mut self,
        group_id: GroupId,
        of: Key,
        tag: u64,
        is_done: bool,
        now: Time,
    ) {
        if is_done {
            self.end_trial(of.0);
        }
        self.group_settled(group_id, of, tag, is_done, now);
    }

    pub(crate) fn group_settled(
        &mut self,
        group_id: GroupId,
        of: Key,
        tag: u64,
        is_done: bool,
        now: Time,
    ) {
        if self.remote.seats.end(of, tag, is_done) {
            return;
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.settled += u64::from(is_done);
        if let Some(seats) = group.seats_mut() {
            seats.settled(&of, tag, is_done, now);
        }
    }

    /// An exactly-once copy has come so far at a session. Whether that can have another one for it.
    pub(crate) fn group_copy_stepped(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        tag: Tag,
        step: Step,
        now: Time,
    ) -> bool {
        let holder = (id, u16::MAX, 0);
        !self.remote.seats.stepped(holder, u64::from(tag), step, now)
            && self.group_stepped(group_id, holder, u64::from(tag), step, now)
    }

    pub(crate) fn group_stepped(
        &mut self,
        group_id: GroupId,
        of: Key,
        tag: u64,
        step: Step,
        now: Time,
    ) -> bool {
        self.seats_mut(group_id)
            .is_some_and(|seats| seats.stepped(&of, tag, step, now))
    }

    /// A member has settled a copy.
    pub(crate) fn group_copy_settled(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        tag: Tag,
        message: &Message,
        now: Time,
    ) {
        let holder = (id, u16::MAX, 0);
        self.group_settled(group_id, holder, u64::from(tag), true, now);
        self.order_settled(group_id, holder, message);
    }

    /// A receiver says how much it has to do; its groups go by that. False if what it says cannot be true.
    pub fn report_load<E: Effects>(
        &mut self,
        id: SessionId,
        report: &LoadReport,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let session = self.sessions.get(id);
        let groups = session.map_or_else(Vec::new, |session| session.membership.groups().to_vec());
        let mut believed = report.is_credible();
        for group_id in groups {
            if self.is_owned_elsewhere(group_id) {
                self.tell_load(group_id, id, report);
                continue;
            }
            believed &= self.seat_reported(group_id, id, report, now);
            self.hand_over_waiting(group_id, now, fx);
        }
        self.end_command(now, fx);
        believed
    }

    /// The same of one group. False if the report is rejected.
    pub(crate) fn seat_reported(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        report: &LoadReport,
        now: Time,
    ) -> bool {
        self.seat_if_stale(group_id, now);
        let Some(group) = self.groups.get_mut(group_id) else {
            return true;
        };
        let seats = group.seats_mut();
        let Some(is_believed) = seats.and_then(|seats| seats.reported(id, report, now)) else {
            return true;
        };
        group.counters.reports += u64::from(is_believed);
        group.counters.reports_refused += u64::from(!is_believed);
        is_believed
    }

    /// What the network takes for a round trip to a receiver, as measured beside its messages: without it an
    /// acknowledgement on receipt is hard to tell from quick work.
    pub fn round_trip_measured(&mut self, id: SessionId, least: Span, jitter: Span) {
        let Some(session) = self
            .sessions
            .get_mut(id)
            .filter(|session| !session.membership.groups().is_empty())
        else {
            return;
        };
        // For groups in which it has no seat yet.
        session
            .membership
            .terms
            .get_or_insert_default()
            .set_round_trip(least, jitter);
        for group_id in session.membership.groups().to_vec() {
            match self.is_owned_elsewhere(group_id) {
                true => self.tell_round_trip(group_id, id, least, jitter),
                false => self.seat_round_trip(group_id, id, least, jitter),
            }
        }
    }

    pub(crate) fn seat_round_trip(
        &mut self,
        group_id: GroupId,
        id: SessionId,
        least: Span,
        jitter: Span,
    ) {
        if let Some(seats) = self.seats_mut(group_id) {
            seats.round_trip(id, least, jitter);
        }
    }

    /// A member away can take nothing for now, or can again.
    pub(crate) fn seat_blocked(&mut self, group_id: GroupId, id: SessionId, blocked: bool) {
        if let Some(seats) = self.seats_mut(group_id) {
            seats.blocked(id, blocked);
        }
    }

    /// The head of a group's queue may have found its member.
    pub(crate) fn on_group_look<E: Effects>(&mut self, group_id: GroupId, now: Time, fx: &mut E) {
        let seats = self.seats_mut(group_id);
        if seats.is_some_and(|seats| seats.is_look_due(now)) {
            self.order_changed(group_id);
            self.hand_over_waiting(group_id, now, fx);
        }
    }

    /// Members that have been silent for too long, as the balancer sees it.
    pub(crate) fn silent_members(&mut self, group_id: GroupId, now: Time) -> Vec<SessionId> {
        self.seats_mut(group_id)
            .map_or_else(Vec::new, |seats| seats.overdue(now))
    }

    /// A group is watched as long as one of its members has something to settle.
    pub(crate) fn watch_group(&mut self, group_id: GroupId, now: Time) {
        let seats = self.seats_mut(group_id);
        if let Some(at) = seats.and_then(|seats| seats.watch_on(now)) {
            self.agenda.set_timer(at, TimerKey::GroupWatch(group_id));
        }
    }

    /// A member's link is ended for its silence.
    pub(crate) fn note_stall(&mut self, id: SessionId, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.stalls += 1;
        if let Some(seats) = group.seats_mut() {
            seats.stalled(id);
        }
    }

    /// A session's output takes no more for now, or takes more again.
    pub(crate) fn output_changed(&mut self, id: SessionId) {
        let Some(session) = self
            .sessions
            .get(id)
            .filter(|session| !session.membership.groups().is_empty())
        else {
            return;
        };
        let (groups, congested) = (
            session.membership.groups().to_vec(),
            session.connection.is_congested(),
        );
        for group_id in groups {
            self.seat_blocked(group_id, id, congested);
        }
    }
}
