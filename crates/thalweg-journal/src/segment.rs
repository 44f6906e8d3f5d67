//! The head of a segment file: how its frames are salted and where the segment before it ended.

use crate::error::FileFault;
use crate::frame::Seed;
use crate::head::{FIELDS_AT, HEAD_BYTES, Head};
use crate::log::{Index, Place};

/// First bytes of a segment file.
pub const MAGIC: [u8; 8] = *b"THALWSEG";
/// The only version so far.
pub const VERSION: u32 = 1;

/// Where the part of the journal before a segment ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ending {
    /// The number of the segment before; 0 if there is none.
    pub number: u64,
    /// Number of valid bytes, head included. Bytes after them were never acknowledged, or were moved.
    pub length: u64,
    /// The last frame that counts.
    pub last_index: Index,
    /// The chain after it.
    pub hash: u64,
}

/// Contents of a segment's head.
///
/// ```text
/// offset  bytes  what (see `head` for what comes before)
///     32      8  segment number, from 1 on
///     40      8  salt
///     48      8  the segment before: number, 0 if none
///     56      8                      how many of its bytes count
///     64      8                      its last frame that counts; the first frame here is the next one
///     72      8                      chain hash after that frame
///     80      4  epoch
///     84      4  zero
///     88      8  moved bytes: how many bytes of frames here stood behind the end of the segment before, until an
///                fsync error made us write them again; a place there now means the place as far behind the head here
///     96      8  how long the file was made: a shorter one was cut
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHead {
    /// Id of the segment's journal.
    pub journal: u128,
    /// Its number, also in its name.
    pub number: u64,
    /// Random number that distinguishes its frames from older bytes in the same file.
    pub salt: u64,
    /// Where the journal ended when it was begun.
    pub before: Ending,
    /// The opening of the journal that created it.
    pub epoch: u32,
    /// Bytes of frames that were moved here from after the end of the segment before.
    pub moved_bytes: u64,
    /// Length with which the file was created.
    pub bytes_file: u64,
}

impl SegmentHead {
    /// Where its first frame is.
    pub const FRAMES_AT: u64 = HEAD_BYTES as u64;

    /// Reads one back from the first bytes of a file called `number`.
    pub fn read(bytes: &[u8], number: u64) -> Result<Self, FileFault> {
        let head = Head::read(bytes, MAGIC, VERSION)?;
        let at = |field: usize| head.u64_at(FIELDS_AT + field);
        let segment = Self {
            journal: head.journal(),
            number: at(0),
            salt: at(8),
            before: Ending {
                number: at(16),
                length: at(24),
                last_index: at(32),
                hash: at(40),
            },
            epoch: head.u32_at(FIELDS_AT + 48),
            moved_bytes: at(56),
            bytes_file: at(64),
        };
        if segment.number != number {
            return Err(FileFault::OtherNumber {
                number: segment.number,
            });
        }
        Ok(segment)
    }

    /// The bytes to write.
    pub fn sealed(&self) -> Box<[u8; HEAD_BYTES]> {
        let mut head = Head::new(MAGIC, VERSION, self.journal);
        let fields = [
            self.number,
            self.salt,
            self.before.number,
            self.before.length,
            self.before.last_index,
            self.before.hash,
            u64::from(self.epoch),
            self.moved_bytes,
            self.bytes_file,
        ];
        for (at, field) in fields.into_iter().enumerate() {
            head.put(FIELDS_AT + at * 8, field.to_le_bytes());
        }
        head.sealed()
    }

    /// The index of its first frame.
    pub const fn first_index(&self) -> Index {
        self.before.last_index.wrapping_add(1)
    }

    /// Seed of the hashes of its frames.
    pub fn seed(&self) -> Seed {
        Seed::new(self.salt, self.number)
    }

    /// Where the place is that has `offset` in this file.
    pub const fn place(&self, offset: u64) -> Place {
        Place::at(self.number, offset)
    }
}
