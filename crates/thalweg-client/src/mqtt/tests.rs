//! The lane against a server made of the wire crate's other end, in memory.

use std::collections::HashMap;

use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Stamp};
use thalweg_mqtt::{ConnAck, Event, PingReq, ServerLimits, ServerSide};

use super::*;
use crate::pair::{FarEnd, acknowledged, endpoint};
use crate::transport::{Medium, MessageId, Properties, Settled, Transport, Welcome, Will};
use crate::witness::{EventCall, Got, at_most_once, exactly_once, message};

mod bytes;
mod questions;
mod sessions;

/// A broker for one client: it knows one session, last values, and plain filters.
struct Server {
    side: ServerSide,
    limits: ServerLimits,
    connack: Connack,
    has_session: bool,
    /// Filter, QoS and identifier.
    subscriptions: Vec<(String, QoS, Option<u32>)>,
    retained: HashMap<String, Vec<u8>>,
    /// Published messages, in order, without QoS 2 duplicates.
    published: Vec<Published>,
    /// QoS 2 publishes that wait for PUBREL.
    unreleased: Vec<u16>,
    /// Whether publishes are acknowledged.
    answers: bool,
    /// Reason code of all acknowledgements.
    reason: ReasonCode,
    next_id: u16,
    /// The client's acknowledgements: packet type and identifier.
    acks: Vec<(&'static str, u16)>,
    reports: usize,
    pings: usize,
    out: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Published {
    topic: String,
    payload: Vec<u8>,
    qos: QoS,
    id: u16,
    dup: bool,
    retain: bool,
    expiry: Option<u32>,
    content_type: Option<String>,
    response_topic: Option<String>,
    correlation: Option<Vec<u8>>,
    user: Vec<(String, String)>,
}

#[derive(Clone, Default)]
struct Connack {
    user: Vec<(String, String)>,
    receive_max: Option<u16>,
    aliases_max: u16,
    assigned: Option<String>,
    response_information: Option<String>,
}

impl FarEnd for Server {
    fn accept(&mut self) {
        self.limits.topic_alias_max = self.connack.aliases_max;
        self.limits.receive_max = self.connack.receive_max.unwrap_or(u16::MAX);
        self.side = ServerSide::new(self.limits.clone());
        self.out.clear();
    }

    fn hear(&mut self, bytes: &[u8], _: Time) {
        let mut rest = bytes;
        while let Some((consumed, event)) = self
            .side
            .handle_input(rest)
            .expect("the client keeps to the rules")
        {
            rest = &rest[consumed..];
            self.on_event(event);
        }
        assert!(rest.is_empty(), "half a packet");
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Server {
    fn new() -> Server {
        let limits = ServerLimits {
            topic_alias_max: 0,
            receive_max: u16::MAX,
            ..ServerLimits::default()
        };
        Server {
            side: ServerSide::new(limits.clone()),
            limits,
            connack: Connack::default(),
            has_session: false,
            subscriptions: Vec::new(),
            retained: HashMap::new(),
            published: Vec::new(),
            unreleased: Vec::new(),
            answers: true,
            reason: ReasonCode::Success,
            next_id: 0,
            acks: Vec::new(),
            reports: 0,
            pings: 0,
            out: Vec::new(),
        }
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::Connect(connect) => {
                let present = self.has_session && !connect.clean_start;
                if !present {
                    self.subscriptions.clear();
                    self.unreleased.clear();
                }
                self.has_session = connect.session_expiry > 0;
                let connack = self.connack.clone();
                let values = ConnAck {
                    session_present: present,
                    assigned_client_id: connack.assigned.as_deref(),
                    response_information: connack.response_information.as_deref(),
                    user: Some(&connack.user),
                    ..ConnAck::default()
                };
                self.side.connack(&values, &mut self.out);
            }
            Event::Publish(p) => {
                let id = p.id;
                let is_known = p.qos == QoS::ExactlyOnce && self.unreleased.contains(&id);
                if !is_known {
                    self.published.push(Published {
                        topic: p.topic.as_str().to_owned(),
                        payload: p.payload.to_vec(),
                        qos: p.qos,
                        id,
                        dup: p.dup,
                        retain: p.retain,
                        expiry: p.properties.message_expiry(),
                        content_type: p.properties.content_type().map(str::to_owned),
                        response_topic: p.properties.response_topic().map(str::to_owned),
                        correlation: p.properties.correlation_data().map(<[u8]>::to_vec),
                        user: p
                            .properties
                            .user_properties()
                            .map(|(k, v)| (k.to_owned(), v.to_owned()))
                            .collect(),
                    });
                }
                if p.retain {
                    self.retained
                        .insert(p.topic.as_str().to_owned(), p.payload.to_vec());
                }
                let reason = self.reason;
                match p.qos {
                    QoS::AtLeastOnce if self.answers => self.side.puback(id, reason, &mut self.out),
                    QoS::ExactlyOnce => {
                        if !is_known && !reason.is_error() {
                            self.unreleased.push(id);
                        }
                        if self.answers {
                            self.side.pubrec(id, reason, &mut self.out);
                        }
                    }
                    _ => {}
                }
            }
            Event::PubRel { id, .. } => {
                self.unreleased.retain(|other| *other != id);
                self.acks.push(("PUBREL", id));
                if self.answers {
                    self.side.pubcomp(id, ReasonCode::Success, &mut self.out);
                }
            }
            Event::PubAck { id, .. } => self.acks.push(("PUBACK", id)),
            Event::PubRec { id, .. } => {
                self.acks.push(("PUBREC", id));
                self.side.pubrel(id, ReasonCode::Success, &mut self.out);
            }
            Event::PubComp { id, .. } => self.acks.push(("PUBCOMP", id)),
            Event::Subscribe(s) => {
                let mut codes = Vec::new();
                for (filter, options) in s.filters() {
                    if filter.starts_with("forbidden") {
                        codes.push(ReasonCode::NotAuthorized);
                        continue;
                    }
                    codes.push(ReasonCode::granted(options.qos));
                    let is_new = !self.subscriptions.iter().any(|(known, ..)| known == filter);
                    self.subscriptions.retain(|(known, ..)| known != filter);
                    self.subscriptions
                        .push((filter.to_owned(), options.qos, s.subscription_id));
                    let wanted = match options.retain_handling {
                        RetainHandling::Send => true,
                        RetainHandling::SendIfNew => is_new,
                        RetainHandling::DoNotSend => false,
                    };
                    let value = self.retained.get(filter).filter(|_| wanted).cloned();
                    if let Some(value) = value {
                        self.deliver(filter, &value, QoS::AtMostOnce, true, &[filter]);
                    }
                }
                self.side.suback(s.id, &codes, &mut self.out);
            }
            Event::Unsubscribe(u) => {
                let codes: Vec<_> = u.filters().map(|_| ReasonCode::Success).collect();
                self.subscriptions
                    .retain(|(known, ..)| !u.filters().any(|gone| gone == known));
                self.side.unsuback(u.id, &codes, &mut self.out);
            }
            Event::PingReq(ping) => {
                self.pings += 1;
                self.reports += usize::from(matches!(ping, PingReq::Report(_)));
                self.side.pingresp(&mut self.out);
            }
            Event::PassedOver | Event::Disconnect(_) | Event::Auth(_) => {}
        }
    }

    /// Sends a message with the identifiers of these filters.
    fn deliver(
        &mut self,
        topic: &str,
        payload: &[u8],
        qos: QoS,
        retain: bool,
        filters: &[&str],
    ) -> u16 {
        let ids: Vec<u32> = filters
            .iter()
            .filter_map(|filter| {
                self.subscriptions
                    .iter()
                    .find(|(known, ..)| known == filter)?
                    .2
            })
            .collect();
        self.next_id += 1;
        let id = self.next_id;
        let user = [("x-stamp", "ab-1"), ("colour", "red")];
        let message = PublishOut {
            topic,
            payload,
            qos,
            retain,
            id,
            subscription_ids: &ids,
            user: Some(&user),
            allow_alias: true,
            ..PublishOut::default()
        };
        self.side.publish(&message, &mut self.out).expect("it fits");
        id
    }
}

type Pair = crate::pair::Pair<Mqtt, Server>;

fn settings() -> MqttSettings {
    MqttSettings {
        seed: Some(7),
        ..MqttSettings::default()
    }
}

impl Pair {
    fn new(settings: MqttSettings) -> Pair {
        let lane = Mqtt::new(endpoint(1883, Medium::Stream), settings);
        let mut pair = Pair::of(lane, Server::new(), "gateway");
        (pair.round_trip, pair.last_values) = (Span::from_millis(20), true);
        pair
    }

    fn up(settings: MqttSettings) -> Pair {
        let mut pair = Pair::new(settings);
        pair.reach();
        pair.witness.take();
        pair
    }

    fn of_version(version: u8) -> Pair {
        Pair::up(MqttSettings {
            version,
            ..settings()
        })
    }

    /// Lets time pass until the lane's timer is due, which must not end the connection.
    fn wait(&mut self) {
        self.now = self.lane.poll_timeout();
        self.timeout().expect("the server lives");
        self.exchange();
    }
}

const VERSIONS: [u8; 2] = [4, 5];

#[test]
fn messages_of_every_reliability_are_settled_once() {
    for version in VERSIONS {
        let mut pair = Pair::of_version(version);
        let classes = [
            Reliability::AtMostOnce,
            Reliability::AtLeastOnce,
            Reliability::ExactlyOnce,
        ];
        for (id, reliability) in (1..).zip(classes) {
            let departure = pair.publish(&Outbound {
                reliability,
                ..message(id, "plant/1", b"21.5")
            });
            assert_eq!(
                departure,
                Ok(if id == 1 {
                    Departure::Gone
                } else {
                    Departure::Awaited
                })
            );
        }
        pair.exchange();
        let settled = |id| EventCall::Settled(id, Settled::Acknowledged);
        assert_eq!(pair.witness.take(), [settled(2), settled(3)]);
        assert_eq!(
            pair.server
                .published
                .iter()
                .map(|p| p.qos as u8)
                .collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(pair.witness.round_trips.len(), 2);
    }
}

#[test]
fn everything_that_a_message_has_is_said_and_understood() {
    let mut pair = Pair::new(settings());
    pair.server.connack.user = vec![(STAMPS_ANNOUNCEMENT.to_owned(), "1".to_owned())];
    pair.reach();
    let capabilities = pair.lane.capabilities();
    assert!(
        capabilities.stamps
            && capabilities.carries_stamps
            && capabilities.properties
            && capabilities.requests
    );
    let mut properties = Vec::new();
    Properties::push("unit", "K", &mut properties);
    let stamp = Some(Stamp {
        publisher: 0xAB,
        sequence: 300,
    });
    let sent = Outbound {
        retain: Retain::Set,
        lifespan: Span::from_millis(1500),
        content_type: Some("text/plain"),
        properties: Properties(&properties),
        reply_to: Some("answers/here"),
        correlation: Some(b"\x01\x02"),
        stamp,
        ..message(1, "plant/1", b"21.5")
    };
    pair.must_publish(&sent);
    pair.exchange();
    let user = vec![
        ("unit".to_owned(), "K".to_owned()),
        ("x-stamp".to_owned(), "ab-12c".to_owned()),
    ];
    let expected = Published {
        topic: "plant/1".to_owned(),
        payload: b"21.5".to_vec(),
        qos: QoS::AtLeastOnce,
        id: 1,
        dup: false,
        retain: true,
        expiry: Some(2),
        content_type: Some("text/plain".to_owned()),
        response_topic: Some("answers/here".to_owned()),
        correlation: Some(vec![1, 2]),
        user,
    };
    assert_eq!(pair.server.published, [expected]);
    // A cleared last value is a retained message without payload. §3.3.1.3
    pair.must_publish(&Outbound {
        retain: Retain::Clear,
        ..message(2, "plant/1", b"ignored")
    });
    pair.exchange();
    assert_eq!(pair.server.retained["plant/1"], b"");
}

#[test]
fn what_a_version_cannot_say_is_left_out() {
    let mut pair = Pair::of_version(4);
    let capabilities = pair.lane.capabilities();
    assert!(!capabilities.carries_stamps && !capabilities.properties && !capabilities.requests);
    let stamp = Some(Stamp {
        publisher: 1,
        sequence: 1,
    });
    let sent = Outbound {
        stamp,
        content_type: Some("text/plain"),
        ..message(1, "plant/1", b"21.5")
    };
    pair.must_publish(&sent);
    pair.exchange();
    assert_eq!(pair.server.published[0].user, []);
    let refused = pair.request(1, &message(2, "rpc", b""));
    assert!(matches!(refused, Err(Refusal::Unsupported(_))));
}

#[test]
fn deliveries_say_which_subscription_they_are_for_and_are_settled_when_the_engine_says_so() {
    for version in VERSIONS {
        let mut pair = Pair::of_version(version);
        pair.must_subscribe(0, "plant/#", Reliability::ExactlyOnce);
        pair.must_subscribe(1, "plant/+", Reliability::ExactlyOnce);
        pair.must_subscribe(2, "forbidden/1", Reliability::ExactlyOnce);
        pair.exchange();
        let refused = pair.witness.take().pop();
        let Some(EventCall::Subscribed(SubscriptionId(2), Err(Refusal::Denied(_)))) = refused
        else {
            panic!("{refused:?}")
        };
        pair.server
            .deliver("plant/1", b"one", QoS::AtLeastOnce, false, &["plant/#"]);
        pair.server.deliver(
            "plant/2",
            b"both",
            QoS::ExactlyOnce,
            false,
            &["plant/#", "plant/+"],
        );
        pair.server
            .deliver("plant/3", b"zero", QoS::AtMostOnce, false, &["plant/+"]);
        pair.exchange();
        let got = pair.witness.take_received();
        let which: Vec<_> = got
            .iter()
            .map(|got| got.subscription.map(|id| id.0))
            .collect();
        // Of several the engine finds out by itself; MQTT 3.1.1 does not tell.
        assert_eq!(
            which,
            if version == 5 {
                [Some(0), None, Some(1)]
            } else {
                [None; 3]
            }
        );
        assert_eq!(pair.server.acks, []);
        if version == 5 {
            assert_eq!(
                got[0].stamp,
                Some(Stamp {
                    publisher: 0xAB,
                    sequence: 1
                })
            );
            assert_eq!(got[0].properties, [("colour".to_owned(), "red".to_owned())]);
        }
        assert_eq!(got[2].delivery, None);
        for got in &got {
            if let Some(delivery) = got.delivery {
                pair.settle(delivery);
            }
        }
        pair.exchange();
        assert_eq!(
            pair.server.acks,
            [("PUBACK", 1), ("PUBREC", 2), ("PUBCOMP", 2)]
        );
    }
}

#[test]
fn two_subscriptions_with_one_filter_share_it_until_the_last_has_gone() {
    let mut pair = Pair::up(settings());
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.must_subscribe(1, "a", Reliability::ExactlyOnce);
    pair.exchange();
    pair.server
        .deliver("a", b"1", QoS::AtMostOnce, false, &["a"]);
    pair.exchange();
    assert_eq!(pair.witness.take_received()[0].subscription, None);
    pair.unsubscribe(1);
    pair.exchange();
    assert_eq!(pair.server.subscriptions.len(), 1);
    pair.server
        .deliver("a", b"2", QoS::AtMostOnce, false, &["a"]);
    pair.exchange();
    assert_eq!(
        pair.witness.take_received()[0].subscription,
        Some(SubscriptionId(0))
    );
    pair.unsubscribe(0);
    pair.exchange();
    assert_eq!(pair.server.subscriptions, []);
}

#[test]
fn more_than_the_server_takes_waits_for_room() {
    let mut pair = Pair::new(settings());
    pair.server.connack.receive_max = Some(2);
    pair.server.answers = false;
    pair.reach();
    pair.witness.take();
    assert_eq!(pair.publish(&message(1, "a", b"")), Ok(Departure::Awaited));
    assert_eq!(pair.publish(&message(2, "a", b"")), Ok(Departure::Awaited));
    assert_eq!(pair.publish(&message(3, "a", b"")), Err(Refusal::Window));
    // At most once is not counted. §4.9
    let zero = at_most_once(4, "a", b"");
    assert_eq!(pair.publish(&zero), Ok(Departure::Gone));
    pair.exchange();
    pair.server
        .side
        .puback(1, ReasonCode::Success, &mut pair.server.out);
    pair.exchange();
    assert_eq!(
        pair.witness.take(),
        [
            EventCall::Settled(1, Settled::Acknowledged),
            EventCall::Pressed,
            EventCall::Room
        ]
    );
    assert_eq!(pair.publish(&message(3, "a", b"")), Ok(Departure::Awaited));
}

/// mosquitto 2.0 loses more, and acknowledges them.
#[test]
fn in_mqtt_3_no_more_than_twenty_are_under_way_exactly_once() {
    let mut pair = Pair::of_version(4);
    let once = |id| exactly_once(id, "a", b"");
    for id in 1..=20 {
        assert_eq!(pair.publish(&once(id)), Ok(Departure::Awaited));
    }
    assert_eq!(pair.publish(&once(21)), Err(Refusal::Window));
    assert_eq!(pair.publish(&message(22, "a", b"")), Ok(Departure::Awaited));
    pair.exchange();
    let told = pair.witness.take();
    assert!(told.contains(&EventCall::Room) && !told.contains(&EventCall::Pressed));
    assert_eq!(told.len(), 21 + 1);
    assert_eq!(pair.publish(&once(21)), Ok(Departure::Awaited));
}

#[test]
fn a_refused_message_is_told_with_the_servers_words() {
    for reliability in [Reliability::AtLeastOnce, Reliability::ExactlyOnce] {
        let mut pair = Pair::up(settings());
        pair.server.reason = ReasonCode::NotAuthorized;
        pair.must_publish(&Outbound {
            reliability,
            ..message(1, "a", b"")
        });
        pair.exchange();
        let told = pair.witness.take();
        let [EventCall::Settled(1, Settled::Refused(Refusal::Denied(words)))] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(words.contains("not authorized"), "{words}");
        pair.server.reason = ReasonCode::QuotaExceeded;
        pair.must_publish(&Outbound {
            reliability,
            ..message(2, "a", b"")
        });
        pair.exchange();
        let told = pair.witness.take();
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
    }
}

#[test]
fn what_is_no_topic_or_too_large_is_refused_and_costs_no_identifier() {
    let mut pair = Pair::new(settings());
    pair.server.limits.packet_bytes_max = 100;
    pair.reach();
    for address in ["", "a/+", "#", "a\0"] {
        assert_eq!(
            pair.publish(&message(1, address, b"")),
            Err(Refusal::Address),
            "{address}"
        );
    }
    for _ in 0..70_000 {
        let Err(Refusal::TooLarge { limit: 0..100 }) = pair.publish(&message(1, "a", &[0; 100]))
        else {
            panic!()
        };
    }
    assert!(pair.out.is_empty());
    assert_eq!(pair.publish(&message(1, "a", b"")), Ok(Departure::Awaited));
}

#[test]
fn silence_is_broken_and_a_dead_server_is_noticed() {
    'versions: for version in VERSIONS {
        let mut pair = Pair::of_version(version);
        let start = pair.now;
        pair.wait();
        assert_eq!(pair.server.pings, 1);
        assert!(pair.now.since(start) <= Span::from_secs(60));
        assert_eq!(pair.witness.round_trips, [Span::from_millis(20)]);
        // Publishing at most once is no sign of life of the server.
        for second in 0..120 {
            pair.now += Span::from_secs(1);
            let zero = at_most_once(second, "a", b"");
            pair.must_publish(&zero);
            pair.out.clear();
            if pair.lane.poll_timeout() <= pair.now {
                let result = pair.timeout();
                if let Err(fault) = result {
                    assert!(fault.words.contains("PINGREQ") && !fault.is_final);
                    assert!((60..=95).contains(&second), "{second}");
                    continue 'versions;
                }
            }
        }
        panic!("nobody noticed");
    }
}

#[test]
fn what_does_not_fit_into_connect_is_told_at_once() {
    let mut pair = Pair::new(settings());
    pair.opening.user = Some("u".repeat(70_000));
    pair.open();
    assert_eq!(
        pair.publish(&message(1, "a", b"")),
        Err(Refusal::NotConnected)
    );
    assert!(pair.lane.poll_timeout() <= pair.now);
    assert!(pair.timeout().is_err());
}

#[test]
fn a_server_of_mqtt_3_is_spoken_to_in_mqtt_3_the_next_time() {
    let mut pair = Pair::new(settings());
    pair.open();
    let fault = pair.handle(&[0x20, 2, 0, 1]);
    assert!(!fault.expect_err("it does not speak MQTT 5").is_final);
    pair.lose();
    pair.reach();
    assert_eq!(pair.server.side.version(), Version::V311);
    assert!(matches!(pair.witness.take()[..], [EventCall::Up(_)]));
}

#[test]
fn wrong_credentials_are_final_and_a_busy_server_is_not() {
    for (code, is_final) in [(0x86, true), (0x87, true), (0x89, false), (0x97, false)] {
        let mut pair = Pair::new(settings());
        pair.open();
        let fault = pair.handle(&[0x20, 3, 0, code, 0]);
        assert_eq!(
            fault.expect_err("it is refused").is_final,
            is_final,
            "{code:#x}"
        );
    }
}

#[test]
fn a_will_and_credentials_are_in_connect() {
    let mut pair = Pair::new(MqttSettings {
        version: 4,
        ..settings()
    });
    pair.opening.password = Some(b"secret".to_vec());
    pair.opening.will = Some(Will {
        address: "gone".to_owned(),
        payload: b"bye".to_vec(),
        reliability: Reliability::AtLeastOnce,
        retain: true,
    });
    pair.open();
    let mut server = ServerSide::new(ServerLimits::default());
    let Ok(Some((_, Event::Connect(connect)))) = server.handle_input(&pair.out.bytes) else {
        panic!("no CONNECT")
    };
    assert_eq!(
        (connect.username, connect.password),
        (Some(""), Some(&b"secret"[..]))
    );
    let will = connect.will.expect("there is a will");
    assert_eq!(
        (will.topic, will.payload, will.qos, will.retain),
        ("gone", &b"bye"[..], QoS::AtLeastOnce, true)
    );
}

#[test]
fn a_worker_tells_a_server_that_asks_for_it_how_much_it_has_to_do() {
    let mut pair = Pair::new(settings());
    pair.server.limits.load_reports = true;
    pair.reach();
    pair.must_subscribe(0, "$q/work", Reliability::ExactlyOnce);
    pair.exchange();
    let filter = "$share/any/$q/work";
    assert_eq!(pair.server.subscriptions[0].0, filter);
    for _ in 0..3 {
        pair.server
            .deliver("$q/work", b"job", QoS::AtLeastOnce, false, &[filter]);
    }
    pair.exchange();
    for got in pair.witness.take_received() {
        pair.now += Span::from_millis(100);
        pair.settle(got.delivery.expect("it is to be settled"));
    }
    pair.wait();
    assert_eq!((pair.server.pings, pair.server.reports), (1, 1));
}

/// A peer may say anything: it ends in an error or in nothing, never in a panic.
#[test]
fn noise_does_no_harm() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut throw = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..2000 {
        let mut pair = Pair::up(MqttSettings {
            version: if round % 2 == 0 { 5 } else { 4 },
            ..settings()
        });
        let packets = [
            0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x90, 0xB0, 0xD0, 0xE0, 0xF0, 0x20,
        ];
        let mut noise = Vec::new();
        for _ in 0..4 {
            let len = throw() as usize % 12;
            noise.push(packets[throw() as usize % packets.len()]);
            noise.push(len as u8);
            noise.extend((0..len).map(|_| (throw() % 8) as u8));
        }
        let _ = pair.handle(&noise);
        let _ = pair.lane.handle_timeout(
            pair.now + Span::from_secs(300),
            &mut pair.out,
            &mut pair.witness,
        );
    }
}
