//! What a kernel has for others than its peers: messages for other shards, and messages that it wants back from disk.

use crate::effects::Fetch;
use crate::ids::ShardId;
use crate::kernel::Kernel;
use crate::shards::ShardMessage;

impl Kernel {
    /// Messages for other shards. They must arrive in this order, and after the records that are in the batches up to now
    /// ([`Kernel::take_batch`]) are in the journal's hands.
    pub fn take_outbox(&mut self) -> Vec<(ShardId, ShardMessage)> {
        self.remote.take_outbox()
    }

    /// Messages that queues want back from disk; they come through [`Kernel::on_fetched`].
    pub fn take_fetches(&mut self) -> Vec<Fetch> {
        self.journal.take_fetches()
    }
}
