//! Reads frames in order from a file, and looks for frames behind a fault.

use std::io;

use crate::disk::DiskFile;
use crate::frame::{ALIGN, FrameHeader, HEADER_BYTES, MAGIC, Seed};
use crate::log::Index;

/// Bytes per read of a file.
const CHUNK_BYTES: usize = 1 << 20;

/// Where a walk through frames stands: what the next frame has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    pub index: Index,
    /// The chain hash it has to name.
    pub hash: u64,
}

/// Fault in the place of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameFault {
    /// No header that was written for this offset of this file.
    NoHeader,
    /// A header, and not the payload it was written for.
    Payload(FrameHeader),
    /// A whole frame, and not the one that comes next.
    Order(FrameHeader),
    /// A frame that reaches over the end.
    TooLong(FrameHeader),
}

impl FrameFault {
    /// In the words of a message.
    pub fn words(&self) -> String {
        match self {
            Self::NoHeader => "there is no frame header, or a damaged one".to_owned(),
            Self::Payload(header) => format!(
                "the payload of frame {} does not match its checksum",
                header.index
            ),
            Self::Order(header) => {
                format!(
                    "frame {} stands there, which does not follow the frame before",
                    header.index
                )
            }
            Self::TooLong(header) => {
                format!("frame {} reaches over the end of the file", header.index)
            }
        }
    }
}

/// Result of a call of [`FrameReader::next`].
#[derive(Debug)]
pub enum Found<'a> {
    /// The next frame; it began at this offset.
    Frame(u64, FrameHeader, &'a [u8]),
    /// The end that was given.
    End,
    Fault(FrameFault),
}

/// Reads the frames of one file between two offsets.
pub struct FrameReader<'f, F> {
    file: &'f F,
    seed: Seed,
    /// Where the next frame begins.
    offset: u64,
    /// Where the last one has to end.
    end: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_at: u64,
}

impl<'f, F: DiskFile> FrameReader<'f, F> {
    /// Reads from `offset` up to `end`.
    pub fn new(file: &'f F, seed: Seed, offset: u64, end: u64) -> Self {
        Self {
            file,
            seed,
            offset,
            end,
            buffer: Vec::new(),
            buffer_at: offset,
        }
    }

    /// Where the next frame begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on at `offset`.
    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The next frame, if it is the one that is expected; then `expected` is moved on.
    pub fn next(&mut self, expected: &mut Expected) -> io::Result<Found<'_>> {
        if self.offset >= self.end {
            return Ok(Found::End);
        }
        let at = self.offset;
        let Some(header) = self.header()? else {
            return Ok(Found::Fault(FrameFault::NoHeader));
        };
        if header.frame_bytes() as u64 > self.end - at {
            return Ok(Found::Fault(FrameFault::TooLong(header)));
        }
        let seed = self.seed;
        let start = self.fill(at, header.frame_bytes())?;
        let frame = self.buffer.get(start..).unwrap_or_default();
        let frame = frame.get(..header.frame_bytes()).unwrap_or_default();
        // Read again from the same bytes as the payload: the file may be written meanwhile.
        let is_same = FrameHeader::read(frame, seed, at) == Some(header);
        let payload = frame
            .get(HEADER_BYTES..)
            .and_then(|rest| rest.get(..header.payload_bytes as usize));
        let Some(payload) = payload.filter(|payload| is_same && header.fits(payload)) else {
            return Ok(Found::Fault(FrameFault::Payload(header)));
        };
        if header.index != expected.index || header.prev_hash != expected.hash {
            return Ok(Found::Fault(FrameFault::Order(header)));
        }
        *expected = Expected {
            index: header.index.wrapping_add(1),
            hash: header.chain(payload),
        };
        self.offset = at + header.frame_bytes() as u64;
        Ok(Found::Frame(at, header, payload))
    }

    /// The next header at or after `from` that was written for where it stands, whatever its payload.
    pub fn next_header(&mut self, from: u64) -> io::Result<Option<(u64, FrameHeader)>> {
        let mut at = from.next_multiple_of(ALIGN as u64);
        while at + HEADER_BYTES as u64 <= self.end {
            let seed = self.seed;
            let start = self.fill(at, HEADER_BYTES)?;
            let bytes = self.buffer.get(start..).unwrap_or_default();
            if bytes.len() < HEADER_BYTES {
                return Ok(None);
            }
            let last = bytes.len() - HEADER_BYTES;
            let mut skip = 0;
            while skip <= last {
                let Some(candidate) = bytes.get(skip..) else {
                    break;
                };
                if candidate.starts_with(&MAGIC)
                    && let Some(header) = FrameHeader::read(candidate, seed, at + skip as u64)
                {
                    return Ok(Some((at + skip as u64, header)));
                }
                skip += ALIGN;
            }
            at += skip as u64;
        }
        Ok(None)
    }

    /// The header at the current offset, if there is one.
    fn header(&mut self) -> io::Result<Option<FrameHeader>> {
        let (seed, at) = (self.seed, self.offset);
        let start = self.fill(at, HEADER_BYTES)?;
        Ok(FrameHeader::read(
            self.buffer.get(start..).unwrap_or_default(),
            seed,
            at,
        ))
    }

    /// Makes the buffer hold at least `length` bytes from `at`, or fewer where the file ends; where in it they begin.
    fn fill(&mut self, at: u64, length: usize) -> io::Result<usize> {
        let has_them =
            at >= self.buffer_at && at + length as u64 <= self.buffer_at + self.buffer.len() as u64;
        if !has_them {
            let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
            self.buffer.resize(length.max(CHUNK_BYTES.min(left)), 0);
            let count = self.file.read_full(&mut self.buffer, at)?;
            self.buffer.truncate(count);
            self.buffer_at = at;
        }
        Ok((at - self.buffer_at) as usize)
    }
}
