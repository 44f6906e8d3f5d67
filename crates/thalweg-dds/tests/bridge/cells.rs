//! The row and the column of DDS in docs/interop.md: foreign clients of every protocol against Cyclone DDS, cell by cell.

use crate::peer::{Stage, tried};
use crate::puppet::{Post, Protocol, Puppet, Seen};
use serde_json::{Value, json};
use thalweg_fronts::capabilities::{Aspect, Capabilities, Cell, Rule, expected};
use thalweg_fronts::protocols;

/// Partitions whose levels mean something else to some protocol: a `.`, an empty one, and what looks like an escape. One with a
/// wildcard is a pattern in DDS, or no address.
const TRAPS: [&str; 2] = ["a.b//c", "x%2Fy"];

fn stage(domain: u32) -> Option<Stage> {
    let names = ["amqp", "stomp", "zmtp", "xmpp"];
    let sets = names.iter().flat_map(|it| {
        [
            format!("listeners.{it}.enabled=true"),
            format!("listeners.{it}.bind=127.0.0.1:0"),
        ]
    });
    let more = [
        "dds.json=[\"json/#\", \"ros/#\"]",
        "coap.observe_empty=true",
        "zmtp.last_value=true",
        // A megabyte is a third more in base64.
        "xmpp.stanza_bytes_max=2000000",
        "dds.services=ros/add_two_ints",
    ];
    let sets: Vec<String> = sets.chain(more.map(str::to_owned)).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    Stage::set(domain, &sets)
}

fn record(name: &str) -> &'static Capabilities {
    let mut all = protocols().flat_map(|it| it.carries);
    all.find(|it| it.name == name).expect("it has a record")
}

fn cell_from_dds(to: Protocol, aspect: Aspect) -> Cell {
    expected(record("DDS"), record(to.name()), aspect)
}

fn cell_to_dds(from: Protocol, aspect: Aspect) -> Cell {
    expected(record(from.name()), record("DDS"), aspect)
}

/// A writer of strings below a partition, with its opposite.
fn offer(stage: &mut Stage, partition: &str, topic: &str, more: &[&str]) {
    let partition = format!("partition:{partition}");
    let qos = [&["reliable", &*partition], more].concat();
    stage
        .peer
        .matched(json!({"do": "offer", "topic": topic, "type": "Text", "qos": qos}));
}

fn write(stage: &mut Stage, topic: &str, text: &str) {
    let value = json!({"data": text});
    stage
        .peer
        .does(json!({"do": "write", "topic": topic, "type": "Text", "value": value}));
}

fn json_of(text: &str) -> Vec<u8> {
    json!({"data": text}).to_string().into_bytes()
}

/// What a string is in CDR: little-endian, without padding behind its end.
fn is_cdr_of(payload: &[u8], text: &str) -> bool {
    let length = (text.len() as u32 + 1).to_le_bytes();
    let start = [
        &[0, 1, 0],
        &[payload.get(3).copied().unwrap_or_default()][..],
        &length,
    ]
    .concat();
    payload.starts_with(&start) && payload[8..].starts_with(text.as_bytes())
}

fn open_all(stage: &Stage) -> Vec<Puppet> {
    Protocol::ALL
        .map(|protocol| Puppet::open(stage, protocol))
        .into()
}

/// The next message, which must be a string of Cyclone's.
fn hears(puppet: &mut Puppet, text: &str) -> Seen {
    let seen = puppet.receive();
    let is_it = is_cdr_of(&seen.payload, text) || seen.payload == json_of(text);
    assert!(is_it, "{puppet:?}: {seen:?} instead of {text}");
    seen
}

