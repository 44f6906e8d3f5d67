//! When each message of each flow is due: known before the first is sent, and never moved by what happens later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

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

/// How the messages of a flow follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances, each flow with a phase of its own.
    Periodic,
    Poisson,
    /// At equal distances, all flows at the same moment.
    Burst,
}

impl Arrivals {
    /// By its name in a cell.
    pub fn named(name: &str) -> Result<Arrivals, String> {
        match name {
            "periodic" => Ok(Arrivals::Periodic),
            "poisson" => Ok(Arrivals::Poisson),
            "burst" => Ok(Arrivals::Burst),
            _ => Err(format!(
                "there are no arrivals {name:?}: periodic, poisson, burst"
            )),
        }
    }
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
                sizes.iter().map(|size| u64::from(*size)).sum::<u64>() / sizes.len().max(1) as u64
            }
        }
    }

    pub fn max(&self) -> u32 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Listed(sizes) => sizes.iter().copied().max().unwrap_or(0),
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
#[derive(Debug)]
pub struct Schedule {
    kind: ItemSource,
    sizes: Sizes,
    /// Where each flow begins in the list of sizes.
    from: Vec<u32>,
    /// Nothing is due from here on.
    end: u64,
    /// Nor when so many were.
    left: u64,
    next: Option<Item>,
}

#[derive(Debug)]
enum ItemSource {
    /// The next time of each flow, its number, what is drawn from; `drift` is the part of a nanosecond that rounding left.
    Flows {
        heap: BinaryHeap<Reverse<(u64, u32)>>,
        flows: Vec<Flow>,
        arrivals: Arrivals,
        period: f64,
    },
    /// All of them, in order.
    Listed(VecDeque<Item>),
    /// The next one of each flow, of distributions: a day of many flows is more than has to be in memory at once.
    Drawn {
        heap: BinaryHeap<Reverse<(u64, u32)>>,
        flows: Vec<Source>,
        trace: Arc<Trace>,
    },
}

/// A flow that draws from a trace, its next number and the size of that message.
#[derive(Debug)]
struct Source {
    drawn: Drawn,
    seq: u32,
    size: u32,
}

