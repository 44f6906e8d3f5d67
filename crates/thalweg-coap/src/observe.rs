//! Observations: what a server keeps of each. RFC 7641

use thalweg_wire::{Span, Time};

use crate::slots::NONE;
use crate::{Delivery, Token};

/// Sequence numbers have 24 bits. RFC 7641 §2
pub(crate) const SEQUENCE: u32 = (1 << 24) - 1;

/// Number of recent message ids of an observation that are kept, for resets. RFC 7641 §3.6
const IDS: usize = 4;

/// Consecutive failed notifications after which an observer that is heard from counts as gone.
const GIVEN_UP_MAX: u8 = 3;

/// A server's record of an observation. There may be a hundred thousand, so each byte counts.
#[derive(Debug)]
pub(crate) struct Relation {
    /// The application's identifier of it.
    pub cookie: u64,
    /// Key by which further blocks of its notifications are recognized.
    pub cache_key: u64,
    pub peer: u32,
    /// Neighbours among the peer's observations.
    pub next: u32,
    pub before: u32,
    /// The next of the peer's that want to notify.
    pub next_wanting: u32,
    /// The confirmable notification in flight.
    pub sending: u32,
    /// The body in blocks that the observer is to have fetched before the next leaves, if none may be missed.
    pub fetching: u32,
    /// The number of the last notification.
    pub sequence: u32,
    /// When a notification was last confirmed, in seconds.
    pub confirmed_at: u32,
    /// Longest time without a confirmation, in seconds.
    pub check: u32,
    /// When its timer comes up, in seconds.
    pub timer_at: u32,
    /// The ids of the last notifications.
    ids: [u16; IDS],
    has_ids: bool,
    pub token: Token,
    /// Notifications since one was confirmable.
    pub unconfirmed: u8,
    /// Notifications given up in a row.
    given_up: u8,
    pub block_exponent: u8,
    /// Whether its registration has been answered.
    pub is_active: bool,
    /// Whether it is in its peer's queue of those that want to notify.
    pub wants: bool,
    /// Whether it was announced as ready to notify, and has not notified yet.
    pub is_woken: bool,
    /// Whether the notification that is due must be confirmable.
    pub wants_confirmable: bool,
    /// Whether there is a newer state than the one in flight.
    pub is_outdated: bool,
    /// Whether what is in flight is due to be repeated, and may be replaced.
    pub is_replaceable: bool,
}

impl Relation {
    pub fn new(
        peer: u32,
        token: Token,
        cookie: u64,
        check: Span,
        block_exponent: u8,
        now: Time,
    ) -> Self {
        Relation {
            cookie,
            cache_key: 0,
            peer,
            next: NONE,
            before: NONE,
            next_wanting: NONE,
            sending: NONE,
            fetching: NONE,
            // Numbers rise with time also over the end of an observation and the begin of the next with its token, and
            // not faster than may be: 2^23 in 256 s. RFC 7641 §4.4
            sequence: (now.nanos() >> 15) as u32 & SEQUENCE,
            confirmed_at: now.since(Time::ZERO).secs() as u32,
            check: seconds(check),
            timer_at: u32::MAX,
            ids: [0; IDS],
            has_ids: false,
            token,
            unconfirmed: 0,
            given_up: 0,
            block_exponent,
            is_active: false,
            wants: false,
            is_woken: false,
            wants_confirmable: false,
            is_outdated: false,
            is_replaceable: false,
        }
    }

    /// The next sequence number.
    #[inline]
    pub fn advance(&mut self) -> u32 {
        self.sequence = (self.sequence + 1) & SEQUENCE;
        self.sequence
    }

    /// Notes the id of a message that left.
    #[inline]
    pub fn note_id(&mut self, id: u16) {
        self.ids = if self.has_ids {
            [id, self.ids[0], self.ids[1], self.ids[2]]
        } else {
            [id; IDS]
        };
        self.has_ids = true;
    }

    /// Whether a reset of this id rejects one of the last notifications.
    pub fn sent(&self, id: u16) -> bool {
        self.has_ids && self.ids.contains(&id)
    }

    /// Notes that the observer is there.
    pub fn confirm(&mut self, now: Time) {
        self.confirmed_at = now.since(Time::ZERO).secs() as u32;
        self.unconfirmed = 0;
        self.given_up = 0;
    }

    /// A notification was given up: returns whether a reachable observer is notified again. With the repetitions of
    /// each, that is as often as an insistent one is sent.
    pub fn has_patience(&mut self) -> bool {
        self.given_up = self.given_up.saturating_add(1);
        self.given_up < GIVEN_UP_MAX
    }

    /// Whether it has been unconfirmed for too long.
    #[inline]
    pub fn is_check_due(&self, now: Time) -> bool {
        now.since(Time::ZERO).secs() >= u64::from(self.confirmed_at) + u64::from(self.check)
    }

    /// When it will have been.
    pub fn check_at(&self) -> Time {
        Time::from_secs(u64::from(self.confirmed_at) + u64::from(self.check))
    }

    /// Whether the next notification has to be confirmable, and whether it had better be.
    #[inline]
    pub fn confirmation(
        &self,
        delivery: Delivery,
        confirm_every: u8,
        round_trip: u32,
        now: Time,
    ) -> (bool, bool) {
        let must = matches!(delivery, Delivery::Confirmable | Delivery::Insistent)
            || self.is_check_due(now);
        let better = round_trip == 0 || self.unconfirmed.saturating_add(1) >= confirm_every;
        (must, delivery == Delivery::Auto && better)
    }
}

/// At least one, as far as it goes.
pub(crate) fn seconds(span: Span) -> u32 {
    span.secs().clamp(1, u64::from(u32::MAX / 2)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sequence;

    #[test]
    fn numbers_rise_over_a_new_begin() {
        let begin = |at| Relation::new(0, Token::EMPTY, 0, Span::from_secs(60), 6, at);
        let mut first = begin(Time::from_secs(100));
        // A thousand notifications in a second.
        let last = (0..1000).map(|_| first.advance()).last().expect("some");
        let second = begin(Time::from_secs(101)).advance();
        assert!(Sequence::new(second).is_newer_than(Sequence::new(last), 0));
    }

    #[test]
    fn the_last_four_ids_are_known_and_no_others() {
        let mut relation = Relation::new(0, Token::EMPTY, 0, Span::from_secs(60), 6, Time::ZERO);
        assert!(!relation.sent(0));
        for id in 10..16 {
            relation.note_id(id);
        }
        let known: Vec<u16> = (0..30).filter(|id| relation.sent(*id)).collect();
        assert_eq!(known, [12, 13, 14, 15]);
    }
}
