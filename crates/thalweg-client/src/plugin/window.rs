//! Publishes that wait for their acknowledgement, where a protocol numbers them one after the other: AMQP's confirms, STOMP's
//! receipts, XMPP's requests.

use std::collections::VecDeque;

use crate::transport::MessageId;

/// Nothing is awaited at this number (any more).
const NOTHING: MessageId = MessageId::MAX;
/// The engine does not wait for the publish of this number, but its outcome must be known.
const ANONYMOUS: MessageId = MessageId::MAX - 1;

/// Messages in flight, by number.
///
/// After something was refused without a word about which, it is *careful* for a while: one at a time, so that the next
/// refusal names its culprit.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<MessageId>,
    /// Entries that are not [`NOTHING`].
    count: usize,
    max: usize,
    /// Number of further messages to send one at a time.
    careful: usize,
}

impl Window {
    /// Room for this many.
    pub(crate) fn new(max: usize) -> Self {
        Window {
            first: 1,
            max: max.max(1),
            ..Window::default()
        }
    }

    /// Restarts the numbering with `first` and forgets the messages in flight.
    pub(crate) fn restart(&mut self, first: u64) {
        self.entries.clear();
        (self.first, self.count) = (first, 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether one thing at a time is done.
    pub(crate) fn is_careful(&self) -> bool {
        self.careful > 0
    }

    /// Whether one more may be sent.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        match self.careful {
            0 => self.entries.len() < self.max,
            _ => self.count == 0,
        }
    }

    /// Whether a publish that had to wait may be sent now. Not at the first free place: then all would go one by one.
    #[inline]
    pub(crate) fn has_room_again(&self) -> bool {
        match self.careful {
            0 => self.entries.len() <= self.max / 2,
            _ => self.count == 0,
        }
    }

    /// Whether this message waits.
    pub(crate) fn contains(&self, id: MessageId) -> bool {
        self.entries.contains(&id)
    }

    /// Assigns the next number to a message.
    #[inline]
    pub(crate) fn push(&mut self, id: MessageId) {
        self.entries.push_back(id);
        self.count += 1;
    }

    /// Assigns the next number to a publish that the engine does not wait for.
    pub(crate) fn push_anonymous(&mut self) {
        self.push(ANONYMOUS);
    }

    /// The number that the next one gets.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.first.wrapping_add(self.entries.len() as u64)
    }

    /// Takes the message of a number that the peer has settled, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<MessageId> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let id = std::mem::replace(self.entries.get_mut(place)?, NOTHING);
        while self.entries.front() == Some(&NOTHING) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if id == NOTHING {
            return None;
        }
        self.count = self.count.saturating_sub(1);
        self.careful = self.careful.saturating_sub(1);
        (id != ANONYMOUS).then_some(id)
    }

    /// The same for all up to this number, oldest first; 0 is all there are.
    #[inline]
    pub(crate) fn take_through(&mut self, number: u64, mut each: impl FnMut(MessageId)) {
        let last = if number == 0 { u64::MAX } else { number };
        while self.first <= last
            && let Some(id) = self.entries.pop_front()
        {
            self.first = self.first.wrapping_add(1);
            if id == NOTHING {
                continue;
            }
            self.count = self.count.saturating_sub(1);
            self.careful = self.careful.saturating_sub(1);
            if id != ANONYMOUS {
                each(id);
            }
        }
    }

    /// Those that wait now go one at a time when they come again.
    pub(crate) fn be_careful(&mut self) {
        self.careful = self.careful.max(self.count);
    }

    /// The peer has refused one of those that wait, and does not say which. If there is only one it is that one; if not, they
    /// go one at a time from now on. Nobody waits any more.
    pub(crate) fn take_culprit(&mut self, mut each: impl FnMut(MessageId, Blame)) {
        let blame = if self.count == 1 {
            Blame::Culprit
        } else {
            Blame::Suspect
        };
        let careful = if self.count > 1 {
            self.count
        } else {
            self.careful
        };
        let ids = std::mem::take(&mut self.entries);
        self.first = self.first.wrapping_add(ids.len() as u64);
        self.count = 0;
        self.careful = careful;
        ids.into_iter()
            .filter(|id| *id < ANONYMOUS)
            .for_each(|id| each(id, blame));
    }
}

/// Outcome of a message whose connection or channel was closed because of one of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It was this one.
    Culprit,
    /// It was this one or another.
    Suspect,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(max: usize) -> Window {
        let mut window = Window::new(max);
        for id in [10, 11, 12] {
            assert!(window.has_room());
            window.push(id);
        }
        window
    }

    fn through(window: &mut Window, number: u64) -> Vec<MessageId> {
        let mut taken = Vec::new();
        window.take_through(number, |id| taken.push(id));
        taken
    }

    #[test]
    fn confirmations_come_in_any_order_and_count_once() {
        let mut window = three(8);
        assert_eq!(window.take(2), Some(11));
        assert_eq!(
            (window.take(2), window.take(0), window.take(4)),
            (None, None, None)
        );
        assert_eq!(through(&mut window, 2), [10]);
        assert_eq!(window.take(3), Some(12));
        assert_eq!((window.len(), window.next_number()), (0, 4));
        window.push(13);
        assert_eq!(window.take(4), Some(13));
    }

    #[test]
    fn zero_is_all_and_beyond_the_last_is_no_more() {
        assert_eq!(through(&mut three(8), 0), [10, 11, 12]);
        let mut window = three(8);
        assert_eq!(through(&mut window, 99), [10, 11, 12]);
        assert_eq!(window.next_number(), 4);
    }

    #[test]
    fn room_is_told_when_half_of_it_is_free() {
        let mut window = three(4);
        window.push(13);
        assert!(!window.has_room());
        assert_eq!(window.take(1), Some(10));
        assert!(!window.has_room_again());
        assert_eq!(window.take(2), Some(11));
        assert!(window.has_room_again());
    }

    #[test]
    fn a_culprit_is_found_by_going_one_at_a_time() {
        let mut window = three(8);
        let mut blamed = Vec::new();
        window.take_culprit(|id, blame| blamed.push((id, blame)));
        assert_eq!(
            blamed,
            [
                (10, Blame::Suspect),
                (11, Blame::Suspect),
                (12, Blame::Suspect)
            ]
        );
        window.restart(1);
        window.push(10);
        assert!(!window.has_room());
        assert_eq!(window.take(1), Some(10));
        assert!(window.has_room_again() && window.has_room());
        window.push(11);
        blamed.clear();
        window.take_culprit(|id, blame| blamed.push((id, blame)));
        assert_eq!(blamed, [(11, Blame::Culprit)]);
        assert!(window.is_careful());
        window.push(12);
        assert_eq!(window.take(3), Some(12));
    }
}
