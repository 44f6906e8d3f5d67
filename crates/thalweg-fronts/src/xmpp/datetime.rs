//! Moments as XEP-0082 writes them: `2026-11-20T13:37:00Z`.
//!
//! *Must never know:* a clock.

use thalweg_model::calendar;

/// A moment in seconds since 1970, in UTC.
pub(super) fn write(secs: u64) -> String {
    calendar::rfc3339(secs, None)
}

/// Seconds since 1970 of a moment. Fractions are dropped, seconds and the offset may be missing, as they are in the examples of
/// XEP-0060.
pub(super) fn read(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(number);
    let date = [date.next()??, date.next()??, date.next()??];
    let behind = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (time, offset) = time.split_at_checked(behind)?;
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (number(time.next()?)?, number(time.next()?)?);
    let second = time.next().map_or(Some(0), |second| {
        number(second.split('.').next().unwrap_or_default())
    })?;
    let local = calendar::unix_secs(date, [hour, minute, second])?;
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
