//! Receivers that are full or fill up: no accepted message is lost, and messages without space are refused.

use crate::world::{Taking, Terms, Who, World, firm, q};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, DropReason, Limits, Outcome, Overflow, Published};
use thalweg_model::{Reliability, RetainOp, Span};

/// Capacity of each kind of receiver here.
const ROOM: usize = 20;

fn limited(shards: u16) -> World {
    let limits = Limits {
        queue_messages_max: ROOM,
        group_messages_max: ROOM,
        ..Limits::default()
    };
    World::with(shards, limits)
}

fn publish(world: &mut World, who: Who, text: &str) -> Published {
    let (published, question) = world.run(who.shard, |kernel, out, now| {
        let published = kernel.publish(who.session, firm("t", text), now, out);
        (published, kernel.question())
    });
    Published {
        outcome: world.decided(who, published.outcome, question),
        ..published
    }
}

/// A receiver of `t` that keeps but does not take.
#[derive(Clone, Copy, Debug)]
enum Receiver {
    /// A session that is away.
    Away,
    /// One that is there, with a full output.
    Stuck,
    /// A group of one that is away.
    Group,
}

const RECEIVERS: [Receiver; 3] = [Receiver::Away, Receiver::Stuck, Receiver::Group];

fn add(world: &mut World, receiver: Receiver, name: &str) -> Who {
    let who = world.connect_with(0, name, Access::ALL, Span::from_secs(3_600));
    let group = matches!(receiver, Receiver::Group).then_some("g");
    world.subscribe(who, "t", group, Reliability::AtLeastOnce);
    match receiver {
        Receiver::Stuck => world.set_room(who, 0),
        Receiver::Away | Receiver::Group => world.lose(who),
    }
    who
}

/// Of twice the capacity, the number of accepted messages, and whether every other one is refused.
fn fill(world: &mut World, who: Who) -> (usize, usize) {
    let outcomes: Vec<Outcome> = (0..2 * ROOM)
        .map(|number| publish(world, who, &number.to_string()).outcome)
        .collect();
    let count = |wanted| {
        outcomes
            .iter()
            .filter(|outcome| **outcome == wanted)
            .count()
    };
    (count(Outcome::Accepted), count(Outcome::Refused))
}

#[test]
fn what_the_only_receiver_has_no_room_for_is_refused_and_all_else_is_there() {
    for receiver in RECEIVERS {
        let mut world = limited(1);
        let publisher = world.connect("p");
        add(&mut world, receiver, "r");
        let (accepted, refused) = fill(&mut world, publisher);
        assert_eq!(accepted + refused, 2 * ROOM, "{receiver:?}");
        // One that is there has some in its window, too.
        assert!(
            (ROOM..=ROOM + 1).contains(&accepted),
            "{receiver:?}: {accepted}"
        );
        let kept = world.kernels[0].totals().waiting + world.kernels[0].totals().in_flight;
        assert_eq!(kept, accepted, "{receiver:?}");
    }
}

#[test]
fn what_one_of_several_receivers_keeps_is_accepted_and_counted_for_the_other() {
    for receiver in RECEIVERS {
        let mut world = limited(1);
        let publisher = world.connect("p");
        add(&mut world, receiver, "r");
        let other = world.connect("other");
        world.subscribe(other, "t", None, Reliability::AtLeastOnce);
        assert_eq!(fill(&mut world, publisher), (2 * ROOM, 0), "{receiver:?}");
        assert_eq!(world.texts(other).len(), 2 * ROOM);
        let dropped = world.dropped(DropReason::QueueFull) as usize;
        assert!(
            (ROOM - 1..=ROOM).contains(&dropped),
            "{receiver:?}: {dropped}"
        );
    }
}

