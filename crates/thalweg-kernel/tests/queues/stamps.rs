//! Stamped publishes: once, whatever session, shard or run of the broker they come by.

use crate::world::{Dice, Taking, Terms, Who, World, draft, firm, q};
use std::collections::BTreeMap;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, Gathered, Limits, OpenSession, Outcome, Subscribed, Verdict};
use thalweg_model::{Reliability, Span, Stamp};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);

fn stamped<'a>(address: &'a str, text: &'a str, publisher: u64, sequence: u64) -> Draft<'a> {
    Draft {
        stamp: Some(Stamp {
            publisher,
            sequence,
        }),
        ..firm(address, text)
    }
}

fn somebody(world: &mut World, shard: usize, expiry: Span) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, expiry)
}

fn subscribe(world: &mut World, who: Who, filter: &str) {
    assert_eq!(
        world.subscribe(who, filter, None, ONCE),
        Subscribed::Granted(ONCE)
    );
}

/// One who has proven to be this user.
fn as_user(world: &mut World, shard: usize, user: &str) -> Who {
    let who = somebody(world, shard, Span::ZERO);
    let name = world.name_on(shard);
    let open = OpenSession {
        user: Some(user.into()),
        ..OpenSession::of_link(&name, who.link, Access::ALL, "none")
    };
    let opened = world.run(shard, |kernel, out, now| {
        kernel.open_session(open, now, out).expect("there is room")
    });
    Who {
        session: opened.session,
        ..who
    }
}

fn repeated(world: &World) -> u64 {
    world
        .kernels
        .iter()
        .map(|kernel| kernel.ledger().repeated_stamps)
        .sum()
}

#[test]
fn a_stamp_is_taken_once_whatever_shard_and_session_it_comes_by() {
    for shards in [1, 2, 5] {
        let mut world = World::with(shards, Limits::default());
        let receivers: Vec<Who> = (0..usize::from(shards))
            .map(|shard| somebody(&mut world, shard, Span::ZERO))
            .collect();
        receivers
            .iter()
            .for_each(|who| subscribe(&mut world, *who, "t"));
        for sequence in 1..=20_u64 {
            let text = sequence.to_string();
            for shard in 0..usize::from(shards) {
                let publisher = somebody(
                    &mut world,
                    (shard + sequence as usize) % usize::from(shards),
                    Span::ZERO,
                );
                assert_eq!(
                    world.publish(publisher, stamped("t", &text, 7, sequence)),
                    Outcome::Accepted
                );
                world.lose(publisher);
            }
        }
        let expected: Vec<String> = (1..=20).map(|sequence: u32| sequence.to_string()).collect();
        for who in receivers {
            assert_eq!(world.texts(who), expected, "{shards} shards");
        }
        assert_eq!(repeated(&world), 20 * (u64::from(shards) - 1));
    }
}

#[test]
fn what_comes_out_of_order_is_new_and_what_is_far_behind_is_a_repetition() {
    let mut world = World::new();
    let (receiver, publisher) = (world.connect("r"), world.connect("p"));
    subscribe(&mut world, receiver, "t");
    for sequence in [5000, 904, 5000, 904, 1, 1, u64::MAX, 5001, u64::MAX] {
        world.publish(publisher, stamped("t", &sequence.to_string(), 1, sequence));
    }
    assert_eq!(
        world.texts(receiver),
        ["5000", "904", "1", &u64::MAX.to_string()]
    );
    let ledger = world.kernels[0].ledger();
    assert_eq!(
        (
            ledger.repeated_stamps,
            ledger.outdated_stamps,
            ledger.repeated
        ),
        (4, 1, 5)
    );
}

