//! Dates of the Gregorian calendar, and moments as RFC 3339 writes them, in UTC.
//!
//! Years are counted from March, so that the leap day is the last of its year; the calendar repeats every 400 years, which
//! have 146,097 days.

/// Days from 0000-03-01 to 1970-01-01.
const BEFORE_1970: u64 = 719_468;

/// Returns year, month and day so many days after 1970-01-01.
pub fn date_of(days: u64) -> (u64, u64, u64) {
    let shifted = days + BEFORE_1970;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = match from_march {
        0..10 => from_march + 3,
        _ => from_march - 9,
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Returns the seconds from 1970 to a moment. The year has to be from 1970 to 9999; a 31st of every month and a leap second
/// are taken.
pub fn unix_secs([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<u64> {
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let from_march = (month + 9) % 12;
    let in_year = (153 * from_march + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + in_year - BEFORE_1970;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Writes a moment so many seconds after 1970 as `2026-11-20T13:37:00Z`, or with milliseconds as `2026-11-20T13:37:00.123Z`.
pub fn rfc3339(secs: u64, millis: Option<u64>) -> String {
    let (year, month, day) = date_of(secs / 86_400);
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let millis = millis.map_or_else(String::new, |millis| format!(".{millis:03}"));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{millis}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, wanted) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date_of(days), wanted, "{days}");
        }
    }

    #[test]
    fn dates_are_days_again() {
        for days in (0..2_932_897).step_by(13) {
            let (year, month, day) = date_of(days);
            assert_eq!(unix_secs([year, month, day], [0; 3]), Some(days * 86_400));
        }
        assert_eq!(
            unix_secs([9999, 12, 31], [23, 59, 60]),
            Some(253_402_300_800)
        );
        for (date, time) in [
            ([1969, 12, 31], [0; 3]),
            ([10_000, 1, 1], [0; 3]),
            ([2026, 13, 1], [0; 3]),
            ([2026, 1, 0], [0; 3]),
            ([2026, 1, 1], [24, 0, 0]),
            ([2026, 1, 1], [0, 60, 0]),
            ([2026, 1, 1], [0, 0, 61]),
        ] {
            assert_eq!(unix_secs(date, time), None, "{date:?} {time:?}");
        }
    }
}
