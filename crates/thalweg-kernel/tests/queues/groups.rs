//! Groups take from queues, and consumers of lines are members of groups.

use crate::world::{Taking, Terms, Who, World, draft, firm, q, to_queue};
use thalweg_kernel::access::Access;
use thalweg_kernel::{DropReason, Limits, Outcome, Refusal, Subscribed};
use thalweg_model::{Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;

/// Takes from the queue `q` through a subscription.
fn join(world: &mut World, who: Who) {
    assert_eq!(
        world.subscribe(who, &q("q"), Some("q"), ONCE),
        Subscribed::Granted(ONCE)
    );
}

fn put_many(world: &mut World, who: Who, count: usize) {
    for number in 0..count {
        assert_eq!(world.put(who, "q", &number.to_string()), Outcome::Accepted);
    }
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<usize> {
    let mut numbers: Vec<_> = texts
        .into_iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_group_on_a_queue_that_is_not_there_makes_it() {
    let mut world = World::in_turns(1);
    let member = world.connect("m");
    join(&mut world, member);
    let view = world.view("q").expect("it is there");
    assert!(view.durable && !view.auto_delete);
    world.put(member, "q", "m");
    assert_eq!(world.texts(member), ["m"]);
    // Whoever declares it without anything special finds it.
    assert_eq!(
        world
            .declare(member, "q", &Terms::durable())
            .map(|status| status.existed),
        Ok(true)
    );
}

#[test]
fn subscribers_and_consumers_share_a_queue_without_duplicates_and_in_turns() {
    let mut world = World::in_turns(1);
    let (member, other, consumer) = (world.connect("m"), world.connect("o"), world.connect("c"));
    world.queue(consumer, "q", &Terms::durable());
    world.consume(consumer, "q", 1, Taking::default());
    join(&mut world, member);
    join(&mut world, other);
    put_many(&mut world, consumer, 30);
    let (a, b, c) = (
        world.texts(member),
        world.texts(other),
        world.texts(consumer),
    );
    assert!(
        a.len() >= 5 && b.len() >= 5 && c.len() >= 5,
        "{} {} {}",
        a.len(),
        b.len(),
        c.len()
    );
    assert_eq!(sorted([a, b, c].concat()), (0..30).collect::<Vec<_>>());
}

#[test]
fn what_waited_comes_to_a_member_in_its_order() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    world.queue(client, "q", &Terms::durable());
    put_many(&mut world, client, 5);
    join(&mut world, member);
    let got = world.got(member);
    assert!(
        got.iter()
            .all(|got| got.is_delivery && got.address == q("q"))
    );
    assert_eq!(
        got.iter().map(|got| got.text.as_str()).collect::<Vec<_>>(),
        ["0", "1", "2", "3", "4"]
    );
    assert_eq!((world.waits("q"), world.entries_written()), (0, 5));
    for got in got {
        world.settle_delivery(member, got.tag);
    }
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn what_a_member_leaves_goes_back_into_the_queue() {
    for expiry in [Span::ZERO, Span::from_secs(3600)] {
        let mut world = World::in_turns(1);
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        let member = world.connect_with(0, "m", Access::ALL, expiry);
        join(&mut world, member);
        put_many(&mut world, client, 5);
        let first = world.got(member)[1].tag;
        world.settle_delivery(member, first);
        world.lose(member);
        assert_eq!(world.waits("q"), 4, "{expiry:?}");
        world.consume(client, "q", 1, Taking::default());
        let got = world.got(client);
        let shown: Vec<_> = got
            .iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect();
        assert_eq!(
            shown,
            [("0", 1), ("2", 1), ("3", 1), ("4", 1)],
            "{expiry:?}"
        );
        world.settle(client, 1, 0, true, thalweg_kernel::Verdict::Accept);
        assert_eq!(world.entries_written(), 0, "{expiry:?}");
    }
}

#[test]
fn what_a_member_leaves_goes_to_the_others_at_once() {
    let mut world = World::in_turns(1);
    let (member, consumer) = (world.connect("m"), world.connect("c"));
    join(&mut world, member);
    put_many(&mut world, consumer, 3);
    world.consume(consumer, "q", 1, Taking::default());
    world.lose(member);
    assert_eq!(world.texts(consumer), ["0", "1", "2"]);
}

#[test]
fn a_member_that_comes_back_is_given_messages_again() {
    let mut world = World::in_turns(1);
    let stays = Span::from_secs(3600);
    let member = world.connect_with(0, "m", Access::ALL, stays);
    join(&mut world, member);
    world.lose(member);
    let client = world.connect("c");
    put_many(&mut world, client, 2);
    assert_eq!(world.waits("q"), 2);
    let member = world.connect_with(0, "m", Access::ALL, stays);
    assert_eq!(world.texts(member), ["0", "1"]);
}

#[test]
fn a_queue_deletes_itself_with_the_last_member_too() {
    for by_unsubscribing in [true, false] {
        let mut world = World::in_turns(1);
        let (member, client) = (world.connect("m"), world.connect("c"));
        world.queue(client, "q", &Terms::auto_delete());
        join(&mut world, member);
        assert_eq!(
            world.inspect(client, "q").map(|status| status.consumers),
            Ok(1)
        );
        match by_unsubscribing {
            true => world.unsubscribe(member, &q("q"), Some("q")),
            false => world.lose(member),
        }
        assert!(world.view("q").is_none(), "{by_unsubscribing}");
    }
}

#[test]
fn a_queue_is_idle_from_the_leaving_of_its_last_member_on() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    let idle = Terms::default().with(|limits| limits.idle_expiry = Some(Span::from_secs(10)));
    world.queue(client, "q", &idle);
    join(&mut world, member);
    world.wait(Span::from_secs(100));
    assert!(world.view("q").is_some());
    world.unsubscribe(member, &q("q"), Some("q"));
    world.wait(Span::from_secs(9));
    assert!(world.view("q").is_some());
    world.wait(Span::from_secs(1));
    assert!(world.view("q").is_none());
}

#[test]
fn a_group_takes_from_a_queue_that_was_deleted_and_made_again() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    join(&mut world, member);
    put_many(&mut world, client, 1);
    world.delete_queue(client, "q").expect("it may");
    assert_eq!(world.put(client, "q", "nowhere"), Outcome::NoMatch);
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "1");
    let got = world.got(member);
    assert_eq!(
        got.iter().map(|got| got.text.as_str()).collect::<Vec<_>>(),
        ["0", "1"]
    );
    for got in got {
        world.settle_delivery(member, got.tag);
    }
    assert_eq!(world.entries_written(), 0);
    assert_eq!(world.kernels[0].totals().in_flight, 0);
}

