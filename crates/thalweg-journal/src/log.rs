//! The broker's interface to a log, be it the journal of this machine or a replicated one.

use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;

/// Number of a frame: 1, 2, 3 … over the life of the log.
pub type Index = u64;

/// Where a record begins, for ever: segment number << 26 | offset in the file.
///
/// An oversized segment goes on into the numbers after its own, which no other segment gets, so that places stay
/// unique and in the order of writing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(pub u64);

impl Place {
    /// Number of a place's bits for the offset in a segment of ordinary size.
    pub const OFFSET_BITS: u32 = 26;
    /// Bytes of places per segment number; no ordinary segment is longer.
    pub const SPAN: u64 = 1 << Self::OFFSET_BITS;

    /// The place `offset` bytes after the start of segment `number`.
    pub const fn at(number: u64, offset: u64) -> Self {
        Self((number << Self::OFFSET_BITS).wrapping_add(offset))
    }

    /// The segment number that this place would have in a segment of ordinary size.
    pub const fn number(self) -> u64 {
        self.0 >> Self::OFFSET_BITS
    }

    /// The place `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Distance of this place from `earlier`; `None` if it is before it.
    pub const fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// The records of one shard that are written together, and found together or not at all after a crash.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Shard of the records.
    pub shard: u16,
    /// The records. A batch without any is a mark: it says only what was durable when it was written.
    pub payload: &'a [u8],
}

/// A frame as it is read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameView<'a> {
    /// Number of the frame.
    pub index: Index,
    /// In which opening of the journal it was written.
    pub epoch: u32,
    /// Shard of the records.
    pub shard: u16,
    /// Where the payload begins.
    pub place: Place,
    /// The records; empty for a mark.
    pub payload: &'a [u8],
}

/// The log the broker writes.
pub trait Log: Send {
    /// Writes batches in order; each becomes one frame. `Places[i]` is where the payload of batch `i` begins. On return
    /// they are in the operating system's hands and not yet durable.
    ///
    /// Fewer places than batches means that the disk became full on the way: the rest was not written and may be
    /// appended again later. [`LogError::Full`] means that none was. A refused batch may still be found after a crash,
    /// like every uncommitted one, until the next write.
    fn append(&mut self, batches: &[Batch<'_>]) -> Result<Vec<Place>, LogError>;

    /// Makes everything appended durable; the last durable index.
    fn commit(&mut self) -> Result<Index, LogError>;

    /// Records that everything appended is durable, if that is not recorded yet: an empty frame, made durable too. For
    /// idle times; afterwards damage to any frame before it can be told from a torn end.
    fn mark(&mut self) -> Result<(), LogError>;

    /// Shows every durable frame from `index` on, until the callback stops it.
    fn read_from(
        &self,
        index: Index,
        show: &mut dyn FnMut(FrameView<'_>) -> ControlFlow<()>,
    ) -> Result<(), LogError>;

    /// Frames before `index` are no longer needed, nor is any place in them.
    fn trim_before(&mut self, index: Index) -> Result<(), LogError>;

    /// Returns the fill of the log.
    fn fill(&self) -> Fill;
}

/// Used and free space of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fill {
    /// Bytes of the files that hold records.
    pub bytes_used: u64,
    /// Bytes of the files kept ready for coming records.
    pub bytes_spare: u64,
    /// Most bytes of records: the configured limit, or the file system's free space if that is less.
    pub bytes_limit: u64,
    /// More than [`Fill::PRESSURE_PERCENT`] of the limit is used: take no new promises, only settle old ones.
    pub pressed: bool,
    /// The last append did not find room.
    pub full: bool,
}

impl Fill {
    /// From where on [`Fill::pressed`].
    pub const PRESSURE_PERCENT: u64 = 80;
}

/// Why the log did not do what it was asked. The words say what to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LogError {
    /// There is no room. Nothing was written; it may be tried again when something was released.
    Full(String),
    /// Writing failed for good. Nothing is durable any more that was not; the process has to end.
    Failed(String),
    /// A batch is longer than a frame can be. Nothing was written.
    TooLong(String),
    /// A place to read is missing or damaged.
    Unreadable(String),
}

impl LogError {
    /// True if it may be tried again later.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Full(words)
        | Self::Failed(words)
        | Self::TooLong(words)
        | Self::Unreadable(words)) = self;
        out.write_str(words)
    }
}

impl Error for LogError {}
