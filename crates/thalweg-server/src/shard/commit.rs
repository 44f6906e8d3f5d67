//! A shard's side of the journal: batches that are on their way to safety, and what waits for them.
//!
//! At the end of a turn, unless an earlier batch is still on its way, and before anything is sent to another shard, what
//! the kernel has persisted goes to the committer as one batch. A batch is *safe* when it and all before it are as safe as
//! their records asked for. It is *complete* when moreover each shard that was sent something reliable meanwhile says that
//! what it persisted for that is safe. Then the answers that were held for it leave. Shards confirm what is safe, not what
//! is complete: two that wait for each other would wait for ever.

use super::{Mailbox, Shard, ToShard};
use crate::journal::Journal;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_kernel::{Batch, Safety, ShardId};
use thalweg_model::{Span, Time};
use thalweg_store::committer::{CommitterHandle, Submission, Sync};

/// Bytes under way to the committer above which publishers are paused for a moment.
const BACKLOG_BYTES_MAX: usize = 32 << 20;
/// The longest a batch gathers while there is more to read.
const GATHER_MAX: Span = Span::from_millis(1);
/// Buffers kept for coming batches.
const SPARE_MAX: usize = 4;

/// What the committer tells a shard.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Batches that are written now, and where their bytes begin.
    pub(crate) written: Vec<(u64, u64)>,
    /// All up to this one are durable.
    pub(crate) durable: Option<u64>,
    /// Batches that were longer than a frame can be, and are not kept.
    pub(crate) refused: Vec<u64>,
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
    safe: u64,
    completed: u64,
    /// Batches that may be on their way before the next is handed over.
    under_way_max: usize,
    backlog: Backlog,
    /// Since when there could have been a batch.
    gathering_since: Option<Time>,
    /// From handing over to durable, the last time.
    last_sync: Span,
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
    since: Time,
}

/// What was handed over and is not written. A batch may be complete before: when nobody waits for it.
#[derive(Default)]
struct Backlog {
    batches: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Backlog {
    fn add(&mut self, number: u64, bytes: usize) {
        self.batches.push_back((number, bytes));
        self.bytes += bytes;
    }

    /// All up to this one are written.
    fn written(&mut self, number: u64) {
        while let Some((_, bytes)) = self.batches.pop_front_if(|(batch, _)| *batch <= number) {
            self.bytes -= bytes;
        }
    }
}

impl Commits {
    pub(crate) fn new(journal: Option<(Arc<Journal>, CommitterHandle)>, shards: usize) -> Self {
        Commits {
            journal,
            open: VecDeque::new(),
            spare: Vec::new(),
            written: 0,
            durable: 0,
            safe: 0,
            completed: 0,
            under_way_max: if shards > 1 { 2 } else { 1 },
            backlog: Backlog::default(),
            gathering_since: None,
            last_sync: Span::ZERO,
            mailed: vec![0; shards],
            stored: vec![0; shards],
            needs: Vec::new(),
            owed: VecDeque::new(),
        }
    }

    /// Whether the committer does not keep up.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog.bytes > BACKLOG_BYTES_MAX
    }

    /// Whether anything is persisted at all.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Whether any batch is not complete.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// The last batch that was handed over.
    fn last_number(&self) -> u64 {
        self.open.back().map_or(self.completed, |open| open.number)
    }

    /// Numbers a mail that is about to be sent; `reliable` if an acknowledgement waits for what is in it.
    pub(crate) fn number_mail(&mut self, to: usize, reliable: bool) -> u64 {
        let Some(mailed) = self.mailed.get_mut(to) else {
            return 0;
        };
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

    fn hand_over(&mut self, id: ShardId, batch: Batch, now: Time) {
        let needs = std::mem::take(&mut self.needs);
        let Batch {
            number,
            bytes,
            safety,
        } = batch;
        let open = Open {
            number,
            safety,
            bytes: bytes.len(),
            needs,
            since: now,
        };
        if bytes.is_empty() {
            self.give_back(bytes);
        } else if let Some((_, committer)) = &self.journal {
            self.backlog.add(number, bytes.len());
            let sync = if safety == Safety::Durable {
                Sync::Now
            } else {
                Sync::Lazy
            };
            // Refused only when writing has failed for good, or all is over: then nothing is ever complete again.
            committer.submit(Submission {
                shard: id.0,
                number,
                payload: bytes,
                sync,
            });
        }
        self.open.push_back(open);
    }

    /// A batch is not written and never will be; nobody waits for it any more.
    fn refuse(&mut self, number: u64) {
        self.backlog.written(number);
        if let Some(open) = self.open.iter_mut().find(|open| open.number == number) {
            open.bytes = 0;
        }
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        // A full batch is a little longer than its bound, and its buffer grew by doubling: without those, each full batch
        // would grow from nothing again.
        if self.spare.len() < SPARE_MAX && buffer.capacity() <= 2 * Batch::LARGE_BYTES {
            self.spare.push(buffer);
        }
    }

    /// Works out which batches are safe and complete now.
    fn progress(&mut self) {
        let safe = self.safe;
        for open in self.open.iter().filter(|open| open.number > safe) {
            let is_safe = match open.safety {
                _ if open.bytes == 0 => true,
                Safety::Lazy => true,
                Safety::Written => self.written >= open.number,
                Safety::Durable => self.durable >= open.number,
            };
            if !is_safe {
                break;
            }
            self.safe = open.number;
        }
        while let Some(open) = self.open.front() {
            let is_stored = |(shard, mail): &(u16, u64)| {
                self.stored
                    .get(usize::from(*shard))
                    .is_some_and(|stored| stored >= mail)
            };
            if open.number > self.safe || !open.needs.iter().all(is_stored) {
                break;
            }
            self.completed = open.number;
            self.open.pop_front();
        }
    }

    /// Whether so many batches are on their way that the next should gather more: what it holds may come to nothing
    /// meanwhile, and one sync serves it all.
    fn should_gather(&self) -> bool {
        let is_under_way = |open: &&Open| {
            open.bytes > 0
                && match open.safety {
                    Safety::Durable => self.durable < open.number,
                    Safety::Lazy | Safety::Written => self.written < open.number,
                }
        };
        self.open.iter().filter(is_under_way).count() >= self.under_way_max
    }
}

impl Shard {
    /// Hands what was persisted to the committer, unless it should gather more: while others are under way, and while
    /// there is more to read, for as long as the last sync took. What is settled meanwhile is not written.
    pub(super) fn end_batch(&mut self, was_idle: bool) {
        if self.kernel.is_batch_large() {
            return self.close_batch();
        }
        if !self.kernel.has_batch() || self.commits.should_gather() {
            return;
        }
        let since = *self.commits.gathering_since.get_or_insert(self.now);
        if was_idle || self.now.since(since) >= self.commits.last_sync.min(GATHER_MAX) {
            self.close_batch();
        }
    }

