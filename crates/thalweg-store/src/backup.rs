//! Copies of a journal that can be opened in its stead.
//!
//! A backup has a checkpoint and the files that it needs: sealed segments and packs as hard links (as copies on another
//! file system), and of the current segment the part up to the checkpoint. The segments of a journal are reused, but
//! never while another link to them exists.

use std::io;

use thalweg_journal::{
    Index, Inventory, OpenError, Options, Place,
    disk::{Disk, DiskFile},
};
use thalweg_records::{Counts, message_at};

use crate::archive::{Archive, CheckpointError, load};
use crate::names;
use crate::reclaim::needs;

/// Bytes per copied piece.
const COPY_BYTES: usize = 1 << 20;
/// Faults that are spelt out.
const FAULTS_MAX: usize = 100;

/// Contents of a backup.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backup {
    /// The last frame it includes.
    pub index: Index,
    /// Files that are hard links.
    pub files_linked: u64,
    /// Files that are copies.
    pub files_copied: u64,
    /// Number of bytes copied.
    pub bytes_copied: u64,
    pub counts: Counts,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Results of opening it and reading everything, if that was requested.
    pub verified: Option<Verified>,
}

/// Contents of a journal that was opened and read to the last record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    pub index: Index,
    /// Frames behind the checkpoint.
    pub frames: u64,
    pub counts: Counts,
    /// Messages that were read, each once.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Why not, for the first of them, and other warnings for the operator.
    pub faults: Vec<String>,
}

/// Makes a checkpoint of everything through frame `through` and a backup of it in `target`, which must be empty.
pub fn backup<D: Disk>(
    archive: &mut Archive<D>,
    inventory: &Inventory<D>,
    through: Index,
    target: &D,
) -> Result<Backup, CheckpointError> {
    must_be_empty(target).map_err(|words| CheckpointError {
        words,
        is_full: false,
    })?;
    let folded = archive.fold(inventory, through)?;
    let head = archive.checkpoint(&folded)?;
    let mut made = Backup {
        index: head.index(),
        counts: folded.state.counts(),
        ..Backup::default()
    };
    let source = inventory.disk();
    let giving =
        |name: &str| CheckpointError::io(format!("putting {name} into {}", target.shown("")));

    let packs = archive.packs().all();
    let needs = needs(&folded.state, inventory, &packs);
    if !needs.lost.is_empty() {
        let words = format!(
            "{} references to messages that are nowhere: this journal needs a repair",
            needs.lost.len()
        );
        return Err(CheckpointError {
            words,
            is_full: false,
        });
    }
    // Where replay goes on there has to be a segment, even if it has nothing to replay.
    let (last, bytes, is_sealed) =
        inventory
            .part_before(head.replay)
            .ok_or_else(|| CheckpointError {
                words: format!(
                    "no segment has frame {}, where the checkpoint ends",
                    head.index()
                ),
                is_full: false,
            })?;
    for (at, segment) in needs.segments.iter().enumerate() {
        if needs.segment(at) || (is_sealed && segment.number == last) {
            let name = names::segment(segment.number);
            link_or_copy(source, target, &name, &mut made).map_err(giving(&name))?;
        }
    }
    for (at, pack) in packs.iter().enumerate() {
        if needs.pack(at) {
            let name = names::pack(pack.head.number);
            link_or_copy(source, target, &name, &mut made).map_err(giving(&name))?;
        }
    }
    if !is_sealed {
        let name = names::segment(last);
        made.bytes_copied += copy(source, target, &name, bytes).map_err(giving(&name))?;
        made.files_copied += 1;
    }
    // Last, because with it the backup is whole.
    let name = head.name();
    target.sync_dir().map_err(giving(&name))?;
    link_or_copy(source, target, &name, &mut made).map_err(giving(&name))?;
    target.sync_dir().map_err(giving(&name))?;
    Ok(made)
}

/// Makes a backup of a journal that no process has open.
pub fn backup_stopped<D: Disk>(
    source: D,
    target: &D,
    options: Options,
) -> Result<Backup, CheckpointError> {
    let words = |error: OpenError| CheckpointError {
        words: error.to_string(),
        is_full: false,
    };
    let mut loaded = load(source, options).map_err(words)?;
    let inventory = loaded.journal.inventory();
    backup(&mut loaded.archive, &inventory, inventory.durable(), target)
}

