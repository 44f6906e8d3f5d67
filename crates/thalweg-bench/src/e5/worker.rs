//! A worker: a queue of what came, hands that are busy for as long as a message takes, and a book about both.
//!
//! Working is sleeping: a hand is busy until a time. These times are absolute, like those of the publisher: who wakes late
//! from one message is not late with the next, so that errors of the machine do not add up to a slower worker. How late is
//! measured and decides whether the trial counts.
//!
//! *Knows:* messages by number, and time. *Must never know:* sockets.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_mqtt::load::Report;
use thalweg_mqtt::{QoS, ReportRules, Reporter};

/// A message as a worker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub job: usize,
    /// Which connection of this worker brought it.
    pub connection: u32,
    /// Its packet identifier there.
    pub id: u16,
    /// Its quality of service there.
    pub qos: QoS,
    pub came: u64,
}

/// A hand at work.
#[derive(Clone, Copy, Debug)]
struct Busy {
    piece: Piece,
    /// When it should be done.
    ends: u64,
    /// Which sleep it is.
    sleep: u64,
    takes: u64,
}

/// What was begun: sleep so long and come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub piece: Piece,
    /// When to come back.
    pub ends: u64,
    pub sleep: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    pub piece: Piece,
    /// By how many nanoseconds we woke too late.
    pub late: u64,
}

/// A worker without its connection.
#[derive(Debug)]
pub struct Bench {
    queue: VecDeque<Piece>,
    busy: Vec<Busy>,
    hands: usize,
    sleeps: u64,
    /// When the hand that is free was to be free, by hand.
    free: Vec<u64>,
    /// How many times as long as usual everything takes.
    pub slow: f64,
    /// Since when nothing is done.
    stopped: Option<u64>,
    book: Option<Reporter>,
    lies: bool,
    counts_to: u64,
}

impl Bench {
    /// A worker with so many hands.
    pub fn new(hands: u32, counts_to: u64) -> Bench {
        Bench {
            queue: VecDeque::new(),
            busy: Vec::new(),
            hands: hands.max(1) as usize,
            sleeps: 0,
            free: vec![0; hands.max(1) as usize],
            slow: 1.0,
            stopped: None,
            book: None,
            lies: false,
            counts_to,
        }
    }

    /// A connection begins, and with it the book.
    pub fn connected(&mut self, rules: Option<ReportRules>, lies: bool, now: u64) {
        (self.book, self.lies) = (rules.map(|rules| Reporter::new(rules, span(now))), lies);
    }

    pub fn take(&mut self, piece: Piece) {
        self.queue.push_back(piece);
        if let Some(book) = &mut self.book {
            book.received(span(piece.came));
        }
    }

    /// Begins with the next message, if there is one and a hand; `takes` says how long a message takes.
    pub fn begin(&mut self, takes: &dyn Fn(usize) -> u64, now: u64) -> Option<Begun> {
        if self.stopped.is_some() || self.busy.len() >= self.hands {
            return None;
        }
        let piece = self.queue.pop_front()?;
        let takes = (takes(piece.job) as f64 * self.slow) as u64;
        // A hand that woke late begins when it should have.
        let free = self.free.pop().unwrap_or(0);
        let ends = free.max(piece.came).min(now) + takes;
        self.sleeps += 1;
        self.busy.push(Busy {
            piece,
            ends,
            sleep: self.sleeps,
            takes,
        });
        if let Some(book) = &mut self.book {
            book.started();
        }
        Some(Begun {
            piece,
            ends,
            sleep: self.sleeps,
        })
    }

    /// A sleep is over; nothing if it was cut short by something else.
    pub fn wake(&mut self, sleep: u64, now: u64) -> Option<Finished> {
        if self.stopped.is_some() {
            return None;
        }
        let at = self.busy.iter().position(|busy| busy.sleep == sleep)?;
        let busy = self.busy.swap_remove(at);
        self.free.push(busy.ends);
        if let Some(book) = &mut self.book {
            book.finished(1, Duration::from_nanos(busy.takes));
        }
        Some(Finished {
            piece: busy.piece,
            late: now.saturating_sub(busy.ends),
        })
    }

    /// Everything stands still from now on.
    pub fn stop(&mut self, now: u64) {
        self.stopped.get_or_insert(now);
    }

