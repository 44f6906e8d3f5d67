//! Random histories that a broker could have had, with a simple model beside the state.

use super::{body, encoded, reference, rewritten};
use crate::{MessageRecord, Record, Reference, SessionRecord, State, SubscriptionRecord};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_model::{Reliability, RetainOp, Span, Time};

/// Small numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn one<T: Clone>(&mut self, from: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = from.into_iter().collect();
        if all.is_empty() {
            None
        } else {
            Some(all[self.below(all.len())].clone())
        }
    }
}

#[derive(Default)]
struct Model {
    /// Sessions (false) and groups (true) with their waiting entries.
    queues: BTreeMap<u64, (bool, BTreeSet<u64>)>,
    /// (session, tag) → serial, received.
    windows: BTreeMap<(u64, u16), (u64, bool)>,
    held: BTreeSet<(u64, u16)>,
    subscriptions: BTreeSet<(u64, String)>,
    last_values: BTreeMap<String, u64>,
    queue_last: u64,
    serial_last: u64,
}

impl Model {
    fn sessions(&self) -> Vec<u64> {
        self.queues
            .iter()
            .filter(|(_, (is_group, _))| !is_group)
            .map(|(queue, _)| *queue)
            .collect()
    }

    fn groups(&self) -> Vec<u64> {
        self.queues
            .iter()
            .filter(|(_, (is_group, _))| *is_group)
            .map(|(queue, _)| *queue)
            .collect()
    }

    fn waiting(&self) -> Vec<(u64, u64)> {
        self.queues
            .iter()
            .flat_map(|(queue, (_, waiting))| waiting.iter().map(|serial| (*queue, *serial)))
            .collect()
    }

    fn free_tag(&self, dice: &mut Dice, queue: u64) -> Option<u16> {
        dice.one((1..9).filter(|tag| !self.windows.contains_key(&(queue, *tag))))
    }

    fn forget(&mut self, queue: u64) {
        self.queues.remove(&queue);
        self.windows.retain(|(of, _), _| *of != queue);
        self.held.retain(|(of, _)| *of != queue);
        self.subscriptions.retain(|(of, _)| *of != queue);
    }

