//! Numbers that no restart and no other shard gives a second time.

use crate::ids::ShardId;

/// The lowest bits of numbers name the shard that gave them.
pub(crate) const SHARD_BITS: u32 = 10;

/// The shard that gave a number.
pub(crate) fn shard_of(number: u64) -> u16 {
    (number & ((1 << SHARD_BITS) - 1)) as u16
}

/// Counts numbers of sessions, groups and queues, and serials of entries.
#[derive(Debug)]
pub(crate) struct Numbers {
    shard: ShardId,
    shards: u16,
    /// The last number given, without the shard.
    last: u64,
    /// The last serial given to an entry of a durable queue.
    serial_last: u64,
}

impl Numbers {
    pub(crate) fn new(shard: ShardId, shards: u16) -> Self {
        Numbers {
            shard,
            shards,
            last: 0,
            serial_last: u64::from(shard.0),
        }
    }

    /// Goes on behind what an earlier run gave; serials are the shard's own modulo the number of shards.
    pub(crate) fn restore(&mut self, number_last: u64, serial_last: u64) {
        let shards = u64::from(self.shards);
        self.last = number_last >> SHARD_BITS;
        self.serial_last = (serial_last / shards + 1) * shards + u64::from(self.shard.0);
    }

    /// A number for a session, group or queue, never used before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        // Shards number on their own; see SHARDS_MAX.
        self.last << SHARD_BITS | u64::from(self.shard.0)
    }

    /// A serial that no entry of any shard had before: entries of several shards may come together in one queue.
    #[inline]
    pub(crate) fn next_serial(&mut self) -> u64 {
        // Small steps, because what waits in long queues is remembered as differences.
        self.serial_last += u64::from(self.shards);
        self.serial_last
    }

    pub(crate) fn serial_last(&self) -> u64 {
        self.serial_last
    }
}
