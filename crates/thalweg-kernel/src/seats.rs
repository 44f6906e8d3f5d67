//! A group asks its balancer: who sits where, what the balancer is told, and when it is asked again.
//!
//! A seat is a member with a link. Who comes back with a new link sits down anew, and nothing is known of it.

use crate::Kernel;
use crate::effects::Effects;
use crate::given_back::is_among;
use crate::group::{LineMember, Member};
use crate::group_home::may_sit;
use crate::group_view::Tally;
use crate::ids::{GroupId, SessionId, Tag};
use crate::kernel::Map;
use crate::leavers::Leavers;
use crate::ordered::Order;
use crate::timers::TimerKey;
use crate::work_terms::{SettlesWhen, WorkTerms};
use thalweg_balance::{
    Balancer, Choice, GroupStrategy, Head, LoadReport, MemberView, Parcel, Place, Step, Terms,
};
use thalweg_model::{Message, Reliability, Span, Time};

/// How often members are looked for that have been silent for too long.
const WATCH_EVERY: Span = Span::from_millis(100);

/// More handlers than this nobody is believed to have.
const CONCURRENCY_MAX: u16 = 4096;

/// The seats of one group.
pub(crate) struct Seats {
    strategy: GroupStrategy,
    pub(crate) balancer: Balancer,
    /// What must stay in order.
    pub(crate) order: Option<Order>,
    pub(crate) leavers: Leavers,
    /// Members have come or gone, or their links.
    stale: bool,
    places: Map<Key, Seat>,
    pub(crate) members: Vec<Option<Member>>,
    /// What became of what each was given, by place.
    tallies: Vec<Tally>,
    /// The same of members that have no link.
    away: Map<Key, Tally>,
    /// When the head of the queue is looked at again.
    look_at: Time,
    /// When members are looked for that have been silent for too long.
    watch_at: Time,
}

/// A session, or one of its consumers: line and number.
pub(crate) type Key = (SessionId, u16, u32);

#[derive(Clone, Copy)]
struct Seat {
    place: Place,
    /// Of which link.
    opening: u32,
    /// What the balancer knows.
    terms: Terms,
}

/// What the balancer says of a message.
pub(crate) enum Chosen {
    /// It goes to this member.
    Member(Member),
    /// It waits, though somebody could have it.
    Later,
    /// Order binds it to a member that cannot have it now.
    Bound,
    /// Nobody can have it.
    Nobody,
}

/// By what a member is known.
pub(crate) fn key(member: &Member) -> Key {
    member.line.map_or((member.session, u16::MAX, 0), |line| {
        (member.session, line.line, line.consumer)
    })
}

impl Seats {
    pub(crate) fn new(strategy: GroupStrategy) -> Self {
        Seats {
            strategy,
            balancer: Balancer::new(strategy),
            order: None,
            leavers: Leavers::new(),
            stale: true,
            places: Map::default(),
            members: Vec::new(),
            tallies: Vec::new(),
            away: Map::default(),
            look_at: Time::NEVER,
            watch_at: Time::NEVER,
        }
    }

    /// New ones in the place of others: nobody sits yet, and what was counted stays.
    pub(crate) fn after(old: Option<Box<Seats>>, strategy: GroupStrategy) -> Self {
        let mut new = Seats::new(strategy);
        if let Some(old) = old {
            new.away = old.away;
            new.order = old.order;
            new.leavers = old.leavers;
            // Its timers go on.
            (new.look_at, new.watch_at) = (old.look_at, old.watch_at);
            for (key, seat) in old.places {
                if let Some(tally) = old.tallies.get(seat.place as usize) {
                    new.away.insert(
                        key,
                        Tally {
                            unsettled: 0,
                            ..*tally
                        },
                    );
                }
            }
        }
        new
    }

    /// What became of what a member was given, and how the balancer sees it.
    pub(crate) fn seen(&self, member: &Member, now: Time) -> (Tally, Option<MemberView>) {
        match self.places.get(&key(member)) {
            Some(seat) => {
                let tally = self
                    .tallies
                    .get(seat.place as usize)
                    .copied()
                    .unwrap_or_default();
                (tally, self.balancer.view(seat.place, now))
            }
            None => (
                self.away.get(&key(member)).copied().unwrap_or_default(),
                None,
            ),
        }
    }

    /// Whether the balancer may be asked without further ado.
    pub(crate) fn are_plain(&self) -> bool {
        !self.stale && self.order.is_none()
    }