#[test]
fn two_full_receivers_are_as_good_as_one_and_a_last_value_keeps_a_message() {
    let mut world = limited(1);
    let publisher = world.connect("p");
    add(&mut world, Receiver::Away, "one");
    add(&mut world, Receiver::Group, "two");
    assert_eq!(fill(&mut world, publisher), (ROOM, ROOM));
    let retained = Draft {
        retain: RetainOp::Set,
        ..firm("t", "value")
    };
    assert_eq!(world.publish(publisher, retained), Outcome::Accepted);
}

#[test]
fn a_queue_that_drops_its_oldest_refuses_nothing() {
    let limits = Limits {
        queue_messages_max: ROOM,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    };
    let mut world = World::with(1, limits);
    let publisher = world.connect("p");
    add(&mut world, Receiver::Away, "r");
    assert_eq!(fill(&mut world, publisher), (2 * ROOM, 0));
}

#[test]
fn what_was_refused_at_exactly_once_is_taken_when_it_comes_again() {
    let mut world = limited(1);
    let publisher = world.connect_with(0, "p", Access::ALL, Span::from_secs(3_600));
    let away = add(&mut world, Receiver::Away, "r");
    for number in 0..ROOM {
        publish(&mut world, publisher, &number.to_string());
    }
    let once = Draft {
        reliability: Reliability::ExactlyOnce,
        ticket: 7,
        ..firm("t", "last")
    };
    let again = || Draft {
        reliability: Reliability::ExactlyOnce,
        ticket: 7,
        ..firm("t", "last")
    };
    assert_eq!(world.publish(publisher, once), Outcome::Refused);
    world.restart();
    let publisher = world.connect_with(0, "p", Access::ALL, Span::from_secs(3_600));
    let back = world.connect_with(0, "r", Access::ALL, Span::from_secs(3_600));
    assert_eq!(world.got(back).len(), ROOM);
    assert_eq!(world.publish(publisher, again()), Outcome::Accepted);
    assert_eq!(world.texts(back), ["last"]);
    let _ = away;
}

#[test]
fn a_publisher_waits_for_a_receiver_that_fills_and_longer_the_fuller_it_is() {
    for shards in [1, 2] {
        let mut world = limited(shards);
        let stuck = add(&mut world, Receiver::Stuck, "r");
        let name = world.name_on(usize::from(shards) - 1);
        let publisher = world.connect_with(usize::from(shards) - 1, &name, Access::ALL, Span::ZERO);
        let mut pauses = Vec::new();
        for number in 0..ROOM {
            let published = publish(&mut world, publisher, &number.to_string());
            assert_eq!(published.outcome, Outcome::Accepted);
            pauses.push(
                published
                    .pause_until
                    .map_or(0, |until| until.since(world.now).nanos() / 1_000_000),
            );
        }
        assert_eq!(
            pauses[..ROOM / 2 - 1],
            [0; ROOM / 2 - 1],
            "up to half nobody waits"
        );
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(
            pauses.contains(&2) && pauses.last() == Some(&128),
            "{pauses:?}"
        );
        // One that takes nothing for so long is waited for no more.
        world.wait(Span::from_secs(11));
        for _ in 0..2 {
            publish(&mut world, publisher, "x");
        }
        let last = publish(&mut world, publisher, "x");
        assert_eq!(last.pause_until, None);
        world.make_room(stuck, usize::MAX);
    }
}

#[test]
fn nobody_waits_for_a_receiver_that_is_away() {
    let mut world = limited(1);
    let publisher = world.connect("p");
    add(&mut world, Receiver::Away, "r");
    assert!((0..2 * ROOM).all(|_| publish(&mut world, publisher, "x").pause_until.is_none()));
}

/// A receiver of `t` on a shard that takes messages one at a time, at its own speed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slow {
    Session,
    Member,
    Consumer,
}

/// Capacity of each kind of receiver where publishers are throttled.
const DEPTH: usize = 400;
/// Messages that a client sends before it reads an answer, and that the broker reads before anything else.
const BURST: usize = 20;

