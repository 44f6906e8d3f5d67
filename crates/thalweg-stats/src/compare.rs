//! Two groups of numbers: do they differ, by how much, and may they be called equal?

use super::describe::{mean, sd};
use super::special::t_cdf;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// Mean of the second less mean of the first.
    pub difference: f64,
    pub error: f64,
    pub t: f64,
    /// Degrees of freedom (Welch and Satterthwaite).
    pub degrees: f64,
    /// How likely a difference at least as great is, either way, if there is none.
    pub p: f64,
}

/// Whether two means differ, for groups of different spread. From two numbers in each.
pub fn welch(first: &[f64], second: &[f64]) -> Option<Welch> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let difference = mean(second) - mean(first);
    let (a, b) = (
        sd(first).powi(2) / first.len() as f64,
        sd(second).powi(2) / second.len() as f64,
    );
    let error = (a + b).sqrt();
    let degrees = match a + b > 0.0 {
        true => {
            (a + b).powi(2) / (a * a / (first.len() - 1) as f64 + b * b / (second.len() - 1) as f64)
        }
        false => (first.len() + second.len() - 2) as f64,
    };
    // Without any spread a difference is certain and no difference is, too.
    let t = match (error > 0.0, difference == 0.0) {
        (true, _) => difference / error,
        (false, true) => 0.0,
        (false, false) => f64::INFINITY.copysign(difference),
    };
    Some(Welch {
        difference,
        error,
        t,
        degrees,
        p: 2.0 * t_cdf(-t.abs(), degrees),
    })
}

/// Holm's correction: the p of each comparison as it counts beside the others, in the same order.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let of = |at: usize| p.get(at).copied().unwrap_or(1.0);
    order.sort_by(|a, b| of(*a).total_cmp(&of(*b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut highest = 0.0_f64;
    for (place, at) in order.into_iter().enumerate() {
        highest = highest.max(((p.len() - place) as f64 * of(at)).min(1.0));
        if let Some(slot) = adjusted.get_mut(at) {
            *slot = highest;
        }
    }
    adjusted
}

/// Effect size: difference of means (second less first) in pooled standard deviations, corrected for small groups. Nothing
/// without spread.
pub fn hedges_g(first: &[f64], second: &[f64]) -> Option<f64> {
    let degrees = (first.len() + second.len())
        .checked_sub(2)
        .filter(|degrees| *degrees > 0)? as f64;
    let squares = sd(first).powi(2) * (first.len() as f64 - 1.0)
        + sd(second).powi(2) * (second.len() as f64 - 1.0);
    let pooled = (squares / degrees).sqrt();
    (pooled > 0.0)
        .then(|| (mean(second) - mean(first)) / pooled * (1.0 - 3.0 / (4.0 * degrees - 1.0)))
}

/// Two one-sided tests whether the ratio of geometric means is within `1/(1+margin)` and `1+margin` (0.1 for 10 %). All
/// numbers above zero, two in each. The p: how likely what was seen is if they differ by the margin, small means equal.
pub fn tost_ratio(first: &[f64], second: &[f64], margin: f64) -> Option<f64> {
    let found = welch(&logs(first)?, &logs(second)?)?;
    let bound = margin.ln_1p();
    Some(match found.error > 0.0 {
        true => {
            let above = t_cdf(-(found.difference + bound) / found.error, found.degrees);
            let below = t_cdf((found.difference - bound) / found.error, found.degrees);
            above.max(below)
        }
        false if found.difference.abs() < bound => 0.0,
        false => 1.0,
    })
}

/// Logarithms, if all are above zero.
pub fn logs(numbers: &[f64]) -> Option<Vec<f64>> {
    numbers
        .iter()
        .map(|number| (*number > 0.0).then(|| number.ln()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn welch_is_the_known_one() {
        // Reckoned beside this program, the tail by summing the density.
        let first = [19.8, 20.4, 19.6, 17.8, 18.5, 18.9, 18.3, 18.9, 19.5, 22.0];
        let second = [
            28.2, 26.6, 20.1, 23.3, 25.2, 22.1, 17.7, 27.6, 20.6, 13.7, 23.2, 17.5, 20.6, 18.0,
            23.9, 21.6, 24.3, 20.4, 23.9, 13.3,
        ];
        let found = welch(&first, &second).expect("enough");
        assert!((found.t.abs() - 2.225_5).abs() < 1e-3, "{found:?}");
        assert!((found.degrees - 24.524_6).abs() < 1e-3, "{found:?}");
        assert!((found.p - 0.035_485).abs() < 1e-5, "{found:?}");
        assert!(welch(&first, &[1.0]).is_none());
        let same = welch(&[2.0, 2.0], &[2.0, 2.0]).expect("enough");
        assert!((same.p - 1.0).abs() < 1e-9 && same.degrees == 2.0);
        assert!(welch(&[2.0, 2.0], &[3.0, 3.0]).expect("enough").p < 1e-9);
    }

    #[test]
    fn holm_steps_down_and_never_falls() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (ours, known) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((ours - known).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn effects_are_in_deviations() {
        let g = hedges_g(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]).expect("spread");
        assert!((g - 2.0 * (1.0 - 3.0 / 15.0)).abs() < 1e-12, "{g}");
        assert_eq!(hedges_g(&[1.0, 1.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn equal_is_only_what_is_shown_to_be() {
        for (first, second, is_shown) in [
            (
                &[100.0, 101.0, 99.0, 100.5][..],
                &[101.0, 102.0, 100.0, 101.5][..],
                true,
            ),
            // No difference was found, and that is not the same.
            (&[100.0, 150.0, 60.0], &[100.0, 140.0, 70.0], false),
            (&[100.0, 100.0], &[120.0, 120.0], false),
        ] {
            let p = tost_ratio(first, second, 0.1).expect("enough");
            assert_eq!(p < 0.05, is_shown, "{first:?} {second:?}: {p}");
        }
        assert!(tost_ratio(&[0.0, 1.0], &[1.0, 1.0], 0.1).is_none());
    }

    #[test]
    fn false_alarms_are_as_many_as_were_asked_for() {
        let mut random = Random::new(11);
        let mut alarms = 0;
        for _ in 0..2000 {
            let mut group = |n: usize| (0..n).map(|_| random.normal()).collect::<Vec<f64>>();
            let (first, second) = (group(6), group(6));
            alarms += usize::from(welch(&first, &second).is_some_and(|found| found.p < 0.05));
        }
        assert!((60..=140).contains(&alarms), "{alarms}");
    }
}