    /// It goes on: what was begun sleeps on for the rest.
    pub fn go_on(&mut self, now: u64) -> Vec<Begun> {
        let Some(since) = self.stopped.take() else {
            return Vec::new();
        };
        let mut begun = Vec::new();
        for busy in &mut self.busy {
            self.sleeps += 1;
            (busy.ends, busy.sleep) = (busy.ends + (now - since), self.sleeps);
            begun.push(Begun {
                piece: busy.piece,
                ends: busy.ends,
                sleep: busy.sleep,
            });
        }
        begun
    }

    /// The process ends: all that was here is gone.
    pub fn forget(&mut self) {
        self.queue.clear();
        self.busy.clear();
        self.free = vec![0; self.hands];
        self.book = None;
    }

    /// The report that is due, if one is.
    pub fn report(&mut self, now: u64) -> Option<Report> {
        let book = self.book.as_mut().filter(|book| book.is_due(span(now)))?;
        let load = book.report(span(now));
        if self.lies {
            return Some(Report {
                waiting: 0,
                each_ms: 1.0,
                ..Report::default()
            });
        }
        Some(Report {
            waiting: u32::try_from(load.waiting.min(self.counts_to)).unwrap_or(u32::MAX),
            each_ms: load.each.as_secs_f64() * 1e3,
            ..Report::default()
        })
    }

    /// When to look for a report again.
    pub fn report_at(&self, now: u64) -> Option<u64> {
        let at = self.book.as_ref()?.poll_timeout(span(now))?;
        u64::try_from(at.as_nanos()).ok()
    }
}

fn span(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(job: usize, came: u64) -> Piece {
        Piece {
            job,
            connection: 0,
            id: 0,
            qos: QoS::AtMostOnce,
            came,
        }
    }

    #[test]
    fn who_wakes_late_is_not_late_with_the_next() {
        let mut bench = Bench::new(1, u64::MAX);
        bench.take(piece(0, 100));
        bench.take(piece(1, 110));
        let first = bench.begin(&|_| 50, 100).expect("a hand is free");
        assert_eq!((first.ends, bench.begin(&|_| 50, 100)), (150, None));
        assert_eq!(bench.wake(first.sleep, 157).map(|done| done.late), Some(7));
        assert_eq!(bench.begin(&|_| 50, 157).map(|begun| begun.ends), Some(200));
    }

    #[test]
    fn who_was_idle_begins_when_the_message_comes() {
        let mut bench = Bench::new(1, u64::MAX);
        bench.take(piece(0, 100));
        let first = bench.begin(&|_| 50, 100).expect("a hand is free");
        bench.wake(first.sleep, 150);
        bench.take(piece(1, 400));
        assert_eq!(bench.begin(&|_| 50, 400).map(|begun| begun.ends), Some(450));
    }

    #[test]
    fn what_stands_still_needs_the_rest_of_its_time_afterwards() {
        let mut bench = Bench::new(1, u64::MAX);
        bench.take(piece(0, 0));
        bench.take(piece(1, 0));
        let first = bench.begin(&|_| 50, 0).expect("a hand is free");
        bench.stop(20);
        assert_eq!(
            (bench.wake(first.sleep, 50), bench.begin(&|_| 50, 50)),
            (None, None)
        );
        let again = bench.go_on(1000);
        assert_eq!(
            again.iter().map(|begun| begun.ends).collect::<Vec<_>>(),
            [1030]
        );
        assert_eq!(
            bench.wake(first.sleep, 1030),
            None,
            "the old sleep does not count"
        );
        assert!(bench.wake(again[0].sleep, 1030).is_some());
    }

    #[test]
    fn a_slow_worker_takes_longer_and_says_so() {
        let mut bench = Bench::new(1, 10);
        bench.connected(Some(ReportRules::every(Duration::from_secs(1))), false, 0);
        bench.slow = 4.0;
        (0..20).for_each(|job| bench.take(piece(job, 0)));
        let begun = bench.begin(&|_| 25_000_000, 0).expect("a hand is free");
        assert_eq!(begun.ends, 100_000_000);
        bench.wake(begun.sleep, begun.ends);
        assert_eq!(
            (bench.report(999_999_999), bench.report_at(0)),
            (None, Some(1_000_000_000))
        );
        let report = bench.report(1_000_000_000).expect("a second has passed");
        assert_eq!(
            (report.waiting, report.each_ms),
            (10, 100.0),
            "it counts to ten"
        );
    }
}
