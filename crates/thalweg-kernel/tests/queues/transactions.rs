//! All or nothing.

use crate::world::{Taking, Terms, Who, World, draft, firm, q};
use thalweg_kernel::{
    Gathered, Kept, Limits, MemoryView, Outcome, Pressure, Settled, Tags, Verdict,
};

fn begin(world: &mut World, who: Who, number: u32) -> bool {
    world.has_transaction = true;
    world.run(who.shard, |kernel, _, _| kernel.begin(who.session, number))
}

fn put(world: &mut World, who: Who, number: u32, queue: &str, text: &str) -> bool {
    gather(world, who, number, queue, text) == Gathered::In
}

fn gather(world: &mut World, who: Who, number: u32, queue: &str, text: &str) -> Gathered {
    world.run(who.shard, |kernel, _, now| {
        kernel.publish_in(who.session, number, &firm(&q(queue), text), &[], 0, now)
    })
}

fn settle(world: &mut World, who: Who, number: u32, tag: u64, verdict: Verdict) -> Settled {
    world.run(who.shard, |kernel, _, _| {
        kernel.settle_in(who.session, number, 1, Tags::One(tag), verdict)
    })
}

fn commit(world: &mut World, who: Who, number: u32) -> Option<Vec<Outcome>> {
    // From here on nothing is held any more.
    world.has_transaction = false;
    world.run(who.shard, |kernel, out, now| {
        let committed = kernel.commit(who.session, number, now, out);
        committed.map(|committed| committed.outcomes)
    })
}

fn abort(world: &mut World, who: Who, number: u32) -> bool {
    world.has_transaction = false;
    world.run(who.shard, |kernel, out, now| {
        kernel.abort(who.session, number, now, out)
    })
}

#[test]
fn publishes_come_with_the_commit_and_in_their_order() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    assert!(begin(&mut world, client, 7));
    assert!(!begin(&mut world, client, 7), "it has begun");
    for text in ["0", "1"] {
        assert!(put(&mut world, client, 7, "q", text));
    }
    assert!(put(&mut world, client, 7, "none", "2"));
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
    world.was_held(client);
    let outcomes = commit(&mut world, client, 7);
    assert_eq!(
        outcomes,
        Some(vec![Outcome::Accepted, Outcome::Accepted, Outcome::NoMatch])
    );
    assert!(world.was_held(client), "the answer waits for the journal");
    assert_eq!(world.entries_written(), 2);
    assert_eq!(world.drain_texts("q"), ["0", "1"]);
    assert_eq!(commit(&mut world, client, 7), None, "it is over");
}

#[test]
fn an_aborted_transaction_was_never_there() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "0");
    world.consume(client, "q", 1, Taking::default());
    begin(&mut world, client, 1);
    put(&mut world, client, 1, "q", "1");
    assert_eq!(
        settle(&mut world, client, 1, 1, Verdict::Accept),
        Settled::Known
    );
    assert_eq!(
        settle(&mut world, client, 1, 1, Verdict::Accept),
        Settled::Unknown,
        "once"
    );
    assert!(abort(&mut world, client, 1));
    assert!(!abort(&mut world, client, 1));
    assert_eq!(world.entries_written(), 1);
    world.got(client);
    // It is unsettled as before.
    world.requeue(client, 1);
    assert_eq!(world.texts(client), ["0"]);
}

#[test]
fn settlements_hold_from_the_commit_on() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..4 {
        world.put(client, "q", &number.to_string());
    }
    world.consume(client, "q", 1, Taking::default());
    world.got(client);
    begin(&mut world, client, 1);
    settle(&mut world, client, 1, 1, Verdict::Accept);
    settle(&mut world, client, 1, 2, Verdict::Reject);
    settle(&mut world, client, 1, 3, Verdict::Requeue);
    assert_eq!(world.entries_written(), 4);
    assert_eq!(commit(&mut world, client, 1), Some(vec![]));
    assert_eq!(world.texts(client), ["2"]);
    assert_eq!(world.entries_written(), 2);
    assert_eq!(
        settle(&mut world, client, 1, 4, Verdict::Accept),
        Settled::Unknown,
        "there is no transaction"
    );
}

#[test]
fn credit_is_free_only_after_the_commit() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.consume(client, "q", 1, Taking::credit(1));
    world.put(client, "q", "0");
    begin(&mut world, client, 1);
    settle(&mut world, client, 1, 1, Verdict::Accept);
    world.put(client, "q", "1");
    assert_eq!(world.texts(client), ["0"]);
    abort(&mut world, client, 1);
    assert_eq!(world.texts(client), [""; 0], "it has one unsettled again");
    begin(&mut world, client, 1);
    settle(&mut world, client, 1, 1, Verdict::Accept);
    commit(&mut world, client, 1);
    assert_eq!(world.texts(client), ["1"]);
}

