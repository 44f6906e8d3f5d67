//! The store of Thalweg: a journal that survives power loss.
//!
//! *Knows:* files, frames, segments. *Must never know:* a protocol or a connection; and what the records in a frame mean,
//! the checkpointer alone knows, from [`thalweg_kernel::journal`].
//!
//! Start reading at [`Journal`].
#![forbid(unsafe_code)]

mod archive;
pub mod backup;
pub mod checkpoint;
pub mod checkpointer;
pub mod committer;
pub mod disk;
mod error;
pub mod frame;
pub mod head;
pub mod inspect;
mod inventory;
mod journal;
mod log;
pub mod names;
mod options;
pub mod pack;
pub mod reader;
mod reclaim;
mod recover;
pub mod segment;
pub mod sim;

pub use archive::{Archive, CheckpointError, Loaded, load};
pub use backup::{Backup, Restored, Verified};
pub use checkpointer::{CheckpointSettings, Checkpointer, CheckpointerHandle, Round};
pub use disk::{Disk, DiskFile, OsDisk};
pub use error::{Damage, DroppedTail, FileFault, OpenError, ReadError};
pub use inventory::{Inventory, PlaceSource, ReplayFrom, SegmentInfo};
pub use journal::{Journal, take_lock};
pub use log::{Batch, Fill, FrameView, Index, Log, LogError, Place};
pub use options::Options;
pub use reclaim::{Packing, Reclaimed};
pub use recover::{Recovered, verify};
