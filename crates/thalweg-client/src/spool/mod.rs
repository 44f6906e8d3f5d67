//! Where messages wait for the network: a buffer that survives as much as its user pays for.
//!
//! The engine keeps every message that is not settled in memory, and says here what has to be found again by the next
//! process. [`Memory`] remembers nothing; [`Disk`] keeps a journal in a directory (feature `disk`).
//!
//! # What the engine promises
//!
//! - Identifiers rise. A stamped message was appended and committed before it is sent; so an identifier is never given
//!   to two messages, not even after power loss. At-most-once messages are neither appended nor stamped.
//! - [`Spool::commit`] is called once for all that gathered in a turn, and a while after [`Spool::is_dirty`].
use std::fmt;

use crate::transport::MessageId;

#[cfg(feature = "disk")]
mod disk;
mod memory;
#[cfg(feature = "disk")]
mod records;
#[cfg(feature = "disk")]
mod room;

#[cfg(feature = "disk")]
pub use disk::{Disk, DiskSettings};
pub use memory::Memory;

/// Keeps messages for the next process.
pub trait Spool: Send {
    /// Takes down a message. It is safe when [`Spool::commit`] has returned. After [`SpoolError::Full`] nothing of it was
    /// taken, and it may be tried again when others were settled.
    fn append(&mut self, id: MessageId, entry: &[u8]) -> Result<(), SpoolError>;

    /// Settles a message: acknowledged, failed for good, expired or dropped. Written lazily: after a crash a message
    /// settled shortly before may be restored.
    fn settled(&mut self, id: MessageId);

    /// Makes everything appended safe. After an error the entries since the last commit are removed from the spool, and
    /// the engine fails them or sends them without storage.
    fn commit(&mut self) -> Result<(), SpoolError>;

    /// Shows what an earlier process left unsettled, in the order of identifiers. To be called once, before anything else.
    fn recover(&mut self, each: &mut dyn FnMut(MessageId, &[u8])) -> Result<Recovered, SpoolError>;

    /// The next process finds what was committed, and repeats what this one may have sent: so it needs stamps.
    fn is_lasting(&self) -> bool {
        false
    }

    /// Whether settlements wait to be written: an idle caller calls [`Spool::commit`] within a second or so.
    fn is_dirty(&self) -> bool {
        false
    }

    /// Whether appended entries are in memory only although the last commit returned `Ok`: see [`WhenFull::Memory`].
    fn is_behind(&self) -> bool {
        false
    }

    /// Returns bytes used and free, and the current error.
    fn status(&self) -> SpoolStatus {
        SpoolStatus::default()
    }

    /// [`SpoolStatus::trouble`] alone, without asking the system anything.
    fn trouble(&self) -> &str {
        ""
    }
}

/// Action when the disk is full or fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are refused, or fail.
    #[default]
    Refuse,
    /// They are taken and wait in memory only, at most as many bytes as the disk would have taken; as soon as there is
    /// room they are written. [`SpoolStatus::unsaved`] counts them.
    Memory,
}

/// Publisher id and first free identifier of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The publisher of [`crate::Stamp`]s, the same for all processes that used this spool.
    pub publisher: u64,
    /// The first identifier that no earlier process used. Numbers may be left out.
    pub next_sequence: u64,
}

/// Status of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Bytes that its files take, those kept ready included.
    pub bytes_used: u64,
    /// Most bytes of its files; 0 without files.
    pub bytes_max: u64,
    /// Unsettled messages that the next process would find.
    pub kept: u64,
    /// Unsettled messages that are in memory only although they should not be: the disk is full or broken.
    pub unsaved: u64,
    /// Error of the disk as text; empty if there is none. Cleared by the next successful write, except for damage that
    /// was found at the start.
    pub trouble: String,
}

/// Why a spool did not do what it was asked. The words say what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolError {
    /// There is no room: its limit is reached, or the file system's. It may work later.
    Full(String),
    /// An entry is longer than there can ever be room for.
    TooLarge {
        /// Size of the entry in bytes.
        bytes: usize,
        /// Largest allowed size in bytes.
        limit: usize,
    },
    /// Another process has the directory.
    Locked(String),
    /// Stored data cannot be read, or is of another program or version. Nothing was changed.
    Damaged(String),
    /// The settings contradict each other, or the directory cannot be used.
    Settings(String),
    /// The disk fails. Nothing more becomes safe in this process.
    Failed(String),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::TooLarge { bytes, limit } => {
                write!(
                    f,
                    "a message of {bytes} bytes does not fit a buffer that takes at most {limit}"
                )
            }
            SpoolError::Full(words)
            | SpoolError::Locked(words)
            | SpoolError::Damaged(words)
            | SpoolError::Settings(words)
            | SpoolError::Failed(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for SpoolError {}
