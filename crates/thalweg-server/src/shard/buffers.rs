//! What is in connections' buffers: input that is not a whole packet yet or must wait, output that peers do not take.
//! Each buffer has a limit of its own; all of them together have a share of the memory budget, and when that is not
//! enough, the connections with the largest buffers are closed.

use super::{Shard, ToShard};
use crate::lobby::holders_to_close;
use thalweg_kernel::{CloseReason, Closing, LinkId};

/// Bytes that a connection's input is read by while buffers are over half of their share.
const SHORT_READ_BYTES: usize = 16 << 10;

/// What all buffers may hold: a quarter of the budget, but two packets of the largest size if half of it can hold those.
pub(crate) fn buffers_share(budget: usize, packet_bytes_max: usize) -> usize {
    (budget / 4)
        .max(packet_bytes_max.saturating_mul(2))
        .min(budget / 2)
}

impl Shard {
    /// Counts a connection's buffers; called whenever they may have changed.
    pub(super) fn count_buffers(&mut self, id: LinkId) {
        if let Some(link) = self.links.get(id) {
            self.connections.count_buffers(id, link.buffered());
        }
    }

    /// How much of `most` bytes is read at once. Input that has to wait, because its publisher is paused, should not be
    /// much where memory is short.
    pub(super) fn read_max(&self, most: usize) -> usize {
        if self.is_short_of_buffers() {
            most.min(SHORT_READ_BYTES)
        } else {
            most
        }
    }

    /// Whether buffers are over half of their share: then empty ones are freed at once.
    pub(super) fn is_short_of_buffers(&self) -> bool {
        self.connections.buffered() + self.buffered_elsewhere > self.settings.buffers_max / 2
    }

    /// Closes connections of the network that holds most until a quarter of the share is free. The shard with most begins.
    pub(super) fn bound_buffers(&mut self) {
        let max = self.settings.buffers_max;
        if self.connections.buffered() + self.buffered_elsewhere <= max {
            return;
        }
        // Buffers whose peers have taken everything are only shrunk.
        self.slim();
        let own = self.connections.buffered();
        if own + self.buffered_elsewhere <= max {
            return;
        }
        let others = self
            .shards
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != self.id.0 as usize);
        if let Some((_, most)) = others.max_by_key(|(_, shard)| shard.held.buffers())
            && most.held.buffers() > own
        {
            most.tell(ToShard::BoundBuffers);
            return;
        }
        // A quarter at once, so that the search is paid for by as much input.
        let enough = max / 4 * 3;
        let keep = enough
            .saturating_sub(self.buffered_elsewhere)
            .max(enough / self.shards.len());
        let at_fault = holders_to_close(self.connections.holders(), own.saturating_sub(keep));
        let bytes: usize = at_fault.iter().map(|(_, bytes, _)| bytes).sum();
        let networks: std::collections::BTreeSet<_> = at_fault
            .iter()
            .filter_map(|(network, ..)| *network)
            .collect();
        tracing::warn!(
            connections = at_fault.len(),
            bytes,
            ?networks,
            "closing the connections with the largest buffers: unfinished packets, and output that peers do not read, are \
             over their share of limits.memory_bytes_max"
        );
        for (_, bytes, id) in at_fault {
            self.counts.buffers_closed += 1;
            tracing::debug!(
                link = id.0,
                bytes,
                "closed: its buffers are too large while memory is short"
            );
            if let Some(session) = self.links.session(id) {
                thalweg_kernel::Effects::disconnect(&mut self.links, id, CloseReason::Buffers);
                self.kernel
                    .close_link(session, id, Closing::Cut, None, self.now, &mut self.links);
                // Before its number is another's.
                self.carry_out();
            }
            self.close_gently(id);
        }
        self.weigh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_large_packets_fit_if_half_of_the_budget_holds_them() {
        let table = [
            (1_000, 100, 250),
            (64, 16, 32),
            (64, 8, 16),
            (64, 256, 32),
            (64, usize::MAX, 32),
        ];
        for (budget, packet, share) in table {
            assert_eq!(buffers_share(budget, packet), share, "{budget} {packet}");
        }
    }
}
