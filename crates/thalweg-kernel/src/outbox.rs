//! What a kernel has for others than its peers: messages for other shards, and messages that it wants back from disk.

use crate::effects::Fetch;
use crate::ids::ShardId;
use crate::kernel::Kernel;
use crate::shards::ShardMessage;

/// Messages for other shards that have not been taken, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Vec<(ShardId, ShardMessage)>);

impl Outbox {
    /// Hands a message to another shard's kernel.
    #[inline]
    pub(crate) fn send(&mut self, shard: ShardId, message: ShardMessage) {
        self.0.push((shard, message));
    }
}

impl Kernel {
    /// Messages for other shards. They must arrive in this order, and after the records that are in the batches up to now
    /// ([`Kernel::take_batch`]) are in the journal's hands.
    pub fn take_outbox(&mut self) -> Vec<(ShardId, ShardMessage)> {
        std::mem::take(&mut self.outbox.0)
    }

    /// Messages that queues want back from disk; they come through [`Kernel::on_fetched`].
    pub fn take_fetches(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.fetches)
    }
}
