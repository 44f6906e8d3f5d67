//! The parameters of the message layer. RFC 7252 §4.8

use thalweg_wire::Span;

/// Transmission parameters, with the defaults of RFC 7252 §4.8. Both ends of a network ought to have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// ACK_TIMEOUT: how long a confirmable message waits at least before it is sent again for the first time.
    pub ack_timeout: Span,
    /// ACK_RANDOM_FACTOR in percent: that first wait is up to this much longer. At least 100.
    pub ack_random_percent: u16,
    /// MAX_RETRANSMIT: how often a confirmable message is sent again.
    pub max_retransmit: u8,
    /// NSTART: how many confirmable messages to one peer are in flight at a time.
    pub nstart: u8,
    /// PROBING_RATE in bytes a second: the most that is sent, on average, to a peer that does not answer at all.
    pub probing_rate: u32,
    /// MAX_LATENCY: how long a datagram is thought to be under way at most.
    pub max_latency: Span,
    /// If given, the first wait follows the measured round trip once there is one, as TCP's does (RFC 6298), and is at
    /// least this long; `ack_timeout` is for peers without a measurement. A message is then repeated as often as fits
    /// into MAX_TRANSMIT_SPAN. RFC 7252 §4.8.1 allows it to implementations with congestion control: each wait is twice
    /// the one before, unless the peer was heard from meanwhile, and repeated messages do not lower the estimate.
    pub adaptive_least: Option<Span>,
}

impl Default for Transmission {
    fn default() -> Self {
        Transmission {
            ack_timeout: Span::from_secs(2),
            ack_random_percent: 150,
            max_retransmit: 4,
            nstart: 1,
            probing_rate: 1,
            max_latency: Span::from_secs(100),
            adaptive_least: None,
        }
    }
}

impl Transmission {
    /// MAX_TRANSMIT_SPAN: from the first transmission to the last. RFC 7252 §4.8.2
    pub fn max_transmit_span(&self) -> Span {
        self.doubled((1 << self.max_retransmit.min(20)) - 1)
    }

    /// MAX_TRANSMIT_WAIT: from the first transmission until the sender gives up.
    pub fn max_transmit_wait(&self) -> Span {
        self.doubled((1 << (self.max_retransmit.min(20) + 1)) - 1)
    }

    /// EXCHANGE_LIFETIME: from the first transmission of a confirmable message until its id may be used again.
    pub fn exchange_lifetime(&self) -> Span {
        let parts = [
            self.max_transmit_span(),
            self.max_latency,
            self.max_latency,
            self.ack_timeout,
        ];
        Span::from_nanos(
            parts
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.nanos())),
        )
    }

    /// NON_LIFETIME: the same for a non-confirmable one.
    pub fn non_lifetime(&self) -> Span {
        Span::from_nanos(
            self.max_transmit_span()
                .nanos()
                .saturating_add(self.max_latency.nanos()),
        )
    }

    /// The shortest first wait towards a peer with this estimate of its round trip (0: none) and deviation, both in
    /// microseconds, of whom so many answers in a row could not be measured.
    pub(crate) fn first_wait(&self, round_trip: u32, deviation: u32, unmeasured: u8) -> Span {
        let Some(least) = self.adaptive_least.filter(|_| round_trip != 0) else {
            return self.ack_timeout;
        };
        let estimate = (u64::from(round_trip) + 4 * u64::from(deviation)) * 1000;
        // Only what is answered before it is repeated can be measured. If nothing is any more, the round trip has grown.
        let doubt = u32::from(unmeasured.saturating_sub(UNMEASURED_FEW).min(5));
        Span::from_nanos(
            estimate
                .max(least.nanos())
                .saturating_mul(1 << doubt)
                .min(LONGEST_FIRST_WAIT.nanos()),
        )
    }

    /// Whether a message that was sent so often, and for the first time so long ago, is sent once more.
    pub(crate) fn may_repeat(&self, transmissions: u8, age: Span) -> bool {
        let is_early = self.adaptive_least.is_some()
            && age < self.max_transmit_span()
            && transmissions < u8::MAX;
        transmissions <= self.max_retransmit || is_early
    }

    /// `times` the longest first wait.
    fn doubled(&self, times: u64) -> Span {
        let longest = self
            .ack_timeout
            .nanos()
            .saturating_mul(u64::from(self.ack_random_percent.max(100)))
            / 100;
        Span::from_nanos(longest.saturating_mul(times))
    }
}

/// As many answers in a row may go unmeasured by bad luck: at a loss of 25 % each way, one in thirty runs is longer.
const UNMEASURED_FEW: u8 = 4;

/// RFC 6298 §2.5 allows a bound of a minute.
const LONGEST_FIRST_WAIT: Span = Span::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adaptive_first_wait_follows_the_round_trip_within_its_bounds() {
        let t = Transmission {
            adaptive_least: Some(Span::from_millis(100)),
            ..Transmission::default()
        };
        assert_eq!(
            t.first_wait(0, 0, 0),
            Span::from_secs(2),
            "nothing is known"
        );
        assert_eq!(t.first_wait(1000, 500, 0), Span::from_millis(100));
        assert_eq!(t.first_wait(200_000, 50_000, 0), Span::from_millis(400));
        assert_eq!(
            t.first_wait(200_000, 50_000, UNMEASURED_FEW),
            Span::from_millis(400)
        );
        assert_eq!(
            t.first_wait(200_000, 50_000, UNMEASURED_FEW + 2),
            Span::from_millis(1600)
        );
        assert_eq!(t.first_wait(u32::MAX, u32::MAX, 255), LONGEST_FIRST_WAIT);
        assert_eq!(
            Transmission::default().first_wait(1000, 500, 9),
            Span::from_secs(2)
        );
        assert!(t.may_repeat(8, Span::from_secs(44)) && !t.may_repeat(8, Span::from_secs(45)));
        assert!(!Transmission::default().may_repeat(5, Span::from_secs(1)));
    }

    #[test]
    fn derived_times_are_those_of_the_table() {
        // RFC 7252 §4.8.2, table 3
        let t = Transmission::default();
        assert_eq!(t.max_transmit_span(), Span::from_secs(45));
        assert_eq!(t.max_transmit_wait(), Span::from_secs(93));
        assert_eq!(t.exchange_lifetime(), Span::from_secs(247));
        assert_eq!(t.non_lifetime(), Span::from_secs(145));
    }

    #[test]
    fn absurd_parameters_saturate() {
        let t = Transmission {
            ack_timeout: Span::FOREVER,
            max_retransmit: 255,
            ack_random_percent: 0,
            ..Default::default()
        };
        assert!(t.exchange_lifetime().nanos() > 0 && t.non_lifetime().nanos() > 0);
    }
}
