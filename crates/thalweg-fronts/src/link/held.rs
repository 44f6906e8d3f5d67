//! Outputs that wait for batches of the journal.

use super::Links;
use thalweg_kernel::{CloseReason, Effects, LinkId};

impl Links {
    /// A batch could not be kept, because a record of it is too long: the links that wait for it are closed instead,
    /// and listed by [`Links::take_ended`].
    pub fn refuse(&mut self, number: u64) {
        self.drop_held(number);
        let from = self.holding.partition_point(|(batch, _)| *batch < number);
        let to = self.holding.partition_point(|(batch, _)| *batch <= number);
        for (_, id) in self.holding.drain(from..to).collect::<Vec<_>>() {
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.holds_each() {
                self.tell(id, |front, _| front.outbound().not_kept(number));
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

    /// Output that a link writes from now on waits for these batches, too.
    pub(super) fn hold_for(&mut self, id: LinkId, batches: Vec<u64>) {
        let completed = self.completed;
        for number in batches.into_iter().filter(|number| *number > completed) {
            let Some(link) = self.get_mut(id) else {
                return;
            };
            if link.held.back().is_none_or(|(_, batch)| *batch < number) {
                let from = link.gone + link.out.len() as u64;
                link.held.push_back((from, number));
                let behind = self.holding.partition_point(|(batch, _)| *batch <= number);
                self.holding.insert(behind, (number, id));
            }
        }
    }

    /// Batches up to this one are as safe as was asked for: what waited for them may leave. Together with
    /// [`Kernel::batch_is_safe`](thalweg_kernel::Kernel::batch_is_safe).
    pub fn complete(&mut self, number: u64) {
        self.completed = self.completed.max(number);
        while let Some(&(batch, id)) = self.holding.front()
            && batch <= number
        {
            self.holding.pop_front();
            let Some(link) = self.get_mut(id) else {
                continue;
            };
            if link.front.holds_each() {
                self.tell(id, |front, _| front.outbound().safe(number));
                continue;
            }
            while link.held.front().is_some_and(|(_, batch)| *batch <= number) {
                link.held.pop_front();
            }
            self.mark_dirty(id);
        }
    }
}
