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

/// Properties of a simulated lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneTraits {
    pub name: &'static str,
    pub is_datagram: bool,
    pub stamps: bool,
    pub publishes: bool,
    pub subscribes: bool,
    pub reliability_max: Reliability,
    pub wildcards: bool,
    pub keeps_all: bool,
    pub settles: bool,
    /// Messages under way that the peer allows.
    pub window: usize,
    /// The peer does not let us in, for good.
    pub refuses: bool,
    /// In spite of datagrams the peer takes messages in order: one that is abandoned lets go what waits behind it.
    pub orders: bool,
}

impl Default for LaneTraits {
    fn default() -> Self {
        LaneTraits::STREAM
    }
}

impl LaneTraits {
    pub const STREAM: LaneTraits = LaneTraits {
        name: "stream",
        is_datagram: false,
        stamps: true,
        publishes: true,
        subscribes: true,
        reliability_max: Reliability::ExactlyOnce,
        wildcards: true,
        keeps_all: true,
        settles: true,
        window: 20,
        refuses: false,
        orders: false,
    };
    pub const DATAGRAMS: LaneTraits = LaneTraits {
        name: "datagrams",
        is_datagram: true,
        stamps: true,
        publishes: true,
        subscribes: true,
        reliability_max: Reliability::AtLeastOnce,
        wildcards: false,
        keeps_all: false,
        settles: false,
        window: 8,
        refuses: false,
        orders: false,
    };
}

/// First wait for an acknowledgement of a datagram; doubles.
const REPEAT: Span = Span::from_secs(2);
const REPEATS_MAX: u32 = 4;

/// Awaited messages: repeated on a lane of datagrams until they are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    // The first, so that they are a range.
    Ack(MessageId),
    Welcome,
    Pong,
    Answer(u64),
    Subscribed(u32),
}

/// The packet, when it is repeated, and how often it was.
struct Asked {
    frame: Frame,
    at: Time,
    times: u32,
}

pub struct SimTransport {
    kind: LaneTraits,
    endpoint: Endpoint,
    keep: bool,
    is_up: bool,
    next_number: u64,
    asked: BTreeMap<Awaited, Asked>,
    was_refused: bool,
    /// Settlements that the engine does not wait for.
    abandoned: BTreeSet<MessageId>,
}

/// A message that came, without anything special.
fn inbound<'m>(address: &'m str, payload: &'m str) -> Inbound<'m> {
    Inbound {
        subscription: None,
        delivery: None,
        address,
        payload: payload.as_bytes(),
        reliability: Reliability::AtLeastOnce,
        is_last_value: true,
        lifespan: Span::FOREVER,
        repeated: false,
        content_type: None,
        properties: Properties(&[]),
        reply_to: None,
        correlation: None,
        stamp: None,
    }
}