/// Copies a backup into `target`, which must be empty; and opens it there and reads everything, if that is asked for.
pub fn restore<D: Disk>(
    source: &D,
    target: &D,
    options: Options,
    verify: bool,
) -> Result<Restored, OpenError> {
    must_be_empty(target).map_err(OpenError::Options)?;
    let mut files = source
        .list()
        .map_err(OpenError::io(format!("listing {}", source.shown(""))))?;
    files.retain(|name| is_ours(name));
    if files.is_empty() {
        return Err(OpenError::Options(format!(
            "{} has no files of a journal",
            source.shown("")
        )));
    }
    // Checkpoints last, because with them it is whole.
    files.sort_by_key(|name| names::number_in(name, names::CHECKPOINT).is_some());
    let mut restored = Restored::default();
    for name in files {
        let doing = || format!("copying {} to {}", source.shown(&name), target.shown(&name));
        restored.bytes += copy(source, target, &name, u64::MAX).map_err(OpenError::io(doing()))?;
        restored.files += 1;
    }
    target
        .sync_dir()
        .map_err(OpenError::io(format!("syncing {}", target.shown(""))))?;
    if verify {
        restored.verified = Some(self::verify(target.clone(), options)?);
    }
    Ok(restored)
}

/// Opens the journal in `disk` as the broker would and reads every message that it still needs.
pub fn verify<D: Disk>(disk: D, options: Options) -> Result<Verified, OpenError> {
    let loaded = load(disk, options)?;
    let inventory = loaded.journal.inventory();
    let mut verified = Verified {
        index: loaded.recovered.last_index,
        frames: loaded.recovered.frames,
        counts: loaded.state.counts(),
        faults: loaded.warnings,
        ..Verified::default()
    };
    let mut live: Vec<(u64, u32)> = loaded.state.live().collect();
    live.sort_unstable();
    live.dedup_by_key(|(place, _)| *place);
    let mut record = Vec::new();
    for (place, len) in live {
        let read = inventory
            .read(Place(place), len, &mut record)
            .map_err(|error| error.to_string());
        match read.and_then(|()| {
            message_at(&record).map_err(|fault| format!("at place {place:#x}: {fault}"))
        }) {
            Ok(_) => {
                verified.messages += 1;
                verified.bytes += u64::from(len);
            }
            Err(words) => {
                verified.unreadable += 1;
                if verified.faults.len() < FAULTS_MAX {
                    verified.faults.push(words);
                }
            }
        }
    }
    Ok(verified)
}

fn is_ours(name: &str) -> bool {
    [names::SEGMENT, names::CHECKPOINT, names::PACK]
        .iter()
        .any(|kind| names::number_in(name, kind).is_some())
}

/// A target that has anything in it is left alone: it might be another broker's journal.
fn must_be_empty<D: Disk>(target: &D) -> Result<(), String> {
    let directory = target.shown("");
    match target.list() {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => Err(format!("{directory} is not empty: name a new directory")),
        Err(error) => Err(format!("listing {directory}: {error}")),
    }
}

fn link_or_copy<D: Disk>(source: &D, target: &D, name: &str, made: &mut Backup) -> io::Result<()> {
    if source.hard_link(name, target, name).is_ok() {
        made.files_linked += 1;
        return Ok(());
    }
    // Another file system, or one without links; what else is wrong, copying will tell.
    made.bytes_copied += copy(source, target, name, u64::MAX)?;
    made.files_copied += 1;
    Ok(())
}

/// Copies the first `bytes` of a file, or all of it; how many they were.
fn copy<D: Disk>(source: &D, target: &D, name: &str, bytes: u64) -> io::Result<u64> {
    let from = source.open(name)?;
    let to = target.create(name)?;
    let length = from.length()?;
    let bytes = bytes.min(length);
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < bytes {
        let wanted = buffer.len().min((bytes - at) as usize);
        let count = from.read_full(buffer.get_mut(..wanted).unwrap_or_default(), at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_full(buffer.get(..count).unwrap_or_default(), at)?;
        at += count as u64;
    }
    // A segment shorter than it was made counts as cut.
    to.allocate(length)?;
    to.sync_data()?;
    Ok(at)
}
