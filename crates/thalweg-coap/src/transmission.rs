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
        let parts = [self.max_transmit_span(), self.max_latency, self.max_latency, self.ack_timeout];
        Span::from_nanos(parts.iter().fold(0, |sum, part| sum.saturating_add(part.nanos())))
    }

    /// NON_LIFETIME: the same for a non-confirmable one.
    pub fn non_lifetime(&self) -> Span {
        Span::from_nanos(self.max_transmit_span().nanos().saturating_add(self.max_latency.nanos()))
    }

    /// `times` the longest first wait.
    fn doubled(&self, times: u64) -> Span {
        let longest = self.ack_timeout.nanos().saturating_mul(u64::from(self.ack_random_percent.max(100))) / 100;
        Span::from_nanos(longest.saturating_mul(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
