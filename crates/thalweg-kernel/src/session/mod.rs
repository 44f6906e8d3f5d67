//! Who is here, and what waits for them.

mod store;

pub(crate) use store::Sessions;

use crate::access::Access;
use crate::books::Delta;
use crate::disk_queue::DiskQueue;
use crate::effects::{CloseReason, Effects, Safety, Sent};
use crate::entry::{Entry, NO_GROUP};
use crate::eviction::Trial;
use crate::ids::{LinkId, SessionId, Tag};
use crate::ledger::DropReason;
use crate::memory::{Kept, will_cost};
use crate::presence::KnownAs;
use crate::publish::{Memo, parcel};
use crate::queue::Lines;
use crate::rate::TokenBucket;
use crate::retained::Scan;
use crate::timers::TimerKind;
use crate::window::{Slot, SlotState, Window};
use crate::work_terms::SessionTerms;
use crate::{Draft, Kernel};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_balance::Parcel;
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Time};

/// What a session leaves behind if its link is lost.
#[derive(Clone, Debug)]
pub struct Will {
    /// The canonical address it is published to; the rights of then decide whether it may be.
    pub address: Box<str>,
    /// The payload, as the peer sent it when it came.
    pub payload: Box<[u8]>,
    /// How surely its receivers get it.
    pub reliability: Reliability,
    /// Whether it becomes the last value.
    pub retain: RetainOp,
    /// How long after the loss it is published; the end of the session comes first if it is earlier.
    pub delay: Span,
    /// How long it is worth delivering once published.
    pub expires_in: Option<Span>,
    /// The metadata that travels with it; none if the peer gave none.
    pub properties: Option<Box<Properties>>,
}

/// What a front says when a peer opens a session.
pub struct OpenSession<'a> {
    /// The name under which the session is found again.
    pub client: &'a str,
    /// The link that opens it.
    pub link: LinkId,
    /// Whether what a former session of that name left is forgotten.
    pub fresh: bool,
    /// How long the session outlives its link.
    pub expiry: Span,
    /// Unsettled deliveries the receiver allows; `None` for our own limit.
    pub in_flight_max: Option<u16>,
    /// What to publish if the link is lost.
    pub will: Option<Box<Will>>,
    /// The tenant whose addresses it can reach; empty for the default one.
    pub tenant: &'a str,
    /// What it may do.
    pub access: Access,
    /// The authenticated user, if any.
    pub user: Option<Arc<str>>,
    /// How operators see the peer: protocol and version. Never decides anything.
    pub dialect: &'static str,
    /// How others know the peer, if it has a name.
    pub known_as: Option<KnownAs<'a>>,
    /// What the peer was told that it may do.
    pub grants: Grants,
}

/// What holds for one connection whatever becomes of [`Limits`](crate::Limits) meanwhile, because its peer was told so
/// or because its listener has rules of its own. The stricter of both counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The highest reliability that its subscriptions get.
    pub reliability_max: Reliability,
    /// Whether filters may hold wildcards.
    pub wildcards: bool,
    /// Whether subscriptions may name a group.
    pub groups: bool,
    /// Publishes per second in place of the limits' rate; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe what it is told must be, in place of the limits' word.
    pub safety: Option<Safety>,
}

impl Default for Grants {
    /// All that the limits allow.
    fn default() -> Self {
        Grants {
            reliability_max: Reliability::ExactlyOnce,
            wildcards: true,
            groups: true,
            publish_rate: None,
            safety: None,
        }
    }
}

/// What [`Kernel::open_session`] gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The session that was opened or resumed.
    pub session: SessionId,
    /// It existed before, and its state is still here.
    pub resumed: bool,
    /// How long it will outlive its link: what was asked, within our limit.
    pub expiry: Span,
}

/// Why a session cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefusal {
    /// As many sessions exist as may.
    TooManySessions,
    /// The process-wide memory budget is spent.
    Overloaded,
    /// The session of that name is another user's.
    OtherUser,
    /// The rules grant nothing in this tenant.
    Denied,
}

/// How a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The peer said good-bye; its will is forgotten.
    Clean,
    /// The peer said good-bye and asked for its will to be published.
    CleanWithWill,
    /// It went away without a word.
    Lost,
    /// It was not heard of for too long. Otherwise like `Lost`.
    Silent,
    /// We ended it: an operator, a limit, or because the peer misbehaved. Otherwise like `Lost`.
    Cut,
}

