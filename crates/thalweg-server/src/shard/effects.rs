//! Carries out what the kernel asked for beyond this shard's own links.
//!
//! The order is fixed: records go to the committer, then messages to other shards leave, one batch per shard, before
//! anything is flushed; questions about peers and ended links follow.

use super::Shard;
use thalweg_kernel::ShardMessage;

impl Shard {
    /// Carries out everything that has gathered.
    pub(super) fn carry_out(&mut self) {
        loop {
            let outbox = self.links.take_outbox();
            let ended = self.links.take_ended();
            let logins = self.links.take_logins();
            if outbox.is_empty() && ended.is_empty() && logins.is_empty() {
                return;
            }
            if !outbox.is_empty() {
                let mut batches: Vec<Vec<ShardMessage>> = (0..self.shards.len()).map(|_| Vec::new()).collect();
                for (shard, message) in outbox {
                    if let Some(batch) = batches.get_mut(shard.0 as usize) {
                        batch.push(message);
                    }
                }
                let numbers: Vec<u64> = (batches.iter().enumerate())
                    .map(|(to, batch)| self.commits.number_mail(to, batch.iter().any(ShardMessage::is_reliable)))
                    .collect();
                // Persisted first, so that what the other shards persist for it comes later in the journal.
                self.close_batch();
                for ((to, batch), number) in self.shards.iter().zip(batches).zip(numbers) {
                    if !batch.is_empty() {
                        to.hand_over(self.id, batch, number);
                        self.mail_full |= to.is_full();
                    }
                }
            }
            for (id, why) in ended {
                tracing::debug!(link = id.0, ?why, "closing");
                self.start_closing(id);
            }
            for (id, ask) in logins {
                let Some(connection) = self.connections.get_mut(id) else { continue };
                let (serial, peer) = (connection.serial, connection.peer.clone());
                if let Some((answer, ends)) = self.door.ask(id, serial, &peer, ask) {
                    self.on_login_now(id, serial, answer, ends);
                }
            }
        }
    }
}
