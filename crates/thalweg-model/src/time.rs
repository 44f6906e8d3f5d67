//! Time as a value: the sans-I/O layers get it as a parameter.

use std::ops::{Add, AddAssign, Sub};

/// A moment on the broker's monotonic clock, in nanoseconds since an arbitrary start.
///
/// Drivers read a clock once per turn and hand the value down; simulations make it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds. Arithmetic saturates: a session that "never expires" is simply very long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(0);
    /// A moment that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the start of the clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// The moment `seconds` seconds after the start of the clock.
    pub const fn from_secs(seconds: u64) -> Self {
        Time(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the start of the clock.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`; zero if `earlier` lies ahead.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// A span that never ends.
    pub const FOREVER: Span = Span(u64::MAX);

    /// A length of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Span(nanos)
    }

    /// A length of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A length of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Span(seconds.saturating_mul(1_000_000_000))
    }

    /// The length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The length in whole milliseconds, rounded down.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The length in whole seconds, rounded down.
    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The length in whole seconds, rounded up: what is left of an expiry must not become zero early.
    pub const fn secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000_000)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::from_secs(5) + Span::FOREVER, Time::NEVER);
        assert_eq!(Time::from_secs(5).since(Time::from_secs(9)), Span::ZERO);
        assert_eq!(Span::from_nanos(1).secs_ceil(), 1);
        assert_eq!(Time::from_secs(5) - Span::from_secs(9), Time::ZERO);
    }
}
