//! Where datagrams wait until a socket takes them: one arena for all of them, in the order in which they were written.

use core::net::SocketAddr;

/// Outgoing datagrams. One buffer holds all their bytes, so that nothing is allocated per datagram; the owner of the
/// socket reads them and calls [`Datagrams::clear`], which keeps the buffer.
#[derive(Clone, Debug, Default)]
pub struct Datagrams {
    bytes: Vec<u8>,
    ends: Vec<(SocketAddr, u32)>,
}

impl Datagrams {
    /// An empty one, which has allocated nothing.
    pub const fn new() -> Self {
        Datagrams {
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends a datagram. `write` appends its bytes to the buffer, and touches nothing that is there already; if it
    /// appends none, there is no datagram.
    #[inline]
    pub fn push(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        debug_assert!(
            self.bytes.len() >= start,
            "a writer took back what was not its own"
        );
        match u32::try_from(self.bytes.len()) {
            Ok(end) if self.bytes.len() > start => self.ends.push((to, end)),
            // Four gigabytes that were not sent: what comes on top is lost, as datagrams may be.
            _ => self.bytes.truncate(start),
        }
    }

    /// Receiver and bytes of each, in order. Adjacent ones with one receiver and one size suit segmentation offload.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |(to, end)| {
            let from = std::mem::replace(&mut start, *end as usize);
            (*to, self.bytes.get(from..*end as usize).unwrap_or_default())
        })
    }

    /// The bytes of the last one.
    #[inline]
    pub(crate) fn last(&self) -> &[u8] {
        self.bytes.get(self.start_of_last()..).unwrap_or_default()
    }

    /// Takes the last one back.
    pub(crate) fn retract(&mut self) {
        self.bytes.truncate(self.start_of_last());
        self.ends.pop();
    }

    #[inline]
    fn start_of_last(&self) -> usize {
        let before = self
            .ends
            .len()
            .checked_sub(2)
            .and_then(|at| self.ends.get(at));
        before.map_or(0, |(_, end)| *end as usize)
    }

    /// Number of outgoing datagrams.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Their bytes in total.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets them all and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Gives back memory beyond `bytes` bytes, if they are empty. For the end of a burst.
    pub fn shrink(&mut self, bytes: usize) {
        if self.is_empty() && self.bytes.capacity() > bytes {
            *self = Datagrams::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn datagrams_come_out_as_they_went_in() {
        let mut all = Datagrams::new();
        all.push(address(1), |out| out.extend_from_slice(b"one"));
        all.push(address(2), |_| {});
        all.push(address(3), |out| out.extend_from_slice(b"three"));
        let seen: Vec<_> = all
            .iter()
            .map(|(to, bytes)| (to.port(), bytes.to_vec()))
            .collect();
        assert_eq!(seen, [(1, b"one".to_vec()), (3, b"three".to_vec())]);
        assert_eq!((all.len(), all.bytes(), all.is_empty()), (2, 8, false));
        assert_eq!(all.last(), b"three");
        all.retract();
        assert_eq!((all.last(), all.len()), (&b"one"[..], 1));
        all.retract();
        assert_eq!((all.last(), all.len()), (&b""[..], 0));
        all.clear();
        assert!(all.is_empty() && all.iter().next().is_none());
        all.shrink(0);
        assert_eq!(all.bytes.capacity(), 0);
    }
}