/// One subscription, as its session remembers it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) filter: Box<str>,
    /// Index of the group, or [`NO_GROUP`].
    pub(crate) group: u32,
}

/// A peer's subscriptions, what waits for it and what it has not settled: all that its name finds again.
pub(crate) struct Session {
    pub(crate) client: Arc<str>,
    /// Unique in the broker's life, over restarts, and never reused.
    pub(crate) uid: u64,
    /// It outlives its link, and is written down.
    pub(crate) durable: bool,
    pub(crate) link: Option<LinkId>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) access: Access,
    /// Its rights have changed since some of what waits for it was routed: that is judged again before it is sent.
    pub(crate) judges_again: bool,
    /// The same of what is to be repeated.
    pub(crate) judges_repeats: bool,
    pub(crate) dialect: &'static str,
    /// Where it is told that its peer is here, if anywhere.
    pub(crate) presence: Option<Box<str>>,
    pub(crate) grants: Grants,
    pub(crate) expiry: Span,
    pub(crate) expires_at: Time,
    pub(crate) since: Time,
    pub(crate) will: Option<Box<Will>>,
    pub(crate) will_due: Time,
    pub(crate) subscriptions: Vec<Held>,
    /// Bytes of memory that the subscriptions' filters cost.
    pub(crate) filter_bytes: usize,
    /// What it costs beside them, as it was counted.
    pub(crate) weight: usize,
    pub(crate) memo: Memo,
    /// Exactly-once publishes of the peer that are not released yet.
    pub(crate) held: HeldTickets,
    pub(crate) in_flight_max: u16,
    /// The link's output is above its high-water mark; nothing that can wait is sent.
    pub(crate) congested: bool,
    /// Its link was ended for a full queue; what follows from that is still to come, in [`Kernel::work`].
    pub(crate) overflowed: bool,
    pub(crate) waiting: VecDeque<Entry>,
    /// Of all that waits, in memory and on disk.
    pub(crate) waiting_bytes: usize,
    /// What waits behind `waiting` on disk.
    pub(crate) disk: Option<Box<DiskQueue>>,
    pub(crate) window: Window,
    /// Unsettled deliveries of an earlier link that this link's receiver has no credit for yet.
    pub(crate) repeats: VecDeque<Tag>,
    /// How often it was opened: tells a link from an earlier one of the same number.
    pub(crate) openings: u32,
    /// Groups it is a member of.
    pub(crate) groups: Vec<u32>,
    pub(crate) group_in_flight: u32,
    /// When it was last done with the first of its groups' copies.
    pub(crate) group_progress: Time,
    /// When it is looked at whether it settles them in time.
    pub(crate) group_due: Time,
    /// Its receiver was silent before.
    pub(crate) trial: Option<Box<Trial>>,
    pub(crate) scans: Vec<Scan>,
    /// The first of its watches.
    pub(crate) watches: u32,
    /// What takes from queues with names, if it ever did.
    pub(crate) lines: Option<Box<Lines>>,
    /// What it says of the way it works, if it says anything.
    pub(crate) work: Option<Box<SessionTerms>>,
    pub(crate) meters: Option<Box<Meters>>,
    pub(crate) received: u64,
    pub(crate) routed: u64,
    /// Copies that an earlier run left behind.
    pub(crate) restored: u64,
    pub(crate) delivered: u64,
    pub(crate) expired: u64,
    /// Once publishers have waited for it.
    pub(crate) pace: Option<Box<crate::pace::Pace>>,
    /// Nothing until something is dropped.
    pub(crate) drops: Option<Box<[u64; DropReason::ALL.len()]>>,
}

// Each session, also one that is away; a limit is the size of today and only shrinks.
const _: () = assert!(size_of::<Session>() <= 616);

/// Admission limits of one session.
pub(crate) struct Meters {
    pub(crate) messages: Option<TokenBucket>,
    pub(crate) bytes: Option<TokenBucket>,
}

impl Session {
    pub(crate) fn has_credit(&self) -> bool {
        self.window.len() < u32::from(self.in_flight_max)
    }

