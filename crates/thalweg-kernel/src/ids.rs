//! Small numbers with types of their own.

/// A connection, as the machinery numbers it: the index of its link on this shard. Reused after the link is closed
/// and the kernel has been told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// A session on this shard. Reused after the session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

/// One of the kernels that share the work of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

/// Names an unsettled delivery of a session: 1 to 65,535, not reused before it is settled, kept across reconnects.
pub type Tag = u16;

/// Names a question whose answer comes later; chosen by whoever asks, unique on its link while unanswered.
pub type Ticket = u16;

/// One reader's wish to know an address's latest value, on this shard. Used again after the watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u32);

/// Names a message that was taken out of a queue by itself, on whatever shard the queue is; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TakenId(pub u64);
