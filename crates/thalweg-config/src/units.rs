//! Numbers as people write them: what they count, and the names of its multiples.

use super::kind::{Fault, ensure};

/// What a number counts.
pub struct Unit {
    /// Its texts in `kinds.toml`.
    pub(super) name: &'static str,
    /// The names of one and of its multiples, the smallest first; of two that are equal the second is shown.
    scale: Scale,
    /// How 0 is shown.
    zero: &'static str,
    /// What stands behind the number and may be left out.
    end: &'static str,
}

pub static COUNT: Unit = unit("count", &[("", 1)], "0", "");
/// Counts bytes, in multiples of 1024.
pub static SIZE: Unit = unit("size", BYTES, "0", "");
/// Counts nanoseconds; only 0 may do without a unit.
pub static DURATION: Unit = unit("duration", TIMES, "0s", "");
/// Nanoseconds, where less than a second makes sense.
pub static SHORT_DURATION: Unit = unit("short-duration", TIMES, "0s", "");
pub static RATE: Unit = unit("rate", &[("", 1)], "0", "/s");
pub static SIZE_RATE: Unit = unit("size-rate", BYTES, "0", "/s");

type Scale = &'static [(&'static str, u64)];

const fn unit(name: &'static str, scale: Scale, zero: &'static str, end: &'static str) -> Unit {
    Unit {
        name,
        scale,
        zero,
        end,
    }
}

/// A number in a range, and a multiple of `step`.
#[derive(Clone, Copy)]
pub struct Number {
    pub unit: &'static Unit,
    pub step: u64,
    pub min: u64,
    pub max: u64,
}

impl Number {
    pub(super) fn read(&self, text: &str) -> Result<u64, Fault> {
        let number = self.unit.read(text).ok_or_else(Fault::default)?;
        let step = self.unit.show(self.step);
        ensure!((self.min..=self.max).contains(&number); "is {text}, which is out of range");
        ensure!(number.is_multiple_of(self.step); "is {text}, which is not a multiple of {step}");
        Ok(number)
    }

    /// What it may be, in words; bounds that are none are left out.
    pub(super) fn range(&self) -> String {
        let show = |number| self.unit.show(number);
        let range = match self.max {
            u64::MAX => String::new(),
            max => format!(" from {} to {}", show(self.min), show(max)),
        };
        match self.step {
            1 => range,
            step => format!("{range} in steps of {}", show(step)),
        }
    }
}

impl Unit {
    fn read(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let text = text.strip_suffix(self.end).unwrap_or(text);
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '_';
        let name = text.trim_start_matches(is_digit);
        let digits = text[..text.len() - name.len()].replace('_', "");
        let number: u64 = digits.parse().ok()?;
        if number == 0 && name.is_empty() {
            return Some(0);
        }
        let mut names = self.scale.iter();
        let (_, factor) = names.find(|(known, _)| *known == name.trim())?;
        number.checked_mul(*factor)
    }

    /// `number` in the largest multiple that keeps it whole.
    pub(super) fn show(&self, number: u64) -> String {
        let divides = |(_, factor): &&(_, u64)| number.is_multiple_of(*factor);
        match self.scale.iter().rfind(divides) {
            Some((name, factor)) if number > 0 => format!("{}{name}{}", number / factor, self.end),
            _ => format!("{}{}", self.zero, self.end),
        }
    }

    /// Whether a number counts what happens in a second.
    pub(super) fn is_rate(&self) -> bool {
        !self.end.is_empty()
    }
}

const BYTES: &[(&str, u64)] = &[
    ("B", 1),
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_as_they_are_shown() {
        for (unit, number, shown) in [
            (&SIZE, 0, "0"),
            (&SIZE, 1000, "1000"),
            (&SIZE, 65536, "64KiB"),
            (&SIZE, (1 << 30) + 1, "1073741825"),
            (&SIZE, 3 << 30, "3GiB"),
            (&DURATION, 0, "0s"),
            (&DURATION, 1, "1ns"),
            (&DURATION, 20_000_000, "20ms"),
            (&DURATION, 90_000_000_000, "90s"),
            (&DURATION, 7 * 86_400_000_000_000, "7d"),
            (&RATE, 5, "5/s"),
            (&SIZE_RATE, 1 << 20, "1MiB/s"),
        ] {
            assert_eq!(unit.show(number), shown);
            assert_eq!(unit.read(shown), Some(number), "{shown}");
        }
        // What cannot be held is refused, not wrapped.
        for (unit, wrong) in [
            (&SIZE, "18446744073709551615TiB"),
            (&DURATION, "99999999999999999999d"),
            (&COUNT, ""),
            (&COUNT, "-1"),
        ] {
            assert_eq!(unit.read(wrong), None, "{wrong}");
        }
    }
}
