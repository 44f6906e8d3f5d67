//! Several messages of a topic under way, taken in order.

use std::collections::BTreeSet;

use super::*;

/// A body: which message it is, then the same byte.
fn payload(id: u64, bytes: usize) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.resize(bytes.max(8), id as u8);
    payload
}

/// Does as the engine: sends messages in order as long as there is space, and those again that were refused or have an
/// unknown outcome. Message `id` goes to topic `id % topics`. Returns how long it took.
fn publish_all(world: &mut World, count: u64, topics: u64, bytes: impl Fn(u64) -> usize) -> Span {
    let since = world.now;
    let mut waiting: BTreeSet<u64> = (1..=count).collect();
    let mut settled = 0;
    while settled < count {
        while let Some(id) = waiting.first().copied() {
            let (topic, payload) = (format!("bodies/{}", id % topics), payload(id, bytes(id)));
            let sent = Outbound {
                stamp: stamped(id),
                ..message(id, &topic, &payload)
            };
            match world.publish(0, &sent) {
                Ok(_) => drop(waiting.pop_first()),
                Err(Refusal::Window) => break,
                Err(why) => panic!("{why:?}"),
            }
        }
        assert!(
            world.run(Span::from_secs(300), |world| !world.heard[0]
                .told
                .is_empty()),
            "{settled} of {count}: {:?}",
            world.fault
        );
        for told in world.heard[0].take() {
            match told {
                EventCall::Settled(_, Settled::Acknowledged) => settled += 1,
                EventCall::Settled(id, Settled::Unknown | Settled::Refused(Refusal::Busy(_))) => {
                    waiting.insert(id);
                }
                EventCall::Room | EventCall::Pressed => {}
                told => panic!("{told:?}"),
            }
        }
    }
    world.now.since(since)
}

/// Whether the broker has each message once and whole, and those of each topic in order.
fn check(world: &World, count: u64, bytes: impl Fn(u64) -> usize) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (topic, body) in &world.broker.book.published {
        let id = u64::from_be_bytes(body[..8].try_into().expect("eight bytes"));
        assert_eq!(*body, payload(id, bytes(id)), "the body of {id}");
        assert!(ids.insert(id), "{id} twice");
        let before = last.insert(topic, id);
        assert!(before.is_none_or(|before| before < id), "{before:?}, {id}");
    }
    assert!(ids.into_iter().eq(1..=count));
}

/// The bar: MQTT takes 105 ms for it, two round trips and the machine's work.
#[test]
fn two_hundred_bodies_of_ten_topics_take_few_round_trips() {
    let mut world = World::up(31, 0, vec![settings()]);
    world.delay = Span::from_millis(25);
    let took = publish_all(&mut world, 200, 10, |_| 2000);
    check(&world, 200, |_| 2000);
    println!("{} ms", took.nanos() / 1_000_000);
    assert!(took <= Span::from_millis(200), "{took:?}");
    assert_eq!(world.lanes[0].counters().retransmissions, 0);
}

/// The answers of a round trip may come in one batch, before the engine gives the next message. 40 are under way, then 80, then
/// all that are left; each is two blocks.
#[test]
fn answers_that_come_together_open_the_window_as_those_that_come_one_by_one() {
    let mut world = World::up(38, 0, vec![settings()]);
    world.delay = Span::from_millis(25);
    let (mut id, mut rounds) = (1, 0);
    while world.broker.book.published.len() < 200 {
        while id <= 200 {
            let (topic, payload) = (format!("bodies/{}", id % 10), payload(id, 2000));
            match world.publish(0, &message(id, &topic, &payload)) {
                Ok(_) => id += 1,
                Err(Refusal::Window) => break,
                Err(why) => panic!("{why:?}"),
            }
        }
        world.run(Span::from_millis(50), |_| false);
        rounds += 1;
    }
    assert_eq!(rounds, 4);
    check(&world, 200, |_| 2000);
}

#[test]
fn messages_of_a_topic_stay_in_order_whatever_is_lost() {
    let bytes = |id: u64| (id * 977 % 3000) as usize;
    for (seed, lost) in [(32, 10), (33, 100), (34, 250)] {
        let mut world = World::up(seed, lost, vec![settings()]);
        let took = publish_all(&mut world, 1000, 7, bytes);
        check(&world, 1000, bytes);
        let counters = world.lanes[0].counters();
        println!(
            "{lost} of 1,000 lost: {} ms, {counters:?}",
            took.nanos() / 1_000_000
        );
    }
}

/// Refused messages are sent again before later ones.
#[test]
fn a_server_that_is_busy_takes_messages_in_order_afterwards() {
    let mut world = World::up(35, 0, vec![settings()]);
    for id in 1..=8 {
        if id == 3 {
            // Those before it have arrived.
            world.run(Span::from_millis(11), |_| false);
            world.broker.book.verdict = Some((Code::SERVICE_UNAVAILABLE, 0));
        }
        world
            .publish(0, &message(id, "a", &payload(id, 8)))
            .expect("there is room");
        if id == 3 {
            // It has arrived when the next one leaves.
            world.run(Span::from_millis(11), |_| false);
            world.broker.book.verdict = None;
        }
    }
    world.rest();
    let told = world.heard[0].take();
    let put_off: Vec<u64> = told
        .iter()
        .filter_map(|told| match told {
            EventCall::Settled(id, Settled::Refused(Refusal::Busy(_))) => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(put_off, [3, 4, 5, 6, 7, 8], "{told:?}");
    assert_eq!(world.broker.book.published.len(), 2);
}

/// When another lane takes over, those that were refused because the first one is missing must not leave any more.
#[test]
fn what_is_abandoned_lets_nothing_go_that_was_abandoned_before() {
    let mut world = World::up(40, 0, vec![settings()]);
    world.lost = 1000;
    world
        .publish(0, &message(1, "a", &payload(1, 8)))
        .expect("there is room");
    world.lost = 0;
    for id in 2..=8 {
        world
            .publish(0, &message(id, "a", &payload(id, 8)))
            .expect("there is room");
    }
    // The others have been refused, and the first is not repeated yet.
    world.run(Span::from_millis(50), |_| false);
    assert_eq!(world.broker.book.published.len(), 0);
    for id in (1..=8).rev() {
        world.lanes[0].abandon(id);
    }
    world.run(Span::from_secs(200), |_| false);
    assert_eq!(world.broker.book.published.len(), 0);
}

/// To a server that does not say that it keeps their order, one message of a topic goes at a time.
#[test]
fn a_server_that_announces_nothing_is_not_asked_to_keep_an_order() {
    let mut world = World::new(36, 0, vec![settings()]);
    world.broker.book.announces = false;
    world.open();
    assert!(!world.lanes[0].capabilities().publishes_in_order);
    let mut world = World::up(37, 0, vec![settings()]);
    assert!(world.lanes[0].capabilities().publishes_in_order);
    let window = (1..100)
        .take_while(|id| world.publish(0, &message(*id, "a", b"x")).is_ok())
        .count();
    assert_eq!(window, 40, "it begins small");
}
