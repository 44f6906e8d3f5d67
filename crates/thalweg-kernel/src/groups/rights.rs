//! Which members of a group may be given a message.

use crate::Kernel;
use crate::access::Permission;
use crate::groups::group::{Group, Member};
use crate::groups::seats::key;
use crate::ids::{GroupId, SessionId};
use crate::publish::subject::Subject;
use crate::queue::Screen;
use crate::remote::group_home::may_sit;
use thalweg_model::Message;

impl Kernel {
    /// A message, as the content filters of a group's members are asked about it.
    pub(crate) fn screen<'a>(&self, group: &'a Group, message: &'a Message) -> Screen<'a> {
        Screen::new(group.selectors(), message, self.env.neutral())
    }

    /// Whether a message that has just come is for a group: it passes the filter of a member, or of one that is not known
    /// yet.
    pub(crate) fn is_for_group(&self, group_id: GroupId, message: &Message) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return true;
        };
        let screen = self.screen(group, message);
        group.selectors().is_none()
            || !group.knows_everybody()
            || group.everybody().any(|member| screen.passes(key(member)))
    }

    /// Whether this shard has members and none of them, here or away, may be given the message.
    pub(crate) fn is_forbidden(&self, group_id: GroupId, message: &Message) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let may = |member: &Member| self.member_may_have(member.session, group, message);
        group.everybody().next().is_some() && !group.everybody().any(may)
    }

    /// Whether a member may be given the message, and it passes that one's filter.
    pub(crate) fn is_for_a_member(
        &self,
        group_id: GroupId,
        message: &Message,
        subject: &Subject<'_>,
    ) -> bool {
        self.groups.get(group_id).is_some_and(|group| {
            group.everybody().any(|member| {
                let selectors = group.selectors();
                self.member_may_have(member.session, group, message)
                    && selectors.is_none_or(|it| it.passes(key(member), subject))
            })
        })
    }

    /// Whether a group has a member that may be given what is published at an address.
    pub(crate) fn has_member_allowed_at(&self, group_id: GroupId, address: &str) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        group
            .everybody()
            .any(|member| self.member_may_have_at(member.session, group, address))
    }

    /// The same of one that has no content filter.
    pub(crate) fn has_member_for_all_at(&self, group_id: GroupId, address: &str) -> bool {
        self.groups.get(group_id).is_some_and(|group| {
            let takes_all = |member: &&Member| !group.selects(member);
            let mut members = group.everybody().filter(takes_all);
            members.any(|member| self.member_may_have_at(member.session, group, address))
        })
    }

    /// Whether the member of a group may be given a message; if there is no such group any more, whether it may receive it.
    pub(crate) fn is_member_allowed(
        &self,
        group_id: GroupId,
        id: SessionId,
        message: &Message,
    ) -> bool {
        match self.groups.get(group_id) {
            Some(group) => self.member_may_have(id, group, message),
            _ => self
                .member_access(id)
                .is_some_and(|access| access.may_receive(message)),
        }
    }

    /// Whether a member of a group, here or away, may be given a message: it may receive it, and take it if the group takes
    /// from a queue.
    pub(crate) fn member_may_have(&self, id: SessionId, group: &Group, message: &Message) -> bool {
        self.member_access(id)
            .is_some_and(|access| access.may_receive(message) && may_sit(access, group))
    }

    /// The same of what is published at an address.
    pub(crate) fn member_may_have_at(&self, id: SessionId, group: &Group, address: &str) -> bool {
        self.member_access(id).is_some_and(|access| {
            access.allows(Permission::Receive, address) && may_sit(access, group)
        })
    }
}