    /// Whether a copy that must be settled can leave right now.
    pub(crate) fn can_take(&self) -> bool {
        self.link.is_some() && !self.congested && self.is_queue_empty() && self.has_credit()
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.waiting.is_empty() && self.disk.is_none()
    }

    /// What it was given through a group and has not settled.
    pub(crate) fn entries_of_group(&mut self, index: u32) -> impl Iterator<Item = &mut Entry> {
        self.copies().filter(move |entry| entry.group == index)
    }

    /// What it was given and has not settled, but for what is on disk.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = &mut Entry> {
        let sent = self
            .window
            .iter_mut()
            .filter_map(|(_, slot)| match &mut slot.state {
                SlotState::ExpectSettle(entry) => Some(entry),
                _ => None,
            });
        sent.chain(&mut self.waiting)
    }

    /// Messages of a group that it is not done with: not settled, or settled in the first of two steps.
    pub(crate) fn messages_of_group(&mut self, index: u32) -> impl Iterator<Item = &Message> {
        let sent = self
            .window
            .iter_mut()
            .filter_map(move |(_, slot)| match &slot.state {
                SlotState::ExpectSettle(entry) => (entry.group == index).then_some(&entry.message),
                SlotState::ExpectReleased { of_group, .. } => of_group
                    .as_ref()
                    .filter(|(group, _)| *group == index)
                    .map(|(_, message)| message),
            });
        let waiting = self
            .waiting
            .iter()
            .filter(move |entry| entry.group == index);
        sent.chain(waiting.map(|entry| &entry.message))
    }

    /// What it has of a group is its own from now on: names in the journal's queue of the group.
    pub(crate) fn detach_from_group(&mut self, index: u32) -> Vec<u64> {
        let mut left = Vec::new();
        for entry in self.entries_of_group(index) {
            entry.group = NO_GROUP;
            if std::mem::take(&mut entry.of_group) {
                left.push(std::mem::take(&mut entry.serial));
            }
        }
        for (_, slot) in self.window.iter_mut() {
            if let SlotState::ExpectReleased { of_group, .. } = &mut slot.state {
                of_group.take_if(|(group, _)| *group == index);
            }
        }
        self.count_groups();
        left
    }

    /// Counts what it has of groups and is not done with.
    fn count_groups(&mut self) {
        let of_groups = self
            .window
            .iter_mut()
            .filter(|(_, slot)| match &slot.state {
                SlotState::ExpectSettle(entry) => entry.group != NO_GROUP,
                SlotState::ExpectReleased { of_group, .. } => of_group.is_some(),
            });
        self.group_in_flight = of_groups.count() as u32;
    }

    /// How many copies wait, in memory and on disk.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len() + self.disk.as_ref().map_or(0, |disk| disk.len())
    }

    /// Memory that what waits takes.
    pub(crate) fn memory_held(&self) -> usize {
        let disk = self
            .disk
            .as_ref()
            .map_or((0, 0), |disk| (disk.bytes(), disk.memory()));
        self.waiting_bytes - disk.0 + disk.1
    }
}

/// A set of tickets, 8 KiB at the most, nothing while empty.
#[derive(Debug, Default)]
pub(crate) struct HeldTickets {
    pages: Vec<(u8, Box<[u64; 4]>)>,
    len: u32,
}

impl HeldTickets {
    /// False if it was there already.
    pub(crate) fn insert(&mut self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        let at = match self.pages.iter().position(|(number, _)| *number == page) {
            Some(at) => at,
            None => {
                self.pages.push((page, Box::new([0; 4])));
                self.pages.len() - 1
            }
        };
        let word = &mut self.pages[at].1[word];
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u32::from(new);
        new
    }

    /// Whether it was not there, and whether the set takes more memory now.
    pub(crate) fn insert_growing(&mut self, ticket: u16) -> (bool, bool) {
        let pages = self.pages.len();
        (self.insert(ticket), self.pages.len() > pages)
    }

    /// False if it was not there.
    pub(crate) fn remove(&mut self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        let Some(at) = self.pages.iter().position(|(number, _)| *number == page) else {
            return false;
        };
        let bits = &mut self.pages[at].1;
        let was = bits[word] & bit != 0;
        bits[word] &= !bit;
        self.len -= u32::from(was);
        if bits.iter().all(|word| *word == 0) && self.pages.len() > 2 {
            self.pages.swap_remove(at);
        }
        was
    }

