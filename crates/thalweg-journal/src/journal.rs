//! The journal as it is written: frames into the newest segment, one after the other.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, ReadError};
use crate::frame::{self, FrameDraft, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::inventory::{Inventory, ReplayFrom, Wanted, is_full};
use crate::log::{Batch, Fill, FrameView, Index, Log, LogError, Place};
use crate::options::Options;
use crate::recover::{Recovered, Recovery, Start, recover};
use crate::segment::{Ending, SegmentHead};

/// An open journal; the one writer of its directory.
pub struct Journal<D: Disk> {
    inventory: Arc<Inventory<D>>,
    active: Active<D::File>,
    epoch: u32,
    /// Most bytes of records in a frame.
    payload_bytes_max: usize,
    /// After the last frame appended.
    last: Tip,
    /// After the last frame known to be durable. Everything behind it is in `pending` too.
    durable: Tip,
    /// The last frame whose durability a frame or head on disk records.
    on_record: Index,
    /// The frames behind the durable ones, as they are in the file: an fsync error may have thrown them away there.
    pending: Vec<u8>,
    /// Number of written bytes of `pending`.
    written: usize,
    failed: Option<String>,
    /// An error that was overcome.
    mended: Option<String>,
    _lock: D::Lock,
}

/// The segment being written.
struct Active<F> {
    head: SegmentHead,
    file: Arc<F>,
    capacity: u64,
}

/// A point between two frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tip {
    /// The frame before it.
    index: Index,
    /// The chain hash after that frame.
    hash: u64,
    /// Where the next one begins.
    offset: u64,
}

