//! Packet identifiers of a client: 1 to 65,535, each at most once in use. [MQTT-2.2.1-3]

/// Packet identifiers in use. The bitmap (8 KiB) is allocated with the first identifier.
#[derive(Debug, Default)]
pub(crate) struct PacketIds {
    used: Vec<u64>,
    count: u16,
    last: u16,
}

const WORDS: usize = 1024;

impl PacketIds {
    /// The next free identifier after the last one given out; `None` if all are in use.
    pub(crate) fn allocate(&mut self) -> Option<u16> {
        if self.count == u16::MAX {
            return None;
        }
        let mut id = self.last;
        loop {
            id = if id == u16::MAX { 1 } else { id + 1 };
            if self.reserve(id) {
                self.last = id;
                return Some(id);
            }
        }
    }

    /// Marks an identifier as in use; `false` if it was already, or is 0.
    pub(crate) fn reserve(&mut self, id: u16) -> bool {
        if self.used.is_empty() {
            self.used.resize(WORDS, 0);
        }
        let (word, bit) = place(id);
        match self.used.get_mut(word) {
            Some(word) if id != 0 && *word & bit == 0 => {
                *word |= bit;
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    /// The exchange is finished.
    pub(crate) fn release(&mut self, id: u16) {
        let (word, bit) = place(id);
        if let Some(word) = self.used.get_mut(word)
            && *word & bit != 0
        {
            *word &= !bit;
            self.count -= 1;
        }
    }
}

const fn place(id: u16) -> (usize, u64) {
    ((id >> 6) as usize, 1 << (id & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [MQTT-2.2.1-3] [MQTT3-2.3.1-2]
    #[test]
    fn identifiers_are_unique_until_released_and_never_zero() {
        let mut ids = PacketIds::default();
        for expected in 1..=u16::MAX {
            assert_eq!(ids.allocate(), Some(expected));
        }
        assert_eq!(ids.allocate(), None);
        ids.release(500);
        ids.release(500);
        assert_eq!(ids.allocate(), Some(500));
        assert_eq!(ids.allocate(), None);
        assert!(!ids.reserve(0));
    }
}
