//! A checkpoint file: records that rebuild the whole state as it was after one frame.
//!
//! ```text
//! offset  bytes  what (see `head` for what comes before)
//!     32      8  the last frame that the state includes; also in the name
//!     40      8  salt
//!     48      8  where replay goes on: place of the next frame
//!     56      8                        chain hash of its predecessor
//!     64      8  frames in this file
//!     72      8  bytes of this file
//!   4096         frames like those of a segment, numbered from 1, salted with the salt and the number in the name
//! ```
//!
//! It is written under another name, synced, read back, and only then given its own; so a checkpoint that cannot be read
//! was damaged, and never merely unfinished.

use std::fmt;
use std::io;

use thalweg_journal::{
    Damage, FileFault, Index, OpenError, Place, ReplayFrom,
    disk::{Disk, DiskFile},
    frame::{self, FrameDraft, Seed},
    head::{FIELDS_AT, HEAD_BYTES, Head},
    reader::{Expected, Found, FrameReader},
};
use thalweg_records::State;

use crate::names;

/// First bytes of a checkpoint file.
pub const MAGIC: [u8; 8] = *b"THALWCHK";
/// The only version so far.
pub const VERSION: u32 = 1;
/// A frame is written when its payload is this long.
const FRAME_BYTES: usize = 256 << 10;
/// So much is handed to the disk at a time, so that the journal's own syncs do not wait behind all of it.
const SYNC_BYTES: u64 = 16 << 20;

/// Contents of a checkpoint's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointHead {
    /// Where replay goes on. The state includes every frame before it.
    pub replay: ReplayFrom,
    /// Random number that distinguishes its frames from other bytes.
    pub salt: u64,
    /// Number of frames in it.
    pub frames: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl CheckpointHead {
    /// The last frame that the state includes.
    pub const fn index(&self) -> Index {
        self.replay.index.wrapping_sub(1)
    }

    /// Name of the file.
    pub fn name(&self) -> String {
        names::checkpoint(self.index())
    }

    /// Reads one back from the first bytes of a file called `index`.
    pub fn read(bytes: &[u8], index: Index) -> Result<Self, FileFault> {
        let head = Head::read(bytes, MAGIC, VERSION)?;
        let at = |field: usize| head.u64_at(FIELDS_AT + field * 8);
        if at(0) != index {
            return Err(FileFault::OtherNumber { number: at(0) });
        }
        let replay = ReplayFrom {
            journal: head.journal(),
            index: index.wrapping_add(1),
            place: Place(at(2)),
            hash: at(3),
        };
        Ok(Self {
            replay,
            salt: at(1),
            frames: at(4),
            bytes: at(5),
        })
    }

    /// Seed of the hashes of its frames.
    pub fn seed(&self) -> Seed {
        Seed::new(self.salt, self.index())
    }

    fn sealed(&self) -> Box<[u8; HEAD_BYTES]> {
        let mut head = Head::new(MAGIC, VERSION, self.replay.journal);
        let fields = [
            self.index(),
            self.salt,
            self.replay.place.0,
            self.replay.hash,
            self.frames,
            self.bytes,
        ];
        for (at, field) in fields.into_iter().enumerate() {
            head.put(FIELDS_AT + at * 8, field.to_le_bytes());
        }
        head.sealed()
    }
}

/// Why a checkpoint was not read.
#[derive(Debug)]
pub enum CheckpointFault {
    /// It is damaged; an older one may do.
    Damaged(Damage),
    /// It must not be passed over: it is not ours, or newer than we are, or the system refused.
    Refused(OpenError),
}

impl fmt::Display for CheckpointFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => write!(out, "{damage}"),
            Self::Refused(error) => write!(out, "{error}"),
        }
    }
}

/// Writes the state, which includes every frame before `replay`, under its final name, durable and read back once.
pub fn write<D: Disk>(disk: &D, state: &State, replay: ReplayFrom) -> io::Result<CheckpointHead> {
    let mut head = CheckpointHead {
        replay,
        salt: disk.random()?,
        frames: 0,
        bytes: HEAD_BYTES as u64,
    };
    let name = head.name();
    let new = format!("{name}{}", names::NEW);
    // Remains of a failed attempt.
    let _ = disk.unlink(&new);
    let written = disk.create(&new).and_then(|file| {
        write_frames(&file, state, &mut head)?;
        file.write_full(&head.sealed()[..], 0)?;
        file.sync_data()
    });
    let read_back =
        written.and_then(
            |()| match read_as(disk, &new, head.index(), &mut |_, _| Ok(())) {
                Ok(read) if read == head => Ok(()),
                Ok(_) => Err(io::Error::other(
                    "it reads back otherwise than it was written",
                )),
                Err(fault) => Err(io::Error::other(fault.to_string())),
            },
        );
    if let Err(error) = read_back.and_then(|()| disk.rename(&new, &name)) {
        let _ = disk.unlink(&new);
        return Err(error);
    }
    disk.sync_dir()?;
    Ok(head)
}

fn write_frames<F: DiskFile>(file: &F, state: &State, head: &mut CheckpointHead) -> io::Result<()> {
    let mut writer = FrameWriter {
        file,
        seed: head.seed(),
        index: 1,
        hash: 0,
        offset: HEAD_BYTES as u64,
        synced: 0,
        encoded: Vec::new(),
        result: Ok(()),
    };
    let mut payload = Vec::with_capacity(FRAME_BYTES + (FRAME_BYTES >> 3));
    state.write(&mut |record| {
        record.encode(&mut payload);
        if payload.len() >= FRAME_BYTES {
            writer.write(&payload);
            payload.clear();
        }
    });
    writer.write(&payload);
    head.frames = writer.index - 1;
    head.bytes = writer.offset;
    writer.result
}

