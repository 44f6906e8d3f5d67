//! Takes connections to the shards where they live.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lobby::{Arrival, Deliver};
use crate::shard::{self, Mailbox, ToShard};

/// Shows connections to their home shards.
pub(crate) struct Usher {
    shards: Arc<[Mailbox]>,
    next: AtomicUsize,
}

impl Usher {
    pub(crate) fn new(shards: Arc<[Mailbox]>) -> Usher {
        Usher {
            shards,
            next: AtomicUsize::new(0),
        }
    }
}

impl Deliver for Usher {
    fn deliver(&self, key: u64, arrival: Arrival) {
        let count = self.shards.len();
        let shard = match key {
            // No name yet: the next shard in turn names it, and is its home.
            0 => self.next.fetch_add(1, Ordering::Relaxed) % count,
            key => shard::home_of(key, count),
        };
        self.shards[shard].tell(ToShard::Arrival(Box::new(arrival)));
    }

    fn make_room(&self, half_open: u64) {
        for shard in self.shards.iter() {
            shard.tell(ToShard::MakeRoom(half_open));
        }
    }
}
