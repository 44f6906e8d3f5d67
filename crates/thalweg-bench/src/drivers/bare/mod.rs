//! MQTT with our codec and sockets that do not block, and nothing else: as fast as it goes.
//!
//! Each flow has a connection of its own, each subscriber of each flow as well. All of a side are served by one thread.

mod line;

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, epoll, poll};
use thalweg_mqtt::{ClientEvent, QoS, ReasonCode};

use super::{Fault, Job, Publisher, Received, Subscriber};
use crate::cell::Leg;
use crate::load::{Gave, clock};
use line::BareConnection;

#[derive(Debug)]
pub struct Publishing {
    lines: Vec<BareConnection>,
    doorbell: Doorbell,
    qos: QoS,
    window: u32,
    /// Lines with something to write.
    dirty: Vec<u32>,
    unsettled: u64,
    scratch: Vec<u8>,
}

impl Publishing {
    pub fn connect(job: &Job) -> Result<Publishing, Fault> {
        let doorbell = Doorbell::new()?;
        let (leg, at) = (&job.publish, job.publish_at);
        let open = |flow| open(job, leg, at, &format!("p{flow}"), &job.publish_topic(flow));
        let mut lines = (0..job.flows)
            .map(open)
            .collect::<Result<Vec<_>, Fault>>()?;
        for (number, line) in lines.iter_mut().enumerate() {
            line.introduced(None)?;
            doorbell.watch(line, number)?;
        }
        Ok(Publishing {
            lines,
            doorbell,
            qos: qos(job.publish.qos),
            window: job.publish.window.max(1),
            dirty: Vec::new(),
            unsettled: 0,
            scratch: vec![0; SCRATCH],
        })
    }

    fn flush(&mut self) -> Result<(), Fault> {
        for number in self.dirty.drain(..) {
            if let Some(line) = self.lines.get_mut(number as usize) {
                line.is_dirty = false;
                line.flush(&self.doorbell.epoll, u64::from(number))?;
            }
        }
        Ok(())
    }
}

impl Publisher for Publishing {
    #[inline]
    fn publish(&mut self, flow: u32, payload: &[u8]) -> Result<Gave, Fault> {
        let Some(line) = self.lines.get_mut(flow as usize) else {
            return Ok(Gave::Taken);
        };
        if self.qos == QoS::AtMostOnce {
            if line.socket.unsent() >= HIGH_WATER {
                line.flush(&self.doorbell.epoll, u64::from(flow))?;
                if line.socket.unsent() >= HIGH_WATER {
                    return Ok(Gave::Full);
                }
            }
            line.publish_once(payload)?;
        } else {
            if line.in_flight >= self.window || !line.publish(payload, self.qos)? {
                return Ok(Gave::Full);
            }
            line.in_flight += 1;
            self.unsettled += 1;
        }
        if !line.is_dirty {
            line.is_dirty = true;
            self.dirty.push(flow);
        }
        Ok(Gave::Taken)
    }