#[test]
fn another_user_and_another_publisher_have_stamps_of_their_own() {
    for shards in [1, 3] {
        let mut world = World::with(shards, Limits::default());
        let receiver = somebody(&mut world, 0, Span::ZERO);
        subscribe(&mut world, receiver, "t");
        let last = usize::from(shards) - 1;
        for (user, publisher) in [
            ("alice", 1),
            ("mallory", 1),
            ("alice", 2),
            ("alice", 1),
            ("mallory", 1),
        ] {
            let who = as_user(&mut world, last, user);
            world.publish(
                who,
                stamped("t", &format!("{user} {publisher}"), publisher, 1),
            );
        }
        let nobody = somebody(&mut world, last, Span::ZERO);
        world.publish(nobody, stamped("t", "nobody", 1, 1));
        assert_eq!(
            world.texts(receiver),
            ["alice 1", "mallory 1", "alice 2", "nobody"],
            "{shards}"
        );
    }
}

#[test]
fn what_was_refused_may_come_again() {
    let mut world = World::new();
    let client = world.connect("c");
    let one = Terms::durable().with(|limits| {
        limits.messages_max = Some(1);
        limits.overflow = thalweg_kernel::QueueOverflow::RejectPublish;
    });
    world.queue(client, "q", &one);
    assert_eq!(
        world.publish(client, stamped(&q("q"), "1", 1, 1)),
        Outcome::Accepted
    );
    assert_eq!(
        world.publish(client, stamped(&q("q"), "2", 1, 2)),
        Outcome::Refused
    );
    assert_eq!(
        world.publish(client, stamped(&q("q"), "1", 1, 1)),
        Outcome::Accepted
    );
    assert_eq!(world.drain_texts("q"), ["1"]);
    assert_eq!(
        world.publish(client, stamped(&q("q"), "2", 1, 2)),
        Outcome::Accepted
    );
    assert_eq!(world.drain_texts("q"), ["2"]);
}

#[test]
fn a_transaction_that_is_repeated_publishes_nothing() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for _ in 0..2 {
        world.run(client.shard, |kernel, out, now| {
            assert!(kernel.begin(client.session, 1));
            for sequence in 1..=3 {
                let text = sequence.to_string();
                let gathered = kernel.publish_in(
                    client.session,
                    1,
                    &stamped(&q("q"), &text, 1, sequence),
                    &[],
                    0,
                    now,
                );
                assert_eq!(gathered, Gathered::In);
            }
            let committed = kernel.commit(client.session, 1, now, out);
            assert_eq!(
                committed.map(|committed| committed.outcomes),
                Some(vec![Outcome::Accepted; 3])
            );
        });
    }
    assert_eq!(world.drain_texts("q"), ["1", "2", "3"]);
}

#[test]
fn an_acknowledgement_of_a_repetition_waits_for_what_was_written() {
    let mut world = World::new();
    let receiver = world.connect_with(0, "r", Access::ALL, HOUR);
    subscribe(&mut world, receiver, "t");
    let publisher = world.connect("p");
    world.publish(publisher, stamped("t", "m", 1, 1));
    assert!(world.was_held(publisher));
    let other = world.connect("o");
    world.publish(other, stamped("t", "m", 1, 1));
    assert!(world.was_held(other));
    // An at-most-once message has no acknowledgement to delay.
    world.publish(
        other,
        Draft {
            stamp: Some(Stamp {
                publisher: 1,
                sequence: 1,
            }),
            ..draft("t", "m")
        },
    );
    assert!(!world.was_held(other));
}

#[test]
fn who_wants_none_of_its_own_gets_none_by_way_of_another_shard() {
    for shards in [1, 3] {
        for shard in 0..usize::from(shards) {
            let mut world = World::with(shards, Limits::default());
            let who = somebody(&mut world, shard, Span::ZERO);
            let wish = thalweg_kernel::Wish {
                filter: "t",
                group: None,
                reliability: ONCE,
                no_local: true,
                retain_as_published: false,
                last_values: thalweg_kernel::LastValueWish::Never,
                id: 0,
            };
            world.run(shard, |kernel, out, now| {
                kernel.subscribe(who.session, 1, &[wish], now, out)
            });
            let other = somebody(&mut world, 0, Span::ZERO);
            world.publish(who, stamped("t", "own", 1, 1));
            world.publish(other, stamped("t", "other's", 2, 1));
            assert_eq!(world.texts(who), ["other's"], "shard {shard} of {shards}");
        }
    }
}

