//! What a session has to do with groups: of which it is a member, whether it settles what they give it in time, and what
//! holds for it if it did not.

use crate::groups::work_terms::SessionTerms;
use crate::ids::GroupId;
use thalweg_model::Time;

pub(crate) struct Membership {
    groups: Vec<GroupId>,
    /// When the session last settled the first of its groups' copies.
    progress: Time,
    /// When it is looked at whether it settles them in time.
    due: Time,
    /// Its receiver was silent before.
    trial: Option<Box<Trial>>,
    /// What it says of the way it works, if it says anything.
    pub terms: Option<Box<SessionTerms>>,
}

/// The terms of a session whose receiver was silent, until it settles something of a group's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// It gets nothing before.
    until: Time,
    waits: bool,
}

impl Trial {
    pub(crate) fn until(until: Time, now: Time) -> Self {
        Trial {
            until,
            waits: until > now,
        }
    }

    pub(crate) fn ends_at(&self) -> Time {
        self.until
    }

    /// Whether it gets nothing yet.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// True if its wait ends with that.
    pub(crate) fn is_over(&mut self, now: Time) -> bool {
        self.waits && self.until <= now && std::mem::take(&mut self.waits)
    }
}

impl Default for Membership {
    fn default() -> Self {
        Membership {
            groups: Vec::new(),
            progress: Time::ZERO,
            due: Time::NEVER,
            trial: None,
            terms: None,
        }
    }
}

impl Membership {
    #[inline]
    pub(crate) fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    pub(crate) fn join(&mut self, group: GroupId) {
        self.groups.push(group);
    }

    pub(crate) fn leave(&mut self, group: GroupId) {
        self.groups.retain(|other| *other != group);
    }

    pub(super) fn progress(&self) -> Time {
        self.progress
    }

    pub(super) fn note_progress(&mut self, now: Time) {
        self.progress = now;
    }

    /// It is looked at `at`, if it would not have been before; true if a timer must be set for that.
    pub(crate) fn look_at(&mut self, at: Time) -> bool {
        let is_earlier = at < self.due;
        self.due = self.due.min(at);
        is_earlier
    }

    /// Whether it is time to look; then no other time is set.
    pub(crate) fn take_due(&mut self, now: Time) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = Time::NEVER;
        }
        is_due
    }

    pub(crate) fn trial(&self) -> Option<&Trial> {
        self.trial.as_deref()
    }

    pub(crate) fn trial_mut(&mut self) -> Option<&mut Trial> {
        self.trial.as_deref_mut()
    }

    pub(crate) fn set_trial(&mut self, trial: Option<Box<Trial>>) {
        self.trial = trial;
    }

    /// True if there was one.
    #[inline]
    pub(crate) fn end_trial(&mut self) -> bool {
        self.trial.take().is_some()
    }
}
