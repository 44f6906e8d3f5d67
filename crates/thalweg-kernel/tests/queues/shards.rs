//! Queues are on one shard; publishers may be on any.

use crate::world::{Taking, Terms, Who, World, firm, q, text};
use thalweg_kernel::access::Access;
use thalweg_kernel::{ExchangeKind, Outcome, Subscribed, Verdict};
use thalweg_model::{Reliability, Span};

/// Three shards, one session on the queues' shard and one on another.
fn apart() -> (World, Who, Who) {
    let mut world = World::in_turns(3);
    let here = world.connect("here");
    let away = connect_away(&mut world, Span::ZERO);
    (world, here, away)
}

/// Somebody at a shard that has no queues.
fn connect_away(world: &mut World, expiry: Span) -> Who {
    let shard = (world.home() + 1) % 3;
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, expiry)
}

#[test]
fn a_publish_elsewhere_comes_into_the_queue_and_is_held_back_until_it_is_written_there() {
    let (mut world, here, away) = apart();
    world.queue(here, "q", &Terms::durable());
    world.consume(here, "q", 1, Taking::default());
    assert_eq!(world.put(away, "q", "0"), Outcome::Accepted);
    assert!(world.was_held(away));
    assert_eq!(world.texts(here), ["0"]);
    assert_eq!(world.entries_written(), 1);
    world.ack(here, 1);
    assert_eq!(world.entries_written(), 0);
    world.delete_queue(here, "q").expect("it may");
    assert_eq!(world.put(away, "q", "1"), Outcome::NoMatch);
}

#[test]
fn a_publish_elsewhere_goes_through_exchanges() {
    let (mut world, here, away) = apart();
    for (name, kind) in [
        ("t", ExchangeKind::Topic),
        ("h", ExchangeKind::Headers),
        ("f", ExchangeKind::Fanout),
    ] {
        world.exchange(here, name, kind);
        world.queue(here, name, &Terms::durable());
    }
    world.bind(here, "t", "t", "a.#.b");
    world
        .bind_with(here, "h", "h", "", &[text("a", "1")])
        .expect("it may");
    world.lead(here, "t", "f", "#", &[]).expect("it may");
    world.bind(here, "f", "f", "");
    world.bind(here, "amq.topic", "t", "x.*");
    world.send(away, "t", "a.x.b", "0");
    world.send(away, "t", "c", "1");
    world.send_with(
        away,
        "h",
        "",
        "2",
        Some(&crate::world::headers(&[("a", "1")])),
    );
    world.publish(away, firm("x/y", "3"));
    assert_eq!(world.drain_texts("t"), ["0", "3"]);
    assert_eq!(world.drain_texts("h"), ["2"]);
    assert_eq!(world.drain_texts("f"), ["0", "1"]);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_subscriber_elsewhere_gets_what_exchanges_lead_to() {
    let (mut world, here, away) = apart();
    world.exchange(here, "e", ExchangeKind::Fanout);
    world.lead(here, "e", "amq.topic", "", &[]).expect("it may");
    world.subscribe(away, "a/b", None, Reliability::AtLeastOnce);
    world.send(here, "amq.topic", "a.b", "0");
    world.send(here, "e", "a.b", "1");
    world.send(away, "e", "a.b", "2");
    assert_eq!(world.texts(away), ["0", "1", "2"]);
}

#[test]
fn members_elsewhere_share_a_queue_with_consumers_here() {
    let (mut world, here, away) = apart();
    world.queue(here, "q", &Terms::durable());
    let granted = world.subscribe(away, &q("q"), Some("q"), Reliability::AtLeastOnce);
    assert_eq!(granted, Subscribed::Granted(Reliability::AtLeastOnce));
    world.consume(here, "q", 1, Taking::default());
    for number in 0..10 {
        world.put(here, "q", &number.to_string());
    }
    let (got, theirs) = (world.got(here), world.got(away));
    assert_eq!((got.len(), theirs.len()), (5, 5));
    for got in theirs {
        world.settle_delivery(away, got.tag);
    }
    world.settle(here, 1, 0, true, Verdict::Accept);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_group_elsewhere_makes_the_queue() {
    let (mut world, here, away) = apart();
    world.subscribe(away, &q("q"), Some("q"), Reliability::AtLeastOnce);
    assert!(world.view("q").is_some());
    world.put(here, "q", "0");
    world.put(away, "q", "1");
    assert_eq!(world.texts(away), ["0", "1"]);
}

#[test]
fn what_a_member_elsewhere_leaves_goes_back_into_the_queue() {
    for expiry in [Span::from_secs(3600), Span::ZERO] {
        let (mut world, here, _) = apart();
        let away = connect_away(&mut world, expiry);
        world.subscribe(away, &q("q"), Some("q"), Reliability::AtLeastOnce);
        for number in 0..3 {
            world.put(here, "q", &number.to_string());
        }
        let tags: Vec<_> = world.got(away).iter().map(|got| got.tag).collect();
        world.settle_delivery(away, tags[1]);
        world.lose(away);
        assert_eq!(world.waits("q"), 2, "{expiry:?}");
        world.consume(here, "q", 1, Taking::default());
        let got = world.got(here);
        let shown: Vec<_> = got
            .iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect();
        assert_eq!(shown, [("0", 1), ("2", 1)], "{expiry:?}");
        world.settle(here, 1, 0, true, Verdict::Accept);
        assert_eq!(world.entries_written(), 0, "{expiry:?}");
    }
}

#[test]
fn what_a_member_elsewhere_has_is_not_lost_with_the_process() {
    for expiry in [Span::from_secs(3600), Span::ZERO] {
        let (mut world, here, _) = apart();
        let away = connect_away(&mut world, expiry);
        world.subscribe(away, &q("q"), Some("q"), Reliability::AtLeastOnce);
        for number in 0..3 {
            world.put(here, "q", &number.to_string());
        }
        assert_eq!(world.got(away).len(), 3);
        world.restart();
        assert_eq!(world.drain_texts("q"), ["0", "1", "2"], "{expiry:?}");
    }
}

#[test]
fn queues_come_back_on_another_number_of_shards() {
    let (mut world, here, away) = apart();
    world.queue(here, "q", &Terms::durable());
    world.bind(here, "amq.topic", "q", "a.*");
    world.put(away, "q", "0");
    for shards in [1, 2, 5] {
        world.restart_as(shards);
        let somewhere = usize::from(shards) - 1;
        let name = world.name_on(somewhere);
        let client = world.connect_with(somewhere, &name, Access::ALL, Span::ZERO);
        assert_eq!(
            world.publish(client, firm("a/b", &shards.to_string())),
            Outcome::Accepted
        );
    }
    assert_eq!(world.drain_texts("q"), ["0", "1", "2", "5"]);
}
