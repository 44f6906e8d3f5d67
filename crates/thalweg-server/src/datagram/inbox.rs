//! Where datagrams are received to: buffers that a shard's sockets share, because what is read is handled at once.

use std::net::SocketAddr;

/// Datagrams, or runs of them, that one call receives at the most.
pub(super) const SLOTS: usize = 32;
/// The largest datagram and the largest run fit; the odd rest keeps the buffers' beginnings out of each other's place in
/// the processor's cache.
pub(super) const STRIDE: usize = (64 << 10) + 192;

/// What one call received.
#[derive(Default)]
pub(crate) struct Inbox {
    /// All slots, one behind the other. Pages that no datagram reached cost nothing.
    pub(super) slab: Vec<u8>,
    pub(super) arrivals: Vec<Arrival>,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) slot: u32,
    pub(super) len: u32,
    /// The system may have put datagrams of one peer together: each but the last is so long.
    pub(super) segment: u32,
    /// It was sent to a group that we are in, if we want to know.
    pub(super) is_multicast: bool,
}

/// One datagram of an [`Inbox`].
pub(crate) struct Received<'i> {
    pub(crate) from: SocketAddr,
    /// It was sent to a group.
    pub(crate) is_multicast: bool,
    pub(crate) bytes: &'i [u8],
}

impl Inbox {
    /// Forgets what was received, and has room for more.
    pub(super) fn clear(&mut self) {
        self.arrivals.clear();
        if self.slab.is_empty() {
            self.slab = vec![0; SLOTS * STRIDE];
        }
    }

    /// How many datagrams there are, and their bytes.
    pub(crate) fn count(&self) -> (u64, u64) {
        self.arrivals
            .iter()
            .fold((0, 0), |(datagrams, bytes), arrival| {
                let len = u64::from(arrival.len);
                (
                    datagrams + len.div_ceil(u64::from(arrival.segment.max(1))),
                    bytes + len,
                )
            })
    }

    /// The datagrams in the order in which they came. One without a byte is not there.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Received<'_>> {
        self.arrivals.iter().flat_map(|arrival| {
            let at = arrival.slot as usize * STRIDE;
            let bytes = self
                .slab
                .get(at..at + arrival.len as usize)
                .unwrap_or_default();
            bytes
                .chunks(arrival.segment.max(1) as usize)
                .map(|bytes| Received {
                    from: arrival.from,
                    is_multicast: arrival.is_multicast,
                    bytes,
                })
        })
    }
}
