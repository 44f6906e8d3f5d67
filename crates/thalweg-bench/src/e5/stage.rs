//! A cell while it runs: its publisher, its workers, its messages, and what happens to them.
//!
//! ```text
//!  Joining ── all have subscribed ──> Running ── the last is published ──> Draining ── all done, or patience over ──> Over
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use thalweg_mqtt::load::Report;

use super::line::{Event, Header, Introduction, Link};
use super::task::{Task, qos, words};
use super::trial::{Message, NEVER, NOBODY, Trial};
use crate::sim::scenario::{Incident, Job, Reports, What};
use crate::sim::worker::{self, Sleep};

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The next message is to be published.
    Publish,
    /// A hand of a worker wakes.
    Wake { worker: usize, sleep: u64 },
    /// A report may be due.
    Report(usize),
    /// Something on the way of a line arrives.
    Travel(usize),
    /// A worker connects, or does so again.
    Connect(usize),
    /// An incident of the scenario begins.
    Incident(usize),
    /// An incident of the scenario ends.
    IncidentEnds(usize),
    /// The run is given up.
    GiveUp,
}

/// What a stage may use.
pub struct Around<'a> {
    /// Tells when sockets have something.
    pub epoll: &'a OwnedFd,
    /// What is to be told to the stage later.
    pub later: &'a mut Vec<(u64, Due)>,
    /// Nanoseconds of the run's clock.
    pub now: u64,
}

/// The number of the publisher's line; workers count from 0.
pub const PUBLISHER: usize = 0xFFFF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Joining,
    Running,
    Draining,
    Over,
}

#[derive(Debug)]
struct Worker {
    line: Option<Link>,
    /// Its current or last connection.
    connection: u32,
    has_joined: bool,
    work: worker::Worker,
    /// Takes no part any more, or not yet.
    is_gone: bool,
    /// Its process does nothing.
    is_frozen: bool,
    reports: u64,
    bytes: u64,
}

/// A cell while it runs.
#[derive(Debug)]
pub struct Stage {
    task: Task,
    address: SocketAddr,
    /// Upper half of the tokens of its lines.
    token: u64,
    jobs: Vec<Job>,
    publisher: Option<Link>,
    workers: Vec<Worker>,
    phase: Phase,
    /// When time was 0.
    begun: u64,
    next: usize,
    /// When messages are due relative to the clock.
    messages: Vec<Message>,
    unfinished: usize,
    late: Vec<u64>,
    closed: u32,
    incident: u64,
    wrong: Option<String>,
}

impl Stage {
    pub fn new(task: Task, address: SocketAddr, token: u64, around: &mut Around<'_>) -> Stage {
        let jobs = task.scenario.jobs();
        let workers = task.scenario.workers.iter().map(|worker| Worker {
            line: None,
            connection: 0,
            has_joined: false,
            work: worker::Worker::new(worker),
            is_gone: false,
            is_frozen: false,
            reports: 0,
            bytes: 0,
        });
        let mut stage = Stage {
            address,
            token,
            publisher: None,
            workers: workers.collect(),
            phase: Phase::Joining,
            begun: 0,
            next: 0,
            messages: Vec::new(),
            unfinished: jobs.len(),
            late: Vec::new(),
            closed: 0,
            incident: NEVER,
            wrong: None,
            jobs,
            task,
        };
        stage.join(around);
        stage
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub fn rate(&self) -> f64 {
        self.task.scenario.rate
    }

    fn join(&mut self, around: &mut Around<'_>) {
        let name = format!("e5-{}-publisher", self.task.number);
        let introduction = Introduction {
            name: &name,
            words: &[],
        };
        let token = self.token | PUBLISHER as u64;
        match Link::open(
            self.address,
            around.epoll,
            token,
            &introduction,
            0,
            around.now,
        ) {
            Ok(line) => self.publisher = Some(line),
            Err(error) => return self.fail(format!("the publisher cannot connect: {error}")),
        }
        let late: Vec<usize> = self
            .task
            .scenario
            .incidents
            .iter()
            .filter_map(joins)
            .collect();
        // One after the other: to connect takes time, in which no other is served.
        for (worker, (it, start)) in self.workers.iter_mut().zip(self.task.starts()).enumerate() {
            it.is_gone = late.contains(&worker);
            if !it.is_gone {
                around
                    .later
                    .push((around.now + (start * 1e9) as u64, Due::Connect(worker)));
            }
        }
    }

    fn connect(&mut self, worker: usize, around: &mut Around<'_>) {
        let spec = self.task.scenario.workers[worker];
        let it = &mut self.workers[worker];
        it.is_gone = false;
        it.connection += 1;
        it.work.connection = None;
        let name = format!("e5-{}-{worker}", self.task.number);
        let words = words(&spec, &self.task.scenario);
        let introduction = Introduction {
            name: &name,
            words: &words,
        };
        // The loopback's own round trip is below a millisecond; what is more, the line adds.
        let delay = if spec.rtt > 0.001 {
            (spec.rtt / 2.0 * 1e9) as u64
        } else {
            0
        };
        match Link::open(
            self.address,
            around.epoll,
            self.token | worker as u64,
            &introduction,
            delay,
            around.now,
        ) {
            Ok(line) => {
                it.line = Some(line);
                travel(it.line.as_ref(), worker, around);
            }
            Err(error) => self.fail(format!("worker {worker} cannot connect: {error}")),
        }
    }

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
        self.phase = Phase::Over;
    }

