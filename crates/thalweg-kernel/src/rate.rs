//! A rate limit: a token bucket in whole numbers.

use thalweg_model::{Span, Time};

/// One token in the bucket's own unit. A rate of `r` per second earns `r` of these units each nanosecond, so refilling
/// needs no division and never loses a fraction.
const TOKEN: i64 = 1_000_000_000;

/// The largest burst that can be counted (about 4.6 thousand million tokens); larger ones are cut to it.
pub const BURST_MAX: u64 = (i64::MAX / TOKEN / 2) as u64;

/// A bucket that earns `rate_per_second` tokens each second up to `burst`, and starts full.
///
/// A token is whatever the caller counts: a message, a byte, a connection. The long-run rate is exact; over any stretch
/// of `t` seconds at most `burst + rate * t` tokens leave, plus what one [`take`](TokenBucket::take) larger than the
/// burst runs into debt.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate_per_second: u64,
    /// `burst` in units of 1/[`TOKEN`].
    full: i64,
    /// What is there, in units of 1/[`TOKEN`]; negative while a take larger than the burst is being paid off.
    credit: i64,
    filled_at: Time,
}

impl TokenBucket {
    /// A full bucket. `rate_per_second` 0 means that nothing is earned after the burst. A burst of 0 counts as 1, else
    /// nothing could ever be taken; one above [`BURST_MAX`] counts as that.
    pub fn new(rate_per_second: u64, burst: u64, now: Time) -> Self {
        let full = burst.clamp(1, BURST_MAX) as i64 * TOKEN;
        TokenBucket {
            rate_per_second,
            full,
            credit: full,
            filled_at: now,
        }
    }