#[test]
fn what_a_member_has_of_a_deleted_queue_is_its_own() {
    for expiry in [Span::ZERO, Span::from_secs(3600)] {
        let mut world = World::in_turns(1);
        let client = world.connect("c");
        let member = world.connect_with(0, "m", Access::ALL, expiry);
        join(&mut world, member);
        put_many(&mut world, client, 2);
        let tags: Vec<_> = world.got(member).iter().map(|got| got.tag).collect();
        world.delete_queue(client, "q").expect("it may");
        world.settle_delivery(member, tags[0]);
        world.lose(member);
        if expiry > Span::ZERO {
            let member = world.connect_with(0, "m", Access::ALL, expiry);
            let got = world.got(member);
            assert_eq!(got.len(), 1);
            world.settle_delivery(member, got[0].tag);
        }
        assert_eq!(world.entries_written(), 0, "{expiry:?}");
        assert_eq!(world.kernels[0].totals().in_flight, 0);
    }
}

#[test]
fn what_comes_back_from_a_member_still_expires_with_its_queue() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(5))),
    );
    join(&mut world, member);
    put_many(&mut world, client, 1);
    world.lose(member);
    assert_eq!(world.waits("q"), 1);
    world.wait(Span::from_secs(5));
    assert_eq!(world.waits("q"), 0);
}

