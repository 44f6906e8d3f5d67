//! A worker: a queue of what came, handlers that are busy for as long as a message takes, what it owes the broker, and a book
//! about all of it. It is the same one in virtual time and at a real broker: times are nanoseconds of some clock.
//!
//! Working is sleeping: a handler is busy until a time. These times are absolute, like those of the publisher: one that wakes
//! late from one message is not late with the next, so that errors of the machine do not add up to a slower worker. How late
//! is measured and decides whether the trial counts.
//!
//! *Knows:* messages by number, and time. *Must never know:* sockets.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_model::Reliability;
use thalweg_mqtt::{ReportRules, Reporter};

use super::scenario::{self, Acks, Reports};

/// A message as a worker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub job: usize,
    /// Which connection of this worker brought it.
    connection: u32,
    /// Its packet identifier there.
    id: u16,
    /// As reliably it came.
    reliability: Reliability,
    came: u64,
}

/// What a worker says of a message on the connection that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acknowledgement {
    /// Exactly once, the first step: it has it.
    Recorded(u16),
    /// It is done with it, as far as the broker is concerned.
    Settled(u16, Reliability),
}

/// A handler at work.
#[derive(Clone, Copy, Debug)]
struct Busy {
    held: Held,
    /// When it should be done.
    ends: u64,
    number: u64,
    takes: u64,
}

/// What was begun: come back then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    pub job: usize,
    pub ends: u64,
    /// Of all sleeps of this worker.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    pub job: usize,
    /// By how many nanoseconds it woke too late.
    pub late: u64,
}

#[derive(Debug)]
pub struct Worker {
    spec: scenario::Worker,
    /// The connection that it has by its own state.
    pub connection: Option<u32>,
    queue: VecDeque<Held>,
    busy: Vec<Busy>,
    sleeps: u64,
    /// When each handler that is free was to be free.
    free: Vec<u64>,
    /// How many times as long as usual everything takes.
    pub slow: f64,
    /// Since when nothing is done.
    stopped: Option<u64>,
    /// Unsettled messages in the order of their arrival, in which they are settled [MQTT-4.6.0-2], and whether they may be.
    owed: VecDeque<(u16, Reliability, bool)>,
    /// Exactly once: recorded, and not released.
    recorded: Vec<Held>,
    said: Vec<Acknowledgement>,
    book: Option<Reporter>,
    report_at: Option<u64>,
}

impl Worker {
    pub fn new(spec: &scenario::Worker) -> Worker {
        Worker {
            spec: *spec,
            connection: None,
            queue: VecDeque::new(),
            busy: Vec::new(),
            sleeps: 0,
            free: vec![0; spec.handlers.max(1) as usize],
            slow: 1.0,
            stopped: None,
            owed: VecDeque::new(),
            recorded: Vec::new(),
            said: Vec::new(),
            book: None,
            report_at: None,
        }
    }

    /// A connection begins, and with it the book; so large a part of the first interval between reports has passed.
    pub fn connected(&mut self, connection: u32, now: u64, phase: f64) {
        self.connection = Some(connection);
        self.owed.clear();
        self.recorded.clear();
        self.report_at = None;
        self.book = self.spec.reports.every().map(|every| {
            let every = Duration::from_secs_f64(every);
            let rules = ReportRules {
                concurrency: match self.spec.declares {
                    true => self.spec.handlers as u16,
                    false => 1,
                },
                on_events: matches!(self.spec.reports, Reports::Events(_)),
                ..ReportRules::every(every)
            };
            Reporter::new(rules, span(now).saturating_sub(every.mul_f64(phase)))
        });
    }

    /// A message came on the connection that it has.
    pub fn message(&mut self, job: usize, id: u16, reliability: Reliability, now: u64) {
        let held = Held {
            job,
            connection: self.connection.unwrap_or_default(),
            id,
            reliability,
            came: now,
        };
        if reliability == Reliability::ExactlyOnce && self.spec.acks != Acks::Recorded {
            self.recorded.push(held);
            return self.said.push(Acknowledgement::Recorded(id));
        }
        self.take(held);
    }

    /// The broker has released an exactly-once message.
    pub fn released(&mut self, id: u16, now: u64) {
        match self.recorded.iter().position(|held| held.id == id) {
            Some(at) => {
                let held = self.recorded.remove(at);
                self.take(Held { came: now, ..held });
            }
            // It was done with before.
            None => self
                .said
                .push(Acknowledgement::Settled(id, Reliability::ExactlyOnce)),
        }
    }

