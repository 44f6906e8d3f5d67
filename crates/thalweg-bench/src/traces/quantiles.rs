//! A distribution as some of its quantiles: what a line of a trace has room for.

use std::fmt;

use crate::sim::random::Random;
use crate::stats::{ascend, quantile};

/// Values at [`Quantiles::LEVELS`]; between them in proportion.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles([f64; 22]);

impl Quantiles {
    /// Parts of one that lie below.
    pub const LEVELS: [f64; 22] = [
        0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
        0.8, 0.85, 0.9, 0.95, 0.99, 1.0,
    ];

    /// Of numbers; nothing for none.
    pub fn of(numbers: &mut [f64]) -> Option<Quantiles> {
        ascend(numbers);
        let mut values = [0.0; 22];
        for (value, level) in values.iter_mut().zip(Self::LEVELS) {
            *value = quantile(numbers, level)?;
        }
        Some(Quantiles(values))
    }

    /// With a mean of one; gaps are kept so. Nothing if the mean is not above zero.
    pub fn scaled(&self) -> Option<Quantiles> {
        let mean = self.mean();
        (mean > 0.0).then(|| Quantiles(self.0.map(|value| value / mean)))
    }

    /// The mean of what [`Quantiles::draw`] gives.
    pub fn mean(&self) -> f64 {
        let steps = self.0.windows(2).zip(Self::LEVELS.windows(2));
        steps
            .map(|(values, levels)| match (values, levels) {
                ([low, high], [from, to]) => 0.5 * (low + high) * (to - from),
                _ => 0.0,
            })
            .sum()
    }

    /// A number of this distribution.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let level = random.unit();
        let steps = self.0.windows(2).zip(Self::LEVELS.windows(2));
        for (values, levels) in steps {
            if let ([low, high], [from, to]) = (values, levels)
                && level <= *to
            {
                return low + (high - low) * (level - from) / (to - from);
            }
        }
        self.0.last().copied().unwrap_or_default()
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn read(text: &str) -> Option<Quantiles> {
        let mut values = [0.0; 22];
        let mut fields = text.split(',');
        for value in &mut values {
            *value = fields
                .next()?
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite() && *value >= 0.0)?;
        }
        let is_ascending = values.windows(2).all(|pair| pair.first() <= pair.last());
        (fields.next().is_none() && is_ascending).then_some(Quantiles(values))
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self
            .0
            .iter()
            .map(|value| ((value * 1e4).round() / 1e4).to_string())
            .collect();
        f.write_str(&values.join(","))
    }
}
