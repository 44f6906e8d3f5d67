//! Where messages wait for the network: a buffer that survives as much as its user pays for.
//!
//! The engine keeps every message that is not settled in memory, and says here what has to be found again by the next
//! process. [`Memory`] remembers nothing; [`Disk`] keeps a journal in a directory (feature `disk`).
//!
//! # What the engine promises
//!
//! - Identifiers rise. What carries a stamp was appended and committed before it leaves; so an identifier is never
//!   given to two messages, not even after power loss. What is sent at most once is neither appended nor stamped.
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

    /// A message is done with: acknowledged, failed for good, expired or dropped. Written lazily: after a crash it may be
    /// shown again, if it was settled shortly before.
    fn settled(&mut self, id: MessageId);

    /// Makes everything appended safe. After an error none of what was appended since the last commit is taken: the
    /// spool has forgotten it, and the engine fails it or goes on without.
    fn commit(&mut self) -> Result<(), SpoolError>;

    /// Shows what an earlier process left unsettled, in the order of identifiers. To be called once, before anything else.
    fn recover(&mut self, each: &mut dyn FnMut(MessageId, &[u8])) -> Result<Recovered, SpoolError>;

    /// The next process finds what was committed, and repeats what this one may have sent: so it needs stamps.
    fn is_lasting(&self) -> bool {
        false
    }

    /// Settlements wait to be written: whoever has nothing else to do calls [`Spool::commit`] within a second or so.
    fn is_dirty(&self) -> bool {
        false
    }

    /// What was appended is in memory only, although the last commit returned `Ok`: see [`WhenFull::Memory`].
    fn is_behind(&self) -> bool {
        false
    }

    /// Bytes used and free, and what is wrong, if something is.
    fn status(&self) -> SpoolStatus {
        SpoolStatus::default()
    }

    /// [`SpoolStatus::trouble`] alone, without asking the system anything.
    fn trouble(&self) -> &str {
        ""
    }
}

/// What becomes of messages when the disk has no room, or fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are refused, or fail.
    #[default]
    Refuse,
    /// They are taken and wait in memory only, at most as many bytes as the disk would have taken; as soon as there is
    /// room they are written. [`SpoolStatus::unsaved`] counts them.
    Memory,
}

/// Who publishes, and from where on it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The publisher of [`crate::Stamp`]s, the same for all processes that used this spool.
    pub publisher: u64,
    /// The first identifier that no earlier process used. Numbers may be left out.
    pub next_sequence: u64,
}

/// How a spool does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Bytes that its files take, those kept ready included.
    pub bytes_used: u64,
    /// How many bytes they may take; 0 if it has no files.
    pub bytes_max: u64,
    /// Unsettled messages that the next process would find.
    pub kept: u64,
    /// Unsettled messages that are in memory only although they should not be: the disk is full or broken.
    pub unsaved: u64,
    /// What is wrong with the disk, in words; empty if nothing is. It ends with the next write that succeeds, but for damage
    /// that was found at the start.
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
        /// How long it is, in bytes.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Another process has the directory.
    Locked(String),
    /// What was safe cannot be read, or is of another program or version. Nothing was changed.
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
