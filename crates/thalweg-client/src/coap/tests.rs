//! The lanes against the other end of the wire crate: datagrams in a network that loses them, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_coap::{
    Code, Datagrams, Delivery, Event, Notice, Notified, Observe, OptionOut, Options, RelationId,
    Request, Response, ServerSettings, ServerSide, SharedBody, Transmission, Value, option,
};
use thalweg_model::{Reliability, STAMP_OPTION, Span, Stamp, Time};
use thalweg_wire::testkit::Dice;

use super::*;
use crate::message::Retain;
use crate::pair::endpoint;
use crate::transport::{
    Departure, LinkFault, Medium, Outbound, Output, Refusal, RequestId, Settled, SubscribeWish,
    SubscriptionId, Transport,
};
use crate::witness::{EventCall, Got, Witness, at_most_once, message, opening};

mod bytes;
mod lossy;
mod order;
mod streams;

use lossy::stamped;

fn settings() -> CoapSettings {
    CoapSettings {
        seed: Some(11),
        ..CoapSettings::default()
    }
}

fn wish(number: u32, filter: &str) -> SubscribeWish<'_> {
    let reliability = Reliability::AtLeastOnce;
    SubscribeWish {
        subscription: SubscriptionId(number),
        filter,
        reliability,
        last_values: true,
    }
}

/// State of a broker, for datagrams and streams.
#[derive(Default)]
struct Book {
    announces: bool,
    is_plain: bool,
    /// Response to every publish.
    verdict: Option<(Code, u32)>,
    values: BTreeMap<String, Kept>,
    /// Publishes that were carried out.
    published: Vec<(String, Vec<u8>)>,
    stamps: HashSet<Vec<u8>>,
    queries: Vec<String>,
}

#[derive(Clone, Default)]
struct Kept {
    payload: Vec<u8>,
    format: Option<u32>,
    stamp: Vec<u8>,
}

impl Kept {
    fn options(&self, with_tag: bool) -> Vec<OptionOut<'_>> {
        let tag = with_tag.then_some((option::ETAG, Value::Opaque(b"tag")));
        let format = self
            .format
            .map(|format| (option::CONTENT_FORMAT, Value::Uint(format)));
        let stamp =
            Some((STAMP_OPTION, Value::Opaque(&self.stamp[..]))).filter(|_| !self.stamp.is_empty());
        [tag, format, stamp].into_iter().flatten().collect()
    }
}

/// Resource that a request addresses.
fn path(options: &Options<'_>) -> String {
    let levels: Vec<_> = options
        .all(option::URI_PATH)
        .map(|level| String::from_utf8_lossy(level))
        .collect();
    levels.join("/")
}

impl Book {
    fn address(&self, options: &Options<'_>) -> Option<String> {
        let path = path(options);
        match self.is_plain {
            true => Some(path),
            false => path.strip_prefix("ps/data/").map(str::to_owned),
        }
    }

    /// A publish. Returns the answer, and where something has changed.
    fn publish(
        &mut self,
        code: Code,
        options: &Options<'_>,
        payload: &[u8],
    ) -> (Code, Option<String>) {
        let queries = options
            .all(option::URI_QUERY)
            .map(|query| String::from_utf8_lossy(query).into_owned());
        self.queries = queries.collect();
        if let Some((code, _)) = self.verdict {
            return (code, None);
        }
        let Some(address) = self.address(options) else {
            return (Code::NOT_FOUND, None);
        };
        let stamp = options.get(STAMP_OPTION).unwrap_or_default().to_vec();
        if !stamp.is_empty() && !self.stamps.insert(stamp.clone()) {
            return (Code::CHANGED, None);
        }
        self.published.push((address.clone(), payload.to_vec()));
        if code == Code::DELETE {
            self.values.remove(&address);
            return (Code::DELETED, Some(address));
        }
        let format = options.uint(option::CONTENT_FORMAT);
        self.values.insert(
            address.clone(),
            Kept {
                payload: payload.to_vec(),
                format,
                stamp,
            },
        );
        (Code::CHANGED, Some(address))
    }