    /// One record that can be true now, at `place`.
    fn next(&mut self, dice: &mut Dice, place: u64, out: &mut Vec<u8>) -> Option<()> {
        let record = match dice.below(22) {
            0 | 1 => {
                let queue = if dice.below(2) == 0 {
                    dice.one(self.sessions())?
                } else {
                    self.queue_last + 1
                };
                self.queue_last = self.queue_last.max(queue);
                self.queues.entry(queue).or_default();
                Record::Session(SessionRecord {
                    queue,
                    client: ["a", "b", "c"][dice.below(3)],
                    user: None,
                    expiry: Span::from_secs(dice.below(9) as u64),
                    expires_at: Time::from_secs(1 + dice.below(9) as u64),
                    in_flight_max: 9,
                    access: &[1, 2],
                    will: None,
                })
            }
            2 if dice.below(4) == 0 => {
                let queue = dice.one(self.sessions())?;
                self.forget(queue);
                Record::SessionEnded { queue }
            }
            3 if self.groups().len() < 4 => {
                self.queue_last += 1;
                self.queues.insert(self.queue_last, (true, BTreeSet::new()));
                Record::Group {
                    queue: self.queue_last,
                    name: "g",
                    filter: "f",
                }
            }
            4 if dice.below(4) == 0 => {
                let queue = dice.one(self.groups())?;
                self.forget(queue);
                Record::GroupEnded { queue }
            }
            5 => {
                let queue = dice.one(self.sessions())?;
                let filter = ["f/1", "f/2", "f/3"][dice.below(3)];
                self.subscriptions.insert((queue, filter.into()));
                Record::Subscribed(SubscriptionRecord {
                    queue,
                    filter,
                    group: None,
                    reliability: Reliability::ExactlyOnce,
                    no_local: dice.below(2) == 0,
                    retain_as_published: false,
                    id: dice.below(3) as u32,
                    condition: None,
                })
            }
            6 => {
                let (queue, filter) = dice.one(self.subscriptions.clone())?;
                self.subscriptions.remove(&(queue, filter.clone()));
                Record::Unsubscribed {
                    queue,
                    filter: filter.leak(),
                    group: None,
                }
            }
            7 => {
                let (queue, ticket) = dice.one(self.held.clone())?;
                self.held.remove(&(queue, ticket));
                Record::Released { queue, ticket }
            }
            8 | 9 => {
                let (queue, serial) = dice.one(
                    self.waiting()
                        .into_iter()
                        .filter(|(q, _)| !self.queues[q].0),
                )?;
                let tag = self.free_tag(dice, queue)?;
                self.queues.get_mut(&queue)?.1.remove(&serial);
                self.windows.insert((queue, tag), (serial, false));
                Record::Sent { queue, serial, tag }
            }
            10 => {
                let ((queue, tag), (serial, _)) = dice.one(self.windows.clone())?;
                self.windows.insert((queue, tag), (serial, true));
                Record::Received { queue, tag }
            }
            11 | 12 => {
                let ((queue, tag), _) = dice.one(self.windows.clone())?;
                self.windows.remove(&(queue, tag));
                Record::Settled { queue, tag }
            }
            13 => {
                let (queue, serial) = dice.one(self.waiting())?;
                self.queues.get_mut(&queue)?.1.remove(&serial);
                Record::Removed { queue, serial }
            }
            14 => {
                let (from, serial) = dice.one(self.waiting())?;
                let to = dice.one(self.queues.keys().copied().filter(|queue| *queue != from))?;
                let tag = if self.queues[&to].0 || dice.below(2) == 0 {
                    0
                } else {
                    self.free_tag(dice, to)?
                };
                self.queues.get_mut(&from)?.1.remove(&serial);
                self.arrive(to, serial, tag);
                Record::Moved {
                    from,
                    serial,
                    to,
                    tag,
                    redelivered: dice.below(2) == 0,
                    grant: None,
                }
            }
            15 => {
                let ((from, old_tag), (serial, received)) = dice.one(self.windows.clone())?;
                if received {
                    return None;
                }
                let to = dice.one(self.groups())?;
                self.windows.remove(&(from, old_tag));
                self.arrive(to, serial, 0);
                Record::Moved {
                    from,
                    serial,
                    to,
                    tag: 0,
                    redelivered: true,
                    grant: None,
                }
            }
            17 => {
                let in_windows = self.windows.iter().filter(|(_, (_, received))| !received);
                let in_windows = in_windows.map(|((queue, _), (serial, _))| (*queue, *serial));
                let (queue, serial) = dice.one(self.waiting().into_iter().chain(in_windows))?;
                let deliveries = dice.below(400) as u16;
                Record::Returned {
                    queue,
                    serial,
                    deliveries,
                }
            }
            16 => {
                let address = dice.one(self.last_values.keys().cloned())?;
                self.last_values.remove(&address);
                Record::Cleared {
                    address: address.leak(),
                }
            }
            _ => return self.message(dice, place, out),
        };
        record.encode(out);
        Some(())
    }

    fn arrive(&mut self, queue: u64, serial: u64, tag: u16) {
        if tag != 0 {
            self.windows.insert((queue, tag), (serial, false));
        } else if let Some((_, waiting)) = self.queues.get_mut(&queue) {
            waiting.insert(serial);
        }
    }

    fn message(&mut self, dice: &mut Dice, place: u64, out: &mut Vec<u8>) -> Option<()> {
        let mut references = Vec::new();
        for queue in self.queues.keys().copied().collect::<Vec<_>>() {
            if dice.below(2) == 0 {
                continue;
            }
            self.serial_last += 1;
            let is_group = self.queues[&queue].0;
            let tag = if is_group || dice.below(2) == 0 {
                0
            } else {
                self.free_tag(dice, queue).unwrap_or(0)
            };
            self.arrive(queue, self.serial_last, tag);
            references.push(Reference {
                tag,
                retain: dice.below(2) == 0,
                subscription_ids: Cow::Owned((0..dice.below(4) as u32).map(|id| id + 1).collect()),
                ..reference(queue, self.serial_last)
            });
        }
        let address = ["x", "y", "z"][dice.below(3)];
        let retain = [RetainOp::Set, RetainOp::Set, RetainOp::Clear][dice.below(3)];
        let is_last_value = dice.below(2) == 0;
        if is_last_value && retain == RetainOp::Set {
            self.last_values.insert(address.into(), place);
        } else if is_last_value {
            self.last_values.remove(address);
        }
        let holder = dice.one(self.sessions());
        let held = holder
            .map(|queue| (queue, dice.below(9) as u16 + 1))
            .filter(|held| self.held.insert(*held));
        Record::Message(MessageRecord {
            body: crate::BodyRecord {
                retain,
                ..body(address, b"payload")
            },
            expires: if dice.below(2) == 0 {
                Time::NEVER
            } else {
                Time::from_secs(dice.below(1_000) as u64)
            },
            ingress: Time::from_secs(1),
            publisher: 1,
            is_last_value,
            kept: None,
            held,
            references: Cow::Owned(references),
        })
        .encode(out);
        Some(())
    }

