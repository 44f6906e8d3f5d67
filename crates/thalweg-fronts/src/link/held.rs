//! Batches of the journal, and the outputs that wait for them.

use super::Links;
use crate::batch::Batch;
use crate::coap::Told;
use thalweg_kernel::{CloseReason, Effects, Kernel};
use thalweg_model::Time;

impl Links {
    /// The records that were persisted since this was last asked, if there are any or if anything waits for them; the
    /// next are another batch. `spare` is used for those.
    pub fn take_batch(&mut self, spare: Vec<u8>) -> Option<Batch> {
        let is_waited_for = self.is_batch_waited_for();
        self.batch.take(spare, is_waited_for)
    }

    /// Whether [`Links::take_batch`] would give one.
    pub fn has_batch(&self) -> bool {
        !self.batch.is_empty() || self.is_batch_waited_for()
    }

    fn is_batch_waited_for(&self) -> bool {
        self.holding
            .back()
            .is_some_and(|(batch, _)| *batch == self.batch.number())
    }

    /// Bytes of the batch that is being gathered.
    pub fn batch_len(&self) -> usize {
        self.batch.len()
    }

    /// Whether so much was persisted that it should be handed over before more is.
    #[inline]
    pub fn is_batch_large(&self) -> bool {
        self.batch.len() > Batch::LARGE_BYTES
    }

    /// No batch is longer than this, unless a single record is.
    pub fn set_batch_bytes_max(&mut self, bytes: usize) {
        self.batch.set_bytes_max(bytes);
    }

    /// A batch that had no room for more; to be asked for until there is none, and before [`Links::take_batch`].
    pub fn take_full_batch(&mut self) -> Option<Batch> {
        self.batch.take_full()
    }

    /// What was persisted went into a batch after this one: what waits for this one waits for that.
    #[cold]
    pub(super) fn batch_was_cut(&mut self, cut: u64) {
        let number = self.batch.number();
        for (batch, ..) in self
            .leaving
            .iter_mut()
            .rev()
            .take_while(|(batch, ..)| *batch >= cut)
        {
            *batch = number;
        }
        for at in (0..self.holding.len()).rev() {
            let (batch, id) = self.holding[at];
            if batch < cut {
                break;
            }
            self.holding[at].0 = number;
            let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
                continue;
            };
            link.held_last = if link.held_last == batch {
                number
            } else {
                link.held_last
            };
            if let Some((_, last)) = link.held.back_mut() {
                *last = if *last == batch { number } else { *last };
            }
        }
    }

    /// A batch could not be kept, because a record of it is too long: whoever waits for it is told good-bye instead. Who
    /// that was is in [`Links::take_ended`].
    pub fn refuse(&mut self, number: u64) {
        let from = self.holding.partition_point(|(batch, _)| *batch < number);
        let to = self.holding.partition_point(|(batch, _)| *batch <= number);
        for (_, id) in self.holding.drain(from..to).collect::<Vec<_>>() {
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.is_coap() {
                // One of many peers of a socket: it gets no answer, and asks again.
                continue;
            }
            if let Some(at) = link.held.iter().position(|(_, batch)| *batch == number) {
                // What is acknowledged from there on is not kept.
                let kept = link.held[at].0.saturating_sub(link.gone) as usize;
                link.out.truncate(kept.max(link.sent));
                link.held.truncate(at);
            }
            let session = link.session;
            self.disconnect(id, CloseReason::Kicked);
            if let Some(link) = self.get_mut(id) {
                // The kernel does not know yet.
                link.session = session;
            }
        }
    }

    /// The number of the batch that is being gathered.
    pub fn batch_number(&self) -> u64 {
        self.batch.number()
    }

    /// Batches up to this one are as safe as was asked for: what waited for them may leave.
    pub fn complete(&mut self, number: u64) {
        self.coap.completed = self.coap.completed.max(number);
        while let Some(&(batch, id)) = self.holding.front()
            && batch <= number
        {
            self.holding.pop_front();
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.is_coap() {
                self.coap.tell(id, Told::Safe);
                continue;
            }
            while link.held.front().is_some_and(|(_, batch)| *batch <= number) {
                link.held.pop_front();
            }
            self.mark_dirty(id);
        }
        while let Some(&(_, id, tag)) = self.leaving.front().filter(|(batch, ..)| *batch <= number)
        {
            self.leaving.pop_front();
            self.left.push((id, tag));
        }
    }

    /// Tells the kernel which deliveries it asked about may leave since [`Links::complete`].
    pub fn tell_left(&mut self, now: Time, kernel: &mut Kernel) {
        for (id, tag) in std::mem::take(&mut self.left) {
            if let Some(session) = self.get(id).and_then(|link| link.session) {
                kernel.delivery_left(session, tag, now);
            }
        }
    }
}
