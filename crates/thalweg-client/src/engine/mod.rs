//! The client without its sockets: waiting messages, messages in flight, the choice of their lane, and received
//! messages.
//!
//! *Knows:* transports, messages, time as a value. *Must never know:* sockets, threads, clocks, which protocol a transport
//! speaks.
//!
//! # How a driver turns it
//!
//! 1. [`Engine::publish`], [`Engine::subscribe`] … for the requests of handles since the last turn, then
//!    [`Engine::turn`].
//! 2. [`Engine::poll_action`] until there is none: connect a lane ([`Engine::endpoint`] says where) or close its socket.
//! 3. [`Engine::poll_notice`] until there is none: tell the handles.
//! 4. For each lane of [`Engine::lanes`]: write [`Engine::unwritten`] (streams) or [`Engine::datagram`] (datagrams) unless
//!    [`Engine::write_at`] lies ahead, and tell [`Engine::wrote`]; that may make room for more, so again from 2 on.
//! 5. Sleep until a socket is ready, a handle rings, or [`Engine::poll_timeout`]; then [`Engine::handle_input`] (while
//!    [`Engine::wants_input`]), [`Engine::closed`], [`Engine::handle_timeout`].

mod asks;
mod books;
mod connections;
mod draft;
mod early;
mod fitting;
mod interface;
mod lane;
mod outbox;
mod queue;
mod receive;
mod seen;
mod send;
mod settings;
mod subscriptions;
mod switching;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use thalweg_model::{Span, Time};

use crate::adaptive::{Chooser, Demand, Explanation, NetworkReading};
use crate::spool::{Spool, SpoolError, SpoolStatus};
use crate::transport::{Capabilities, Endpoint, MessageId, RequestId, SubscriptionId, Transport};

pub use draft::Draft;
pub use interface::{
    Action, Counts, DeliveryToken, Full, LaneSpec, LaneState, LaneStatus, Load, Notice, Role,
    Success, Wish,
};
pub use settings::{EngineSettings, Overflow, WhenRefused};

use asks::Ask;
use books::Books;
use lane::{Lane, Todo};
use subscriptions::Subscription;
use switching::Way;

/// Interval at which conditions are read and unneeded lanes are closed.
const TICK: Span = Span::from_secs(1);

/// The client without its sockets.
pub struct Engine {
    lanes: Vec<Lane>,
    core: Core,
}

/// Everything but the lanes: what transports tell is noted here while they are being called.
struct Core {
    settings: EngineSettings,
    books: Books,
    ways: Vec<Way>,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    asks: BTreeMap<RequestId, Ask>,
    /// Messages that came before their subscription was asked for.
    early: VecDeque<early::Early>,
    chooser: Option<Chooser>,
    demand: Demand,
    demand_is_new: bool,
    actions: VecDeque<Action>,
    todo: Vec<(usize, Todo)>,
    /// Hosts of lanes, by number less one.
    hosts: Vec<String>,
    random: u64,
    tick_at: Time,
    /// When a subscription or a question may have something to do at the soonest.
    care_at: Time,
    is_closed: bool,
    /// Publishes for the client's brokers, whatever the chooser says.
    preferred: Option<usize>,
}

impl Engine {
    /// Creates an engine with the lanes of the client's brokers (way 0). Messages that an earlier process left in the
    /// spool are sent first. `chooser` decides between the lanes; without one the first that works is taken. `seed`
    /// jitters back-offs.
    pub fn new(
        settings: EngineSettings,
        lanes: Vec<LaneSpec>,
        spool: Box<dyn Spool>,
        chooser: Option<Chooser>,
        seed: u64,
        now: Time,
    ) -> Result<Engine, SpoolError> {
        let (books, former) = Books::open(spool, &settings)?;
        let core = Core {
            settings,
            books,
            ways: Vec::new(),
            subscriptions: BTreeMap::new(),
            asks: BTreeMap::new(),
            early: VecDeque::new(),
            chooser,
            demand: Demand::default(),
            demand_is_new: false,
            actions: VecDeque::new(),
            todo: Vec::new(),
            hosts: Vec::new(),
            random: seed,
            tick_at: Time::NEVER,
            care_at: Time::NEVER,
            is_closed: false,
            preferred: None,
        };
        let mut engine = Engine {
            lanes: Vec::new(),
            core,
        };
        engine.add_way(lanes.into_iter().map(|lane| lane.transport).collect(), now);
        for key in former {
            let Some(way) = engine.core.ways.first_mut() else {
                continue;
            };
            way.queue.push(key, &engine.core.books.outbox);
        }
        engine.turn(now);
        Ok(engine)
    }

