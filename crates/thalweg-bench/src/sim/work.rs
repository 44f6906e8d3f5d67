//! A worker: what it has, what its handlers do, what it says and when.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_kernel::Tag;
use thalweg_model::{Reliability, Time};
use thalweg_mqtt::{ReportRules, Reporter};

use super::scenario::{Acks, Reports, Worker};
use super::world::{Event, World, seconds, span};

/// Something on its way between the broker and a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    // To the worker.
    Message { job: usize, tag: Tag },
    Released(Tag),
    Closed,
    // To the broker.
    Settled(Tag),
    Recorded(Tag),
    Report { waiting: u64, each: u64 },
}

/// A message at a worker, and the connection it came on.
#[derive(Clone, Copy)]
struct Held {
    job: usize,
    tag: Tag,
    connection: u32,
}

struct Busy {
    number: u64,
    held: Held,
    ends: Time,
    spent: f64,
}

/// A worker as it sees itself.
pub(super) struct Client {
    pub(super) alive: bool,
    pub(super) slow: f64,
    /// The connection that it has by its own state.
    pub(super) connection: Option<u32>,
    /// Messages that were sent to it and that it has not processed.
    pub(super) unprocessed: usize,
    frozen: bool,
    stuck_until: Time,
    /// What came while it was frozen.
    unread: VecDeque<(u32, Word)>,
    queue: VecDeque<Held>,
    busy: Vec<Busy>,
    /// Frozen: how long each handler still takes.
    left: Vec<f64>,
    number: u64,
    /// Unsettled messages in the order of their arrival, and whether they may be settled.
    unsettled: VecDeque<(Tag, bool)>,
    /// Exactly once: recorded, and not released.
    recorded: Vec<(usize, Tag)>,
    reporter: Option<Reporter>,
    report_at: Option<Time>,
}

impl Client {
    pub(super) fn new(_: &Worker) -> Self {
        Client {
            alive: true,
            slow: 1.0,
            connection: None,
            unprocessed: 0,
            frozen: false,
            stuck_until: Time::ZERO,
            unread: VecDeque::new(),
            queue: VecDeque::new(),
            busy: Vec::new(),
            left: Vec::new(),
            number: 0,
            unsettled: VecDeque::new(),
            recorded: Vec::new(),
            reporter: None,
            report_at: None,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.alive && !self.frozen
    }
}

fn clock(now: Time) -> Duration {
    Duration::from_nanos(now.nanos())
}

impl World<'_> {
    /// Everything that a worker had is gone, and it with it.
    pub(super) fn end(&mut self, worker: usize) {
        self.clients[worker] = Client {
            alive: false,
            ..Client::new(&self.scenario.workers[worker])
        };
    }

    /// A worker has a connection. Its reports are somewhere in their interval.
    pub(super) fn client_connected(&mut self, worker: usize, connection: u32, phase: f64) {
        let spec = self.scenario.workers[worker];
        let now = clock(self.now);
        let rules = match spec.reports {
            Reports::Never => None,
            Reports::Every(every) | Reports::Idle(every) | Reports::Wild(every) => {
                Some(ReportRules::every(Duration::from_secs_f64(every)))
            }
            Reports::Events(every) => Some(ReportRules {
                on_events: true,
                ..ReportRules::every(Duration::from_secs_f64(every))
            }),
        };
        let client = &mut self.clients[worker];
        client.alive = true;
        client.connection = Some(connection);
        client.unprocessed = client.queue.len() + client.busy.len();
        client.unsettled.clear();
        client.recorded.clear();
        client.reporter = rules.map(|rules| {
            let rules = ReportRules {
                concurrency: if spec.declares {
                    spec.handlers as u16
                } else {
                    1
                },
                ..rules
            };
            let every = rules.every.unwrap_or_default();
            Reporter::new(rules, now.saturating_sub(every.mul_f64(phase)))
        });
        client.report_at = None;
        self.plan_report(worker);
    }

