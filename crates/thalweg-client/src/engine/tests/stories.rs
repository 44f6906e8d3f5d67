//! Guarantees to users, one test each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use thalweg_model::{Reliability, Span, Time};

use super::transport::LaneTraits;
use super::world::{Chaos, World, settings};
use crate::engine::{EngineSettings, LaneState, Overflow, Success, WhenRefused};
use crate::spool::{Recovered, Spool, SpoolError};
use crate::transport::{MessageId, Opening, RequestId};

pub(super) const AT_MOST: Reliability = Reliability::AtMostOnce;
pub(super) const AT_LEAST: Reliability = Reliability::AtLeastOnce;
pub(super) const EXACTLY: Reliability = Reliability::ExactlyOnce;
pub(super) const MINUTE: Span = Span::from_secs(60);

/// No lane can be connected.
pub(super) const OFFLINE: Chaos = Chaos {
    unreachable: 100,
    ..Chaos::NONE
};

pub(super) fn offline(kinds: &[LaneTraits], settings: EngineSettings) -> World {
    let mut world = World::new(1, kinds, settings);
    // The first connection is on its way already.
    world.chaos = OFFLINE;
    world.run(Span::from_secs(1));
    world.cut(0);
    world.run(Span::from_secs(1));
    world
}

fn numbers(world: &World) -> Vec<u64> {
    world
        .taken()
        .iter()
        .map(|payload| payload.parse().expect("a number"))
        .collect()
}

#[test]
fn what_waits_for_the_network_goes_by_priority_and_expires() {
    let mut world = offline(&[LaneTraits::STREAM], settings());
    let soon = world.now + Span::from_secs(5);
    for priority in [4, 0, 9, 4] {
        world.publish("t", AT_LEAST, |draft| draft.priority = priority);
    }
    let late = world
        .publish("t", AT_LEAST, |draft| draft.expires = soon)
        .expect("there is room");
    world.run(Span::from_secs(10));
    assert_eq!(world.outcome(late), Success::Failed);
    assert_eq!(world.engine.counts().expired, 1);
    world.heal();
    assert!(world.settle(MINUTE));
    assert_eq!(numbers(&world), [3, 1, 4, 2]);
    assert_eq!(world.engine.counts().acknowledged, 4);
}

#[test]
fn a_full_buffer_refuses_and_says_when_there_is_room() {
    let mut world = offline(
        &[LaneTraits::STREAM],
        EngineSettings {
            messages_max: 10,
            ..settings()
        },
    );
    for _ in 0..10 {
        assert!(world.publish("t", AT_LEAST, |_| ()).is_some());
    }
    assert!(world.publish("t", AT_LEAST, |_| ()).is_none());
    world.heal();
    assert!(world.settle(MINUTE));
    assert_eq!(
        world
            .notices
            .iter()
            .filter(|notice| *notice == "Room")
            .count(),
        1
    );
    assert!(world.publish("t", AT_LEAST, |_| ()).is_some());
}

#[test]
fn a_full_buffer_may_drop_the_oldest_of_the_least_priority() {
    let settings = EngineSettings {
        messages_max: 3,
        overflow: Overflow::DropOldest,
        ..settings()
    };
    let mut world = offline(&[LaneTraits::STREAM], settings);
    for priority in [9, 1, 4] {
        world.publish("t", AT_LEAST, |draft| draft.priority = priority);
    }
    assert!(
        world
            .publish("t", AT_LEAST, |draft| draft.priority = 0)
            .is_none(),
        "it is the least itself"
    );
    world
        .publish("t", AT_LEAST, |draft| draft.priority = 4)
        .expect("2 makes room");
    world
        .publish("t", AT_LEAST, |draft| draft.priority = 4)
        .expect("3 makes room");
    assert_eq!([2, 3].map(|id| world.outcome(id)), [Success::Failed; 2]);
    assert_eq!(world.engine.counts().dropped, 2);
    world.heal();
    assert!(world.settle(MINUTE));
    assert_eq!(numbers(&world), [1, 4, 5]);
}

#[test]
fn bytes_are_bounded_too() {
    let mut world = offline(
        &[LaneTraits::STREAM],
        EngineSettings {
            bytes_max: 10_000,
            ..settings()
        },
    );
    let address = "t/".repeat(500);
    while world.publish(&address, AT_LEAST, |_| ()).is_some() {}
    let load = world.engine.load();
    assert!(load.messages >= 7 && load.bytes <= 10_000, "{load:?}");
}