    /// Who would have a message at once, of those of whom `may` says so. Nothing has happened yet.
    pub(crate) fn whose_turn(
        &mut self,
        head: &Head,
        now: Time,
        mut may: impl FnMut(&Member) -> bool,
    ) -> Option<(Place, Member)> {
        let members = &self.members;
        let member = |place: Place| members.get(place as usize).copied().flatten();
        match self.balancer.choose(head, now, &mut |place| {
            member(place).is_some_and(|member| may(&member))
        }) {
            Choice::Send(place) => Some((place, member(place)?)),
            _ => None,
        }
    }

    /// Whose turn it is, where there is no more to go by.
    #[inline]
    pub(crate) fn next_in_turn(&self) -> Option<(Place, Member)> {
        let place = self.balancer.next_in_turn()?;
        Some((place, self.members.get(place as usize).copied().flatten()?))
    }

    /// A message that nobody settles came and went at once, to the member whose turn it was or that was chosen.
    #[inline]
    pub(crate) fn passed(&mut self, place: Place, is_in_turn: bool, size: u32, now: Time) {
        if is_in_turn {
            self.balancer.took_turn(place, size, now);
        } else {
            self.balancer.arrived(now);
            self.balancer.sent(
                place,
                &Parcel {
                    tag: 0,
                    size,
                    settles: false,
                    again: false,
                },
                now,
            );
        }
        if let Some(tally) = self.tallies.get_mut(place as usize) {
            tally.chosen += 1;
        }
    }

    /// Whether anybody has a link.
    pub(crate) fn has_any(&self) -> bool {
        !self.places.is_empty()
    }

    /// Members have come or gone, or their links.
    pub(crate) fn changed(&mut self) {
        self.stale = true;
    }

    pub(crate) fn strategy(&self) -> GroupStrategy {
        self.strategy
    }

    /// Where a member sits.
    pub(crate) fn seated(&self, key: &Key) -> Option<(Place, Member)> {
        let place = self.places.get(key)?.place;
        Some((place, self.members.get(place as usize).copied().flatten()?))
    }

    fn place_of(&self, id: SessionId) -> Option<Place> {
        self.places.get(&(id, u16::MAX, 0)).map(|seat| seat.place)
    }
}

impl Kernel {
    /// Everybody with a link sits down, everybody else gets up.
    fn seat_members(&mut self, group_id: GroupId, seats: &mut Seats, now: Time) {
        seats.stale = false;
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let opening = |member: &Member| {
            self.member_access(member.session)
                .filter(|access| may_sit(access, group))?;
            if let Some(away) = self.remote.aways.get(member.session) {
                return away.opening();
            }
            let session = self.sessions.get(member.session)?;
            session.link().map(|_| session.connection.opening())
        };
        let present: Map<Key, u32> = group
            .everybody()
            .filter_map(|member| Some((key(member), opening(member)?)))
            .collect();
        let (balancer, members) = (&mut seats.balancer, &mut seats.members);
        let (tallies, away) = (&mut seats.tallies, &mut seats.away);
        seats.places.retain(|key, seat| {
            let stays = present.get(key) == Some(&seat.opening);
            if !stays {
                balancer.leave(seat.place);
                if let Some(tally) = tallies.get_mut(seat.place as usize) {
                    away.insert(
                        *key,
                        Tally {
                            unsettled: 0,
                            ..std::mem::take(tally)
                        },
                    );
                }
                if let Some(member) = members.get_mut(seat.place as usize) {
                    *member = None;
                }
            }
            stays
        });
        for member in group.everybody() {
            let Some(opening) = opening(member) else {
                continue;
            };
            let terms = Terms {
                patience: group.policy().patience,
                ..self.terms_of(member, group.key())
            };
            let seat = seats.places.entry(key(member)).or_insert_with(|| {
                let place = balancer.join(terms, now);
                if self
                    .remote
                    .aways
                    .get(member.session)
                    .is_some_and(|away| away.on_trial)
                {
                    balancer.on_trial(place, now);
                }
                if let Some(session) = self.sessions.get(member.session) {
                    if let Some(trial) = session.membership.trial() {
                        balancer.on_trial(place, trial.ends_at());
                    }
                    // Of consumers of lines it is not told when that is over.
                    if session.connection.is_congested() && member.line.is_none() {
                        balancer.blocked(place, true);
                    }
                }
                let at = place as usize;
                tallies.resize(tallies.len().max(at + 1), Tally::default());
                if let (Some(tally), Some(known)) = (tallies.get_mut(at), away.remove(&key(member)))
                {
                    *tally = known;
                }
                Seat {
                    place,
                    opening,
                    terms,
                }
            });
            if seat.terms != terms {
                seat.terms = terms;
                balancer.retune(seat.place, terms, now);
            }
            let at = seat.place as usize;
            if members.len() <= at {
                members.resize(at + 1, None);
            }
            if let Some(place) = members.get_mut(at) {
                *place = Some(*member);
            }
        }
        let wish = |member: &Member| self.order_wished(member, group.key());
        let by = group
            .policy()
            .order
            .or_else(|| seats.members.iter().flatten().find_map(wish));
        let order = Order::of(group.policy().strategy, by);
        seats.order = Order::go_on(seats.order.take(), order, &seats.members);
        if !away.is_empty() {
            let all: Map<Key, ()> = group.everybody().map(|member| (key(member), ())).collect();
            away.retain(|key, _| all.contains_key(key));
        }
    }