    /// A message is the worker's to do.
    fn take(&mut self, held: Held) {
        self.queue.push_back(held);
        if held.reliability != Reliability::AtMostOnce {
            self.owed.push_back((held.id, held.reliability, false));
        }
        if let Some(book) = &mut self.book {
            book.received(span(held.came));
        }
        if self.spec.acks == Acks::Receipt {
            self.may_settle(held);
        }
    }

    /// Settles what may be settled. What a connection brought is settled on that connection or never.
    fn may_settle(&mut self, held: Held) {
        if self.connection != Some(held.connection) {
            return;
        }
        let mut owed = self.owed.iter_mut();
        if let Some(owed) = owed.find(|owed| owed.0 == held.id && !owed.2) {
            owed.2 = true;
        }
        while let Some((id, reliability, true)) = self.owed.front().copied() {
            self.owed.pop_front();
            self.said.push(match (reliability, self.spec.acks) {
                (Reliability::ExactlyOnce, Acks::Recorded) => Acknowledgement::Recorded(id),
                _ => Acknowledgement::Settled(id, reliability),
            });
        }
    }

    /// Begins with the next message, if there is one and a handler; `seconds` is what a message takes of a worker that is
    /// not slow.
    pub fn begin(&mut self, seconds: &dyn Fn(usize) -> f64, now: u64) -> Option<Sleep> {
        if self.stopped.is_some() {
            return None;
        }
        let came = self.queue.front()?.came;
        // A handler that woke late begins when it should have.
        let begins = self.free.pop()?.max(came).min(now);
        let held = self.queue.pop_front()?;
        let takes = (seconds(held.job) * self.slow * 1e9).round() as u64;
        self.sleeps += 1;
        let (ends, number) = (begins + takes, self.sleeps);
        self.busy.push(Busy {
            held,
            ends,
            number,
            takes,
        });
        if let Some(book) = &mut self.book {
            book.started();
        }
        if self.spec.acks == Acks::Started {
            self.may_settle(held);
        }
        let job = held.job;
        Some(Sleep { job, ends, number })
    }

    /// A sleep is over; nothing if it was cut short by something else.
    pub fn wake(&mut self, number: u64, now: u64) -> Option<Finished> {
        if self.stopped.is_some() {
            return None;
        }
        let at = self.busy.iter().position(|busy| busy.number == number)?;
        let Busy {
            held, ends, takes, ..
        } = self.busy.swap_remove(at);
        self.free.push(ends);
        if let Some(book) = &mut self.book {
            book.finished(1, Duration::from_nanos(takes));
        }
        if matches!(self.spec.acks, Acks::Processed | Acks::Recorded) {
            self.may_settle(held);
        }
        Some(Finished {
            job: held.job,
            late: now.saturating_sub(ends),
        })
    }

    /// Everything stands still from now on.
    pub fn stop(&mut self, now: u64) {
        self.stopped.get_or_insert(now);
    }

    /// It goes on: what was begun sleeps on for the rest.
    pub fn go_on(&mut self, now: u64) -> Vec<Sleep> {
        let Some(since) = self.stopped.take() else {
            return Vec::new();
        };
        // What came meanwhile could not be begun.
        self.free.iter_mut().for_each(|free| *free = now);
        let again = self.busy.iter_mut().map(|busy| {
            self.sleeps += 1;
            (busy.ends, busy.number) = (busy.ends + (now - since), self.sleeps);
            Sleep {
                job: busy.held.job,
                ends: busy.ends,
                number: busy.number,
            }
        });
        again.collect()
    }

    /// The process ends: all that was here is gone.
    pub fn forget(&mut self) {
        *self = Worker {
            sleeps: self.sleeps,
            ..Worker::new(&self.spec)
        };
    }

    /// Messages that it has and has not processed.
    pub fn unprocessed(&self) -> usize {
        self.queue.len() + self.busy.len()
    }

    /// What it has to say since it was asked last, in order.
    pub fn said(&mut self) -> Vec<Acknowledgement> {
        std::mem::take(&mut self.said)
    }

    /// What waits and what a message takes, if a report is due.
    pub fn report(&mut self, now: u64) -> Option<(u64, Duration)> {
        self.report_at = self.report_at.filter(|at| *at > now);
        let book = self.book.as_mut().filter(|book| book.is_due(span(now)))?;
        let load = book.report(span(now));
        Some((load.waiting, load.each))
    }

    /// When to look for a report again, unless that was said before.
    pub fn look_at(&mut self, now: u64) -> Option<u64> {
        let at = self.book.as_ref()?.poll_timeout(span(now))?;
        let at = (at.as_nanos() as u64).max(now);
        let planned = self.report_at.filter(|planned| *planned >= now);
        if planned.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.report_at = Some(at);
        self.report_at
    }
}

