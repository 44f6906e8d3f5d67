//! Messages that were already received, directly or from the broker.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use thalweg_model::Stamp;
use thalweg_zmtp::Message;

/// Messages that are remembered at least; twice as many at most.
const MESSAGES: usize = 1 << 14;
/// The number of no connection: what the client itself publishes.
const OWN: usize = usize::MAX;

/// Tells copies of a message that came by several ways.
///
/// Anyone who may publish anywhere can write any number into a message, and the broker passes it on. So a copy is left out only
/// if it is alike in all, or if the publisher itself has already sent a higher number over its own connection: a number
/// that is made up keeps no other message away.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// Messages by number, and a digest of each. Two generations: the old one is forgotten as a whole.
    young: HashMap<Stamp, u64>,
    old: HashMap<Stamp, u64>,
    /// The publisher at the other end of each connection to a peer, and its last number. Hubs pass on only what they
    /// publish themselves.
    direct: HashMap<usize, Stamp>,
    digests: RandomState,
}

impl Duplicates {
    /// Whether a message is to be passed on: it is no copy, and does not come behind one that its publisher has sent later.
    /// `way` is its connection; `is_direct` if that is one to a peer.
    pub(super) fn is_new(
        &mut self,
        stamp: Stamp,
        way: usize,
        is_direct: bool,
        first: &[u8],
        rest: Message<'_>,
    ) -> bool {
        if is_direct {
            let last = self.direct.entry(way).or_insert(Stamp {
                sequence: 0,
                ..stamp
            });
            if last.publisher == stamp.publisher {
                last.sequence = last.sequence.max(stamp.sequence);
            }
        } else if self.has_passed(stamp) {
            return false;
        }
        let digest = self.digests.hash_one((first, rest.raw()));
        let known = self.young.get(&stamp).or_else(|| self.old.get(&stamp));
        if known == Some(&digest) {
            return false;
        }
        if self.young.len() >= MESSAGES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(stamp, digest);
        true
    }

    /// Whether the publisher has sent this message or a later one over its own connection. Of several that claim to be it the one
    /// that says least is believed.
    fn has_passed(&self, stamp: Stamp) -> bool {
        let direct = self.direct.values();
        let its = direct.filter(|last| last.publisher == stamp.publisher);
        let lowest = its.map(|last| last.sequence).min();
        lowest.is_some_and(|lowest| stamp.sequence <= lowest)
    }

    /// The client has published this itself.
    pub(super) fn note_own(&mut self, stamp: Stamp) {
        self.direct.insert(OWN, stamp);
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, way: usize) {
        self.direct.remove(&way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: usize = 1;
    const OTHER: usize = 2;
    const BROKER: usize = 3;

    fn is_new(
        duplicates: &mut Duplicates,
        way: usize,
        publisher: u64,
        sequence: u64,
        text: &str,
    ) -> bool {
        let stamp = Stamp {
            publisher,
            sequence,
        };
        let rest = Message::from_raw(text.as_bytes());
        duplicates.is_new(stamp, way, way != BROKER, b"a", rest)
    }

    #[test]
    fn copies_are_left_out_on_whatever_way_they_come() {
        let mut duplicates = Duplicates::default();
        for (way, sequence, expected) in [
            (PEER, 1, true),
            (BROKER, 1, false),
            (BROKER, 2, true),
            (PEER, 2, false),
            // The broker had dropped the third, and the peer the fourth; what the peer has passed comes too late.
            (BROKER, 4, true),
            (PEER, 3, true),
            (PEER, 5, true),
            (BROKER, 3, false),
            (BROKER, 5, false),
        ] {
            assert_eq!(is_new(&mut duplicates, way, 7, sequence, "text"), expected);
        }
        // Numbers of many others, and then a copy.
        for publisher in 100..100_000 {
            assert!(is_new(&mut duplicates, BROKER, publisher, 1, "text"));
            assert!(!is_new(&mut duplicates, BROKER, 7, 5, "text"));
        }
        assert!(duplicates.young.len() + duplicates.old.len() <= 2 * MESSAGES);
    }

    #[test]
    fn numbers_that_are_made_up_keep_no_message_away() {
        let mut duplicates = Duplicates::default();
        assert!(is_new(&mut duplicates, PEER, 7, 1, "text"));
        // By the broker, and by another peer.
        for way in [BROKER, OTHER] {
            let text = format!("made up {way}");
            for sequence in [2, 3, 1000, u64::MAX] {
                assert!(is_new(&mut duplicates, way, 7, sequence, &text), "{way}");
            }
        }
        for (way, sequence) in [(PEER, 2), (PEER, 3), (BROKER, 4), (PEER, 1000)] {
            assert!(
                is_new(&mut duplicates, way, 7, sequence, "text"),
                "{sequence}"
            );
        }
        // And one that no connection of its own tells of.
        assert!(is_new(&mut duplicates, BROKER, 8, u64::MAX, "made up"));
        assert!(is_new(&mut duplicates, BROKER, 8, 1, "text"));
    }
}
