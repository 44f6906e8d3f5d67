//! When each message of each flow is due: known before the first is sent, and never moved by what happens later.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::iter;
use std::sync::Arc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::sim::random::Random;
use crate::traces::Trace;
use crate::traces::replay::Drawn;

/// A message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// When, in nanoseconds since the beginning.
    pub at: u64,
    pub flow: u32,
    /// Which of the flow's, from 0.
    pub seq: u32,
    /// Bytes of its payload.
    pub size: u32,
}

/// How messages of a flow follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances, each flow with a random phase
    Periodic,
    /// A Poisson process: exponentially distributed distances
    Poisson,
    /// All flows at once
    Burst,
}

/// How large messages are.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    Fixed(u32),
    /// As a list says, over and over; each flow begins where the seed says.
    Listed(Vec<u32>),
}

impl Sizes {
    /// Their mean, rounded down; 0 of none.
    pub fn mean(&self) -> u64 {
        match self {
            Sizes::Fixed(size) => u64::from(*size),
            Sizes::Listed(sizes) => {
                let sum: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
                sum / sizes.len().max(1) as u64
            }
        }
    }

    /// Of a message: `from` is where its flow begins.
    pub fn of(&self, from: u32, seq: u32) -> u32 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Listed(sizes) if sizes.is_empty() => 0,
            Sizes::Listed(sizes) => {
                let at = (u64::from(from) + u64::from(seq)) % sizes.len() as u64;
                sizes.get(at as usize).copied().unwrap_or(0)
            }
        }
    }
}

/// Messages in the order of their times.
pub struct Schedule {
    items: Box<dyn Iterator<Item = Item> + Send>,
    next: Option<Item>,
}

impl Schedule {
    /// `rate` messages a second of each of `flows` flows, until `end` nanoseconds.
    pub fn open(
        rate: f64,
        flows: u32,
        arrivals: Arrivals,
        sizes: Sizes,
        seed: u64,
        end: u64,
    ) -> Schedule {
        let period = if rate > 0.0 {
            1e9 / rate
        } else {
            f64::INFINITY
        };
        let mut dice = Random::new(seed);
        let mut from = starts(&sizes, flows, &mut dice).into_iter();
        let sizes = Arc::new(sizes);
        let flow = |_| {
            // A stream of its own for each flow: one flow more does not change the others.
            let mut random = Random::new(dice.draw());
            let phase = match arrivals {
                Arrivals::Periodic => random.unit() * period,
                Arrivals::Poisson => random.exponential() * period,
                Arrivals::Burst => 0.0,
            };
            let (sizes, from, mut at) = (sizes.clone(), from.next().unwrap_or(0), phase);
            move |seq| {
                at = match (seq, arrivals) {
                    (0, _) => phase,
                    (_, Arrivals::Poisson) => at + random.exponential() * period,
                    // From the first, not from the last: nothing adds up.
                    _ => phase + f64::from(seq) * period,
                };
                Some((at as u64, sizes.of(from, seq)))
            }
        };
        Schedule::until(end, merged((0..flows).map(flow).collect()))
    }

    /// What a trace says: time in nanoseconds, flow, size.
    pub fn replay(mut messages: Vec<(u64, u32, u32)>, end: u64) -> Schedule {
        messages.sort_by_key(|(at, flow, _)| (*at, *flow));
        let mut counts: HashMap<u32, u32> = HashMap::new();
        let item = move |(at, flow, size)| {
            let count = counts.entry(flow).or_default();
            *count += 1;
            let seq = *count - 1;
            Item {
                at,
                flow,
                seq,
                size,
            }
        };
        Schedule::until(end, messages.into_iter().map(item))
    }

    /// What a trace of distributions says of so many of its sources: see [`crate::traces::replay`]. A day of many flows is
    /// more than has to be in memory at once.
    pub fn drawn(
        trace: Arc<Trace>,
        flows: u32,
        speed: f64,
        rate_scale: f64,
        seed: u64,
        end: u64,
    ) -> Schedule {
        let flow = |flow| {
            let mut drawn = Drawn::new(flow, speed, rate_scale, seed);
            let trace = trace.clone();
            move |_| drawn.next(&trace, end)
        };
        Schedule::until(end, merged((0..flows).map(flow).collect()))
    }

    fn until(end: u64, items: impl Iterator<Item = Item> + Send + 'static) -> Schedule {
        Schedule::of(items.take_while(move |item| item.at < end))
    }

    fn of(items: impl Iterator<Item = Item> + Send + 'static) -> Schedule {
        let mut items = Box::new(items);
        let next = items.next();
        Schedule { items, next }
    }

    /// Only the first so many.
    #[must_use]
    pub fn at_most(self, count: u64) -> Schedule {
        Schedule::of(self.take(count.try_into().unwrap_or(usize::MAX)))
    }

    /// When the next one is due.
    pub fn next_at(&self) -> Option<u64> {
        self.next.map(|item| item.at)
    }

    /// Takes the next one if it is due.
    pub fn pop(&mut self, now: u64) -> Option<Item> {
        let item = self.next.filter(|item| item.at <= now)?;
        self.next = self.items.next();
        Some(item)
    }
}

