//! Connections on their way from one shard to another.

use super::{Shard, Testbed};
use crate::client::Who;

impl Testbed {
    /// Takes a connection off its shard on the way to another. False if it is at home already.
    pub(super) fn detach(&mut self, number: usize, key: u64) -> bool {
        let home = (key.saturating_sub(1) % self.shards.len() as u64) as usize;
        let pipe = &mut self.pipes[number];
        let (true, Some(id)) = (home != pipe.shard, pipe.link) else {
            return false;
        };
        let left = &mut self.shards[pipe.shard];
        let Some((front, output)) = left.links.detach(id) else {
            return false;
        };
        left.pipes.remove(&id);
        (pipe.shard, pipe.link, pipe.overheard) = (home, None, 0);
        pipe.down.extend(&output);
        pipe.moving = Some(front);
        true
    }

    /// A connection arrives on the shard that is its home. Whether it was on the way.
    pub fn arrive<C>(&mut self, who: Who<C>) -> bool {
        self.arrive_pipe(who.pipe)
    }

    pub(super) fn arrive_pipe(&mut self, number: usize) -> bool {
        let pipe = &mut self.pipes[number];
        let Some(front) = pipe.moving.take() else {
            return false;
        };
        let shard = &mut self.shards[pipe.shard];
        let link = shard.links.open(front);
        shard.pipes.insert(link, number);
        pipe.link = Some(link);
        // Bytes read on the other shard are handled again.
        pipe.read = 0;
        let home = pipe.shard;
        let Shard { kernel, links, .. } = &mut self.shards[home];
        // As in the server, for fronts that begin, or go on, without input.
        links.drive(link, &[], self.now, kernel);
        self.gather(home);
        true
    }
}
