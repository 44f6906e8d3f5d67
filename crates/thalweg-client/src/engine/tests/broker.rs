//! A simulated broker behind all lanes: it recognizes stamps, keeps sessions, and writes down what it took.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thalweg_model::{Filter, Reliability, Stamp};

use super::wire::Frame;

/// Sequences below the highest of a publisher that the broker remembers.
const WINDOW: u64 = 1_024;

/// Deliveries that a client has not settled, per session.
const RECEIVE_MAX: usize = 10;

/// A message that the broker took.
#[derive(Clone, Debug)]
pub struct Taken {
    pub address: String,
    pub payload: String,
    pub lane: usize,
}

/// A lane, its connection, and the message sent over it.
pub type Answer = (usize, u64, Frame);

#[derive(Default)]
pub struct Broker {
    pub log: Vec<Taken>,
    /// Repetitions that stamps or sessions revealed.
    pub repetitions: usize,
    windows: BTreeMap<u64, (u64, BTreeSet<u64>)>,
    sessions: BTreeMap<usize, Session>,
    retained: BTreeMap<String, (String, Option<Stamp>)>,
    next_delivery: u64,
    /// One of so many publishes is refused for now; 0: none.
    pub busy_every: u64,
    publishes: u64,
}

#[derive(Default)]
struct Session {
    connection: Option<u64>,
    keep: bool,
    /// The client knows that it has it: it has said something since the welcome.
    is_known: bool,
    filters: BTreeMap<u32, Filter>,
    unsettled: BTreeMap<u64, Frame>,
    waiting: VecDeque<Frame>,
    /// Identifiers of exactly once.
    known: BTreeSet<u64>,
    /// Responses to datagrams, by connection and number.
    numbers: BTreeMap<(u64, u64), Option<Frame>>,
}

impl Broker {
    /// A lane's connection is gone.
    pub fn closed(&mut self, lane: usize, connection: u64) {
        if let Some(session) = self.sessions.get_mut(&lane)
            && session.connection == Some(connection)
        {
            session.connection = None;
            if !session.keep {
                self.sessions.remove(&lane);
            }
        }
    }

    /// Forgets what it kept for a lane.
    pub fn forget_session(&mut self, lane: usize) {
        self.sessions.remove(&lane);
    }

    /// Handles input of a lane; returns the responses, each with its lane and connection.
    pub fn hear(
        &mut self,
        lane: usize,
        connection: u64,
        frame: Frame,
        is_datagram: bool,
    ) -> Vec<Answer> {
        let mut out = Vec::new();
        if let Frame::Hello { keep } = frame {
            self.welcome(lane, connection, keep, is_datagram, &mut out);
            return out;
        }
        let Some(session) = self.sessions.get_mut(&lane) else {
            return out;
        };
        if session.connection.is_some_and(|newer| newer != connection) {
            return out;
        }
        session.is_known = true;
        match frame {
            Frame::Publish {
                id,
                number,
                reliability,
                stamp,
                retain,
                address,
                payload,
                ..
            } => {
                let answers = reliability != Reliability::AtMostOnce;
                self.publishes += 1;
                if is_datagram && let Some(answer) = session.numbers.get(&(connection, number)) {
                    out.extend(answer.clone().map(|answer| (lane, connection, answer)));
                    return out;
                }
                let is_busy = answers
                    && self.busy_every != 0
                    && self.publishes.is_multiple_of(self.busy_every);
                let answer = match is_busy {
                    true => Frame::Busy { id },
                    false => Frame::Ack { id },
                };
                let answer = answers.then_some(answer);
                out.extend(answer.clone().map(|answer| (lane, connection, answer)));
                if is_datagram {
                    session.numbers.insert((connection, number), answer);
                }
                if is_busy {
                    return out;
                }
                let is_known = reliability == Reliability::ExactlyOnce && !session.known.insert(id);
                if is_known || stamp.is_some_and(|stamp| !self.is_new(stamp)) {
                    self.repetitions += 1;
                    return out;
                }
                self.route(reliability, stamp, &address, &payload, &mut out);
                if retain {
                    self.retained
                        .insert(address.clone(), (payload.clone(), stamp));
                }
                self.log.push(Taken {
                    address,
                    payload,
                    lane,
                });
            }
            Frame::Subscribe {
                name,
                last_values,
                filter,
            } => {
                out.push((lane, connection, Frame::Subscribed { name }));
                let filter = Filter::new(&filter).expect("a filter");
                let values = self.retained.iter();
                for (address, (payload, stamp)) in
                    values.filter(|(address, _)| last_values && filter.matches(address))
                {
                    self.next_delivery += 1;
                    let value = Frame::Deliver {
                        name,
                        delivery: self.next_delivery,
                        reliability: Reliability::AtMostOnce,
                        last_value: true,
                        stamp: *stamp,
                        address: address.clone(),
                        payload: payload.clone(),
                    };
                    out.push((lane, connection, value));
                }
                session.filters.insert(name, filter);
            }
            Frame::Unsubscribe { name } => {
                session.filters.remove(&name);
                if is_datagram {
                    // As CoAP's servers do: notifications of an observation that has ended are not repeated.
                    let is_of = |frame: &Frame| matches!(frame, Frame::Deliver { name: of, .. } if *of == name);
                    session.unsettled.retain(|_, frame| !is_of(frame));
                    session.waiting.retain(|frame| !is_of(frame));
                    // This frees places for queued messages of other subscriptions.
                    session.feed(lane, &mut out);
                }
            }
            Frame::Settle { delivery } => {
                session.unsettled.remove(&delivery);
                session.feed(lane, &mut out);
            }
            Frame::Ping {} => out.push((lane, connection, Frame::Pong {})),
            Frame::Read { request, address } => {
                let value = self.retained.get(&address);
                let value = value.map(|(payload, _)| payload.clone());
                out.push((lane, connection, Frame::Answer { request, value }));
            }
            other => panic!("a client does not say {other:?}"),
        }
        out
    }

