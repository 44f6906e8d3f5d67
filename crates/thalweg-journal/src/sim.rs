//! A disk in memory that forgets what was not synced, tears what was half written, and fails on request.
//!
//! It keeps every operation, so that a test can go back to the moment after any of them and ask for the disk's possible
//! states after a power loss ([`SimDisk::moments`]). Any subset of the 512-byte sectors that were written and not
//! synced may be there, and directory entries may be as of any operation since the directory's last sync. All choices
//! come from seeds.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// The simulated disk: one directory.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimDisk`].
pub struct SimFile {
    state: Arc<Mutex<State>>,
    file: usize,
    may_write: bool,
}

/// Holds a [`SimDisk`] until dropped.
pub struct SimLock(Arc<Mutex<State>>);

/// The disk as it was after some operation.
#[derive(Clone, Default)]
pub struct Moment {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    names_durable: BTreeMap<String, usize>,
    names_pending: Vec<NameChange>,
}

/// Faults to come. Counts are from now on.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    /// Syncs of file contents that fail: 0 is the next one.
    pub syncs: Vec<u64>,
    /// Syncs of the directory that fail: 0 is the next one.
    pub dir_syncs: Vec<u64>,
    /// Writes that fail with an I/O error: 0 is the next one.
    pub writes: Vec<u64>,
    /// Writes that take only half of their bytes: 0 is the next one.
    pub short_writes: Vec<u64>,
    /// After how many more bytes written there is no room any more, though room was set aside.
    pub full_after: Option<u64>,
    /// Most bytes of all files together.
    pub capacity: Option<u64>,
    /// Nothing can be created, changed or removed.
    pub read_only: bool,
}

#[derive(Default)]
struct State {
    now: Moment,
    /// The moment when recording began, and everything since.
    start: Moment,
    history: Vec<Operation>,
    faults: Faults,
    syncs: u64,
    dir_syncs: u64,
    writes: u64,
    is_locked: bool,
    random: Random,
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Piece>,
}

#[derive(Clone)]
struct Piece {
    offset: usize,
    /// The bytes; zeros for room that was set aside.
    bytes: Vec<u8>,
    /// A failed sync gave up on it: it may be on the disk, and no later sync promises it.
    given_up: bool,
}

#[derive(Clone)]
enum NameChange {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone)]
enum Operation {
    Create(String),
    Name(NameChange),
    Write {
        file: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    Allocate {
        file: usize,
        length: usize,
    },
    Sync {
        file: usize,
        is_ok: bool,
    },
    SyncDir {
        is_ok: bool,
    },
}

impl SimDisk {
    /// An empty disk; all its random numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::from_moment(Moment::default(), seed)
    }

