//! A session: what its peer wants, what waits for it, what it has not settled.

use super::{Grants, HeldTickets, Meters, Will};
use crate::access::Access;
use crate::disk_queue::DiskQueue;
use crate::entry::Entry;
use crate::eviction::Trial;
use crate::ids::{GroupId, LinkId, Tag};
use crate::ledger::DropReason;
use crate::publish::Memo;
use crate::queue::Lines;
use crate::retained::Scan;
use crate::window::{SlotState, Window};
use crate::work_terms::SessionTerms;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Message, Span, Time};

/// One subscription, as its session remembers it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) filter: Box<str>,
    /// The group, if it is a membership.
    pub(crate) group: Option<GroupId>,
}

/// A peer's subscriptions, what waits for it and what it has not settled: all that its name finds again.
pub(crate) struct Session {
    pub(crate) client: Arc<str>,
    /// Unique in the broker's life, over restarts, and never reused.
    pub(crate) uid: u64,
    /// It outlives its link, and is written down.
    pub(crate) durable: bool,
    pub(crate) link: Option<LinkId>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) access: Access,
    /// Its rights have changed since some of what waits for it was routed: that is judged again before it is sent.
    pub(crate) judges_again: bool,
    /// The same of what is to be repeated.
    pub(crate) judges_repeats: bool,
    pub(crate) dialect: &'static str,
    /// Where it is told that its peer is here, if anywhere.
    pub(crate) presence: Option<Box<str>>,
    pub(crate) grants: Grants,
    pub(crate) expiry: Span,
    pub(crate) expires_at: Time,
    pub(crate) since: Time,
    pub(crate) will: Option<Box<Will>>,
    pub(crate) will_due: Time,
    pub(crate) subscriptions: Vec<Held>,
    /// Bytes of memory that the subscriptions' filters cost.
    pub(crate) filter_bytes: usize,
    /// What it costs beside them, as it was counted.
    pub(crate) weight: usize,
    pub(crate) memo: Memo,
    /// Exactly-once publishes of the peer that are not released yet.
    pub(crate) held: HeldTickets,
    pub(crate) in_flight_max: u16,
    /// The link's output is above its high-water mark; nothing that can wait is sent.
    pub(crate) congested: bool,
    /// Its link was ended for a full queue; what follows from that is still to come, in [`Kernel::work`].
    pub(crate) overflowed: bool,
    pub(crate) waiting: VecDeque<Entry>,
    /// Of all that waits, in memory and on disk.
    pub(crate) waiting_bytes: usize,
    /// What waits behind `waiting` on disk.
    pub(crate) disk: Option<Box<DiskQueue>>,
    pub(crate) window: Window,
    /// Unsettled deliveries of an earlier link that this link's receiver has no credit for yet.
    pub(crate) repeats: VecDeque<Tag>,
    /// How often it was opened: tells a link from an earlier one of the same number.
    pub(crate) openings: u32,
    /// Groups it is a member of.
    pub(crate) groups: Vec<GroupId>,
    pub(crate) group_in_flight: u32,
    /// When it was last done with the first of its groups' copies.
    pub(crate) group_progress: Time,
    /// When it is looked at whether it settles them in time.
    pub(crate) group_due: Time,
    /// Its receiver was silent before.
    pub(crate) trial: Option<Box<Trial>>,
    pub(crate) scans: Vec<Scan>,
    /// The first of its watches.
    pub(crate) watches: u32,
    /// What takes from queues with names, if it ever did.
    pub(crate) lines: Option<Box<Lines>>,
    /// What it says of the way it works, if it says anything.
    pub(crate) work: Option<Box<SessionTerms>>,
    pub(crate) meters: Option<Box<Meters>>,
    pub(crate) received: u64,
    pub(crate) routed: u64,
    /// Copies that an earlier run left behind.
    pub(crate) restored: u64,
    pub(crate) delivered: u64,
    pub(crate) expired: u64,
    /// Once publishers have waited for it.
    pub(crate) pace: Option<Box<crate::pace::Pace>>,
    /// Nothing until something is dropped.
    pub(crate) drops: Option<Box<[u64; DropReason::ALL.len()]>>,
}

// Each session, also one that is away; a limit is the size of today and only shrinks.
const _: () = assert!(size_of::<Session>() <= 616);

impl Session {
    pub(crate) fn has_credit(&self) -> bool {
        self.window.len() < u32::from(self.in_flight_max)
    }

    /// Whether a copy that must be settled can leave right now.
    pub(crate) fn can_take(&self) -> bool {
        self.link.is_some() && !self.congested && self.is_queue_empty() && self.has_credit()
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.waiting.is_empty() && self.disk.is_none()
    }

    /// What it was given through a group and has not settled.
    pub(crate) fn entries_of_group(
        &mut self,
        group_id: GroupId,
    ) -> impl Iterator<Item = &mut Entry> {
        self.copies()
            .filter(move |entry| entry.group() == Some(group_id))
    }

    /// What it was given and has not settled, but for what is on disk.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = &mut Entry> {
        let sent = self
            .window
            .iter_mut()
            .filter_map(|(_, slot)| match &mut slot.state {
                SlotState::ExpectSettle(entry) => Some(entry),
                _ => None,
            });
        sent.chain(&mut self.waiting)
    }

    /// Messages of a group that it is not done with: not settled, or settled in the first of two steps.
    pub(crate) fn messages_of_group(
        &mut self,
        group_id: GroupId,
    ) -> impl Iterator<Item = &Message> {
        let sent = self
            .window
            .iter_mut()
            .filter_map(move |(_, slot)| match &slot.state {
                SlotState::ExpectSettle(entry) => {
                    (entry.group() == Some(group_id)).then_some(&entry.message)
                }
                SlotState::ExpectReleased { of_group, .. } => of_group
                    .as_ref()
                    .filter(|(group, _)| *group == group_id)
                    .map(|(_, message)| message),
            });
        let waiting = self
            .waiting
            .iter()
            .filter(move |entry| entry.group() == Some(group_id));
        sent.chain(waiting.map(|entry| &entry.message))
    }

    /// What it has of a group is its own from now on: names in the journal's queue of the group.
    pub(crate) fn detach_from_group(&mut self, group_id: GroupId) -> Vec<u64> {
        let mut left = Vec::new();
        for entry in self.entries_of_group(group_id) {
            entry.leave_group();
            if std::mem::take(&mut entry.of_group) {
                left.push(std::mem::take(&mut entry.serial));
            }
        }
        for (_, slot) in self.window.iter_mut() {
            if let SlotState::ExpectReleased { of_group, .. } = &mut slot.state {
                of_group.take_if(|(group, _)| *group == group_id);
            }
        }
        self.count_groups();
        left
    }

    /// Counts what it has of groups and is not done with.
    fn count_groups(&mut self) {
        let of_groups = self
            .window
            .iter_mut()
            .filter(|(_, slot)| match &slot.state {
                SlotState::ExpectSettle(entry) => entry.group().is_some(),
                SlotState::ExpectReleased { of_group, .. } => of_group.is_some(),
            });
        self.group_in_flight = of_groups.count() as u32;
    }

    /// How many copies wait, in memory and on disk.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len() + self.disk.as_ref().map_or(0, |disk| disk.len())
    }

    /// Memory that what waits takes.
    pub(crate) fn memory_held(&self) -> usize {
        let disk = self
            .disk
            .as_ref()
            .map_or((0, 0), |disk| (disk.bytes(), disk.memory()));
        self.waiting_bytes - disk.0 + disk.1
    }
}
