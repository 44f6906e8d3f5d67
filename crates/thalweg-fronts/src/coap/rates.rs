//! How often strangers publish, each by its address: they share a session, which cannot tell them apart. Pure.

use core::net::SocketAddr;
use hashbrown::HashMap;
use thalweg_model::{Span, Time};

/// How much of its rate each address has used.
#[derive(Default)]
pub(super) struct Rates {
    /// When all that it has published would be through at its rate.
    until: HashMap<SocketAddr, Time, foldhash::fast::RandomState>,
}

/// How far a peer may be ahead of its rate.
const AHEAD: Span = Span::from_secs(1);
/// Addresses that are remembered. When there are more, all are forgotten: they may be made up.
const ADDRESSES_MAX: usize = 262_144;

impl Rates {
    /// Counts one message; until when its sender is over `rate` messages per second, if it is. Then it was not counted.
    pub(super) fn take(&mut self, source: SocketAddr, rate: u64, now: Time) -> Option<Time> {
        let each = Span::from_nanos(1_000_000_000 / rate.clamp(1, 1_000_000_000));
        if self.until.len() >= ADDRESSES_MAX {
            self.until.clear();
        }
        let until = self.until.entry(source).or_insert(now);
        let next = (*until).max(now) + each;
        let ahead = next.since(now);
        if ahead > AHEAD.max(each) {
            return Some(now + Span::from_nanos(ahead.nanos() - AHEAD.max(each).nanos()));
        }
        *until = next;
        None
    }

    /// Forgets whom it has nothing to say of.
    pub(super) fn sweep(&mut self, now: Time) {
        self.until.retain(|_, until| *until > now);
        self.until.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_rate_and_a_second_ahead() {
        let mut rates = Rates::default();
        let (one, two) = (
            SocketAddr::from(([1, 1, 1, 1], 1)),
            SocketAddr::from(([1, 1, 1, 1], 2)),
        );
        let start = Time::from_secs(1_795_000_000);
        let taken = |rates: &mut Rates, who, now| {
            (0..100)
                .filter(|_| rates.take(who, 10, now).is_none())
                .count()
        };
        assert_eq!(
            (taken(&mut rates, one, start), taken(&mut rates, two, start)),
            (10, 10)
        );
        let until = rates.take(one, 10, start).expect("it is over its rate");
        assert_eq!(until.since(start), Span::from_millis(100));
        assert_eq!(taken(&mut rates, one, start + Span::from_millis(500)), 5);
        rates.sweep(start + Span::from_secs(5));
        assert_eq!(
            (
                rates.until.len(),
                taken(&mut rates, one, start + Span::from_secs(5))
            ),
            (0, 10)
        );
        assert!(
            rates.take(two, 1, start + Span::from_secs(9)).is_none(),
            "slower than one a second"
        );
    }
}
