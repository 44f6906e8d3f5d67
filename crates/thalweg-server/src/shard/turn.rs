//! The shard's loop.
//!
//! One turn, in this order: wait for events; take the mailbox; read each ready connection and socket once, let its packets run
//! through front and kernel, and flush what that filled; repeat until nothing is ready (bounded); fire deadlines; let
//! the kernel go on with put-off work; carry out what is left; flush.

use super::commit::Commits;
use super::connection::{Connection, Connections};
use super::linger::Lingering;
use super::ports::Ports;
use super::wheel::{Deadline, Wheel};
use super::{Mailbox, ToShard};
use crate::clock;
use crate::door::Door;
use crate::lobby::{Arrival, Moved};
use crate::observer::Inside;
use crate::settings::ShardSettings;
use crate::stages::Stages;
use crate::transport::Transport;
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use thalweg_fronts::{Links, LoginAnswer};
use thalweg_kernel::{CloseReason, Effects, Kernel, LinkId, Pressure, ShardId, StampKey};
use thalweg_model::{Span, Time};

/// The mailbox's token; connections have their link's number.
const MAILBOX: Token = Token(usize::MAX);
/// Bytes read at once. Large, because a message costs little and a system call much.
pub(super) const READ_BYTES: usize = 256 << 10;
/// How often ready connections are read before the poll is asked again for others.
const PASSES_MAX: usize = 8;
/// Messages taken from the mailbox in one turn.
const MAIL_MAX: usize = 4096;
/// Connections taken from it in one turn: in a storm of connects those who are here are read in between.
const ARRIVALS_MAX: usize = 64;
/// How long a closing connection may take to send what is left.
const CLOSE_PATIENCE: Span = Span::from_secs(5);
/// How long a shard that ends waits for its last commits.
const COMMIT_PATIENCE: Duration = Duration::from_secs(5);
/// How often unused large buffers are freed.
const SLIM_EVERY: Span = Span::from_secs(1);

/// Counters of one shard's loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounts {
    pub turns: u64,
    pub reads: u64,
    pub writes: u64,
    pub sleeps: u64,
    /// Publishers paused for a congested receiver.
    pub paces: u64,
    /// Receivers that did not drain in time.
    pub slow_receivers: u64,
    /// Connections closed because their buffers held most when memory for all buffers was short.
    pub buffers_closed: u64,
    /// Bytes received over connections, as they were on the wire.
    pub bytes_in: u64,
    /// Bytes sent over connections, as they were on the wire.
    pub bytes_out: u64,
}

/// A shard's state; lives on its own thread.
pub(crate) struct Shard {
    pub(super) id: ShardId,
    pub(super) settings: ShardSettings,
    pub(super) poll: Poll,
    mail: mpsc::Receiver<ToShard>,
    sleeping: Arc<AtomicBool>,
    /// All shards' mailboxes, our own among them.
    pub(super) shards: Vec<Mailbox>,
    pub(super) kernel: Kernel,
    pub(super) links: Links,
    pub(super) connections: Connections,
    pub(super) ports: Ports,
    pub(super) door: Door,
    pub(super) wheel: Wheel,
    pub(super) lingering: Lingering,
    /// Connections whose handshakes are not complete, by the numbers that the lobby calls them by.
    pub(super) half_open: HashMap<u64, LinkId>,
    pub(super) ready: Vec<LinkId>,
    pub(super) dirty: Vec<LinkId>,
    pub(super) congested: Vec<LinkId>,
    /// Links that publishers wait for.
    pub(super) stalled: Vec<LinkId>,
    pub(super) fat: Vec<LinkId>,
    /// Another shard does not keep up with what this one has just sent it.
    pub(super) mail_full: bool,
    pub(super) commits: Commits,
    pub(super) pressure: Pressure,
    /// Bytes in the buffers of other shards' connections.
    pub(super) buffered_elsewhere: usize,
    journal_full: bool,
    /// What an earlier run left is being taken up: what is due waits until all shards know each other's routes.
    restoring: bool,
    slim_at: Time,
    pub(super) buffer: Vec<u8>,
    pub(super) now: Time,
    pub(super) serial_next: u64,
    pub(super) stages: Stages,
    pub(super) counts: LoopCounts,
    stopping: bool,
}

