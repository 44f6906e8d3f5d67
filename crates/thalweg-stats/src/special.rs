//! The normal and Student's distribution.

use special::{Beta as _, Error as _};

/// Part of a normal distribution (mean 0, deviation 1) below `x`; error below 1e-12 of it.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * (-x * std::f64::consts::FRAC_1_SQRT_2).compl_error()
}

/// Part of Student's distribution below `t`.
pub fn t_cdf(t: f64, degrees: f64) -> f64 {
    let ln_beta = (degrees / 2.0).ln_beta(0.5);
    let part = degrees / (degrees + t * t);
    let tail = 0.5 * part.inc_beta(degrees / 2.0, 0.5, ln_beta);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The `t` below which the part `p` of Student's distribution lies; `p` is at least a half.
pub fn t_quantile(p: f64, degrees: f64) -> f64 {
    let ln_beta = (degrees / 2.0).ln_beta(0.5);
    let part = (2.0 * (1.0 - p)).inv_inc_beta(degrees / 2.0, 0.5, ln_beta);
    (degrees * (1.0 - part) / part).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_the_tabled_one() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.96, 0.024_997_895_148_220),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((normal_cdf(x) - p).abs() < 1e-12, "{x}: {}", normal_cdf(x));
        }
        assert!((normal_cdf(-8.0) / 6.220_960_574_271_785e-16 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn students_distribution_is_the_tabled_one() {
        let table = [
            (1.0, 12.7062),
            (2.0, 4.3027),
            (4.0, 2.7764),
            (7.0, 2.3646),
            (29.0, 2.0452),
            (120.0, 1.9799),
        ];
        for (degrees, t) in table {
            assert!(
                (t_quantile(0.975, degrees) - t).abs() < 5e-5,
                "{degrees}: {}",
                t_quantile(0.975, degrees)
            );
            assert!((t_cdf(-t, degrees) - 0.025).abs() < 1e-5);
        }
        assert!((t_cdf(1.0, 1.0) - 0.75).abs() < 1e-12);
    }
}
