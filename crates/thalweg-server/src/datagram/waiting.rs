//! Datagrams that the system would not take yet.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// In their order, and bounded: what does not fit is as good as lost on the way.
#[derive(Default)]
pub(super) struct Waiting {
    list: VecDeque<(SocketAddr, Box<[u8]>)>,
    bytes: usize,
}

impl Waiting {
    /// False if there is no room.
    pub(super) fn push(&mut self, to: SocketAddr, datagram: &[u8], bytes_max: usize) -> bool {
        // Short ones cost more than their bytes.
        let cost = datagram.len() + OVERHEAD_BYTES;
        if self.bytes + cost > bytes_max {
            return false;
        }
        self.bytes += cost;
        self.list.push_back((to, datagram.into()));
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// All of them; nothing waits any more.
    pub(super) fn take(&mut self) -> VecDeque<(SocketAddr, Box<[u8]>)> {
        self.bytes = 0;
        std::mem::take(&mut self.list)
    }
}

/// Address, pointer and the allocator's rounding.
const OVERHEAD_BYTES: usize = 64;
