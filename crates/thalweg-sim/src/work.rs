//! A worker in virtual time: the one of [`super::worker`], the process around it, and what it and the broker say to each other.

use std::collections::VecDeque;

use thalweg_kernel::Tag;
use thalweg_model::{Reliability, Time};

use super::scenario::{self, Reports};
use super::worker::{Acknowledgement, Sleep, Worker};
use super::world::{Event, World, seconds};

/// Something on its way between the broker and a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    // To the worker.
    Message { job: usize, tag: Tag },
    Released(Tag),
    Closed,
    // To the broker.
    Said(Acknowledgement),
    Report { waiting: u64, each: u64 },
}

/// A worker as it sees itself.
pub(super) struct Client {
    pub(super) alive: bool,
    pub(super) work: Worker,
    /// Messages that were sent to it and that it has not processed.
    pub(super) unprocessed: usize,
    frozen: bool,
    /// What came while it was frozen.
    unread: VecDeque<(u32, Word)>,
}

impl Client {
    pub(super) fn new(spec: &scenario::Worker) -> Self {
        Client {
            alive: true,
            work: Worker::new(spec),
            unprocessed: 0,
            frozen: false,
            unread: VecDeque::new(),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.alive && !self.frozen
    }
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
        let now = self.now.nanos();
        let client = &mut self.clients[worker];
        client.alive = true;
        client.work.connected(connection, now, phase);
        client.unprocessed = client.work.unprocessed();
        self.plan_report(worker);
    }

    pub(super) fn arrives(&mut self, worker: usize, connection: u32, word: Word) {
        let now = self.now.nanos();
        let client = &mut self.clients[worker];
        if !client.alive || client.work.connection != Some(connection) {
            return;
        }
        if client.frozen {
            client.unread.push_back((connection, word));
            return;
        }
        let own = self.scenario.workers[worker].reliability;
        match word {
            Word::Message { job, tag } => {
                let reliability = match tag {
                    0 => Reliability::AtMostOnce,
                    _ => self.scenario.reliability.min(own),
                };
                client.work.message(job, tag, reliability, now);
            }
            Word::Released(tag) => client.work.released(tag, now),
            Word::Closed => {
                // It goes on with what it has, without reporting it.
                client.work.connection = None;
                let rtt = self.scenario.workers[worker].rtt;
                return self.after(2.0 * rtt, Event::Connects(worker));
            }
            Word::Said(_) | Word::Report { .. } => {}
        }
        self.go_on(worker);
    }

    /// A worker begins what it can, and says what it has to.
    fn go_on(&mut self, worker: usize) {
        let mean = self.scenario.workers[worker].mean;
        loop {
            let World { clients, jobs, .. } = self;
            let takes = |job: usize| mean * jobs[job].work;
            let Some(begun) = clients[worker].work.begin(&takes, self.now.nanos()) else {
                break;
            };
            self.note_begin(worker, begun.job);
            self.sleeps(worker, begun);
        }
        let work = &mut self.clients[worker].work;
        if let (Some(connection), said) = (work.connection, work.said()) {
            for said in said {
                self.say(worker, connection, Word::Said(said));
            }
        }
        self.plan_report(worker);
    }

    fn sleeps(&mut self, worker: usize, begun: Sleep) {
        let done = Event::Done(worker, begun.number);
        self.at(Time::from_nanos(begun.ends), done);
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
        let client = &mut self.clients[worker];
        let Some(finished) = client.work.wake(number, self.now.nanos()) else {
            return;
        };
        client.unprocessed = client.unprocessed.saturating_sub(1);
        let done = &mut self.done[finished.job];
        if done.is_finite() {
            self.outcome.processed_twice += 1;
        } else {
            *done = seconds(self.now);
            self.undone -= 1;
        }
        self.go_on(worker);
    }

    /// Its process does nothing and hears nothing from now on.
    pub(super) fn freeze(&mut self, worker: usize) {
        self.clients[worker].frozen = true;
        self.stick(worker);
    }

    /// Its handlers do nothing from now on.
    pub(super) fn stick(&mut self, worker: usize) {
        self.clients[worker].work.stop(self.now.nanos());
    }

    /// It goes on with what it has, and with what came meanwhile.
    pub(super) fn thaw(&mut self, worker: usize) {
        let client = &mut self.clients[worker];
        client.frozen = false;
        let again = client.work.go_on(self.now.nanos());
        let unread = std::mem::take(&mut client.unread);
        for begun in again {
            self.sleeps(worker, begun);
        }
        for (connection, word) in unread {
            self.arrives(worker, connection, word);
        }
        self.go_on(worker);
    }

    /// Looks again when a report is due.
    fn plan_report(&mut self, worker: usize) {
        if let Some(due) = self.clients[worker].work.look_at(self.now.nanos()) {
            self.at(Time::from_nanos(due), Event::ReportDue(worker));
        }
    }

    pub(super) fn report_due(&mut self, worker: usize) {
        let reports = self.scenario.workers[worker].reports;
        let client = &mut self.clients[worker];
        let Some(connection) = client.work.connection.filter(|_| client.alive) else {
            return;
        };
        if let Some((waiting, each)) = client.work.report(self.now.nanos())
            && !client.frozen
        {
            let (waiting, each) = match reports {
                Reports::Idle(_) => (0, 1_000),
                _ => (waiting, each.as_nanos() as u64),
            };
            self.say(worker, connection, Word::Report { waiting, each });
        }
        self.plan_report(worker);
    }
}
