//! The terms of a queue mean the same whatever protocol declares it.

use crate::peer::{Place, Protocol, Stage};
use crate::ways::{declare, operator};
use std::sync::Arc;
use thalweg_amqp::methods::queue;
use thalweg_amqp::{FieldValue, Method, Table, TableWriter};
use thalweg_fronts::coap::CoapSettings;
use thalweg_kernel::access::Access;
use thalweg_kernel::{QueueLimits, QueueView};
use thalweg_stomp::{ConnectOut, SendOut};
use thalweg_testbed::amqp::{Amqp, Hello, ServerMethod};
use thalweg_testbed::stomp::ServerFrame;
use thalweg_testbed::{Settings, Testbed, Who};

const NUMBERS: [&str; 6] = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-delivery-limit",
];

const TEXTS: [(&str, &str); 8] = [
    ("x-overflow", "drop-head"),
    ("x-overflow", "reject-publish"),
    ("x-overflow", "reject-publish-dlx"),
    ("x-overflow", "spill"),
    ("x-queue-type", "classic"),
    ("x-queue-type", "quorum"),
    ("x-queue-type", "stream"),
    ("x-dead-letter-routing-key", "without an exchange"),
];

fn amqp(bed: &mut Testbed) -> Who<Amqp> {
    let hello = Hello {
        channel: 1,
        ..Hello::default()
    };
    let who = bed.open_amqp(&hello, Some(Access::ALL));
    bed.rest();
    who
}

/// Whether AMQP gets a queue of this name and these terms.
fn declares(bed: &mut Testbed, who: Who<Amqp>, queue: &str, arguments: Table<'_>) -> bool {
    let declare = queue::Declare {
        queue,
        durable: true,
        arguments,
        ..Default::default()
    };
    bed.client(who).said.clear();
    bed.amqp_call(who, &Method::QueueDeclare(declare));
    let said = &bed.client(who).said;
    match said.front() {
        Some(ServerMethod::Declared { .. }) => true,
        Some(ServerMethod::ChannelClosed { code: 406, .. }) => false,
        other => panic!("{queue}: {other:?}"),
    }
}

/// Whether STOMP makes a queue of this name with this header, by sending to it.
fn makes(bed: &mut Testbed, queue: &str, name: &str, value: &str) -> bool {
    let who = bed.open_stomp(&ConnectOut::default(), Some(Access::ALL));
    bed.rest();
    let destination = format!("/queue/{queue}");
    let send = SendOut {
        destination: &destination,
        receipt: Some("r"),
        body: b"x",
        ..SendOut::default()
    };
    bed.client(who).heard.clear();
    bed.says(who, |client, up| {
        client.side.send(&send, |w| _ = w.put(name, value), up);
    });
    match bed.client(who).heard.pop_front() {
        Some(ServerFrame::Receipt(_)) => true,
        Some(ServerFrame::Error { message, body, .. }) => {
            assert!(body.contains(name), "{name}:{value}: {message} {body}");
            false
        }
        other => panic!("{name}:{value}: {other:?}"),
    }
}

