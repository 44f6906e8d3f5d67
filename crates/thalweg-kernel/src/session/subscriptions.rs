//! The subscriptions of a session, and last values that it still waits for.

use crate::ids::GroupId;
use crate::memory::subscription_cost;
use crate::values::retained::Scan;

/// One subscription, as its session remembers it.
#[derive(Debug)]
pub(crate) struct Held {
    pub filter: Box<str>,
    /// The group, if it is a membership.
    pub group: Option<GroupId>,
    /// Bytes of memory that its content filter costs.
    pub condition_bytes: usize,
}

impl Held {
    /// Bytes of memory that it costs.
    pub(crate) fn cost(&self) -> usize {
        subscription_cost(&self.filter) + self.condition_bytes
    }
}

#[derive(Default)]
pub(crate) struct Subscriptions {
    held: Vec<Held>,
    /// Bytes of memory that their filters cost.
    bytes: usize,
    /// One after the other.
    scans: Vec<Scan>,
}

impl Subscriptions {
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.iter()
    }

    /// Bytes of memory that their filters cost.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of the session's own has exactly this filter.
    pub(crate) fn has(&self, filter: &str) -> bool {
        self.held
            .iter()
            .any(|held| held.group.is_none() && *held.filter == *filter)
    }

    /// What the new one costs.
    pub(super) fn add(&mut self, filter: &str, group: Option<GroupId>) -> usize {
        let cost = subscription_cost(filter);
        self.held.push(Held {
            filter: filter.into(),
            group,
            condition_bytes: 0,
        });
        self.bytes += cost;
        cost
    }

    /// What the content filter of a subscription costs from now on. Returns what it did.
    pub(super) fn set_condition(
        &mut self,
        filter: &str,
        group: Option<GroupId>,
        bytes: usize,
    ) -> usize {
        let is = |held: &&mut Held| held.group == group && *held.filter == *filter;
        let Some(held) = self.held.iter_mut().find(is) else {
            return 0;
        };
        let before = std::mem::replace(&mut held.condition_bytes, bytes);
        self.bytes = self.bytes - before + bytes;
        before
    }

    pub(super) fn remove(&mut self, filter: &str, group: Option<GroupId>) -> Option<Held> {
        let is = |held: &Held| held.group == group && *held.filter == *filter;
        let at = self.held.iter().rposition(is)?;
        let held = self.held.swap_remove(at);
        self.bytes -= held.cost();
        if group.is_none() {
            self.scans.retain(|scan| scan.filter() != filter);
        }
        Some(held)
    }

    pub(super) fn take(&mut self) -> Vec<Held> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }

    // --- last values to come

    pub(crate) fn has_scans(&self) -> bool {
        !self.scans.is_empty()
    }

    pub(crate) fn scan_mut(&mut self, serial: u32) -> Option<&mut Scan> {
        self.scans.iter_mut().find(|scan| scan.is(serial))
    }

    pub(crate) fn add_scans(&mut self, scans: Vec<Scan>) {
        self.scans.extend(scans);
    }

    /// To work at them; [`Subscriptions::set_scans`] must follow with those that remain.
    pub(crate) fn take_scans(&mut self) -> Vec<Scan> {
        std::mem::take(&mut self.scans)
    }

    pub(crate) fn set_scans(&mut self, scans: Vec<Scan>) {
        self.scans = scans;
    }

    pub(super) fn forget_scans(&mut self) {
        self.scans = Vec::new();
    }
}
