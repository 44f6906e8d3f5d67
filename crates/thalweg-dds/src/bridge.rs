//! The two threads of a bridge: one waits for the domain and publishes, one waits for the broker and writes.

use crate::admission::{self, Admission};
use crate::batch::Batch;
use crate::calls::{Asked, RequestId, Services};
use crate::counts::Counts;
use crate::cyclone::{Discovered, Error, Listener, Participant, Reader};
use crate::frame::{self, Decoded, Messages, ToBroker};
use crate::front::{DdsFront, LASTING};
use crate::gathered::Gathered;
use crate::graph::{self, Graph};
use crate::left::Left;
use crate::mirror::{Incoming, Interest, Outgoing, locked};
use crate::settings::DdsSettings;
use crate::target::Target;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_kernel::Draft;
use thalweg_model::{Filter, Reliability, RetainOp, Time};
use thalweg_server::Server;
use thalweg_server::config::dds::Dds;

/// Opens a stream to the broker, at whose other end is a [`DdsFront`](crate::front::DdsFront).
pub type Connect = Box<dyn Fn() -> io::Result<UnixStream> + Send>;

/// Interval at which a waiting thread checks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often writers are looked after that a reader holds up.
const HELD_UP_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// Pause before a reconnect.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of received samples that are few enough to be sent in the thread that receives.
const FEW_BYTES: usize = 4 << 10;
/// Bytes read from the broker at once, at least.
const READ_BYTES: usize = 256 << 10;

/// A running bridge. Dropping it ends it.
pub struct Bridge {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Into the other domain, if there are two: a session of its own, so that each hears the other.
    _second: Option<Box<Bridge>>,
}

struct Shared {
    settings: Arc<DdsSettings>,
    counts: Arc<Counts>,
    participant: Participant,
    /// Locked before all others that are locked together.
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
    services: Mutex<Services>,
    /// Writer of whole frames; `None` while there is no connection.
    stream: Mutex<Option<UnixStream>>,
    /// The same stream, to end it while another thread writes.
    closer: Mutex<Option<UnixStream>>,
    is_stopping: AtomicBool,
}

impl Bridge {
    /// The bridge of a configuration and of the server that runs with it; why there is none.
    pub fn of(dds: &Dds, server: &Server) -> Result<Bridge, String> {
        let settings = DdsSettings::of(dds)?;
        let left = Arc::new(Mutex::new(take_left(server)));
        let second = match dds.second_domain {
            Some(domain) if domain == dds.domain => {
                return Err(format!("dds.second_domain is {domain}, as dds.domain is"));
            }
            Some(domain) => {
                let settings = DdsSettings {
                    domain,
                    ..settings.clone()
                };
                Some(Box::new(Bridge::into_domain(
                    settings,
                    left.clone(),
                    dds,
                    server,
                )?))
            }
            None => None,
        };
        let mut bridge = Bridge::into_domain(settings, left, dds, server)?;
        bridge._second = second;
        Ok(bridge)
    }

    fn into_domain(
        settings: DdsSettings,
        left: Arc<Mutex<Left>>,
        dds: &Dds,
        server: &Server,
    ) -> Result<Bridge, String> {
        let domain = settings.domain;
        let (streams, counts) = (server.streams(), Arc::<Counts>::default());
        let (user, payload_max, counted) =
            (dds.user.clone(), dds.message_bytes_max, counts.clone());
        let connect = move || {
            let speaker = format!("dds {domain}");
            let front =
                |nonce| DdsFront::at_stream(&user, &speaker, payload_max, nonce, counted.clone());
            streams.open("dds", front)
        };
        tracing::info!(domain, "joining DDS");
        Bridge::start_with(settings, left, counts, Box::new(connect))
            .map_err(|error| format!("domain {domain} of DDS cannot be joined: {error}"))
    }

    /// Counters of the bridge so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Joins the domain and begins to bridge.
    pub fn start(
        settings: DdsSettings,
        counts: Arc<Counts>,
        connect: Connect,
    ) -> Result<Bridge, Error> {
        Bridge::start_with(settings, Arc::default(), counts, connect)
    }

