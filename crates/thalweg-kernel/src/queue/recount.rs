//! What queues and consumers hold, counted from what is there.

use super::line::{Lines, Step, Unsettled};
use super::{Item, Queue};
use crate::Kernel;
use crate::recount::{Held, same};

impl Queue {
    fn recount(&self) -> Result<Held, String> {
        let items = || self.lanes.iter().flatten();
        let in_memory: usize = items().map(bytes).sum();
        let (on_disk, deep) = self
            .depth
            .as_ref()
            .map_or((0, 0), |depth| (depth.len(), depth.recount()));
        let waiting = items().count() + on_disk;
        same("messages that wait", self.ready, waiting)?;
        same("bytes in memory", self.memory, in_memory)?;
        if on_disk == 0 {
            let payloads = items().map(|item| item.message.payload().len() as u64);
            same(
                "bytes of payloads",
                self.ready_bytes as usize,
                payloads.sum::<u64>() as usize,
            )?;
        }
        Ok(Held {
            waiting,
            in_flight: 0,
            bytes: in_memory + deep,
        })
    }
}

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
                .recount()
                .map_err(|why| format!("queue {}: {why}", queue.address))?;
        }
        for taken in self.taken.values() {
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
