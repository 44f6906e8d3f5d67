//! The publishers whose stamps are known, by user: an idle one is forgotten when it has been idle for long, or when there
//! are too many.
//!
//! *Knows:* users by name, publishers by number, moments, the key that hides numbers. *Must never know:* a session, a message. A publisher's number is
//! a secret of its user's: the same number under another user is another publisher.

use crate::kernel::Map;
use crate::publish::stamp_mask::StampKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_model::{Span, Stamp, Time};
use thalweg_records::{Known, Sequences};

/// Resolution of the time of a publisher's last message.
const NEARLY: Span = Span::from_secs(1);

/// The publishers whose stamps are looked up; only the shard of queues has any. Bounded by [`Dedup::forget_one`].
#[derive(Default)]
pub(crate) struct Dedup {
    users: Map<Arc<str>, Numbers>,
    /// By the time of the last message, the oldest first.
    heard: BTreeMap<u64, (Arc<str>, u64)>,
    turn: u64,
    /// Hides publishers' numbers from receivers.
    key: StampKey,
}

/// The publishers of one user, so that a user with many evicts its own first.
#[derive(Default)]
struct Numbers {
    by_number: Map<u64, Publisher>,
    heard: BTreeMap<u64, u64>,
}

struct Publisher {
    sequences: Sequences,
    turn: u64,
    at: Time,
}

/// The user and number of a publisher whose stamps are new again.
pub(crate) type Forgotten = (Arc<str>, u64);

