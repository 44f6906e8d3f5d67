//! What the server takes from a kernel: batches of records, messages for other shards, and what is wanted back from disk.
//!
//! An effect names the batch that an answer waits for ([`Effects::hold`](crate::Effects::hold)); the server takes
//! batches with [`Kernel::take_batch`] and reports when they are safe.

use super::Batch;
use crate::effects::{Effects, Fetch};
use crate::ids::ShardId;
use crate::kernel::Kernel;
use crate::remote::shards::ShardMessage;
use thalweg_model::Time;

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

    /// The records that were written down since this was last asked, if there are any or if anything waits for them; the
    /// next are another batch. `spare` is used for those. [`Kernel::take_full_batch`] goes first.
    pub fn take_batch(&mut self, spare: Vec<u8>) -> Option<Batch> {
        debug_assert!(
            !self.agenda.has_dead_letters(),
            "a command left dead letters to no command"
        );
        let is_awaited = std::mem::take(&mut self.journal.is_awaited);
        self.journal.gathering.take(spare, is_awaited)
    }

    /// A frame that had no room for more, of the batch that [`Kernel::take_batch`] gives; to be asked for until there is
    /// none. One command may have written down what is in several: what waits for the batch waits for all its frames.
    pub fn take_full_batch(&mut self) -> Option<Batch> {
        self.journal.gathering.take_full()
    }

    /// Batches up to this one are as safe as was asked for: deliveries that waited for them leave. [`Kernel::work`]
    /// goes on with queues that waited. Shards that were sent something with those batches have confirmed it, and their
    /// answers are known.
    pub fn batch_is_safe<E: Effects>(&mut self, number: u64, now: Time, fx: &mut E) {
        self.decide(number, fx);
        while let Some((_, session, tag)) = self
            .journal
            .leaving
            .pop_front_if(|(batch, ..)| *batch <= number)
        {
            self.delivery_left(session, tag, now);
        }
        while let Some((_, holder, to)) = self
            .journal
            .marks
            .pop_front_if(|(batch, ..)| *batch <= number)
        {
            self.mark_is_safe(holder, to);
        }
    }

    /// Whether [`Kernel::take_outbox`] would give any.
    pub fn has_outbox(&self) -> bool {
        self.remote.has_outbox()
    }

    /// Whether [`Kernel::take_batch`] would give one.
    pub fn has_batch(&self) -> bool {
        self.journal.is_awaited || !self.journal.gathering.is_empty()
    }

    /// The number of the batch that is being gathered.
    pub fn batch_number(&self) -> u64 {
        self.journal.gathering.number()
    }

    /// Bytes of the batch that is being gathered.
    pub fn batch_len(&self) -> usize {
        self.journal.gathering.len()
    }

    /// Whether so much was written down that it should be handed over before more is.
    #[inline]
    pub fn is_batch_large(&self) -> bool {
        self.journal.gathering.is_large()
    }

    /// No frame is longer than this, unless a single record is.
    pub fn set_batch_bytes_max(&mut self, bytes: usize) {
        self.journal.gathering.set_bytes_max(bytes);
    }
}
