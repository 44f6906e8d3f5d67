//! The broker's journal: writes, syncs, and recovery.

use super::{Mail, Shard, Testbed, access_of};
use crate::disk::{Disk, Loss};
use thalweg_kernel::Part;
use thalweg_model::{Message, Span};
use thalweg_records::State;

impl Testbed {
    /// Whether the batch had any content, or a link waits for it.
    pub(super) fn close_batch(&mut self, shard: usize) -> bool {
        let Shard {
            kernel, commits, ..
        } = &mut self.shards[shard];
        let batch = kernel.take_batch(Vec::new());
        let any = batch.is_some();
        if let Some(batch) = batch {
            commits.hand_over(shard, batch, &mut self.disk);
        }
        any
    }

    /// Says to the shards what is written and safe by now.
    pub(super) fn look_at_disk(&mut self) {
        for shard in 0..self.shards.len() {
            let Shard {
                kernel, commits, ..
            } = &mut self.shards[shard];
            let (gathering, nothing) = (kernel.batch_number(), kernel.batch_len() == 0);
            // Mail that must precede the batch is sent first.
            if kernel.has_outbox() {
                continue;
            }
            for (to, number) in commits.look(shard, &self.disk, gathering, nothing) {
                let mail = &mut self.mail[shard * self.shards.len() + to];
                match mail.is_empty() {
                    true => self.shards[to].commits.on_stored(shard, number),
                    false => mail.push_back(Mail::Stored(number)),
                }
            }
        }
        let now = self.now;
        for Shard {
            links,
            commits,
            kernel,
            ..
        } in &mut self.shards
        {
            let completed = match self.is_careless {
                true => commits.complete_blindly(),
                false => commits.complete(),
            };
            if let Some(number) = completed {
                links.complete(number);
                kernel.batch_is_safe(number, now, links);
                self.is_completed = true;
            }
        }
    }

    /// Writes up to `count` batches. Whether there were any.
    pub fn write_batches(&mut self, count: usize) -> bool {
        let (handed_over, written, _) = self.disk.counts();
        for shard in 0..self.shards.len() * usize::from(handed_over == written) {
            self.close_batch(shard);
        }
        let mut any = false;
        for _ in 0..count {
            let Some((shard, number, place)) = self.disk.write() else {
                break;
            };
            self.shards[shard].kernel.on_written(number, place);
            any = true;
        }
        self.look_at_disk();
        any
    }

    /// Everything that was persisted is written and durable. Whether anything was not.
    pub fn write_all(&mut self) -> bool {
        let mut any = false;
        for shard in 0..self.shards.len() {
            any |= self.close_batch(shard);
        }
        any | self.write_batches(usize::MAX) | self.sync()
    }

    /// Written frames become durable. Returns whether there were any.
    pub fn sync(&mut self) -> bool {
        let any = self.disk.sync();
        self.look_at_disk();
        any
    }

    /// Whether anything waits for the journal.
    pub fn is_anything_unsafe(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.any(|shard| shard.commits.is_waiting() || !shard.fetches.is_empty())
    }

    /// Brings a shard the messages that it asked for first. Whether it asked for any.
    pub fn fetch(&mut self, shard: usize) -> bool {
        let Some(fetch) = self.shards[shard].fetches.pop_front() else {
            return false;
        };
        let read = |(place, len): &(u64, u32)| read(&self.disk, self.unreadable, *place, *len);
        let messages: Vec<Option<Message>> = fetch.places.iter().map(read).collect();
        let Shard { kernel, links, .. } = &mut self.shards[shard];
        kernel.on_fetched(fetch.holder, fetch.question, messages, self.now, links);
        self.gather(shard);
        true
    }

    /// The process ends, and another one with so many shards recovers the journal; all clients are disconnected.
    /// `check` sees the recovered state. Nothing of the new process's journal is written.
    pub fn crash(&mut self, loss: Loss, shards: u16, check: impl FnOnce(&State)) {
        for pipe in &mut self.pipes {
            pipe.link = None;
            pipe.up.clear();
            pipe.down.clear();
        }
        self.asked.clear();
        let state = self.disk.crash(loss);
        check(&state);
        self.nonce += 1;
        self.settings.shards = shards;
        self.begin();
        let access = |client: &str, user: Option<&str>| access_of(&self.rights, client, user);
        for (part, shard) in Part::split(state, shards).into_iter().zip(&mut self.shards) {
            let read = |place, len| read(&self.disk, self.unreadable, place, len);
            let Shard { kernel, links, .. } = shard;
            kernel.restore(part, &mut { read }, &access, self.now, links);
        }
        for shard in 0..self.shards.len() {
            self.gather(shard);
        }
        self.carry_all();
        for shard in 0..self.shards.len() {
            let Shard { kernel, links, .. } = &mut self.shards[shard];
            kernel.on_timeout(self.now, links);
            self.gather(shard);
        }
    }

    /// Ends the process and starts it anew; nothing that was written is lost.
    pub fn restart(&mut self) {
        self.crash(Loss::Process, self.settings.shards, |_| ());
        self.run_for(Span::ZERO);
    }
}

fn read(
    disk: &Disk,
    unreadable: Option<fn(&Message) -> bool>,
    place: u64,
    len: u32,
) -> Option<Message> {
    let message = disk.read(place, len);
    message.filter(|message| unreadable.is_none_or(|is| !is(message)))
}
