//! Memberships of sessions here in groups that other shards own.
//!
//! *Knows:* which owner has which member, which deliveries are errands, and which changes are still to be reported.
//! *Must never know:* how the owner chooses, nor a session.

use crate::groups::seats::{Key, key_of};
use crate::ids::{GroupId, SessionId, ShardId};
use crate::kernel::Map;
use crate::remote::group_mail::{CopyBack, Report, SeatEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_balance::{Parcel, Step};
use thalweg_model::Time;

/// What owners have of members here, and which changes are still to be reported.
#[derive(Default)]
pub(crate) struct SeatsAway {
    /// By session, line, consumer and group.
    here: BTreeMap<Place, Here>,
    by_sitting: Map<u32, Place>,
    sitting_last: u32,
    epoch_last: u32,
    /// Sittings that could take nothing.
    shut: Vec<u32>,
    /// Deliveries that are to be settled, by session, line and tag.
    errands: BTreeMap<(u32, u16, u64), Running>,
    /// The number of the last errand that came, by owner.
    seen: Map<ShardId, u64>,
    /// The errand that is just being run.
    current: Option<Running>,
    /// The sitting and number of one that did not fit, while it goes back.
    unsent: Option<(u32, u64, i64)>,
    reports: Vec<(ShardId, Report)>,
    /// Members that have to be reported to their owners again, and whether all have to be.
    retell: Vec<SessionId>,
    retell_all: bool,
}

/// Names a membership: session, line, consumer and group.
pub(crate) type Place = (u32, u16, u32, GroupId);

/// A membership that its owner knows.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub owner: ShardId,
    pub sitting: u32,
    /// 0 while it is shut or has no link.
    pub epoch: u32,
}

/// An errand that a member has.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub owner: ShardId,
    pub sitting: u32,
    pub number: u64,
    pub group: GroupId,
}

pub(crate) fn place(group_id: GroupId, member: Key) -> Place {
    (member.0.0, member.1, member.2, group_id)
}

pub(crate) fn member_of(place: Place) -> Key {
    (SessionId(place.0), place.1, place.2)
}

impl SeatsAway {
    fn report(&mut self, owner: ShardId) -> &mut Report {
        let at = self
            .reports
            .iter()
            .position(|(shard, _)| *shard == owner)
            .unwrap_or_else(|| {
                self.reports.push((owner, Report::default()));
                self.reports.len() - 1
            });
        &mut self.reports[at].1
    }

    pub(crate) fn say(&mut self, owner: ShardId, sitting: u32, said: SeatEvent) {
        self.report(owner).said.push((sitting, said));
    }

    pub(crate) fn bring(&mut self, owner: ShardId, key: Arc<str>, copy: CopyBack) {
        let copies = &mut self.report(owner).copies;
        match copies.iter_mut().find(|(known, _)| *known == key) {
            Some((_, copies)) => copies.push(copy),
            None => copies.push((key, vec![copy])),
        }
    }

    /// A shut seat takes nothing, not even what has room again, until the owner knows that it is open: what the owner sent
    /// before would overtake what went back.
    pub(crate) fn shut(&mut self, sitting: u32) {
        let Some(here) = self
            .by_sitting
            .get(&sitting)
            .and_then(|place| self.here.get_mut(place))
        else {
            return;
        };
        if here.epoch != 0 {
            here.epoch = 0;
            let owner = here.owner;
            self.shut.push(sitting);
            self.say(owner, sitting, SeatEvent::Shut);
        }
    }

    /// Whether [`Kernel::tell_owners`] has something to do.
    pub(crate) fn has_news(&self) -> bool {
        !self.reports.is_empty() || !self.retell.is_empty() || self.retell_all
    }

    /// What an owner knows of a session is no longer right.
    pub(crate) fn has_changed(&mut self, id: SessionId) {
        if !self.here.is_empty() && !self.retell.contains(&id) {
            self.retell.push(id);
        }
    }

