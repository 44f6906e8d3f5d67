//! Sessions that left a group with something of it that they had not settled.
//!
//! That stays the group's, as it was with a member: the session may settle it, and if its link ends before that, others get
//! it. So the group has to know where it is for as long as there is a group: numbers of groups are used again.

use crate::Kernel;
use crate::ids::{GroupId, SessionId};

/// Sessions and their numbers. They outlast an order.
pub(crate) type Leavers = Vec<(SessionId, u64)>;

/// With so many, and each time they are twice as many, those that have nothing any more are forgotten.
const LEAVERS_MANY: usize = 32;

impl Kernel {
    /// A session leaves a group.
    pub(crate) fn note_leaver(&mut self, id: SessionId, group_id: GroupId) {
        let Some(uid) = self.sessions.get(id).map(|session| session.uid()) else {
            return;
        };
        if !self.has_of_group(id, uid, group_id) {
            return;
        }
        let Some(leavers) = self.leavers_mut(group_id) else {
            return;
        };
        let mut kept = std::mem::take(leavers);
        if kept.len() >= LEAVERS_MANY && kept.len().is_power_of_two() {
            kept.retain(|(id, uid)| self.has_of_group(*id, *uid, group_id));
        }
        if !kept.contains(&(id, uid)) {
            kept.push((id, uid));
        }
        if let Some(leavers) = self.leavers_mut(group_id) {
            *leavers = kept;
        }
    }

    /// A group or its queue ends: what sessions have that left it is theirs.
    pub(crate) fn end_leavers(&mut self, group_id: GroupId) {
        let leavers = self
            .leavers_mut(group_id)
            .map(std::mem::take)
            .unwrap_or_default();
        for (id, uid) in leavers {
            let Some(session) = self
                .sessions
                .get_mut(id)
                .filter(|session| session.uid() == uid)
            else {
                continue;
            };
            for serial in session.detach_from_group(group_id) {
                self.persist_group_removed(group_id, serial);
            }
        }
    }

    /// Those that are still there.
    pub(crate) fn leavers_of(&self, group_id: GroupId) -> impl Iterator<Item = SessionId> + '_ {
        let seats = self.groups.get(group_id).and_then(|group| group.seats());
        let leavers = seats.map_or(&[][..], |seats| seats.leavers());
        let is_there = |(id, uid): &&(SessionId, u64)| {
            self.sessions.get(*id).is_some_and(|it| it.uid() == *uid)
        };
        leavers.iter().filter(is_there).map(|(id, _)| *id)
    }

    fn leavers_mut(&mut self, group_id: GroupId) -> Option<&mut Leavers> {
        Some(self.groups.get_mut(group_id)?.seats_mut()?.leavers_mut())
    }

    fn has_of_group(&mut self, id: SessionId, uid: u64, group_id: GroupId) -> bool {
        let Some(session) = self
            .sessions
            .get_mut(id)
            .filter(|session| session.uid() == uid)
        else {
            return false;
        };
        session.messages_of_group(group_id).next().is_some()
            || session
                .lines
                .as_ref()
                .is_some_and(|lines| lines.copies_of_group(group_id).next().is_some())
    }
}
