//! Members that were given something by a group and have fallen silent: their links are ended, and what they had goes to
//! others.
//!
//! *Knows:* when silence is too long, and which members were silent before. *Must never know:* how a peer is notified.
//! A copy goes to no other member while the link of its receiver is open, so the link ends first. That happens only
//! where another connected member may receive the message and is not silent itself. A member that comes back is on
//! probation: it gets one message until it settles one, and from the second time on it waits before that.

use crate::Kernel;
use crate::effects::{CloseReason, ConsumerEnd, Effects};
use crate::groups::group::Member;
use crate::groups::seats::key;
use crate::ids::{GroupId, SessionId};
use crate::kernel::Map;
use crate::remote::aways::is_away;
use crate::remote::group_mail::SeatEvent;
use crate::session::{Closing, Session, Trial};
use crate::timers::TimerKey;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Span, Time};

/// How long a receiver is remembered that was silent and has not come back, and how many are.
const REMEMBERED: Span = Span::from_secs(600);
const REMEMBERED_MAX: usize = 4096;
/// Most evictions that are kept until the server takes them.
const KEPT_MAX: usize = 64;
/// Pause before the first message of a member that was silent for the second time, and the longest pause.
const PAUSE: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(30);
/// How often a late member is checked again while the group has no other.
const LOOK_AGAIN: Span = Span::from_secs(5);

/// A receiver whose link was ended because it had not settled what groups gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    pub client: Arc<str>,
    /// The group: its name, and its filter.
    pub group: Box<str>,
    pub filter: Box<str>,
    /// How many deliveries it had not settled that others may have.
    pub returned: usize,
    /// How often that has happened since it last settled something.
    pub strikes: u32,
}

/// Receivers that were silent, by name.
#[derive(Default)]
pub(crate) struct Stalls {
    strikes: Map<Arc<str>, (u32, Time)>,
    evicted: VecDeque<Evicted>,
}

impl Stalls {
    /// One more; how many there are.
    fn strike(&mut self, client: &Arc<str>, now: Time) -> u32 {
        if self.strikes.len() >= REMEMBERED_MAX && !self.strikes.contains_key(client) {
            self.strikes
                .retain(|_, (_, at)| now.since(*at) <= REMEMBERED);
            let oldest = self
                .strikes
                .iter()
                .min_by_key(|(_, (_, at))| *at)
                .map(|(client, _)| client.clone());
            if let Some(oldest) = oldest.filter(|_| self.strikes.len() >= REMEMBERED_MAX) {
                self.strikes.remove(&oldest);
            }
        }
        let known = self.strikes_of(client, now);
        self.strikes.insert(client.clone(), (known + 1, now));
        known + 1
    }

    fn strikes_of(&self, client: &str, now: Time) -> u32 {
        let known = self
            .strikes
            .get(client)
            .filter(|(_, at)| now.since(*at) <= REMEMBERED);
        known.map_or(0, |(strikes, _)| *strikes)
    }
}

/// How long a member that was silent this often waits for its first message.
fn pause(strikes: u32) -> Span {
    if strikes < 2 {
        return Span::ZERO;
    }
    Span::from_nanos(PAUSE.nanos() << (strikes - 2).min(8)).min(PAUSE_MAX)
}

impl Kernel {
    /// Receivers whose links were ended for their silence since this was asked last; the latest of many.
    pub fn take_evicted(&mut self) -> impl Iterator<Item = Evicted> {
        std::mem::take(&mut self.groups.stalls.evicted).into_iter()
    }

    /// Members may have been silent for too long, as the group's balancer sees it.
    pub(crate) fn on_group_watch<E: Effects>(&mut self, group_id: GroupId, now: Time, fx: &mut E) {
        let mut silent = self.silent_members(group_id, now);
        silent.sort_unstable();
        for id in &silent {
            self.evict(*id, group_id, &silent, now, fx);
        }
        self.watch_group(group_id, now);
    }

    /// From now on it is watched whether a session settles what it got of a group.
    pub(crate) fn expect_settlement(&mut self, id: SessionId, group_id: GroupId, now: Time) {
        let limit = self.settle_timeout(group_id);
        if limit == Span::FOREVER {
            return;
        }
        self.look_at_silence(id, now + limit);
    }