    pub(crate) fn contains(&self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        self.pages
            .iter()
            .any(|(number, bits)| *number == page && bits[word] & bit != 0)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// How much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * (size_of::<(u8, Box<[u64; 4]>)>() + size_of::<[u64; 4]>())
    }

    fn place(ticket: u16) -> (u8, usize, u64) {
        (
            (ticket >> 8) as u8,
            (ticket >> 6 & 3) as usize,
            1 << (ticket & 63),
        )
    }
}

impl Kernel {
    /// Opens a session for a link: resumes what is there under that name, ends what must be forgotten, takes the name
    /// over from another link. Nothing is delivered before [`Kernel::start`].
    pub fn open_session<E: Effects>(
        &mut self,
        open: OpenSession<'_>,
        now: Time,
        fx: &mut E,
    ) -> Result<Opened, OpenRefusal> {
        if !open.access.may_open(open.tenant) {
            return Err(OpenRefusal::Denied);
        }
        let open = OpenSession {
            access: open.access.in_tenant(open.tenant),
            ..open
        };
        let expiry = open.expiry.min(self.env.limits().session_expiry_max);
        let existing = self.sessions.id_of(open.client);
        let owner = existing
            .and_then(|id| self.sessions.get(id))
            .and_then(|session| session.user.as_ref());
        if owner.is_some() && owner != open.user.as_ref() {
            return Err(OpenRefusal::OtherUser);
        }
        // Nobody is told that a peer left whose place is taken.
        let left = existing.and_then(|id| self.take_presence(id, now));
        if let Some(id) = existing {
            self.take_over(id, open.fresh, now, fx);
        }
        let presence = self.presence_of(&open, &left);
        if let Some(id) = self.sessions.id_of(open.client) {
            if !open.fresh {
                return Ok(self.resume_session(id, open, presence, expiry, now, fx));
            }
            let safety = open.grants.safety.unwrap_or(self.env.limits().safety);
            self.end_session_as(id, safety, now, fx);
        } else if self.sessions.len() >= self.env.limits().sessions_max {
            self.tell_presence(left, now, fx);
            return Err(OpenRefusal::TooManySessions);
        } else if !self.may_keep(0, open.will.as_deref().map_or(0, will_cost)) {
            self.tell_presence(left, now, fx);
            return Err(OpenRefusal::Overloaded);
        }
        let client: Arc<str> = open.client.into();
        let (link, durable) = (open.link, self.env.limits().journal && expiry > Span::ZERO);
        let trial = self.trial_of(&client, now);
        let session = Session {
            client: client.clone(),
            uid: self.next_number(),
            durable,
            link: Some(link),
            user: open.user,
            access: open.access,
            judges_again: false,
            judges_repeats: false,
            dialect: open.dialect,
            presence,
            grants: open.grants,
            expiry,
            expires_at: Time::NEVER,
            since: now,
            will: open.will,
            will_due: Time::NEVER,
            subscriptions: Vec::new(),
            filter_bytes: 0,
            weight: 0,
            memo: Memo::default(),
            held: HeldTickets::default(),
            in_flight_max: open
                .in_flight_max
                .unwrap_or(self.env.limits().in_flight_max)
                .max(1),
            congested: false,
            overflowed: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            disk: None,
            window: Window::default(),
            repeats: VecDeque::new(),
            openings: 1,
            groups: Vec::new(),
            group_in_flight: 0,
            group_progress: Time::ZERO,
            group_due: Time::NEVER,
            trial,
            scans: Vec::new(),
            watches: crate::watch::NONE,
            lines: None,
            work: None,
            meters: self.env.limits().meters(&open.grants, now),
            received: 0,
            routed: 0,
            restored: 0,
            delivered: 0,
            expired: 0,
            pace: None,
            drops: None,
        };
        let (id, _) = self.sessions.insert(session);
        self.weigh_session(id);
        if durable {
            let safety = self.session_safety(id);
            self.persist_session(id, safety);
        }
        if self.env.limits().journal {
            // A session of that name may have ended just now, and must not come back after the answer.
            fx.hold(link, self.journal.awaited());
        }
        Ok(Opened {
            session: id,
            resumed: false,
            expiry,
        })
    }