#[test]
fn a_switch_is_made_before_the_old_lane_ends_and_repeats_nothing_that_arrives_in_time() {
    let mut world = World::new(
        3,
        &[
            LaneTraits::STREAM,
            LaneTraits {
                name: "other",
                ..LaneTraits::STREAM
            },
        ],
        settings(),
    );
    world.run(Span::from_secs(1));
    for _ in 0..30 {
        world.publish("t/a", AT_LEAST, |_| ());
    }
    world.prefer(1);
    for _ in 0..30 {
        world.publish("t/a", EXACTLY, |_| ());
        world.publish("t/b", AT_MOST, |_| ());
        world.run(Span::from_millis(10));
    }
    assert!(world.settle(MINUTE));
    world.run(Span::from_secs(1));
    let counts = world.engine.counts();
    assert_eq!(
        (counts.switches, counts.repeated, world.broker.repetitions),
        (1, 0, 0)
    );
    assert_eq!(world.broker.log.len(), 90);
    let of = |address: &str| -> Vec<u64> {
        let there = world
            .broker
            .log
            .iter()
            .filter(|taken| taken.address == address);
        there
            .map(|taken| taken.payload.parse().expect("a number"))
            .collect()
    };
    assert!(of("t/a").is_sorted() && of("t/b").is_sorted());
    assert!(world.broker.log.iter().any(|taken| taken.lane == 1));
    assert!(world.is_open(0), "it stands by");
    world.run(Span::from_secs(70));
    assert!(!world.is_open(0) && world.is_open(1));
    assert_eq!(
        world.engine.lane_status(0).map(|lane| lane.state),
        Some(LaneState::Idle)
    );
}

#[test]
fn a_lost_lane_is_replaced_by_one_that_works() {
    let mut world = World::new(
        4,
        &[
            LaneTraits::STREAM,
            LaneTraits {
                name: "other",
                ..LaneTraits::STREAM
            },
        ],
        settings(),
    );
    world.run(Span::from_secs(1));
    world.chaos = Chaos {
        unreachable: 50,
        ..Chaos::NONE
    };
    for _ in 0..20 {
        world.publish("t", EXACTLY, |_| ());
        world.cut(0);
        world.cut(1);
        world.run(Span::from_secs(1));
    }
    assert!(world.settle(MINUTE));
    assert_eq!(numbers(&world), (1..=20).collect::<Vec<_>>());
}

#[test]
fn what_waits_long_does_not_fall_behind_the_brokers_window() {
    let wide = LaneTraits {
        window: 200,
        ..LaneTraits::STREAM
    };
    let mut world = offline(&[wide, wide], settings());
    let low = world
        .publish("t/low", AT_LEAST, |draft| draft.priority = 0)
        .expect("there is room");
    for _ in 0..2_500 {
        world.publish("t/high", AT_LEAST, |draft| draft.priority = 9);
    }
    world.heal();
    assert!(world.settle(MINUTE));
    let at = numbers(&world)
        .iter()
        .position(|id| *id == low)
        .expect("it came");
    assert!((900..=1_001).contains(&at), "it came as number {at}");
}

#[test]
fn exactly_once_is_unknown_when_the_peer_has_forgotten_and_once_when_it_has_not() {
    for amnesia in [0, 100] {
        let session = Opening {
            session: MINUTE,
            ..settings().opening
        };
        let plain = LaneTraits {
            stamps: false,
            ..LaneTraits::STREAM
        };
        let mut world = World::new(
            5,
            &[plain],
            EngineSettings {
                opening: session,
                ..settings()
            },
        );
        world.run(Span::from_secs(1));
        world.chaos = Chaos {
            amnesia,
            delay: 500,
            ..Chaos::NONE
        };
        for _ in 0..5 {
            world.publish("t", EXACTLY, |_| ());
        }
        world.run(Span::from_millis(600));
        world.cut(0);
        assert!(world.settle(MINUTE));
        let counts = world.engine.counts();
        assert_eq!(numbers(&world), [1, 2, 3, 4, 5], "amnesia {amnesia}");
        if amnesia > 0 {
            assert!(counts.unknown > 0 && counts.repeated == 0, "{counts:?}");
        } else {
            assert_eq!(counts.acknowledged, 5);
        }
    }
}

#[test]
fn a_peer_that_is_busy_is_asked_again_after_a_while() {
    let mut world = World::new(6, &[LaneTraits::STREAM], settings());
    world.broker.busy_every = 2;
    world.run(Span::from_secs(1));
    for _ in 0..10 {
        world.publish("t", AT_LEAST, |_| ());
    }
    assert!(world.settle(MINUTE));
    assert_eq!(world.engine.counts().acknowledged, 10);
    assert!(world.engine.counts().repeated > 0);
}

