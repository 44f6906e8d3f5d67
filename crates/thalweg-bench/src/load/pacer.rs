//! Gives messages to a driver when they are due, and never moves the schedule because the driver or the broker is slow.
//!
//! What a driver does not take waits here, by flow and in order, with the time at which it was due: so its response
//! time includes the wait, whether driver or broker caused it (no coordinated omission). A sender that is slow itself
//! is told from a broker that holds it back: the first tries late (*lag*), the second does not take what is tried
//! (*held back*).

use std::collections::VecDeque;

use super::{Item, Schedule, Sent, Times};
use crate::load::schedule::{Sizes, starts};
use crate::sim::random::Random;

/// What a driver did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gave {
    Taken,
    /// It has no room for one of this flow now.
    Full,
}

/// Where messages come from.
enum Source {
    /// By a schedule, relative to the beginning.
    Schedule(Schedule),
    /// The next one when the one before is through, after a pause.
    Closed {
        think: u64,
        ready: VecDeque<(u64, u32)>,
    },
    /// Whenever there is room.
    Flood { flow: u32 },
}

/// What tells the time.
pub type Clock<'a> = &'a mut dyn FnMut() -> u64;
/// What takes a message at a time.
pub type Give<'a, E> = &'a mut dyn FnMut(&Item, u64) -> Result<Gave, E>;

/// Gives messages when they are due.
pub struct Pacer {
    source: Source,
    times: Times,
    sizes: Sizes,
    from: Vec<u32>,
    /// The next number of each flow (closed loop, flood).
    next: Vec<u32>,
    /// What waits, of each flow.
    waiting: Vec<VecDeque<Item>>,
    /// Flows of which something waits.
    held: VecDeque<u32>,
    sent: Sent,
}

impl Pacer {
    /// By a schedule whose times count from `times.begin`.
    pub fn open(schedule: Schedule, flows: u32, times: Times) -> Pacer {
        Pacer::new(Source::Schedule(schedule), Sizes::Fixed(0), flows, 0, times)
    }

    /// A closed loop: [`Pacer::through`] says when the next one of a flow may come, `think` nanoseconds later.
    pub fn closed(think: u64, flows: u32, sizes: Sizes, seed: u64, times: Times) -> Pacer {
        let ready = (0..flows).map(|flow| (times.begin, flow)).collect();
        Pacer::new(Source::Closed { think, ready }, sizes, flows, seed, times)
    }

    /// As fast as it goes.
    pub fn flood(flows: u32, sizes: Sizes, seed: u64, times: Times) -> Pacer {
        Pacer::new(Source::Flood { flow: 0 }, sizes, flows, seed, times)
    }

    fn new(source: Source, sizes: Sizes, flows: u32, seed: u64, times: Times) -> Pacer {
        let count = flows as usize;
        Pacer {
            from: starts(&sizes, flows, &mut Random::new(seed)),
            source,
            times,
            sizes,
            next: vec![0; count],
            waiting: vec![VecDeque::new(); count],
            held: VecDeque::new(),
            sent: Sent::new(times),
        }
    }

    /// When something will be due; none if that depends on others, or nothing will.
    pub fn next_at(&self) -> Option<u64> {
        match &self.source {
            Source::Schedule(schedule) => schedule.next_at().map(|at| self.times.begin + at),
            Source::Closed { ready, .. } => {
                let first = ready.front().map(|(at, _)| *at);
                first.filter(|at| *at < self.times.end)
            }
            Source::Flood { .. } => None,
        }
    }

    /// Whether it sends whenever there is room.
    pub fn is_flood(&self) -> bool {
        matches!(self.source, Source::Flood { .. })
    }

    /// Whether it waits for [`Pacer::through`].
    pub fn is_closed(&self) -> bool {
        matches!(self.source, Source::Closed { .. })
    }

    /// Whether it waits for [`Pacer::through`] now: a message of some flow of a closed loop is under way.
    pub fn awaits(&self) -> bool {
        match &self.source {
            Source::Closed { ready, .. } => ready.len() + self.held.len() < self.waiting.len(),
            Source::Schedule(_) | Source::Flood { .. } => false,
        }
    }

    /// Nothing will be due any more, and nothing waits.
    pub fn is_done(&self, now: u64) -> bool {
        let drawn = match &self.source {
            Source::Schedule(schedule) => schedule.next_at().is_none(),
            Source::Closed { .. } | Source::Flood { .. } => now >= self.times.end,
        };
        drawn && self.held.is_empty()
    }

    /// A message of this flow is through (closed loop).
    pub fn through(&mut self, flow: u32, now: u64) {
        if let Source::Closed { think, ready } = &mut self.source {
            let at = now.saturating_add(*think);
            let place = ready.partition_point(|(earlier, _)| *earlier <= at);
            ready.insert(place, (at, flow));
        }
    }