    /// A socket has something.
    pub fn ready(&mut self, line: usize, can_write: bool, around: &mut Around<'_>) {
        let Some(it) = self.line(line) else { return };
        let written = if can_write {
            it.write_on(around.epoll)
        } else {
            Ok(())
        };
        let read = it.read(around.now);
        self.listen(line, around);
        match written.and(read) {
            Ok(true) => {}
            Ok(false) => self.lose(line, "the broker has hung up", around),
            Err(error) => self.lose(line, &error.to_string(), around),
        }
    }

    fn line(&mut self, line: usize) -> Option<&mut Link> {
        match line {
            PUBLISHER => self.publisher.as_mut(),
            worker => self.workers.get_mut(worker)?.line.as_mut(),
        }
    }

    fn listen(&mut self, line: usize, around: &mut Around<'_>) {
        while let Some(heard) = self.line(line).and_then(Link::hear) {
            let done = match (line, heard) {
                (PUBLISHER, Event::Ended(why)) => {
                    self.fail(format!("the publisher: {why}"));
                    Ok(())
                }
                (PUBLISHER, Event::Received(id)) => {
                    self.with(line, |it| it.release(id, around.epoll, around.now))
                }
                (PUBLISHER, _) => Ok(()),
                (worker, heard) => self.heard(worker, heard, around),
            };
            if let Err(error) = done {
                return self.lose(line, &error.to_string(), around);
            }
        }
        if line != PUBLISHER {
            self.work(line, around);
        }
        travel(self.line(line).as_deref(), line, around);
    }

    fn with(
        &mut self,
        line: usize,
        does: impl FnOnce(&mut Link) -> io::Result<()>,
    ) -> io::Result<()> {
        self.line(line).map_or(Ok(()), does)
    }

    fn heard(&mut self, worker: usize, heard: Event, around: &mut Around<'_>) -> io::Result<()> {
        let spec = self.task.scenario.workers[worker];
        match heard {
            Event::Welcome { takes_reports } => {
                if spec.reports != Reports::Never && !takes_reports {
                    self.wrong
                        .get_or_insert("the broker takes no reports of load".to_owned());
                }
                let it = &mut self.workers[worker];
                it.work.connected(it.connection, around.now, 0.0);
                let (filter, wish) = (self.task.filter(), qos(spec.reliability));
                self.with(worker, |it| {
                    it.subscribe(&filter, wish, around.epoll, around.now)
                })
            }
            Event::Subscribed(true) => {
                self.workers[worker].has_joined = true;
                if self.phase == Phase::Joining
                    && self.workers.iter().all(|it| it.has_joined || it.is_gone)
                {
                    self.begin(around);
                }
                Ok(())
            }
            Event::Subscribed(false) => {
                self.fail(format!("worker {worker} may not subscribe"));
                Ok(())
            }
            Event::Message {
                header,
                reliability,
                id,
                dup,
            } => {
                if self.came(worker, header, dup, around.now) {
                    let job = header.number as usize;
                    let work = &mut self.workers[worker].work;
                    work.message(job, id, reliability, around.now);
                }
                Ok(())
            }
            Event::Released(id) => {
                self.workers[worker].work.released(id, around.now);
                Ok(())
            }
            Event::Ended(why) => Err(io::Error::other(why)),
            Event::Received(_) | Event::Other => Ok(()),
        }
    }

