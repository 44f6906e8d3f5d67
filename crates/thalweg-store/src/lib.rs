//! The store of Thalweg: a journal that survives power loss.
//!
//! *Knows:* files, frames, segments. *Must never know:* a protocol, a connection, or what the records in a frame mean.
//!
//! Start reading at [`Journal`].
#![forbid(unsafe_code)]

pub mod committer;
pub mod disk;
mod error;
pub mod frame;
pub mod head;
mod inventory;
mod journal;
mod log;
pub mod names;
mod options;
pub mod reader;
mod recover;
pub mod segment;
pub mod sim;

pub use disk::{Disk, DiskFile, OsDisk};
pub use error::{Damage, DroppedTail, FileFault, OpenError, ReadError};
pub use inventory::{Inventory, PlaceSource, ReplayFrom, SegmentInfo};
pub use journal::{Journal, take_lock};
pub use log::{Batch, Fill, FrameView, Index, Log, LogError, Place};
pub use options::Options;
pub use recover::{Recovered, verify};
