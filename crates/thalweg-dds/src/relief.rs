//! What a writer does while a reliable reader does not acknowledge. The library lets such a reader hold up all others of its writer until its
//! lease ends, as what is not acknowledged has a limit. So a second writer is made beside it, which has none: the others go on with that, and
//! the limit is here.

use crate::cyclone::{KeyHash, SampleKind, Unwritten, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_model::{Span, Time};

/// Bytes that all second writers of a bridge write until they end; samples beyond are dropped.
const BYTES_MAX: usize = 64 << 20;
/// Samples of an instance that a second writer can repeat.
const DEPTH_MAX: usize = 16_384;
/// How long readers have to find the second writer.
const STRANGE_FOR: Span = Span::from_millis(300);
/// How often the first one is asked whether it is held up still.
const ASK_EVERY: Span = Span::from_millis(20);

/// Bytes that second writers have written, of a whole bridge.
pub(crate) type Spent = Arc<AtomicUsize>;

pub(crate) struct Relief {
    writer: Writer,
    from: Time,
    asked: Time,
    /// The first writer is held up no longer: what comes waits for readers to have all of the second one.
    ends: bool,
    /// Written to neither yet.
    waiting: Vec<(SampleKind, Vec<u8>, KeyHash)>,
    bytes: usize,
    spent: Spent,
}

impl Relief {
    /// A second writer beside this one, for samples of this size. Of exclusive writers readers hear one only.
    pub(crate) fn beside(
        first: &Writer,
        size: usize,
        spent: &Spent,
        now: Time,
    ) -> Result<Relief, Unwritten> {
        if first.is_exclusive() {
            return Err(Unwritten::Slow);
        }
        let depth = (BYTES_MAX / size.max(1)).min(DEPTH_MAX);
        let writer = first.beside(depth as u32).map_err(Unwritten::Failed)?;
        Ok(Relief {
            writer,
            from: now + STRANGE_FOR,
            asked: now,
            ends: false,
            waiting: Vec::new(),
            bytes: 0,
            spent: spent.clone(),
        })
    }

    /// Writes a sample, if not too much was written already.
    pub(crate) fn write(
        &mut self,
        kind: SampleKind,
        bytes: &[u8],
        key: KeyHash,
        now: Time,
    ) -> Result<(), Unwritten> {
        let before = self.spent.fetch_add(bytes.len(), Ordering::Relaxed);
        self.bytes += bytes.len();
        if before + bytes.len() > BYTES_MAX {
            self.spent.fetch_sub(bytes.len(), Ordering::Relaxed);
            self.bytes -= bytes.len();
            return Err(Unwritten::Slow);
        }
        if now < self.from || self.ends {
            self.waiting.push((kind, bytes.to_vec(), key));
            return Ok(());
        }
        self.pour();
        self.writer.write(kind, bytes, key)
    }

    fn pour(&mut self) {
        for (kind, bytes, key) in self.waiting.drain(..) {
            // It has no limit, so nothing but its end is in the way.
            let _ = self.writer.write(kind, &bytes, key);
        }
    }

    pub(crate) fn flush(&self) {
        self.writer.flush();
    }

    /// Whether the first writer is held up no longer, and goes on behind what the second one has written. Until then writes what waits
    /// if it is time.
    pub(crate) fn is_over(&mut self, first: &Writer, now: Time) -> bool {
        if now < self.asked + ASK_EVERY {
            return false;
        }
        self.asked = now;
        self.ends |= first.is_acknowledged();
        if !self.ends {
            if now >= self.from && !self.waiting.is_empty() {
                self.pour();
                self.flush();
            }
            return false;
        }
        if !self.writer.is_acknowledged() {
            return false;
        }
        let mut left = std::mem::take(&mut self.waiting).into_iter();
        while let Some((kind, bytes, key)) = left.next() {
            if first.write(kind, &bytes, key) == Err(Unwritten::Slow) {
                self.waiting = [(kind, bytes, key)].into_iter().chain(left).collect();
                first.flush();
                return false;
            }
        }
        first.flush();
        true
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        self.spent.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