    fn look_at_silence(&mut self, id: SessionId, at: Time) {
        if let Some(session) = self.sessions.get_mut(id)
            && session.membership.look_at(at)
        {
            self.agenda.set_timer(at, TimerKey::GroupSettle(id));
        }
    }

    fn settle_timeout(&self, group_id: GroupId) -> Span {
        let group = self.groups.get(group_id);
        group.map_or(Span::FOREVER, |group| group.policy().settle_timeout)
    }

    /// A session should have settled something of its groups' by now.
    pub(crate) fn on_group_settle_timeout<E: Effects>(
        &mut self,
        id: SessionId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if !session.membership.take_due(now) || session.link().is_none() {
            return;
        }
        let mut next = Time::NEVER;
        for (group_id, since) in session.oldest_of_groups() {
            let limit = self.settle_timeout(group_id);
            if limit == Span::FOREVER {
                continue;
            }
            if since + limit > now {
                next = next.min(since + limit);
                continue;
            }
            // Where all fell silent together, all are late before long.
            let mut silent = self.late_members(group_id, Span::from_nanos(limit.nanos() / 2), now);
            silent.sort_unstable();
            if self.evict(id, group_id, &silent, now, fx) {
                return;
            }
            next = next.min(now + limit.min(LOOK_AGAIN));
        }
        self.look_at_silence(id, next);
    }

    /// Members of a group that have not settled what they have of it for so long.
    fn late_members(&mut self, group_id: GroupId, limit: Span, now: Time) -> Vec<SessionId> {
        let members = match self.groups.get(group_id) {
            Some(group) => group.members().iter().map(|member| member.session),
            _ => return Vec::new(),
        };
        let mut late: Vec<SessionId> = members.collect();
        late.retain(|id| {
            let session = self.sessions.get(*id);
            let of_groups = session.map(Session::oldest_of_groups).unwrap_or_default();
            of_groups
                .iter()
                .any(|(group, since)| *group == group_id && *since + limit <= now)
        });
        late.extend(self.late_away(group_id, limit, now));
        late
    }

    /// Ends a silent session's link and redelivers what it had to others; false if no other member would be sooner, or
    /// if others may receive none of it.
    pub(crate) fn evict<E: Effects>(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        silent: &[SessionId],
        now: Time,
        fx: &mut E,
    ) -> bool {
        if self.is_owned_elsewhere(group_id) {
            // The owner knows whether others are there.
            self.remote.seats.say_of(group_id, id, SeatEvent::Overdue);
            return false;
        }
        if !self.member_is_there(id) || !self.has_other_for(id, group_id, silent) {
            return false;
        }
        match is_away(id) {
            true => self.evict_away(id, group_id),
            false => self.evict_now(id, group_id, now, fx),
        }
        true
    }

    /// The members that are silent beside this one.
    pub(crate) fn silent_with(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        now: Time,
    ) -> Vec<SessionId> {
        let mut silent = self.late_members(
            group_id,
            Span::from_nanos(self.settle_timeout(group_id).nanos() / 2),
            now,
        );
        silent.push(id);
        silent.sort_unstable();
        silent
    }

    /// Ends a silent session's link, or only the line that is silent if its protocol can, and gives what it had to others.
    pub(crate) fn evict_now<E: Effects>(
        &mut self,
        id: SessionId,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(link) = self.sessions.link_of(id) else {
            return;
        };
        self.note_eviction(id, group_id, now);
        if let Some(line) = self.line_holding(id, group_id)
            && fx.consumer_ended(link, line, ConsumerEnd::Stalled)
        {
            // Its other lines are not affected, but lines that it opens from now on are on probation.
            if let Some(client) = self.client_of(id).cloned() {
                let trial = self.trial_of(&client, now);
                if let Some(session) = self.sessions.get_mut(id) {
                    session.membership.set_trial(trial);
                }
            }
            self.begin_trial(id);
            return self.close_line(id, line, now, fx);
        }
        fx.disconnect(link, CloseReason::Stalled);
        self.drop_link(id, now);
        self.end_watches(id, fx);
        // Whatever else holds for links that end: here it was for the others' sake.
        self.return_group_copies(id, now, fx);
        self.after_link(id, Closing::Cut, None, now, fx);
    }

