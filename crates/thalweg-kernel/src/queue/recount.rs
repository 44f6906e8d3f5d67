//! What queues hold, counted from what is there.

use crate::Kernel;
use crate::recount::Held;

impl Kernel {
    /// What all queues hold, what was taken out of them by itself, and dead letters that wait.
    pub(crate) fn recount_queues(&self) -> Result<Held, String> {
        let mut all = Held::default();
        for queue in self.queues.iter() {
            all += queue
                .backlog
                .recount()
                .map_err(|why| format!("queue {}: {why}", queue.terms.address))?;
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
