//! Remaining time of a service that has lasted so long, learnt from all members of a group, in units of their means.

/// Bins of half an octave, from 2^-8 to 2^8 of the mean.
const BINS: usize = 33;
const LOWEST: i32 = -16;
/// Mass of a tail that nothing was seen of, so that what is overdue looks ever longer.
const TAIL: f64 = 0.002;
/// Samples that are remembered.
const MEMORY: f64 = 4096.0;

/// Factor of the longest time per sample: a third remains after 16,384.
const LONGEST_KEPT: f64 = 1.0 - 1.0 / 16_384.0;

/// Samples of service times over their means.
#[derive(Clone, Debug)]
pub(crate) struct Residual {
    bins: [(f32, f32); BINS],
    total: f64,
    /// Mean residual at the lower edge of each bin; of the last one beyond.
    table: [f32; BINS + 1],
    since_table: u32,
    squares: f64,
    weight: f64,
    /// The longest of late, in means.
    longest: f64,
}

impl Default for Residual {
    fn default() -> Self {
        let mut residual = Residual {
            bins: [(0.0, 0.0); BINS],
            total: 0.0,
            table: [1.0; BINS + 1],
            since_table: 0,
            squares: 0.0,
            weight: 0.0,
            longest: 0.0,
        };
        // As if eight samples of an exponential law had been seen.
        for part in 0..64 {
            let y = -(1.0 - (f64::from(part) + 0.5) / 64.0_f64).ln();
            residual.count(y, 0.125);
        }
        residual.squares = 4.0;
        residual.weight = 4.0;
        residual.rebuild();
        residual
    }
}

/// Bin of a value, and its position between the bin's edges.
fn place(y: f64) -> (usize, f64) {
    if y <= 0.003_91 {
        return (0, 0.0);
    }
    // The exponent says the octave, the mantissa which half.
    let bits = y.to_bits();
    let octave = ((bits >> 52) & 0x7FF) as i32 - 1023;
    let mantissa = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF) | 0x3FF0_0000_0000_0000);
    const ROOT: f64 = std::f64::consts::SQRT_2;
    let (half, part) = if mantissa < ROOT {
        (0, (mantissa - 1.0) / (ROOT - 1.0))
    } else {
        (1, (mantissa - ROOT) / (2.0 - ROOT))
    };
    let bin = 2 * octave + half - LOWEST;
    if bin >= BINS as i32 {
        (BINS - 1, 1.0)
    } else {
        (bin.max(0) as usize, part)
    }
}

/// Lower edge of a bin.
fn edge(bin: usize) -> f64 {
    if bin == 0 {
        0.0
    } else {
        f64::from(bin as i32 + LOWEST).mul_add(0.5, 0.0).exp2()
    }
}

impl Residual {
    fn count(&mut self, y: f64, weight: f64) {
        if let Some(bin) = self.bins.get_mut(place(y).0) {
            bin.0 += weight as f32;
            bin.1 += (weight * y) as f32;
        }
        self.total += weight;
    }

    /// A service took `y` times its mean.
    pub(crate) fn learn(&mut self, y: f64) {
        let y = y.clamp(0.0, 1e4);
        if self.total > MEMORY {
            self.bins
                .iter_mut()
                .for_each(|bin| *bin = (bin.0 / 2.0, bin.1 / 2.0));
            self.total /= 2.0;
        }
        self.count(y, 1.0);
        let keep = 1.0 - 1.0 / 512.0;
        self.squares = self.squares * keep + (y - 1.0) * (y - 1.0);
        self.weight = self.weight * keep + 1.0;
        self.longest = (self.longest * LONGEST_KEPT).max(y);
        self.since_table += 1;
        if self.since_table > 256 || f64::from(self.since_table) > self.total / 4.0 {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        self.since_table = 0;
        let (mut mass, mut sum) = (0.0, 0.0);
        for bin in (0..=BINS).rev() {
            if let Some((count, total)) = self.bins.get(bin) {
                mass += f64::from(*count) / self.total;
                sum += f64::from(*total) / self.total;
            }
            let u = edge(bin);
            let left = (sum - u * mass).max(0.0) + TAIL * (1.0 + u);
            if let Some(entry) = self.table.get_mut(bin) {
                *entry = (left / (mass + TAIL)) as f32;
            }
        }
    }

    /// Mean remaining time of a service that has lasted `u` means.
    #[inline]
    pub(crate) fn left(&self, u: f64) -> f64 {
        let (bin, part) = place(u);
        let (Some(low), Some(high)) = (self.table.get(bin), self.table.get(bin + 1)) else {
            return 1.0;
        };
        let left = f64::from(low + (high - low) * part as f32);
        // Beyond the table only the tail is left.
        if bin + 1 == BINS {
            left.max(1.0 + u)
        } else {
            left
        }
    }

    /// The longest that was seen of late, in means.
    pub(crate) fn longest(&self) -> f64 {
        self.longest
    }

    /// Squared coefficient of variation.
    pub(crate) fn variation(&self) -> f64 {
        (self.squares / self.weight.max(1.0)).min(100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_service_has_less_left_the_longer_it_lasts_until_it_is_overdue() {
        let mut residual = Residual::default();
        for _ in 0..5000 {
            residual.learn(1.0);
        }
        assert!(
            (residual.left(0.0) - 1.0).abs() < 0.05,
            "{}",
            residual.left(0.0)
        );
        assert!(
            (residual.left(0.5) - 0.5).abs() < 0.06,
            "{}",
            residual.left(0.5)
        );
        assert!(residual.left(4.0) > 2.0, "{}", residual.left(4.0));
        assert!(residual.left(1000.0) > 1000.0);
        assert!(residual.variation() < 0.01);
    }

    #[test]
    fn an_exponential_service_has_always_the_same_left() {
        let residual = Residual::default();
        for u in [0.0, 0.3, 1.0, 2.0] {
            assert!(
                (residual.left(u) - 1.0).abs() < 0.15,
                "{u}: {}",
                residual.left(u)
            );
        }
    }

    #[test]
    fn bins_and_edges_agree() {
        for bin in 1..BINS {
            assert_eq!(place(edge(bin) * 1.000_01).0, bin);
            assert_eq!(place(edge(bin) * 0.999_99).0, bin - 1);
        }
    }
}
