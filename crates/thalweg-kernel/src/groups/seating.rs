//! Members of groups sit down and get up, and one of them is chosen for a message.

use crate::Kernel;
use crate::groups::given_back::is_among;
use crate::groups::group::{Group, Member};
use crate::groups::ordered::Order;
use crate::groups::seats::{Chosen, Key, Present, Seats, key};
use crate::groups::work_terms::{SettlesWhen, WorkTerms};
use crate::ids::{GroupId, SessionId};
use crate::kernel::Map;
use crate::publish::subscriber_rate::Toll;
use crate::remote::group_home::may_sit;
use thalweg_balance::{Head, Terms};
use thalweg_model::{Message, Reliability, Span, Time};

/// Upper bound of the concurrency that a member can report.
const CONCURRENCY_MAX: u16 = 4096;

impl Kernel {
    /// Everybody with a link sits down, everybody else gets up.
    fn seat_members(&mut self, group_id: GroupId, seats: &mut Seats, now: Time) {
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let present: Vec<Present> = group
            .everybody()
            .filter_map(|member| self.present(group, member, now))
            .collect();
        let all: Map<Key, ()> = group.everybody().map(|member| (key(member), ())).collect();
        seats.seat(&present, |key| all.contains_key(key), now);
        let wish = |member: &Member| self.order_wished(member, group.key());
        let policy = group.policy();
        let by = policy.order.or_else(|| seats.members().find_map(wish));
        let order = Order::of(policy.strategy, by);
        let is_ordered = order.is_some();
        seats.keep_order(order);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.keep_in_line(is_ordered);
        }
    }

    /// A member as it is seated; `None` if it has no link, or may not be in the group.
    fn present(&self, group: &Group, member: &Member, now: Time) -> Option<Present> {
        self.member_access(member.session)
            .filter(|access| may_sit(access, group))?;
        let away = self.remote.aways.get(member.session);
        let session = self.sessions.get(member.session);
        let (opening, trial_until) = match (away, session) {
            (Some(away), _) => (away.opening()?, away.is_on_trial().then_some(now)),
            (None, session) => {
                let session = session.filter(|session| session.link().is_some())?;
                let trial = session.membership.trial();
                (
                    session.connection.opening(),
                    trial.map(|trial| trial.ends_at()),
                )
            }
        };
        // Of consumers of lines the balancer is not told when that is over.
        let is_blocked =
            member.line.is_none() && session.is_some_and(|it| it.connection.is_congested());
        let terms = Terms {
            patience: group.policy().patience,
            ..self.terms_of(member, group.key())
        };
        Some(Present {
            member: *member,
            opening,
            terms,
            trial_until,
            is_blocked,
        })
    }

    /// The terms under which the balancer knows a member of this group.
    pub(crate) fn terms_of(&self, member: &Member, group: &str) -> Terms {
        if let Some(away) = self.remote.aways.get(member.session) {
            return away.terms();
        }
        let Some(session) = self.sessions.get(member.session) else {
            return Terms::default();
        };
        let said = session
            .membership
            .terms
            .as_ref()
            .map_or_else(WorkTerms::default, |said| said.of(group));
        let (round_trip, jitter) = session
            .membership
            .terms
            .as_ref()
            .map_or((Span::ZERO, Span::ZERO), |said| said.round_trip());
        let plain = Terms::default();
        let (window_max, settles) = match &member.line {
            Some(line) => (
                self.line(member.session, line.line)
                    .map_or(u32::MAX, |of| of.window_of(line.consumer)),
                line.settles,
            ),
            None => (
                u32::from(session.connection.in_flight_max()),
                member.reliability > Reliability::AtMostOnce,
            ),
        };
        Terms {
            window_max,
            settles,
            when_done: said.settles.map(|when| when == SettlesWhen::Processed),
            weight: said.weight.unwrap_or(plain.weight),
            concurrency: said
                .concurrency
                .unwrap_or(plain.concurrency)
                .clamp(1, CONCURRENCY_MAX),
            report_every: said.report_every.unwrap_or(plain.report_every),
            round_trip,
            jitter,
            ..plain
        }
    }

    /// A session is back with a new link and takes its seats.
    pub(crate) fn sit_down(&mut self, id: SessionId, now: Time) {
        let session = self.sessions.get(id);
        let groups = session.map_or_else(Vec::new, |session| session.membership.groups().to_vec());
        for group_id in groups {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.seats_changed();
            }
            self.seat_if_stale(group_id, now);
        }
    }

    /// Everybody sits down who has come, and gets up who has gone.
    pub(crate) fn seat_if_stale(&mut self, group_id: GroupId, now: Time) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        if group.seats().is_none_or(|seats| !seats.are_stale()) {
            return;
        }
        let Some(mut seats) = group.take_seats() else {
            return;
        };
        self.seat_members(group_id, &mut seats, now);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.put_seats(seats);
        }
    }

    /// Chooses the member for the next message of a group, among those that are not excepted.
    pub(crate) fn choose_member(
        &mut self,
        group_id: GroupId,
        message: &Message,
        again: bool,
        except: &[Key],
        now: Time,
    ) -> Chosen {
        let random = self.env.random();
        let Some(group) = self.groups.get_mut(group_id) else {
            return Chosen::Nobody;
        };
        if group.everybody().next().is_none() {
            return Chosen::Nobody;
        }
        let once = message.reliability() == Reliability::ExactlyOnce;
        let (waiting, feed, upgrades) = (
            group.waiting.len(),
            group.feed(),
            group.policy().upgrade_reliability,
        );
        let selective = group.selectors().is_some() || self.env.rates_subscribers();
        let waiting = feed.map_or(waiting, |queue| self.ready_in(queue));
        let (queued, size) = (waiting + 1, message.payload().len() as u32);
        let head = Head {
            queued,
            size,
            turn: 0,
            random,
            once,
            again,
            selective,
        };
        let toll = self.toll(message, now);
        let Some(mut seats) = self
            .groups
            .get_mut(group_id)
            .and_then(|group| group.take_seats())
        else {
            return Chosen::Nobody;
        };
        if seats.are_stale() {
            self.seat_members(group_id, &mut seats, now);
        }
        let free_at = || toll.as_ref().map_or(Time::NEVER, Toll::free_at);
        if seats.order().is_some()
            && let Some(chosen) = self.choose_in_order(
                group_id,
                &mut seats,
                (message, toll.as_ref()),
                &head,
                except,
                now,
            )
        {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.put_seats(seats);
            }
            self.look_at_group(group_id, free_at());
            return chosen;
        }
        let (chosen, look) = {
            let group = self.groups.get(group_id);
            let screen = group.map(|group| self.screen(group, message));
            seats.choose(message, upgrades, &head, now, |member| {
                !is_among(except, || key(member))
                    && self.member_can_take(member, message, upgrades)
                    && screen.as_ref().is_none_or(|it| it.passes(key(member)))
                    && self.can_pay(toll.as_ref(), member.session)
            })
        };
        if let Some(group) = self.groups.get_mut(group_id) {
            group.put_seats(seats);
        }
        self.look_at_group(group_id, look.min(free_at()));
        match chosen {
            Chosen::Nobody if free_at() != Time::NEVER => Chosen::Later,
            chosen => chosen,
        }
    }

    /// Whether a copy for this member can leave right now.
    pub(crate) fn member_can_take(
        &self,
        member: &Member,
        message: &Message,
        upgrades: bool,
    ) -> bool {
        let Some(session) = self.sessions.get(member.session) else {
            return self.away_can_take(member, message, upgrades);
        };
        if !session.access().may_receive(message) || !session.is_trusted() {
            return false;
        }
        if let Some(line) = &member.line {
            return self.consumer_can_take(member.session, line.line, line.consumer);
        }
        match member.reliability_of(message, upgrades) {
            Reliability::AtMostOnce => {
                session.link().is_some() && !session.connection.is_congested()
            }
            _ => session.can_take(),
        }
    }
}
