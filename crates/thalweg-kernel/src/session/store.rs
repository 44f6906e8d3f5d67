//! The sessions of a shard: by number and by name, how many have a link, and which have something left to do.

use super::connection::Arrival;
use super::{Held, Session};
use crate::entry::Entry;
use crate::ids::{GroupId, LinkId, SessionId};
use crate::kernel::Map;
use crate::limits::Limits;
use crate::publish::crowd::Crowd;
use crate::session::presence::Presences;
use crate::slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::Time;

/// How many copies one call gives the memory back of.
const CLEARED_PER_CALL: usize = 1024;

#[derive(Default)]
pub(crate) struct Sessions {
    /// Presence of the peers whose address has its home here.
    pub presences: Presences,
    /// What the publish that is being spread has met.
    pub crowd: Crowd,
    all: Slab<Session>,
    by_client: Map<Arc<str>, SessionId>,
    /// Sessions that have a link.
    online: usize,
    /// Subscriptions of all sessions.
    subscriptions: usize,
    /// Sessions that go on looking for last values in the next turn.
    scanning: Vec<SessionId>,
    /// Sessions thrown out for a full queue, whose wills are still to be published.
    thrown_out: Vec<SessionId>,
    /// What waited in memory for sessions that have ended.
    ended: VecDeque<VecDeque<Entry>>,
    /// The last session that was looked through for expired messages.
    swept_last: u32,
}

impl Sessions {
    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.all.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all.get_mut(id)
    }

    /// A session with a link is to be sent something later that is sent at most once.
    pub(crate) fn hold_back_at_most_once(&mut self, id: SessionId) {
        if let Some(session) = self.get_mut(id) {
            session.connection.hold_back_at_most_once();
        }
    }

    /// The link of a session that has one.
    #[inline]
    pub(crate) fn link_of(&self, id: SessionId) -> Option<LinkId> {
        self.get(id)?.link()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Session)> {
        self.all.iter_mut()
    }

    // --- names

    /// The session of a client's name.
    pub(crate) fn id_of(&self, client: &str) -> Option<SessionId> {
        self.by_client.get(client).copied()
    }

    pub(crate) fn of_client(&self, client: &str) -> Option<&Session> {
        self.get(self.id_of(client)?)
    }

    /// Adds a session, which has its name from now on; beside its number that of the session which had the name before.
    pub(crate) fn insert(&mut self, session: Session) -> (SessionId, Option<SessionId>) {
        let client = session.client().clone();
        self.online += usize::from(session.link().is_some());
        let id = self.all.insert(session);
        (id, self.by_client.insert(client, id))
    }

    /// Gives a session its own name, which another one may have.
    pub(crate) fn name(&mut self, id: SessionId) {
        if let Some(session) = self.all.get(id) {
            self.by_client.insert(session.client().clone(), id);
        }
    }

    /// Takes a session out; its name is free unless another one has it.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.all.remove(id)?;
        self.online -= usize::from(session.link().is_some());
        if self.by_client.get(session.client()) == Some(&id) {
            self.by_client.remove(session.client());
        }
        Some(session)
    }

    // --- links

    /// How many sessions have a link.
    pub(crate) fn online(&self) -> usize {
        self.online
    }

    /// A session's peer is here, over a new link.
    pub(super) fn attach(
        &mut self,
        id: SessionId,
        arrival: Arrival,
        limits: &Limits,
        now: Time,
    ) -> Option<&mut Session> {
        let session = self.all.get_mut(id)?;
        self.online += usize::from(session.connection.attach(arrival, limits, now));
        Some(session)
    }

    /// A session has no link from now on.
    pub(super) fn detach(&mut self, id: SessionId, now: Time) -> Option<&mut Session> {
        let session = self.all.get_mut(id)?;
        self.online -= usize::from(session.detach(now));
        Some(session)
    }

    // --- subscriptions

    /// Subscriptions of all sessions.
    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// A session has one subscription more; what it costs.
    pub(crate) fn hold(
        &mut self,
        id: SessionId,
        filter: &str,
        group: Option<GroupId>,
    ) -> Option<usize> {
        let session = self.all.get_mut(id)?;
        self.subscriptions += 1;
        Some(session.subscriptions.add(filter, group))
    }

    /// A session's subscription is over, if it has it.
    pub(crate) fn let_go(
        &mut self,
        id: SessionId,
        filter: &str,
        group: Option<GroupId>,
    ) -> Option<Held> {
        let session = self.all.get_mut(id)?;
        let held = session.subscriptions.remove(filter, group)?;
        self.subscriptions -= 1;
        Some(held)
    }

    /// All of a session's subscriptions are over.
    pub(crate) fn let_all_go(&mut self, id: SessionId) -> Vec<Held> {
        let session = self.all.get_mut(id);
        let held = session.map_or_else(Vec::new, |session| session.subscriptions.take());
        self.subscriptions -= held.len();
        held
    }

    // --- what is left to do

    /// Whether sessions have something to do in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !self.scanning.is_empty() || !self.thrown_out.is_empty() || !self.ended.is_empty()
    }

    /// Takes what waited for a session that has ended; the memory of many is given back later.
    pub(super) fn add_ended(&mut self, entries: VecDeque<Entry>) {
        if entries.len() > CLEARED_PER_CALL {
            self.ended.push_back(entries);
        }
    }

    /// Gives back memory of what waited for sessions that have ended.
    pub(crate) fn clear_ended(&mut self) {
        let mut left = CLEARED_PER_CALL;
        while let Some(entries) = self.ended.front_mut() {
            let some = left.min(entries.len());
            entries.drain(..some);
            left -= some;
            if left == 0 {
                return;
            }
            self.ended.pop_front();
        }
    }

    /// A session goes on with its scans in the next turn.
    pub(crate) fn scan_later(&mut self, id: SessionId) {
        self.scanning.push(id);
    }

    pub(crate) fn take_scanning(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.scanning)
    }

    /// What follows from a session's being thrown out comes in the next turn.
    pub(crate) fn was_thrown_out(&mut self, id: SessionId) {
        self.thrown_out.push(id);
    }

    pub(crate) fn take_thrown_out(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.thrown_out)
    }

    /// Up to `max` numbers, of sessions or of none, behind those that were given last.
    pub(crate) fn sweep_next(&mut self, max: usize) -> impl Iterator<Item = SessionId> + use<> {
        let numbers = self.all.capacity();
        let (count, last) = (max.min(numbers), self.swept_last as usize);
        let nth = move |n: usize| ((last + n) % numbers) as u32;
        if count > 0 {
            self.swept_last = nth(count);
        }
        (1..=count).map(move |n| SessionId(nth(n)))
    }
}
