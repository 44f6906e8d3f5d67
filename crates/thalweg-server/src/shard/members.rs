//! Connections whose sessions are members of shared subscriptions: their networks are measured, and little of what is
//! for them is put into socket buffers, from which it cannot be taken back. And those that are sent messages with priorities,
//! for the same reason.
//!
//! A message that a socket has taken cannot go to another member any more. So such a connection counts as full as soon as
//! its socket holds anything that it could not send, and its output is flushed in small pieces. Nor can one of a higher
//! priority overtake it.

use super::Shard;
use super::wheel::Deadline;
use crate::network;
use mio::{Interest, Token};
use thalweg_kernel::LinkId;
use thalweg_model::Span;

/// Bytes of output above which a member counts as congested until they are flushed.
const OUTPUT_HIGH: usize = 16 << 10;
/// How long after the first measurement the second one follows: the first may have seen the handshake only.
const SECOND_LOOK: Span = Span::from_millis(100);
/// How often a network is measured then.
const LOOK_EVERY: Span = Span::from_secs(1);
/// Networks measured in one turn; the others come a little later.
const LOOKS_MAX: u32 = 64;
const LITTLE_LATER: Span = Span::from_millis(10);

impl Shard {
    /// Notices that a connection's session has become a member.
    pub(super) fn watch_member(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.shares || !self.links.is_in_group(id, &self.kernel) {
            return;
        }
        connection.shares = true;
        let serial = connection.serial;
        if let Err(error) = network::keep_short(&connection.socket, true) {
            tracing::debug!(link = id.0, %error, "what its socket holds is not limited");
        }
        self.links.limit_output(id, OUTPUT_HIGH);
        self.measure(id);
        self.wheel
            .set(self.now + SECOND_LOOK, id, serial, Deadline::Network);
    }

    /// A member's network is to be measured again. `looks` counts how many were in this turn.
    pub(super) fn on_network_due(&mut self, id: LinkId, looks: &mut u32) {
        *looks += 1;
        let is_member = self.links.is_in_group(id, &self.kernel);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let serial = connection.serial;
        if *looks > LOOKS_MAX {
            return self
                .wheel
                .set(self.now + LITTLE_LATER, id, serial, Deadline::Network);
        }
        if is_member {
            self.measure(id);
            return self
                .wheel
                .set(self.now + LOOK_EVERY, id, serial, Deadline::Network);
        }
        connection.shares = false;
        if !connection.prioritized {
            // If it fails now, it has failed before.
            let _ = network::keep_short(&connection.socket, false);
        }
        self.links.limit_output(id, usize::MAX);
    }

    /// A connection is sent messages that have priorities: little of what it is sent waits where none can overtake it.
    pub(super) fn keep_little(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.prioritized = true;
        if let Err(error) = network::keep_short(&connection.socket, true) {
            tracing::debug!(link = id.0, %error, "what its socket holds is not limited");
        }
    }

    fn measure(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.peer.listener.proxy.is_some() {
            // What could be measured is the way to the proxy.
            return;
        }
        let Some(seen) = network::round_trip(&connection.socket) else {
            return;
        };
        // The system forgets the shortest one after some minutes; a way does not become longer.
        connection.round_trip = connection.round_trip.min(seen.least);
        self.links
            .on_round_trip(id, connection.round_trip, seen.jitter, &mut self.kernel);
    }

    /// The socket of a member, or of one that is sent priorities, has taken everything. What it has not sent at once is for a
    /// peer, or a network, that is slow: nothing more is given to it until all has left. It would take it, whatever limit it
    /// has: what waits grows to a packet of 64 KiB before the system looks at that.
    pub(super) fn look_for_rest(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if network::not_sent(&connection.socket) == 0 {
            return;
        }
        // Asked anew, the system says when the socket is writable again, though no write has failed.
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self.poll.registry().reregister(
            &mut connection.socket,
            Token(id.0 as usize),
            interest,
        ) {
            Ok(()) => connection.blocked = true,
            Err(error) => {
                tracing::debug!(link = id.0, %error, "its socket is written to though it is not empty")
            }
        }
    }
}
