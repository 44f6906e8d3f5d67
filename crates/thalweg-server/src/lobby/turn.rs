//! The lobby's thread: one poll, many listeners, a slab of waiting connections.
//!
//! A turn: wait for events or the next deadline, take commands, accept a bounded batch on every listener that is ready,
//! advance every connection that has an event, drop those whose time is over.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use slab::Slab;
use tracing::{debug, error, warn};

use super::accept::{Accepted, Door};
use super::address::Occupancy;
use super::counters::count;
use super::holders::holders_to_close;
use super::places::{Holder, Place, Room, SharedPlaces};
use super::waiting::{Step, Waiting, Why};
use super::{Command, Deliver, LobbyCounters, LobbyReload, LobbySettings, Socket};
use crate::access::network_of;
use crate::listen::Listener;
use crate::transport::TransportFault;

pub(super) struct Turns {
    poll: Poll,
    waker: Arc<Waker>,
    commands: mpsc::Receiver<Command>,
    settings: LobbySettings,
    deliver: Box<dyn Deliver>,
    counters: Arc<LobbyCounters>,
    doors: Slab<Door>,
    /// Connections open on all listeners, wherever they are.
    open: Arc<AtomicUsize>,
    spare: Option<std::fs::File>,
    /// When an accept that failed was last logged: under pressure they fail many times a second.
    complained_at: Option<Instant>,
    waiting: Slab<(Place, Waiting)>,
    /// Those of this thread and of shards.
    places: SharedPlaces,
    /// Bytes that those who wait have sent.
    held: usize,
    /// Waiting connections by arrival, oldest first. The timeout is the same for all, so this is the order of
    /// deadlines, too. Those that have left are skipped: the serial number says whether a place in the slab is in use
    /// by another.
    line: VecDeque<(Instant, usize, u64)>,
    serial_next: u64,
    buffer: Box<[u8]>,
}

impl Turns {
    pub(super) fn new(
        settings: LobbySettings,
        deliver: Box<dyn Deliver>,
        counters: Arc<LobbyCounters>,
        commands: mpsc::Receiver<Command>,
    ) -> io::Result<Turns> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Turns {
            poll,
            places: SharedPlaces::new(waker.clone()),
            waker,
            commands,
            settings,
            deliver,
            counters,
            doors: Slab::new(),
            open: Arc::default(),
            spare: spare(),
            complained_at: None,
            waiting: Slab::new(),
            held: 0,
            line: VecDeque::new(),
            serial_next: 0,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    pub(super) fn add(&mut self, listener: Listener) -> io::Result<()> {
        let serial = self.serial();
        let entry = self.doors.vacant_entry();
        let token = door_token(entry.key());
        entry.insert(Door::new(
            serial,
            listener,
            Occupancy::new(&self.open),
            self.poll.registry(),
            token,
            Instant::now(),
        )?);
        Ok(())
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        loop {
            let timeout = self.time_to_next(Instant::now());
            if let Err(failure) = self.poll.poll(&mut events, timeout)
                && failure.kind() != ErrorKind::Interrupted
            {
                // The descriptor is ours and valid, so this is a bug, and without this thread no connection is
                // accepted.
                panic!("poll failed: {failure}");
            }
            let now = Instant::now();
            if self.take_commands() {
                return;
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(token) if token % 2 == 1 => {
                        if let Some(door) = self.doors.get_mut(token / 2) {
                            door.is_ready = true;
                        }
                    }
                    Token(token) => {
                        self.advance(token / 2, now);
                        self.bound_memory();
                    }
                }
            }
            // Those who wait come before those who come: else a storm starves the handshakes it consists of.
            self.drop_late(now);
            self.accept(now);
            self.bound_places();
            self.bound_memory();
            self.counters
                .waiting
                .store(self.waiting.len() as u64, Ordering::Relaxed);
        }
    }

