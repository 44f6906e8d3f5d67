//! A journal in a directory that survives power loss: frames, segments, recovery.
//!
//! *Knows:* files, frames, segments. *Must never know:* what is in a frame, nor who writes it: the broker's store folds it
//! into states and packs, the client's spool keeps messages in it that wait for the network.
//!
//! Start reading at [`Journal`], which writes, and `recover.rs`, which reads. [`disk`] is this crate's interface to the file
//! system; [`sim`] is one that fails on purpose.
//!
//! # What is promised
//!
//! When [`Log::commit`] has returned an index, every frame up to it is found again after any crash of the process or the
//! machine, byte for byte, once and in order. Frames behind it may be found, from the first one on without a gap, or not.
//! A frame that was confirmed and cannot be read is never passed over in silence.
//!
//! # Files
//!
//! One directory is one journal; its id (128 random bits) is in the head of every file. Numbers are little-endian, in
//! names hexadecimal. Names that begin otherwise are no concern of ours; a name that begins like one of these and is not
//! one is refused.
//!
//! | name | what it is | format |
//! |---|---|---|
//! | `segment-<number>` | a stretch of the journal: a head, then frames | here |
//! | `spare-<number>` | a file for a coming segment; its content means nothing | |
//! | `checkpoint-<index>` | records that rebuild the state as of a frame | `thalweg-store`: `checkpoint.rs` |
//! | `pack-<number>` | records that outlived their segments | `thalweg-store`: `pack.rs` |
//! | `lock` | locked (flock) while a process has the directory; the process's number as text | |
//! | `quarantine/` | copies of what a repair went on without: `segment-<number>.<offset>`, or a whole file | |
//!
//! # A file's head
//!
//! ```text
//! offset  bytes  what
//!      0      8  magic: "THALWSEG" (segment), "THALWCHK" (checkpoint), "THALWPAK" (pack)
//!      8      4  format version of this kind of file, 1
//!     12      4  zero
//!     16     16  journal id
//!     32   4060  fields of the kind, then zeros
//!   4092      4  CRC-32C of the 4092 bytes before it; here in every version to come
//! ```
//!
//! With the right magic and checksum and another version, a file is newer: it is refused, and not even a repair touches
//! it. With the right magic and a wrong checksum it is damaged. With another magic it is foreign, as far as we can tell.
//!
//! # A segment's head
//!
//! ```text
//! offset  bytes  what
//!     32      8  segment number, from 1 on, rising; also in the name
//!     40      8  salt, random
//!     48      8  the segment before: its number, 0 if there is none
//!     56      8                      how many of its bytes count, head included
//!     64      8                      its last frame that counts; this segment's first frame is the next
//!     72      8                      the chain hash after that frame
//!     80      4  epoch: which opening of the journal this is
//!     84      4  zero
//!     88      8  moved bytes: so many bytes of frames at the beginning of this segment stood behind the end of the segment
//!                before, until a sync failed. A place n bytes behind that end means the place n bytes behind this head
//!     96      8  how long the file was made; a shorter one was cut
//! ```
//!
//! A segment is written once, front to back, and never again after its process ended: every opening begins a new one. Its
//! file gets its name only when its whole length is set aside and its head is on the disk, and only then frames. So a
//! segment with an unsound head was damaged, never unfinished.
//!
//! **Where a segment ends is in the head of the next one.** What stands behind that end was never confirmed, or was moved,
//! and is not looked at again. Everything before that end was durable when the head was written, so a fault there is damage.
//! Numbers may be left out. A segment that a later head leaves out (it names an earlier one as the one before it) has
//! nothing that counts and is taken away at the next opening.
//!
//! A frame that does not fit an empty segment of ordinary size gets a segment of its own, made as long as it needs.
//!
//! # A frame
//!
//! ```text
//! offset  bytes  what
//!      0      4  magic "TwFr"
//!      4      1  format, 1
//!      5      1  zero
//!      6      2  shard
//!      8      4  payload length, at most 2^30
//!     12      4  epoch
//!     16      8  index: 1, 2, 3 … over all frames of the journal
//!     24      8  durable through: all frames up to this index were durable when this one was written
//!     32      8  chain: hash of the frame before, 0 for the first
//!     40      4  CRC-32C of the payload
//!     44      4  CRC-32C of salt (8), file number (8), offset in the file (8) and the 44 bytes above
//!     48      n  payload: records, none of which this layer looks into; empty in a mark
//!                zeros up to a multiple of 8
//! ```
//!
//! The hash of a frame is XXH3-64 of its payload, with XXH3-64 of the first 44 bytes of its header as seed. It leaves out
//! the header's checksum, so that a frame can be written again elsewhere. CRC-32C is there for the disk's faults; the
//! chain for ours and for files that were mixed: whatever has the right checksum and is not the frame that followed is
//! found by it. XXH3 and not a cryptographic hash, because it protects from no one who can write in the directory.
//!
//! The salt, number and offset in the checksum make a header valid only in one life of one file at one offset: neither
//! what a recycled file had before, nor a message that contains frames, is taken for a frame. The header has a checksum of
//! its own so that looking for frames costs the same whatever payloads contain.
//!
//! # A place
//!
//! A record is named by where it begins: segment number << 26 | offset in the file. Segments are at most 2^26 bytes; an
//! oversized one goes on into the numbers after its own, which no other segment gets. Places stay when a record moves to a
//! pack. Frames that a failed sync made us write again have new places; the old ones are led there by `moved bytes`.
//!
//! # Reading it again
//!
//! 1. Every head is read. Foreign, newer, renamed and truncated files, and those of another journal, are refused.
//! 2. From the newest head back, each names the segment before it. Other segments are set aside.
//! 3. From the checkpoint's place on (from frame 1, without one), each frame must be at its offset, with its index, its
//!    checksums, and the hash of the frame before.
//! 4. A fault at frame i before a segment's known end is **damage**.
//! 5. A fault at frame i of the newest segment is a **torn end**, unless a later header in the file, valid for where it
//!    stands, says that frames through i or later were durable: then it is damage. Frames written in one go and not yet
//!    synced may be torn in any order, so a later frame being whole proves nothing; what it says does.
//! 6. A torn end is dropped, counted and reported. Damage is refused with file, offset and frames; or, with `repair`, copied to
//!    quarantine and gone on without up to the next whole frame, and listed.
//! 7. The kept part is synced (it may be in memory only, after a `kill -9`), and a new segment records where it ended.
//!
//! **The limit of this.** Damage to the frames of the very last sync looks like a torn end as long as nothing behind them
//! says that they were durable. A quiet moment of 100 ms, an orderly end and every later frame put that on the disk.
//! The removal of the whole newest segment is noticed only if the checkpoint needs it.
//!
//! # Errors of the disk
//!
//! A sync that fails may have thrown the data away, and the next one would succeed. So frames are kept in memory until
//! they are durable; after a failed sync (or write) they are written again in a new segment, whose head says that the old
//! one ended before them. If that fails too, it is over: [`LogError::Failed`], now and for every later call.
//!
//! Without room [`LogError::Full`] comes, and nothing is lost; with room again writing goes on. Before it,
//! [`Fill::pressed`] says so from 80 % on. A journal whose disk or limit is full can be opened all the same.
#![forbid(unsafe_code)]

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
mod spares;

pub use disk::{Disk, DiskFile, OsDisk};
pub use error::{Damage, DroppedTail, FileFault, OpenError, ReadError};
pub use inventory::{Inventory, PlaceSource, ReplayFrom, SegmentInfo, is_full};
pub use journal::{Journal, take_lock};
pub use log::{Batch, Fill, FrameView, Index, Log, LogError, Place};
pub use options::Options;
pub use recover::{Recovered, verify};
pub use spares::SpareKeeper;
