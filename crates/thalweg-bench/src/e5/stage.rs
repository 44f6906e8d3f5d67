//! A cell while it runs: its publisher, its workers, its messages, and what happens to them; one thread for all of them.
//!
//! ```text
//!  Joining ── all have subscribed ──> Running ── the last is published ──> Draining ── all done, or patience over ──> Over
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use socket2::SockRef;
use thalweg_model::Reliability;
use thalweg_mqtt::load::Report;
use thalweg_mqtt::{
    ClientEvent, ClientSide, ConnectOut, DisconnectProps, PeerFault, Publish, QoS, ReasonCode,
    SubscribeOptions, SubscribeOut,
};

use super::plan::{LOOPBACK_MAX, Task, qos};
use super::trial::{Message, Trial};
use crate::drivers::socket::Socket;
use crate::load::{Header, Layout, SECOND, SideTable, clock};
use crate::sim::random::Random;
use crate::sim::scenario::{self, Incident, Job, Reports, What};
use crate::sim::worker::{self, Acknowledgement, Sleep};

/// Runs a cell at a broker to its end, or until it is to stop.
pub fn run<'t>(task: &'t Task, address: SocketAddr, stop: &AtomicBool) -> Trial<'t> {
    clock::be_exact();
    let epoll = match epoll::create(epoll::CreateFlags::CLOEXEC) {
        Ok(epoll) => epoll,
        Err(error) => {
            let wrong = Some(error.to_string());
            return Trial {
                wrong,
                ..Trial::of(task)
            };
        }
    };
    let jobs = task.scenario.jobs();
    let worker = |spec: &scenario::Worker| Worker {
        line: None,
        // The loopback's own round trip is below a millisecond; what is more, the line adds.
        way: (spec.rtt > LOOPBACK_MAX).then(|| Way {
            delay: (spec.rtt / 2.0 * 1e9) as u64,
            ..Way::default()
        }),
        connection: 0,
        has_joined: false,
        work: worker::Worker::new(spec),
        is_gone: false,
        is_frozen: false,
    };
    let mut stage = Stage {
        address,
        epoll,
        publisher: None,
        workers: task.scenario.workers.iter().map(worker).collect(),
        phase: Phase::Joining,
        now: clock::now(),
        begun: 0,
        later: BinaryHeap::new(),
        order: 0,
        next: 0,
        unfinished: jobs.len(),
        payload: Vec::new(),
        table: SideTable::default(),
        trial: Trial::of(task),
        jobs,
        task,
    };
    stage.join();
    if let Err(error) = stage.play(stop) {
        stage.fail(error.to_string());
    }
    stage.leave()
}

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The next message is to be published.
    Publish,
    /// A hand of a worker wakes.
    Wake { worker: usize, sleep: u64 },
    /// A report may be due.
    Report(usize),
    /// Something on the way of a worker's line arrives.
    Arrival(usize),
    /// A worker connects, or does so again.
    Connect(usize),
    /// An incident of the scenario begins.
    Incident(usize),
    /// An incident of the scenario ends.
    IncidentEnds(usize),
    /// The run is given up.
    GiveUp,
}

/// The number of the publisher's line; workers count from 0.
const PUBLISHER: usize = 0xFFFF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Joining,
    Running,
    Draining,
    Over,
}

/// What everything on a line takes longer in each direction than on a loopback.
#[derive(Debug, Default)]
struct Way {
    delay: u64,
    /// When it arrives, and what.
    inward: VecDeque<(u64, Vec<u8>)>,
    outward: VecDeque<(u64, Vec<u8>)>,
    /// Bytes to be written that have arrived.
    arrived: usize,
}

#[derive(Debug)]
struct Worker {
    line: Option<Socket>,
    way: Option<Way>,
    /// Its current or last connection.
    connection: u32,
    has_joined: bool,
    work: worker::Worker,
    /// Takes no part any more, or not yet.
    is_gone: bool,
    /// Its process does nothing.
    is_frozen: bool,
}