    fn turn(
        &mut self,
        until: u64,
        listens: bool,
        through: &mut dyn FnMut(u32),
    ) -> Result<(), Fault> {
        self.flush()?;
        loop {
            let rung = self.doorbell.wait(until)?;
            for &(number, flags) in &rung {
                let Some(line) = self.lines.get_mut(number as usize) else {
                    continue;
                };
                let epoll = &self.doorbell.epoll;
                if flags.contains(epoll::EventFlags::OUT) {
                    line.flush(epoll, number)?;
                }
                let mut settled = 0;
                let mut trouble = None;
                let open =
                    line.read(&mut self.scratch, &mut |machine, out, event| match event {
                        ClientEvent::PubAck(ack) | ClientEvent::PubComp(ack)
                            if !ack.reason.is_error() =>
                        {
                            settled += 1
                        }
                        ClientEvent::PubRec(ack) if !ack.reason.is_error() => {
                            machine.pubrel(ack.id, ReasonCode::Success, out);
                        }
                        ClientEvent::PubAck(ack) | ClientEvent::PubRec(ack) => {
                            trouble
                                .get_or_insert(format!("a message was refused: {:?}", ack.reason));
                        }
                        ClientEvent::Disconnect(bye) => {
                            trouble
                                .get_or_insert(format!("the broker disconnects: {:?}", bye.reason));
                        }
                        _ => {}
                    })?;
                if let Some(trouble) = trouble {
                    return Err(trouble);
                }
                if !open {
                    return Err("the broker has closed a publisher's connection".to_owned());
                }
                line.in_flight = line.in_flight.saturating_sub(settled);
                self.unsettled = self.unsettled.saturating_sub(u64::from(settled));
                line.flush(epoll, number)?;
                (0..settled).for_each(|_| through(number as u32));
            }
            if listens && !rung.is_empty() || clock::now() >= until {
                return Ok(());
            }
        }
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.epoll.as_fd())
    }

    fn unsettled(&self) -> u64 {
        let waits = |line: &&BareConnection| line.socket.unsent() > 0;
        match self.qos {
            QoS::AtMostOnce => self.lines.iter().filter(waits).count() as u64,
            _ => self.unsettled,
        }
    }

    fn unacknowledged(&self) -> u64 {
        self.unsettled
    }

    fn counts(&self) -> Vec<(&'static str, f64)> {
        let bytes: u64 = self.lines.iter().map(|line| line.socket.bytes_out).sum();
        vec![
            ("connections_publish", self.lines.len() as f64),
            ("publish_bytes_sent", bytes as f64),
        ]
    }
}

#[derive(Debug)]
pub struct Subscribing {
    lines: Vec<BareConnection>,
    doorbell: Doorbell,
    flows: u32,
    /// Topics as strings, so that they need not be decoded.
    topics: Vec<String>,
    scratch: Vec<u8>,
}

impl Subscribing {
    pub fn connect(job: &Job) -> Result<Subscribing, Fault> {
        let doorbell = Doorbell::new()?;
        let topics = (0..job.flows).map(|flow| job.subscribe_topic(flow));
        let topics: Vec<String> = topics.collect();
        let (leg, at) = (&job.subscribe, job.subscribe_at);
        let mut lines = Vec::new();
        for copy in 0..job.copies {
            for (flow, topic) in topics.iter().enumerate() {
                lines.push(open(job, leg, at, &format!("s{copy}-{flow}"), topic)?);
            }
        }
        for (number, line) in lines.iter_mut().enumerate() {
            let topic = topics.get(number % topics.len().max(1)).map(String::as_str);
            line.introduced(topic.map(|topic| (topic, qos(job.subscribe.qos))))?;
            doorbell.watch(line, number)?;
        }
        Ok(Subscribing {
            lines,
            doorbell,
            flows: job.flows.max(1),
            topics,
            scratch: vec![0; SCRATCH],
        })
    }
}

impl Subscriber for Subscribing {
    fn receive(&mut self, until: u64, hear: &mut dyn FnMut(Received<'_>)) -> Result<(), Fault> {
        for (number, flags) in self.doorbell.wait(until)? {
            let Some(line) = self.lines.get_mut(number as usize) else {
                continue;
            };
            let epoll = &self.doorbell.epoll;
            if flags.contains(epoll::EventFlags::OUT) {
                line.flush(epoll, number)?;
            }
            let (copy, flow) = (number as u32 / self.flows, number as u32 % self.flows);
            let topic = self.topics.get(flow as usize).map_or("", String::as_str);
            let (mut bye, mut at) = (None, 0);
            let mut held = std::mem::take(&mut line.recorded);
            let open = line.read(&mut self.scratch, &mut |machine, out, event| {
                // One look at the clock for what came in one piece.
                if at == 0 {
                    at = clock::now();
                }
                match event {
                    ClientEvent::Publish(publish) => {
                        match publish.qos {
                            QoS::AtMostOnce => {}
                            QoS::AtLeastOnce => {
                                machine.puback(publish.id, ReasonCode::Success, out)
                            }
                            QoS::ExactlyOnce => {
                                machine.pubrec(publish.id, ReasonCode::Success, out);
                                // The same packet once more, and not the same message twice [MQTT-4.3.3-10].
                                if !held.insert(publish.id) {
                                    return;
                                }
                            }
                        }
                        let payload = publish.payload;
                        hear(Received {
                            copy,
                            topic,
                            payload,
                            at,
                        });
                    }
                    ClientEvent::PubRel(release) => {
                        held.remove(&release.id);
                        machine.pubcomp(release.id, ReasonCode::Success, out);
                    }
                    ClientEvent::Disconnect(reason) => bye = Some(reason.reason),
                    _ => {}
                }
            })?;
            line.recorded = held;
            line.flush(epoll, number)?;
            if let Some(reason) = bye {
                return Err(format!("the broker disconnects a subscriber: {reason:?}"));
            }
            if !open {
                return Err("the broker has closed a subscriber's connection".to_owned());
            }
        }
        Ok(())
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.epoll.as_fd())
    }