#[test]
fn waits_between_attempts_grow_and_are_jittered() {
    let mut world = offline(&[LaneTraits::STREAM], settings());
    world.connects.clear();
    world.run(Span::from_secs(300));
    let gaps: Vec<u64> = world
        .connects
        .windows(2)
        .map(|two| two[1].1.since(two[0].1).millis())
        .collect();
    assert!(
        gaps.iter()
            .rev()
            .take(5)
            .all(|gap| (15_000..=30_200).contains(gap)),
        "{gaps:?}"
    );
    assert!(gaps.first().is_some_and(|gap| *gap < 2_000), "{gaps:?}");
    let mut other = World::new(2, &[LaneTraits::STREAM], settings());
    other.chaos = OFFLINE;
    other.run(Span::from_secs(300));
    assert_ne!(
        world.connects.last().map(|last| last.1),
        other.connects.last().map(|last| last.1)
    );
}

#[test]
fn what_waits_for_a_log_in_that_is_refused_waits() {
    let mut world = World::new(
        7,
        &[LaneTraits {
            refuses: true,
            ..LaneTraits::STREAM
        }],
        settings(),
    );
    let ids: Vec<_> = (0..1000)
        .map(|_| world.publish("t", AT_LEAST, |_| ()).expect("there is room"))
        .collect();
    world.subscribe(1, "t", AT_LEAST);
    world.run(Span::from_secs(300));
    assert!(
        ids.iter().all(|id| world.outcome(*id) == Success::Pending),
        "{:?}",
        world.engine.counts()
    );
    // The waiting handle is notified all the same.
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.starts_with("subscribed 1 Err")),
        "{:?}",
        world.notices
    );
}

#[test]
fn who_is_not_let_in_is_told_and_is_tried_again_rarely() {
    let settings = EngineSettings {
        when_refused: WhenRefused::Fail,
        ..settings()
    };
    let mut world = World::new(
        7,
        &[LaneTraits {
            refuses: true,
            ..LaneTraits::STREAM
        }],
        settings,
    );
    let id = world.publish("t", AT_LEAST, |_| ()).expect("there is room");
    world.subscribe(1, "t", AT_LEAST);
    world.engine.read(
        RequestId(1),
        0,
        "t",
        world.now + Span::from_secs(5),
        world.now,
    );
    world.run(Span::from_secs(10));
    assert_eq!(world.outcome(id), Success::Failed);
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.contains("wrong password") && notice.contains("Down"))
    );
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.starts_with("subscribed 1 Err")),
        "{:?}",
        world.notices
    );
    assert_eq!(world.answers, [(1, None)]);
    world.run(Span::from_secs(300));
    assert!(
        (4..=12).contains(&world.connects.len()),
        "{}",
        world.connects.len()
    );
}

#[test]
fn a_silent_peer_of_datagrams_is_given_up_and_found_again() {
    let mut world = World::new(8, &[LaneTraits::DATAGRAMS], settings());
    world.run(Span::from_secs(1));
    world.chaos.loss = 100;
    for topic in ["a", "b", "c", "d"] {
        world.publish(topic, AT_LEAST, |_| ());
    }
    world.run(Span::from_secs(120));
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.contains("does not answer")),
        "{:?}",
        world.notices
    );
    world.heal();
    assert!(world.settle(Span::from_secs(120)));
    assert_eq!(world.engine.counts().acknowledged, 4);
}

#[test]
fn a_destination_of_its_own_has_its_own_lane_and_is_closed_when_nobody_needs_it() {
    let mut world = World::new(14, &[LaneTraits::STREAM], settings());
    world.run(Span::from_secs(1));
    let way = world.add_way(LaneTraits::STREAM);
    assert_eq!(way, 1);
    world.run(Span::from_secs(1));
    assert!(!world.is_open(1));
    world.publish("t/a", AT_LEAST, |draft| draft.way = way);
    world.publish("t/a", AT_LEAST, |_| ());
    assert!(world.settle(MINUTE));
    let mut lanes: Vec<usize> = world.broker.log.iter().map(|taken| taken.lane).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, [0, 1]);
    world.run(Span::from_secs(70));
    assert!(world.is_open(0) && !world.is_open(1));
    world.publish("t/a", AT_LEAST, |draft| draft.way = way);
    assert!(world.settle(MINUTE));
}

#[test]
fn an_engine_with_nothing_to_do_sleeps() {
    let mut world = World::new(15, &[LaneTraits::STREAM], settings());
    world.publish("t/a", AT_LEAST, |_| ());
    world.run(MINUTE);
    assert_eq!(world.engine.poll_timeout(), Time::NEVER);
    assert!(world.settle(Span::ZERO));
}

/// A disk that a test can look at and break.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<ShelfState>>);

#[derive(Default)]
struct ShelfState {
    entries: BTreeMap<MessageId, Vec<u8>>,
    fresh: Vec<(MessageId, Vec<u8>)>,
    highest: MessageId,
    commits: usize,
    is_broken: bool,
}

