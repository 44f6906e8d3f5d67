//! Service time of a message: of one member, with the group's typical time as a prior; and its dependence on size.

/// Acknowledgements that are remembered.
const MEMORY_ACKS: f64 = 64.0;
/// Most messages known from reports that are remembered.
const MEMORY_REPORTED: f64 = 300.0;
/// Silence after which what is known of a member begins to fade, and how slowly, in seconds.
const FRESH: f64 = 1.0;
const FADING: f64 = 60.0;
/// Shorter than this nothing takes; it keeps quotients finite.
pub(crate) const SHORTEST: f64 = 1e-6;
const LONGEST: f64 = 3600.0;

/// Measurements of one member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Service {
    sum: f64,
    weight: f64,
    /// The same with a memory of a few messages, to see that it has changed.
    short_sum: f64,
    short_weight: f64,
    /// When something was learnt last.
    learnt: f64,
    samples: u32,
}

impl Service {
    pub(crate) fn new(now: f64) -> Self {
        Service {
            learnt: now,
            ..Service::default()
        }
    }

    /// Mean seconds of a message of typical size, where `typical` counts like one sample.
    pub(crate) fn mean(&self, typical: f64, now: f64) -> f64 {
        let silence = now - self.learnt - FRESH;
        let fading = if silence > 0.0 {
            (-silence / FADING).exp()
        } else {
            1.0
        };
        ((typical + self.sum * fading) / (1.0 + self.weight * fading)).clamp(SHORTEST, LONGEST)
    }

    /// Without the prior; nothing if nothing is known.
    pub(crate) fn own(&self) -> Option<f64> {
        (self.weight > 0.5).then(|| (self.sum / self.weight).clamp(SHORTEST, LONGEST))
    }

    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// One message took `x`.
    pub(crate) fn learn(&mut self, x: f64, now: f64) {
        let keep = 1.0 - 1.0 / MEMORY_ACKS;
        self.sum = self.sum * keep + x.clamp(0.0, LONGEST);
        self.weight = self.weight * keep + 1.0;
        self.learnt = now;
        self.samples = self.samples.saturating_add(1);
    }

    /// `count` messages took `each` on average, where single ones vary by the factor `variation`.
    pub(crate) fn learn_reported(
        &mut self,
        each: f64,
        count: f64,
        variation: f64,
        typical: f64,
        now: f64,
    ) {
        let count = count.min(MEMORY_REPORTED);
        let each = each.clamp(0.0, LONGEST);
        let keep = (-count / MEMORY_REPORTED).exp();
        self.sum = self.sum * keep + count * each;
        self.weight = self.weight * keep + count;
        let keep = (-count / 6.0).exp();
        self.short_sum = self.short_sum * keep + count * each;
        self.short_weight = self.short_weight * keep + count;
        self.learnt = now;
        self.samples = self.samples.saturating_add(1);
        let short = self.short_sum / self.short_weight.max(1e-9);
        let mean = self.mean(typical, now);
        if (short - mean).abs() > (4.0 * variation / 11.0_f64.sqrt()).max(0.05) * mean {
            // It is another member now.
            (self.sum, self.weight) = (4.0 * short, 4.0);
        }
    }
}

/// Dependence of the service time on the message's size, over a group: `flat + slope * size / mean size`, where both
/// add up to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeLaw {
    /// Discounted sums of 1, z, z², y and z·y, where z is the size and y the time over the member's mean.
    sums: [f64; 5],
    average: f64,
    pub(crate) slope: f64,
    learnt: u32,
}

impl SizeLaw {
    /// The factor of a message of that size.
    #[inline]
    pub(crate) fn factor(&self, size: u32) -> f64 {
        if self.slope == 0.0 {
            1.0
        } else {
            (1.0 - self.slope + self.slope * f64::from(size) / self.average).max(0.02)
        }
    }

    /// A message of that size took `y` times what is usual.
    pub(crate) fn learn(&mut self, size: u32, y: f64) {
        let (z, y) = (f64::from(size), y.clamp(0.0, 100.0));
        for (sum, term) in self.sums.iter_mut().zip([1.0, z, z * z, y, z * y]) {
            *sum = *sum * (1.0 - 1.0 / 1024.0) + term;
        }
        self.learnt += 1;
        if self.learnt < 64 || !self.learnt.is_multiple_of(16) {
            return;
        }
        let [count, z, zz, y, zy] = self.sums;
        let (z, y) = (z / count, y / count);
        let spread = zz / count - z * z;
        self.average = z.max(1.0);
        self.slope = 0.0;
        if spread > 1e-3 * z * z && y > 0.0 {
            let steepness = (zy / count - z * y) / spread;
            let noise = 3.0 / count.sqrt() * y / spread.sqrt();
            let slope = steepness * z / y;
            if slope >= 0.05 && steepness > noise {
                self.slope = slope.min(1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_member_is_thought_typical_and_a_silent_one_becomes_so_again() {
        let mut service = Service::new(0.0);
        assert_eq!(service.mean(0.01, 0.0), 0.01);
        for _ in 0..200 {
            service.learn(0.05, 1.0);
        }
        assert!((service.mean(0.01, 1.0) - 0.05).abs() < 0.001);
        assert!(service.mean(0.01, 700.0) < 0.011);
    }

    #[test]
    fn a_reported_change_is_believed_after_few_messages() {
        let mut service = Service::new(0.0);
        for second in 0..20 {
            service.learn_reported(0.025, 40.0, 0.05, 0.025, f64::from(second));
        }
        service.learn_reported(0.1, 10.0, 0.05, 0.025, 21.0);
        assert!(
            service.mean(0.025, 21.0) > 0.055,
            "{}",
            service.mean(0.025, 21.0)
        );
    }

    #[test]
    fn the_size_law_finds_a_slope_and_ignores_noise() {
        let mut law = SizeLaw::default();
        for number in 0..2000_u32 {
            let size = 100 + number * 37 % 1000;
            law.learn(size, 0.2 + 0.8 * f64::from(size) / 599.5);
        }
        assert!((law.slope - 0.8).abs() < 0.05, "{}", law.slope);
        assert!(law.factor(1199) > 1.7);
        let mut law = SizeLaw::default();
        for number in 0..2000_u32 {
            law.learn(
                100 + number * 37 % 1000,
                f64::from(number * 7919 % 100) / 50.0,
            );
        }
        assert_eq!(law.slope, 0.0);
    }
}