#[derive(Debug)]
struct Flow {
    random: Random,
    /// When its first was due, exactly.
    phase: f64,
    /// When the last was due (Poisson), exactly.
    at: f64,
    seq: u32,
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
        let mut heap = BinaryHeap::new();
        let mut all = Vec::new();
        let mut dice = Random::new(seed);
        let from = starts(&sizes, flows, &mut dice);
        for flow in 0..flows {
            // A stream of its own for each flow: one flow more does not change the others.
            let mut random = Random::new(dice.draw());
            let phase = match arrivals {
                Arrivals::Periodic => random.unit() * period,
                Arrivals::Poisson => random.exponential() * period,
                Arrivals::Burst => 0.0,
            };
            heap.push(Reverse((phase as u64, flow)));
            all.push(Flow {
                random,
                phase,
                at: phase,
                seq: 0,
            });
        }
        let kind = ItemSource::Flows {
            heap,
            flows: all,
            arrivals,
            period,
        };
        Schedule {
            kind,
            sizes,
            from,
            end,
            left: u64::MAX,
            next: None,
        }
        .begun()
    }

    /// What a trace says: time in nanoseconds, flow, size.
    pub fn replay(mut messages: Vec<(u64, u32, u32)>, end: u64) -> Schedule {
        messages.sort_by_key(|(at, flow, _)| (*at, *flow));
        let mut next: Vec<u32> = Vec::new();
        let items = messages.into_iter().map(|(at, flow, size)| {
            if next.len() <= flow as usize {
                next.resize(flow as usize + 1, 0);
            }
            let seq = next.get(flow as usize).copied().unwrap_or(0);
            if let Some(next) = next.get_mut(flow as usize) {
                *next += 1;
            }
            Item {
                at,
                flow,
                seq,
                size,
            }
        });
        Schedule {
            kind: ItemSource::Listed(items.collect()),
            sizes: Sizes::Fixed(0),
            from: Vec::new(),
            end,
            left: u64::MAX,
            next: None,
        }
        .begun()
    }

    /// What a trace of distributions says of so many of its sources: see [`crate::traces::replay`].
    pub fn drawn(
        trace: Arc<Trace>,
        flows: u32,
        speed: f64,
        rate_scale: f64,
        seed: u64,
        end: u64,
    ) -> Schedule {
        let (mut heap, mut all) = (BinaryHeap::new(), Vec::new());
        for flow in 0..flows {
            let mut drawn = Drawn::new(flow, speed, rate_scale, seed);
            let first = drawn.next(&trace, end);
            all.push(Source {
                drawn,
                seq: 0,
                size: first.map_or(0, |(_, size)| size),
            });
            heap.extend(first.map(|(at, _)| Reverse((at, flow))));
        }
        let kind = ItemSource::Drawn {
            heap,
            flows: all,
            trace,
        };
        Schedule {
            kind,
            sizes: Sizes::Fixed(0),
            from: Vec::new(),
            end,
            left: u64::MAX,
            next: None,
        }
        .begun()
    }

    fn begun(mut self) -> Schedule {
        self.next = self.draw();
        self
    }

    /// Only the first so many.
    #[must_use]
    pub fn at_most(mut self, count: u64) -> Schedule {
        // One of them is drawn already.
        self.left = count.saturating_sub(1);
        self.next = self.next.filter(|_| count > 0);
        self
    }

    /// When the next one is due.
    pub fn next_at(&self) -> Option<u64> {
        self.next.map(|item| item.at)
    }

    /// Takes the next one if it is due.
    pub fn pop(&mut self, now: u64) -> Option<Item> {
        let item = self.next.filter(|item| item.at <= now)?;
        self.next = self.draw();
        Some(item)
    }

    fn draw(&mut self) -> Option<Item> {
        self.left = self.left.checked_sub(1)?;
        let item = match &mut self.kind {
            ItemSource::Listed(items) => items.pop_front()?,
            ItemSource::Drawn { heap, flows, trace } => {
                let Reverse((at, number)) = heap.pop()?;
                let source = flows.get_mut(number as usize)?;
                let item = Item {
                    at,
                    flow: number,
                    seq: source.seq,
                    size: source.size,
                };
                source.seq += 1;
                if let Some((at, size)) = source.drawn.next(trace, self.end) {
                    source.size = size;
                    heap.push(Reverse((at, number)));
                }
                item
            }
            ItemSource::Flows {
                heap,
                flows,
                arrivals,
                period,
            } => {
                let mut top = heap.peek_mut()?;
                let Reverse((at, number)) = *top;
                let flow = flows.get_mut(number as usize)?;
                let seq = flow.seq;
                flow.seq += 1;
                flow.at = match arrivals {
                    Arrivals::Poisson => flow.at + flow.random.exponential() * *period,
                    // From the first, not from the last: nothing adds up.
                    _ => flow.phase + f64::from(flow.seq) * *period,
                };
                *top = Reverse((flow.at as u64, number));
                let from = self.from.get(number as usize).copied().unwrap_or(0);
                Item {
                    at,
                    flow: number,
                    seq,
                    size: self.sizes.of(from, seq),
                }
            }
        };
        (item.at < self.end).then_some(item)
    }
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
        Schedule::open(
            rate,
            flows,
            arrivals,
            Sizes::Fixed(60),
            seed,
            seconds * SECOND,
        )
        .collect()
    }

    #[test]
    fn periodic_flows_keep_their_period_and_have_phases_of_their_own() {
        let items = open(3.0, 7, Arrivals::Periodic, 1, 100);
        assert_eq!(items.len(), 7 * 300);
        assert!(items.is_sorted_by_key(|item| item.at));
        let mut phases: Vec<u64> = items
            .iter()
            .filter(|item| item.seq == 0)
            .map(|item| item.at)
            .collect();
        assert!(phases.iter().all(|phase| *phase < SECOND / 3 + 1));
        phases.dedup();
        assert_eq!(phases.len(), 7);
        for flow in 0..7 {
            let times: Vec<u64> = items
                .iter()
                .filter(|item| item.flow == flow)
                .map(|item| item.at)
                .collect();
            // A third of a second is no whole number of nanoseconds; after 100 s it is still right.
            let drift = times[299] as i64 - times[0] as i64 - (299.0 / 3.0 * 1e9) as i64;
            assert!(drift.abs() <= 1, "{drift}");
        }
    }

    #[test]
    fn numbers_of_a_flow_have_no_gaps_whatever_the_arrivals_are() {
        for arrivals in [Arrivals::Periodic, Arrivals::Poisson, Arrivals::Burst] {
            let mut next = [0; 5];
            for item in open(20.0, 5, arrivals, 3, 10) {
                assert_eq!(item.seq, next[item.flow as usize]);
                next[item.flow as usize] += 1;
            }
            assert!(next.iter().all(|count| *count > 100), "{next:?}");
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
    fn a_seed_names_a_schedule() {
        assert_eq!(
            open(5.0, 3, Arrivals::Poisson, 4, 20),
            open(5.0, 3, Arrivals::Poisson, 4, 20)
        );
        assert_ne!(
            open(5.0, 3, Arrivals::Poisson, 4, 20),
            open(5.0, 3, Arrivals::Poisson, 5, 20)
        );
    }

    #[test]
    fn a_schedule_may_end_by_number() {
        let schedule =
            || Schedule::open(10.0, 3, Arrivals::Poisson, Sizes::Fixed(60), 4, 20 * SECOND);
        let all: Vec<Item> = schedule().collect();
        for count in [0, 1, 2, 50] {
            assert_eq!(
                schedule().at_most(count).collect::<Vec<_>>(),
                all[..count as usize]
            );
        }
        assert_eq!(schedule().at_most(1_000_000).count(), all.len());
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        let mut schedule = Schedule::replay(vec![(20, 1, 5), (10, 0, 7), (30, 1, 9)], 100);
        assert_eq!((schedule.next_at(), schedule.pop(9)), (Some(10), None));
        assert_eq!(
            schedule.pop(25),
            Some(Item {
                at: 10,
                flow: 0,
                seq: 0,
                size: 7
            })
        );
        assert_eq!(
            schedule.pop(25),
            Some(Item {
                at: 20,
                flow: 1,
                seq: 0,
                size: 5
            })
        );
        assert_eq!(schedule.pop(25), None);
        assert_eq!(
            schedule.pop(30),
            Some(Item {
                at: 30,
                flow: 1,
                seq: 1,
                size: 9
            })
        );
        assert_eq!((schedule.next_at(), schedule.pop(u64::MAX)), (None, None));
    }

    #[test]
    fn sizes_of_a_list_come_over_and_over() {
        let sizes = Sizes::Listed(vec![1, 2, 3]);
        assert_eq!(
            (0..5).map(|seq| sizes.of(2, seq)).collect::<Vec<_>>(),
            [3, 1, 2, 3, 1]
        );
        assert_eq!((sizes.max(), Sizes::Listed(Vec::new()).of(1, 1)), (3, 0));
        let items: Vec<Item> = Schedule::open(1.0, 2, Arrivals::Periodic, sizes, 11, 6 * SECOND)
            .filter(|item| item.flow == 0)
            .collect();
        assert_eq!(
            (items[0].size, items[1].size),
            (items[3].size, items[4].size)
        );
    }
}