    /// The identifier of the first message that is published; the next ones follow without a gap.
    pub fn next_id(&self) -> MessageId {
        self.core.books.next_id
    }

    /// The publisher of this client's stamps.
    pub fn publisher(&self) -> u64 {
        self.core.books.publisher
    }

    /// More brokers: a destination of its own with its own order. Returns its number for [`Draft::way`]; never 0.
    pub fn add_way(&mut self, transports: Vec<Box<dyn Transport>>, _now: Time) -> u32 {
        let number = self.core.ways.len();
        let (mut lanes, mut receivers) = (Vec::new(), Vec::new());
        for transport in transports {
            let host = self.core.host_of(transport.endpoint());
            match transport.capabilities().publishes {
                true => lanes.push(self.lanes.len()),
                false => receivers.push(self.lanes.len()),
            }
            self.lanes
                .push(Lane::new(transport, number, host, &self.core.settings));
        }
        self.core.ways.push(Way::new(lanes, receivers));
        number as u32
    }

    /// Everything that handles asked since the last turn is in: commits the spool, and lets go what may go.
    pub fn turn(&mut self, now: Time) {
        if self.core.is_closed {
            return;
        }
        self.core.commit(now);
        self.tell_demand(now);
        let ways = 0..self.core.ways.len();
        ways.clone().for_each(|way| self.steer(way, now));
        // Before publishes: what this client publishes to itself must find its subscriptions.
        if self.core.care_at <= now {
            self.care(now);
        }
        ways.for_each(|way| self.pump(way, now));
    }

    /// Disconnects every lane and writes the spool's gathered entries; nothing is sent after that, and unsettled
    /// messages stay unsettled.
    pub fn close(&mut self, now: Time) {
        self.turn(now);
        self.core.is_closed = true;
        for lane in 0..self.lanes.len() {
            self.dismiss(lane, now);
        }
        self.core.books.close();
    }

    /// Makes a lane publish, as soon as it is up, whatever the chooser decides; `None`: the chooser decides again. For
    /// laboratories, and for callers that know better.
    pub fn prefer(&mut self, lane: Option<usize>, now: Time) {
        self.core.preferred =
            lane.filter(|lane| self.lanes.get(*lane).is_some_and(|it| it.link.way == 0));
        self.turn(now);
    }

    /// Number of lanes; a lane's number is below it. Grows with [`Engine::add_way`].
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Where a lane connects to.
    pub fn endpoint(&self, lane: usize) -> Option<&Endpoint> {
        self.lanes.get(lane).map(|lane| lane.transport.endpoint())
    }

    /// A lane is connected (TCP, TLS, WebSocket all done; for datagrams: a socket is bound).
    pub fn connected(&mut self, lane: usize, peer: SocketAddr, now: Time) {
        self.begin(lane, peer, now);
        self.follow_up(lane, now);
    }

    /// A lane could not be connected.
    pub fn connect_failed(&mut self, lane: usize, words: &str, now: Time) {
        if self
            .lanes
            .get(lane)
            .is_some_and(|it| it.link.state == LaneState::Connecting)
        {
            self.lost(lane, words, false, now);
            self.follow_up(lane, now);
        }
    }