    /// The same with what lasting writers have left.
    fn start_with(
        settings: DdsSettings,
        left: Arc<Mutex<Left>>,
        counts: Arc<Counts>,
        connect: Connect,
    ) -> Result<Bridge, Error> {
        let participant = Participant::new(&settings.xml(), &settings.types)?;
        let settings = Arc::new(settings);
        let shared = Arc::new(Shared {
            incoming: Mutex::new(Incoming::new(
                settings.clone(),
                counts.clone(),
                left.clone(),
            )),
            outgoing: Mutex::new(Outgoing::new(settings.clone(), counts.clone())),
            settings,
            counts,
            services: Mutex::new(Services::of(&participant.guid())),
            participant,
            stream: Mutex::new(None),
            closer: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&shared);
        shared.participant.listen(weak);
        let (reading, writing) = (shared.clone(), shared.clone());
        let spawned = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(run).ok()
        };
        let threads = [
            spawned("dds-read", Box::new(move || reading.read_domain(&left))),
            spawned("dds-write", Box::new(move || writing.read_broker(&connect))),
        ];
        let threads = threads.into_iter().flatten().collect();
        Ok(Bridge {
            shared,
            threads,
            _second: None,
        })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.participant.wake();
        self.shared.disconnect();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn disconnect(&self) {
        if let Some(stream) = locked(&self.closer).take() {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        *locked(&self.stream) = None;
    }

    /// Sends whole frames, of which the last one may have its payload elsewhere. They are lost if there is no connection.
    fn send(&self, frames: &[u8], payload: &[u8]) {
        let mut stream = locked(&self.stream);
        let Some(open) = stream.as_mut() else {
            return;
        };
        let sent = open
            .write_all(frames)
            .and_then(|()| open.write_all(payload));
        if sent.is_err() {
            *stream = None;
        }
    }

    fn is_connected(&self) -> bool {
        locked(&self.stream).is_some()
    }

    /// The bridge as a node of ROS 2, if it is to be one.
    fn graph(&self) -> Option<Graph> {
        let node = self.settings.node.as_ref()?;
        let graph = Graph::join(&self.participant, node);
        graph
            .inspect_err(|error| tracing::warn!(%error, "the bridge is no node of ROS 2"))
            .ok()
    }

    /// The thread that waits for the domain.
    fn read_domain(&self, left: &Mutex<Left>) {
        let mut graph = self.graph();
        let mut admission = Admission::default();
        let send = |frames: &[u8], payload: &[u8]| self.send(frames, payload);
        let mut out = Gathered::new(&send);
        let (mut patience, mut is_graph_old, mut has_left) = (LOOK_EVERY, false, false);
        while !self.is_stopping() {
            let is_waiting = admission.is_waiting();
            let ready = self.participant.wait(match (has_left, is_waiting) {
                (true, _) => Duration::ZERO,
                (_, true) => admission::LOOK_EVERY.min(patience),
                (_, false) => patience,
            });
            let mut guard = locked(&self.incoming);
            let incoming = &mut *guard;
            if ready.discovery || is_waiting {
                let mut found = Vec::new();
                self.participant.take_discovered(|it| found.push(it));
                let (of, settings, counts) = (&self.participant, &self.settings, &self.counts);
                let found = admission.admit(found, of, settings, counts, Instant::now());
                for found in found {
                    let outgoing = &mut locked(&self.outgoing);
                    let interests = self.on_discovered(found, incoming, outgoing);
                    write_interests(&interests, &mut out.frames);
                }
                // Without a connection they are lost, and asked for with the next.
                out.send();
            }
            if let Some(graph) = &mut graph {
                if ready.readers.contains(&graph::TOKEN) {
                    graph.read(&self.counts.remarks);
                    is_graph_old = true;
                }
                if is_graph_old || ready.discovery || is_waiting {
                    let writers = locked(&self.outgoing).of_ros();
                    let early = graph.write(incoming.of_ros(), writers);
                    is_graph_old = early.is_some();
                    patience = early.unwrap_or(LOOK_EVERY);
                }
            }
            for token in ready.watched {
                incoming.notice(token);
            }
            if ready.readers.is_empty() {
                locked(left).forget_late(Instant::now());
            }
            if !self.is_connected() {
                // Samples wait where they are, and reliable writers with them.
                drop(guard);
                std::thread::sleep(PAUSE);
                continue;
            }
            // Each in turn, so that none waits for another one to be empty.
            has_left = false;
            for token in ready.readers.into_iter().chain(incoming.take_left()) {
                if !incoming.take(token, &self.services, &mut out) {
                    incoming.leave_rest(token);
                    has_left = true;
                }
            }
            self.finish(&mut out);
        }
        // Readers end here and not with the last that holds this, which may be their own listener.
        *locked(&self.incoming) =
            Incoming::new(self.settings.clone(), self.counts.clone(), Arc::default());
    }

    /// Sorts what was discovered to where it belongs; what the broker is to be asked for.
    fn on_discovered(
        &self,
        found: Discovered,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Vec<Interest> {
        let participant = &self.participant;
        match found {
            Discovered::Writer(endpoint) => incoming.on_writer(endpoint, participant),
            Discovered::WriterGone(guid) => {
                self.counts.remarks.set_nodes(guid, Vec::new());
                incoming.on_gone(&guid);
            }
            Discovered::Reader(endpoint) => return outgoing.on_reader(endpoint, participant),
            Discovered::ReaderGone(guid) => return outgoing.on_gone(&guid, participant),
        }
        Vec::new()
    }

    /// Sends what was taken, with the news of it.
    fn finish(&self, out: &mut Gathered<'_>) {
        if self.counts.remarks.take_news() {
            // The front looks at the remarks when it gets this.
            frame::encode(&ToBroker::Settled(0), &mut out.frames);
        }
        out.send();
    }

    /// Whether a little can be sent without waiting.
    fn is_writable(&self) -> bool {
        let Ok(stream) = self.stream.try_lock() else {
            return false;
        };
        let Some(stream) = stream.as_ref() else {
            return false;
        };
        let mut polled = [PollFd::new(stream, PollFlags::OUT)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A stream is writable when a good part of its buffer is free.
        matches!(poll(&mut polled, Some(&at_once)), Ok(1)) && polled[0].revents() == PollFlags::OUT
    }

    /// The thread that waits for the broker.
    fn read_broker(&self, connect: &Connect) {
        let start = Instant::now();
        let mut held_up = Vec::new();
        while !self.is_stopping() {
            let opened =
                connect().and_then(|stream| Ok((stream.try_clone()?, stream.try_clone()?, stream)));
            match opened {
                Ok((reading, closing, writing)) => {
                    *locked(&self.closer) = Some(closing);
                    let mut out = Vec::new();
                    {
                        // Together, so that no reader that comes meanwhile is left out.
                        let outgoing = locked(&self.outgoing);
                        write_interests(&outgoing.interests(), &mut out);
                        *locked(&self.stream) = Some(writing);
                    }
                    // The front begins with the first bytes.
                    frame::encode(&ToBroker::Settled(0), &mut out);
                    self.send(&out, b"");
                    if self.is_stopping() {
                        self.disconnect();
                    }
                    self.serve(reading, start, &mut held_up);
                    self.disconnect();
                }
                // Nobody has connected yet.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => tracing::warn!(%error, "the DDS bridge does not reach the broker"),
            }
            if !self.is_stopping() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// `held_up` are writers that a reader holds up, which have to be looked after.
    fn serve(&self, stream: UnixStream, start: Instant, held_up: &mut Vec<Arc<Target>>) {
        let mut input = Vec::new();
        let mut settled = Vec::new();
        loop {
            // A thread that waits in the read would be woken by each read at the other end, too.
            let timeout = (!held_up.is_empty()).then_some(HELD_UP_EVERY);
            match poll(&mut [PollFd::new(&stream, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => {}
                Ok(_) => {
                    input.reserve(READ_BYTES);
                    match rustix::io::read(&stream, spare_capacity(&mut input)) {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                }
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            let now = Time::from_nanos(start.elapsed().as_nanos() as u64 + 1);
            let mut batch = Batch::default();
            let mut messages = Messages::of(&input, self.settings.payload_max);
            loop {
                let message = match messages.next_whole() {
                    Decoded::Frame(message, _) => message,
                    Decoded::Incomplete => break,
                    Decoded::Wrong => return,
                };
                self.write(&message.sample, now, &mut batch);
                if message.tag != 0 {
                    frame::encode(&ToBroker::Settled(message.tag), &mut settled);
                }
            }
            let done = input.len() - messages.left();
            let touched = batch.touched();
            held_up
                .retain(|it| it.tend(now) && !touched.iter().any(|other| Arc::ptr_eq(it, other)));
            for target in touched {
                target.flush();
                if target.tend(now) {
                    held_up.push(target);
                }
            }
            input.drain(..done);
            if !settled.is_empty() {
                self.send(&settled, b"");
                settled.clear();
            }
        }
    }

    /// Writes a message where it belongs, which is still to be flushed.
    fn write(&self, sample: &frame::Sample<'_>, now: Time, batch: &mut Batch) {
        let counts = &self.counts;
        // A message from the front's own queue is an answer.
        if sample.address.starts_with('$') {
            let Some(served) = locked(&self.services).answered(sample.correlation) else {
                return Counts::add(&counts.unanswered);
            };
            let targets = locked(&self.outgoing).answering(&served.address);
            if targets.is_empty() {
                Counts::add(&counts.unread);
            }
            for target in &targets {
                target.write(sample, None, Some(served.id), counts, now);
                batch.touch(target);
            }
            return;
        }
        let asks = !sample.reply_to.is_empty();
        let targets = batch.targets(sample.address, asks, &self.outgoing);
        if targets.is_empty() {
            Counts::add(&counts.unread);
        }
        for (target, has_level) in targets {
            if target.is_service() {
                self.ask(target, sample, now);
            } else {
                let split = sample.address.rsplit_once('/').filter(|_| *has_level);
                let level = split.map(|(_, level)| level);
                target.write(sample, level, None, counts, now);
            }
        }
    }

    /// Writes a request, and keeps where its answer goes.
    fn ask(&self, target: &Target, sample: &frame::Sample<'_>, now: Time) {
        let (number, is_full) = locked(&self.services).asked.add(Asked {
            reply_to: sample.reply_to.to_owned(),
            correlation: sample.correlation.to_owned(),
        });
        if is_full {
            Counts::add(&self.counts.unanswered);
        }
        let client = locked(&self.services).client;
        let id = RequestId { client, number };
        if !target.write(sample, None, Some(id), &self.counts, now) {
            locked(&self.services).asked.take(number);
        }
    }
}

/// A sample that comes seldom is taken in the thread that receives it, which saves it the way to another thread. Nothing here waits, and
/// no reader ends here: the library calls with locks of its own, and receives nothing meanwhile.
impl Listener for Shared {
    fn on_samples(&self, token: u32) {
        if Reader::waiting_bytes() > FEW_BYTES {
            return;
        }
        // The other thread has it while it takes, and while it ends readers.
        let Ok(mut incoming) = self.incoming.try_lock() else {
            return;
        };
        if !incoming.is_calm(token) || !self.is_writable() {
            return;
        }
        let send = |frames: &[u8], payload: &[u8]| self.send(frames, payload);
        let mut out = Gathered::new(&send);
        while !incoming.take(token, &self.services, &mut out) {}
        self.finish(&mut out);
    }
}

/// Clears what lasting writers have left in the journal: those that are still there write it again, and what they had written before.
fn take_left(server: &Server) -> Left {
    let of_shards = server.observer().on_shards(|inside| {
        let mut left = Left::default();
        let Ok(all) = Filter::new("#") else {
            return left;
        };
        let (kernel, now) = (&mut *inside.kernel, inside.now);
        let found = kernel.last_values_matching(&all, usize::MAX, now);
        for message in found {
            let details = message.properties().and_then(|it| it.details.as_ref());
            let publisher = details.and_then(|it| it.app_id.as_deref());
            if publisher.is_some_and(|it| it.starts_with(LASTING)) {
                let draft = Draft {
                    retain: RetainOp::Clear,
                    ..Draft::new(message.address(), b"", Reliability::AtLeastOnce)
                };
                left.add(kernel.kept_at(message.address(), now), now, Instant::now());
                kernel.publish_own(draft, now, inside.links);
            }
        }
        left
    });
    let mut all = Left::default();
    of_shards.into_iter().for_each(|left| all.join(left));
    all
}

fn write_interests(interests: &[Interest], out: &mut Vec<u8>) {
    for interest in interests {
        // Addresses are short enough: they have been checked.
        frame::encode(
            &match interest {
                Interest::Begins { address, is_late } => ToBroker::Subscribe {
                    address,
                    is_late: *is_late,
                },
                Interest::Ends { address } => ToBroker::Unsubscribe { address },
            },
            out,
        );
    }
}
