//! A publish whose only receivers are full is refused on whichever shards they are, and nothing that is acknowledged is lost.

use crate::peer::{Peer, Place, Protocol, Stage, Verdict};
use crate::ways::{Target, Way, lay};
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, ReasonCode};
use thalweg_testbed::mqtt::{Mqtt, Packet};
use thalweg_testbed::{Random, Settings, Testbed, Who};

/// Where everything is published.
const ADDRESS: Place<'_> = Place::Address("a/b");
/// A filter that covers each receiver's address, and another address that only this covers.
const FILTERS: [(&str, &str); 2] = [("a/+", "a/x"), ("+/b", "y/b")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverKind {
    /// A session that is away.
    Session,
    /// A shared subscription whose only member is away.
    Group,
    /// A queue that rejects publishes.
    Queue,
}

#[derive(Clone, Copy, Debug)]
struct Receiver {
    kind: ReceiverKind,
    /// The shard of the session; a queue is where queues are.
    shard: usize,
    is_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Broker {
    shards: u16,
    journal: bool,
    /// The order of the mail between shards.
    order: Option<u64>,
}

fn stage(broker: Broker) -> Stage {
    let mut stage = Stage::with(Settings {
        shards: broker.shards,
        limits: Limits {
            journal: broker.journal,
            queue_messages_max: 1,
            group_messages_max: 1,
            ..Limits::default()
        },
        ..Settings::default()
    });
    stage.bed.mail_order = broker.order.map(Random);
    stage
}

/// A receiver of a filter that keeps one message and takes none; `fill` is an address that only this filter covers.
fn receive(stage: &mut Stage, receiver: Receiver, number: usize, filler: Peer) {
    let (filter, fill) = FILTERS[number];
    match receiver.kind {
        ReceiverKind::Session | ReceiverKind::Group => {
            let name = stage
                .bed
                .name_on(&format!("receiver-{number}"), receiver.shard);
            let peer = stage.connect_as(Protocol::Mqtt5, "receiver", &name, 10);
            match receiver.kind {
                ReceiverKind::Group => stage.ask_shared(peer, "group", filter),
                _ => stage.ask(peer, Place::Address(filter)),
            }
            stage.lose(peer);
        }
        ReceiverKind::Queue => stage.declare_rejecting(&format!("queue-{number}"), filter),
    }
    if receiver.is_full {
        stage.publish(filler, Place::Address(fill), "first");
        assert_eq!(stage.verdicts(filler), [Verdict::Accepted], "{receiver:?}");
    }
}

fn waiting(stage: &Stage) -> usize {
    stage.bed.total(|totals| totals.waiting + totals.in_flight)
}

fn check(broker: Broker, protocol: Protocol, publisher: usize, receivers: &[Receiver]) {
    let case = (broker, protocol, publisher, receivers);
    let mut stage = stage(broker);
    let name = stage.bed.name_on("filler", publisher);
    let filler = stage.connect_as(Protocol::Mqtt5, "filler", &name, 10);
    let name = stage.bed.name_on("publisher", publisher);
    let peer = stage.connect_as(protocol, "publisher", &name, 10);
    stage.confirm(peer);
    for (number, receiver) in receivers.iter().enumerate() {
        receive(&mut stage, *receiver, number, filler);
    }
    let before = waiting(&stage);
    stage.publish(peer, ADDRESS, "second");
    let verdicts = stage.verdicts(peer);
    // The items of XMPP's nodes are last values, which keep them, and so are CoAP's resources.
    let keeps = matches!(
        protocol,
        Protocol::Coap | Protocol::CoapStream | Protocol::Xmpp
    );
    let is_rejected = receivers
        .iter()
        .any(|it| it.kind == ReceiverKind::Queue && it.is_full);
    let is_refused = is_rejected || !keeps && receivers.iter().all(|receiver| receiver.is_full);
    match (is_refused, protocol) {
        (true, Protocol::Mqtt3) => assert_eq!(verdicts, [], "{case:?}"),
        (true, _) => assert_eq!(verdicts, [Verdict::Refused], "{case:?}"),
        (false, _) => assert_eq!(verdicts, [Verdict::Accepted], "{case:?}"),
    }
    let room = receivers
        .iter()
        .filter(|receiver| !receiver.is_full)
        .count();
    assert_eq!(waiting(&stage), before + room, "{case:?}");
}

/// All receivers on a broker of so many shards.
fn receivers(shards: usize) -> Vec<Receiver> {
    let mut all = Vec::new();
    for is_full in [true, false] {
        for kind in [ReceiverKind::Session, ReceiverKind::Group] {
            all.extend((0..shards).map(|shard| Receiver {
                kind,
                shard,
                is_full,
            }));
        }
        all.push(Receiver {
            kind: ReceiverKind::Queue,
            shard: 0,
            is_full,
        });
    }
    all
}

const PROTOCOLS: [Protocol; 8] = [
    Protocol::Mqtt3,
    Protocol::Mqtt5,
    Protocol::Amqp,
    Protocol::Stomp,
    Protocol::Coap,
    Protocol::CoapStream,
    Protocol::Line,
    Protocol::Xmpp,
];

#[test]
fn a_publish_whose_only_receivers_are_full_is_refused_wherever_they_are() {
    for (shards, journal) in [(1, true), (2, true), (2, false), (3, true), (3, false)] {
        let order = None;
        let broker = Broker {
            shards,
            journal,
            order,
        };
        for protocol in PROTOCOLS {
            for receiver in receivers(usize::from(shards)) {
                check(broker, protocol, 0, &[receiver]);
            }
        }
    }
}

#[test]
fn one_receiver_with_room_is_enough_wherever_it_is() {
    for (seed, (shards, journal)) in [(2, true), (2, false), (3, true)].into_iter().enumerate() {
        let order = Some(seed as u64);
        let broker = Broker {
            shards,
            journal,
            order,
        };
        let all = receivers(usize::from(shards));
        for one in &all {
            for other in &all {
                check(broker, Protocol::Mqtt5, 0, &[*one, *other]);
            }
        }
        for protocol in PROTOCOLS {
            let mut random = Random(seed as u64);
            for _ in 0..10 {
                let two = [*random.pick(&all), *random.pick(&all)];
                check(broker, protocol, usize::from(shards) - 1, &two);
            }
        }
    }
}

/// Publishes to an exchange that leads on to where the receivers are.
fn lead_on(broker: Broker, way: Way, publisher: usize, receivers: &[Receiver]) {
    let case = (broker, way, publisher, receivers);
    let mut stage = stage(broker);
    lay(&mut stage.bed, way, Target::Address);
    let name = stage.bed.name_on("filler", publisher);
    let filler = stage.connect_as(Protocol::Mqtt5, "filler", &name, 10);
    for (number, receiver) in receivers.iter().enumerate() {
        receive(&mut stage, *receiver, number, filler);
    }
    let mut bed = stage.bed;
    let who = connect(&mut bed, publisher);
    let topic = match way {
        Way::Topic => "$x/in/a/b",
        _ => "$x/in/a.b",
    };
    let headers = vec![("h", "1")];
    let out = PublishOut {
        user: Some(&headers),
        ..publish(topic, QoS::AtLeastOnce)
    };
    bed.says(who, |client, up| {
        client.publish(&out, up);
    });
    let reason = match receivers.iter().all(|receiver| receiver.is_full) {
        true => ReasonCode::QuotaExceeded,
        false => ReasonCode::Success,
    };
    assert_eq!(reasons(&mut bed, who), [(1, reason)], "{case:?}");
}

#[test]
fn what_exchanges_lead_to_full_receivers_only_is_refused_wherever_they_are() {
    let ways = [
        Way::Direct,
        Way::Topic,
        Way::Fanout,
        Way::Headers,
        Way::ExchangeToExchange,
        Way::Alternate,
    ];
    for (shards, journal) in [(1, true), (2, true), (2, false), (3, true)] {
        let order = None;
        let broker = Broker {
            shards,
            journal,
            order,
        };
        let mut all = receivers(usize::from(shards));
        all.retain(|receiver| receiver.kind != ReceiverKind::Queue);
        let mut random = Random(shards.into());
        for way in ways {
            for publisher in 0..usize::from(shards) {
                for receiver in &all {
                    lead_on(broker, way, publisher, &[*receiver]);
                }
                for _ in 0..5 {
                    let two = [*random.pick(&all), *random.pick(&all)];
                    lead_on(broker, way, publisher, &two);
                }
            }
        }
    }
}

/// A broker of two shards with a journal or without, a client of the first, and a session of the second that is full.
fn full_elsewhere(journal: bool) -> (Testbed, Who<Mqtt>) {
    let mut stage = stage(Broker {
        shards: 2,
        journal,
        order: None,
    });
    let name = stage.bed.name_on("filler", 1);
    let filler = stage.connect_as(Protocol::Mqtt5, "filler", &name, 10);
    let full = Receiver {
        kind: ReceiverKind::Session,
        shard: 1,
        is_full: true,
    };
    receive(&mut stage, full, 0, filler);
    let room = stage.bed.name_on("room", 1);
    let peer = stage.connect_as(Protocol::Mqtt5, "room", &room, 10);
    stage.ask(peer, Place::Address("room"));
    let near = stage.bed.name_on("near", 0);
    let peer = stage.connect_as(Protocol::Mqtt5, "near", &near, 10);
    stage.ask(peer, Place::Address("near"));
    let mut bed = stage.bed;
    let who = connect(&mut bed, 0);
    (bed, who)
}

/// The publisher, whose session outlives its connection.
fn connect(bed: &mut Testbed, shard: usize) -> Who<Mqtt> {
    let connect = ConnectOut {
        client_id: &bed.name_on("publisher", shard),
        session_expiry: 3600,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, Some(Access::ALL));
    bed.rest();
    bed.client(who).said.clear();
    who
}

fn publish(topic: &str, qos: QoS) -> PublishOut<'_> {
    PublishOut {
        topic,
        qos,
        ..PublishOut::default()
    }
}

fn reasons(bed: &mut Testbed, who: Who<Mqtt>) -> Vec<(u16, ReasonCode)> {
    let said = bed.client(who).said.drain(..);
    let reasons = said.filter_map(|packet| match packet {
        Packet::PubAck { id, reason } | Packet::PubRec { id, reason } => Some((id, reason)),
        _ => None,
    });
    reasons.collect()
}

#[test]
fn acknowledgements_of_several_publishes_leave_in_their_order() {
    for journal in [true, false] {
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let (mut bed, who) = full_elsewhere(journal);
            bed.says(who, |client, up| {
                for topic in ["near", "a/b", "near", "room", "nobody", "a/b", "near"] {
                    client.publish(&publish(topic, qos), up);
                }
            });
            let (full, fine) = (ReasonCode::QuotaExceeded, ReasonCode::Success);
            let none = ReasonCode::NoMatchingSubscribers;
            let expected = [fine, full, fine, fine, none, full, fine];
            let expected: Vec<_> = (1..).zip(expected).collect();
            assert_eq!(reasons(&mut bed, who), expected, "{journal} {qos:?}");
        }
    }
}

