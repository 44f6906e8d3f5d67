//! The seats of a group: which member has which seat, and the inputs of the group's balancer.
//!
//! A seat is a member with a link. A member that comes back with a new link gets a new seat, without a history.
//!
//! *Knows:* members by their keys. *Must never know:* a session.

use crate::groups::group::Member;
use crate::groups::leavers::Leavers;
use crate::groups::ordered::Order;
use crate::groups::view::Tally;
use crate::ids::SessionId;
use crate::kernel::Map;
use thalweg_balance::{
    Balancer, Choice, GroupStrategy, Head, LoadReport, MemberView, Parcel, Place, Step, Terms,
};
use thalweg_model::{Message, Span, Time};

/// How often members are looked for that have been silent for too long.
const WATCH_EVERY: Span = Span::from_millis(100);

/// The seats of one group.
pub(crate) struct Seats {
    strategy: GroupStrategy,
    balancer: Balancer,
    /// What must stay in order.
    order: Option<Order>,
    leavers: Leavers,
    /// Members have come or gone, or their links.
    stale: bool,
    places: Map<Key, Seat>,
    members: Vec<Option<Member>>,
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
    opening: u32,
    /// What the balancer knows.
    terms: Terms,
}

/// A member that can be given something: it has a link.
pub(crate) struct Present {
    pub member: Member,
    /// Tells its link from an earlier one.
    pub opening: u32,
    pub terms: Terms,
    /// It was silent before and gets one message at a time; nothing before that.
    pub trial_until: Option<Time>,
    pub is_blocked: bool,
}

/// The balancer's choice for a message.
pub(crate) enum Chosen {
    /// It goes to this member.
    Member(Member),
    /// It waits, although a member could receive it.
    Later,
    /// Order binds it to a member that cannot have it now.
    Bound,
    /// No member can receive it.
    Nobody,
}

/// By what a member is known.
pub(crate) fn key(member: &Member) -> Key {
    member.line.map_or(key_of(member.session), |line| {
        (member.session, line.line, line.consumer)
    })
}

