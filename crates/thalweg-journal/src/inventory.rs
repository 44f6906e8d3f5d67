//! Index of segments and places: shared by the journal, by readers and by the checkpointer.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, ReadError};
use crate::log::{Fill, FrameView, Index, Place};
use crate::names;
use crate::options::Options;
use crate::reader::{Expected, Found, FrameReader};
use crate::segment::{Ending, SegmentHead};

/// Zeros are written this many at a time.
const ZEROS_BYTES: usize = 1 << 20;
/// Sizes of segments that are tried when the disk has no space for one of the configured size.
const SMALL_SEGMENTS: [u64; 3] = [1 << 20, 64 << 10, 8 << 10];

/// Start of replay after a checkpoint: the place of the next frame, and its expected properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayFrom {
    /// Id of the journal that the checkpoint was made from.
    pub journal: u128,
    pub index: Index,
    /// Where it begins, header and all; or where its predecessor ended, if it begins a later segment.
    pub place: Place,
    /// The chain hash of its predecessor.
    pub hash: u64,
}

impl ReplayFrom {
    /// The beginning of a journal: before any frame.
    pub const fn start(journal: u128) -> Self {
        Self {
            journal,
            index: 1,
            place: Place(0),
            hash: 0,
        }
    }
}

/// Properties of a segment that are known without reading its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    pub number: u64,
    pub first_index: Index,
    /// Its last frame; less than the first if it has none.
    pub last_index: Index,
    /// Bytes of the file that hold head and frames.
    pub bytes_used: u64,
    /// Length of the file in bytes.
    pub bytes_file: u64,
    /// Where its first frame begins.
    pub first_place: Place,
    /// Where its last frame ends: all its places are before this one.
    pub end_place: Place,
}

/// Something else that has places, such as a pack of the records that outlived their segments.
pub trait PlaceSource: Send + Sync {
    /// Puts the `len` bytes at `place` into `into`, replacing what is there; false if it does not have them.
    fn read(&self, place: Place, len: u32, into: &mut Vec<u8>) -> Result<bool, ReadError>;
}

/// All segments of an open journal.
pub struct Inventory<D: Disk> {
    disk: D,
    journal: u128,
    options: Options,
    /// Lock order: `shelf` before `table`.
    table: RwLock<Table<D::File>>,
    shelf: Mutex<Shelf>,
    /// A spare was taken from the shelf.
    taken: Condvar,
    /// Held while a spare is made, so that only one is made at a time.
    making: Mutex<()>,
    durable: AtomicU64,
    /// Bytes of files that others keep in the directory.
    other_bytes: AtomicU64,
    full: AtomicBool,
}

struct Table<F> {
    segments: BTreeMap<u64, Segment<F>>,
    moves: Vec<Moved>,
    sources: Vec<Arc<dyn PlaceSource>>,
}

pub(crate) struct Segment<F> {
    pub head: SegmentHead,
    pub file: Arc<F>,
    pub bytes_file: u64,
    /// Where its frames end; `None` while it is written.
    pub end: Option<u64>,
    /// Its last frame, if it is known: the segment after it says so.
    pub last_index: Option<Index>,
}

/// Frames that an fsync error made us write again elsewhere.
struct Moved {
    from: Place,
    bytes: u64,
    to: Place,
}

struct Shelf {
    names: Vec<String>,
    /// The number of the last one named.
    last: u64,
}

/// A segment that was just begun.
pub(crate) struct Begun<F> {
    pub head: SegmentHead,
    pub file: Arc<F>,
    pub capacity: u64,
}

/// Properties of a new segment.
pub(crate) struct Wanted {
    pub number: u64,
    pub before: Ending,
    pub epoch: u32,
    pub moved_bytes: u64,
    /// For how many bytes of frames it must have room.
    pub need: u64,
    /// The journal is being opened: limits of ours do not count, a small segment is better than none, and there is
    /// time to fill it with zeros.
    pub at_open: bool,
}

