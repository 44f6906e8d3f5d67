//! Exactly-once publishes that are not released yet.

/// A set of tickets, 8 KiB at the most, nothing while empty.
#[derive(Debug, Default)]
pub(crate) struct HeldTickets {
    pages: Vec<(u8, Box<[u64; 4]>)>,
    len: u32,
}

impl HeldTickets {
    /// False if it was there already.
    pub(crate) fn insert(&mut self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        let at = match self.pages.iter().position(|(number, _)| *number == page) {
            Some(at) => at,
            None => {
                self.pages.push((page, Box::new([0; 4])));
                self.pages.len() - 1
            }
        };
        let word = &mut self.pages[at].1[word];
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u32::from(new);
        new
    }

    /// Whether it was not there, and whether the set takes more memory now.
    pub(crate) fn insert_growing(&mut self, ticket: u16) -> (bool, bool) {
        let pages = self.pages.len();
        (self.insert(ticket), self.pages.len() > pages)
    }

    /// False if it was not there.
    pub(crate) fn remove(&mut self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        let Some(at) = self.pages.iter().position(|(number, _)| *number == page) else {
            return false;
        };
        let bits = &mut self.pages[at].1;
        let was = bits[word] & bit != 0;
        bits[word] &= !bit;
        self.len -= u32::from(was);
        if bits.iter().all(|word| *word == 0) && self.pages.len() > 2 {
            self.pages.swap_remove(at);
        }
        was
    }

    pub(crate) fn contains(&self, ticket: u16) -> bool {
        let (page, word, bit) = Self::place(ticket);
        self.pages
            .iter()
            .any(|(number, bits)| *number == page && bits[word] & bit != 0)
    }

    /// How much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * (size_of::<(u8, Box<[u64; 4]>)>() + size_of::<[u64; 4]>())
    }

    fn place(ticket: u16) -> (u8, usize, u64) {
        (
            (ticket >> 8) as u8,
            (ticket >> 6 & 3) as usize,
            1 << (ticket & 63),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_tickets_are_a_set() {
        let mut held = HeldTickets::default();
        for ticket in [1, 255, 256, 65_535, 7] {
            assert!(held.insert(ticket));
            assert!(!held.insert(ticket));
        }
        assert_eq!(held.len, 5);
        for ticket in [1, 255, 256, 65_535, 7] {
            assert!(held.remove(ticket));
            assert!(!held.remove(ticket));
        }
        assert_eq!(held.len, 0);
    }
}