    /// Writes down that a message came; whether it is one of this trial's.
    fn came(&mut self, worker: usize, header: Header, dup: bool, now: u64) -> bool {
        let is_ours = header.cell == self.task.number;
        let message = self.messages.get_mut(header.number as usize);
        let Some(message) = message.filter(|_| is_ours) else {
            self.wrong
                .get_or_insert("a message came that was not sent".to_owned());
            return false;
        };
        message.deliveries += 1;
        if dup {
            message.marked += 1;
            message.resent = message.resent.min(now);
        }
        if message.deliveries == 1 {
            (message.received, message.member) = (now, worker as u16);
        } else {
            message.again = message.again.min(now);
        }
        true
    }

    /// Lets a worker begin with what it has, acknowledge, and report.
    fn work(&mut self, worker: usize, around: &mut Around<'_>) {
        let mean = self.task.scenario.workers[worker].mean;
        loop {
            let Stage { workers, jobs, .. } = self;
            let takes = |job: usize| jobs.get(job).map_or(0.0, |job| mean * job.work);
            let Some(begun) = workers[worker].work.begin(&takes, around.now) else {
                break;
            };
            sleeps(worker, begun, around);
            if let Some(message) = self
                .messages
                .get_mut(begun.job)
                .filter(|message| message.taken == NEVER)
            {
                (message.taken, message.member) = (around.now, worker as u16);
            }
        }
        let it = &mut self.workers[worker];
        let said = it.work.said();
        if let Some(line) = &mut it.line
            && let Err(error) = said
                .into_iter()
                .try_for_each(|said| line.say(said, around.epoll, around.now))
        {
            return self.lose(worker, &error.to_string(), around);
        }
        self.tell(worker, around);
    }

    /// Sends the report that is due, and says when the next one may be.
    fn tell(&mut self, worker: usize, around: &mut Around<'_>) {
        let lies = matches!(
            self.task.scenario.workers[worker].reports,
            Reports::Idle(_) | Reports::Wild(_)
        );
        let it = &mut self.workers[worker];
        if it.is_frozen || it.is_gone || !it.has_joined {
            return;
        }
        if let (Some(line), Some((waiting, each))) = (&mut it.line, it.work.report(around.now)) {
            let report = match lies {
                true => Report::new(0, 1.0),
                false => Report::new(
                    u32::try_from(waiting).unwrap_or(u32::MAX),
                    each.as_secs_f64() * 1e3,
                ),
            };
            match line.report(&report, around.epoll, around.now) {
                Ok(told) => it.reports += u64::from(told),
                Err(error) => return self.lose(worker, &error.to_string(), around),
            }
        }
        if let Some(at) = self.workers[worker].work.look_at(around.now) {
            around.later.push((at, Due::Report(worker)));
        }
    }

    /// The time has come: messages are due relative to now.
    fn begin(&mut self, around: &mut Around<'_>) {
        self.phase = Phase::Running;
        self.begun = around.now;
        let begun = self.begun;
        self.messages = self
            .jobs
            .iter()
            .map(|job| Message::due(begun + (job.at * 1e9) as u64))
            .collect();
        for (index, incident) in self.task.scenario.incidents.iter().enumerate() {
            let at = begun + (incident.at * 1e9) as u64;
            around.later.push((at, Due::Incident(index)));
            if incident.lasts > 0.0 {
                around
                    .later
                    .push((at + (incident.lasts * 1e9) as u64, Due::IncidentEnds(index)));
            }
        }
        match self.messages.first() {
            Some(first) => around.later.push((first.intended, Due::Publish)),
            None => self.phase = Phase::Over,
        }
    }

