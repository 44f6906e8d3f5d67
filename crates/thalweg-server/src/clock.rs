//! The one clock of the process.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_model::{Span, Time};

/// When the process first looked at the clock, and what the wall clock said then.
static START: OnceLock<(Instant, Duration)> = OnceLock::new();

fn start() -> (Instant, Duration) {
    *START.get_or_init(|| {
        (
            Instant::now(),
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or(Duration::ZERO),
        )
    })
}

/// Now: nanoseconds since 1970, by the wall clock at the start of the process and the monotonic clock from there on. So
/// it never jumps while we run, and what is written down means the same in the next run.
pub fn now() -> Time {
    time_of(Instant::now())
}

/// Nanoseconds of the same clock, for probes.
pub fn nanos() -> u64 {
    now().nanos()
}

/// A moment of [`Instant`] as a [`Time`].
pub fn time_of(instant: Instant) -> Time {
    let (started, unix) = start();
    Time::from_nanos((unix + instant.saturating_duration_since(started)).as_nanos() as u64)
}

/// The wall clock's seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
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