/// Publishers of `t`, each with a burst ready at any moment, and a receiver that takes a message every so often; the queue
/// is filled to `filled` before. Returns how many were published in ten seconds, and how many were dropped or refused.
fn keep_pace(
    shards: u16,
    receiver: Slow,
    every: Span,
    filled: usize,
    publishers: usize,
) -> (usize, u64) {
    let limits = Limits {
        queue_messages_max: DEPTH,
        group_messages_max: DEPTH,
        named_queue_messages_max: DEPTH as u64,
        ..Limits::default()
    };
    let mut world = World::with(shards, limits);
    let home = world.home();
    let elsewhere = (home + usize::from(shards) - 1) % usize::from(shards);
    let connect = |world: &mut World, shard: usize| {
        let name = world.name_on(shard);
        world.connect_with(shard, &name, Access::ALL, Span::ZERO)
    };
    let taker = connect(&mut world, home);
    let address = match receiver {
        Slow::Session => {
            world.subscribe(taker, "t", None, Reliability::AtLeastOnce);
            "t".into()
        }
        Slow::Member => {
            world.subscribe(taker, "t", Some("g"), Reliability::AtLeastOnce);
            "t".into()
        }
        Slow::Consumer => {
            world.queue(taker, "q", &Terms::durable());
            world.consume(taker, "q", 1, Taking::credit(1));
            q("q")
        }
    };
    let publishers: Vec<Who> = (0..publishers)
        .map(|_| connect(&mut world, elsewhere))
        .collect();
    if receiver != Slow::Consumer {
        world.set_room(taker, 0);
    }
    for _ in 0..filled {
        world.publish(publishers[0], firm(&address, "early"));
    }
    let (end, mut next_take) = (world.now + Span::from_secs(10), world.now);
    let mut ready_at = vec![world.now; publishers.len()];
    let mut published = 0;
    // A publisher that is not throttled need not be watched to the end.
    while world.now < end && published < 10_000 {
        if next_take <= world.now {
            next_take = world.now + every;
            if receiver != Slow::Consumer {
                world.make_room(taker, 1);
            }
            for got in world.got(taker) {
                match receiver {
                    Slow::Consumer => world.ack(taker, got.tag),
                    _ => drop(world.settle_delivery(taker, got.tag)),
                }
            }
        }
        for (who, ready) in publishers.iter().zip(&mut ready_at) {
            if *ready > world.now {
                continue;
            }
            // The client's bytes are read at once until it is paused; mail from other shards comes after that.
            world.is_slow = shards > 1;
            for _ in 0..BURST {
                let done = world.run(who.shard, |kernel, out, now| {
                    kernel.publish(who.session, firm(&address, "x"), now, out)
                });
                published += 1;
                if let Some(until) = done.pause_until {
                    *ready = until;
                    break;
                }
            }
            world.is_slow = false;
            world.deliver_mails();
        }
        world.wait(Span::from_millis(1));
    }
    (published, world.dropped(DropReason::QueueFull))
}

#[test]
fn publishers_keep_pace_with_a_slow_receiver_on_whatever_shard_it_is() {
    for shards in [1, 3] {
        for receiver in [Slow::Session, Slow::Member, Slow::Consumer] {
            // 20 and 100 messages a second; an empty queue, and one that is nearly full.
            for (every, takes) in [(Span::from_millis(50), 200), (Span::from_millis(10), 1_000)] {
                for (filled, publishers) in [(0, 1), (DEPTH * 15 / 16, 1), (0, 8)] {
                    let (published, lost) = keep_pace(shards, receiver, every, filled, publishers);
                    let what = format!(
                        "{receiver:?} of {takes} in 10 s, {shards} shards, {filled} before, {publishers} publishers"
                    );
                    println!("{what}: {published} published, {lost} lost");
                    assert_eq!(lost, 0, "{what}");
                    // Accepted messages, and the content of the queue; a queue above its limit gets time to drain.
                    let least = takes / 2 - takes / 10;
                    let most = takes + takes / 5 + DEPTH - filled;
                    assert!((least..=most).contains(&published), "{what}: {published}");
                }
            }
        }
    }
}
