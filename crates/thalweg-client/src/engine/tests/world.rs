//! A world for engines: a driver without sockets, lanes that lose, delay and break, a broker, handles. Virtual time, one
//! seed, no sleeps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;

use thalweg_model::{Reliability, Span, Time};

use super::broker::{Answer, Broker};
use super::dice::Dice;
use super::transport::{LaneTraits, SimTransport};
use super::wire::Frame;
use crate::engine::{
    Action, DeliveryToken, Draft, Engine, EngineSettings, Full, LaneSpec, Notice, Role, Success,
    Wish,
};
use crate::spool::{Memory, Spool};
use crate::transport::{MessageId, Opening, SubscriptionId};

/// Kinds of failures, and how often they occur.
#[derive(Clone, Copy, Debug)]
pub struct Chaos {
    /// Of datagrams, in percent.
    pub loss: u64,
    /// Of datagrams that come twice, in percent.
    pub twice: u64,
    /// The longest delay of a datagram, in milliseconds.
    pub delay: u64,
    /// Cuts of a connection in a thousand steps of the network.
    pub cuts: u64,
    /// Bytes written before a cut may reach the broker after it.
    pub late: bool,
    /// Connections that cannot be made, in percent.
    pub unreachable: u64,
    /// The broker forgets sessions at cuts, in percent.
    pub amnesia: u64,
}

impl Chaos {
    pub const NONE: Chaos = Chaos {
        loss: 0,
        twice: 0,
        delay: 50,
        cuts: 0,
        late: false,
        unreachable: 0,
        amnesia: 0,
    };
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// On a lane and a connection of it, which may be gone.
    Lane(usize, u64, Step),
    /// The handles take what was delivered.
    Take,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Connected,
    ConnectFailed,
    ToBroker(Vec<u8>),
    ToClient(Vec<u8>),
    /// The client sees the end of the connection.
    Closed,
    BrokerClosed,
}

/// A lane as driver and network see it.
#[derive(Default)]
struct Link {
    kind: LaneTraits,
    /// The connection of the hour; counts up.
    connection: u64,
    is_open: bool,
    /// When the last bytes arrive, so that a stream keeps its order.
    to_broker: Time,
    to_client: Time,
    client_rest: Vec<u8>,
    broker_rest: BTreeMap<u64, Vec<u8>>,
}

/// A published message and its outcome.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub address: String,
    pub reliability: Reliability,
    pub priority: u8,
    pub outcome: Success,
    /// The subscription stood before it was published.
    pub is_wanted: bool,
}

pub struct World {
    pub engine: Engine,
    pub broker: Broker,
    pub dice: Dice,
    pub now: Time,
    pub chaos: Chaos,
    pub tickets: BTreeMap<MessageId, Ticket>,
    /// Payloads delivered to handles, per subscription.
    pub got: BTreeMap<SubscriptionId, Vec<String>>,
    pub standing: BTreeMap<SubscriptionId, bool>,
    pub notices: Vec<String>,
    /// Answers to questions: payloads.
    pub answers: Vec<(u64, Option<String>)>,
    /// Handles take at once.
    pub takes: bool,
    /// When lanes were to be connected.
    pub connects: Vec<(usize, Time)>,
    inbox: VecDeque<DeliveryToken>,
    links: Vec<Link>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    /// Number of steps without time passing.
    wakes: u32,
    next_id: MessageId,
}

fn link(kind: &LaneTraits) -> Link {
    Link {
        kind: *kind,
        ..Link::default()
    }
}

pub fn settings() -> EngineSettings {
    EngineSettings::new(Opening {
        client_id: "gateway".to_owned(),
        user: None,
        password: None,
        session: Span::ZERO,
        will: None,
        keep_alive: Span::ZERO,
    })
}

impl World {
    pub fn new(seed: u64, kinds: &[LaneTraits], settings: EngineSettings) -> World {
        World::with_spool(
            seed,
            kinds,
            settings,
            Box::new(Memory::new(seed ^ 0xabcd_ef01)),
            Time::ZERO,
        )
    }