impl Dedup {
    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.heard.len()
    }

    /// Sets the key that hides publishers' numbers, before the first session is opened.
    pub(crate) fn set_key(&mut self, key: StampKey) {
        self.key = key;
    }

    /// The stamp of a user's message as receivers see it.
    pub(crate) fn mask(&self, user: &str, stamp: Stamp) -> Stamp {
        self.key.mask(user, stamp)
    }

    /// What is known of a message.
    pub(crate) fn look(&self, user: &str, stamp: Stamp) -> Known {
        let publisher = self
            .users
            .get(user)
            .and_then(|numbers| numbers.by_number.get(&stamp.publisher));
        publisher.map_or(Known::New, |publisher| {
            publisher.sequences.look(stamp.sequence)
        })
    }

    /// A message is taken.
    pub(crate) fn take(&mut self, user: &Arc<str>, stamp: Stamp, now: Time) {
        if let Some(publisher) = self
            .users
            .get_mut(user)
            .and_then(|it| it.by_number.get_mut(&stamp.publisher))
        {
            publisher.sequences.take(stamp.sequence);
            if now.since(publisher.at) >= NEARLY {
                self.refresh(user, stamp.publisher, now);
            }
            return;
        }
        self.insert(user, stamp.publisher, Sequences::of(stamp.sequence), now);
    }

    /// A message was not taken after all; what is left of its publisher's, if that is known.
    pub(crate) fn take_back(&mut self, user: &str, stamp: Stamp) -> Option<&Sequences> {
        let numbers = self.users.get_mut(user)?;
        let publisher = numbers.by_number.get_mut(&stamp.publisher)?;
        publisher.sequences.take_back(stamp.sequence);
        Some(&publisher.sequences)
    }

    /// A publisher is known from now on.
    pub(crate) fn insert(&mut self, user: &Arc<str>, number: u64, sequences: Sequences, now: Time) {
        self.turn += 1;
        let turn = self.turn;
        let numbers = self.users.entry(user.clone()).or_default();
        if let Some(old) = numbers.by_number.insert(
            number,
            Publisher {
                sequences,
                turn,
                at: now,
            },
        ) {
            numbers.heard.remove(&old.turn);
            self.heard.remove(&old.turn);
        }
        numbers.heard.insert(turn, number);
        self.heard.insert(turn, (user.clone(), number));
    }

    fn refresh(&mut self, user: &Arc<str>, number: u64, now: Time) {
        self.turn += 1;
        let turn = self.turn;
        let Some(numbers) = self.users.get_mut(user) else {
            return;
        };
        let Some(publisher) = numbers.by_number.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut publisher.turn, turn);
        publisher.at = now;
        numbers.heard.remove(&before);
        numbers.heard.insert(turn, number);
        self.heard.remove(&before);
        self.heard.insert(turn, (user.clone(), number));
    }

    /// Evicts one publisher and returns it, if one has to go: one that has been idle for longer than `expiry`; or,
    /// while there are more than `max`, the one idle longest, among those of `user` if they are more than half of
    /// `max`, else among all.
    pub(crate) fn forget_one(
        &mut self,
        user: &str,
        max: usize,
        expiry: Span,
        now: Time,
    ) -> Option<Forgotten> {
        let (_, (oldest_user, oldest)) = self.heard.first_key_value()?;
        let oldest = (oldest_user.clone(), *oldest);
        if self.idle(&oldest, now) > expiry {
            return self.remove(oldest);
        }
        if self.heard.len() <= max {
            return None;
        }
        let own = self
            .users
            .get(user)
            .filter(|numbers| numbers.heard.len() > max / 2);
        let own = own
            .and_then(|numbers| numbers.heard.first_key_value())
            .map(|(_, number)| *number);
        match own {
            // A publisher that keeps changing its name evicts only its own user's entries.
            Some(number) => self.remove((user.into(), number)),
            None => self.remove(oldest),
        }
    }

    fn idle(&self, (user, number): &Forgotten, now: Time) -> Span {
        let publisher = self
            .users
            .get(user)
            .and_then(|numbers| numbers.by_number.get(number));
        publisher.map_or(Span::ZERO, |publisher| now.since(publisher.at))
    }

    fn remove(&mut self, (user, number): Forgotten) -> Option<Forgotten> {
        let numbers = self.users.get_mut(&user)?;
        let publisher = numbers.by_number.remove(&number)?;
        numbers.heard.remove(&publisher.turn);
        self.heard.remove(&publisher.turn);
        if numbers.by_number.is_empty() {
            self.users.remove(&user);
        }
        Some((user, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Span = Span::from_secs(1_000_000);

    fn take(publishers: &mut Dedup, user: &str, publisher: u64, max: usize, now: u64) -> Vec<u64> {
        let (user, now): (Arc<str>, Time) = (user.into(), Time::from_secs(now));
        publishers.take(
            &user,
            Stamp {
                publisher,
                sequence: 1,
            },
            now,
        );
        let gone = std::iter::from_fn(|| publishers.forget_one(&user, max, LONG, now));
        gone.map(|(_, number)| number).collect()
    }

    #[test]
    fn the_same_number_under_another_user_is_another_publisher() {
        let mut publishers = Dedup::default();
        let stamp = Stamp {
            publisher: 7,
            sequence: 1,
        };
        take(&mut publishers, "a", 7, 10, 1);
        assert_eq!(
            (publishers.look("a", stamp), publishers.look("b", stamp)),
            (Known::Taken, Known::New)
        );
    }

    #[test]
    fn of_too_many_who_was_heard_longest_ago_is_forgotten() {
        let mut publishers = Dedup::default();
        for number in 1..=3 {
            assert_eq!(
                take(&mut publishers, &number.to_string(), number, 3, number),
                []
            );
        }
        assert_eq!(
            take(&mut publishers, "1", 1, 3, 10),
            [],
            "it is heard again"
        );
        assert_eq!(take(&mut publishers, "4", 4, 3, 11), [2]);
        assert_eq!(
            publishers.look(
                "2",
                Stamp {
                    publisher: 2,
                    sequence: 1
                }
            ),
            Known::New
        );
        assert_eq!((publishers.len(), publishers.users.len()), (3, 3));
    }

    #[test]
    fn who_names_itself_ever_anew_makes_nobody_else_be_forgotten() {
        let mut publishers = Dedup::default();
        for number in 0..50 {
            take(&mut publishers, "honest", number, 100, 1);
        }
        for number in 0..100_000 {
            take(&mut publishers, "", number, 100, 2);
        }
        assert_eq!(publishers.len(), 100);
        for number in 0..50 {
            assert_eq!(
                publishers.look(
                    "honest",
                    Stamp {
                        publisher: number,
                        sequence: 1
                    }
                ),
                Known::Taken
            );
        }
    }

    #[test]
    fn who_has_been_idle_for_long_is_forgotten_when_somebody_comes() {
        let mut publishers = Dedup::default();
        take(&mut publishers, "a", 1, 10, 1);
        take(&mut publishers, "a", 2, 10, 100);
        let (user, now): (Arc<str>, Time) = ("a".into(), Time::from_secs(105));
        let expiry = Span::from_secs(50);
        assert_eq!(
            publishers.forget_one(&user, 10, expiry, now),
            Some((user.clone(), 1))
        );
        assert_eq!(publishers.forget_one(&user, 10, expiry, now), None);
    }
}