#[test]
fn nothing_is_said_before_the_other_shard_has_answered() {
    for journal in [true, false] {
        let (mut bed, who) = full_elsewhere(journal);
        bed.write(who, |client, up| {
            client.publish(&publish("a/b", QoS::AtLeastOnce), up);
        });
        bed.feed(who, usize::MAX);
        for _ in 0..3 {
            bed.write_all();
            bed.tick(0);
            bed.flush(who, usize::MAX);
            bed.read(who);
        }
        assert_eq!(reasons(&mut bed, who), [], "{journal}");
        bed.rest();
        assert_eq!(
            reasons(&mut bed, who),
            [(1, ReasonCode::QuotaExceeded)],
            "{journal}"
        );
    }
}

#[test]
fn a_publish_that_is_repeated_over_another_connection_is_refused_there() {
    for stamped in [false, true] {
        let (mut bed, who) = full_elsewhere(true);
        let stamp = vec![("x-stamp", "7-1")];
        let once = PublishOut {
            user: stamped.then_some(&stamp),
            ..publish("a/b", QoS::ExactlyOnce)
        };
        bed.write(who, |client, up| {
            client.publish(&once, up);
        });
        bed.feed(who, usize::MAX);
        bed.close(who);
        let again = connect(&mut bed, 0);
        bed.says(again, |client, up| {
            client.publish(&PublishOut { dup: true, ..once }, up);
        });
        let refused = [(1, ReasonCode::QuotaExceeded)];
        assert_eq!(reasons(&mut bed, again), refused, "{stamped}");
        // It may come again, under the same number and stamp.
        bed.says(again, |client, up| {
            client.publish(&once, up);
        });
        let refused = [(2, ReasonCode::QuotaExceeded)];
        assert_eq!(reasons(&mut bed, again), refused, "{stamped}");
    }
}
