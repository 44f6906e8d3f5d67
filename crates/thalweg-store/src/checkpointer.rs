//! The thread that makes checkpoints, so that a restart reads little and old segments can be used again.
//!
//! It folds files, not the kernels' memory: no shard waits for it, and its result is the state that a restart would
//! find.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_journal::{Index, Inventory, disk::Disk};

use crate::archive::{Archive, CheckpointError};
use crate::backup::{Backup, backup};
use crate::reclaim::{Packing, Reclaimed};

/// Priority of the thread below the others.
const NICE: i32 = 5;

/// When checkpoints are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointSettings {
    /// After so many bytes of new segments, or as many as the last checkpoint has if that is more.
    pub every_bytes: u64,
    /// After so long, if there is anything new.
    pub every: Duration,
    /// The same while the disk is nearly full.
    pub every_pressed: Duration,
    /// Interval at which it checks whether a checkpoint is due.
    pub look: Duration,
    /// Handling of the records in old segments.
    pub packing: Packing,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            every_bytes: 256 << 20,
            every: Duration::from_secs(60),
            every_pressed: Duration::from_secs(2),
            look: Duration::from_millis(500),
            packing: Packing::default(),
        }
    }
}

/// Results of a round.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Round {
    /// The last frame that the newest checkpoint includes.
    pub index: Index,
    /// Number of frames more than in the one before.
    pub frames: u64,
    /// Length of its file in bytes.
    pub bytes: u64,
    /// Duration of the whole round.
    pub took: Duration,
    /// Files that could be removed.
    pub reclaimed: Reclaimed,
    /// Records that contradict others, since the last checkpoint.
    pub contradictions: u64,
}

impl fmt::Display for Round {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            frames,
            bytes,
            took,
            reclaimed,
            contradictions,
        } = self;
        write!(
            out,
            "checkpoint at frame {index}: {frames} new frames, {bytes} bytes, {took:.1?}; {reclaimed}"
        )?;
        if *contradictions > 0 {
            write!(out, "; {contradictions} records contradict others")
        } else {
            Ok(())
        }
    }
}

pub struct Checkpointer<D: Disk> {
    orders: Option<Sender<Order<D>>>,
    thread: Option<JoinHandle<()>>,
}

/// Where to ask for a checkpoint or a backup. Cheap to clone.
pub struct CheckpointerHandle<D: Disk> {
    orders: Sender<Order<D>>,
}

impl<D: Disk> Clone for CheckpointerHandle<D> {
    fn clone(&self) -> Self {
        Self {
            orders: self.orders.clone(),
        }
    }
}

enum Order<D: Disk> {
    Checkpoint(Answer<Round>),
    Backup(D, Answer<Backup>),
    Stop,
}

type Answer<T> = std::sync::mpsc::SyncSender<Result<T, CheckpointError>>;

impl<D: Disk> Checkpointer<D> {
    /// Starts the thread. `durable` returns the last durable frame; `on_round` is called on the thread after every
    /// round that was due.
    pub fn start(
        archive: Archive<D>,
        inventory: Arc<Inventory<D>>,
        settings: CheckpointSettings,
        durable: impl Fn() -> Index + Send + 'static,
        on_round: impl FnMut(&Result<Round, CheckpointError>) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, received) = channel();
        let work = Work {
            archive,
            inventory,
            settings,
            durable: Box::new(durable),
            on_round: Box::new(on_round),
            last: Instant::now(),
            failed: false,
        };
        let thread = thread::Builder::new()
            .name("thalweg-checkpoint".to_owned())
            .spawn(move || work.run(&received))?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    pub fn handle(&self) -> Option<CheckpointerHandle<D>> {
        Some(CheckpointerHandle {
            orders: self.orders.clone()?,
        })
    }

    /// Makes a checkpoint now; waits for it.
    pub fn checkpoint_now(&self) -> Result<Round, CheckpointError> {
        self.handle().ok_or_else(stopped)?.checkpoint_now()
    }

    /// Ends the thread, after the round it is in.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(orders) = self.orders.take() {
            let _ = orders.send(Order::Stop);
        }
        if let Some(thread) = self.thread.take() {
            // A panic there was already printed.
            let _ = thread.join();
        }
    }
}

