//! Each state of QoS 2, on both ends.

use super::{LOSSES, all, at_each_step, bed, everything, kill};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_model::Span;
use thalweg_mqtt::{
    ClientSide, ConnectOut, PublishOut, QoS, ReasonCode, SubscribeOptions, SubscribeOut,
};
use thalweg_testbed::mqtt::Packet;
use thalweg_testbed::{Client, Random, Testbed, Who};

const COUNT: u16 = 3;

/// Acknowledgements that a publisher has received for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    ExpectRec,
    ExpectComp,
    Done,
}

/// Session state that an MQTT client keeps between connections.
#[derive(Clone, Debug, Default)]
struct Memory {
    sent: BTreeMap<u16, Sent>,
    /// Messages that were not released yet.
    held: BTreeSet<u16>,
    /// Messages delivered to its user.
    got: Vec<String>,
}

/// A client that goes on where its last connection ended.
struct Once {
    side: ClientSide,
    memory: Memory,
    filter: Option<&'static str>,
}

impl Once {
    fn begin(&mut self, up: &mut Vec<u8>) {
        if let Some(filter) = self.filter {
            let options = SubscribeOptions {
                qos: QoS::ExactlyOnce,
                ..SubscribeOptions::default()
            };
            let subscribe = SubscribeOut {
                id: 1000,
                filters: &[(filter, options)],
                ..SubscribeOut::default()
            };
            self.side.subscribe(&subscribe, up).expect("connected");
        }
        for (id, sent) in self.memory.sent.clone() {
            match sent {
                Sent::ExpectRec => self.publish(id, true, up),
                Sent::ExpectComp => self.side.pubrel(id, ReasonCode::Success, up),
                Sent::Done => {}
            }
        }
    }

    fn publish(&mut self, id: u16, dup: bool, up: &mut Vec<u8>) {
        self.memory.sent.insert(id, Sent::ExpectRec);
        let body = id.to_string();
        let publish = PublishOut {
            topic: "a/b",
            payload: body.as_bytes(),
            qos: QoS::ExactlyOnce,
            id,
            dup,
            ..PublishOut::default()
        };
        self.side.publish(&publish, up).expect("connected");
    }
}

impl Client for Once {
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let packet = match self.side.handle_input(&down[used..]) {
                Ok(Some((consumed, event))) => {
                    used += consumed;
                    Packet::of(&event)
                }
                Ok(None) => break,
                Err(fault) => panic!("the broker breaks MQTT: {fault}"),
            };
            match packet {
                Packet::ConnAck { .. } => self.begin(up),
                Packet::Publish(received) => {
                    if self.memory.held.insert(received.id) {
                        self.memory
                            .got
                            .push(String::from_utf8(received.payload).expect("text"));
                    }
                    self.side.pubrec(received.id, ReasonCode::Success, up);
                }
                Packet::PubRel { id } => {
                    self.memory.held.remove(&id);
                    self.side.pubcomp(id, ReasonCode::Success, up);
                }
                Packet::PubRec { id, reason } => {
                    assert!(!reason.is_error(), "{id}: {reason:?}");
                    self.memory.sent.insert(id, Sent::ExpectComp);
                    self.side.pubrel(id, ReasonCode::Success, up);
                }
                Packet::PubComp { id } => _ = self.memory.sent.insert(id, Sent::Done),
                _ => {}
            }
        }
        down.drain(..used);
    }
}

fn connect(
    bed: &mut Testbed,
    name: &str,
    memory: Memory,
    filter: Option<&'static str>,
) -> Who<Once> {
    let (front, shard) = (bed.mqtt_front(everything()), bed.home_of(name));
    let client = Once {
        side: ClientSide::new(1 << 20),
        memory,
        filter,
    };
    let who = bed.open(shard, front, client);
    let connect = ConnectOut {
        client_id: name,
        clean_start: false,
        session_expiry: 3600,
        ..ConnectOut::default()
    };
    bed.write(who, |client, up| {
        client.side.connect(&connect, up).expect("short strings")
    });
    who
}

/// Publishes, with a kill after so many steps, and after it another after so many more. Whether the first came too late.
fn story(
    publisher: usize,
    subscriber: usize,
    filter: &'static str,
    kills: [usize; 2],
    seed: usize,
) -> bool {
    let what = format!("{publisher} to {subscriber} by {filter}, kills after {kills:?}");
    let loss = LOSSES[seed % 2];
    let mut bed = bed(2);
    let names = [
        bed.name_on("publisher", publisher),
        bed.name_on("subscriber", subscriber),
    ];
    let mut ends = [
        connect(&mut bed, &names[0], Memory::default(), None),
        connect(&mut bed, &names[1], Memory::default(), Some(filter)),
    ];
    bed.rest();
    bed.write(ends[0], |client, up| {
        (1..=COUNT).for_each(|id| client.publish(id, false, up));
    });
    let mut was_late = false;
    for (number, after) in kills.into_iter().enumerate() {
        let is_late = kill(&mut bed, &ends.map(all), after, loss);
        was_late |= number == 0 && is_late;
        let memories = ends.map(|who| std::mem::take(&mut bed.client(who).memory));
        let filters = [None, Some(filter)];
        let mut parts = names.iter().zip(memories).zip(filters);
        ends = std::array::from_fn(|_| {
            let ((name, memory), filter) = parts.next().expect("two");
            connect(&mut bed, name, memory, filter)
        });
    }
    bed.rest();
    bed.run_for(Span::from_secs(60));
    let sent: Vec<_> = bed.client(ends[0]).memory.sent.values().copied().collect();
    assert_eq!(sent, [Sent::Done; COUNT as usize], "{what}");
    let got = std::mem::take(&mut bed.client(ends[1]).memory.got);
    assert_eq!(got, ["1", "2", "3"], "{what}");
    was_late
}

#[test]
fn what_is_to_come_exactly_once_does_whenever_the_broker_is_killed() {
    for (number, (publisher, subscriber)) in [(0, 0), (0, 1), (1, 0)].into_iter().enumerate() {
        for filter in ["a/b", "$share/g/a/b"] {
            for loss in 0..2 {
                let mut random = Random(1 + (number * 2 + loss) as u64);
                at_each_step(|after| {
                    for _ in 0..2 {
                        let second = random.below(40);
                        story(publisher, subscriber, filter, [after, second], loss);
                    }
                    story(publisher, subscriber, filter, [after, 0], loss)
                });
            }
        }
    }
}