struct Stage<'t> {
    task: &'t Task,
    address: SocketAddr,
    epoll: OwnedFd,
    jobs: Vec<Job>,
    publisher: Option<Socket>,
    workers: Vec<Worker>,
    phase: Phase,
    /// When what happens now does.
    now: u64,
    /// When time was 0.
    begun: u64,
    later: BinaryHeap<Reverse<(u64, u64, Due)>>,
    /// Of what is due at one time, what was asked for first comes first.
    order: u64,
    next: usize,
    unfinished: usize,
    payload: Vec<u8>,
    table: SideTable,
    trial: Trial<'t>,
}

impl<'t> Stage<'t> {
    fn play(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        while self.phase != Phase::Over {
            if stop.load(Ordering::Relaxed) {
                self.fail("interrupted".to_owned());
                break;
            }
            self.wait(&mut events)?;
            for event in &events {
                self.now = clock::now();
                self.ready(event.data.u64() as usize);
            }
            // What comes due meanwhile has its turn after the sockets.
            let by = clock::now();
            while self.phase != Phase::Over
                && let Some(Reverse((at, _, due))) = self.later.peek().copied()
                && at <= by
            {
                self.later.pop();
                self.now = clock::now();
                self.due(due);
            }
        }
        Ok(())
    }

    /// Sleeps until a socket has something or something is due.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let next = self.later.peek().map(|Reverse((at, ..))| *at);
        let left = next.map_or(SECOND, |at| at.saturating_sub(clock::now()).min(SECOND));
        events.clear();
        // An epoll itself counts in milliseconds.
        match poll(
            &mut [PollFd::new(&self.epoll, PollFlags::IN)],
            Some(&clock::timespec(left)),
        )
        .and_then(|_| {
            epoll::wait(
                &self.epoll,
                spare_capacity(events),
                Some(&clock::timespec(0)),
            )
        }) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn at(&mut self, when: u64, due: Due) {
        self.order += 1;
        self.later.push(Reverse((when, self.order, due)));
    }

    /// Nanoseconds since the first moment of the trial.
    fn since(&self) -> u64 {
        self.now.saturating_sub(self.begun)
    }

    fn join(&mut self) {
        match self.open(PUBLISHER, &[]) {
            Ok(line) => self.publisher = Some(line),
            Err(error) => return self.fail(format!("the publisher cannot connect: {error}")),
        }
        // Cells of one period must not beat in time.
        let seed = self.task.scenario.seed ^ u64::from(self.task.number) << 32;
        let begin = self.now + (Random::new(seed).unit() * START_GAP_MAX) as u64;
        // One after the other: to connect takes time, in which no other is served.
        for (worker, start) in self.task.starts().into_iter().enumerate() {
            let joins = |it: &Incident| it.what == What::Join && it.worker == worker;
            if self.task.scenario.incidents.iter().any(joins) {
                self.workers[worker].is_gone = true;
            } else {
                self.at(begin + (start * 1e9) as u64, Due::Connect(worker));
            }
        }
    }