#[test]
fn a_single_active_queue_serves_a_group_when_nobody_else_is_there() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.single_active = true),
    );
    join(&mut world, member);
    put_many(&mut world, client, 1);
    assert_eq!(world.texts(member), ["0"]);
}

#[test]
fn a_member_with_a_full_output_loses_nothing() {
    let mut world = World::in_turns(1);
    let (member, client) = (world.connect("m"), world.connect("c"));
    join(&mut world, member);
    world.set_room(member, 2);
    put_many(&mut world, client, 6);
    assert_eq!(world.texts(member), ["0", "1"]);
    world.consume(client, "q", 1, Taking::credit(1));
    assert_eq!(world.texts(client), ["2"]);
    world.make_room(member, 10);
    assert_eq!(world.texts(member), ["3", "4", "5"]);
}

#[test]
fn a_consumer_of_a_line_is_a_member_of_a_group_like_others() {
    let mut world = World::in_turns(1);
    let (member, consumer, publisher) =
        (world.connect("m"), world.connect("c"), world.connect("p"));
    world.subscribe(member, "a/+", Some("g"), ONCE);
    world
        .consume_from(consumer, "$g/g/a/+", 4, Taking::on(2))
        .expect("it may");
    for number in 0..10 {
        world.publish(publisher, firm("a/b", &number.to_string()));
    }
    let (theirs, ours) = (world.texts(member), world.got(consumer));
    assert_eq!((theirs.len(), ours.len()), (5, 5));
    assert!(
        ours.iter().all(
            |got| (got.line, got.consumer, got.settles) == (2, 4, true) && got.address == "a/b"
        )
    );
    assert_eq!(
        ours.iter().map(|got| got.tag).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    let all = theirs
        .into_iter()
        .chain(ours.into_iter().map(|got| got.text));
    assert_eq!(sorted(all), (0..10).collect::<Vec<_>>());
    world.settle(consumer, 2, 0, true, thalweg_kernel::Verdict::Accept);
    assert_eq!(world.kernels[0].totals().in_flight, 5);
}

#[test]
fn a_member_of_a_line_gives_back_what_it_has_when_it_dies() {
    let mut world = World::in_turns(1);
    let (member, consumer, publisher) =
        (world.connect("m"), world.connect("c"), world.connect("p"));
    world
        .consume_from(consumer, "$g/g/a", 1, Taking::credit(3))
        .expect("it may");
    for number in 0..5 {
        world.publish(publisher, firm("a", &number.to_string()));
    }
    assert_eq!(world.texts(consumer), ["0", "1", "2"]);
    world.ack(consumer, 2);
    assert_eq!(world.texts(consumer), ["3"]);
    world.subscribe(member, "a", Some("g"), ONCE);
    assert_eq!(world.texts(member), ["4"]);
    world.lose(consumer);
    let got = world.got(member);
    let shown: Vec<_> = got
        .iter()
        .map(|got| (got.text.as_str(), got.deliveries))
        .collect();
    assert_eq!(shown, [("0", 1), ("2", 1), ("3", 1)]);
}

#[test]
fn what_a_group_of_lines_requeues_comes_again_and_what_it_rejects_does_not() {
    let mut world = World::in_turns(1);
    let (consumer, publisher) = (world.connect("c"), world.connect("p"));
    world
        .consume_from(consumer, "$g/g/a", 1, Taking::default())
        .expect("it may");
    world.publish(publisher, firm("a", "0"));
    world.publish(publisher, firm("a", "1"));
    world.got(consumer);
    world.requeue(consumer, 1);
    world.reject(consumer, 2);
    let got = world.got(consumer);
    assert_eq!(
        got.iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1)]
    );
    assert!(world.cancel(consumer, 1, 1));
    world.ack(consumer, 3);
    assert_eq!(
        world.publish(publisher, firm("a", "2")),
        Outcome::NoMatch,
        "the group ended with its last member"
    );
}

