//! Options of a journal.

use crate::error::OpenError;
use crate::log::Place;
use crate::segment::SegmentHead;

/// Options of a journal. May differ from one opening to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Length of a segment file.
    pub segment_bytes: u64,
    /// Number of spare files for coming segments; released files above it are removed.
    pub spares: usize,
    /// Most bytes of the journal's files; 0 for no limit but the disk's.
    pub bytes_max: u64,
    /// Go on without confirmed frames that are damaged or missing, and list them.
    pub repair: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            spares: 4,
            bytes_max: 0,
            repair: false,
        }
    }
}

impl Options {
    /// The shortest segment there may be.
    pub const SEGMENT_BYTES_MIN: u64 = 2 * SegmentHead::FRAMES_AT;

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let Self {
            segment_bytes,
            bytes_max,
            ..
        } = *self;
        if !(Self::SEGMENT_BYTES_MIN..=Place::SPAN).contains(&segment_bytes)
            || segment_bytes % SegmentHead::FRAMES_AT != 0
        {
            return Err(OpenError::Options(format!(
                "a segment of {segment_bytes} bytes is not possible: it has to be a multiple of 4096 from {} to {}",
                Self::SEGMENT_BYTES_MIN,
                Place::SPAN
            )));
        }
        if bytes_max != 0 && bytes_max < 2 * segment_bytes {
            return Err(OpenError::Options(format!(
                "a journal of at most {bytes_max} bytes has no room for two segments of {segment_bytes}: raise the \
                 limit, or make segments smaller"
            )));
        }
        Ok(())
    }
}