    fn open(&self, line: usize, terms: &[(&'static str, String)]) -> io::Result<Socket> {
        let name = match line {
            PUBLISHER => format!("e5-{}-publisher", self.task.number),
            worker => format!("e5-{}-{worker}", self.task.number),
        };
        // The keep alive is not the interval of reports (E, errata 11): a report that is late must not end the session.
        let connect = ConnectOut {
            client_id: &name,
            keep_alive: 60,
            user: Some(&terms),
            ..ConnectOut::default()
        };
        // On a loopback this is done at once; a broker elsewhere costs its round trip before anything is measured.
        let mut socket = Socket::open(self.address, Duration::from_secs(5), &connect)?;
        socket.stream.set_nonblocking(true)?;
        socket.watch(&self.epoll, line as u64)?;
        socket.flush(&self.epoll, line as u64)?;
        Ok(socket)
    }

    fn connect(&mut self, worker: usize) {
        let it = &mut self.workers[worker];
        it.is_gone = false;
        it.connection += 1;
        it.work.connection = None;
        it.way = it.way.as_ref().map(|way| Way {
            delay: way.delay,
            ..Way::default()
        });
        match self.open(worker, &self.task.terms(worker)) {
            Ok(line) => self.workers[worker].line = Some(line),
            Err(error) => self.fail(format!("worker {worker} cannot connect: {error}")),
        }
    }

    fn fail(&mut self, why: String) {
        self.trial.wrong.get_or_insert(why);
        self.phase = Phase::Over;
    }

    fn line(&mut self, line: usize) -> &mut Option<Socket> {
        match line {
            PUBLISHER => &mut self.publisher,
            worker => &mut self.workers[worker].line,
        }
    }

    /// Does something with a line that is there, and sends what was said; it is lost if that fails.
    fn with(&mut self, line: usize, does: impl FnOnce(&mut Self, &mut Socket) -> io::Result<()>) {
        let Some(mut socket) = self.line(line).take() else {
            return;
        };
        let done = does(self, &mut socket).and_then(|()| self.send(line, &mut socket));
        match done {
            Ok(()) => *self.line(line) = Some(socket),
            Err(error) => self.lose(line, socket, &error.to_string()),
        }
    }

    /// Sends what was said, or what of it has arrived.
    fn send(&mut self, line: usize, socket: &mut Socket) -> io::Result<()> {
        let now = self.now;
        if let Some(way) = self.way(line) {
            let said = socket.mqtt.out.split_off(way.arrived);
            let at = now + way.delay;
            if !said.is_empty() {
                way.outward.push_back((at, said));
                self.at(at, Due::Arrival(line));
            }
        }
        socket.flush(&self.epoll, line as u64)?;
        if let Some(way) = self.way(line) {
            way.arrived = socket.mqtt.out.len();
        }
        Ok(())
    }

    fn way(&mut self, line: usize) -> Option<&mut Way> {
        self.workers.get_mut(line)?.way.as_mut()
    }

    /// What has been on its way for long enough arrives.
    fn arrives(&mut self, line: usize, socket: &mut Socket) -> io::Result<()> {
        let now = self.now;
        while let Some((_, bytes)) =
            (self.way(line)).and_then(|way| way.inward.pop_front_if(|(at, _)| *at <= now))
        {
            self.understand(line, socket, &bytes)?;
        }
        while let Some(way) = self.way(line)
            && let Some((_, bytes)) = way.outward.pop_front_if(|(at, _)| *at <= now)
        {
            // What was said meanwhile is behind it.
            let arrived = way.arrived;
            way.arrived += bytes.len();
            socket.mqtt.out.splice(arrived..arrived, bytes);
        }
        Ok(())
    }

    /// A socket has something, or takes more.
    fn ready(&mut self, line: usize) {
        self.with(line, |stage, socket| stage.read(line, socket));
        if line != PUBLISHER {
            self.work(line);
        }
    }

    fn read(&mut self, line: usize, socket: &mut Socket) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        while let Some(count) = socket.read(&mut chunk)? {
            if count == 0 {
                return Err(io::Error::other("the broker has hung up"));
            }
            let (bytes, now) = (chunk.get(..count).unwrap_or_default(), self.now);
            match self.way(line) {
                None => self.understand(line, socket, bytes)?,
                Some(way) => {
                    let at = now + way.delay;
                    way.inward.push_back((at, bytes.to_vec()));
                    self.at(at, Due::Arrival(line));
                }
            }
        }
        Ok(())
    }

    fn understand(&mut self, line: usize, socket: &mut Socket, bytes: &[u8]) -> io::Result<()> {
        let mut on = |side: &mut ClientSide, out: &mut Vec<u8>, event: ClientEvent<'_>| {
            self.heard(line, side, out, &event).map(|()| true)
        };
        let broken = |fault: PeerFault| io::Error::other(fault.what);
        socket.mqtt.receive(bytes, &mut on, broken)
    }