    fn counts(&self) -> Vec<(&'static str, f64)> {
        let bytes: u64 = self.lines.iter().map(|line| line.socket.bytes_in).sum();
        vec![
            ("connections_subscribe", self.lines.len() as f64),
            ("subscribe_bytes_received", bytes as f64),
        ]
    }
}

/// Opens a connection whose name ends so.
fn open(
    job: &Job,
    leg: &Leg,
    at: SocketAddr,
    name: &str,
    topic: &str,
) -> Result<BareConnection, Fault> {
    let name = format!("{}-{:08x}-{name}", job.role, job.run);
    BareConnection::open(at, leg, &name, topic, job.login.as_ref())
}

/// Connections that say nothing.
#[derive(Debug)]
pub struct Idle(Vec<BareConnection>);

impl Idle {
    /// Opens them all before the first one is answered: as a fleet comes back after its broker was away.
    pub fn connect(job: &Job, count: u32) -> Result<Idle, Fault> {
        let (leg, at) = (&job.publish, job.publish_at);
        let mut lines = Vec::new();
        let words = |number, fault| format!("idle connection {number} of {count}: {fault}");
        for number in 0..count as usize {
            let line = open(job, leg, at, &format!("i{number}"), "");
            lines.push(line.map_err(|fault| words(number, fault))?);
        }
        for (number, line) in lines.iter_mut().enumerate() {
            let introduced = line.introduced(None);
            introduced.map_err(|fault| words(number, fault))?;
        }
        Ok(Idle(lines))
    }

    /// Those that the broker has not closed.
    pub fn open(&self) -> usize {
        self.0.iter().filter(|line| line.is_open()).count()
    }
}

/// Tells which lines have something.
#[derive(Debug)]
struct Doorbell {
    epoll: OwnedFd,
}

impl Doorbell {
    fn new() -> Result<Doorbell, Fault> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|error| error.to_string())?;
        Ok(Doorbell { epoll })
    }

    fn watch(&self, line: &BareConnection, number: usize) -> Result<(), Fault> {
        line.socket
            .watch(&self.epoll, number as u64)
            .map_err(|error| error.to_string())
    }

    /// Waits until a line has something, at most until then.
    fn wait(&self, until: u64) -> Result<Vec<(u64, epoll::EventFlags)>, Fault> {
        let left = until.saturating_sub(clock::now());
        if left > 0 {
            // epoll waits for whole milliseconds, poll for nanoseconds.
            let epoll = PollFd::new(&self.epoll, PollFlags::IN);
            match poll(&mut [epoll], Some(&clock::timespec(left))) {
                Ok(0) => return Ok(Vec::new()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut room = [MaybeUninit::uninit(); EVENTS];
        match epoll::wait(&self.epoll, &mut room, Some(&clock::timespec(0))) {
            Ok((events, _)) => {
                let events = events.iter();
                Ok(events
                    .map(|event| (event.data.u64(), event.flags))
                    .collect())
            }
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn qos(number: u8) -> QoS {
    match number {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

/// Bytes of a line that have not left, above which it takes no more: what waits, waits where its time is known.
const HIGH_WATER: usize = 64 << 10;
/// Bytes that are read at once.
const SCRATCH: usize = 256 << 10;
/// Lines that are served in one turn.
const EVENTS: usize = 256;