    /// Takes `n` tokens, or takes none and says how long to wait until the same call can succeed
    /// ([`Span::FOREVER`] if the rate is 0).
    ///
    /// A single packet may be larger than the burst; refusing it for ever would wedge its connection. Such a take
    /// waits for a full bucket and then leaves a debt that later takes wait for.
    pub fn take(&mut self, n: u64, now: Time) -> Result<(), Span> {
        match self.wait(n, now) {
            Span::ZERO => {
                self.credit = self.credit.saturating_sub(price(n));
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// How long until [`take`](TokenBucket::take) succeeds; it takes nothing.
    pub fn wait(&mut self, n: u64, now: Time) -> Span {
        self.refill(now);
        let needed = price(n).min(self.full);
        if self.credit >= needed {
            return Span::ZERO;
        }
        let missing = needed.saturating_sub(self.credit) as u64;
        match self.rate_per_second {
            0 => Span::FOREVER,
            rate => Span::from_nanos(missing.div_ceil(rate)),
        }
    }

    /// Takes `n` tokens whether they are there or not, and says how long to wait until there is no debt
    /// ([`Span::FOREVER`] if the rate is 0 and there is one).
    pub fn spend(&mut self, n: u64, now: Time) -> Span {
        self.refill(now);
        self.credit = self.credit.saturating_sub(price(n));
        match (self.credit.min(0).unsigned_abs(), self.rate_per_second) {
            (0, _) => Span::ZERO,
            (_, 0) => Span::FOREVER,
            (debt, rate) => Span::from_nanos(debt.div_ceil(rate)),
        }
    }

    /// Whole tokens that are there now; 0 while in debt.
    pub fn available(&mut self, now: Time) -> u64 {
        self.refill(now);
        (self.credit.max(0) / TOKEN) as u64
    }

    /// Whether it is as good as a new one.
    pub fn is_full(&mut self, now: Time) -> bool {
        self.refill(now);
        self.credit == self.full
    }

    /// Changes rate and burst and keeps what is in the bucket, cut to the new burst.
    pub fn configure(&mut self, rate_per_second: u64, burst: u64, now: Time) {
        self.refill(now);
        self.rate_per_second = rate_per_second;
        self.full = burst.clamp(1, BURST_MAX) as i64 * TOKEN;
        self.credit = self.credit.min(self.full);
    }

    /// A `now` before the last one earns nothing and does not move the clock back.
    fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.filled_at);
        if elapsed == Span::ZERO {
            return;
        }
        self.filled_at = now;
        let earned =
            i64::try_from(elapsed.nanos().saturating_mul(self.rate_per_second)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(earned).min(self.full);
    }
}

fn price(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_says_when() {
        let mut bucket = TokenBucket::new(10, 3, at(0));
        for _ in 0..3 {
            assert_eq!(bucket.take(1, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(1, at(0)), Err(Span::from_millis(100)));
        assert_eq!(bucket.take(1, at(40)), Err(Span::from_millis(60)));
        assert_eq!(bucket.take(1, at(100)), Ok(()));
        assert_eq!(bucket.take(1, at(100)), Err(Span::from_millis(100)));
    }

    #[test]
    fn waiting_as_long_as_told_is_always_enough() {
        for rate in [1, 3, 7, 999, 1_000_000_007] {
            let mut bucket = TokenBucket::new(rate, 10, at(0));
            let mut now = at(0);
            for n in 1..200 {
                if let Err(wait) = bucket.take(n % 13, now) {
                    now += wait;
                    assert_eq!(bucket.take(n % 13, now), Ok(()), "rate {rate}, take {n}");
                }
            }
        }
    }

    #[test]
    fn an_odd_rate_is_exact_in_the_long_run() {
        // A burst of 2 leaves room for the fraction that is earned while a token waits for the next poll.
        let mut bucket = TokenBucket::new(3, 2, Time::ZERO);
        let taken: u64 = (0..=100_000)
            .map(|millis| bucket.take(1, at(millis)).is_ok() as u64)
            .sum();
        assert_eq!(taken, 2 + 300);
    }

    #[test]
    fn a_take_larger_than_the_burst_waits_for_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = TokenBucket::new(1000, 100, at(0));
        assert_eq!(bucket.take(1, at(0)), Ok(()));
        assert_eq!(bucket.take(500, at(0)), Err(Span::from_millis(1)));
        assert_eq!(bucket.take(500, at(1)), Ok(()));
        assert_eq!(bucket.available(at(1)), 0);
        assert_eq!(bucket.take(1, at(1)), Err(Span::from_millis(401)));
        assert_eq!(bucket.take(1, at(402)), Ok(()));
    }

    #[test]
    fn what_is_spent_before_it_is_earned_is_waited_for() {
        let mut bucket = TokenBucket::new(10, 1, at(0));
        assert_eq!(bucket.spend(1, at(0)), Span::ZERO);
        assert_eq!(bucket.spend(1, at(0)), Span::from_millis(100));
        assert_eq!(bucket.spend(2, at(100)), Span::from_millis(200));
        assert_eq!(bucket.spend(0, at(300)), Span::ZERO);
    }

    #[test]
    fn extremes_neither_overflow_nor_panic() {
        let mut bucket = TokenBucket::new(u64::MAX, u64::MAX, Time::ZERO);
        assert_eq!(bucket.take(u64::MAX, Time::ZERO), Ok(()));
        let _ = bucket.take(u64::MAX, Time::NEVER);
        let _ = bucket.take(u64::MAX, Time::NEVER);
        assert_eq!(
            TokenBucket::new(0, 0, Time::ZERO).take(1, Time::ZERO),
            Ok(())
        );
        let mut dry = TokenBucket::new(0, 1, Time::ZERO);
        assert_eq!(dry.take(1, Time::NEVER), Ok(()));
        assert_eq!(dry.take(1, Time::NEVER), Err(Span::FOREVER));
    }

    #[test]
    fn a_clock_that_steps_back_earns_nothing() {
        let mut bucket = TokenBucket::new(1, 1, at(5000));
        assert_eq!(bucket.take(1, at(5000)), Ok(()));
        assert!(bucket.take(1, at(0)).is_err());
        assert_eq!(bucket.take(1, at(5500)), Err(Span::from_millis(500)));
    }
}
