//! `/q/<name>`: work is put in by some and taken by others, one message at a time.

use crate::world::{Manner, World};
use thalweg_coap::{Block, Type, option};
use thalweg_fronts::coap::CoapSettings;
use thalweg_kernel::LinkId;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Limits, OpenSession, QueueLimits, QueueSpec, SessionId};
use thalweg_model::Span;
use thalweg_mqtt::QoS;

/// Somebody declares a queue, on the shard of queues.
fn declare(world: &mut World, address: &str) {
    let at = world
        .bed
        .shards
        .iter()
        .position(|shard| shard.kernel.has_queues())
        .expect("some shard has the queues");
    let now = world.bed.now;
    let shard = &mut world.bed.shards[at];
    let link = LinkId(9999);
    let open = OpenSession::of_link("operator", link, Access::ALL, "test");
    let session: SessionId = shard
        .kernel
        .open_session(open, now, &mut shard.links)
        .expect("room")
        .session;
    let spec = QueueSpec {
        address,
        durable: false,
        exclusive: false,
        is_named_by_broker: false,
        auto_delete: false,
        limits: QueueLimits::default(),
    };
    shard
        .kernel
        .declare_queue(session, &spec, now, &mut shard.links)
        .expect("a queue");
    shard
        .kernel
        .close_link(session, link, Closing::Clean, None, now, &mut shard.links);
    world.rest();
}

#[test]
fn what_is_posted_is_taken_in_order_by_whoever_asks() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let (one, two, app) = (world.peer(), world.peer(), world.mqtt("app"));
        assert_eq!(
            world.asks(one, "CON POST /q/work : x"),
            "ACK 4.04",
            "there is none"
        );
        assert_eq!(world.asks(one, "CON GET /q/work"), "ACK 4.04");
        declare(&mut world, "$q/work");
        assert_eq!(
            world.asks(one, "CON GET /q/work"),
            "ACK 4.04",
            "it is empty"
        );
        assert_eq!(
            world.asks(one, "CON POST /q/work ct=50 : 1"),
            "ACK 2.04",
            "{shards} shards"
        );
        world.mqtt_says(app, "$q/work", "2", QoS::AtLeastOnce, false);
        assert_eq!(world.asks(two, "NON POST /q/work : 3"), "NON 2.04");
        assert_eq!(taken(&mut world, two), "ct=50 : 1", "{shards} shards");
        assert_eq!(taken(&mut world, one), ": 2");
        assert_eq!(taken(&mut world, two), ": 3");
        assert_eq!(world.asks(one, "CON GET /q/work"), "ACK 4.04");
        world.wait(Span::from_secs(300));
        assert_eq!(
            world.asks(one, "CON GET /q/work"),
            "ACK 4.04",
            "nothing comes back"
        );
        assert_eq!(
            (world.counts().takes, world.counts().takes_returned),
            (3, 0)
        );
        assert_eq!(world.asks(one, "CON DELETE /q/work"), "ACK 4.05");
    }
}

/// Takes one message; what is said of it behind the code.
#[track_caller]
fn taken(world: &mut World, who: crate::world::Who) -> String {
    taken_by(world, who, "")
}

/// The same with a query.
fn taken_by(world: &mut World, who: crate::world::Who, query: &str) -> String {
    world.says(who, &format!("CON GET /q/work{query}"));
    let lines = world.lines(who);
    let line = lines
        .iter()
        .find(|line| line.contains("2.05"))
        .unwrap_or_else(|| panic!("{lines:?}"));
    line.split_once("2.05 ")
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default()
}

#[test]
fn a_filter_takes_the_first_that_passes() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let peer = world.peer();
        declare(&mut world, "$q/work");
        for post in ["h.colour=blue : 1", "h.colour=red : 2", "h.colour=blue : 3"] {
            let post = format!("CON POST /q/work?{post}");
            assert_eq!(world.asks(peer, &post), "ACK 2.04");
        }
        let red = "?filter=colour%20%3D%20'red'";
        assert_eq!(taken_by(&mut world, peer, red), ": 2", "{shards} shards");
        let none = format!("CON GET /q/work{red}");
        assert_eq!(world.asks(peer, &none), "ACK 4.04");
        assert_eq!(
            world.asks(peer, "CON GET /q/work?filter=colour%20%3D"),
            "ACK 4.00"
        );
        assert_eq!(taken(&mut world, peer), ": 1");
        assert_eq!(taken(&mut world, peer), ": 3");
    }
}