    /// Bytes came: everything of a stream that was not consumed yet, or one datagram. Returns how many are consumed.
    pub fn handle_input(&mut self, lane: usize, input: &[u8], now: Time) -> usize {
        let consumed = self.hear(lane, input, now);
        self.follow_up(lane, now);
        consumed
    }

    /// Whether TLS is to begin on a lane's connection, which was not encrypted so far: [`Engine::secured`] comes next.
    pub fn wants_tls(&self, lane: usize) -> bool {
        self.lanes
            .get(lane)
            .is_some_and(|lane| lane.transport.wants_tls())
    }

    /// TLS stands on a connection on which it was wanted.
    pub fn secured(&mut self, lane: usize, now: Time) {
        if let Some(it) = self.lanes.get_mut(lane) {
            it.transport.secured(&mut it.out);
        }
        self.follow_up(lane, now);
    }

    /// A lane's connection has ended, by the peer or by a fault.
    pub fn closed(&mut self, lane: usize, words: &str, now: Time) {
        if self.lanes.get(lane).is_some_and(|it| it.link.is_open()) {
            self.lost(lane, words, false, now);
            self.follow_up(lane, now);
        }
    }

    /// Takes in the system's counters of a lane's connection.
    pub fn network(&mut self, lane: usize, reading: NetworkReading, now: Time) {
        if let Some(chooser) = &mut self.core.chooser
            && self
                .lanes
                .get(lane)
                .is_some_and(|it| it.link.way == 0 && it.link.is_up())
        {
            chooser.network(lane, &reading, now);
        }
    }

    /// Of a stream: the bytes that wait to be written.
    pub fn unwritten(&self, lane: usize) -> &[u8] {
        self.lanes.get(lane).map_or(&[], |lane| lane.out.unsent())
    }

    /// The next datagram that waits to be sent.
    pub fn datagram(&self, lane: usize) -> Option<&[u8]> {
        self.lanes.get(lane)?.out.datagrams().next()
    }

    /// The next datagrams that wait, if they can leave by one call: [`Output::datagrams_alike`].
    pub fn datagrams_alike(&self, lane: usize, bytes_max: usize) -> Option<(&[u8], usize)> {
        self.lanes.get(lane)?.out.datagrams_alike(bytes_max)
    }

    /// When what waits on a lane is to be written: now or before, at once; later, when more is about to come that can go
    /// along; [`Time::NEVER`] if nothing waits.
    pub fn write_at(&self, lane: usize, now: Time) -> Time {
        let Some(lane) = self.lanes.get(lane) else {
            return Time::NEVER;
        };
        match lane.out.unsent().len() {
            0 => Time::NEVER,
            pending => lane.link.batcher.flush_at(pending, false, now),
        }
    }

    /// So many of the bytes that waited are written; of a datagram, all of it.
    pub fn wrote(&mut self, lane: usize, bytes: usize, now: Time) {
        let Some(it) = self.lanes.get_mut(lane) else {
            return;
        };
        let was_high = it.out.unsent().len() >= self.core.settings.high_water;
        it.out.consume(bytes);
        let left = it.out.unsent().len();
        it.link.batcher.flushed(left, now);
        if was_high && left < self.core.settings.high_water {
            let way = it.link.way;
            self.pump(way, now);
        }
    }

    /// Whether a lane's socket is to be read: not while its receiver does not keep up.
    pub fn wants_input(&self, lane: usize) -> bool {
        !self
            .core
            .subscriptions
            .values()
            .any(|it| it.is_stuffed(lane, &self.core.settings))
    }

