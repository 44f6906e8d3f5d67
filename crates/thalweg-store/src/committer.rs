//! One thread that owns the log: it writes what all shards have for it in one go, and syncs once for all of them.
//!
//! While a sync runs, the next group gathers. So groups are small when the disk is idle and large when it is busy, without
//! a timer or a tuned size. A frame is written even if no acknowledgement waits for its sync: then it survives the process
//! at once, and the machine after the interval.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_journal::{Batch, Fill, Log, LogError, Place};

/// Idle time after which a mark records that the last frames are durable.
const QUIET: Duration = Duration::from_millis(100);
/// How long the thread polls for the next batch before it sleeps.
const WATCH: Duration = Duration::from_micros(60);
/// Interval at which the fill is read, and a full log tried again.
const LOOK: Duration = Duration::from_millis(100);

/// Settings of a committer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitterSettings {
    /// Interval of syncs for frames that no acknowledgement waits for; none: they are never synced.
    pub lazy_interval: Option<Duration>,
    /// Delay of an awaited sync, so that more frames join it; worth it only where a sync takes long.
    pub linger: Duration,
    /// Most bytes of payload per write; a single larger batch is written alone.
    pub group_bytes_max: usize,
    /// Most frames per write.
    pub group_frames_max: usize,
}

impl Default for CommitterSettings {
    fn default() -> Self {
        Self {
            lazy_interval: Some(Duration::from_millis(50)),
            linger: Duration::ZERO,
            group_bytes_max: 4 << 20,
            group_frames_max: 16 << 10,
        }
    }
}

/// Whether an acknowledgement waits for a batch to be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Yes: sync as soon as it is written.
    Now,
    /// No: sync with others, after the interval or never.
    Lazy,
}

/// One batch of one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission {
    pub shard: u16,
    /// The shard's own number for it; they rise with every submission of the shard.
    pub number: u64,
    pub payload: Vec<u8>,
    pub sync: Sync,
}

/// Outcomes of submissions; reported on the committer's thread.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// These of one shard are written: they survive the process, and not yet the machine. Their payloads may be taken
    /// out for use again.
    Written {
        shard: u16,
        /// Number and place of each, in order.
        written: &'a [(u64, Place)],
        /// Their payloads' memory, empty.
        spent: &'a mut Vec<Vec<u8>>,
        /// True if the same group is synced now, so that [`Event::Durable`] follows at once.
        sync_follows: bool,
    },
    /// Everything this shard submitted up to this number is durable.
    Durable {
        shard: u16,
        /// The last of them.
        number: u64,
    },
    /// A submission of this shard is longer than a frame can be. It is not written, and those behind it are.
    Refused {
        shard: u16,
        number: u64,
        error: &'a LogError,
    },
    /// Writing failed for good. There are no further writes, and frames that are not durable never will be.
    Failed(&'a LogError),
    /// The log passed the point where new promises must be refused, or came back from it; or is full, or not any more.
    Pressure(Fill),
}

/// The thread, and the way to stop it.
pub struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Box<dyn Log>>>,
}

/// Where shards submit. Cheap to clone.
#[derive(Clone)]
pub struct CommitterHandle {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    failed: AtomicBool,
    /// Something is queued; only a hint, to be looked at without the lock.
    has_news: AtomicBool,
    /// In nanoseconds; 0 for never.
    lazy_interval: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Submission>,
    is_asleep: bool,
    is_stopping: bool,
}

impl Committer {
    /// Starts the thread. `on_event` is called on it and must not wait.
    pub fn start(
        log: Box<dyn Log>,
        settings: CommitterSettings,
        on_event: impl FnMut(Event<'_>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
            failed: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            lazy_interval: AtomicU64::new(nanos(settings.lazy_interval)),
        });
        let work = Work {
            log,
            settings,
            on_event: Box::new(on_event),
            shared: Arc::clone(&shared),
            taken: VecDeque::new(),
            shards: Vec::new(),
            unsynced_since: None,
            quiet_since: None,
            looked: None,
            fill: Fill::default(),
            is_full: false,
            was_awaited: false,
            alone: 0,
            may_watch: thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
        };
        let thread = thread::Builder::new()
            .name("thalweg-commit".to_owned())
            .spawn(move || work.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub fn handle(&self) -> CommitterHandle {
        CommitterHandle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Writes and syncs everything submitted, records that it is durable, ends the thread and returns the log. Later
    /// submissions are refused. A full log delays it by one last attempt at most.
    pub fn stop(mut self) -> Option<Box<dyn Log>> {
        self.shared.stop();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was already printed.
            let _ = thread.join();
        }
    }
}

impl CommitterHandle {
    /// Gives the committer a batch; false if it takes none any more, since it is stopping or writing failed.
    pub fn submit(&self, submission: Submission) -> bool {
        self.submit_all(std::iter::once(submission))
    }