#[test]
fn clients_of_every_protocol_hear_a_writer_as_the_cells_say() {
    let Some(mut stage) = stage(38) else {
        return;
    };
    let mut puppets = open_all(&stage);
    // Addresses.
    for (at, partition) in TRAPS.into_iter().enumerate() {
        let (topic, address) = (format!("T{at}"), format!("{partition}/T{at}"));
        for puppet in &mut puppets {
            puppet.subscribe(&address);
        }
        offer(&mut stage, partition, &topic, &[]);
        write(&mut stage, &topic, "trap");
        for puppet in &mut puppets {
            let cell = cell_from_dds(puppet.protocol, Aspect::Address);
            assert_eq!(cell, Cell::Rule(Rule::OtherSyntax), "{puppet:?}");
            let seen = hears(puppet, "trap");
            let spelled = puppet.protocol.spelled(&address);
            assert_eq!(seen.address, spelled, "{puppet:?}");
        }
    }
    // One of 300 bytes.
    let partition = format!("{}/{}", "l".repeat(100), "m".repeat(196));
    let address = format!("{partition}/L");
    for puppet in &mut puppets {
        match cell_from_dds(puppet.protocol, Aspect::LongAddress) {
            Cell::Rule(Rule::OtherSyntax) => puppet.subscribe(&address),
            Cell::Rule(Rule::CutKey) => puppet.subscribe(&format!("{}/#", "l".repeat(100))),
            other => panic!("{puppet:?}: {other:?}"),
        }
    }
    offer(&mut stage, &partition, "L", &[]);
    write(&mut stage, "L", "long");
    for puppet in &mut puppets {
        let seen = hears(puppet, "long");
        match cell_from_dds(puppet.protocol, Aspect::LongAddress) {
            Cell::Rule(Rule::CutKey) => {
                assert!(seen.address.len() <= 255, "{seen:?}");
                assert_eq!(seen.whole_address.as_ref(), Some(&address));
            }
            _ => assert_eq!(seen.address, puppet.protocol.spelled(&address)),
        }
    }
    // Wildcards, of one level and of many.
    for puppet in &mut puppets {
        for (filter, partition) in [("wild/one/+", "one"), ("wild/many/#", "many/more")] {
            let address = format!("wild/{partition}/W");
            match cell_from_dds(puppet.protocol, Aspect::Wildcard) {
                Cell::Exact => puppet.subscribe(filter),
                Cell::Unasked => puppet.subscribe(&address),
                other => panic!("{puppet:?}: {other:?}"),
            }
        }
    }
    for (topic, partition) in [("W", "wild/one"), ("V", "wild/many/more")] {
        let partition = format!("partition:{partition}");
        let offer = json!({"do": "offer", "topic": "W", "as": topic, "type": "Text", "qos": ["reliable", partition]});
        stage.peer.matched(offer);
        let value = json!({"data": topic});
        stage.peer.does(
            json!({"do": "write", "topic": "W", "as": topic, "type": "Text", "value": value}),
        );
        for puppet in &mut puppets {
            hears(puppet, topic);
        }
    }
    // Order, and a lifetime, of which the receiver is told what is left.
    for puppet in &mut puppets {
        puppet.subscribe("order/O");
    }
    offer(&mut stage, "order", "O", &["lifespan:30000", "keep-all"]);
    for number in 0..20 {
        write(&mut stage, "O", &number.to_string());
    }
    for puppet in &mut puppets {
        // With `queue=100` an observer of CoAP has them all.
        for number in 0..20 {
            let seen = hears(puppet, &number.to_string());
            let told = seen.expiry.is_some_and(|left| (1..=30_000).contains(&left));
            match cell_from_dds(puppet.protocol, Aspect::Expiry) {
                Cell::Rule(Rule::SecondsLeft | Rule::MillisecondsLeft) => {
                    assert!(told, "{puppet:?}: {seen:?}")
                }
                Cell::Dropped => assert_eq!(seen.expiry, None, "{puppet:?}"),
                other => panic!("{puppet:?}: {other:?}"),
            }
        }
        assert!(puppet.is_idle(), "{puppet:?}");
    }
    // A last value, for those who come later.
    offer(&mut stage, "kept", "K", &["transient-local"]);
    write(&mut stage, "K", "kept");
    let mut witness = Puppet::open(&stage, Protocol::Mqtt5);
    witness.subscribe("kept/K");
    hears(&mut witness, "kept");
    for puppet in &mut puppets {
        let cell = cell_from_dds(puppet.protocol, Aspect::LastValue);
        assert_eq!(cell, Cell::Exact, "{puppet:?}");
        puppet.subscribe("kept/K");
        hears(puppet, "kept");
    }
    // Every byte, nothing, and a megabyte; the library's CDR as it is.
    for puppet in &mut puppets {
        assert_eq!(cell_from_dds(puppet.protocol, Aspect::Payload), Cell::Exact);
        puppet.subscribe("blobs/B");
    }
    let qos = ["reliable", "partition:blobs"];
    stage
        .peer
        .matched(json!({"do": "offer", "topic": "B", "type": "Blob", "qos": qos}));
    for size in [0u32, 256, 1_000_000] {
        stage
            .peer
            .does(json!({"do": "write", "topic": "B", "type": "Blob", "value": {"size": size}}));
        let bytes = (0..size).map(|at| (at * 7 % 256) as u8);
        let length = size.to_le_bytes();
        for puppet in &mut puppets {
            let payload = puppet.receive().payload;
            assert_eq!(payload[..2], [0, 1], "{puppet:?}, {size}");
            assert_eq!(payload[4..8], length, "{puppet:?}, {size}");
            assert!(
                payload[8..].iter().copied().eq(bytes.clone()),
                "{puppet:?}, {size}"
            );
        }
    }
}

