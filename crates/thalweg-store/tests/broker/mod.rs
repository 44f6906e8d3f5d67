//! A broker small enough to stand in a test: it writes records that make sense, and knows what they add up to.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use thalweg_model::{Reliability, RetainOp, Span, Time};
use thalweg_records::{
    BodyRecord, MessageRecord, Record, Reference, SessionRecord, State, message_at,
};
use thalweg_store::sim::Random;
use thalweg_store::{Archive, Batch, Disk, Inventory, Journal, Log, Place};

const SESSIONS: u64 = 3;
const ADDRESSES: u64 = 5;

/// What is on record, and what is to be written next.
#[derive(Clone)]
pub struct Broker {
    random: Random,
    serial: u64,
    /// Serials that wait, by session.
    waiting: BTreeMap<u64, VecDeque<u64>>,
    /// Serials that were sent, by session and tag.
    sent: BTreeMap<(u64, u16), u64>,
    /// What every frame leads to, from none on: the state, as it writes itself.
    pub states: Vec<Vec<u8>>,
    state: Folding,
}

#[derive(Default)]
struct Folding(State);

impl Clone for Folding {
    fn clone(&self) -> Self {
        let mut again = State::default();
        again
            .apply_frame(&written(&self.0), 0)
            .expect("what was written");
        Folding(again)
    }
}

impl Broker {
    pub fn new(seed: u64) -> Self {
        let state = Folding::default();
        let waiting = BTreeMap::new();
        let states = vec![written(&state.0)];
        Self {
            random: Random(seed),
            serial: 0,
            waiting,
            sent: BTreeMap::new(),
            states,
            state,
        }
    }

    /// The records of the next frame; its last values stay longer than anything else.
    fn frame(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for queue in 1..=SESSIONS {
            self.waiting.entry(queue).or_insert_with(|| {
                session(queue).encode(&mut out);
                VecDeque::new()
            });
        }
        for _ in 0..=self.random.below(6) {
            let queue = 1 + self.random.below(SESSIONS);
            match self.random.below(10) {
                0..=3 => self.publish(None, &mut out),
                4 => {
                    let address = format!("value/{}", self.random.below(ADDRESSES));
                    self.publish(Some(&address), &mut out);
                }
                5..=6 => self.send(queue, &mut out),
                7..=8 => self.settle(queue, &mut out),
                _ => {
                    if let Some(serial) = self.waiting.get_mut(&queue).and_then(VecDeque::pop_back)
                    {
                        Record::Removed { queue, serial }.encode(&mut out);
                    }
                }
            }
        }
        out
    }

    fn publish(&mut self, last_value: Option<&str>, out: &mut Vec<u8>) {
        let mut references = Vec::new();
        for (queue, waiting) in &mut self.waiting {
            if self.random.below(3) == 0 {
                self.serial += 1;
                waiting.push_back(self.serial);
                references.push(Reference {
                    queue: *queue,
                    serial: self.serial,
                    reliability: Reliability::AtLeastOnce,
                    ..Reference::default()
                });
            }
        }
        let retain = if last_value.is_some() {
            RetainOp::Set
        } else {
            RetainOp::None
        };
        let len = match self.random.below(30) {
            0 => 9_000,
            1..=4 => 1_500,
            _ => self.random.below(300),
        };
        let address = last_value.unwrap_or("some/address");
        message(
            address,
            &vec![self.serial as u8; len as usize],
            retain,
            &references,
        )
        .encode(out);
    }

    fn send(&mut self, queue: u64, out: &mut Vec<u8>) {
        let tag = (1..20).find(|tag| !self.sent.contains_key(&(queue, *tag)));
        if let Some(tag) = tag
            && let Some(serial) = self.waiting.get_mut(&queue).and_then(VecDeque::pop_front)
        {
            self.sent.insert((queue, tag), serial);
            Record::Sent { queue, serial, tag }.encode(out);
        }
    }

    fn settle(&mut self, queue: u64, out: &mut Vec<u8>) {
        let first = self.sent.keys().find(|(of, _)| *of == queue).copied();
        if let Some((queue, tag)) = first {
            self.sent.remove(&(queue, tag));
            Record::Settled { queue, tag }.encode(out);
        }
    }

    /// Writes one frame and notes what it leads to.
    pub fn write<D: Disk>(&mut self, journal: &mut Journal<D>) {
        let payload = self.frame();
        let places = journal
            .append(&[Batch {
                shard: 0,
                payload: &payload,
            }])
            .expect("there is room");
        let place = places.first().expect("it was written");
        self.state
            .0
            .apply_frame(&payload, place.0)
            .expect("records");
        assert_eq!(self.state.0.contradictions, []);
        self.states.push(written(&self.state.0));
    }

    /// A frame without records was written by the journal itself.
    #[allow(dead_code)] // Not every test lets the journal do so.
    pub fn marked(&mut self) {
        let last = self.states.last().cloned().expect("there is always one");
        self.states.push(last);
    }

    pub fn frames(&self) -> u64 {
        self.states.len() as u64 - 1
    }
}

/// The state as it writes itself.
pub fn written(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.write(&mut |record| record.encode(&mut out));
    out
}

pub fn session(queue: u64) -> Record<'static> {
    Record::Session(SessionRecord {
        queue,
        client: "client",
        user: None,
        expiry: Span::FOREVER,
        expires_at: Time::NEVER,
        in_flight_max: 20,
        access: &[],
        will: None,
    })
}

pub fn message<'a>(
    address: &'a str,
    payload: &'a [u8],
    retain: RetainOp,
    references: &'a [Reference<'a>],
) -> Record<'a> {
    Record::Message(MessageRecord {
        body: BodyRecord {
            address,
            payload,
            reliability: Reliability::AtLeastOnce,
            retain,
            priority: 0,
            properties: None,
        },
        expires: Time::NEVER,
        ingress: Time::from_secs(1_795_000_000),
        publisher: 9,
        is_last_value: retain != RetainOp::None,
        kept: None,
        held: None,
        references: Cow::Borrowed(references),
    })
}

/// Reads every message that the state still needs; how many references to them there are.
#[allow(dead_code)] // Not every test reads them.
pub fn read_all<D: Disk>(inventory: &Inventory<D>, state: &State, what: &str) -> usize {
    let mut record = Vec::new();
    let mut count = 0;
    for (place, len) in state.live() {
        let read = inventory.read(Place(place), len, &mut record);
        read.unwrap_or_else(|error| panic!("{what}: {error}"));
        message_at(&record).unwrap_or_else(|fault| panic!("{what}: at place {place:#x}: {fault}"));
        count += 1;
    }
    count
}

/// One round of the checkpointer without its thread.
pub fn round<D: Disk>(archive: &mut Archive<D>, journal: &Journal<D>) -> thalweg_store::Round {
    let inventory = journal.inventory();
    thalweg_store::checkpointer::round(archive, &inventory, inventory.durable(), &PACKING)
        .expect("this disk has no faults")
}

/// Small, so that a few kilobytes bring about all that happens to gigabytes.
pub const PACKING: thalweg_store::Packing = thalweg_store::Packing {
    live_percent_min: 60,
    live_percent_min_pressed: 80,
    pack_bytes_max: 12 << 10,
};