    pub fn due(&mut self, due: Due, around: &mut Around<'_>) {
        if self.is_over() {
            return;
        }
        match due {
            Due::Publish => self.publish(around),
            Due::Wake { worker, sleep } => self.wake(worker, sleep, around),
            Due::Report(worker) => self.tell(worker, around),
            Due::Travel(line) => {
                let done = self.with(line, |it| it.travel(around.epoll, around.now));
                match done {
                    Ok(()) => self.listen(line, around),
                    Err(error) => self.lose(line, &error.to_string(), around),
                }
            }
            Due::Connect(worker) => {
                if self.workers[worker].line.is_none() {
                    self.connect(worker, around);
                }
            }
            Due::Incident(index) => self.happens(index, around),
            Due::IncidentEnds(index) => self.ends(index, around),
            Due::GiveUp => self.phase = Phase::Over,
        }
    }

    fn publish(&mut self, around: &mut Around<'_>) {
        let wish = qos(self.task.scenario.reliability);
        let topic = self.task.topic();
        while let (Some(job), Some(message)) =
            (self.jobs.get(self.next), self.messages.get_mut(self.next))
        {
            let now = around.now;
            if message.intended > now {
                around.later.push((message.intended, Due::Publish));
                return;
            }
            let number = self.next as u32;
            let header = Header {
                cell: self.task.number,
                number,
                intended: message.intended,
                sent: now,
            };
            let topic = format!("{topic}/{}", job.key);
            let Some(line) = &mut self.publisher else {
                return;
            };
            match line.publish(
                &topic,
                &header.payload(job.size as usize),
                wish,
                around.epoll,
                now,
            ) {
                Ok(true) => message.sent = now,
                Ok(false) => {
                    // The Receive Maximum is used up; the lag will tell.
                    around.later.push((now + 1_000_000, Due::Publish));
                    return;
                }
                Err(error) => return self.fail(format!("the publisher: {error}")),
            }
            self.next += 1;
        }
        self.phase = Phase::Draining;
        around
            .later
            .push((around.now + PATIENCE.as_nanos() as u64, Due::GiveUp));
    }

    fn wake(&mut self, worker: usize, sleep: u64, around: &mut Around<'_>) {
        let Some(finished) = self.workers[worker].work.wake(sleep, around.now) else {
            return;
        };
        self.late.push(finished.late);
        if let Some(message) = self.messages.get_mut(finished.job) {
            message.processed += 1;
            if message.done == NEVER {
                (message.done, message.member) = (around.now, worker as u16);
                self.unfinished -= 1;
            }
        }
        self.work(worker, around);
        travel(self.line(worker).as_deref(), worker, around);
        if self.phase == Phase::Draining && self.unfinished == 0 {
            self.phase = Phase::Over;
        }
    }

    /// A connection has ended, and not because we wanted it to.
    fn lose(&mut self, line: usize, why: &str, around: &mut Around<'_>) {
        if line == PUBLISHER {
            return self.fail(format!("the publisher: {why}"));
        }
        let it = &mut self.workers[line];
        if let Some(lost) = it.line.take() {
            it.bytes += lost.bytes_out;
            it.has_joined = false;
            it.work.connection = None;
            self.closed += 1;
            lost.close(around.epoll);
            match self.phase {
                Phase::Joining => self.fail(format!("worker {line}: {why}")),
                _ => around.later.push((
                    around.now + AGAIN_AFTER.as_nanos() as u64,
                    Due::Connect(line),
                )),
            }
        }
    }