/// Publishes until the reader has heard something, so that the bridge's subscription is there.
fn is_fed(stage: &mut Stage, feeder: &mut Puppet, address: &str) {
    tried("a reader hears", || {
        let post = Post {
            payload: &json_of("probe"),
            ..Post::default()
        };
        feeder.publish(address, post);
        stage.peer.hears_soon()
    });
}

/// The next value that a reader hears, probes apart.
fn next_value(stage: &mut Stage) -> Value {
    loop {
        let heard = stage.peer.hears();
        if heard["value"]["data"] != "probe" {
            return heard;
        }
    }
}

#[test]
fn a_reader_hears_clients_of_every_protocol_as_the_cells_say() {
    let Some(mut stage) = stage(39) else {
        return;
    };
    let mut puppets = open_all(&stage);
    let mut feeder = Puppet::open(&stage, Protocol::Mqtt3);
    let long = format!("{}/{}", "l".repeat(100), "m".repeat(191));
    let partitions = TRAPS.map(str::to_owned).into_iter().chain([long]);
    for (at, partition) in partitions.enumerate() {
        let (partition, topic) = (format!("json/{partition}"), format!("T{at}"));
        let address = format!("{partition}/{topic}");
        let qos = ["reliable", "keep-all", &format!("partition:{partition}")];
        stage
            .peer
            .matched(json!({"do": "read", "topic": topic, "type": "Text", "qos": qos}));
        is_fed(&mut stage, &mut feeder, &address);
        for puppet in &mut puppets {
            let is_long = address.len() > 255;
            let aspect = if is_long {
                Aspect::LongAddress
            } else {
                Aspect::Address
            };
            let cell = cell_to_dds(puppet.protocol, aspect);
            if is_long && cell == Cell::Unsaid {
                continue;
            }
            assert_eq!(cell, Cell::Rule(Rule::OtherSyntax), "{puppet:?}");
            // In order; what DDS has no word for is left out, and the message is there.
            for number in 0..5 {
                let text = format!("{puppet:?} {number}");
                let payload = &json_of(&text);
                let says_all = number == 4;
                puppet.publish(
                    &address,
                    Post {
                        payload,
                        says_all,
                        keep: false,
                    },
                );
            }
            for number in 0..5 {
                let text = format!("{puppet:?} {number}");
                let heard = next_value(&mut stage);
                assert_eq!(
                    heard,
                    json!({"topic": topic, "value": {"data": text}}),
                    "{address}"
                );
            }
        }
    }
    // A payload that is not of the type does not arrive; what is kept is there for a reader that comes later.
    for (at, puppet) in puppets.iter_mut().enumerate() {
        let rule = Cell::Rule(Rule::OfType);
        assert_eq!(
            cell_to_dds(puppet.protocol, Aspect::Payload),
            rule,
            "{puppet:?}"
        );
        let (address, topic) = (format!("json/kept/K{at}"), format!("K{at}"));
        let text = format!("kept by {puppet:?}");
        let payload = &json_of(&text);
        match cell_to_dds(puppet.protocol, Aspect::LastValue) {
            Cell::Exact => puppet.publish(
                &address,
                Post {
                    payload,
                    keep: true,
                    says_all: false,
                },
            ),
            Cell::Unsaid => continue,
            other => panic!("{puppet:?}: {other:?}"),
        }
        let qos = ["reliable", "transient-local", "partition:json/kept"];
        stage
            .peer
            .matched(json!({"do": "read", "topic": topic, "type": "Text", "qos": qos}));
        let value = |text: &str| json!({"topic": topic, "value": {"data": text}});
        assert_eq!(next_value(&mut stage), value(&text), "{puppet:?}");
        puppet.publish(
            &address,
            Post {
                payload: b"[5]",
                ..Post::default()
            },
        );
        puppet.publish(
            &address,
            Post {
                payload: &json_of("after"),
                ..Post::default()
            },
        );
        assert_eq!(next_value(&mut stage), value("after"), "{puppet:?}");
    }
}

