//! What waits in a group some of whose members have content filters: each message goes to a member whose filter it passes, and
//! one that has to wait for its member does not hold up what is for others.
//!
//! Each member looks at a message once, as a consumer of a queue does.

use crate::Kernel;
use crate::groups::group::Member;
use crate::groups::seats::{Key, key};
use crate::ids::GroupId;
use crate::queue::ASKED_PER_CALL;
use smallvec::SmallVec;
use thalweg_model::Time;

/// One call's way through what waits in a group.
#[derive(Default)]
pub(crate) struct Search {
    /// Members that wait for what was not given to them, and look at nothing behind it.
    resting: SmallVec<[Key; 8]>,
    /// How often members were asked.
    asked: usize,
}

impl Kernel {
    /// Whether a member of a group has a content filter.
    pub(crate) fn is_selected_by(&self, group_id: GroupId) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| group.selectors().is_some())
    }

    /// Members that can be given something, as far as is known without a message.
    pub(crate) fn free_members(&self, group_id: GroupId) -> impl Iterator<Item = &Member> {
        let is_free = |member: &&Member| match member.line {
            Some(line) => self.consumer_can_take(member.session, line.line, line.consumer),
            None => self.member_is_there(member.session) && !self.member_is_full(member.session),
        };
        let group = self.groups.get(group_id);
        let members = group.into_iter().flat_map(|group| group.everybody());
        members.filter(is_free)
    }

    /// Those of them that do not rest.
    fn lookers(&self, group_id: GroupId, search: &Search) -> SmallVec<[Key; 8]> {
        let free = self.free_members(group_id).map(key);
        free.filter(|it| !search.resting.contains(it)).collect()
    }

    /// The place of the first message that a member which can be given something has not looked at, may have and selects.
    pub(crate) fn next_selected(
        &mut self,
        group_id: GroupId,
        search: &mut Search,
        now: Time,
    ) -> Option<usize> {
        self.seat_if_stale(group_id, now);
        let lookers = self.lookers(group_id, search);
        loop {
            let group = self.groups.get(group_id)?;
            let selectors = group.selectors()?;
            let places = lookers
                .iter()
                .filter_map(|it| selectors.next(*it, &group.waiting));
            let place = places.min_by_key(|place| group.waiting.rank(*place))?;
            if search.asked >= ASKED_PER_CALL {
                self.look_at_group(group_id, now);
                return None;
            }
            let looking = lookers.iter().filter(|it| !selectors.has_seen(**it, place));
            let looking: SmallVec<[Key; 8]> = looking.copied().collect();
            for (at, item) in group.waiting.run_at(place) {
                let screen = self.screen(group, &item.message);
                search.asked += looking.len();
                if looking.iter().any(|it| {
                    self.member_may_have(it.0, group, &item.message) && screen.passes(*it)
                }) {
                    return Some(group.waiting.index_of(place, at));
                }
            }
            let selectors = self.groups.get_mut(group_id)?.selectors_mut()?;
            looking.iter().for_each(|it| selectors.pass(*it, place));
        }
    }

    /// The message at this place was given to none of those that select it: they wait for it.
    pub(crate) fn rest_at(&self, group_id: GroupId, at: usize, search: &mut Search) {
        let lookers = self.lookers(group_id, search);
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let Some(item) = group.waiting.get(at) else {
            return;
        };
        let screen = self.screen(group, &item.message);
        let waits =
            |it: &Key| self.member_may_have(it.0, group, &item.message) && screen.passes(*it);
        search.resting.extend(lookers.into_iter().filter(waits));
    }
}
