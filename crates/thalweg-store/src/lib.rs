//! The store of Thalweg: what the broker must not forget, on disk.
//!
//! *Knows:* the journal's files, checkpoints, packs. *Must never know:* a protocol or a connection. The meaning of a
//! frame's records is known to the checkpointer alone, from [`thalweg_records`].
//!
//! The files, their format and their guarantees are [`thalweg_journal`]'s, re-exported here. Above it, [`committer`] is
//! the thread that owns the journal; the checkpointer folds written records, so that old segments can be released, and
//! moves longer-lived records to packs; [`backup`] and [`inspect`] are for tools.
#![forbid(unsafe_code)]

mod archive;
pub mod backup;
pub mod checkpoint;
pub mod checkpointer;
pub mod committer;
pub mod inspect;
pub mod names;
pub mod pack;
mod reclaim;

pub use archive::{Archive, CheckpointError, Loaded, load};
pub use backup::{Backup, Restored, Verified};
pub use checkpointer::{CheckpointSettings, Checkpointer, CheckpointerHandle, Round};
pub use reclaim::{Packing, Reclaimed};
pub use thalweg_journal::{
    Batch, Damage, Disk, DiskFile, DroppedTail, FileFault, Fill, FrameView, Index, Inventory,
    Journal, Log, LogError, OpenError, Options, OsDisk, Place, PlaceSource, ReadError, Recovered,
    ReplayFrom, SegmentInfo, SpareKeeper, take_lock, verify,
};
pub use thalweg_journal::{disk, frame, head, reader, segment, sim};