    pub(super) fn arrives(&mut self, worker: usize, connection: u32, word: Word) {
        let client = &mut self.clients[worker];
        if !client.alive || client.connection != Some(connection) {
            return;
        }
        if client.frozen {
            client.unread.push_back((connection, word));
            return;
        }
        let acks = self.scenario.workers[worker].acks;
        match word {
            Word::Message { job, tag } => {
                if self.is_exactly_once(worker, tag) && acks != Acks::Recorded {
                    self.clients[worker].recorded.push((job, tag));
                    self.say(worker, connection, Word::Recorded(tag));
                    return;
                }
                let held = Held {
                    job,
                    tag,
                    connection,
                };
                self.take(worker, held);
            }
            Word::Released(tag) => {
                let recorded = &mut self.clients[worker].recorded;
                let Some(at) = recorded.iter().position(|(_, it)| *it == tag) else {
                    // It was done with before.
                    return self.say(worker, connection, Word::Settled(tag));
                };
                let (job, tag) = recorded.remove(at);
                let held = Held {
                    job,
                    tag,
                    connection,
                };
                self.take(worker, held);
            }
            Word::Closed => {
                // It goes on with what it has, without reporting it.
                self.clients[worker].connection = None;
                let rtt = self.scenario.workers[worker].rtt;
                self.after(2.0 * rtt, Event::Connects(worker));
            }
            Word::Settled(_) | Word::Recorded(_) | Word::Report { .. } => {}
        }
    }

    fn is_exactly_once(&self, worker: usize, tag: Tag) -> bool {
        let reliability = self.scenario.workers[worker]
            .reliability
            .min(self.scenario.reliability);
        tag != 0 && reliability == Reliability::ExactlyOnce
    }

    /// A message is the worker's to do.
    fn take(&mut self, worker: usize, held: Held) {
        let now = clock(self.now);
        let client = &mut self.clients[worker];
        client.queue.push_back(held);
        if held.tag != 0 {
            client.unsettled.push_back((held.tag, false));
        }
        if let Some(reporter) = &mut client.reporter {
            reporter.received(now);
        }
        if self.scenario.workers[worker].acks == Acks::Receipt {
            self.may_settle(worker, held);
        }
        self.begin(worker);
        self.plan_report(worker);
    }

    /// Settles what may be settled, in the order of arrival.
    fn may_settle(&mut self, worker: usize, held: Held) {
        if held.tag == 0 || self.clients[worker].connection != Some(held.connection) {
            return;
        }
        if let Some(entry) = self.clients[worker]
            .unsettled
            .iter_mut()
            .find(|(tag, _)| *tag == held.tag)
        {
            entry.1 = true;
        }
        let records = self.scenario.workers[worker].acks == Acks::Recorded
            && self.is_exactly_once(worker, held.tag);
        while let Some((tag, true)) = self.clients[worker].unsettled.front().copied() {
            self.clients[worker].unsettled.pop_front();
            let word = if records {
                Word::Recorded(tag)
            } else {
                Word::Settled(tag)
            };
            self.say(worker, held.connection, word);
        }
    }

    fn begin(&mut self, worker: usize) {
        let spec = self.scenario.workers[worker];
        while self.clients[worker].is_active()
            && self.clients[worker].busy.len() < spec.handlers as usize
        {
            let Some(held) = self.clients[worker].queue.pop_front() else {
                break;
            };
            self.note_begin(worker, held.job);
            let client = &mut self.clients[worker];
            if let Some(reporter) = &mut client.reporter {
                reporter.started();
            }
            let spent = spec.mean * client.slow * self.jobs[held.job].work;
            let ends = self.now.max(client.stuck_until) + span(spent);
            client.number += 1;
            let number = client.number;
            client.busy.push(Busy {
                number,
                held,
                ends,
                spent,
            });
            self.at(ends, Event::Done { worker, number });
            if spec.acks == Acks::Started {
                self.may_settle(worker, held);
            }
        }
    }

    fn note_begin(&mut self, worker: usize, job: usize) {
        if self.started[job].is_finite() {
            return;
        }
        self.started[job] = seconds(self.now);
        if self.scenario.keys > 0 {
            let key = self.jobs[job].key;
            if let Some((last, whose)) = self.begun.insert(key, (job, worker)) {
                let at_once = whose != worker && !self.done[last].is_finite();
                self.outcome.inversions += usize::from(last > job || at_once);
            }
        }
    }

