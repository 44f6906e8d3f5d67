//! Receivers that are full or fill: nothing that was accepted is lost, and what nobody has room for is refused.

use crate::world::{Who, World, firm};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, DropReason, Limits, Outcome, Overflow, Published};
use thalweg_model::{Reliability, RetainOp, Span};

/// How many messages each kind of receiver may hold here.
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
    world.run(who.shard, |kernel, out, now| {
        kernel.publish(who.session, firm("t", text), now, out)
    })
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

/// How many of twice the room are accepted, and whether every other one is refused.
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