#[test]
fn terms_of_a_queue_are_the_same_in_stomp_and_amqp() {
    let mut bed = Testbed::new(Settings::default());
    let client = amqp(&mut bed);
    let numbers = [-2, -1, 0, 1, 9, 255, 256, 5_000_000_000, i64::MAX];
    let mut cases: Vec<(&str, String, FieldValue<'_>)> = Vec::new();
    for name in NUMBERS {
        cases.extend(numbers.map(|number| (name, number.to_string(), FieldValue::I64(number))));
    }
    for (name, text) in TEXTS {
        cases.push((name, text.into(), FieldValue::LongStr(text.as_bytes())));
    }
    for truth in [true, false] {
        let name = "x-single-active-consumer";
        cases.push((name, truth.to_string(), FieldValue::Bool(truth)));
    }
    let mut differ = Vec::new();
    for (at, (name, text, value)) in cases.iter().enumerate() {
        let mut buffer = Vec::new();
        let mut table = TableWriter::new(&mut buffer);
        table.value(name, *value);
        let table = table.finish();
        let (of_stomp, of_amqp) = (format!("s{at}"), format!("a{at}"));
        let is_made = makes(&mut bed, &of_stomp, name, text);
        let is_declared = declares(&mut bed, client, &of_amqp, table);
        // A queue made over one protocol is declared over the other.
        let is_same = is_made && declares(&mut bed, client, &of_stomp, table);
        if (is_made, is_same) != (is_declared, is_declared) {
            differ.push(format!(
                "{name}:{text}: STOMP {is_made}, AMQP {is_declared}, same {is_same}"
            ));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

/// A queue with every argument that can be said.
fn every_argument(table: &mut TableWriter<'_>) {
    table
        .i64("x-message-ttl", 3_600_000)
        .i64("x-expires", 7_200_000)
        .i64("x-max-length", 9)
        .i64("x-max-length-bytes", 900)
        .str("x-overflow", "reject-publish-dlx")
        .str("x-dead-letter-exchange", "")
        .str("x-dead-letter-routing-key", "dead")
        .i64("x-max-priority", 5)
        .i64("x-delivery-limit", 3);
}

fn terms(stage: &Stage, name: &str) -> Option<QueueView> {
    let (address, mut found) = (Place::Queue(name).topic(), None);
    let shard = stage.bed.queue_shard();
    stage.bed.shards[shard].kernel.for_each_queue(|view| {
        if *view.address == *address {
            found = Some(view);
        }
    });
    found
}

#[test]
fn each_protocol_that_uses_a_queue_leaves_its_terms_as_they_were_declared() {
    let protocols = Protocol::ALL.into_iter();
    for (protocol, takes_first) in protocols.flat_map(|it| [(it, false), (it, true)]) {
        let what = format!("{protocol:?}, takes first: {takes_first}");
        let mut stage = Stage::new(1);
        let who = operator(&mut stage.bed);
        declare(&mut stage.bed, who, "work", every_argument);
        let before = terms(&stage, "work").expect("it was declared");
        let place = Place::Queue("work");
        let peer = stage.connect(protocol, "user");
        let taker = stage.connect(protocol, "user");
        if takes_first && !matches!(protocol, Protocol::Coap | Protocol::CoapStream) {
            stage.ask(taker, place);
            stage.publish(peer, place, "job");
        } else {
            stage.publish(peer, place, "job");
            stage.bodies(peer);
            stage.ask(taker, place);
        }
        assert_eq!(stage.bodies(taker), ["job"], "{what}");
        let after = terms(&stage, "work").expect("it is there");
        assert_eq!(after.limits, before.limits, "{what}");
        assert_eq!(after.durable, before.durable, "{what}");
        // And the same is declared again.
        declare(&mut stage.bed, who, "work", every_argument);
    }
}

/// Protocols that make a queue by using it have no words for its terms: it is as if AMQP had said none, either.
#[test]
fn a_queue_that_is_made_by_its_use_is_one_without_arguments() {
    for (protocol, by_publishing) in [
        (Protocol::Stomp, true),
        (Protocol::CoapStream, true),
        (Protocol::Zmtp, true),
        (Protocol::Zmtp, false),
    ] {
        let what = format!("{protocol:?}, by publishing: {by_publishing}");
        let mut stage = Stage::with(Settings {
            coap_stream: Arc::new(CoapSettings {
                auto_declare_queues: true,
                ..CoapSettings::default()
            }),
            ..Settings::default()
        });
        let peer = stage.connect(protocol, "user");
        match (protocol, by_publishing) {
            (Protocol::Stomp, _) => assert!(makes(&mut stage.bed, "work", "priority", "0")),
            (_, true) => stage.publish(peer, Place::Queue("work"), "job"),
            (_, false) => stage.ask(peer, Place::Queue("work")),
        }
        let made = terms(&stage, "work").expect(&what);
        assert_eq!(made.limits, QueueLimits::default(), "{what}");
        assert!(!made.auto_delete && made.owner.is_none(), "{what}");
        let who = amqp(&mut stage.bed);
        let declare = |bed: &mut Testbed, durable, arguments: Table<'_>| {
            let declare = queue::Declare {
                queue: "work",
                durable,
                arguments,
                ..Default::default()
            };
            bed.client(who).said.clear();
            bed.amqp_call(who, &Method::QueueDeclare(declare));
            matches!(
                bed.client(who).said.front(),
                Some(ServerMethod::Declared { .. })
            )
        };
        assert!(
            declare(&mut stage.bed, made.durable, Table::default()),
            "{what}"
        );
        assert!(
            !declare(&mut stage.bed, !made.durable, Table::default()),
            "{what}"
        );
        for name in NUMBERS {
            let mut buffer = Vec::new();
            let mut table = TableWriter::new(&mut buffer);
            table.i64(name, 7);
            assert!(
                !declare(&mut stage.bed, made.durable, table.finish()),
                "{what} {name}"
            );
        }
    }
    // Those that name a queue by publishing make none; one that a group takes from has no terms.
    for protocol in [
        Protocol::Mqtt3,
        Protocol::Mqtt5,
        Protocol::Xmpp,
        Protocol::Line,
    ] {
        for by_publishing in [true, false] {
            let mut stage = Stage::new(1);
            let peer = stage.connect(protocol, "user");
            match by_publishing {
                true => stage.publish(peer, Place::Queue("work"), "job"),
                false => stage.ask(peer, Place::Queue("work")),
            }
            let made = terms(&stage, "work");
            assert!(!by_publishing || made.is_none(), "{protocol:?}");
            let limits = made.map(|made| made.limits).unwrap_or_default();
            assert_eq!(limits, QueueLimits::default(), "{protocol:?}");
        }
    }
}
