//! A link ends, and a session.

use crate::books::Delta;
use crate::effects::{CloseReason, Effects, Safety};
use crate::ids::{LinkId, SessionId};
use crate::ledger::DropReason;
use crate::memory::Kept;
use crate::timers::TimerKey;
use crate::{Draft, Kernel};
use thalweg_model::{Properties, Reliability, RetainOp, Span, Time};

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

/// How a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The peer said good-bye; its will is forgotten.
    Clean,
    /// The peer said good-bye and asked for its will to be published.
    CleanWithWill,
    /// It went away without a word.
    Lost,
    /// Its keep-alive time passed without a packet. Otherwise like `Lost`.
    Silent,
    /// We ended it: an operator, a limit, or because the peer misbehaved. Otherwise like `Lost`.
    Cut,
}

impl Kernel {
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
        if session.link() != Some(link) {
            return; // It was taken over: the newer link owns the session now.
        }
        self.drop_link(id, now);
        self.end_watches(id, fx);
        self.after_link(id, how, expiry, now, fx);
        self.end_command(now, fx);
    }

    /// A session has no link from now on.
    pub(crate) fn drop_link(&mut self, id: SessionId, now: Time) {
        self.remote.seats.all_go_down(id);
        let Some(session) = self.sessions.detach(id, now) else {
            return;
        };
        for group_id in session.membership.groups() {
            if let Some(group) = self.groups.get_mut(*group_id) {
                group.seats_changed();
            }
        }
        self.journal.forget_deliveries(id);
    }

    /// Ends a link because the session's queue is full. Its will waits for [`Kernel::work`]: it may fill another queue,
    /// whose session has a will, and so on.
    pub(crate) fn throw_out<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(link) = session.link() else { return };
        session.connection.throw_out();
        fx.disconnect(link, CloseReason::QueueFull);
        self.drop_link(id, now);
        self.end_watches(id, fx);
        self.sessions.was_thrown_out(id);
    }

    /// What follows from being thrown out.
    pub(crate) fn after_overflow<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        if let Some(session) = self.sessions.get_mut(id)
            && session.connection.take_thrown_out()
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
        let expiry_max = self.env.limits().session_expiry_max;
        session
            .life
            .link_ended(how, expiry.map(|expiry| expiry.min(expiry_max)), now);
        let left = session.presence_news(now, Some(how));
        let described = session.connection.take_described();
        let ends_now = session.life.expiry() == Span::ZERO;
        let (expires_at, will_due) = (session.life.expires_at(), session.life.will_due());
        self.weigh_session(id);
        if let Some(address) = described {
            self.publish_description(&address, b"", None, now, fx);
        }
        if will_due <= now {
            self.publish_will(id, now, fx);
        } else if will_due != Time::NEVER {
            self.agenda.set_timer(will_due, TimerKey::Will(id));
        }
        if ends_now {
            self.end_session(id, now, fx);
            return self.tell_presence(left, now, fx);
        }
        if expires_at != Time::NEVER {
            self.agenda
                .set_timer(expires_at, TimerKey::SessionExpiry(id));
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
        let Some(will) = session.life.take_will() else {
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

    /// Removes a session: its subscriptions, what waits for it, its name.
    pub fn end_session<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        // No answer waits for it now, but the next open of that name reports that there is no session.
        self.end_session_as(id, self.session_safety(id), now, fx);
        self.end_command(now, fx);
    }

    /// The same; `safety` says how safe that must be before it is reported.
    pub(super) fn end_session_as<E: Effects>(
        &mut self,
        id: SessionId,
        safety: Safety,
        now: Time,
        fx: &mut E,
    ) {
        if self.sessions.get(id).is_none() {
            return;
        }
        // The end of the session publishes a delayed will.
        self.publish_will(id, now, fx);
        self.end_watches(id, fx);
        self.end_errands(id);
        self.close_lines(id, now, fx);
        if let Some(session) = self.sessions.get_mut(id) {
            // None of the messages that it returns may come back to it.
            session.connection.congest();
        }
        self.return_group_copies(id, now, fx);
        self.count_lost_to_groups(id);
        self.drop_all_subscriptions(id, now, fx);
        let Some(mut session) = self.sessions.remove(id) else {
            return;
        };
        self.env.left(Kept::Sessions, session.counts.weight());
        let backlog = session.take_backlog();
        let held = Delta::copies(backlog.len(), backlog.memory_held());
        let waiting = backlog.into_parts();
        if self.books.has_accounts() {
            for entry in &waiting.entries {
                self.book_drop(None, entry.message.address(), DropReason::SessionEnded);
            }
        } else {
            self.books
                .dropped_many(DropReason::SessionEnded, waiting.entries.len());
        }
        for message in &waiting.fresh {
            self.book_drop(None, message.address(), DropReason::SessionEnded);
        }
        for (place, count) in waiting.places {
            self.books
                .dropped_many_on_disk(place, DropReason::SessionEnded, count);
        }
        self.books
            .dropped_many(DropReason::SessionEnded, waiting.unbooked);
        for (_, slot) in session.window.iter() {
            if let Some(entry) = slot.entry() {
                self.books.settled(Delta::copy(entry.message.bytes()));
                self.book_drop(None, entry.message.address(), DropReason::SessionEnded);
                if entry.of_group {
                    self.persist_of_group_removed(entry);
                }
            }
        }
        self.books.left(held);
        self.sessions.add_ended(waiting.entries);
        if session.is_durable() {
            self.persist_session_ended(session.uid(), safety);
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
        if let Some(link) = self.sessions.link_of(id) {
            fx.disconnect(link, why);
            self.close_link(id, link, Closing::Cut, None, now, fx);
        }
        if forget {
            self.end_session(id, now, fx);
        }
        true
    }
}
