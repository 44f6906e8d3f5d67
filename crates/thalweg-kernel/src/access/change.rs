//! What sessions may do is replaced while they are here.

use crate::Kernel;
use crate::access::Access;
use crate::books::Delta;
use crate::effects::{CloseReason, Effects};
use crate::ids::{LinkId, SessionId, Tag};
use crate::ledger::DropReason;
use crate::publish::pipeline::Memo;
use crate::queue::is_queue_address;
use crate::session::Session;
use crate::session::Slot;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::Time;

impl Kernel {
    /// From now on a session is opened only with rights that the operator's rules of this generation have granted, or of a
    /// later one: what was granted before, and not used yet, is to be asked for again. Together with
    /// [`Kernel::renew_access`], which is for sessions that exist.
    pub fn set_rules_generation(&mut self, generation: u32) {
        self.env.set_rules_generation(generation);
    }

    /// Whether the rules that have granted these rights have been replaced since.
    pub fn is_access_outdated(&self, access: &Access) -> bool {
        access.generation != 0 && access.generation < self.env.rules_generation()
    }

    /// Replaces what a session may do, e.g. after its peer proved anew who it is.
    /// The same for what it has bound and declared.
    pub fn set_access(&mut self, id: SessionId, access: Access) {
        if let Some(session) = self.sessions.get_mut(id) {
            let access = access.in_tenant(session.access().tenant());
            session.take_access(access);
            session.memo = Memo::default();
            let names = (session.client().clone(), session.user().cloned());
            let access = session.access().clone();
            self.renew_makers_of(&names, &access);
            self.routes.all_have_changed();
            self.remote.seats.has_changed(id);
            self.seat_takers_again();
            self.replace_active_consumers();
            self.values.watches.rights_changed();
        }
    }

    /// What was in flight when a session's last link ended, and what its peer may not have any more, is not repeated: copies
    /// that came through groups go to other members, if they may move, and others are dropped.
    #[cold]
    pub(crate) fn withhold_repeats<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let (uid, repeats) = (session.uid(), session.window.take_repeats());
        let (mut stay, mut others) = (VecDeque::new(), Vec::new());
        for tag in repeats {
            if self.may_repeat(id, tag) {
                stay.push_back(tag);
                continue;
            }
            let Some(session) = self.sessions.get_mut(id) else {
                return;
            };
            let Some(mut entry) = session.window.remove(tag).and_then(Slot::into_entry) else {
                continue;
            };
            self.books.settled(Delta::copy(entry.message.bytes()));
            if entry.group().is_some() {
                self.remote
                    .seats
                    .give_back((id, u16::MAX, 0), u64::from(tag));
            }
            if entry.may_move() {
                entry.deliveries = entry.deliveries.saturating_add(1);
                session.counts.note_taken_back();
                others.push(entry);
                continue;
            }
            if let Some(group_id) = entry.group()
                && let Some(group) = self.groups.get_mut(group_id)
            {
                group.counters.dropped += 1;
                self.order_settled(group_id, (id, u16::MAX, 0), &entry.message);
            }
            self.book_drop(Some(id), entry.message.address(), DropReason::AccessDenied);
            self.persist_settled(id, &entry, tag);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.window.set_repeats(stay);
        }
        if !others.is_empty() {
            self.return_to_groups(uid, others, now, fx);
        }
    }

    /// Whether a delivery may be sent to its receiver once more.
    fn may_repeat(&mut self, id: SessionId, tag: Tag) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        let Some(entry) = session.window.get(tag).and_then(Slot::entry) else {
            return true;
        };
        let Some(group) = entry.group() else {
            return session.access().may_receive(&entry.message);
        };
        let message = entry.message.clone();
        self.is_member_allowed(group, id, &message)
    }

    /// Ends the links of clients that may not connect any more, given by client, user and link; their sessions live on for
    /// their expiry. How many there were.
    pub fn disconnect<E: Effects>(
        &mut self,
        are: impl Fn(&str, Option<&str>, LinkId) -> bool,
        now: Time,
        fx: &mut E,
    ) -> usize {
        let is_theirs = |session: &Session| {
            let user = session.user().map(|user| &**user);
            session
                .link()
                .is_some_and(|link| are(session.client(), user, link))
        };
        let theirs = self
            .sessions
            .iter()
            .filter(|(_, session)| is_theirs(session));
        let clients: Vec<Arc<str>> = theirs
            .map(|(_, session)| session.client().clone())
            .collect();
        for client in &clients {
            self.kick(client, CloseReason::NotAuthorized, false, now, fx);
        }
        clients.len()
    }

    /// Replaces what every session may do, online or not, after the rules have changed; `access` is given client and
    /// user. Sessions whose peer brought its own rules keep them. The same for what was bound and declared by them.
    pub fn renew_access(&mut self, access: impl Fn(&str, Option<&str>) -> Access) {
        for (_, session) in self.sessions.iter_mut() {
            if !session.access().is_own() {
                let access = access(session.client(), session.user().map(|user| &**user))
                    .in_tenant(session.access().tenant());
                session.take_access(access);
                session.memo = Memo::default();
            }
        }
        self.renew_makers(access);
        self.routes.all_have_changed();
        self.remote.seats.have_changed();
        self.seat_takers_again();
        for group in self.groups.iter_mut() {
            group.look_again();
        }
        self.replace_active_consumers();
        self.values.watches.rights_changed();
    }

    /// Groups that take from queues look again who may, and their queues whom they can give to.
    fn seat_takers_again(&mut self) {
        for group in self
            .groups
            .iter_mut()
            .filter(|group| is_queue_address(group.filter()))
        {
            group.seats_changed();
            if let Some(queue) = group.feed() {
                self.agenda.pump(queue);
            }
        }
    }
}