    /// What the balancer is told of a member of the group of this key.
    pub(crate) fn terms_of(&self, member: &Member, group: &str) -> Terms {
        if let Some(away) = self.remote.aways.get(member.session) {
            return away.terms;
        }
        let Some(session) = self.sessions.get(member.session) else {
            return Terms::default();
        };
        let said = session
            .terms
            .as_ref()
            .map_or_else(WorkTerms::default, |said| said.of(group));
        let (round_trip, jitter) = session
            .terms
            .as_ref()
            .map_or((Span::ZERO, Span::ZERO), |said| said.round_trip());
        let plain = Terms::default();
        let (window_max, settles) = match &member.line {
            Some(line) => (
                self.window_of(member.session, line.line, line.consumer),
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
        let groups = self
            .sessions
            .get(id)
            .map_or_else(Vec::new, |session| session.membership.groups().to_vec());
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
        if group.seats().is_none_or(|seats| !seats.stale) {
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

    /// Who of those that are not excepted gets a message that is the next of its group.
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
        let waiting = feed.map_or(waiting, |queue| self.ready_in(queue));
        let (queued, size) = (waiting + 1, message.payload().len() as u32);
        let head = Head {
            queued,
            size,
            turn: 0,
            random,
            once,
            again,
        };
        let Some(mut seats) = self
            .groups
            .get_mut(group_id)
            .and_then(|group| group.take_seats())
        else {
            return Chosen::Nobody;
        };
        if seats.stale {
            self.seat_members(group_id, &mut seats, now);
        }
        if seats.order.is_some()
            && let Some(chosen) =
                self.choose_in_order(group_id, &mut seats, message, &head, except, now)
        {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.put_seats(seats);
            }
            return chosen;
        }
        let (balancer, members) = (&mut seats.balancer, &seats.members);
        let member = |place: Place| members.get(place as usize).copied().flatten();
        let mut may = |place: Place| {
            let member = member(place).filter(|member| !is_among(except, || key(member)));
            member.is_some_and(|member| self.member_can_take(&member, message, upgrades))
        };
        let mut look = Time::NEVER;
        let chosen = match balancer.choose(&head, now, &mut may) {
            Choice::Send(place) => member(place).map_or(Chosen::Nobody, Chosen::Member),
            Choice::Hold(until) => {
                look = until;
                Chosen::Later
            }
            Choice::Nobody => Chosen::Nobody,
        };
        if let (Some(order), Chosen::Member(member)) = (&mut seats.order, &chosen) {
            order.bind(message, member, upgrades);
        }
        if let Some(group) = self.groups.get_mut(group_id) {
            group.put_seats(seats);
        }
        self.look_at_group(group_id, look);
        chosen
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
            seats.balancer.arrived(now);
        }
    }

    /// What waits in a group is looked at again soon.
    pub(crate) fn look_at_group(&mut self, group_id: GroupId, at: Time) {
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if at < seats.look_at {
            seats.look_at = at;
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
        if self.is_errand_sent(group_id, to, parcel) {
            return;
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.chosen += 1;
        let Some(seats) = group.seats_mut() else {
            return;
        };
        let Some(place) = seats.places.get(&to).map(|seat| seat.place) else {
            return;
        };
        if let Some(tally) = seats.tallies.get_mut(place as usize) {
            tally.chosen += 1;
            tally.unsettled += u32::from(parcel.settles);
        }
        seats.balancer.sent(place, parcel, now);
        if parcel.settles
            && seats.strategy == GroupStrategy::Adaptive
            && seats.watch_at == Time::NEVER
        {
            seats.watch_at = now + WATCH_EVERY;
            self.agenda
                .set_timer(now + WATCH_EVERY, TimerKey::GroupWatch(group_id));
        }
    }

    /// A consumer of a line has settled a copy, or gives it back.
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
        if self.is_errand_over(of, tag, is_done) {
            return;
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.settled += u64::from(is_done);
        let Some(seats) = group.seats_mut() else {
            return;
        };
        let Some(place) = seats.places.get(&of).map(|seat| seat.place) else {
            return;
        };
        if let Some(tally) = seats.tallies.get_mut(place as usize) {
            tally.settled += u64::from(is_done);
            tally.unsettled = tally.unsettled.saturating_sub(1);
        }
        if is_done {
            seats.balancer.acknowledged(place, tag, now);
        } else {
            seats.balancer.taken_back(place, tag, now);
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
        !self.is_errand_stepped(holder, u64::from(tag), step, now)
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
        let Some(seats) = self.seats_mut(group_id) else {
            return false;
        };
        let Some(place) = seats.places.get(&of).map(|seat| seat.place) else {
            return false;
        };
        seats.balancer.stepped(place, tag, step, now)
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
        let groups = self
            .sessions
            .get(id)
            .map_or_else(Vec::new, |session| session.membership.groups().to_vec());
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

    /// The same of one group. False if it is not believed.
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
        let Some(seats) = group.seats_mut() else {
            return true;
        };
        let Some(place) = seats.place_of(id) else {
            return true;
        };
        let is_believed = seats.balancer.reported(place, report, now);
        if let Some(tally) = seats.tallies.get_mut(place as usize) {
            *(if is_believed {
                &mut tally.reports
            } else {
                &mut tally.reports_refused
            }) += 1;
        }
        let counters = &mut group.counters;
        *(if is_believed {
            &mut counters.reports
        } else {
            &mut counters.reports_refused
        }) += 1;
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
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if let Some(place) = seats.place_of(id) {
            seats.balancer.round_trip(place, least, jitter);
        }
    }

    /// A member away can take nothing for now, or can again.
    pub(crate) fn seat_blocked(&mut self, group_id: GroupId, id: SessionId, blocked: bool) {
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if let Some(place) = seats.place_of(id) {
            seats.balancer.blocked(place, blocked);
        }
    }

    /// The head of a group's queue may have found its member.
    pub(crate) fn on_group_look<E: Effects>(&mut self, group_id: GroupId, now: Time, fx: &mut E) {
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if seats.look_at > now {
            return;
        }
        seats.look_at = Time::NEVER;
        self.order_changed(group_id);
        self.hand_over_waiting(group_id, now, fx);
    }

    /// Members that have been silent for too long, as the balancer sees it.
    pub(crate) fn silent_members(&mut self, group_id: GroupId, now: Time) -> Vec<SessionId> {
        // The timer may be that of a group that had this number before.
        let Some(seats) = self
            .seats_mut(group_id)
            .filter(|seats| seats.watch_at <= now)
        else {
            return Vec::new();
        };
        seats.watch_at = Time::NEVER;
        let mut overdue = Vec::new();
        seats.balancer.overdue(now, &mut overdue);
        let session = |place: &Place| {
            seats
                .members
                .get(*place as usize)?
                .map(|member| member.session)
        };
        overdue.iter().filter_map(session).collect()
    }

    /// A group is watched as long as somebody has something to settle.
    pub(crate) fn watch_group(&mut self, group_id: GroupId, now: Time) {
        let Some(seats) = self.seats_mut(group_id) else {
            return;
        };
        if seats.watch_at == Time::NEVER && seats.balancer.has_unsettled() {
            seats.watch_at = now + WATCH_EVERY;
            self.agenda
                .set_timer(now + WATCH_EVERY, TimerKey::GroupWatch(group_id));
        }
    }

    /// A member's link is ended for its silence.
    pub(crate) fn note_stall(&mut self, id: SessionId, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.counters.stalls += 1;
        let Some(seats) = group.seats_mut() else {
            return;
        };
        for (key, seat) in &seats.places {
            if key.0 == id
                && let Some(tally) = seats.tallies.get_mut(seat.place as usize)
            {
                tally.stalls += 1;
            }
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
            let Some(seats) = self.seats_mut(group_id) else {
                continue;
            };
            if let Some(place) = seats.place_of(id) {
                seats.balancer.blocked(place, congested);
            }
        }
    }
}
