//! Order in a group: while copies of a key are with a member, the next message of that key goes only there.
//!
//! A key is a publisher or an address. A message whose key is bound waits for that member, and others of the queue may
//! pass it. A key moves when its old member has no message of it any more: all are settled or returned. What is with
//! members is read off their sessions, so nothing has to be counted; what is remembered between two looks is a
//! shortcut.
//!
//! Copies that are never settled give no such moment. Where there are such copies, a hash of the key names the member,
//! as it does for the strategies that say so.

use crate::Kernel;
use crate::effects::{Effects, Holder};
use crate::groups::group::Member;
use crate::groups::leavers::Leavers;
use crate::groups::offer::waited;
use crate::groups::seats::{Chosen, Key, Seats, key as key_of_member};
use crate::groups::work_terms::OrderKey;
use crate::ids::{GroupId, SessionId};
use crate::kernel::Map;
use crate::ledger::DropReason;
use crate::publish::subscriber_rate::Toll;
use crate::queue::Item;
use crate::remote::aways::Away;
use smallvec::SmallVec;
use thalweg_balance::{GroupStrategy, Head, LOOK_AHEAD};
use thalweg_model::{DeathReason, Message, Reliability, Span, Time};

/// How long what waits for a bound key waits at the most before members are looked at anew.
pub(crate) const LOOK_ANEW: Span = Span::from_millis(100);

/// What a group in order remembers.
pub(crate) struct Order {
    by: OrderKey,
    /// The strategy names a key's member itself.
    binds: bool,
    /// Every member settles what is to be settled; every member settles whatever it is given.
    all_settle: bool,
    all_lines: bool,
    /// Keys that are with members; several can only have one from before the group was in order.
    bound: Map<u64, Option<Key>>,
    /// Members have to be looked at anew.
    is_stale: bool,
}

impl Order {
    /// The order that a group must keep, if any: by its strategy, by configuration, or at a member's request.
    pub(crate) fn of(strategy: GroupStrategy, by: Option<OrderKey>) -> Option<Order> {
        let own = match strategy {
            GroupStrategy::HashPublisher => Some(OrderKey::Publisher),
            GroupStrategy::HashAddress => Some(OrderKey::Address),
            _ => None,
        };
        let by = own.or(by)?;
        Some(Order {
            by,
            binds: own.is_some(),
            all_settle: true,
            all_lines: false,
            bound: Map::default(),
            is_stale: true,
        })
    }

    /// The same order for members that have come or gone.
    pub(crate) fn go_on(
        old: Option<Order>,
        new: Option<Order>,
        members: &[Option<Member>],
    ) -> Option<Order> {
        let mut order = match (old, new) {
            (Some(old), Some(new)) if (old.by, old.binds) == (new.by, new.binds) => old,
            (_, Some(new)) => new,
            (_, None) => return None,
        };
        let settles = |member: &Member| match member.line {
            Some(line) => line.settles,
            None => member.reliability > Reliability::AtMostOnce,
        };
        let mut members = members.iter().flatten();
        order.all_lines = members
            .clone()
            .all(|member| member.line.is_some_and(|line| line.settles));
        order.all_settle = members.all(settles);
        Some(order)
    }

    pub(crate) fn by(&self) -> OrderKey {
        self.by
    }

    fn key(&self, message: &Message) -> u64 {
        match self.by {
            OrderKey::Publisher => message.publisher(),
            OrderKey::Address => message
                .address()
                .bytes()
                .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
                }),
        }
    }

    /// Whether copies of this message are settled by their receivers.
    fn is_told(&self, message: &Message, upgraded: bool) -> bool {
        self.all_lines
            || (self.all_settle && (upgraded || message.reliability() > Reliability::AtMostOnce))
    }

    /// The balancer has chosen this member for a message that was free.
    pub(crate) fn bind(&mut self, message: &Message, member: &Member, upgraded: bool) {
        if self.is_told(message, upgraded) {
            let key = self.key(message);
            self.bound.insert(key, Some(key_of_member(member)));
        }
    }

    /// Copies came back into the queue.
    pub(crate) fn changed(&mut self) {
        self.is_stale = true;
    }
}