    fn well_known(&self) -> (Code, &'static [u8]) {
        match (self.is_plain, self.announces) {
            (true, _) => (Code::NOT_FOUND, b""),
            (_, true) => (
                Code::CONTENT,
                b"</ps/data>;rt=\"thalweg.data x-stamps x-after\"",
            ),
            (_, false) => (Code::CONTENT, b""),
        }
    }
}

/// A broker over datagrams.
struct Broker {
    side: ServerSide,
    book: Book,
    observers: BTreeMap<u64, Observer>,
    cookie: u64,
}

struct Observer {
    relation: RelationId,
    address: String,
    keeps_all: bool,
    waiting: VecDeque<Kept>,
    is_busy: bool,
}

impl Broker {
    fn new(seed: u64) -> Broker {
        let transmission = Transmission {
            ack_timeout: Span::from_millis(300),
            ..Transmission::default()
        };
        let settings = ServerSettings {
            transmission,
            notifications_per_round_trip: 0,
            ..ServerSettings::default()
        };
        let side = ServerSide::new(Arc::new(settings), seed);
        let book = Book {
            announces: true,
            ..Book::default()
        };
        Broker {
            side,
            book,
            observers: BTreeMap::new(),
            cookie: 0,
        }
    }

    fn on_request(&mut self, request: &Request<'_>, now: Time, out: &mut Datagrams) {
        let options = &request.options;
        let exchange = request.exchange;
        let path = path(options);
        if path == ".well-known/core" {
            let (code, payload) = self.book.well_known();
            self.side.respond(
                exchange,
                &Response {
                    code,
                    options: &[],
                    payload,
                },
                now,
                out,
            );
            return;
        }
        if let Some(question) = path.strip_prefix("rpc/") {
            let answer = format!("{question}: {}", String::from_utf8_lossy(&request.payload));
            let answer = Response {
                code: Code::CONTENT,
                options: &[],
                payload: answer.as_bytes(),
            };
            let nobody = Response::of(Code::NOT_FOUND);
            self.side.respond(
                exchange,
                if question == "nobody" {
                    &nobody
                } else {
                    &answer
                },
                now,
                out,
            );
            return;
        }
        if request.code != Code::GET {
            let (code, changed) = self.book.publish(request.code, options, &request.payload);
            let pause = self
                .book
                .verdict
                .map(|(_, seconds)| (option::MAX_AGE, Value::Uint(seconds)));
            let pause: Vec<_> = pause.into_iter().collect();
            self.side.respond(
                exchange,
                &Response {
                    code,
                    options: &pause,
                    payload: b"",
                },
                now,
                out,
            );
            if let Some(address) = changed {
                self.tell(&address, now, out);
            }
            return;
        }
        let Some(address) = self.book.address(options) else {
            return;
        };
        let value = self.book.values.get(&address).cloned();
        if request.observe == Some(Observe::Register) {
            let known = request.relation.map(|(_, cookie)| cookie);
            let cookie = known.unwrap_or(self.cookie + 1);
            let relation = self
                .side
                .observe(exchange, cookie, None, now)
                .expect("it was asked for");
            if known.is_none() {
                self.cookie = cookie;
                let keeps_all = options
                    .all(option::URI_QUERY)
                    .any(|query| query == b"qos=1");
                let waiting = VecDeque::new();
                self.observers.insert(
                    cookie,
                    Observer {
                        relation,
                        address,
                        keeps_all,
                        waiting,
                        is_busy: false,
                    },
                );
            }
            let kept = value.unwrap_or_default();
            let options = if kept.payload.is_empty() {
                Vec::new()
            } else {
                kept.options(true)
            };
            let response = Response {
                code: Code::CONTENT,
                options: &options,
                payload: &kept.payload,
            };
            self.side.respond(exchange, &response, now, out);
        } else {
            if let Some((_, cookie)) = request.relation {
                self.observers.remove(&cookie);
            }
            let response = match &value {
                Some(kept) => Response {
                    code: Code::CONTENT,
                    options: &kept.options(true),
                    payload: &kept.payload,
                },
                None => Response::of(Code::NOT_FOUND),
            };
            self.side.respond(exchange, &response, now, out);
        }
    }

