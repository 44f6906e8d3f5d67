//! The normal and Student's distribution.

/// Part of a normal distribution (mean 0, deviation 1) below `x`; error below 1e-12 of it.
pub fn normal_cdf(x: f64) -> f64 {
    // 1/2 erfc(-x/√2), and erfc is the incomplete gamma function Q(1/2, x²/2).
    let tail = 0.5 * gamma_q_half(x * x / 2.0);
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// Part of Student's distribution below `t`.
pub fn t_cdf(t: f64, degrees: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The `t` below which the part `p` of Student's distribution lies.
pub fn t_quantile(p: f64, degrees: f64) -> f64 {
    inverse(p, |t| t_cdf(t, degrees))
}

/// By bisection: slow and safe; it is called rarely.
fn inverse(p: f64, cdf: impl Fn(f64) -> f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (-1.0, 1.0);
    while cdf(low) > p && low > -1e300 {
        low *= 2.0;
    }
    while cdf(high) < p && high < 1e300 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if cdf(middle) < p {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

/// Q(1/2, x) = erfc(√x): a series near 0, a continued fraction (Lentz) else.
fn gamma_q_half(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (-x + 0.5 * x.ln() - ln_gamma(0.5)).exp();
    if x < 1.5 {
        let (mut term, mut sum, mut n) = (2.0, 2.0, 0.5);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return 1.0 - sum * scale;
    }
    let mut b = x + 0.5;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut h = d;
    for i in 1..300 {
        let a = -f64::from(i) * (f64::from(i) - 0.5);
        b += 2.0;
        d = 1.0 / away_from_zero(a * d + b);
        c = away_from_zero(b + a / c);
        let step = c * d;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    scale * h
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // It converges quickly only on this side of the middle.
    if x > (a + 1.0) / (a + b + 2.0) {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    } else {
        front * beta_fraction(a, b, x) / a
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut h = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let step = c * d;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h
}

/// ln Γ(x) for x > 0: Stirling's series, moved up to where it is exact to 1e-14.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut down) = (x, 0.0);
    while x < 15.0 {
        down += x.ln();
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - down
}

fn away_from_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

const TINY: f64 = 1e-300;

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
