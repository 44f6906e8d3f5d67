//! The one clock of the process.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_model::{Span, Time};

static START: OnceLock<Instant> = OnceLock::new();

fn start() -> Instant {
    // Not at zero: "an hour before the start" must be a time, too.
    *START.get_or_init(Instant::now)
}

/// Now.
pub fn now() -> Time {
    Time::from_nanos(start().elapsed().as_nanos() as u64 + 1)
}

/// Nanoseconds of the same clock, for probes.
pub fn nanos() -> u64 {
    now().nanos()
}

/// A moment of [`Instant`] as a [`Time`].
pub fn time_of(instant: Instant) -> Time {
    Time::from_nanos(instant.saturating_duration_since(start()).as_nanos() as u64 + 1)
}

/// The wall clock's seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// When the wall clock will show `unix` seconds, on our clock.
pub fn time_of_unix(unix: u64, now: Time) -> Time {
    now + Span::from_secs(unix.saturating_sub(unix_seconds()))
}

/// From a moment on our clock to seconds since 1970.
pub fn unix_of(time: Time) -> u64 {
    let now = now();
    if time <= now {
        unix_seconds() - now.since(time).secs().min(unix_seconds())
    } else {
        unix_seconds() + time.since(now).secs()
    }
}