    /// Gives what is due. `give` is told the message, when it was due in nanoseconds of the clock, and the time; an error
    /// ends it.
    pub fn turn<E>(&mut self, clock: Clock<'_>, give: Give<'_, E>) -> Result<(), E> {
        self.retry(clock, give)?;
        match &mut self.source {
            Source::Schedule(_) => self.keep_schedule(clock, give),
            Source::Closed { .. } => self.go_round(clock, give),
            Source::Flood { .. } => self.pour(clock, give),
        }
    }

    /// What waits goes first, flow by flow.
    fn retry<E>(&mut self, clock: Clock<'_>, give: Give<'_, E>) -> Result<(), E> {
        for _ in 0..self.held.len() {
            let Some(flow) = self.held.pop_front() else {
                break;
            };
            let Some(waiting) = self.waiting.get_mut(flow as usize) else {
                continue;
            };
            while let Some(item) = waiting.front().copied() {
                let now = clock();
                match give(&item, now)? {
                    Gave::Taken => {
                        waiting.pop_front();
                        self.sent.sent(item.at, now);
                    }
                    Gave::Full => break,
                }
            }
            if !waiting.is_empty() {
                self.held.push_back(flow);
            }
        }
        Ok(())
    }

    fn keep_schedule<E>(&mut self, clock: Clock<'_>, give: Give<'_, E>) -> Result<(), E> {
        // The driver has to write and to hear between: not everything that is due is given in one turn.
        for _ in 0..TURN_MAX {
            let now = clock();
            let Source::Schedule(schedule) = &mut self.source else {
                break;
            };
            let Some(mut item) = schedule.pop(now.saturating_sub(self.times.begin)) else {
                break;
            };
            item.at += self.times.begin;
            self.sent.tried(item.at, now);
            self.give(item, now, give)?;
        }
        Ok(())
    }

    fn give<E>(&mut self, item: Item, now: u64, give: Give<'_, E>) -> Result<(), E> {
        let Some(waiting) = self.waiting.get_mut(item.flow as usize) else {
            return Ok(());
        };
        if waiting.is_empty() {
            if give(&item, now)? == Gave::Taken {
                self.sent.sent(item.at, now);
                return Ok(());
            }
            self.held.push_back(item.flow);
        }
        self.sent.held_back(item.at);
        waiting.push_back(item);
        Ok(())
    }

    fn go_round<E>(&mut self, clock: Clock<'_>, give: Give<'_, E>) -> Result<(), E> {
        loop {
            let now = clock();
            let Source::Closed { ready, .. } = &mut self.source else {
                return Ok(());
            };
            if now < self.times.begin || now >= self.times.end {
                return Ok(());
            }
            let Some((_, flow)) = ready.pop_front_if(|(at, _)| *at <= now) else {
                return Ok(());
            };
            let Some(item) = self.next_of(flow, now) else {
                continue;
            };
            self.sent.tried_without_time(now);
            self.give(item, now, give)?;
        }
    }

    fn pour<E>(&mut self, clock: Clock<'_>, give: Give<'_, E>) -> Result<(), E> {
        let flows = self.next.len() as u32;
        for _ in 0..flows {
            let Source::Flood { flow } = &mut self.source else {
                return Ok(());
            };
            let this = *flow;
            *flow = (this + 1) % flows.max(1);
            let mut now = clock();
            for count in 1..=POUR_MAX {
                if now < self.times.begin || now >= self.times.end {
                    return Ok(());
                }
                let Some(item) = self.next_of(this, now) else {
                    break;
                };
                if give(&item, now)? == Gave::Full {
                    if let Some(next) = self.next.get_mut(this as usize) {
                        *next -= 1;
                    }
                    break;
                }
                self.sent.tried_without_time(now);
                self.sent.sent(now, now);
                if count % CLOCK_EVERY == 0 {
                    now = clock();
                }
            }
        }
        Ok(())
    }

    /// The next message of a flow that has no schedule: due now.
    #[inline]
    fn next_of(&mut self, flow: u32, now: u64) -> Option<Item> {
        let next = self.next.get_mut(flow as usize)?;
        let seq = *next;
        *next += 1;
        let from = self.from.get(flow as usize).copied().unwrap_or(0);
        let (at, size) = (now, self.sizes.of(from, seq));
        Some(Item {
            at,
            flow,
            seq,
            size,
        })
    }

    /// The books so far.
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// The books at the end.
    pub fn into_sent(self) -> Sent {
        self.sent
    }
}

