//! Mail between shards: it arrives at once, or takes its time, in an order that a test chooses.

use crate::world::{Who, World, wish};
use std::collections::{BTreeSet, VecDeque};
use thalweg_kernel::{Kernel, ShardId, ShardMessage};
use thalweg_model::Reliability;

/// The mail that is in flight.
#[derive(Default)]
pub struct SlowMail {
    /// Amount of mail sent when each promise was made.
    pub promises: Vec<u64>,
    pub mails_sent: u64,
    /// Numbers of mail that has not arrived, in the order of the mail itself.
    pub under_way: VecDeque<u64>,
}

impl World {
    /// Effects of a command that do not depend on slow mail.
    pub fn end_command(&mut self) {
        if self.is_slow {
            self.end_turns();
        } else {
            self.deliver_mails();
        }
    }

    /// All mail arrives, with its effects.
    pub fn deliver_mails(&mut self) {
        self.slow.under_way.clear();
        loop {
            if let Some((from, to, mail)) = self.out.mails.pop_front() {
                self.out.shard = to.0;
                self.kernels[usize::from(to.0)].on_shard(from, mail, self.now, &mut self.out);
            } else if let Some((shard, fetch)) = self.out.fetches.pop() {
                self.out.shard = shard;
                let messages = fetch
                    .places
                    .iter()
                    .map(|(place, len)| self.disk.read(*place, *len))
                    .collect();
                let kernel = &mut self.kernels[usize::from(shard)];
                kernel.on_fetched(
                    fetch.holder,
                    fetch.question,
                    messages,
                    self.now,
                    &mut self.out,
                );
            } else if let Some(shard) = self.next_turn() {
                // The end of its turn.
                self.out.shard = shard as u16;
                self.kernels[shard].work(self.now, &mut self.out);
            } else if let Some((shard, batch)) = self.next_written() {
                self.out.shard = shard;
                let kernel = &mut self.kernels[usize::from(shard)];
                kernel.batch_is_safe(batch, self.now, &mut self.out);
            } else {
                return;
            }
            self.write();
        }
    }

    pub fn end_turns(&mut self) {
        while let Some(shard) = self.next_turn() {
            self.out.shard = shard as u16;
            self.kernels[shard].work(self.now, &mut self.out);
            self.write();
        }
        self.number_mails();
    }

    /// A shard that has put something off, if that is done by itself.
    fn next_turn(&self) -> Option<usize> {
        let put_off = self.kernels.iter().position(Kernel::has_work);
        put_off.filter(|_| !self.turns_wait)
    }

    /// The oldest batch that is safe now.
    fn next_written(&mut self) -> Option<(u16, u64)> {
        (!self.written.is_empty()).then(|| self.written.remove(0))
    }

    fn number_mails(&mut self) {
        while self.slow.under_way.len() < self.out.mails.len() {
            self.slow.mails_sent += 1;
            self.slow.under_way.push_back(self.slow.mails_sent);
        }
    }

    /// The oldest mail from one shard to another arrives, and the shard's journal entries are written.
    pub fn carry(&mut self, from: usize, to: usize) {
        let is = |mail: &(ShardId, ShardId, ShardMessage)| {
            (usize::from(mail.0.0), usize::from(mail.1.0)) == (from, to)
        };
        let Some(at) = self.out.mails.iter().position(is) else {
            return;
        };
        let Some((from, to, mail)) = self.out.mails.remove(at) else {
            return;
        };
        self.slow.under_way.remove(at);
        self.run(usize::from(to.0), |kernel, out, now| {
            kernel.on_shard(from, mail, now, out)
        });
    }

    /// Pairs of shards between which something is under way.
    pub fn ways(&self) -> Vec<(usize, usize)> {
        let ways = self.out.mails.iter();
        let ways = ways.map(|(from, to, _)| (usize::from(from.0), usize::from(to.0)));
        BTreeSet::from_iter(ways).into_iter().collect()
    }

    /// All mail that one shard has sent so far arrives.
    pub fn carry_all_from(&mut self, from: usize) {
        for to in 0..self.kernels.len() {
            let is = |mail: &&(ShardId, ShardId, ShardMessage)| {
                (usize::from(mail.0.0), usize::from(mail.1.0)) == (from, to)
            };
            for _ in 0..self.out.mails.iter().filter(is).count() {
                self.carry(from, to);
            }
        }
    }

    /// Amount of mail sent so far.
    pub fn mails_sent(&self) -> u64 {
        self.slow.mails_sent
    }

    /// Number of the oldest promises that must be kept: mail in flight when they were made has arrived.
    pub fn promises_kept(&self) -> usize {
        let first = self.slow.under_way.front().copied().unwrap_or(u64::MAX);
        self.slow
            .promises
            .iter()
            .take_while(|sent| **sent < first)
            .count()
    }

    /// Asks without waiting for the answer.
    pub fn ask_to_join(&mut self, who: Who, filter: &str, group: &str, reliability: Reliability) {
        self.ask_for(who, &wish(filter, Some(group), reliability));
    }
}