    pub fn with_spool(
        seed: u64,
        kinds: &[LaneTraits],
        settings: EngineSettings,
        spool: Box<dyn Spool>,
        now: Time,
    ) -> World {
        let spec = |kind: &LaneTraits| LaneSpec {
            transport: Box::new(SimTransport::new(*kind, "broker")),
            role: Role::Candidate,
        };
        let engine = Engine::new(
            settings,
            kinds.iter().map(spec).collect(),
            spool,
            None,
            seed,
            now,
        )
        .expect("the spool opens");
        let mut world = World {
            next_id: engine.next_id(),
            engine,
            broker: Broker::default(),
            dice: Dice::new(seed),
            now,
            chaos: Chaos::NONE,
            tickets: BTreeMap::new(),
            got: BTreeMap::new(),
            standing: BTreeMap::new(),
            notices: Vec::new(),
            answers: Vec::new(),
            takes: true,
            connects: Vec::new(),
            inbox: VecDeque::new(),
            links: kinds.iter().map(link).collect(),
            events: BinaryHeap::new(),
            count: 0,
            wakes: 0,
        };
        world.drive();
        world
    }

    /// More brokers, with a lane of their own (here the same broker behind it).
    pub fn add_way(&mut self, kind: LaneTraits) -> u32 {
        let way = self.engine.add_way(
            vec![Box::new(SimTransport::new(kind, "elsewhere"))],
            self.now,
        );
        self.links.push(link(&kind));
        way
    }

    /// Publishes with the next number as payload. `edit` says what is special.
    pub fn publish(
        &mut self,
        address: &str,
        reliability: Reliability,
        edit: impl FnOnce(&mut Draft<'_>),
    ) -> Option<MessageId> {
        let id = self.next_id;
        let payload = id.to_string();
        let mut draft = Draft {
            reliability,
            ..Draft::new(id, address, payload.as_bytes())
        };
        edit(&mut draft);
        let priority = draft.priority;
        let taken = self.engine.publish(&draft, self.now);
        if let Err(full) = taken {
            assert_eq!(full, Full::Buffer);
            self.drive();
            return None;
        }
        self.next_id += 1;
        let is_wanted = self.standing.values().any(|stands| *stands);
        let ticket = Ticket {
            address: address.to_owned(),
            reliability,
            priority,
            outcome: Success::Pending,
            is_wanted,
        };
        self.tickets.insert(id, ticket);
        self.drive();
        Some(id)
    }

    pub fn subscribe(&mut self, name: u32, filter: &str, reliability: Reliability) {
        self.wish(&Wish {
            subscription: SubscriptionId(name),
            way: 0,
            filter,
            reliability,
            last_values: true,
            keeps_all: true,
            settle_by_hand: false,
        });
    }

    /// Makes the subscription of a wish.
    pub fn wish(&mut self, wish: &Wish<'_>) {
        self.engine.subscribe(wish, self.now);
        self.standing.insert(wish.subscription, false);
        self.drive();
    }

    pub fn unsubscribe(&mut self, name: u32) {
        self.engine.unsubscribe(SubscriptionId(name), self.now);
        self.standing.remove(&SubscriptionId(name));
        self.drive();
    }

    pub fn prefer(&mut self, lane: usize) {
        self.engine.prefer(Some(lane), self.now);
        self.drive();
    }

    pub fn outcome(&self, id: MessageId) -> Success {
        self.tickets[&id].outcome
    }

    /// Payloads that the broker took, in order.
    pub fn taken(&self) -> Vec<String> {
        self.broker
            .log
            .iter()
            .map(|taken| taken.payload.clone())
            .collect()
    }

    /// Runs what is due until `span` has passed.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
    }

    /// Lets time pass until everything is settled; false if that is not so after `span`.
    pub fn settle(&mut self, span: Span) -> bool {
        let until = self.now + span;
        while self.engine.load().messages > 0 {
            if !self.step(until) {
                return false;
            }
        }
        true
    }

    /// Whether a lane has a connection.
    pub fn is_open(&self, lane: usize) -> bool {
        self.links[lane].is_open
    }

    /// Cuts a lane's connection, if it has one.
    pub fn cut(&mut self, lane: usize) {
        let link = &mut self.links[lane];
        if !link.is_open {
            return;
        }
        link.is_open = false;
        let connection = link.connection;
        let after = Span::from_millis(self.dice.below(300));
        let until_broker = match self.chaos.late {
            true => Span::from_millis(self.dice.below(3_000)),
            false => Span::ZERO,
        };
        if self.dice.percent(self.chaos.amnesia) {
            self.broker.forget_session(lane);
        }
        self.later(after, lane, connection, Step::Closed);
        self.later(until_broker, lane, connection, Step::BrokerClosed);
    }

