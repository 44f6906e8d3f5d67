//! A simulated transport: a stream as MQTT's, or datagrams with repetitions as CoAP's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use thalweg_model::{Reliability, Span, Time};

use super::wire::Frame;
use crate::message::Retain;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Medium,
    MessageId, Opening, Outbound, Output, Properties, Refusal, RequestId, Settled, SubscribeWish,
    SubscriptionId, Transport, Welcome,
};

/// How a simulated lane behaves.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    pub is_datagram: bool,
    pub stamps: bool,
    pub reliability_max: Reliability,
    pub wildcards: bool,
    pub keeps_all: bool,
    pub settles: bool,
    /// Messages under way that the peer allows.
    pub window: usize,
    /// The peer does not let us in, for good.
    pub refuses: bool,
}

impl Kind {
    pub const STREAM: Kind = Kind {
        name: "stream",
        is_datagram: false,
        stamps: true,
        reliability_max: Reliability::ExactlyOnce,
        wildcards: true,
        keeps_all: true,
        settles: true,
        window: 20,
        refuses: false,
    };
    pub const DATAGRAMS: Kind = Kind {
        name: "datagrams",
        is_datagram: true,
        stamps: true,
        reliability_max: Reliability::AtLeastOnce,
        wildcards: false,
        keeps_all: false,
        settles: false,
        window: 8,
        refuses: false,
    };
}

/// First wait for an acknowledgement of a datagram; doubles.
const REPEAT: Span = Span::from_secs(2);
const REPEATS_MAX: u32 = 4;

pub struct SimTransport {
    kind: Kind,
    endpoint: Endpoint,
    keep: bool,
    is_up: bool,
    next_number: u64,
    /// Awaited: for datagrams with the frame and when it is repeated.
    awaited: BTreeMap<MessageId, (Frame, Time, u32)>,
    /// Datagrams that are repeated until they are answered: hello, subscriptions.
    questions: BTreeMap<String, (Frame, Time, u32)>,
    was_refused: bool,
    /// What is awaited although nobody waits.
    abandoned: BTreeSet<MessageId>,
}

impl SimTransport {
    pub fn new(kind: Kind, host: &str) -> Self {
        let medium = if kind.is_datagram {
            Medium::Datagrams
        } else {
            Medium::Stream
        };
        SimTransport {
            kind,
            endpoint: Endpoint {
                host: host.to_owned(),
                port: 1,
                medium,
                is_encrypted: false,
                websocket: None,
            },
            keep: false,
            is_up: false,
            next_number: 0,
            awaited: BTreeMap::new(),
            questions: BTreeMap::new(),
            was_refused: false,
            abandoned: BTreeSet::new(),
        }
    }

    fn say(&self, frame: &Frame, out: &mut Output) {
        frame.encode(&mut out.bytes);
        if self.kind.is_datagram {
            out.end_datagram();
        }
    }

    fn ask(&mut self, key: String, frame: Frame, now: Time, out: &mut Output) {
        self.say(&frame, out);
        if self.kind.is_datagram {
            self.questions.insert(key, (frame, now + REPEAT, 0));
        }
    }

    fn hear(&mut self, frame: Frame, events: &mut dyn Events) {
        match frame {
            Frame::Welcome { present } => {
                self.questions.remove("hello");
                if !std::mem::replace(&mut self.is_up, true) {
                    events.up(&Welcome {
                        session_present: present,
                        client_id: None,
                    });
                }
            }
            Frame::Ack { id } => {
                self.abandoned.remove(&id);
                if self.awaited.remove(&id).is_some() {
                    events.settled(id, Settled::Acknowledged);
                }
            }
            Frame::Busy { id } => {
                if self.awaited.remove(&id).is_some() {
                    events.settled(id, Settled::Refused(Refusal::Busy("later".to_owned())));
                }
            }
            Frame::Subscribed { name } => {
                self.questions.remove(&format!("sub {name}"));
                events.subscribed(SubscriptionId(name), Ok(self.kind.reliability_max));
            }
            Frame::Deliver {
                name,
                delivery,
                reliability,
                last_value,
                stamp,
                address,
                payload,
            } => {
                events.received(&Inbound {
                    subscription: Some(SubscriptionId(name)),
                    delivery: (reliability != Reliability::AtMostOnce)
                        .then_some(DeliveryId(delivery)),
                    address: &address,
                    payload: payload.as_bytes(),
                    reliability,
                    is_last_value: last_value,
                    lifespan: Span::FOREVER,
                    repeated: false,
                    content_type: None,
                    properties: Properties(&[]),
                    reply_to: None,
                    correlation: None,
                    stamp,
                });
            }
            Frame::Pong => {
                self.questions.remove("ping");
                events.round_trip(Span::from_millis(50));
            }
            Frame::Answer { request, value } => {
                self.questions.remove(&format!("read {request}"));
                let answer = value.as_ref().map(|value| Inbound {
                    subscription: None,
                    delivery: None,
                    address: "a",
                    payload: value.as_bytes(),
                    reliability: Reliability::AtLeastOnce,
                    is_last_value: true,
                    lifespan: Span::FOREVER,
                    repeated: false,
                    content_type: None,
                    properties: Properties(&[]),
                    reply_to: None,
                    correlation: None,
                    stamp: None,
                });
                events.answered(RequestId(request), Ok(answer.as_ref()));
            }
            other => panic!("a broker does not say {other:?}"),
        }
        if self.was_refused && self.awaited.len() < self.kind.window {
            self.was_refused = false;
            events.room();
        }
    }
}

