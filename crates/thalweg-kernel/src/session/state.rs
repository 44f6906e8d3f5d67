//! A session: whose it is, and its parts. Each part keeps its own counts.

use super::HeldTickets;
use super::backlog::Backlog;
use super::connection::Connection;
use super::counts::Counts;
use super::life::Life;
use super::membership::Membership;
use super::subscriptions::Subscriptions;
use super::window::{SlotState, Window};
use crate::access::Access;
use crate::entry::Entry;
use crate::ids::{GroupId, LinkId, Tag};
use crate::limits::Limits;
use crate::lines::Lines;
use crate::memory::session_cost;
use crate::publish::pipeline::Memo;
use crate::recount::Held;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::Waiting;

/// Other deliveries that are looked at before a group's oldest.
const LOOK_AT: usize = 16;

/// Whose a session is.
pub(crate) struct Who {
    pub client: Arc<str>,
    pub user: Option<Arc<str>>,
    /// The session's number: unique in the broker's life, over restarts, and never reused.
    pub uid: u64,
}

/// A peer's subscriptions, what waits for it and what it has not settled: all that its name finds again.
pub(crate) struct Session {
    who: Who,
    access: Access,
    /// It outlives its link, and is written down.
    durable: bool,
    /// Its rights have changed since some of what waits for it was routed: that is judged again before it is sent.
    judges_again: bool,
    /// The first of its watches.
    first_watch: u32,
    /// The route that it published by last.
    pub memo: Memo,
    pub connection: Connection,
    pub life: Life,
    pub subscriptions: Subscriptions,
    /// Exactly-once publishes of the peer that are not released yet.
    pub tickets: HeldTickets,
    /// What waits for it.
    pub backlog: Backlog,
    /// What it has not settled.
    pub window: Window,
    pub membership: Membership,
    /// What takes from queues with names, if it ever did.
    pub lines: Option<Box<Lines>>,
    pub counts: Counts,
}

// Each session, also one that is away; a limit is the size of today and only shrinks.
const _: () = assert!(size_of::<Session>() <= 616);

/// What an earlier run left of a session.
pub(crate) struct Left {
    pub who: Who,
    pub access: Access,
    pub life: Life,
    pub in_flight_max: u16,
    pub tickets: HeldTickets,
    pub window: Window,
    pub waiting: Waiting,
    /// Copies that wait or are in flight.
    pub copies: usize,
}

