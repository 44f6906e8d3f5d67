//! What queues and consumers hold, counted from what is there.

use super::Item;
use super::line::{Lines, Step, Unsettled};
use crate::Kernel;
use crate::recount::Held;

impl Lines {
    /// What its consumers were sent and have not settled, also where a transaction will.
    pub(crate) fn recount(&self) -> Held {
        let in_transactions = self
            .transactions
            .iter()
            .flat_map(|(_, transaction)| &transaction.steps)
            .filter_map(|step| match step {
                Step::Settle { unsettled, .. } => Some(unsettled),
                Step::Publish(..) => None,
            });
        let unsettled = self.lines.iter().flat_map(|line| &line.unsettled);
        let mut held = Held::default();
        for Unsettled { item, .. } in unsettled.chain(in_transactions) {
            held.in_flight += 1;
            held.bytes += bytes(item);
        }
        held
    }
}

impl Kernel {
    /// What all queues hold, what was taken out of them by itself, and dead letters that wait.
    pub(crate) fn recount_queues(&self) -> Result<Held, String> {
        let mut all = Held::default();
        for queue in self.queues.iter() {
            all += queue
                .backlog
                .recount()
                .map_err(|why| format!("queue {}: {why}", queue.address))?;
        }
        for taken in self.queues.all_apart() {
            all.in_flight += 1;
            all.bytes += taken.bytes();
        }
        let dead = self.agenda.kept().map(super::GivenUp::bytes);
        all.bytes += dead.sum::<usize>();
        Ok(all)
    }
}

fn bytes(item: &Item) -> usize {
    item.message.bytes()
}
