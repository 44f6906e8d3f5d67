//! Settlements by consumers, and their effects.

use crate::world::{Taking, Terms, Who, World};
use thalweg_kernel::{DropReason, Settled, Tags, Verdict};

/// A durable queue with a consumer that has messages `0` to `count - 1`.
fn with_unsettled(count: usize) -> (World, Who) {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..count {
        world.put(client, "q", &number.to_string());
    }
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(world.got(client).len(), count);
    (world, client)
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn one_message_is_settled_alone() {
    let (mut world, client) = with_unsettled(3);
    assert_eq!(
        world.settle(client, 1, 2, false, Verdict::Accept),
        Settled::Known
    );
    assert_eq!(world.kernels[0].totals().in_flight, 2);
    assert_eq!(world.entries_written(), 2);
    world.lose(client);
    assert_eq!(world.drain_texts("q"), ["0", "2"]);
}

#[test]
fn many_are_settled_up_to_one() {
    let (mut world, client) = with_unsettled(5);
    world.ack(client, 2);
    assert_eq!(
        world.settle(client, 1, 4, true, Verdict::Accept),
        Settled::Known
    );
    world.lose(client);
    assert_eq!(world.drain_texts("q"), ["4"]);
}

#[test]
fn many_up_to_zero_are_all() {
    let (mut world, client) = with_unsettled(5);
    assert_eq!(
        world.settle(client, 1, 0, true, Verdict::Accept),
        Settled::Known
    );
    assert_eq!(world.entries_written(), 0);
    assert_eq!(
        world.settle(client, 1, 0, true, Verdict::Accept),
        Settled::Known,
        "also if there are none"
    );
    assert_eq!(
        world.settle(client, 9, 0, true, Verdict::Accept),
        Settled::Known,
        "on a line that has had none"
    );
    world.lose(client);
    assert_eq!(world.waits("q"), 0);
}

#[test]
fn what_is_unknown_is_said_to_be_so_and_changes_nothing() {
    let (mut world, client) = with_unsettled(3);
    for (line, tag, multiple) in [
        (1, 0, false),
        (1, 4, false),
        (1, 4, true),
        (2, 1, false),
        (2, 1, true),
    ] {
        assert_eq!(
            world.settle(client, line, tag, multiple, Verdict::Accept),
            Settled::Unknown,
            "{line} {tag}"
        );
    }
    world.ack(client, 1);
    assert_eq!(
        world.settle(client, 1, 1, false, Verdict::Accept),
        Settled::Unknown,
        "it is settled"
    );
    assert_eq!(
        world.settle(client, 1, 1, true, Verdict::Reject),
        Settled::Unknown,
        "it is settled"
    );
    assert_eq!(world.kernels[0].totals().in_flight, 2);
}

#[test]
fn what_is_requeued_takes_its_old_place_and_is_flagged() {
    let (mut world, client) = with_unsettled(4);
    assert!(world.cancel(client, 1, 1));
    world.put(client, "q", "4");
    world.requeue(client, 3);
    world.requeue(client, 1);
    let got = world.drain("q");
    let shown: Vec<_> = got
        .iter()
        .map(|got| (got.text.as_str(), got.deliveries))
        .collect();
    assert_eq!(shown, [("0", 1), ("2", 1), ("4", 0)]);
    world.lose(client);
    assert_eq!(world.drain_texts("q"), ["1", "3"]);
}

#[test]
fn what_is_requeued_comes_again_with_a_new_tag_and_a_count() {
    let (mut world, client) = with_unsettled(1);
    for round in 1..=3 {
        world.requeue(client, u64::from(round));
        let got = world.got(client);
        assert_eq!(
            (got.len(), got[0].tag, got[0].deliveries),
            (1, u64::from(round) + 1, round)
        );
    }
    assert_eq!(world.kernels[0].ledger().redelivered, 3);
    assert_eq!(world.entries_written(), 1);
}

#[test]
fn many_that_are_requeued_come_again_in_their_order() {
    let (mut world, client) = with_unsettled(10);
    world.ack(client, 4);
    world.settle(client, 1, 8, true, Verdict::Requeue);
    assert_eq!(world.texts(client), ["0", "1", "2", "4", "5", "6", "7"]);
}

#[test]
fn what_a_line_recovers_comes_again() {
    let (mut world, client) = with_unsettled(3);
    world.run(client.shard, |kernel, out, now| {
        kernel.settle_line(client.session, 1, Tags::All, Verdict::Requeue, now, out)
    });
    let got = world.got(client);
    assert!(
        got.iter().all(|got| got.deliveries == 1 && got.tag > 3),
        "{got:?}"
    );
    assert_eq!(
        got.into_iter().map(|got| got.text).collect::<Vec<_>>(),
        numbers(3)
    );
}

#[test]
fn a_thousand_unsettled_come_back_in_order_and_flagged_when_their_consumer_dies() {
    let (mut world, client) = with_unsettled(1_500);
    for tag in (1..=1_000).step_by(2) {
        world.ack(client, tag);
    }
    world.lose(client);
    let expected: Vec<_> = (0..1_500)
        .filter(|number| *number >= 1_000 || number % 2 == 1)
        .collect();
    let got = world.drain("q");
    assert_eq!(got.len(), 1_000);
    assert!(got.iter().all(|got| got.deliveries == 1));
    assert_eq!(
        got.iter()
            .map(|got| got.text.parse().expect("a number"))
            .collect::<Vec<usize>>(),
        expected
    );
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn what_the_dead_leave_goes_to_the_others_before_what_waits() {
    let mut world = World::new();
    let (dead, other) = (world.connect("dead"), world.connect("other"));
    world.queue(dead, "q", &Terms::durable());
    world.consume(dead, "q", 1, Taking::credit(3));
    for number in 0..6 {
        world.put(dead, "q", &number.to_string());
    }
    world.consume(other, "q", 1, Taking::credit(1));
    assert_eq!(world.texts(other), ["3"]);
    world.lose(dead);
    assert_eq!(world.texts(other), [""; 0]);
    let mut order = Vec::new();
    for tag in 1..=5 {
        world.ack(other, tag);
        order.extend(world.texts(other));
    }
    assert_eq!(order, ["0", "1", "2", "4", "5"]);
}

#[test]
fn a_closed_line_gives_back_what_it_has_and_the_others_keep_theirs() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.consume(
        client,
        "q",
        1,
        Taking {
            line: 1,
            ..Taking::credit(2)
        },
    );
    world.consume(
        client,
        "q",
        2,
        Taking {
            line: 2,
            ..Taking::credit(2)
        },
    );
    for number in 0..6 {
        world.put(client, "q", &number.to_string());
    }
    let lines: Vec<_> = world
        .got(client)
        .iter()
        .map(|got| (got.text.clone(), got.line))
        .collect();
    assert_eq!(
        lines.iter().map(|(_, line)| *line).collect::<Vec<_>>(),
        [1, 2, 1, 2]
    );
    world.run(client.shard, |kernel, out, now| {
        kernel.close_line(client.session, 1, now, out)
    });
    assert_eq!(
        world.texts(client),
        [""; 0],
        "line 2 has no credit, line 1 is closed"
    );
    assert_eq!(world.waits("q"), 4);
    world.settle(client, 2, 0, true, Verdict::Accept);
    let got = world.got(client);
    let shown: Vec<_> = got
        .iter()
        .map(|got| (got.text.as_str(), got.line, got.deliveries))
        .collect();
    assert_eq!(shown, [("0", 2, 1), ("2", 2, 1)]);
    assert_eq!(
        world.settle(client, 1, 1, false, Verdict::Accept),
        Settled::Unknown
    );
    // The number may be used again, and its tags begin anew.
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(
        world
            .got(client)
            .iter()
            .map(|got| got.tag)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn a_message_that_always_comes_back_is_given_up() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    let terms = Terms::durable().with(|limits| {
        limits.deliveries_max = Some(2);
        limits.dead_letter = crate::world::to_queue("dead");
    });
    world.queue(client, "q", &terms);
    world.put(client, "q", "poison");
    world.consume(client, "q", 1, Taking::default());
    for tag in 1..=3 {
        assert_eq!(world.texts(client), ["poison"], "delivery {tag}");
        world.requeue(client, tag);
    }
    assert_eq!(world.texts(client), [""; 0]);
    assert_eq!(world.dropped(DropReason::DeliveryLimit), 1);
    let got = world.drain("dead");
    assert_eq!(
        got[0].deaths[0].reason,
        thalweg_model::DeathReason::DeliveryLimit
    );
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn what_is_settled_after_its_queue_is_gone_is_booked() {
    let (mut world, client) = with_unsettled(3);
    world.put(client, "q", "3");
    world.delete_queue(client, "q").expect("it may");
    assert_eq!(world.ended(client), [(1, 1)]);
    world.ack(client, 1);
    world.requeue(client, 2);
    world.reject(client, 3);
    assert_eq!(world.dropped(DropReason::QueueEnded), 1);
    // A new queue of that name, in the same place, has nothing to do with it.
    world.queue(client, "q", &Terms::durable());
    world.requeue(client, 4);
    assert_eq!(world.waits("q"), 0);
    assert_eq!(world.entries_written(), 0);
    assert_eq!(world.kernels[0].totals().in_flight, 0);
}
