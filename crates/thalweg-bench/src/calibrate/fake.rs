//! A broker of which it is known exactly what it does: MQTT, one thread, and a service that says what becomes of each
//! message and when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use thalweg_mqtt::{ConnAck, Event, PublishOut, QoS, ReasonCode, ServerLimits, ServerSide};

use crate::load::clock;

/// What becomes of a message. Its publisher is answered at that time, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes to its subscribers then, nanoseconds of the clock.
    At(u64),
    /// It goes nowhere; its publisher is told that it has come.
    Never,
    /// It goes to its subscribers twice.
    Twice,
    /// It goes to its subscribers behind the next message of its topic.
    BehindNext,
}

/// Says what becomes of a message: its topic, its number there from 0, and when it came.
pub type Service = Box<dyn FnMut(&str, u64, u64) -> Fate + Send>;

/// A broker that runs; it ends when dropped.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Starts it on the loopback.
    pub fn start(service: Service) -> io::Result<Fake> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::Builder::new()
            .name("fake-broker".to_owned())
            .spawn(move || {
                clock::be_exact();
                Desk {
                    service,
                    listener,
                    lines: Vec::new(),
                    numbers: BTreeMap::new(),
                    leaving: BinaryHeap::new(),
                    order: 0,
                    held: BTreeMap::new(),
                }
                .run(&seen);
            })?;
        Ok(Fake {
            address,
            is_over,
            thread: Some(thread),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection {
    stream: TcpStream,
    machine: ServerSide,
    inbox: Vec<u8>,
    out: Vec<u8>,
    /// Filter and granted QoS.
    filters: Vec<(String, QoS)>,
    next_id: u16,
    is_gone: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    topic: String,
    payload: Vec<u8>,
    qos: QoS,
    copies: u8,
    /// Who published it, as which packet.
    from: (usize, u16),
}

struct Desk {
    service: Service,
    listener: TcpListener,
    lines: Vec<Connection>,
    numbers: BTreeMap<String, u64>,
    leaving: BinaryHeap<Reverse<(u64, u64, Leaving)>>,
    order: u64,
    /// Of each topic, what waits for the next one.
    held: BTreeMap<String, Vec<Leaving>>,
}

impl Desk {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            self.wait();
            while let Ok((stream, _)) = self.listener.accept() {
                self.welcome(stream);
            }
            for number in 0..self.lines.len() {
                self.read(number);
            }
            self.let_leave();
            for line in &mut self.lines {
                line.write();
            }
        }
    }

    fn wait(&self) {
        let now = clock::now();
        let next = self
            .leaving
            .peek()
            .map_or(now + LOOK_UP, |Reverse((at, ..))| *at);
        let timeout = clock::timespec(next.saturating_sub(now).min(LOOK_UP));
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for line in self.lines.iter().filter(|line| !line.is_gone) {
            let flags = if line.out.is_empty() {
                PollFlags::IN
            } else {
                PollFlags::IN | PollFlags::OUT
            };
            fds.push(PollFd::new(&line.stream, flags));
        }
        // Whatever it says, everything is looked at.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn welcome(&mut self, stream: TcpStream) {
        let set = stream.set_nonblocking(true);
        if set.and_then(|()| stream.set_nodelay(true)).is_ok() {
            self.lines.push(Connection {
                stream,
                machine: ServerSide::new(ServerLimits::default()),
                inbox: Vec::new(),
                out: Vec::new(),
                filters: Vec::new(),
                next_id: 1,
                is_gone: false,
            });
        }
    }

    fn read(&mut self, number: usize) {
        let Some(line) = self.lines.get_mut(number).filter(|line| !line.is_gone) else {
            return;
        };
        let mut chunk = [0; 64 << 10];
        loop {
            match line.stream.read(&mut chunk) {
                Ok(0) => line.is_gone = true,
                Ok(count) => {
                    line.inbox.extend_from_slice(&chunk[..count]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => line.is_gone = error.kind() != io::ErrorKind::WouldBlock,
            }
            break;
        }
        let now = clock::now();
        let bytes = std::mem::take(&mut line.inbox);
        let mut used = 0;
        let mut came = Vec::new();
        loop {
            let (count, event) = match line.machine.handle_input(&bytes[used..]) {
                Ok(Some(both)) => both,
                Ok(None) => break,
                Err(_) => {
                    line.is_gone = true;
                    break;
                }
            };
            used += count;
            match event {
                Event::Connect(_) => line.machine.connack(&ConnAck::default(), &mut line.out),
                Event::Subscribe(subscribe) => {
                    let mut codes = Vec::new();
                    for (filter, options) in subscribe.filters() {
                        line.filters.push((filter.to_owned(), options.qos));
                        codes.push(ReasonCode::granted(options.qos));
                    }
                    line.machine.suback(subscribe.id, &codes, &mut line.out);
                }
                Event::Publish(publish) => came.push(Leaving {
                    topic: publish.topic.as_str().to_owned(),
                    payload: publish.payload.to_vec(),
                    qos: publish.qos,
                    copies: 1,
                    from: (number, publish.id),
                }),
                Event::PubRec { id, .. } => {
                    line.machine.pubrel(id, ReasonCode::Success, &mut line.out)
                }
                Event::PubRel { id, .. } => {
                    line.machine.pubcomp(id, ReasonCode::Success, &mut line.out)
                }
                Event::PingReq(_) => line.machine.pingresp(&mut line.out),
                Event::Disconnect(_) => line.is_gone = true,
                _ => {}
            }
        }
        line.inbox.extend_from_slice(&bytes[used..]);
        for message in came {
            self.take(message, now);
        }
    }

    fn take(&mut self, mut message: Leaving, now: u64) {
        let count = self.numbers.entry(message.topic.clone()).or_default();
        let number = *count;
        *count += 1;
        let at = match (self.service)(&message.topic, number, now) {
            Fate::At(at) => at,
            fate @ (Fate::Never | Fate::Twice) => {
                message.copies = if fate == Fate::Twice { 2 } else { 0 };
                now
            }
            Fate::BehindNext => {
                let held = self.held.entry(message.topic.clone());
                return held.or_default().push(message);
            }
        };
        let held = self.held.remove(&message.topic).unwrap_or_default();
        for message in std::iter::once(message).chain(held) {
            self.order += 1;
            self.leaving.push(Reverse((at, self.order, message)));
        }
    }

    fn let_leave(&mut self) {
        let now = clock::now();
        let is_due = |Reverse((at, ..)): &Reverse<(u64, u64, Leaving)>| *at <= now;
        while self.leaving.peek().is_some_and(is_due)
            && let Some(Reverse((_, _, message))) = self.leaving.pop()
        {
            for _ in 0..message.copies {
                for line in self.lines.iter_mut().filter(|line| !line.is_gone) {
                    line.deliver(&message);
                }
            }
            let (number, id) = message.from;
            if let Some(line) = self.lines.get_mut(number) {
                match message.qos {
                    QoS::AtMostOnce => {}
                    QoS::AtLeastOnce => line.machine.puback(id, ReasonCode::Success, &mut line.out),
                    QoS::ExactlyOnce => line.machine.pubrec(id, ReasonCode::Success, &mut line.out),
                }
            }
        }
    }
}

impl Connection {
    fn deliver(&mut self, message: &Leaving) {
        let mut filters = self.filters.iter();
        let Some((_, granted)) = filters.find(|(filter, _)| *filter == message.topic) else {
            return;
        };
        let qos = message.qos.min(*granted);
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        let publish = PublishOut {
            qos,
            topic: &message.topic,
            id,
            payload: &message.payload,
            ..PublishOut::default()
        };
        // What a client does not take it does not get.
        let _ = self.machine.publish(&publish, &mut self.out);
    }

    fn write(&mut self) {
        while !self.out.is_empty() && !self.is_gone {
            match self.stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_gone = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}

/// How often it looks whether it is over, nanoseconds.
const LOOK_UP: u64 = 20_000_000;