    fn tell(&mut self, address: &str, now: Time, out: &mut Datagrams) {
        let value = self.book.values.get(address).cloned();
        let cookies: Vec<u64> = self.observers.keys().copied().collect();
        for cookie in cookies {
            let Some(observer) = self
                .observers
                .get_mut(&cookie)
                .filter(|one| one.address == address)
            else {
                continue;
            };
            match &value {
                Some(value) => {
                    if !observer.keeps_all {
                        observer.waiting.clear();
                    }
                    observer.waiting.push_back(value.clone());
                    self.pump(cookie, now, out);
                }
                None => {
                    let relation = observer.relation;
                    self.observers.remove(&cookie);
                    let last = Arc::new(SharedBody::new(Code::NOT_FOUND, &[], b""));
                    self.side.end_observation(relation, Some(&last), now, out);
                }
            }
        }
    }

    fn pump(&mut self, cookie: u64, now: Time, out: &mut Datagrams) {
        while let Some(observer) = self
            .observers
            .get_mut(&cookie)
            .filter(|observer| !observer.is_busy)
        {
            let Some(kept) = observer.waiting.front() else {
                return;
            };
            let body = Arc::new(SharedBody::new(
                Code::CONTENT,
                &kept.options(false),
                &kept.payload,
            ));
            let delivery = if observer.keeps_all {
                Delivery::Insistent
            } else {
                Delivery::Confirmable
            };
            match self
                .side
                .notify(observer.relation, &body, delivery, now, out)
            {
                Notified::Sent { .. } => drop(observer.waiting.pop_front()),
                Notified::Busy => observer.is_busy = true,
                Notified::Gone => drop(self.observers.remove(&cookie)),
            }
        }
    }

    fn on_notice(&mut self, notice: Notice, now: Time, out: &mut Datagrams) {
        match notice {
            Notice::Ready { cookie, relation } => {
                let Some(observer) = self.observers.get_mut(&cookie) else {
                    return;
                };
                observer.is_busy = false;
                match observer.waiting.is_empty() {
                    true => self.side.nothing_to_notify(relation),
                    false => self.pump(cookie, now, out),
                }
            }
            Notice::ObservationEnded { cookie, .. } => drop(self.observers.remove(&cookie)),
            _ => {}
        }
    }
}

/// A datagram under way: when it arrives, which one it is, from and to whom.
type Flight = Reverse<(Time, u64, SocketAddr, SocketAddr, Vec<u8>)>;

/// A broker, lanes, and a network between them.
struct World {
    now: Time,
    dice: Dice,
    /// Of a thousand datagrams, how many are lost; and how long one takes.
    lost: usize,
    delay: Span,
    flights: BinaryHeap<Flight>,
    sent: u64,
    bytes: usize,
    broker: Broker,
    lanes: Vec<Coap>,
    heard: Vec<Witness>,
    out: Output,
    fault: Option<LinkFault>,
}

fn broker_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5683))
}

fn lane_address(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 40_000 + n as u16))
}

impl World {
    fn new(seed: u64, lost: usize, lanes: Vec<CoapSettings>) -> World {
        World {
            now: Time::from_secs(1_000_000),
            dice: Dice::new(seed),
            lost,
            delay: Span::from_millis(10),
            flights: BinaryHeap::new(),
            sent: 0,
            bytes: 0,
            broker: Broker::new(seed),
            heard: lanes.iter().map(|_| Witness::default()).collect(),
            lanes: lanes
                .into_iter()
                .map(|settings| Coap::new(endpoint(5683, Medium::Datagrams), settings))
                .collect(),
            out: Output::default(),
            fault: None,
        }
    }

    /// A world in which all lanes are up.
    fn up(seed: u64, lost: usize, lanes: Vec<CoapSettings>) -> World {
        let mut world = World::new(seed, lost, lanes);
        world.open();
        world
    }

    fn open(&mut self) {
        for n in 0..self.lanes.len() {
            self.act(n, |lane, now, out| {
                lane.open(&opening("gateway"), broker_address(), now, out)
            });
            self.run(Span::from_secs(120), |world| {
                !world.heard[n].told.is_empty()
            });
            assert!(matches!(self.heard[n].take()[..], [EventCall::Up(_)]));
        }
    }