impl<D: Disk> Drop for Checkpointer<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<D: Disk> CheckpointerHandle<D> {
    /// Makes a checkpoint of everything durable now, and takes away what is not needed; waits for it.
    pub fn checkpoint_now(&self) -> Result<Round, CheckpointError> {
        self.ask(Order::Checkpoint)
    }

    /// Makes a backup of everything durable now in the empty directory `target`; waits for it. The broker goes on
    /// meanwhile.
    pub fn backup(&self, target: D) -> Result<Backup, CheckpointError> {
        self.ask(|answer| Order::Backup(target, answer))
    }

    fn ask<T>(&self, order: impl FnOnce(Answer<T>) -> Order<D>) -> Result<T, CheckpointError> {
        let (answer, answered) = sync_channel(1);
        self.orders.send(order(answer)).map_err(|_| stopped())?;
        answered.recv().unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> CheckpointError {
    CheckpointError {
        words: "the checkpointer has been stopped".to_owned(),
        is_full: false,
    }
}

/// One round without a thread: what simulations and tools use.
pub fn round<D: Disk>(
    archive: &mut Archive<D>,
    inventory: &Inventory<D>,
    through: Index,
    packing: &Packing,
) -> Result<Round, CheckpointError> {
    let began = Instant::now();
    let folded = archive.fold(inventory, through)?;
    let head = archive.checkpoint(&folded);
    // Files known to be obsolete can be removed even without space for a new checkpoint.
    let is_full = head.as_ref().is_err_and(|error| error.is_full);
    let reclaimed = archive.reclaim(inventory, &folded.state, packing, is_full);
    let head = head?;
    Ok(Round {
        index: head.index(),
        frames: folded.frames,
        bytes: head.bytes,
        took: began.elapsed(),
        reclaimed: reclaimed?,
        contradictions: folded.state.contradiction_count,
    })
}

type OnRound = dyn FnMut(&Result<Round, CheckpointError>) + Send;

struct Work<D: Disk> {
    archive: Archive<D>,
    inventory: Arc<Inventory<D>>,
    settings: CheckpointSettings,
    durable: Box<dyn Fn() -> Index + Send>,
    on_round: Box<OnRound>,
    /// When the last round ended.
    last: Instant,
    /// The last round failed.
    failed: bool,
}

impl<D: Disk> Work<D> {
    fn run(mut self, orders: &Receiver<Order<D>>) {
        // On Linux this is the thread's own priority. Its work can wait; that of the others cannot.
        let _ = rustix::process::nice(NICE);
        loop {
            match orders.recv_timeout(self.settings.look) {
                Ok(Order::Checkpoint(answer)) => {
                    let round = self.round();
                    let _ = answer.send(round);
                }
                Ok(Order::Backup(target, answer)) => {
                    let through = (self.durable)();
                    let _ =
                        answer.send(backup(&mut self.archive, &self.inventory, through, &target));
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if self.is_due() => {
                    let round = self.round();
                    (self.on_round)(&round);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn round(&mut self) -> Result<Round, CheckpointError> {
        let through = (self.durable)();
        let round = round(
            &mut self.archive,
            &self.inventory,
            through,
            &self.settings.packing,
        );
        self.failed = round.is_err();
        self.last = Instant::now();
        round
    }

    fn is_due(&self) -> bool {
        let newest = self.archive.newest();
        if (self.durable)() <= newest.map_or(0, |head| head.index()) {
            return false;
        }
        let waited = self.last.elapsed();
        if waited >= self.settings.every {
            return true;
        }
        if waited >= self.settings.every_pressed && self.inventory.fill().pressed {
            return true;
        }
        // A failed round would fail again: the size alone is no reason for another at once.
        if self.failed {
            return false;
        }
        let from = newest.map_or(0, |head| head.replay.place.0);
        let sealed = self.inventory.sealed();
        let new: u64 = sealed
            .iter()
            .map(|segment| {
                segment
                    .end_place
                    .0
                    .saturating_sub(segment.first_place.0.max(from))
            })
            .sum();
        new >= self
            .settings
            .every_bytes
            .max(newest.map_or(0, |head| head.bytes))
    }
}