    fn resume_session<E: Effects>(
        &mut self,
        id: SessionId,
        open: OpenSession<'_>,
        presence: Option<Box<str>>,
        expiry: Span,
        now: Time,
        fx: &mut E,
    ) -> Opened {
        let link = open.link;
        let in_flight_max = open
            .in_flight_max
            .unwrap_or(self.env.limits().in_flight_max)
            .max(1);
        let trial = self.trial_of(open.client, now);
        if let Some(session) = self.sessions.attach(id, link) {
            session.user = open.user;
            if session.access != open.access {
                // Receive rights are remembered in routes.
                self.routes.all_have_changed();
                session.take_access(open.access);
            }
            session.dialect = open.dialect;
            session.presence = presence;
            session.grants = open.grants;
            session.meters = self.env.limits().meters(&open.grants, now);
            session.expiry = expiry;
            session.expires_at = Time::NEVER;
            session.will = open.will;
            session.will_due = Time::NEVER;
            session.in_flight_max = in_flight_max;
            session.congested = false;
            session.trial = trial;
            self.weigh_session(id);
            if self.sessions.get(id).is_some_and(|session| session.durable) {
                let safety = self.session_safety(id);
                self.persist_session(id, safety);
                fx.hold(link, self.journal.awaited());
            }
        }
        Opened {
            session: id,
            resumed: true,
            expiry,
        }
    }

    /// Ends the other link of a session that is opened again, and settles its will: a will with a delay is forgotten
    /// when the same session goes on within the delay, and published otherwise.
    fn take_over<E: Effects>(&mut self, id: SessionId, fresh: bool, now: Time, fx: &mut E) {
        self.after_overflow(id, now, fx);
        if let Some(link) = self.sessions.get(id).and_then(|session| session.link) {
            fx.disconnect(link, CloseReason::TakenOver);
            self.close_link(id, link, Closing::Lost, None, now, fx);
        }
        if !fresh && let Some(session) = self.sessions.get_mut(id) {
            session.will = None;
            session.will_due = Time::NEVER;
        }
    }