    fn carry(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.sent += 1;
        self.bytes += bytes.len();
        if self.dice.below(1000) >= self.lost {
            self.flights.push(Reverse((
                self.now + self.delay,
                self.sent,
                from,
                to,
                bytes.to_vec(),
            )));
        }
    }

    fn carry_out(&mut self, n: usize) {
        let out = std::mem::take(&mut self.out);
        for bytes in out.datagrams() {
            self.carry(lane_address(n), broker_address(), bytes);
        }
    }

    /// Does something with a lane.
    fn act<T>(&mut self, n: usize, act: impl FnOnce(&mut Coap, Time, &mut Output) -> T) -> T {
        let done = act(&mut self.lanes[n], self.now, &mut self.out);
        self.carry_out(n);
        done
    }

    fn publish(&mut self, n: usize, message: &Outbound<'_>) -> Result<Departure, Refusal> {
        self.act(n, |lane, now, out| lane.publish(message, now, out))
    }

    fn serve(&mut self, act: impl FnOnce(&mut Broker, Time, &mut Datagrams)) {
        let mut out = Datagrams::new();
        act(&mut self.broker, self.now, &mut out);
        while let Some(notice) = self.broker.side.poll_event() {
            self.broker.on_notice(notice, self.now, &mut out);
        }
        for (to, bytes) in out.iter() {
            self.carry(broker_address(), to, bytes);
        }
    }

    /// Lets time pass until something is so. Says whether it is.
    fn run(&mut self, at_most: Span, until: impl Fn(&World) -> bool) -> bool {
        let end = self.now + at_most;
        while !until(self) {
            let arrival = self
                .flights
                .peek()
                .map_or(Time::NEVER, |Reverse((at, ..))| *at);
            let lanes = self
                .lanes
                .iter()
                .map(Coap::poll_timeout)
                .min()
                .unwrap_or(Time::NEVER);
            let next = arrival.min(lanes).min(self.broker.side.poll_timeout());
            if next > end || self.fault.is_some() {
                self.now = self.now.max(end);
                return until(self);
            }
            self.now = self.now.max(next);
            if arrival <= self.now {
                let Some(Reverse((_, _, from, to, bytes))) = self.flights.pop() else {
                    continue;
                };
                self.arrive(from, to, &bytes);
                continue;
            }
            for n in 0..self.lanes.len() {
                if self.lanes[n].poll_timeout() <= self.now {
                    let told =
                        self.lanes[n].handle_timeout(self.now, &mut self.out, &mut self.heard[n]);
                    self.fault = told.err().or(self.fault.take());
                    self.carry_out(n);
                }
            }
            if self.broker.side.poll_timeout() <= self.now {
                self.serve(|broker, now, out| broker.side.handle_timeout(now, out));
            }
        }
        true
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if to == broker_address() {
            self.serve(|broker, now, out| {
                if let Some(Event::Request(request)) =
                    broker.side.handle_datagram(from, bytes, now, out)
                {
                    broker.on_request(&request, now, out);
                }
            });
        } else {
            let n = usize::from(to.port() - 40_000);
            let told =
                self.lanes[n].handle_input(bytes, self.now, &mut self.out, &mut self.heard[n]);
            self.fault = told.err().or(self.fault.take());
            self.carry_out(n);
        }
    }

    fn rest(&mut self) {
        self.run(Span::from_secs(5), |_| false);
    }
}