    /// Whether a batch will be handed over in the next turn, unless there is more to read.
    pub(super) fn is_batch_due(&self) -> bool {
        self.kernel.has_batch() && !self.commits.should_gather()
    }

    /// Hands what was persisted to the committer.
    pub(super) fn close_batch(&mut self) {
        self.commits.gathering_since = None;
        // The first of them takes all that the last waits for along: they are complete in their order.
        while let Some(full) = self.kernel.take_full_batch() {
            self.links.follow_full_batch(full.number);
            self.commits.hand_over(self.id, full, self.now);
        }
        let spare = self.commits.spare.pop().unwrap_or_default();
        match self.kernel.take_batch(spare) {
            Some(batch) => self.commits.hand_over(self.id, batch, self.now),
            // Nobody waits for what was sent away either.
            None => self.commits.needs.clear(),
        }
    }

    /// The same if a lot has gathered.
    pub(super) fn close_large_batch(&mut self) {
        if self.kernel.is_batch_large() {
            self.close_batch();
        }
    }

    /// The same, and what goes to other shards with it.
    pub(super) fn relieve_batch(&mut self) {
        if self.kernel.is_batch_large() {
            self.carry_out();
            self.close_large_batch();
        }
    }

    pub(super) fn on_committed(&mut self, committed: Committed) {
        for (number, place) in committed.written {
            self.commits.written = number;
            self.commits.backlog.written(number);
            self.kernel.on_written(number, place);
        }
        if let Some(durable) = committed.durable {
            self.commits.durable = durable;
            if let Some(open) = self.commits.open.iter().find(|open| open.number == durable) {
                self.commits.last_sync = crate::clock::now().since(open.since);
            }
        }
        for number in committed.refused {
            tracing::error!(
                shard = self.id.0,
                "what a client had the journal keep in one piece is longer than journal.frame_bytes_max: it is not kept, and                  the client is disconnected; raise that limit, or lower that of messages"
            );
            self.complete_batches();
            self.links.refuse(number);
            self.commits.refuse(number);
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
        self.commits.progress();
        if self.commits.completed > before {
            self.links.complete(self.commits.completed);
            self.kernel
                .batch_is_safe(self.commits.completed, crate::clock::now());
        }
        let safe = self.commits.safe;
        let all_is_safe = self.commits.last_number() <= safe && self.kernel.batch_len() == 0;
        while let Some(&(batch, shard, mail)) = self.commits.owed.front()
            && (batch <= safe || all_is_safe)
        {
            self.commits.owed.pop_front();
            if let Some(mailbox) = self.shards.get(usize::from(shard.0)) {
                mailbox.tell(ToShard::Stored(self.id, mail));
            }
        }
    }

    /// Has messages fetched that queues want back.
    pub(super) fn fetch(&mut self) {
        let fetches = self.kernel.take_fetches();
        if let Some((journal, _)) = &self.commits.journal {
            let mailbox: &Mailbox = &self.shards[usize::from(self.id.0)];
            for fetch in fetches {
                journal.fetch(mailbox.clone(), fetch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_no_backlog_whether_or_not_anybody_waited_for_it() {
        let mut commits = Commits::new(None, 1);
        for (number, safety) in [(1, Safety::Lazy), (2, Safety::Durable), (3, Safety::Lazy)] {
            commits.open.push_back(Open {
                number,
                safety,
                bytes: 10,
                needs: Vec::new(),
                since: Time::ZERO,
            });
            commits.backlog.add(number, 10);
        }
        commits.progress();
        assert_eq!((commits.completed, commits.backlog.bytes), (1, 30));
        commits.backlog.written(2);
        commits.durable = 2;
        commits.progress();
        assert_eq!((commits.completed, commits.backlog.bytes), (3, 10));
        commits.backlog.written(3);
        assert_eq!(commits.backlog.bytes, 0);
    }
}