/// What a shard is made of; moved to its thread, where [`Shard::run`] begins.
pub(crate) struct Parts {
    pub(crate) id: ShardId,
    pub(crate) settings: ShardSettings,
    pub(crate) poll: Poll,
    pub(crate) mail: mpsc::Receiver<ToShard>,
    pub(crate) sleeping: Arc<AtomicBool>,
    pub(crate) shards: Vec<Mailbox>,
    pub(crate) door: Door,
    pub(crate) seed: u64,
    pub(crate) stamp_key: StampKey,
    pub(crate) commits: Commits,
}

impl Shard {
    /// A poll and a waker for a shard to be.
    pub(crate) fn poll() -> io::Result<(Poll, Arc<mio::Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), MAILBOX)?);
        Ok((poll, waker))
    }

    /// Made on its own thread: the kernel's routes are not `Send`.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            id,
            settings,
            poll,
            mail,
            sleeping,
            shards,
            door,
            seed,
            stamp_key,
            commits,
        } = parts;
        let count = shards.len() as u16;
        let mut kernel = Kernel::new(settings.kernel.clone(), id, count, seed);
        kernel.set_stamp_key(stamp_key);
        kernel.set_neutral(thalweg_fronts::native::neutral);
        kernel.set_batch_bytes_max(settings.frame_bytes_max);
        let links = Links::new(settings.links);
        Shard {
            id,
            kernel,
            links,
            settings,
            poll,
            mail,
            sleeping,
            shards,
            connections: Connections::default(),
            ports: Ports::default(),
            door,
            wheel: Wheel::default(),
            lingering: Lingering::default(),
            half_open: HashMap::new(),
            ready: Vec::new(),
            dirty: Vec::new(),
            congested: Vec::new(),
            stalled: Vec::new(),
            fat: Vec::new(),
            mail_full: false,
            restoring: commits.has_journal(),
            commits,
            pressure: Pressure::None,
            buffered_elsewhere: 0,
            journal_full: false,
            slim_at: Time::ZERO,
            buffer: vec![0; READ_BYTES],
            now: clock::now(),
            serial_next: 1,
            stages: Stages::default(),
            counts: LoopCounts::default(),
            stopping: false,
        }
    }

    /// Runs until the command to stop.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stopping {
            self.turn(&mut events);
        }
        self.say_good_bye();
    }

    fn turn(&mut self, events: &mut Events) {
        self.sleep(events);
        self.now = clock::now();
        self.kernel.set_journal_behind(self.commits.is_behind());
        self.counts.turns += 1;
        let was_idle = events.is_empty();
        self.weigh();
        for event in events.iter() {
            if event.token() == MAILBOX
                || self.on_port_event(event)
                || self.on_linger_event(event.token())
            {
                continue;
            }
            let id = LinkId(event.token().0 as u32);
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            if event.is_writable() {
                let was_blocked = std::mem::take(&mut connection.blocked);
                if was_blocked {
                    self.flush(id);
                }
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.on_readable(id, event.is_read_closed() || event.is_error());
            }
        }
        self.take_mail();
        let mut passes = 0;
        while (!self.ready.is_empty() || self.has_ready_port()) && passes < PASSES_MAX {
            self.read_ready();
            self.read_ports();
            self.flush_dirty();
            passes += 1;
        }
        self.fire_deadlines();
        if self.kernel.has_work() {
            self.kernel.work(self.now, &mut self.links);
        }
        self.carry_out();
        self.fetch();
        self.end_batch(was_idle);
        self.complete_batches();
        self.flush_dirty();
        if self.links.is_congested() {
            // What had no room among the output of others has it now that all is flushed.
            self.relieve();
        }
        self.weigh();
        self.bound_buffers();
    }

    /// Waits for events; not at all if there is work.
    fn sleep(&mut self, events: &mut Events) {
        let busy = !self.ready.is_empty()
            || self.kernel.has_work()
            || self.links.has_work()
            || self.links.is_congested()
            || self.links.has_dirty()
            || self.is_batch_due()
            || self.has_ready_port();
        let mut timeout = Duration::ZERO;
        if !busy {
            self.sleeping.store(true, Ordering::SeqCst);
            std::sync::atomic::fence(Ordering::SeqCst);
            match self.mail.try_recv() {
                // Not empty after all: no sleep; the message is handled first.
                Ok(mail) => {
                    self.sleeping.store(false, Ordering::SeqCst);
                    self.now = clock::now();
                    self.on_mail(mail);
                }
                Err(mpsc::TryRecvError::Disconnected) => self.stopping = true,
                Err(mpsc::TryRecvError::Empty) => {
                    let kernel = if self.restoring {
                        Time::NEVER
                    } else {
                        self.kernel.poll_timeout()
                    };
                    let next = kernel
                        .min(self.wheel.next())
                        .min(self.ports_timeout())
                        .min(self.housekeeping_at());
                    // A second at the most, so that nothing that goes wrong with a waker goes wrong for long.
                    let span = next.since(clock::now()).min(Span::from_secs(1));
                    timeout = Duration::from_nanos(span.nanos());
                    self.counts.sleeps += 1;
                }
            }
        }
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "poll failed, retrying");
            std::thread::yield_now();
        }
        self.sleeping.store(false, Ordering::SeqCst);
    }

    fn housekeeping_at(&self) -> Time {
        let stalled = if self.stalled.is_empty() {
            Time::NEVER
        } else {
            self.now + self.settings.pace_max
        };
        let slim = if self.fat.is_empty() {
            Time::NEVER
        } else {
            self.slim_at
        };
        stalled.min(slim).min(self.lingering.next())
    }

    fn take_mail(&mut self) {
        let mut arrivals = 0;
        for _ in 0..MAIL_MAX {
            let Ok(mail) = self.mail.try_recv() else {
                break;
            };
            arrivals += usize::from(matches!(mail, ToShard::Arrival(_)));
            // Never earlier than the sender's time: what it sent must not seem to come from the future.
            self.now = clock::now();
            self.on_mail(mail);
            if arrivals == ARRIVALS_MAX {
                break;
            }
        }
    }

    fn on_mail(&mut self, mail: ToShard) {
        match mail {
            ToShard::Arrival(arrival) => self.on_arrival(*arrival),
            ToShard::MakeRoom(half_open) => self.make_room(half_open),
            ToShard::OpenPort(parts) => self.open_port(*parts),
            ToShard::ClosePort(listener) => self.close_port(&listener),
            ToShard::Login {
                link,
                serial,
                answer,
                ends,
            } => self.on_login(link, serial, answer, ends),
            ToShard::Messages(from, messages, bytes, number) => {
                self.shards[self.id.0 as usize].taken(bytes);
                for message in messages {
                    self.kernel
                        .on_shard(from, message, self.now, &mut self.links);
                    self.relieve_batch();
                    // What other shards send is not paced, so it must not pile up here unsent.
                    if self.links.should_flush() || self.links.is_congested() {
                        self.relieve();
                    }
                }
                self.weigh();
                let forwarded = self.kernel.take_forwarded();
                if number != 0 {
                    let current = self.kernel.batch_number();
                    self.commits.owe(from, number, current, forwarded);
                }
            }
            ToShard::Stored(by, mail) => self.on_stored(by, mail),
            ToShard::Committed(committed) => self.on_committed(committed),
            ToShard::Fetched {
                holder,
                question,
                messages,
            } => {
                self.kernel
                    .on_fetched(holder, question, messages, self.now, &mut self.links);
            }
            ToShard::Restored => self.restoring = false,
            ToShard::JournalFull(full) => {
                self.kernel.set_journal_full(full);
                self.journal_full = full;
                self.tell_blocked();
            }
            ToShard::Ask(ask) => {
                let mut inside = Inside {
                    shard: self.id.0,
                    kernel: &mut self.kernel,
                    links: &mut self.links,
                    connections: &self.connections,
                    ports: &self.ports,
                    now: self.now,
                    stages: &self.stages,
                    counts: self.counts,
                };
                ask(&mut inside);
                // Before the next mail, so that a further question finds it done.
                self.carry_out();
            }
            // The next look at all buffers finds it.
            ToShard::BoundBuffers => {}
            ToShard::Settings(settings) => {
                self.links.set_limits(settings.links);
                self.kernel
                    .change_limits(settings.kernel.clone(), &mut self.links);
                self.door.set_settings(settings.door.clone());
                let connections = &self.connections;
                let address = |link| Some(connections.view(link)?.peer?.ip());
                self.door
                    .renew_access(&mut self.kernel, address, self.now, &mut self.links);
                self.settings = *settings;
                self.renew_ports();
            }
            ToShard::Stop => self.stopping = true,
        }
    }

    /// Tells publishers whose protocol has words for it why what they send cannot be kept, or that it can again.
    pub(super) fn tell_blocked(&mut self) {
        let why = match (self.journal_full, self.pressure) {
            (true, _) => Some("low on disk"),
            (false, Pressure::None) => None,
            (false, _) => Some("low on memory"),
        };
        if self.links.blocked() != why {
            self.links.on_blocked(why);
        }
    }

    fn on_login(&mut self, link: LinkId, serial: u64, answer: LoginAnswer, ends: Option<Time>) {
        self.door.answered(link, serial);
        self.on_login_now(link, serial, answer, ends);
        if self.serial_of(link) == Some(serial) {
            self.go_on(link);
        }
    }

    /// The same while the link's input is being driven: going on is the driver's business.
    pub(super) fn on_login_now(
        &mut self,
        link: LinkId,
        serial: u64,
        answer: LoginAnswer,
        ends: Option<Time>,
    ) {
        if self.serial_of(link) != Some(serial) {
            return;
        }
        if matches!(answer, LoginAnswer::Allowed { .. }) {
            if let Some(connection) = self.connections.get_mut(link) {
                connection.login_ends = ends.unwrap_or(Time::NEVER);
            }
            if let Some(ends) = ends {
                self.wheel.set(ends, link, serial, Deadline::LoginEnds);
            }
        }
        self.links
            .on_login(link, answer, self.now, &mut self.kernel);
        self.watch_life(link);
        self.watch_member(link);
        self.watch_handshake(link);
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        let Arrival {
            mut socket,
            transport,
            input,
            output,
            peer,
            accepted_at,
            half_open,
            slot,
            moved,
        } = arrival;
        let certified = peer.certificate_name.is_some();
        let has_front = moved.is_some();
        let login_ends = moved.as_ref().map_or(Time::NEVER, |it| it.login_ends);
        let name = &peer.listener.name;
        let (front, since, hears_parts) = match moved {
            Some(Moved { front, since, .. }) => {
                let fronts = self.settings.fronts(name);
                (front, since, fronts.is_none_or(|it| it.hears_parts()))
            }
            None => {
                let anonymous = self.door.anonymous();
                let nonce = crate::random::u64();
                match self.settings.front(name, certified, nonce, anonymous) {
                    Some((front, hears_parts)) => (front, clock::time_of(accepted_at), hears_parts),
                    None => {
                        tracing::debug!(listener = %name, "closed: the listener is gone");
                        return;
                    }
                }
            }
        };
        let front_due = front.has_timers().then_some(Time::NEVER);
        let id = self.links.open(front);
        let token = Token(id.0 as usize);
        if let Err(error) = self.poll.registry().register(
            &mut socket,
            token,
            Interest::READABLE | Interest::WRITABLE,
        ) {
            tracing::error!(%error, "a connection could not be registered with the poll");
            self.links.close(id, &mut self.kernel, self.now);
            return;
        }
        let serial = self.serial_next;
        self.serial_next += 1;
        if let Some(half_open) = &half_open {
            self.half_open.insert(half_open.serial(), id);
        }
        self.connections.insert(
            id,
            Connection {
                socket,
                transport,
                peer,
                serial,
                tail: input,
                wire: output,
                wire_sent: 0,
                readable: true,
                hung_up: false,
                blocked: false,
                held: true,
                queued: false,
                paused_by: 0,
                moves_to: None,
                waiters: Vec::new(),
                stalled_since: None,
                login_ends,
                slow: false,
                silence_watched: false,
                idle_watched: false,
                hears_parts,
                is_securing: false,
                front_due,
                shares: false,
                prioritized: false,
                round_trip: Span::FOREVER,
                fat: false,
                heard_at: since,
                sent_at: since,
                since,
                bytes_in: 0,
                bytes_out: 0,
                buffered: 0,
                half_open,
                _slot: slot,
            },
        );
        self.on_secured(id);
        let due = since + self.settings.connect_timeout;
        self.wheel.set(due, id, serial, Deadline::Connect);
        if login_ends != Time::NEVER {
            self.wheel.set(login_ends, id, serial, Deadline::LoginEnds);
        }
        self.flush(id);
        if has_front {
            // One that begins before its peer does so now.
            self.drive(id, &[]);
            self.flush_dirty();
        }
        self.go_on(id);
    }

    /// Goes on with a connection whose input had to wait: first what was read already.
    pub(super) fn go_on(&mut self, id: LinkId) {
        self.drive_tail(id);
        self.move_home(id);
        self.queue(id);
    }

    pub(super) fn on_readable(&mut self, id: LinkId, hung_up: bool) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.readable = true;
        connection.hung_up |= hung_up;
        if self.is_given_up(id) {
            return self.close(id);
        }
        self.queue(id);
    }

    /// Whether a peer has closed its side while its log-in waits among many. With few it may have said all it wants to say;
    /// then its log-in comes last.
    pub(super) fn is_given_up(&mut self, id: LinkId) -> bool {
        let connection = self
            .connections
            .get_mut(id)
            .filter(|connection| connection.hung_up);
        connection.is_some_and(|connection| self.door.on_half_close(id, connection.serial))
    }

    pub(super) fn queue(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.readable && !connection.queued {
            connection.queued = true;
            self.ready.push(id);
        }
    }

    fn read_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for id in ready.drain(..) {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.queued = false;
                self.read_once(id);
            }
        }
        if self.ready.is_empty() {
            self.ready = ready; // Keeps the allocation.
        }
    }

    fn fire_deadlines(&mut self) {
        let now = self.now;
        if !self.restoring && self.kernel.poll_timeout() <= now {
            self.kernel.on_timeout(now, &mut self.links);
            self.relieve_batch();
        }
        let mut looks = 0;
        while let Some((id, serial, what)) = self.wheel.due(now) {
            if self
                .connections
                .get_mut(id)
                .is_none_or(|connection| connection.serial != serial)
            {
                continue;
            }
            match what {
                Deadline::Connect => {
                    let connected = self.links.get(id).is_some_and(|link| link.is_connected());
                    if !connected {
                        tracing::debug!(
                            link = id.0,
                            "closed: not connected in time; the peer is at fault"
                        );
                        self.close(id);
                    }
                }
                Deadline::Silence => match (self.links.silence_max(id), self.alive_at(id)) {
                    (Some(max), alive_at) if alive_at + max <= now => {
                        tracing::debug!(
                            link = id.0,
                            "closed: no packet within the keep-alive time; the peer is gone, or hangs"
                        );
                        self.links.on_silence(id);
                        self.start_closing(id);
                    }
                    (Some(max), alive_at) => {
                        self.wheel
                            .set(alive_at + max, id, serial, Deadline::Silence)
                    }
                    (None, _) => {}
                },
                Deadline::Idle => self.on_idle(id),
                Deadline::Front => self.on_front_due(id),
                Deadline::Network => self.on_network_due(id, &mut looks),
                Deadline::Resume => {
                    if let Some(link) = self.links.get_mut(id) {
                        link.pause_until = None;
                    }
                    self.go_on(id);
                }
                Deadline::LoginEnds => {
                    // Credentials that were renewed meanwhile have a later end, and a timer of their own.
                    if self
                        .connections
                        .get_mut(id)
                        .is_some_and(|connection| connection.login_ends <= now)
                    {
                        self.links.on_login_expired(id, &mut self.kernel, now);
                    }
                }
                Deadline::Close => self.close(id),
            }
        }
        self.fire_ports();
        self.fire_lingering();
        self.give_up_on_stalled();
        if now >= self.slim_at {
            self.slim_at = now + SLIM_EVERY;
            self.slim();
        }
    }

    /// Gives large unused output buffers back.
    pub(super) fn slim(&mut self) {
        for id in std::mem::take(&mut self.fat) {
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            connection.fat = false;
            let Some(link) = self.links.get_mut(id) else {
                continue;
            };
            if link.waiting() == 0 {
                link.give_back();
                connection.wire.shrink_to_fit();
            }
            self.count_buffers(id);
        }
    }

    /// Starts to end a connection: what is in its output may still leave.
    pub(super) fn start_closing(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let serial = connection.serial;
        self.wheel
            .set(self.now + CLOSE_PATIENCE, id, serial, Deadline::Close);
        self.flush(id);
    }

    /// Ends a connection now. What the peer has not read of our output may be lost.
    pub(super) fn close(&mut self, id: LinkId) {
        if let Some(connection) = self.take_out(id) {
            let _ = connection.socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Ends a connection whose output has left, and lets the peer read it: see [`linger`](super::linger).
    pub(super) fn close_gently(&mut self, id: LinkId) {
        if let Some(connection) = self.take_out(id) {
            let Connection {
                socket,
                serial,
                _slot: slot,
                ..
            } = *connection;
            self.linger(serial, socket, slot);
        }
    }

    /// Ends a connection but for its socket, which is registered no longer.
    fn take_out(&mut self, id: LinkId) -> Option<Box<Connection>> {
        let mut connection = self.connections.remove(id)?;
        if let Some(half_open) = &connection.half_open {
            self.half_open.remove(&half_open.serial());
        }
        if let Transport::Filtered(filtered) = &mut connection.transport {
            let mut last = Vec::new();
            filtered.close(&mut last);
            // Best effort: the peer sees the end of the stream in any case.
            let _ = io::Write::write(&mut connection.socket, &last);
        }
        let _ = self.poll.registry().deregister(&mut connection.socket);
        let waiters = std::mem::take(&mut connection.waiters);
        self.door.forget(id, connection.serial);
        self.links.close(id, &mut self.kernel, self.now);
        self.resume_all(waiters);
        Some(connection)
    }

    fn say_good_bye(&mut self) {
        self.await_commits();
        for id in self.connections.ids() {
            self.links.disconnect(id, CloseReason::ShuttingDown);
            self.flush(id);
            self.close(id);
        }
        self.close_ports();
        self.discard_all();
        // What follows from the ends of all links; the committer writes it before it ends.
        self.carry_out();
        self.close_batch();
    }

    /// Waits until the answers that are held may leave, for a while.
    fn await_commits(&mut self) {
        self.carry_out();
        self.close_batch();
        let deadline = std::time::Instant::now() + COMMIT_PATIENCE;
        while self.commits.is_waiting() {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            match self.mail.recv_timeout(left) {
                Ok(
                    mail @ (ToShard::Committed(_) | ToShard::Stored(..) | ToShard::Messages(..)),
                ) => self.on_mail(mail),
                Ok(_) => {}
                Err(_) => break,
            }
            self.carry_out();
            self.close_batch();
            self.complete_batches();
        }
        self.flush_dirty();
    }
}
