//! Connections whose handshakes go on here: each has a place among those of its listener, which the lobby counts and may give
//! to a newcomer.

use super::Shard;
use std::time::Instant;
use thalweg_kernel::LinkId;

impl Shard {
    /// Frees a connection's place among the handshakes once it is connected.
    pub(super) fn watch_handshake(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(half_open) = &mut connection.half_open else {
            return;
        };
        if self.links.get(id).is_some_and(|link| link.is_connected()) {
            self.half_open.remove(&half_open.serial());
            connection.half_open = None;
        } else {
            half_open.on_bytes(Instant::now());
        }
    }

    /// Closes a connection whose place among the handshakes the lobby has given to another.
    pub(super) fn make_room(&mut self, half_open: u64) {
        if let Some(id) = self.half_open.get(&half_open).copied() {
            tracing::debug!(
                link = id.0,
                "closed: its handshake was not complete, and its place was given to another"
            );
            self.close(id);
        }
    }
}