    pub(super) fn handler_done(&mut self, worker: usize, number: u64) {
        let (now, now_seconds) = (self.now, seconds(self.now));
        let client = &mut self.clients[worker];
        // It may have been put off.
        let Some(at) = client
            .busy
            .iter()
            .position(|busy| busy.number == number && busy.ends == now)
        else {
            return;
        };
        if client.frozen {
            return;
        }
        let Busy { held, spent, .. } = client.busy.remove(at);
        client.unprocessed = client.unprocessed.saturating_sub(1);
        if let Some(reporter) = &mut client.reporter {
            reporter.finished(1, Duration::from_secs_f64(spent));
        }
        if self.done[held.job].is_finite() {
            self.outcome.processed_twice += 1;
        } else {
            self.done[held.job] = now_seconds;
            self.undone -= 1;
        }
        if matches!(
            self.scenario.workers[worker].acks,
            Acks::Processed | Acks::Recorded
        ) {
            self.may_settle(worker, held);
        }
        self.begin(worker);
        self.plan_report(worker);
    }

    pub(super) fn freeze(&mut self, worker: usize) {
        let now = seconds(self.now);
        let client = &mut self.clients[worker];
        client.frozen = true;
        client.left = client
            .busy
            .iter()
            .map(|busy| (seconds(busy.ends) - now).max(0.0))
            .collect();
        client
            .busy
            .iter_mut()
            .for_each(|busy| busy.ends = Time::NEVER);
    }

    pub(super) fn thaw(&mut self, worker: usize) {
        let now = self.now;
        let client = &mut self.clients[worker];
        client.frozen = false;
        let left = std::mem::take(&mut client.left);
        for (busy, left) in client.busy.iter_mut().zip(left) {
            busy.ends = now + span(left);
        }
        let again: Vec<(u64, Time)> = client
            .busy
            .iter()
            .map(|busy| (busy.number, busy.ends))
            .collect();
        let unread = std::mem::take(&mut client.unread);
        for (number, ends) in again {
            self.at(ends, Event::Done { worker, number });
        }
        for (connection, word) in unread {
            self.arrives(worker, connection, word);
        }
        self.begin(worker);
        self.plan_report(worker);
    }

    /// Handlers stop for so long.
    pub(super) fn stick(&mut self, worker: usize, lasts: f64) {
        let now = self.now;
        let client = &mut self.clients[worker];
        client.stuck_until = now + span(lasts);
        client
            .busy
            .iter_mut()
            .for_each(|busy| busy.ends += span(lasts));
        let again: Vec<(u64, Time)> = client
            .busy
            .iter()
            .map(|busy| (busy.number, busy.ends))
            .collect();
        for (number, ends) in again {
            self.at(ends, Event::Done { worker, number });
        }
    }

    /// Looks again when a report is due.
    fn plan_report(&mut self, worker: usize) {
        let now = self.now;
        let client = &mut self.clients[worker];
        let due = client
            .reporter
            .as_ref()
            .and_then(|reporter| reporter.poll_timeout(clock(now)));
        let Some(due) = due else { return };
        let due = Time::from_nanos(due.as_nanos() as u64).max(now);
        if client.report_at.is_none_or(|at| due < at || at < now) {
            client.report_at = Some(due);
            self.at(due, Event::ReportDue { worker });
        }
    }

    pub(super) fn report_due(&mut self, worker: usize) {
        let (now, spec) = (self.now, self.scenario.workers[worker]);
        let client = &mut self.clients[worker];
        if client.report_at != Some(now) {
            return;
        }
        client.report_at = None;
        let (Some(reporter), Some(connection)) = (&mut client.reporter, client.connection) else {
            return;
        };
        if !client.alive {
            return;
        }
        if reporter.is_due(clock(now)) {
            let load = reporter.report(clock(now));
            let word = match spec.reports {
                Reports::Idle(_) => Word::Report {
                    waiting: 0,
                    each: 1_000,
                },
                _ => Word::Report {
                    waiting: load.waiting.min(spec.counts_to),
                    each: load.each.as_nanos() as u64,
                },
            };
            if !client.frozen {
                self.say(worker, connection, word);
            }
        }
        self.plan_report(worker);
    }
}
