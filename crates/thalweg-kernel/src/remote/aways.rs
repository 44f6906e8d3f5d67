//! Members of groups that are owned here, where their sessions are on other shards.
//!
//! *Knows:* what other shards have said of them: terms, rights, whether there is room; and what is under way to them.
//! *Must never know:* their sessions.

use crate::access::Access;
use crate::groups::given_back::BackId;
use crate::groups::work_terms::OrderKey;
use crate::ids::{GroupId, SessionId, ShardId};
use crate::kernel::Map;
use crate::remote::group_mail::Notice;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_balance::Terms;
use thalweg_model::{Message, Reliability, Time};

/// Marks the number of a member whose session is on another shard.
const AWAY: u32 = 1 << 31;

/// Whether a member's session is on another shard; then the number is that of its seat away.
pub(crate) fn is_away(id: SessionId) -> bool {
    id.0 & AWAY != 0
}

pub(crate) struct Away {
    shard: ShardId,
    group: GroupId,
    /// What its shard said last.
    said: Notice,
    /// Errands of these numbers were under way to it when it was announced anew, and come back: nothing may overtake them.
    returning: (u64, u64),
    /// What is to be settled and is not, by number, with the time at which it left.
    errands: BTreeMap<u64, (Message, Time, BackId)>,
    /// When it last settled something.
    progress: Time,
    /// It has left, and errands are still under way.
    is_gone: bool,
}

/// All seats away of the groups that are owned here.
#[derive(Default)]
pub(crate) struct Aways {
    seats: Vec<Option<Box<Away>>>,
    free: Vec<u32>,
    by_sitting: Map<(ShardId, u32), u32>,
    errand_last: u64,
}

impl Aways {
    pub(crate) fn get(&self, id: SessionId) -> Option<&Away> {
        if !is_away(id) {
            return None;
        }
        self.seats.get((id.0 & !AWAY) as usize)?.as_deref()
    }

    fn get_mut(&mut self, id: SessionId) -> Option<&mut Away> {
        self.seats.get_mut((id.0 & !AWAY) as usize)?.as_deref_mut()
    }

    /// The member that a shard announced under a number.
    pub(crate) fn find(&self, shard: ShardId, sitting: u32) -> Option<SessionId> {
        self.by_sitting
            .get(&(shard, sitting))
            .map(|at| SessionId(at | AWAY))
    }

    /// A shard announces a member, or says that something about it has changed.
    pub(crate) fn announce(&mut self, from: ShardId, group: GroupId, notice: Notice) -> SessionId {
        let known = self.find(from, notice.sitting);
        let errand_last = self.errand_last;
        if let Some(id) = known {
            if let Some(away) = self.get_mut(id) {
                away.renew(notice, errand_last);
            }
            return id;
        }
        let name = (from, notice.sitting);
        let at = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() as u32 - 1
        });
        if let Some(seat) = self.seats.get_mut(at as usize) {
            *seat = Some(Box::new(Away::new(from, group, notice)));
        }
        self.by_sitting.insert(name, at);
        SessionId(at | AWAY)
    }

    /// Forgets a member; its group.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<GroupId> {
        let at = id.0 & !AWAY;
        let away = *self.seats.get_mut(at as usize)?.take()?;
        self.by_sitting.remove(&(away.shard, away.said.sitting));
        self.free.push(at);
        Some(away.group)
    }

    /// Names an errand for a member, and remembers it if it is to be settled.
    pub(crate) fn send(
        &mut self,
        id: SessionId,
        message: &Message,
        upgrades: bool,
        back: BackId,
        now: Time,
    ) -> Option<Sent> {
        self.errand_last += 1;
        let number = self.errand_last;
        let away = self.get_mut(id)?;
        let is_open = away.reliability_of(message, upgrades) > Reliability::AtMostOnce;
        if is_open {
            away.errands.insert(number, (message.clone(), now, back));
        }
        Some(Sent {
            shard: away.shard,
            sitting: away.said.sitting,
            epoch: away.said.epoch,
            number,
            is_open,
            settles: is_open && away.said.terms.settles,
        })
    }

    /// An errand is settled, or back.
    pub(crate) fn answered(
        &mut self,
        id: SessionId,
        number: u64,
        is_done: bool,
        now: Time,
    ) -> Option<(Message, BackId)> {
        let away = self.get_mut(id)?;
        let (message, _, back) = away.errands.remove(&number)?;
        if is_done {
            away.progress = now;
        }
        Some((message, back))
    }

    /// A member can take nothing until it is announced anew.
    pub(crate) fn shut(&mut self, id: SessionId) {
        if let Some(away) = self.get_mut(id) {
            away.said.is_shut = true;
        }
    }

    /// A member has no link any more, and perhaps has left.
    pub(crate) fn go_down(&mut self, id: SessionId, has_left: bool) {
        if let Some(away) = self.get_mut(id) {
            (away.said.opening, away.is_gone) = (None, has_left);
        }
    }
}

