//! Connections whose home is known only after a handshake of their protocol.

use super::{Shard, ToShard};
use crate::lobby::{Arrival, Moved};
use crate::transport::Transport;
use thalweg_kernel::LinkId;

/// The home shard of a routing key, which is not 0.
pub(crate) fn home_of(key: u64, shards: usize) -> usize {
    (key.saturating_sub(1) % shards as u64) as usize
}

impl Shard {
    /// Sends a connection to the shard where its session belongs, once its front has found out which that is.
    pub(super) fn move_home(&mut self, id: LinkId) {
        let Some(to) = self.connections.get_mut(id).and_then(|c| c.moves_to) else {
            return;
        };
        let Some((front, output)) = self.links.detach(id) else {
            return;
        };
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        let _ = self.poll.registry().deregister(&mut connection.socket);
        self.door.forget(id, connection.serial);
        if let Some(half_open) = &connection.half_open {
            self.half_open.remove(&half_open.serial());
        }
        self.resume_all(std::mem::take(&mut connection.waiters));
        let mut wire = connection.wire.split_off(connection.wire_sent);
        match &mut connection.transport {
            Transport::Plain => wire.extend_from_slice(&output),
            // What cannot be encoded is found out by the next that is.
            Transport::Filtered(filtered) => _ = filtered.encode(&output, &mut wire),
        }
        let arrival = Arrival {
            socket: connection.socket,
            transport: connection.transport,
            input: connection.tail,
            output: wire,
            peer: connection.peer,
            accepted_at: std::time::Instant::now(),
            half_open: connection.half_open,
            slot: connection._slot,
            moved: Some(Moved {
                front,
                since: connection.since,
                login_ends: connection.login_ends,
            }),
        };
        self.shards[to].tell(ToShard::Arrival(Box::new(arrival)));
    }
}