    /// The same for several, with one locking and at most one waking.
    pub fn submit_all(&self, submissions: impl IntoIterator<Item = Submission>) -> bool {
        let mut queue = self.shared.queue();
        if queue.is_stopping || self.has_failed() {
            return false;
        }
        queue.waiting.extend(submissions);
        self.shared.has_news.store(true, Ordering::Relaxed);
        let is_asleep = std::mem::take(&mut queue.is_asleep);
        drop(queue);
        if is_asleep {
            self.shared.wake.notify_one();
        }
        true
    }

    /// Changes the interval for frames that no acknowledgement waits for, from the next one on.
    pub fn set_lazy_interval(&self, interval: Option<Duration>) {
        self.shared
            .lazy_interval
            .store(nanos(interval), Ordering::Release);
    }

    /// True once [`Event::Failed`] was reported.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }
}

impl Shared {
    fn lazy_interval(&self) -> Option<Duration> {
        let nanos = self.lazy_interval.load(Ordering::Acquire);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it holds the queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.queue().is_stopping = true;
        self.has_news.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }
}

/// Makes the queue refuse if the thread panics: it would never be drained again.
struct RefuseOnPanic(Arc<Shared>);

impl Drop for RefuseOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(true, Ordering::Release);
        }
    }
}

/// 0 for never.
fn nanos(interval: Option<Duration>) -> u64 {
    interval.map_or(0, |interval| {
        u64::try_from(interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1)
    })
}

/// State of the thread.
struct Work {
    log: Box<dyn Log>,
    settings: CommitterSettings,
    on_event: Box<dyn FnMut(Event<'_>) + Send>,
    shared: Arc<Shared>,
    /// Taken from the queue and not written yet.
    taken: VecDeque<Submission>,
    /// Pending notices by shard; a handful, so that looking through them is quick.
    shards: Vec<ShardNews>,
    /// Since when something is written and not synced.
    unsynced_since: Option<Instant>,
    /// Since when nothing was written, while the last frames are durable and nothing on disk says so.
    quiet_since: Option<Instant>,
    looked: Option<Instant>,
    fill: Fill,
    is_full: bool,
    /// An acknowledgement waited for the last group.
    was_awaited: bool,
    /// There is a core to spare for looking.
    may_watch: bool,
    /// So many of those taken go one by one.
    alone: usize,
}

struct ShardNews {
    shard: u16,
    written: Vec<(u64, Place)>,
    spent: Vec<Vec<u8>>,
    /// Its last number that is written and not durable yet.
    unsynced: Option<u64>,
}

impl Work {
    fn run(mut self) -> Box<dyn Log> {
        let _panicking = RefuseOnPanic(Arc::clone(&self.shared));
        loop {
            let stopping = self.take();
            if !self.settings.linger.is_zero()
                && self
                    .taken
                    .iter()
                    .any(|submission| submission.sync == Sync::Now)
            {
                thread::sleep(self.settings.linger);
                self.taken.extend(self.shared.queue().waiting.drain(..));
            }
            match self.turn(stopping) {
                Ok(()) if stopping && (self.taken.is_empty() || self.is_full) => break,
                Ok(()) => {}
                Err(error) => {
                    self.shared.failed.store(true, Ordering::Release);
                    self.shared.queue().waiting.clear();
                    (self.on_event)(Event::Failed(&error));
                    break;
                }
            }
        }
        self.log
    }