#[test]
fn a_publish_is_settled_by_its_answer() {
    let mut world = World::up(1, 0, vec![settings()]);
    assert!(world.lanes[0].capabilities().stamps);
    let sent = Outbound {
        content_type: Some("application/json"),
        lifespan: Span::from_secs(60),
        priority: 7,
        stamp: stamped(1),
        ..message(1, "plant/1", b"{}")
    };
    assert_eq!(world.publish(0, &sent), Ok(Departure::Awaited));
    // Sent again, on this way or another: it is known.
    assert_eq!(
        world.publish(
            0,
            &Outbound {
                id: 2,
                repeated: true,
                ..sent
            }
        ),
        Ok(Departure::Awaited)
    );
    world.rest();
    let settled = |id| EventCall::Settled(id, Settled::Acknowledged);
    assert_eq!(world.heard[0].take(), [settled(1), settled(2)]);
    assert_eq!(world.heard[0].round_trips.len(), 2 + 1);
    assert_eq!(
        world.broker.book.published,
        [("plant/1".to_owned(), b"{}".to_vec())]
    );
    assert_eq!(world.broker.book.queries, ["priority=7"]);
    assert_eq!(world.broker.book.values["plant/1"].format, Some(50));
    world
        .publish(
            0,
            &Outbound {
                retain: Retain::Clear,
                ..message(3, "plant/1", b"")
            },
        )
        .expect("it goes");
    world.rest();
    assert!(world.broker.book.values.is_empty());
}

#[test]
fn refusals_are_told_and_a_busy_server_is_left_alone() {
    let mut world = World::up(2, 0, vec![settings()]);
    world.broker.book.verdict = Some((Code::FORBIDDEN, 0));
    world.publish(0, &message(1, "a", b"x")).expect("it goes");
    world.rest();
    assert!(matches!(
        world.heard[0].take()[..],
        [EventCall::Settled(1, Settled::Refused(Refusal::Denied(_)))]
    ));
    world.broker.book.verdict = Some((Code::TOO_MANY_REQUESTS, 7));
    world.publish(0, &message(2, "a", b"x")).expect("it goes");
    world.run(Span::from_secs(1), |world| !world.heard[0].told.is_empty());
    let told = world.heard[0].take();
    assert!(
        matches!(
            &told[..],
            [
                EventCall::Pressed,
                EventCall::Settled(2, Settled::Refused(Refusal::Busy(_)))
            ]
        ),
        "{told:?}"
    );
    let since = world.now;
    assert_eq!(
        world.publish(0, &message(3, "a", b"x")),
        Err(Refusal::Window)
    );
    assert!(world.run(Span::from_secs(60), |world| !world.heard[0].told.is_empty()));
    assert_eq!(
        (world.heard[0].take(), world.now.since(since)),
        (vec![EventCall::Room], Span::from_secs(7))
    );
}

#[test]
fn as_many_are_under_way_as_the_settings_allow() {
    let nstart = CoapSettings {
        nstart: 2,
        ..settings()
    };
    let mut world = World::new(3, 0, vec![nstart]);
    world.broker.book.announces = false;
    world.open();
    for id in 1..=2 {
        assert_eq!(
            world.publish(0, &message(id, "a", b"x")),
            Ok(Departure::Awaited)
        );
    }
    assert_eq!(
        world.publish(0, &message(3, "a", b"x")),
        Err(Refusal::Window)
    );
    world.rest();
    let settled = |id| EventCall::Settled(id, Settled::Acknowledged);
    assert_eq!(
        world.heard[0].take(),
        [settled(1), EventCall::Room, settled(2)]
    );
}

#[test]
fn what_cannot_be_said_in_coap_is_refused() {
    let mut world = World::up(4, 0, vec![settings()]);
    let long = "x".repeat(300);
    for address in ["", "a/+", "#", &long] {
        assert_eq!(
            world.publish(0, &message(1, address, b"")),
            Err(Refusal::Address),
            "{address}"
        );
    }
    let once = Outbound {
        reliability: Reliability::ExactlyOnce,
        ..message(1, "a", b"")
    };
    assert!(matches!(
        world.publish(0, &once),
        Err(Refusal::Unsupported(_))
    ));
    for filter in ["a/#", "+", "$share/g/a", "$q/work"] {
        let refused = world.act(0, |lane, now, out| {
            lane.subscribe(&wish(1, filter), now, out)
        });
        assert!(matches!(refused, Err(Refusal::Unsupported(_))), "{filter}");
    }
}