    fn heard(
        &mut self,
        line: usize,
        side: &mut ClientSide,
        out: &mut Vec<u8>,
        event: &ClientEvent<'_>,
    ) -> io::Result<()> {
        match event {
            ClientEvent::ConnAck(connack) if connack.values.reason.is_error() => {
                let why = format!("refused: {:?}", connack.values.reason);
                return Err(io::Error::other(why));
            }
            ClientEvent::Disconnect(disconnect) => {
                let why = format!("disconnected: {:?}", disconnect.reason);
                return Err(io::Error::other(why));
            }
            _ if line == PUBLISHER => {}
            ClientEvent::ConnAck(_) => return self.welcome(line, side, out),
            ClientEvent::SubAck(suback) if suback.codes().any(|code| code.is_error()) => {
                self.fail(format!("worker {line} may not subscribe"));
            }
            ClientEvent::SubAck(_) => {
                self.workers[line].has_joined = true;
                let is_whole = self.workers.iter().all(|it| it.has_joined || it.is_gone);
                if self.phase == Phase::Joining && is_whole {
                    self.begin();
                }
            }
            ClientEvent::Publish(publish) => self.came(line, publish),
            _ => {}
        }
        Ok(())
    }

    fn welcome(
        &mut self,
        worker: usize,
        side: &mut ClientSide,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let spec = self.task.scenario.workers[worker];
        if spec.reports != Reports::Never && !side.offer().load_reports {
            let why = "the broker takes no reports of load".to_owned();
            self.trial.wrong.get_or_insert(why);
        }
        let it = &mut self.workers[worker];
        it.work.connected(it.connection, self.now, 0.0);
        let options = SubscribeOptions {
            qos: qos(spec.reliability),
            ..SubscribeOptions::default()
        };
        let subscribe = SubscribeOut {
            id: side.next_id().unwrap_or(1),
            filters: &[(&self.task.filter(), options)],
            ..SubscribeOut::default()
        };
        side.subscribe(&subscribe, out).map_err(io::Error::other)
    }

    /// A message came to a worker.
    fn came(&mut self, worker: usize, publish: &Publish<'_>) {
        let (now, task) = (self.since(), self.task);
        let header = Layout::Binary.read(task.number, "", publish.payload, &self.table);
        let message = header.and_then(|it| self.trial.messages.get_mut(it.seq as usize));
        let (Some(header), Some(message)) = (header, message) else {
            let why = "a message came that was not sent".to_owned();
            self.trial.wrong.get_or_insert(why);
            return;
        };
        message.deliveries += 1;
        if publish.dup {
            message.marked += 1;
            message.resent.get_or_insert(now);
        }
        if message.deliveries == 1 {
            (message.received, message.member) = (Some(now), Some(worker as u16));
        } else {
            message.again.get_or_insert(now);
        }
        let reliability = match publish.qos {
            QoS::AtMostOnce => Reliability::AtMostOnce,
            _ => Reliability::AtLeastOnce,
        };
        let work = &mut self.workers[worker].work;
        work.message(header.seq as usize, publish.id, reliability, self.now);
    }

    /// Lets a worker begin with what it has, acknowledge, and report.
    fn work(&mut self, worker: usize) {
        let mean = self.task.scenario.workers[worker].mean;
        let jobs = std::mem::take(&mut self.jobs);
        let takes = |job: usize| jobs.get(job).map_or(0.0, |job| mean * job.work);
        while let Some(begun) = self.workers[worker].work.begin(&takes, self.now) {
            self.sleeps(worker, begun);
            let now = self.since();
            let message = self.trial.messages.get_mut(begun.job);
            if let Some(message) = message.filter(|message| message.taken.is_none()) {
                (message.taken, message.member) = (Some(now), Some(worker as u16));
            }
        }
        self.jobs = jobs;
        let said = self.workers[worker].work.said();
        self.with(worker, |stage, socket| {
            for said in said {
                // Nothing is exactly once here.
                if let Acknowledgement::Settled(id, _) = said {
                    let mqtt = &mut socket.mqtt;
                    mqtt.side.puback(id, ReasonCode::Success, &mut mqtt.out);
                }
            }
            stage.tell(worker, socket)
        });
    }

