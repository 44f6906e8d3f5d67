//! The receivers' books.

use hdrhistogram::Histogram;

use super::sent::{histogram, with_digits};
use super::sequence::{Came, Sequence};
use super::{Header, Times};

#[derive(Clone, Debug)]
pub struct Got {
    times: Times,
    flows: u32,
    /// Of each copy of each flow.
    sequences: Vec<Sequence>,
    /// Copies of messages of the measured phase that came for the first time.
    pub delivered: u64,
    pub duplicates: u64,
    /// That came for the first time, but behind a later one.
    pub reordered: u64,
    /// That came for the first time, in the drain.
    pub late: u64,
    /// Payload bytes of `delivered`.
    pub payload_bytes: u64,
    /// Came for the first time in all phases.
    pub all: u64,
    /// What is not of this trial, or not legible.
    pub strangers: u64,
    /// Since it was due, nanoseconds.
    pub response: Histogram<u64>,
    /// Since it was sent.
    pub service: Histogram<u64>,
    /// What came in each second since the warm-up began.
    pub seconds: Vec<GotInSecond>,
    /// Latencies of a flow that has a neighbour for some time.
    pub beside: Option<Beside>,
}

/// Latencies of flow 0 by when its messages were due: before, while and after flow 1 sent. Only flow 0's are latencies of the
/// trial then.
#[derive(Clone, Debug)]
pub struct Beside {
    /// When flow 1 began and ended to send, nanoseconds of the clock.
    pub from: u64,
    pub to: u64,
    /// Response times in nanoseconds.
    pub parts: [Histogram<u64>; 3],
    /// The same of what was due after its end, in slots of [`SLOT`].
    pub slots: Vec<Histogram<u64>>,
    /// Messages of flow 1 that came, of those that were due in the measured phase, and their bytes.
    pub bursts: (u64, u64),
}

impl Beside {
    /// Of a flow 1 that sends in this time.
    pub fn new(from: u64, to: u64) -> Beside {
        Beside {
            from,
            to,
            parts: [histogram(), histogram(), histogram()],
            slots: Vec::new(),
            bursts: (0, 0),
        }
    }

    fn came(&mut self, due: u64, response: u64) {
        let part = usize::from(due >= self.from) + usize::from(due >= self.to);
        if let Some(part) = self.parts.get_mut(part) {
            part.saturating_record(response);
        }
        let slot = (due.saturating_sub(self.to) / SLOT) as usize;
        if due < self.to || slot >= SLOTS_MAX {
            return;
        }
        while self.slots.len() <= slot {
            self.slots.push(with_digits(2));
        }
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.saturating_record(response);
        }
    }

    /// Nanoseconds after flow 1's end until the 90 % latency is not above 1.1 times what it was before; none if it never
    /// was again, or nothing came before.
    pub fn recovered(&self) -> Option<u64> {
        let p90 = |of: &Histogram<u64>| (!of.is_empty()).then(|| of.value_at_quantile(0.9) as f64);
        let before = p90(self.parts.first()?)?;
        let is_as_before = |slot| p90(slot).is_some_and(|p90| p90 <= 1.1 * before);
        let slot = self.slots.iter().position(is_as_before);
        slot.map(|slot| slot as u64 * SLOT)
    }
}

/// Of time after a burst, nanoseconds.
pub const SLOT: u64 = 100_000_000;
const SLOTS_MAX: usize = 3000;

/// What came in a second: how many for the first time, and their response times.
#[derive(Clone, Debug)]
pub struct GotInSecond {
    pub received: u64,
    /// Nanoseconds, 2 significant digits.
    pub response: Histogram<u64>,
}

impl Got {
    /// Nothing yet, of so many flows with so many subscribers each.
    pub fn new(times: Times, flows: u32, copies: u32) -> Got {
        Got {
            times,
            flows,
            sequences: vec![Sequence::default(); flows as usize * copies as usize],
            delivered: 0,
            duplicates: 0,
            reordered: 0,
            late: 0,
            payload_bytes: 0,
            all: 0,
            strangers: 0,
            response: histogram(),
            service: histogram(),
            seconds: Vec::new(),
            beside: None,
        }
    }

    /// Keeps apart what one flow feels of another.
    #[must_use]
    pub fn beside(mut self, beside: Option<Beside>) -> Got {
        self.beside = beside;
        self
    }

