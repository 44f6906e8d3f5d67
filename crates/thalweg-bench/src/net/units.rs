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
        _ => in_units(text, &units),
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
    let bits = in_units(text, &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)]);
    match bits {
        Some(bits) if (1e3..=1e11).contains(&bits) => Ok(bits.round() as u64),
        _ => Err(format!("{text}: a rate is a number and kbit, mbit or gbit")),
    }
}

/// Reads a size in bytes: `60B`, `2000`, `4kB` (1,000 bytes), `4KiB` (1,024). At most 16 MiB.
pub fn size(text: &str) -> Result<usize, String> {
    let units = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("B", 1.0),
        ("", 1.0),
    ];
    match in_units(text, &units) {
        Some(bytes) if (0.0..=16_777_216.0).contains(&bytes) => Ok(bytes.round() as usize),
        _ => Err(format!(
            "{text}: a size is a number and B, kB (1000 B), KiB (1024 B), MB or MiB, at most 16MiB"
        )),
    }
}

/// Reads messages a second: `5/s`, `0.5/s`, `6/min`.
pub fn frequency(text: &str) -> Result<f64, String> {
    let units = [("/s", 1.0), ("/min", 1.0 / 60.0), ("/h", 1.0 / 3600.0)];
    match in_units(text, &units) {
        Some(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        _ => Err(format!(
            "{text}: a rate of messages is a number and /s, /min or /h"
        )),
    }
}

/// A number with one of these units behind it, times what the unit stands for.
fn in_units(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.trim();
        Some(number.parse::<f64>().ok()? * factor)
    })
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
        assert_eq!(size("4KiB"), Ok(4096));
        assert_eq!((frequency("0.5/s"), frequency("6/min")), (Ok(0.5), Ok(0.1)));
    }

    #[test]
    fn what_is_no_quantity_is_told() {
        for wrong in ["20", "101%", "-1%", "%", "NaN%"] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
        for wrong in ["50", "ms", "-1s", "25h", "infs"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(rate("10").is_err() && size("60b").is_err() && size("17MiB").is_err());
        for wrong in ["5", "0/s", "-1/s", "x/s", "1/d", "inf/s"] {
            assert!(frequency(wrong).is_err(), "{wrong}");
        }
    }
}