#[test]
fn services_of_ros_and_clients_of_every_protocol_ask_each_other() {
    let Some(mut stage) = stage(37) else {
        return;
    };
    let asks = |cell: Cell| cell == Cell::Rule(Rule::ReplyAlias);
    stage
        .peer
        .does(json!({"do": "serve", "topic": "sum", "type": "Sum"}));
    let value = json!({"a": 40, "b": 2}).to_string();
    let sum = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON")["sum"].clone();
    let mqtt = stage.mqtt();
    // The service is there before the subscription that feeds it, so it is tried until it comes through.
    let soon = std::time::Duration::from_millis(300);
    tried("a service answers", || {
        let answer = mqtt.request("ros/sum", value.as_bytes(), &Default::default(), soon);
        answer.ok()
    });
    for protocol in Protocol::ALL {
        if asks(cell_to_dds(protocol, Aspect::Reply)) {
            let mut puppet = Puppet::open(&stage, protocol);
            puppet.ask("ros/sum", value.as_bytes());
            let answer = puppet.answered();
            assert_eq!(sum(&answer), 42, "{protocol:?}");
        }
    }
    // And back: a client of ROS asks servers of each protocol that can answer.
    let qos = ["reliable"];
    let reply =
        json!({"do": "read", "topic": "rr/add_two_intsReply", "type": "SumAnswer", "qos": qos});
    stage.peer.does(reply);
    let request =
        json!({"do": "offer", "topic": "rq/add_two_intsRequest", "type": "Sum", "qos": qos});
    stage.peer.matched(request);
    for (number, protocol) in Protocol::ALL.into_iter().enumerate() {
        if asks(cell_from_dds(protocol, Aspect::Reply)) {
            let mut puppet = Puppet::open(&stage, protocol);
            puppet.subscribe("ros/add_two_ints");
            let value = json!({"client": 77, "number": number, "a": 1, "b": number});
            stage.peer.does(json!({"do": "write", "topic": "rq/add_two_intsRequest", "type": "Sum", "value": value}));
            let asked = puppet.receive();
            let sum = number + 1;
            puppet.reply(&asked, json!({"sum": sum}).to_string().as_bytes());
            let heard = stage.peer.hears();
            let answer = json!({"client": 77, "number": number, "sum": sum});
            assert_eq!(heard["value"], answer, "{protocol:?}");
        }
    }
}