    fn from_moment(moment: Moment, seed: u64) -> Self {
        let state = State {
            now: moment.clone(),
            start: moment,
            random: Random(seed),
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Number of operations so far, which is the number of the current moment.
    pub fn done(&self) -> usize {
        self.state().history.len()
    }

    /// Plans faults, counted from now on; those planned before are forgotten.
    pub fn plan(&self, faults: Faults) {
        let mut state = self.state();
        (state.syncs, state.dir_syncs, state.writes) = (0, 0, 0);
        state.faults = faults;
    }

    /// Shows the moments after no, one, two … operations, with their numbers.
    pub fn moments(&self, mut look: impl FnMut(usize, &Moment)) {
        let (mut moment, history) = {
            let state = self.state();
            (state.start.clone(), state.history.clone())
        };
        look(0, &moment);
        for (at, operation) in history.into_iter().enumerate() {
            moment.apply(operation);
            look(at + 1, &moment);
        }
    }

    /// The disk now, as it is after the process died and the machine did not.
    pub fn after_kill(&self, seed: u64) -> Self {
        Self::from_moment(self.state().now.clone(), seed)
    }

    pub fn moment(&self) -> Moment {
        self.state().now.clone()
    }

    /// Names and contents of all files.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.state();
        let content = |file: &usize| {
            state
                .now
                .files
                .get(*file)
                .map(|file| file.now.clone())
                .unwrap_or_default()
        };
        state
            .now
            .names
            .iter()
            .map(|(name, file)| (name.clone(), content(file)))
            .collect()
    }

    /// Puts a file there as if it had always been.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        for moment in 0..2 {
            let State { now, start, .. } = &mut *state;
            let moment = if moment == 0 { now } else { start };
            moment.files.push(Content {
                now: bytes.to_vec(),
                durable: bytes.to_vec(),
                pending: Vec::new(),
            });
            let file = moment.files.len() - 1;
            moment.names.insert(name.to_owned(), file);
            moment.names_durable.insert(name.to_owned(), file);
        }
    }

    /// Changes the bits of `mask` in the byte at `offset` of a file, on the disk and in memory.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut state = self.state();
        let Moment { names, files, .. } = &mut state.now;
        if let Some(file) = names.get(name).and_then(|file| files.get_mut(*file)) {
            for bytes in [&mut file.now, &mut file.durable] {
                if let Some(byte) = bytes.get_mut(offset) {
                    *byte ^= mask;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moment {
    /// Disks that could be left if the power went out at this moment: up to about `count` of them, chosen by `seed`; all
    /// that there are, if they are few.
    pub fn crashes(&self, count: usize, seed: u64) -> Vec<SimDisk> {
        let mut random = Random(seed);
        let sectors: usize = self.files.iter().map(Content::sectors).sum();
        let prefixes = self.names_pending.len() + 1;
        let few = sectors < 8 && prefixes.saturating_mul(1 << sectors) <= count;
        let mut disks = Vec::new();
        if few {
            for names in 0..prefixes {
                for subset in 0..1u64 << sectors {
                    disks.push(self.crash(
                        names,
                        &mut |sector| subset >> sector & 1 == 1,
                        random.next(),
                    ));
                }
            }
            return disks;
        }
        // The extremes first, then one sector or a run of them missing or alone, then any.
        disks.push(self.crash(self.names_pending.len(), &mut |_| true, random.next()));
        disks.push(self.crash(0, &mut |_| false, random.next()));
        while disks.len() < count {
            let names = random.below(prefixes as u64) as usize;
            let (one, other) = (
                random.below(sectors as u64 + 1),
                random.below(sectors as u64 + 1),
            );
            let (from, to) = (one.min(other) as usize, one.max(other) as usize);
            let style = random.below(6);
            let seed = random.next();
            let mut coins = Random(random.next());
            let mut keep = |sector: usize| match style {
                0 => sector < from,
                1 => sector >= from,
                2 => sector != from,
                3 => sector == from,
                4 => !(from..to).contains(&sector),
                _ => coins.below(2) == 0,
            };
            disks.push(self.crash(names, &mut keep, seed));
        }
        disks
    }

    /// The disk left if the power goes out at this moment and nothing that was not synced is on it.
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        self.crash(0, &mut |_| false, seed)
    }

    fn crash(&self, names: usize, keep: &mut dyn FnMut(usize) -> bool, seed: u64) -> SimDisk {
        let mut left = Moment {
            names_durable: self.names_durable.clone(),
            ..Moment::default()
        };
        for change in self.names_pending.iter().take(names) {
            change.apply(&mut left.names_durable);
        }
        left.names = left.names_durable.clone();
        let mut sector = 0;
        for file in &self.files {
            let mut bytes = file.durable.clone();
            for piece in &file.pending {
                for (offset, part) in piece.sectors() {
                    if keep(sector) {
                        put(&mut bytes, offset, part);
                    }
                    sector += 1;
                }
            }
            left.files.push(Content {
                now: bytes.clone(),
                durable: bytes,
                pending: Vec::new(),
            });
        }
        SimDisk::from_moment(left, seed)
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Create(name) => {
                self.files.push(Content::default());
                self.change(NameChange::Set(name, self.files.len() - 1));
            }
            Operation::Name(change) => self.change(change),
            Operation::Write {
                file,
                offset,
                bytes,
            } => {
                if let Some(file) = self.files.get_mut(file) {
                    put(&mut file.now, offset, &bytes);
                    file.pending.push(Piece {
                        offset,
                        bytes,
                        given_up: false,
                    });
                }
            }
            Operation::Allocate { file, length } => {
                if let Some(file) = self.files.get_mut(file)
                    && file.now.len() < length
                {
                    let (offset, bytes) = (file.now.len(), vec![0; length - file.now.len()]);
                    put(&mut file.now, offset, &bytes);
                    file.pending.push(Piece {
                        offset,
                        bytes,
                        given_up: false,
                    });
                }
            }
            Operation::Sync { file, is_ok } => {
                if let Some(file) = self.files.get_mut(file) {
                    file.sync(is_ok);
                }
            }
            Operation::SyncDir { is_ok: true } => {
                self.names_durable = self.names.clone();
                self.names_pending.clear();
            }
            Operation::SyncDir { is_ok: false } => {}
        }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.names_pending.push(change);
    }
}

impl Content {
    fn sync(&mut self, is_ok: bool) {
        if !is_ok {
            self.pending
                .iter_mut()
                .for_each(|piece| piece.given_up = true);
            return;
        }
        // In the order of writing, except that what was given up stays uncertain, and lies under what came later.
        for piece in &self.pending {
            if !piece.given_up {
                put(&mut self.durable, piece.offset, &piece.bytes);
            }
        }
        self.pending.retain(|piece| piece.given_up);
    }

    fn sectors(&self) -> usize {
        self.pending
            .iter()
            .map(|piece| piece.sectors().count())
            .sum()
    }
}

impl Piece {
    /// The parts of it that are written whole or not at all.
    fn sectors(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let head = (SECTOR_BYTES - self.offset % SECTOR_BYTES).min(self.bytes.len());
        let (first, rest) = self.bytes.split_at(head);
        let rests = rest.chunks(SECTOR_BYTES);
        let first = std::iter::once(first).filter(|part| !part.is_empty());
        let mut offset = self.offset;
        first.chain(rests).map(move |part| {
            let at = offset;
            offset += part.len();
            (at, part)
        })
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Set(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl State {
    fn perform(&mut self, operation: Operation) {
        self.now.apply(operation.clone());
        self.history.push(operation);
    }

    fn file_named(&self, name: &str) -> io::Result<usize> {
        self.now
            .names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn may_change(&self) -> io::Result<()> {
        if self.faults.read_only {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Ok(())
        }
    }

    /// Free bytes for the files.
    fn free(&self) -> u64 {
        let Some(capacity) = self.faults.capacity else {
            return 1 << 40;
        };
        let named = |file: &usize| {
            self.now
                .files
                .get(*file)
                .map_or(0, |file| file.now.len() as u64)
        };
        capacity.saturating_sub(self.now.names.values().map(named).sum())
    }

    fn change(&mut self, change: NameChange) -> io::Result<()> {
        self.may_change()?;
        self.perform(Operation::Name(change));
        Ok(())
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self
            .state()
            .now
            .names
            .keys()
            .filter(|name| !name.contains('/'))
            .cloned()
            .collect())
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let file = self.state().file_named(name)?;
        Ok(SimFile {
            state: Arc::clone(&self.state),
            file,
            may_write: false,
        })
    }

    fn open_to_write(&self, name: &str) -> io::Result<SimFile> {
        self.state().may_change()?;
        Ok(SimFile {
            may_write: true,
            ..self.open(name)?
        })
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        state.may_change()?;
        if state.now.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.perform(Operation::Create(name.to_owned()));
        let file = state.now.files.len() - 1;
        Ok(SimFile {
            state: Arc::clone(&self.state),
            file,
            may_write: true,
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.file_named(from)?;
        state.change(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.file_named(name)?;
        state.change(NameChange::Remove(name.to_owned()))
    }

    fn hard_link(&self, name: &str, to: &Self, to_name: &str) -> io::Result<()> {
        if Arc::ptr_eq(&self.state, &to.state) {
            let mut state = self.state();
            let file = state.file_named(name)?;
            return state.change(NameChange::Set(to_name.to_owned(), file));
        }
        // Another simulated disk shares no files with this one: the content as it is now stands for it.
        let bytes = {
            let state = self.state();
            let file = state.file_named(name)?;
            state
                .now
                .files
                .get(file)
                .map(|file| file.now.clone())
                .unwrap_or_default()
        };
        let file = to.create(to_name)?;
        file.write_full(&bytes, 0)?;
        file.sync_data()
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let is_ok = !state.faults.dir_syncs.contains(&state.dir_syncs);
        state.dir_syncs += 1;
        state.perform(Operation::SyncDir { is_ok });
        if is_ok {
            Ok(())
        } else {
            Err(input_output_error())
        }
    }

    fn lock(&self) -> io::Result<Result<SimLock, String>> {
        let mut state = self.state();
        state.may_change()?;
        if std::mem::replace(&mut state.is_locked, true) {
            return Ok(Err("process 4711".to_owned()));
        }
        Ok(Ok(SimLock(Arc::clone(&self.state))))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.state().free())
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.state().random.next())
    }

    fn shown(&self, name: &str) -> String {
        format!("sim/{name}")
    }
}

impl SimFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state();
        let from = state
            .now
            .files
            .get(self.file)
            .and_then(|file| file.now.get(offset as usize..))
            .unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        if !self.may_write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let turn = state.writes;
        state.writes += 1;
        if state.faults.writes.contains(&turn) {
            return Err(input_output_error());
        }
        let mut count = bytes.len();
        if state.faults.short_writes.contains(&turn) {
            count = count.div_ceil(2);
        }
        let length = state
            .now
            .files
            .get(self.file)
            .map_or(0, |file| file.now.len() as u64);
        let growth = (offset + count as u64).saturating_sub(length);
        let missing = growth.saturating_sub(state.free());
        count -= (missing as usize).min(count);
        if let Some(left) = &mut state.faults.full_after {
            count = count.min(*left as usize);
            *left -= count as u64;
        }
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = bytes.get(..count).unwrap_or_default().to_vec();
        state.perform(Operation::Write {
            file: self.file,
            offset: offset as usize,
            bytes,
        });
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        let is_ok = !state.faults.syncs.contains(&state.syncs);
        state.syncs += 1;
        state.perform(Operation::Sync {
            file: self.file,
            is_ok,
        });
        if is_ok {
            Ok(())
        } else {
            Err(input_output_error())
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self
            .state()
            .now
            .files
            .get(self.file)
            .map_or(0, |file| file.now.len() as u64))
    }

    fn is_shared(&self) -> io::Result<bool> {
        Ok(self
            .state()
            .now
            .names
            .values()
            .filter(|file| **file == self.file)
            .count()
            > 1)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        if !self.may_write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let has = state
            .now
            .files
            .get(self.file)
            .map_or(0, |file| file.now.len() as u64);
        if length.saturating_sub(has) > state.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.perform(Operation::Allocate {
            file: self.file,
            length: length as usize,
        });
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_locked = false;
    }
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Default, Debug)]
pub struct Random(pub u64);

impl Random {
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, part: &[u8]) {
    let end = offset + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(part);
    }
}

fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}
