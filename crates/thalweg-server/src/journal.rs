//! The process's journal: opened and read at the start, then written by one thread, read back by another, and folded
//! into checkpoints by a third.
//!
//! *Knows:* the store, and the shards' mailboxes. Shards submit their batches to the [`CommitterHandle`] and get the
//! outcome through their mailboxes.

use crate::shard::{Committed, Mailbox, ToShard};
use crate::threads::{self, OnFailure, PanicGuard};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_kernel::{Fetch, Part};
use thalweg_model::{Message, Span};
use thalweg_records::{State, message_at};
use thalweg_store::committer::{Committer, CommitterHandle, CommitterSettings, Event};
use thalweg_store::{
    Archive, Batch, CheckpointSettings, Checkpointer, CheckpointerHandle, Fill, FrameView, Index,
    Inventory, Loaded, Log, LogError, OpenError, Options, OsDisk, Place, SpareKeeper, load,
};

/// The directory of the journal within `data_dir`.
pub const FOLDER: &str = "journal";

/// Segment files kept ready beyond the one that is written: making one takes less time than filling one.
const SPARES: usize = 2;

/// What is decided about the journal.
#[derive(Clone, Debug)]
pub(crate) struct JournalSettings {
    pub(crate) segment_bytes: u64,
    pub(crate) frame_bytes_max: usize,
    pub(crate) bytes_max: Option<u64>,
    /// Time between syncs that no acknowledgement waits for; none leaves it to the system.
    pub(crate) lazy_interval: Option<Span>,
    /// How long a sync waits for more.
    pub(crate) max_linger: Span,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) checkpoint_interval: Span,
    pub(crate) repair: bool,
}

/// The journal while the broker runs.
pub(crate) struct Journal {
    /// Nothing once the threads are to end.
    fetches: Mutex<Option<mpsc::Sender<(Mailbox, Fetch)>>>,
    checkpointer: CheckpointerHandle<OsDisk>,
    committer: CommitterHandle,
    counters: Arc<Counters>,
}

/// Its threads. Dropping it ends them: what was handed over is written and synced first.
pub(crate) struct JournalThreads {
    committer: Option<Committer>,
    checkpointer: Option<Checkpointer<OsDisk>>,
    spares: Option<SpareKeeper>,
    /// Ends when the sender is gone.
    fetcher: Option<JoinHandle<()>>,
    journal: Option<Arc<Journal>>,
}

/// What the threads count.
#[derive(Default)]
pub(crate) struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    groups: AtomicU64,
    syncs: AtomicU64,
    sync_nanos: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_nanos: AtomicU64,
    checkpoint_bytes: AtomicU64,
    fetched: AtomicU64,
    unreadable: AtomicU64,
    fill: Mutex<Fill>,
    recovered: Mutex<RecoveredCounts>,
}

#[derive(Clone, Copy, Default)]
struct RecoveredCounts {
    frames: u64,
    dropped_tail_frames: u64,
    quarantined: u64,
    seconds: f64,
}

/// How the journal is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalStatus {
    /// `ready`, `pressed` (new promises are refused), `full` or `failed`.
    pub state: &'static str,
    /// Frames written since the start: one per batch of a shard.
    pub frames: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Writes; each took all batches that had gathered.
    pub groups: u64,
    /// Syncs: how often what was written was forced to stable storage.
    pub syncs: u64,
    /// Seconds spent in them.
    pub sync_seconds: f64,
    /// Bytes of the files that hold records.
    pub bytes_used: u64,
    /// Bytes of the files kept ready.
    pub bytes_spare: u64,
    /// Bytes there may be at most.
    pub bytes_limit: u64,
    /// Messages that were read back for queues.
    pub fetched: u64,
    /// Messages that could not be read back.
    pub unreadable: u64,
    /// Checkpoints written since the start because they were due.
    pub checkpoints: u64,
    /// Seconds spent on them.
    pub checkpoint_seconds: f64,
    /// Bytes of the last one.
    pub checkpoint_bytes: u64,
    /// Frames read at the start.
    pub recovered_frames: u64,
    /// Frames at the end that were torn and never acknowledged; dropped at the start.
    pub dropped_tail_frames: u64,
    /// Damaged stretches that were set aside at the start (`--repair`).
    pub quarantined: u64,
    /// Seconds it took to read everything at the start.
    pub recovery_seconds: f64,
}

/// A journal that was opened: what it says, and what is needed to go on with it.
pub(crate) struct Opened {
    log: thalweg_store::Journal<OsDisk>,
    archive: Archive<OsDisk>,
    state: State,
    recovered: RecoveredCounts,
}

