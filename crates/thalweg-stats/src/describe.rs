//! One group of numbers: where its middle is, and how sure that is.

use super::special::t_quantile;
use crate::random::Random;

/// An estimate and the range it is in with a stated confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
    /// How many numbers it rests on.
    pub count: usize,
}

/// The mean; not a number for none.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Standard deviation of a sample (divided by n - 1); 0 for fewer than two.
pub fn sd(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let middle = mean(numbers);
    (numbers
        .iter()
        .map(|number| (number - middle).powi(2))
        .sum::<f64>()
        / (numbers.len() - 1) as f64)
        .sqrt()
}

/// The number below which a part `q` (0 to 1) lies, between neighbours in proportion; `sorted` ascends. Nothing for none.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (
        sorted.get(at.floor() as usize)?,
        sorted.get(at.ceil() as usize)?,
    );
    Some(below + (above - below) * at.fract())
}

/// Sorts them, the smallest first.
pub fn ascend(numbers: &mut [f64]) {
    numbers.sort_by(f64::total_cmp);
}

/// The median; nothing for no numbers.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    ascend(&mut sorted);
    quantile(&sorted, 0.5)
}

/// Mean with Student's interval of that confidence (0.95). From two numbers on.
pub fn mean_interval(numbers: &[f64], confidence: f64) -> Option<Interval> {
    if numbers.len() < 2 {
        return None;
    }
    let middle = mean(numbers);
    let t = t_quantile(0.5 + confidence / 2.0, (numbers.len() - 1) as f64);
    let half = t * sd(numbers) / (numbers.len() as f64).sqrt();
    Some(Interval {
        middle,
        low: middle - half,
        high: middle + half,
        count: numbers.len(),
    })
}

/// Median with a percentile bootstrap of 2,000 draws from the seed. From two numbers on.
pub fn median_interval(numbers: &[f64], confidence: f64, seed: u64) -> Option<Interval> {
    if numbers.len() < 2 {
        return None;
    }
    let mut random = Random::new(seed);
    let mut medians = Vec::with_capacity(DRAWS);
    let mut drawn = vec![0.0; numbers.len()];
    for _ in 0..DRAWS {
        for place in &mut drawn {
            *place = numbers
                .get(random.draw() as usize % numbers.len())
                .copied()
                .unwrap_or_default();
        }
        ascend(&mut drawn);
        medians.push(quantile(&drawn, 0.5)?);
    }
    ascend(&mut medians);
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval {
        middle: median(numbers)?,
        low: quantile(&medians, tail)?,
        high: quantile(&medians, 1.0 - tail)?,
        count: numbers.len(),
    })
}

/// Draws of a bootstrap: ends of an interval of 95 % are then known to about half a percentile.
const DRAWS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // n = 8: Student's t for 95 % is 2.365.
        let numbers = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let found = mean_interval(&numbers, 0.95).expect("eight numbers");
        let half = 2.3646 * 2.138_09 / 8_f64.sqrt();
        assert!((found.middle - 5.0).abs() < 1e-12);
        assert!(
            (found.high - 5.0 - half).abs() < 1e-3 && (5.0 - found.low - half).abs() < 1e-3,
            "{found:?}"
        );
        assert_eq!(mean_interval(&[1.0], 0.95), None);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[1.0], 0.9), Some(1.0));
        assert_eq!(quantile(&[], 0.9), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn a_bootstrap_is_the_same_for_the_same_seed_and_covers_the_median_as_often_as_it_says() {
        let numbers: Vec<f64> = (0..31).map(f64::from).collect();
        let once = median_interval(&numbers, 0.95, 7).expect("numbers");
        assert_eq!(median_interval(&numbers, 0.95, 7), Some(once));
        assert!(once.low < 15.0 && once.high > 15.0);
        let mut random = Random::new(3);
        let covered = (0..200)
            .filter(|seed| {
                let sample: Vec<f64> = (0..25).map(|_| random.normal()).collect();
                median_interval(&sample, 0.95, *seed)
                    .is_some_and(|found| found.low <= 0.0 && 0.0 <= found.high)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }
}