    fn later(&mut self, after: Span, lane: usize, connection: u64, step: Step) {
        self.at(self.now + after, Event::Lane(lane, connection, step));
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    /// Goes on to the next thing that happens; false if that is not before `until`.
    fn step(&mut self, until: Time) -> bool {
        let event_at = self
            .events
            .peek()
            .map_or(Time::NEVER, |Reverse((time, ..))| *time);
        let engine_at = self.engine.poll_timeout();
        let next = event_at.min(engine_at);
        if next > until {
            self.now = until.max(self.now);
            return false;
        }
        self.wakes = if next > self.now { 0 } else { self.wakes + 1 };
        assert!(self.wakes < 10_000, "time stands still at {:?}", self.now);
        self.now = self.now.max(next);
        if engine_at <= event_at {
            self.engine.handle_timeout(self.now);
            self.drive();
            return true;
        }
        let Some(Reverse((_, _, event))) = self.events.pop() else {
            return false;
        };
        self.happen(event);
        if self.dice.below(1_000) < self.chaos.cuts {
            let lane = self.dice.below(self.links.len() as u64) as usize;
            self.cut(lane);
        }
        true
    }

    /// With `THALWEG_TRACE` set, says what happens.
    fn trace(&self, words: impl FnOnce() -> String) {
        if std::env::var_os("THALWEG_TRACE").is_some() {
            eprintln!("{:>9.3} {}", self.now.nanos() as f64 / 1e9, words());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Lane(lane, connection, step) => {
                if !self.step_of(lane, connection, step) {
                    return;
                }
            }
            Event::Take => {
                while let Some(token) = self.inbox.pop_front() {
                    self.engine.settle(token, self.now);
                }
            }
        }
        self.drive();
    }

    fn step_of(&mut self, lane: usize, connection: u64, step: Step) -> bool {
        self.trace(|| match &step {
            Step::ToBroker(bytes) => format!("{lane}.{connection} > {}", bytes.escape_ascii()),
            Step::ToClient(bytes) => format!("{lane}.{connection} < {}", bytes.escape_ascii()),
            other => format!("{lane}.{connection} {other:?}"),
        });
        let link = &mut self.links[lane];
        let is_current = link.connection == connection;
        match step {
            Step::Connected if is_current => {
                link.is_open = true;
                link.client_rest.clear();
                let peer = SocketAddr::from(([127, 0, 0, 1], 1));
                self.engine.connected(lane, peer, self.now);
            }
            Step::ConnectFailed if is_current => {
                self.engine.connect_failed(lane, "unreachable", self.now);
            }
            Step::Closed if is_current => self.engine.closed(lane, "cut", self.now),
            Step::BrokerClosed => self.broker.closed(lane, connection),
            Step::ToBroker(bytes) => {
                let is_datagram = link.kind.is_datagram;
                let mut rest = link.broker_rest.remove(&connection).unwrap_or_default();
                rest.extend_from_slice(&bytes);
                let mut answers = Vec::new();
                while let Some((frame, len)) = Frame::decode(&rest) {
                    rest.drain(..len);
                    answers.extend(self.broker.hear(lane, connection, frame, is_datagram));
                }
                if !rest.is_empty() {
                    self.links[lane].broker_rest.insert(connection, rest);
                }
                self.answer(answers);
            }
            Step::ToClient(bytes) if is_current && link.is_open => {
                if link.kind.is_datagram {
                    self.engine.handle_input(lane, &bytes, self.now);
                    return true;
                }
                link.client_rest.extend_from_slice(&bytes);
                let rest = std::mem::take(&mut link.client_rest);
                let consumed = self.engine.handle_input(lane, &rest, self.now);
                self.links[lane].client_rest = rest[consumed..].to_vec();
            }
            _ => return false,
        }
        true
    }

    /// The broker repeats what a lane of datagrams has not settled.
    pub fn repeat(&mut self, lane: usize) {
        self.answer(self.broker.repeated(lane));
    }

    fn answer(&mut self, answers: Vec<Answer>) {
        for (lane, connection, frame) in answers {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            self.carry(lane, connection, bytes, false);
        }
    }

    /// Carries bytes over the network.
    fn carry(&mut self, lane: usize, connection: u64, bytes: Vec<u8>, to_broker: bool) {
        let kind = self.links[lane].kind;
        if to_broker {
            self.trace(|| format!("{lane}.{connection} writes {}", bytes.escape_ascii()));
        }
        let copies = match kind.is_datagram {
            true if self.dice.percent(self.chaos.loss) => 0,
            true if self.dice.percent(self.chaos.twice) => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = Span::from_millis(1 + self.dice.below(self.chaos.delay));
            let mut time = self.now + delay;
            if !kind.is_datagram {
                let link = &mut self.links[lane];
                let last = match to_broker {
                    true => &mut link.to_broker,
                    false => &mut link.to_client,
                };
                time = time.max(*last);
                *last = time;
            }
            let step = match to_broker {
                true => Step::ToBroker(bytes.clone()),
                false => Step::ToClient(bytes.clone()),
            };
            self.at(time, Event::Lane(lane, connection, step));
        }
    }

    /// Does what a driver does after each call.
    pub fn drive(&mut self) {
        self.engine.turn(self.now);
        loop {
            let mut did = false;
            while let Some(action) = self.engine.poll_action() {
                did = true;
                self.act(action);
            }
            while let Some(notice) = self.engine.poll_notice() {
                did = true;
                self.note(notice);
            }
            for lane in 0..self.links.len() {
                did |= self.write(lane);
            }
            if !did {
                break;
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(lane) => {
                let link = &mut self.links[lane];
                assert!(!link.is_open, "lane {lane} is connected already");
                link.connection += 1;
                let connection = link.connection;
                let after = Span::from_millis(1 + self.dice.below(100));
                self.connects.push((lane, self.now));
                let step = match self.dice.percent(self.chaos.unreachable) {
                    true => Step::ConnectFailed,
                    false => Step::Connected,
                };
                self.later(after, lane, connection, step);
            }
            Action::Disconnect(lane) => {
                self.write(lane);
                let link = &mut self.links[lane];
                link.is_open = false;
                let (connection, after) = (link.connection, link.to_broker);
                // Later input from this connection is ignored.
                link.connection += 1;
                let event = Event::Lane(lane, connection, Step::BrokerClosed);
                self.at(after.max(self.now), event);
            }
        }
    }

    fn write(&mut self, lane: usize) -> bool {
        let link = &self.links[lane];
        let (kind, connection, is_open) = (link.kind, link.connection, link.is_open);
        let mut did = false;
        while let Some(piece) = self.next_piece(lane, kind.is_datagram) {
            did = true;
            self.engine.wrote(lane, piece.len(), self.now);
            if is_open {
                self.carry(lane, connection, piece, true);
            }
        }
        did
    }

    /// A datagram, or as much of a stream as the network takes at once.
    fn next_piece(&mut self, lane: usize, is_datagram: bool) -> Option<Vec<u8>> {
        if is_datagram {
            return self.engine.datagram(lane).map(<[u8]>::to_vec);
        }
        let waiting = self.engine.unwritten(lane);
        if waiting.is_empty() {
            return None;
        }
        let len = 1 + self.dice.below(waiting.len() as u64 * 2) as usize;
        Some(waiting[..len.min(waiting.len())].to_vec())
    }

    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Settled { id, success, why } => {
                let ticket = self.tickets.get_mut(&id);
                let Some(ticket) = ticket else { return };
                assert_eq!(ticket.outcome, Success::Pending, "{id} is settled twice");
                assert_ne!(success, Success::Pending);
                assert_eq!(why.is_some(), success == Success::Failed, "{why:?}");
                ticket.outcome = success;
            }
            Notice::Gone { first, last } => {
                for id in first..=last {
                    let Some(ticket) = self.tickets.get_mut(&id) else {
                        continue;
                    };
                    assert_eq!(ticket.outcome, Success::Pending, "{id} is settled twice");
                    assert_eq!(ticket.reliability, Reliability::AtMostOnce);
                    ticket.outcome = Success::Unknown;
                }
            }
            Notice::Delivered {
                subscription,
                token,
                message,
            } => {
                let payload = String::from_utf8_lossy(message.payload()).into_owned();
                self.got.entry(subscription).or_default().push(payload);
                self.inbox.push_back(token);
                if self.takes {
                    let after = self.now + Span::from_millis(self.dice.below(20));
                    self.at(after, Event::Take);
                }
            }
            Notice::Subscribed {
                subscription,
                outcome,
            } => {
                self.notices
                    .push(format!("subscribed {} {outcome:?}", subscription.0));
                self.standing.insert(subscription, outcome.is_ok());
            }
            Notice::Answered { request, answer } => {
                let value = answer
                    .ok()
                    .flatten()
                    .map(|it| String::from_utf8_lossy(it.payload()).into_owned());
                self.answers.push((request.0, value));
            }
            Notice::Stored { .. } => {}
            other => {
                self.trace(|| format!("{other:?}"));
                self.notices.push(format!("{other:?}"));
            }
        }
    }

    /// Handles take what they were given until now.
    pub fn take(&mut self) {
        self.happen(Event::Take);
    }

    /// Peace, so that everything can come to its end.
    pub fn heal(&mut self) {
        self.chaos = Chaos {
            delay: 50,
            ..Chaos::NONE
        };
        self.broker.busy_every = 0;
        self.takes = true;
        self.take();
    }
}