impl Spool for Shelf {
    fn append(&mut self, id: MessageId, entry: &[u8]) -> Result<(), SpoolError> {
        let mut state = self.0.lock().expect("no panic");
        assert!(id > state.highest, "identifiers rise");
        state.highest = id;
        state.fresh.push((id, entry.to_vec()));
        Ok(())
    }

    fn settled(&mut self, id: MessageId) {
        self.0.lock().expect("no panic").entries.remove(&id);
    }

    fn commit(&mut self) -> Result<(), SpoolError> {
        let mut state = self.0.lock().expect("no panic");
        let fresh = std::mem::take(&mut state.fresh);
        if state.is_broken {
            return Err(SpoolError::Failed("the disk is gone".to_owned()));
        }
        state.commits += 1;
        state.entries.extend(fresh);
        Ok(())
    }

    fn recover(&mut self, each: &mut dyn FnMut(MessageId, &[u8])) -> Result<Recovered, SpoolError> {
        let state = self.0.lock().expect("no panic");
        state
            .entries
            .iter()
            .for_each(|(id, entry)| each(*id, entry));
        Ok(Recovered {
            publisher: 77,
            next_sequence: if state.highest == 0 {
                1
            } else {
                state.highest + 1_000
            },
        })
    }
}

#[test]
fn what_waited_on_disk_goes_first_in_the_next_life_and_exactly_once_stays_once() {
    let lanes = [LaneTraits::STREAM, LaneTraits::STREAM];
    let shelf = Shelf::default();
    let mut world = World::with_spool(16, &lanes, settings(), Box::new(shelf.clone()), Time::ZERO);
    world.run(Span::from_secs(1));
    world.chaos.delay = 2_000;
    let wall = Span::from_secs(30);
    for _ in 0..10 {
        world.publish("t/a", EXACTLY, |_| ());
    }
    let expires = world.now + wall;
    world.publish("t/a", EXACTLY, |draft| draft.expires = expires);
    world.publish("t/a", AT_MOST, |_| ());
    // Some of it arrives, some is acknowledged; then the process is killed.
    world.run(Span::from_millis(2_500));
    let before = numbers(&world);
    let kept: Vec<MessageId> = shelf
        .0
        .lock()
        .expect("no panic")
        .entries
        .keys()
        .copied()
        .collect();
    assert!(
        !kept.is_empty() && kept.iter().any(|id| before.contains(id)),
        "{before:?} {kept:?}"
    );

    // The next process has a clock of its own: its zero is forty seconds after that of the first.
    let settings = EngineSettings {
        wall_at_zero: Span::from_secs(40).nanos(),
        ..settings()
    };
    let mut next = World::with_spool(17, &lanes, settings, Box::new(shelf.clone()), Time::ZERO);
    std::mem::swap(&mut next.broker, &mut world.broker);
    let first_new = next.publish("t/a", EXACTLY, |_| ()).expect("there is room");
    assert!(first_new > 1_000);
    assert!(next.settle(MINUTE));
    let after = numbers(&next);
    let came: Vec<u64> = after.iter().copied().filter(|id| *id <= 10).collect();
    assert_eq!(came, (1..=10).collect::<Vec<_>>());
    assert_eq!(after.last(), Some(&first_new));
    assert!(shelf.0.lock().expect("no panic").entries.is_empty());
}

#[test]
fn one_commit_serves_all_that_gathered_and_what_cannot_be_saved_fails() {
    let shelf = Shelf::default();
    let mut world = World::with_spool(
        18,
        &[LaneTraits::STREAM],
        settings(),
        Box::new(shelf.clone()),
        Time::ZERO,
    );
    world.run(Span::from_secs(1));
    for id in 1..=20 {
        let address = "t/a";
        let payload = id.to_string();
        let draft = crate::engine::Draft::new(id, address, payload.as_bytes());
        world
            .engine
            .publish(&draft, world.now)
            .expect("there is room");
    }
    world.drive();
    assert_eq!(shelf.0.lock().expect("no panic").commits, 1);
    assert!(world.settle(MINUTE));
    assert_eq!(world.broker.log.len(), 20);
    shelf.0.lock().expect("no panic").is_broken = true;
    for id in 21..=22 {
        world
            .engine
            .publish(&crate::engine::Draft::new(id, "t/a", b"x"), world.now)
            .expect("there is room");
    }
    world.drive();
    assert_eq!(world.engine.load().messages, 0);
    assert_eq!(world.engine.counts().failed, 2);
    world.run(Span::from_secs(1));
    assert_eq!(
        world.broker.log.len(),
        20,
        "what is not safe does not leave"
    );
}
