//! A group that takes from a queue: the queue asks it for a member.

use crate::Kernel;
use crate::effects::{Effects, Holder};
use crate::groups::group::Member;
use crate::groups::ordered::LOOK_ANEW;
use crate::groups::seats::{Chosen, Key, key};
use crate::ids::{GroupId, QueueId, SessionId};
use crate::queue::{Item, Selectors, is_queue_address};
use crate::remote::aways::is_away;
use thalweg_model::{Message, Time};

impl Kernel {
    /// Its queue is gone: what members have is theirs alone.
    pub(crate) fn group_lost_queue(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.lose_queue();
        self.end_leavers(group_id);
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let members: Vec<SessionId> = group
            .members()
            .iter()
            .map(|member| member.session)
            .collect();
        for member in members {
            if let Some(session) = self.sessions.get_mut(member) {
                session.detach_from_group(group_id);
            }
        }
    }

    pub(crate) fn is_fed(&self, group_id: GroupId) -> bool {
        self.groups
            .get(group_id)
            .is_some_and(|group| group.feed().is_some())
    }

    /// Whether a group takes from a queue, and this is not the shard of queues.
    pub(crate) fn is_of_queue_elsewhere(&self, group_id: GroupId) -> bool {
        let group = self.groups.get(group_id);
        !self.has_queues() && group.is_some_and(|group| is_queue_address(group.filter()))
    }

    /// The group through which a session takes from the queue of that number.
    pub(crate) fn group_of_queue(&self, id: SessionId, number: u64) -> Option<GroupId> {
        let session = self.sessions.get(id)?;
        let is_meant = |queue_id| {
            self.queues
                .get(queue_id)
                .is_some_and(|queue| queue.journal_number() == number)
        };
        let of = |group_id: &&GroupId| {
            let group = self.groups.get(**group_id);
            group.is_some_and(|group| group.feed().is_some_and(is_meant))
        };
        session.membership.groups().iter().find(of).copied()
    }

    /// Whether a member, here or elsewhere, could take a message.
    pub(crate) fn has_member_for(&self, group_id: GroupId, message: &Message) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let (upgrades, screen) = (
            group.policy().upgrade_reliability,
            self.screen(group, message),
        );
        group.everybody().any(|member| {
            self.member_can_take(member, message, upgrades) && screen.passes(key(member))
        })
    }

    /// Whether one of certain members, here or elsewhere, may have a message and could take it.
    pub(crate) fn has_member_that(
        &self,
        group_id: GroupId,
        message: &Message,
        is: impl Fn(&Member, Option<&Selectors>) -> bool,
    ) -> bool {
        let upgrades = self.upgrades(group_id);
        self.groups.get(group_id).is_some_and(|group| {
            group.everybody().any(|member| {
                self.member_can_take(member, message, upgrades)
                    && self.member_may_have(member.session, group, message)
                    && is(member, group.selectors())
            })
        })
    }

    /// Whether a message stays in its queue until it is marked as delivered, because members of this group are on other
    /// shards.
    pub(crate) fn waits_for_mark(
        &mut self,
        queue_id: QueueId,
        group_id: GroupId,
        serial: u64,
    ) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| !group.away().is_empty())
            && !self.is_marked(Holder::Queue(queue_id), serial)
    }

    /// Gives an item of a queue to a member of a group that is not excepted; it is returned if none can take it.
    pub(crate) fn give_to_member<E: Effects>(
        &mut self,
        queue_id: QueueId,
        group_id: GroupId,
        item: Item,
        except: &[Key],
        now: Time,
        fx: &mut E,
    ) -> Option<Item> {
        let again = item.deliveries > 0;
        let chosen = self.choose_member(group_id, &item.message, again, except, now);
        if matches!(chosen, Chosen::Bound) {
            self.look_at_group(group_id, now + LOOK_ANEW);
        }
        let Chosen::Member(member) = chosen else {
            return Some(item);
        };
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.gave();
        }
        let serial = item.serial;
        if is_away(member.session) {
            self.note_unheld_delivery(queue_id, serial);
            self.send_errand(group_id, member.session, item, now);
            return None;
        }
        self.note_delivery(Holder::Queue(queue_id), serial, member.session, fx);
        let (number, upgrades) = (self.group_number(group_id), self.upgrades(group_id));
        let entry = crate::entry::Entry {
            serial,
            ..member.entry(group_id, item.message, item.deliveries, upgrades)
        };
        self.hand_out(member.session);
        let from = if serial == 0 { 0 } else { number };
        self.move_to(member, entry, from, group_id, now, fx);
        None
    }
}
