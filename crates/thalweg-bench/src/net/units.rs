//! Quantities as people write them: `20%`, `50ms`, `100mbit`, `60B`.

use std::fmt;
use std::time::Duration;

/// How many packets are lost, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss(u32);

impl Loss {
    pub const NONE: Loss = Loss(0);

    /// From millionths, at most all of them.
    pub fn millionths(count: u32) -> Loss {
        Loss(count.min(MILLION))
    }

    pub fn percent(percent: f64) -> Loss {
        Loss::millionths((percent * 1e4).round().clamp(0.0, f64::from(MILLION)) as u32)
    }

    pub fn as_millionths(self) -> u32 {
        self.0
    }

    /// As a part of one.
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(MILLION)
    }

    pub fn as_percent(self) -> f64 {
        f64::from(self.0) / 1e4
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.as_percent())
    }
}

/// Reads `20%` or `0.5%`, at most 100 %.
pub fn loss(text: &str) -> Result<Loss, String> {
    let number = text
        .strip_suffix('%')
        .ok_or_else(|| format!("{text}: loss is a percentage such as 20%"))?;
    match number.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Loss::percent(percent)),
        _ => Err(format!("{text}: loss is between 0% and 100%")),
    }
}

/// Reads a time: `50ms`, `1.5s`, `200us`, `2min`; `0` needs no unit. At most a day.
pub fn span(text: &str) -> Result<Duration, String> {
    let units = [
        ("us", 1e-6),
        ("ms", 1e-3),
        ("min", 60.0),
        ("s", 1.0),
        ("h", 3600.0),
    ];
    let seconds = match text {
        "0" => Some(0.0),
        _ => units.iter().find_map(|(unit, factor)| {
            Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * factor)
        }),
    };
    match seconds {
        Some(seconds) if (0.0..=86_400.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!(
            "{text}: a time is a number and us, ms, s, min or h, at most a day"
        )),
    }
}

/// Reads a rate of a link in bits a second: `100mbit`, `64kbit`, `1gbit`. At least 1 kbit.
pub fn rate(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let bits = units.iter().find_map(|(unit, factor)| {
        Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * factor)
    });
    match bits {
        Some(bits) if (1e3..=1e11).contains(&bits) => Ok(bits.round() as u64),
        _ => Err(format!("{text}: a rate is a number and kbit, mbit or gbit")),
    }
}

/// Reads a size in bytes: `60B`, `2000`, `4kB` (1,000 bytes). At most 16 MB.
pub fn size(text: &str) -> Result<usize, String> {
    let number = |text: &str, factor: f64| {
        text.trim()
            .parse::<f64>()
            .ok()
            .map(|number| number * factor)
    };
    let bytes = match (text.strip_suffix("kB"), text.strip_suffix('B')) {
        (Some(kilo), _) => number(kilo, 1e3),
        (None, Some(bytes)) => number(bytes, 1.0),
        (None, None) => number(text, 1.0),
    };
    match bytes {
        Some(bytes) if (0.0..=16e6).contains(&bytes) => Ok(bytes.round() as usize),
        _ => Err(format!(
            "{text}: a size is a number and B or kB, at most 16000kB"
        )),
    }
}

/// Reads messages a second: `5/s`, `0.5/s`.
pub fn frequency(text: &str) -> Result<f64, String> {
    match text
        .strip_suffix("/s")
        .map(|number| number.trim().parse::<f64>())
    {
        Some(Ok(rate)) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        _ => Err(format!("{text}: a rate of messages is a number and /s")),
    }
}

/// Everything that is lost.
const MILLION: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_written() {
        assert_eq!(loss("20%"), Ok(Loss::millionths(200_000)));
        assert_eq!(
            loss("0.5%").map(|loss| loss.to_string()),
            Ok("0.5%".to_owned())
        );
        assert_eq!(span("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(span("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(span("0"), Ok(Duration::ZERO));
        assert_eq!(rate("100mbit"), Ok(100_000_000));
        assert_eq!(size("60B"), Ok(60));
        assert_eq!(size("2kB"), Ok(2000));
        assert_eq!(frequency("0.5/s"), Ok(0.5));
    }

    #[test]
    fn what_is_no_quantity_is_told() {
        for wrong in ["20", "101%", "-1%", "%", "NaN%"] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
        for wrong in ["50", "ms", "-1s", "25h", "infs"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(
            rate("10").is_err()
                && size("60b").is_err()
                && frequency("0/s").is_err()
                && frequency("5").is_err()
        );
    }
}