    fn compare(&self, state: &State, hint: &str) {
        let of_sessions = state
            .sessions
            .iter()
            .map(|(queue, session)| (*queue, (false, &session.waiting)));
        let of_groups = state
            .groups
            .iter()
            .map(|(queue, group)| (*queue, (true, &group.waiting)));
        let queues: BTreeMap<u64, (bool, BTreeSet<u64>)> = of_sessions
            .chain(of_groups)
            .map(|(queue, (is_group, waiting))| {
                (
                    queue,
                    (is_group, waiting.iter().map(|entry| entry.serial).collect()),
                )
            })
            .collect();
        assert_eq!(queues, self.queues, "{hint}");
        let windows = state.sessions.iter().flat_map(|(queue, session)| {
            session
                .window
                .iter()
                .map(|(tag, slot)| ((*queue, *tag), (slot.entry.serial, slot.received)))
        });
        assert_eq!(windows.collect::<BTreeMap<_, _>>(), self.windows, "{hint}");
        let held = state
            .sessions
            .iter()
            .flat_map(|(queue, session)| session.held.iter().map(|held| (*queue, *held)));
        assert_eq!(held.collect::<BTreeSet<_>>(), self.held, "{hint}");
        let subscriptions = state.sessions.iter().flat_map(|(queue, session)| {
            session
                .subscriptions
                .iter()
                .map(|subscription| (*queue, String::from(&*subscription.filter)))
        });
        assert_eq!(
            subscriptions.collect::<BTreeSet<_>>(),
            self.subscriptions,
            "{hint}"
        );
        let values = state
            .last_values
            .iter()
            .map(|(address, (place, _))| (String::from(&**address), *place));
        assert_eq!(
            values.collect::<BTreeMap<_, _>>(),
            self.last_values,
            "{hint}"
        );
        assert_eq!(
            (state.queue_last, state.serial_last),
            (self.queue_last, self.serial_last),
            "{hint}"
        );
        assert_eq!(state.contradictions, [], "{hint}");
    }
}

#[test]
fn at_any_point_of_any_history_the_state_is_the_models_and_survives_being_written() {
    for seed in 1..=60_u64 {
        let (mut dice, mut model, mut state) = (
            Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed)),
            Model::default(),
            State::default(),
        );
        let mut place = 4096;
        for step in 0..400 {
            let mut record = Vec::new();
            if model.next(&mut dice, place, &mut record).is_none() {
                continue;
            }
            state.apply_frame(&record, place).expect("a record");
            place += record.len() as u64;
            let hint = format!("seed {seed}, step {step}, {:?}", Record::decode(&record));
            model.compare(&state, &hint);
            if step % 7 == 0 {
                let again = rewritten(&state);
                assert_eq!(again, state, "{hint}");
                if step % 70 == 0 {
                    // A restart in between does not change later results.
                    state = again;
                }
            }
        }
    }
}

#[test]
fn what_is_live_is_what_waits_is_in_flight_or_is_a_last_value() {
    let mut state = State::default();
    let mut out = encoded(&super::session(1));
    state.apply_frame(&out, 0).expect("a session");
    for (serial, place) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
        out.clear();
        let references = [reference(1, serial)];
        Record::Message(super::message(&references)).encode(&mut out);
        state.apply_frame(&out, place).expect("a message");
    }
    let len = out.len() as u32;
    state
        .apply(
            &Record::Sent {
                queue: 1,
                serial: 1,
                tag: 1,
            },
            0,
            0,
        )
        .expect("it waits");
    state
        .apply(
            &Record::Sent {
                queue: 1,
                serial: 2,
                tag: 2,
            },
            0,
            0,
        )
        .expect("it waits");
    state
        .apply(&Record::Received { queue: 1, tag: 2 }, 0, 0)
        .expect("it was sent");
    state
        .apply(
            &Record::LastValue {
                address: "v",
                place: 4_000,
                len: 9,
            },
            0,
            0,
        )
        .expect("a value");
    let mut live: Vec<_> = state.live().collect();
    live.sort_unstable();
    assert_eq!(live, [(1_000, len), (3_000, len), (4_000, 9)]);

    assert_eq!(state.forget(|place| place != 3_000), 2);
    assert_eq!(state.live().collect::<Vec<_>>(), [(3_000, len)]);
    assert!(
        state.sessions[&1].window[&2].received,
        "what its receiver has needs no message"
    );
}
