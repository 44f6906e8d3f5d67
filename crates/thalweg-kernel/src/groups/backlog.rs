//! What waits in a group until a member can take it.
//!
//! *Knows:* messages, their order and their bytes. *Must never know:* members.

use crate::books::Delta;
use crate::groups::given_back::BackId;
use std::collections::{VecDeque, vec_deque};
use thalweg_model::{Message, Time};

/// A message nobody could take yet.
pub(crate) struct Waiting {
    pub message: Message,
    /// How often it was delivered to somebody who did not settle it.
    pub deliveries: u16,
    /// Names it in the group's queue in the journal; 0 if it is not written down there.
    pub serial: u64,
    pub since: Time,
    /// The errand that it came back from undelivered; 0 for none.
    pub errand: u64,
    /// Under which it is known who gave it back; 0 if nobody did.
    pub back: BackId,
}

// Each message that waits in a group has one.
const _: () = assert!(size_of::<Waiting>() <= 40);

impl Waiting {
    pub(crate) fn new(message: Message, serial: u64, deliveries: u16, since: Time) -> Self {
        Waiting {
            message,
            deliveries,
            serial,
            since,
            errand: 0,
            back: 0,
        }
    }
}

/// What waits in one group, in order.
#[derive(Default)]
pub(crate) struct GroupBacklog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl GroupBacklog {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Waiting> {
        self.waiting.get(at)
    }

    pub(crate) fn iter(&self) -> vec_deque::Iter<'_, Waiting> {
        self.waiting.iter()
    }

    pub(crate) fn push_back(&mut self, waiting: Waiting) -> Delta {
        self.insert(self.waiting.len(), waiting)
    }

    pub(crate) fn push_front(&mut self, waiting: Waiting) -> Delta {
        self.insert(0, waiting)
    }

    pub(crate) fn insert(&mut self, at: usize, waiting: Waiting) -> Delta {
        let bytes = waiting.message.bytes();
        self.bytes += bytes;
        self.waiting.insert(at, waiting);
        Delta::copy(bytes)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<(Waiting, Delta)> {
        let waiting = self.waiting.remove(at)?;
        let bytes = waiting.message.bytes();
        self.bytes -= bytes;
        Some((waiting, Delta::copy(bytes)))
    }

    pub(crate) fn take_all(&mut self) -> (VecDeque<Waiting>, Delta) {
        let all = std::mem::take(self);
        let delta = Delta::copies(all.waiting.len(), all.bytes);
        (all.waiting, delta)
    }

    /// Adds what an earlier run left; all goes by serial then.
    pub(crate) fn restore(&mut self, restored: Vec<Waiting>) -> Delta {
        let bytes = restored.iter().map(|waiting| waiting.message.bytes()).sum();
        let delta = Delta::copies(restored.len(), bytes);
        self.bytes += bytes;
        self.waiting.extend(restored);
        let waiting = self.waiting.make_contiguous();
        waiting.sort_by_key(|waiting| waiting.serial);
        delta
    }

    /// Nothing of it is written down any more.
    pub(crate) fn forget_serials(&mut self) {
        let all = self.waiting.iter_mut();
        all.for_each(|waiting| waiting.serial = 0);
    }
}
