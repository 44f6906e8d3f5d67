//! A frame: one batch of one shard, with the fields that identify it.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::log::Index;

/// First bytes of a frame.
pub const MAGIC: [u8; 4] = *b"TwFr";
/// The only format so far.
pub const FORMAT: u8 = 1;
/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 48;
/// Frames begin at multiples of this.
pub const ALIGN: usize = 8;
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;
const HEADER_CRC_AT: usize = HEADER_BYTES - 4;

/// Bytes of a frame with `payload_bytes` in a file, padding included.
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + payload_bytes.next_multiple_of(ALIGN)
}

/// The salt of a file, mixed with its number: what the checksums of its frames begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u32);

impl Seed {
    /// The seed of file `number` with this salt.
    pub fn new(salt: u64, number: u64) -> Self {
        Self(crc32c::crc32c_append(
            crc32c::crc32c(&salt.to_le_bytes()),
            &number.to_le_bytes(),
        ))
    }
}

/// Header in front of a payload.
///
/// ```text
/// offset  bytes  what
///      0      4  magic "TwFr"
///      4      1  format, 1
///      5      1  zero
///      6      2  shard
///      8      4  payload length
///     12      4  epoch
///     16      8  index
///     24      8  durable through: all frames up to this index were durable when this one was written
///     32      8  chain hash of the frame before
///     40      4  CRC-32C of the payload
///     44      4  CRC-32C of salt, file number, offset of the frame in the file, and the 44 bytes above
///     48      n  payload, then zeros up to a multiple of 8
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Shard of the batch.
    pub shard: u16,
    /// Length of the payload without padding.
    pub payload_bytes: u32,
    /// The opening of the journal that wrote it.
    pub epoch: u32,
    /// Number of the frame.
    pub index: Index,
    /// All frames up to this one were durable when this frame was written.
    pub durable_through: Index,
    /// The chain hash of the frame before.
    pub prev_hash: u64,
    /// The checksum of the payload.
    pub payload_crc: u32,
}

impl FrameHeader {
    /// Reads the header that begins `bytes`; nothing if this is not a header written for this offset of this file.
    pub fn read(bytes: &[u8], seed: Seed, offset: u64) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_BYTES>()?;
        if !bytes.starts_with(&MAGIC)
            || number_at::<4>(bytes, HEADER_CRC_AT) != u64::from(crc(bytes, seed, offset))
        {
            return None;
        }
        // Its checksum is right, so that another format is a newer one in a file of an older: nothing we ever wrote.
        if bytes.get(4..6) != Some(&[FORMAT, 0]) {
            return None;
        }
        let header = Self {
            shard: number_at::<2>(bytes, 6) as u16,
            payload_bytes: number_at::<4>(bytes, 8) as u32,
            epoch: number_at::<4>(bytes, 12) as u32,
            index: number_at::<8>(bytes, 16),
            durable_through: number_at::<8>(bytes, 24),
            prev_hash: number_at::<8>(bytes, 32),
            payload_crc: number_at::<4>(bytes, 40) as u32,
        };
        (header.payload_bytes as usize <= PAYLOAD_BYTES_MAX).then_some(header)
    }

    /// Bytes of the whole frame.
    pub const fn frame_bytes(&self) -> usize {
        frame_bytes(self.payload_bytes as usize)
    }

    /// True if this is the payload the header was written for.
    pub fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes as usize && crc32c::crc32c(payload) == self.payload_crc
    }

    /// The chain hash after this frame. It leaves the header's own checksum out, so that a frame can be written again
    /// elsewhere without breaking the chain behind it.
    pub fn chain(&self, payload: &[u8]) -> u64 {
        let header = self.unsealed();
        xxh3_64_with_seed(
            payload,
            xxh3_64(header.get(..HEADER_CRC_AT).unwrap_or_default()),
        )
    }

    fn sealed(&self, seed: Seed, offset: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = self.unsealed();
        let crc = crc(&bytes, seed, offset);
        put(&mut bytes, HEADER_CRC_AT, crc.to_le_bytes());
        bytes
    }

    fn unsealed(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, [FORMAT]);
        put(&mut bytes, 6, self.shard.to_le_bytes());
        put(&mut bytes, 8, self.payload_bytes.to_le_bytes());
        put(&mut bytes, 12, self.epoch.to_le_bytes());
        put(&mut bytes, 16, self.index.to_le_bytes());
        put(&mut bytes, 24, self.durable_through.to_le_bytes());
        put(&mut bytes, 32, self.prev_hash.to_le_bytes());
        put(&mut bytes, 40, self.payload_crc.to_le_bytes());
        bytes
    }
}

/// A frame about to be written; the lengths and checksums follow from the payload.
#[derive(Clone, Copy, Debug)]
pub struct FrameDraft<'a> {
    /// Shard of the batch.
    pub shard: u16,
    /// The opening of the journal that writes it.
    pub epoch: u32,
    /// Number of the frame.
    pub index: Index,
    /// All frames up to this one are durable.
    pub durable_through: Index,
    /// The chain hash of the frame before.
    pub prev_hash: u64,
    /// The records; at most [`PAYLOAD_BYTES_MAX`].
    pub payload: &'a [u8],
}

/// Appends the frame to `out` for `offset` of the file with this seed; the chain hash after it.
pub fn encode(draft: &FrameDraft<'_>, seed: Seed, offset: u64, out: &mut Vec<u8>) -> u64 {
    let header = FrameHeader {
        shard: draft.shard,
        payload_bytes: draft.payload.len() as u32,
        epoch: draft.epoch,
        index: draft.index,
        durable_through: draft.durable_through,
        prev_hash: draft.prev_hash,
        payload_crc: crc32c::crc32c(draft.payload),
    };
    let length = out.len() + header.frame_bytes();
    out.extend_from_slice(&header.sealed(seed, offset));
    out.extend_from_slice(draft.payload);
    out.resize(length, 0);
    header.chain(draft.payload)
}

/// Makes whole frames, encoded for one place, fit another: file `from` at `from_offset` to file `to` at `to_offset`.
pub fn move_frames(
    frames: &mut [u8],
    (from, mut from_offset): (Seed, u64),
    (to, mut to_offset): (Seed, u64),
) {
    let mut rest = frames;
    while let Some(header) = FrameHeader::read(rest, from, from_offset) {
        let length = header.frame_bytes();
        if let Some(place) = rest.first_chunk_mut() {
            *place = header.sealed(to, to_offset);
        }
        rest = rest.get_mut(length..).unwrap_or_default();
        from_offset += length as u64;
        to_offset += length as u64;
    }
}

fn crc(header: &[u8; HEADER_BYTES], seed: Seed, offset: u64) -> u32 {
    let seeded = crc32c::crc32c_append(seed.0, &offset.to_le_bytes());
    crc32c::crc32c_append(seeded, header.get(..HEADER_CRC_AT).unwrap_or_default())
}

fn put<const N: usize>(bytes: &mut [u8; HEADER_BYTES], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..at + N) {
        field.copy_from_slice(&value);
    }
}

fn number_at<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(bytes.iter().skip(at).take(N)) {
        *to = *from;
    }
    u64::from_le_bytes(number)
}