impl Session {
    pub(super) fn new(who: Who, durable: bool, access: Access, life: Life, now: Time) -> Self {
        Session {
            who,
            access,
            durable,
            judges_again: false,
            first_watch: crate::values::watch::NONE,
            memo: Memo::default(),
            connection: Connection::none(1, now),
            life,
            subscriptions: Subscriptions::default(),
            tickets: HeldTickets::default(),
            backlog: Backlog::default(),
            window: Window::default(),
            membership: Membership::default(),
            lines: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn restored(left: Left, now: Time) -> Self {
        // The rules may be others than those of the earlier run.
        let judges_again = !left.access.is_allow_all();
        Session {
            judges_again,
            connection: Connection::none(left.in_flight_max, now),
            tickets: left.tickets,
            backlog: Backlog::restored(left.waiting),
            window: left.window,
            counts: Counts::restored(left.copies),
            ..Session::new(left.who, true, left.access, left.life, now)
        }
    }

    /// Whether policies give priorities to topics that it is subscribed to. Members of groups are sent little ahead anyway.
    pub(super) fn is_prioritized_by(&self, limits: &Limits) -> bool {
        let mut own = self.subscriptions.iter().filter(|it| it.group.is_none());
        own.any(|it| limits.prioritizes_within(&it.filter))
    }

    // --- whose it is

    #[inline]
    pub(crate) fn client(&self) -> &Arc<str> {
        &self.who.client
    }

    #[inline(always)]
    pub(crate) fn uid(&self) -> u64 {
        self.who.uid
    }

    /// Whether it outlives its link, and is written down.
    #[inline(always)]
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        self.who.user.as_ref()
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Replaces what it may do; what waits for it was routed by what it might do then.
    pub(crate) fn take_access(&mut self, access: Access) {
        if self.access != access {
            self.judges_again = !access.is_allow_all();
            self.window.judge_repeats(self.judges_again);
            self.access = access;
        }
    }

    /// Whether it may have what waited for it: asked of each copy only where its rights are others than when that was routed.
    #[inline]
    pub(crate) fn may_have(&self, message: &Message) -> bool {
        !self.judges_again || self.access.may_receive(message)
    }

    /// All that waited by earlier rights has been judged.
    #[inline]
    pub(crate) fn has_judged(&mut self) {
        self.judges_again = false;
    }

    /// Counts its cost beside its subscriptions anew: what it was, and is.
    pub(crate) fn weigh(&mut self) -> (usize, usize) {
        let weight = session_cost(self);
        (self.counts.set_weight(weight), weight)
    }

    #[inline]
    pub(crate) fn first_watch(&self) -> u32 {
        self.first_watch
    }

    pub(crate) fn set_first_watch(&mut self, watch: u32) {
        self.first_watch = watch;
    }

    // --- its link

    #[inline(always)]
    pub(crate) fn link(&self) -> Option<LinkId> {
        self.connection.link()
    }

    /// What a new link replaces beside what holds for the link alone.
    pub(super) fn go_on(&mut self, user: Option<Arc<str>>, access: Access, life: Life) {
        self.who.user = user;
        self.take_access(access);
        self.life = life;
    }

    /// It has no link from now on; true if it had one.
    pub(super) fn detach(&mut self, now: Time) -> bool {
        self.memo = Memo::default();
        self.subscriptions.forget_scans();
        self.window.forget_repeats();
        self.connection.detach(now)
    }

    /// Its deliveries begin: it was given what is in flight by the rights of then.
    pub(super) fn begin(&mut self) {
        self.window.judge_repeats(!self.access.is_allow_all());
        self.window.begin_repeats();
    }

    // --- what it can take

    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.window.len() < u32::from(self.connection.in_flight_max())
    }

    /// Whether a copy that must be settled can leave right now.
    #[inline]
    pub(crate) fn can_take(&self) -> bool {
        self.link().is_some()
            && !self.connection.is_congested()
            && self.backlog.is_empty()
            && self.has_credit()
    }

    /// Whether there is no room behind what waits for `bytes` more.
    pub(crate) fn is_full(&self, bytes: usize, limits: &Limits) -> bool {
        let messages_max = match self.connection.high_water() {
            0 => limits.queue_messages_max,
            high => limits.queue_messages_max.min(high as usize),
        };
        self.backlog.len() >= messages_max
            || self.backlog.bytes() + bytes > limits.session_bytes_max(self.durable)
    }

    /// A copy waits, or has found no room: until when publishers wait for it. They do for none that has taken nothing for
    /// [`Limits::queue_pace_max`].
    pub(crate) fn pause_publishers(&mut self, limits: &Limits, now: Time) -> Option<Time> {
        let bytes_max = limits.session_bytes_max(self.durable);
        let most = (limits.queue_messages_max, bytes_max);
        let (taken, patience) = (self.counts.delivered(), limits.queue_pace_max);
        self.backlog.pause(taken, most, patience, now)
    }

    // --- what it has of groups

    /// Messages of a group that it is not done with: not settled, or settled in the first of two steps.
    pub(crate) fn messages_of_group(&self, group: GroupId) -> impl Iterator<Item = &Message> {
        let sent = self.window.iter().filter_map(|(_, slot)| slot.of_group());
        let waiting = self.backlog.iter();
        let waiting = waiting.filter_map(|entry| Some((entry.group()?, &entry.message)));
        sent.chain(waiting)
            .filter(move |(of, _)| *of == group)
            .map(|(_, message)| message)
    }

    /// What it has of a group is its own from now on: names in the journal's queue of the group.
    pub(crate) fn detach_from_group(&mut self, group: GroupId) -> Vec<u64> {
        let mut left = self.window.detach_from_group(group);
        left.extend(self.backlog.detach_from_group(group));
        left
    }

    /// The group's queue in the journal has ended.
    pub(crate) fn forget_serials_of_group(&mut self, group: GroupId) {
        self.window.forget_serials_of_group(group);
        self.backlog.forget_serials_of_group(group);
    }

    /// Whether a group may give it something, as far as its past is concerned.
    pub(crate) fn is_trusted(&self) -> bool {
        let Some(trial) = self.membership.trial() else {
            return true;
        };
        let lines = self.lines.as_ref();
        let has_some =
            || self.window.of_groups() > 0 || lines.is_some_and(|lines| lines.has_of_groups());
        !trial.waits() && !has_some()
    }

    /// A group's copy that was sent then has been settled. Whatever was sent later is not what it works at.
    pub(crate) fn made_progress(&mut self, sent_at: Time, now: Time) {
        let mut oldest = self.window.iter().take(LOOK_AT);
        let is_of_group = |slot: &super::window::Slot| match &slot.state {
            SlotState::ExpectSettle(entry) => entry.group().is_some(),
            SlotState::ExpectReleased { .. } => false,
        };
        let first = oldest.find(|(_, slot)| is_of_group(slot));
        if first.is_none_or(|(_, slot)| slot.sent_at >= sent_at) {
            self.membership.note_progress(now);
        }
    }

    /// Copies that other members of groups may have although they have left, the oldest first, and when they did.
    pub(crate) fn movable(&self) -> impl Iterator<Item = (Tag, &Entry, Time)> {
        let sent = self.window.iter();
        sent.filter_map(|(tag, slot)| Some((tag, slot.entry()?, slot.sent_at)))
            .filter(|(_, entry, _)| entry.may_move())
    }

    /// When the first copy of each of its groups was sent that others may have, or what was before it settled.
    pub(crate) fn oldest_of_groups(&self) -> SmallVec<[(GroupId, Time); 2]> {
        let mut oldest: SmallVec<[(GroupId, Time); 2]> = SmallVec::new();
        let progress = self.membership.progress();
        for (_, entry, sent_at) in self.movable() {
            if let Some(group) = entry.group()
                && !oldest.iter().any(|(known, _)| *known == group)
            {
                oldest.push((group, sent_at.max(progress)));
            }
        }
        oldest
    }

    // --- the end, and tests

    /// What waited, to be dropped with the session.
    pub(super) fn take_backlog(&mut self) -> Backlog {
        std::mem::take(&mut self.backlog)
    }

    /// Counts anew what it holds, and compares that with its own counts.
    pub(crate) fn recount(&self) -> Result<Held, String> {
        self.window.recount()?;
        let lines = self.lines.as_ref();
        let mut held = lines.map_or(Held::default(), |lines| lines.recount());
        held += self.backlog.recount()?;
        for (_, slot) in self.window.iter() {
            if let Some(entry) = slot.entry() {
                held.in_flight += 1;
                held.bytes += entry.message.bytes();
            }
        }
        Ok(held)
    }
}

impl Entry {
    /// An exactly-once copy is its receiver's for good.
    pub(crate) fn may_move(&self) -> bool {
        self.group().is_some() && self.reliability == Reliability::AtLeastOnce
    }
}