fn span(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that takes messages at most once.
    fn worker() -> Worker {
        let mut worker = Worker::new(&scenario::worker(0.05));
        worker.connected(1, 0, 0.0);
        worker
    }

    fn take(worker: &mut Worker, job: usize, came: u64) {
        worker.message(job, 0, Reliability::AtMostOnce, came);
    }

    const EACH: &dyn Fn(usize) -> f64 = &|_| 50e-9;

    #[test]
    fn one_that_wakes_late_is_not_late_with_the_next() {
        let mut worker = worker();
        take(&mut worker, 0, 100);
        take(&mut worker, 1, 110);
        let first = worker.begin(EACH, 100).expect("a handler is free");
        assert_eq!((first.ends, worker.begin(EACH, 100)), (150, None));
        let done = worker.wake(first.number, 157);
        assert_eq!(done.map(|done| done.late), Some(7));
        assert_eq!(worker.begin(EACH, 157).map(|begun| begun.ends), Some(200));
    }

    #[test]
    fn one_that_was_idle_begins_when_the_message_comes() {
        let mut worker = worker();
        take(&mut worker, 0, 100);
        let first = worker.begin(EACH, 100).expect("a handler is free");
        worker.wake(first.number, 150);
        take(&mut worker, 1, 400);
        assert_eq!(worker.begin(EACH, 400).map(|begun| begun.ends), Some(450));
    }

    #[test]
    fn what_stands_still_needs_the_rest_of_its_time_afterwards() {
        let mut worker = worker();
        take(&mut worker, 0, 0);
        take(&mut worker, 1, 0);
        let first = worker.begin(EACH, 0).expect("a handler is free");
        worker.stop(20);
        let meanwhile = (worker.wake(first.number, 50), worker.begin(EACH, 50));
        assert_eq!(meanwhile, (None, None));
        let again = worker.go_on(1000);
        let ends: Vec<u64> = again.iter().map(|begun| begun.ends).collect();
        assert_eq!(ends, [1030]);
        let old = worker.wake(first.number, 1030);
        assert_eq!(old, None, "the old sleep does not count");
        assert!(worker.wake(again[0].number, 1030).is_some());
        // What came while it stood still is begun when it goes on.
        worker.stop(1030);
        take(&mut worker, 2, 1040);
        worker.go_on(2000);
        assert_eq!(worker.begin(EACH, 2000).map(|begun| begun.ends), Some(2050));
    }

    #[test]
    fn a_slow_worker_takes_longer_and_says_so() {
        let mut worker = Worker::new(&scenario::Worker {
            reports: Reports::Every(1.0),
            ..scenario::worker(0.025)
        });
        worker.connected(1, 0, 0.0);
        worker.slow = 4.0;
        (0..20).for_each(|job| take(&mut worker, job, 0));
        let begun = worker.begin(&|_| 0.025, 0).expect("a handler is free");
        assert_eq!(begun.ends, 100_000_000);
        worker.wake(begun.number, begun.ends);
        let second = Some(1_000_000_000);
        assert_eq!(
            (worker.report(999_999_999), worker.look_at(0)),
            (None, second)
        );
        assert_eq!(worker.look_at(0), None, "it was said before");
        let report = worker.report(1_000_000_000).expect("a second has passed");
        let each = Duration::from_millis(100);
        assert_eq!(report, (19, each));
    }

    #[test]
    fn messages_are_settled_in_the_order_of_their_arrival_on_the_connection_that_brought_them() {
        use Reliability::{AtLeastOnce, ExactlyOnce};
        let mut worker = Worker::new(&scenario::Worker {
            handlers: 2,
            ..scenario::worker(0.05)
        });
        worker.connected(1, 0, 0.0);
        worker.message(0, 7, AtLeastOnce, 0);
        worker.message(1, 8, AtLeastOnce, 0);
        let takes = |job: usize| [100e-9, 50e-9, 50e-9][job];
        let [long, short] = [0, 1].map(|_| worker.begin(&takes, 0).expect("two handlers"));
        worker.wake(short.number, 50);
        assert!(worker.said().is_empty(), "the one before it is not done");
        worker.wake(long.number, 100);
        assert_eq!(
            worker.said(),
            [7, 8].map(|id| Acknowledgement::Settled(id, AtLeastOnce))
        );
        // Exactly once: recorded at once, worked on when it is released.
        worker.message(2, 9, ExactlyOnce, 100);
        assert_eq!(worker.said(), [Acknowledgement::Recorded(9)]);
        assert_eq!(worker.begin(&takes, 100), None);
        worker.released(9, 100);
        let begun = worker.begin(&takes, 100).expect("it was released");
        worker.connected(2, 120, 0.0);
        worker.wake(begun.number, 150);
        assert!(worker.said().is_empty(), "its connection is gone");
    }
}
