//! Moments as XEP-0082 writes them: `2026-11-20T13:37:00Z`.
//!
//! *Must never know:* a clock.

/// A moment in seconds since 1970, in UTC.
pub(super) fn write(secs: u64) -> String {
    let (days, second) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds since 1970 of a moment. Fractions are dropped, seconds and the offset may be missing, as they are in the examples of
/// XEP-0060.
pub(super) fn read(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let behind = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (time, offset) = time.split_at_checked(behind)?;
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (number(time.next()?)?, number(time.next()?)?);
    let second = time.next().map_or(Some(0), |second| {
        number(second.split('.').next().unwrap_or_default())
    })?;
    let in_month = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_month || !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let local = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let east = match offset {
        "" | "Z" => return Some(local),
        _ => offset,
    };
    let (hours, minutes) = east.get(1..)?.split_once(':')?;
    let offset = number(hours)?.checked_mul(3600)? + number(minutes)?.checked_mul(60)?;
    match east.starts_with('+') {
        true => local.checked_sub(offset),
        false => local.checked_add(offset),
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= 4 && text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Days from 1970-01-01. Years are counted from March, so that the leap day is the last of its year.
fn days_of(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let in_year = (153 * from_march + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + in_year - 719_468
}

/// Year, month and day so many days after 1970-01-01; the calendar repeats every 400 years, which have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_763_646_420, "2025-11-20T13:47:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(write(secs), text);
            assert_eq!(read(text), Some(secs), "{text}");
        }
        for secs in (0..4_102_444_800).step_by(86_400 * 13 + 1234) {
            assert_eq!(read(&write(secs)), Some(secs));
        }
        assert_eq!(read("2006-03-31T23:59Z"), Some(1_143_849_540));
        assert_eq!(read("1970-01-01T02:00:00.123+02:00"), Some(0));
        assert_eq!(read("1969-12-31T22:00:00-02:00"), None);
        assert_eq!(read("1970-01-01T00:00:00-02:00"), Some(7200));
        for text in [
            "",
            "T",
            "2006-13-01T00:00:00Z",
            "2006-01-01",
            "20060101T000000Z",
            "x-1-1T0:0Z",
            "2006-01-01T24:00:00Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