/// An errand that leaves.
pub(crate) struct Sent {
    pub shard: ShardId,
    pub sitting: u32,
    pub epoch: u32,
    pub number: u64,
    pub is_open: bool,
    /// The member's receiver settles it.
    pub settles: bool,
}

impl Away {
    fn new(shard: ShardId, group: GroupId, said: Notice) -> Self {
        Away {
            shard,
            group,
            said,
            returning: (1, 0),
            errands: BTreeMap::new(),
            progress: Time::ZERO,
            is_gone: false,
        }
    }

    fn renew(&mut self, notice: Notice, errand_last: u64) {
        if self.said.epoch != notice.epoch {
            self.returning = (notice.seen + 1, errand_last);
        }
        self.said = notice;
    }

    /// The shard that has its session, and the number under which that announced it.
    pub(crate) fn name(&self) -> (ShardId, u32) {
        (self.shard, self.said.sitting)
    }

    pub(crate) fn group(&self) -> GroupId {
        self.group
    }

    pub(crate) fn client(&self) -> &Arc<str> {
        &self.said.client
    }

    /// Its session's number; the same over links.
    pub(crate) fn uid(&self) -> u64 {
        self.said.uid
    }

    pub(crate) fn terms(&self) -> Terms {
        self.said.terms
    }

    pub(crate) fn ordered(&self) -> Option<OrderKey> {
        self.said.ordered
    }

    /// What it may do; nothing once it has left.
    pub(crate) fn access(&self) -> Option<&Access> {
        (!self.is_gone).then_some(&self.said.access)
    }

    /// Whether it takes nothing for now.
    pub(crate) fn is_shut(&self) -> bool {
        self.said.is_shut
    }

    /// Whether it was silent before and gets one message at a time.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.said.on_trial
    }

    /// Whether it has left, and nothing is under way to it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone && self.errands.is_empty()
    }

    /// Whether a message could leave for it right now.
    pub(crate) fn can_take(&self, message: &Message, upgrades: bool) -> bool {
        if self.said.opening.is_none() || self.said.is_shut || self.is_waiting_for_errands() {
            return false;
        }
        let out = self.errands.len() as u32;
        (!self.said.on_trial || out == 0)
            && (self.reliability_of(message, upgrades) == Reliability::AtMostOnce
                || out < self.said.terms.window_max)
            && self.said.access.may_receive(message)
    }

    /// How surely it gets a message; `upgrades`: as surely as it wanted, however that was published.
    fn reliability_of(&self, message: &Message, upgrades: bool) -> Reliability {
        match upgrades {
            true => self.said.reliability,
            false => self.said.reliability.min(message.reliability()),
        }
    }

    /// Since when it has not settled its oldest errand, or anything.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        let (_, (_, left, _)) = self.errands.first_key_value()?;
        Some((*left).max(self.progress))
    }

    /// A message that it has and that others may have.
    pub(crate) fn movable(&self, upgrades: bool) -> Option<&Message> {
        self.messages()
            .find(|message| self.reliability_of(message, upgrades) == Reliability::AtLeastOnce)
    }

    /// Tells a link from an earlier one; nothing if there is none.
    pub(crate) fn opening(&self) -> Option<u32> {
        self.said.opening
    }

    fn is_waiting_for_errands(&self) -> bool {
        let (first, last) = self.returning;
        first <= last && self.errands.range(first..=last).next().is_some()
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.errands.values().map(|(message, ..)| message)
    }
}