/// By what the one membership of a session is known whose copies do not come like those of queues.
pub(crate) fn key_of(id: SessionId) -> Key {
    (id, u16::MAX, 0)
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

    /// Seats of another strategy in place of `old`: all are empty, and the counts are kept.
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

    /// The member that would get a message at once, among those for which `may` is true. Changes nothing.
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

    /// Counts a message that is not settled and was sent at once, to the member whose turn it was or that was chosen.
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

    /// Whether any member is connected.
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

    /// Whether members have to be seated before anything is asked.
    pub(crate) fn are_stale(&self) -> bool {
        self.stale
    }

    /// Members by place; places of members that left are empty.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    fn place_of(&self, key: &Key) -> Option<Place> {
        self.places.get(key).map(|seat| seat.place)
    }

    fn tally_mut(&mut self, place: Place) -> Option<&mut Tally> {
        self.tallies.get_mut(place as usize)
    }

    /// Gives seats to the members that are present, and to no others. What was counted of the others is kept while
    /// `is_member` is true for them.
    pub(crate) fn seat(
        &mut self,
        present: &[Present],
        is_member: impl Fn(&Key) -> bool,
        now: Time,
    ) {
        self.stale = false;
        let openings: Map<Key, u32> = present
            .iter()
            .map(|it| (key(&it.member), it.opening))
            .collect();
        let (balancer, members) = (&mut self.balancer, &mut self.members);
        let (tallies, away) = (&mut self.tallies, &mut self.away);
        self.places.retain(|key, seat| {
            let stays = openings.get(key) == Some(&seat.opening);
            if !stays {
                balancer.leave(seat.place);
                if let Some(tally) = tallies.get_mut(seat.place as usize) {
                    let unsettled = 0;
                    let tally = std::mem::take(tally);
                    away.insert(*key, Tally { unsettled, ..tally });
                }
                if let Some(member) = members.get_mut(seat.place as usize) {
                    *member = None;
                }
            }
            stays
        });
        for it in present {
            let (key, terms) = (key(&it.member), it.terms);
            let seat = self.places.entry(key).or_insert_with(|| {
                let place = balancer.join(terms, now);
                if let Some(until) = it.trial_until {
                    balancer.on_trial(place, until);
                }
                if it.is_blocked {
                    balancer.blocked(place, true);
                }
                let at = place as usize;
                tallies.resize(tallies.len().max(at + 1), Tally::default());
                if let (Some(tally), Some(known)) = (tallies.get_mut(at), away.remove(&key)) {
                    *tally = known;
                }
                Seat {
                    place,
                    opening: it.opening,
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
                *place = Some(it.member);
            }
        }
        away.retain(|key, _| is_member(key));
    }

    /// Chooses the member for the head of the queue, among those for which `may` is true, or the time of the next
    /// attempt if it waits.
    pub(crate) fn choose(
        &mut self,
        message: &Message,
        upgrades: bool,
        head: &Head,
        now: Time,
        may: impl Fn(&Member) -> bool,
    ) -> (Chosen, Time) {
        let members = &self.members;
        let member = |place: Place| members.get(place as usize).copied().flatten();
        let mut may = |place: Place| member(place).is_some_and(|member| may(&member));
        let mut look = Time::NEVER;
        let chosen = match self.balancer.choose(head, now, &mut may) {
            Choice::Send(place) => member(place).map_or(Chosen::Nobody, Chosen::Member),
            Choice::Hold(until) => {
                look = until;
                Chosen::Later
            }
            Choice::Nobody => Chosen::Nobody,
        };
        if let (Some(order), Chosen::Member(member)) = (&mut self.order, &chosen) {
            order.bind(message, member, upgrades);
        }
        (chosen, look)
    }

    // --- order

    pub(crate) fn order(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    pub(crate) fn order_mut(&mut self) -> Option<&mut Order> {
        self.order.as_mut()
    }

    /// Takes the order out while the kernel is asked about members; [`Seats::put_order`] brings it back.
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        self.order.take()
    }

    pub(crate) fn put_order(&mut self, order: Order) {
        self.order = Some(order);
    }

    /// Keeps this order from now on; what is known of keys stays if it is the same.
    pub(crate) fn keep_order(&mut self, order: Option<Order>) {
        self.order = Order::go_on(self.order.take(), order, &self.members);
    }

    /// Whether a member's place has room, as the balancer sees it.
    pub(crate) fn has_room(&mut self, place: Place, head: &Head, now: Time) -> bool {
        self.balancer.has_room(place, head, now)
    }

    pub(crate) fn leavers(&self) -> &Leavers {
        &self.leavers
    }

    pub(crate) fn leavers_mut(&mut self) -> &mut Leavers {
        &mut self.leavers
    }

    // --- inputs of the balancer

    /// A message came into the group.
    pub(crate) fn arrived(&mut self, now: Time) {
        self.balancer.arrived(now);
    }

    /// A copy left for a member. When stalled members are looked for, if that was not known yet.
    pub(crate) fn sent(&mut self, to: &Key, parcel: &Parcel, now: Time) -> Option<Time> {
        let place = self.place_of(to)?;
        if let Some(tally) = self.tally_mut(place) {
            tally.chosen += 1;
            tally.unsettled += u32::from(parcel.settles);
        }
        self.balancer.sent(place, parcel, now);
        let watches = parcel.settles && self.strategy == GroupStrategy::Adaptive;
        if watches { self.watch(now) } else { None }
    }

    /// A member settled a copy, or it was taken away from it.
    pub(crate) fn settled(&mut self, of: &Key, tag: u64, is_done: bool, now: Time) {
        let Some(place) = self.place_of(of) else {
            return;
        };
        if let Some(tally) = self.tally_mut(place) {
            tally.settled += u64::from(is_done);
            tally.unsettled = tally.unsettled.saturating_sub(1);
        }
        if is_done {
            self.balancer.acknowledged(place, tag, now);
        } else {
            self.balancer.taken_back(place, tag, now);
        }
    }

    /// An exactly-once copy has come so far at a member. Whether that can have another one for it.
    pub(crate) fn stepped(&mut self, of: &Key, tag: u64, step: Step, now: Time) -> bool {
        self.place_of(of)
            .is_some_and(|place| self.balancer.stepped(place, tag, step, now))
    }

    /// Takes a session's load report. Returns whether it was accepted; `None` if the session has no seat.
    pub(crate) fn reported(
        &mut self,
        id: SessionId,
        report: &LoadReport,
        now: Time,
    ) -> Option<bool> {
        let place = self.place_of(&key_of(id))?;
        let is_believed = self.balancer.reported(place, report, now);
        if let Some(tally) = self.tally_mut(place) {
            tally.reports += u64::from(is_believed);
            tally.reports_refused += u64::from(!is_believed);
        }
        Some(is_believed)
    }

    pub(crate) fn round_trip(&mut self, id: SessionId, least: Span, jitter: Span) {
        if let Some(place) = self.place_of(&key_of(id)) {
            self.balancer.round_trip(place, least, jitter);
        }
    }

    /// A session can take nothing for now, or can again.
    pub(crate) fn blocked(&mut self, id: SessionId, blocked: bool) {
        if let Some(place) = self.place_of(&key_of(id)) {
            self.balancer.blocked(place, blocked);
        }
    }

    /// Counts a session that stalled.
    pub(crate) fn stalled(&mut self, id: SessionId) {
        for (key, seat) in &self.places {
            if key.0 == id
                && let Some(tally) = self.tallies.get_mut(seat.place as usize)
            {
                tally.stalls += 1;
            }
        }
    }

    // --- timers

    /// The head of the queue is looked at again at that time; false if it is sooner already.
    pub(crate) fn look_at(&mut self, at: Time) -> bool {
        let is_sooner = at < self.look_at;
        if is_sooner {
            self.look_at = at;
        }
        is_sooner
    }

    /// Whether the head of the queue is to be looked at now; not again after that.
    pub(crate) fn is_look_due(&mut self, now: Time) -> bool {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = Time::NEVER;
        }
        is_due
    }

    /// When stalled members are looked for, if that was not known yet.
    fn watch(&mut self, now: Time) -> Option<Time> {
        if self.watch_at != Time::NEVER {
            return None;
        }
        self.watch_at = now + WATCH_EVERY;
        Some(self.watch_at)
    }

    /// The same, if a member has something to settle.
    pub(crate) fn watch_on(&mut self, now: Time) -> Option<Time> {
        match self.balancer.has_unsettled() {
            true => self.watch(now),
            false => None,
        }
    }

    /// Sessions that have been silent for too long, as the balancer sees it, if they are to be looked for now.
    pub(crate) fn overdue(&mut self, now: Time) -> Vec<SessionId> {
        if self.watch_at > now {
            return Vec::new();
        }
        self.watch_at = Time::NEVER;
        let mut overdue = Vec::new();
        self.balancer.overdue(now, &mut overdue);
        let member = |place: &Place| self.members.get(*place as usize).copied().flatten();
        let members = overdue.iter().filter_map(member);
        members.map(|member| member.session).collect()
    }
}
