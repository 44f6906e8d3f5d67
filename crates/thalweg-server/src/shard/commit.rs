//! A shard's side of the journal: batches that are on their way to safety, and what waits for them.
//!
//! At the end of a turn, unless an earlier batch is still on its way, and before anything is sent to another shard, what
//! the kernel has persisted goes to the committer as one batch: a frame of the journal, or several if it is more than one
//! holds. A batch is *safe* when it and all before it are as safe as their records asked for. It is *complete* when moreover each shard that was sent something reliable meanwhile says that
//! what it persisted for that is safe. Then the answers that were held for it leave. Shards confirm what is safe, not what
//! is complete: two that wait for each other would wait for ever.

use super::{Mailbox, Shard, ToShard};
use crate::journal::Journal;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_kernel::{Batch, Safety, ShardId, ShardMessage};
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
    /// Frames that are written now, and where their bytes begin.
    pub(crate) written: Vec<(u64, u64)>,
    /// All up to this one are durable.
    pub(crate) durable: Option<u64>,
    /// Those that were longer than a frame can be, and are not kept.
    pub(crate) refused: Vec<u64>,
    /// Empty buffers to use again.
    pub(crate) spent: Vec<Vec<u8>>,
}

pub(crate) struct Commits {
    /// Nothing is persisted if absent.
    journal: Option<(Arc<Journal>, CommitterHandle)>,
    /// Frames that were handed over and whose batches are not complete, oldest first.
    open: VecDeque<Open>,
    spare: Vec<Vec<u8>>,
    /// Frames up to these are written, and durable.
    written: u64,
    durable: u64,
    /// Batches up to these are safe, and complete.
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
    /// Mails of others that are to be confirmed.
    owed: VecDeque<Owed>,
}

/// A mail of another shard.
struct Owed {
    /// It is confirmed when this batch of ours is safe,
    batch: u64,
    to: ShardId,
    mail: u64,
    /// or, with this, when it is complete.
    forwarded: bool,
}

struct Open {
    frame: u64,
    number: u64,
    safety: Safety,
    bytes: usize,
    needs: Vec<(u16, u64)>,
    since: Time,
}

