//! Durations and rates as people write them: `500ms`, `10s`, `5m`, `1h`, `7d`, `100/s`.

use std::time::Duration;

/// Parses a duration; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("write a duration as 500ms, 10s, 5m, 1h or 7d".into()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "write a duration as 500ms, 10s, 5m, 1h or 7d".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| "the duration is too long".into())
}

/// Parses a whole number of seconds that fits MQTT's four bytes; what is shorter than a second is rounded up.
pub fn seconds(text: &str) -> Result<u32, String> {
    if text == "never" {
        return Ok(u32::MAX);
    }
    let whole = duration(text)?.as_secs_f64().ceil();
    if whole >= f64::from(u32::MAX) {
        return Err("longer than MQTT can say; write `never` if that is what you mean".into());
    }
    Ok(whole as u32)
}

/// Parses a rate per second: `100`, `100/s`, `0.5/s`, `30/m`.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a rate as 100/s or 30/m".into()),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number / seconds),
        _ => Err("write a rate above 0, as 100/s or 30/m".into()),
    }
}

/// A duration in the shortest unit that reads well.
pub fn spoken(duration: Duration) -> String {
    match duration.as_secs_f64() {
        s if s < 1.0 => format!("{:.0}ms", s * 1000.0),
        s if s < 120.0 => format!("{}s", trimmed(s)),
        s if s < 7200.0 => format!("{}m", trimmed(s / 60.0)),
        s if s < 172_800.0 => format!("{}h", trimmed(s / 3600.0)),
        s => format!("{}d", trimmed(s / 86_400.0)),
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let table = [
            ("500ms", 500),
            ("10s", 10_000),
            ("10", 10_000),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ];
        for (text, milliseconds) in table {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "s", "10 parsecs", "-1s", "1e400s", "ten"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_fit_four_bytes_and_never_is_the_last_of_them() {
        assert_eq!(seconds("1ms"), Ok(1));
        assert_eq!(seconds("7d"), Ok(604_800));
        assert_eq!(seconds("never"), Ok(u32::MAX));
        assert!(seconds("100000d").is_err());
    }

    #[test]
    fn rates_are_per_second_unless_they_say_otherwise() {
        assert_eq!(rate("100/s"), Ok(100.0));
        assert_eq!(rate("100"), Ok(100.0));
        assert_eq!(rate("30/m"), Ok(0.5));
        for text in ["0/s", "-1/s", "NaN", "1/fortnight", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_spoken_in_a_unit_that_reads_well() {
        let table = [
            (20, "20ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (300_000, "5m"),
            (86_400_000, "24h"),
            (604_800_000, "7d"),
        ];
        for (milliseconds, text) in table {
            assert_eq!(spoken(Duration::from_millis(milliseconds)), text);
        }
    }
}
