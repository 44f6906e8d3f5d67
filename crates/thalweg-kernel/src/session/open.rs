//! A peer opens a session, or goes on with one.

use super::connection::Arrival;
use super::{Closing, Life, Session, Slot, Who, Will};
use crate::Kernel;
use crate::access::Access;
use crate::books::Delta;
use crate::effects::{CloseReason, Content, Effects, Safety, Sent, deliver_apart};
use crate::ids::{GroupId, LinkId, SessionId};
use crate::ledger::DropReason;
use crate::memory::will_cost;
use crate::publish::deliver::parcel;
use crate::session::presence::KnownAs;
use std::sync::Arc;
use thalweg_balance::Parcel;
use thalweg_model::{Reliability, Span, Time};

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
    /// The limits that were announced to the peer.
    pub grants: Grants,
}

impl<'a> OpenSession<'a> {
    /// A session that ends with its link, of the default tenant, for a peer that has neither a user nor a name.
    pub fn of_link(client: &'a str, link: LinkId, access: Access, dialect: &'static str) -> Self {
        OpenSession {
            client,
            link,
            fresh: true,
            expiry: Span::ZERO,
            in_flight_max: None,
            will: None,
            tenant: "",
            access,
            user: None,
            dialect,
            known_as: None,
            grants: Grants::default(),
        }
    }
}

/// Limits of one connection that changes of [`Limits`](crate::Limits) do not touch, because they were announced to its
/// peer or because its listener has its own. The stricter of both counts.
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
    /// How safe the broker's answers must be, in place of the general setting.
    pub safety: Option<Safety>,
    /// How many copies wait for it while its output is full, those sent at most once too; beyond that the newest is
    /// dropped, and counted. 0: what is sent at most once does not wait.
    pub high_water: u32,
    /// Whether its peer can be told that a publish was refused.
    pub hears_refusals: bool,
}

impl Grants {
    /// All that the limits allow, within the rules of a listener.
    pub fn of_listener(publish_rate: Option<u64>, safety: Option<Safety>) -> Self {
        Grants {
            publish_rate,
            safety,
            ..Grants::default()
        }
    }
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
            high_water: 0,
            hears_refusals: true,
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
    /// The rules have been replaced since they granted the rights: the peer is to log in again.
    Outdated,
}

impl Arrival {
    fn of(open: &OpenSession<'_>, presence: Option<Box<str>>) -> Self {
        Arrival {
            link: open.link,
            dialect: open.dialect,
            presence,
            grants: open.grants,
            in_flight_max: open.in_flight_max,
        }
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
        if self.is_access_outdated(&open.access) {
            return Err(OpenRefusal::Outdated);
        }
        if !open.access.may_open(open.tenant) {
            return Err(OpenRefusal::Denied);
        }
        let open = OpenSession {
            // From now on they are renewed, and equal to others that are the same.
            access: open.access.in_tenant(open.tenant).of_generation(0),
            ..open
        };
        let expiry = open.expiry.min(self.env.limits().session_expiry_max);
        let existing = self.sessions.id_of(open.client);
        let owner = existing
            .and_then(|id| self.sessions.get(id))
            .and_then(|session| session.user());
        if owner.is_some() && owner != open.user.as_ref() {
            return Err(OpenRefusal::OtherUser);
        }
        // A takeover does not publish an offline event.
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
        let (uid, arrival) = (self.journal.next_number(), Arrival::of(&open, presence));
        let life = Life::new(expiry, open.will);
        let user = open.user;
        let who = Who { client, user, uid };
        let mut session = Session::new(who, durable, open.access, life, now);
        session.connection.attach(arrival, self.env.limits(), now);
        session.membership.set_trial(trial);
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
        let trial = self.trial_of(open.client, now);
        let arrival = Arrival::of(&open, presence);
        if let Some(session) = self.sessions.attach(id, arrival, self.env.limits(), now) {
            if *session.access() != open.access {
                // Receive rights are remembered in routes.
                self.routes.all_have_changed();
            }
            session.go_on(open.user, open.access, Life::new(expiry, open.will));
            session.membership.set_trial(trial);
            self.weigh_session(id);
            let session = self.sessions.get(id);
            if session.is_some_and(|session| session.is_durable()) {
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
        if let Some(link) = self.sessions.link_of(id) {
            fx.disconnect(link, CloseReason::TakenOver);
            self.close_link(id, link, Closing::Lost, None, now, fx);
        }
        if !fresh && let Some(session) = self.sessions.get_mut(id) {
            session.life.take_will();
        }
    }

    /// Begins deliveries to a session that was opened: first what was in flight, flagged as redelivered and in the
    /// old order, then what waited.
    pub fn start<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(link) = session.link() else { return };
        session.begin();
        if session.backlog.has_priorities() || session.is_prioritized_by(self.env.limits()) {
            self.prioritize(id, fx);
        }
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let mut released: Vec<(GroupId, Parcel)> = Vec::new();
        for (tag, slot) in session.window.iter() {
            if slot.entry().is_none() {
                fx.release(link, tag);
                let of_group = slot.of_group();
                released
                    .extend(of_group.map(|(group, message)| (group, parcel(message, tag, true))));
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
        let session = self.sessions.get_mut(id);
        if session.is_some_and(|session| session.window.take_judges_repeats()) {
            self.withhold_repeats(id, now, fx);
        }
        while let Some(session) = self.sessions.get_mut(id)
            && let max = session.connection.in_flight_max()
            && let Some(tag) = session.window.next_repeat(max)
        {
            let Some(link) = session.link() else {
                continue;
            };
            // Or it is known to have arrived.
            let Some(entry) = session.window.repeat(tag, now) else {
                continue;
            };
            let (group, parcel) = (entry.group(), parcel(&entry.message, tag, true));
            // Repeats leave whatever the output holds: the window bounds them.
            let content = Content::Kept(&entry.message, None);
            if deliver_apart(link, &content, &entry.delivery(tag, now), fx) == Sent::TooLarge {
                self.books.settled(Delta::copy(entry.message.bytes()));
                if let Some(entry) = session.window.remove(tag).and_then(Slot::into_entry) {
                    if let Some(group) = group {
                        self.order_settled(group, (id, u16::MAX, 0), &entry.message);
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
            if let Some(group) = group {
                self.group_copy_sent(id, group, &parcel, now);
                self.expect_settlement(id, group, now);
            }
        }
    }
}
