//! Carries out what the kernel asked for beyond this shard's own links.
//!
//! The order is fixed: records go to the committer, then messages to other shards leave, one batch per shard, before
//! anything is flushed; questions about peers and ended links follow.

use super::Shard;
use super::wheel::Deadline;
use crate::access::cut;
use crate::door::{PLUS, Visitor};
use crate::transport::Transport;
use thalweg_fronts::LoginAsk;
use thalweg_kernel::{CloseReason, Evicted, LinkId, ShardMessage};

impl Shard {
    /// Carries out everything that has gathered.
    pub(super) fn carry_out(&mut self) {
        loop {
            let outbox = self.kernel.take_outbox();
            let ended = self.links.take_ended();
            let logins = self.links.take_logins();
            if outbox.is_empty() && ended.is_empty() && logins.is_empty() {
                return;
            }
            if !outbox.is_empty() {
                let mut batches: Vec<Vec<ShardMessage>> =
                    (0..self.shards.len()).map(|_| Vec::new()).collect();
                for (shard, message) in outbox {
                    if let Some(batch) = batches.get_mut(shard.0 as usize) {
                        batch.push(message);
                    }
                }
                let numbers: Vec<u64> = (batches.iter().enumerate())
                    .map(|(to, batch)| self.commits.number_mail(to, batch))
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
            if ended.iter().any(|(_, why)| *why == CloseReason::Stalled) {
                self.tell_evicted();
            }
            for (id, why) in ended {
                tracing::debug!(link = id.0, ?why, "closing");
                self.start_closing(id);
            }
            for (id, ask) in logins {
                let Some((serial, mut visitor)) = self.visitor(id) else {
                    continue;
                };
                if matches!(&ask, LoginAsk::Exchange { method, .. } if method.ends_with(PLUS))
                    && let Some(connection) = self.connections.get_mut(id)
                    && let Transport::Filtered(filtered) = &connection.transport
                {
                    visitor.channel_binding = filtered.channel_binding();
                }
                match ask {
                    LoginAsk::Proven { identity } => {
                        let answer = self.door.proven(&identity, visitor.address);
                        self.links
                            .on_proven(id, &identity, answer, self.now, &mut self.kernel);
                    }
                    ask => {
                        if let Some((answer, ends)) = self.door.ask(id, serial, visitor, ask) {
                            self.on_login_now(id, serial, answer, ends);
                        } else if self.is_given_up(id) {
                            self.wheel.set(self.now, id, serial, Deadline::Close);
                        }
                    }
                }
            }
        }
    }

    /// Says whose connections end because they kept what others could have worked on.
    fn tell_evicted(&mut self) {
        for Evicted {
            client,
            group,
            filter,
            returned,
            strikes,
        } in self.kernel.take_evicted()
        {
            tracing::warn!(
                client = cut(&client),
                group = cut(&group),
                filter = cut(&filter),
                returned,
                strikes,
                "disconnected: it did not acknowledge messages of a shared subscription in time, and other members get \
                 them; the client is at fault, or its network: see why it hangs. If its work takes that long, give its \
                 filter a longer settle_timeout in groups.policies"
            );
        }
    }

    /// The peer of a link, and the serial that distinguishes it from others of its number.
    fn visitor(&mut self, id: LinkId) -> Option<(u64, Visitor)> {
        if let Some(connection) = self.connections.get_mut(id) {
            let peer = &connection.peer;
            let visitor = Visitor {
                listener: peer.listener.name.clone(),
                address: peer.address.map(|address| address.ip()),
                certificate_name: peer.certificate_name.clone(),
                channel_binding: None,
            };
            return Some((connection.serial, visitor));
        }
        let port = self.ports.of_link(id)?;
        // It has many peers: the identity of each was proven by DTLS, or is not asked for.
        Some((
            port.serial,
            Visitor {
                listener: port.listener.clone(),
                address: None,
                certificate_name: None,
                channel_binding: None,
            },
        ))
    }

    /// What tells a link from earlier and later ones of its number.
    pub(super) fn serial_of(&mut self, id: LinkId) -> Option<u64> {
        let connection = self
            .connections
            .get_mut(id)
            .map(|connection| connection.serial);
        connection.or_else(|| self.ports.of_link(id).map(|port| port.serial))
    }
}