impl<D: Disk> Journal<D> {
    /// Opens the journal in `disk`, or begins one if there is none: shows every frame from `replay_from` on (from the
    /// first one ever, if there is no checkpoint) and gets ready to write behind the last one.
    pub fn open(
        disk: D,
        options: Options,
        replay_from: Option<ReplayFrom>,
        show: &mut dyn FnMut(FrameView<'_>),
    ) -> Result<(Self, Recovered), OpenError> {
        let lock = take_lock(&disk)?;
        Self::open_locked(disk, lock, options, replay_from, show)
    }

    /// The same for a caller that has locked the directory already, to read its checkpoints undisturbed: see
    /// [`take_lock`].
    pub fn open_locked(
        disk: D,
        lock: D::Lock,
        options: Options,
        replay_from: Option<ReplayFrom>,
        show: &mut dyn FnMut(FrameView<'_>),
    ) -> Result<(Self, Recovered), OpenError> {
        Self::open_from(disk, lock, options, replay_from.into(), show)
    }

    /// Opens a journal without checkpoints, or creates one if there is none: replays every frame from the oldest
    /// existing segment on. The caller, who knows which segments were released, must check that no older one is
    /// missing.
    pub fn open_oldest(
        disk: D,
        options: Options,
        show: &mut dyn FnMut(FrameView<'_>),
    ) -> Result<(Self, Recovered), OpenError> {
        let lock = take_lock(&disk)?;
        Self::open_from(disk, lock, options, Start::Oldest, show)
    }

    fn open_from(
        disk: D,
        lock: D::Lock,
        options: Options,
        start: Start,
        show: &mut dyn FnMut(FrameView<'_>),
    ) -> Result<(Self, Recovered), OpenError> {
        options.check()?;
        let Recovery {
            inventory,
            recovered,
            before,
            number,
            unfit,
            superfluous,
        } = recover(&disk, options, start, show)?;
        let discard = |inventory: &Inventory<D>, names: Vec<(String, u64)>| {
            names.into_iter().try_for_each(|(name, bytes_file)| {
                let discarding = OpenError::io(format!("taking {} out of use", disk.shown(&name)));
                inventory.discard(&name, bytes_file).map_err(discarding)
            })
        };
        discard(&inventory, unfit)?;
        let wanted = Wanted {
            number,
            before,
            epoch: recovered.epoch,
            moved_bytes: 0,
            need: 0,
            at_open: true,
        };
        let begun = inventory
            .begin(&wanted)
            .map_err(|error| match is_full(&error) {
                true => OpenError::Full {
                    directory: disk.shown(""),
                    error,
                },
                false => OpenError::Io {
                    doing: format!("beginning a segment in {}", disk.shown("")),
                    error,
                },
            })?;
        // Only now: the new head says that they are not part of the journal.
        discard(&inventory, superfluous)?;
        inventory.set_durable(before.last_index);
        let tip = Tip {
            index: before.last_index,
            hash: before.hash,
            offset: SegmentHead::FRAMES_AT,
        };
        let journal = Self {
            inventory: Arc::new(inventory),
            active: Active {
                head: begun.head,
                file: begun.file,
                capacity: begun.capacity,
            },
            epoch: recovered.epoch,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            last: tip,
            durable: tip,
            on_record: before.last_index,
            pending: Vec::new(),
            written: 0,
            failed: None,
            mended: None,
            _lock: lock,
        };
        Ok((journal, recovered))
    }

    /// An error that was overcome since this was last asked, in words: the disk may be about to fail.
    pub fn take_mended(&mut self) -> Option<String> {
        self.mended.take()
    }

    /// Batches longer than this are refused; the format allows [`PAYLOAD_BYTES_MAX`]. Existing longer ones are still
    /// read.
    pub fn set_payload_bytes_max(&mut self, bytes: usize) {
        self.payload_bytes_max = bytes.min(PAYLOAD_BYTES_MAX);
    }

    /// State shared with readers and the checkpointer.
    pub fn inventory(&self) -> Arc<Inventory<D>> {
        Arc::clone(&self.inventory)
    }

    /// Place and properties of the next frame: the start of replay after a checkpoint of everything so far.
    pub fn tip(&self) -> ReplayFrom {
        ReplayFrom {
            journal: self.inventory.journal(),
            index: self.last.index + 1,
            place: self.active.head.place(self.last.offset),
            hash: self.last.hash,
        }
    }

    /// Encodes as many batches as the segment has room for; how many.
    fn encode(&mut self, batches: &[Batch<'_>], places: &mut Vec<Place>) -> usize {
        let seed = self.active.head.seed();
        for (done, batch) in batches.iter().enumerate() {
            if self.last.offset + frame::frame_bytes(batch.payload.len()) as u64
                > self.active.capacity
            {
                return done;
            }
            let draft = FrameDraft {
                shard: batch.shard,
                epoch: self.epoch,
                index: self.last.index + 1,
                durable_through: self.durable.index,
                prev_hash: self.last.hash,
                payload: batch.payload,
            };
            let before = self.pending.len();
            let hash = frame::encode(&draft, seed, self.last.offset, &mut self.pending);
            places.push(
                self.active
                    .head
                    .place(self.last.offset + HEADER_BYTES as u64),
            );
            let offset = self.last.offset + (self.pending.len() - before) as u64;
            self.last = Tip {
                index: draft.index,
                hash,
                offset,
            };
        }
        batches.len()
    }

    /// Hands what is encoded to the operating system.
    fn write(&mut self) -> io::Result<()> {
        let rest = self.pending.get(self.written..).unwrap_or_default();
        if !rest.is_empty() {
            self.active
                .file
                .write_full(rest, self.durable.offset + self.written as u64)?;
            self.written = self.pending.len();
        }
        Ok(())
    }

    /// Writes what is encoded, or undoes the encoding if there is no room; true if it was written.
    fn write_or_undo(&mut self, undo: Undo) -> Result<bool, LogError> {
        match self.write() {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => {
                self.last = undo.last;
                self.pending.truncate(undo.pending);
                Ok(false)
            }
            Err(error) => {
                let file = self.active_name();
                self.move_pending(&format!("writing {file}: {error}"))?;
                Ok(true)
            }
        }
    }

    /// Syncs the segment; after an error everything that is not durable is written again in a new one.
    fn sync(&mut self) -> Result<(), LogError> {
        if self.durable == self.last {
            return Ok(());
        }
        match self.active.file.sync_data() {
            Ok(()) => {
                self.now_durable();
                Ok(())
            }
            // The kernel may have dropped the pages and cleared the error: syncing the same file again would succeed
            // and prove nothing.
            Err(error) => {
                let file = self.active_name();
                self.move_pending(&format!("syncing {file}: {error}"))
            }
        }
    }

    fn now_durable(&mut self) {
        self.durable = self.last;
        self.pending.clear();
        self.written = 0;
        self.inventory.set_durable(self.durable.index);
    }

    /// Writes every frame that is not durable into a new segment, whose head says that the old one ended before them.
    fn move_pending(&mut self, fault: &str) -> Result<(), LogError> {
        let old = self.active.head;
        let bytes = self.pending.len() as u64;
        let before = self.ending(self.durable);
        let moved = self.begin(before, bytes, bytes).and_then(|()| {
            let from = (old.seed(), self.durable.offset);
            let to = (self.active.head.seed(), SegmentHead::FRAMES_AT);
            frame::move_frames(&mut self.pending, from, to);
            self.durable.offset = SegmentHead::FRAMES_AT;
            self.last.offset = SegmentHead::FRAMES_AT + bytes;
            self.on_record = self.durable.index;
            self.written = 0;
            self.write()?;
            self.active.file.sync_data()
        });
        match moved {
            Ok(()) => {
                self.now_durable();
                self.mended = Some(format!(
                    "{fault}; the same frames are durable in {} now",
                    self.active_name()
                ));
                Ok(())
            }
            Err(again) => {
                let words = format!(
                    "{fault}; writing the same frames again in {} failed too: {again}. Frames after {} are not \
                     confirmed and never will be. Look at the disk, then start Thalweg again",
                    self.active_name(),
                    self.durable.index
                );
                self.failed = Some(words.clone());
                Err(LogError::Failed(words))
            }
        }
    }

    /// Goes on in a new segment with room for a payload of `need` bytes. Everything in the old one is durable then, so
    /// that a fault in any segment but the newest is damage, and never an unfinished write.
    fn rotate(&mut self, need: usize) -> Result<(), LogError> {
        self.sync()?;
        let need = frame::frame_bytes(need) as u64;
        // After an error we may be in a new segment already.
        if self.last.offset + need <= self.active.capacity {
            return Ok(());
        }
        let before = self.ending(self.last);
        match self.begin(before, need, 0) {
            Ok(()) => {
                let offset = SegmentHead::FRAMES_AT;
                self.last.offset = offset;
                self.durable.offset = offset;
                self.on_record = self.durable.index;
                Ok(())
            }
            Err(error) if is_full(&error) => Err(LogError::Full(format!(
                "no room for another segment in {} ({error}). Nothing new is accepted until messages are taken or \
                 expire; make room on this file system, or raise the journal's limit",
                self.inventory.disk().shown("")
            ))),
            Err(error) => {
                let directory = self.inventory.disk().shown("");
                let words = format!(
                    "beginning a segment in {directory}: {error}. Frames after {} are not confirmed and never will be. \
                     Look at the disk, then start Thalweg again",
                    self.durable.index
                );
                self.failed = Some(words.clone());
                Err(LogError::Failed(words))
            }
        }
    }

    /// Begins the next segment; one failure that is not for lack of room is forgiven.
    fn begin(&mut self, before: Ending, need: u64, moved_bytes: u64) -> io::Result<()> {
        let epoch = self.epoch;
        let mut number = self.next_number();
        let mut wanted = Wanted {
            number,
            before,
            epoch,
            moved_bytes,
            need,
            at_open: false,
        };
        let begun = match self.inventory.begin(&wanted) {
            Err(error) if !is_full(&error) => {
                // The first one may have got its name. The next head skips it, and the next opening removes it.
                number += (SegmentHead::FRAMES_AT + need).div_ceil(Place::SPAN);
                wanted.number = number;
                self.inventory.begin(&wanted)
            }
            result => result,
        }?;
        self.active = Active {
            head: begun.head,
            file: begun.file,
            capacity: begun.capacity,
        };
        Ok(())
    }

    /// The number after the active segment's; an oversized one takes several.
    fn next_number(&self) -> u64 {
        self.active.head.number + self.active.capacity.div_ceil(Place::SPAN)
    }

    fn ending(&self, tip: Tip) -> Ending {
        Ending {
            number: self.active.head.number,
            length: tip.offset,
            last_index: tip.index,
            hash: tip.hash,
        }
    }

    fn active_name(&self) -> String {
        self.inventory
            .disk()
            .shown(&crate::names::segment(self.active.head.number))
    }

    fn alive(&self) -> Result<(), LogError> {
        self.failed
            .as_ref()
            .map_or(Ok(()), |words| Err(LogError::Failed(words.clone())))
    }
}

/// State to restore when encoded frames cannot be written.
#[derive(Clone, Copy)]
struct Undo {
    last: Tip,
    pending: usize,
}

impl<D: Disk> Log for Journal<D> {
    fn append(&mut self, batches: &[Batch<'_>]) -> Result<Vec<Place>, LogError> {
        self.alive()?;
        let max = self.payload_bytes_max;
        if let Some(batch) = batches.iter().find(|batch| batch.payload.len() > max) {
            let bytes = batch.payload.len();
            return Err(LogError::TooLong(format!(
                "a batch of {bytes} bytes is longer than a frame can be ({max}); nothing was written"
            )));
        }
        let mut places = Vec::with_capacity(batches.len());
        let mut rest = batches;
        while let Some(first) = rest.first() {
            let need = frame::frame_bytes(first.payload.len()) as u64;
            if self.last.offset + need > self.active.capacity {
                match self.rotate(first.payload.len()) {
                    Ok(()) => {}
                    Err(LogError::Full(words)) => return self.out_of_room(places, words),
                    Err(error) => return Err(error),
                }
            }
            let undo = Undo {
                last: self.last,
                pending: self.pending.len(),
            };
            let placed = places.len();
            let count = self.encode(rest, &mut places);
            if !self.write_or_undo(undo)? {
                places.truncate(placed);
                let words = format!(
                    "no room to write {}. Nothing new is accepted until messages are taken or expire; make room on \
                     this file system",
                    self.active_name()
                );
                return self.out_of_room(places, words);
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        self.inventory.set_full(false);
        Ok(places)
    }

    fn commit(&mut self) -> Result<Index, LogError> {
        self.alive()?;
        self.sync()?;
        Ok(self.durable.index)
    }

    fn mark(&mut self) -> Result<(), LogError> {
        self.alive()?;
        self.sync()?;
        if self.on_record >= self.last.index {
            return Ok(());
        }
        let told = self.durable.index;
        self.append(&[Batch {
            shard: 0,
            payload: &[],
        }])?;
        self.sync()?;
        // The mark itself is not on record, and needs not be: it holds nothing.
        self.on_record = self.on_record.max(told + 1);
        Ok(())
    }

    fn read_from(
        &self,
        index: Index,
        show: &mut dyn FnMut(FrameView<'_>) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let mut stopped = false;
        let from = self.inventory.segment_of(index).map_err(unreadable)?;
        let mut show_from = |view: FrameView<'_>| {
            if view.index >= index && !stopped {
                stopped = show(view).is_break();
            }
        };
        self.inventory
            .read_frames(from, Index::MAX, &mut show_from)
            .map_err(unreadable)?;
        Ok(())
    }

    fn trim_before(&mut self, index: Index) -> Result<(), LogError> {
        for segment in self.inventory.sealed() {
            if segment.last_index >= index {
                break;
            }
            self.inventory.release(segment.number).map_err(|error| {
                LogError::Unreadable(format!(
                    "releasing segment {:016x}: {error}; it stays",
                    segment.number
                ))
            })?;
        }
        Ok(())
    }

    fn fill(&self) -> Fill {
        self.inventory.fill()
    }
}

impl<D: Disk> Journal<D> {
    fn out_of_room(&self, places: Vec<Place>, words: String) -> Result<Vec<Place>, LogError> {
        self.inventory.set_full(true);
        if places.is_empty() {
            Err(LogError::Full(words))
        } else {
            Ok(places)
        }
    }
}

/// Takes the directory for this process.
pub fn take_lock<D: Disk>(disk: &D) -> Result<D::Lock, OpenError> {
    let directory = disk.shown("");
    match disk
        .lock()
        .map_err(OpenError::io(format!("locking {directory}")))?
    {
        Ok(lock) => Ok(lock),
        Err(holder) => Err(OpenError::Locked { directory, holder }),
    }
}

fn unreadable(error: ReadError) -> LogError {
    LogError::Unreadable(error.to_string())
}
