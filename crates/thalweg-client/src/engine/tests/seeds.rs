//! Invariants over many seeds: nothing acknowledged is lost, exactly once is once, order per topic holds, memory is
//! bounded, every ticket ends.
//!
//! `THALWEG_SEEDS=20000` runs more of them; `THALWEG_SEED=17` only that one.

use std::collections::BTreeMap;

use thalweg_model::{Reliability, Span};

use super::dice::Dice;
use super::transport::LaneTraits;
use super::world::{Chaos, World, settings};
use crate::engine::{EngineSettings, Overflow, Success};
use crate::transport::SubscriptionId;

const TOPICS: [&str; 5] = ["t/a", "t/b", "t/c", "t/d/e", "t/f"];

/// A number in an environment variable.
pub(super) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs `check` for many seeds; says which one failed.
fn for_seeds(usual: u64, check: impl Fn(u64) + std::panic::RefUnwindSafe) {
    if let Some(seed) = number("THALWEG_SEED") {
        return check(seed);
    }
    for seed in 0..number("THALWEG_SEEDS").unwrap_or(usual) {
        if let Err(why) = std::panic::catch_unwind(|| check(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
}

/// One of several sets of lanes.
fn lanes(dice: &mut Dice) -> Vec<LaneTraits> {
    let plain = LaneTraits {
        stamps: false,
        ..LaneTraits::STREAM
    };
    let (narrow, wide) = (
        LaneTraits {
            window: 3,
            ..LaneTraits::STREAM
        },
        LaneTraits {
            name: "wide",
            window: 100,
            ..LaneTraits::STREAM
        },
    );
    match dice.below(6) {
        0 => vec![LaneTraits::STREAM],
        1 => vec![LaneTraits::DATAGRAMS],
        2 => vec![LaneTraits::STREAM, LaneTraits::DATAGRAMS],
        3 => vec![narrow, wide],
        4 => vec![LaneTraits::STREAM, LaneTraits::DATAGRAMS, wide],
        _ => vec![plain],
    }
}

/// Publishes at random while lanes break and change.
fn live(world: &mut World, steps: u64, lanes: usize, may_expire: bool) {
    for _ in 0..steps {
        for _ in 0..world.dice.below(5) {
            let address = world.dice.one_of(&TOPICS);
            let reliability = match world.dice.below(10) {
                0..=1 => Reliability::AtMostOnce,
                2..=6 => Reliability::AtLeastOnce,
                _ => Reliability::ExactlyOnce,
            };
            let priority = if world.dice.percent(10) {
                world.dice.one_of(&[0, 9])
            } else {
                4
            };
            let expires = world.now + Span::from_millis(50 + world.dice.below(5_000));
            let does_expire = may_expire && world.dice.percent(10);
            world.publish(address, reliability, |draft| {
                draft.priority = priority;
                if does_expire {
                    draft.expires = expires;
                }
            });
        }
        if lanes > 1 && world.dice.percent(10) {
            let lane = world.dice.below(lanes as u64) as usize;
            world.prefer(lane);
        }
        let load = world.engine.load();
        assert!(load.messages <= 5_000 && load.bytes <= 16 << 20);
        let span = Span::from_millis(world.dice.below(800));
        world.run(span);
    }
}

/// Invariants at the end of a run.
fn check(world: &World, kinds: &[LaneTraits], order_of_gone: bool, has_busy: bool) {
    let mut copies: BTreeMap<u64, usize> = BTreeMap::new();
    let mut last: BTreeMap<(&str, Reliability, u8), u64> = BTreeMap::new();
    let keeps_order = kinds.iter().all(|kind| !kind.is_datagram);
    for taken in &world.broker.log {
        let id: u64 = taken.payload.parse().expect("a number");
        let ticket = &world.tickets[&id];
        assert_eq!(ticket.address, taken.address);
        let count = copies.entry(id).or_default();
        *count += 1;
        if *count > 1 || has_busy {
            continue;
        }
        let is_gone = ticket.reliability == Reliability::AtMostOnce;
        if !is_gone && ticket.outcome == Success::Unknown {
            // Given up, by its time or by its protocol: it may still come, late.
            continue;
        }
        if is_gone && !(order_of_gone && keeps_order) {
            continue;
        }
        let before = last.insert((&taken.address, ticket.reliability, ticket.priority), id);
        assert!(
            before < Some(id),
            "{before:?} before {id} on {}, lane {}",
            taken.address,
            taken.lane
        );
    }
    let stamped = kinds.iter().all(|kind| kind.stamps) && kinds.len() > 1;
    for (id, ticket) in &world.tickets {
        let copies = copies.get(id).copied().unwrap_or(0);
        match ticket.outcome {
            Success::Pending => panic!("{id} has no outcome: {ticket:?}"),
            Success::Acknowledged => {
                assert!(copies >= 1, "{id} was acknowledged and lost: {ticket:?}")
            }
            Success::Failed => assert_eq!(copies, 0, "{id} failed and is there: {ticket:?}"),
            Success::Unknown => {}
        }
        if stamped || ticket.reliability != Reliability::AtLeastOnce {
            assert!(copies <= 1, "{id} is there {copies} times: {ticket:?}");
        }
    }
    assert_eq!(world.engine.load().messages, 0);
    assert_eq!(world.engine.load().bytes, 0);
    assert_eq!(world.engine.load().under_way, 0);
}

fn tight(dice: &mut Dice) -> EngineSettings {
    EngineSettings {
        in_flight_max: dice.one_of(&[1, 5, 1_024]),
        high_water: dice.one_of(&[1, 300, 65_536]),
        standby: Span::from_secs(dice.one_of(&[1, 60])),
        drain_max: Span::from_millis(dice.one_of(&[100, 5_000])),
        messages_max: dice.one_of(&[20, 5_000]),
        overflow: dice.one_of(&[Overflow::Refuse, Overflow::DropOldest]),
        opening: crate::transport::Opening {
            session: Span::from_secs(dice.one_of(&[0, 3_600])),
            ..settings().opening
        },
        ..settings()
    }
}

#[test]
fn nothing_acknowledged_is_lost_nor_doubled_whatever_breaks() {
    for_seeds(400, |seed| {
        let mut dice = Dice::new(!seed);
        let kinds = lanes(&mut dice);
        let mut world = World::new(seed, &kinds, tight(&mut dice));
        world.chaos = Chaos {
            loss: dice.one_of(&[0, 5, 25]),
            twice: dice.one_of(&[0, 10]),
            delay: dice.one_of(&[10, 100, 1_500]),
            cuts: dice.one_of(&[0, 5, 50]),
            late: dice.percent(50),
            unreachable: dice.one_of(&[0, 30]),
            amnesia: dice.one_of(&[0, 50]),
        };
        let has_busy = dice.percent(20);
        world.broker.busy_every = if has_busy { 7 } else { 0 };
        let is_calm = world.chaos.cuts == 0 && world.chaos.delay <= 100;
        live(&mut world, 30, kinds.len(), true);
        world.heal();
        assert!(
            world.settle(Span::from_secs(600)),
            "{:?} {:?}",
            world.engine.load(),
            world.notices
        );
        // At-most-once messages are still in flight.
        world.run(Span::from_secs(5));
        check(&world, &kinds, is_calm, has_busy);
    });
}

#[test]
fn a_subscriber_gets_everything_once_while_lanes_change_and_break() {
    for_seeds(300, |seed| {
        let mut dice = Dice::new(!seed);
        let wide = LaneTraits {
            name: "wide",
            window: 100,
            ..LaneTraits::STREAM
        };
        let several = [
            vec![LaneTraits::STREAM, wide],
            vec![LaneTraits::STREAM, LaneTraits::DATAGRAMS, wide],
            vec![LaneTraits::STREAM],
        ];
        let kinds = several[dice.below(3) as usize].clone();
        let keep = Span::from_secs(3_600);
        let settings = EngineSettings {
            opening: crate::transport::Opening {
                session: keep,
                ..settings().opening
            },
            receive_max: 1_000,
            messages_max: 5_000,
            overflow: Overflow::Refuse,
            // Whoever does not wait for the old lane is not promised order.
            drain_max: Span::from_secs(5),
            ..tight(&mut dice)
        };
        let mut world = World::new(seed, &kinds, settings);
        world.subscribe(1, "t/#", Reliability::ExactlyOnce);
        world.run(Span::from_secs(5));
        world.chaos = Chaos {
            delay: dice.one_of(&[10, 100, 1_500]),
            cuts: dice.one_of(&[0, 5, 30]),
            unreachable: dice.one_of(&[0, 30]),
            ..Chaos::NONE
        };
        let keeps_order = world.chaos.cuts == 0 || kinds.len() == 1;
        live(&mut world, 30, kinds.len(), false);
        world.heal();
        assert!(
            world.settle(Span::from_secs(600)),
            "{:?} {:?}",
            world.engine.load(),
            world.notices
        );
        world.run(Span::from_secs(60));
        check(&world, &kinds, false, false);
        let got = world.got.remove(&SubscriptionId(1)).unwrap_or_default();
        let mut last: BTreeMap<(String, Reliability, u8), u64> = BTreeMap::new();
        let mut copies: BTreeMap<u64, usize> = BTreeMap::new();
        for payload in &got {
            let id: u64 = payload.parse().expect("a number");
            let ticket = &world.tickets[&id];
            let count = copies.entry(id).or_default();
            *count += 1;
            // The queued messages of a lost lane's peer arrive when that lane is up again: late, rather than never.
            if *count == 1 && ticket.reliability != Reliability::AtMostOnce && keeps_order {
                let before = last.insert(
                    (ticket.address.clone(), ticket.reliability, ticket.priority),
                    id,
                );
                assert!(
                    before < Some(id),
                    "{before:?} before {id} on {}",
                    ticket.address
                );
            }
        }
        for (id, ticket) in &world.tickets {
            let copies = copies.get(id).copied().unwrap_or(0);
            // One lane alone has no stamps but for exactly once.
            let may_repeat = kinds.len() == 1 && ticket.reliability == Reliability::AtLeastOnce;
            assert!(
                copies <= 1 || may_repeat,
                "{id} came {copies} times: {ticket:?}"
            );
            if ticket.outcome == Success::Acknowledged && ticket.is_wanted {
                assert!(
                    copies >= 1,
                    "{id} did not come: {ticket:?} {:?}",
                    world.notices
                );
            }
        }
    });
}
