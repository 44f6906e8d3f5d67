//! Which member has returned which message of a group: others come first, and where there are none it waits a moment.
//!
//! *Knows:* members by their keys, and times. A returned message carries a number through the group's queue and its
//! deliveries; this file keeps what is known under that number. It is a preference and no promise, so little of it is
//! kept: the last of those who refused a message, and of messages the last that were refused.

use crate::Kernel;
use crate::groups::seats::{Chosen, Key};
use crate::ids::GroupId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use thalweg_model::{Message, Span, Time};

/// Most returned messages of a group whose members are recorded.
const MESSAGES_MAX: usize = 4096;
/// Members that are remembered of each; of more, who refused it first may be offered it before everybody has been.
const MEMBERS_MAX: usize = 16;
/// How long members that gave a message back are not offered it again while others may come to have room: from the second
/// time on, doubled each time, up to the longest. A consumer that is alone is asked again at once, but not for ever as
/// fast as it can refuse.
const PAUSE: Span = Span::from_millis(1);
const PAUSE_MAX: Span = Span::from_secs(1);

/// Number of a returned message within its group; 0 for all others.
pub(crate) type BackId = u32;

/// The returned messages of a group.
#[derive(Default)]
pub(crate) struct GivenBack {
    last: BackId,
    by_number: BTreeMap<BackId, Refused>,
}

#[derive(Clone, Default)]
struct Refused {
    /// The last is the last who did.
    by: SmallVec<[Key; 1]>,
    times: u32,
    /// Until then it is not offered to those that returned it.
    rests_until: Time,
}

/// How long a message rests that came back so often.
fn pause(times: u32) -> Span {
    match times {
        0 | 1 => Span::ZERO,
        _ => Span::from_nanos(PAUSE.nanos() << (times - 2).min(20)).min(PAUSE_MAX),
    }
}

impl GivenBack {
    /// A member gives a message back; under which number that is known.
    pub(crate) fn note(&mut self, known: BackId, by: Key, now: Time) -> BackId {
        let mut number = known;
        if !self.by_number.contains_key(&known) {
            if self.by_number.len() >= MESSAGES_MAX {
                self.by_number.pop_first();
            }
            self.last = self.last.wrapping_add(1).max(1);
            number = self.last;
        }
        let refused = self.by_number.entry(number).or_default();
        refused.by.retain(|other| *other != by);
        if refused.by.len() >= MEMBERS_MAX {
            refused.by.remove(0);
        }
        refused.by.push(by);
        refused.times = refused.times.saturating_add(1);
        refused.rests_until = now + pause(refused.times);
        number
    }

    /// A message is done with.
    #[inline]
    pub(crate) fn forget(&mut self, number: BackId) {
        if number != 0 {
            self.by_number.remove(&number);
        }
    }

    /// How many messages are known.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_number.len()
    }
}

impl Kernel {
    /// A member of a group that is owned here gives a message back.
    pub(crate) fn note_given_back(
        &mut self,
        group_id: GroupId,
        known: BackId,
        by: Key,
        now: Time,
    ) -> BackId {
        self.groups
            .get_mut(group_id)
            .map_or(0, |group| group.given_back.note(known, by, now))
    }

    /// A copy that was perhaps returned before will not be returned again: its record is removed.
    #[inline]
    pub(crate) fn forget_given_back(&mut self, group_id: GroupId, number: BackId) {
        if number != 0
            && let Some(group) = self.groups.get_mut(group_id)
        {
            group.given_back.forget(number);
        }
    }

    /// Chooses the member for a message that waits. A returned message goes to others first, and to those that returned
    /// it only after a pause, if no other can receive it.
    pub(crate) fn choose_again(
        &mut self,
        group_id: GroupId,
        message: &Message,
        again: bool,
        number: BackId,
        now: Time,
    ) -> Chosen {
        let group = self.groups.get_mut(group_id);
        let known = group.and_then(|group| group.given_back.by_number.get(&number).cloned());
        let Some(refused) = known.filter(|_| number != 0) else {
            return self.choose_member(group_id, message, again, &[], now);
        };
        let all = &refused.by[..];
        let last = &all[all.len().saturating_sub(1)..];
        let mut chosen = Chosen::Nobody;
        for except in [all, last, &[]] {
            chosen = self.choose_member(group_id, message, false, except, now);
            if matches!(chosen, Chosen::Member(_)) {
                return chosen;
            }
            if now < refused.rests_until {
                self.look_at_group(group_id, refused.rests_until);
                return Chosen::Bound;
            }
        }
        chosen
    }
}

/// Whether a member is among those.
#[inline]
pub(crate) fn is_among(by: &[Key], member: impl FnOnce() -> Key) -> bool {
    !by.is_empty() && by.contains(&member())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    fn key(number: u32) -> Key {
        (SessionId(number), 1, 1)
    }

    #[test]
    fn the_first_time_is_free_and_then_pauses_double_up_to_a_second() {
        let millis = [1, 2, 3, 11, 12, 40, u32::MAX].map(|times| pause(times).nanos() / 1_000_000);
        assert_eq!(millis, [0, 1, 2, 512, 1000, 1000, 1000]);
    }

    #[test]
    fn the_last_who_refused_are_remembered_of_the_last_messages() {
        let (mut given_back, now) = (GivenBack::default(), Time::from_secs(1));
        let first = given_back.note(0, key(0), now);
        for number in 1..40 {
            assert_eq!(given_back.note(first, key(number % 20), now), first);
        }
        let refused = &given_back.by_number[&first];
        assert_eq!(refused.by.len(), MEMBERS_MAX);
        assert_eq!((refused.by.last(), refused.times), (Some(&key(19)), 40));
        for _ in 0..2 * MESSAGES_MAX {
            assert_ne!(given_back.note(0, key(0), now), 0);
        }
        assert_eq!(given_back.len(), MESSAGES_MAX);
        assert!(!given_back.by_number.contains_key(&first));
        let last = given_back.last;
        given_back.forget(last);
        given_back.forget(0);
        assert_eq!(given_back.len(), MESSAGES_MAX - 1);
    }
}
