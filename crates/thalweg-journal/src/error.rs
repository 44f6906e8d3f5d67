//! Errors of a journal, in sentences that name the file, the fault and the remedy.

use std::error::Error;
use std::fmt;
use std::io;

use crate::log::{Index, Place};

/// Fault in the head of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFault {
    /// It does not begin as a file of this kind does.
    Foreign,
    /// It begins as one, and its checksum is wrong.
    Damaged,
    /// Whole, and of a format that this program does not read.
    OtherVersion {
        /// The format it has.
        version: u32,
        /// The format this program reads.
        known: u32,
    },
    /// Whole, and its name is not the one it was written under.
    OtherNumber {
        /// The number it was written under.
        number: u64,
    },
    /// Whole, and later segments went on without it.
    OutOfPlace,
}

/// Why a journal could not be opened. Nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the directory.
    Locked { directory: String, holder: String },
    /// The settings contradict each other.
    Options(String),
    /// The operating system refused.
    Io {
        /// The operation and its file.
        doing: String,
        error: io::Error,
    },
    /// A file is not what its name says, or not ours.
    File {
        file: String,
        /// Fault of the file.
        fault: FileFault,
    },
    /// A file belongs to another journal.
    OtherJournal {
        file: String,
        /// The journal it belongs to.
        its: u128,
        /// The journal of this directory.
        ours: u128,
    },
    /// Confirmed frames are damaged or missing. A repair may go on without them.
    Damaged(Damage),
    /// There is no room for the first segment.
    Full {
        directory: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// A stretch of the journal that cannot be read although it was confirmed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file, or the one that should be there.
    pub file: String,
    /// Where in it the stretch begins.
    pub offset: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The first frame that is missing; 0 if that is not known.
    pub first_index: Index,
    /// The last frame that is missing; `None` if nothing says how many there were.
    pub last_index: Option<Index>,
    /// Fault at that place.
    pub fault: String,
    /// Where a repair put the bytes, if it did.
    pub quarantine: Option<String>,
}

/// Frames at the end whose durability was not confirmed: written, never known to be durable, and torn or lost in part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedTail {
    pub file: String,
    /// Where in it the dropped part begins.
    pub offset: u64,
    /// The first frame that was dropped.
    pub first_index: Index,
    /// Number of frames of the dropped part that can still be recognised.
    pub frames_seen: u64,
    /// Bytes up to the end of the last frame that can be recognised.
    pub bytes: u64,
    /// Fault of its first frame.
    pub fault: String,
}

/// Why a place could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// No segment and no pack has it.
    Gone(Place),
    /// The file ends before it does, or is not what it should be.
    Damaged(Damage),
    /// The operating system refused.
    Io {
        /// The operation and its file.
        doing: String,
        error: io::Error,
    },
}

impl OpenError {
    /// Puts what was done to which file before an error of the operating system.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }
}

impl ReadError {
    /// Puts what was done to which file before an error of the operating system.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => out.write_str(
                "it does not begin as a file of this name does. If it is not Thalweg's, move it elsewhere; if it was, \
                 the file is destroyed: restore a backup, or move it elsewhere and start with --repair to go on without it",
            ),
            Self::Damaged => out.write_str(
                "its head does not match its checksum. Restore a backup, or start with --repair to go on without it",
            ),
            Self::OtherVersion { version, known } => write!(
                out,
                "it has format {version}, and this program reads format {known}. Start the version of Thalweg that \
                 wrote it, or give this one another directory"
            ),
            Self::OutOfPlace => out.write_str(
                "the journal went on without this file, and its content was replaced. If it was put back after a \
                 repair, move it elsewhere again",
            ),
            Self::OtherNumber { number } => write!(
                out,
                "it was written as number {number:016x} and has been renamed or copied. Give it back its name, or move \
                 it elsewhere"
            ),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            bytes,
            first_index,
            last_index,
            fault,
            quarantine,
        } = self;
        write!(
            out,
            "{file}: {bytes} bytes at offset {offset} are damaged or missing ({fault}); with them "
        )?;
        match last_index {
            _ if *first_index == 0 => write!(out, "an unknown number of frames")?,
            Some(last) if last == first_index => write!(out, "frame {first_index}")?,
            Some(last) => write!(out, "frames {first_index} to {last}")?,
            None => write!(out, "frame {first_index} and an unknown number after it")?,
        }
        match quarantine {
            Some(copy) => write!(out, ". The bytes were copied to {copy}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for DroppedTail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            first_index,
            frames_seen,
            bytes,
            fault,
        } = self;
        write!(
            out,
            "{file}: the end from offset {offset} on was dropped: {bytes} bytes, {frames_seen} frames of which were \
             recognised, from frame {first_index} on ({fault}). They were never confirmed to anybody"
        )
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { directory, holder } => write!(
                out,
                "{directory}: {holder} has this journal open. Stop it first, or give this one another directory"
            ),
            Self::Options(words) => out.write_str(words),
            Self::Io { doing, error } => match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => write!(
                    out,
                    "{doing}: {error}. The journal has to be able to write in its directory: give the user that runs \
                     Thalweg the right to, or name another directory"
                ),
                _ => write!(
                    out,
                    "{doing}: {error}. Look at the system's log and at the disk; nothing was changed"
                ),
            },
            Self::File { file, fault } => write!(out, "{file}: {fault}"),
            Self::OtherJournal { file, its, ours } => write!(
                out,
                "{file}: it belongs to journal {its:032x}, and this directory to journal {ours:032x}. Files of two \
                 journals were mixed: move those of one elsewhere"
            ),
            Self::Damaged(damage) => write!(
                out,
                "{damage}. They were confirmed, so Thalweg does not start without them by itself. Restore a backup, or \
                 start with --repair: it copies the damaged bytes to quarantine/, goes on without them and lists what \
                 is missing"
            ),
            Self::Full { directory, error } => write!(
                out,
                "{directory}: no room for the smallest segment ({error}). Make room on this file system, or raise the \
                 journal's limit; nothing is lost"
            ),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(place) => write!(
                out,
                "place {:x}:{:x} is in no segment and no pack; it was released, or its file is missing",
                place.number(),
                place.0 & (Place::SPAN - 1)
            ),
            Self::Damaged(damage) => write!(out, "{damage}"),
            Self::Io { doing, error } => write!(
                out,
                "{doing}: {error}. Look at the system's log and at the disk"
            ),
        }
    }
}

impl Error for OpenError {}
impl Error for ReadError {}