    fn happens(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(incident) = self.task.scenario.incidents.get(index).copied() else {
            return;
        };
        self.incident = self.incident.min(around.now);
        let worker = incident.worker;
        let Some(it) = self.workers.get_mut(worker) else {
            return;
        };
        match incident.what {
            What::Freeze | What::Death => {
                it.is_frozen = true;
                it.work.stop(around.now);
                if let Some(line) = &mut it.line {
                    line.look(false, around.epoll);
                }
            }
            What::Stuck => it.work.stop(around.now),
            What::Crash | What::Cut => {
                (it.is_gone, it.has_joined) = (true, false);
                it.work.connection = None;
                if let Some(line) = it.line.take() {
                    it.bytes += line.bytes_out;
                    line.reset(around.epoll);
                }
                if incident.what == What::Crash {
                    it.work.forget();
                }
            }
            What::Slow(factor) => it.work.slow = factor,
            What::Join => self.connect(worker, around),
            What::Burst(_) => {}
        }
    }

    fn ends(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(incident) = self.task.scenario.incidents.get(index).copied() else {
            return;
        };
        let worker = incident.worker;
        let Some(it) = self.workers.get_mut(worker) else {
            return;
        };
        match incident.what {
            What::Freeze | What::Stuck => {
                let begun = it.work.go_on(around.now);
                if std::mem::take(&mut it.is_frozen)
                    && let Some(line) = &mut it.line
                {
                    line.look(true, around.epoll);
                }
                for begun in begun {
                    sleeps(worker, begun, around);
                }
                self.work(worker, around);
            }
            What::Slow(_) => it.work.slow = 1.0,
            What::Cut => self.connect(worker, around),
            What::Death | What::Crash | What::Join | What::Burst(_) => {}
        }
    }

    pub fn leave(mut self, epoll: &OwnedFd) -> Stage {
        for worker in &mut self.workers {
            if let Some(line) = worker.line.take() {
                worker.bytes += line.bytes_out;
                line.close(epoll);
            }
        }
        if let Some(line) = self.publisher.take() {
            line.close(epoll);
        }
        self
    }

    /// What happened, after everybody has gone home.
    pub fn trial(mut self) -> Trial {
        let begun = self.begun;
        for message in &mut self.messages {
            for at in [
                &mut message.intended,
                &mut message.sent,
                &mut message.received,
                &mut message.taken,
                &mut message.done,
                &mut message.again,
                &mut message.resent,
            ] {
                *at = since(*at, begun);
            }
            if message.deliveries == 0 {
                message.member = NOBODY;
            }
        }
        let tenth = self.jobs.get(self.jobs.len() / 10);
        let first_counted = tenth.map_or(0.0, |job| job.at);
        let counted = self.task.scenario.counted;
        Trial {
            wrong: self.wrong,
            counted: counted.unwrap_or((first_counted, f64::INFINITY)),
            late: self.late.iter().map(|late| *late as f64 * 1e-3).collect(),
            reports: self.workers.iter().map(|worker| worker.reports).sum(),
            worker_bytes: self.workers.iter().map(|worker| worker.bytes).sum(),
            closed: self.closed,
            incident: since(self.incident, begun),
            messages: self.messages,
            task: self.task,
        }
    }
}

/// Nanoseconds since the beginning, of what happened.
fn since(at: u64, begun: u64) -> u64 {
    match at {
        NEVER => NEVER,
        _ => at.saturating_sub(begun),
    }
}

/// Asks to be told when a message is done.
fn sleeps(worker: usize, begun: Sleep, around: &mut Around<'_>) {
    let sleep = begun.number;
    around.later.push((begun.ends, Due::Wake { worker, sleep }));
}

fn joins(incident: &Incident) -> Option<usize> {
    (incident.what == What::Join).then_some(incident.worker)
}

/// Asks to be told when the next thing on the way of a line arrives.
fn travel(line: Option<&Link>, number: usize, around: &mut Around<'_>) {
    if let Some(at) = line.and_then(Link::arrives_at) {
        around.later.push((at, Due::Travel(number)));
    }
}

/// How long what was published may take to be processed after the last message.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a worker that lost its connection waits before it makes a new one.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