impl SimTransport {
    pub fn new(kind: LaneTraits, host: &str) -> Self {
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
            asked: BTreeMap::new(),
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

    /// Says a frame and awaits the answer; true if the same was awaited already.
    fn ask(&mut self, awaited: Awaited, frame: Frame, now: Time, out: &mut Output) -> bool {
        self.say(&frame, out);
        let at = if self.kind.is_datagram {
            now + REPEAT
        } else {
            Time::NEVER
        };
        let times = 0;
        let asked = Asked { frame, at, times };
        self.asked.insert(awaited, asked).is_some()
    }

    fn came(&mut self, awaited: Awaited) -> bool {
        self.asked.remove(&awaited).is_some()
    }

    fn under_way(&self) -> usize {
        self.asked.range(..Awaited::Welcome).count()
    }

    fn hear(&mut self, frame: Frame, events: &mut dyn Events) {
        match frame {
            Frame::Welcome { present } => {
                self.came(Awaited::Welcome);
                if !std::mem::replace(&mut self.is_up, true) {
                    events.up(&Welcome {
                        session_present: present,
                        client_id: None,
                    });
                }
            }
            Frame::Ack { id } => {
                self.abandoned.remove(&id);
                if self.came(Awaited::Ack(id)) {
                    events.settled(id, Settled::Acknowledged);
                }
            }
            Frame::Busy { id } => {
                if self.came(Awaited::Ack(id)) {
                    events.settled(id, Settled::Refused(Refusal::Busy("later".to_owned())));
                }
            }
            Frame::Subscribed { name } => {
                self.came(Awaited::Subscribed(name));
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
                let settles = reliability != Reliability::AtMostOnce;
                events.received(&Inbound {
                    subscription: Some(SubscriptionId(name)),
                    delivery: settles.then_some(DeliveryId(delivery)),
                    reliability,
                    is_last_value: last_value,
                    stamp,
                    ..inbound(&address, &payload)
                });
            }
            Frame::Pong {} => {
                self.came(Awaited::Pong);
                events.round_trip(Span::from_millis(50));
            }
            Frame::Answer { request, value } => {
                self.came(Awaited::Answer(request));
                let answer = value.as_ref().map(|value| inbound("a", value));
                events.answered(RequestId(request), Ok(answer.as_ref()));
            }
            other => panic!("a broker does not say {other:?}"),
        }
        if self.was_refused && self.under_way() < self.kind.window {
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
            publishes: self.kind.publishes,
            subscribes: self.kind.subscribes,
            reliability_max: self.kind.reliability_max,
            receive_max: self.kind.reliability_max,
            stamps: self.kind.stamps,
            carries_stamps: self.kind.stamps,
            wildcards: self.kind.wildcards,
            keeps_all: self.kind.keeps_all,
            settles: self.kind.settles,
            wills: false,
            keeps_order: !self.kind.is_datagram,
            publishes_in_order: !self.kind.is_datagram || self.kind.orders,
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
            !self.is_up && self.asked.is_empty(),
            "opened anew without having been closed"
        );
        self.keep = opening.session > Span::ZERO;
        let hello = Frame::Hello { keep: self.keep };
        self.ask(Awaited::Welcome, hello, now, out);
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
        let times = self.asked.values().map(|asked| asked.at);
        times.min().unwrap_or(Time::NEVER)
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let due = self.asked.iter().filter(|(_, asked)| asked.at <= now);
        let due: Vec<Awaited> = due.map(|(awaited, _)| *awaited).collect();
        for awaited in due {
            let Some(asked) = self.asked.get_mut(&awaited) else {
                continue;
            };
            if asked.times < REPEATS_MAX {
                asked.times += 1;
                asked.at = now + Span::from_nanos(REPEAT.nanos() << asked.times);
                let frame = asked.frame.clone();
                self.say(&frame, out);
                continue;
            }
            self.asked.remove(&awaited);
            match awaited {
                Awaited::Ack(id) => events.settled(id, Settled::Unknown),
                Awaited::Subscribed(name) => {
                    events.subscribed(SubscriptionId(name), Err(Refusal::NoAnswer));
                }
                Awaited::Welcome => {
                    return Err(LinkFault {
                        words: "silence".to_owned(),
                        is_final: false,
                    });
                }
                Awaited::Pong | Awaited::Answer(_) => {}
            }
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
        if is_awaited && self.under_way() >= self.kind.window {
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
        if !is_awaited {
            self.say(&frame, out);
            return Ok(Departure::Gone);
        }
        let is_under_way = self.ask(Awaited::Ack(message.id), frame, now, out);
        assert!(
            !is_under_way || self.abandoned.remove(&message.id),
            "{} is under way twice",
            message.id
        );
        Ok(Departure::Awaited)
    }

    fn abandon(&mut self, id: MessageId) {
        if self.kind.is_datagram {
            let newest = self.asked.range(..Awaited::Welcome).next_back();
            let is_newest = newest.is_none_or(|(awaited, _)| *awaited == Awaited::Ack(id));
            assert!(is_newest || !self.kind.orders, "others would leave");
            self.came(Awaited::Ack(id));
        } else if self.asked.contains_key(&Awaited::Ack(id)) {
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
        self.ask(Awaited::Subscribed(name), frame, now, out);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, _: Time, out: &mut Output) {
        let name = subscription.0;
        self.came(Awaited::Subscribed(name));
        self.say(&Frame::Unsubscribe { name }, out);
    }

    fn settle(&mut self, delivery: DeliveryId, _: Time, out: &mut Output) {
        let delivery = delivery.0;
        self.say(&Frame::Settle { delivery }, out);
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
        let frame = Frame::Read {
            request: request.0,
            address: address.to_owned(),
        };
        self.ask(Awaited::Answer(request.0), frame, now, out);
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        self.came(Awaited::Answer(request.0));
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        self.ask(Awaited::Pong, Frame::Ping {}, now, out);
        5
    }

    fn close(&mut self, _: Time, _: &mut Output) {}

    fn closed(&mut self) {
        self.is_up = false;
        self.was_refused = false;
        self.asked.clear();
        self.abandoned.clear();
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