/// Opens the journal in `data_dir`, made if it is not there, and reads all of it.
pub(crate) fn open(data_dir: &Path, settings: &JournalSettings) -> Result<Opened, String> {
    let begun = Instant::now();
    let folder = data_dir.join(FOLDER);
    let disk = OsDisk::at(&folder).map_err(|error| {
        format!(
            "the journal's directory {} cannot be made: {error}; check data_dir and its owner",
            folder.display()
        )
    })?;
    let options = Options {
        segment_bytes: settings.segment_bytes,
        bytes_max: settings.bytes_max.unwrap_or(0),
        repair: settings.repair,
        spares: SPARES,
    };
    let Loaded {
        journal: mut log,
        state,
        recovered,
        archive,
        warnings,
    } = load(disk, options).map_err(|error: OpenError| error.to_string())?;
    log.set_payload_bytes_max(settings.frame_bytes_max);
    for warning in &warnings {
        tracing::warn!("journal: {warning}");
    }
    if let Some(tail) = &recovered.dropped_tail {
        tracing::warn!(
            "the journal's end was torn, as a loss of power leaves it: {tail}; nothing acknowledged is lost"
        );
    }
    for damage in &recovered.quarantined {
        tracing::error!("the journal was damaged and is repaired, with loss: {damage}");
    }
    for contradiction in &state.contradictions {
        tracing::error!(
            "the journal contradicts itself: {contradiction}; the fault is ours, please report it"
        );
    }
    let counts = state.counts();
    let seconds = begun.elapsed().as_secs_f64();
    if !recovered.is_new {
        tracing::info!(
            "journal read in {seconds:.2} s: {} sessions, {} subscriptions, {} messages queued or in flight, {} retained",
            counts.sessions,
            counts.subscriptions,
            counts.entries,
            counts.last_values
        );
    }
    let recovered = RecoveredCounts {
        frames: recovered.frames,
        dropped_tail_frames: recovered
            .dropped_tail
            .as_ref()
            .map_or(0, |tail| tail.frames_seen),
        quarantined: recovered.quarantined.len() as u64,
        seconds,
    };
    Ok(Opened {
        log,
        archive,
        state,
        recovered,
    })
}

impl Opened {
    /// What each shard is to take up.
    pub(crate) fn take_parts(&mut self, shards: u16) -> Vec<Part> {
        Part::split(std::mem::take(&mut self.state), shards)
    }

    /// A way to read messages while shards take up their parts.
    pub(crate) fn reader(
        &self,
    ) -> impl Fn(u64, u32) -> Option<Message> + Clone + Send + Sync + use<> {
        let inventory = self.log.inventory();
        move |place, len| read(&inventory, place, len)
    }