#[test]
fn what_is_taken_and_not_acknowledged_goes_back() {
    for manner in [Manner::Silent, Manner::Rejecting] {
        let mut world = World::shards(2);
        let (one, two) = (world.peer(), world.peer());
        declare(&mut world, "$q/work");
        assert_eq!(world.asks(two, "CON POST /q/work : 1"), "ACK 2.04");
        world.set_manner(one, manner);
        world.says(one, "CON GET /q/work");
        let lines = world.lines(one);
        assert_eq!(lines, ["ACK", "CON 2.05 : 1"], "in a response of its own");
        world.wait(Span::from_secs(120));
        assert_eq!(taken(&mut world, two), ": 1", "{manner:?}");
        assert_eq!(
            (world.counts().takes, world.counts().takes_returned),
            (2, 1)
        );
    }
}

#[test]

fn a_large_message_is_taken_in_blocks_and_once() {
    let mut world = World::new();
    let (one, app) = (world.peer(), world.mqtt("app"));
    declare(&mut world, "$q/work");
    let text = "0123456789abcdef".repeat(100);
    world.mqtt_says(app, "$q/work", &text, QoS::AtLeastOnce, false);
    world.mqtt_says(app, "$q/work", "next", QoS::AtLeastOnce, false);
    world.says(one, "CON GET /q/work");
    let heard = world.heard(one);
    let first = heard
        .iter()
        .find(|heard| heard.kind == Type::Confirmable && !heard.payload.is_empty());
    let first = first.unwrap_or_else(|| panic!("{heard:?}"));
    let mut whole = first.payload.clone();
    let mut block =
        Block::decode(first.uint(option::BLOCK2).expect("it goes in blocks")).expect("a block");
    while block.more {
        let next = format!(
            "CON GET /q/work block2={}/{}",
            block.number + 1,
            block.size()
        );
        let heard = world.asks_raw(one, &next);
        whole.extend(&heard.payload);
        block = Block::decode(
            heard
                .uint(option::BLOCK2)
                .unwrap_or_else(|| panic!("{heard:?}")),
        )
        .expect("a block");
    }
    assert!(whole == text.as_bytes(), "{} bytes", whole.len());
    assert_eq!(taken(&mut world, one), ": next");
}

#[test]
fn what_is_taken_in_blocks_and_not_fetched_to_its_end_goes_back_and_is_served_no_more() {
    let limits = Limits {
        take_settle_timeout: Span::from_secs(130),
        ..Limits::default()
    };
    let mut world = World::with(2, limits, CoapSettings::default(), Some(Access::ALL));
    let (one, two, app) = (world.peer(), world.peer(), world.mqtt("app"));
    declare(&mut world, "$q/work");
    let text = "0123456789abcdef".repeat(200);
    world.mqtt_says(app, "$q/work", &text, QoS::AtLeastOnce, false);
    world.says(one, "CON GET /q/work");
    let heard = world.heard(one);
    let first = heard
        .iter()
        .find(|heard| heard.kind == Type::Confirmable && !heard.payload.is_empty());
    let first = first.unwrap_or_else(|| panic!("{heard:?}"));
    let block =
        Block::decode(first.uint(option::BLOCK2).expect("it goes in blocks")).expect("a block");
    let next = |number: u32| format!("CON GET /q/work block2={number}/{}", block.size());
    assert_eq!(world.asks_raw(one, &next(1)).payload.len(), block.size());
    world.wait(Span::from_secs(59));
    assert_eq!(
        world.asks(two, "CON GET /q/work"),
        "ACK 4.04",
        "it is still taken"
    );
    world.wait(Span::from_secs(2));
    assert_eq!(
        (world.counts().takes, world.counts().takes_returned),
        (1, 1)
    );
    let late = world.asks(one, &next(2));
    assert!(late.starts_with("ACK 4.08"), "{late}");
    world.says(two, "CON GET /q/work");
    let heard = world.heard(two);
    assert!(
        heard
            .iter()
            .any(|heard| !heard.payload.is_empty() && text.as_bytes().starts_with(&heard.payload))
    );
    assert_eq!(world.counts().takes, 2, "somebody else has it now");
}

#[test]
fn a_queue_can_be_made_by_the_first_post_if_the_operator_says_so() {
    for shards in [1, 3] {
        let settings = CoapSettings {
            auto_declare_queues: true,
            ..CoapSettings::default()
        };
        let mut world = World::with(shards, Limits::default(), settings, Some(Access::ALL));
        let (one, two) = (world.peer(), world.peer());
        assert_eq!(world.asks(one, "CON GET /q/work"), "ACK 4.04");
        assert_eq!(
            world.asks(one, "CON POST /q/work?expiry=90 ct=0 : 1"),
            "ACK 2.04",
            "{shards} shards"
        );
        assert_eq!(world.asks(two, "CON POST /q/work : 2"), "ACK 2.04");
        world.wait(Span::from_secs(30));
        assert_eq!(
            taken(&mut world, two),
            "ct=0 max-age=59 : 1",
            "what is left of its life"
        );
        assert_eq!(taken(&mut world, one), ": 2");
    }
}