    /// Returns the next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.core.actions.pop_front()
    }

    /// Returns the next notice for handles.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.core.books.notices.pop_front()
    }

    /// Next time at which [`Engine::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Time {
        if self.core.is_closed {
            return Time::NEVER;
        }
        let core = &self.core;
        let lanes = self
            .lanes
            .iter()
            .map(|lane| lane.wakes_at(&core.settings))
            .min();
        let ways = core.ways.iter().map(|way| self.way_wakes_at(way)).min();
        let chooser = core.chooser.as_ref().map(Chooser::poll_timeout);
        let own = [
            core.books.poll_timeout(),
            core.books.outbox.expires_next(),
            core.tick_at,
            core.care_at,
        ];
        own.into_iter()
            .chain(lanes)
            .chain(ways)
            .chain(chooser)
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// The time of [`Engine::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.core.is_closed {
            return;
        }
        for lane in 0..self.lanes.len() {
            self.lane_timeout(lane, now);
            self.work_off(lane, now);
        }
        self.core.expire(now);
        self.core.books.tidy(now);
        if self.core.tick_at <= now {
            self.tick(now);
        }
        self.core.care_at = self.core.care_at.min(now);
        self.turn(now);
    }

    /// Bytes of a subscription that may wait to be taken, as the settings say.
    #[cfg(feature = "multicast")]
    pub(crate) fn receive_bytes_max(&self) -> usize {
        self.core.settings.receive_bytes_max
    }

    /// Number of messages that wait or are in flight.
    pub fn load(&self) -> Load {
        Load {
            messages: self.core.books.outbox.len(),
            bytes: self.core.books.outbox.bytes(),
            under_way: self.lanes.iter().map(|lane| lane.link.flight.len()).sum(),
        }
    }

    /// Messages counted since the engine was made.
    pub fn counts(&self) -> Counts {
        self.core.books.counts
    }

    /// Status of the spool.
    pub fn spool_status(&self) -> SpoolStatus {
        self.core.books.spool_status()
    }

    /// Error of the spool as text; empty if there is none. Cheap, unlike [`Engine::spool_status`].
    pub fn spool_trouble(&self) -> &str {
        self.core.books.spool_trouble()
    }

    /// Status of a lane.
    pub fn lane_status(&self, lane: usize) -> Option<LaneStatus<'_>> {
        let it = self.lanes.get(lane)?;
        let publishes = self
            .core
            .ways
            .get(it.link.way)
            .is_some_and(|way| way.current == Some(lane));
        Some(LaneStatus {
            protocol: it.transport.protocol(),
            endpoint: it.transport.endpoint(),
            state: it.link.state,
            publishes,
            subscriptions: self
                .core
                .subscriptions
                .values()
                .filter(|one| one.is_at(lane))
                .count(),
            under_way: it.link.flight.len(),
            connections: it.link.ups,
            words: &it.link.words,
        })
    }

    /// Capabilities of a lane, as far as they are known.
    pub fn capabilities(&self, lane: usize) -> Option<Capabilities> {
        self.lanes
            .get(lane)
            .map(|lane| lane.transport.capabilities())
    }

    /// Why messages go where they go; none without a chooser.
    pub fn explain(&self, now: Time) -> Option<Explanation> {
        self.core
            .chooser
            .as_ref()
            .map(|chooser| chooser.explain(now))
    }

    /// Does the work that an event of a lane has caused.
    fn follow_up(&mut self, lane: usize, now: Time) {
        self.work_off(lane, now);
        let Some(way) = self.lanes.get(lane).map(|it| it.link.way) else {
            return;
        };
        if self.core.is_closed {
            return;
        }
        self.steer(way, now);
        if self.core.care_at <= now {
            self.care(now);
        }
        self.pump(way, now);
    }
}

impl Core {
    /// The number of a host, from 1 on.
    fn host_of(&mut self, endpoint: &Endpoint) -> u32 {
        // Ports differ between protocols of one broker; names do not.
        let at = self
            .hosts
            .iter()
            .position(|host| *host == endpoint.host)
            .unwrap_or_else(|| {
                self.hosts.push(endpoint.host.clone());
                self.hosts.len() - 1
            });
        at as u32 + 1
    }

    /// The next number of a sequence that looks random (splitmix64): enough for jitter.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