    /// Waits until there is something to do and takes what is queued; true if this is the end.
    fn take(&mut self) -> bool {
        self.watch();
        let due = self.due();
        let mut queue = self.shared.queue();
        while queue.waiting.is_empty()
            && !queue.is_stopping
            && (self.taken.is_empty() || self.is_full)
        {
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            queue.is_asleep = true;
            let wake = &self.shared.wake;
            queue = match left {
                None => wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    wake.wait_timeout(queue, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            queue.is_asleep = false;
        }
        self.taken.extend(queue.waiting.drain(..));
        self.shared.has_news.store(false, Ordering::Relaxed);
        queue.is_stopping
    }

    /// Looks for the next batch for a moment before sleeping, if an acknowledgement waited for the last one: a peer just answered
    /// often has more to say, and waking this thread would take as long as half a sync.
    fn watch(&mut self) {
        if !std::mem::take(&mut self.was_awaited) || !self.taken.is_empty() {
            return;
        }
        let begun = Instant::now();
        while !self.shared.has_news.load(Ordering::Relaxed) && begun.elapsed() < WATCH {
            std::hint::spin_loop();
        }
    }

    /// When the next timed work is due: a lazy sync or a look at the log's size.
    fn due(&self) -> Option<Instant> {
        let sync = self
            .unsynced_since
            .zip(self.shared.lazy_interval())
            .map(|(since, interval)| since + interval);
        let mark = self.quiet_since.map(|since| since + QUIET);
        let look = self
            .looked
            .filter(|_| self.is_full || self.fill.pressed)
            .map(|looked| looked + LOOK);
        [sync, mark, look].into_iter().flatten().min()
    }

    fn turn(&mut self, stopping: bool) -> Result<(), LogError> {
        self.write_group()?;
        let now = Instant::now();
        let interval_is_over = self
            .unsynced_since
            .zip(self.shared.lazy_interval())
            .is_some_and(|(since, interval)| now.duration_since(since) >= interval);
        if interval_is_over || stopping {
            self.sync()?;
        }
        let is_quiet = self
            .quiet_since
            .is_some_and(|since| now.duration_since(since) >= QUIET);
        if self.taken.is_empty() && (is_quiet || stopping) {
            self.quiet_since = None;
            match self.log.mark() {
                // It is of use, and not worth more than that.
                Ok(()) | Err(LogError::Full(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.look(now);
        Ok(())
    }

    /// Writes what was taken, as much as goes into one group, and syncs if an acknowledgement waits for it.
    fn write_group(&mut self) -> Result<(), LogError> {
        let mut count = self.group();
        if count == 0 {
            return Ok(());
        }
        if self.alone > 0 {
            self.alone -= 1;
            count = 1;
        }
        let batches: Vec<Batch<'_>> = self
            .taken
            .iter()
            .take(count)
            .map(|submission| Batch {
                shard: submission.shard,
                payload: &submission.payload,
            })
            .collect();
        let places = match self.log.append(&batches) {
            Ok(places) => places,
            Err(LogError::Full(_)) => Vec::new(),
            Err(error @ LogError::TooLong(_)) => {
                self.refuse_long(count, &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.is_full = places.len() < count;
        if places.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        self.unsynced_since.get_or_insert(now);
        self.quiet_since = None;
        let mut is_awaited = false;
        let written = self.taken.drain(..places.len().min(count));
        for (submission, place) in written.zip(places) {
            is_awaited |= submission.sync == Sync::Now;
            let news = news_of(&mut self.shards, submission.shard);
            news.written.push((submission.number, place));
            news.unsynced = Some(submission.number);
            let mut payload = submission.payload;
            payload.clear();
            news.spent.push(payload);
        }
        for news in self
            .shards
            .iter_mut()
            .filter(|news| !news.written.is_empty())
        {
            let ShardNews {
                shard,
                written,
                spent,
                ..
            } = news;
            (self.on_event)(Event::Written {
                shard: *shard,
                written,
                spent,
                sync_follows: is_awaited,
            });
            written.clear();
            spent.clear();
        }
        self.was_awaited = is_awaited && self.may_watch;
        if is_awaited { self.sync() } else { Ok(()) }
    }

    /// One of the group is longer than a frame: that is the fault of its submitter alone. Nothing was
    /// written, so that they go one by one until it is found.
    fn refuse_long(&mut self, count: usize, error: &LogError) {
        if count > 1 {
            self.alone = count;
            return;
        }
        if let Some(Submission { shard, number, .. }) = self.taken.pop_front() {
            (self.on_event)(Event::Refused {
                shard,
                number,
                error,
            });
        }
    }

    /// Number of the taken submissions that go into one group.
    fn group(&self) -> usize {
        let mut bytes = 0usize;
        let fits = |submission: &&Submission| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(submission.payload.len().max(1));
            is_first || bytes <= self.settings.group_bytes_max
        };
        self.taken
            .iter()
            .take(self.settings.group_frames_max.max(1))
            .take_while(fits)
            .count()
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if self.unsynced_since.is_none() {
            return Ok(());
        }
        self.log.commit()?;
        self.unsynced_since = None;
        self.quiet_since = Some(Instant::now());
        for news in &mut self.shards {
            if let Some(number) = news.unsynced.take() {
                (self.on_event)(Event::Durable {
                    shard: news.shard,
                    number,
                });
            }
        }
        Ok(())
    }

    /// Checks from time to time how full the log is, and reports a change.
    fn look(&mut self, now: Instant) {
        let is_time = self
            .looked
            .is_none_or(|looked| now.duration_since(looked) >= LOOK);
        if !is_time && self.is_full == self.fill.full {
            return;
        }
        self.looked = Some(now);
        let mut fill = self.log.fill();
        fill.full |= self.is_full;
        fill.pressed |= self.is_full;
        if (fill.pressed, fill.full) != (self.fill.pressed, self.fill.full) {
            (self.on_event)(Event::Pressure(fill));
        }
        self.fill = fill;
    }
}

fn news_of(shards: &mut Vec<ShardNews>, shard: u16) -> &mut ShardNews {
    let at = match shards.iter().position(|news| news.shard == shard) {
        Some(at) => at,
        None => {
            shards.push(ShardNews {
                shard,
                written: Vec::new(),
                spent: Vec::new(),
                unsynced: None,
            });
            shards.len() - 1
        }
    };
    &mut shards[at]
}