#[test]
fn a_dying_session_takes_its_transactions_back() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "0");
    world.put(client, "q", "1");
    world.consume(client, "q", 1, Taking::default());
    begin(&mut world, client, 1);
    begin(&mut world, client, 2);
    settle(&mut world, client, 1, 1, Verdict::Accept);
    settle(&mut world, client, 2, 2, Verdict::Reject);
    put(&mut world, client, 1, "q", "never");
    world.has_transaction = false;
    world.lose(client);
    let got = world.drain("q");
    assert_eq!(
        got.iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1), ("1", 1)]
    );
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_line_that_closes_takes_its_settlements_out_of_transactions() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "0");
    world.consume(client, "q", 1, Taking::default());
    begin(&mut world, client, 40);
    settle(&mut world, client, 40, 1, Verdict::Accept);
    put(&mut world, client, 40, "q", "1");
    world.run(client.shard, |kernel, out, now| {
        kernel.close_line(client.session, 1, now, out)
    });
    assert_eq!(world.kernels[0].totals().in_flight, 0);
    assert_eq!(
        commit(&mut world, client, 40),
        Some(vec![Outcome::Accepted]),
        "what it publishes is no line's"
    );
    assert_eq!(world.drain_texts("q"), ["0", "1"]);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_line_that_closes_leaves_a_transaction_alone_that_has_its_number() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.consume(client, "q", 1, Taking::on(5));
    begin(&mut world, client, 5);
    put(&mut world, client, 5, "q", "m");
    world.run(client.shard, |kernel, out, now| {
        kernel.close_line(client.session, 5, now, out)
    });
    assert_eq!(commit(&mut world, client, 5), Some(vec![Outcome::Accepted]));
}

#[test]
fn a_transaction_has_a_bound_and_what_is_beyond_it_is_not_added() {
    let mut world = World::with(
        1,
        Limits {
            transaction_bytes_max: 1000,
            ..Limits::default()
        },
    );
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    begin(&mut world, client, 1);
    let added = (0..100)
        .take_while(|number| put(&mut world, client, 1, "q", &number.to_string()))
        .count();
    assert!((1..100).contains(&added));
    assert_eq!(
        commit(&mut world, client, 1).map(|outcomes| outcomes.len()),
        Some(added)
    );
    assert_eq!(world.waits("q"), added);
    assert!(
        !put(&mut world, client, 2, "q", "m"),
        "there is no such transaction"
    );
}

#[test]
fn the_bound_is_that_of_all_transactions_of_a_session() {
    let mut world = World::with(
        1,
        Limits {
            transaction_bytes_max: 10_000,
            ..Limits::default()
        },
    );
    let (one, other) = (world.connect("c"), world.connect("d"));
    world.queue(one, "q", &Terms::durable());
    let text = "x".repeat(2_000);
    for number in 1..=4 {
        begin(&mut world, one, number);
        assert_eq!(gather(&mut world, one, number, "q", &text), Gathered::In);
    }
    begin(&mut world, one, 5);
    assert_eq!(gather(&mut world, one, 5, "q", &text), Gathered::TooLarge);
    begin(&mut world, other, 1);
    assert_eq!(
        gather(&mut world, other, 1, "q", &text),
        Gathered::In,
        "another session has its own"
    );
    world.run(0, |kernel, out, now| kernel.abort(one.session, 1, now, out));
    assert_eq!(gather(&mut world, one, 5, "q", &text), Gathered::In);
}

#[test]
fn transactions_count_as_memory_and_have_a_quarter_of_it_together() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    let gathered = |world: &World| world.kernels[0].kept_bytes()[Kept::Transactions as usize];
    world.kernels[0].set_memory(MemoryView {
        budget: 40_000,
        ..MemoryView::default()
    });
    let text = "x".repeat(1_000);
    let mut number = 0;
    let refused = loop {
        number += 1;
        begin(&mut world, client, number);
        match gather(&mut world, client, number, "q", &text) {
            Gathered::In => {}
            refused => break refused,
        }
    };
    assert_eq!((refused, number), (Gathered::Short, 9));
    assert!(
        (8_000..=10_000).contains(&gathered(&world)),
        "{}",
        gathered(&world)
    );
    world.run(0, |kernel, _, _| kernel.set_pressure(Pressure::DropWaiting));
    assert_eq!(
        gather(&mut world, client, 1, "q", "m"),
        Gathered::Short,
        "nor any while memory is short"
    );
    for number in 1..=8 {
        assert_eq!(
            commit(&mut world, client, number),
            Some(vec![Outcome::Accepted]),
            "it takes no more than it did"
        );
    }
    assert_eq!(gathered(&world), 0);
    assert_eq!(world.waits("q"), 8);
}

#[test]
fn what_cannot_be_written_down_is_not_committed_at_all() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "0");
    world.consume(client, "q", 1, Taking::default());
    begin(&mut world, client, 1);
    settle(&mut world, client, 1, 1, Verdict::Accept);
    put(&mut world, client, 1, "q", "1");
    world.kernels[0].set_journal_full(true);
    assert_eq!(commit(&mut world, client, 1), Some(vec![Outcome::Full]));
    world.ack(client, 1);
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
}

#[test]
fn what_was_not_meant_to_be_written_down_is_not_in_a_transaction_either() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    begin(&mut world, client, 1);
    world.run(0, |kernel, _, now| {
        kernel.publish_in(client.session, 1, &draft(&q("q"), "m"), &[], 0, now)
    });
    commit(&mut world, client, 1);
    assert_eq!((world.waits("q"), world.entries_written()), (1, 0));
}