#[test]
fn what_a_line_has_of_a_group_that_ended_does_not_come_to_another() {
    let mut world = World::in_turns(1);
    let (consumer, publisher, other) = (world.connect("c"), world.connect("p"), world.connect("o"));
    world
        .consume_from(consumer, "$g/g/a", 1, Taking::default())
        .expect("it may");
    world.publish(publisher, firm("a", "secret"));
    assert!(world.cancel(consumer, 1, 1));
    // In the place of the group that ended is another now.
    world
        .consume_from(other, "$g/h/b", 1, Taking::default())
        .expect("it may");
    world.requeue(consumer, 1);
    assert_eq!(world.texts(other), [""; 0]);
    assert_eq!(world.dropped(DropReason::GroupEnded), 1);
}

#[test]
fn a_group_of_lines_and_of_a_session_that_stays_keeps_messages_over_a_restart() {
    let mut world = World::in_turns(1);
    let stays = Span::from_secs(3600);
    let member = world.connect_with(0, "m", Access::ALL, stays);
    world.subscribe(member, "a", Some("g"), ONCE);
    world.lose(member);
    let (consumer, publisher) = (world.connect("c"), world.connect("p"));
    world
        .consume_from(consumer, "$g/g/a", 1, Taking::credit(2))
        .expect("it may");
    for number in 0..4 {
        world.publish(publisher, firm("a", &number.to_string()));
    }
    assert_eq!(world.texts(consumer), ["0", "1"]);
    world.ack(consumer, 1);
    assert_eq!(world.texts(consumer), ["2"]);
    world.restart();
    let member = world.connect_with(0, "m", Access::ALL, stays);
    assert_eq!(sorted(world.texts(member)), [1, 2, 3]);
}

#[test]
fn a_name_of_a_group_must_make_sense() {
    let mut world = World::with(
        1,
        Limits {
            groups_enabled: false,
            ..Limits::default()
        },
    );
    let client = world.connect("c");
    for source in ["$g/", "$g/a", "$g//a", "$g/g/a+"] {
        let refused = world.consume_from(client, source, 1, Taking::default());
        assert!(
            matches!(refused, Err(Refusal::Invalid(_))),
            "{source}: {refused:?}"
        );
    }
    assert_eq!(
        world.consume_from(client, "$g/g/a", 1, Taking::default()),
        Err(Refusal::Denied),
        "they are switched off"
    );
}

#[test]
fn a_group_on_a_queue_named_as_a_source_is_the_queue() {
    let mut world = World::in_turns(1);
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world
        .consume_from(client, "$g/q/$q/q", 1, Taking::default())
        .expect("it may");
    world.publish(client, draft(&q("q"), "m"));
    assert_eq!(world.texts(client), ["m"]);
    assert_eq!(world.view("q").map(|view| view.consumers), Some(1));
}

#[test]
fn what_members_keep_losing_is_given_up_at_the_limit() {
    for shards in [1, 2] {
        let mut world = World::in_turns(shards);
        let client = world.connect("c");
        let terms = Terms::durable().with(|limits| {
            limits.deliveries_max = Some(2);
            limits.dead_letter = to_queue("dead");
        });
        world.queue(client, "q", &terms);
        world.queue(client, "dead", &Terms::durable());
        world.put(client, "q", "poison");
        let away = (0..usize::from(shards))
            .find(|shard| *shard != world.home())
            .unwrap_or(0);
        for deliveries in 1..=3 {
            let name = world.name_on(away);
            let member = world.connect_with(away, &name, Access::ALL, Span::ZERO);
            join(&mut world, member);
            assert_eq!(world.texts(member), ["poison"], "{deliveries} of {shards}");
            world.lose(member);
        }
        assert_eq!(
            (world.waits("q"), world.drain_texts("dead")),
            (0, vec!["poison".to_owned()]),
            "{shards}"
        );
        assert_eq!(world.dropped(DropReason::DeliveryLimit), 1);
    }
}