    /// What owners know of all sessions is no longer right.
    pub(crate) fn have_changed(&mut self) {
        self.retell_all = !self.here.is_empty();
    }

    /// A delivery is settled, or not; whether it was an errand.
    pub(crate) fn end(&mut self, of: Key, tag: u64, is_done: bool) -> bool {
        if self.errands.is_empty() {
            return false;
        }
        let Some(running) = self.errands.remove(&(of.0.0, of.1, tag)) else {
            return false;
        };
        let said = if is_done {
            SeatEvent::Done(running.number)
        } else {
            SeatEvent::Back(running.number)
        };
        self.say(running.owner, running.sitting, said);
        true
    }

    /// A delivery is taken away from its receiver.
    pub(crate) fn give_back(&mut self, of: Key, tag: u64) {
        self.end(of, tag, false);
    }

    /// The group has nothing to do any more with deliveries that are meant.
    fn give_up_errands(&mut self, id: SessionId, is_meant: impl Fn(&Running) -> bool) {
        let range = (id.0, 0, 0)..=(id.0, u16::MAX, u64::MAX);
        let meant = self
            .errands
            .range(range)
            .filter(|(_, running)| is_meant(running));
        let given_up: Vec<((u32, u16, u64), Running)> =
            meant.map(|(at, running)| (*at, *running)).collect();
        for (at, running) in given_up {
            self.errands.remove(&at);
            self.say(
                running.owner,
                running.sitting,
                SeatEvent::Back(running.number),
            );
        }
    }

    /// A session has no link any more.
    fn go_down(&mut self, place: Place) {
        let Some(here) = self.here.get_mut(&place) else {
            return;
        };
        here.epoch = 0;
        let (owner, sitting) = (here.owner, here.sitting);
        self.shut.retain(|shut| *shut != sitting);
        self.say(owner, sitting, SeatEvent::Down);
    }

    pub(crate) fn get_up(&mut self, place: Place) {
        let Some(here) = self.here.remove(&place) else {
            return;
        };
        self.by_sitting.remove(&here.sitting);
        self.shut.retain(|sitting| *sitting != here.sitting);
        self.say(here.owner, here.sitting, SeatEvent::Left);
    }

    // --- members sit down and get up

    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    pub(crate) fn at(&self, place: &Place) -> Option<Here> {
        self.here.get(place).copied()
    }

    pub(crate) fn place_of(&self, sitting: u32) -> Option<Place> {
        self.by_sitting.get(&sitting).copied()
    }

    /// A member sits down, or something about it has changed; `waits` if it may have nothing yet.
    pub(crate) fn sit(
        &mut self,
        place: Place,
        owner: ShardId,
        has_link: bool,
        waits: bool,
    ) -> Here {
        let mut here = self.at(&place).unwrap_or_else(|| {
            self.sitting_last = self.sitting_last.wrapping_add(1);
            Here {
                owner,
                sitting: self.sitting_last,
                epoch: 0,
            }
        });
        self.shut.retain(|sitting| *sitting != here.sitting);
        if !has_link || waits {
            here.epoch = 0;
            if waits {
                self.shut.push(here.sitting);
            }
        } else if here.epoch == 0 {
            self.epoch_last = self.epoch_last.wrapping_add(1).max(1);
            here.epoch = self.epoch_last;
        }
        self.here.insert(place, here);
        self.by_sitting.insert(here.sitting, place);
        here
    }

    /// A session has no link any more.
    pub(crate) fn all_go_down(&mut self, id: SessionId) {
        let places = self.here.range((id.0, 0, 0, GroupId::MIN)..);
        let places = places.map(|(place, _)| *place);
        let places: Vec<Place> = places.take_while(|place| place.0 == id.0).collect();
        for place in places {
            self.go_down(place);
        }
    }

    /// Members of a group that could take nothing.
    pub(crate) fn shut_in(&self, group: GroupId) -> Vec<Place> {
        let places = self.shut.iter().filter_map(|shut| self.place_of(*shut));
        places.filter(|place| place.3 == group).collect()
    }

