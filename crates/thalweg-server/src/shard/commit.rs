//! A shard's side of the journal: batches that are on their way to safety, and what waits for them.
//!
//! At the end of a turn, and before anything is sent to another shard, what the kernel has persisted goes to the
//! committer as one batch. A batch is *complete* when it is as safe as its records asked for, all before it are complete,
//! and each shard that was sent something reliable meanwhile says that it has that as safe. Then the answers that were
//! held for it leave.

use super::{Mailbox, Shard, ToShard};
use crate::journal::Journal;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_fronts::Batch;
use thalweg_kernel::{Safety, ShardId};
use thalweg_store::committer::{CommitterHandle, Submission, Sync};

/// Batches larger than this are handed over before the turn ends.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes under way to the committer above which publishers are paused for a moment.
const BACKLOG_BYTES_MAX: usize = 32 << 20;
/// Buffers kept for coming batches.
const SPARE_MAX: usize = 4;

/// What the committer tells a shard.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Batches that are written now, and where their bytes begin.
    pub(crate) written: Vec<(u64, u64)>,
    /// All up to this one are durable.
    pub(crate) durable: Option<u64>,
    /// Empty buffers to use again.
    pub(crate) spent: Vec<Vec<u8>>,
}

/// See the module.
pub(crate) struct Commits {
    /// Nothing is persisted if absent.
    journal: Option<(Arc<Journal>, CommitterHandle)>,
    /// Handed over and not complete, oldest first.
    open: VecDeque<Open>,
    spare: Vec<Vec<u8>>,
    written: u64,
    durable: u64,
    completed: u64,
    /// Bytes handed over and not written.
    backlog: usize,
    /// By shard: how many mails it was sent, and how many of them it has said are safe.
    mailed: Vec<u64>,
    stored: Vec<u64>,
    /// What the batch being gathered waits for: shard and mail number.
    needs: Vec<(u16, u64)>,
    /// Mails of others that are as safe as our batch of this number: batch, shard, mail number.
    owed: VecDeque<(u64, ShardId, u64)>,
}

struct Open {
    number: u64,
    safety: Safety,
    bytes: usize,
    needs: Vec<(u16, u64)>,
}

impl Commits {
    pub(crate) fn new(journal: Option<(Arc<Journal>, CommitterHandle)>, shards: usize) -> Self {
        Commits {
            journal,
            open: VecDeque::new(),
            spare: Vec::new(),
            written: 0,
            durable: 0,
            completed: 0,
            backlog: 0,
            mailed: vec![0; shards],
            stored: vec![0; shards],
            needs: Vec::new(),
            owed: VecDeque::new(),
        }
    }

    /// Whether the committer does not keep up.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog > BACKLOG_BYTES_MAX
    }

    /// Whether any batch is not complete.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Numbers a mail that is about to be sent; `reliable` if an acknowledgement waits for what is in it.
    pub(crate) fn number_mail(&mut self, to: usize, reliable: bool) -> u64 {
        let Some(mailed) = self.mailed.get_mut(to) else { return 0 };
        if self.journal.is_none() || !reliable {
            return 0;
        }
        *mailed += 1;
        self.needs.push((to as u16, *mailed));
        *mailed
    }

    /// A mail of another shard that is to be confirmed has been handled while batch `current` was being gathered.
    pub(crate) fn owe(&mut self, from: ShardId, mail: u64, current: u64) {
        self.owed.push_back((current, from, mail));
    }

    fn hand_over(&mut self, id: ShardId, batch: Batch) {
        let needs = std::mem::take(&mut self.needs);
        let Batch { number, bytes, safety } = batch;
        let open = Open { number, safety, bytes: bytes.len(), needs };
        if bytes.is_empty() {
            self.give_back(bytes);
        } else if let Some((_, committer)) = &self.journal {
            self.backlog += bytes.len();
            let sync = if safety == Safety::Durable { Sync::Now } else { Sync::Lazy };
            // Refused only when writing has failed for good, or all is over: then nothing is ever complete again.
            committer.submit(Submission { shard: id.0, number, payload: bytes, sync });
        }
        self.open.push_back(open);
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && buffer.capacity() <= BATCH_BYTES {
            self.spare.push(buffer);
        }
    }

    /// The last batch that is complete now.
    fn complete(&mut self) -> u64 {
        while let Some(open) = self.open.front() {
            let is_safe = match open.safety {
                _ if open.bytes == 0 => true,
                Safety::Lazy => true,
                Safety::Written => self.written >= open.number,
                Safety::Durable => self.durable >= open.number,
            };
            let is_stored =
                |(shard, mail): &(u16, u64)| self.stored.get(usize::from(*shard)).is_some_and(|stored| stored >= mail);
            if !is_safe || !open.needs.iter().all(is_stored) {
                break;
            }
            self.completed = open.number;
            self.open.pop_front();
        }
        self.completed
    }
}

impl Shard {
    /// Hands what was persisted to the committer.
    pub(super) fn close_batch(&mut self) {
        let spare = self.commits.spare.pop().unwrap_or_default();
        match self.links.take_batch(spare) {
            Some(batch) => self.commits.hand_over(self.id, batch),
            // Nobody waits for what was sent away either.
            None => self.commits.needs.clear(),
        }
    }

    /// The same if a lot has gathered.
    pub(super) fn close_large_batch(&mut self) {
        if self.links.batch_len() > BATCH_BYTES {
            self.close_batch();
        }
    }

    pub(super) fn on_committed(&mut self, committed: Committed) {
        for (number, place) in committed.written {
            self.commits.written = number;
            let handed_over = self.commits.open.iter().find(|open| open.number == number).map_or(0, |open| open.bytes);
            self.commits.backlog = self.commits.backlog.saturating_sub(handed_over);
            self.kernel.on_written(number, place);
        }
        if let Some(durable) = committed.durable {
            self.commits.durable = durable;
        }
        for buffer in committed.spent {
            self.commits.give_back(buffer);
        }
        self.complete_batches();
    }

    pub(super) fn on_stored(&mut self, by: ShardId, mail: u64) {
        if let Some(stored) = self.commits.stored.get_mut(usize::from(by.0)) {
            *stored = (*stored).max(mail);
        }
        self.complete_batches();
    }

    /// Lets go what waited for batches that are complete now.
    pub(super) fn complete_batches(&mut self) {
        let before = self.commits.completed;
        let completed = self.commits.complete();
        if completed > before {
            self.links.complete(completed);
        }
        let nothing_open = self.commits.open.is_empty() && self.links.batch_len() == 0;
        while let Some(&(batch, shard, mail)) = self.commits.owed.front()
            && (batch <= completed || nothing_open)
        {
            self.commits.owed.pop_front();
            if let Some(mailbox) = self.shards.get(usize::from(shard.0)) {
                mailbox.tell(ToShard::Stored(self.id, mail));
            }
        }
    }

    /// Has messages fetched that queues want back.
    pub(super) fn fetch(&mut self) {
        let fetches = self.links.take_fetches();
        if let Some((journal, _)) = &self.commits.journal {
            let mailbox: &Mailbox = &self.shards[usize::from(self.id.0)];
            for fetch in fetches {
                journal.fetch(mailbox.clone(), fetch);
            }
        }
    }
}