#[test]
fn levels_with_odd_characters_come_through() {
    let mut world = World::up(5, 0, vec![settings()]);
    for (id, address) in (1..).zip(["a//b", "a/b%2Fc", "ü/ /x", &"x/".repeat(40)]) {
        world
            .publish(0, &message(id, address, b"x"))
            .expect(address);
    }
    world.rest();
    let seen: Vec<_> = world
        .broker
        .book
        .published
        .iter()
        .map(|(address, _)| address.as_str())
        .collect();
    // A level `b/c` is one option.
    assert_eq!(seen, ["a//b", "a/b/c", "ü/ /x", &"x/".repeat(40)]);
}

#[test]
fn questions_and_last_values_are_answered() {
    let mut world = World::up(6, 0, vec![settings()]);
    world
        .publish(0, &message(1, "plant/1", b"21.5"))
        .expect("it goes");
    world.rest();
    world.heard[0].take();
    world
        .act(0, |lane, now, out| {
            lane.request(RequestId(1), &message(2, "add", b"1+1"), now, out)
        })
        .expect("it goes");
    world
        .act(0, |lane, now, out| {
            lane.request(RequestId(2), &message(3, "nobody", b""), now, out)
        })
        .expect("it goes");
    world
        .act(0, |lane, now, out| {
            lane.read(RequestId(3), "plant/1", now, out)
        })
        .expect("it goes");
    world
        .act(0, |lane, now, out| {
            lane.read(RequestId(4), "plant/none", now, out)
        })
        .expect("it goes");
    world
        .act(0, |lane, now, out| {
            lane.read(RequestId(5), "plant/1", now, out)
        })
        .expect("it goes");
    world.lanes[0].forget(RequestId(5));
    world.rest();
    let told = world.heard[0].take();
    let [
        EventCall::Answered(RequestId(1), Ok(Some(sum))),
        EventCall::Answered(RequestId(2), Err(Refusal::Denied(_))),
        rest @ ..,
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(sum.payload, b"add: 1+1");
    let [
        EventCall::Answered(RequestId(3), Ok(Some(value))),
        EventCall::Answered(RequestId(4), Ok(None)),
    ] = rest
    else {
        panic!("{rest:?}")
    };
    assert!(value.payload == b"21.5" && value.is_last_value);
}

#[test]
fn a_subscription_brings_the_last_value_and_then_every_change() {
    let mut world = World::up(7, 0, vec![settings(), settings()]);
    world.publish(0, &message(1, "a", b"old")).expect("it goes");
    world.rest();
    world
        .act(1, |lane, now, out| lane.subscribe(&wish(3, "a"), now, out))
        .expect("it goes");
    world
        .act(1, |lane, now, out| lane.subscribe(&wish(4, "b"), now, out))
        .expect("it goes");
    world.rest();
    for (id, payload) in [(2, b"one"), (3, b"two"), (4, b"two")] {
        world
            .publish(
                0,
                &Outbound {
                    stamp: stamped(id),
                    ..message(id, "a", payload)
                },
            )
            .expect("it goes");
        world.rest();
    }
    let told = world.heard[1].take();
    let subscribed: Vec<_> = told
        .iter()
        .filter(|told| matches!(told, EventCall::Subscribed(_, Ok(()))))
        .collect();
    assert_eq!(subscribed.len(), 2);
    let got: Vec<Got> = told
        .into_iter()
        .filter_map(|t| {
            if let EventCall::Received(got) = t {
                Some(got)
            } else {
                None
            }
        })
        .collect();
    let seen: Vec<_> = got
        .iter()
        .map(|got| (got.payload.as_slice(), got.is_last_value, got.stamp))
        .collect();
    let expected: [(&[u8], bool, Option<Stamp>); 4] = [
        (b"old", true, None),
        (b"one", false, stamped(2)),
        (b"two", false, stamped(3)),
        (b"two", false, stamped(4)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(got[0].subscription, Some(SubscriptionId(3)));
    world.act(1, |lane, now, out| {
        lane.unsubscribe(SubscriptionId(3), now, out)
    });
    world.rest();
    assert_eq!(world.broker.observers.len(), 1);
}

/// A client that moves its subscriptions to another lane ends those of this one. The server has sent the beginning of a
/// large message, and a subscription on the other lane will not receive it.
#[test]
fn what_is_being_fetched_in_blocks_comes_before_a_subscription_ends() {
    let large = vec![b'x'; 3000];
    let mut fetched = 0;
    for moment in 0..100 {
        let mut world = World::up(7, 0, vec![settings(), settings()]);
        world
            .act(1, |lane, now, out| lane.subscribe(&wish(3, "a"), now, out))
            .expect("it goes");
        world.rest();
        world.publish(0, &message(1, "a", &large)).expect("it goes");
        world.run(Span::from_millis(moment), |_| false);
        let was_there = !world.heard[1].take_received().is_empty();
        world.act(1, |lane, now, out| {
            lane.unsubscribe(SubscriptionId(3), now, out)
        });
        // The answer to a question would say that nothing more comes.
        let is_awaited = world.act(1, |lane, now, out| lane.probe(now, out)) == 0;
        world.rest();
        let came: Vec<_> = world.heard[1]
            .take_received()
            .into_iter()
            .map(|got| got.payload)
            .collect();
        match is_awaited {
            true => assert!(
                !was_there && came == [&large[..]],
                "after {moment} ms {} came",
                came.len()
            ),
            false => assert!(came.is_empty(), "after {moment} ms {} came", came.len()),
        }
        assert_eq!(world.broker.observers.len(), 0, "and then it ends");
        assert!(world.act(1, |lane, now, out| lane.probe(now, out)) > 0);
        fetched += u64::from(is_awaited);
    }
    assert!(
        (20..90).contains(&fetched),
        "two more blocks take 40 ms: {fetched}"
    );
}

/// A cleared value ends an observation; it is registered again by itself.
#[test]
fn a_subscription_outlives_a_cleared_value() {
    let mut world = World::up(8, 0, vec![settings(), settings()]);
    world
        .act(1, |lane, now, out| lane.subscribe(&wish(3, "a"), now, out))
        .expect("it goes");
    world.rest();
    for (id, retain) in [(1, Retain::No), (2, Retain::Clear), (3, Retain::No)] {
        let payload = format!("{id}");
        world
            .publish(
                0,
                &Outbound {
                    retain,
                    ..message(id, "a", payload.as_bytes())
                },
            )
            .expect("it goes");
        world.rest();
    }
    let payloads: Vec<_> = world.heard[1]
        .take_received()
        .into_iter()
        .map(|got| got.payload)
        .collect();
    assert_eq!(payloads, [b"1", b"3"]);
}

/// A broker that has forgotten its observers is found out when Max-Age is over.
#[test]
fn a_broker_that_starts_again_is_told_of_the_subscription() {
    let mut world = World::up(9, 0, vec![settings(), settings()]);
    world
        .act(1, |lane, now, out| lane.subscribe(&wish(3, "a"), now, out))
        .expect("it goes");
    world.rest();
    let values = std::mem::take(&mut world.broker.book);
    world.broker = Broker {
        book: values,
        ..Broker::new(99)
    };
    world
        .publish(
            0,
            &Outbound {
                stamp: stamped(1),
                ..message(1, "a", b"missed")
            },
        )
        .expect("it goes");
    assert!(world.run(Span::from_secs(90), |world| {
        !world.broker.observers.is_empty()
    }));
    world.rest();
    let got = world.heard[1].take_received();
    assert!(
        got.len() == 1 && got[0].payload == b"missed" && got[0].repeated,
        "{got:?}"
    );
    world
        .publish(
            0,
            &Outbound {
                stamp: stamped(2),
                ..message(2, "a", b"next")
            },
        )
        .expect("it goes");
    world.rest();
    assert_eq!(world.heard[1].take_received()[0].payload, b"next");
}

#[test]
fn a_server_with_plain_resources_is_served_as_well() {
    let plain = CoapSettings {
        seed: Some(3),
        ..CoapSettings::plain()
    };
    let mut world = World::new(10, 0, vec![plain.clone(), plain]);
    (world.broker.book.is_plain, world.broker.book.announces) = (true, false);
    world.open();
    let capabilities = world.lanes[0].capabilities();
    assert!(!capabilities.stamps && !capabilities.keeps_all && !capabilities.properties);
    world
        .act(1, |lane, now, out| {
            lane.subscribe(&wish(1, "lamp/1"), now, out)
        })
        .expect("it goes");
    world.rest();
    world
        .publish(
            0,
            &Outbound {
                priority: 9,
                stamp: stamped(1),
                ..message(1, "lamp/1", b"on")
            },
        )
        .expect("it goes");
    world.rest();
    assert_eq!(
        world.broker.book.published,
        [("lamp/1".to_owned(), b"on".to_vec())]
    );
    assert_eq!(world.broker.book.queries, [""; 0]);
    assert_eq!(world.heard[1].take_received()[0].payload, b"on");
}

#[test]
fn where_nobody_is_the_link_is_at_fault() {
    let mut world = World::new(11, 1000, vec![settings()]);
    world.act(0, |lane, now, out| {
        lane.open(&opening("x"), broker_address(), now, out)
    });
    world.run(Span::from_secs(200), |_| false);
    let fault = world.fault.take().expect("nobody answers");
    assert!(!fault.is_final && world.heard[0].take().is_empty());
    // And where somebody was.
    let mut world = World::up(12, 0, vec![settings()]);
    world.lost = 1000;
    // One message may have had bad luck; two are enough.
    for id in 1..=2 {
        assert_eq!(world.fault, None);
        world.publish(0, &message(id, "a", b"x")).expect("it goes");
        world.run(Span::from_secs(100), |world| {
            !world.heard[0].told.is_empty()
        });
        assert_eq!(
            world.heard[0].take(),
            [EventCall::Settled(id, Settled::Unknown)]
        );
    }
    assert!(world.fault.is_some());
}

/// RFC 7252 §4.7: a server that does not respond must not be flooded.
#[test]
fn at_most_once_stops_where_nobody_shows_a_sign_of_life_and_goes_on_when_somebody_does() {
    let mut world = World::up(13, 0, vec![settings()]);
    let reading = at_most_once(1, "plant/1", &[b'x'; 100]);
    let mut gone = 0;
    while world.publish(0, &reading) == Ok(Departure::Gone) {
        gone += 1;
    }
    // 64 KiB, and a ping has left with half of it.
    assert!((500..600).contains(&gone), "{gone}");
    world.rest();
    assert_eq!(world.heard[0].take(), [EventCall::Room]);
    assert_eq!(world.broker.book.published.len(), gone);
    assert_eq!(world.publish(0, &reading), Ok(Departure::Gone));
    world.lost = 1000;
    while world.publish(0, &reading) == Ok(Departure::Gone) {}
    world.run(Span::from_secs(200), |_| false);
    assert!(world.fault.is_some());
}

#[test]
fn what_is_abandoned_is_not_repeated() {
    let mut world = World::up(14, 0, vec![settings()]);
    world.lost = 1000;
    world.publish(0, &message(1, "a", b"x")).expect("it goes");
    let sent = world.sent;
    world.lanes[0].abandon(1);
    world.run(Span::from_secs(200), |_| false);
    assert_eq!((world.sent, world.fault.take()), (sent, None));
    assert_eq!(world.heard[0].take(), []);
}

/// A peer may say anything: it ends in an error or in nothing, never in a panic.
#[test]
fn noise_does_no_harm() {
    let mut dice = Dice::new(77);
    for seed in 0..300 {
        let mut world = World::up(seed, 0, vec![settings()]);
        world
            .act(0, |lane, now, out| lane.subscribe(&wish(1, "a"), now, out))
            .expect("it goes");
        world.publish(0, &message(1, "a", b"x")).expect("it goes");
        // Recorded datagrams, damaged, and random bytes.
        for _ in 0..20 {
            let flight = world.flights.pop();
            let Some(Reverse((at, number, from, to, mut bytes))) = flight else {
                break;
            };
            world.now = world.now.max(at);
            if to != broker_address() && !bytes.is_empty() {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
            let _ = number;
            world.arrive(from, to, &bytes);
        }
        let noise: Vec<u8> = (0..dice.below(40)).map(|_| dice.below(256) as u8).collect();
        let _ = world.lanes[0].handle_input(&noise, world.now, &mut world.out, &mut world.heard[0]);
        world.rest();
    }
}