    /// Starts the threads. `on_failure` is called if writing fails for good, or a thread panics. The thread that makes spare
    /// files is left out: without it the journal makes its segments itself.
    pub(crate) fn start(
        self,
        settings: &JournalSettings,
        shards: Vec<Mailbox>,
        on_failure: &OnFailure,
    ) -> std::io::Result<(Arc<Journal>, CommitterHandle, JournalThreads)> {
        let Opened {
            log,
            archive,
            recovered,
            ..
        } = self;
        let inventory = log.inventory();
        let counters = Arc::new(Counters::default());
        *lock(&counters.recovered) = recovered;
        *lock(&counters.fill) = log.fill();
        let checkpoints = CheckpointSettings {
            every_bytes: settings.checkpoint_bytes,
            every: duration(settings.checkpoint_interval),
            ..CheckpointSettings::default()
        };
        let (durable, counted) = (inventory.clone(), counters.clone());
        let guard = PanicGuard::new(on_failure);
        let on_round = move |round: &Result<thalweg_store::Round, _>| {
            let _reports = &guard;
            match round {
                Ok(round) => {
                    tracing::debug!("{round}");
                    counted.checkpoints.fetch_add(1, Ordering::Relaxed);
                    counted
                        .checkpoint_nanos
                        .fetch_add(round.took.as_nanos() as u64, Ordering::Relaxed);
                    counted
                        .checkpoint_bytes
                        .store(round.bytes, Ordering::Relaxed);
                }
                Err(error) => tracing::error!(
                    "no checkpoint could be made, so that old segments stay: {error}"
                ),
            }
        };
        let checkpointer = Checkpointer::start(
            archive,
            inventory.clone(),
            checkpoints,
            move || durable.durable(),
            on_round,
        )?;
        let Some(asking) = checkpointer.handle() else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let spares = SpareKeeper::start(inventory.clone())?;
        if recovered.quarantined > 0 {
            // Until there is a checkpoint behind it, the next start would meet the damage again.
            let round = checkpointer.checkpoint_now();
            round.map_err(|error| std::io::Error::other(error.to_string()))?;
        }
        let (sender, receiver) = mpsc::channel();
        let metered = Metered {
            log,
            counters: counters.clone(),
        };
        let mut news: Vec<Committed> = shards.iter().map(|_| Committed::default()).collect();
        let counted = counters.clone();
        let guard = PanicGuard::new(on_failure);
        let on_event = move |event: Event<'_>| match event {
            Event::Written {
                shard,
                written,
                spent,
                sync_follows,
            } => {
                let at = usize::from(shard);
                let Some((news, mailbox)) = news.get_mut(at).zip(shards.get(at)) else {
                    return;
                };
                news.written.extend(
                    written
                        .iter()
                        .map(|(number, Place(place))| (*number, *place)),
                );
                news.spent.append(spent);
                if !sync_follows {
                    mailbox.tell(ToShard::Committed(std::mem::take(news)));
                }
            }
            Event::Durable { shard, number } => {
                let at = usize::from(shard);
                let Some((news, mailbox)) = news.get_mut(at).zip(shards.get(at)) else {
                    return;
                };
                news.durable = Some(number);
                mailbox.tell(ToShard::Committed(std::mem::take(news)));
            }
            Event::Refused {
                shard,
                number,
                error,
            } => {
                let at = usize::from(shard);
                let Some((news, mailbox)) = news.get_mut(at).zip(shards.get(at)) else {
                    return;
                };
                tracing::error!("the journal does not take a batch: {error}");
                news.refused.push(number);
                mailbox.tell(ToShard::Committed(std::mem::take(news)));
            }
            Event::Pressure(fill) => {
                *lock(&counted.fill) = fill;
                match fill.pressed {
                    true => tracing::error!(
                        used = fill.bytes_used,
                        limit = fill.bytes_limit,
                        "the journal is nearly full: new messages that it would have to keep are refused until there is room; let queues \
                         drain, end sessions that nobody comes back for, or raise journal.bytes_max"
                    ),
                    false => tracing::info!("the journal has room again"),
                }
                for mailbox in &shards {
                    mailbox.tell(ToShard::JournalFull(fill.pressed));
                }
            }
            Event::Failed(error) => {
                tracing::error!(
                    "the journal has failed, nothing is acknowledged any more: {error}"
                );
                guard.report("the journal", error.to_string());
            }
            _ => {}
        };
        let committer_settings = CommitterSettings {
            lazy_interval: settings.lazy_interval.map(duration),
            linger: duration(settings.max_linger),
            ..CommitterSettings::default()
        };
        let committer = Committer::start(Box::new(metered), committer_settings, on_event)?;
        let handle = committer.handle();
        let journal = Arc::new(Journal {
            fetches: Mutex::new(Some(sender)),
            checkpointer: asking,
            committer: handle.clone(),
            counters: counters.clone(),
        });
        let fetcher = threads::spawn("fetcher", on_failure, move || {
            for (
                mailbox,
                Fetch {
                    holder,
                    question,
                    places,
                },
            ) in receiver
            {
                let messages: Vec<_> = places
                    .iter()
                    .map(|(place, len)| read(&inventory, *place, *len))
                    .collect();
                counters
                    .fetched
                    .fetch_add(messages.len() as u64, Ordering::Relaxed);
                let lost = messages.iter().filter(|message| message.is_none()).count();
                counters
                    .unreadable
                    .fetch_add(lost as u64, Ordering::Relaxed);
                mailbox.tell(ToShard::Fetched {
                    holder,
                    question,
                    messages,
                });
            }
        })?;
        let threads = JournalThreads {
            committer: Some(committer),
            checkpointer: Some(checkpointer),
            spares: Some(spares),
            fetcher: Some(fetcher),
            journal: Some(journal.clone()),
        };
        Ok((journal, handle, threads))
    }
}

/// A log whose work is counted.
struct Metered {
    log: thalweg_store::Journal<OsDisk>,
    counters: Arc<Counters>,
}

impl Metered {
    /// Nothing is lost, and an operator must know: the disk may be about to fail.
    fn tell_mended(&mut self) {
        if let Some(error) = self.log.take_mended() {
            tracing::error!("the journal's disk failed; check it: {error}");
        }
    }
}