    /// True when it is time to stop.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Reload(reload)) => self.reload(reload),
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return true,
                Err(mpsc::TryRecvError::Empty) => return false,
            }
        }
    }

    fn reload(&mut self, reload: LobbyReload) {
        self.settings = reload.settings.unwrap_or(self.settings);
        let now = Instant::now();
        for spec in reload.change {
            if let Some((_, door)) = self
                .doors
                .iter_mut()
                .find(|(_, door)| door.name() == &*spec.name)
            {
                door.change(spec, now);
            }
        }
        let replaced: Vec<_> = reload
            .add
            .iter()
            .map(|listener| listener.spec().name.clone())
            .collect();
        self.doors.retain(|_, door| {
            !reload
                .remove
                .iter()
                .chain(&replaced)
                .any(|name| **name == *door.name())
        });
        for listener in reload.add {
            let name = listener.spec().name.clone();
            if let Err(failure) = self.add(listener) {
                error!(
                    "listener `{name}` cannot be registered with the poll and accepts no connection: {failure}"
                );
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        for key in 0..self.doors.capacity() {
            let mut batch = ACCEPTS_PER_TURN;
            while batch > 0 {
                let Some(door) = self.doors.get_mut(key) else {
                    break;
                };
                batch -= 1;
                match door.accept(now) {
                    Accepted::Connection(socket, address) => {
                        self.admit(key, socket, address, now);
                    }
                    Accepted::Nothing => break,
                    Accepted::Paused => {
                        count(&self.counters.paused_by_rate);
                        break;
                    }
                    Accepted::Exhausted(failure) => {
                        self.turn_away(key, &failure, now);
                        for (_, door) in &mut self.doors {
                            door.pause(now + BACK_OFF);
                        }
                        return;
                    }
                    Accepted::Failed(failure) => {
                        door.pause(now + BACK_OFF);
                        let name = door.spec().name.clone();
                        count(&self.counters.failed_accepts);
                        if self.may_complain(now) {
                            warn!("listener `{name}`: accept failed: {failure}");
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Out of descriptors: gives the spare one up to close what waits in the system's queue, so that peers are refused
    /// at once.
    fn turn_away(&mut self, key: usize, failure: &io::Error, now: Instant) {
        if self.may_complain(now) {
            error!(
                "no file descriptor is left, new connections are turned away: {failure}; raise the limit (`ulimit -n`, \
                 LimitNOFILE in systemd) or lower `connections_max`"
            );
        }
        self.spare = None;
        if let Some(door) = self.doors.get_mut(key) {
            for _ in 0..ACCEPTS_PER_TURN {
                if !door.accept_and_close() {
                    break;
                }
                count(&self.counters.accepted);
                count(&self.counters.refused_descriptors);
            }
        }
        self.spare = spare();
    }

    /// True once a minute.
    fn may_complain(&mut self, now: Instant) -> bool {
        let may = self
            .complained_at
            .is_none_or(|before| now >= before + COMPLAINT_INTERVAL);
        if may {
            self.complained_at = Some(now);
        }
        may
    }

    fn admit(&mut self, key: usize, socket: Socket, address: Option<SocketAddr>, now: Instant) {
        let Some(door) = self.doors.get(key) else {
            return;
        };
        let counters = &self.counters;
        count(&counters.accepted);
        let network = address.map(|address| network_of(address.ip()));
        let LobbySettings {
            handshakes_max,
            silence_max,
            ..
        } = self.settings;
        let room = self
            .places
            .lock()
            .room(door.serial, network, handshakes_max, silence_max, now);
        if room == Room::Full {
            return count(&counters.refused_handshakes);
        }
        let Some(slot) = door.enter(self.settings.connections_max) else {
            return count(&counters.refused_connections);
        };
        let mut waiting = match Waiting::new(socket, address, door.local(), door.spec(), slot, now)
        {
            Ok(waiting) => waiting,
            Err(fault) => {
                warn!("listener `{}`: {fault}", door.name());
                return count(&counters.failed_tls);
            }
        };
        if !waiting.occupy() {
            return count(&counters.refused_address);
        }
        let door = door.serial;
        // In a storm the first packet is often there already: then this socket need not be registered with the poll,
        // and no room has to be made.
        let step = waiting.advance(&mut self.buffer, &self.settings);
        if let Room::Instead(place, holder) = room
            && !matches!(step, Step::Drop(_))
            && (waiting.stays_half_open() || !step.is_delivery())
        {
            self.take_place(place, holder);
        }
        let network = waiting.address().map(|address| network_of(address.ip()));
        let place = Place {
            serial: self.serial(),
            door,
            network,
            heard_at: now,
        };
        match step {
            Step::Wait | Step::Explain(_) => {
                self.held += waiting.wire_bytes();
                let key = self.waiting.insert((place, waiting));
                self.places.lock().enter(&place, Holder::Lobby(key));
                self.line.push_back((now, key, place.serial));
                self.settle(key, step, now);
            }
            Step::Deliver { key, routed } => self.hand_over(waiting, place, key, routed),
            Step::Drop(why) => self.count_dropped(why),
        }
    }

    /// Takes places back where shards have let more connections wait than their listener has places for.
    fn bound_places(&mut self) {
        loop {
            let beyond = self.places.lock().beyond(self.settings.handshakes_max);
            let Some((place, holder)) = beyond else {
                return;
            };
            self.take_place(place, holder);
        }
    }

    /// Closes the connection whose place another takes.
    fn take_place(&mut self, place: Place, holder: Holder) {
        count(&self.counters.displaced);
        let network = place.network;
        debug!(
            "a connection from {network:?} makes room for another: its listener has limits.handshakes_max of them"
        );
        // Free at once, wherever the connection is: it is not found again.
        self.places.lock().leave(&place);
        match holder {
            Holder::Lobby(key) => drop(self.take_out(key)),
            Holder::Shard(serial) => self.deliver.make_room(serial),
        }
    }

    fn advance(&mut self, key: usize, now: Instant) {
        let Some((place, waiting)) = self.waiting.get_mut(key) else {
            return;
        };
        let bytes_before = waiting.wire_bytes();
        let step = waiting.advance(&mut self.buffer, &self.settings);
        if waiting.wire_bytes() > bytes_before {
            self.held += waiting.wire_bytes() - bytes_before;
            let mut places = self.places.lock();
            places.leave(place);
            // A PROXY header says who it really is.
            place.network = waiting.address().map(|address| network_of(address.ip()));
            place.heard_at = now;
            places.enter(place, Holder::Lobby(key));
        }
        self.settle(key, step, now);
    }

    /// Ends a connection's stay in the lobby.
    fn take_out(&mut self, key: usize) -> Option<(Place, Waiting)> {
        let (place, waiting) = self.waiting.try_remove(key)?;
        self.places.lock().leave(&place);
        self.held -= waiting.wire_bytes();
        Some((place, waiting))
    }

    fn serial(&mut self) -> u64 {
        self.serial_next += 1;
        self.serial_next
    }

    /// Does what a step asks for with a connection that is in the slab.
    fn settle(&mut self, key: usize, step: Step, now: Instant) {
        match step {
            Step::Wait => self.watch(key),
            Step::Explain(fault) => {
                self.count_fault(&fault);
                if let Some((_, waiting)) = self.waiting.get(key) {
                    let (name, address) = (waiting.listener_name(), waiting.address());
                    debug!("listener `{name}`: connection from {address:?} refused: {fault}");
                }
                // Sends the words, and reads on: no event would tell again of what the peer sent meanwhile.
                self.advance(key, now);
            }
            Step::Deliver { key: route, routed } => {
                if let Some((place, waiting)) = self.take_out(key) {
                    self.hand_over(waiting, place, route, routed);
                }
            }
            Step::Drop(why) => {
                self.count_dropped(why);
                self.take_out(key);
            }
        }
    }

    /// Drops those of the network that has sent most, until a quarter of what all may have sent is free.
    fn bound_memory(&mut self) {
        let max = self.settings.bytes_max;
        if self.held <= max {
            return;
        }
        let holders = self
            .waiting
            .iter()
            .map(|(key, (place, waiting))| (place.network, waiting.wire_bytes(), key));
        let at_fault = holders_to_close(holders, self.held - max / 4 * 3);
        let networks: BTreeSet<_> = at_fault
            .iter()
            .filter_map(|(network, ..)| *network)
            .collect();
        warn!(
            connections = at_fault.len(),
            ?networks,
            "dropping connections that have sent most without being whole handshakes: all of them are over their share of \
             limits.memory_bytes_max"
        );
        for (_, _, key) in at_fault {
            count(&self.counters.dropped_memory);
            self.take_out(key);
        }
    }

    fn watch(&mut self, key: usize) {
        let Some((_, waiting)) = self.waiting.get_mut(key) else {
            return;
        };
        if let Err(failure) = waiting.watch(self.poll.registry(), Token(key * 2)) {
            warn!("a connection cannot be watched and is dropped: {failure}");
            self.take_out(key);
            count(&self.counters.failed_accepts);
        }
    }

    fn hand_over(&mut self, waiting: Waiting, place: Place, key: u64, routed: bool) {
        if !routed {
            count(&self.counters.unrouted);
        }
        count(&self.counters.delivered);
        let half_open = self.places.hand_over(place, !waiting.stays_half_open());
        let arrival = waiting.into_arrival(self.poll.registry(), half_open);
        self.deliver.deliver(key, arrival);
    }

    fn count_dropped(&self, why: Why) {
        match why {
            Why::HungUp => count(&self.counters.hung_up),
            Why::Oversized => count(&self.counters.oversized),
            Why::Network => count(&self.counters.refused_address),
            Why::Explained => {}
        }
    }

    fn count_fault(&self, fault: &TransportFault) {
        count(match fault {
            TransportFault::Tls(_) => &self.counters.failed_tls,
            TransportFault::Upgrade { .. } | TransportFault::WebSocket(_) => {
                &self.counters.failed_websocket
            }
            TransportFault::Proxy(_) => &self.counters.failed_proxy,
        });
    }

    fn drop_late(&mut self, now: Instant) {
        while let Some(&(since, key, serial)) = self.line.front() {
            let is_there = self
                .waiting
                .get(key)
                .is_some_and(|(place, _)| place.serial == serial);
            if is_there && now < since + self.settings.connect_timeout {
                break;
            }
            self.line.pop_front();
            if is_there
                && let Some((_, waiting)) = self.take_out(key)
                && !waiting.is_explained()
            {
                count(&self.counters.timed_out);
                let (name, address) = (waiting.listener_name(), waiting.address());
                debug!("listener `{name}`: nothing useful came from {address:?} in time");
            }
        }
        // Entries of connections that have left are removed now and then, so that the queue stays in proportion to the
        // waiting ones.
        if self.line.len() > 2 * self.waiting.len() + LINE_SLACK {
            let waiting = &self.waiting;
            self.line.retain(|&(_, key, serial)| {
                waiting
                    .get(key)
                    .is_some_and(|(place, _)| place.serial == serial)
            });
        }
    }

    /// Time until something has to be done without an event; `None` when nothing has.
    fn time_to_next(&self, now: Instant) -> Option<Duration> {
        let late = self
            .line
            .front()
            .map(|(since, ..)| *since + self.settings.connect_timeout);
        let doors = self.doors.iter().filter_map(|(_, door)| door.next_try(now));
        doors
            .chain(late)
            .min()
            .map(|next| next.saturating_duration_since(now))
    }
}

fn door_token(key: usize) -> Token {
    Token(key * 2 + 1)
}

fn spare() -> Option<std::fs::File> {
    std::fs::File::open("/dev/null").ok()
}

/// Even tokens are connections, odd ones listeners; the largest number is neither, for no slab is that large.
const WAKER: Token = Token(usize::MAX);
/// Connections accepted per listener and turn.
const ACCEPTS_PER_TURN: usize = 64;
const EVENTS_PER_TURN: usize = 1_024;
const READ_BYTES: usize = 16 * 1024;
/// Pause after a failure of the system to accept.
const BACK_OFF: Duration = Duration::from_millis(50);
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);
/// Entries of the line that may be stale before it is tidied.
const LINE_SLACK: usize = 1_024;
