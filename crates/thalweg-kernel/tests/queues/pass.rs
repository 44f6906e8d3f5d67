//! A message that passes a queue directly must leave the same state as one that was queued. Where books are kept by
//! prefix no message passes, so the same story runs in both worlds.

use crate::world::{Got, Taking, Terms, World, draft, firm, q};
use thalweg_kernel::{Draft, Ledger, Limits, Outcome, QueueLimits};
use thalweg_model::Span;

/// All that can be seen of it.
#[derive(Debug, PartialEq)]
struct Seen {
    got: Vec<Got>,
    outcomes: Vec<Outcome>,
    ledger: Ledger,
    /// Of the queue: what waits, is unsettled, came and went.
    queue: (usize, usize, u64, u64),
    /// State that a restart would restore, and bytes of memory.
    held: (usize, usize),
}

fn story(mut world: World, taking: Taking) -> Seen {
    let client = world.connect("c");
    let limits = QueueLimits {
        message_ttl: Some(Span::from_secs(5)),
        ..QueueLimits::default()
    };
    world.queue(
        client,
        "q",
        &Terms {
            limits,
            ..Terms::durable()
        },
    );
    world.consume(client, "q", 7, taking);
    let address = q("q");
    let mut outcomes = vec![
        world.publish(client, draft(&address, "a")),
        world.publish(client, firm(&address, "b")),
    ];
    for seconds in [2, 9] {
        let expires_in = Some(Span::from_secs(seconds));
        let dear = Draft {
            expires_in,
            priority: 3,
            ..firm(&address, "dear")
        };
        outcomes.push(world.publish(client, dear));
    }
    world.set_bytes_max(client, 4);
    outcomes.push(world.publish(client, firm(&address, "large")));
    world.set_room(client, 1);
    for text in ["c", "d", "e"] {
        outcomes.push(world.publish(client, firm(&address, text)));
    }
    assert_eq!(world.waits("q"), 2);
    world.make_room(client, 9);
    outcomes.push(world.publish(client, firm(&address, "f")));
    let other = world.connect("other");
    world.consume(other, "q", 1, Taking::blindly());
    outcomes.push(world.publish(client, firm(&address, "g")));
    outcomes.push(world.publish(client, firm(&address, "h")));
    let mut got = world.got(client);
    got.extend(world.got(other));
    // A message that is too large is offered twice.
    got.iter_mut().for_each(|got| got.order = 0);
    let view = world.view("q").expect("it is there");
    let queue = (view.messages, view.unsettled, view.came, view.went);
    let held = (
        world.entries_written(),
        world.kernels[0].totals().queued_bytes,
    );
    Seen {
        got,
        outcomes,
        ledger: world.kernels[0].ledger().clone(),
        queue,
        held,
    }
}

fn both_ways(taking: fn() -> Taking) -> Seen {
    let kept = story(World::with(1, Limits::default()), taking());
    let passed = story(World::without_prefixes(1, Limits::default()), taking());
    assert_eq!(kept, passed);
    passed
}

#[test]
fn what_goes_straight_through_to_be_settled_looks_as_if_it_had_waited() {
    let passed = both_ways(Taking::default);
    assert!(
        passed
            .got
            .iter()
            .all(|got| got.settles || got.consumer == 1)
    );
    assert_eq!(passed.queue, (0, 9, 11, 2));
    assert_eq!(passed.held.0, 8, "the first is at most once");
}

#[test]
fn what_goes_straight_through_costs_credit() {
    let mut world = World::without_prefixes(1, Limits::default());
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.consume(client, "q", 7, Taking::credit(2));
    for text in ["1", "2", "3"] {
        world.put(client, "q", text);
    }
    assert_eq!((world.texts(client).len(), world.waits("q")), (2, 1));
}

#[test]
fn what_goes_straight_through_looks_as_if_it_had_been_kept() {
    let taking: fn() -> Taking = || Taking {
        line: 3,
        ..Taking::blindly()
    };
    let passed = both_ways(taking);
    let texts: Vec<_> = passed
        .got
        .iter()
        .map(|got| (got.text.as_str(), got.tag))
        .collect();
    let expected = [
        ("a", 1),
        ("b", 2),
        ("dear", 3),
        ("dear", 4),
        ("c", 5),
        ("d", 6),
        ("e", 7),
        ("f", 8),
        ("g", 9),
        ("h", 1),
    ];
    assert_eq!(texts, expected);
    let lives: Vec<_> = passed
        .got
        .iter()
        .map(|got| got.expires_in.map(Span::secs))
        .collect();
    assert_eq!(&lives[..4], [Some(5), Some(5), Some(2), Some(5)]);
    assert_eq!((passed.queue, passed.held), ((0, 0, 11, 11), (0, 0)));
}

#[test]
fn what_its_own_consumer_does_not_want_does_not_go_straight_through() {
    let taking = || Taking {
        no_local: true,
        ..Taking::blindly()
    };
    let mut world = World::without_prefixes(1, Limits::default());
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.consume(client, "q", 7, taking());
    world.put(client, "q", "mine");
    let other = world.connect("other");
    world.put(other, "q", "yours");
    assert_eq!(world.texts(client), ["yours"]);
    assert_eq!(world.waits("q"), 0);
}