impl<D: Disk> Inventory<D> {
    pub(crate) fn new(
        disk: D,
        journal: u128,
        options: Options,
        spares: Vec<String>,
        highest_spare: u64,
    ) -> Self {
        Self {
            disk,
            journal,
            options,
            table: RwLock::new(Table {
                segments: BTreeMap::new(),
                moves: Vec::new(),
                sources: Vec::new(),
            }),
            shelf: Mutex::new(Shelf {
                names: spares,
                last: highest_spare,
            }),
            taken: Condvar::new(),
            making: Mutex::new(()),
            durable: AtomicU64::new(0),
            other_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Id of the journal, which all its files carry.
    pub fn journal(&self) -> u128 {
        self.journal
    }

    /// The last frame known to be durable.
    pub fn durable(&self) -> Index {
        self.durable.load(Ordering::Acquire)
    }

    /// Puts the `len` bytes at `place` into `into`, replacing what is there. They are as they are in the file: the
    /// frame's checksum is not looked at, since its beginning is not known here; records carry what it takes to check one.
    pub fn read(&self, place: Place, len: u32, into: &mut Vec<u8>) -> Result<(), ReadError> {
        let (sources, moved) = {
            let table = self.table();
            let moved = table.moved(place);
            let found = table.find(place, len).or_else(|| table.find(moved?, len));
            if let Some((segment, offset)) = found {
                let (file, number) = (Arc::clone(&segment.file), segment.head.number);
                drop(table);
                return self.read_file(&*file, number, offset, len, into);
            }
            (table.sources.clone(), moved)
        };
        for source in &sources {
            if source.read(place, len, into)? {
                return Ok(());
            }
            // A fold of the frames has only the places where they were written again.
            if let Some(moved) = moved
                && source.read(moved, len, into)?
            {
                return Ok(());
            }
        }
        Err(ReadError::Gone(place))
    }

    /// Shows the durable frames from `from` through `through`, or fewer if that many are not durable yet; where to go on.
    pub fn read_frames(
        &self,
        from: ReplayFrom,
        through: Index,
        show: &mut dyn FnMut(FrameView<'_>),
    ) -> Result<ReplayFrom, ReadError> {
        let through = through.min(self.durable());
        let mut expected = Expected {
            index: from.index,
            hash: from.hash,
        };
        let mut place = from.place;
        while expected.index <= through {
            let (head, file, end) = self.holder_of(expected.index)?;
            let offset = match place.since(head.place(0)) {
                Some(offset) if offset <= end && offset >= SegmentHead::FRAMES_AT => offset,
                _ if head.first_index() == expected.index => SegmentHead::FRAMES_AT,
                _ => {
                    return Err(ReadError::Damaged(self.missing(
                        &head,
                        expected.index,
                        "no frame begins where it should",
                    )));
                }
            };
            let mut reader = FrameReader::new(&*file, head.seed(), offset, end);
            while expected.index <= through {
                let name = names::segment(head.number);
                let reading = || format!("reading {}", self.disk.shown(&name));
                match reader.next(&mut expected).map_err(|error| ReadError::Io {
                    doing: reading(),
                    error,
                })? {
                    Found::Frame(at, header, payload) => show(FrameView {
                        index: header.index,
                        epoch: header.epoch,
                        shard: header.shard,
                        place: head.place(at).plus(crate::frame::HEADER_BYTES as u64),
                        payload,
                    }),
                    Found::End => break,
                    Found::Fault(fault) => {
                        return Err(ReadError::Damaged(Damage {
                            file: self.disk.shown(&name),
                            offset: reader.offset(),
                            bytes: end.saturating_sub(reader.offset()),
                            first_index: expected.index,
                            last_index: None,
                            fault: fault.words(),
                            quarantine: None,
                        }));
                    }
                }
            }
            let next = head.place(reader.offset());
            if next == place {
                return Err(ReadError::Damaged(self.missing(
                    &head,
                    expected.index,
                    "the segment ends before it",
                )));
            }
            place = next;
        }
        Ok(ReplayFrom {
            journal: self.journal,
            index: expected.index,
            place,
            hash: expected.hash,
        })
    }

    /// Where the oldest frame that is still here begins.
    pub fn oldest(&self) -> ReplayFrom {
        let table = self.table();
        table
            .segments
            .values()
            .next()
            .map_or(ReplayFrom::start(self.journal), |segment| ReplayFrom {
                journal: self.journal,
                index: segment.head.first_index(),
                place: segment.head.place(SegmentHead::FRAMES_AT),
                hash: segment.head.before.hash,
            })
    }

    /// Where the segment begins that has frame `index`.
    pub fn segment_of(&self, index: Index) -> Result<ReplayFrom, ReadError> {
        let (head, ..) = self.holder_of(index)?;
        Ok(ReplayFrom {
            journal: self.journal,
            index: head.first_index(),
            place: head.place(SegmentHead::FRAMES_AT),
            hash: head.before.hash,
        })
    }

    /// The segments that are not written any more, oldest first.
    pub fn sealed(&self) -> Vec<SegmentInfo> {
        self.layout().0
    }

    /// The same, and the place from which on everything is in the segment that is written.
    pub fn layout(&self) -> (Vec<SegmentInfo>, Place) {
        let table = self.table();
        let written = table
            .segments
            .values()
            .next_back()
            .filter(|segment| segment.end.is_none());
        let written_from = written.map_or(Place(u64::MAX), |segment| segment.head.place(0));
        let firsts = table
            .segments
            .values()
            .skip(1)
            .map(|next| Some(next.head.before.last_index))
            .chain([None]);
        let infos = table
            .segments
            .values()
            .zip(firsts)
            .filter_map(|(segment, next)| {
                let bytes_used = segment.end?;
                Some(SegmentInfo {
                    number: segment.head.number,
                    first_index: segment.head.first_index(),
                    last_index: segment.last_index.or(next)?,
                    bytes_used,
                    bytes_file: segment.bytes_file,
                    first_place: segment.head.place(SegmentHead::FRAMES_AT),
                    end_place: segment.head.place(bytes_used),
                })
            });
        (infos.collect(), written_from)
    }

    /// The segment in which replay goes on: its number, how many of its bytes are before that point, and whether it is
    /// sealed.
    pub fn part_before(&self, replay: ReplayFrom) -> Option<(u64, u64, bool)> {
        let table = self.table();
        let segment = table
            .segments
            .values()
            .rev()
            .find(|segment| segment.head.first_index() <= replay.index)?;
        let end = segment.end.unwrap_or(segment.bytes_file);
        let offset = replay.place.since(segment.head.place(0));
        let bytes = offset.filter(|offset| (SegmentHead::FRAMES_AT..=end).contains(offset));
        Some((
            segment.head.number,
            bytes.unwrap_or(SegmentHead::FRAMES_AT),
            segment.end.is_some(),
        ))
    }

    /// Nothing in `segment` is needed any more: its file is kept as a spare, or removed.
    pub fn release(&self, segment: u64) -> io::Result<()> {
        let mut shelf = self.shelf();
        let bytes_file = match self.table().segments.get(&segment) {
            Some(Segment {
                end: Some(_),
                bytes_file,
                ..
            }) => *bytes_file,
            Some(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "this segment is still being written",
                ));
            }
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "there is no such segment",
                ));
            }
        };
        self.recycle(&mut shelf, &names::segment(segment), bytes_file, |this| {
            this.table_mut().segments.remove(&segment);
        })?;
        self.full.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a spare file, if one is wanted and there is room; false if not. Takes as long as writing a segment full
    /// of zeros, so that it is for a thread that has nothing else to do.
    pub fn make_spare(&self) -> io::Result<bool> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.options.segment_bytes;
        let kept = self.shelf().names.len();
        if kept >= self.options.spares || !self.has_room_for(bytes) {
            return Ok(false);
        }
        // A spare must not take the last room of a file system that others use too.
        if self.disk.free_bytes()? < bytes.saturating_mul(2) {
            return Ok(false);
        }
        let name = self.new_spare_name();
        let made = self.disk.create(&name).and_then(|file| {
            file.allocate(bytes)?;
            fill_with_zeros(&file, bytes)?;
            file.sync_data()
        });
        if let Err(error) = made.and_then(|()| self.disk.sync_dir()) {
            // It is not needed; what cannot be removed is taken up by the next opening.
            let _ = self.disk.unlink(&name);
            return Err(error);
        }
        self.shelf().names.push(name);
        Ok(true)
    }

    /// True if fewer spares are there than are wanted.
    pub(crate) fn wants_spare(&self) -> bool {
        self.shelf().names.len() < self.options.spares
    }

    /// Waits until fewer spares are there than are wanted, or until it is time to stop.
    pub(crate) fn wait_for_want(&self, is_stopping: &AtomicBool) {
        let is_content = |shelf: &mut Shelf| {
            shelf.names.len() >= self.options.spares && !is_stopping.load(Ordering::Acquire)
        };
        drop(
            self.taken
                .wait_while(self.shelf(), is_content)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Wakes who waits in [`Inventory::wait_for_want`], to look again.
    pub(crate) fn look_again(&self) {
        let _shelf = self.shelf();
        self.taken.notify_all();
    }

    /// Makes [`Inventory::read`] also ask `source` for places that are in no segment.
    pub fn add_source(&self, source: Arc<dyn PlaceSource>) {
        self.table_mut().sources.push(source);
    }

    /// From now on [`Inventory::read`] does not ask `source` any more.
    pub fn remove_source(&self, source: &Arc<dyn PlaceSource>) {
        self.table_mut()
            .sources
            .retain(|known| !Arc::ptr_eq(known, source));
    }

    /// Says how many bytes other files of the journal take (checkpoints, packs): they count towards its limit.
    pub fn set_other_bytes(&self, bytes: u64) {
        self.other_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the fill of the log.
    pub fn fill(&self) -> Fill {
        let bytes_spare = self.spare_bytes();
        let bytes_used = self.used_bytes();
        // Not knowing what is free, we take what we have for all there is.
        let free = self.disk.free_bytes().unwrap_or(0);
        let possible = bytes_used.saturating_add(bytes_spare).saturating_add(free);
        let bytes_limit = if self.options.bytes_max == 0 {
            possible
        } else {
            possible.min(self.options.bytes_max)
        };
        let full = self.full.load(Ordering::Relaxed);
        let pressed = full
            || u128::from(bytes_used) * 100
                > u128::from(bytes_limit) * u128::from(Fill::PRESSURE_PERCENT);
        Fill {
            bytes_used,
            bytes_spare,
            bytes_limit,
            pressed,
            full,
        }
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    pub(crate) fn set_durable(&self, index: Index) {
        self.durable.store(index, Ordering::Release);
    }

    /// Puts a segment that was found at opening into the table.
    pub(crate) fn add(&self, segment: Segment<D::File>) {
        self.table_mut().insert(segment);
    }

    /// Takes a file that holds nothing needed out of the way.
    pub(crate) fn discard(&self, name: &str, bytes_file: u64) -> io::Result<()> {
        self.recycle(&mut self.shelf(), name, bytes_file, |_| {})
    }

    /// Begins a segment; on return its head and its name are durable, and the one before it is sealed in the table.
    ///
    /// A file gets a segment's name only when its head is durable. So a segment without a sound head was damaged, and
    /// never merely unfinished.
    pub(crate) fn begin(&self, wanted: &Wanted) -> io::Result<Begun<D::File>> {
        let (name, file, capacity) = self.blank(wanted)?;
        let head = SegmentHead {
            journal: self.journal,
            number: wanted.number,
            salt: self.disk.random()?,
            before: wanted.before,
            epoch: wanted.epoch,
            moved_bytes: wanted.moved_bytes,
            bytes_file: capacity,
        };
        let named = names::segment(wanted.number);
        let begun = file
            .write_full(&head.sealed()[..], 0)
            .and_then(|()| file.sync_data())
            .and_then(|()| self.disk.rename(&name, &named));
        if let Err(error) = begun {
            let _ = self.disk.unlink(&name);
            return Err(error);
        }
        self.disk.sync_dir()?;
        let file = Arc::new(file);
        self.table_mut().insert(Segment {
            head,
            file: Arc::clone(&file),
            bytes_file: capacity,
            end: None,
            last_index: None,
        });
        Ok(Begun {
            head,
            file,
            capacity,
        })
    }

    /// A file for a new segment, under a spare's name, and how long it is.
    fn blank(&self, wanted: &Wanted) -> io::Result<(String, D::File, u64)> {
        let need = SegmentHead::FRAMES_AT + wanted.need;
        let ordinary = self.options.segment_bytes;
        if need <= ordinary {
            let spare = self.shelf().names.pop();
            self.taken.notify_all();
            if let Some(name) = spare {
                let file = self.disk.open_to_write(&name)?;
                return Ok((name, file, ordinary));
            }
        }
        let capacity = if need <= ordinary {
            ordinary
        } else {
            need.next_multiple_of(SegmentHead::FRAMES_AT)
        };
        if !wanted.at_open {
            if !self.has_room_for(capacity) {
                return Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    "the limit set for the journal is reached",
                ));
            }
            return self.new_file(capacity, false);
        }
        let mut result = self.new_file(capacity, true);
        for small in SMALL_SEGMENTS
            .into_iter()
            .filter(|small| *small < capacity && *small >= need)
        {
            match result {
                Err(error) if is_full(&error) => result = self.new_file(small, true),
                _ => break,
            }
        }
        result
    }

    fn new_file(&self, capacity: u64, zeros: bool) -> io::Result<(String, D::File, u64)> {
        let name = self.new_spare_name();
        let file = self.disk.create(&name)?;
        let filled = file.allocate(capacity).and_then(|()| {
            if zeros {
                fill_with_zeros(&file, capacity)
            } else {
                Ok(())
            }
        });
        match filled {
            Ok(()) => Ok((name, file, capacity)),
            Err(error) => {
                let _ = self.disk.unlink(&name);
                Err(error)
            }
        }
    }

    fn new_spare_name(&self) -> String {
        let mut shelf = self.shelf();
        shelf.last = shelf.last.wrapping_add(1);
        names::spare(shelf.last)
    }

    /// Renames the file to a spare if one is wanted, and removes it otherwise; `forget` runs when the name is gone.
    ///
    /// The directory is synced before the file may be used again: otherwise a crash could bring back the old name over
    /// new content.
    fn recycle(
        &self,
        shelf: &mut Shelf,
        name: &str,
        bytes_file: u64,
        forget: impl Fn(&Self),
    ) -> io::Result<()> {
        let is_wanted =
            shelf.names.len() < self.options.spares && bytes_file == self.options.segment_bytes;
        if !is_wanted {
            self.disk.unlink(name)?;
            forget(self);
            return self.disk.sync_dir();
        }
        shelf.last = shelf.last.wrapping_add(1);
        let spare = names::spare(shelf.last);
        self.disk.rename(name, &spare)?;
        forget(self);
        self.disk.sync_dir()?;
        // A backup may have linked the file, and a write to it would change the backup, too. A backup never links a
        // file that is named a spare, so a check after the renaming is sufficient.
        if self.disk.open(&spare)?.is_shared()? {
            self.disk.unlink(&spare)?;
            return self.disk.sync_dir();
        }
        shelf.names.push(spare);
        Ok(())
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        let max = self.options.bytes_max;
        max == 0
            || self
                .used_bytes()
                .saturating_add(self.spare_bytes())
                .saturating_add(bytes)
                <= max
    }

    fn used_bytes(&self) -> u64 {
        let segments: u64 = self
            .table()
            .segments
            .values()
            .map(|segment| segment.bytes_file)
            .sum();
        segments.saturating_add(self.other_bytes.load(Ordering::Relaxed))
    }

    fn spare_bytes(&self) -> u64 {
        self.shelf().names.len() as u64 * self.options.segment_bytes
    }

    /// The segment that has frame `index`, and up to where it may be read.
    #[allow(clippy::type_complexity)]
    fn holder_of(&self, index: Index) -> Result<(SegmentHead, Arc<D::File>, u64), ReadError> {
        let table = self.table();
        let holder = table
            .segments
            .values()
            .rev()
            .find(|segment| segment.head.first_index() <= index);
        let Some(segment) = holder else {
            let mut damage = Damage {
                file: self.disk.shown(""),
                offset: 0,
                bytes: 0,
                first_index: index,
                last_index: None,
                fault: "the segment that had them is not there".to_owned(),
                quarantine: None,
            };
            if let Some(next) = table.segments.values().next() {
                damage.last_index = Some(next.head.before.last_index);
            }
            return Err(ReadError::Damaged(damage));
        };
        Ok((
            segment.head,
            Arc::clone(&segment.file),
            segment.end.unwrap_or(segment.bytes_file),
        ))
    }

    fn missing(&self, head: &SegmentHead, index: Index, fault: &str) -> Damage {
        Damage {
            file: self.disk.shown(&names::segment(head.number)),
            offset: 0,
            bytes: 0,
            first_index: index,
            last_index: None,
            fault: fault.to_owned(),
            quarantine: None,
        }
    }

    fn read_file(
        &self,
        file: &D::File,
        number: u64,
        offset: u64,
        len: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        into.clear();
        into.resize(len as usize, 0);
        let shown = || self.disk.shown(&names::segment(number));
        match file.read_full(into, offset) {
            Ok(count) if count == len as usize => Ok(()),
            Ok(_) => Err(ReadError::Damaged(Damage {
                file: shown(),
                offset,
                bytes: u64::from(len),
                first_index: 0,
                last_index: None,
                fault: "the file ends before them".to_owned(),
                quarantine: None,
            })),
            Err(error) => Err(ReadError::Io {
                doing: format!("reading {}", shown()),
                error,
            }),
        }
    }

    // A thread that panicked while it held one of these left whole values behind: nothing in here panics half-way.
    fn table(&self) -> RwLockReadGuard<'_, Table<D::File>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table<D::File>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Table<F> {
    fn insert(&mut self, segment: Segment<F>) {
        let head = segment.head;
        for (number, before) in self.segments.range_mut(..head.number).rev() {
            if before.end.is_some() {
                break;
            }
            // If the one that came next was released, no file says where this one ended, only that it is not written.
            let is_next = *number == head.before.number;
            before.end = Some(if is_next {
                head.before.length
            } else {
                before.bytes_file
            });
            before.last_index = Some(head.before.last_index);
        }
        if head.moved_bytes > 0 {
            self.moves.push(Moved {
                from: Place::at(head.before.number, head.before.length),
                bytes: head.moved_bytes,
                to: head.place(SegmentHead::FRAMES_AT),
            });
        }
        self.segments.insert(head.number, segment);
    }

    fn find(&self, place: Place, len: u32) -> Option<(&Segment<F>, u64)> {
        let (number, segment) = self.segments.range(..=place.number()).next_back()?;
        let offset = place.since(Place::at(*number, 0))?;
        let end = segment.end.unwrap_or(segment.bytes_file);
        let is_inside =
            offset >= SegmentHead::FRAMES_AT && offset.checked_add(u64::from(len))? <= end;
        is_inside.then_some((segment, offset))
    }

    /// Where a place went that an fsync error moved.
    fn moved(&self, place: Place) -> Option<Place> {
        self.moves.iter().rev().find_map(|moved| {
            let behind = place.since(moved.from)?;
            (behind < moved.bytes).then(|| moved.to.plus(behind))
        })
    }
}

/// True if the error says that there is no room, rather than that something is broken.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Writes the file full of zeros: blocks that were written before need no metadata when they are written again, so that
/// syncing data is all there is to a commit.
fn fill_with_zeros<F: DiskFile>(file: &F, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES.min(bytes as usize)];
    let mut at = 0;
    while at < bytes {
        let count = zeros.len().min((bytes - at) as usize);
        file.write_full(zeros.get(..count).unwrap_or_default(), at)?;
        at += count as u64;
    }
    Ok(())
}