    /// Begins deliveries to a session that was opened: first what was in flight, flagged as redelivered and in the
    /// old order, then what waited.
    pub fn start<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(link) = session.link else { return };
        // It was given what is in flight by the rights of then.
        session.judges_repeats = !session.access.is_allow_all();
        let mut released: Vec<(u32, Parcel)> = Vec::new();
        for (tag, slot) in session.window.iter_mut() {
            match &mut slot.state {
                SlotState::ExpectSettle(_) => session.repeats.push_back(tag),
                SlotState::ExpectReleased { of_group, .. } => {
                    fx.release(link, tag);
                    released.extend(
                        of_group
                            .as_ref()
                            .map(|(group, message)| (*group, parcel(message, tag, true))),
                    );
                }
            }
        }
        self.sit_down(id, now);
        for (group, parcel) in released {
            self.group_copy_sent(id, group, &parcel, now);
        }
        self.begin_trial(id);
        self.repeat(id, now, fx);
        self.groups_member_changed(id, now, fx);
        self.pump(id, now, fx);
        self.tell_came(id, now, fx);
        self.end_command(now, fx);
    }

    /// Sends deliveries of an earlier link again, as far as the receiver has credit: it may allow fewer than before.
    pub(crate) fn repeat<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        if self.sessions.get(id).is_some_and(|s| s.judges_repeats) {
            self.withhold_repeats(id, now, fx);
        }
        while let Some(session) = self.sessions.get_mut(id)
            && (session.window.len() as usize).saturating_sub(session.repeats.len())
                < usize::from(session.in_flight_max)
            && let Some(tag) = session.repeats.pop_front()
        {
            let (Some(link), Some(slot)) = (session.link, session.window.get_mut(tag)) else {
                continue;
            };
            // Or it is known to have arrived.
            let SlotState::ExpectSettle(entry) = &mut slot.state else {
                continue;
            };
            slot.sent_at = now;
            entry.deliveries = entry.deliveries.saturating_add(1);
            let (group, parcel) = (entry.group, parcel(&entry.message, tag, true));
            // Repeats leave whatever the output holds: the window bounds them.
            if fx.deliver(link, &entry.delivery(tag, None, now)) == Sent::TooLarge {
                self.books.settled(Delta::copy(entry.message.bytes()));
                if let Some(Slot {
                    state: SlotState::ExpectSettle(entry),
                    ..
                }) = session.window.remove(tag)
                {
                    if entry.group != NO_GROUP {
                        session.group_in_flight = session.group_in_flight.saturating_sub(1);
                        self.order_settled(entry.group, (id, u16::MAX, 0), &entry.message);
                    }
                    self.remote
                        .seats
                        .give_back((id, u16::MAX, 0), u64::from(tag));
                    self.book_drop(Some(id), entry.message.address(), DropReason::TooLarge);
                    self.persist_settled(id, &entry, tag);
                }
                continue;
            }
            self.books.redelivered(true);
            if group != NO_GROUP {
                self.group_copy_sent(id, group, &parcel, now);
                self.expect_settlement(id, group, now);
            }
        }
    }

    /// A link has ended. `expiry` replaces what was asked for when the session was opened, if the peer said so.
    pub fn close_link<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        how: Closing,
        expiry: Option<Span>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.link != Some(link) {
            return; // It was taken over: the newer link owns the session now.
        }
        self.drop_link(id, now);
        self.end_watches(id, fx);
        self.after_link(id, how, expiry, now, fx);
        self.end_command(now, fx);
    }

    /// A session has no link from now on.
    pub(crate) fn drop_link(&mut self, id: SessionId, now: Time) {
        self.seats_down(id);
        let Some(session) = self.sessions.detach(id) else {
            return;
        };
        for index in &session.groups {
            if let Some(group) = self.groups.get_mut(*index) {
                group.seats_changed();
            }
        }
        self.journal.forget_deliveries(id);
        session.memo = Memo::default();
        session.scans = Vec::new();
        session.repeats.clear();
        session.since = now;
    }

    /// Ends a link because the session's queue is full. Its will waits for [`Kernel::work`]: it may fill another queue,
    /// whose session has a will, and so on.
    pub(crate) fn throw_out<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(link) = session.link else { return };
        session.overflowed = true;
        fx.disconnect(link, CloseReason::QueueFull);
        self.drop_link(id, now);
        self.end_watches(id, fx);
        self.sessions.was_thrown_out(id);
    }

    /// What follows from being thrown out.
    pub(crate) fn after_overflow<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        if let Some(session) = self.sessions.get_mut(id)
            && std::mem::take(&mut session.overflowed)
        {
            self.after_link(id, Closing::Cut, None, now, fx);
        }
    }

    /// What follows from the end of a link: a will, the end of the session or its expiry, other members' turn.
    pub(crate) fn after_link<E: Effects>(
        &mut self,
        id: SessionId,
        how: Closing,
        expiry: Option<Span>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if let Some(expiry) = expiry {
            session.expiry = expiry.min(self.env.limits().session_expiry_max);
        }
        if how == Closing::Clean {
            session.will = None;
        }
        self.weigh_session(id);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let left = session.presence_news(now, Some(how));
        session.expires_at = now + session.expiry;
        let ends_now = session.expiry == Span::ZERO;
        let expires_at = session.expires_at;
        if let Some(will) = &session.will {
            session.will_due = (now + will.delay).min(expires_at);
            if will.delay == Span::ZERO || ends_now {
                self.publish_will(id, now, fx);
            } else if let Some(session) = self.sessions.get(id) {
                self.timers.set(session.will_due, id, TimerKind::Will);
            }
        }
        if ends_now {
            self.end_session(id, now, fx);
            return self.tell_presence(left, now, fx);
        }
        if expires_at != Time::NEVER {
            self.timers.set(expires_at, id, TimerKind::SessionExpiry);
        }
        self.persist_session(id, Safety::Lazy);
        if self.env.limits().group_redispatch {
            // What was sent before goes before what waits.
            self.return_group_copies(id, now, fx);
        }
        self.groups_member_changed(id, now, fx);
        self.tell_presence(left, now, fx);
    }

    pub(crate) fn publish_will<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.will_due = Time::NEVER;
        let Some(will) = session.will.take() else {
            return;
        };
        self.weigh_session(id);
        let draft = Draft {
            address: &will.address,
            payload: &will.payload,
            reliability: will.reliability,
            retain: will.retain,
            expires_in: will.expires_in,
            priority: 0,
            properties: will.properties.as_deref(),
            ticket: 0,
            native: None,
            stamp: None,
        };
        self.books.own();
        self.publish_left_behind(id, &draft, now, fx);
        // Written down behind the message itself, so that a will is rather published twice than never.
        self.persist_session(id, Safety::Lazy);
    }

    /// Forgets a session: its subscriptions, what waits for it, its name.
    pub fn end_session<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        // Nobody waits for it now, but whoever opens a session of that name will be told that there is none.
        self.end_session_as(id, self.session_safety(id), now, fx);
        self.end_command(now, fx);
    }

    /// The same; `safety` says how safe that must be before somebody is told.
    fn end_session_as<E: Effects>(&mut self, id: SessionId, safety: Safety, now: Time, fx: &mut E) {
        if self.sessions.get(id).is_none() {
            return;
        }
        // The end of the session publishes a delayed will.
        self.publish_will(id, now, fx);
        self.end_watches(id, fx);
        self.end_errands(id);
        self.close_lines(id, now, fx);
        if let Some(session) = self.sessions.get_mut(id) {
            // It gets nothing of what it gives back.
            session.congested = true;
        }
        self.return_group_copies(id, now, fx);
        self.count_lost_to_groups(id);
        self.drop_all_subscriptions(id, now, fx);
        let Some(mut session) = self.sessions.remove(id) else {
            return;
        };
        self.env.left(Kept::Sessions, session.weight);
        for entry in &session.waiting {
            self.book_drop(None, entry.message.address(), DropReason::SessionEnded);
        }
        let waiting = session.waiting_len();
        let on_disk = waiting - session.waiting.len();
        let memory_held = session.memory_held();
        if let Some(disk) = session.disk.take() {
            let (places, in_memory) = disk.into_books();
            let (booked, mut fresh) = (places.len(), 0);
            for message in in_memory {
                self.book_drop(None, message.address(), DropReason::SessionEnded);
                fresh += 1;
            }
            for place in places {
                self.book_drop_on_disk(None, Some(place), DropReason::SessionEnded);
            }
            self.books
                .dropped_many(DropReason::SessionEnded, on_disk - booked - fresh);
        }
        for (_, slot) in session.window.iter_mut() {
            if let SlotState::ExpectSettle(entry) = &slot.state {
                self.books.settled(Delta::copy(entry.message.bytes()));
                self.book_drop(None, entry.message.address(), DropReason::SessionEnded);
                if entry.of_group {
                    self.persist_group_removed(entry.group, entry.serial);
                }
            }
        }
        self.books.left(Delta::copies(waiting, memory_held));
        if session.durable {
            self.persist_session_ended(session.uid, safety);
        }
    }

    /// Ends a session's link from our side; the session itself lives on for its expiry unless `forget`.
    pub fn kick<E: Effects>(
        &mut self,
        client: &str,
        why: CloseReason,
        forget: bool,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(id) = self.sessions.id_of(client) else {
            return false;
        };
        if let Some(link) = self.sessions.get(id).and_then(|session| session.link) {
            fx.disconnect(link, why);
            self.close_link(id, link, Closing::Cut, None, now, fx);
        }
        if forget {
            self.end_session(id, now, fx);
        }
        true
    }
}

/// How short memory is, process-wide. Each level includes those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Memory is within its budget: nothing is refused for it.
    #[default]
    None,
    /// What would have to wait in memory is refused, and so is all that is kept beside messages and is not little. What can
    /// leave at once, or wait on disk, still does.
    DropWaiting,
    /// Nothing more waits on disk either, whose entries take memory, too. New sessions are refused if it is not messages
    /// alone that take the memory.
    RefuseSessions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_tickets_are_a_set() {
        let mut held = HeldTickets::default();
        for ticket in [1, 255, 256, 65_535, 7] {
            assert!(held.insert(ticket));
            assert!(!held.insert(ticket));
        }
        assert_eq!(held.len(), 5);
        for ticket in [1, 255, 256, 65_535, 7] {
            assert!(held.remove(ticket));
            assert!(!held.remove(ticket));
        }
        assert_eq!(held.len(), 0);
    }
}