impl Transport for SimTransport {
    fn protocol(&self) -> &'static str {
        self.kind.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliability_max: self.kind.reliability_max,
            receive_max: self.kind.reliability_max,
            stamps: self.kind.stamps,
            carries_stamps: self.kind.stamps,
            wildcards: self.kind.wildcards,
            keeps_all: self.kind.keeps_all,
            settles: self.kind.settles,
            wills: false,
            keeps_order: !self.kind.is_datagram,
            publishes_in_order: !self.kind.is_datagram,
            properties: true,
            lifespan: true,
            priority: true,
            requests: false,
            last_values: true,
            payload_bytes_max: 1 << 20,
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _: SocketAddr, now: Time, out: &mut Output) {
        assert!(
            !self.is_up && self.awaited.is_empty(),
            "opened anew without having been closed"
        );
        self.keep = opening.session > Span::ZERO;
        self.ask(
            "hello".to_owned(),
            Frame::Hello { keep: self.keep },
            now,
            out,
        );
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        _: Time,
        _: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        if self.kind.refuses {
            return Err(LinkFault {
                words: "wrong password".to_owned(),
                is_final: true,
            });
        }
        let mut consumed = 0;
        while let Some((frame, len)) = Frame::decode(&input[consumed..]) {
            consumed += len;
            self.hear(frame, events);
        }
        Ok(consumed)
    }

    fn poll_timeout(&self) -> Time {
        let awaited = self.awaited.values().map(|(_, at, _)| *at);
        awaited
            .chain(self.questions.values().map(|(_, at, _)| *at))
            .min()
            .unwrap_or(Time::NEVER)
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let due = |(_, (_, at, _)): &(&MessageId, &(Frame, Time, u32))| *at <= now;
        let ids: Vec<MessageId> = self.awaited.iter().filter(due).map(|(id, _)| *id).collect();
        for id in ids {
            let Some((frame, at, times)) = self.awaited.get_mut(&id) else {
                continue;
            };
            if *times == REPEATS_MAX {
                self.awaited.remove(&id);
                events.settled(id, Settled::Unknown);
                continue;
            }
            *times += 1;
            *at = now + Span::from_nanos(REPEAT.nanos() << *times);
            let frame = frame.clone();
            self.say(&frame, out);
        }
        let due = |(_, (_, at, _)): &(&String, &(Frame, Time, u32))| *at <= now;
        let keys: Vec<String> = self
            .questions
            .iter()
            .filter(due)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            let Some((frame, at, times)) = self.questions.get_mut(&key) else {
                continue;
            };
            if *times == REPEATS_MAX {
                self.questions.remove(&key);
                if let Some(name) = key.strip_prefix("sub ") {
                    events.subscribed(
                        SubscriptionId(name.parse().expect("ours")),
                        Err(Refusal::NoAnswer),
                    );
                }
                if key == "hello" {
                    return Err(LinkFault {
                        words: "silence".to_owned(),
                        is_final: false,
                    });
                }
                continue;
            }
            *times += 1;
            *at = now + Span::from_nanos(REPEAT.nanos() << *times);
            let frame = frame.clone();
            self.say(&frame, out);
        }
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        assert!(self.is_up, "published without being up");
        assert!(message.reliability <= self.kind.reliability_max);
        let is_awaited = message.reliability != Reliability::AtMostOnce;
        if is_awaited && self.awaited.len() >= self.kind.window {
            self.was_refused = true;
            return Err(Refusal::Window);
        }
        self.next_number += 1;
        let frame = Frame::Publish {
            id: message.id,
            number: self.next_number,
            reliability: message.reliability,
            repeated: message.repeated,
            stamp: message.stamp,
            retain: message.retain == Retain::Set,
            address: message.address.to_owned(),
            payload: String::from_utf8_lossy(message.payload).into_owned(),
        };
        self.say(&frame, out);
        if !is_awaited {
            return Ok(Departure::Gone);
        }
        let repeat_at = if self.kind.is_datagram {
            now + REPEAT
        } else {
            Time::NEVER
        };
        let before = self.awaited.insert(message.id, (frame, repeat_at, 0));
        assert!(
            before.is_none() || self.abandoned.remove(&message.id),
            "{} is under way twice",
            message.id
        );
        Ok(Departure::Awaited)
    }

    fn abandon(&mut self, id: MessageId) {
        if self.kind.is_datagram {
            self.awaited.remove(&id);
        } else if self.awaited.contains_key(&id) {
            self.abandoned.insert(id);
        }
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        assert!(self.is_up, "subscribed without being up");
        let name = wish.subscription.0;
        let frame = Frame::Subscribe {
            name,
            last_values: wish.last_values,
            filter: wish.filter.to_owned(),
        };
        self.ask(format!("sub {name}"), frame, now, out);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, _: Time, out: &mut Output) {
        self.questions.remove(&format!("sub {}", subscription.0));
        self.say(
            &Frame::Unsubscribe {
                name: subscription.0,
            },
            out,
        );
    }

    fn settle(&mut self, delivery: DeliveryId, _: Time, out: &mut Output) {
        self.say(
            &Frame::Settle {
                delivery: delivery.0,
            },
            out,
        );
    }

    fn request(
        &mut self,
        _: RequestId,
        _: &Outbound<'_>,
        _: Time,
        _: &mut Output,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported("requests"))
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.ask(
            format!("read {}", request.0),
            Frame::Read {
                request: request.0,
                address: address.to_owned(),
            },
            now,
            out,
        );
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        self.questions.remove(&format!("read {}", request.0));
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        self.ask("ping".to_owned(), Frame::Ping, now, out);
        5
    }

    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.is_up = false;
        self.was_refused = false;
        self.awaited.clear();
        self.abandoned.clear();
        self.questions.clear();
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