/// How much a member suits a key: the same for as long as the member is there.
fn suits(member: &Member, number: u64, key: u64) -> u64 {
    let line = member.line.map_or(0, |line| {
        u64::from(line.line) << 32 | u64::from(line.consumer)
    });
    let mut mixed =
        key ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ line.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    for _ in 0..2 {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    mixed ^ mixed >> 32
}

impl Kernel {
    fn order_mut(&mut self, group_id: GroupId) -> Option<&mut Order> {
        self.groups.get_mut(group_id)?.seats_mut()?.order_mut()
    }

    /// Whether what waits in a group is not overtaken by what comes.
    pub(crate) fn is_in_line(&mut self, group_id: GroupId, now: Time) -> bool {
        let group = self.groups.get_mut(group_id);
        let is_adaptive = group.is_some_and(|group| group.strategy() == GroupStrategy::Adaptive);
        !self.is_fed(group_id) && (is_adaptive || self.is_ordered(group_id, now))
    }

    /// Whether a group's members get messages as surely as they wanted, however these were published.
    pub(crate) fn upgrades(&self, group_id: GroupId) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| group.policy().upgrade_reliability)
    }

    /// Takes the message at a place in a group's queue out of it.
    pub(crate) fn take_waiting(&mut self, group_id: GroupId, at: usize) -> Option<Item> {
        let group = self.groups.get_mut(group_id)?;
        let (waiting, delta) = group.waiting.remove(at)?;
        self.books.left(delta);
        Some(waiting)
    }

    /// Whether a group keeps messages of one key in order.
    pub(crate) fn is_ordered(&mut self, group_id: GroupId, now: Time) -> bool {
        self.seat_if_stale(group_id, now);
        self.order_mut(group_id).is_some()
    }

    /// Chooses the member for a message that is the first of its key.
    pub(crate) fn choose_in_order(
        &mut self,
        group_id: GroupId,
        seats: &mut Seats,
        (message, toll): (&Message, Option<&Toll>),
        head: &Head,
        except: &[Key],
        now: Time,
    ) -> Option<Chosen> {
        let mut order = seats.take_order()?;
        if order.is_stale {
            self.find_bound(group_id, &mut order, seats.leavers_mut());
        }
        let key = order.key(message);
        let upgraded = self.upgrades(group_id);
        let group = self.groups.get(group_id);
        let screen = group.map(|group| self.screen(group, message));
        let is_meant = |member: &Member| {
            let key = key_of_member(member);
            !except.contains(&key) && screen.as_ref().is_none_or(|it| it.passes(key))
        };
        let may = |kernel: &Kernel, member: &Member| {
            is_meant(member)
                && kernel.member_can_take(member, message, upgraded)
                && kernel.can_pay(toll, member.session)
        };
        let is_told = order.is_told(message, upgraded);
        let chosen = match order.bound.get(&key) {
            Some(holder) => {
                let seat = holder.and_then(|holder| seats.seated(&holder));
                let free = seat.filter(|(place, member)| {
                    may(self, member) && seats.has_room(*place, head, now)
                });
                Some(free.map_or(Chosen::Bound, |(_, member)| Chosen::Member(member)))
            }
            None if order.binds || !is_told => {
                let suited = seats.members();
                let suited = suited.filter(|member| {
                    is_meant(member) && self.is_member_allowed(group_id, member.session, message)
                });
                let best = suited
                    .max_by_key(|member| suits(member, self.member_number(member.session), key));
                Some(match best {
                    None => Chosen::Nobody,
                    Some(member) if may(self, member) => Chosen::Member(*member),
                    Some(_) => Chosen::Bound,
                })
            }
            // No order: the balancer chooses.
            None => None,
        };
        if let Some(Chosen::Member(member)) = &chosen
            && is_told
        {
            order.bound.insert(key, Some(key_of_member(member)));
        }
        seats.put_order(order);
        chosen
    }

    /// Looks up what is with members.
    fn find_bound(&mut self, group_id: GroupId, order: &mut Order, leavers: &mut Leavers) {
        order.is_stale = false;
        order.bound.clear();
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let mut sessions: SmallVec<[SessionId; 16]> = group
            .members()
            .iter()
            .map(|member| member.session)
            .collect();
        leavers.retain(|(id, uid)| {
            self.sessions
                .get(*id)
                .is_some_and(|session| session.uid() == *uid)
        });
        sessions.extend(leavers.iter().map(|(id, _)| *id));
        sessions.sort_unstable();
        sessions.dedup();
        let mut found: Vec<(u64, Key)> = Vec::new();
        for id in group.away().iter().map(|member| member.session) {
            let errands = self
                .remote
                .aways
                .get(id)
                .into_iter()
                .flat_map(Away::messages);
            found.extend(errands.map(|message| (order.key(message), (id, u16::MAX, 0))));
        }
        for id in sessions {
            let Some(session) = self.sessions.get_mut(id) else {
                continue;
            };
            let before = found.len();
            let of_group = session
                .messages_of_group(group_id)
                .map(|message| order.key(message));
            found.extend(of_group.map(|key| (key, (id, u16::MAX, 0))));
            if let Some(lines) = &session.lines {
                let of_lines = lines.copies_of_group(group_id);
                found.extend(
                    of_lines.map(|(line, consumer, message)| {
                        (order.key(message), (id, line, consumer))
                    }),
                );
            }
            if found.len() == before {
                leavers.retain(|(leaver, _)| *leaver != id);
            }
        }
        for (key, holder) in found {
            let bound = order.bound.entry(key).or_insert(Some(holder));
            if *bound != Some(holder) {
                *bound = None;
            }
        }
    }

    /// A member has settled a copy.
    pub(crate) fn order_settled(&mut self, group_id: GroupId, holder: Key, message: &Message) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let Some(order) = group.seats_mut().and_then(|seats| seats.order_mut()) else {
            return;
        };
        let key = order.key(message);
        if order.is_stale {
            return;
        }
        if order.bound.get(&key) != Some(&Some(holder)) {
            order.is_stale |= order.bound.contains_key(&key);
            return;
        }
        if let Some(away) = self.remote.aways.get(holder.0) {
            if !away.messages().any(|message| order.key(message) == key) {
                order.bound.remove(&key);
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(holder.0) else {
            return;
        };
        let is_there = match &session.lines {
            Some(lines) if holder.1 != u16::MAX => {
                lines
                    .copies_of_group(group_id)
                    .any(|(line, consumer, message)| {
                        (line, consumer) == (holder.1, holder.2) && order.key(message) == key
                    })
            }
            _ => session
                .messages_of_group(group_id)
                .any(|message| order.key(message) == key),
        };
        if !is_there {
            order.bound.remove(&key);
        }
    }

    /// What some member has or had is with it no more, or with another.
    pub(crate) fn order_changed(&mut self, group_id: GroupId) {
        if let Some(order) = self.order_mut(group_id) {
            order.changed();
        }
    }

    /// Gives what waits in a group to members as far as order lets it.
    pub(crate) fn hand_over_in_order<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        // Keys that something waits of already.
        let mut passed: SmallVec<[u64; LOOK_AHEAD]> = SmallVec::new();
        // Messages that are free have to wait.
        let mut is_held = false;
        let mut at = 0;
        while at < LOOK_AHEAD {
            let Some(group) = self.groups.get_mut(group_id) else {
                return;
            };
            let Some(waiting) = group.waiting.get(at) else {
                if self.refill_group(group_id) {
                    continue;
                }
                break;
            };
            let message = waiting.message.clone();
            let (waited, again, back) =
                (waited(waiting, now), waiting.deliveries > 0, waiting.back);
            if message.expires() <= now {
                if !self.agenda.may_expire(Holder::Group(group_id)) {
                    return;
                }
                if let Some(waiting) = self.take_waiting(group_id, at) {
                    self.give_up_of_group(group_id, waiting, DeathReason::Expired, now);
                }
                continue;
            }
            let Some((key, is_bound)) = self.key_in(group_id, &message, now) else {
                return;
            };
            if passed.contains(&key) || (is_held && !is_bound) {
                passed.push(key);
                at += 1;
                continue;
            }
            if self.next_waits_for_mark(group_id, at) {
                break;
            }
            match self.choose_again(group_id, &message, again, back, now) {
                Chosen::Member(member) => {
                    let Some(waiting) = self.take_waiting(group_id, at) else {
                        return;
                    };
                    let Some(waiting) = self.give_to(group_id, member, waiting, now, fx) else {
                        if let Some(group) = self.groups.get_mut(group_id) {
                            group.counters.waited(waited);
                        }
                        continue;
                    };
                    // Its output took nothing after all.
                    if let Some(group) = self.groups.get_mut(group_id) {
                        self.books.entered(group.comes_back(waiting));
                    }
                    self.order_changed(group_id);
                }
                Chosen::Bound => {}
                Chosen::Later => is_held = true,
                Chosen::Nobody if self.is_forbidden(group_id, &message) => {
                    // It must not stand in the way of what waits behind it.
                    if let Some(waiting) = self.take_waiting(group_id, at) {
                        self.drop_of_group(group_id, &message, DropReason::AccessDenied);
                        self.persist_group_removed(group_id, waiting.serial);
                    }
                    continue;
                }
                // What no member takes that has room may be for one that has none, and others are for those that have.
                Chosen::Nobody => is_held |= !self.is_selected_by(group_id),
            }
            passed.push(key);
            at += 1;
        }
        // Without a connected member there is nothing to look for until one joins.
        let group = self.groups.get_mut(group_id);
        let seats = group.and_then(|group| group.seats());
        if !passed.is_empty() && seats.is_some_and(|seats| seats.has_any()) {
            self.look_at_group(group_id, now + LOOK_ANEW);
        }
    }

    /// A message's key, and whether it is with a member.
    fn key_in(&mut self, group_id: GroupId, message: &Message, now: Time) -> Option<(u64, bool)> {
        self.seat_if_stale(group_id, now);
        let order = self.order_mut(group_id)?;
        let key = order.key(message);
        Some((
            key,
            order.is_stale || order.binds || order.bound.contains_key(&key),
        ))
    }
}
