//! One link: what waits in its output, how much of it may leave, and what its front says of its peer.

use super::{LARGE_BYTES, Link, Links, PRIORITIZED_BYTES};
use crate::front::Front;
use crate::registry::each_front;
use thalweg_kernel::{Kernel, LinkId};

/// What an empty output may have: it is part of what any connection costs.
const IDLE_BYTES: usize = 4 << 10;

impl Links {
    /// Output that is not flushed yet may have so many bytes: above it nothing more is delivered, and above half of it
    /// [`Links::drive`] stops for a flush.
    pub fn set_unflushed_max(&mut self, bytes: usize) {
        self.unflushed_most = bytes;
        // Never 0: a flush makes room for something.
        self.flush_at = self.limits.unflushed_max.min((bytes / 2).max(LARGE_BYTES));
    }

    /// Whether there is memory for `more` bytes that a front would keep for its peer.
    pub(crate) fn may_keep(&self, id: LinkId, more: usize, kernel: &Kernel) -> bool {
        self.get(id)
            .is_none_or(|link| kernel.may_keep(link.kept, more))
    }
}

impl Link {
    /// So many bytes are kept for its peer now; how many there were. `of_all` is the sum over all links.
    #[inline(always)]
    pub(super) fn keeps(&mut self, kept: usize, of_all: &mut usize) -> usize {
        let before = std::mem::replace(&mut self.kept, kept);
        *of_all = *of_all + kept - before;
        before
    }

    /// Makes room in a large output: in one step up to its limit, because each smaller step would leave a block behind
    /// for the allocator to keep. The limits count what waits, so what is sent should not stay long beside it.
    #[cold]
    pub(super) fn make_room(&mut self, needed: usize, output_max: usize) {
        if self.sent >= self.out.len() / 4 {
            self.forget_sent();
        } else {
            let to_limit = output_max.saturating_sub(self.waiting());
            self.out
                .reserve_exact(needed + to_limit.max(self.out.len() / 4));
        }
    }

    /// What its output may have at the most, whatever others may.
    pub(super) fn max_of_its_own(&self) -> usize {
        match self.prioritized {
            true => PRIORITIZED_BYTES,
            false => usize::MAX,
        }
    }

    /// What may be sent now.
    #[inline]
    pub fn sendable(&self) -> &[u8] {
        let end = match self.held.front() {
            None => self.out.len(),
            Some((from, _)) => (from - self.gone) as usize,
        };
        self.out.get(self.sent..end).unwrap_or_default()
    }

    /// All bytes in the output, those that are sent and those that must wait included.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// So many bytes of [`Link::sendable`] are sent.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.out.len() {
            self.gone += self.sent as u64;
            self.out.clear();
            self.sent = 0;
        }
    }

    /// How many bytes wait to be sent, those included that must wait for the journal.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.out.len() - self.sent
    }

    /// The high-water mark of this link, if it has one of its own.
    pub fn output_high(&self) -> usize {
        self.high
    }

    /// Keeps a buffer that never drains wholly from growing with what it has sent, if that moves less than was sent.
    pub fn slim_down(&mut self, sent_min: usize) {
        if self.sent > sent_min && self.sent > self.out.len() / 2 {
            self.forget_sent();
        }
    }

    /// Bytes of memory of the output.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Bytes in its output, sent ones included, or the memory of an empty one if that is large; and of messages that came in
    /// pieces and are not complete.
    pub fn buffered(&self) -> usize {
        let gathered = each_front!(&self.front, front => Front::gathered_bytes(&**front));
        let output = match self.out.len() {
            0 if self.out.capacity() > IDLE_BYTES => self.out.capacity(),
            used => used,
        };
        output + gathered
    }

    /// Gives the memory of an empty output back.
    pub fn give_back(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    pub(super) fn forget_sent(&mut self) {
        self.out.drain(..self.sent);
        self.gone += self.sent as u64;
        self.sent = 0;
    }

    /// Whether the peer has been let in.
    pub fn is_connected(&self) -> bool {
        each_front!(&self.front, front => Front::is_connected(&**front))
    }

    /// Whether input must wait, because it is being checked who the peer is.
    pub fn holds_input(&self) -> bool {
        each_front!(&self.front, front => Front::holds_input(&**front))
    }

    /// What the peer did wrong, if that is why the link ends.
    pub fn fault(&self) -> Option<String> {
        each_front!(&self.front, front => Front::fault(&**front))
    }
}