/// Messages of flows in the order of their times. Each flow gives time and size of the message with a number, in turn.
fn merged<Flow>(mut flows: Vec<Flow>) -> impl Iterator<Item = Item>
where
    Flow: FnMut(u32) -> Option<(u64, u32)>,
{
    let firsts = (0..).zip(&mut flows);
    let firsts = firsts.filter_map(|(flow, next)| next(0).map(|(at, size)| (at, flow, 0, size)));
    let mut heap: BinaryHeap<Reverse<(u64, u32, u32, u32)>> = firsts.map(Reverse).collect();
    iter::from_fn(move || {
        let mut top = heap.peek_mut()?;
        let Reverse((at, flow, seq, size)) = *top;
        match flows.get_mut(flow as usize)?(seq + 1) {
            Some((at, size)) => *top = Reverse((at, flow, seq + 1, size)),
            None => _ = PeekMut::pop(top),
        }
        Some(Item {
            at,
            flow,
            seq,
            size,
        })
    })
}

impl Iterator for Schedule {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.pop(u64::MAX)
    }
}

/// Where flows begin in a list of sizes.
pub fn starts(sizes: &Sizes, flows: u32, dice: &mut Random) -> Vec<u32> {
    match sizes {
        Sizes::Fixed(_) => Vec::new(),
        Sizes::Listed(list) => (0..flows)
            .map(|_| (dice.draw() % list.len().max(1) as u64) as u32)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SECOND;

    fn open(rate: f64, flows: u32, arrivals: Arrivals, seed: u64, seconds: u64) -> Vec<Item> {
        let end = seconds * SECOND;
        Schedule::open(rate, flows, arrivals, Sizes::Fixed(60), seed, end).collect()
    }

    #[test]
    fn periodic_flows_keep_their_period_and_have_phases_of_their_own() {
        let items = open(3.0, 7, Arrivals::Periodic, 1, 100);
        assert_eq!(items.len(), 7 * 300);
        assert!(items.is_sorted_by_key(|item| item.at));
        let firsts = items.iter().filter(|item| item.seq == 0);
        let mut phases: Vec<u64> = firsts.map(|item| item.at).collect();
        assert!(phases.iter().all(|phase| *phase < SECOND / 3 + 1));
        phases.dedup();
        assert_eq!(phases.len(), 7);
        for flow in 0..7 {
            let of_flow = items.iter().filter(|item| item.flow == flow);
            let times: Vec<u64> = of_flow.map(|item| item.at).collect();
            // A third of a second is no whole number of nanoseconds; after 100 s it is still right.
            let drift = times[299] as i64 - times[0] as i64 - (299.0 / 3.0 * 1e9) as i64;
            assert!(drift.abs() <= 1, "{drift}");
        }
    }

    #[test]
    fn flows_have_no_gaps_a_seed_names_a_schedule_and_it_may_end_by_number() {
        for arrivals in [Arrivals::Periodic, Arrivals::Poisson, Arrivals::Burst] {
            let of_seed = |seed| open(20.0, 5, arrivals, seed, 10);
            let (all, mut next) = (of_seed(3), [0; 5]);
            for item in &all {
                assert_eq!(item.seq, next[item.flow as usize]);
                next[item.flow as usize] += 1;
            }
            assert!(next.iter().all(|count| *count > 100), "{next:?}");
            assert_eq!(all, of_seed(3), "{arrivals:?}");
            assert_eq!(all == of_seed(4), arrivals == Arrivals::Burst);
            for count in [0, 1, 2, 50, 1_000_000] {
                let sizes = Sizes::Fixed(60);
                let schedule = Schedule::open(20.0, 5, arrivals, sizes, 3, 10 * SECOND);
                let some: Vec<Item> = schedule.at_most(count).collect();
                assert_eq!(some, all[..all.len().min(count as usize)]);
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_variance_of_their_name() {
        let items = open(1000.0, 1, Arrivals::Poisson, 9, 200);
        let gaps: Vec<f64> = items
            .windows(2)
            .map(|two| (two[1].at - two[0].at) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 200,000 gaps: the mean is within 1 % and the variance within 3 % with room to spare.
        assert!(
            (mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03,
            "{mean} {variance}"
        );
    }

    #[test]
    fn bursts_come_all_at_once() {
        let items = open(2.0, 10, Arrivals::Burst, 1, 3);
        let times: Vec<u64> = items.iter().map(|item| item.at).collect();
        assert_eq!(items.len(), 60);
        assert!(
            times
                .chunks(10)
                .all(|burst| burst.iter().all(|at| *at == burst[0]))
        );
        assert_eq!(times[59], 5 * SECOND / 2);
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        let mut schedule = Schedule::replay(vec![(20, 1, 5), (10, 0, 7), (30, 1, 9)], 100);
        let item = |at, flow, seq, size| {
            Some(Item {
                at,
                flow,
                seq,
                size,
            })
        };
        for (now, due) in [
            (9, None),
            (25, item(10, 0, 0, 7)),
            (25, item(20, 1, 0, 5)),
            (25, None),
            (30, item(30, 1, 1, 9)),
        ] {
            assert_eq!(schedule.pop(now), due);
        }
        assert_eq!((schedule.next_at(), schedule.pop(u64::MAX)), (None, None));
    }

    #[test]
    fn sizes_of_a_list_come_over_and_over() {
        let sizes = Sizes::Listed(vec![1, 2, 3]);
        assert_eq!(
            (0..5).map(|seq| sizes.of(2, seq)).collect::<Vec<_>>(),
            [3, 1, 2, 3, 1]
        );
        assert_eq!(Sizes::Listed(Vec::new()).of(1, 1), 0);
        let items = Schedule::open(1.0, 2, Arrivals::Periodic, sizes, 11, 6 * SECOND);
        let items: Vec<Item> = items.filter(|item| item.flow == 0).collect();
        assert_eq!(
            (items[0].size, items[1].size),
            (items[3].size, items[4].size)
        );
    }
}
