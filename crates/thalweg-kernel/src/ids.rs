//! Small numbers with types of their own.

use crate::slots::SlotId;
use std::num::NonZeroU32;

/// A connection, as the machinery numbers it: the index of its link on this shard. Reused after the kernel was notified
/// that the link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// A session on this shard. Reused after the session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

/// An identifier of something in [`Slots`](crate::slots::Slots): what comes later at its index has another generation.
macro_rules! slot_id {
    ($(#[$doc:meta])* $vis:vis struct $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis struct $name {
            index: u32,
            generation: NonZeroU32,
        }

        // What is unsettled, or waits, has an optional one.
        const _: () = assert!(size_of::<Option<$name>>() == 8);

        impl $name {
            #[inline]
            pub(crate) fn index(self) -> u32 {
                self.index
            }
        }

        impl SlotId for $name {
            #[inline]
            fn new(index: u32, generation: NonZeroU32) -> Self {
                $name { index, generation }
            }

            #[inline]
            fn index(self) -> u32 {
                self.index
            }

            #[inline]
            fn generation(self) -> NonZeroU32 {
                self.generation
            }
        }
    };
}

slot_id! {
    /// Names a queue on this shard for ever.
    pub struct QueueId
}

slot_id! {
    /// Names a group on this shard for ever.
    pub struct GroupId
}

slot_id! {
    /// Names a binding on this shard for ever.
    pub(crate) struct BindingId
}

impl GroupId {
    /// The least of all.
    pub(crate) const MIN: GroupId = GroupId {
        index: 0,
        generation: NonZeroU32::MIN,
    };
}

/// One of the kernels that share the work of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

/// Names an unsettled delivery of a session: 1 to 65,535, not reused before it is settled, kept across reconnects.
pub type Tag = u16;

/// Names a question whose answer comes later; chosen by the requester, unique on its link while unanswered.
pub type Ticket = u16;

/// A watch: one reader's request for an address's latest value, on this shard. Used again after the watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u32);

/// Names a message that was taken out of a queue by itself, on whatever shard the queue is; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TakenId(pub u64);