struct FrameWriter<'f, F> {
    file: &'f F,
    seed: Seed,
    index: Index,
    hash: u64,
    offset: u64,
    synced: u64,
    encoded: Vec<u8>,
    /// After an error nothing more is written.
    result: io::Result<()>,
}

impl<F: DiskFile> FrameWriter<'_, F> {
    fn write(&mut self, payload: &[u8]) {
        if self.result.is_err() {
            return;
        }
        self.encoded.clear();
        let draft = FrameDraft {
            shard: 0,
            epoch: 0,
            index: self.index,
            durable_through: 0,
            prev_hash: self.hash,
            payload,
        };
        self.hash = frame::encode(&draft, self.seed, self.offset, &mut self.encoded);
        self.result = self.file.write_full(&self.encoded, self.offset);
        self.index += 1;
        self.offset += self.encoded.len() as u64;
        if self.result.is_ok() && self.offset - self.synced >= SYNC_BYTES {
            self.synced = self.offset;
            self.result = self.file.sync_data();
        }
    }
}

/// The frames of checkpoints in `disk`, newest first.
pub fn list<D: Disk>(disk: &D) -> Result<Vec<Index>, OpenError> {
    let names = disk
        .list()
        .map_err(OpenError::io(format!("listing {}", disk.shown(""))))?;
    let mut all: Vec<Index> = names
        .iter()
        .filter_map(|name| names::number_in(name, names::CHECKPOINT))
        .collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    Ok(all)
}

/// Reads checkpoint `index` into a state.
pub fn read<D: Disk>(disk: &D, index: Index) -> Result<(CheckpointHead, State), CheckpointFault> {
    let mut state = State::default();
    let name = names::checkpoint(index);
    let head = read_as(disk, &name, index, &mut |payload, offset| {
        state
            .apply_frame(payload, offset)
            .map_err(|fault| fault.to_string())
    })?;
    if state.contradiction_count > 0 {
        let first = state
            .contradictions
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        let words = format!(
            "{} of its records contradict each other, first: {first}",
            state.contradiction_count
        );
        return Err(CheckpointFault::Damaged(damage(
            disk, &name, index, 0, head.bytes, words,
        )));
    }
    Ok((head, state))
}

/// Reads checkpoint `index` and looks at its checksums only.
pub fn check<D: Disk>(disk: &D, index: Index) -> Result<CheckpointHead, CheckpointFault> {
    read_as(disk, &names::checkpoint(index), index, &mut |_, _| Ok(()))
}

/// Reads the frames of a checkpoint that has this name for now; what `show` does not accept is damage.
fn read_as<D: Disk>(
    disk: &D,
    name: &str,
    index: Index,
    show: &mut Show<'_>,
) -> Result<CheckpointHead, CheckpointFault> {
    let shown = disk.shown(name);
    let refused = |error| {
        CheckpointFault::Refused(OpenError::Io {
            doing: format!("reading {shown}"),
            error,
        })
    };
    let damaged = |offset, bytes, words| {
        CheckpointFault::Damaged(damage(disk, name, index, offset, bytes, words))
    };
    let file = disk.open(name).map_err(refused)?;
    let length = file.length().map_err(refused)?;
    let mut bytes = [0; HEAD_BYTES];
    let count = file.read_full(&mut bytes, 0).map_err(refused)?;
    let head = match CheckpointHead::read(bytes.get(..count).unwrap_or_default(), index) {
        Ok(head) => head,
        Err(fault @ FileFault::OtherVersion { .. }) => {
            return Err(CheckpointFault::Refused(OpenError::File {
                file: shown,
                fault,
            }));
        }
        Err(_) => return Err(damaged(0, length, "its head is damaged".to_owned())),
    };
    if length < head.bytes {
        return Err(damaged(
            length,
            head.bytes - length,
            "the file is cut off".to_owned(),
        ));
    }
    let mut reader = FrameReader::new(&file, head.seed(), HEAD_BYTES as u64, head.bytes);
    let mut expected = Expected { index: 1, hash: 0 };
    loop {
        let at = reader.offset();
        match reader.next(&mut expected).map_err(refused)? {
            Found::Frame(at, header, payload) => {
                let payload_at = at + frame::HEADER_BYTES as u64;
                show(payload, payload_at)
                    .map_err(|words| damaged(at, header.frame_bytes() as u64, words))?;
            }
            Found::Fault(fault) => return Err(damaged(at, head.bytes - at, fault.words())),
            Found::End if expected.index.wrapping_sub(1) == head.frames => return Ok(head),
            Found::End => return Err(damaged(at, 0, "frames are missing at its end".to_owned())),
        }
    }
}

/// Takes a payload and the offset where it begins.
type Show<'a> = dyn FnMut(&[u8], u64) -> Result<(), String> + 'a;

/// Returns the damage of an unreadable checkpoint, with which everything written up to it is lost.
fn damage<D: Disk>(
    disk: &D,
    name: &str,
    index: Index,
    offset: u64,
    bytes: u64,
    fault: String,
) -> Damage {
    let file = disk.shown(name);
    Damage {
        file,
        offset,
        bytes,
        first_index: 1,
        last_index: Some(index),
        fault,
        quarantine: None,
    }
}