    /// Deliveries of a lane of datagrams that were not settled, once more.
    pub fn repeated(&self, lane: usize) -> Vec<Answer> {
        let session = self.sessions.get(&lane);
        session.map_or_else(Vec::new, |session| session.repeated(lane))
    }

    fn welcome(
        &mut self,
        lane: usize,
        connection: u64,
        keep: bool,
        is_datagram: bool,
        out: &mut Vec<Answer>,
    ) {
        let session = self.sessions.get(&lane);
        let is_again = session.is_some_and(|session| session.connection == Some(connection));
        // A client that never saw that its session is a new one would take it for the old one: a hole in MQTT itself, which
        // is not looked for here.
        let present = keep && session.is_some_and(|session| session.is_known) && !is_datagram;
        if !present && !is_again {
            self.sessions.remove(&lane);
        }
        let session = self.sessions.entry(lane).or_default();
        (session.connection, session.keep) = (Some(connection), keep);
        out.push((lane, connection, Frame::Welcome { present }));
        if present {
            out.extend(session.repeated(lane));
            session.feed(lane, out);
        }
    }

    fn is_new(&mut self, stamp: Stamp) -> bool {
        let (highest, seen) = self
            .windows
            .entry(stamp.publisher)
            .or_insert((stamp.sequence, BTreeSet::new()));
        *highest = stamp.sequence.max(*highest);
        assert!(
            stamp.sequence + WINDOW > *highest,
            "{stamp} has fallen behind the window below {highest}"
        );
        let is_new = seen.insert(stamp.sequence);
        while seen.first().is_some_and(|first| first + WINDOW <= *highest) {
            seen.pop_first();
        }
        is_new
    }

    fn route(
        &mut self,
        reliability: Reliability,
        stamp: Option<Stamp>,
        address: &str,
        payload: &str,
        out: &mut Vec<Answer>,
    ) {
        for (lane, session) in &mut self.sessions {
            for (name, filter) in &session.filters {
                if !filter.matches(address) {
                    continue;
                }
                self.next_delivery += 1;
                let frame = Frame::Deliver {
                    name: *name,
                    delivery: self.next_delivery,
                    reliability,
                    last_value: false,
                    stamp,
                    address: address.to_owned(),
                    payload: payload.to_owned(),
                };
                match (reliability, session.connection) {
                    (Reliability::AtMostOnce, Some(connection)) => {
                        out.push((*lane, connection, frame))
                    }
                    (Reliability::AtMostOnce, None) => {}
                    _ => session.waiting.push_back(frame),
                }
            }
            session.feed(*lane, out);
        }
    }
}

impl Session {
    /// Sends unsettled messages again.
    fn repeated(&self, lane: usize) -> Vec<Answer> {
        let Some(connection) = self.connection else {
            return Vec::new();
        };
        let unsettled = self.unsettled.values().cloned();
        unsettled.map(|frame| (lane, connection, frame)).collect()
    }

    fn feed(&mut self, lane: usize, out: &mut Vec<Answer>) {
        let Some(connection) = self.connection else {
            return;
        };
        while self.unsettled.len() < RECEIVE_MAX
            && let Some(frame) = self.waiting.pop_front()
        {
            if let Frame::Deliver { delivery, .. } = &frame {
                self.unsettled.insert(*delivery, frame.clone());
            }
            out.push((lane, connection, frame));
        }
    }
}