    fn note_eviction(&mut self, id: SessionId, group_id: GroupId, now: Time) {
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let (group, filter) = (group.name(), group.filter().into());
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let on_lines = session.lines.as_ref().map_or(0, |lines| lines.unsettled());
        let returned = session.movable().count() + on_lines;
        let client = session.client().clone();
        let strikes = self.groups.stalls.strike(&client, now);
        if !self.is_owned_elsewhere(group_id) {
            self.note_stall(id, group_id);
        }
        while self.groups.stalls.evicted.len() >= KEPT_MAX {
            self.groups.stalls.evicted.pop_front();
        }
        self.groups.stalls.evicted.push_back(Evicted {
            client,
            group,
            filter,
            returned,
            strikes,
        });
    }

    /// Whether another member is there and may have what this one holds of the group's. `silent` is in order.
    fn has_other_for(&mut self, id: SessionId, group_id: GroupId, silent: &[SessionId]) -> bool {
        let held = self.sessions.get(id).and_then(|session| {
            let mut movable = session.movable();
            let of_group = movable.find(|(_, entry, _)| entry.group() == Some(group_id));
            let on_line = || session.lines.as_deref()?.copies_of_group(group_id).next();
            of_group
                .map(|(_, entry, _)| &entry.message)
                .or_else(|| Some(on_line()?.2))
                .cloned()
        });
        let held = held.or_else(|| self.held_away(id));
        let Some(message) = held else { return false };
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let screen = self.screen(group, &message);
        let can = |member: &Member| {
            member.session != id
                && screen.passes(key(member))
                && silent.binary_search(&member.session).is_err()
                && self.member_is_there(member.session)
                && self.member_may_have(member.session, group, &message)
        };
        group.everybody().any(can)
    }

    /// What holds for a receiver that opens a session now.
    pub(crate) fn trial_of(&self, client: &str, now: Time) -> Option<Box<Trial>> {
        if self.groups.stalls.strikes.is_empty() {
            return None;
        }
        let strikes = self.groups.stalls.strikes_of(client, now);
        let until = now + pause(strikes);
        (strikes > 0).then(|| Box::new(Trial::until(until, now)))
    }

    /// Its wait begins, if it has to.
    pub(crate) fn begin_trial(&mut self, id: SessionId) {
        if let Some(trial) = self
            .sessions
            .get(id)
            .and_then(|session| session.membership.trial())
            && trial.waits()
        {
            self.agenda
                .set_timer(trial.ends_at(), TimerKey::GroupTrial(id));
        }
    }

    /// Its wait is over.
    pub(crate) fn on_trial_due<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let session = self.sessions.get_mut(id);
        let trial = session.and_then(|session| session.membership.trial_mut());
        if trial.is_some_and(|trial| trial.is_over(now)) {
            self.pump_groups(id, now, fx);
        }
    }

    /// A session has settled something of a group's.
    pub(crate) fn end_trial(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id)
            && session.membership.end_trial()
        {
            self.remote.seats.has_changed(id);
            self.groups.stalls.strikes.remove(session.client());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_with_the_second_time_and_double_up_to_half_a_minute() {
        let seconds = [0, 1, 2, 3, 4, 5, 6, 7, 40].map(|strikes| pause(strikes).secs());
        assert_eq!(seconds, [0, 0, 1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn only_so_many_are_remembered_and_only_for_a_while() {
        let mut stalls = Stalls::default();
        let name = |number: usize| -> Arc<str> { format!("c{number}").into() };
        for number in 0..REMEMBERED_MAX + 10 {
            assert_eq!(
                stalls.strike(&name(number), Time::from_nanos(number as u64 * 10_000_000)),
                1
            );
        }
        let now = Time::from_secs(41);
        assert_eq!(stalls.strikes.len(), REMEMBERED_MAX);
        assert_eq!(
            (
                stalls.strikes_of("c0", now),
                stalls.strikes_of("c4000", now)
            ),
            (0, 1),
            "the oldest goes"
        );
        assert_eq!(stalls.strike(&name(4000), now), 2);
        assert_eq!(
            stalls.strikes_of("c4000", now + REMEMBERED + Span::from_secs(1)),
            0
        );
    }
}