/// Messages by a schedule that are given in one turn.
const TURN_MAX: usize = 1024;
/// Messages of one flow in one turn of a flood.
const POUR_MAX: usize = 256;
/// In a flood, the clock is read for so many messages at once: they leave in one write.
const CLOCK_EVERY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SECOND;
    use crate::load::schedule::Arrivals;
    use std::convert::Infallible;

    const TIMES: Times = Times {
        begin: 1000,
        measure: 1000,
        end: 1000 + 10 * SECOND,
        give_up: 20 * SECOND,
    };

    fn periodic(rate: f64, flows: u32) -> Schedule {
        let sizes = Sizes::Fixed(36);
        Schedule::open(rate, flows, Arrivals::Periodic, sizes, 5, 10 * SECOND)
    }

    /// A driver in virtual time: takes nothing between two moments, and everything else at once.
    fn run(pacer: &mut Pacer, mut now: u64, stall: std::ops::Range<u64>) -> Vec<(Item, u64)> {
        let mut taken = Vec::new();
        while !pacer.is_done(now) && now < TIMES.give_up {
            pacer
                .turn(&mut || now, &mut |item, at| {
                    if stall.contains(&at) {
                        return Ok::<_, Infallible>(Gave::Full);
                    }
                    taken.push((*item, at));
                    Ok(Gave::Taken)
                })
                .unwrap_or_default();
            now += 100_000;
        }
        taken
    }

    #[test]
    fn what_is_held_back_is_sent_in_order_later_and_keeps_the_time_at_which_it_was_due() {
        let mut pacer = Pacer::open(periodic(100.0, 3), 3, TIMES);
        let mut taken = run(&mut pacer, 0, 2 * SECOND..3 * SECOND);
        for flow in 0..3 {
            let of_flow = taken.iter().filter(|(item, _)| item.flow == flow);
            assert!(of_flow.map(|(item, _)| item.seq).eq(0..1000));
        }
        let waits = taken.iter().map(|(item, at)| at - item.at);
        let worst = waits.max().unwrap_or(0);
        let allowed = SECOND - 11_000_000..=SECOND + 100_000;
        assert!(allowed.contains(&worst), "{worst}");
        taken.sort_by_key(|(item, _)| (item.at, item.flow));
        let due = taken.iter().map(|(item, _)| item.at - TIMES.begin);
        assert!(due.eq(periodic(100.0, 3).map(|item| item.at)));
        let sent = pacer.into_sent();
        let counts = (sent.intended, sent.sent, sent.held_back);
        assert_eq!(counts, (3000, 3000, 300));
        // The sender was on time all along: what it looks each 100 µs.
        assert!(sent.lag.max() <= 101_000, "{}", sent.lag.max());
        assert_eq!(sent.seconds.iter().sum::<u64>(), 3000);
    }

    #[test]
    fn a_sender_that_is_late_itself_is_told_from_a_broker_that_holds_it_back() {
        let mut pacer = Pacer::open(periodic(1000.0, 1), 1, TIMES);
        run(&mut pacer, 5 * SECOND, 0..0);
        let sent = pacer.into_sent();
        assert_eq!((sent.intended, sent.held_back), (10_000, 0));
        assert!(sent.lag.value_at_quantile(0.99) > 4 * SECOND);
    }

    #[test]
    fn a_closed_loop_sends_when_the_one_before_is_through() {
        let mut pacer = Pacer::closed(50, 2, Sizes::Fixed(100), 1, TIMES);
        let mut sent = Vec::new();
        let mut turn = |pacer: &mut Pacer, now: u64| {
            let before = sent.len();
            let done = pacer.turn(&mut || now, &mut |item, _| {
                sent.push((item.flow, item.seq, item.at));
                Ok::<_, Infallible>(Gave::Taken)
            });
            assert!(done.is_ok());
            sent.split_off(before)
        };
        assert_eq!(turn(&mut pacer, 999), []);
        assert!(
            !pacer.awaits(),
            "nothing is under way: nobody can say that it is through"
        );
        assert_eq!(turn(&mut pacer, 1000), [(0, 0, 1000), (1, 0, 1000)]);
        assert!(pacer.awaits());
        assert_eq!((turn(&mut pacer, 2000), pacer.next_at()), (vec![], None));
        pacer.through(1, 2000);
        assert_eq!(
            (turn(&mut pacer, 2049), pacer.next_at()),
            (vec![], Some(2050))
        );
        assert_eq!(turn(&mut pacer, 2060), [(1, 1, 2060)]);
        pacer.through(0, TIMES.end - 10);
        assert!(!pacer.is_done(TIMES.end - 1) && pacer.is_done(TIMES.end));
        assert!(pacer.awaits(), "the other flow's");
        pacer.through(1, TIMES.end - 10);
        assert!(!pacer.awaits());
        assert_eq!(turn(&mut pacer, TIMES.end + 100), []);
        assert_eq!(pacer.sent().intended, 3);
    }

    #[test]
    fn a_flood_takes_turns_and_leaves_no_gap_where_there_was_no_room() {
        let mut pacer = Pacer::flood(3, Sizes::Fixed(36), 1, TIMES);
        let mut next = [0; 3];
        for round in 0..10 {
            let mut room = [5, 0, 300];
            let done = pacer.turn(&mut || TIMES.begin + round, &mut |item, _| {
                let flow = item.flow as usize;
                if room[flow] == 0 {
                    return Ok::<_, Infallible>(Gave::Full);
                }
                room[flow] -= 1;
                assert_eq!(item.seq, next[flow]);
                next[flow] += 1;
                Ok(Gave::Taken)
            });
            assert!(done.is_ok());
        }
        assert_eq!(next, [50, 0, 2560]);
        assert_eq!((pacer.sent().sent, pacer.sent().intended), (2610, 2610));
    }
}
