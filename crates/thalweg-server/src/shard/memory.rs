//! How short memory is. Each shard says what it holds and sums up what all hold, many times a second: what a peer sends
//! between two looks is all that can go beyond the budget.

use super::{Mailbox, Shard};
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_kernel::{MemoryView, Pressure};

/// What a shard holds, for the others.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Bytes of messages, and of transactions.
    messages: AtomicUsize,
    /// Bytes of what peers have it keep beside those.
    beside: AtomicUsize,
    /// Bytes in the buffers of its connections.
    buffers: AtomicUsize,
}

impl Held {
    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn beside(&self) -> usize {
        self.beside.load(Ordering::Relaxed)
    }

    pub(crate) fn buffers(&self) -> usize {
        self.buffers.load(Ordering::Relaxed)
    }
}

/// How short memory is when so much is held. What was short stays so until there is some room, or it would change with
/// every message.
pub(crate) fn short_of(held: usize, budget: usize, before: Pressure) -> Pressure {
    match held {
        held if held > budget => Pressure::RefuseSessions,
        held if held > budget / 10 * 9 => Pressure::DropWaiting,
        held if held > budget / 10 * 8 && before > Pressure::None => Pressure::DropWaiting,
        _ => Pressure::None,
    }
}

impl Shard {
    /// Says what this shard holds, and tells its kernel and its publishers how short memory is.
    pub(super) fn weigh(&mut self) {
        self.links.sweep(self.now);
        let in_kernel = self.kernel.kept_beside();
        let own = &self.shards[self.id.0 as usize].held;
        own.messages
            .store(self.kernel.memory_held() - in_kernel, Ordering::Relaxed);
        own.beside
            .store(in_kernel + self.links.kept_bytes(), Ordering::Relaxed);
        let buffered = self.connections.buffered();
        own.buffers.store(buffered, Ordering::Relaxed);
        self.buffered_elsewhere = self
            .shards
            .iter()
            .map(|shard| shard.held.buffers())
            .sum::<usize>()
            - buffered;
        // A quarter beyond the share, so that it is passed and the largest are closed: within it, those who do not read could
        // keep all room for themselves, and others were refused copies for ever.
        let most = self
            .settings
            .buffers_max
            .saturating_add(self.settings.buffers_max / 4);
        let room = most.saturating_sub(buffered + self.buffered_elsewhere);
        self.links.set_unflushed_max(room);
        let held = self.shards.iter().map(Mailbox::bytes_held).sum();
        let beside: usize = self.shards.iter().map(|shard| shard.held.beside()).sum();
        let budget = self.settings.memory_bytes_max;
        let pressure = short_of(held, budget, self.pressure);
        self.kernel.set_memory(MemoryView {
            pressure,
            budget,
            beside_elsewhere: beside.saturating_sub(in_kernel),
        });
        if pressure != self.pressure {
            self.pressure = pressure;
            self.tell_blocked();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_from_nine_tenths_on_and_until_it_is_below_eight() {
        let held = [10, 89, 91, 89, 81, 101, 95, 81, 80, 85];
        let mut pressure = Pressure::None;
        let levels = held.map(|held| {
            pressure = short_of(held, 100, pressure);
            pressure as u8
        });
        assert_eq!(levels, [0, 0, 1, 1, 1, 2, 1, 1, 0, 0]);
    }
}