    /// Sends the report that is due, and says when the next one may be.
    fn tell(&mut self, worker: usize, socket: &mut Socket) -> io::Result<()> {
        let it = &mut self.workers[worker];
        if it.is_frozen || it.is_gone || !it.has_joined {
            return Ok(());
        }
        if let Some((waiting, each)) = it.work.report(self.now) {
            let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
            let report = Report::new(waiting, each.as_secs_f64() * 1e3);
            let mqtt = &mut socket.mqtt;
            let is_told = mqtt.side.ping_with(&report, &mut mqtt.out);
            self.trial.reports += u64::from(is_told);
        }
        if let Some(at) = it.work.look_at(self.now) {
            self.at(at, Due::Report(worker));
        }
        Ok(())
    }

    /// Asks to be told when a message is done.
    fn sleeps(&mut self, worker: usize, begun: Sleep) {
        let sleep = begun.number;
        self.at(begun.ends, Due::Wake { worker, sleep });
    }

    /// The time has come: messages are due relative to now.
    fn begin(&mut self) {
        self.phase = Phase::Running;
        self.begun = self.now;
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let due = |job: &Job| Message {
            intended: nanos(job.at),
            ..Message::default()
        };
        self.trial.messages = self.jobs.iter().map(due).collect();
        for (index, incident) in self.task.scenario.incidents.iter().enumerate() {
            let at = self.begun + nanos(incident.at);
            self.at(at, Due::Incident(index));
            if incident.lasts > 0.0 {
                self.at(at + nanos(incident.lasts), Due::IncidentEnds(index));
            }
        }
        self.at(self.now, Due::Publish);
    }

    fn due(&mut self, due: Due) {
        match due {
            Due::Publish => self.with(PUBLISHER, Stage::publish),
            Due::Wake { worker, sleep } => self.wake(worker, sleep),
            Due::Report(worker) => self.with(worker, |stage, line| stage.tell(worker, line)),
            Due::Arrival(worker) => {
                self.with(worker, |stage, line| stage.arrives(worker, line));
                self.work(worker);
            }
            Due::Connect(worker) if self.workers[worker].line.is_none() => self.connect(worker),
            Due::Connect(_) => {}
            Due::Incident(index) => self.happens(self.task.scenario.incidents[index]),
            Due::IncidentEnds(index) => self.ends(self.task.scenario.incidents[index]),
            Due::GiveUp => self.phase = Phase::Over,
        }
    }

    fn publish(&mut self, socket: &mut Socket) -> io::Result<()> {
        let (now, wish) = (self.since(), qos(self.task.scenario.reliability));
        while let (Some(job), Some(message)) = (
            self.jobs.get(self.next),
            self.trial.messages.get_mut(self.next),
        ) {
            if message.intended > now {
                let at = self.begun + message.intended;
                self.at(at, Due::Publish);
                return Ok(());
            }
            let header = Header {
                run: self.task.number,
                flow: 0,
                seq: self.next as u32,
                intended: self.begun + message.intended,
                sent: self.now,
            };
            Layout::Binary.write(&header, job.size as usize, &mut self.payload);
            let topic = format!("{}/{}", self.task.topic(), job.key);
            let published = socket.mqtt.publish(&topic, &self.payload, wish);
            if !published.map_err(io::Error::other)? {
                // The Receive Maximum is used up; the lag will tell.
                self.at(self.now + 1_000_000, Due::Publish);
                return Ok(());
            }
            message.sent = Some(now);
            self.next += 1;
        }
        self.phase = Phase::Draining;
        self.at(self.now + PATIENCE, Due::GiveUp);
        Ok(())
    }

    fn wake(&mut self, worker: usize, sleep: u64) {
        let Some(finished) = self.workers[worker].work.wake(sleep, self.now) else {
            return;
        };
        let now = self.since();
        self.trial.late.push(finished.late as f64 * 1e-3);
        if let Some(message) = self.trial.messages.get_mut(finished.job) {
            message.processed += 1;
            if message.done.is_none() {
                (message.done, message.member) = (Some(now), Some(worker as u16));
                self.unfinished -= 1;
            }
        }
        self.work(worker);
        if self.phase == Phase::Draining && self.unfinished == 0 {
            self.phase = Phase::Over;
        }
    }