impl Log for Metered {
    fn append(&mut self, batches: &[Batch<'_>]) -> Result<Vec<Place>, LogError> {
        let places = self.log.append(batches)?;
        let bytes: usize = batches
            .iter()
            .take(places.len())
            .map(|batch| batch.payload.len())
            .sum();
        self.counters
            .bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters
            .frames
            .fetch_add(places.len() as u64, Ordering::Relaxed);
        self.tell_mended();
        Ok(places)
    }

    fn commit(&mut self) -> Result<Index, LogError> {
        let begun = Instant::now();
        let durable = self.log.commit();
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters
            .sync_nanos
            .fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.tell_mended();
        durable
    }

    fn mark(&mut self) -> Result<(), LogError> {
        self.log.mark()
    }

    fn read_from(
        &self,
        index: Index,
        show: &mut dyn FnMut(FrameView<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.log.read_from(index, show)
    }

    fn trim_before(&mut self, index: Index) -> Result<(), LogError> {
        self.log.trim_before(index)
    }

    fn fill(&self) -> Fill {
        let fill = self.log.fill();
        *lock(&self.counters.fill) = fill;
        fill
    }
}

/// A message whose record is `len` bytes at `place`.
fn read(inventory: &Inventory<OsDisk>, place: u64, len: u32) -> Option<Message> {
    let mut record = Vec::new();
    let whole = match inventory.read(Place(place), len, &mut record) {
        Ok(()) => message_at(&record).map_err(|fault| fault.to_string()),
        Err(error) => Err(error.to_string()),
    };
    whole
        .map_err(|why| {
            tracing::error!("a message in the journal cannot be read and is lost: {why}")
        })
        .ok()
}

impl Journal {
    /// Reads messages back; the mailbox gets them.
    pub(crate) fn fetch(&self, mailbox: Mailbox, fetch: Fetch) {
        if let Some(sender) = &*lock(&self.fetches) {
            // It fails only when the thread is gone, and then all is over.
            let _ = sender.send((mailbox, fetch));
        }
    }

    /// Sets the interval between syncs that no acknowledgement waits for.
    pub(crate) fn set_lazy_interval(&self, interval: Option<Span>) {
        self.committer.set_lazy_interval(interval.map(duration));
    }

    /// Makes a checkpoint now; what it did, in words.
    pub(crate) fn checkpoint(&self) -> Result<String, String> {
        self.checkpointer
            .checkpoint_now()
            .map(|round| round.to_string())
            .map_err(|error| error.to_string())
    }

    /// Makes a backup in a new or empty directory, while everything goes on.
    pub(crate) fn backup(&self, target: &Path) -> Result<thalweg_store::Backup, String> {
        let disk = OsDisk::at(target)
            .map_err(|error| format!("{} cannot be made: {error}", target.display()))?;
        self.checkpointer
            .backup(disk)
            .map_err(|error| error.to_string())
    }

    /// Whether writing has failed for good, or the committer has panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.committer.has_failed()
    }

    pub(crate) fn status(&self) -> JournalStatus {
        let counters = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (fill, recovered) = (*lock(&counters.fill), *lock(&counters.recovered));
        JournalStatus {
            state: match (self.has_failed(), fill.full, fill.pressed) {
                (true, ..) => "failed",
                (_, true, _) => "full",
                (_, _, true) => "pressed",
                _ => "ready",
            },
            frames: load(&counters.frames),
            bytes: load(&counters.bytes),
            groups: load(&counters.groups),
            syncs: load(&counters.syncs),
            sync_seconds: load(&counters.sync_nanos) as f64 / 1e9,
            checkpoints: load(&counters.checkpoints),
            checkpoint_seconds: load(&counters.checkpoint_nanos) as f64 / 1e9,
            checkpoint_bytes: load(&counters.checkpoint_bytes),
            bytes_used: fill.bytes_used,
            bytes_spare: fill.bytes_spare,
            bytes_limit: fill.bytes_limit,
            fetched: load(&counters.fetched),
            unreadable: load(&counters.unreadable),
            recovered_frames: recovered.frames,
            dropped_tail_frames: recovered.dropped_tail_frames,
            quarantined: recovered.quarantined,
            recovery_seconds: recovered.seconds,
        }
    }
}

impl JournalThreads {
    /// Writes and syncs what was handed over, and ends.
    pub(crate) fn stop(&mut self) {
        drop(self.checkpointer.take());
        drop(self.spares.take());
        if let Some(committer) = self.committer.take() {
            committer.stop();
        }
        if let Some(journal) = self.journal.take() {
            *lock(&journal.fetches) = None;
        }
        if let Some(fetcher) = self.fetcher.take() {
            let _ = fetcher.join();
        }
    }
}

impl Drop for JournalThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.nanos())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}
