//! The block of 4,096 bytes that every file of ours begins with, whatever its kind.
//!
//! ```text
//! offset  bytes  what
//!      0      8  magic of the kind of file
//!      8      4  format version of the kind
//!     12      4  zero
//!     16     16  journal id: random, the same in all files of a directory
//!     32   4060  fields of the kind; what it does not use is zero
//!   4092      4  CRC-32C over everything before it, in every version
//! ```
//! All numbers in all files are little-endian.

use crate::error::FileFault;

/// Length of the head: a page, so that it shares none with the frames.
pub const HEAD_BYTES: usize = 4096;
/// Where the fields of the kind begin.
pub const FIELDS_AT: usize = 32;
const CRC_AT: usize = HEAD_BYTES - 4;

/// A file head, sealed or about to be.
#[derive(Clone, PartialEq, Eq)]
pub struct Head(Box<[u8; HEAD_BYTES]>);

impl Head {
    /// A head without fields.
    pub fn new(magic: [u8; 8], version: u32, journal: u128) -> Self {
        let mut head = Self(Box::new([0; HEAD_BYTES]));
        head.put(0, magic);
        head.put(8, version.to_le_bytes());
        head.put(16, journal.to_le_bytes());
        head
    }

    /// Reads one back: of the right kind, whole, and of a version that is known.
    pub fn read(bytes: &[u8], magic: [u8; 8], version_known: u32) -> Result<Self, FileFault> {
        let Some(bytes) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Err(if bytes.starts_with(&magic) {
                FileFault::Damaged
            } else {
                FileFault::Foreign
            });
        };
        let head = Self(Box::new(*bytes));
        if head.bytes_at::<8>(0) != magic {
            return Err(FileFault::Foreign);
        }
        if u32::from_le_bytes(head.bytes_at(CRC_AT)) != head.crc() {
            return Err(FileFault::Damaged);
        }
        match head.u32_at(8) {
            version if version == version_known => Ok(head),
            version => Err(FileFault::OtherVersion {
                version,
                known: version_known,
            }),
        }
    }

    /// The bytes to write.
    pub fn sealed(mut self) -> Box<[u8; HEAD_BYTES]> {
        let crc = self.crc();
        self.put(CRC_AT, crc.to_le_bytes());
        self.0
    }

    /// Id of the file's journal.
    pub fn journal(&self) -> u128 {
        u128::from_le_bytes(self.bytes_at(16))
    }

    /// Sets a field; what does not fit before the checksum is left out.
    pub fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        if let Some(field) = self.0.get_mut(at..at + N) {
            field.copy_from_slice(&value);
        }
    }

    /// A field of four bytes.
    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes_at(at))
    }

    /// A field of eight bytes.
    pub fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes_at(at))
    }

    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .unwrap_or([0; N])
    }

    fn crc(&self) -> u32 {
        crc32c::crc32c(self.0.get(..CRC_AT).unwrap_or_default())
    }
}