    // --- errands

    /// The number of the last errand that came from an owner; 0 if none did.
    pub(crate) fn seen(&self, owner: ShardId) -> u64 {
        self.seen.get(&owner).copied().unwrap_or(0)
    }

    pub(crate) fn came(&mut self, owner: ShardId, number: u64) {
        self.seen.insert(owner, number);
    }

    /// What is delivered next is this errand.
    pub(crate) fn begin(&mut self, running: Running) {
        self.current = Some(running);
    }

    /// Whether the errand that began has left since; it is not looked for any more.
    pub(crate) fn is_over(&mut self) -> bool {
        self.current.take().is_none()
    }

    /// A delivery left; whether it is the errand that is just being run.
    pub(crate) fn sent(&mut self, group: GroupId, to: Key, parcel: &Parcel) -> bool {
        let Some(running) = self.current.take() else {
            return false;
        };
        debug_assert_eq!(running.group, group);
        if parcel.settles {
            self.errands.insert((to.0.0, to.1, parcel.tag), running);
        }
        true
    }

    /// An exactly-once delivery has come so far; whether it was an errand.
    pub(crate) fn stepped(&mut self, of: Key, tag: u64, step: Step, now: Time) -> bool {
        let Some(running) = self.errands.get(&(of.0.0, of.1, tag)).copied() else {
            return false;
        };
        let said = SeatEvent::Stepped(running.number, step, now);
        self.say(running.owner, running.sitting, said);
        true
    }

    /// A session ends: what it holds is no errand from then on.
    pub(crate) fn give_up_all(&mut self, id: SessionId) {
        if !self.errands.is_empty() {
            self.give_up_errands(id, |_| true);
        }
    }

    /// A group ends here: none of its copies will be settled.
    pub(crate) fn give_up_group(&mut self, group: GroupId) {
        let of_group = self.errands.iter();
        let of_group = of_group.filter(|(_, running)| running.group == group);
        let sessions: Vec<SessionId> = of_group.map(|(at, _)| SessionId(at.0)).collect();
        for id in sessions {
            self.give_up_errands(id, |running| running.group == group);
        }
    }

    /// The sitting, number and place in line of an errand that did not fit, while it goes back.
    pub(crate) fn unsent(&self) -> Option<(u32, u64, i64)> {
        self.unsent
    }

    pub(crate) fn set_unsent(&mut self, unsent: Option<(u32, u64, i64)>) {
        self.unsent = unsent;
    }

    // --- reports to owners

    /// Says something of a session's own membership to the group's owner, if that knows of it.
    pub(crate) fn say_of(&mut self, group: GroupId, id: SessionId, said: SeatEvent) {
        if let Some(here) = self.at(&place(group, key_of(id))) {
            self.say(here.owner, here.sitting, said);
        }
    }

    pub(crate) fn has_copies_for(&self, owner: ShardId) -> bool {
        let mut reports = self.reports.iter();
        reports.any(|(shard, report)| *shard == owner && !report.copies.is_empty())
    }

    pub(crate) fn take_report(&mut self, owner: ShardId) -> Option<Report> {
        let mut reports = self.reports.iter();
        let at = reports.position(|(shard, _)| *shard == owner)?;
        Some(self.reports.swap_remove(at).1)
    }

    pub(crate) fn take_reports(&mut self) -> Vec<(ShardId, Report)> {
        std::mem::take(&mut self.reports)
    }

    /// Takes the memberships that have to be reported again.
    pub(crate) fn take_changed(&mut self) -> Vec<Place> {
        let all = std::mem::take(&mut self.retell_all);
        let some = std::mem::take(&mut self.retell);
        let places = self.here.keys().copied();
        let changed = |place: &Place| all || some.contains(&SessionId(place.0));
        match all || !some.is_empty() {
            true => places.filter(changed).collect(),
            false => Vec::new(),
        }
    }
}