#[test]
fn only_so_many_publishers_are_known() {
    let mut world = World::with(
        1,
        Limits {
            publishers_max: 100,
            ..Limits::default()
        },
    );
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.consume(client, "q", 1, Taking::blindly());
    for publisher in 0..3_000 {
        world.publish(client, stamped(&q("q"), "m", publisher, 1));
    }
    assert_eq!(world.kernels[0].totals().publishers, 100);
    world.restart();
    assert!(world.kernels[0].totals().publishers <= 100);
}

/// Publishers that repeat what they have not seen acknowledged, on any shard, through crashes.
#[test]
fn each_message_arrives_once_through_crashes_and_changes_of_shards() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let mut shards = 1 + dice.roll(4) as u16;
        let mut world = World::with(shards, Limits::default());
        let home = world.home();
        let queue_owner = somebody(&mut world, home, Span::ZERO);
        world.queue(queue_owner, "q", &Terms::durable());
        let name = world.name_on(0);
        let receiver = world.connect_with(0, &name, Access::ALL, HOUR);
        subscribe(&mut world, receiver, "a/+");
        world.lose(receiver);
        let mut next = [1_u64; 3];
        for _ in 0..120 {
            let publisher = dice.roll(3);
            let shard = dice.roll(usize::from(shards));
            let who = somebody(&mut world, shard, Span::ZERO);
            let sequence = next[publisher];
            let text = format!("{publisher}:{sequence}");
            let address = if publisher == 2 {
                q("q")
            } else {
                format!("a/{publisher}")
            };
            for _ in 0..1 + dice.roll(3) {
                let outcome =
                    world.publish(who, stamped(&address, &text, publisher as u64, sequence));
                assert_eq!(outcome, Outcome::Accepted, "seed {seed}");
                if dice.roll(8) == 0 {
                    // The broker dies with the acknowledgement on its way; the publisher repeats it afterwards.
                    shards = 1 + dice.roll(4) as u16;
                    world.restart_as(shards);
                    let shard = dice.roll(usize::from(shards));
                    let who = somebody(&mut world, shard, Span::ZERO);
                    let again =
                        world.publish(who, stamped(&address, &text, publisher as u64, sequence));
                    assert_eq!(again, Outcome::Accepted, "seed {seed}");
                    break;
                }
            }
            next[publisher] += 1;
        }
        let mut got: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let shard = usize::from(thalweg_kernel::home(&name, shards).0);
        let receiver = world.connect_with(shard, &name, Access::ALL, HOUR);
        let mut texts = world.texts(receiver);
        texts.extend(world.drain_texts("q"));
        for text in texts {
            let (publisher, sequence) = text.split_once(':').expect("ours");
            got.entry(publisher.to_owned())
                .or_default()
                .push(sequence.parse().expect("a number"));
        }
        for (publisher, next) in next.iter().enumerate() {
            let expected: Vec<u64> = (1..*next).collect();
            assert_eq!(
                got.remove(&publisher.to_string()).unwrap_or_default(),
                expected,
                "seed {seed}, {publisher}"
            );
        }
    }
}

#[test]
fn a_consumer_gets_what_a_stamped_publish_of_several_addresses_brings_once() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "1", &Terms::durable());
    world.queue(client, "2", &Terms::durable());
    for _ in 0..3 {
        let others = [q("2")];
        world.run(client.shard, |kernel, out, now| {
            kernel.publish_to_all(
                client.session,
                stamped(&q("1"), "m", 1, 1),
                &others,
                now,
                out,
            );
        });
    }
    world.consume(client, "1", 1, Taking::default());
    world.consume(client, "2", 2, Taking::default());
    assert_eq!(world.texts(client), ["m", "m"]);
    world.settle(client, 1, 0, true, Verdict::Accept);
    assert_eq!(world.entries_written(), 0);
}
