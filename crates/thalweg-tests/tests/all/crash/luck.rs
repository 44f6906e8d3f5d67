//! Reproducible chance (splitmix64): what is done and when, not what the machine makes of it.

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Luck(u64);

impl Luck {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for the part called `number`, so that parts do not depend on each other's order.
    pub fn of(&self, number: u64) -> Self {
        let mut luck = Self(self.0 ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        luck.next();
        luck
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// From 0 up to 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.part() < probability
    }

    pub fn between(&mut self, (from, to): (f64, f64)) -> f64 {
        from + self.part() * (to - from)
    }
}