    /// A message came to a flow's subscriber with this number; returns whether that was for the first time.
    #[inline]
    pub fn came(&mut self, copy: u32, header: &Header, bytes: usize, at: u64) -> bool {
        let place = copy as usize * self.flows as usize + header.flow as usize;
        let is_ours = header.flow < self.flows;
        let Some(sequence) = self.sequences.get_mut(place).filter(|_| is_ours) else {
            self.strangers += 1;
            return false;
        };
        let came = sequence.came(header.seq);
        let counts = u64::from(self.times.counts(header.intended));
        if came == Came::Again {
            self.duplicates += counts;
            return false;
        }
        self.all += 1;
        let response = at.saturating_sub(header.intended);
        let service = at.saturating_sub(header.sent);
        if counts > 0 {
            self.delivered += 1;
            self.reordered += u64::from(came == Came::Behind);
            self.late += u64::from(at >= self.times.end);
            self.payload_bytes += bytes as u64;
        }
        if let Some(beside) = &mut self.beside {
            match header.flow {
                0 if counts > 0 => beside.came(header.intended, response),
                0 => {}
                _ => {
                    beside.bursts.0 += counts;
                    beside.bursts.1 += counts * bytes as u64;
                    return true;
                }
            }
        }
        if counts > 0 {
            self.response.saturating_record(response);
            self.service.saturating_record(service);
        }
        if let Some(second) = self.times.second(at).filter(|second| *second < SECONDS_MAX) {
            while self.seconds.len() <= second {
                self.seconds.push(GotInSecond {
                    received: 0,
                    response: with_digits(2),
                });
            }
            if let Some(second) = self.seconds.get_mut(second) {
                second.received += 1;
                second.response.saturating_record(response);
            }
        }
        true
    }

    /// Something came that is none of ours.
    pub fn stranger(&mut self) {
        self.strangers += 1;
    }
}

/// A day: a histogram for each second has its price.
const SECONDS_MAX: usize = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SECOND;

    const TIMES: Times = Times {
        begin: 0,
        measure: 2 * SECOND,
        end: 6 * SECOND,
        give_up: 9 * SECOND,
    };

    fn header(flow: u32, seq: u32, intended: u64) -> Header {
        Header {
            run: 1,
            flow,
            seq,
            intended,
            sent: intended + 100,
        }
    }

    #[test]
    fn only_what_was_due_in_the_measured_phase_counts_and_late_is_counted_apart() {
        let mut got = Got::new(TIMES, 2, 1);
        let at = |half_seconds: u64| half_seconds * SECOND / 2;
        for (seq, due) in [(0, 1), (1, 3), (2, 4), (3, 11), (4, 12)] {
            assert!(got.came(0, &header(1, seq, at(due)), 36, at(due) + 1_000_000));
        }
        // Due at 2 s and 5.5 s; the second 1 ms later is not in the drain.
        let counts = (got.delivered, got.late, got.all, got.payload_bytes);
        assert_eq!(counts, (2, 0, 5, 72));
        assert!(got.came(0, &header(1, 5, at(11)), 36, at(13)));
        assert_eq!((got.delivered, got.late), (3, 1));
        assert_eq!(got.response.len(), 3);
        let received = got.seconds.iter().map(|second| second.received);
        assert!(received.eq([1, 1, 1, 0, 0, 1, 2]));
    }

    #[test]
    fn copies_and_flows_are_told_apart() {
        let mut got = Got::new(TIMES, 3, 2);
        let due = 3 * SECOND;
        for copy in [0, 1] {
            for flow in [0, 1, 2] {
                assert!(got.came(copy, &header(flow, 1, due), 36, due));
            }
        }
        assert!(!got.came(1, &header(2, 1, due), 36, due));
        assert!(got.came(1, &header(2, 0, due), 36, due));
        assert!(!got.came(0, &header(3, 0, due), 36, due));
        assert!(!got.came(2, &header(0, 0, due), 36, due));
        let counts = (got.delivered, got.duplicates, got.reordered, got.strangers);
        assert_eq!(counts, (7, 1, 1, 2));
    }

    #[test]
    fn a_neighbour_is_kept_apart_and_what_it_does_is_seen() {
        let (from, to) = (3 * SECOND, 4 * SECOND);
        let mut got = Got::new(TIMES, 2, 1).beside(Some(Beside::new(from, to)));
        let slow_until = to + 3 * SLOT;
        for seq in 0..400_u32 {
            let due = TIMES.measure + u64::from(seq) * 10_000_000;
            // 1 ms, 50 ms while the other sends and for three slots after.
            let slowly = u64::from((from..slow_until).contains(&due)) * 49_000_000;
            let at = due + 1_000_000 + slowly;
            assert!(got.came(0, &header(0, seq, due), 36, at));
        }
        assert!(got.came(0, &header(1, 0, from), 2000, from + SECOND));
        let beside = got.beside.as_ref().expect("it was asked for");
        assert_eq!(beside.parts.clone().map(|part| part.len()), [100, 100, 200]);
        assert_eq!(beside.recovered(), Some(3 * SLOT));
        assert_eq!(beside.bursts, (1, 2000));
        // The neighbour's second is none of the trial's latencies.
        assert_eq!((got.delivered, got.response.len()), (401, 400));
        assert!(got.response.max() < 60_000_000);
        assert_eq!(Beside::new(from, to).recovered(), None);
    }
}