    /// A connection has ended, and not because we wanted it to.
    fn lose(&mut self, line: usize, socket: Socket, why: &str) {
        if line == PUBLISHER {
            return self.fail(format!("the publisher: {why}"));
        }
        self.trial.closed += 1;
        self.part(line, &socket);
        self.close(socket);
        match self.phase {
            Phase::Joining => self.fail(format!("worker {line}: {why}")),
            _ => self.at(self.now + AGAIN_AFTER, Due::Connect(line)),
        }
    }

    /// A worker has no connection any more.
    fn part(&mut self, worker: usize, socket: &Socket) {
        self.trial.worker_bytes += socket.bytes_out;
        let it = &mut self.workers[worker];
        it.has_joined = false;
        it.work.connection = None;
    }

    fn close(&self, mut socket: Socket) {
        let (reason, props) = (ReasonCode::NORMAL_DISCONNECTION, DisconnectProps::default());
        let mqtt = &mut socket.mqtt;
        mqtt.side.disconnect(reason, &props, &mut mqtt.out);
        let _ = socket.write_all();
        let _ = epoll::delete(&self.epoll, &socket.stream);
    }

    fn happens(&mut self, incident: Incident) {
        let since = self.since();
        self.trial.incident.get_or_insert(since);
        let Incident { what, worker, .. } = incident;
        let it = &mut self.workers[worker];
        match what {
            What::Freeze | What::Death => {
                it.is_frozen = true;
                it.work.stop(self.now);
                // A process that hangs does not read. An end of the connection is told even to those that look for
                // nothing, again and again: so it leaves the epoll altogether.
                let _ = it
                    .line
                    .as_ref()
                    .map(|line| epoll::delete(&self.epoll, &line.stream));
            }
            What::Stuck => it.work.stop(self.now),
            What::Crash | What::Cut => {
                it.is_gone = true;
                if let Some(line) = it.line.take() {
                    self.part(worker, &line);
                    // Without a word, so that the broker's system sees a reset.
                    let _ = SockRef::from(&line.stream).set_linger(Some(Duration::ZERO));
                }
                if what == What::Crash {
                    self.workers[worker].work.forget();
                }
            }
            What::Slow(factor) => it.work.slow = factor,
            What::Join => self.connect(worker),
            What::Burst(_) => {}
        }
    }

    fn ends(&mut self, incident: Incident) {
        let Incident { what, worker, .. } = incident;
        let it = &mut self.workers[worker];
        match what {
            What::Freeze | What::Stuck => {
                let begun = it.work.go_on(self.now);
                if std::mem::take(&mut it.is_frozen)
                    && let Some(line) = &it.line
                {
                    let _ = line.watch(&self.epoll, worker as u64);
                }
                begun
                    .into_iter()
                    .for_each(|begun| self.sleeps(worker, begun));
                self.work(worker);
            }
            What::Slow(_) => it.work.slow = 1.0,
            What::Cut => self.connect(worker),
            What::Death | What::Crash | What::Join | What::Burst(_) => {}
        }
    }

    /// All go home; what happened.
    fn leave(mut self) -> Trial<'t> {
        let lines: Vec<Socket> = self
            .workers
            .iter_mut()
            .filter_map(|it| it.line.take())
            .collect();
        self.trial.worker_bytes += lines.iter().map(|line| line.bytes_out).sum::<u64>();
        for line in lines.into_iter().chain(self.publisher.take()) {
            self.close(line);
        }
        let tenth = self.jobs.get(self.jobs.len() / 10);
        let all_but_a_tenth = (tenth.map_or(0.0, |job| job.at), f64::INFINITY);
        self.trial.counted = self.task.scenario.counted.unwrap_or(all_but_a_tenth);
        self.trial
    }
}

/// How long what was published may take to be processed after the last message.
const PATIENCE: u64 = 20 * SECOND;
/// How long a worker that lost its connection waits before it makes a new one.
const AGAIN_AFTER: u64 = 50_000_000;
/// The most that a cell waits before it begins.
const START_GAP_MAX: f64 = 80e6;