/// Frames that were handed over and are not written. A batch may be complete before, if no answer waits for it.
#[derive(Default)]
struct Backlog {
    frames: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Backlog {
    fn add(&mut self, frame: u64, bytes: usize) {
        self.frames.push_back((frame, bytes));
        self.bytes += bytes;
    }

    /// All up to this one are written.
    fn written(&mut self, frame: u64) {
        while let Some((_, bytes)) = self.frames.pop_front_if(|(first, _)| *first <= frame) {
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

    /// Numbers a mail that is about to be sent, if an acknowledgement waits for what is in it.
    pub(crate) fn number_mail(&mut self, to: usize, mail: &[ShardMessage]) -> u64 {
        let Some(mailed) = self.mailed.get_mut(to) else {
            return 0;
        };
        let is_awaited = match self.journal {
            Some(_) => ShardMessage::is_reliable,
            // What is nowhere written down can be refused all the same.
            None => ShardMessage::is_asking,
        };
        if !mail.iter().any(is_awaited) {
            return 0;
        }
        *mailed += 1;
        self.needs.push((to as u16, *mailed));
        *mailed
    }

    /// A mail of another shard that is to be confirmed has been handled while batch `current` was being gathered; `forwarded`
    /// if what it asks is asked of others now, so that it waits for them, too.
    pub(crate) fn owe(&mut self, from: ShardId, mail: u64, current: u64, forwarded: bool) {
        self.owed.push_back(Owed {
            batch: current,
            to: from,
            mail,
            forwarded,
        });
    }

    /// The next mail that can be confirmed.
    fn pop_owed(&mut self, gathers_nothing: bool) -> Option<Owed> {
        let all_is_safe = gathers_nothing && self.last_number() <= self.safe;
        self.owed.pop_front_if(|owed| match owed.forwarded {
            true => owed.batch <= self.completed,
            false => owed.batch <= self.safe || all_is_safe,
        })
    }

    fn hand_over(&mut self, id: ShardId, batch: Batch, now: Time) {
        let needs = std::mem::take(&mut self.needs);
        let Batch {
            number,
            frame,
            bytes,
            safety,
        } = batch;
        let open = Open {
            frame,
            number,
            safety,
            // Without a journal nothing is written, and it is complete when other shards have answered.
            bytes: if self.journal.is_some() {
                bytes.len()
            } else {
                0
            },
            needs,
            since: now,
        };
        if bytes.is_empty() {
            self.give_back(bytes);
        } else if let Some((_, committer)) = &self.journal {
            self.backlog.add(frame, bytes.len());
            let sync = if safety == Safety::Durable {
                Sync::Now
            } else {
                Sync::Lazy
            };
            // Refused only when writing has failed for good, or all is over: then nothing is ever complete again.
            committer.submit(Submission {
                shard: id.0,
                number: frame,
                payload: bytes,
                sync,
            });
        }
        self.open.push_back(open);
    }

    /// A frame is not written and never will be. Returns the number of its batch, for which nothing may wait any more.
    fn refuse(&mut self, frame: u64) -> Option<u64> {
        self.backlog.written(frame);
        let open = self.open.iter_mut().find(|open| open.frame == frame)?;
        open.bytes = 0;
        Some(open.number)
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
        let is_safe = |open: &Open| match open.safety {
            _ if open.bytes == 0 => true,
            Safety::Lazy => true,
            Safety::Written => self.written >= open.frame,
            Safety::Durable => self.durable >= open.frame,
        };
        // A batch is as safe as the last of its frames, and those are handed over together.
        self.safe = match self.open.iter().find(|open| !is_safe(open)) {
            Some(first) => first.number - 1,
            None => self.last_number(),
        };
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
                    Safety::Durable => self.durable < open.frame,
                    Safety::Lazy | Safety::Written => self.written < open.frame,
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
            self.commits.hand_over(self.id, full, self.now);
        }
        let spare = self.commits.spare.pop().unwrap_or_default();
        match self.kernel.take_batch(spare) {
            Some(batch) => self.commits.hand_over(self.id, batch, self.now),
            // No answer waits for what was sent to other shards either.
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
        for (frame, place) in committed.written {
            self.commits.written = frame;
            self.commits.backlog.written(frame);
            self.kernel.on_written(frame, place);
        }
        if let Some(durable) = committed.durable {
            self.commits.durable = durable;
            if let Some(open) = self.commits.open.iter().find(|open| open.frame == durable) {
                self.commits.last_sync = crate::clock::now().since(open.since);
            }
        }
        for frame in committed.refused {
            tracing::error!(
                shard = self.id.0,
                "what a client had the journal keep in one piece is longer than journal.frame_bytes_max: it is not kept, and                  the client is disconnected; raise that limit, or lower that of messages"
            );
            self.complete_batches();
            if let Some(batch) = self.commits.refuse(frame) {
                self.links.refuse(batch);
                self.kernel.batch_not_kept(batch);
            }
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
            let (completed, now) = (self.commits.completed, crate::clock::now());
            self.kernel.batch_is_safe(completed, now, &mut self.links);
        }
        if !self.commits.owed.is_empty() {
            // What is not kept of a mail is said before it is confirmed.
            self.carry_out();
        }
        let gathers_nothing = self.kernel.batch_len() == 0;
        while let Some(Owed { to, mail, .. }) = self.commits.pop_owed(gathers_nothing) {
            if let Some(mailbox) = self.shards.get(usize::from(to.0)) {
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

    fn open(commits: &mut Commits, frame: u64, number: u64, safety: Safety) {
        commits.open.push_back(Open {
            frame,
            number,
            safety,
            bytes: 10,
            needs: Vec::new(),
            since: Time::ZERO,
        });
        commits.backlog.add(frame, 10);
    }

    #[test]
    fn what_is_written_is_no_backlog_whether_or_not_anybody_waited_for_it() {
        let mut commits = Commits::new(None, 1);
        for (number, safety) in [(1, Safety::Lazy), (2, Safety::Durable), (3, Safety::Lazy)] {
            open(&mut commits, number, number, safety);
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

    #[test]
    fn a_batch_is_complete_with_the_last_of_its_frames() {
        let mut commits = Commits::new(None, 1);
        for (frame, number) in [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3)] {
            open(&mut commits, frame, number, Safety::Durable);
        }
        let completed = [1, 2, 3, 4, 5].map(|frame| {
            commits.durable = frame;
            commits.progress();
            commits.completed
        });
        assert_eq!(completed, [1, 1, 1, 2, 3]);
    }

    #[test]
    fn a_frame_that_is_refused_takes_its_batch_along_and_no_other() {
        let mut commits = Commits::new(None, 1);
        for (frame, number) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            open(&mut commits, frame, number, Safety::Durable);
        }
        commits.durable = 1;
        commits.progress();
        assert_eq!(commits.completed, 1);
        assert_eq!(commits.refuse(2), Some(2), "who waits for it is told so");
        commits.progress();
        assert_eq!(commits.completed, 1, "its other frame is on its way");
        commits.durable = 4;
        commits.progress();
        assert_eq!(commits.completed, 3);
    }
}
